//! Scheduling: who does what, when, and with how much buffering.
//!
//! ```text
//!  structured machine IR
//!     │ epilogue_roles  a tile's work in two halves, the second for warps of its own
//!     │ hoist_loads     loads that do not depend on the tile, before the loop over tiles, in registers of the epilogue warps
//!     │ merge_waits     loads awaited one behind the other fill one ring
//!     │ dedup_mma       products that are the same in every warp, computed once by a helper warp
//!     │ graph           dependences of values, events and memory (petgraph)
//!     │ schedule        roles, rings, depths, deferral: a Schedule, data
//!     │ smem            where buffers and barriers lie in shared memory
//!     ▼ expand_roles    role by role: control flow, slots, phases, barriers, descriptors
//!     · setmaxnreg      registers of roles, once it is known what each needs
//!  scheduled machine IR
//! ```
//!
//! After Task-Based Tensor Computations on Modern GPUs, sections 4.2.4 to 4.2.6: producer and consumer
//! roles are a cut of the graph at its events, and events become barriers. The schedule is kept apart
//! from its expansion, as LLVM's modulo scheduler keeps them, so that each is tested alone.

mod cluster;
mod dedup_mma;
mod epilogue_roles;
mod expand;
mod graph;
mod handoff;
mod hoist_loads;
mod merge_waits;
mod mma_order;
mod modulo;
mod pdl;
pub mod protocol;
mod rings;
mod roles;
mod schedule;
mod setmaxnreg;
mod smem;
mod stage;
#[cfg(test)]
mod tests;
mod transpose_helper_mma;

pub use dedup_mma::{do_dedup_mma, is_mma_duplicated};
pub use epilogue_roles::do_epilogue_roles;
pub use expand::{do_dead_code, do_expand_roles, do_value_numbering};
pub use graph::{Edge, Graph, Node};
pub use hoist_loads::do_hoist_loads;
pub use merge_waits::do_merge_waits;
pub use modulo::{Overlap, do_modulo, do_modulo_expand};
pub use schedule::{Feature, do_schedule, do_schedule_without};
pub use setmaxnreg::do_setmaxnreg;
pub use smem::do_smem;

use warplift_ir::machine::{Program, Scheduled};
use warplift_ir::target::Target;

/// Why a program cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchedError {
    /// Buffers and barriers exceed shared memory even at their least depth.
    #[error("shared memory: {needed} bytes are needed ({parts}), {limit} are there{}", each(*.resident))]
    SharedMemory {
        /// Bytes needed.
        needed: u32,
        /// Bytes there.
        limit: u32,
        /// Blocks of a multiprocessor that share it out.
        resident: u32,
        /// Buffers by size.
        parts: String,
    },
    /// More threads than a block has.
    #[error("a block of {threads} threads: at most 1024 are possible")]
    Threads {
        /// Threads wanted.
        threads: u32,
    },
    /// A cluster size that the chip lacks.
    #[error("a cluster of {size} blocks: at most {limit} are possible")]
    Cluster {
        /// Blocks wanted.
        size: u32,
        /// Most that are possible.
        limit: u32,
    },
    /// What the mapping says of the kernel as a whole does not go with what the kernel does.
    #[error("{what}")]
    Word {
        /// The word.
        word: &'static str,
        /// What it does not go with, by number.
        what: String,
    },
    /// Something that no rule here covers yet.
    #[error("{0}")]
    Unsupported(String),
}

fn each(resident: u32) -> String {
    if resident > 1 { format!(" for each of {resident} resident blocks") } else { String::new() }
}

/// A result of scheduling.
pub type Result<T> = std::result::Result<T, SchedError>;

/// Schedule, memory map and expansion in one call.
///
/// # Errors
/// Limits of the target, by number.
pub fn schedule_and_expand<'a>(program: &Program<'a>, target: &Target) -> Result<Scheduled<'a>> {
    let mut schedule = do_schedule(program, target)?;
    let shared = do_smem(program, &mut schedule, target)?;
    do_expand_roles(program, &schedule, shared, target)
}
