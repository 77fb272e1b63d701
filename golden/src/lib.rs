//! Golden files, what must never be in SASS, the library under small problems, fuzzing of the pipeline.

pub mod check;
pub mod fuzz;
pub mod kernels;
pub mod library;
pub mod orders;
pub mod sass;
