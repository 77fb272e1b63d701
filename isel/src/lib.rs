//! Instruction selection: tile IR says WHAT a kernel computes, machine IR says HOW.
//!
//! ```text
//!  tile IR + mapping ── map ──► tile IR, mapped: still sequential, still runs in the interpreter
//!       │                       (tunables substituted, loop over tiles, raster, chunks, teams)
//!       ├── plan ──► side table: a layout for every tile, an instruction for every access;
//!       │            the cheapest of the plans that a bounded search makes
//!       └── lower ─► machine IR, structured: one program for the block in program order
//! ```

mod boxes;
pub mod facts;
mod feature;
pub mod lower;
pub mod map;
pub mod mapping_lints;
mod operand;
pub mod plan;
mod rows;
pub mod select;
mod takes;
mod tensor_copies;
mod thread_loads;
mod tiles;
mod variant;
mod vector;
pub mod window;

pub use feature::{Feature, Ways};
pub use thread_loads::{ThreadLoads, thread_loads};
pub use tiles::loop_name;
pub use variant::MmaVariant;

use warplift_ir::target::Lacks;
use warplift_ir::tile::{Inst, Item, Loc, Mapping, Origin};

/// Why instruction selection refuses a kernel under its mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(*.loc))]
pub struct IselError {
    /// The instruction at fault, if one is.
    pub inst: Option<Inst>,
    /// Its place in the text; line 0 if it has none.
    pub loc: Loc,
    /// Which text: kernel or mapping.
    pub origin: Origin,
    /// The mistake: the limit, the number, and what to do.
    pub message: String,
    /// The instruction that the target lacks, if that is what is wrong.
    pub lacks: Option<Lacks>,
}

fn place(loc: Loc) -> String {
    if loc.line == 0 { String::new() } else { format!("{}:{}: ", loc.line, loc.column) }
}

impl IselError {
    /// An error about the kernel or mapping as a whole.
    pub fn whole(message: impl Into<String>) -> Self {
        Self { inst: None, loc: Loc::default(), origin: Origin::Kernel, message: message.into(), lacks: None }
    }

    /// An error about a word of the mapping; see [`warplift_ir::tile::Places::of`].
    pub fn said(mapping: &Mapping, item: Item, word: &str, message: impl Into<String>) -> Self {
        Self { loc: mapping.places.of(item, word), origin: Origin::Mapping, ..Self::whole(message) }
    }

    /// An instruction at a place of the kernel's text that the target lacks.
    pub fn lacks(loc: Loc, lacks: Lacks) -> Self {
        Self { loc, lacks: Some(lacks), ..Self::whole(lacks.to_string()) }
    }

    /// An error about one instruction.
    pub fn at(kernel: &warplift_ir::tile::Kernel, inst: Inst, message: impl Into<String>) -> Self {
        Self { inst: Some(inst), loc: kernel.insts[inst].loc, ..Self::whole(message) }
    }
}

/// A result of selection.
pub type Result<T> = std::result::Result<T, IselError>;
