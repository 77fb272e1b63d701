//! Widening: operations on narrow elements for which the opcode table has no row go through f32, which is exact for
//! them.
//!
//! ```text
//!  m = reduce_max(x : f16)      ─►   m = cast(reduce_max(cast(x, f32)), f16)
//!  c = x : u8 < y               ─►   c = cast(x, f32) < cast(y, f32)
//!  h = cast(x : i32, bf16)      ─►   h = cast(cast(near(x), f32), bf16)
//! ```
//!
//! f32 would round integers of 24 bits and more before bf16 does. So these become a neighbour of as many bits that bf16
//! rounds alike: the low 8 bits are dropped, and the bit above is set where they were not zero. bf16 rounds at bits far above.
//! Whether bytes equal a constant is asked of the bytes themselves.

use crate::tiles::{byte_test, constant, with_elem};
use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Op, Type, Value, ValueData, ValueDef, ValueList};
use warplift_ir::types::Elem;

/// Bits of an integer that f32 surely holds, sign included, and the low bits that longer ones lose.
const HELD: u32 = 24;
const LOST: u32 = 8;

/// Widens reductions and scans of 16-bit floats, comparisons of elements of up to 8 bits, and casts of words to bf16.
pub fn do_widen(k: &mut Kernel) {
    for block in k.blocks.keys().collect::<Vec<_>>() {
        let old = std::mem::take(&mut k.blocks[block].insts);
        for inst in old {
            if widens(k, inst) {
                widen(k, block, inst);
            } else {
                k.blocks[block].insts.push(inst);
            }
        }
    }
}

fn widens(k: &Kernel, inst: Inst) -> bool {
    let Some(&arg) = k.args(inst).first() else { return false };
    let elem = k.ty(arg).elem();
    match k.insts[inst].op {
        _ if !matches!(k.ty(arg), Type::Tile(..)) || byte_test(k, inst).is_some() => false,
        Op::Cast => is_word(elem) && k.ty(k.result(inst)).elem() == Elem::Bf16,
        Op::Reduce(..) | Op::Scan(..) => matches!(elem, Elem::F16 | Elem::Bf16),
        Op::Compare(_) => {
            elem != Elem::Bool && elem.bits() <= 8 && k.args(inst).iter().all(|&a| castable(k, a))
        }
        _ => false,
    }
}

/// Whether elements can be converted: those of loaded or computed tiles, and constants.
fn castable(k: &Kernel, v: Value) -> bool {
    let full = k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full));
    let tile = matches!(k.ty(v), Type::Tile(..));
    (tile && !full) || constant(k, v).is_some()
}

fn is_word(elem: Elem) -> bool {
    matches!(elem, Elem::Int(32) | Elem::Uint(32))
}

fn widen(k: &mut Kernel, block: Block, inst: Inst) {
    let mut args = k.args(inst).to_vec();
    let rounds = matches!(k.insts[inst].op, Op::Cast);
    if rounds {
        args[0] = Words { k, block, inst }.near(args[0]);
    }
    let args: Vec<Value> = args.into_iter().map(|a| wide(k, block, inst, a)).collect();
    k.insts[inst].args = ValueList::from_slice(&args, &mut k.pool);
    k.blocks[block].insts.push(inst);
    let result = k.result(inst);
    if !rounds && k.ty(result).elem() != Elem::Bool {
        narrow(k, block, inst, result);
    }
}

/// Appends arithmetic on words before an instruction.
struct Words<'k> {
    k: &'k mut Kernel,
    block: Block,
    inst: Inst,
}

impl Words<'_> {
    fn put(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let loc = self.k.insts[self.inst].loc;
        let made = self.k.append_inst(self.block, op, args, &[ty], &[], loc);
        self.k.result(made)
    }

    /// An operation with a constant.
    fn with(&mut self, op: BinOp, x: Value, c: i64) -> Value {
        let ty = self.k.ty(x);
        let c = self.all(c, ty);
        self.put(Op::Binary(op), &[x, c], ty)
    }

    fn all(&mut self, c: i64, ty: Type) -> Value {
        let c = self.put(Op::Int(c), &[], Type::Scalar(ty.elem()));
        self.put(Op::Full, &[c], ty)
    }

    /// An integer that f32 holds and bf16 rounds as the given one.
    fn near(&mut self, x: Value) -> Value {
        let ty = self.k.ty(x);
        let low = self.with(BinOp::And, x, (1 << LOST) - 1);
        let some = self.with(BinOp::Min, low, 1);
        let odd = self.with(BinOp::Shl, some, LOST.into());
        let most = if ty.elem().is_signed() { -1 } else { i64::from(u32::MAX) };
        let high = self.with(BinOp::And, x, most - ((1 << LOST) - 1));
        let rough = self.put(Op::Binary(BinOp::Or), &[high, odd], ty);
        let words = with_elem(ty, Elem::Uint(32));
        let above = match ty.elem().is_signed() {
            true => {
                let above = self.with(BinOp::Add, x, 1 << (HELD - 1));
                self.put(Op::Cast, &[above], words)
            }
            false => x,
        };
        let most = self.all(1 << HELD, words);
        let held = self.put(Op::Compare(CmpOp::Lt), &[above, most], with_elem(ty, Elem::Bool));
        self.put(Op::Select, &[held, x, rough], ty)
    }
}

/// An operand as f32.
fn wide(k: &mut Kernel, block: Block, inst: Inst, v: Value) -> Value {
    let loc = k.insts[inst].loc;
    let ty = with_elem(k.ty(v), Elem::F32);
    let Some(number) = constant(k, v) else {
        let made = k.append_inst(block, Op::Cast, &[v], &[ty], &[], loc);
        return k.result(made);
    };
    let scalar = k.append_inst(block, Op::Float(number), &[], &[Type::Scalar(Elem::F32)], &[], loc);
    let scalar = k.result(scalar);
    if ty == Type::Scalar(Elem::F32) {
        return scalar;
    }
    let made = k.append_inst(block, Op::Full, &[scalar], &[ty], &[], loc);
    k.result(made)
}

/// The old result becomes a conversion of the f32 result.
fn narrow(k: &mut Kernel, block: Block, inst: Inst, result: Value) {
    let ty = with_elem(k.ty(result), Elem::F32);
    let raw = k.values.push(ValueData { ty, def: ValueDef::Result(inst, 0) });
    k.insts[inst].results = ValueList::from_slice(&[raw], &mut k.pool);
    let cast = k.append_inst(block, Op::Cast, &[raw], &[], &[], k.insts[inst].loc);
    k.insts[cast].results = ValueList::from_slice(&[result], &mut k.pool);
    k.values[result].def = ValueDef::Result(cast, 0);
}
