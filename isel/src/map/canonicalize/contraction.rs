//! A product that is only added to is fused with the sum.

use super::Rewrite;
use warplift_ir::tile::{BinOp, Inst, Op, Type, Value};
use warplift_ir::types::Elem;

/// `x * y + z`, `z + x * y`, `x * y - z` and `z - x * y` of f32 tiles as `fma`. A row times a scalar that is repeated along the
/// other dimension counts as well: the sum is as many instructions, and the row's product none.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let Op::Binary(op @ (BinOp::Add | BinOp::Sub)) = r.k.insts[inst].op else { return None };
    let ty = r.k.ty(r.k.result(inst));
    let &[a, b] = r.k.args(inst) else { return None };
    if ty.elem() != Elem::F32 || ty.shape().is_none() {
        return None;
    }
    let factors = |r: &mut Rewrite<'_>, v: Value| match r.once(v)? {
        (Op::Binary(BinOp::Mul), args) if r.k.ty(v) == ty => Some([args[0], args[1]]),
        (Op::Broadcast, args) => repeated_factors(r, args[0], ty),
        _ => None,
    };
    let minus = op == BinOp::Sub;
    if let Some([x, y]) = factors(r, a) {
        let z = if minus { r.negative(b) } else { b };
        return Some((Op::Fma, vec![x, y, z]));
    }
    let [x, y] = factors(r, b)?;
    let repeated = |v: Value| r.k.ty(v).shape().is_none() || r.row(v).is_some();
    let [x, y] = if minus && repeated(x) { [y, x] } else { [x, y] };
    let y = if minus { r.negative(y) } else { y };
    Some((Op::Fma, vec![x, y, a]))
}

/// The factors of a row that is one of them times a scalar, as tiles of a type. The row may have got its other dimension behind the
/// product.
fn repeated_factors(r: &mut Rewrite<'_>, row: Value, ty: Type) -> Option<[Value; 2]> {
    let (op, args) = r.once(row)?;
    let (expands, args) = match op {
        Op::ExpandDims(_) => (true, r.once(args[0]).filter(|made| made.0 == Op::Binary(BinOp::Mul))?.1),
        Op::Binary(BinOp::Mul) => (false, args),
        _ => return None,
    };
    let is_scalar = |v: &Value| r.k.ty(*v).shape().is_none() || matches!(r.maker(*v), Some((Op::Full, _)));
    let whole = r.k.ty(row);
    args.iter().any(is_scalar).then(|| {
        let factor = |v: &Value| {
            if r.k.ty(*v).shape().is_none() {
                return *v;
            }
            let one = if expands { r.inst(op.clone(), &[*v], whole) } else { *v };
            r.inst(Op::Broadcast, &[one], ty)
        };
        args.iter().map(factor).collect::<Vec<Value>>().try_into().ok()
    })?
}
