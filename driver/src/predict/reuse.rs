//! What device memory moves again because the L2 has lost it before somebody asks for it once more.
//!
//! ```text
//!  between tiles     wave 0   A0 A1 .. A131  B0        tiles of a wave run beside each other: all of this once
//!                    wave 1   A0 A1 .. A131  B1        A0 again, behind a wave's bytes: from memory if those are more than
//!                                                      the L2 holds
//!  within a block    x[0..n]  sums  x[0..n]            again, behind n of its own and n of every other block that runs
//! ```
//!
//! Both are stack distances (Evaluation techniques for storage hierarchies): bytes of
//! different places that were asked for in between. What a launch writes counts too.

use super::floor::Reads;
use super::traffic::{Requests, refetched};
use super::unequal::Unequal;
use super::walk::Walked;
use super::{PredictError, WAITED, Walks};

/// Bytes beyond what a launch reads once from which on it matters which of them come from the L2.
const MORE: f64 = 1.05;

/// What the blocks of a launch ask for again.
struct Reuse {
    /// Bytes that device memory moves again.
    again: f64,
    /// Those of them that a block has asked for before itself, by the name of the array: it waits for them.
    within: Reads,
    /// Bytes of a block's own after which the L2 has lost what it asked for before.
    lost: f64,
    /// Whether the order of tiles tells all of it.
    whole: bool,
}

impl Walks<'_, '_, '_> {
    /// Bytes of each array for which blocks wait, of which these are read once, and notes what comes again. What comes again
    /// between tiles takes device memory's time, and nobody waits longer: a bias of all queries and keys, which each batch reads again,
    /// is measured at 1.38 to 1.41 of attention without it, and predicted at 1.63 with such waits.
    pub(super) fn moved(
        &mut self,
        blocks: u32,
        end: f64,
        requests: &Requests,
        (reads, work): (&Reads, &Unequal<'_>),
    ) -> Reads {
        let mut moved = reads.clone();
        if let Some(Reuse { again, within, lost, whole }) = self.reuse(blocks, end, requests, (reads, work)) {
            (self.again, self.scene.lost) = ((again, whole), lost);
            within.into_iter().for_each(|(name, bytes)| *moved.entry(name).or_default() += bytes);
        }
        moved
    }

    /// What all blocks ask for again, of which the first asks for this, where that takes device memory a good part of
    /// their time or more.
    fn reuse(
        &self,
        blocks: u32,
        end: f64,
        requests: &Requests,
        (reads, work): (&Reads, &Unequal<'_>),
    ) -> Option<Reuse> {
        let all = self.mean * f64::from(blocks);
        let names: Vec<Option<&str>> = self.program.arrays().collect();
        let sum = |name: &str, of: &dyn Fn(u32) -> f64| {
            let own = names.iter().zip(0..).filter(|(other, _)| **other == Some(name));
            all * own.map(|(_, parameter)| of(parameter)).sum::<f64>()
        };
        let read: f64 = reads.values().sum();
        let asked: f64 = reads.keys().map(|name| sum(name, &|p| requests.all_of(p))).sum();
        if asked < MORE * read || asked / self.target.rates.memory_bytes_per_cycle < WAITED * end {
            return None;
        }
        let cache = f64::from(self.target.l2_bytes);
        let beside = blocks.min(self.target.multiprocessors * self.resident);
        let order = work.order(beside, cache);
        let first: f64 = reads.keys().map(|name| sum(name, &|p| requests.of(p))).sum();
        let distinct = order.as_ref().map_or((read / first.max(1.0)).min(1.0), |o| o.0.distinct);
        let lost = cache / (f64::from(beside) * distinct).max(1.0);
        let between = |name: &str| order.as_ref().and_then(|(order, names)| order.of(names, name));
        // Behind more than a tile asks for, another tile of the block asks.
        let tiles = order.as_ref().map_or(1.0, |o| (o.0.tiles as f64 / f64::from(blocks)).max(1.0));
        let tile = (0..names.len() as u32).map(|p| requests.all_of(p)).sum::<f64>() / tiles;
        let far = |p| if tiles > 1.0 { requests.rereads(p, lost.max(tile)) } else { 0.0 };
        let within = |(name, &read): (&String, &f64)| {
            let share = (read / sum(name, &|p| requests.of(p)).max(1.0)).min(1.0);
            (name.clone(), share * sum(name, &|p| requests.rereads(p, lost) - far(p)))
        };
        let within: Reads = reads.iter().map(within).collect();
        let again = within.iter().map(|(name, bytes)| bytes.max(between(name).unwrap_or(0.0))).sum();
        let whole = reads.keys().all(|name| between(name).is_some());
        Some(Reuse { again, within, lost, whole })
    }

    /// Cycles of device memory for what blocks ask for again after it has left the L2. Where the order of tiles does not tell it
    /// and all that is asked for takes less than the blocks, it does not matter what comes back. Of programs that draw
    /// their tiles neighbours are not known: each walks its own way through the grid.
    pub(super) fn read_again(
        &mut self,
        grid: [i64; 3],
        blocks: u32,
        walked: &Walked,
        (end, slowdown): (f64, f64),
    ) -> Result<f64, PredictError> {
        let rate = self.target.rates.memory_bytes_per_cycle / slowdown;
        let (again, whole) = self.again;
        let asked = self.mean * f64::from(blocks) * walked.requests.bytes();
        let far = match whole || walked.draws || asked / rate < end {
            true => 0.0,
            false => self.mean * self.far_again(grid, blocks, &walked.requests)?,
        };
        Ok(far.max(again) / rate)
    }

    /// Bytes that device memory moves again because the L2 has lost them: by comparison with the first block's
    /// neighbours.
    fn far_again(&mut self, grid: [i64; 3], blocks: u32, first: &Requests) -> Result<f64, PredictError> {
        let cache = f64::from(self.target.l2_bytes);
        if grid[1] * grid[2] <= 1 || f64::from(blocks) * first.bytes() <= cache {
            return Ok(0.0);
        }
        let next = self.others(grid, |_| 1)?.map(|walked| walked.map(|walked| walked.requests));
        Ok(refetched(first, &next, grid, cache))
    }
}
