//! Redundant store masks: a store already drops elements outside its view. A mask that selects the columns inside the
//! view changes nothing that is stored.
//!
//! ```text
//!  inside = iota < n     y : [m, n]     store y[i, 0], select(inside, v, 0)     stores what v has
//! ```

use crate::tiles::{equal_elements, program_order};
use crate::window::Window;
use warplift_ir::tile::{BinOp, CmpOp, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Conditions that are true for every element that a store writes.
pub fn conditions(k: &Kernel, store: Inst) -> Vec<Value> {
    let Some(bound) = columns(k, store) else { return Vec::new() };
    let masks = program_order(k).into_iter().flat_map(|i| k.results(i)).copied();
    masks.filter(|&v| matches!(k.ty(v), Type::Tile(Elem::Bool, _)) && holds(k, v, 0, bound)).collect()
}

/// The columns of the view, if the store starts at its first one.
fn columns(k: &Kernel, store: Inst) -> Option<Value> {
    let [view, .., column, _] = *k.args(store) else { return None };
    let window = Window::of(k, view).filter(|_| k.int_const(column) == Some(0))?;
    Some(window.extent(k, *window.kept.last()?))
}

/// Whether a condition only says that a column is below a bound. The column is the dimension `back` from the last
/// one.
fn holds(k: &Kernel, v: Value, back: usize, bound: Value) -> bool {
    let (Some(def), Some(shape)) = (k.def(v), k.ty(v).shape()) else { return false };
    let (args, rank) = (k.args(def), shape.rank());
    match k.insts[def].op {
        Op::Compare(CmpOp::Lt) => counts(k, args[0], back) && equal_elements(k, args[1]) == Some(bound),
        Op::Binary(BinOp::And) => args.iter().all(|&a| holds(k, a, back, bound)),
        Op::Broadcast => holds(k, args[0], back, bound),
        Op::ExpandDims(d) if usize::from(d) + 1 + back < rank => holds(k, args[0], back, bound),
        Op::ExpandDims(d) if usize::from(d) + 1 + back > rank => holds(k, args[0], back - 1, bound),
        _ => false,
    }
}

/// Whether a tile is the column number.
fn counts(k: &Kernel, v: Value, back: usize) -> bool {
    let Some(def) = k.def(v) else { return false };
    let rank = k.ty(v).shape().map_or(0, |s| s.rank());
    matches!(k.insts[def].op, Op::Iota(d) if usize::from(d) + 1 + back == rank)
}
