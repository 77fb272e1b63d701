//! Loops whose body may be written once for each slot of their rings.

use warplift_ir::machine::{Inst, Program, RingData, Schedule};

/// The most copies of a body, equal to the most stages of a ring. More code would not fit the instruction cache.
const MOST_COPIES: u32 = 8;

/// Number of slots for which a loop's body may be written: the depth of its deepest ring. `None` if another ring's
/// depth does not divide it, or if it is too deep.
pub(crate) fn slots_of(program: &Program<'_>, s: &Schedule, inst: Inst) -> Option<u32> {
    let inside = |r: &&RingData| r.blocks.iter().chain(&r.rereads).any(|&b| program.func.is_inside(b, inst));
    let depths: Vec<u32> = s.rings.values().filter(inside).map(|r| r.depth).collect();
    let most = *depths.iter().max()?;
    (most <= MOST_COPIES && depths.iter().all(|d| most.is_multiple_of(*d))).then_some(most)
}
