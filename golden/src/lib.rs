//! Warplift: golden.
