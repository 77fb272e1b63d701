//! Registers of a whole program: of the setup and of each role, inside its budget; what allocation must leave free; the
//! proof of both.
//!
//! ```text
//!  Scheduled: setup, role 0, role 1, .. ─ allocate, each alone ─► Scheduled, edges split + Allocations
//! ```

use crate::error::{CompileError, lines};
use crate::features::Feature;
use crate::state::State;
use warplift_emit::Allocations;
use warplift_ir::machine::{Scheduled, verify_scheduled};
use warplift_ir::target::Target;
use warplift_regalloc::{Budget, RegallocError};
use warplift_sched::Feature as Sched;

/// Registers that ptxas is left for what it moves out of unrolled bodies: with 3 it serialized products, with 10 it spilled,
/// with 11 it did neither (measured on a16w4).
const LEFT_TO_PTXAS: u32 = 11;

/// Registers of the setup and of every role.
///
/// # Errors
/// The first role that does not fit its budget.
pub fn allocate(s: &mut Scheduled<'_>, target: &Target) -> Result<Allocations, RegallocError> {
    let entry = s.roles.iter().map(|r| r.registers).max().unwrap_or(target.thread_registers);
    let (setup, setup_alloc) =
        warplift_regalloc::allocate(&s.setup, &Budget { registers: entry, role: "setup", target })?;
    s.setup = setup;
    let mut roles = Vec::new();
    for role in &mut s.roles {
        let budget = Budget { registers: role.registers, role: role.name, target };
        let (func, alloc) = warplift_regalloc::allocate(&role.func, &budget)?;
        role.func = func;
        roles.push(alloc);
    }
    Ok(Allocations { setup: setup_alloc, roles })
}

/// Declines unrolled loops where they leave ptxas too few registers, or none are enough.
pub(crate) fn leaves_room(s: &State<'_>, allocs: Option<&Allocations>) -> Result<(), CompileError> {
    let tight = |a: &Allocations| {
        let mut roles = s.scheduled().roles.iter().zip(&a.roles);
        roles.any(|(r, a)| r.name == "consumer" && a.pressure + LEFT_TO_PTXAS > r.registers)
    };
    match s.loops.iter().any(|l| l.unrolls) && allocs.is_none_or(tight) {
        true => Err(CompileError::Declined {
            feature: Feature::Sched(Sched::Unroll),
            why: format!("unrolled bodies leave ptxas fewer than {LEFT_TO_PTXAS} registers"),
        }),
        false => Ok(()),
    }
}

/// Shares out the registers between consumers and epilogue warps, or declines what needs too many.
pub(crate) fn do_setmaxnreg(s: &mut State<'_>) -> Result<(), CompileError> {
    let needed: Vec<u32> = s.allocations().roles.iter().map(|a| a.pressure).collect();
    let target = s.target;
    match warplift_sched::do_setmaxnreg(s.scheduled_mut(), &needed, target) {
        true => Ok(()),
        false => Err(CompileError::Declined {
            feature: Feature::Sched(Sched::HoistLoads),
            why: format!("the roles need {needed:?} registers, more than a block has for them"),
        }),
    }
}

/// The verifier of the role level: of the roles' code, and of their registers once they are given.
pub(crate) fn verified(s: &State<'_>) -> Result<(), String> {
    let scheduled = s.scheduled();
    for role in &scheduled.roles {
        verify_scheduled(&role.func).map_err(|e| format!("role {}: {}", role.name, lines(&e)))?;
    }
    Ok(())
}
