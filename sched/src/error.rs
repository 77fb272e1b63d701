//! Why a program cannot be scheduled.

use warplift_ir::Full;
use warplift_ir::target::Lacks;
use warplift_ir::tile::Loc;

/// Why a program cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchedError {
    /// Buffers and barriers exceed shared memory even at their least depth.
    #[error("shared memory: {needed} bytes are needed ({parts}), {limit} are there{}", each(*.resident))]
    SharedMemory {
        /// Bytes needed.
        needed: u32,
        /// Bytes available.
        limit: u32,
        /// Blocks of one multiprocessor that share its memory.
        resident: u32,
        /// The buffers, by size.
        parts: String,
    },
    /// The block has too many threads.
    #[error("a block of {threads} threads: at most {most} are possible")]
    Threads {
        /// Threads wanted.
        threads: u32,
        /// Most that are possible.
        most: u32,
    },
    /// The chip does not support the cluster's size.
    #[error("a cluster of {size} blocks: at most {limit} are possible")]
    Cluster {
        /// Blocks wanted.
        size: u32,
        /// Most that are possible.
        limit: u32,
    },
    /// A word of the mapping does not fit the kernel.
    #[error("{what}")]
    Word {
        /// The word of the mapping.
        word: &'static str,
        /// The part of the kernel that it does not fit, with numbers.
        what: String,
    },
    /// The target lacks an instruction, or its table has no row for it.
    #[error("{lacks}")]
    Lacks {
        /// Where the kernel needs it.
        loc: Loc,
        /// The instruction and the target.
        lacks: Lacks,
    },
    /// The arena is full.
    #[error(transparent)]
    Memory(#[from] Full),
    /// A case that no rule covers yet.
    #[error("{0}")]
    Unsupported(String),
}

fn each(resident: u32) -> String {
    if resident > 1 { format!(" for each of {resident} resident blocks") } else { String::new() }
}

/// A result of scheduling.
pub type Result<T> = std::result::Result<T, SchedError>;

/// The error for a word of the mapping that does not fit the kernel.
pub(crate) fn word(word: &'static str, what: impl Into<String>) -> SchedError {
    SchedError::Word { word, what: what.into() }
}
