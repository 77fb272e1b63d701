//! How often instructions run: the trip counts of the loops around them, their rings, and what is deferred.
//!
//! ```text
//!  for t in 0..64 { a = load ..       64 trips, a ring
//!                   y = mma x, a }    64 trips
//!  store c, y                         1 trip; deferred if the mapping says so
//! ```

use crate::facts::{expected, expected_condition};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::tile::{Block, Depth, Inst, Kernel, Op};

/// Assumed trip count of a loop whose count is not known.
const TRIPS: f64 = 16.0;
/// How often what is not expected to run counts: it has a plan of its own, which costs the rest nothing.
const RARELY: f64 = 1.0 / 64.0;

/// Depth of the rings around each load.
pub(super) fn depths(k: &Kernel) -> FxHashMap<Inst, Depth> {
    let loops = k.insts.iter().filter(|(i, d)| matches!(d.op, Op::For) && !k.attrs[*i].persistent);
    let inside = loops.flat_map(|(i, d)| {
        let depth = k.attrs[i].looped.map_or(Depth::Fit, |l| l.pipeline);
        d.blocks.iter().flat_map(|&b| &k.blocks[b].insts).map(move |&i| (i, depth))
    });
    inside.collect()
}

/// The instructions of a deferred epilogue: everything after the last loop inside the loop over tiles.
pub(super) fn deferred_insts(k: &Kernel) -> FxHashSet<Inst> {
    let deferred = k.insts.keys().any(|i| k.attrs[i].deferred);
    let tiles = k.insts.iter().filter(|(i, d)| deferred && matches!(d.op, Op::For) && k.attrs[*i].persistent);
    let bodies = tiles.flat_map(|(_, d)| d.blocks.iter());
    let behind = bodies.flat_map(|&b| {
        let insts = &k.blocks[b].insts;
        let last = insts.iter().rposition(|&i| matches!(k.insts[i].op, Op::For));
        last.map_or(&[][..], |at| &insts[at + 1..])
    });
    behind.copied().collect()
}

/// Sets the trip counts in a block and in all blocks inside.
pub(super) fn weigh(k: &Kernel, block: Block, trips: f64, all: &mut SecondaryMap<Inst, f64>) {
    for &inst in &k.blocks[block].insts {
        all[inst] = trips;
        let inside = |side: usize| match k.insts[inst].op {
            Op::For if !k.attrs[inst].persistent => trips * trip_count(k, inst),
            Op::While => trips * TRIPS,
            Op::If => trips * branch(k, inst, side),
            _ => trips,
        };
        k.insts[inst].blocks.iter().enumerate().for_each(|(side, &b)| weigh(k, b, inside(side), all));
    }
}

/// How often a block runs for each time that its branch does.
fn branch(k: &Kernel, inst: Inst, side: usize) -> f64 {
    match expected_condition(k, k.args(inst)[0]) {
        Some(first) if first == (side == 1) => RARELY,
        _ => 1.0,
    }
}

/// Trip count of a loop with constant bounds.
fn trip_count(k: &Kernel, inst: Inst) -> f64 {
    let bound = |n: usize| k.args(inst).get(n).and_then(|&v| k.int_const(expected(k, v)));
    match (bound(0), bound(1), bound(2)) {
        (Some(from), Some(to), Some(step)) if step > 0 => {
            ((to - from) as f64 / step as f64).ceil().max(RARELY)
        }
        _ => TRIPS,
    }
}
