//! Warplift: regalloc.
