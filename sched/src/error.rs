//! Why a program cannot be scheduled.

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
        /// Bytes there.
        limit: u32,
        /// Blocks of a multiprocessor that share it out.
        resident: u32,
        /// Buffers by size.
        parts: String,
    },
    /// More threads than a block has.
    #[error("a block of {threads} threads: at most {most} are possible")]
    Threads {
        /// Threads wanted.
        threads: u32,
        /// Most that are possible.
        most: u32,
    },
    /// A cluster size that the chip lacks.
    #[error("a cluster of {size} blocks: at most {limit} are possible")]
    Cluster {
        /// Blocks wanted.
        size: u32,
        /// Most that are possible.
        limit: u32,
    },
    /// What the mapping says of the kernel as a whole does not go with what the kernel does.
    #[error("{what}")]
    Word {
        /// The word.
        word: &'static str,
        /// What it does not go with, by number.
        what: String,
    },
    /// The target lacks an instruction, or its table has no row of one.
    #[error("{lacks}")]
    Lacks {
        /// Where the kernel needs it.
        loc: Loc,
        /// The instruction, and the target.
        lacks: Lacks,
    },
    /// Something that no rule here covers yet.
    #[error("{0}")]
    Unsupported(String),
}

fn each(resident: u32) -> String {
    if resident > 1 { format!(" for each of {resident} resident blocks") } else { String::new() }
}

/// A result of scheduling.
pub type Result<T> = std::result::Result<T, SchedError>;

/// A word of the mapping that does not go with the kernel.
pub(crate) fn word(word: &'static str, what: impl Into<String>) -> SchedError {
    SchedError::Word { word, what: what.into() }
}
