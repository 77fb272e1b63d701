//! Registers of the roles, and sizes that several rooms use.

use warplift_ir::target::Target;

/// Registers of each consumer thread and of each producer thread, and whether the two differ from the number at entry.
///
/// Consumers get the registers that all threads have at entry, less those that the producer keeps, in steps. Nothing
/// changes if the number at entry is within one step of what the target gives computing roles.
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
    // The producer gets the rest that steps leave, but never more than the entry gives.
    let low = target.in_steps((all - 32 * warps * left) / copying).min(entry);
    (left, low, left != low)
}

/// Warps of a warpgroup.
pub(crate) const WARPGROUP: u32 = 4;

/// A ring hides nothing more beyond this many stages: the copies in flight cover the latency of memory.
pub(crate) const MOST_STAGES: u32 = 8;

/// The least stages of a main loop's ring that hide its loads.
pub(crate) const LEAST_STAGES: u32 = 3;

/// Registers that a consumer needs in addition to its fragments: addresses, rings, coordinates.
pub(crate) const SCALAR_REGISTERS: u32 = 30;

/// Bytes of one barrier.
pub(crate) const BARRIER: u32 = 8;

/// The most registers that one of several computing roles may need: those left if all other roles get the least.
/// `setmaxnreg` divides the registers once the need of each role is known.
pub(crate) fn limit(roles: u32, warps: u32, target: &Target) -> u32 {
    let threads = 32 * (warps + WARPGROUP);
    let own = 32 * warps / roles;
    let left = target.entry_registers(threads) * threads - (threads - own) * target.least_registers;
    target.in_steps(left / own).min(target.most_registers())
}
