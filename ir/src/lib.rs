//! What the stages of Warplift share: types, layouts, the two IRs, the opcode table and the
//! results that stages hand on.

pub mod layout;
pub mod manifest;
