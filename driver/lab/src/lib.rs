//! The lab: how Warplift is proven right and measured.
//!
//! ```text
//!              ┌─ trial      one kernel, one set of sizes, run and compared with what it means ─┬─ reference
//!  warplift ───┼─ proof      every synchronisation removed, corrupted or moved: it must show ──┤
//!  (compile)   ├─ litmus     an instruction or hard feature alone, simulator against GPU ──────┼─ warplift_sim
//!              ├─ fuzz       random kernels, checked, and made small where they fail ──────────┘
//!              ├─ bench      kernels and their peers under the same conditions; the chip's own figures
//!              └─ drawing    a loop's steady iteration as a picture
//! ```
//!
//! Nothing here is needed to compile or launch a kernel: a frontend depends on `warplift` alone.

pub mod bench;
pub mod drawing;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod litmus;
pub mod mutation;
pub mod reference;
pub mod validate;
