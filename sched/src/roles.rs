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
use crate::graph::{Graph, Node, touched};
use crate::relay::late;
use crate::schedule::{repeats, word};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Buffer, Func, Inst, Program, RoleKind, Schedule};
use warplift_ir::target::Opcode;

/// Asynchronous loads go to a producer if it can find their places, everything else to the consumers.
pub(crate) fn do_roles(program: &Program<'_>, s: &mut Schedule) {
    let func = &program.func;
    let mut loads: Vec<Inst> = Vec::new();
    let mut again = program.teams > 1;
    func.walk(|block, inst| {
        if func.insts[inst].op.is_async_load() {
            loads.push(inst);
            again |= repeats(func, block);
        }
    });
    if !again {
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

/// The second half of a tile's work goes to finishers, with the loads of what the consumers' loads bring them. What they
/// alone read has a thread of its own that copies it: where that one waits for them, the producer goes on to the next
/// tile. The half's instructions.
pub(crate) fn do_finishers(program: &Program<'_>, s: &mut Schedule) -> Result<FxHashSet<Inst>> {
    let Some(relayed) = &program.relayed else { return Ok(FxHashSet::default()) };
    if !s.producer {
        return Err(word("relay", "a kernel without a producer, whose threads copy for themselves"));
    }
    let late = late(program, relayed)?;
    for &inst in &late {
        let d = &program.func.insts[inst];
        let brought = |(b, _): (Buffer, bool)| relayed.again.iter().any(|a| a.0 == b);
        let own = d.op.is_async_load() && !touched(&d.attr, d.op).into_iter().any(brought);
        s.roles[inst] = if own { RoleKind::Supplier } else { RoleKind::Finisher };
    }
    for inst in held_loads(&program.func, &late) {
        s.roles[inst] = RoleKind::Finisher;
    }
    Ok(late)
}

/// Loads of what the second half holds for all tiles.
fn held_loads(func: &Func<'_>, late: &FxHashSet<Inst>) -> Vec<Inst> {
    let picks = late.iter().map(|&i| &func.insts[i]).filter(|d| d.op == Opcode::Pick);
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
    let held = d.args.iter().any(|&v| func.ty(v).is_frag());
    let together = lanes || held || !d.op.is_pure();
    (together && !structure && !d.op.is_async_load()).then_some(inst)
}
