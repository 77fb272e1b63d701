//! The work of epilogue warps: the instructions they run, the stages they read again, and the values they hold. All of
//! this follows from the handoff buffer.
//!
//! ```text
//!  for tile ..
//!    for t: load x in a; ..
//!    store s in the handoff
//!    s = load of the handoff          ┐
//!    for u: load x in a; ..           ├ epilogue warps run this            a is read again: both parts load it
//!                                     ┘
//! ```

use super::access::{global_access, touched};
use super::graph::Graph;
use super::structure::{inside, tiles};
use crate::error::Result;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Block, Buffer, BufferKind, Func, Inst, Program};

/// The buffer in which consumers hand over their part of a tile's work. `None` if the work is not cut.
pub(crate) fn handoff(program: &Program<'_>) -> Option<Buffer> {
    program.buffers_of(BufferKind::Handoff).next()
}

/// The instructions of epilogue warps: in the loop over tiles, everything from the first load of the handoff buffer on,
/// nested instructions included. The set is empty if the work of a tile is not cut.
pub(crate) fn epilogue_insts(program: &Program<'_>) -> Result<FxHashSet<Inst>> {
    let Some(handoff) = handoff(program) else { return Ok(FxHashSet::default()) };
    let func = &program.func;
    let insts = &func.blocks[tiles(func)?].insts;
    let loads = |&i: &Inst| touched(&func.insts[i].attr, func.insts[i].op).contains(&(handoff, false));
    // `do_epilogue_roles` has put the load there.
    let at = insts.iter().position(loads).unwrap_or_else(|| panic!("nothing loads {handoff}"));
    Ok(inside(func, &insts[at..]))
}

/// Buffers that both parts of a tile's work load with the same data in the same order, each with the most stages that a
/// tile fills. Epilogue warps read the consumers' stages of these buffers again.
pub(crate) fn rereads(
    program: &Program<'_>,
    graph: &Graph,
    epilogue_insts: &FxHashSet<Inst>,
) -> Vec<(Buffer, u32)> {
    let func = &program.func;
    let loads = |of_epilogue: bool| {
        let all = graph.shared_accesses(func).iter();
        let all = all.filter(move |a| epilogue_insts.contains(&a.inst) == of_epilogue);
        let loads = all.filter(|a| func.insts[a.inst].op.is_async_load());
        loads.filter_map(|a| Some((func.block_of(a.inst)?, a.buffer)))
    };
    let again: FxHashSet<Buffer> = loads(true).map(|l| l.1).collect();
    let mut found: Vec<(Buffer, u32)> = Vec::new();
    for (block, buffer) in loads(false).filter(|l| again.contains(&l.1)) {
        let stages = iterations(func, block);
        match found.iter_mut().find(|f| f.0 == buffer) {
            Some(f) => f.1 = f.1.max(stages),
            None => found.push((buffer, stages)),
        }
    }
    found
}

/// The most iterations of the loop around a block. It is 1 if they are not bounded, or if there is no loop.
fn iterations(func: &Func<'_>, block: Block) -> u32 {
    match func.loop_of(block).map(|l| &func.insts[l].attr) {
        Some(Attr::Loop(l)) => l.most.unwrap_or(1).max(1),
        _ => 1,
    }
}

/// Loads before the loop over tiles whose results only `readers` use. They are hoisted for these instructions.
pub(crate) fn hoisted_loads(func: &Func<'_>, readers: &FxHashSet<Inst>) -> Vec<Inst> {
    let reads = |&i: &Inst| global_access(&func.insts[i]).is_some_and(|(_, writes)| !writes);
    let only = |&i: &Inst| {
        let mut users = func.insts[i].results.iter().flat_map(|&r| func.users(r)).peekable();
        users.peek().is_some() && users.all(|u| readers.contains(&u))
    };
    func.blocks[func.entry].insts.iter().copied().filter(reads).filter(only).collect()
}

/// Registers in which each thread of a role keeps hoisted loads.
pub(crate) fn hoisted_for(func: &Func<'_>, readers: &FxHashSet<Inst>) -> u32 {
    let loads = hoisted_loads(func, readers).into_iter();
    loads.flat_map(|i| func.insts[i].results).map(|&r| func.ty(r).regs()).sum()
}

/// Registers in which each computing thread keeps hoisted loads.
pub fn hoisted_registers(program: &Program<'_>) -> u32 {
    let func = &program.func;
    let all = tiles(func).map(|body| inside(func, &func.blocks[body].insts));
    all.map_or(0, |all| hoisted_for(func, &all))
}

/// Numbers of the arrays that epilogue warps read before they wait for other grids. They are all arrays that the
/// kernel's own block reads, if the mapping allows an early read of every one.
pub(crate) fn hoisted_before_wait(program: &Program<'_>) -> FxHashSet<u32> {
    let func = &program.func;
    let holds = |insts: FxHashSet<Inst>| hoisted_for(func, &insts) > 0;
    if !program.launch.pdl || !epilogue_insts(program).is_ok_and(holds) {
        return FxHashSet::default();
    }
    let own = func.blocks[func.entry].insts.iter();
    let reads = own.filter_map(|&i| global_access(&func.insts[i])).map(|(access, _)| access.pointer);
    // Arguments are the first parameters, in order.
    let before_wait = |p: &u32| program.launch.arguments.get(*p as usize).is_some_and(|a| a.before_wait);
    let all: Option<FxHashSet<u32>> = reads.map(|p| Some(p).filter(before_wait)).collect();
    all.unwrap_or_default()
}
