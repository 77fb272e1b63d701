//! Small integers that become floats are computed as floats, where these hold them exactly.

use super::Rewrite;
use crate::tiles::{constant, with_elem};
use warplift_ir::tile::{BinOp, Inst, Op, Value};
use warplift_ir::types::Elem;

/// `cast(cast(q, i32) - z, f16)` as `cast(q, f16) - cast(z, f16)`; sums too. `q` is a tile of narrow integers, `z` one too or
/// a constant.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    if !matches!(r.k.insts[inst].op, Op::Cast) {
        return None;
    }
    let to = r.k.ty(r.k.result(inst));
    let digits = match to.elem() {
        Elem::F16 => 11,
        Elem::Bf16 => 8,
        Elem::F32 => 24,
        _ => return None,
    };
    let (Op::Binary(op @ (BinOp::Add | BinOp::Sub)), args) = r.once(r.k.args(inst)[0])? else { return None };
    let bounds = [magnitude(r, args[0])?, magnitude(r, args[1])?];
    let narrow = args.iter().any(|&v| constant(r.k, v).is_none());
    if !narrow || bounds[0] + bounds[1] > f64::from(1u32 << digits) {
        return None;
    }
    let args = args.iter().map(|&v| as_float(r, v, to.elem())).collect::<Option<Vec<Value>>>()?;
    Some((Op::Binary(op), args))
}

/// The greatest magnitude of an i32 that is a constant or was a narrow integer.
fn magnitude(r: &Rewrite<'_>, v: Value) -> Option<f64> {
    if let Some(c) = constant(r.k, v) {
        return Some(c.abs());
    }
    match r.op(v)? {
        (Op::Cast, args) => match r.k.ty(args[0]).elem() {
            e @ (Elem::Int(_) | Elem::Uint(_)) if e.bits() <= 8 => Some(f64::from(1u32 << e.bits())),
            _ => None,
        },
        (Op::Broadcast | Op::ExpandDims(_) | Op::Trans(_), args) => magnitude(r, args[0]),
        _ => None,
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
        (None, (Op::Cast, args)) => r.push(Op::Cast, &[args[0]], ty),
        (None, (op, args)) => {
            let inner = as_float(r, args[0], elem)?;
            r.push(op, &[inner], ty)
        }
    })
}
