//! The schedule of a program as data: roles, rings, staging slots, deferral.

mod broadcast_tile_info;
mod copies;
mod deferral;
mod helper;
mod mma_order;
mod multicast;
mod named_barriers;
mod pdl;
mod rings;
mod roles;
mod smem;
mod stage;
mod staging;
mod tell_producer;
mod wgmma_pipelining;

pub use broadcast_tile_info::do_broadcast_tile_info;
pub(crate) use copies::slots_of;
pub(crate) use deferral::{pending, stores_plainly, trips_vary};
pub(crate) use multicast::{box_rows, row_pitch};
pub(crate) use named_barriers::{NamedBarrier, NamedBarriers};
pub(crate) use rings::filled_bytes;
pub(crate) use smem::OPENED_AHEAD;
pub use smem::do_smem;
pub(crate) use stage::{ends_with_its_loop, fills_first, fills_last, keeps_last, last_store, stage_end};
pub(crate) use staging::staging_sites;
pub use tell_producer::do_tell_producer;

use self::deferral::deferral;
use self::helper::{do_helper, helper_rings};
use self::mma_order::do_mma_order;
use self::multicast::do_multicast;
use self::pdl::do_pdl;
use self::rings::{epilogue_rings, find_rings, hold_back, next_tile_ring, operand_rings};
use self::roles::{do_epilogue, do_roles};
use self::staging::stored_again;
use self::wgmma_pipelining::in_flight;
use crate::analysis::{Graph, is_product, tile_loop};
use crate::error::{Result, SchedError, word};
use crate::feature::Feature;
use warplift_ir::machine::{BufferKind, Program, RingFill, Schedule};
use warplift_ir::target::{Opcode, Target};

/// The most blocks of a cluster. More blocks gain nothing where power limits the rate, and couple more blocks to each
/// other.
const MAX_CLUSTER: u32 = 2;

/// Decides roles, rings and deferral of a program alone, with a dependence graph for this call.
///
/// # Errors
/// Limits of the target, with their numbers.
pub fn do_schedule(program: &Program<'_>, target: &Target) -> Result<Schedule> {
    do_schedule_without(program, &Graph::built(&program.func), target, &[])
}

/// Decides roles, rings and deferral, without the disabled features.
///
/// # Errors
/// Limits of the target, with their numbers.
pub fn do_schedule_without(
    program: &Program<'_>,
    graph: &Graph,
    target: &Target,
    disabled: &[Feature],
) -> Result<Schedule> {
    let has = |f: Feature| !disabled.contains(&f);
    let mut s = Schedule { beside_products: has(Feature::BesideProducts), ..Schedule::default() };
    check_limits(program, graph, target)?;
    if has(Feature::WarpSpecialization) {
        do_roles(program, graph, &mut s);
    }
    let late = do_epilogue(program, graph, &mut s)?;
    do_helper(program, graph, &mut s);
    check_resident(program, &s, target)?;
    find_rings(program, graph, &mut s)?;
    epilogue_rings(program, graph, &late, &mut s);
    helper_rings(program, graph, &mut s);
    next_tile_ring(program, &mut s);
    operand_rings(program, graph, &mut s);
    hold_back(program, graph, &mut s);
    if !s.producer && program.teams > 1 && !s.rings.is_empty() {
        let what =
            "`pingpong` needs a producer: without one, barriers of one team would meet the whole block";
        return Err(word("pingpong", what));
    }
    if !s.producer {
        // The same threads fill and empty this ring in turn, so a second stage would stay empty.
        s.rings.values_mut().filter(|r| r.fill == RingFill::Tma).for_each(|r| r.wish = Some(1));
    } else if has(Feature::Multicast) {
        do_multicast(program, &mut s);
    }
    for (b, d) in program.buffers.iter() {
        s.slots[b] = if d.kind == BufferKind::Staging && stored_again(program, b) { 2 } else { 1 };
    }
    do_pdl(program, graph, &mut s);
    for inst in program.func.insts.keys().filter(|_| has(Feature::InFlight)) {
        in_flight(program, graph, inst, &mut s);
    }
    if program.deferred && has(Feature::Deferral) {
        s.deferral = deferral(program, graph, target).ok();
    }
    if has(Feature::MmaOrder) {
        do_mma_order(program, graph, &mut s, target);
    }
    Ok(s)
}

/// Why a persistent kernel's results are not held for a tile, if the mapping asks for it and the feature is on; `None` where
/// they are.
pub fn declines_deferral(
    program: &Program<'_>,
    graph: &Graph,
    target: &Target,
    disabled: &[Feature],
) -> Option<String> {
    let asked =
        program.deferred && !disabled.contains(&Feature::Deferral) && tile_loop(&program.func).is_some();
    asked.then(|| deferral(program, graph, target).err())?
}

fn check_limits(program: &Program<'_>, graph: &Graph, target: &Target) -> Result<()> {
    let threads = 32 * program.computing_warps() + 128;
    if threads > target.block_threads + 128 {
        return Err(SchedError::Threads { threads, most: target.block_threads });
    }
    let size = program.launch.cluster;
    let limit = target.cluster.min(if program.blocks > 1 { target.cluster } else { MAX_CLUSTER });
    if size > limit {
        return Err(SchedError::Cluster { size, limit });
    }
    let copies = program.func.insts.values().any(|d| d.op == Opcode::CpAsync);
    if let Some(op) = program.func.insts.values().map(|d| d.op).find(|&op| program.blocks > 1 && is_local(op))
    {
        let what = format!("`blocks` does not go with `{}`: several blocks hold a tile together", op.name());
        return Err(word("blocks", what));
    }
    if program.teams > 1 && graph.conflicts_in_global(&program.func) {
        let what = "`pingpong` does not go with a kernel that reads what it stores: barriers of one team would meet the whole block";
        return Err(word("pingpong", what));
    }
    let exchanges =
        program.buffers.values().any(|b| matches!(b.kind, BufferKind::Scratch | BufferKind::Operand));
    let by_threads = match (copies, exchanges) {
        (true, _) => "tiles that threads fill",
        (_, true) => "tiles that threads exchange, as on their way to stores that are no tensor copies",
        _ => return Ok(()),
    };
    if program.teams > 1 {
        let what = format!(
            "`pingpong` does not go with {by_threads}: barriers of one team would meet the whole block"
        );
        return Err(word("pingpong", what));
    }
    Ok(())
}

/// Checks several resident blocks: a multiprocessor must hold all their threads, and there must be no producer.
fn check_resident(program: &Program<'_>, s: &Schedule, target: &Target) -> Result<()> {
    let (resident, threads) = (program.launch.resident, 32 * program.warps * program.teams / program.blocks);
    if resident > 1 && s.producer {
        let what = "`resident` does not go with a producer: its roles divide the registers of the whole multiprocessor";
        return Err(word("resident", what));
    }
    match resident.saturating_mul(threads) {
        all if resident > 1 && all > target.resident_threads => {
            let what = format!(
                "{resident} resident blocks of {threads} threads: a multiprocessor holds {}",
                target.resident_threads
            );
            Err(word("resident", what))
        }
        _ => Ok(()),
    }
}

/// Whether an instruction moves a tile to or from the shared memory of one block, or multiplies data there.
fn is_local(op: Opcode) -> bool {
    let copies = matches!(op, Opcode::TmaStore | Opcode::CpAsync | Opcode::Stmatrix | Opcode::Ldmatrix);
    copies || op.is_async_load() || is_product(op)
}
