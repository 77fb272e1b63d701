//! Warplift: the library's front door.

pub mod cuda;
pub mod reference;
pub mod toolchain;
