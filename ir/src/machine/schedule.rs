//! The results that stages hand on around scheduling: the program of a block, the schedule as data, the scheduled roles,
//! and the allocation of their registers.

use super::*;
use crate::manifest::{Argument, Expr, Fact, Param};
use crate::target::Unit;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use serde::{Deserialize, Serialize};

/// How a buffer of shared memory is filled and emptied. `sched` chooses the protocol around it by this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BufferKind {
    /// Stages of a ring. Copies fill them, and tensor cores or threads read them.
    Ring,
    /// Stages of a ring. The consumers fill them, each thread at its own place, and the epilogue warps with the same numbers
    /// read them. A program has one such buffer at most: where it is loaded, the work of the epilogue warps begins.
    Handoff,
    /// Stages of a ring. The consumers fill them with an operand that they compute together, and their products read them.
    Operand,
    /// Stages of a ring. A helper warp fills them with values that are identical in every warp, and all computing warps
    /// read them.
    Helper,
    /// Stages of a ring. The role that draws tiles from a counter fills them with the number of the next tile, and all other
    /// roles read them. A program has one such buffer at most.
    NextTile,
    /// Stages of a ring. The producer fills them with scalars of a tile that come from memory, and all other roles read them.
    /// A program has one such buffer at most.
    TileInfo,
    /// One stage of a ring. The consumers fill it with a scalar that they find together, and the producer reads it.
    Decision,
    /// Slots used in turn. Threads fill them, each warp its own part, and tensor copies to global memory read them.
    Staging,
    /// One copy with barriers around it. Threads fill and read it; tensor cores may read it.
    Scratch,
    /// An array of the text. Threads access it as they access global memory: see [`GlobalAccess`].
    Array,
}

impl BufferKind {
    /// Whether a ring's barriers hand its stages over.
    pub fn is_ring(self) -> bool {
        matches!(
            self,
            Self::Ring
                | Self::Handoff
                | Self::Operand
                | Self::Helper
                | Self::NextTile
                | Self::TileInfo
                | Self::Decision
        )
    }
}

/// A buffer of shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferData {
    /// Name, from the tile it holds.
    pub name: String,
    /// Bytes of one stage.
    pub bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Protocol.
    pub kind: BufferKind,
}

impl BufferData {
    /// Bytes from one stage to the next, a multiple of the alignment.
    pub fn stride(&self) -> u32 {
        self.bytes.next_multiple_of(self.align)
    }
}

/// Everything about the launch except the code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchInfo {
    /// Kernel name.
    pub kernel: String,
    /// File of its text.
    pub file: String,
    /// Arguments of its signature.
    pub arguments: Vec<Argument>,
    /// Parameters of the entry.
    pub params: Vec<Param>,
    /// Grid.
    pub grid: [Expr; 3],
    /// Blocks of a cluster along x.
    pub cluster: u32,
    /// Blocks that a multiprocessor should hold at once.
    pub resident: u32,
    /// Whether the grid may start before the grid that it depends on has ended.
    pub pdl: bool,
    /// Facts required.
    pub facts: Vec<Fact>,
    /// Workspace bytes.
    pub workspace: Expr,
}

/// The program of a block before scheduling.
#[derive(Clone, PartialEq)]
pub struct Program<'a> {
    /// Launch.
    pub launch: LaunchInfo,
    /// Shared memory.
    pub buffers: PrimaryMap<Buffer, BufferData>,
    /// Blocks of the cluster that share a tile; 1: no sharing. See [`crate::tile::KernelMapping::blocks`].
    pub blocks: u32,
    /// Warps of a computing team in each block.
    pub warps: u32,
    /// Teams of a block, each with its own tiles, rings and buffers.
    pub teams: u32,
    /// Whether stores of results may be deferred under the next tile.
    pub deferred: bool,
    /// Whether epilogue warps do the end of a tile's work.
    pub epilogue_warps: bool,
    /// Structured code.
    pub func: Func<'a>,
}

impl Program<'_> {
    /// Computing warps of a block over all teams: the consumers, and as many epilogue warps if a tile's work is cut.
    pub fn computing_warps(&self) -> u32 {
        let roles = 1 + self.buffers_of(BufferKind::Handoff).count() as u32;
        self.warps * self.teams * roles
    }

    /// The buffers of a kind.
    pub fn buffers_of(&self, kind: BufferKind) -> impl Iterator<Item = Buffer> + '_ {
        self.buffers.iter().filter(move |(_, d)| d.kind == kind).map(|(b, _)| b)
    }
}

/// A ring: buffers filled together, stage by stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ring(u32);
cranelift_entity::entity_impl!(Ring, "ring");

/// The filler of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RingFill {
    /// Tensor copies. Barriers in shared memory hand its stages over.
    Tma,
    /// Asynchronous copies of the computing threads, `depth - 1` iterations ahead. The count of their groups and a barrier
    /// of the threads hand its stages over.
    CpAsync,
    /// Stores of the consumers for the epilogue warps with the same numbers. Barriers in shared memory hand its stages
    /// over.
    Handoff,
    /// Stores of the consumers for their own products: an operand that they compute together. Barriers in shared memory hand
    /// its stages over.
    Operand,
    /// Stores of the helper for all consumer warps, lane by lane. Barriers in shared memory hand its stages over.
    Helper,
    /// A store of the producer for all other roles: the number of the next tile. Barriers in shared memory hand its stages
    /// over.
    NextTile,
    /// A store of one computing thread for the others, where there is no producer: the number of the next tile. A barrier
    /// of the threads hands its stages over.
    NextTileByThreads,
    /// Stores of the producer for all other roles: scalars of a tile that come from memory. Barriers in shared memory hand its
    /// stages over.
    TileInfo,
    /// A store of the consumers for the producer: a scalar that they find together. Barriers in shared memory hand it over.
    Decision,
}

impl RingFill {
    /// Whether threads store and load its stages, without copies.
    pub fn is_stored(self) -> bool {
        matches!(self, Self::Handoff | Self::Operand | Self::Helper)
    }

    /// Whether its stages hold the number of the next tile.
    pub fn is_next_tile(self) -> bool {
        matches!(self, Self::NextTile | Self::NextTileByThreads)
    }

    /// Whether barriers in shared memory hand its stages over, a full and an empty one for each stage.
    pub fn has_barriers(self) -> bool {
        !matches!(self, Self::CpAsync | Self::NextTileByThreads)
    }
}

/// How the stages of a ring return to its filler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StageRelease {
    /// By barriers of its own.
    #[default]
    Alone,
    /// Together with the stages of another ring of the same depth. That ring is filled first and ends with this ring or
    /// later.
    With(Ring),
    /// Never: it is filled once.
    Never,
}

/// One ring of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingData {
    /// Its buffers, filled in this order.
    pub buffers: Vec<Buffer>,
    /// Bytes that arrive for one fill.
    pub bytes: u32,
    /// Its filler.
    pub fill: RingFill,
    /// How its stages return to the filler.
    pub release: StageRelease,
    /// Stages.
    pub depth: u32,
    /// Blocks in each of which a stage is filled, and read.
    pub blocks: Vec<Block>,
    /// Blocks in which epilogue warps read again the stages that consumers read in other blocks. The epilogue warps
    /// release the stages.
    pub rereads: Vec<Block>,
    /// Whether the helper reads its stages too. Consumers release them after they received the helper's results.
    pub helped: bool,
    /// Least number of stages with which its readers do not wait for each other.
    pub least: u32,
    /// Most stages that would help.
    pub wish: Option<u32>,
    /// Whether copies of all blocks of the cluster fill it. Each stage is then released to all of them.
    pub cluster: bool,
    /// Whether threads read its stages (`ldmatrix`), not only tensor cores. A warp then synchronizes before it releases a
    /// stage.
    pub threads_read: bool,
}

/// The role that executes an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RoleKind {
    /// One thread that issues tensor copies.
    Producer,
    /// The computing warps.
    #[default]
    Consumer,
    /// The warps that finish a tile after the consumers.
    Epilogue,
    /// A second thread that issues tensor copies. Only epilogue warps read its data.
    EpilogueLoad,
    /// Warps that take turns to compute values that would be identical in every consumer warp.
    Helper,
}

impl RoleKind {
    /// Whether it is a single thread that only copies.
    pub fn copies(self) -> bool {
        matches!(self, Self::Producer | Self::EpilogueLoad)
    }

    /// Its name in the launch manifest. The copying threads and the helpers belong to the producer's warps.
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer | Self::EpilogueLoad | Self::Helper => "producer",
            Self::Consumer => "consumer",
            Self::Epilogue => "epilogue",
        }
    }
}

/// Scalars of a tile that come from memory. The producer finds them and broadcasts them to all other roles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileInfo {
    /// The instructions that make them, in order. Other roles leave them out.
    pub makers: Vec<Inst>,
    /// The scalars, in the order of their makers.
    pub values: Vec<Value>,
}

/// Results of a tile stored under the main loop of the next tile (software pipelining of the loop
/// over tiles by one stage, its second stage spread over peeled iterations).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferral {
    /// The loop over tiles.
    pub outer: Inst,
    /// The main loop inside it, whose first iterations are peeled.
    pub inner: Inst,
    /// Instructions of the outer body that run late, one part for each peeled iteration.
    pub parts: Vec<Vec<Inst>>,
}

/// A loop whose warpgroups take turns. One issues its products while the others wait at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MmaOrder {
    /// The loop.
    pub looped: Inst,
    /// The first product of its body. A turn begins before it.
    pub first: Inst,
    /// The last product of its body. A turn ends after its issue.
    pub last: Inst,
}

/// Instructions of a loop's body that are placed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The instructions in order.
    pub insts: Vec<Inst>,
    /// Their delay after the iteration's start, in whole intervals. They run so many iterations late.
    pub stage: u32,
    /// The unit that they take, and when.
    pub span: Span,
}

/// Time of a unit that part of an iteration takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Instruction and result.
    pub name: String,
    /// The unit. If the instructions take several units, it is the one with the most cycles.
    pub unit: Unit,
    /// Cycles after the iteration's start; negative before it.
    pub time: i64,
    /// Cycles that the unit is taken.
    pub busy: u32,
}

/// The gain if a loop's warpgroups take turns at the tensor cores, from a simulation of the block. All numbers are
/// cycles of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MmaOrderGain {
    /// Without turns, if the warpgroups start at equal distances within the interval.
    pub staggered: u32,
    /// Without turns, if all warpgroups start together.
    pub in_step: u32,
    /// Expected without turns.
    pub expected: u32,
    /// With turns.
    pub ordered: u32,
    /// Whether a turn contains work of the threads, because that work stands between the products of an iteration.
    pub work_inside: bool,
    /// Whether the mapping decides.
    pub given: bool,
    /// Whether the warpgroups take turns.
    pub taken: bool,
}

/// The gain if waits for products keep the places that the schedule gives them. All numbers are cycles of an iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// The pinned waits.
    pub waits: Vec<Inst>,
    /// Without pins.
    pub loose: u32,
    /// With a pin for every wait that would move.
    pub pinned: u32,
}

/// The modulo schedule of a loop for one warpgroup. Other warpgroups share the units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSchedule {
    /// The loop.
    pub inst: Inst,
    /// Name of its counter.
    pub name: String,
    /// Warpgroups that share the units. Each runs its own iterations.
    pub groups: u32,
    /// Initiation interval: cycles from one iteration's start to the next one's.
    pub interval: u32,
    /// Cycles that all warpgroups take of each unit in an interval, the busiest unit first.
    pub taken: Vec<(Unit, u32)>,
    /// Least interval by recurrences.
    pub recurrence: u32,
    /// Intervals over which one iteration extends, copies included.
    pub stages: u32,
    /// Whether the rewritten body contains work of several iterations.
    pub pipelined: bool,
    /// Whether its fragments leave other work few registers. If allocation finds too few, the loop stays as it is.
    pub tight: bool,
    /// Whether the body is unrolled once for each slot of its rings, because the threads' instructions dominate.
    pub unrolls: bool,
    /// Turns of its warpgroups at the tensor cores; `None` with one warpgroup or without a reason for turns.
    pub mma_order: Option<MmaOrderGain>,
    /// Waits for products that ptxas would move; `None` if there is no such wait.
    pub pins: Option<Pins>,
    /// The body, in the order in which a warp executes it.
    pub slots: Vec<Slot>,
    /// Copies that fetch the data of an iteration.
    pub copies: Vec<Span>,
}

impl LoopSchedule {
    /// Least interval by resources.
    pub fn resource(&self) -> u32 {
        self.taken.iter().map(|t| t.1).max().unwrap_or(1)
    }

    /// Expected cycles of an iteration. They come from the simulation of all warpgroups, if there is one.
    pub fn expected(&self) -> u32 {
        self.mma_order.map_or(self.interval, |t| if t.taken { t.ordered } else { t.expected })
    }

    /// How often the body is cut in two. Each cut adds work of one more iteration to it.
    pub fn extra_stages(&self) -> u32 {
        let stages = self.slots.iter().map(|s| s.stage);
        if self.pipelined { stages.clone().max().unwrap_or(0) - stages.min().unwrap_or(0) } else { 0 }
    }
}

/// A schedule as data. `sched::expand` turns it into code.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Schedule {
    /// Role of each instruction, except pure scalars.
    pub roles: SecondaryMap<Inst, RoleKind>,
    /// Whether there is a producer.
    pub producer: bool,
    /// Rings.
    pub rings: PrimaryMap<Ring, RingData>,
    /// Tensor loads that the blocks of the cluster share: each fetches a part for all.
    pub multicast: SecondaryMap<Inst, bool>,
    /// Stages of staging buffers.
    pub slots: SecondaryMap<Buffer, u32>,
    /// Tensor groups left in flight at the end of a loop's iteration.
    pub in_flight: SecondaryMap<Inst, u32>,
    /// Whether threads work under products that read both operands in shared memory.
    pub beside_products: bool,
    /// Loops whose warpgroups take turns at the tensor cores.
    pub mma_order: Vec<MmaOrder>,
    /// Deferred results.
    pub deferral: Option<Deferral>,
    /// The loop whose first stages the producer fills with early loads before it waits for other grids.
    pub before_wait: Option<Inst>,
    /// What the producer finds for all roles at the start of a tile's work.
    pub tile_info: TileInfo,
    /// Scalars that the consumers find together and tell the producer, each by a ring of its own in the same order.
    pub decisions: Vec<Value>,
    /// Loops that overlap with themselves.
    pub loops: Vec<LoopSchedule>,
    /// What was declined and why, for `explain`.
    pub remarks: Vec<String>,
}

/// Addresses in shared memory, in bytes from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMap {
    /// First stage of each buffer.
    pub buffers: SecondaryMap<Buffer, u32>,
    /// First full barrier of each ring; empty barriers follow, 8 bytes each.
    pub barriers: SecondaryMap<Ring, u32>,
    /// Bytes used.
    pub bytes: u32,
    /// Bytes of each team: the distance to the next team's buffers and barriers.
    pub team: u32,
}

/// One role after expansion.
#[derive(Clone, PartialEq)]
pub struct Role<'a> {
    /// `producer`, `consumer`, `epilogue`, or `all`.
    pub name: &'a str,
    /// First warp of the block that runs it.
    pub first_warp: u32,
    /// Warps.
    pub warps: u32,
    /// The number of its first warps that work; 0: all compute. One thread of each copying warp works, and all threads
    /// of a helper. The other warps end at once.
    pub copiers: u32,
    /// Registers per thread that it may use.
    pub registers: u32,
    /// Its control-flow graph.
    pub func: Func<'a>,
}

/// A scheduled program.
#[derive(Clone, PartialEq)]
pub struct Scheduled<'a> {
    /// Launch.
    pub launch: LaunchInfo,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory.
    pub shared: SharedMap,
    /// Run by all threads before the roles part: barrier initialisation.
    pub setup: Func<'a>,
    /// Roles, in order of their warps.
    pub roles: Vec<Role<'a>>,
}

/// The register that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reg {
    /// Predicate register.
    Pred(u16),
    /// 32-bit register (also holds 16-bit values).
    R(u16),
    /// Pair of 32-bit registers, by its first number among the 64-bit names.
    D(u16),
}

/// A move that allocation adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// From.
    pub from: Reg,
    /// To.
    pub to: Reg,
}

/// Registers of one function.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Allocation {
    /// For each instruction, one entry for each operand in order, then for each result, then for the guard if there is
    /// one. Values passed to blocks have none: they stand in [`Self::before`]. A `const` whose result is a literal
    /// takes no register. The value of any other `const` is written into its register.
    pub insts: SecondaryMap<Inst, Vec<Operand>>,
    /// Moves before an instruction, in order.
    pub before: SecondaryMap<Inst, Vec<Move>>,
    /// 32-bit names used (`%r`), 64-bit names (`%d`), predicate names (`%p`).
    pub names: [u32; 3],
    /// Registers needed by this function, in 32-bit registers, as the budget counts them.
    pub pressure: u32,
}

/// Registers of one operand or result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operand {
    /// A constant, written as literal.
    Literal(i64),
    /// A scalar.
    Scalar(Reg),
    /// A fragment with consecutive 32-bit registers: the first one, and their number.
    Fragment(u16, u16),
    /// A fragment whose registers are not consecutive (a free view).
    Scattered(Box<[u16]>),
    /// No register: events, undefined values.
    None,
}
