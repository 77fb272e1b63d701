//! The PTX simulator executes PTX text on the CPU, exactly as emitted, and finds hazards.
//!
//! ```text
//!  PTX text ─ parse ─► Module ─ Launch ─► run ─► Report: hazards, counts
//!                                  ▲       │
//!                               Memory ◄───┘
//! ```
//!
//! It is independent of the compiler: the two share only the manifest's type ([`warplift_manifest`]). Warps run with
//! active masks and meet again at post-dominators. An adversary picks the moment of every asynchronous operation (bulk
//! copies, wgmma, `cp.async`) among all legal ones. Every access to shared memory is checked against vector clocks.
//! Each warp and each asynchronous operation has a timeline. A race is therefore found in any order of events.

mod access;
mod ast;
mod bulk;
mod cfg;
mod classes;
mod clock;
mod copy;
mod copy_groups;
mod cursor;
mod data;
mod decode;
mod exchange;
mod exec;
mod finish;
mod float;
mod from_manifest;
mod global;
mod global_shadow;
mod grids;
mod hazard;
mod initial;
mod inst;
mod knowledge;
mod lane_float;
mod lane_int;
mod launch;
mod lex;
mod literal;
mod machine;
mod mask;
mod matrix;
mod mbarrier;
mod memory;
pub mod mutate;
mod named;
mod ops;
mod parse;
mod parse_body;
mod parts;
mod print;
mod product;
mod program;
pub mod random;
mod register_pool;
mod released;
mod same_word;
mod schedule;
mod shadow;
mod space;
mod state;
mod tensormap;
mod undefined;
mod values;
mod wgmma;
mod wide;

pub use from_manifest::{Arg, launch_from_manifest, workspace_of};
pub use hazard::{Hazard, HazardKind, PtxError, Report, SimError, Site};
pub use launch::{Adversary, BLOCK_LIMIT, Hazards, Launch, Options, ParamValue, ProxyFence};
pub use memory::{BufferId, MEMORY_LIMIT, Memory};
pub use program::{Module, parse};
pub use schedule::{run, run_observed};
pub use tensormap::TensorMapDesc;
