//! Where a ring's stage begins and ends in a block, and who must be told of its end.
//!
//! ```text
//!  producer   wait empty A ─ fill A ─ fill B                  B is handed back with A: one barrier speaks for both
//!  consumer   products on A and B ─ wait ─ release A
//! ```
//!
//! A stage that nobody fills again needs no release, and the fill that nothing precedes no wait.

use crate::graph::touched;
use crate::schedule::{block_of, buffer_of, loop_of, repeats};
use warplift_ir::machine::{
    Attr, Block, Buffer, Func, Handed, Inst, Program, Ring, RingData, RingFill, RoleKind, Schedule, Ty, Value,
};
use warplift_ir::target::Opcode;

/// After which instruction of a block a ring's stage ends: the last load (producer), the last use or its
/// completion (consumer).
pub(crate) fn stage_end(func: &Func<'_>, ring: &RingData, block: Block, role: RoleKind) -> Option<Inst> {
    let insts = &func.blocks[block].insts;
    let last = insts.iter().rposition(|&i| match role {
        RoleKind::Producer => fills(func, i, &ring.buffers),
        RoleKind::Consumer => reads(func, i, ring),
    })?;
    // Completion: the await of what the reader started.
    let done = match role {
        RoleKind::Producer => last,
        RoleKind::Consumer => completion(func, block, last),
    };
    Some(insts[done])
}

fn fills(func: &Func<'_>, inst: Inst, buffers: &[Buffer]) -> bool {
    let d = &func.insts[inst];
    d.op.is_async_load()
        && matches!(&d.attr, Attr::Tma(t) if t.place.is_some_and(|p| buffers.contains(&p.buffer)))
}

/// Whether an instruction reads the stage that is filled in its block.
fn reads(func: &Func<'_>, inst: Inst, ring: &RingData) -> bool {
    let (d, buffers) = (&func.insts[inst], &ring.buffers);
    let read = touched(&d.attr, d.op).iter().any(|(b, w)| !w && buffers.contains(b));
    let nested = d
        .blocks
        .iter()
        .filter(|b| !ring.blocks.contains(b))
        .any(|&b| func.blocks[b].insts.iter().any(|&i| reads(func, i, ring)));
    let awaited = d.op == Opcode::Await
        && d.args.iter().any(|&e| buffer_of(func, e).is_some_and(|b| buffers.contains(&b)));
    read || nested || awaited
}

fn completion(func: &Func<'_>, block: Block, at: usize) -> usize {
    let insts = &func.blocks[block].insts;
    let events: Vec<Value> =
        func.insts[insts[at]].results.iter().copied().filter(|&r| func.ty(r) == Ty::Event).collect();
    let waits = |i: &Inst| {
        func.insts[*i].op == Opcode::Await && func.insts[*i].args.iter().any(|a| events.contains(a))
    };
    insts.iter().rposition(waits).map_or(at, |w| w.max(at))
}

/// Decides how each ring's stages are handed back, once depths are known.
pub(crate) fn do_handing(program: &Program<'_>, s: &mut Schedule) {
    let func = &program.func;
    let rings: Vec<Ring> = s.rings.keys().filter(|&r| s.rings[r].fill == RingFill::Tensor).collect();
    for (n, &ring) in rings.iter().enumerate() {
        let data = &s.rings[ring];
        let once = data.blocks.len() == 1 && !repeats(func, data.blocks[0]);
        let mut earlier = rings[..n].iter().filter(|&&r| s.rings[r].handed == Handed::Alone);
        let leader = earlier.find(|&&r| leads(func, &s.rings[r], data));
        s.rings[ring].handed = match leader {
            _ if once => Handed::Never,
            Some(&leader) => Handed::With(leader),
            None => Handed::Alone,
        };
    }
}

/// Whether the end of one ring's stages is that of another's, and it is filled first.
fn leads(func: &Func<'_>, first: &RingData, second: &RingData) -> bool {
    let alike = |r: &RingData| (r.blocks.clone(), r.depth, r.cluster, r.threads_read);
    let end = |r: &RingData, b: Block| stage_end(func, r, b, RoleKind::Consumer);
    let begin =
        |r: &RingData, b: Block| func.blocks[b].insts.iter().position(|&i| fills(func, i, &r.buffers));
    let same = |&b: &Block| end(first, b) == end(second, b) && begin(first, b) < begin(second, b);
    alike(first) == alike(second) && first.blocks.iter().all(same)
}

/// Whether nothing fills a ring behind the loop that does.
pub(crate) fn ends_with_its_loop(func: &Func<'_>, ring: &RingData) -> bool {
    let around = loop_of(func, ring.blocks[0]).and_then(|inst| block_of(func, inst));
    ring.blocks.len() == 1 && around.is_some_and(|b| !repeats(func, b))
}
