//! Builds one plan from given choices: anchors first, then the tiles around them.
//!
//! ```text
//!  MMAs ─► loads ─► other tiles ─► stores ─► versions ─► cost
//! ```

use super::choices::Choices;
use super::cost::Model;
use super::cost_summary::Cost;
use super::solve::Solver;
use super::types::Plan;
use super::{
    anchor, coalesce, fill, half_pairs, mma_sync, partial_sums, rematerialize, staged, store, tensor,
};
use crate::feature::Ways;
use crate::tiles::{extents, in_shared, reads_tile, warps};
use crate::{IselError, Result};
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::target::Target;
use warplift_ir::tile::{Inst, Kernel, Op, Team, Value};

/// Builds plans of one kernel.
pub(super) struct PlanBuilder<'k> {
    k: &'k Kernel,
    order: &'k [Inst],
    solver: Solver<'k>,
    model: Model<'k>,
    ways: Ways,
}

impl<'k> PlanBuilder<'k> {
    /// A builder for the plans of a kernel; `order` lists its instructions in program order.
    pub fn new(k: &'k Kernel, order: &'k [Inst], ways: Ways, target: &'k Target) -> Self {
        let model = Model::new(k, order, ways, target);
        Self { k, order, solver: Solver::new(k, order), model, ways }
    }

    /// Builds the plan of some choices. Returns it with its cost, and all choice points that it met.
    pub fn build(&self, choices: Choices) -> (Choices, Result<(Plan, Cost)>) {
        let meeting = self.model.target.estimates.meeting_cycles;
        let mut plan = Plan { ways: self.ways, meeting_cycles: meeting as u64, choices, ..Plan::default() };
        let cost = self.fill(&mut plan).and_then(|()| self.model.cost(&plan));
        (plan.choices.clone(), cost.map(|c| (plan, c)))
    }

    fn fill(&self, plan: &mut Plan) -> Result<()> {
        let (k, order) = (self.k, self.order);
        for &inst in order.iter().filter(|&&i| matches!(k.insts[i].op, Op::Mma { .. })) {
            match k.attrs[inst].team {
                Team::Warps(_) => mma_sync::plan_product(k, inst, &self.model, plan)?,
                _ => tensor::plan_product(k, inst, &self.model, plan)?,
            }
        }
        pin(k, order, plan)?;
        let known: Vec<Value> = k.values.keys().filter(|&v| plan.layouts[v].is_some()).collect();
        self.solver.spread(known, plan)?;
        fill::anchor_indices(k, order, &self.solver, plan)?;
        // Loads come first: wide accesses of memory decide the layout of what is computed from them.
        let (loads, others): (Vec<Inst>, Vec<Inst>) = order.iter().partition(|&&i| reads_tile(k, i));
        let (shared, mut loads): (Vec<Inst>, Vec<Inst>) = loads.into_iter().partition(|&i| in_shared(k, i));
        let size = |i: &Inst| extents(k, k.result(*i)).iter().map(|&e| u64::from(e)).product::<u64>();
        loads.sort_by_key(|i| std::cmp::Reverse(size(i)));
        for &inst in &loads {
            anchor::anchor(k, inst, &self.solver, &self.model, plan)?;
        }
        // What comes from shared memory only takes the layout in which it is stored.
        let stores = others.iter().filter(|&&i| !shared.is_empty() && matches!(k.insts[i].op, Op::Store));
        for &store in stores.filter(|&&i| !in_shared(k, i)) {
            anchor::anchor_stored(k, store, &self.solver, plan)?;
        }
        for inst in others.into_iter().chain(shared) {
            anchor::anchor(k, inst, &self.solver, &self.model, plan)?;
        }
        half_pairs::do_half_pairs(k, plan)?;
        for &inst in order {
            if let Some(staged) = staged::plan_load(k, inst, &self.model, plan)? {
                plan.staged.insert(inst, staged);
            }
        }
        for &inst in order {
            if matches!(k.insts[inst].op, Op::Store) {
                let store = store::plan_store(k, inst, self.model.target, plan)?;
                plan.stores.insert(inst, store);
            }
            coalesce::do_coalesce(k, inst, &self.model, plan)?;
        }
        fill::do_fill_indices(k, order, plan)?;
        rematerialize::do_rematerialize(k, &self.solver, &self.model, plan)?;
        partial_sums::do_partial_sums(k, order, plan);
        Ok(())
    }
}

/// Anchors the tiles whose layout the mapping gives.
fn pin(k: &Kernel, order: &[Inst], plan: &mut Plan) -> Result<()> {
    for &inst in order {
        let Some(layout) = &k.attrs[inst].layout else { continue };
        let tile = k.result(inst);
        if let Some(why) = not_held(layout, &extents(k, tile), warps(k, inst)) {
            return Err(IselError::at(k, inst, format!("the mapping's layout `{layout}`: {why}")));
        }
        if plan.layouts[tile].as_ref().is_some_and(|own| own != &**layout) {
            return Err(IselError::at(k, inst, "a product decides the layout of this tile".to_owned()));
        }
        plan.layouts[tile] = Some(Layout::clone(layout));
    }
    Ok(())
}

/// Why `warps` warps cannot hold a tile in a layout; `None` if they can.
fn not_held(layout: &Layout, shape: &[u32], warps: u32) -> Option<String> {
    let dims = shape.iter().enumerate().map(|(d, &e)| (Axis::Dim(d as u8), u64::from(e)));
    if !layout.outs().iter().copied().eq(dims) {
        return Some(format!("the tile is {shape:?}"));
    }
    let threads = [Axis::Warp, Axis::Warpgroup].map(|a| layout.in_extent(a)).iter().product::<u64>();
    if layout.in_extent(Axis::Lane) != 32 || threads != u64::from(warps) {
        return Some(format!("the block has {warps} warps of 32 lanes"));
    }
    let ins = [Axis::Reg, Axis::Lane, Axis::Warp, Axis::Warpgroup];
    if layout.ins().iter().any(|a| !ins.contains(&a.0)) {
        return Some("threads are named by reg, lane, warp and warpgroup".to_owned());
    }
    let held = layout.image_size();
    let all: u64 = shape.iter().map(|&e| u64::from(e)).product();
    (held != all).then(|| format!("{held} of {all} elements are held"))
}
