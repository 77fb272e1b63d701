//! Registers for one role, and the proof that it fits its budget.
//!
//! ```text
//!  role's CFG ─ normalize ─ liveness ─┬─ fragments: webs, then places     %r 0 .. F
//!                                     └─ scalars: regalloc2 (Ion)         %r F .. , %d, %p
//!                                              └──────► Allocation ─ check
//! ```
//!
//! Fragments never go through regalloc2. A planner of our own gives each web of fragments one run of registers
//! (`webs`). An accumulator therefore keeps its name over a loop and never moves in flight. ptxas renames everything
//! again, so the names themselves change nothing. Two things count: the pressure, which is the largest number of live
//! registers, stays inside the budget; and the code has no unnecessary copies.
//!
//! regalloc2 has 63 names of 32 bits. If more scalars are live at once, the planner takes the longest-lived ones as
//! fragments of one register. Descriptors of products hold no registers, and get names of their own where they are many.

mod assign;
mod check;
mod descriptors;
mod error;
mod hazards;
mod literals;
mod liveness;
mod near;
mod normalize;
mod parallel;
mod pieces;
mod place;
mod planned;
mod pool;
mod pressure;
mod ranges;
mod rematerialize;
mod scalars;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod webs;

pub use assign::reserve;
pub use check::{CheckError, check};
pub use error::{Heaviest, Heavy, RegallocError};
pub use pool::pool_check;

use warplift_ir::machine::{Allocation, Func};
use warplift_ir::target::Target;

/// Names of each class that regalloc2 has: 32 bits, 64 bits, predicates.
pub(crate) const NAMES: [usize; 3] = [63, 64, 64];

/// The registers that one role may use.
#[derive(Clone, Copy, Debug)]
pub struct Budget<'r> {
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Name of the role, for errors.
    pub role: &'r str,
    /// The chip. It says which operands may be literals, and which registers exist beside a thread's own.
    pub target: &'r Target,
}

/// Allocates registers for every value of `func`. The returned function has split edges and writes the constants that
/// need a register. The allocation belongs to the returned function.
///
/// # Errors
/// The function does not fit. The error has the role, the limit and the largest values.
pub fn allocate<'a>(func: &Func<'a>, budget: &Budget<'_>) -> Result<(Func<'a>, Allocation), RegallocError> {
    let mut normal = normalize::normalize(func, budget.target.rows);
    let alloc = assign::assign(&mut normal, budget)?;
    Ok((normal.func, alloc))
}
