//! Expansion: a schedule becomes control flow, slots, phases, barriers, descriptors and addresses.
//!
//! ```text
//!  setup     barriers are initialised by one thread, then all meet
//!  producer  one elected thread:  wait empty[slot] ─ expect bytes on full[slot] ─ copies ─ next slot
//!  consumer  warps:               wait full[slot] ─ fence, wgmma.., commit ─ wait ─ arrive empty[slot] ─ next slot
//! ```
//!
//! Each role walks the structured program once and keeps what its effects need. Loops become rotated loops. Their
//! blocks carry the kept values, and slot and phase of every ring that advances inside. Both sides run the same
//! sequence of fills, so the counters agree by construction and are never reset (Task-Based Tensor Computations on
//! Modern GPUs, section 4.2.6: events become barriers).

mod barrier_fixpoint;
mod blocks;
mod consumer;
mod control;
mod cp_async;
mod decision;
mod deferred;
mod footprints;
mod global;
mod helper;
mod mma_order;
mod multicast;
mod next_tile;
mod operand;
mod pdl;
mod producer;
mod ring;
mod role;
mod setmaxnreg;
mod setup;
mod staging;
mod state;
mod tile_info;
mod unroll;
mod wgmma_pipelining;

pub use setmaxnreg::{LEFT_TO_PTXAS, divides_registers, do_setmaxnreg, takes_its_share};

use crate::analysis::{Graph, Node, budgets, draws_tiles, effects_of, hoisted_before_wait, limit, node_of};
use crate::error::{Result, SchedError};
use role::Expand;
use rustc_hash::FxHashSet;
use state::{Given, Who};
use warplift_ir::machine::{Inst, Program, Role, RoleKind, Schedule, Scheduled, SharedMap};
use warplift_ir::target::Target;

/// Warps of the producer's warpgroup. Only a few of them work (one for each team, and those of other roles), but
/// `setmaxnreg` applies to whole warpgroups.
pub(crate) const PRODUCER_WARPS: u32 = 4;

/// Expands a schedule into roles.
///
/// # Errors
/// The block has too many threads.
pub fn do_expand_roles<'a>(
    program: &Program<'a>,
    graph: &Graph,
    schedule: &Schedule,
    shared: SharedMap,
    target: &Target,
) -> Result<Scheduled<'a>> {
    let warps = program.computing_warps();
    let threads = 32 * (warps + if schedule.producer { PRODUCER_WARPS } else { 0 });
    if threads > target.block_threads {
        return Err(SchedError::Threads { threads, most: target.block_threads });
    }
    let (high, low, split) = budgets(warps, schedule.producer, target);
    let (mut launch, parts) = multicast::part_maps(program, schedule);
    // A mapping that allows early reads matters only if something is read early.
    let hoisted = hoisted_before_wait(program);
    for (n, argument) in (0..).zip(&mut launch.arguments) {
        argument.before_wait &= schedule.before_wait.is_some() || hoisted.contains(&n);
    }
    let setup = setup::do_setup(program, &launch, schedule, &shared);
    let expand = |role: RoleKind| {
        let needed = kept(program, schedule, graph, role);
        let given = Given { program, schedule, graph, smem: &shared, parts: &parts };
        Expand::new(given, Who { role, needed })
    };
    let each = program.warps * program.teams;
    let registers = if split { limit(warps / each, warps, target) } else { high };
    let mut roles = Vec::new();
    let computing = [RoleKind::Consumer, RoleKind::Epilogue];
    for (role, first_warp) in computing.into_iter().zip((0..warps).step_by(each as usize)) {
        let func = expand(role).consumer(split.then_some(registers))?;
        let name = if schedule.producer { role.name() } else { "all" };
        roles.push(Role { name, first_warp, warps: each, copiers: 0, registers, func });
    }
    if schedule.producer {
        let others = [RoleKind::EpilogueLoad, RoleKind::Helper];
        let others = others.map(|r| (r, kept(program, schedule, graph, r)));
        let others: Vec<_> = others.into_iter().filter(|(_, needed)| !needed.is_empty()).collect();
        let others: Vec<_> =
            others.into_iter().map(|(r, needed)| (r, needed, copying_warps(program, r))).collect();
        let copiers = program.teams + others.iter().map(|o| o.2).sum::<u32>();
        let func = expand(RoleKind::Producer).producer(split.then_some(low), others)?;
        let (name, warps, first_warp) = (RoleKind::Producer.name(), PRODUCER_WARPS, warps);
        roles.push(Role { name, first_warp, warps, copiers, registers: low, func });
    }
    Ok(Scheduled { launch, threads, shared, setup, roles })
}

/// Warps of the producer's warpgroup that another role has. Helpers get all that are left, and take turns.
fn copying_warps(program: &Program<'_>, role: RoleKind) -> u32 {
    match role {
        RoleKind::Helper => PRODUCER_WARPS - program.teams,
        _ => 1,
    }
}

/// The part of the program that a role keeps: its effects, and everything they reach by values and control.
fn kept(program: &Program<'_>, s: &Schedule, graph: &Graph, role: RoleKind) -> FxHashSet<Node> {
    let func = &program.func;
    // The producer draws tiles even if other warps make all copies.
    let draws = |inst: &Inst| role == RoleKind::Producer && draws_tiles(func, *inst);
    let roots = func.insts.keys().filter(draws).chain(effects_of(func, &s.roles, |r| r == role));
    let roots = roots.map(Node::Inst);
    let decisions: FxHashSet<Node> = s.decisions.iter().map(|&v| node_of(func, v)).collect();
    let told: FxHashSet<Node> = s.tile_info.values.iter().map(|&v| node_of(func, v)).collect();
    match role {
        RoleKind::Producer => graph.slice_up_to(roots.chain(told), &decisions),
        RoleKind::Consumer => graph.slice_up_to(roots.chain(decisions), &told),
        _ => graph.slice_up_to(roots, &told),
    }
}
