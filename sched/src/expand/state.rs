//! The state during the expansion of a role, grouped by subject.

use super::footprints::Accesses;
use crate::analysis::{Graph, Node};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{
    Block, Buffer, Cursor, Func, Inst, Program, Ring, RoleKind, Schedule, SharedMap, Value,
};
use warplift_ir::tile::Loc;

/// The inputs of the expansion.
#[derive(Clone, Copy)]
pub(super) struct Given<'p, 'a> {
    pub program: &'p Program<'a>,
    pub schedule: &'p Schedule,
    pub graph: &'p Graph,
    /// The layout of shared memory.
    pub smem: &'p SharedMap,
    /// Tensor maps of parts, by the map of the whole.
    pub parts: &'p FxHashMap<u32, u32>,
}

/// The role that is expanded.
pub(super) struct Who {
    pub role: RoleKind,
    /// The nodes that the role's effects reach by values and control.
    pub needed: FxHashSet<Node>,
}

/// The code that is emitted.
pub(super) struct Code<'a> {
    pub func: Func<'a>,
    /// The current block.
    pub block: Block,
    pub loc: Loc,
}

impl<'a> Code<'a> {
    /// A cursor at the end of the current block.
    pub fn at(&mut self) -> Cursor<'_, 'a> {
        Cursor::new(&mut self.func, self.block, self.loc)
    }
}

/// The position of the walk over the structured program.
pub(super) struct Walk {
    /// The block of the program.
    pub source: Block,
    /// Values of the program, and their values in this role.
    pub env: FxHashMap<Value, Value>,
}

/// The accesses to memory so far.
pub(super) struct Memory {
    pub seen: Seen,
    pub staged: Staged,
    /// Whether all blocks that hold a tile together are known to have begun.
    pub begun: bool,
}

/// The accesses to a buffer that threads write, since the role's last barrier and since the last fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub written: bool,
    pub read: bool,
    /// The buffer is written, and no fence has made that visible to asynchronous reads yet. A barrier does not.
    pub unfenced: bool,
}

impl Touched {
    /// The accesses that may have happened where two paths meet.
    pub fn join(self, other: Self) -> Self {
        Self {
            written: self.written || other.written,
            read: self.read || other.read,
            unfenced: self.unfenced || other.unfenced,
        }
    }

    /// The state after a barrier.
    pub fn after_barrier(self) -> Self {
        Self { unfenced: self.unfenced, ..Self::default() }
    }

    /// The state in which any access may have happened.
    pub fn anything() -> Self {
        Self { written: true, read: true, unfenced: true }
    }
}

/// The accesses to memory since the role's last barrier.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// Scratch buffers.
    pub scratch: SecondaryMap<Buffer, Touched>,
    /// Global memory, by the number of the pointer argument.
    pub global: FxHashMap<u32, Accesses>,
}

/// A staged store: its slot, and the number of groups of copies that may be pending before it. `None`: no group needs a
/// wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub buffer: Buffer,
    pub slot: u32,
    pub pending: Option<u32>,
}

/// Values that the threads of a role have for themselves. Each is computed once, at entry, when it is first needed.
#[derive(Default)]
pub(super) struct Own {
    /// The elected lane of each warp.
    pub elected: Option<Value>,
    /// First address of this team's shared memory.
    pub base: Option<Value>,
    /// This block's rank in its cluster.
    pub rank: Option<Value>,
    /// First address of the other block's shared memory.
    pub peer: Option<Value>,
    /// Whether this is the thread that copies, if there is no producer.
    pub first: Option<Value>,
    /// Number of this role's team in the block, if there are several.
    pub team: Option<Value>,
    /// Number of this warp among the helpers.
    pub helper: Option<Value>,
    /// Address of the counter from which tiles are drawn, and what this role has drawn for the next tile.
    pub counter: Option<Value>,
    pub drawn: Option<Value>,
    /// Whether the expansion is inside the work of a helper's turn.
    pub in_slot: bool,
    /// For each warpgroup, whether this is the one. Empty if the warpgroups take no turns.
    pub group: Vec<Value>,
    /// First addresses by offset, and whether the expansion is in a loop whose body is written once for each slot.
    pub addresses: FxHashMap<Value, Value>,
    pub in_copies: bool,
    /// Number of the iteration that is expanded, in a fully unrolled loop.
    pub iteration: u32,
    /// Descriptor bases by operand.
    pub descriptors: FxHashMap<(Buffer, [u32; 3], bool), Value>,
}

/// Products in flight.
#[derive(Default)]
pub(super) struct Flight {
    /// Whether a product is in flight whose wait has not been emitted yet.
    pub flying: bool,
    /// Groups committed since the last wait.
    pub groups: u32,
    /// The products in flight, in order.
    pub flown: Vec<Flown>,
    /// Whether awaits tell when products are complete, as in the body of a rotated loop.
    pub exact: bool,
    /// The events of these products.
    pub events: Vec<Value>,
    /// Stages whose products stay in flight over an iteration.
    pub unreleased: Option<Unreleased>,
}

/// The deferred epilogue.
#[derive(Default)]
pub(super) struct Deferred {
    /// The part that goes before the next wait.
    pub part: Option<usize>,
    /// The deferred instructions.
    pub insts: FxHashSet<Inst>,
    /// Whether a deferred part is being expanded.
    pub inside: bool,
    /// The operands of deferred instructions during that.
    pub overlay: FxHashMap<Value, Value>,
    /// Whether deferred results exist. The value guards their copies.
    pub have: Option<Value>,
}

/// Loads that are issued ahead.
#[derive(Default)]
pub(super) struct Leading {
    /// Which loads of a stage are filled now.
    pub phase: WaitPhase,
    /// Copies of later iterations that are yet to be issued.
    pub copies: Vec<Ahead>,
    /// The instructions that only such copies need.
    pub led: FxHashSet<Inst>,
    /// A loop with at most this many iterations.
    pub most: Option<(Inst, usize)>,
}

/// Staged stores.
pub(super) struct Staged {
    /// The site of each staged store's first write.
    pub sites: FxHashMap<Inst, Site>,
    /// The slot that the staging buffer's current site uses.
    pub slot_now: SecondaryMap<Buffer, u32>,
}

/// Position of a role in a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingState {
    pub slot: Value,
    pub phase: Value,
    /// Whether this stage's first wait is done.
    pub open: bool,
    /// Whether this stage's bytes have been announced. For copies of threads: whether copies were issued since the last
    /// wait for them.
    pub filled: bool,
    /// Where it stores next, if it fills the stages that it reads.
    pub stored: Option<StoreState>,
}

/// Position of a role in a ring whose stages it fills for itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreState {
    pub slot: Value,
    pub phase: Value,
    /// Whether the stage is known to be empty.
    pub open: bool,
}

/// A product in flight: its sum in the program, and whether its left operand is in registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flown {
    pub sum: Value,
    pub registers: bool,
}

/// Stages whose products are still in flight.
#[derive(Clone, Debug)]
pub(super) struct Unreleased {
    pub slots: Vec<(Ring, Value)>,
    /// Whether there are any. `None`: there certainly are.
    pub any: Option<Value>,
}

/// Copies of a later iteration that have not been issued yet.
pub(super) struct Ahead {
    pub ring: Ring,
    pub slot: Value,
    /// Whether the loop reaches that iteration.
    pub runs: Value,
    pub copies: Vec<Inst>,
    /// Scalars of the body in that iteration, as far as they were needed.
    pub env: FxHashMap<Value, Value>,
}

/// The loads of a stage that are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WaitPhase {
    /// All loads.
    #[default]
    All,
    /// Loads that need not wait for other grids. The stage is fresh.
    BeforeWait,
    /// The other loads, into a stage whose bytes are already expected.
    AfterWait,
}
