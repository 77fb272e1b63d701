//! Registers that roles have, and sizes that several rooms count with.

use warplift_ir::machine::{Program, RoleKind};
use warplift_ir::target::Target;

/// Registers of a thread of the consumers and of the producer, and whether they differ from those at entry.
///
/// Consumers get what all threads have at entry, less what the producer keeps, in steps. Where the entry gives them as many to
/// within a step, nothing changes.
pub(crate) fn budgets(warps: u32, producer: bool, target: &Target) -> (u32, u32, bool) {
    let roles = &target.role_registers;
    let copying = if producer { 32 * WARPGROUP } else { 0 };
    let threads = 32 * warps + copying;
    let entry = target.entry_registers(threads);
    if !producer || entry + target.register_step >= roles.computing {
        return (entry, entry, false);
    }
    let (all, low) = (entry * threads, roles.of_producer(warps));
    let left = target.in_steps((all - copying * low) / (32 * warps)).min(roles.computing);
    // What steps leave is the producer's, but never more than the entry gives.
    let low = target.in_steps((all - 32 * warps * left) / copying).min(entry);
    (left, low, left != low)
}

/// Warps of a warpgroup.
pub(crate) const WARPGROUP: u32 = 4;

/// Stages beyond which a ring hides nothing more: the copies in flight cover the latency of memory.
pub(crate) const MOST_STAGES: u32 = 8;

/// Registers that a consumer needs beside its fragments: addresses, rings, coordinates.
pub(crate) const SCALAR_REGISTERS: u32 = 30;

/// Bytes of one barrier.
pub(crate) const BARRIER: u32 = 8;

/// Registers that a role may need at most, of `high` for each.
pub(crate) fn most(program: &Program<'_>, role: RoleKind, high: u32, target: &Target) -> u32 {
    match program.epilogue_role.as_ref().is_some_and(|r| r.hoisted_registers > 0)
        && role == RoleKind::Epilogue
    {
        true => most_of_epilogue(high, target),
        false => high,
    }
}

/// Registers of epilogue warps whose consumers have the least.
pub(crate) fn most_of_epilogue(high: u32, target: &Target) -> u32 {
    (2 * high - target.least_registers).min(target.most_registers())
}
