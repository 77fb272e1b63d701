//! What is known while a role is expanded, by what it is about.

use super::footprints::Accesses;
use crate::analysis::{Graph, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{
    Block, Buffer, Cursor, Func, Inst, Program, Ring, RoleKind, Schedule, SharedMap, Value,
};
use warplift_ir::tile::Loc;

/// What is expanded.
#[derive(Clone, Copy)]
pub(super) struct Given<'p, 'a> {
    pub program: &'p Program<'a>,
    pub schedule: &'p Schedule,
    pub graph: &'p Graph,
    /// Where things lie in shared memory.
    pub smem: &'p SharedMap,
    /// Tensor maps of parts, by the map of the whole.
    pub parts: &'p FxHashMap<u32, u32>,
}

/// Whose code is made.
pub(super) struct Who {
    pub role: RoleKind,
    /// What its effects reach by values and control.
    pub needed: FxHashSet<Node>,
}

/// The code that is made.
pub(super) struct Code<'a> {
    pub func: Func<'a>,
    /// The block that grows.
    pub block: Block,
    pub loc: Loc,
}

impl<'a> Code<'a> {
    /// A cursor at the end of the block that grows.
    pub fn at(&mut self) -> Cursor<'_, 'a> {
        Cursor::new(&mut self.func, self.block, self.loc)
    }
}

/// Where the walk over the structured program is.
pub(super) struct Walk {
    /// Its block.
    pub source: Block,
    /// Its values, as they are here.
    pub env: FxHashMap<Value, Value>,
}

/// What happened to memory so far.
pub(super) struct Memory {
    pub seen: Seen,
    pub staged: Staged,
    /// Whether all blocks that hold a tile together are known to have begun.
    pub begun: bool,
}

/// What happened to a buffer that threads write: since the last barrier of the role, and since the last fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub written: bool,
    pub read: bool,
    /// Written, and no fence has yet shown it to asynchronous reads: a barrier does not.
    pub unfenced: bool,
}

impl Touched {
    /// What may have happened where two ways meet.
    pub fn join(self, other: Self) -> Self {
        Self {
            written: self.written || other.written,
            read: self.read || other.read,
            unfenced: self.unfenced || other.unfenced,
        }
    }

    /// What is left of it behind a barrier.
    pub fn after_barrier(self) -> Self {
        Self { unfenced: self.unfenced, ..Self::default() }
    }

    /// Whatever may have happened.
    pub fn anything() -> Self {
        Self { written: true, read: true, unfenced: true }
    }
}

/// What happened to memory since the last barrier of the role.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Scratch buffers.
    pub scratch: SecondaryMap<Buffer, Touched>,
    /// Global memory, by the number of the pointer argument.
    pub global: FxHashMap<u32, Accesses>,
}

/// A staged store: where it goes, and how many groups of copies may be pending before; `None`: there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub buffer: Buffer,
    pub slot: u32,
    pub pending: Option<u32>,
}

/// What the threads of a role know of themselves, each made once at entry where it is first asked for.
#[derive(Default)]
pub(super) struct Own {
    /// The elected lane of each warp.
    pub elected: Option<Value>,
    /// First address of this team's shared memory.
    pub base: Option<Value>,
    /// This block's number in its cluster.
    pub rank: Option<Value>,
    /// Where the other block's shared memory begins.
    pub peer: Option<Value>,
    /// Whether this is the thread that copies, where there is no producer.
    pub first: Option<Value>,
    /// Number of this role's team in the block, where there are several.
    pub team: Option<Value>,
    /// Number of this warp among the helpers.
    pub helper: Option<Value>,
    /// Whether what is expanded is its turn.
    pub in_slot: bool,
    /// Whether this is a warpgroup, for each of them, where they take turns.
    pub group: Vec<Value>,
    /// First addresses by offset, and whether a loop is expanded whose body stands there for each slot.
    pub addresses: FxHashMap<Value, Value>,
    pub in_copies: bool,
    /// The iteration whose body is written, of a loop that stands there once for each.
    pub iteration: u32,
    /// Descriptor bases by operand.
    pub descriptors: FxHashMap<(Buffer, [u32; 3], bool), Value>,
}

/// Products in flight.
#[derive(Default)]
pub(super) struct Flight {
    /// There is one whose wait is yet to come.
    pub flying: bool,
    /// Groups committed since the last wait.
    pub groups: u32,
    /// Them, in order.
    pub flown: Vec<Flown>,
    /// Whether awaits say when they have landed, as in the body of a rotated loop.
    pub exact: bool,
    /// Their events there.
    pub events: Vec<Value>,
    /// Stages whose products stay in flight over an iteration.
    pub unreleased: Option<Unreleased>,
}

/// The deferred epilogue.
#[derive(Default)]
pub(super) struct Deferred {
    /// Its part that goes before the next wait.
    pub part: Option<usize>,
    /// Its instructions.
    pub insts: FxHashSet<Inst>,
    /// Whether they are being expanded.
    pub inside: bool,
    /// Their operands meanwhile.
    pub overlay: FxHashMap<Value, Value>,
    /// Whether deferred results exist: guards their copies.
    pub have: Option<Value>,
}

/// Loads before their turn.
#[derive(Default)]
pub(super) struct Leading {
    /// Which loads of a stage are filled now.
    pub phase: WaitPhase,
    /// Copies of later iterations that are yet to be issued.
    pub copies: Vec<Ahead>,
    /// A loop whose iterations are so few at most.
    pub most: Option<(Inst, usize)>,
}

/// Staged stores.
pub(super) struct Staged {
    /// The first write of each.
    pub sites: FxHashMap<Inst, Site>,
    /// Slot that the staging buffer's current site uses.
    pub slot_now: SecondaryMap<Buffer, u32>,
}

/// Position of a role in a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingState {
    pub slot: Value,
    pub phase: Value,
    /// Whether this stage's first wait is done.
    pub open: bool,
    /// Whether this stage's bytes have been announced here; of copies by threads: whether some were issued
    /// since the last wait for them.
    pub filled: bool,
}

/// A product in flight: the program's sum, and whether its left operand stands in registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flown {
    pub sum: Value,
    pub registers: bool,
}

/// Stages whose products are still in flight.
#[derive(Clone, Debug)]
pub(super) struct Unreleased {
    pub slots: Vec<(Ring, Value)>,
    /// Whether there are any; `None`: certainly.
    pub any: Option<Value>,
}

/// Copies of a later iteration that are yet to be issued.
pub(super) struct Ahead {
    pub ring: Ring,
    pub slot: Value,
    /// Whether the loop gets to that iteration.
    pub runs: Value,
    pub copies: Vec<Inst>,
    /// The body's scalars in that iteration, as far as they were needed.
    pub env: FxHashMap<Value, Value>,
}

/// Which loads of a stage are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WaitPhase {
    /// All of them.
    #[default]
    All,
    /// Those that need not wait for other grids; the stage is fresh.
    BeforeWait,
    /// The others, into a stage whose bytes are expected already.
    AfterWait,
}
