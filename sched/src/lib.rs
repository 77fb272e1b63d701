//! Warplift: sched.
