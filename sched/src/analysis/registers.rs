//! Registers that roles have, and sizes that several rooms count with.

use warplift_ir::machine::{Program, RoleKind};
use warplift_ir::target::Target;

/// Registers of a thread of the consumers and of the producer, and whether they are other than at entry: what that gives all
/// threads, less the producer's share, in steps.
pub(crate) fn budgets(warps: u32, producer: bool, target: &Target) -> (u32, u32, bool) {
    let threads = 32 * warps + if producer { 128 } else { 0 };
    let entry = target.entry_registers(threads);
    if !producer || entry >= 232 {
        return (entry, entry, false);
    }
    let (all, low) = (entry * threads, if warps > 8 { 32 } else { 40 });
    let left = target.in_steps((all - 128 * low) / (32 * warps)).min(240);
    // What steps leave is the producer's; at last it is as much as the entry gives.
    let low = target.in_steps((all - 32 * warps * left) / 128).min(entry);
    (left, low, left != low)
}

/// Warps of a warpgroup.
pub(crate) const WARPGROUP: u32 = 4;

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
