//! Scheduling: who does what, when, and with how much buffering.
//!
//! ```text
//!  structured machine IR
//!     │ relay      a tile's work in two halves, for warps of their own
//!     │ held       what all tiles load alike, in registers of the half that ends them
//!     │ together   loads awaited one behind the other fill one ring
//!     │ alike      products that all warps would make alike, for helpers
//!     │ graph      dependences of values, events and memory (petgraph)
//!     │ schedule   roles, rings, depths, deferral: a Schedule, data
//!     │ shared     where buffers and barriers lie
//!     ▼ expand     role by role: control flow, slots, phases, barriers, descriptors
//!     · share      registers of roles, once it is known what each needs
//!  scheduled machine IR
//! ```
//!
//! After Task-Based Tensor Computations on Modern GPUs, sections 4.2.4 to 4.2.6: producer and consumer
//! roles are a cut of the graph at its events, and events become barriers. The schedule is kept apart
//! from its expansion, as LLVM's modulo scheduler keeps them, so that each is tested alone.

mod alike;
mod cluster;
mod early;
mod expand;
mod graph;
mod handed;
mod held;
mod modulo;
pub mod protocol;
mod relay;
mod rings;
mod roles;
mod schedule;
mod share;
mod shared;
mod stage;
#[cfg(test)]
mod tests;
mod together;
mod turned;
mod turns;

pub use alike::{do_alike, is_made_by_all};
pub use expand::do_expand;
pub use graph::{Edge, Graph, Node};
pub use held::do_held;
pub use modulo::{Overlap, do_modulo, do_rotate};
pub use relay::do_relay;
pub use schedule::{Feature, do_schedule, do_schedule_without};
pub use share::do_share;
pub use shared::do_shared;
pub use together::do_together;

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
    let shared = do_shared(program, &mut schedule, target)?;
    do_expand(program, &schedule, shared, target)
}
