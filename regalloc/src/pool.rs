//! The register pool of a block: what `setmaxnreg` may hand around.
//!
//! The pool is what the block has at entry, registers of a thread times threads, not the whole file:
//! 168 x 384 = 64512. A block that asks for more waits forever.

use crate::RegallocError;
use warplift_ir::machine::Scheduled;
use warplift_ir::target::Target;

/// Checks that the roles together ask for no more registers than the block has.
///
/// # Errors
/// [`RegallocError::Pool`] if they do, [`RegallocError::Count`] for a count that hardware does not take.
pub fn pool_check(program: &Scheduled<'_>, target: &Target) -> Result<(), RegallocError> {
    let (threads, entry) = (program.threads, target.entry_registers(program.threads));
    let (least, most, step) = (target.least_registers, target.most_registers(), target.register_step);
    for role in program.roles.iter().filter(|_| program.roles.len() > 1) {
        let registers = role.registers;
        if !registers.is_multiple_of(step) || !(least..=most).contains(&registers) {
            let role = role.name.to_owned();
            return Err(RegallocError::Count { role, registers, step, least, most });
        }
    }
    let asked = program.roles.iter().map(|r| r.registers * r.warps * 32).sum();
    let pool = entry * threads;
    if asked > pool { Err(RegallocError::Pool { asked, pool, threads, entry }) } else { Ok(()) }
}
