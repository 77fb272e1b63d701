//! What stages hand on around scheduling: the program of a block, the schedule as data, the
//! scheduled roles, and the allocation of their registers.

use super::*;
use crate::manifest::{Argument, Expr, Fact, Param};
use crate::target::Unit;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use serde::{Deserialize, Serialize};

/// How a buffer of shared memory is filled and emptied; decides which protocol `sched` puts around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BufferKind {
    /// Filled by tensor copies, read by tensor cores or threads; or by the threads of one role, each at its own place,
    /// and read by those with the same numbers in another: stages of a ring.
    Ring,
    /// Filled by threads, read by tensor copies to global memory, each warp its own part: slots in turn.
    Staging,
    /// Filled and read by threads (and read by tensor cores): one copy, barriers around it.
    Scratch,
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
    /// Bytes from one stage to the next: the next one is aligned too.
    pub fn stride(&self) -> u32 {
        self.bytes.next_multiple_of(self.align)
    }
}

/// What is launched, apart from code.
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
    /// Blocks that a multiprocessor is to hold at once.
    pub resident: u32,
    /// Whether the grid may start before the one it depends on has ended.
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
    /// Blocks that run it together, a cluster; 1: each alone. See [`crate::tile::KernelMapping::blocks`].
    pub blocks: u32,
    /// Warps of a team that computes, in each block.
    pub warps: u32,
    /// Teams of a block, each with its own tiles, rings and buffers.
    pub teams: u32,
    /// Whether results may be deferred under the next tile.
    pub deferred: bool,
    /// Whether what a tile's work ends with is for warps of their own.
    pub epilogue_warps: bool,
    /// What that is handed, once it is known: it begins where this is loaded.
    pub epilogue_role: Option<EpilogueRole>,
    /// What helpers make for all warps, since all would make it alike: buffers by which they hand that on.
    pub helper_buffers: Vec<Buffer>,
    /// Structured code.
    pub func: Func<'a>,
}

impl Program<'_> {
    /// Warps of a block that compute, of all teams: consumers, and as many epilogue warps where a tile's work is cut.
    pub fn computing_warps(&self) -> u32 {
        self.warps * self.teams * if self.epilogue_role.is_some() { 2 } else { 1 }
    }
}

/// The cut of a tile's work in two: consumers store what they hand on, epilogue warps load it and go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpilogueRole {
    /// Takes what the consumers hand on, fragment by fragment: one stage a tile.
    pub handoff: Buffer,
    /// Buffers that both load, with the same in the same order, and stages of a tile at most: epilogue warps read the
    /// consumers' stages again.
    pub rereads: Vec<(Buffer, u32)>,
    /// Registers in which each thread of the epilogue warps holds what is the same for all tiles.
    pub hoisted_registers: u32,
}

/// A ring: buffers filled together, stage by stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ring(u32);
cranelift_entity::entity_impl!(Ring, "ring");

/// Who fills a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RingFill {
    /// Tensor copies; stages are handed over by barriers in shared memory.
    Tma,
    /// Asynchronous copies of the threads that compute, `depth - 1` iterations ahead; stages are handed over
    /// by the count of their groups and a barrier of the threads.
    CpAsync,
    /// Stores of the consumers for the epilogue warps, who have the same numbers among their own; stages are handed over by
    /// barriers in shared memory.
    Handoff,
    /// Stores of the helper for all warps of the consumers, each lane for its own; stages are handed over likewise.
    Helper,
}

impl RingFill {
    /// Whether threads store what others load, and copies have no part in it.
    pub fn is_stored(self) -> bool {
        matches!(self, Self::Handoff | Self::Helper)
    }

    /// Whether barriers in shared memory hand its stages over, a full one and an empty one each.
    pub fn has_barriers(self) -> bool {
        self != Self::CpAsync
    }
}

/// How the stages of a ring that tensor copies fill get back to who fills them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StageRelease {
    /// By barriers of its own.
    #[default]
    Alone,
    /// With those of another ring of as many stages, which is filled before it and ends with or behind it.
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
    /// Who fills it.
    pub fill: RingFill,
    /// How its stages get back to who fills it.
    pub release: StageRelease,
    /// Stages.
    pub depth: u32,
    /// Blocks in each of which a stage is filled, and read.
    pub blocks: Vec<Block>,
    /// Blocks in which epilogue warps read once more what consumers read in others, stage by stage: they hand it back.
    pub rereads: Vec<Block>,
    /// Whether the helper reads its stages too. Consumers hand them back, behind what it hands on.
    pub helped: bool,
    /// Stages without which its readers would wait for each other.
    pub least: u32,
    /// Most stages that would help.
    pub wish: Option<u32>,
    /// Whether copies of all blocks of the cluster fill it: each stage is released to all of them.
    pub cluster: bool,
    /// Whether threads read its stages (`ldmatrix`), not tensor cores alone: a warp meets before it
    /// releases one.
    pub threads_read: bool,
}

/// Who executes an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RoleKind {
    /// One thread that issues tensor copies.
    Producer,
    /// The warps that compute.
    #[default]
    Consumer,
    /// The warps that end what the consumers begin, where they are others.
    Epilogue,
    /// One more thread that issues tensor copies: what epilogue warps alone read.
    EpilogueLoad,
    /// Warps that make in turn what all warps of the consumers would make alike.
    Helper,
}

impl RoleKind {
    /// Whether it is one thread that does nothing but copy.
    pub fn copies(self) -> bool {
        matches!(self, Self::Producer | Self::EpilogueLoad)
    }

    /// Its name in the launch manifest; all threads that copy, and the helper's, are of the producer's warps.
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer | Self::EpilogueLoad | Self::Helper => "producer",
            Self::Consumer => "consumer",
            Self::Epilogue => "epilogue",
        }
    }
}

/// Results of a tile stored under the main loop of the next tile (software pipelining of the loop
/// over tiles by one stage, its second stage spread over peeled iterations).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferral {
    /// The loop over tiles.
    pub outer: Inst,
    /// The main loop inside it, whose first iterations are peeled.
    pub inner: Inst,
    /// Instructions of the outer body that run late, in one part a peeled iteration.
    pub parts: Vec<Vec<Inst>>,
}

/// A loop whose warpgroups take turns: one's products are issued while the others wait at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MmaOrder {
    /// The loop.
    pub looped: Inst,
    /// The first product of its body: a turn begins before it.
    pub first: Inst,
    /// The last one: a turn ends behind its issue.
    pub last: Inst,
}

/// Instructions of a loop's body that are placed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// In order.
    pub insts: Vec<Inst>,
    /// Intervals after the iteration's start in which they stand: what runs so many iterations late.
    pub stage: u32,
    /// What is taken, and when.
    pub span: Span,
}

/// Time of a unit that part of an iteration takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// What it is: instruction and result.
    pub name: String,
    /// The unit taken; of several that one takes most cycles of.
    pub unit: Unit,
    /// Cycles after the iteration's start; before it where negative.
    pub time: i64,
    /// Cycles that the unit is taken.
    pub busy: u32,
}

/// What turns of a loop's warpgroups at the tensor cores are worth, by a simulation of the block. Cycles of an
/// iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MmaOrderGain {
    /// Without turns, warpgroups the same part of the interval apart.
    pub staggered: u32,
    /// Without turns, warpgroups in step from the start.
    pub in_step: u32,
    /// What is expected without turns.
    pub expected: u32,
    /// With turns.
    pub ordered: u32,
    /// Whether a turn holds threads' work: it stands between the products of an iteration.
    pub work_inside: bool,
    /// Whether the mapping says.
    pub given: bool,
    /// Whether they are taken.
    pub taken: bool,
}

/// What it is worth to keep waits for products where the schedule has them. Cycles of an iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// The waits that are pinned.
    pub waits: Vec<Inst>,
    /// With nothing pinned.
    pub loose: u32,
    /// With all pinned that would move.
    pub pinned: u32,
}

/// A modulo schedule of a loop: of one warpgroup, beside others that share the units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSchedule {
    /// The loop.
    pub inst: Inst,
    /// Name of its counter.
    pub name: String,
    /// Warpgroups that share the units; each runs its own iterations.
    pub groups: u32,
    /// Initiation interval: cycles from one iteration's start to the next one's.
    pub interval: u32,
    /// Cycles that each unit is taken in an interval by all warpgroups, fullest first.
    pub taken: Vec<(Unit, u32)>,
    /// Least interval by recurrences.
    pub recurrence: u32,
    /// Intervals over which one iteration extends, copies included.
    pub stages: u32,
    /// Whether the body is rewritten to hold work of several iterations.
    pub pipelined: bool,
    /// Whether the body is to stand there once for each slot of its rings: threads' instructions take the most of it.
    pub unrolls: bool,
    /// Turns of its warpgroups at the tensor cores; none where there is one warpgroup, or nothing to take turns for.
    pub mma_order: Option<MmaOrderGain>,
    /// Waits for products that ptxas would move; none if there is no such wait.
    pub pins: Option<Pins>,
    /// The body, in the order in which a warp comes to it.
    pub slots: Vec<Slot>,
    /// Copies that bring what an iteration reads.
    pub copies: Vec<Span>,
}

impl LoopSchedule {
    /// Least interval by resources.
    pub fn resource(&self) -> u32 {
        self.taken.iter().map(|t| t.1).max().unwrap_or(1)
    }

    /// Cycles that an iteration is expected to take: as simulated, where warpgroups are simulated beside each other.
    pub fn expected(&self) -> u32 {
        self.mma_order.map_or(self.interval, |t| if t.taken { t.ordered } else { t.expected })
    }

    /// How many times the body is to be cut in two, so that it holds work of one more iteration each time.
    pub fn extra_stages(&self) -> u32 {
        let stages = self.slots.iter().map(|s| s.stage);
        if self.pipelined { stages.clone().max().unwrap_or(0) - stages.min().unwrap_or(0) } else { 0 }
    }
}

/// Where a schedule is, as data; `sched::expand` turns it into code.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Schedule {
    /// Role of each instruction that is no pure scalar.
    pub roles: SecondaryMap<Inst, RoleKind>,
    /// Whether there is a producer.
    pub producer: bool,
    /// Rings.
    pub rings: PrimaryMap<Ring, RingData>,
    /// Tensor loads of which each block of the cluster fetches a part for all.
    pub multicast: SecondaryMap<Inst, bool>,
    /// Stages of staging buffers.
    pub slots: SecondaryMap<Buffer, u32>,
    /// Tensor groups left in flight at the end of a loop's iteration.
    pub in_flight: SecondaryMap<Inst, u32>,
    /// Loops whose warpgroups take turns at the tensor cores.
    pub mma_order: Vec<MmaOrder>,
    /// Deferred results.
    pub deferral: Option<Deferral>,
    /// The loop whose first stages the producer fills with early loads before it waits for other grids.
    pub before_wait: Option<Inst>,
    /// Loops that overlap with themselves.
    pub loops: Vec<LoopSchedule>,
    /// What was declined and why, for `explain`.
    pub remarks: Vec<String>,
}

/// Where things lie in shared memory, bytes from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMap {
    /// First stage of each buffer.
    pub buffers: SecondaryMap<Buffer, u32>,
    /// First full barrier of each ring; empty barriers follow, 8 bytes each.
    pub barriers: SecondaryMap<Ring, u32>,
    /// Bytes used.
    pub bytes: u32,
    /// Bytes of each team: the next team's buffers and barriers lie so far behind.
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
    /// Of these the first that work, one thread of each that copies and all of a helper, while the others end at once; 0: all
    /// compute.
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

/// A place that a value lives in.
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
    /// For each instruction, one entry for each operand in order, then for each result, then for the
    /// guard if there is one. Values passed to blocks have none: they stand in [`Self::before`]. A `const`
    /// whose result is a literal takes no register; any other is written into its register.
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
    /// A fragment: first 32-bit register, its registers are consecutive.
    Fragment(u16, u16),
    /// A fragment whose registers are not consecutive (a free view).
    Scattered(Box<[u16]>),
    /// No register: events, undefined values.
    None,
}
