//! The search over plans: depth first from the default plan. Each step changes one choice and continues only if the
//! plan improves. The number of plans is bounded (Hexcute, section 5.1, "Expanding Search Tree").
//!
//! ```text
//!  the default plan, 812 cycles
//!    ├─ 5:9 layout: 8 threads ..      640        better: from here on
//!    │    ├─ 7:9 layout: ..           900        worse
//!    │    └─ 9:5 access: its own      at least 655       not built
//!    └─ 6:9 swizzle: 64               at least 830       not built
//! ```
//!
//! Each step builds a whole plan, because choices propagate through constraints and none is independent. A lower
//! bound is known before: a choice that touches no register layout changes only its own cycles; for any other choice,
//! everything else is assumed at its least. The model is not a measurement, so the default plan stays unless another
//! one is clearly better.

use super::build::PlanBuilder;
use super::choices::{Choices, Point, Way};
use super::cost_summary::Cost;
use super::cost_summary::{Outcome, SearchSummary, Tried};
use super::types::Plan;
use crate::Result;
use warplift_ir::Deadline;

/// Limit on the plans that are built.
pub(super) const PLANS: usize = 16;
/// The share of the default plan's cycles that another plan must save.
pub(crate) const CLEARLY: f64 = 0.03;

/// The best plan found.
///
/// # Errors
/// The error of the default plan, if every plan is refused.
pub(super) fn do_search(builder: &PlanBuilder<'_>, deadline: Deadline) -> Result<Plan> {
    let (choices, rule) = builder.build(Choices::default());
    let mut search = Search { builder, deadline, rule: None, best: None, plans: 1, tried: Vec::new() };
    let refused = match rule {
        Ok((plan, cost)) => {
            search.rule = Some(cost);
            search.best = Some((plan, cost));
            None
        }
        Err(e) => Some(e),
    };
    search.descend(&choices, search.rule, &mut Vec::new());
    match refused {
        Some(e) if search.best.is_none() => Err(e),
        _ => search.finish(),
    }
}

struct Search<'m, 'k> {
    builder: &'m PlanBuilder<'k>,
    deadline: Deadline,
    rule: Option<Cost>,
    best: Option<(Plan, Cost)>,
    plans: usize,
    tried: Vec<Tried>,
}

impl Search<'_, '_> {
    /// Changes one choice of a plan after the other and continues from the better plans. `closed`: points that an
    /// outer step has tried.
    fn descend(&mut self, choices: &Choices, from: Option<Cost>, closed: &mut Vec<Point>) {
        let depth = closed.len();
        for point in choices.met() {
            if closed.contains(&point) {
                continue;
            }
            closed.push(point);
            for (n, &(way, _)) in choices.options(point).iter().enumerate() {
                if n != choices.at(point) {
                    self.step(choices, from, (point, n, way), closed);
                }
            }
        }
        closed.truncate(depth);
    }

    /// Another plan must take fewer cycles than this.
    fn limit(&self) -> Option<f64> {
        let best = self.best.as_ref()?.1.total();
        Some(self.rule.map_or(best, |rule| best.min(rule.total() * (1.0 - CLEARLY))))
    }

    fn step(
        &mut self,
        choices: &Choices,
        from: Option<Cost>,
        (point, n, way): (Point, usize, Way),
        closed: &mut Vec<Point>,
    ) {
        let least = from.map_or(0.0, |c| least(choices, &c, point, n));
        if self.limit().is_some_and(|limit| least >= limit) {
            self.tried.push(Tried { point, way, outcome: Outcome::Bounded(least) });
            return;
        }
        if self.plans == PLANS || self.deadline.has_passed() {
            return;
        }
        self.plans += 1;
        let (next, made) = self.builder.build(Choices::of(choices.with(point, way)));
        let outcome = match &made {
            Ok((_, cost)) => Outcome::Made(cost.total()),
            Err(e) => Outcome::Refused(e.message.clone()),
        };
        self.tried.push(Tried { point, way, outcome });
        let cost = made.as_ref().ok().map(|m| m.1);
        let better = |c: Cost| from.is_none_or(|f| c.total() < f.total());
        let goes_on = cost.map_or(from.is_none(), better);
        if let Ok((plan, cost)) = made
            && self.best.as_ref().is_none_or(|b| cost.total() < b.1.total())
        {
            self.best = Some((plan, cost));
        }
        if goes_on {
            self.descend(&next, cost, closed);
        }
    }

    /// The default plan, unless another one is clearly better.
    fn finish(mut self) -> Result<Plan> {
        let clearly = self.limit();
        let best =
            self.best.take().filter(|b| self.rule.is_none() || clearly.is_some_and(|c| b.1.total() <= c));
        let (mut plan, best) = match best {
            Some(best) => best,
            None => self.builder.build(Choices::default()).1?,
        };
        plan.search = Some(SearchSummary { rule: self.rule, best, plans: self.plans, tried: self.tried });
        Ok(plan)
    }
}

/// Lower bound on the cycles of a plan with another option at a point.
fn least(choices: &Choices, cost: &Cost, point: Point, n: usize) -> f64 {
    let options = choices.options(point);
    let (now, then) = (options[choices.at(point)].1, options[n].1);
    match point.spreads() {
        true => cost.least + then,
        false => cost.total() - now + then,
    }
}
