//! A simulated block: all its warpgroups run the steps of a loop beside each other.
//!
//! ```text
//!  apart     0   S PV ── softmax ─────────  S PV ── softmax ─────────
//!            1   ─ softmax ── S PV ── softmax ─────────  S PV ── ..
//!
//!  in step   0   S ·· PV ·· softmax ─────── S ·· PV ·· softmax ───────     products wait for each other, then
//!            1   · S ·· PV ·· softmax ─────── S ·· PV ·· softmax ─────     the tensor cores for all softmax
//! ```
//!
//! Both states are stable: warpgroups that are in step get apart only by chance. Turns allow only the first state.
//!
//! The tensor cores run one instruction after the other, in the order of issue. A product with both operands in shared
//! memory issues all its instructions at once. A product with a fragment issues them two ahead, so that another product
//! may overtake it. Threads' work is slower while the tensor cores run. Warpgroups share issue slots and units: each
//! work takes its part of a unit, and all work is slowed by the same factor if a unit is wanted more than it can give.
//! Data of copies and loads is assumed to be there.

use super::body::Body;
use super::steps::Step;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use warplift_ir::target::Unit;

/// Simulated iterations. In the first half the warpgroups settle to a stable distance; the second half is measured.
const ITERATIONS: usize = 16;
/// More than the number of units.
const UNITS: usize = 16;
/// Cycles below this count as none, because sums of fractions are not exact.
const NOTHING: f64 = 1e-6;

/// An instruction on the tensor cores.
struct Atom {
    left: f64,
    group: usize,
    product: usize,
    last: bool,
}

/// The state of a warpgroup.
#[derive(Default)]
struct Group {
    step: usize,
    /// Times at which iterations end.
    ends: Vec<f64>,
    /// The warpgroup does nothing before this time.
    until: f64,
    /// The rest of the step: instructions to issue, or cycles of work.
    left: Option<f64>,
    /// Speed of its work; 0 if there is none.
    rate: f64,
    /// Its instructions on the tensor cores.
    queued: usize,
    /// The time at which each product is complete. A product in flight is absent.
    done: FxHashMap<usize, f64>,
    /// The time at which its turn begins, if it was woken.
    woken: Option<f64>,
}

struct Block<'b> {
    body: &'b Body,
    steps: &'b [Step],
    groups: Vec<Group>,
    queue: VecDeque<Atom>,
    now: f64,
}

/// Cycles of an iteration in the steady state. At the start the warpgroups are `staggered` cycles apart.
pub(super) fn steady(body: &Body, steps: &[Step], staggered: f64) -> f64 {
    let start = |n: u32| Group { until: f64::from(n) * staggered, ..Group::default() };
    let groups: Vec<Group> = (0..body.groups.max(1)).map(start).collect();
    let mut block = Block { body, steps, groups, queue: VecDeque::new(), now: 0.0 };
    block.groups[0].woken = Some(0.0);
    block.run();
    let half = ITERATIONS / 2;
    let each = block.groups.iter().map(|g| (g.ends[ITERATIONS - 1] - g.ends[half - 1]) / half as f64);
    each.fold(0.0, f64::max)
}

impl Block<'_> {
    fn run(&mut self) {
        while self.groups.iter().any(|g| g.ends.len() < ITERATIONS) {
            while (0..self.groups.len()).any(|g| self.advance(g)) {}
            self.set_rates();
            let Some(cycles) = self.until_next() else { return };
            self.pass(cycles);
        }
    }

    /// Whether a warpgroup has ended, or is issuing.
    fn is_away(&self, g: usize) -> bool {
        self.groups[g].ends.len() >= ITERATIONS || self.groups[g].until > self.now + NOTHING
    }

    /// Advances a warpgroup through everything that takes no time. Returns whether it did anything.
    fn advance(&mut self, g: usize) -> bool {
        if self.is_away(g) {
            return false;
        }
        let (now, next) = (self.now, (g + 1) % self.groups.len());
        let group = &mut self.groups[g];
        let over = match &self.steps[group.step] {
            Step::OrderWait => group.woken.take_if(|t| *t <= now + NOTHING).is_some(),
            Step::Wake => {
                self.groups[next].woken = Some(now + self.body.pace.wake);
                true
            }
            Step::Product(n) => return self.issue(g, *n),
            Step::Wait(n) => group.done.get(n).is_none_or(|&t| t <= now + NOTHING),
            Step::Work(cycles, _) => *group.left.get_or_insert(*cycles) <= NOTHING,
        };
        if over {
            self.go_on(g);
        }
        over
    }

    /// Gives instructions of a product to the tensor cores. Returns whether it gave any.
    fn issue(&mut self, g: usize, product: usize) -> bool {
        let (node, group) = (&self.body.nodes[product], &mut self.groups[g]);
        // A fragment is read when the instructions issued before are complete.
        if group.left.is_none() && node.reads_fragment && group.queued > 0 {
            return false;
        }
        let mut left = group.left.map_or(node.atoms as usize, |l| l as usize);
        if left == 0 {
            self.go_on(g);
            return true;
        }
        let ahead = if node.reads_fragment { self.body.pace.ahead } else { usize::MAX };
        let now = left.min(ahead.saturating_sub(group.queued));
        for _ in 0..now {
            left -= 1;
            let cycles = f64::from(node.busy) / f64::from(node.atoms);
            self.queue.push_back(Atom { left: cycles, group: g, product, last: left == 0 });
        }
        group.queued += now;
        group.done.insert(product, f64::INFINITY);
        group.left = Some(left as f64);
        group.until =
            if node.reads_fragment { self.now } else { self.now + self.body.pace.issue * now as f64 };
        now > 0
    }

    fn go_on(&mut self, g: usize) {
        let group = &mut self.groups[g];
        group.left = None;
        group.step += 1;
        if group.step == self.steps.len() {
            group.step = 0;
            group.ends.push(self.now);
        }
    }

    /// Units that the current work of a warpgroup takes.
    fn work(&self, g: usize) -> Option<&[(Unit, f64)]> {
        match &self.steps[self.groups[g].step] {
            Step::Work(_, usage) if !self.is_away(g) => Some(usage),
            _ => None,
        }
    }

    /// Sets the speed of each warpgroup's work, relative to its speed alone.
    fn set_rates(&mut self) {
        let beside = if self.queue.is_empty() { 1.0 } else { self.body.pace.beside };
        let mut wanted = [0.0; UNITS];
        let works = || (0..self.groups.len()).map(|g| self.work(g));
        works().flatten().flatten().for_each(|&(unit, part)| wanted[unit as usize] += beside * part);
        let slowest = |w: &[(Unit, f64)]| w.iter().map(|u| wanted[u.0 as usize]).fold(1.0, f64::max);
        let rates: Vec<f64> = works().map(|w| w.map_or(0.0, |w| beside / slowest(w))).collect();
        self.groups.iter_mut().zip(rates).for_each(|(g, rate)| g.rate = rate);
    }

    /// Cycles until the next event; `None` if nothing is under way.
    fn until_next(&self) -> Option<f64> {
        let ends = self.groups.iter().filter_map(|group| match &self.steps[group.step] {
            _ if group.ends.len() >= ITERATIONS => None,
            _ if group.until > self.now + NOTHING => Some(group.until - self.now),
            Step::OrderWait => Some(group.woken? - self.now),
            Step::Wait(n) => Some(group.done.get(n)? - self.now).filter(|t| t.is_finite()),
            Step::Work(..) => Some(group.left? / group.rate),
            _ => None,
        });
        ends.chain(self.queue.front().map(|a| a.left)).min_by(f64::total_cmp).map(|t| t.max(NOTHING))
    }

    fn pass(&mut self, cycles: f64) {
        self.now += cycles;
        for group in self.groups.iter_mut().filter(|g| g.rate > 0.0) {
            group.left = group.left.map(|l| l - cycles * group.rate);
        }
        let Some(first) = self.queue.front_mut() else { return };
        first.left -= cycles;
        if first.left <= NOTHING {
            let (g, product, last) = (first.group, first.product, first.last);
            self.queue.pop_front();
            self.groups[g].queued -= 1;
            if last {
                self.groups[g].done.insert(product, self.now + self.body.pace.latency);
            }
        }
    }
}
