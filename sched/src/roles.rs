//! Who copies: a producer, or the threads that compute.
//!
//! ```text
//!  copy ◄─ coordinates ◄─ counters, arguments, sums of them      one thread finds them alone: a producer's
//!       ◄─ coordinates ◄─ a reduced tile, what memory holds      threads find them together: theirs
//! ```
//!
//! No fragment crosses from one role to the other, and a producer is one thread: it can take part in no shuffle, and
//! nothing orders its loads behind the others' stores.

use crate::Result;
use crate::epilogue_roles::epilogue_insts;
use crate::graph::{Graph, Node, touched};
use crate::schedule::{repeats, word};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Buffer, Func, Inst, Program, RoleKind, Schedule};
use warplift_ir::target::Opcode;

/// Asynchronous loads go to a producer if it can find their places, everything else to the consumers.
pub(crate) fn do_roles(program: &Program<'_>, s: &mut Schedule) {
    let func = &program.func;
    let mut loads: Vec<Inst> = Vec::new();
    let mut repeated = program.teams > 1;
    func.walk(|block, inst| {
        if func.insts[inst].op.is_async_load() {
            loads.push(inst);
            repeated |= repeats(func, block);
        }
    });
    if !repeated {
        // Nothing is filled twice, so nobody could fill it ahead of time.
        return;
    }
    match Graph::of(func).slice(loads.iter().copied()).iter().filter_map(|&n| shared_work(func, n)).min() {
        Some(inst) => s.remarks.push(format!(
            "line {}: the threads that compute copy too: where to depends on `{}`, which one thread cannot do alone",
            func.insts[inst].loc.line,
            func.insts[inst].op.row().name
        )),
        None => {
            s.producer = !loads.is_empty();
            for inst in loads {
                s.roles[inst] = RoleKind::Producer;
            }
        }
    }
}

/// The second half of a tile's work goes to epilogue warps, with the loads of what the consumers' loads bring them. What they
/// alone read has a thread of its own that copies it: where that one waits for them, the producer goes on to the next
/// tile. The half's instructions.
pub(crate) fn do_epilogue(program: &Program<'_>, s: &mut Schedule) -> Result<FxHashSet<Inst>> {
    let Some(epilogue_role) = &program.epilogue_role else { return Ok(FxHashSet::default()) };
    if !s.producer {
        return Err(word("epilogue", "a kernel without a producer, whose threads copy for themselves"));
    }
    let epilogue_insts = epilogue_insts(program, epilogue_role)?;
    for &inst in &epilogue_insts {
        let d = &program.func.insts[inst];
        let brought = |(b, _): (Buffer, bool)| epilogue_role.rereads.iter().any(|a| a.0 == b);
        let own = d.op.is_async_load() && !touched(&d.attr, d.op).into_iter().any(brought);
        s.roles[inst] = if own { RoleKind::EpilogueLoad } else { RoleKind::Epilogue };
    }
    for inst in hoisted_loads(&program.func, &epilogue_insts) {
        s.roles[inst] = RoleKind::Epilogue;
    }
    Ok(epilogue_insts)
}

/// Loads of what the second half holds for all tiles.
fn hoisted_loads(func: &Func<'_>, epilogue_insts: &FxHashSet<Inst>) -> Vec<Inst> {
    let picks = epilogue_insts.iter().map(|&i| &func.insts[i]).filter(|d| d.op == Opcode::Pick);
    picks.flat_map(|d| &d.args[1..]).filter_map(|&v| func.def(v)).collect()
}

/// An instruction that the threads of a block do together, or whose result their order decides.
fn shared_work(func: &Func<'_>, node: Node) -> Option<Inst> {
    let Node::Inst(inst) = node else { return None };
    let d = &func.insts[inst];
    let structure = matches!(d.op, Opcode::For | Opcode::If | Opcode::Yield | Opcode::Await);
    let lanes = matches!(
        d.op,
        Opcode::ShflBfly | Opcode::ShflIdx | Opcode::ReduxAddS32 | Opcode::ReduxMaxS32 | Opcode::ReduxOr
    );
    let has_fragments = d.args.iter().any(|&v| func.ty(v).is_frag());
    let whole_warps = lanes || has_fragments || !d.op.is_pure();
    (whole_warps && !structure && !d.op.is_async_load()).then_some(inst)
}
