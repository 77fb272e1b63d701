//! Whether the chosen mapping should let its launch begin while the one before ends (`pdl`).
//!
//! ```text
//!  launch n-1   ────────────┐
//!  launch n            start│ own work          with pdl: setup, and what is granted `before_wait`, under n-1
//! ```
//!
//! A stream of launches gains where the blocks' time is the limit and short, and where device memory would wait for the
//! start; a launch that is bound by device memory alone was measured to lose a twentieth. So the best mapping is compiled
//! once more, and the better one of a stream is kept. Long launches are not: what may overlap is too little of them.

use super::{Candidate, Chosen, Search};
use crate::Options;
use crate::predict::{Launch, compile_and_predict};
use warplift_ir::target::Target;
use warplift_ir::tile::Kernel;

/// What a launch in a stream must take at most, of the other form's cycles.
const WORTH: f64 = 0.97;

/// Lets launches of the best candidate overlap, where that is worth it.
pub(super) fn overlap_launches(
    kernel: &Kernel,
    chosen: &mut Chosen,
    launch: Launch<'_>,
    target: &Target,
    options: &Options,
    search: &Search,
) {
    let Some(plain) = in_a_stream(&chosen.best).filter(|_| !chosen.best.mapping.whole.pdl) else { return };
    let mut mapping = chosen.best.mapping.clone();
    mapping.whole.pdl = true;
    let mut early = mapping.clone();
    search.grants.read_early(kernel, &mut early);
    if hidden(early != mapping, target) < (1.0 - WORTH) * plain {
        return;
    }
    let made = [early, mapping].into_iter().find_map(|mapping| {
        let made = compile_and_predict(kernel, &mapping, target, launch, options).ok()?;
        Some((mapping, made))
    });
    let Some((mapping, (compiled, prediction))) = made else { return };
    let cycles = chosen.best.cycles;
    let early = Candidate { mapping, compiled, cycles, prediction };
    if in_a_stream(&early).is_some_and(|cycles| cycles < WORTH * plain) {
        chosen.others.insert(0, std::mem::replace(&mut chosen.best, early));
    }
}

/// Cycles that the launch before may hide at most: the start, and what fills all shared memory where arrays are read early.
fn hidden(reads_early: bool, target: &Target) -> f64 {
    let (rates, start) = (&target.rates, target.estimates.start_cycles);
    let filled = f64::from(target.shared_bytes * target.multiprocessors) / rates.memory_bytes_per_cycle;
    start + if reads_early { filled + 2.0 * rates.memory_latency } else { 0.0 }
}

/// Cycles of a candidate in a stream of its launches.
fn in_a_stream(candidate: &Candidate) -> Option<f64> {
    candidate.prediction.as_ref().map(|p| p.cycles - p.overlap)
}
