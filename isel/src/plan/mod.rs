//! `plan`: chooses a layout for every tile and an instruction for every access. The result is a side table that
//! `lower` reads.
//!
//! ```text
//!  MMAs ─► anchors (wgmma fragments, shared operands)          tensor.rs
//!              or warp-level ones (mma.sync)                   mma_sync.rs
//!  loads, stores ─► anchors for tiles without an MMA            anchor.rs, blocked.rs
//!  indices of gathered operands ─► the layout of their copies   fill.rs
//!  anchors ─► layouts of everything around them                 constraint.rs, solve.rs, propagate.rs
//!  odd numbers of 16-bit elements ─► pairs                      half_pairs.rs
//!  accumulators ─► stripes for tensor copies, else vectors     store.rs
//!  two anchors disagree ─► a conversion between two versions    convert.rs, or rematerialization: rematerialize.rs
//!  sums over a loop ─► each thread's part                       partial_sums.rs
//!  several options ─► the plan with the least cost              choices.rs, cost.rs, search.rs, cost_summary.rs
//! ```
//!
//! A tile may have two versions, one in registers and one in shared memory. Each use takes one.
//! Layout propagation: Linear Layouts, section 4.4; anchors: Hexcute, section 4.

mod anchor;
mod blocked;
mod build;
mod choices;
mod coalesce;
mod constraint;
mod convert;
mod cost;
mod cost_summary;
mod describe;
mod fill;
mod half_pairs;
mod mma_sync;
pub(crate) mod order;
pub(crate) mod packed;
mod partial_sums;
mod propagate;
mod rematerialize;
mod search;
mod solve;
mod sorted;
mod staged;
mod store;
mod tensor;
#[cfg(test)]
mod tests;
mod touched;
mod trips;
mod types;

use crate::Result;
use crate::feature::{Feature, Ways};
use crate::takes::check_width;
use crate::tiles::program_order;
use build::PlanBuilder;
use warplift_ir::Deadline;
use warplift_ir::target::Target;
use warplift_ir::tile::Kernel;

pub use blocked::blocked;
pub use choices::{Choices, Point, Way};
pub use convert::{cell_bits, choose};
pub(crate) use cost::least_products;
pub use cost_summary::{Cost, Outcome, SearchSummary, Tried};
pub use fill::{STORE_BITS, fill_layout};
pub(crate) use propagate::crosses_words;
pub use propagate::slice_layout;
pub(crate) use search::CLEARLY;
pub(crate) use tensor::cp_async_bytes;
pub use touched::{Touched, touched};
pub use types::{
    Fill, Plan, Product, Remade, SharedTile, Staged, StagedFill, StorePlan, Stripes, WarpProduct,
};

/// Chooses a layout for every tile and an instruction for every access.
///
/// # Errors
/// An operation that no instruction implements; the message names it.
pub fn do_plan(k: &Kernel, target: &Target) -> Result<Plan> {
    do_plan_without(k, target, &[])
}

/// The same with some features disabled.
///
/// # Errors
/// Those of [`do_plan`].
pub fn do_plan_without(k: &Kernel, target: &Target, disabled: &[Feature]) -> Result<Plan> {
    do_plan_until(k, target, disabled, Deadline::default())
}

/// The same, but it tries no further plan after the deadline.
///
/// # Errors
/// Those of [`do_plan`].
pub fn do_plan_until(k: &Kernel, target: &Target, disabled: &[Feature], deadline: Deadline) -> Result<Plan> {
    let order = program_order(k);
    check_width(k, &order)?;
    let builder = PlanBuilder::new(k, &order, Ways::without(disabled), target);
    match disabled.contains(&Feature::Synthesis) {
        true => builder.build(Choices::default()).1.map(|p| p.0),
        false => search::do_search(&builder, deadline),
    }
}
