//! Quotients by rows and scalars: one reciprocal for many elements. Products with a reciprocal of each element: a quotient,
//! which costs less than a rounded reciprocal.

use super::Rewrite;
use crate::tiles::{constant, equal_elements};
use warplift_ir::tile::{BinOp, CmpOp, Inst, Op, UnOp, Value};
use warplift_ir::types::Elem;

/// Quotients by one divisor from which on a reciprocal costs less.
const FEWEST: u64 = 16;
/// Beyond these magnitudes a reciprocal leaves the range of f32, where it has all its bits.
const LARGE: f64 = 8.507_059_173_023_462e37;
const SMALL: f64 = 1.175_494_350_822_287_5e-38;
/// Factors that bring a divisor back into it. Dividend and divisor are both multiplied.
const DOWN: f64 = 1.0 / 16_777_216.0;
const UP: f64 = 16_777_216.0;

/// `x / y` of f32 tiles, where `y` repeats a row or a scalar.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    if !matches!(r.k.insts[inst].op, Op::Binary(BinOp::Div)) {
        return None;
    }
    let ty = r.k.ty(r.k.result(inst));
    let &[x, y] = r.k.args(inst) else { return None };
    if ty.elem() != Elem::F32 || ty.shape().is_none() || r.k.ty(x) != ty {
        return None;
    }
    if let Some(c) = constant(r.k, y) {
        return by_constant(r, x, c);
    }
    let divisors = match r.row(y) {
        Some(row) => elements(r, row),
        None => equal_elements(r.k, y).map(|_| 1)?,
    };
    if elements(r, x) < FEWEST * divisors {
        return None;
    }
    let mut factor = None;
    let reciprocal = r.of_row(y, &mut |r, y| {
        let range = range_of(r, y);
        factor = Some(range);
        let near = r.op(BinOp::Mul, y, range);
        let ty = r.k.ty(near);
        r.inst(Op::Unary(UnOp::Rcp), &[near], ty)
    });
    let range = r.of_row(y, &mut |_, y| factor.unwrap_or(y));
    let near = r.op(BinOp::Mul, x, range);
    Some((Op::Binary(BinOp::Mul), vec![near, reciprocal]))
}

/// `x / c` as a product. The reciprocal is rounded and so is the product: together less than the 2 ulp that a quotient has.
fn by_constant(r: &mut Rewrite<'_>, x: Value, c: f64) -> Option<(Op, Vec<Value>)> {
    let within = |c: f64| (SMALL..LARGE).contains(&c.abs());
    (within(c) && within(1.0 / c)).then(|| (Op::Binary(BinOp::Mul), vec![x, r.float(Elem::F32, 1.0 / c)]))
}

/// `x * rcp(y)` and `x * (1 / y)` of f32 tiles as `x / y`, where nothing else uses the reciprocals and each element has its own.
pub(super) fn reciprocals(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    if !matches!(r.k.insts[inst].op, Op::Binary(BinOp::Mul)) {
        return None;
    }
    let ty = r.k.ty(r.k.result(inst));
    let &[a, b] = r.k.args(inst) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, reciprocal)| {
        let y = match r.once(reciprocal)? {
            (Op::Unary(UnOp::Rcp), args) => args[0],
            (Op::Binary(BinOp::Div), args) if constant(r.k, args[0]) == Some(1.0) => args[1],
            _ => return None,
        };
        let own = r.row(y).is_none() && equal_elements(r.k, y).is_none() && r.is_here(reciprocal);
        let tiles = ty.elem() == Elem::F32 && ty.shape().is_some() && [x, y].iter().all(|&v| r.k.ty(v) == ty);
        (tiles && own).then(|| (Op::Binary(BinOp::Div), vec![x, y]))
    })
}

/// The elements of a tile; 1 for a scalar.
fn elements(r: &Rewrite<'_>, v: Value) -> u64 {
    r.k.ty(v).shape().and_then(|s| s.elements()).unwrap_or(1)
}

/// The factor that keeps a divisor in the range of reciprocals: 1 almost always.
fn range_of(r: &mut Rewrite<'_>, y: Value) -> Value {
    let ty = r.k.ty(y);
    let magnitude = r.inst(Op::Unary(UnOp::Abs), &[y], ty);
    let mut factor = r.constant(Op::Float(1.0), ty);
    for (compare, bound, by) in [(CmpOp::Gt, LARGE, DOWN), (CmpOp::Lt, SMALL, UP)] {
        let (bound, by) = (r.float(Elem::F32, bound), r.float(Elem::F32, by));
        let beyond = r.compare(compare, magnitude, bound);
        factor = r.select(beyond, by, factor);
    }
    factor
}
