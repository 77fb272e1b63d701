//! Microbenchmarks measure the instructions of the opcode table and their units on a real GPU.
//!
//! ```text
//!  opcode table ─ rows ─┐
//!  wgmma, mma, tma, ...─┴► Case: machine IR ─► regalloc, emit, ptxas ─► cubin ─► run ─► Results (JSON)
//!                                                                                        │
//!                     ir/src/target/sm90a_cycles.rs ◄─ table ─┬──────────────────────────┘
//!                     docs/microbenchmarks.md, SVG  ◄─ chapter┘
//! ```
//!
//! A case is a kernel that Warplift generates (`frame`), and a rule that turns its clocks into a number. One generator
//! measures pure rows of the table (`rows`). Units that need surroundings have one file each. A chain in one warp gives
//! the latency; independent streams in sixteen warps give the interval. A golden test of the SASS checks that ptxas
//! kept every measured instruction.

mod atomics;
mod chapter;
mod filling;
mod frame;
mod global;
mod launch;
mod memory;
mod mix;
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
use warplift::predict::walk_alone;
use warplift::problem::Sizes;
use warplift_emit::Output;
use warplift_ir::Bump;
use warplift_ir::machine::Scheduled;
use warplift_ir::target::SM90A;

/// The contents of the kernel's data.
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

/// Turns of the two walks of a prediction.
const WALKED: [u32; 2] = [6, 18];

type Build = Box<dyn for<'a> Fn(&'a Bump, &str) -> Scheduled<'a> + Send + Sync>;

/// Helps type inference: the closure builds a kernel in any arena.
fn builder<F>(build: F) -> F
where
    F: for<'a> Fn(&'a Bump, &str) -> Scheduled<'a> + Send + Sync + 'static,
{
    build
}

/// One kernel, and how its figures are computed.
pub struct Case {
    /// Its name, `row.add.s32.latency`.
    pub name: String,
    /// The file that makes it, which is also the section of the chapter.
    pub group: &'static str,
    /// How its figures are computed.
    pub reading: Reading,
    /// Turns of the shorter and of the longer run.
    pub turns: [u32; 2],
    /// The contents of the data.
    pub contents: Contents,
    /// The L2 is emptied before each run.
    pub cold: bool,
    /// Figures of other cases to subtract, for rows that only close the chain.
    pub less: Vec<String>,
    /// Its place on the axes of a plot.
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
            cold: false,
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

    fn cold(self) -> Self {
        Self { cold: true, ..self }
    }

    fn contents(self, contents: Contents) -> Self {
        Self { contents, ..self }
    }

    fn less(self, less: Vec<String>) -> Self {
        Self { less, ..self }
    }

    /// The figure that the model of cycles gives; `None` for what it has no figure of: times, and programs that it cannot
    /// walk.
    pub fn predicted(&self) -> Option<f64> {
        let bump = Bump::new();
        let scheduled = (self.build)(&bump, &self.name);
        let all = SM90A.multiprocessors;
        let blocks = scheduled.launch.grid[0].eval(&|name| (name == "sm_count").then(|| all.into())).ok()?;
        let cycles = |turns: u32| {
            let sizes = Sizes::of_integers(&[("turns", turns.into()), ("zero", 0)]);
            walk_alone(&scheduled, &SM90A, &sizes, u32::try_from(blocks).ok()?, self.cold).ok()
        };
        let turn = (cycles(WALKED[1])? - cycles(WALKED[0])?) / f64::from(WALKED[1] - WALKED[0]);
        match self.reading {
            Reading::Cycles { per } => Some(turn / per),
            Reading::BytesPerCycle { bytes } => Some(bytes / turn),
            Reading::Bandwidth { .. } | Reading::Launch => None,
        }
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

/// All cases. Each stands after the cases that it subtracts.
pub fn cases() -> Vec<Case> {
    [
        rows::cases,
        shared::cases,
        sync::cases,
        wgmma::cases,
        mma::cases,
        mix::cases,
        tma::cases,
        filling::cases,
        global::cases,
        memory::cases,
        atomics::cases,
        launch::cases,
    ]
    .iter()
    .flat_map(|of| of())
    .collect()
}
