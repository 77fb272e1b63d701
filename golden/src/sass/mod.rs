//! A reader of SASS: what ptxas made of a kernel, seen as roles and loops.
//!
//! ```text
//!  nvdisasm -c ─ text ─► instructions, labels ─ flow ─► blocks, edges, loops ─ roles ─► summary
//!
//!        setup ── dispatch ──► USETMAXREG ... HGMMA   consumer
//!                          └─► USETMAXREG ... UTMALDG producer
//! ```
//!
//! A role starts where it changes its registers (`USETMAXREG`) and owns what is reachable from there. A
//! kernel in which no warps do so has one role, `all`. What SASS instructions do is not documented beyond
//! their names (CUDA Binary Utilities, Instruction Set Reference); the reader knows of their operands what
//! the summary needs: which registers an instruction names, which of them it writes, and where it jumps.

mod flow;
mod groups;
mod instruction;
mod live;
mod roles;
mod summary;

pub use flow::{Block, Flow, Loop};
pub use instruction::{Instruction, Registers, SassError, WARPGROUP_PRODUCTS, parse};
pub use live::{RoleLive, live};
pub use roles::{Role, roles};
pub use summary::{Counts, LoopSummary, RoleSummary, Summary, summarize};

#[cfg(test)]
mod tests;
