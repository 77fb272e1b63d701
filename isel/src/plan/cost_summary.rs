//! What a plan costs, and what the search over plans tried and found.

use super::choices::{Point, Way};
use serde::{Deserialize, Serialize};
use warplift_ir::plural;
use warplift_ir::tile::Kernel;

/// Cycles of a plan, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Accesses to global memory, and copies to shared memory.
    pub memory: f64,
    /// Tiles that change their layout.
    pub conversions: f64,
    /// Tensor cores.
    pub products: f64,
    /// Reductions and scans.
    pub reductions: f64,
    /// Everything elementwise.
    pub work: f64,
    /// What no plan of the same products and copies goes below.
    pub least: f64,
}

impl Cost {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.memory + self.conversions + self.products + self.reductions + self.work
    }
}

/// What became of a step of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// The plan was made and takes so many cycles.
    Made(f64),
    /// It takes at least so many, so that it was not made.
    Bounded(f64),
    /// It is impossible.
    Refused(String),
}

/// A step of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Where another way was taken.
    pub point: Point,
    /// Which.
    pub way: Way,
    /// What came of it.
    pub outcome: Outcome,
}

/// What the search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchSummary {
    /// Cycles of the rule's plan; `None` if it is impossible.
    pub rule: Option<Cost>,
    /// Cycles of the plan that was taken.
    pub best: Cost,
    /// Plans made.
    pub plans: usize,
    /// All steps, in order.
    pub tried: Vec<Tried>,
}

impl SearchSummary {
    /// For `explain`: what was found, and each way that was not taken, a line each.
    pub fn describe(&self, k: &Kernel) -> Vec<String> {
        let rule = match self.rule {
            Some(rule) => format!("the rule's {:.0}", rule.total()),
            None => "the rule's is impossible".to_owned(),
        };
        let Cost { memory, conversions, products, reductions, work, .. } = self.best;
        let parts = format!(
            "memory {memory:.0}, conversions {conversions:.0}, products {products:.0}, reductions {reductions:.0}, work {work:.0}"
        );
        let (plans, best) = (plural(self.plans as u64, "plan"), self.best.total());
        let first = format!("{best:.0} cycles ({parts}), {rule}, {plans} made");
        let step = |t: &Tried| {
            let outcome = match &t.outcome {
                Outcome::Made(cycles) => format!("{cycles:.0} cycles"),
                Outcome::Bounded(cycles) => format!("at least {cycles:.0} cycles, not made"),
                Outcome::Refused(why) => why.clone(),
            };
            format!("{}: {}: {outcome}", t.point.describe(k), t.way)
        };
        std::iter::once(first).chain(self.tried.iter().map(step)).collect()
    }
}
