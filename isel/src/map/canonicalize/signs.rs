//! Signs of products: a negation of an operand, or of a product that is added, becomes the sign of the MMA. Then nothing is
//! computed of what is loaded, and tensor copies bring it.
//!
//! ```text
//!  mma x, a, trans(-b)       ─►   mma x, -a, trans(b)
//!  mma x, cast(-p, f16), b   ─►   mma x, -cast(p, f16), b
//!  y - mma(zero, a, b)       ─►   y + mma(zero, -a, b)        the sum may then be the accumulator
//! ```

use super::Rewrite;
use crate::tiles::constant;
use warplift_ir::tile::{BinOp, Inst, Op, UnOp, Value};

/// An MMA without negations behind its operands, a sum of a product that was subtracted.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let args = r.k.args(inst).to_vec();
    match (&r.k.insts[inst].op, &args[..]) {
        (&Op::Mma { negated }, &[sum, a, b]) => operands(r, negated, [sum, a, b]),
        (Op::Binary(BinOp::Sub), &[x, y]) => {
            let product = opposite(r, y)?;
            Some((Op::Binary(BinOp::Add), vec![x, product]))
        }
        (Op::Binary(BinOp::Add), &[x, y]) => [(x, y), (y, x)].into_iter().find_map(|(x, y)| {
            let (Op::Unary(UnOp::Neg), negated) = r.once(y)? else { return None };
            let product = opposite(r, negated[0])?;
            Some((Op::Binary(BinOp::Add), vec![x, product]))
        }),
        _ => None,
    }
}

/// The MMA of the operands without their negations: two of them cancel.
fn operands(r: &mut Rewrite<'_>, negated: bool, [sum, a, b]: [Value; 3]) -> Option<(Op, Vec<Value>)> {
    let [plain_a, plain_b] = [a, b].map(|v| without_sign(r, v));
    let flips = plain_a.is_some() != plain_b.is_some();
    (plain_a.is_some() || plain_b.is_some()).then(|| {
        (Op::Mma { negated: negated != flips }, vec![sum, plain_a.unwrap_or(a), plain_b.unwrap_or(b)])
    })
}

/// A float tile without the negation behind what only moves or rounds it: rounding is symmetric.
fn without_sign(r: &mut Rewrite<'_>, v: Value) -> Option<Value> {
    let ty = r.k.ty(v);
    let (op, args) = r.maker(v).filter(|_| ty.elem().is_float())?;
    // What is rounded for several users, or before a loop, is rounded once.
    let here = r.is_here(v);
    let moves = matches!(op, Op::Trans(_) | Op::Slice(_) | Op::Reshape);
    match op {
        Op::Unary(UnOp::Neg) => Some(args[0]),
        op if moves || (op == Op::Cast && here && r.once(v).is_some()) => {
            let plain = without_sign(r, args[0])?;
            Some(r.inst(op, &[plain], ty))
        }
        _ => None,
    }
}

/// The negative of a product of this block that nothing else uses, if it is added to zeros.
fn opposite(r: &mut Rewrite<'_>, v: Value) -> Option<Value> {
    let (Op::Mma { negated }, args) = r.once(v)? else { return None };
    let from_zero = constant(r.k, args[0]) == Some(0.0) && r.k.ty(v).elem().is_float();
    let ty = r.k.ty(v);
    (from_zero && r.is_here(v)).then(|| r.inst(Op::Mma { negated: !negated }, &args, ty))
}
