//! The walk of a block: each warpgroup of each role by one of its warps, the one furthest behind goes on.

use super::barriers::Barriers;
use super::scalars::evaluate;
use super::traffic::Requests;
use super::units::{Units, interval};
use super::{PredictError, STEPS};
use crate::problem::Sizes;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Block, Func, Guard, Inst, InstData, Role, Scheduled, Value};
use warplift_ir::manifest::Param;
use warplift_ir::target::{Effect, Opcode, Rates, Row, Target, Unit};

/// Threads of a warp.
const LANES: f64 = 32.0;
/// Warps of a warpgroup.
const GROUP: u32 = 4;
/// Visits of a branch whose condition depends on data after which it is taken to end.
const UNKNOWN_TRIPS: u32 = 16;

/// Lanes in the fullest of 32 banks, if 32 lanes choose theirs at random: the expected value.
const RANDOM_LANES_OF_A_BANK: f64 = 3.533;
/// Bits of an address below those that tell pointers apart.
const POINTER_BITS: u32 = 40;

/// A block being walked.
pub struct Walk<'s, 'a> {
    scheduled: &'s Scheduled<'a>,
    target: &'s Target,
    sizes: &'s Sizes,
    grid: [i64; 3],
    /// Which block of the grid.
    place: [i64; 3],
    barriers: Barriers,
    requests: Requests,
    steps: u64,
}

/// What a walk saw.
pub struct Walked {
    /// Names of the roles, and when each ends.
    pub roles: Vec<(String, f64)>,
    /// What the block asks of global memory.
    pub requests: Requests,
}

/// One role's warp.
struct Warp<'s, 'a> {
    name: &'s str,
    func: &'s Func<'a>,
    warps: u32,
    thread: i64,
    block: Block,
    at: usize,
    now: f64,
    ended: bool,
    values: SecondaryMap<Value, Option<i64>>,
    ready: SecondaryMap<Value, f64>,
    /// Values that come from global memory, or are made of such.
    loaded: SecondaryMap<Value, bool>,
    /// When the last instruction begins that waits for global memory: those behind it in straight code that touch no
    /// memory and meet nobody do not wait with it, ptxas moves them before it.
    waiting: f64,
    /// Visits of branches that depend on data.
    visits: SecondaryMap<Inst, u32>,
    /// When groups end: of products, of bulk stores.
    products: Vec<f64>,
    open: f64,
    stores: Vec<f64>,
    storing: f64,
}

impl<'s, 'a> Warp<'s, 'a> {
    fn new(name: &'s str, func: &'s Func<'a>, first_warp: u32, warps: u32) -> Self {
        Self {
            name,
            func,
            warps,
            thread: 32 * i64::from(first_warp),
            block: func.entry,
            at: 0,
            now: 0.0,
            ended: false,
            values: SecondaryMap::new(),
            ready: SecondaryMap::new(),
            loaded: SecondaryMap::new(),
            waiting: 0.0,
            visits: SecondaryMap::new(),
            products: Vec::new(),
            open: 0.0,
            stores: Vec::new(),
            storing: 0.0,
        }
    }

    /// The warpgroups of a role, of which the last may have fewer warps; and all warps that copy, each for itself.
    fn of(role: &'s Role<'a>) -> impl Iterator<Item = Self> {
        let starts = (0..role.warps).step_by(GROUP as usize);
        let groups = starts.map(|at| (at, GROUP.min(role.warps - at)));
        let all = groups.chain((1..role.copiers).map(|at| (at, 1)));
        all.map(|(at, warps)| Self::new(role.name, &role.func, role.first_warp + at, warps))
    }

    /// Waits for whatever was passed by: behind it, or at the end of straight code.
    fn catch_up(&mut self) {
        self.now = self.now.max(self.waiting);
    }

    /// Whether an instruction waits for global memory.
    fn waits_for_memory(&self, data: &InstData<'_>) -> bool {
        data.args.iter().any(|&v| self.loaded[v] && self.ready[v] > self.now)
    }

    /// When all operands are there.
    fn operands(&self, data: &InstData<'_>) -> f64 {
        data.args.iter().map(|&v| self.ready[v]).fold(self.now, f64::max)
    }

    fn arg(&self, data: &InstData<'_>, k: usize) -> i64 {
        data.args.get(k).and_then(|&v| self.values[v]).unwrap_or(0)
    }

    fn skips(&self, guard: Option<Guard>) -> bool {
        guard.is_some_and(|g| self.values[g.pred].is_some_and(|v| (v != 0) == g.negated))
    }

    /// Goes to a block with its parameters.
    fn jump(&mut self, inst: Inst, target: usize) {
        let func = self.func;
        let call = func.insts[inst].targets[target];
        let passed: Vec<(Option<i64>, f64, bool)> =
            call.args.iter().map(|&v| (self.values[v], self.ready[v], self.loaded[v])).collect();
        for (&param, (value, ready, loaded)) in func.blocks[call.block].params.iter().zip(passed) {
            self.values[param] = value;
            self.ready[param] = ready;
            self.loaded[param] = loaded;
        }
        (self.block, self.at) = (call.block, 0);
    }

    fn results(&mut self, data: &InstData<'_>, value: Option<i64>, ready: f64) {
        for &r in data.results {
            self.values[r] = value;
            self.ready[r] = ready;
        }
    }
}

impl<'s, 'a> Walk<'s, 'a> {
    pub fn new(
        scheduled: &'s Scheduled<'a>,
        target: &'s Target,
        sizes: &'s Sizes,
        grid: [i64; 3],
        place: [i64; 3],
    ) -> Self {
        let (barriers, requests) = Default::default();
        Self { scheduled, target, sizes, grid, place, barriers, requests, steps: 0 }
    }

    /// All roles to their end.
    pub fn run(mut self, units: &mut Units) -> Result<Walked, PredictError> {
        let scheduled = self.scheduled;
        let mut setup = Warp::new("setup", &scheduled.setup, 0, scheduled.threads / 32);
        while !setup.ended {
            self.step(&mut setup, units)?;
        }
        let mut warps: Vec<Warp<'_, 'a>> = scheduled.roles.iter().flat_map(Warp::of).collect();
        warps.iter_mut().for_each(|w| w.now = setup.now);
        while warps.iter().any(|w| !w.ended) {
            let mut order: Vec<usize> = (0..warps.len()).filter(|&i| !warps[i].ended).collect();
            order.sort_by(|&a, &b| warps[a].now.total_cmp(&warps[b].now));
            let mut moved = false;
            for i in order {
                if self.step(&mut warps[i], units)? {
                    moved = true;
                    break;
                }
            }
            if !moved {
                let names: Vec<&str> = warps.iter().filter(|w| !w.ended).map(|w| w.name).collect();
                return Err(PredictError::Stuck(names.join(", ")));
            }
        }
        let end = |role: &Role<'_>| {
            let own = warps.iter().filter(|w| w.name == role.name);
            (role.name.to_owned(), own.map(|w| w.now).fold(0.0, f64::max))
        };
        Ok(Walked { roles: scheduled.roles.iter().map(end).collect(), requests: self.requests })
    }

    /// One instruction; `false` if it waits for what has not come.
    fn step(&mut self, warp: &mut Warp<'s, 'a>, units: &mut Units) -> Result<bool, PredictError> {
        self.steps += 1;
        if self.steps > STEPS {
            return Err(PredictError::Long);
        }
        let func = warp.func;
        let inst = func.blocks[warp.block].insts[warp.at];
        let data = &func.insts[inst];
        if warp.skips(data.guard) {
            warp.results(data, Some(0), warp.now);
            warp.at += 1;
            return Ok(true);
        }
        if data.op == Opcode::MbarWait && !self.wait(warp, data) {
            return Ok(false);
        }
        warp.at += 1;
        if !passes(data) {
            warp.catch_up();
        }
        match data.op {
            Opcode::Ret | Opcode::Trap => warp.ended = true,
            Opcode::Br => warp.jump(inst, 0),
            Opcode::BrIf => branch(warp, inst, data),
            _ => self.execute(warp, data, units),
        }
        Ok(true)
    }

    fn wait(&self, warp: &mut Warp<'s, 'a>, data: &InstData<'a>) -> bool {
        let at = warp.arg(data, 0) + offset(&data.attr);
        let Some(over) = self.barriers.over(at, warp.arg(data, 1)) else { return false };
        // What is over when the warp comes costs a try; what it waited for, the way back.
        let way = f64::from(self.target.row(data.op).latency) / 2.0;
        warp.now = (warp.now + interval(self.target.row(data.op))).max(over + way);
        true
    }

    fn execute(&mut self, warp: &mut Warp<'s, 'a>, data: &InstData<'a>, units: &mut Units) {
        let start = warp.operands(data);
        match data.op {
            Opcode::MbarWait => {}
            Opcode::MbarInit => self.barriers.init(warp.arg(data, 0), immediate(data)),
            Opcode::MbarExpectTx => {
                self.barriers.update(warp.arg(data, 0), 1, immediate(data), start);
                warp.now = start + 1.0;
            }
            Opcode::MbarArrive | Opcode::MbarArriveRemote => {
                let lanes = if data.guard.is_some() { 1 } else { LANES as i64 };
                let at = warp.arg(data, 0) + offset(&data.attr);
                self.barriers.update(
                    at,
                    lanes * i64::from(warp.warps),
                    0,
                    start + interval(self.target.row(data.op)),
                );
                warp.now = start + 1.0;
            }
            Opcode::Wgmma => multiply(warp, data, &self.target.rates, units, start),
            Opcode::WgmmaCommit => warp.products.push(warp.open),
            Opcode::WgmmaWait => hold(&mut warp.now, &warp.products, immediate(data)),
            Opcode::TmaLoad | Opcode::BulkLoad | Opcode::TmaStore => self.copy(warp, data, units, start),
            Opcode::BulkCommit => warp.stores.push(warp.storing),
            Opcode::BulkWait | Opcode::BulkWaitRead => hold(&mut warp.now, &warp.stores, immediate(data)),
            _ => self.plain(warp, data, units, start),
        }
    }

    fn copy(&mut self, warp: &mut Warp<'s, 'a>, data: &InstData<'a>, units: &mut Units, start: f64) {
        let Attr::Tma(tma) = data.attr else { return };
        let bytes = f64::from(tma.bytes) * units.blocks();
        let coordinates = data.args.iter().skip(1 + usize::from(data.op != Opcode::TmaStore));
        if let Some(place) =
            coordinates.map(|&v| warp.values[v]).try_fold(0, |at: i64, c| Some((at << 20) ^ c?))
        {
            self.requests.add(pointer(tma.map) ^ place, tma.bytes.into());
        }
        warp.now = start + 2.0;
        if data.op == Opcode::TmaStore {
            let cycles = bytes / self.target.rates.store_bytes_per_cycle;
            // Each warp of the role copies its own part.
            let cycles = cycles * if warp.warps > 1 { f64::from(warp.warps) } else { 1.0 };
            warp.storing =
                units.take(Unit::Tma, start, cycles) + cycles + self.target.rates.copy_latency / 2.0;
            return;
        }
        let cycles = bytes / self.target.rates.copy_bytes_per_cycle;
        let end = units.take(Unit::Tma, start, cycles) + cycles + self.target.rates.copy_latency;
        let received = u32::max(tma.multicast.count_ones(), 1) * tma.bytes;
        self.barriers.update(warp.arg(data, 1), 0, -i64::from(received), end);
    }

    /// Everything that is issued, repeated over a fragment, and ready after its latency.
    fn plain(&mut self, warp: &mut Warp<'s, 'a>, data: &InstData<'a>, units: &mut Units, start: f64) {
        let row = self.target.row(data.op);
        if row.unit == Unit::None || is_view(warp.func, data) {
            let value = evaluate(data, &self.values(warp, data));
            warp.results(data, value, start);
            return;
        }
        let regs = data.results.first().map_or(1, |&r| warp.func.ty(r).regs().max(1));
        let times = match &data.attr {
            Attr::Mma(mma) => f64::from(mma.m_atoms) * f64::from(mma.n_atoms),
            _ if data.maps.is_empty() => 1.0,
            _ => f64::from(regs),
        };
        let share = units.share(warp.warps);
        let mut latency = f64::from(row.latency);
        let (unit, cycles) = match access(data) {
            Some((Unit::Tma, bytes)) => {
                // Global memory: what all warps move, over the multiprocessor's part of the L2.
                let all = bytes * f64::from(warp.warps);
                // What the block asks for the first time comes from device memory.
                if address(warp, data).is_some_and(|place| self.requests.add(place, all)) {
                    latency = latency.max(self.target.rates.memory_latency);
                }
                (Unit::Tma, all * units.blocks() / self.target.rates.cache_bytes_per_cycle)
            }
            Some((unit, bytes)) => {
                // An address that depends on data is another one in every lane.
                let conflicts = if address(warp, data).is_none() { RANDOM_LANES_OF_A_BANK } else { 1.0 };
                (unit, share * 4.0 * (bytes / 128.0).max(1.0) * conflicts)
            }
            None => (row.unit, share * times * interval(row)),
        };
        let issued = times * issues(row, data);
        // What waits for memory lets others pass.
        let late = passes(data) && warp.waits_for_memory(data);
        let issue = if late { warp.now } else { start };
        let slot = units.take(Unit::None, issue, issued * share);
        let begins = units.take(unit, slot, cycles);
        // Warps of other blocks on this scheduler go on while this one waits.
        let own = (cycles / share).max(issued);
        warp.now = begins + if unit == row.unit { own } else { issued };
        let value = evaluate(data, &self.values(warp, data)).or_else(|| self.given(warp, data));
        let ready = begins.max(start) + own + latency;
        if late {
            warp.waiting = warp.waiting.max(start);
        }
        for &r in data.results {
            warp.loaded[r] = late || reads_memory(data.op);
        }
        warp.results(data, value, if data.results.is_empty() { 0.0 } else { ready });
    }

    fn values(&self, warp: &Warp<'s, 'a>, data: &InstData<'a>) -> Vec<Option<i64>> {
        data.args.iter().map(|&v| warp.values[v]).collect()
    }

    /// Values that come from outside: parameters and places.
    fn given(&self, warp: &Warp<'s, 'a>, data: &InstData<'a>) -> Option<i64> {
        match (data.op, &data.attr) {
            (Opcode::Tid, _) => Some(warp.thread),
            (Opcode::CtaidX, _) => Some(self.place[0]),
            (Opcode::CtaidY, _) => Some(self.place[1]),
            (Opcode::CtaidZ, _) => Some(self.place[2]),
            (Opcode::ClusterId, _) => Some(self.place[0] / i64::from(self.scheduled.launch.cluster.max(1))),
            (Opcode::Laneid, _) => Some(0),
            (Opcode::NctaidX, _) => Some(self.grid[0]),
            (Opcode::NctaidY, _) => Some(self.grid[1]),
            (Opcode::NctaidZ, _) => Some(self.grid[2]),
            (Opcode::ClusterCount, _) => Some(self.grid[0] / i64::from(self.scheduled.launch.cluster.max(1))),
            (Opcode::Elect, _) => Some(1),
            (op @ (Opcode::LdParam32 | Opcode::LdParam64), Attr::Param(n)) => {
                let size = match self.scheduled.launch.params.get(*n as usize) {
                    Some(Param::Argument { name }) => self.sizes.int(name),
                    _ => None,
                };
                size.or_else(|| (op == Opcode::LdParam64).then(|| pointer(*n)))
            }
            _ => None,
        }
    }
}

/// Where the memory of a parameter is taken to be.
fn pointer(parameter: u32) -> i64 {
    i64::from(parameter + 1) << POINTER_BITS
}

/// The address of an access, if it does not depend on data.
fn address(warp: &Warp<'_, '_>, data: &InstData<'_>) -> Option<i64> {
    let operand = usize::from(data.op == Opcode::CpAsync);
    Some(warp.values[*data.args.get(operand)?]? + offset(&data.attr))
}

/// Whether an instruction may change places with others that wait for memory.
fn passes(data: &InstData<'_>) -> bool {
    matches!(data.op.effect(), Effect::Pure | Effect::Read)
}

fn reads_memory(op: Opcode) -> bool {
    matches!(op, Opcode::LdGlobal | Opcode::LdGlobal8 | Opcode::LdGlobal16)
}

/// Instructions of a row: the pieces of its text, and zeros in what a guarded one may leave.
fn issues(row: &Row, data: &InstData<'_>) -> f64 {
    let pieces = row.syntax.split(';').filter(|p| !p.contains(".reg ") && p.contains('$'));
    let zeros = usize::from(data.guard.is_some()) * data.results.len();
    (pieces.count().max(1) + zeros) as f64
}

/// Whether an instruction gives registers of a fragment in another order: allocation makes that names.
fn is_view(func: &Func<'_>, data: &InstData<'_>) -> bool {
    data.op == Opcode::Mov && data.args.iter().any(|&v| func.ty(v).is_frag())
}

/// The first target where the condition holds. Where it depends on data, a loop goes on for a while.
fn branch(warp: &mut Warp<'_, '_>, inst: Inst, data: &InstData<'_>) {
    let taken = match warp.values[data.args[0]] {
        Some(v) => v != 0,
        None => {
            warp.visits[inst] += 1;
            !warp.visits[inst].is_multiple_of(UNKNOWN_TRIPS)
        }
    };
    warp.now += 2.0;
    warp.jump(inst, usize::from(!taken));
}

fn multiply(warp: &mut Warp<'_, '_>, data: &InstData<'_>, rates: &Rates, units: &mut Units, start: f64) {
    let Attr::Wgmma(attr) = &data.attr else { return };
    // Fragments hold the warp until the group before is done.
    let start =
        if attr.a.is_none() { warp.products.last().map_or(start, |&end| end.max(start)) } else { start };
    let groups = f64::from(warp.warps.div_ceil(4)) * units.blocks();
    let cycles = attr.cycles(rates) * groups;
    let begins = units.take(Unit::Tensor, start, cycles);
    warp.open = begins + cycles + rates.product_latency;
    warp.now = start + 4.0 * f64::from(attr.k_steps);
    let ready = warp.now;
    warp.results(data, None, ready);
}

/// Goes on when at most `left` groups are in flight.
fn hold(now: &mut f64, groups: &[f64], left: i64) {
    let done = groups.len().saturating_sub(usize::try_from(left).unwrap_or(0));
    *now = groups[..done].iter().fold(*now + 1.0, |t, &end| t.max(end));
}

fn immediate(data: &InstData<'_>) -> i64 {
    match data.attr {
        Attr::Imm(v) => v,
        _ => 0,
    }
}

fn offset(attr: &Attr) -> i64 {
    match attr {
        Attr::Mem { offset, .. } => i64::from(*offset),
        _ => 0,
    }
}

/// Bytes that a warp's access moves, and whose way they take: shared memory's, or the L2's.
fn access(data: &InstData<'_>) -> Option<(Unit, f64)> {
    use Opcode::*;
    let count = match data.attr {
        Attr::Mem { count, .. } | Attr::Matrix { count, .. } => f64::from(count),
        _ => 1.0,
    };
    match data.op {
        LdGlobal | StGlobal | RedGlobalAddF32 | AtomAddU32 => Some((Unit::Tma, 4.0 * LANES * count)),
        LdGlobal8 | StGlobal8 => Some((Unit::Tma, LANES)),
        LdGlobal16 | StGlobal16 => Some((Unit::Tma, 2.0 * LANES)),
        CpAsync => Some((Unit::Tma, 16.0 * LANES)),
        LdShared8 | LdShared16 | StShared8 | StShared16 | StRemote8 | StRemote16 => {
            Some((Unit::Lsu, 2.0 * LANES))
        }
        LdShared | StShared | StRemote | Ldmatrix | Stmatrix => Some((Unit::Lsu, 4.0 * LANES * count)),
        _ => None,
    }
}
