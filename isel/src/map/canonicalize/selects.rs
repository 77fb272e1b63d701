//! Selects: no sums with zeros, no products with ones.

use super::Rewrite;
use crate::tiles::constant;
use warplift_ir::tile::{BinOp, Inst, Op, Value};

/// A sum with `select(c, 0, y)`, a product with `select(c, 1, y)`: the select chooses between `x` and what `y` makes of it. A
/// sum of -0 and 0 then stays -0.
pub(super) fn identity(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let (op, neutral) = match r.k.insts[inst].op {
        Op::Binary(op @ BinOp::Add) => (op, 0.0),
        Op::Binary(op @ BinOp::Mul) => (op, 1.0),
        _ => return None,
    };
    let ty = r.k.ty(r.k.result(inst));
    let &[a, b] = r.k.args(inst) else { return None };
    if !ty.elem().is_float() || ty.shape().is_none() || r.k.ty(a) != ty || r.k.ty(b) != ty {
        return None;
    }
    [(a, b), (b, a)].into_iter().find_map(|(x, masked)| {
        let (Op::Select, args) = r.once(masked)? else { return None };
        let &[c, yes, no] = &args[..] else { return None };
        let is_neutral = |v: Value| constant(r.k, v) == Some(neutral);
        match [is_neutral(yes), is_neutral(no)] {
            [true, false] => {
                let made = r.push(Op::Binary(op), &[x, no], ty);
                Some((Op::Select, vec![c, x, made]))
            }
            [false, true] => {
                let made = r.push(Op::Binary(op), &[x, yes], ty);
                Some((Op::Select, vec![c, made, x]))
            }
            _ => None,
        }
    })
}
