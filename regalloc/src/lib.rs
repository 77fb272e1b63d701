//! Register allocation: fragments and scalars of one role into its budget.

mod error;
mod normalize;
mod parallel;
mod trivial;

pub use error::RegallocError;

use warplift_ir::machine::{Allocation, Func};

/// What one role may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget<'r> {
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Name of the role, for errors.
    pub role: &'r str,
}

/// Gives every value of `func` its registers. The function comes back with edges split and constants
/// written where they need a register; the allocation belongs to that function.
///
/// # Errors
/// What does not fit, with the role, the limit and the values that take most.
pub fn allocate<'a>(func: &Func<'a>, budget: &Budget<'_>) -> Result<(Func<'a>, Allocation), RegallocError> {
    let normal = normalize::normalize(func);
    let alloc = trivial::assign(&normal, budget);
    Ok((normal.func, alloc))
}
