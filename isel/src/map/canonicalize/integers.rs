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
//! some `q`, the row's factor is not 1: see [`Rows::parts`].

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
    match r.op(v)? {
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
fn is_exact(r: &Rewrite<'_>, v: Value, elem: Elem) -> bool {
    let most = digits(elem).map_or(0.0, |d| f64::from(1u32 << d));
    match (constant(r.k, v), source(r, v)) {
        (Some(c), _) => c.fract() == 0.0 && c.abs() <= most,
        (_, Some(from)) if from == elem => r.k.ty(v).elem().is_float(),
        (_, Some(from)) => from.is_int() && from.bits() <= 8,
        _ => false,
    }
}

/// The same number as a float.
fn as_float(r: &mut Rewrite<'_>, v: Value, elem: Elem) -> Option<Value> {
    let ty = with_elem(r.k.ty(v), elem);
    Some(match (constant(r.k, v), r.op(v)?) {
        (Some(c), _) => {
            let c = r.number(elem, c);
            if ty.shape().is_some() { r.push(Op::Full, &[c], ty) } else { c }
        }
        (None, (Op::Cast, args)) if r.k.ty(args[0]) == ty => args[0],
        (None, (Op::Cast, args)) => r.push(Op::Cast, &[args[0]], ty),
        (None, (op, args)) => {
            let inner = as_float(r, args[0], elem)?;
            r.push(op, &[inner], ty)
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
    let ty = r.k.ty(z);
    let mut rows = Rows { r, ty };
    let z = match op {
        BinOp::Sub => z,
        // Minus the least integer is the least integer, and their sums wrap around alike.
        _ => {
            let zero = rows.all(0);
            rows.int(BinOp::Sub, zero, z)
        }
    };
    let parts = rows.parts(z);
    let [near, factor, far] = parts.map(|v| r.push(Op::Broadcast, &[v], to));
    let q = as_float(r, q, Elem::F16)?;
    let rest = r.push(Op::Binary(BinOp::Sub), &[q, near], to);
    Some((Op::Fma, vec![rest, factor, far]))
}

/// Appends arithmetic on a row of i32.
struct Rows<'r, 'k> {
    r: &'r mut Rewrite<'k>,
    ty: Type,
}

impl Rows<'_, '_> {
    fn scalar(&mut self, c: i64) -> Value {
        self.r.push(Op::Int(c), &[], Type::Scalar(self.ty.elem()))
    }

    /// A row of one number.
    fn all(&mut self, c: i64) -> Value {
        let c = self.scalar(c);
        self.r.push(Op::Full, &[c], self.ty)
    }

    fn int(&mut self, op: BinOp, x: Value, y: Value) -> Value {
        self.r.push(Op::Binary(op), &[x, y], self.ty)
    }

    fn with(&mut self, op: BinOp, x: Value, c: i64) -> Value {
        let c = self.scalar(c);
        self.int(op, x, c)
    }

    fn cast(&mut self, x: Value, elem: Elem) -> Value {
        self.r.push(Op::Cast, &[x], with_elem(self.ty, elem))
    }

    fn select(&mut self, c: Value, x: Value, y: Value) -> Value {
        let ty = self.r.k.ty(x);
        self.r.push(Op::Select, &[c, x, y], ty)
    }

    /// A row of one f32.
    fn float(&mut self, x: f64) -> Value {
        let x = self.r.number(Elem::F32, x);
        self.r.push(Op::Full, &[x], with_elem(self.ty, Elem::F32))
    }

    /// `near`, the factor, and minus `far` of a row.
    ///
    /// `q - z` wraps around for some `q` where `z` is within 8 bits of the least integer: of `q` from `t = z - least` on
    /// it is below all halves, of the others above. There `near` is `t - 0.5`, the factor minus infinity, and `far` zero.
    fn parts(&mut self, z: Value) -> [Value; 3] {
        let tens = self.with(BinOp::And, z, -STEP);
        let far = self.with(BinOp::Max, tens, -GREATEST);
        let far = self.with(BinOp::Min, far, GREATEST);
        let near = self.int(BinOp::Sub, z, far);
        let first = self.with(BinOp::Xor, z, i64::from(i32::MIN));
        let wraps = self.is_narrow(first);
        let near = self.select(wraps, first, near);
        let near = self.cast(near, Elem::F32);
        let half = self.float(0.5);
        let below = self.r.push(Op::Binary(BinOp::Sub), &[near, half], with_elem(self.ty, Elem::F32));
        let near = self.select(wraps, below, near);
        let (endless, one) = (self.float(f64::NEG_INFINITY), self.float(1.0));
        let factor = self.select(wraps, endless, one);
        let zero = self.all(0);
        let minus = self.int(BinOp::Sub, zero, far);
        let far = self.select(wraps, zero, minus);
        [near, factor, far].map(|v| self.cast(v, Elem::F16))
    }

    /// Whether numbers have 8 bits, signed or not.
    fn is_narrow(&mut self, x: Value) -> Value {
        let above = self.with(BinOp::Sub, x, LEAST);
        let above = self.cast(above, Elem::Uint(32));
        let count = self.r.push(Op::Int(COUNT), &[], Type::Scalar(Elem::Uint(32)));
        self.r.push(Op::Compare(CmpOp::Lt), &[above, count], with_elem(self.ty, Elem::Bool))
    }
}
