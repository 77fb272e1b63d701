//! Registers for one role: the proof that it fits its budget.
//!
//! ```text
//!  role's CFG ─ normalize ─ liveness ─┬─ fragments: webs, then places     %r 0 .. F
//!                                     └─ scalars: regalloc2 (Ion)         %r F .. , %d, %p
//!                                              └──────► Allocation ─ check
//! ```
//!
//! Fragments never go through regalloc2: a planner of our own gives each web of fragments one run of
//! registers (`webs`), so that an accumulator keeps its name over a loop and never moves in flight.
//! ptxas renames everything again, so names as such change nothing; what counts is that the pressure, the
//! most registers live at any point, is inside the budget, and that no copy is asked for that need not be.
//!
//! regalloc2 knows 63 names of 32 bits. Where more scalars are live at once the longest-lived of them go
//! to the planner too, as fragments of one register.

mod assign;
mod check;
mod error;
mod hazards;
mod literals;
mod liveness;
mod near;
mod normalize;
mod parallel;
mod place;
mod planned;
mod pool;
mod pressure;
mod ranges;
mod rematerialize;
mod scalars;
mod shape;
#[cfg(test)]
mod tests;
mod webs;

pub use check::{CheckError, check};
pub use error::{Heaviest, Heavy, RegallocError};
pub use pool::pool_check;

use warplift_ir::machine::{Allocation, Func};
use warplift_ir::target::Target;

/// What one role may use.
#[derive(Clone, Copy, Debug)]
pub struct Budget<'r> {
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Name of the role, for errors.
    pub role: &'r str,
    /// The chip: which operands may be literals, and registers beside a thread's own.
    pub target: &'r Target,
}

/// Gives every value of `func` its registers. The function comes back with edges split and constants
/// written where they need a register; the allocation belongs to that function.
///
/// # Errors
/// What does not fit, with the role, the limit and the values that take most.
pub fn allocate<'a>(func: &Func<'a>, budget: &Budget<'_>) -> Result<(Func<'a>, Allocation), RegallocError> {
    let mut normal = normalize::normalize(func, budget.target.rows);
    let alloc = assign::assign(&mut normal, budget)?;
    Ok((normal.func, alloc))
}
