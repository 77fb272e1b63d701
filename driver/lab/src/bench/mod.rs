//! Measures kernels and their peers under the same conditions.
//!
//! ```text
//!  contenders ─► graphs under 100 us ─► rounds: contenders in random order ─► medians, ratios
//!  (rotating buffers)                   burst or sustained                    table, CSV, JSON
//! ```
//!
//! There are two regimes, because power limits a large product:
//!
//! - **burst**: at least 20 ms idle, then at most 3 ms of launches. The chip is cool and its clocks are high.
//! - **sustained**: 0.3 s to settle, then a window of 0.6 s. The chip is busy.
//!
//! Contenders alternate in random order within every round, so drift of clocks and power affects all of them equally. A
//! ratio is the geometric mean of the rounds' ratios. Buffers rotate, so no contender finds its inputs in the cache.

pub mod choices;
mod contender;
mod cublas;
mod cublas_library;
mod measure;
pub mod micro;
mod nvml;
pub mod predicted;
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
