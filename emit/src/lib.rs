//! Emission turns machine IR and its registers into PTX text and the launch manifest.
//!
//! It decides nothing. One instruction is one row of the target's table, written with the allocated names. The text of
//! a kernel:
//!
//! ```text
//!  .version .target .file .extern .shared smem[]
//!  .visible .entry kernel(params) .reqntid ... {
//!      { setup: all threads }
//!      { warp index, uniform; bra.uni to a role }
//!      $producer: { registers; blocks; ret }
//!      $consumer: { registers; blocks; ret }
//!  }
//! ```
//!
//! Roles are branches of one entry, never `.func`, because a call serializes `wgmma`. Each role declares its own names:
//! `%r` of 32 bits, `%d` of 64 bits, `%p` predicates. Every loop header carries `.pragma "nounroll"`.

mod async_copy;
mod error;
mod loops;
mod manifest;
mod mma_sync;
mod module;
mod operand;
mod print;
mod role;
mod row;
mod tensor;
mod texts;

#[cfg(test)]
mod tests;

pub use error::EmitError;

use serde::{Deserialize, Serialize};
use warplift_ir::machine::{Allocation, Scheduled};
use warplift_ir::manifest::Manifest;
use warplift_ir::target::Target;

/// Registers of a scheduled program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocations {
    /// Of the setup code.
    pub setup: Allocation,
    /// Of each role, in order.
    pub roles: Vec<Allocation>,
}

/// The result of a compile.
#[derive(Clone, Debug)]
pub struct Output {
    /// PTX text.
    pub ptx: String,
    /// The launch manifest.
    pub manifest: Manifest,
}

/// Writes a scheduled and allocated program for a target. Setup and roles must be the functions that allocation
/// returned, because it splits edges.
///
/// # Errors
/// A structured row or a malformed attribute is left, an allocation lacks an operand, or a parameter has
/// no PTX type: bugs of earlier stages, named with role and instruction. The target lacks an instruction.
pub fn emit(program: &Scheduled<'_>, allocs: &Allocations, target: &Target) -> Result<Output, EmitError> {
    Ok(Output { ptx: module::write(program, allocs, target)?, manifest: manifest::manifest(program, target) })
}
