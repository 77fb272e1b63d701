//! The helper's part of a schedule: the stores to the helper's buffers, and the rings of these buffers.

use super::rings::handoff_ring;
use crate::analysis::{Graph, helper_insts, read_for};
use warplift_ir::machine::{BufferKind, Program, RingData, RingFill, RoleKind, Schedule, StageRelease};
use warplift_ir::target::Effect;

/// Gives the helper the stores to its buffers, and the reads that only these stores need.
pub(crate) fn do_helper(program: &Program<'_>, graph: &Graph, s: &mut Schedule) {
    let effects = helper_insts(program, graph)
        .into_iter()
        .filter(|&i| program.func.insts[i].op.effect() != Effect::Pure);
    effects.for_each(|i| s.roles[i] = RoleKind::Helper);
}

/// Makes the rings of the helper's buffers, and marks the rings that the helper reads.
pub(crate) fn helper_rings(program: &Program<'_>, graph: &Graph, s: &mut Schedule) {
    for buffer in program.buffers_of(BufferKind::Helper) {
        let reads = read_for(program, graph, buffer);
        let leader =
            s.rings.iter().find(|(_, r)| r.buffers.iter().any(|b| reads.contains(b))).map(|(r, _)| r);
        // `do_dedup_mma` ensures that there is exactly one.
        let leader = leader.unwrap_or_else(|| panic!("{buffer} follows no ring"));
        s.rings[leader].helped = true;
        let ring = handoff_ring(program, graph, buffer, RingFill::Helper);
        s.rings.push(RingData { release: StageRelease::With(leader), least: s.rings[leader].least, ..ring });
    }
}
