//! The state of a running cluster: blocks, warps, asynchronous operations.

use super::clock::{Clocks, Foreign};
use super::copy_groups::CopyGroups;
use super::hazard::{Hazard, HazardKind, Report, SimError, Site};
use super::inst::Lanes;
use super::launch::{Hazards, Options, Prepared};
use super::memory::Memory;
use super::parts::Parts;
use super::shadow::{Access, Kind, MANY, Shadow, Who};
use super::space::SHARED_BASE;
use super::state::{ClusterBarrier, Mbarrier, NamedBarrier, Operation, Timeline, WarpTensor};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Stops a run at once.
pub(crate) type Stop = SimError;

/// Lanes that run together, and the place where they meet the lanes of the entry below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub pc: u32,
    pub meet: u32,
    pub mask: u32,
}

/// Why a warp waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reason {
    Mbarrier { block: usize, offset: u32, phase: u64, parity: bool },
    Named(u32),
    Cluster,
    Wgmma,
    Bulk,
    Copy,
    Registers(u32),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    Ready,
    /// Until the machine's progress differs.
    Blocked(u64, Reason),
    Done,
}

/// Groups of asynchronous operations of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub open: Vec<u64>,
    pub committed: VecDeque<Vec<u64>>,
}

pub(crate) struct Warp {
    /// Rank of the block in the cluster.
    pub block: usize,
    /// Number in the block.
    pub index: u32,
    pub registers: Vec<Lanes>,
    pub defined: Vec<u32>,
    /// The place where a register got an unknown value.
    pub made_unknown: HashMap<u32, u32>,
    pub predicates: Vec<u32>,
    pub predicates_defined: Vec<u32>,
    pub carry: u32,
    pub stack: Vec<Frame>,
    /// The last branch at which lanes diverged, for reports.
    pub parted: Option<u32>,
    /// Lanes that have not exited.
    pub live: u32,
    pub clocks: Clocks,
    /// Knowledge of single lanes, from waits that they made alone.
    pub partial: Vec<(u32, Clocks)>,
    /// Clock on the warp's own timeline.
    pub clock: u32,
    /// Parts of asynchronous operations that each lane has waited for, each its own.
    pub own: Parts,
    /// The knowledge that a relaxed arrive releases after `fence.acq_rel` or `fence.mbarrier_init`, by scope.
    pub fenced: [Clocks; 3],
    /// The knowledge that strong reads of global memory found since the last such fence, by scope.
    pub unfenced_reads: [Foreign; 3],
    /// The epoch: it rises where the lanes synchronise, or all arrive on an mbarrier.
    pub sync: u32,
    /// The last epoch up to which the lanes know one another's accesses.
    pub lanes_synced: u32,
    /// Clock of the last access that a warp-wide synchronisation covers.
    pub synced: u32,
    /// Lanes that touched shared memory since, and the epoch of the last of them.
    pub dirty: u32,
    pub dirty_epoch: u32,
    /// Lanes that touched shared memory since their last `fence.proxy.async`.
    pub unfenced: u32,
    /// Lanes whose proxy fence no warp-wide synchronisation has followed, and up to where the fences
    /// before that reach.
    pub fenced_lanes: u32,
    pub fence_synced: u32,
    pub state: State,
    /// Progress and place of the last refused wait.
    pub refused: Option<(super::state::WaitFor, u64)>,
    /// The next wait that could hold the warp must give up instead.
    pub forced: bool,
    /// Progress at which the warp last gave way to others.
    pub yielded: Option<u64>,
    /// Arrived at a named barrier, not yet released.
    pub at_named: Option<NamedWait>,
    pub cluster: ClusterWait,
    /// Whether it has passed the cluster's barrier: then all blocks have begun, whatever else is known of them.
    pub gathered: bool,
    pub tensor: WarpTensor,
    pub bulk: BTreeMap<u8, Groups>,
    pub copies: CopyGroups,
    pub nreg: u32,
    /// Each `setmaxnreg` so far: the instruction and the clock.
    pub register_changes: Vec<(u32, u32)>,
    /// Lanes that have waited for the grids before this one.
    pub waited: u32,
    pub local: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct NamedWait {
    pub id: u32,
    /// Set when the barrier completed, with its reduction.
    pub released: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterWait {
    pub arrived: u32,
    pub waited: u32,
    /// Generation that the arrival belongs to.
    pub generation: u64,
    pub pc: u32,
}

pub(crate) struct Block {
    pub id: [u32; 3],
    pub shared: Vec<u8>,
    pub shadow: Shadow,
    pub mbarriers: HashMap<u32, Mbarrier>,
    /// Least offset of an mbarrier, and the end of the last.
    pub barrier_range: (u32, u32),
    pub named: Vec<NamedBarrier>,
    /// Registers of the pool that no warp holds.
    pub pool: u32,
    pub live_warps: u32,
    /// The knowledge of the block's warps at their ends.
    pub ended: Clocks,
    /// Plain arrivals of other blocks that nobody here has observed yet: barrier, phase, access.
    pub remote: Vec<(u32, u64, Access)>,
    /// Last access of each foreign warp's timeline to this block's memory.
    pub touched: HashMap<u16, Access>,
}

pub(crate) struct Machine<'a> {
    pub launch: &'a Prepared<'a>,
    pub options: Options,
    pub memory: Memory,
    pub cluster: [u32; 3],
    /// Number of the cluster, in the order of their starts.
    pub number: u32,
    pub blocks: Vec<Block>,
    pub warps: Vec<Warp>,
    pub timelines: Vec<Timeline>,
    /// Mbarriers initialised so far.
    pub barriers: usize,
    pub operations: HashMap<u64, Operation>,
    /// Unfinished operations in order of issue.
    pub queue: VecDeque<u64>,
    pub next_operation: u64,
    /// Counts events that a waiting warp may wait for.
    pub progress: u64,
    pub barrier: ClusterBarrier,
    pub random: super::random::Random,
    /// Of the order `Classes`.
    pub rules: super::classes::Rules,
    pub report: Report,
    pub seen_hazards: HashSet<(HazardKind, u32, u32)>,
    /// Warpgroups' wgmma in issue: by first warp and sequence number.
    pub issuing: HashMap<(usize, u32), super::state::Issue>,
    pub steps: u64,
    /// Times that each instruction was executed by some lane.
    pub executed: Vec<u64>,
    /// The parities that each instruction waited for, as bits.
    pub parities: Vec<u8>,
    pub last: usize,
    /// Times in a row that a warp gave way without any progress.
    pub idle: u32,
}

impl<'a> Machine<'a> {
    pub fn new(
        launch: &'a Prepared<'a>,
        options: Options,
        (number, cluster): (u32, [u32; 3]),
        random: super::random::Random,
    ) -> Self {
        let size: u32 = launch.cluster.iter().product();
        let warps = launch.block.div_ceil(32);
        let blocks: Vec<_> = (0..size).map(|r| Block::new(launch, cluster, r)).collect();
        let all = (0..size).flat_map(|b| (0..warps).map(move |w| (b, w)));
        let total = (size * warps) as usize;
        let warps: Vec<_> = all.map(|(b, w)| Warp::new(launch, b as usize, w)).collect();
        let mut machine = Self {
            launch,
            options,
            memory: Memory::new(),
            cluster,
            number,
            blocks,
            warps,
            timelines: (0..total).map(|_| Timeline::default()).collect(),
            barriers: 0,
            operations: HashMap::new(),
            queue: VecDeque::new(),
            next_operation: 0,
            progress: 0,
            barrier: ClusterBarrier::default(),
            random,
            rules: super::classes::Rules::new(options.seed),
            report: Report::default(),
            seen_hazards: HashSet::new(),
            issuing: HashMap::new(),
            steps: 0,
            executed: vec![0; launch.entry.code.len()],
            parities: vec![0; launch.entry.code.len()],
            last: 0,
            idle: 0,
        };
        for (w, warp) in machine.warps.iter_mut().enumerate() {
            warp.clocks.seen.raise(w, 1);
        }
        machine
    }

    /// Where the asynchronous timelines begin.
    pub fn first_async(&self) -> usize {
        self.warps.len()
    }

    pub fn pc(&self, w: usize) -> u32 {
        self.warps[w].stack.last().map_or(0, |f| f.pc)
    }

    pub fn site(&self, pc: u32) -> Site {
        let place = self.launch.entry.places.get(pc as usize);
        place.map_or_else(
            || Site { line: 0, opcode: "end".to_owned(), loc: None },
            |p| Site {
                line: p.pos.line,
                opcode: p.opcode.clone(),
                loc: p.loc.map(|(f, l, c)| {
                    let name = self.launch.module.files.get(&f);
                    (name.cloned().unwrap_or_default(), l, c)
                }),
            },
        )
    }

    /// Reports a hazard: an error under `Deny`, else kept, each pair of instructions once.
    pub fn hazard(&mut self, found: Found) -> Result<(), Stop> {
        let key = (found.kind, found.pc, found.other.unwrap_or(u32::MAX));
        if !self.seen_hazards.insert(key) {
            return Ok(());
        }
        let warp = &self.warps[found.warp];
        let hazard = Hazard {
            kind: found.kind,
            message: found.message,
            site: self.site(found.pc),
            other: found.other.map(|pc| self.site(pc)),
            block: self.blocks[warp.block].id,
            thread: warp.index * 32 + found.lane,
            address: found.address,
        };
        if self.options.hazards == Hazards::Deny {
            return Err(SimError::Hazard(Box::new(hazard)));
        }
        self.report.hazards.push(hazard);
        Ok(())
    }

    pub fn unsupported<T>(&self, w: usize, what: &str) -> Result<T, Stop> {
        Err(SimError::Unsupported { what: what.to_owned(), site: self.site(self.pc(w)) })
    }

    /// The access of a warp's ordinary instruction at this moment.
    pub fn access(&self, w: usize, lane: u8, kind: Kind) -> Access {
        let warp = &self.warps[w];
        Access { timeline: w as u16, lane, kind, clock: warp.clock, pc: self.pc(w), sync: warp.sync }
    }

    /// Who an operation is that lanes of a warp issued.
    pub fn who_issued<'b>(&self, op: &'b Operation, access: Access) -> Who<'b> {
        op.who(access, self.warps_of_block())
    }

    pub fn warps_of_block(&self) -> usize {
        self.warps.len() / self.blocks.len()
    }

    /// After a release: later accesses of the warp are not covered by it.
    pub fn tick(&mut self, w: usize) {
        let warp = &mut self.warps[w];
        warp.clock += 1;
        warp.clocks.seen.raise(w, warp.clock);
    }
}

/// A hazard before it has its places.
pub(crate) struct Found {
    pub kind: HazardKind,
    pub warp: usize,
    pub lane: u32,
    pub pc: u32,
    pub other: Option<u32>,
    pub address: Option<u64>,
    pub message: String,
}

impl Found {
    pub fn new(kind: HazardKind, warp: usize, pc: u32, message: impl Into<String>) -> Self {
        Self { kind, warp, lane: 0, pc, other: None, address: None, message: message.into() }
    }

    pub fn lane(mut self, lane: u32) -> Self {
        self.lane = if lane == u32::from(MANY) { 0 } else { lane };
        self
    }

    pub fn at(mut self, address: u64) -> Self {
        self.address = Some(address);
        self
    }

    pub fn other(mut self, pc: impl Into<Option<u32>>) -> Self {
        self.other = pc.into();
        self
    }
}

impl Block {
    fn new(launch: &Prepared<'_>, cluster: [u32; 3], rank: u32) -> Self {
        let [cx, cy, _] = launch.cluster;
        let place = [rank % cx, rank / cx % cy, rank / (cx * cy)];
        let mut id = [0; 3];
        for (i, v) in id.iter_mut().enumerate() {
            *v = cluster[i] * launch.cluster[i] + place[i];
        }
        Self {
            id,
            shared: vec![0xff; launch.shared_size.max(SHARED_BASE) as usize],
            shadow: Shadow::new(launch.shared_size.max(SHARED_BASE)),
            mbarriers: HashMap::new(),
            barrier_range: (u32::MAX, 0),
            named: (0..16).map(|_| NamedBarrier::default()).collect(),
            pool: 0,
            live_warps: launch.block.div_ceil(32),
            ended: Clocks::default(),
            remote: Vec::new(),
            touched: HashMap::new(),
        }
    }
}

impl Warp {
    fn new(launch: &Prepared<'_>, block: usize, index: u32) -> Self {
        let entry = launch.entry;
        let threads = (launch.block - index * 32).min(32);
        let live = if threads == 32 { u32::MAX } else { (1 << threads) - 1 };
        Self {
            block,
            index,
            registers: vec![[0; 32]; entry.registers as usize],
            defined: vec![0; entry.registers as usize],
            made_unknown: HashMap::new(),
            predicates: vec![0; entry.predicates as usize],
            predicates_defined: vec![0; entry.predicates as usize],
            carry: 0,
            stack: vec![Frame { pc: 0, meet: u32::MAX, mask: live }],
            parted: None,
            live,
            clocks: Clocks::default(),
            partial: Vec::new(),
            clock: 1,
            own: Parts::default(),
            fenced: Default::default(),
            unfenced_reads: Default::default(),
            sync: 1,
            lanes_synced: 0,
            synced: 0,
            dirty: 0,
            dirty_epoch: 0,
            unfenced: 0,
            fenced_lanes: 0,
            fence_synced: 0,
            state: State::Ready,
            refused: None,
            forced: false,
            yielded: None,
            at_named: None,
            cluster: ClusterWait::default(),
            gathered: false,
            tensor: WarpTensor::new(entry.registers as usize),
            bulk: BTreeMap::new(),
            copies: CopyGroups::default(),
            nreg: launch.registers,
            register_changes: Vec::new(),
            waited: 0,
            local: vec![0; entry.local_bytes as usize * 32],
        }
    }
}
