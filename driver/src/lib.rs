//! Warplift: the library's front door.

pub mod sim;
