//! The arena of a compile's machine IR, with the limit on its bytes. Operand lists stand in the arena itself;
//! instructions and values stand in tables, whose bytes are charged to it. Tile IR has no arena: its bytes are told to
//! this one after each of its passes.
//!
//! ```text
//!  a pass makes instructions ─► arena ─► check: within the limit? ─ yes ─► the next instruction
//!                                                                └─ no ──► the pass returns [`Full`]
//! ```
//!
//! The arena itself never refuses an allocation, since most callers could not go on. Instead every pass whose output may
//! be much larger than its input checks between two instructions, and stops there. So a compile exceeds its limit by
//! what one instruction of a pass's input becomes.

use std::cell::Cell;
use std::ops::Deref;

/// An arena with a limit on its bytes; by default it has none.
#[derive(Debug, Default)]
pub struct Bump {
    arena: bumpalo::Bump,
    limit: Cell<Option<usize>>,
    /// Bytes that stand elsewhere.
    charged: Cell<usize>,
    /// Bytes of another form of the program, which a pass may replace.
    held: Cell<usize>,
}

/// The arena holds more bytes than its limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{used} bytes of IR: the limit is {limit}")]
pub struct Full {
    /// The limit, bytes.
    pub limit: usize,
    /// The bytes in use.
    pub used: usize,
}

impl Bump {
    /// An empty arena without a limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limit on the bytes in use; `None`: no limit.
    pub fn set_limit(&self, limit: Option<usize>) {
        self.limit.set(limit);
    }

    /// Counts bytes that belong to the compile and stand in tables of their own, as instructions do.
    pub fn charge(&self, bytes: usize) {
        self.charged.set(self.charged.get() + bytes);
    }

    /// Says how many bytes another form of the program takes now: tile IR, which each of its passes may replace.
    pub fn set_held(&self, bytes: usize) {
        self.held.set(bytes);
    }

    /// Bytes in use since the arena was empty. Memory that it keeps for later does not count.
    pub fn used(&self) -> usize {
        self.held.get()
            + self.charged.get()
            + self.arena.allocated_bytes().saturating_sub(self.arena.chunk_capacity())
    }

    /// Empties the arena.
    pub fn reset(&mut self) {
        self.arena.reset();
        self.charged.set(0);
        self.held.set(0);
    }

    /// Whether the bytes in use are within the limit.
    ///
    /// # Errors
    /// They are not.
    pub fn check(&self) -> Result<(), Full> {
        match self.limit.get() {
            Some(limit) if self.used() > limit => Err(Full { limit, used: self.used() }),
            _ => Ok(()),
        }
    }
}

impl Deref for Bump {
    type Target = bumpalo::Bump;

    fn deref(&self) -> &bumpalo::Bump {
        &self.arena
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_counts_and_memory_kept_for_later_does_not() {
        let mut bump = Bump::new();
        bump.set_limit(Some(1000));
        assert_eq!(bump.check(), Ok(()));
        bump.alloc_slice_fill_copy(900, 0u8);
        assert_eq!(bump.check(), Ok(()));
        bump.alloc_slice_fill_copy(4000, 0u8);
        assert!(matches!(bump.check(), Err(Full { limit: 1000, used: 4900.. })), "{:?}", bump.check());
        bump.charge(10);
        assert!(bump.used() >= 4910);
        bump.reset();
        assert_eq!(bump.check(), Ok(()), "{} bytes are kept", bump.allocated_bytes());
    }
}
