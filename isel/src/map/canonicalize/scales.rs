//! A factor that each row of a shallow product has goes to the operand, where halves hold the operand's products with it.
//!
//! ```text
//!  fma(mma(0, q, b), row, sum)               ─►   mma(sum, q * row, b)                 q: f4e2m1, row: f8e4m3, 16 columns
//!  fma(mma(0, a, trans(q)), column, sum)     ─►   mma(sum, a, trans(q * trans(column)))
//! ```
//!
//! A product of few columns has about as many sums as elements: to scale the sums costs an instruction each, and accumulators
//! that start anew. Elements are scaled two at a time, and the product goes on in the accumulators of the one before.
//!
//! Only the order of sums changes: no element's product is rounded, overflows or underflows, and none is infinite where the
//! factor was not. (Blocks of 16 and 32 elements with a scale each: Open Compute Project, Microscaling Formats.)

use super::Rewrite;
use crate::tiles::{constant, extents};
use warplift_ir::tile::{BinOp, Inst, Op, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Depth of a product below which its operand is scaled. From there on the sums are few, and zero points are factored out.
const SHALLOW: u32 = 64;
/// Instructions by which four threads make a bf16 of a scale, through f16 and f32, beyond those for an f16.
const TO_BF16: u32 = 8;
/// Bits of an element and of a factor at most.
const BITS: u32 = 8;
/// Exponent bits of a small float that has no infinity.
const FINITE: u8 = 4;

/// A set of numbers: multiples of `2^unit` between two limits, of so many binary digits each.
#[derive(Clone, Copy)]
struct Span {
    digits: i32,
    unit: i32,
    least: f64,
    most: f64,
}

impl Span {
    /// The numbers of a type: small floats that are finite, narrow integers, and halves.
    fn of(elem: Elem) -> Option<Self> {
        let float = |digits: i32, unit: i32, most: f64| Self { digits, unit, least: -most, most };
        Some(match elem {
            Elem::Mini { exponent: exponent @ 1..=FINITE, mantissa } => {
                let bias = (1 << (exponent - 1)) - 1;
                let (mantissa, greatest) = (i32::from(mantissa), (1 << exponent) - 1);
                float(mantissa + 1, 1 - bias - mantissa, 2f64.powi(greatest - bias + 1))
            }
            Elem::Int(_) | Elem::Uint(_) if elem.bits() <= BITS => {
                let (count, signed) = (2f64.powi(elem.bits() as i32), elem.is_signed());
                let least = if signed { -count / 2.0 } else { 0.0 };
                Self::multiples(0, least, least + count - 1.0)
            }
            Elem::F16 => float(11, -24, half::f16::MAX.into()),
            Elem::Bf16 => float(8, -133, half::bf16::MAX.into()),
            _ => return None,
        })
    }

    /// All multiples of `2^unit` between two limits. A power of two has one digit.
    fn multiples(unit: i32, least: f64, most: f64) -> Self {
        let units = (-least).max(most) * 2f64.powi(-unit);
        let digits = (0..).find(|&d| units <= 2f64.powi(d)).unwrap_or_default();
        Self { digits, unit, least, most }
    }

    /// The greatest magnitude.
    fn magnitude(self) -> f64 {
        (-self.least).max(self.most)
    }

    fn times(self, other: Self) -> Self {
        let most = self.magnitude() * other.magnitude();
        let (digits, unit) = (self.digits + other.digits, self.unit + other.unit);
        Self { digits, unit, least: -most, most }
    }

    fn less(self, other: Self) -> Self {
        let unit = self.unit.min(other.unit);
        Self::multiples(unit, self.least - other.most, self.most - other.least)
    }

    /// Whether another set holds all of these numbers.
    fn is_within(self, other: Self) -> bool {
        self.digits <= other.digits && self.unit >= other.unit && self.magnitude() <= other.magnitude()
    }
}

/// A sum with a shallow product that is scaled by rows or by columns.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let &[x, y, sum] = r.k.args(inst) else { return None };
    if !matches!(r.k.insts[inst].op, Op::Fma) {
        return None;
    }
    let (product, scales) =
        [(x, y), (y, x)].into_iter().find_map(|(p, s)| Some((shallow(r, p)?, scales(r, s)?)))?;
    let mut args = product;
    args[0] = sum;
    let along = extents(r.k, scales).iter().position(|&e| e == 1)?;
    let others = extents(r.k, sum)[along];
    let operand = if along == 1 { args[1] } else { args[2] };
    if !pays(r.k.ty(operand).elem(), extents(r.k, args[1])[1], others) {
        return None;
    }
    args[2 - along] = scaled(r, operand, scales)?;
    Some((Op::Mma { negated: false }, args))
}

/// Whether as many sums of a scale cost more than elements, of which a thread scales two at a time, and what the scale's own
/// conversion costs.
fn pays(elem: Elem, depth: u32, sums: u32) -> bool {
    depth / 2 + if elem == Elem::Bf16 { TO_BF16 } else { 0 } <= sums
}

/// The operands of a shallow product that starts at zero, if it is used once.
fn shallow(r: &Rewrite<'_>, v: Value) -> Option<Vec<Value>> {
    let (Op::Mma { negated: false }, args) = r.once(v)? else { return None };
    let depth = *extents(r.k, args[1]).get(1)?;
    (depth < SHALLOW && constant(r.k, args[0]) == Some(0.0)).then_some(args)
}

/// The row or the column of narrow numbers that a tile repeats as f32.
fn scales(r: &Rewrite<'_>, v: Value) -> Option<Value> {
    let (Op::Cast, args) = r.maker(r.row(v)?)? else { return None };
    (r.k.ty(args[0]).elem().bits() <= BITS).then_some(args[0])
}

/// An operand times its scales, if its type holds all products.
fn scaled(r: &mut Rewrite<'_>, operand: Value, scales: Value) -> Option<Value> {
    let ty = r.k.ty(operand);
    if let (Op::Trans(order), args) = r.maker(operand)? {
        let turned = turned(r, scales);
        let inner = scaled(r, args[0], turned)?;
        return Some(r.inst(Op::Trans(order), &[inner], ty));
    }
    let product = numbers(r, operand)?.times(Span::of(r.k.ty(scales).elem())?);
    product.is_within(Span::of(ty.elem())?).then(|| {
        let scales = r.cast(scales, ty.elem());
        let scales = r.inst(Op::Broadcast, &[scales], ty);
        r.op(BinOp::Mul, operand, scales)
    })
}

/// A tile of two dimensions, transposed.
fn turned(r: &mut Rewrite<'_>, v: Value) -> Value {
    if let Some((Op::Trans(_), args)) = r.maker(v) {
        return args[0];
    }
    let (ty, mut shape) = (r.k.ty(v), extents(r.k, v));
    shape.reverse();
    let ty = Shape::of(&shape).map_or(ty, |s| Type::Tile(ty.elem(), s));
    r.inst(Op::Trans([1, 0].into_iter().collect()), &[v], ty)
}

/// The numbers that an operand may have: those of a narrow type, less whole numbers.
fn numbers(r: &Rewrite<'_>, v: Value) -> Option<Span> {
    if let Some(c) = constant(r.k, v) {
        return (c.fract() == 0.0).then_some(Span::multiples(0, c, c));
    }
    match r.maker(v)? {
        (Op::Cast, args) if r.k.ty(args[0]).elem().bits() <= BITS => Span::of(r.k.ty(args[0]).elem()),
        (Op::Binary(BinOp::Sub), args) => Some(numbers(r, args[0])?.less(numbers(r, args[1])?)),
        (Op::Broadcast | Op::Full, args) => numbers(r, args[0]),
        _ => None,
    }
}
