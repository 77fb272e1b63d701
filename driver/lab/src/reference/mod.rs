//! The right answer: random inputs, f64 references on the CPU, and the comparison.
//!
//! ```text
//!  Array::normal ──► device ──► kernel ──► found ─┐
//!        └────────► f64 product on the CPU ───────┴─► Comparison: relative norm, elements over
//!                   (all, or sampled rows and columns)            their bound, the worst one
//! ```
//!
//! Nothing here needs a GPU. Outputs are poisoned before the launch ([`Array::poison`]). An element that was never
//! written is a NaN, and a NaN never passes.

mod array;
mod compare;
mod gemm;

pub use array::{Array, Element};
pub use compare::{Comparison, Mismatch, Tally, Tolerance, compare};
pub use gemm::{ACCUMULATION_FACTOR, FULL_LIMIT, Matrix, Product, norm_limit};
