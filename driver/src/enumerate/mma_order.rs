//! Whether warpgroups of the chosen mapping should take turns at the tensor cores.
//!
//! The scheduler decides it by one block of the loop alone. The walk of the whole launch knows what stands around the loop, and
//! what other units are taken for. So the best mapping is compiled once more with the other answer, and the better one is kept.

use super::{Candidate, Chosen, slowed};
use crate::Options;
use crate::predict::{Launch, compile_and_predict};
use warplift_ir::target::Target;
use warplift_ir::tile::{Kernel, Mapping};

/// What the other answer must take at most, of the scheduler's cycles.
const WORTH: f64 = 0.99;

/// Gives the best candidate's loops the other answer, where that is worth it.
pub(super) fn answer_otherwise(
    kernel: &Kernel,
    chosen: &mut Chosen,
    launch: Launch<'_>,
    target: &Target,
    options: &Options,
) {
    let Some(mapping) = otherwise(&chosen.best) else { return };
    let Ok((compiled, Some(prediction))) = compile_and_predict(kernel, &mapping, target, launch, options)
    else {
        return;
    };
    let cycles = slowed(&prediction, kernel, &mapping, target, launch.sizes);
    if cycles < WORTH * chosen.best.cycles {
        let other = Candidate { mapping, compiled, cycles, prediction: Some(prediction) };
        chosen.others.insert(0, std::mem::replace(&mut chosen.best, other));
    }
}

/// The mapping with the other answer for each loop that several warpgroups share and that overlaps with itself; `None` where there
/// is no such loop, or where the mapping has an answer.
fn otherwise(best: &Candidate) -> Option<Mapping> {
    let takes = !best.compiled.explained.schedule.mma_order.is_empty();
    let overlaps = !best.compiled.explained.schedule.loops.is_empty();
    let mut mapping = best.mapping.clone();
    let several = mapping.loops.iter_mut().filter(|(_, l)| l.consumers.is_some_and(|n| n > 1));
    let mut asked = several.filter(|(_, l)| overlaps && l.mma_order.is_none()).peekable();
    asked.peek()?;
    asked.for_each(|(_, l)| l.mma_order = Some(u32::from(!takes)));
    Some(mapping)
}
