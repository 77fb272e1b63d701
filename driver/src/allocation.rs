//! Registers of a whole program: of the setup and of each role, inside its budget.
//!
//! ```text
//!  Scheduled: setup, role 0, role 1, .. ─ allocate, each alone ─► Scheduled, edges split + Allocations
//! ```

use warplift_emit::Allocations;
use warplift_ir::machine::Scheduled;
use warplift_regalloc::{Budget, RegallocError};

/// Registers of the setup and of every role.
///
/// # Errors
/// The first role that does not fit its budget.
pub fn allocate(s: &mut Scheduled<'_>) -> Result<Allocations, RegallocError> {
    let entry = s.roles.iter().map(|r| r.registers).max().unwrap_or(255);
    let (setup, setup_alloc) =
        warplift_regalloc::allocate(&s.setup, &Budget { registers: entry, role: "setup" })?;
    s.setup = setup;
    let mut roles = Vec::new();
    for role in &mut s.roles {
        let budget = Budget { registers: role.registers, role: role.name };
        let (func, alloc) = warplift_regalloc::allocate(&role.func, &budget)?;
        role.func = func;
        roles.push(alloc);
    }
    Ok(Allocations { setup: setup_alloc, roles })
}
