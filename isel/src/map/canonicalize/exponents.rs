//! Exponents: powers of e become powers of two, and factors reach what is cheap to multiply.

use super::super::sentinels::cancelling;
use super::Rewrite;
use crate::tiles::equal_elements;
use std::f64::consts::LOG2_E;
use warplift_ir::tile::{BinOp, CmpOp, Inst, Op, UnOp, Value};
use warplift_ir::types::Elem;

/// `exp` and `exp2` of f32: the exponent with its factors folded.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let power = match r.k.insts[inst].op {
        Op::Unary(op @ (UnOp::Exp | UnOp::Exp2)) => op,
        _ => return None,
    };
    let x = r.k.args(inst)[0];
    if r.k.ty(x).elem() != Elem::F32 {
        return None;
    }
    let exponent = match power {
        UnOp::Exp => {
            let factor = r.float(Elem::F32, LOG2_E);
            scaled(r, x, factor)
        }
        _ => match r.once(x) {
            Some((Op::Binary(BinOp::Mul), args)) => {
                let (x, factor) = factor(r, &args)?;
                scaled(r, x, factor)
            }
            _ => return None,
        },
    };
    Some((Op::Unary(UnOp::Exp2), vec![exponent]))
}

/// The tile and the scalar of a product of both.
fn factor(r: &Rewrite<'_>, args: &[Value]) -> Option<(Value, Value)> {
    let scalar = |v: Value| equal_elements(r.k, v);
    match [scalar(args[0]), scalar(args[1])] {
        [_, Some(f)] => Some((args[0], f)),
        [Some(f), _] => Some((args[1], f)),
        _ => None,
    }
}

/// A value times a scalar, which is multiplied into other scalars and into rows where that is possible.
fn scaled(r: &mut Rewrite<'_>, v: Value, by: Value) -> Value {
    let ty = r.k.ty(v);
    match r.once(v) {
        Some((Op::Unary(UnOp::Neg), args)) => {
            let by = r.negative(by);
            scaled(r, args[0], by)
        }
        Some((Op::Binary(BinOp::Mul), args)) => match factor(r, &args) {
            Some((x, f)) => {
                let by = r.product(f, by);
                scaled(r, x, by)
            }
            None => r.op(BinOp::Mul, v, by),
        },
        Some((Op::Binary(op @ (BinOp::Add | BinOp::Sub)), args)) if r.row(args[1]).is_some() => {
            let limit = cancelling(r.k, [args[0], args[1]]);
            let factor = |r: &mut Rewrite<'_>, row| limit.map_or(by, |limit| row_factor(r, row, by, limit));
            let row = r.of_row(args[1], &mut |r, row| {
                let by = factor(r, row);
                r.op(BinOp::Mul, row, by)
            });
            let row = if op == BinOp::Sub { r.negative(row) } else { row };
            let (x, by) = match limit {
                Some(_) => (args[0], r.of_row(args[1], &mut |r, row| factor(r, row))),
                None => unscaled(r, args[0], by),
            };
            r.inst(Op::Fma, &[x, by, row], ty)
        }
        Some((Op::Fma, args)) => match rescaled(r, &args, by) {
            Some(args) => r.inst(Op::Fma, &args, ty),
            None => r.op(BinOp::Mul, v, by),
        },
        _ => r.op(BinOp::Mul, v, by),
    }
}

/// The operands of a product with a scalar, and a row that is added to it, times another scalar.
fn rescaled(r: &mut Rewrite<'_>, args: &[Value], by: Value) -> Option<[Value; 3]> {
    let scalar = equal_elements(r.k, args[1])?;
    r.row(args[2])?;
    if cancelling(r.k, [args[0], args[2]]).is_some() {
        return None;
    }
    let row = r.of_row(args[2], &mut |r, row| r.op(BinOp::Mul, row, by));
    Some([args[0], r.product(scalar, by), row])
}

/// The factor of a row's exponents: 1 where the row is so large that it only stands for minus infinity. The products of such a
/// row with the factor and of an element that equals it differ by what one of them was rounded by, which is huge, where the
/// difference is zero.
fn row_factor(r: &mut Rewrite<'_>, row: Value, by: Value, limit: f64) -> Value {
    let ty = r.k.ty(row);
    let (limit, one) = (r.float(Elem::F32, limit), r.float(Elem::F32, 1.0));
    let size = r.inst(Op::Unary(UnOp::Abs), &[row], ty);
    let huge = r.compare(CmpOp::Gt, size, limit);
    r.inst(Op::Select, &[huge, one, by], ty)
}

/// A value and its factor: a product with a scalar gives the scalar away.
fn unscaled(r: &mut Rewrite<'_>, v: Value, by: Value) -> (Value, Value) {
    let inner = match r.once(v) {
        Some((Op::Binary(BinOp::Mul), args)) => factor(r, &args),
        _ => None,
    };
    match inner {
        Some((x, f)) => (x, r.product(f, by)),
        None => (v, by),
    }
}
