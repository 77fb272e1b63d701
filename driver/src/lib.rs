//! Warplift: the library's front door.

pub mod bench;
pub mod cuda;
pub mod enumerate;
pub mod kernels;
pub mod pipeline;
pub mod problem;
pub mod reference;
pub mod sim;
pub mod toolchain;
pub mod trial;

pub use pipeline::{CompileError, Compiled, Explained, Options, compile};
pub use warplift_ir as ir;
