//! Small integers that become floats are computed as floats, where these hold them exactly.
//!
//! ```text
//!  cast(cast(q, i32) - cast(z, i32), f16)    ─►   cast(q, f16) - cast(z, f16)         z narrow, or a constant
//!  cast(cast(q, f32) - cast(z, f32), f16)    ─►   cast(q, f16) - z                    z a half too: f32 has more than twice
//!                                                                                      its digits, so rounding twice is once
//!  cast(cast(q, i32) - z, f16)               ─►   (cast(q, f16) - near) * 1 - far     z = near + far, both halves, a row of them
//! ```
//!
//! The last one rounds once too: the first difference is exact. `far` is a multiple of 32 and no more than the greatest
//! half, and `near` is the rest, so it is small unless the result is infinite anyway. Where `q - z` wraps around for
//! some `q`, the row's factor is not 1: see [`parts`].

use super::super::cursor::Cursor;
use super::Rewrite;
use crate::tiles::{constant, with_elem};
use warplift_ir::tile::{BinOp, CmpOp, Inst, Op, Type, Value};
use warplift_ir::types::Elem;

/// The greatest f16, a multiple of 32.
const GREATEST: i64 = 65504;
/// Multiples of this up to [`GREATEST`] are exact as f16.
const STEP: i64 = 32;
/// Columns of a tile at least whose rows' parts are computed: a row costs about as much as so many elements gain.
const COLUMNS: u32 = 64;
/// Integers of up to 8 bits, signed or not: the least, and how many lie from there to the greatest.
const LEAST: i64 = -128;
const COUNT: i64 = 384;

/// Sums and differences with narrow integers that become floats.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    if !matches!(r.k.insts[inst].op, Op::Cast) {
        return None;
    }
    let to = r.k.ty(r.k.result(inst));
    let between = r.k.args(inst)[0];
    let (Op::Binary(op @ (BinOp::Add | BinOp::Sub)), args) = r.once(between)? else { return None };
    digits(to.elem())?;
    let exact = |v: &Value| is_exact(r, *v, to.elem());
    if !matches!(r.k.ty(between).elem(), Elem::Int(32) | Elem::F32) || !args.iter().any(|&v| is_narrow(r, v))
    {
        return None;
    }
    if !args.iter().all(exact) {
        return apart(r, op, &args, to);
    }
    let args = args.iter().map(|&v| as_float(r, v, to.elem())).collect::<Option<Vec<Value>>>()?;
    Some((Op::Binary(op), args))
}

/// Digits of a float type.
fn digits(elem: Elem) -> Option<u32> {
    match elem {
        Elem::F16 => Some(11),
        Elem::Bf16 => Some(8),
        Elem::F32 => Some(24),
        _ => None,
    }
}

/// What a value is converted from, or repeats that was.
fn source(r: &Rewrite<'_>, v: Value) -> Option<Elem> {
    match r.maker(v)? {
        (Op::Cast, args) => Some(r.k.ty(args[0]).elem()),
        (Op::Broadcast | Op::ExpandDims(_) | Op::Trans(_), args) => source(r, args[0]),
        _ => None,
    }
}

/// Whether a value was a narrow integer.
fn is_narrow(r: &Rewrite<'_>, v: Value) -> bool {
    source(r, v).is_some_and(|e| e.is_int() && e.bits() <= 8)
}

/// Whether a float type holds a value: a constant, what was a narrow integer, or what had this type.
pub(super) fn is_exact(r: &Rewrite<'_>, v: Value, elem: Elem) -> bool {
    let most = digits(elem).map_or(0.0, |d| f64::from(1u32 << d));
    match (constant(r.k, v), source(r, v)) {
        (Some(c), _) => c.fract() == 0.0 && c.abs() <= most,
        (_, Some(from)) if from == elem => r.k.ty(v).elem().is_float(),
        (_, Some(from)) => from.is_int() && from.bits() <= 8,
        _ => false,
    }
}

/// The same number as a float.
pub(super) fn as_float(r: &mut Rewrite<'_>, v: Value, elem: Elem) -> Option<Value> {
    let ty = with_elem(r.k.ty(v), elem);
    Some(match (constant(r.k, v), r.maker(v)?) {
        (Some(c), _) => r.constant(Op::Float(c), ty),
        (None, (Op::Cast, args)) if r.k.ty(args[0]) == ty => args[0],
        (None, (Op::Cast, args)) => r.inst(Op::Cast, &[args[0]], ty),
        (None, (op, args)) => {
            let inner = as_float(r, args[0], elem)?;
            r.inst(op, &[inner], ty)
        }
    })
}

/// A narrow integer and a row of any integers, as f16: `fma(cast(q) - near, factor, far)`.
fn apart(r: &mut Rewrite<'_>, op: BinOp, args: &[Value], to: Type) -> Option<(Op, Vec<Value>)> {
    let &[mut q, mut z] = args else { return None };
    if op == BinOp::Add && !is_narrow(r, q) {
        (q, z) = (z, q);
    }
    let z = r.row(z).filter(|&z| r.k.ty(z).elem() == Elem::Int(32) && r.k.ty(z).shape().is_some())?;
    let columns = to.shape().and_then(|s| s.extents()).and_then(|e| e.last().copied());
    if to.elem() != Elem::F16 || !is_narrow(r, q) || columns.is_none_or(|c| c < COLUMNS) {
        return None;
    }
    let z = match op {
        BinOp::Sub => z,
        // Minus the least integer is the least integer, and their sums wrap around alike.
        _ => {
            let ty = r.k.ty(z);
            let zero = r.constant(Op::Int(0), ty);
            r.op(BinOp::Sub, zero, z)
        }
    };
    let [near, factor, far] = parts(r, z).map(|v| r.inst(Op::Broadcast, &[v], to));
    let q = as_float(r, q, Elem::F16)?;
    let rest = r.inst(Op::Binary(BinOp::Sub), &[q, near], to);
    Some((Op::Fma, vec![rest, factor, far]))
}

/// `near`, the factor, and minus `far` of a row.
///
/// `q - z` wraps around for some `q` where `z` is within 8 bits of the least integer: of `q` from `t = z - least` on
/// it is below all halves, of the others above. There `near` is `t - 0.5`, the factor minus infinity, and `far` zero.
fn parts(r: &mut Cursor<'_>, z: Value) -> [Value; 3] {
    let ty = r.k.ty(z);
    let floats = with_elem(ty, Elem::F32);
    let tens = r.with(BinOp::And, z, -STEP);
    let far = r.with(BinOp::Max, tens, -GREATEST);
    let far = r.with(BinOp::Min, far, GREATEST);
    let near = r.op(BinOp::Sub, z, far);
    let first = r.with(BinOp::Xor, z, i64::from(i32::MIN));
    let wraps = has_8_bits(r, first);
    let near = r.select(wraps, first, near);
    let near = r.cast(near, Elem::F32);
    let half = r.constant(Op::Float(0.5), floats);
    let below = r.op(BinOp::Sub, near, half);
    let near = r.select(wraps, below, near);
    let endless = r.constant(Op::Float(f64::NEG_INFINITY), floats);
    let one = r.constant(Op::Float(1.0), floats);
    let factor = r.select(wraps, endless, one);
    let zero = r.constant(Op::Int(0), ty);
    let minus = r.op(BinOp::Sub, zero, far);
    let far = r.select(wraps, zero, minus);
    [near, factor, far].map(|v| r.cast(v, Elem::F16))
}

/// Whether numbers have 8 bits, signed or not.
fn has_8_bits(r: &mut Cursor<'_>, x: Value) -> Value {
    let above = r.with(BinOp::Sub, x, LEAST);
    let above = r.cast(above, Elem::Uint(32));
    let count = r.inst(Op::Int(COUNT), &[], Type::Scalar(Elem::Uint(32)));
    r.compare(CmpOp::Lt, above, count)
}
