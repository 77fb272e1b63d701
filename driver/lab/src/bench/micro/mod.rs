//! Microbenchmarks: what instructions of the opcode table, and the units behind them, cost on a real GPU.
//!
//! ```text
//!  opcode table ─ rows ─┐
//!  wgmma, mma, tma, ...─┴► Case: machine IR ─► regalloc, emit, ptxas ─► cubin ─► run ─► Results (JSON)
//!                                                                                        │
//!                     ir/src/target/sm90a_cycles.rs ◄─ table ─┬──────────────────────────┘
//!                     docs/microbenchmarks.md, SVG  ◄─ chapter┘
//! ```
//!
//! A case is a kernel of Warplift's own making (`frame`) and the way its clocks become a number. Pure rows
//! of the table are measured by one generator (`rows`); units that need surroundings have one file each.
//! Latency comes from a chain in one warp, interval from independent streams in sixteen. That ptxas left
//! every measured instruction in place is a golden test of the SASS, not a hope.

mod chapter;
mod frame;
mod global;
mod launch;
mod mma;
mod plot;
mod results;
mod rows;
mod run;
mod shared;
mod sync;
mod table;
mod tma;
mod wgmma;

pub use chapter::update_chapter;
pub use frame::FrameError;
pub use plot::plots;
pub use results::{Figure, Results, Unit};
pub use rows::FREE;
pub use run::{MicroError, Ready, Runner};
pub use table::update_table;

use frame::{Blocks, Frame};
use warplift_emit::Output;
use warplift_ir::Bump;
use warplift_ir::machine::Scheduled;

/// What the kernel finds in its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Zeros.
    #[default]
    Zeros,
    /// A chain of addresses, one in each line of 128 bytes, in random order over so many bytes; it
    /// returns to its start.
    Chain(u64),
}

/// How the runs of a kernel become a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Cycles of one turn of the loop, divided.
    Cycles {
        /// Instructions that share a turn's cycles.
        per: f64,
    },
    /// Bytes that a multiprocessor moves in a cycle.
    BytesPerCycle {
        /// Bytes that a block moves in a turn.
        bytes: f64,
    },
    /// Bytes that the whole device moves in a second, by events around launches.
    Bandwidth {
        /// Bytes that a block moves in a turn.
        bytes: f64,
    },
    /// Seconds from launch to launch, of a graph of launches.
    Launch,
}

/// A place on an axis of a plot: name and value.
pub type Axis = (&'static str, f64);

type Build = Box<dyn for<'a> Fn(&'a Bump, &str) -> Scheduled<'a> + Send + Sync>;

/// Tells the compiler that a closure builds a kernel in any arena.
fn builder<F>(build: F) -> F
where
    F: for<'a> Fn(&'a Bump, &str) -> Scheduled<'a> + Send + Sync + 'static,
{
    build
}

/// One kernel and how it is read.
pub struct Case {
    /// Its name, `row.add.s32.latency`.
    pub name: String,
    /// The file that makes it; also the section of the chapter.
    pub group: &'static str,
    /// How it is read.
    pub reading: Reading,
    /// Turns of the shorter and of the longer run.
    pub turns: [u32; 2],
    /// What the data holds.
    pub contents: Contents,
    /// Figures of other cases to subtract: rows that only close the chain.
    pub less: Vec<String>,
    /// Where it stands among its like.
    pub axes: Vec<Axis>,
    /// Opcode that its SASS repeats, and how often in a turn; empty: any.
    pub sass: (&'static str, u32),
    build: Build,
}

impl Case {
    fn new(
        name: impl Into<String>,
        group: &'static str,
        reading: Reading,
        build: impl for<'a> Fn(&'a Bump, &str) -> Scheduled<'a> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            group,
            reading,
            turns: [8, 40],
            contents: Contents::Zeros,
            less: Vec::new(),
            axes: Vec::new(),
            sass: ("", 0),
            build: Box::new(build),
        }
    }

    fn turns(self, turns: [u32; 2]) -> Self {
        Self { turns, ..self }
    }

    fn axes(self, axes: &[Axis]) -> Self {
        Self { axes: axes.to_vec(), ..self }
    }

    fn sass(self, name: &'static str, count: u32) -> Self {
        Self { sass: (name, count), ..self }
    }

    fn contents(self, contents: Contents) -> Self {
        Self { contents, ..self }
    }

    fn less(self, less: Vec<String>) -> Self {
        Self { less, ..self }
    }

    /// PTX and manifest.
    ///
    /// # Errors
    /// A stage refuses the kernel.
    pub fn compile(&self) -> Result<Output, FrameError> {
        let bump = Bump::new();
        frame::finish(&self.name, (self.build)(&bump, &self.name))
    }
}

/// All cases, in an order in which each stands after those that it subtracts.
pub fn cases() -> Vec<Case> {
    [
        rows::cases,
        shared::cases,
        sync::cases,
        wgmma::cases,
        mma::cases,
        tma::cases,
        global::cases,
        launch::cases,
    ]
    .iter()
    .flat_map(|of| of())
    .collect()
}
