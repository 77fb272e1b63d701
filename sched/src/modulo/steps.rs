//! What a warpgroup does in an iteration, step by step, as its warps come to it.
//!
//! ```text
//!  order       S   P V   wait S   max   exp  sum   wait P V   rescale  pack
//!  pinned      S   P V   wait S   max │ exp  sum   wait P V   rescale  pack
//!  unpinned    S   P V   wait S   max   wait P V │ exp  sum  rescale  pack
//! ```
//!
//! Between two waits ptxas mixes threads' work as it likes: it takes as long as the unit that is taken longest, or
//! as its longest part. Only what needs all of a reduction stands behind it (│). A wait that nothing pins is moved up
//! to the last such place, since to ptxas what follows may then be mixed with what stood before (seen in attention:
//! the wait for the second product stood behind the row maxima, not behind the powers).

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
    /// Waits for one.
    Wait(usize),
    /// Threads' work: cycles alone, and the part of each unit that it takes meanwhile.
    Work(f64, Vec<(Unit, f64)>),
}

/// Steps of an iteration of a schedule.
pub(super) struct Steps<'b> {
    pub body: &'b Body,
    pub found: &'b Found,
}

impl Steps<'_> {
    /// The steps, with turns or not, and the waits (their nodes) that are pinned.
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

    /// Waits that ptxas would move if nothing pinned them.
    pub fn loose(&self) -> Vec<usize> {
        let order = self.order();
        let waits = (0..order.len()).filter(|&i| self.is_wait(order[i]));
        waits.filter(|&i| self.place(&order, i) < i).map(|i| order[i]).collect()
    }

    /// A body of one stage stays as it was written; its waits stand where results are first touched.
    fn order(&self) -> Vec<usize> {
        let nodes = 0..self.body.nodes.len();
        let pipelined = nodes.clone().any(|n| self.found.stage(n) > 0);
        if pipelined { self.found.order.clone() } else { nodes.collect() }
    }

    /// The order, with waits that nothing pins where ptxas puts them.
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

    /// Where a wait goes: before the work of the last level that precedes it.
    fn place(&self, order: &[usize], wait: usize) -> usize {
        let threads = |n: &&usize| self.body.nodes[**n].resource == Resource::Threads;
        let from = wait - order[..wait].iter().rev().take_while(threads).count();
        let levels = self.levels(&order[from..wait]);
        let last = levels.iter().max().copied().unwrap_or(0);
        levels.iter().position(|&l| l == last).map_or(wait, |at| from + at)
    }

    /// Work between two waits, by level: what needs all of a result stands above what makes it.
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
