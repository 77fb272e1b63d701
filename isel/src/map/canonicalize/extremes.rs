//! Scores that are scaled by a positive number before their maximum, and powers of what a mask removed. This is looked for before
//! anything else: exponents then take the factor.
//!
//! ```text
//!  select(c, x * 0.5, -inf)                         ─►   select(c, x, -inf) * 0.5       beside a maximum
//!  reduce_max(x * 0.5, 1)                           ─►   reduce_max(x, 1) * 0.5         rounding keeps the order
//!  reduce_max(reduce_max(reshape x, 2), 1)          ─►   reduce_max(x, 1)               where only the reduced columns are apart
//!  select(x == -inf, 0.0, exp(x - r))               ─►   exp(x - r)                     where r is not -inf: the power is 0
//!  select(x > 0.0, x, x * 0.01)                     ─►   max(x, x * 0.01)               the greater one for either sign
//!  select(x > 0.0, x, 0.0)                          ─►   max(x, 0.0)                    also of a NaN
//! ```

use super::Rewrite;
use crate::tiles::{Users, constant, equal_elements};
use warplift_ir::tile::{BinOp, CmpOp, Inst, Op, ReduceOp, UnOp, Value};
use warplift_ir::types::Elem;

/// The choice between a product and a constant, where an extreme is taken of it.
pub(super) fn chosen(r: &mut Rewrite<'_>, inst: Inst, users: &Users) -> Option<(Op, Vec<Value>)> {
    let (Op::Select, &[c, yes, no]) = (&r.k.insts[inst].op, r.k.args(inst)) else { return None };
    let ty = r.k.ty(r.k.result(inst));
    let extreme = |&i: &Inst| matches!(r.k.insts[i].op, Op::Reduce(ReduceOp::Max | ReduceOp::Min, _));
    if !users.get(&r.k.result(inst))?.iter().any(extreme) {
        return None;
    }
    let unchanged = |v: Value| constant(r.k, v).is_some_and(|x| x == 0.0 || x.is_infinite());
    let (product, other) = if unchanged(no) { (yes, no) } else { (no, yes) };
    let (x, factor) = positive(r, product).filter(|_| unchanged(other) && r.once(product).is_some())?;
    let sides = if product == yes { [x, other] } else { [other, x] };
    let chosen = r.inst(Op::Select, &[c, sides[0], sides[1]], ty);
    Some((Op::Binary(BinOp::Mul), vec![chosen, factor]))
}

/// The extreme of a product.
pub(super) fn reduced(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let op = r.k.insts[inst].op.clone();
    if !matches!(op, Op::Reduce(ReduceOp::Max | ReduceOp::Min, _)) {
        return None;
    }
    let ty = r.k.ty(r.k.result(inst));
    let (x, factor) = positive(r, r.k.args(inst)[0])?;
    let reduced = r.inst(op, &[x], ty);
    Some((Op::Binary(BinOp::Mul), vec![reduced, factor]))
}

/// The reduction of what a reduction left of parts of the same dimension.
pub(super) fn in_parts(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let Op::Reduce(op, dim) = r.k.insts[inst].op else { return None };
    let (Op::Reduce(inner, part), parts) = r.once(r.k.args(inst)[0])? else { return None };
    let (Op::Reshape, of) = r.once(parts[0])? else { return None };
    let [whole, apart] = [of[0], parts[0]].map(|v| r.k.ty(v).shape().map(|s| s.dims().to_vec()));
    let (whole, apart, at) = (whole?, apart?, usize::from(dim));
    let split = apart.len() == whole.len() + 1
        && whole[..at] == apart[..at]
        && whole[at + 1..] == apart[at + 2..]
        && (at..=at + 1).contains(&part.into());
    (inner == op && split).then_some((Op::Reduce(op, dim), of))
}

/// The factors of a product of f32 with a positive number: the tile and the scalar.
fn positive(r: &Rewrite<'_>, v: Value) -> Option<(Value, Value)> {
    let (Op::Binary(BinOp::Mul), args) = r.maker(v)? else { return None };
    let is = |v: Value| constant(r.k, v).is_some_and(|c| c > 0.0 && c.is_finite());
    let (x, factor) = if is(args[1]) { (args[0], args[1]) } else { (args[1], args[0]) };
    let whole = r.k.ty(v).elem() == Elem::F32 && r.k.ty(x) == r.k.ty(v);
    (whole && is(factor)).then_some((x, equal_elements(r.k, factor)?))
}

/// The choice of zero where the power is zero.
pub(super) fn of_powers(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let (Op::Select, &[c, yes, no]) = (&r.k.insts[inst].op, r.k.args(inst)) else { return None };
    let (x, removed) = infinite(r, c)?;
    let (zero, power) = if removed { (yes, no) } else { (no, yes) };
    let zero = constant(r.k, zero).is_some_and(|z| z.to_bits() == 0);
    let (op @ Op::Unary(UnOp::Exp | UnOp::Exp2), args) = r.once(power)? else { return None };
    let (Op::Binary(BinOp::Sub), terms) = r.maker(args[0])? else { return None };
    let whole = r.k.ty(power) == r.k.ty(r.k.result(inst));
    (zero && whole && terms[0] == x && is_above(r, terms[1])).then_some((op, args))
}

/// The choice between a number and a part of it, by its sign.
pub(super) fn sloped(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let (Op::Select, &[c, yes, no]) = (&r.k.insts[inst].op, r.k.args(inst)) else { return None };
    let (Op::Compare(cmp), compared) = r.maker(c)? else { return None };
    let (x, part) = if matches!(cmp, CmpOp::Gt | CmpOp::Ge) { (yes, no) } else { (no, yes) };
    let by_sign = compared[0] == x && constant(r.k, compared[1]) == Some(0.0);
    let part_of_x =
        positive(r, part).is_some_and(|(of, f)| of == x && constant(r.k, f).is_some_and(|f| f <= 1.0));
    let zero = cmp == CmpOp::Gt && constant(r.k, part).is_some_and(|z| z.to_bits() == 0);
    let ordered = matches!(cmp, CmpOp::Gt | CmpOp::Ge | CmpOp::Lt | CmpOp::Le);
    let elem = r.k.ty(x).elem();
    let whole = r.k.ty(x) == r.k.ty(r.k.result(inst)) && elem.is_float() && elem.bits() >= 16;
    (whole && ordered && by_sign && (part_of_x || zero)).then_some((Op::Binary(BinOp::Max), vec![x, part]))
}

/// What a condition compares with -inf, and whether it holds for what equals it.
fn infinite(r: &Rewrite<'_>, c: Value) -> Option<(Value, bool)> {
    let (Op::Compare(cmp), args) = r.maker(c)? else { return None };
    let removed = match cmp {
        CmpOp::Eq | CmpOp::Le => true,
        CmpOp::Ne | CmpOp::Gt => false,
        _ => return None,
    };
    // A NaN is neither.
    let ordered = matches!(cmp, CmpOp::Eq | CmpOp::Ne | CmpOp::Le);
    let low = constant(r.k, args[1]) == Some(f64::NEG_INFINITY);
    (low && ordered).then_some((args[0], removed))
}

/// Whether a row is certainly not -inf, and no NaN: a choice that takes a number in its place.
fn is_above(r: &Rewrite<'_>, v: Value) -> bool {
    match r.maker(v) {
        Some((Op::Broadcast | Op::ExpandDims(_), args)) => is_above(r, args[0]),
        Some((Op::Select, args)) => {
            let number = |v: Value| constant(r.k, v).is_some_and(f64::is_finite);
            let Some((Op::Compare(cmp), of)) = r.maker(args[0]) else { return false };
            let low = constant(r.k, of[1]) == Some(f64::NEG_INFINITY);
            let extreme = matches!(r.maker(of[0]), Some((Op::Binary(BinOp::Max), _)));
            low && match cmp {
                CmpOp::Gt => args[1] == of[0] && number(args[2]),
                CmpOp::Eq => args[2] == of[0] && number(args[1]) && extreme,
                CmpOp::Ne => args[1] == of[0] && number(args[2]) && extreme,
                _ => false,
            }
        }
        _ => false,
    }
}
