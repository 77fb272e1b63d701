//! Expansion.
use crate::{Result, SchedError};
use warplift_ir::machine::{Program, Schedule, Scheduled, SharedMap};
use warplift_ir::target::Target;
/// Expands.
///
/// # Errors
/// Always.
pub fn do_expand<'a>(_: &Program<'a>, _: &Schedule, _: SharedMap, _: &Target) -> Result<Scheduled<'a>> {
    Err(SchedError::Unsupported("expansion".to_owned()))
}
