//! The cost of a plan, and what the search over plans tried and found. This is what `explain` prints.
//!
//! ```text
//!  700 cycles (memory 300, conversions 60, ..), the default plan 812, 9 plans built
//!    12:5 swizzle: 64: at least 740 cycles, not built
//! ```

use super::choices::{Point, Way};
use serde::{Deserialize, Serialize};
use warplift_ir::plural;
use warplift_ir::tile::Kernel;

/// Cycles of a plan, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Accesses to global memory, and copies to shared memory.
    pub memory: f64,
    /// Layout conversions.
    pub conversions: f64,
    /// Tensor cores.
    pub products: f64,
    /// Reductions and scans.
    pub reductions: f64,
    /// Everything elementwise.
    pub work: f64,
    /// Lower bound of every plan with the same MMAs and copies.
    pub least: f64,
}

impl Cost {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.memory + self.conversions + self.products + self.reductions + self.work
    }
}

/// The outcome of a step of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// The plan was built and takes this many cycles.
    Made(f64),
    /// Its lower bound is this many cycles, so it was not built.
    Bounded(f64),
    /// It is impossible.
    Refused(String),
}

/// A step of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The point where another option was taken.
    pub point: Point,
    /// The option.
    pub way: Way,
    /// The outcome.
    pub outcome: Outcome,
}

/// The summary of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchSummary {
    /// Cycles of the default plan; `None` if it is impossible.
    pub rule: Option<Cost>,
    /// Cycles of the plan that was taken.
    pub best: Cost,
    /// Plans that were built.
    pub plans: usize,
    /// All steps, in order.
    pub tried: Vec<Tried>,
}

impl SearchSummary {
    /// Lines for `explain`: what was found, then each option that was not taken.
    pub fn describe(&self, k: &Kernel) -> Vec<String> {
        let rule = match self.rule {
            Some(rule) => format!("the default plan {:.0}", rule.total()),
            None => "the default plan is impossible".to_owned(),
        };
        let Cost { memory, conversions, products, reductions, work, .. } = self.best;
        let parts = format!(
            "memory {memory:.0}, conversions {conversions:.0}, products {products:.0}, reductions {reductions:.0}, work {work:.0}"
        );
        let (plans, best) = (plural(self.plans as u64, "plan"), self.best.total());
        let first = format!("{best:.0} cycles ({parts}), {rule}, {plans} built");
        let step = |t: &Tried| {
            let outcome = match &t.outcome {
                Outcome::Made(cycles) => format!("{cycles:.0} cycles"),
                Outcome::Bounded(cycles) => format!("at least {cycles:.0} cycles, not built"),
                Outcome::Refused(why) => why.clone(),
            };
            format!("{}: {}: {outcome}", t.point.describe(k), t.way)
        };
        std::iter::once(first).chain(self.tried.iter().map(step)).collect()
    }
}
