//! Registers that roles have, and sizes that several rooms count with.

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

/// Registers that one of some computing roles may need at most: what is left if all others get the least. `setmaxnreg` divides
/// them once it is known what each needs.
pub(crate) fn limit(roles: u32, warps: u32, target: &Target) -> u32 {
    let threads = 32 * (warps + WARPGROUP);
    let own = 32 * warps / roles;
    let left = target.entry_registers(threads) * threads - (threads - own) * target.least_registers;
    target.in_steps(left / own).min(target.most_registers())
}
