//! Pairs of halves: a register holds two 16-bit elements. A thread with an odd number of them holds each one twice,
//! in both halves of a register.
//!
//! ```text
//!  f16[32, 1] by rows of 32 lanes:   lane i: register 0 = (e_i, nothing)     ─►     lane i: register 0 = (e_i, e_i)
//! ```
//!
//! Every tile with such a layout changes, whatever its width: tiles with equal layouts keep equal layouts.

use super::types::Plan;
use crate::{IselError, Result};
use warplift_ir::layout::{Axis, Layout, LayoutError};
use warplift_ir::tile::{Inst, Kernel, Value};

/// Doubles every odd layout, if a tile of 16-bit elements has one.
///
/// # Errors
/// As a layout's construction.
pub(super) fn do_half_pairs(k: &Kernel, plan: &mut Plan) -> Result<()> {
    let half = |v: Value| k.ty(v).elem().bits() == 16;
    let used = |&(inst, n): &(Inst, usize)| half(k.args(inst)[n]);
    let held = k.values.keys().filter(|&v| half(v)).filter_map(|v| plan.layouts[v].as_ref());
    let made = plan.made.iter().filter(|m| half(*m.0)).map(|m| m.1);
    let uses = plan.uses.iter().filter(|u| used(u.0)).map(|u| u.1);
    if !held.chain(made).chain(uses).any(is_odd) {
        return Ok(());
    }
    let held = plan.layouts.values_mut().flatten();
    for layout in held.chain(plan.made.values_mut()).chain(plan.uses.values_mut()) {
        *layout = duplicated(layout).map_err(|e| IselError::whole(e.to_string()))?;
    }
    Ok(())
}

fn is_odd(layout: &Layout) -> bool {
    !layout.in_extent(Axis::Reg).is_multiple_of(2)
}

/// A layout in which a thread holds an even number of elements: the given one, or each element twice.
fn duplicated(layout: &Layout) -> std::result::Result<Layout, LayoutError> {
    if !is_odd(layout) {
        return Ok(layout.clone());
    }
    let outs: Vec<(Axis, u64)> = layout.outs().iter().map(|o| (o.0, 1)).collect();
    Layout::zeros(Axis::Reg, 2, &outs)?.product(layout)
}
