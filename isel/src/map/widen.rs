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
//! Whether bytes equal a constant is asked of the bytes themselves. Scalars are compared as i32 or f32.

use super::cursor::Cursor;
use crate::tiles::{byte_test, constant, with_elem};
use warplift_ir::interp::{round, wrap};
use warplift_ir::tile::{BinOp, CmpOp, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Bits of an integer that f32 surely holds, sign included, and the low bits that longer ones lose.
const HELD: u32 = 24;
const LOST: u32 = 8;

/// Widens reductions and scans of 16-bit floats, comparisons of elements of up to 8 bits and of narrow scalars, and casts of
/// words to bf16.
pub fn do_widen(k: &mut Kernel) {
    Cursor::rewrite(k, |mut c, inst| if widens(c.k, inst) { widen(&mut c, inst) } else { c.keep(inst) });
}

fn widens(k: &Kernel, inst: Inst) -> bool {
    let Some(&arg) = k.args(inst).first() else { return false };
    let elem = k.ty(arg).elem();
    match k.insts[inst].op {
        Op::Compare(_) if matches!(k.ty(arg), Type::Scalar(_)) => wide_scalar(elem).is_some(),
        _ if !matches!(k.ty(arg), Type::Tile(..)) || byte_test(k, inst).is_some() => false,
        Op::Cast => is_word(elem) && k.ty(k.result(inst)).elem() == Elem::Bf16,
        Op::Reduce(..) | Op::Scan(..) => matches!(elem, Elem::F16 | Elem::Bf16),
        Op::Compare(_) => {
            elem != Elem::Bool && elem.bits() <= 8 && k.args(inst).iter().all(|&a| castable(k, a))
        }
        _ => false,
    }
}

/// The type as which scalars of a type are compared, if they have no comparison of their own.
fn wide_scalar(elem: Elem) -> Option<Elem> {
    match elem {
        Elem::Uint(8) => Some(Elem::Int(32)),
        Elem::F16 | Elem::Bf16 => Some(Elem::F32),
        _ => None,
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

fn widen(c: &mut Cursor<'_>, inst: Inst) {
    let mut args = c.k.args(inst).to_vec();
    let rounds = matches!(c.k.insts[inst].op, Op::Cast);
    if rounds {
        args[0] = near(c, args[0]);
    }
    let scalar = matches!(c.k.ty(args[0]), Type::Scalar(_));
    let to = wide_scalar(c.k.ty(args[0]).elem()).filter(|_| scalar).unwrap_or(Elem::F32);
    let args: Vec<Value> = args.into_iter().map(|a| wide(c, a, to)).collect();
    c.k.set_args(inst, &args);
    c.keep(inst);
    let result = c.k.result(inst);
    let ty = c.k.ty(result);
    if !rounds && ty.elem() != Elem::Bool {
        // The old result becomes a conversion of the f32 result.
        let raw = c.k.renew_result(inst, with_elem(ty, Elem::F32));
        c.define(result, Op::Cast, &[raw]);
    }
}

/// An integer that f32 holds and bf16 rounds as the given one.
fn near(c: &mut Cursor<'_>, x: Value) -> Value {
    let signed = c.k.ty(x).elem().is_signed();
    let low = c.with(BinOp::And, x, (1 << LOST) - 1);
    let some = c.with(BinOp::Min, low, 1);
    let odd = c.with(BinOp::Shl, some, LOST.into());
    let most = if signed { -1 } else { i64::from(u32::MAX) };
    let high = c.with(BinOp::And, x, most - ((1 << LOST) - 1));
    let rough = c.op(BinOp::Or, high, odd);
    let above = if signed { c.with(BinOp::Add, x, 1 << (HELD - 1)) } else { x };
    let above = c.cast(above, Elem::Uint(32));
    let most = c.inst(Op::Int(1 << HELD), &[], Type::Scalar(Elem::Uint(32)));
    let held = c.compare(CmpOp::Lt, above, most);
    c.select(held, x, rough)
}

/// An operand as f32 or i32. A constant is what its own type makes of it first: 0.1 as f16 is less than as f32.
fn wide(c: &mut Cursor<'_>, v: Value, to: Elem) -> Value {
    let (ty, from) = (with_elem(c.k.ty(v), to), c.k.ty(v).elem());
    match constant(c.k, v) {
        Some(number) if from.is_float() => c.constant(Op::Float(round(from, number)), ty),
        Some(number) => {
            let number = wrap(from, number as i128);
            let op = if to.is_float() { Op::Float(number as f64) } else { Op::Int(number) };
            c.constant(op, ty)
        }
        None => c.cast(v, to),
    }
}
