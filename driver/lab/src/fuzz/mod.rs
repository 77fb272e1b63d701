//! Differential fuzzing executes random kernels, which are right by construction, in every way.
//!
//! ```text
//!  bytes or seed ─ generate ─► Case ─┬─ interpreter ───────────────────────────┐
//!                                    ├─ map ─ interpreter ─────────────────────┤
//!                                    └─ compile ─ PTX simulator, two orders ───┴─► equal, refused, or Failure
//!                                                                                          │
//!                                       file of a golden case ◄─ reduce (same failure) ◄───┘
//! ```
//!
//! - [`generate`]: shapes, element types, views and facts, mappings, loops, branches and operations from the
//!   numbers of [`Choices`]. Every kernel passes the verifier.
//! - [`check`]: a refusal is a typed error; a panic, a pass whose result a verifier refuses, a hazard and a
//!   different result are failures. How far a float may be off follows from [`ranges`].
//! - [`reduce`]: fewer instructions, smaller extents and sizes, a plainer mapping, while the failure stays.

mod case;
mod check;
mod choices;
mod generate;
mod range;
mod reduce;

pub use case::{Case, CaseError};
pub use check::{Failure, Mechanisms, Outcome, check};
pub use choices::Choices;
pub use generate::{generate, generate_from_seed};
pub use range::{Range, ranges};
pub use reduce::reduce;
