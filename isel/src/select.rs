//! `select`: the MMA variant and the plan with the least cost. The variant is the first choice of the search, because
//! the chunks of results depend on it.
//!
//! ```text
//!  wgmma by 2 warpgroups ── map ──► plan, searched     812 cycles    the default variant
//!  mma.sync by 2 x 4 warps          at least 1100                    not built
//!  mma.sync by 8 x 1 warps ─ map ─► plan, searched     700 cycles    better
//! ```

use crate::feature::Feature;
use crate::map::Variant;
use crate::plan::{self, CLEARLY, Outcome, Plan, Point, Tried, Way};
use crate::{IselError, Result};
use warplift_ir::Deadline;
use warplift_ir::target::Target;
use warplift_ir::tile::Kernel;

/// Chooses the variant with the cheapest plan. `variants` starts with the default one. After the deadline it tries no
/// further variant.
///
/// # Errors
/// The error of the default variant, if every variant is refused.
pub fn do_select(
    variants: Vec<Variant>,
    target: &Target,
    disabled: &[Feature],
    deadline: Deadline,
) -> Result<(Variant, Plan)> {
    let mut selection =
        Selection { target, disabled, deadline, rule: None, best: None, refused: None, tried: Vec::new() };
    variants.into_iter().for_each(|v| selection.look(v));
    selection.finish()
}

struct Selection<'d> {
    target: &'d Target,
    disabled: &'d [Feature],
    deadline: Deadline,
    /// Cycles of the default variant.
    rule: Option<f64>,
    best: Option<(Variant, Plan)>,
    /// Why the first variant is impossible.
    refused: Option<IselError>,
    tried: Vec<Tried>,
}

impl Selection<'_> {
    /// Tries a variant, unless it cannot be better than the best so far.
    fn look(&mut self, variant: Variant) {
        let mma = variant.mma;
        let first = self.rule.is_none() && self.refused.is_none();
        let stops = self.disabled.contains(&Feature::Synthesis) || self.deadline.has_passed();
        if self.best.is_some() && stops {
            return;
        }
        let outcome = match self.plan(variant) {
            Ok(outcome) => outcome,
            Err(e) => {
                let outcome = Outcome::Refused(e.message.clone());
                self.refused.get_or_insert(e);
                outcome
            }
        };
        if !first {
            self.tried.push(Tried { point: Point::MmaVariant, way: Way::MmaVariant(mma), outcome });
        }
    }

    /// Plans a variant, if its lower bound is below the limit.
    fn plan(&mut self, variant: Variant) -> Result<Outcome> {
        if let Some(limit) = self.limit() {
            let least = self.least(&variant.kernel);
            if least >= limit {
                return Ok(Outcome::Bounded(least));
            }
        }
        let plan = plan::do_plan_until(&variant.kernel, self.target, self.disabled, self.deadline)?;
        let cycles = plan.search.as_ref().map_or(0.0, |f| f.best.total());
        if self.best.is_none() && self.refused.is_none() {
            self.rule = Some(cycles);
        }
        if self.limit().is_none_or(|limit| cycles < limit) {
            self.best = Some((variant, plan));
        }
        Ok(Outcome::Made(cycles))
    }

    /// Another variant must take fewer cycles than this.
    fn limit(&self) -> Option<f64> {
        let best = self.best.as_ref()?.1.search.as_ref()?.best.total();
        Some(self.rule.map_or(best, |rule| best.min(rule * (1.0 - CLEARLY))))
    }

    /// Lower bound on the cycles of a variant: the least cycles of copies and accesses in the best plan so far, plus
    /// its own MMAs.
    fn least(&self, k: &Kernel) -> f64 {
        let found = self.best.as_ref().and_then(|b| b.1.search.as_ref());
        found.map_or(0.0, |f| f.best.least - f.best.products) + plan::least_products(k, self.target)
    }

    fn finish(self) -> Result<(Variant, Plan)> {
        let Some((variant, mut plan)) = self.best else {
            return Err(self.refused.unwrap_or_else(|| IselError::whole("the kernel has no MMA variant")));
        };
        if let Some(found) = &mut plan.search {
            found.tried.extend(self.tried);
        }
        Ok((variant, plan))
    }
}
