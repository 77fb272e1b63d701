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
use crate::problem::{Strip, Tiles};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes beyond what a launch reads once from which on it matters which of them come from the L2.
const MORE: f64 = 1.05;

/// What the blocks of a launch ask for again.
struct Reuse {
    /// Bytes that device memory moves again, by the name of the array.
    again: Reads,
    /// Bytes of a block's own after which the L2 has lost what it asked for before.
    lost: f64,
    /// Whether the order of tiles tells all of it.
    whole: bool,
}

impl Walks<'_, '_, '_> {
    /// Bytes that device memory moves of each array, of which these are read once: notes what of them comes again.
    pub(super) fn moved(
        &mut self,
        blocks: u32,
        end: f64,
        requests: &Requests,
        (reads, work): (&Reads, &Unequal<'_>),
    ) -> Reads {
        let mut moved = reads.clone();
        if let Some(Reuse { again, lost, whole }) = self.reuse(blocks, end, requests, (reads, work)) {
            (self.again, self.scene.lost) = ((again.values().sum(), whole), lost);
            again.into_iter().for_each(|(name, bytes)| *moved.entry(name).or_default() += bytes);
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
        let again = |(name, &read): (&String, &f64)| {
            let share = (read / sum(name, &|p| requests.of(p)).max(1.0)).min(1.0);
            let within = share * sum(name, &|p| requests.again(p, lost));
            (name.clone(), within.max(between(name).unwrap_or(0.0)))
        };
        let whole = reads.keys().all(|name| between(name).is_some());
        Some(Reuse { again: reads.iter().map(again).collect(), lost, whole })
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

/// What the tiles of a launch ask for, wave after wave.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Bytes of each array that is read, as far as they come again from device memory.
    pub again: FxHashMap<usize, f64>,
    /// Of all bytes that the tiles of a wave ask for, the part that others of it do not ask for too.
    pub distinct: f64,
}

impl Order {
    /// Bytes that come again of the array with a name, where these are all names; `None` where it is not known.
    fn of(&self, names: &[&str], name: &str) -> Option<f64> {
        self.again.get(&names.iter().position(|n| *n == name)?).copied()
    }
}

/// An array, and a place in it.
type Place = (usize, u64);

/// Tiles in their order, so many beside each other, with a cache of so many bytes. Those that were not looked at are taken
/// to go on like the others.
pub fn in_order(Tiles { all, each }: &Tiles, beside: usize, cache: f64) -> Order {
    // Bytes of the places that a wave asked for last, and the wave of each place.
    let (mut live, mut last): (Vec<f64>, FxHashMap<Place, usize>) = Default::default();
    let (mut order, mut asked, mut own) = (Order::default(), 0.0, 0.0);
    for (wave, tiles) in each.chunks(beside.max(1)).enumerate() {
        asked += tiles.iter().flatten().map(|s| s.bytes).sum::<f64>();
        let mut seen: FxHashSet<Place> = FxHashSet::default();
        let strips: Vec<&Strip> =
            tiles.iter().flatten().filter(|s| seen.insert((s.array, s.place))).collect();
        let bytes: f64 = strips.iter().map(|s| s.bytes).sum();
        own += bytes;
        // From a wave on: what was asked for since it began, each place once.
        let mut since: Vec<f64> = live.clone();
        (1..wave).rev().for_each(|w| since[w - 1] += since[w]);
        for strip in strips {
            let before = last.insert((strip.array, strip.place), wave);
            before.into_iter().for_each(|w| live[w] -= strip.bytes);
            if !strip.written {
                let lost = before.is_some_and(|w| since[w] > cache);
                *order.again.entry(strip.array).or_default() += if lost { strip.bytes } else { 0.0 };
            }
        }
        live.push(bytes);
    }
    order.distinct = own / f64::max(asked, 1.0);
    let more = *all as f64 / each.len().max(1) as f64;
    order.again.values_mut().for_each(|bytes| *bytes *= more);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of `rows` times `columns`, rows first: strips of 10 bytes of the rows, of one byte of the columns.
    fn tiles(rows: u64, columns: u64) -> Tiles {
        let strip = |array, place, bytes| Strip { array, place, bytes, written: false };
        let tile = |n: u64| vec![strip(0, n % rows, 10.0), strip(1, n / rows, 1.0)];
        let all = rows * columns;
        Tiles { all, each: (0..all).map(tile).collect() }
    }

    #[test]
    fn rows_come_again_unless_a_wave_fits() {
        let tiles = tiles(8, 4);
        let of = |cache| in_order(&tiles, 8, cache).again;
        assert_eq!((of(80.0)[&0], of(81.0)[&0]), (240.0, 0.0), "a wave is 81 bytes");
        assert_eq!(of(80.0)[&1], 0.0, "a column is asked for by one wave alone");
    }

    /// Waves of half a column: a row comes again behind the other half.
    #[test]
    fn distances_are_those_of_different_places() {
        let tiles = tiles(8, 4);
        let again = |cache| in_order(&tiles, 4, cache).again[&0];
        assert_eq!((again(80.0), again(82.0)), (240.0, 0.0));
        assert_eq!(in_order(&tiles, 4, 1e9).distinct, 41.0 / 44.0);
    }

    #[test]
    fn what_is_written_takes_room() {
        let mut tiles = tiles(2, 2);
        let written = |n| Strip { array: 2, place: n, bytes: 100.0, written: true };
        tiles.each.iter_mut().zip(0..).for_each(|(tile, n)| tile.push(written(n)));
        let again = in_order(&tiles, 2, 200.0).again;
        assert_eq!((again[&0], again.get(&2)), (20.0, None));
    }

    #[test]
    fn tiles_that_were_not_looked_at_go_on() {
        let mut tiles = tiles(8, 4);
        tiles.each.truncate(16);
        assert_eq!(in_order(&tiles, 8, 80.0).again[&0], 160.0);
    }
}
