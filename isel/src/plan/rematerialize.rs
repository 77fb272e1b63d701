//! Rematerialization: a use needs a tile in another layout, and the instructions behind the tile are cheap. They are
//! repeated in that layout, which replaces a conversion (Linear Layouts, section 4.4).
//!
//! ```text
//!  column = iota 1           x' = column < n   in the other use's layout
//!  x = column < n       ─►   y = select x', ..
//!  y = select x, ..          two instructions instead of a pass through shared memory
//! ```

use super::constraint::{Relation, adapts};
use super::cost::Model;
use super::solve::Solver;
use super::types::{Plan, Remade};
use crate::Result;
use warplift_ir::layout::Layout;
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Limit on the instructions that one use repeats.
const LONGEST: usize = 8;

/// Finds the uses for which rematerialization is cheaper than a conversion.
///
/// # Errors
/// A conversion is impossible.
pub(super) fn do_rematerialize(
    k: &Kernel,
    solver: &Solver<'_>,
    model: &Model<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let mut uses: Vec<(Inst, usize)> = plan.uses.keys().copied().collect();
    uses.sort_unstable();
    for (inst, n) in uses {
        let (v, to) = (k.args(inst)[n], &plan.uses[&(inst, n)]);
        let mut chain = Vec::new();
        if adapts(k, v) || !collect(k, solver, plan, v, to, &mut chain) {
            continue;
        }
        let Some(from) = plan.layouts[v].as_ref() else { continue };
        let converted = model.converted(inst, v, from, to);
        if converted.is_none_or(|cycles| model.rematerialization(&chain) < cycles) {
            plan.rematerialized.insert((inst, n), chain);
        }
    }
    Ok(())
}

/// Lists what must be rematerialized for a tile in a layout, operands first; `false` if that is not cheap.
fn collect(
    k: &Kernel,
    solver: &Solver<'_>,
    plan: &Plan,
    v: Value,
    to: &Layout,
    chain: &mut Vec<Remade>,
) -> bool {
    if plan.layouts[v].as_ref().is_some_and(|l| l == to) {
        return true;
    }
    if let Some((_, known)) = chain.iter().find(|c| c.0 == v) {
        return known == to;
    }
    let Some(def) = k.def(v).filter(|_| chain.len() < LONGEST && !plan.made.contains_key(&v)) else {
        return false;
    };
    let follows = match k.insts[def].op {
        Op::Full | Op::Iota(_) => true,
        Op::ExpandDims(_) | Op::Broadcast => operands(k, solver, plan, def, to, chain),
        ref op => op.is_elementwise() && operands(k, solver, plan, def, to, chain),
    };
    if follows {
        chain.push((v, to.clone()));
    }
    follows && chain.len() <= LONGEST
}

/// The same for every tile operand of an instruction.
fn operands(
    k: &Kernel,
    solver: &Solver<'_>,
    plan: &Plan,
    def: Inst,
    to: &Layout,
    chain: &mut Vec<Remade>,
) -> bool {
    let tiles: Vec<Value> =
        k.args(def).iter().copied().filter(|&a| matches!(k.ty(a), Type::Tile(..))).collect();
    let Some(c) = solver.of_inst(def) else { return tiles.is_empty() };
    if c.relation == Relation::Unpacked {
        return false;
    }
    let Ok(layout) = solver.derived(c, to, false) else { return false };
    tiles.into_iter().all(|a| collect(k, solver, plan, a, &layout, chain))
}
