//! Indices, extents and loop bounds become `i32`. The rows that compute addresses take no other type.
//!
//! ```text
//!  load x[at : i64]     ─►   load x[select(at > most, most, select(at < least, least, cast(at, i32)))]
//!  for t in 0..n : i64  ─►   for t' in 0..narrow(n) { t = cast(t', i64) .. }
//! ```
//!
//! A number is compared before it is narrowed, so an index of 2^32 does not become 0. The greatest index
//! ([`MOST_INDEX`]) is a multiple of 128, so that a narrowed number keeps small divisors of the wide one.

use super::cursor::{Cursor, I32};
use super::persist::rename;
use crate::facts::{at_most, is_never_negative};
use crate::tiles::index_operands;
use warplift_ir::tile::{CmpOp, Inst, Kernel, MOST_INDEX, Op, Type, Value};
use warplift_ir::types::Elem;

/// Narrows the indices, extents and bounds of a kernel.
pub fn do_narrow_indices(k: &mut Kernel) {
    Cursor::rewrite(k, |mut c, inst| {
        narrow_operands(&mut c, inst);
        c.keep(inst);
    });
    for inst in k.insts.keys().filter(|&i| matches!(k.insts[i].op, Op::For)).collect::<Vec<_>>() {
        widen_counter(k, inst);
    }
}

/// Puts narrow numbers in the place of an instruction's wide indices.
fn narrow_operands(c: &mut Cursor<'_>, inst: Inst) {
    let mut args = c.k.args(inst).to_vec();
    for arg in &mut args[index_operands(c.k, inst)] {
        if is_wide(c.k, *arg) {
            *arg = narrowed(c, *arg);
        }
    }
    c.k.set_args(inst, &args);
}

fn is_wide(k: &Kernel, v: Value) -> bool {
    matches!(k.ty(v), ty @ Type::Scalar(_) if ty != I32)
}

/// The counter of a loop with narrow bounds is narrow. The text's counter is made of it.
fn widen_counter(k: &mut Kernel, looped: Inst) {
    let body = k.insts[looped].blocks[0];
    let counter = k.blocks[body].params[0];
    let wide = k.ty(counter);
    if wide == I32 {
        return;
    }
    let loc = k.insts[looped].loc;
    let made = Cursor::at_start(k, body, |c| {
        c.loc = loc;
        c.inst(Op::Cast, &[counter], wide)
    });
    k.values[counter].ty = I32;
    rename(k, &[(counter, made)]);
    k.def(made).into_iter().for_each(|cast| k.set_args(cast, &[counter]));
}

/// Narrows a number.
pub(super) fn narrowed(c: &mut Cursor<'_>, v: Value) -> Value {
    let least = i64::from(i32::MIN);
    if let Some(n) = c.k.int_const(v) {
        return c.int(n.clamp(least, MOST_INDEX));
    }
    let mut narrow = c.cast(v, Elem::I32);
    if at_most(c.k, v).is_none_or(|most| most > MOST_INDEX) {
        narrow = limited(c, v, CmpOp::Gt, MOST_INDEX, narrow);
    }
    if !is_never_negative(c.k, v) && c.k.ty(v) != Type::Scalar(Elem::Uint(32)) {
        narrow = limited(c, v, CmpOp::Lt, least, narrow);
    }
    narrow
}

/// The limit where the wide number is beyond it.
fn limited(c: &mut Cursor<'_>, v: Value, beyond: CmpOp, limit: i64, otherwise: Value) -> Value {
    let wide = c.constant(Op::Int(limit), c.k.ty(v));
    let is_beyond = c.compare(beyond, v, wide);
    let limit = c.int(limit);
    c.select(is_beyond, limit, otherwise)
}
