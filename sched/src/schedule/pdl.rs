//! Loads that a producer may issue before the grids that this grid depends on have ended.
//!
//! ```text
//!  the grid before      ..work..work..│ends
//!  this one, producer      weights ───┤wait│ activations of the same stages ─ the rest of the loop
//! ```
//!
//! The loads can be issued early only if the first loop with loads stands at the top. Then its first stages are free,
//! and nothing else needs a wait before it.

use crate::analysis::{
    Graph, Node, can_lead, early_copies, global_access, handoff, hoisted_before_wait, reads_fixed, touched,
};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Buffer, BufferKind, Func, Inst, Program, RingFill, Schedule};
use warplift_ir::manifest::Argument;
use warplift_ir::target::Opcode;

/// Chooses the loop, or remarks why its early loads wait with the others.
pub(crate) fn do_pdl(program: &Program<'_>, graph: &Graph, s: &mut Schedule) {
    if !program.launch.pdl {
        return;
    }
    let before_wait = early_copies(&program.func, graph);
    let others = read_late(program, graph);
    s.remarks.extend(others.map(|name| {
        format!("`{name}` waits for other grids: the epilogue role loads hoisted arrays before the wait only if all of them may be")
    }));
    if before_wait.is_empty() {
        return;
    }
    let looped = match late_scalar(program, graph) {
        Some(name) => Err(format!("the producer loads scalars of `{name}`, which is not `before_wait`")),
        None if program.buffers_of(BufferKind::NextTile).next().is_some() => {
            Err("tiles are drawn from a counter, from which the grid before this one may still draw"
                .to_owned())
        }
        None if !s.decisions.is_empty() => {
            Err("the producer waits for what threads find together".to_owned())
        }
        None => first_loop(program, s, &before_wait),
    };
    match looped {
        Ok(inst) => s.before_wait = Some(inst),
        Err(why) => s.remarks.push(format!("early loads wait for the grid before this one: {why}")),
    }
}

/// An array from which the producer loads scalars, and which the grids before this one may write.
fn late_scalar<'p>(program: &'p Program<'_>, graph: &Graph) -> Option<&'p str> {
    let func = &program.func;
    let loads = func.insts.keys().filter(|&i| func.insts[i].op.is_async_load());
    let scalars = graph.slice(loads).into_iter().filter_map(|node| match node {
        Node::Inst(i) if reads_fixed(&func.insts[i]) => global_access(&func.insts[i]),
        _ => None,
    });
    let array = |pointer: u32| program.launch.arguments.get(pointer as usize);
    let late = scalars.filter_map(|(access, _)| array(access.pointer)).filter(|a| !a.before_wait);
    late.map(|a| a.name.as_str()).min()
}

/// Arrays that the mapping allows to be read early and that threads read themselves, unless epilogue warps hoist their
/// loads.
fn read_late<'p>(program: &'p Program<'_>, graph: &Graph) -> impl Iterator<Item = &'p str> {
    let cut = handoff(program).is_some();
    let accesses = graph.global_accesses(&program.func).iter().filter(|_| cut);
    let read: FxHashSet<u32> = accesses.map(|g| g.access.pointer).collect();
    let hoisted = hoisted_before_wait(program);
    let others = move |(n, a): &(u32, &Argument)| a.before_wait && read.contains(n) && !hoisted.contains(n);
    (0..).zip(&program.launch.arguments).filter(others).map(|(_, a)| a.name.as_str())
}

fn first_loop(program: &Program<'_>, s: &Schedule, before_wait: &[Inst]) -> Result<Inst, String> {
    let func = &program.func;
    if !s.producer || program.teams > 1 {
        return Err("no producer fills the rings of one team".to_owned());
    }
    let loads = |inst: &Inst| loads_inside(func, *inst);
    let first = func.blocks[func.entry].insts.iter().copied().find(loads);
    let looped =
        first.filter(|&i| func.insts[i].op == Opcode::For).ok_or("other loads come before a loop")?;
    let body = func.insts[looped].blocks[0];
    let mut here = before_wait.iter().filter(|i| func.blocks[body].insts.contains(i)).peekable();
    if here.peek().is_none() {
        return Err("they stand inside another loop".to_owned());
    }
    let buffers: Vec<Buffer> =
        here.flat_map(|&i| touched(&func.insts[i].attr, func.insts[i].op)).map(|t| t.0).collect();
    // The buffers of helpers and of the handoff are no copies.
    let copied = s.rings.values().filter(|r| !r.fill.is_stored());
    let mut rings = copied.filter(|r| r.blocks.contains(&body) || inside(func, looped, &r.buffers));
    let alone = match (rings.next(), rings.next()) {
        (Some(r), None) => r.blocks == [body] && r.fill == RingFill::Tma && !r.cluster,
        _ => false,
    };
    if !alone {
        return Err("the loop has more than one ring, or one that it shares".to_owned());
    }
    match can_lead(func, body, &buffers) {
        true => Ok(looped),
        false => Err("their addresses depend on more than the loop's counter".to_owned()),
    }
}

/// Whether an instruction contains a load into one of these buffers.
fn inside(func: &Func<'_>, inst: Inst, buffers: &[Buffer]) -> bool {
    let insts = func.insts[inst].blocks.iter().flat_map(|&b| &func.blocks[b].insts);
    insts.copied().any(|i| {
        let d = &func.insts[i];
        let own = d.op.is_async_load() && touched(&d.attr, d.op).iter().any(|t| buffers.contains(&t.0));
        own || inside(func, i, buffers)
    })
}

fn loads_inside(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    let insts = d.blocks.iter().flat_map(|&b| &func.blocks[b].insts);
    d.op.is_async_load() || insts.copied().any(|i| loads_inside(func, i))
}
