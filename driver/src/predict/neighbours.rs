//! What the L2 gives a multiprocessor of what its neighbours ask for at the same time.
//!
//! ```text
//!  blocks           b      b + 1    b + 2    b + 3          b + 16
//!  left operand     A0     A1       A2       A3             A0       a line for each block
//!  right operand    B0     B0       B0       B0             B1       a line for four neighbours
//! ```
//!
//! Copies of blocks that lie next to each other in the grid and ask for the same lines at about the same time are answered
//! at once, up to four of them. Those of blocks that lie further apart are not: such blocks go their own ways.
//!
//! The first block and the next one stand for all, unless memory says what blocks ask for, as the group of a tile: then all tiles
//! are gone through in fours.

use super::Walks;
use super::unequal::Unequal;
use super::walk::Walked;
use warplift_ir::target::Target;

/// Times that copies fill a block's shared memory before it is out of step with blocks further away: blocks of 128 x 64 x
/// 1024 (1024^3) get all that they share with blocks eight away, those of 128 x 64 x 8192 nothing of it
/// (docs/lab-book/2026-11-28.md).
const IN_STEP: f64 = 2.0;

/// Of what takes longer, the part from which on what takes less is in its way, and by how much: tilings of f16 products whose L2 and
/// tensor cores take 0.61, 0.76, 0.86, 0.94 and 0.95 of each other take 0.98, 1.03, 1.11, 1.16 and 1.14 of the longer one
/// (docs/lab-book/2026-11-28.md). Device memory is in the way of products like that: grouped products in linear order, 1.02 of each
/// other, take 1.17.
const NEAR: f64 = 0.7;
const IN_THE_WAY: f64 = 0.6;

/// Cycles in which the L2 gives a multiprocessor so many bytes that it shares with no neighbour, beside so many
/// multiprocessors that ask, where its blocks have so much shared memory.
pub fn l2_cycles(bytes: f64, (multiprocessors, shared): (u32, f64), target: &Target) -> f64 {
    (bytes - IN_STEP * shared).max(0.0) / target.rates.cache_share(multiprocessors)
}

/// What takes so long by itself and so long by memory: where both are near each other they are in each other's way.
pub fn overlapped(itself: f64, copying: f64) -> f64 {
    let (less, more) = (itself.min(copying), itself.max(copying));
    more * (1.0 + IN_THE_WAY * (less / more.max(1.0) - NEAR).max(0.0))
}

impl Walks<'_, '_, '_> {
    /// Cycles in which the L2 gives a multiprocessor what its blocks copy, as much of it as neighbours do not share; `None` where
    /// that is less than they take if they share nothing, or where neighbours are not known.
    pub(super) fn copying(
        &self,
        grid: [i64; 3],
        blocks: u32,
        (walked, unequal): (&Walked, &Unequal<'_>),
        (end, shared): (f64, u32),
    ) -> Option<f64> {
        let each = self.mean * f64::from(blocks.div_ceil(self.target.multiprocessors));
        let beside = (self.scene.multiprocessors, f64::from(self.resident * shared));
        let cycles = |bytes: f64| l2_cycles(each * bytes, beside, self.target);
        let (copied, neighbours) = (walked.requests.copied(), self.target.estimates.neighbours);
        if cycles(copied) <= end {
            return None;
        }
        let running = blocks.min(self.target.multiprocessors * self.resident);
        if let Some(part) = unequal.answered(running, neighbours) {
            return Some(cycles(part * copied));
        }
        let along = (0..3).find(|&d| grid[d] > 1 && !walked.draws)?;
        let next = self.program.first_copies(std::array::from_fn(|d| i64::from(d == along)));
        Some(cycles(walked.requests.copied_alone(&next, neighbours)))
    }
}
