//! The state of a running cluster besides its warps and blocks: barriers, asynchronous operations, and pending work of
//! the tensor core. The instructions that use them define their behaviour.

use super::clock::Clocks;
use super::copy_groups::Pending;
use super::inst::{AtomOp, Ty};
use super::parts::Parts;
use super::shadow::{Access, Kind, MANY, Who};
use std::collections::VecDeque;

/// A timeline. Those of warps have no owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub owner: usize,
    pub clock: u32,
    /// Parts of its last operation, if threads wait for it in parts.
    pub parts: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    Load(LoadTask),
    Store(StoreTask),
    Copy(CopyTask),
    Arrive(ArriveTask),
    /// Key of [`Machine::issuing`].
    Wgmma(usize, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Pending,
    /// The source may be overwritten.
    Read,
    Done,
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub task: Task,
    pub warp: usize,
    pub lane: u8,
    pub pc: u32,
    pub timeline: usize,
    pub clock: u32,
    pub start: Clocks,
    /// Of [`super::machine::Warp`], at its issue.
    pub own: Parts,
    pub lanes_synced: u32,
    /// Lanes of its warp that had waited for other grids when it was issued.
    pub waited: u32,
    pub stage: Stage,
}

impl Operation {
    pub fn access(&self, kind: Kind) -> Access {
        Access { timeline: self.timeline as u16, lane: MANY, kind, clock: self.clock, pc: self.pc, sync: 0 }
    }

    /// Who it is, in blocks of so many warps.
    pub fn who(&self, access: Access, warps: usize) -> Who<'_> {
        let own = Some(&self.own).filter(|o| !o.is_empty());
        let issuer = (access.kind == Kind::Copy).then_some(self.warp);
        Who { access, clocks: &self.start, own, synced: self.lanes_synced, issuer, warps }
    }
}

/// The far side of a bulk copy.
#[derive(Clone, Debug)]
pub(crate) enum Far {
    Global {
        address: u64,
        bytes: u32,
    },
    Shared {
        block: usize,
        offset: u32,
        bytes: u32,
    },
    /// Index of the launch's map.
    Tensor {
        map: usize,
        coordinates: Vec<i32>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct LoadTask {
    pub from: Far,
    /// Blocks that receive the data, all at one offset.
    pub targets: Vec<usize>,
    pub offset: u32,
    /// One barrier for each target.
    pub barriers: Vec<BarrierAt>,
    pub bytes: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct StoreTask {
    pub to: Far,
    pub block: usize,
    pub offset: u32,
    pub reduce: Option<(AtomOp, Ty)>,
    /// The data that was read, to be written.
    pub read: Option<Vec<(u64, Vec<u8>)>>,
}

impl LoadTask {
    /// Whether an mbarrier counts the bytes of the copy.
    pub fn completes_on(&self, block: usize, offset: u32) -> bool {
        self.barriers.contains(&BarrierAt { block, offset })
    }
}

/// One lane's copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    pub lane: u8,
    pub block: usize,
    pub offset: u32,
    pub source: u64,
    pub bytes: u32,
    /// Bytes read; the rest is zero.
    pub read: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct CopyTask(pub Vec<Copied>);

/// An arrival once the lane's copies are complete.
#[derive(Clone, Debug)]
pub(crate) struct ArriveTask {
    /// Barriers, and the lanes that arrive on each.
    pub at: Vec<(u32, BarrierAt)>,
    /// The copies of the lanes: lanes and copies.
    pub copies: Vec<(u32, Vec<Pending>)>,
}

/// The knowledge that a phase releases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released {
    /// To any waiter of the barrier's block.
    pub near: Clocks,
    /// From other blocks with cluster scope: whole to a waiter of cluster scope.
    pub far: Clocks,
    /// Warps all of whose lanes arrived by one instruction: number, epoch and clock.
    pub whole: Vec<(usize, u32, u32)>,
}

/// One mbarrier object.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    pub count: i64,
    pub pending: i64,
    pub transactions: i64,
    /// Completed phases.
    pub phase: u64,
    pub current: Released,
    pub done: Released,
    /// The access that initialized it.
    pub init: Access,
    /// Among all of the cluster, for what is known of its phases.
    pub number: usize,
    /// Warp and lane that ended the last phase.
    pub ender: Option<(usize, usize)>,
    /// Last use by each timeline.
    pub uses: Vec<Access>,
    /// Last arrival, for reports.
    pub last: u32,
}

/// Instruction, barrier and phase that a warp waits for.
pub(crate) type WaitFor = (u32, u32, u64);

/// A place of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BarrierAt {
    pub block: usize,
    pub offset: u32,
}

/// One of a block's 16 barriers.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedBarrier {
    /// Threads that complete it; set by the first arrival.
    pub expected: Option<u32>,
    pub arrived: u32,
    pub waiting: Vec<usize>,
    pub clocks: Clocks,
    /// Votes so far: population, and, or.
    pub votes: (u32, bool, bool),
    pub pc: u32,
    /// Whether the count follows the block's live threads.
    pub whole: bool,
}

/// The cluster's barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterBarrier {
    pub generation: u64,
    pub pending: Clocks,
    pub released: Clocks,
}

/// The use of a warp's registers by the tensor core.
pub(crate) struct WarpTensor {
    /// Number of wgmma executed.
    pub issued: u32,
    /// Number of wgmma executed at each commit that was not waited for.
    pub committed: VecDeque<u32>,
    /// Number of wgmma known to be complete.
    pub retired: u32,
    pub fences: u32,
    /// Fences executed before the last group was committed, and by which instruction it was.
    pub closed: Option<(u32, u32)>,
    pub registers: Vec<TensorRegister>,
}

/// One register: which wgmma use it, and when ordinary instructions touched it.
#[derive(Clone, Copy, Default)]
pub(crate) struct TensorRegister {
    /// Number of the last wgmma that writes it, from 1.
    pub accumulates: u32,
    /// Number of the last wgmma that reads it as A, from 1.
    pub reads: u32,
    /// Fences executed at the last ordinary access, plus 1.
    pub touched: u32,
    /// The same of the last ordinary write.
    pub written: u32,
    /// The last wgmma and the last ordinary access, for reports.
    pub wgmma_pc: u32,
    /// Shape of the last wgmma that writes it (n, and whether in f16), and the fences at it.
    pub shape: (u32, bool),
    pub fenced: u32,
    pub touch_pc: u32,
}

impl WarpTensor {
    pub fn new(registers: usize) -> Self {
        Self {
            issued: 0,
            committed: VecDeque::new(),
            retired: 0,
            fences: 0,
            closed: None,
            registers: vec![TensorRegister::default(); registers],
        }
    }
}

/// One warp's part of a wgmma.
#[derive(Clone, Debug)]
pub(crate) struct WarpOperands {
    pub a: Option<u64>,
    pub b: u64,
    pub scale_d: bool,
    pub clocks: Clocks,
}

/// A wgmma from its first warp to its last retirement.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub pc: u32,
    pub parts: [Option<WarpOperands>; 4],
    pub timeline: usize,
    pub clock: u32,
    pub done: bool,
    pub retired: u32,
}
