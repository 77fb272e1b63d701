//! Warplift: isel.
