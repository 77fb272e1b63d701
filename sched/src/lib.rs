//! Scheduling: who does what, when, and with how much buffering.
//!
//! ```text
//!  structured machine IR
//!     │ epilogue_roles  a tile's work in two halves, the second for warps of its own
//!     │ hoist_loads     loads that do not depend on the tile, before the loop over tiles, in registers of the epilogue warps
//!     │ merge_waits     loads awaited one behind the other fill one ring
//!     │ dedup_mma       products that are the same in every warp, computed once by a helper warp
//!     │ modulo          loops overlapped with themselves
//!     │ schedule        roles, rings, depths, deferral: a Schedule, data
//!     │ smem            where buffers and barriers lie in shared memory
//!     ▼ expand_roles    role by role: control flow, slots, phases, barriers, descriptors
//!     · setmaxnreg      registers of roles, once it is known what each needs
//!  scheduled machine IR
//! ```
//!
//! Six rooms, each of which imports only those before it:
//!
//! | room | what it holds |
//! | --- | --- |
//! | `analysis` | what is known of a program: dependences, accesses to memory, which threads a value is the same in |
//! | `rewrite` | passes from program to program, before the schedule and behind the expansion |
//! | `schedule` | the schedule as data, and where things lie in shared memory |
//! | `expand` | a schedule becomes roles |
//! | `modulo` | times of a loop's instructions, and loops rewritten by them |
//! | `protocol` | expanded roles run against each other, to prove that barriers and stages agree |
//!
//! After Task-Based Tensor Computations on Modern GPUs, sections 4.2.4 to 4.2.6: producer and consumer
//! roles are a cut of the graph at its events, and events become barriers. The schedule is kept apart
//! from its expansion, as LLVM's modulo scheduler keeps them, so that each is tested alone.

mod analysis;
mod error;
mod expand;
mod feature;
mod modulo;
pub mod protocol;
mod rewrite;
mod schedule;
#[cfg(test)]
mod tests;

pub use analysis::{hoisted_registers, is_mma_duplicated};
pub use error::{Result, SchedError};
pub use expand::{do_expand_roles, do_setmaxnreg};
pub use feature::Feature;
pub use modulo::{Overlap, do_modulo, do_modulo_expand};
pub use rewrite::{
    do_dead_code, do_dedup_mma, do_epilogue_roles, do_hoist_loads, do_merge_waits, do_value_numbering,
};
pub use schedule::{do_schedule, do_schedule_without, do_smem};
