//! Measuring kernels, and their peers under the same conditions.
//!
//! ```text
//!  contenders ─► graphs under 100 us ─► rounds: contenders in random order ─► medians, ratios
//!  (rotating buffers)                   burst or sustained                    table, CSV, JSON
//! ```
//!
//! Two regimes, because a large product is limited by power: **burst** (at least 20 ms idle, then
//! at most 3 ms of launches) sees the clocks of a cool chip, **sustained** (0.3 s to settle, then a
//! window of 0.6 s) those of a busy one. Contenders alternate in random order within every round,
//! so that drift of clocks and power hits them alike, and a ratio is the geometric mean of the
//! rounds' ratios. Buffers rotate, so that no contender finds its inputs in the cache.

mod contender;
mod cublas;
mod cublas_library;
mod measure;
pub mod micro;
mod nvml;
mod product;
mod report;
mod statistics;

pub use contender::{BenchError, Contender, KernelContender, rotations};
pub use cublas::{ALGORITHMS, CublasGemm, CublasLt, GemmProblem, Operands, WORKSPACE_BYTES, best_of};
pub use cublas_library::{CUBLAS_VARIABLE, CublasError};
pub use measure::{Settings, measure};
pub use nvml::{Reading, Sensor};
pub use product::product_on_device;
pub use report::{Measurement, Peak, Regime, Report, Standing, Work};
pub use statistics::{Ratio, median};
