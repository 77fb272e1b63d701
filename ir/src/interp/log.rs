//! What a memory notes about the writes to it, on request.
//!
//! ```text
//!  block 0: store y[3]          writers:   y[3] ◄ block 0, then block 7: a conflict
//!  block 7: store y[3]
//!  block 1: atomic_add y[5], 2  additions: y[5] ◄ 2 of them, magnitudes 2 + |-6|
//!  block 2: atomic_add y[5], -6
//! ```

use super::BufferId;
use rustc_hash::FxHashMap;

/// The floats that were added to one element.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Additions {
    /// How many.
    pub count: u32,
    /// The sum of their magnitudes.
    pub magnitude: f64,
}

/// Notes on the writes to a memory.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// What was added to each element, by its buffer and first bit.
    pub additions: FxHashMap<(BufferId, i128), Additions>,
    /// The block that last wrote an element, and whether it did so by an atomic.
    writers: FxHashMap<(BufferId, i128), (i64, bool)>,
    /// An element that two blocks wrote, at least one of them by no atomic.
    pub conflict: Option<(BufferId, i128)>,
    /// The block that runs.
    pub(super) block: i64,
}

impl Log {
    pub(super) fn write(&mut self, at: (BufferId, i128), atomic: bool) {
        let before = self.writers.insert(at, (self.block, atomic));
        if before.is_some_and(|(block, was)| block != self.block && !(was && atomic)) {
            self.conflict.get_or_insert(at);
        }
    }

    pub(super) fn add(&mut self, at: (BufferId, i128), value: f64) {
        let all = self.additions.entry(at).or_default();
        all.count += 1;
        all.magnitude += value.abs();
    }
}
