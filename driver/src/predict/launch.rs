//! From walked blocks to the launch: what each block of the grid costs, and where it runs.
//!
//! ```text
//!  grid      ●──────○──────●   walked: the first block, and along each dimension the last ones and, where those
//!            │                 differ, blocks between; the others lie on straight lines between walked ones
//!            ●                 (where the text tells what each block computes: by that, whatever decides it)
//!
//!  places    SM 0   │ block 0 │ block 5 ... │     each multiprocessor has as many places as blocks fit beside
//!            SM 1   │ block 1     │ block 4 │     each other; the next block goes to the place that is free first
//!            SM 2   │ block 2 │ block 3   │
//!                                        end: the last block's, and no sooner than each unit has done its part
//! ```

use super::Walks;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Blocks that are placed one by one; of a larger grid, runs of equal length are placed as one.
const PLACED: u64 = 1 << 16;
/// Walked blocks along a dimension at most, ends included.
const WALKED: usize = 9;
/// Costs that differ by less count as equal.
const ALIKE: f64 = 0.01;

/// What a block costs, in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Beside others that start with it.
    pub together: f64,
    /// With a multiprocessor to itself.
    pub alone: f64,
    /// Of the unit that it takes longest.
    pub unit: f64,
}

impl Cost {
    fn map2(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            together: f(self.together, other.together),
            alone: f(self.alone, other.alone),
            unit: f(self.unit, other.unit),
        }
    }

    /// With a multiprocessor to itself once those have ended that begin beside it, which take so long alone.
    fn beside(self, others: f64) -> f64 {
        self.alone + (self.together - self.alone) * (others / self.alone.max(1.0)).min(1.0)
    }

    /// On the straight line to another one.
    pub fn toward(self, other: Self, part: f64) -> Self {
        self.map2(other, |a, b| a + part * (b - a))
    }

    fn is_alike(self, other: Self) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= ALIKE * a.max(b).max(1.0);
        close(self.together, other.together) && close(self.unit, other.unit)
    }
}

/// Costs of all blocks of a grid.
pub struct Costs {
    first: Cost,
    by: By,
}

/// What costs follow from.
enum By {
    /// Walked blocks along each dimension, from the first block, in order.
    Place { grid: [i64; 3], axes: [Vec<(f64, Cost)>; 3] },
    /// What each block computes, and walked blocks by that, the least first.
    Work { each: Vec<f64>, walked: Vec<(f64, Cost)> },
}

impl Costs {
    /// From the first block, which was walked; walks others while the walks have steps left. `work`: what each block computes.
    pub fn new(grid: [i64; 3], first: Cost, work: Option<Vec<f64>>, walks: &mut Walks<'_, '_, '_>) -> Self {
        let by = match work {
            Some(each) => By::Work { walked: by_work(grid, &each, first, walks), each },
            None => By::Place { grid, axes: [0, 1, 2].map(|d| along(d, grid[d], first, walks)) },
        };
        Self { first, by }
    }

    fn are_alike(&self) -> bool {
        let alike = |walked: &[(f64, Cost)]| walked.iter().all(|(_, cost)| cost.is_alike(self.first));
        match &self.by {
            By::Place { axes, .. } => axes.iter().all(|axis| alike(axis)),
            By::Work { walked, .. } => alike(walked),
        }
    }

    /// What all blocks take together, if every place had as much to do as every other one; `None` where blocks cost the same.
    pub fn shared_evenly(&self, blocks: u32, places: Places) -> Option<f64> {
        if self.are_alike() {
            return None;
        }
        let (run, others) = (u64::from(blocks).div_ceil(PLACED) as usize, self.of_others(blocks));
        let sum: f64 = (0..u64::from(blocks)).step_by(run).map(|b| self.of(b).beside(others)).sum();
        Some(sum * run as f64 / places.all())
    }

    /// How long a block takes in the mean that has a multiprocessor to itself; without an end where blocks are not told
    /// apart by what they compute.
    fn of_others(&self, blocks: u32) -> f64 {
        let By::Work { .. } = self.by else { return f64::INFINITY };
        let run = u64::from(blocks).div_ceil(PLACED) as usize;
        let each = (0..u64::from(blocks)).step_by(run).map(|b| self.of(b).alone);
        each.sum::<f64>() * run as f64 / f64::from(blocks)
    }

    /// By places, what a block costs beyond the first one is the sum of what it does along each dimension.
    fn of(&self, block: u64) -> Cost {
        let (grid, axes) = match &self.by {
            By::Place { grid, axes } => (grid, axes),
            By::Work { each, walked } => return interpolate(walked, each[block as usize]),
        };
        let [x, y, _] = grid.map(|n| n as u64);
        let place = [block % x, block / x % y, block / (x * y)];
        let steps = axes.iter().zip(place).map(|(axis, at)| interpolate(axis, at as f64));
        let moved =
            |cost: Cost, step: Cost| cost.map2(step.map2(self.first, |a, b| a - b), |a, b| (a + b).max(0.0));
        steps.fold(self.first, moved)
    }
}

/// Walks along a dimension from the first block: the last, and between neighbours that differ.
fn along(d: usize, extent: i64, first: Cost, walks: &mut Walks<'_, '_, '_>) -> Vec<(f64, Cost)> {
    let at = |i: i64| std::array::from_fn(|e| if e == d { i } else { 0 });
    let middle = |a: f64, b: f64| Some((a as i64).midpoint(b as i64) as f64).filter(|&m| m > a && m < b);
    let ends = if extent > 1 { vec![(extent - 1) as f64] } else { Vec::new() };
    let ends = ends.into_iter().filter_map(|x| Some((x, walks.another(at(x as i64))?))).collect();
    sample((0.0, first), ends, middle, |x| walks.another(at(x as i64)))
}

/// Walks blocks that compute most and least, and those between them.
fn by_work(grid: [i64; 3], each: &[f64], first: Cost, walks: &mut Walks<'_, '_, '_>) -> Vec<(f64, Cost)> {
    let mut all: Vec<(f64, u64)> = each.iter().copied().zip(0..).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.dedup_by_key(|b| b.0);
    let [x, y, _] = grid.map(|n| n as u64);
    let place = |work: f64| {
        let found = all[all.partition_point(|b| b.0 < work).min(all.len() - 1)].1;
        [found % x, found / x % y, found / (x * y)].map(|n| n as i64)
    };
    let middle = |a: f64, b: f64| {
        let at = all.partition_point(|w| w.0 < a.midpoint(b));
        [at, at.saturating_sub(1)].into_iter().map(|n| all[n].0).find(|&w| w > a && w < b)
    };
    let own = each[0];
    let (least, most) = (all[0].0, all[all.len() - 1].0);
    let far = |w: f64| (w - own).abs() > ALIKE * own.max(w);
    let mut ends: Vec<(f64, Cost)> = Vec::new();
    for end in [most, least].into_iter().filter(|&w| w != own) {
        let seen = if far(end) { walks.extreme(place(end)) } else { walks.another(place(end)) };
        ends.extend(seen.map(|cost| (end, cost)));
    }
    sample((own, first), ends, middle, |work| walks.another(place(work)))
}

/// Walks between neighbours that differ, from the first block and the ends, the widest gap first.
fn sample(
    first: (f64, Cost),
    mut line: Vec<(f64, Cost)>,
    middle: impl Fn(f64, f64) -> Option<f64>,
    mut walk: impl FnMut(f64) -> Option<Cost>,
) -> Vec<(f64, Cost)> {
    line.push(first);
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    while line.len() < WALKED {
        let unlike = line.windows(2).enumerate().filter(|(_, w)| !w[0].1.is_alike(w[1].1));
        let gaps = unlike.filter_map(|(k, w)| Some((k, middle(w[0].0, w[1].0)?, w[1].0 - w[0].0)));
        let Some((k, at, _)) = gaps.max_by(|a, b| a.2.total_cmp(&b.2)) else { break };
        let Some(cost) = walk(at) else { break };
        line.insert(k + 1, (at, cost));
    }
    line
}

/// On the straight lines between walked blocks.
fn interpolate(axis: &[(f64, Cost)], at: f64) -> Cost {
    let next = axis.partition_point(|&(i, _)| i < at).min(axis.len() - 1);
    let (end, after) = axis[next];
    let Some(&(start, before)) = next.checked_sub(1).and_then(|k| axis.get(k)) else { return after };
    let part = ((at - start) / (end - start)).clamp(0.0, 1.0);
    before.toward(after, part)
}

/// Where blocks run.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Blocks beside each other on each.
    pub resident: u32,
}

impl Places {
    /// How many there are.
    pub fn all(self) -> f64 {
        f64::from(self.multiprocessors * self.resident)
    }
}

/// When the last of so many blocks ends.
pub fn end(costs: &Costs, blocks: u32, places: Places) -> f64 {
    if costs.are_alike() {
        return end_of_equals(costs.first, blocks, places);
    }
    let run = u64::from(blocks).div_ceil(PLACED);
    let runs = u64::from(blocks).div_ceil(run);
    let most = (places.multiprocessors * places.resident) as usize;
    let mut free: BinaryHeap<Reverse<(u64, usize)>> = (0..most).map(|p| Reverse((0, p))).collect();
    // Of each multiprocessor: what its first blocks take together, and the units' part of all later ones.
    let mut busy = vec![[0.0_f64; 2]; places.multiprocessors as usize];
    let mut last = 0.0_f64;
    let others = costs.of_others(blocks);
    for k in 0..runs {
        let length = run.min(u64::from(blocks) - k * run) as f64;
        let cost = costs.of(k * run + run / 2);
        let Some(Reverse((start, place))) = free.pop() else { break };
        // Times are positive, so their bits are ordered as they are.
        let start = f64::from_bits(start);
        let is_first = start == 0.0;
        let together = cost.beside(others);
        let own = if is_first { together + (length - 1.0) * cost.alone } else { length * cost.alone };
        let sums = &mut busy[place % places.multiprocessors as usize];
        let later = if is_first { length - 1.0 } else { length };
        sums[0] = sums[0].max(if is_first { together } else { 0.0 });
        sums[1] += later * cost.unit;
        last = last.max(start + own).max(sums[0] + sums[1]);
        free.push(Reverse(((start + own).to_bits(), place)));
    }
    last
}

/// The closed form where all blocks cost the same.
fn end_of_equals(cost: Cost, blocks: u32, places: Places) -> f64 {
    let most = blocks.div_ceil(places.multiprocessors);
    let waves = blocks.div_ceil(places.multiprocessors * places.resident);
    let units = f64::from(most.saturating_sub(places.resident)) * cost.unit;
    cost.together + (f64::from(waves - 1) * cost.alone).max(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(grid: [i64; 3], axes: [Vec<(i64, f64)>; 3]) -> Costs {
        let cost = |c: f64| Cost { together: c, alone: c, unit: c / 2.0 };
        let axes = axes.map(|axis| axis.into_iter().map(|(i, c)| (i as f64, cost(c))).collect::<Vec<_>>());
        Costs { first: axes[0][0].1, by: By::Place { grid, axes } }
    }

    const PLACES: Places = Places { multiprocessors: 4, resident: 2 };

    #[test]
    fn blocks_that_cost_the_same_are_counted_or_placed_alike() {
        let first = |n| vec![(0, 100.0), (n - 1, 100.0)];
        for blocks in [1, 4, 7, 8, 9, 17, 64] {
            let same = costs([blocks, 1, 1], [first(blocks), first(1), first(1)]);
            let near = costs([blocks, 1, 1], [vec![(0, 100.0), (blocks, 102.0)], first(1), first(1)]);
            let (a, b) = (end(&same, blocks as u32, PLACES), end(&near, blocks as u32, PLACES));
            assert!((a / b - 1.0).abs() < 0.03, "{blocks}: {a} {b}");
        }
    }

    #[test]
    fn a_long_block_at_the_end_is_waited_for() {
        let one = vec![(0, 10.0)];
        let axis = vec![(0, 10.0), (30, 10.0), (31, 500.0)];
        let late = end(&costs([32, 1, 1], [axis, one.clone(), one.clone()]), 32, PLACES);
        assert_eq!(late, 10.0 * 3.0 + 500.0);
        let axis = vec![(0, 500.0), (1, 10.0), (31, 10.0)];
        let early = end(&costs([32, 1, 1], [axis, one.clone(), one]), 32, PLACES);
        assert!(early < 520.0, "{early}");
    }

    #[test]
    fn costs_lie_on_lines_between_walked_blocks() {
        let of =
            costs([11, 3, 1], [vec![(0, 10.0), (10, 30.0)], vec![(0, 10.0), (2, 14.0)], vec![(0, 10.0)]]);
        assert_eq!(of.of(5).alone, 20.0);
        assert_eq!(of.of(11 + 5).alone, 22.0);
    }
}
