//! Golden files, checks of SASS, small problems for the library's kernels, problems on given arrays, and fuzzing of the pipeline.

pub mod check;
pub mod described;
pub mod fuzz;
pub mod given;
pub mod kernels;
pub mod library;
pub mod lowbit;
pub mod orders;
pub mod relaunch;
pub mod sass;
pub mod shared_out;
