//! Indices, extents and loop bounds become `i32`. The rows that compute addresses take no other type.
//!
//! ```text
//!  load x[at : i64]     ─►   load x[select(at > most, most, select(at < least, least, cast(at, i32)))]
//!  for t in 0..n : i64  ─►   for t' in 0..narrow(n) { t = cast(t', i64) .. }
//! ```
//!
//! A number is compared before it is narrowed, so an index of 2^32 does not become 0. The greatest index
//! ([`MOST_INDEX`]) is a multiple of 128, so that a narrowed number keeps small divisors of the wide one.

use super::persist::rename;
use crate::facts::{at_most, is_never_negative};
use crate::tiles::index_operands;
use warplift_ir::tile::{Block, CmpOp, Inst, Kernel, Loc, MOST_INDEX, Op, Type, Value, ValueList};
use warplift_ir::types::Elem;

/// Narrows the indices, extents and bounds of a kernel.
pub fn do_narrow_indices(k: &mut Kernel) {
    for block in k.blocks.keys().collect::<Vec<_>>() {
        let old = std::mem::take(&mut k.blocks[block].insts);
        for inst in old {
            narrow_operands(k, block, inst);
            k.blocks[block].insts.push(inst);
        }
    }
    for inst in k.insts.keys().filter(|&i| matches!(k.insts[i].op, Op::For)).collect::<Vec<_>>() {
        widen_counter(k, inst);
    }
}

/// Puts narrow numbers in the place of an instruction's wide indices.
fn narrow_operands(k: &mut Kernel, block: Block, inst: Inst) {
    let mut args = k.args(inst).to_vec();
    let range = index_operands(k, inst);
    if args[range.clone()].iter().all(|&v| !is_wide(k, v)) {
        return;
    }
    let loc = k.insts[inst].loc;
    for arg in args[range].iter_mut().filter(|v| is_wide(k, **v)).collect::<Vec<_>>() {
        *arg = Narrow { k, block, loc }.number(*arg);
    }
    k.insts[inst].args = ValueList::from_slice(&args, &mut k.pool);
}

fn is_wide(k: &Kernel, v: Value) -> bool {
    matches!(k.ty(v), Type::Scalar(e) if e != Elem::I32)
}

/// The counter of a loop with narrow bounds is narrow. The text's counter is made of it.
fn widen_counter(k: &mut Kernel, looped: Inst) {
    let body = k.insts[looped].blocks[0];
    let counter = k.blocks[body].params[0];
    let wide = k.ty(counter);
    if wide == Type::Scalar(Elem::I32) {
        return;
    }
    let made = k.append_inst(body, Op::Cast, &[counter], &[wide], &[], k.insts[looped].loc);
    k.blocks[body].insts.rotate_right(1);
    k.values[counter].ty = Type::Scalar(Elem::I32);
    rename(k, &[(counter, k.result(made))]);
    k.insts[made].args = ValueList::from_slice(&[counter], &mut k.pool);
}

/// Appends the narrowing of a number to a block.
struct Narrow<'k> {
    k: &'k mut Kernel,
    block: Block,
    loc: Loc,
}

impl Narrow<'_> {
    fn inst(&mut self, op: Op, args: &[Value], elem: Elem) -> Value {
        let made = self.k.append_inst(self.block, op, args, &[Type::Scalar(elem)], &[], self.loc);
        self.k.result(made)
    }

    fn number(&mut self, v: Value) -> Value {
        let least = i64::from(i32::MIN);
        if let Some(c) = self.k.int_const(v) {
            return self.inst(Op::Int(c.clamp(least, MOST_INDEX)), &[], Elem::I32);
        }
        let narrow = self.inst(Op::Cast, &[v], Elem::I32);
        let mut all = narrow;
        if at_most(self.k, v).is_none_or(|most| most > MOST_INDEX) {
            all = self.limited(v, CmpOp::Gt, MOST_INDEX, all);
        }
        if !is_never_negative(self.k, v) && self.k.ty(v) != Type::Scalar(Elem::Uint(32)) {
            all = self.limited(v, CmpOp::Lt, least, all);
        }
        all
    }

    /// The limit where the wide number is beyond it.
    fn limited(&mut self, v: Value, beyond: CmpOp, limit: i64, otherwise: Value) -> Value {
        let wide = self.inst(Op::Int(limit), &[], self.k.ty(v).elem());
        let is_beyond = self.inst(Op::Compare(beyond), &[v, wide], Elem::Bool);
        let limit = self.inst(Op::Int(limit), &[], Elem::I32);
        self.inst(Op::Select, &[is_beyond, limit, otherwise], Elem::I32)
    }
}
