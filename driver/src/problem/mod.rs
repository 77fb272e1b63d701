//! A problem is one kernel on one set of sizes, before anything runs.
//!
//! ```text
//!  kernel + mapping ─ tunables ─► resolved kernel ─┬─► operands: elements that its views reach, read, written
//!  m=4096, n=4096, .. ──────────► Sizes ───────────┼─► grid
//!                                                  └─► work of a block: multiplications, bytes
//! ```
//!
//! Prediction, the choice of mappings, and code that makes buffers for a launch use it.

mod block_numbers;
mod footprints;
mod gathered;
mod operands;
mod placed;
mod reached;
mod sizes;
mod touched;
mod useful;
mod value_sets;
mod work;

pub use block_numbers::{BlockNumbers, Blocks, numbers_at};
pub use footprints::{Footprint, Tiles, follow_from_memory, footprints};
pub use operands::{Operand, evaluate, extents, operands};
pub use placed::{BlockWork, Costed, behind, depends_on_place};
pub use sizes::{Scalar, Sizes, multiplies};
pub use touched::touched;
pub use useful::Useful;
pub use work::{block_work, elements, multiplications, operand_bits, products, total, visit};

use warplift_ir::tile::{Kernel, Mapping};
use warplift_isel::IselError;

/// Why a kernel and sizes do not make a problem.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProblemError {
    /// Sizes that do not fit the signature.
    #[error("{0}")]
    Sizes(String),
    /// A view or a grid whose extent is not known before the launch.
    #[error("{0}")]
    Operands(String),
    /// The mapping's tunables do not fit the kernel.
    #[error(transparent)]
    Mapping(#[from] IselError),
}

/// One kernel on one set of sizes.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The kernel without tunables, as the interpreter runs it.
    pub resolved: Kernel,
    /// Scalar arguments.
    pub sizes: Sizes,
    /// Pointer arguments.
    pub operands: Vec<Operand>,
}

impl Problem {
    /// Computes the operands.
    ///
    /// # Errors
    /// Sizes that the kernel lacks, extents that are unknown or too large.
    pub fn new(kernel: &Kernel, mapping: &Mapping, sizes: Sizes) -> Result<Self, ProblemError> {
        let mut problem = Self::open(kernel, mapping, sizes)?;
        problem.reach();
        match problem.operands.iter().find_map(|o| Some((o, o.from_memory?))) {
            None => Ok(problem),
            Some((operand, line)) => Err(ProblemError::Operands(format!(
                "line {line}: the size of `{}` follows from memory: `run` and `sim` take it from their data, and nothing else \
                 knows it before the launch",
                operand.name
            ))),
        }
    }

    /// The same, also where the extents of views come from memory. Their operands say so and are too small.
    ///
    /// # Errors
    /// Sizes that the kernel lacks, extents that are negative or too large.
    pub fn open(kernel: &Kernel, mapping: &Mapping, sizes: Sizes) -> Result<Self, ProblemError> {
        let resolved = warplift_isel::map::do_tunables(kernel, mapping)?;
        let operands = operands(&resolved, &sizes)?;
        Ok(Self { resolved, sizes, operands })
    }

    /// The problem without the iterations that masks leave nothing of, as it is compiled.
    pub fn shortened(&self) -> Self {
        let mut short = self.clone();
        warplift_isel::map::do_skip_masked(&mut short.resolved, warplift_isel::Ways::default());
        short
    }

    /// Makes arrays of unknown extents as long as what the launch can touch of them, if arguments alone say it.
    fn reach(&mut self) {
        let ends = reached::reached(self);
        for (operand, end) in self.operands.iter_mut().zip(ends) {
            if let Some(elements) = end.filter(|_| operand.from_memory.is_some()) {
                (operand.elements, operand.from_memory) = (elements.max(operand.elements), None);
            }
        }
    }

    /// Sizes of real work, or smaller ones if tensors may not span those.
    pub fn usual_sizes(kernel: &Kernel, mapping: &Mapping) -> Option<Sizes> {
        let all = [Sizes::nominal(kernel), Sizes::defaults(kernel), Sizes::small(kernel)];
        all.into_iter().find(|s| Self::new(kernel, mapping, s.clone()).is_ok())
    }
}

/// Least bytes that a launch moves: each input read once, each output written once.
pub fn traffic(operands: &[Operand]) -> f64 {
    let moved = |o: &Operand| o.bytes() as f64 * f64::from(u8::from(o.read) + u8::from(o.written));
    operands.iter().map(moved).sum()
}

/// The grid of a kernel without tunables; `None` if these sizes give none.
pub fn grid_of(kernel: &Kernel, sizes: &Sizes) -> Option<[u64; 3]> {
    let mut grid = [1; 3];
    for (slot, &value) in grid.iter_mut().zip(&kernel.grid) {
        *slot = u64::try_from(evaluate(kernel, value, sizes)?).ok()?;
    }
    Some(grid)
}
