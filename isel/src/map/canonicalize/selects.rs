//! Selects: no sums with zeros, no products with ones, and no arithmetic on truth values.
//!
//! ```text
//!  cast(c, f32)                              ─►   select(c, 1.0, 0.0)
//!  (1.0 - select(c, 1.0, 0.0)) * 1e9         ─►   select(c, 0.0, 1e9)
//!  expand_dims(select(c, 0.0, 1e9), 0)       ─►   select(expand_dims(c, 0), 0.0, 1e9)
//!  x - select(c, 0.0, 1e9)                   ─►   select(c, x, x - 1e9)
//! ```
//!
//! A row of constants whose condition compares no indices stays a row: it is added as it is, often within an `fma`, and no
//! branch could spare it.

use super::super::mask_to_branch::may_be_guarded;
use super::Rewrite;
use crate::tiles::constant;
use warplift_ir::tile::{BinOp, Inst, Op, Type, UnOp, Value};
use warplift_ir::types::Elem;

/// Truth values as floats; and constants that a select of constants chooses between, repeated or computed with.
pub(super) fn of_constants(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let ty = r.k.ty(*r.k.results(inst).first()?);
    if ty.elem() != Elem::F32 || ty.shape().is_none() {
        return None;
    }
    let (op, args) = (r.k.insts[inst].op.clone(), r.k.args(inst).to_vec());
    let (condition, yes, no) = match op {
        Op::Cast if r.k.ty(args[0]).elem() == Elem::Bool => (args[0], 1.0, 0.0),
        Op::Broadcast | Op::ExpandDims(_) => {
            let (c, yes, no) = choice(r, args[0])?;
            // A row of numbers costs less than a choice for each element.
            if !may_be_guarded(r.k, c) {
                return None;
            }
            let Type::Tile(_, shape) = ty else { return None };
            (r.inst(op, &[c], Type::Tile(Elem::Bool, shape)), yes, no)
        }
        Op::Unary(UnOp::Neg) => {
            let (c, yes, no) = choice(r, args[0])?;
            (c, -yes, -no)
        }
        Op::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul)) => computed(r, op, [args[0], args[1]])?,
        _ => return None,
    };
    let [yes, no] = [yes, no].map(|x| r.constant(Op::Float(x), ty));
    Some((Op::Select, vec![condition, yes, no]))
}

/// The condition of a select of constants that only one instruction uses, and these.
fn choice(r: &Rewrite<'_>, v: Value) -> Option<(Value, f64, f64)> {
    let (Op::Select, args) = r.once(v)? else { return None };
    let tile = r.k.ty(args[0]).shape().is_some();
    let [yes, no] = [constant(r.k, args[1])?, constant(r.k, args[2])?];
    (tile && !yes.is_nan() && !no.is_nan()).then_some((args[0], yes, no))
}

/// Arithmetic of such a select and a constant, on the constants.
fn computed(r: &Rewrite<'_>, op: BinOp, [a, b]: [Value; 2]) -> Option<(Value, f64, f64)> {
    let at = |x: f64, y: f64| {
        let (x, y) = (x as f32, y as f32);
        f64::from(match op {
            BinOp::Add => x + y,
            BinOp::Sub => x - y,
            _ => x * y,
        })
    };
    let made = match (constant(r.k, a), constant(r.k, b)) {
        (None, Some(y)) => choice(r, a).map(|(c, yes, no)| (c, at(yes, y), at(no, y))),
        (Some(x), None) => choice(r, b).map(|(c, yes, no)| (c, at(x, yes), at(x, no))),
        _ => None,
    };
    // Arithmetic gives the canonical NaN of PTX, which is not the host's.
    made.filter(|(_, yes, no)| !yes.is_nan() && !no.is_nan())
}

/// A sum with `select(c, 0, y)`, a product with `select(c, 1, y)`: the select chooses between `x` and what `y` makes of it. A
/// sum of -0 and 0 then stays -0.
pub(super) fn identity(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let (op, neutral) = match r.k.insts[inst].op {
        Op::Binary(op @ (BinOp::Add | BinOp::Sub)) => (op, 0.0),
        Op::Binary(op @ BinOp::Mul) => (op, 1.0),
        _ => return None,
    };
    let commutes = op != BinOp::Sub;
    let ty = r.k.ty(r.k.result(inst));
    let &[a, b] = r.k.args(inst) else { return None };
    if !ty.elem().is_float() || ty.shape().is_none() || r.k.ty(a) != ty || r.k.ty(b) != ty {
        return None;
    }
    [(a, b), (b, a)].into_iter().take(1 + usize::from(commutes)).find_map(|(x, masked)| {
        let (Op::Select, args) = r.once(masked)? else { return None };
        let &[c, yes, no] = &args[..] else { return None };
        let is_neutral = |v: Value| constant(r.k, v) == Some(neutral);
        match [is_neutral(yes), is_neutral(no)] {
            [true, false] => {
                let made = r.inst(Op::Binary(op), &[x, no], ty);
                Some((Op::Select, vec![c, x, made]))
            }
            [false, true] => {
                let made = r.inst(Op::Binary(op), &[x, yes], ty);
                Some((Op::Select, vec![c, made, x]))
            }
            _ => None,
        }
    })
}
