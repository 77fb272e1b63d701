//! `plan`: the side table between map and lower.
//!
//! ```text
//!  products ─► anchors (wgmma fragments, shared operands)      tensor.rs
//!              or those of warps (mma.sync)                    mma_sync.rs
//!  loads, stores ─► anchors where no product reaches            anchor.rs, blocked.rs
//!  anchors ─► layouts of everything around them                 constraint.rs, solve.rs, propagate.rs
//!  threads that hold one half ─► the same half twice            half_pairs.rs
//!  two anchors disagree ─► a conversion between two versions    convert.rs, or the tile rematerialized: rematerialize.rs
//!  several ways ─► the plan that costs the least                choices.rs, cost.rs, search.rs, cost_summary.rs
//! ```
//!
//! A tile may have two versions, one in registers and one in shared memory; each use takes one.
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
mod half_pairs;
mod mma_sync;
mod order;
mod propagate;
mod rematerialize;
mod search;
mod solve;
mod staged;
mod tensor;
#[cfg(test)]
mod tests;
mod types;

use crate::Result;
use crate::feature::{Feature, Ways};
use crate::tiles::program_order;
use build::PlanBuilder;
use warplift_ir::target::Target;
use warplift_ir::tile::Kernel;

pub use blocked::{blocked, vector_elements};
pub use choices::{Choices, Point, Way};
pub use convert::{cell_bits, choose};
pub(crate) use cost::least_products;
pub use cost::{Touched, touched};
pub use cost_summary::{Cost, Outcome, SearchSummary, Tried};
pub use propagate::slice_layout;
pub(crate) use search::CLEARLY;
pub(crate) use tensor::inner_dim;
pub use types::{
    Fill, Plan, Product, Remade, SharedTile, Staged, StagedFill, StorePlan, Stripes, WarpProduct,
};

/// Chooses a version of every tile and an instruction for every access.
///
/// # Errors
/// What no instruction yet selected can do; the message names it.
pub fn do_plan(k: &Kernel, target: &Target) -> Result<Plan> {
    do_plan_without(k, target, &[])
}

/// The same without some features.
///
/// # Errors
/// As [`do_plan`].
pub fn do_plan_without(k: &Kernel, target: &Target, disabled: &[Feature]) -> Result<Plan> {
    let order = program_order(k);
    let builder = PlanBuilder::new(k, &order, Ways::without(disabled), target);
    match disabled.contains(&Feature::Synthesis) {
        true => builder.build(Choices::default()).1.map(|p| p.0),
        false => search::do_search(&builder),
    }
}
