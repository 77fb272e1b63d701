//! From the best proposal on: its neighbours are tried, and theirs, as long as one is better.
//!
//! ```text
//!              warps 8
//!                 │
//!  B = 512 ── B = 1024, warps 4 ── B = 2048        one step: half or twice the warps, the next value of a tunable,
//!                 │                                rows of loops through a ring
//!              warps 2 ── warps 1                  a loop shared out among blocks
//!                                                  with products: arrays staged, operands made part by part
//!                                                  without: other ways to rows that are loaded whole
//! ```
//!
//! Proposals lie around the defaults of a text. What its author did not think of is a few steps away, and a grid of all
//! steps would be too many to compile.

use super::propose::{self, settable};
use super::{Candidate, whole_rows};
use crate::problem::{Problem, Sizes, grid_of, multiplies};
use warplift_ir::target::Target;
use warplift_ir::tile::{
    ArrayMapping, Depth, Domain, Epilogue, Inst, Kernel, LoopMapping, MAX_SLICES, Mapping, Op, Tunable, Way,
};
use warplift_isel::map::can_split_k;

/// Steps at most.
pub(super) const STEPS: usize = 4;
/// What a step must gain. All that device memory bounds is predicted alike: a step that tied was measured to take 3% to 14% longer
/// (`row_sum`, `layer_norm`).
const GAIN: f64 = 0.03;
/// The same beside products, which take most of the time.
const GAIN_BESIDE_PRODUCTS: f64 = 0.01;
/// Warps of a block.
const WARPS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Waves of blocks at most that share out loops, and how many such numbers of slices are tried, the greatest first.
const SHARED_WAVES: f64 = 8.0;
const SLICINGS: usize = 4;
/// Stages of a ring.
const STAGES: u32 = 4;

/// Mappings that differ from one in one choice.
pub(super) fn neighbours(
    kernel: &Kernel,
    mapping: &Mapping,
    (sizes, target): (&Sizes, &Target),
) -> Vec<Mapping> {
    if multiplies(kernel) {
        return ways_beside_products(kernel, mapping);
    }
    let tunables = settable(kernel).into_iter().flat_map(|t| values_beside(kernel, mapping, t));
    let problem = Problem::new(kernel, mapping, sizes.clone()).ok();
    let filled =
        problem.as_ref().and_then(|p| blocks(p, sizes)).map(|n| n / f64::from(target.multiprocessors));
    let shared_out = filled.map_or(Vec::new(), |filled| shared_out(kernel, mapping, filled));
    let rows = problem.map_or(Vec::new(), |p| whole_rows::other_ways(&p.resolved, mapping, target));
    let steps = warps_beside(mapping).into_iter().chain(tunables).chain(staged(kernel, mapping));
    steps.chain(shared_out).chain(rows).collect()
}

/// Blocks of a launch, without those that share out a loop.
fn blocks(problem: &Problem, sizes: &Sizes) -> Option<f64> {
    Some(grid_of(&problem.resolved, sizes)?.iter().map(|&n| n as f64).product())
}

/// A loop's iterations shared out among blocks, which fill `filled` waves without that: so many that they fill the multiprocessors once or a few times, or half or twice
/// as many as now.
fn shared_out(kernel: &Kernel, mapping: &Mapping, filled: f64) -> Vec<Mapping> {
    let loops = kernel.insts.keys().filter_map(|i| warplift_isel::loop_name(kernel, i));
    let loops = loops.filter(|name| can_split_k(kernel, name));
    let with = |name: &str, slices: u32| {
        let mut other = mapping.clone();
        looped(&mut other, name).split_k = Some(slices);
        other
    };
    let now = mapping.loops.iter().find_map(|(name, l)| Some((name.clone(), l.split_k?)));
    match now {
        Some((name, slices)) => {
            [slices / 2, slices * 2].into_iter().filter(|&n| n > 1).map(|n| with(&name, n)).collect()
        }
        None => {
            let most = SHARED_WAVES / filled.max(f64::MIN_POSITIVE);
            let slices = (1..u32::BITS - 1).map(|n| 1 << n).take_while(|&n| f64::from(n) <= most);
            let slices: Vec<u32> = slices.filter(|&n| n <= MAX_SLICES).collect();
            let last = slices.iter().rev().take(SLICINGS);
            loops.flat_map(|name| last.clone().map(move |&n| (name, n))).map(|(l, n)| with(l, n)).collect()
        }
    }
}

/// What a mapping says of a loop.
fn looped<'m>(mapping: &'m mut Mapping, name: &str) -> &'m mut LoopMapping {
    let at = mapping.loops.iter().position(|l| l.0 == name).unwrap_or_else(|| {
        mapping.loops.push((name.to_owned(), LoopMapping::default()));
        mapping.loops.len() - 1
    });
    &mut mapping.loops[at].1
}

/// What a step must gain, of the cycles before it.
pub(super) fn gain(kernel: &Kernel) -> f64 {
    if multiplies(kernel) { GAIN_BESIDE_PRODUCTS } else { GAIN }
}

/// Whether a step can gain enough: the floor, below which none goes, is far enough away.
pub(super) fn may_gain(kernel: &Kernel, from: &Candidate) -> bool {
    from.prediction.as_ref().is_none_or(|p| p.floor.cycles <= (1.0 - gain(kernel)) * from.cycles)
}

/// Other ways to what threads do beside products: arrays staged by copies, operands made part by part, and both; and
/// results that are not held back.
fn ways_beside_products(kernel: &Kernel, mapping: &Mapping) -> Vec<Mapping> {
    let arrays = propose::staged(kernel);
    let in_parts = |mapping: &Mapping| {
        let mut other = mapping.clone();
        other.loops.iter_mut().for_each(|l| l.1.chunk = Some(propose::PART));
        other
    };
    let missing = arrays.iter().any(|a| mapping.arrays.iter().all(|own| own.0 != a.0 || own.1 != a.1));
    let staged = missing.then(|| Mapping { arrays, ..mapping.clone() });
    let parts = propose::made(kernel).then_some([Some(mapping), staged.as_ref()]).into_iter().flatten();
    let parts: Vec<Mapping> = parts.flatten().map(in_parts).collect();
    let direct = (mapping.whole.epilogue == Epilogue::Deferred).then(|| {
        let mut other = mapping.clone();
        other.whole.epilogue = Epilogue::Direct;
        other
    });
    staged.into_iter().chain(parts).chain(direct).filter(|other| other != mapping).collect()
}

fn warps_beside(mapping: &Mapping) -> Vec<Mapping> {
    let Some(at) = mapping.whole.warps.and_then(|w| WARPS.iter().position(|&known| known == w)) else {
        return Vec::new();
    };
    let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|n| WARPS.get(n));
    beside
        .map(|&warps| {
            let mut other = mapping.clone();
            other.whole.warps = Some(warps);
            other
        })
        .collect()
}

/// The values of a tunable next to its own.
fn values_beside(kernel: &Kernel, mapping: &Mapping, tunable: Tunable) -> Vec<Mapping> {
    let data = &kernel.tunables[tunable];
    let own = mapping.value_of(data);
    let beside: Vec<i64> = match &data.domain {
        Domain::OneOf(all) => {
            let below = all.iter().copied().filter(|&v| v < own).max();
            below.into_iter().chain(all.iter().copied().filter(|&v| v > own).min()).collect()
        }
        domain => {
            [own / 2, own.saturating_mul(2)].into_iter().filter(|&v| v > 0 && domain.contains(v)).collect()
        }
    };
    let with = |value: i64| {
        let mut other = mapping.clone();
        propose::set(&mut other, &[(data.name.clone(), value)]);
        other
    };
    beside.into_iter().map(with).collect()
}

/// A mapping with half of what its tunables say, as near as their domains come to it.
pub(super) fn halved(kernel: &Kernel, mapping: &Mapping) -> Mapping {
    let mut other = mapping.clone();
    for data in settable(kernel).into_iter().map(|t| &kernel.tunables[t]) {
        let own = mapping.value_of(data);
        let less = data.domain.nearest((own / 2).max(1));
        propose::set(&mut other, &[(data.name.clone(), less.min(own))]);
    }
    other
}

/// The loops' rows through a ring, if there is a loop that has loads.
fn staged(kernel: &Kernel, mapping: &Mapping) -> Option<Mapping> {
    let piped = mapping.loops.iter().any(|l| l.1.pipeline != Depth::default());
    if piped || mapping.arrays.iter().any(|a| a.1.way == Way::Staged) {
        return None;
    }
    let (mut other, mut piped) = (mapping.clone(), false);
    for (inst, data) in kernel.insts.iter().filter(|(_, d)| matches!(d.op, Op::For)) {
        let loaded = data.blocks.iter().flat_map(|&b| &kernel.blocks[b].insts);
        let loaded = loaded.filter(|&&i| matches!(kernel.insts[i].op, Op::Load));
        let of = |&i: &Inst| Some(kernel.argument_of(kernel.args(i)[0])?.name.clone());
        let arrays: Vec<String> = loaded.filter_map(of).collect();
        let name = warplift_isel::loop_name(kernel, inst).filter(|_| !arrays.is_empty());
        let Some(name) = name else { continue };
        looped(&mut other, name).pipeline = Depth::Stages(STAGES);
        piped = true;
        for array in arrays {
            if other.arrays.iter().all(|a| a.0 != array) {
                other.arrays.push((array, ArrayMapping { way: Way::Staged, ..ArrayMapping::default() }));
            }
        }
    }
    piped.then_some(other)
}
