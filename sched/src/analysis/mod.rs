//! Facts about a program. Every room asks here; no room scans the program by itself.
//!
//! ```text
//!  graph       dependences: values, events, memory, structure
//!  memory      accesses to shared memory in order, for the graph
//!  access      buffers and arrays that an instruction accesses
//!  structure   loops, their contents, and the values that blocks pass on
//!  invariance  loops in which a value changes            thread_invariance  threads among which it is the same
//!  bounds      indices over all threads, for masks
//!  cluster     values that are the same in all blocks of a cluster
//!  cycles      cycles of instructions, by the target's rows
//!  copying     who can issue copies        lead    copies that can be issued iterations ahead
//!  tile_info   scalars from memory that the producer finds for all
//!  epilogue    work of epilogue warps      helper  work of a helper warp
//!  registers   registers of roles                       pressure           registers that are live at once
//! ```

mod access;
mod bounds;
mod cluster;
mod copying;
mod cycles;
mod epilogue;
mod graph;
mod helper;
mod invariance;
mod lead;
mod memory;
mod pressure;
mod registers;
mod structure;
mod thread_invariance;
mod tile_info;

pub(crate) use access::*;
pub(crate) use bounds::{Bound, bounds_of};
pub(crate) use cluster::loads_of_cluster;
pub(crate) use copying::{Copying, copying, early_copies};
pub(crate) use cycles::{issues, require_rows, unit_cycles};
pub use epilogue::hoisted_registers;
pub(crate) use epilogue::{epilogue_insts, handoff, hoisted_before_wait, hoisted_loads, rereads};
pub use graph::Graph;
pub(crate) use graph::{Node, node_of};
pub use helper::is_mma_duplicated;
pub(crate) use helper::{helper_insts, read_for};
pub(crate) use invariance::{Invariance, Remaking};
pub(crate) use lead::{can_lead, copies_of, led_ahead, led_by, scalars_of, threads_can_lead};
pub(crate) use memory::Access;
pub(crate) use pressure::most_alive;
pub(crate) use registers::*;
pub(crate) use structure::*;
pub(crate) use thread_invariance::{LANE, ThreadInvariance};
pub(crate) use tile_info::{effects_of, find_tile_info, needed_beside_copies};
