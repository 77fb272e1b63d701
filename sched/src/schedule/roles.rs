//! Who issues the copies: a producer, or the computing threads.
//!
//! No fragment crosses from one role to the other. A producer is one thread, so it can take part in no shuffle, and
//! nothing orders its loads after the stores of other threads. It repeats uniform loads of memory that the kernel writes
//! nowhere.

use crate::analysis::{
    Copying, Graph, copying, epilogue_insts, global_access, handoff, hoisted_loads, rereads, touched,
};
use crate::error::{Result, word};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Buffer, Inst, Program, RoleKind, Schedule};

/// Gives asynchronous loads to a producer if it can compute their coordinates, and everything else to the consumers.
pub(crate) fn do_roles(program: &Program<'_>, graph: &Graph, s: &mut Schedule) {
    match copying(program, graph) {
        // No stage is filled twice, so nobody could fill one ahead of time.
        Copying::Once => {}
        Copying::ByThreads(inst) => s.remarks.push(by_threads(program, inst)),
        Copying::Producer { loads, decisions } => {
            s.decisions = decisions;
            s.producer = !loads.is_empty();
            loads.into_iter().for_each(|inst| s.roles[inst] = RoleKind::Producer);
        }
    }
}

/// Says why no producer copies, and what would mend it.
fn by_threads(program: &Program<'_>, inst: Inst) -> String {
    let d = &program.func.insts[inst];
    let why = match global_access(d) {
        Some((_, false)) => {
            "reads a tile, or memory that the kernel writes; `load v[i] : i32` of an array that it only reads mends it"
        }
        _ => {
            "one thread cannot do alone; a scalar that another kernel leaves in memory can be loaded by a producer"
        }
    };
    let (line, op) = (d.loc.line, d.op.name());
    format!("line {line}: the threads that compute copy too: where to depends on `{op}`, which {why}")
}

/// Gives the second half of a tile's work to epilogue warps, with the loads whose stages they read again from the
/// consumers. Loads of other tiles have a thread of their own: where that thread waits for the epilogue warps, the
/// producer goes on to the next tile. Returns the instructions of the second half.
pub(crate) fn do_epilogue(program: &Program<'_>, graph: &Graph, s: &mut Schedule) -> Result<FxHashSet<Inst>> {
    if handoff(program).is_none() {
        return Ok(FxHashSet::default());
    }
    if !s.producer {
        return Err(word(
            "epilogue",
            "`epilogue warps` does not go with a kernel without a producer: let copies bring an array (`array x: staged`)",
        ));
    }
    let epilogue_insts = epilogue_insts(program)?;
    let rereads = rereads(program, graph, &epilogue_insts);
    for &inst in &epilogue_insts {
        let d = &program.func.insts[inst];
        let brought = |(b, _): (Buffer, bool)| rereads.iter().any(|a| a.0 == b);
        let own = d.op.is_async_load() && !touched(&d.attr, d.op).into_iter().any(brought);
        s.roles[inst] = if own { RoleKind::EpilogueLoad } else { RoleKind::Epilogue };
    }
    for inst in hoisted_loads(&program.func, &epilogue_insts) {
        s.roles[inst] = RoleKind::Epilogue;
    }
    Ok(epilogue_insts)
}
