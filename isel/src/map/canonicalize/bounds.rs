//! Bounds of what is converted to 16 bits: the conversion comes first. Then two elements share an instruction, and what a tile
//! holds back for its stores is converted already.
//!
//! ```text
//!  cast(max(x, 0.0), f16)             ─►   max(cast(x, f16), 0.0)
//!  cast(min(max(x, -1.0), h), bf16)   ─►   min(max(cast(x, bf16), -1.0), h)      h: converted from bf16
//! ```
//!
//! Equal conversions then become one: a tile that is stored with and without a bound is held once.
//!
//! Rounding keeps the order of numbers, and a bound that the narrow type has stays as it is. So the result is the same, also of
//! a NaN, which an extreme passes over.

use super::Rewrite;
use super::integers::{as_float, is_exact};
use rustc_hash::FxHashMap;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// A bound: of what, by what, and whether from above or below.
struct Bound {
    op: BinOp,
    of: Value,
    by: Value,
}

/// The bound of what is converted.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let (Op::Cast, &[x]) = (&r.k.insts[inst].op, r.k.args(inst)) else { return None };
    let to = r.k.ty(r.k.result(inst));
    let bound = bound(r, x, to.elem()).filter(|_| is_pairs(to))?;
    let sides = narrow(r, &bound, to)?;
    Some((Op::Binary(bound.op), sides.to_vec()))
}

/// Whether a register holds two elements of a tile.
fn is_pairs(ty: Type) -> bool {
    matches!(ty.elem(), Elem::F16 | Elem::Bf16) && ty.shape().is_some()
}

/// What a bound compares, in the narrow type.
fn narrow(r: &mut Rewrite<'_>, bound: &Bound, to: Type) -> Option<[Value; 2]> {
    let of = converted(r, bound.of, to)?;
    Some([of, as_float(r, bound.by, to.elem())?])
}

/// A tile in the narrow type, converted before its bounds are taken.
fn converted(r: &mut Rewrite<'_>, v: Value, to: Type) -> Option<Value> {
    let Some(bound) = bound(r, v, to.elem()) else { return Some(r.inst(Op::Cast, &[v], to)) };
    let sides = narrow(r, &bound, to)?;
    Some(r.inst(Op::Binary(bound.op), &sides, to))
}

/// The bound that a tile of f32 is, if nothing else uses it and the narrow type has the bound.
fn bound(r: &Rewrite<'_>, v: Value, to: Elem) -> Option<Bound> {
    let (Op::Binary(op @ (BinOp::Max | BinOp::Min)), args) = r.once(v)? else { return None };
    let whole = |&x: &Value| r.k.ty(x) == r.k.ty(v) && r.k.ty(v).elem() == Elem::F32;
    let [of, by] =
        [[args[0], args[1]], [args[1], args[0]]].into_iter().find(|[_, by]| is_exact(r, *by, to))?;
    whole(&of).then_some(Bound { op, of, by })
}

/// Lets the first of equal conversions in a block serve for all of them.
pub(super) fn join_conversions(k: &mut Kernel) {
    let mut places: Vec<(Block, Inst)> = Vec::new();
    k.walk(|block, inst| places.push((block, inst)));
    let (mut first, mut instead) = (FxHashMap::default(), FxHashMap::<Value, Value>::default());
    for (block, inst) in places {
        let args: Vec<Value> = k.args(inst).iter().map(|v| *instead.get(v).unwrap_or(v)).collect();
        if args != k.args(inst) {
            k.set_args(inst, &args);
        }
        if k.insts[inst].op == Op::Cast && is_pairs(k.ty(k.result(inst))) && k.attrs[inst].layout.is_none() {
            let (result, elem) = (k.result(inst), k.ty(k.result(inst)).elem());
            let known = *first.entry((block, args[0], elem)).or_insert(result);
            if known != result {
                instead.insert(result, known);
            }
        }
    }
}
