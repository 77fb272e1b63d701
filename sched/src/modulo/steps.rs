//! The steps of a warpgroup in an iteration, in the order in which its warps reach them.
//!
//! ```text
//!  order       S   P V   wait S   max   exp  sum   wait P V   rescale  pack
//!  pinned      S   P V   wait S   max │ exp  sum   wait P V   rescale  pack
//!  unpinned    S   P V   wait S   max   wait P V │ exp  sum  rescale  pack
//! ```
//!
//! Between two waits ptxas reorders threads' work freely. The work takes as long as the most occupied unit, or as its
//! longest part. Only work that needs all of a reduction stays behind it (│). A wait that is not pinned moves up to the
//! last such place, since ptxas may then mix the work after it with the work before it (seen in attention: the wait for
//! the second product stood behind the row maxima, not behind the powers).

use super::body::{Body, Edge, Resource, Usage};
use super::search::Found;
use rustc_hash::FxHashMap;
use warplift_ir::target::Unit;

/// A step of a warpgroup.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Waits for its turn.
    OrderWait,
    /// Wakes the next one.
    Wake,
    /// Issues a product, by its node.
    Product(usize),
    /// Waits for a product, by its wait's node.
    Wait(usize),
    /// Threads' work: its cycles alone, and the part of each unit that it takes during them.
    Work(f64, Vec<(Unit, f64)>),
}

/// The steps of an iteration of a schedule.
pub(super) struct Steps<'b> {
    pub body: &'b Body,
    pub found: &'b Found,
}

impl Steps<'_> {
    /// The steps, with or without turns. `pinned`: nodes of the pinned waits.
    pub fn all(&self, mma_order: bool, pinned: &[usize]) -> Vec<Step> {
        let order = self.placed(pinned);
        let tensor = |n: &usize| self.body.nodes[*n].resource == Resource::Tensor;
        let first = order.iter().position(tensor).filter(|_| mma_order);
        let last = order.iter().rposition(tensor).filter(|_| mma_order);
        let (mut steps, mut work) = (Vec::new(), Vec::new());
        for (i, &n) in order.iter().enumerate() {
            if self.body.nodes[n].resource == Resource::Threads {
                work.push(n);
                continue;
            }
            self.flush(&mut work, &mut steps);
            steps.extend((first == Some(i)).then_some(Step::OrderWait));
            steps.extend(tensor(&n).then_some(Step::Product(n)));
            steps.extend(self.body.closed.iter().filter(|c| c.1 == n).map(|c| Step::Wait(c.0)));
            steps.extend((last == Some(i)).then_some(Step::Wake));
        }
        self.flush(&mut work, &mut steps);
        steps
    }

    /// Waits that ptxas would move if they are not pinned.
    pub fn loose(&self) -> Vec<usize> {
        let order = self.order();
        let waits = (0..order.len()).filter(|&i| self.is_wait(order[i]));
        waits.filter(|&i| self.place(&order, i) < i).map(|i| order[i]).collect()
    }

    /// The order of the nodes. A body of one stage stays as it was written, with waits where results are first used, unless
    /// its products rise.
    fn order(&self) -> Vec<usize> {
        let nodes = 0..self.body.nodes.len();
        let pipelined = nodes.clone().any(|n| self.found.stage(n) > 0);
        if pipelined || self.found.rises() { self.found.order.clone() } else { nodes.collect() }
    }

    /// The order as ptxas would have it: waits that are not pinned are moved.
    fn placed(&self, pinned: &[usize]) -> Vec<usize> {
        let mut order = self.order();
        for i in 0..order.len() {
            if self.is_wait(order[i]) && !pinned.contains(&order[i]) {
                let to = self.place(&order, i);
                order[to..=i].rotate_right(1);
            }
        }
        order
    }

    fn is_wait(&self, n: usize) -> bool {
        self.body.closed.iter().any(|c| c.1 == n)
    }

    /// The place of a wait: before the last level of the work that precedes it.
    fn place(&self, order: &[usize], wait: usize) -> usize {
        let threads = |n: &&usize| self.body.nodes[**n].resource == Resource::Threads;
        let from = wait - order[..wait].iter().rev().take_while(threads).count();
        let levels = self.levels(&order[from..wait]);
        let last = levels.iter().max().copied().unwrap_or(0);
        levels.iter().position(|&l| l == last).map_or(wait, |at| from + at)
    }

    /// The level of each work between two waits. Work that needs all of a result is above the work that computes it.
    fn levels(&self, work: &[usize]) -> Vec<usize> {
        let mut level: FxHashMap<usize, usize> = FxHashMap::default();
        for &n in work {
            let within =
                |e: &&Edge| e.to == n && self.found.stage(e.from) == self.found.stage(n) + e.distance;
            let above = self
                .body
                .edges
                .iter()
                .filter(within)
                .filter_map(|e| Some(level.get(&e.from)? + usize::from(self.body.nodes[e.from].whole)));
            let own = above.max().unwrap_or(0);
            level.insert(n, own);
        }
        work.iter().map(|n| level[n]).collect()
    }

    fn flush(&self, work: &mut Vec<usize>, steps: &mut Vec<Step>) {
        let levels = self.levels(work);
        for level in 0..=levels.iter().max().copied().unwrap_or(0) {
            let here = work.iter().zip(&levels).filter(|w| *w.1 == level).map(|w| &self.body.nodes[*w.0]);
            let (mut usage, mut longest) = (Usage::default(), 0);
            for node in here {
                longest = longest.max(node.busy);
                for (&unit, &cycles) in &node.usage {
                    *usage.entry(unit).or_default() += cycles;
                }
            }
            let cycles = usage.values().copied().max().unwrap_or(0).max(longest);
            if cycles > 0 {
                let part = |(unit, taken): (Unit, u32)| (unit, f64::from(taken) / f64::from(cycles));
                steps.push(Step::Work(cycles.into(), usage.into_iter().map(part).collect()));
            }
        }
        work.clear();
    }
}
