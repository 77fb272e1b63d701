//! Scheduling: which threads do what, when, and with how much buffering.
//!
//! ```text
//!  structured machine IR
//!     │ epilogue_roles  a tile's work is cut in two halves; epilogue warps run the second
//!     │ hoist_loads     loads that do not depend on the tile: before the loop over tiles, kept in registers
//!     │ merge_waits     loads with successive waits fill one ring
//!     │ dedup_mma       a product that is the same in every warp is computed once, by a helper warp
//!     │ share_rings     loops one behind the other fill the same ring
//!     │ operand_rings   operands that threads compute in a loop get a ring
//!     │ share_scratch   buffers of exchanges that are not in use at once share bytes
//!     │ modulo          iterations of a loop overlap
//!     │ bounds_masks    masks of accesses are decided once for a tile
//!     │ schedule        roles, rings, depths, deferral: a Schedule, data
//!     │ broadcast_tile_info  scalars of a tile from memory: the producer finds them for all roles
//!     │ tell_producer        scalars that threads find together: the consumers tell the producer
//!     │ smem            where buffers and barriers lie in shared memory
//!     ▼ expand_roles    role by role: control flow, slots, phases, barriers, descriptors
//!     · setmaxnreg      registers of the roles, once the need of each is known
//!  scheduled machine IR
//! ```
//!
//! Scheduling has six rooms. Each imports only those before it:
//!
//! | room | contents |
//! | --- | --- |
//! | `analysis` | facts about a program: dependences, accesses to memory, the threads in which a value is the same |
//! | `rewrite` | passes from program to program, before scheduling and after expansion |
//! | `schedule` | the schedule as data, and the layout of shared memory |
//! | `expand` | the expansion of a schedule into roles |
//! | `modulo` | modulo scheduling of a loop's instructions, and loops rewritten accordingly |
//! | `protocol` | a run of the expanded roles against each other, which proves that barriers and stages agree |
//!
//! The design follows Task-Based Tensor Computations on Modern GPUs, sections 4.2.4 to 4.2.6: producer and consumer
//! roles are a cut of the graph at its events, and events become barriers. The schedule is separate from its expansion,
//! as in LLVM's modulo scheduler, so that each is tested alone.

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

pub use analysis::{Graph, hoisted_registers, is_mma_duplicated};
pub use error::{Result, SchedError};
pub use expand::{LEFT_TO_PTXAS, divides_registers, do_expand_roles, do_setmaxnreg, takes_its_share};
pub use feature::Feature;
pub use modulo::{Overlap, declines_operand_rings, do_modulo, do_modulo_expand};
pub use rewrite::{
    do_bounds_masks, do_dead_code, do_dedup_mma, do_epilogue_roles, do_hoist_loads, do_merge_waits,
    do_operand_rings, do_share_rings, do_share_scratch, do_value_numbering,
};
pub use schedule::{
    declines_deferral, do_broadcast_tile_info, do_schedule, do_schedule_without, do_smem, do_tell_producer,
};
