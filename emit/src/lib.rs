//! Warplift: emit.
