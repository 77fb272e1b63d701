//! The lab checks and measures Warplift.
//!
//! ```text
//!              ┌─ trial      one kernel on one set of sizes, compared with the reference ───────┬─ reference
//!  warplift ───┼─ mutation   every synchronisation removed, corrupted or moved must be noticed ─┤
//!  (compile)   ├─ litmus     an instruction or hard feature alone, simulator against GPU ───────┼─ warplift_sim
//!              ├─ fuzz       random kernels, checked; failing ones are reduced ─────────────────┘
//!              ├─ bench      kernels and their peers under the same conditions; the chip's own figures
//!              └─ drawing    a loop's steady iteration as a picture
//! ```
//!
//! A frontend needs nothing of it to compile or launch a kernel. It depends on `warplift` alone.

pub mod bench;
pub mod drawing;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod litmus;
pub mod mutation;
pub mod reference;
mod seed;
pub mod validate;

pub use seed::fresh_seed;
