//! What the stages of Warplift share: types, layouts, the two IRs, the opcode table and the
//! results that stages hand on.

pub mod interp;
pub mod manifest;
pub mod tile;
pub mod types;
