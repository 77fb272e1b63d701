//! Blocked layouts: the threads of a block cover a tile, and each holds neighbours that it moves at once. Also counts
//! the pieces of memory that an access in a layout touches.
//!
//! ```text
//!  f16[8, 64], vectors of 8:   row 0: lane 0 │ lane 1 │ .. │ lane 7      row 1: lane 8 │ ..
//! ```

use rustc_hash::FxHashSet;
use warplift_ir::layout::{Axis, Builder, Layout, LayoutError};

/// Threads of a warp.
pub(super) const LANES: u64 = 32;

/// How the threads of a block spread over a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// Limit on the threads of a warp along the contiguous dimension.
    pub lanes: u64,
    /// Whether warps go along the contiguous dimension first, instead of last.
    pub warps_along: bool,
}

impl Default for Spread {
    fn default() -> Self {
        Self { lanes: LANES, warps_along: false }
    }
}

/// A blocked layout of a tile over `warps` warps. Lanes go along the contiguous dimension first, warps along the
/// others first.
///
/// # Errors
/// As the layout's construction.
pub fn blocked(extents: &[u32], dim: usize, vector: u32, warps: u32) -> Result<Layout, LayoutError> {
    let mut block = vec![1; extents.len()];
    block[dim] = vector;
    blocked_by(extents, dim, &block, Spread::default(), warps)
}

/// The same with a given block of neighbours per thread.
///
/// # Errors
/// As the layout's construction.
pub(super) fn blocked_by(
    extents: &[u32],
    dim: usize,
    block: &[u32],
    spread: Spread,
    warps: u32,
) -> Result<Layout, LayoutError> {
    let shape: Vec<u64> = extents.iter().map(|&e| u64::from(e)).collect();
    let order: Vec<usize> =
        std::iter::once(dim).chain((0..shape.len()).rev().filter(|&d| d != dim)).collect();
    let mut own: Vec<u64> = block.iter().map(|&b| u64::from(b)).collect();
    let most = |d: usize| if d == dim { spread.lanes } else { LANES };
    let (mut lanes, mut left) = spread_lanes(&shape, &own, &order, most);
    // If the extent is not a power of two, narrower vectors keep more lanes busy.
    while left > 1 && own[dim] > 2 && !(shape[dim] / own[dim]).is_power_of_two() {
        own[dim] /= 2;
        (lanes, left) = spread_lanes(&shape, &own, &order, most);
    }
    let mut warp = vec![1; shape.len()];
    let mut surplus = u64::from(warps);
    let along = if spread.warps_along { order.clone() } else { order.iter().rev().copied().collect() };
    for d in along {
        let room = shape[d] / (own[d] * lanes[d]).min(shape[d]);
        warp[d] = largest_divisor(surplus, room);
        surplus /= warp[d];
    }
    let dims: Vec<(Axis, u64)> = (0..shape.len()).map(|d| (Axis::Dim(d as u8), shape[d])).collect();
    let mut at = vec![1; shape.len()];
    let mut layout = Builder::new(&dims);
    for (axis, parts, repeats) in
        [(Axis::Reg, &own, 1), (Axis::Lane, &lanes, left), (Axis::Warp, &warp, surplus)]
    {
        layout = layout.axis(axis);
        for &d in &order {
            layout = layout.add(axis, parts[d], &column(shape.len(), d, at[d]));
            at[d] *= parts[d];
            if d == dim {
                // The remaining threads hold copies of what others hold.
                layout = layout.add(axis, repeats, &vec![0; shape.len()]);
            }
        }
    }
    for &d in &order {
        layout = layout.add(Axis::Reg, shape[d] / at[d], &column(shape.len(), d, at[d]));
    }
    layout.build()
}

fn column(rank: usize, dim: usize, step: u64) -> Vec<u64> {
    (0..rank).map(|d| if d == dim { step } else { 0 }).collect()
}

/// Lanes along each dimension, and the number of lanes left over, which hold copies.
fn spread_lanes(shape: &[u64], own: &[u64], order: &[usize], most: impl Fn(usize) -> u64) -> (Vec<u64>, u64) {
    let mut lanes = vec![1; shape.len()];
    let mut left = LANES;
    for &d in order {
        lanes[d] = (1u64 << (shape[d] / own[d]).trailing_zeros().min(5)).min(left).min(most(d));
        left /= lanes[d];
    }
    (lanes, left)
}

/// The greatest divisor of `n` that divides `room`.
fn largest_divisor(n: u64, room: u64) -> u64 {
    (1..=n).rev().find(|d| n.is_multiple_of(*d) && room.is_multiple_of(*d)).unwrap_or(1)
}

/// Pieces of memory of `piece` bytes that one access of a warp touches. Elements of `bits` bits are contiguous along
/// `unit`.
pub(super) fn pieces(layout: &Layout, unit: Option<usize>, bits: u64, piece: u64) -> u64 {
    let lane = layout.ins().iter().position(|a| a.0 == Axis::Lane);
    let mut touched = FxHashSet::default();
    let mut thread = vec![0; layout.ins().len()];
    for l in 0..layout.in_extent(Axis::Lane) {
        if let Some(lane) = lane {
            thread[lane] = l;
        }
        let mut at = layout.apply(&thread);
        if let Some(unit) = unit {
            at[unit] = at[unit] * bits / 8 / piece;
        }
        touched.insert(at);
    }
    touched.len() as u64
}

/// The number of neighbours along a dimension that a thread holds.
pub(super) fn run(layout: &Layout, dim: usize) -> u64 {
    let basis = layout.basis(Axis::Reg);
    let mut run = 1;
    loop {
        let step = basis.iter().find(|b| {
            b.extent == 2 && b.out.iter().enumerate().all(|(d, &c)| c == if d == dim { run } else { 0 })
        });
        match step {
            Some(_) => run *= 2,
            None => return run,
        }
    }
}

/// Shrinks the block of a thread across the contiguous dimension until every thread has a block of its own.
pub(super) fn fit(block: &mut [u32], unit: usize, shape: &[u32], warps: u32) {
    let threads = u64::from(32 * warps);
    let elements = shape.iter().map(|&e| u64::from(e)).product::<u64>();
    let repeated = |block: &[u32]| {
        let layout = blocked_by(shape, unit, block, Spread::default(), warps).ok();
        layout.is_some_and(|l| l.in_extent(Axis::Reg) * threads > elements)
    };
    for d in (0..block.len()).filter(|&d| d != unit) {
        while block[d] > 1 && (!shape[d].is_multiple_of(block[d]) || repeated(block)) {
            block[d] /= 2;
        }
    }
}
