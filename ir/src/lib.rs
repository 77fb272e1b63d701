//! The stages of Warplift meet in this crate. It holds the types, the layouts, the two IRs, the opcode table, and the
//! results that one stage hands to the next.

mod arena;
mod deadline;
pub mod interp;
pub mod layout;
pub mod machine;
mod plural;
pub mod target;
mod text;
pub mod tile;
pub mod types;

pub use arena::{Bump, Full};
pub use cranelift_entity as entity;
pub use deadline::Deadline;
pub use plural::plural;
pub use warplift_manifest as manifest;
