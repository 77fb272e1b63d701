//! Loops whose body may be written once for each slot of their rings.

use warplift_ir::machine::{Inst, Program, RingData, Schedule};

/// Copies of a body at most, as many as a ring has stages at most: more code would not stay in the instruction cache.
const MOST_COPIES: u32 = 8;

/// How many slots the bodies of a loop would be for: the depth of its deepest ring, if the others' divide it and it is not too
/// deep.
pub(crate) fn slots_of(program: &Program<'_>, s: &Schedule, inst: Inst) -> Option<u32> {
    let inside = |r: &&RingData| r.blocks.iter().chain(&r.rereads).any(|&b| program.func.is_inside(b, inst));
    let depths: Vec<u32> = s.rings.values().filter(inside).map(|r| r.depth).collect();
    let most = *depths.iter().max()?;
    (most <= MOST_COPIES && depths.iter().all(|d| most.is_multiple_of(*d))).then_some(most)
}
