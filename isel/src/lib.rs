//! Instruction selection: from WHAT to HOW.
//!
//! ```text
//!  tile IR + mapping ── map ──► tile IR, mapped: still sequential, still runs in the interpreter
//!       │                       (tunables substituted, loop over tiles, raster, chunks, teams)
//!       ├── plan ──► side table: a layout for every tile, an instruction for every access;
//!       │            the cheapest of the plans that a bounded search makes
//!       └── lower ─► machine IR, structured: one program for the block in program order
//! ```

pub mod facts;
mod feature;
pub mod lower;
pub mod map;
mod operand;
pub mod plan;
mod rows;
pub mod select;
mod tiles;
pub mod window;

pub use feature::{Feature, Ways};
pub use tiles::loop_name;

use warplift_ir::tile::{Inst, Loc};

/// Why a kernel cannot be selected for under its mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct IselError {
    /// The instruction at fault, if one is.
    pub inst: Option<Inst>,
    /// Its place in the text.
    pub loc: Loc,
    /// What is wrong, with limit and number.
    pub message: String,
}

impl IselError {
    /// An error about the kernel or mapping as a whole.
    pub fn whole(message: impl Into<String>) -> Self {
        Self { inst: None, loc: Loc::default(), message: message.into() }
    }

    /// An error about one instruction.
    pub fn at(kernel: &warplift_ir::tile::Kernel, inst: Inst, message: impl Into<String>) -> Self {
        Self { inst: Some(inst), loc: kernel.insts[inst].loc, message: message.into() }
    }
}

/// A result of selection.
pub type Result<T> = std::result::Result<T, IselError>;
