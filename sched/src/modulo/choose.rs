//! Choices that the simulated block decides: the order of the warpgroups at the tensor cores, and the waits that are
//! pinned.
//!
//! Without turns, warpgroups may be in step or apart, and stay as they are. The expected interval is the mean of both,
//! weighted by how often they are found in step.
//!
//! A wait is pinned only if the tensor cores are the fullest unit. If another unit is, warpgroups fill each other's
//! gaps anyway, and the code that ptxas makes of a pinned body matters. Measured with small heads and three warpgroups,
//! where special functions are the fullest unit: a pin cost 5%, which the simulation does not show.

use super::block::steady;
use super::body::Body;
use super::search::Found;
use super::steps::{Step, Steps};
use warplift_ir::machine::{Inst, MmaOrderGain, Pins};
use warplift_ir::target::Unit;

/// Share of a loop's time for which warpgroups without turns are in step. The value is from attention with two
/// warpgroups. It took 3 to 5% longer without turns when its masks were held in registers, and has taken at most 0.4%
/// longer since.
const IN_STEP: f64 = 0.08;
/// Part of an interval that turns must save to be chosen.
const GAIN: f64 = 0.01;
/// Part of an interval that pins must save to be chosen. Of two loops whose pins were measured, one lost 2% where 1%
/// should have been saved.
const PIN_GAIN: f64 = 0.03;

/// The choice for a loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub mma_order: Option<MmaOrderGain>,
    pub pins: Option<Pins>,
}

/// Cycles of an iteration.
#[derive(Clone, Copy, Debug, Default)]
struct Cycles {
    staggered: f64,
    in_step: f64,
    expected: f64,
}

/// The steps with or without turns, and their cycles.
struct Way {
    loose: Cycles,
    /// Cycles with all movable waits pinned. `None` if no wait would move, or if pins are not allowed.
    pinned: Option<Cycles>,
    /// Whether the tensor cores are the fullest unit.
    tensor: bool,
}

impl Way {
    fn pins(&self) -> bool {
        self.tensor && self.pinned.is_some_and(|p| p.expected * (1.0 + PIN_GAIN) < self.loose.expected)
    }

    fn best(&self) -> Cycles {
        self.pinned.filter(|_| self.pins()).unwrap_or(self.loose)
    }
}

/// The options that the block leaves open.
pub(super) struct Choices {
    /// The mapping's decision on turns, if it makes one.
    pub mma_order: Option<bool>,
    /// Whether waits may be pinned.
    pub pins: bool,
}

/// Makes the choices for a schedule. `body` is its graph, with threads' work at its speed alone.
pub(super) fn choose(body: &Body, found: &Found, given: &Choices) -> Choice {
    let steps = Steps { body, found };
    let waits = if given.pins { steps.loose() } else { Vec::new() };
    let come = way(&steps, &waits, false);
    let ordered = (body.groups > 1).then(|| way(&steps, &waits, true));
    let gains = |t: &Way| t.best().expected * (1.0 + GAIN) < come.best().expected;
    let taken = given.mma_order.unwrap_or(ordered.as_ref().is_some_and(gains));
    let way = ordered.as_ref().filter(|_| taken).unwrap_or(&come);
    let pins = way.pinned.map(|p| Pins {
        waits: waits.iter().filter(|_| way.pins()).filter_map(|&n| last(body, n)).collect(),
        loose: way.loose.expected as u32,
        pinned: p.expected as u32,
    });
    let Cycles { staggered, in_step, expected } = come.best();
    let mma_order = ordered.as_ref().map(|t| MmaOrderGain {
        staggered: staggered as u32,
        in_step: in_step as u32,
        expected: expected as u32,
        ordered: t.best().expected as u32,
        work_inside: works_inside(&steps),
        given: given.mma_order.is_some(),
        taken,
    });
    Choice { mma_order, pins }
}

/// The instruction that stands for a wait.
fn last(body: &Body, node: usize) -> Option<Inst> {
    body.nodes[node].insts.last().copied()
}

fn way(steps: &Steps<'_>, waits: &[usize], mma_order: bool) -> Way {
    let pinned = (!waits.is_empty()).then(|| cycles(steps, waits, mma_order));
    let tensor = steps.body.taken().first().is_some_and(|t| t.0 == Unit::Tensor);
    Way { loose: cycles(steps, &[], mma_order), pinned, tensor }
}

fn cycles(steps: &Steps<'_>, pinned: &[usize], mma_order: bool) -> Cycles {
    let (all, groups) = (steps.all(mma_order, pinned), steps.body.groups.max(1));
    let in_step = steady(steps.body, &all, 0.0);
    if mma_order || groups == 1 {
        return Cycles { staggered: in_step, in_step, expected: in_step };
    }
    let staggered = steady(steps.body, &all, f64::from(steps.found.interval) / f64::from(groups));
    Cycles { staggered, in_step, expected: staggered + IN_STEP * (in_step - staggered).max(0.0) }
}

/// Whether threads' work stands between the first product of an iteration and the last.
fn works_inside(steps: &Steps<'_>) -> bool {
    let all = steps.all(true, &[]);
    let place = |step: &Step| all.iter().position(|s| s == step).unwrap_or(0);
    all[place(&Step::OrderWait)..place(&Step::Wake)].iter().any(|s| matches!(s, Step::Work(..)))
}

#[cfg(test)]
mod tests {
    use super::super::body::{Node, Pace, Resource, Usage, Wait};
    use super::super::search::best;
    use super::*;
    use warplift_ir::target::SM90A;

    fn product(atoms: u32, cycles: u32, reads_fragment: bool) -> Node {
        let usage = Usage::from_iter([(Unit::Tensor, cycles)]);
        Node {
            resource: Resource::Tensor,
            busy: cycles,
            latency: 66,
            usage,
            atoms,
            reads_fragment,
            ..Node::default()
        }
    }

    fn work(unit: Unit, busy: u32, issued: u32) -> Node {
        let usage = Usage::from_iter([(unit, busy), (Unit::None, issued)]);
        Node { resource: Resource::Threads, busy, usage, ..Node::default() }
    }

    /// Attention: scores, their wait, row maxima, powers, the second product, its wait, and the rescaling.
    fn attention(groups: u32, columns: u32, maxima: u32) -> Body {
        let mut b = Body { groups, registers: 184, pace: Pace::of(&SM90A), ..Body::default() };
        let tensor = columns * 4;
        b.nodes = vec![
            product(8, tensor, false),
            Node::default(),
            Node { whole: true, ..work(Unit::Alu, maxima, maxima / 2) },
            work(Unit::Sfu, columns * 4, columns),
            work(Unit::Sfu, columns / 2, columns / 4),
            product(columns / 16, tensor, true),
            Node::default(),
            work(Unit::Fma, columns / 2, columns / 2),
        ];
        b.edge(0, 1, Wait::Result, 0);
        b.closed = vec![(0, 1), (5, 6)];
        for (from, to) in [(1, 2), (2, 3), (3, 4), (4, 5), (7, 5)] {
            b.edge(from, to, Wait::End, 0);
        }
        b.edge(5, 6, Wait::Result, 0);
        b.edge(6, 7, Wait::Start, 1);
        b.edge(2, 7, Wait::End, 0);
        b.edge(3, 0, Wait::End, 1);
        b.edge(6, 4, Wait::Start, 1);
        b.settle();
        b
    }

    fn chosen(body: &Body, stages: u32, mma_order: Option<bool>) -> (Choice, u32) {
        let found = best(body, stages).unwrap();
        let stages = (0..body.nodes.len()).map(|n| found.stage(n)).max().unwrap();
        (choose(body, &found, &Choices { mma_order, pins: true }), stages)
    }

    #[test]
    fn two_warpgroups_take_turns_lest_they_are_in_step() {
        let (choice, stages) = chosen(&attention(2, 128, 172), 2, None);
        let mma_order = choice.mma_order.unwrap();
        assert_eq!(stages, 1);
        assert!(mma_order.taken && !mma_order.given && !mma_order.work_inside, "{mma_order:?}");
        assert!(
            mma_order.in_step > mma_order.staggered * 5 / 4
                && mma_order.ordered < mma_order.staggered * 21 / 20,
            "{mma_order:?}"
        );
        let (refused, _) = chosen(&attention(2, 128, 172), 2, Some(false));
        assert!(refused.mma_order.is_some_and(|t| t.given && !t.taken));
    }

    #[test]
    fn three_take_none_where_a_turn_holds_their_work() {
        let (choice, stages) = chosen(&attention(3, 112, 156), 1, None);
        let mma_order = choice.mma_order.unwrap();
        assert_eq!(stages, 0);
        assert!(
            !mma_order.taken && mma_order.work_inside && mma_order.ordered > mma_order.expected * 5 / 4,
            "{mma_order:?}"
        );
        assert!(
            chosen(&attention(1, 128, 172), 2, None).0.mma_order.is_none(),
            "one has nobody to take turns with"
        );
    }

    #[test]
    fn a_wait_is_pinned_where_nothing_before_it_is_worth_mixing() {
        let pins = chosen(&attention(2, 128, 172), 2, None).0.pins.unwrap();
        assert!(pins.waits.is_empty() && pins.pinned >= pins.loose, "{pins:?}");
        let found = best(&attention(2, 128, 10), 2).unwrap();
        let body = attention(2, 128, 10);
        let steps = Steps { body: &body, found: &found };
        assert_eq!(steps.loose(), [6]);
        let pins = chosen(&body, 2, None).0.pins.unwrap();
        assert!(pins.pinned < pins.loose, "{pins:?}");
    }
}
