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
pub use check::{Failure, Outcome, check};
pub use choices::Choices;
pub use generate::{generate, generate_from_seed};
pub use range::{Range, ranges};
pub use reduce::reduce;

use std::time::{SystemTime, UNIX_EPOCH};

/// Where a fresh run of random cases starts: the clock, or `WARPLIFT_FUZZ_SEED`, by which a run that decides about a change can
/// be repeated.
pub fn fresh_seed() -> u64 {
    let given = std::env::var("WARPLIFT_FUZZ_SEED").ok().and_then(|s| s.parse().ok());
    given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64))
}
