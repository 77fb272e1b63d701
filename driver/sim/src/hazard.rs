//! The reports of the simulator.

use std::collections::BTreeMap;
use std::fmt;

/// Why PTX text was refused, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {what}")]
pub struct PtxError {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// The mistake.
    pub what: String,
}

/// Classes of hazards; `VARIANTS` (of [`strum::VariantArray`]) has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::VariantArray)]
pub enum HazardKind {
    /// Two accesses to shared memory, one of them a write, that nothing orders.
    SharedRace,
    /// Two accesses to global memory, one of them a write, that nothing orders.
    GlobalRace,
    /// An access to memory that an asynchronous operation uses, before the wait for its completion.
    InFlight,
    /// A generic access and an asynchronous one, of which one writes, without `fence.proxy.async` between.
    MissingProxyFence,
    /// Lanes of a warp exchange through shared memory without a warp synchronisation.
    LaneRace,
    /// An accumulator or A register touched while a wgmma may use it.
    RegisterInFlight,
    /// A wgmma on registers that were accessed since the last `wgmma.fence`.
    MissingWgmmaFence,
    /// More arrivals on a barrier than it expects.
    OverArrival,
    /// A transaction count out of its range, or bytes that do not fit the phase.
    TransactionCount,
    /// Memory used as an mbarrier without a visible initialisation, or initialised twice, or an
    /// mbarrier touched as data.
    BarrierMisuse,
    /// No thread can go on; under [`super::Hazards::Warn`] the cluster is given up.
    Deadlock,
    /// A register read before it was written.
    UninitialisedRegister,
    /// Memory read before it was written.
    UninitialisedMemory,
    /// An address outside every buffer or outside shared memory.
    OutOfBounds,
    /// An address that is no multiple of what the access needs.
    Misaligned,
    /// A warp-collective instruction, `.aligned` or with a mask, by other lanes than it needs.
    Divergence,
    /// Threads that must agree on an operand do not.
    Disagreement,
    /// `setmaxnreg` beyond the pool, or in the wrong direction.
    RegisterPool,
    /// A block ended while something can still access its shared memory.
    EarlyExit,
    /// An access to global memory by a thread that has not waited for the grids before this one.
    GridDependency,
    /// An access to the shared memory of a block of the cluster that may not have begun yet.
    LateStart,
    /// An operand outside what the instruction takes.
    BadOperand,
    /// A number that is not as the kernel promises (`assume`).
    Assumption,
}

/// A place in the PTX and in the kernel's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Line of the PTX, from 1.
    pub line: u32,
    /// The opcode there.
    pub opcode: String,
    /// File, line and column of the `.loc` in force.
    pub loc: Option<(String, u32, u32)>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} `{}`", self.line, self.opcode)?;
        if let Some((file, line, column)) = &self.loc {
            write!(f, " ({file}:{line}:{column})")?;
        }
        Ok(())
    }
}

/// A mistake in the program, seen while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Its class.
    pub kind: HazardKind,
    /// Description.
    pub message: String,
    /// The instruction that caused the report.
    pub site: Site,
    /// The other instruction at fault.
    pub other: Option<Site>,
    /// Block of the thread.
    pub block: [u32; 3],
    /// Thread in the block.
    pub thread: u32,
    /// Address concerned: a shared offset or a global address.
    pub address: Option<u64>,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "{:?}: {}\n  at {}", self.kind, self.message, self.site)?;
        if let Some(o) = &self.other {
            write!(f, "\n  and {o}")?;
        }
        write!(f, "\n  block ({x}, {y}, {z}) thread {}", self.thread)?;
        if let Some(a) = self.address {
            write!(f, " address {a:#x}")?;
        }
        Ok(())
    }
}

/// Why a simulation did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The launch does not fit the entry.
    #[error("launch: {0}")]
    Launch(String),
    /// A hazard, under [`super::Hazards::Deny`].
    #[error("{0}")]
    Hazard(Box<Hazard>),
    /// More instructions than [`super::Options::max_steps`].
    #[error("over {0} warp instructions; last at {1}")]
    Steps(u64, Site),
    /// A feature that the simulator does not support, found at run time.
    #[error("{what} is not simulated, at {site}")]
    Unsupported {
        /// The feature.
        what: String,
        /// Where.
        site: Site,
    },
    /// `trap` was executed.
    #[error("trap at {0}")]
    Trap(Site),
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Hazards, each pair of instructions once.
    pub hazards: Vec<Hazard>,
    /// Instructions executed, counted by warp.
    pub warp_instructions: u64,
    /// Instructions executed, counted by active thread.
    pub thread_instructions: u64,
    /// Asynchronous operations completed.
    pub asynchronous: u64,
    /// What the kernel printed, in the order of the run.
    pub printed: String,
    /// Blocks run.
    pub blocks: u64,
    /// How often each line of the PTX was executed by at least one lane of a warp; lines that never
    /// were are absent.
    pub lines: BTreeMap<u32, u64>,
    /// The parities that each line waited for: bit 0 and bit 1.
    pub parities: BTreeMap<u32, u8>,
}
