//! Warplift: the library's front door.

pub mod bench;
pub mod cuda;
pub mod reference;
pub mod toolchain;
