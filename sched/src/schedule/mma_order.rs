//! The order of warpgroups at the tensor cores: one warpgroup issues its products in its turn, while the others run
//! threads' work.
//!
//! ```text
//!  warpgroup 0   wait 0 ─ products ─ wake 1 ─ threads' work ────────── wait 0 ─ products ..
//!  warpgroup 1   threads' work ────── wait 1 ─ products ─ wake 0 ─ threads' work ──────
//! ```
//!
//! At the kernel's start the last warpgroup wakes the first one. At the kernel's end the first one takes the last wake.
//! Between two iterations, of one loop or of several, exactly one wake is under way, to the warpgroup whose turn is
//! next. No warpgroup is woken twice before it has woken the next. All warpgroups run the same number of iterations,
//! since a block's scalars are the same in all of them.
//!
//! The mapping may ask for turns or forbid them. If it says nothing, turns are taken where the simulated block is
//! faster with them (`modulo/choose.rs`).

use super::named_barriers::NamedBarriers;
use crate::analysis::{Graph, WARPGROUP};
use warplift_ir::machine::{Attr, Buffer, BufferKind, Inst, MmaOrder, Program, RingFill, Schedule};
use warplift_ir::target::{Opcode, Target};

/// Chooses the loops whose warpgroups take turns, or remarks why they do not.
pub(crate) fn do_mma_order(program: &Program<'_>, graph: &Graph, s: &mut Schedule, target: &Target) {
    for inst in graph.loops(&program.func) {
        let Attr::Loop(attr) = &program.func.insts[inst].attr else { continue };
        if attr.mma_order != Some(true) {
            continue;
        }
        match mma_order(program, graph, s, inst, target) {
            Ok(mma_order) => s.mma_order.push(mma_order),
            Err(why) => s.remarks.push(format!("warpgroups of loop `{}` take no turns: {why}", attr.name)),
        }
    }
}

fn mma_order(
    program: &Program<'_>,
    graph: &Graph,
    s: &Schedule,
    looped: Inst,
    target: &Target,
) -> Result<MmaOrder, &'static str> {
    let func = &program.func;
    let insts = &func.blocks[func.insts[looped].blocks[0]].insts;
    let mut products = insts.iter().copied().filter(|&i| func.insts[i].op == Opcode::Wgmma);
    let first = products.next().ok_or("it has no products of warpgroups")?;
    let last = products.next_back().unwrap_or(first);
    let groups = program.warps / WARPGROUP;
    let refusals = [
        (program.teams > 1, "teams have turns of their own"),
        (groups < 2, "there is one warpgroup only"),
        (
            !NamedBarriers::of(program, s.producer).suffice(target),
            "there are more warpgroups than named barriers",
        ),
        (!s.producer, "they copy for themselves and meet at every stage"),
        (
            has_barrier(program, graph, s, looped) || graph.conflicts_in_global(func),
            "they meet in it, and who waits for its turn cannot",
        ),
        (
            stores_between(program, graph, looped, [first, last]),
            "they wait among the products for what others store, and who waits for its turn cannot",
        ),
        (s.in_flight[looped] > 0, "its products stay in flight over an iteration"),
        (s.deferral.as_ref().is_some_and(|d| d.inner == looped), "deferred results stand in it"),
    ];
    match refusals.iter().find(|r| r.0) {
        Some((_, why)) => Err(why),
        None => Ok(MmaOrder { looped, first, last }),
    }
}

/// Whether threads store an operand between the first and the last product of a loop's body. Another warpgroup stores its part
/// only when it has its turn, which ends behind the last product.
fn stores_between(program: &Program<'_>, graph: &Graph, looped: Inst, products: [Inst; 2]) -> bool {
    let insts = &program.func.blocks[program.func.insts[looped].blocks[0]].insts;
    let [first, last] = products.map(|p| insts.iter().position(|&i| i == p).unwrap_or(0));
    let operand = |b: Buffer| program.buffers[b].kind == BufferKind::Operand;
    let stores =
        |&i: &Inst| graph.accesses_by(&program.func, i).iter().any(|a| a.writes && operand(a.buffer));
    insts[first..=last].iter().any(stores)
}

/// Whether a loop has a barrier of all computing warps, because threads write something in it that other threads or
/// products read.
fn has_barrier(program: &Program<'_>, graph: &Graph, s: &Schedule, looped: Inst) -> bool {
    let inside = graph.accesses_inside(&program.func, looped);
    let filled = |b: Buffer| s.rings.values().any(|r| r.fill == RingFill::CpAsync && r.buffers.contains(&b));
    let exchanged = |b: Buffer| {
        program.buffers[b].kind == BufferKind::Scratch && inside.iter().any(|a| a.buffer == b && a.writes)
    };
    inside.iter().any(|a| filled(a.buffer) || exchanged(a.buffer))
}
