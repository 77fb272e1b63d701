//! The cost model of plans: cycles of a multiprocessor for one block, counted instruction by instruction.
//!
//! ```text
//!  access      instructions x lines looked up │ sectors moved       layout of the tile, facts
//!  conversion  moves │ shuffles and selects │ wavefronts and a meeting
//!  product     the tensor cores' rate for a row │ shared memory's for its operands, times conflicts
//!  reduction   work in registers │ shuffles a lane digit │ scratch and a meeting across warps
//!  work        registers x interval of the row
//!                                             all of it times the trips of the loops around
//! ```
//!
//! Intervals and rates come from the opcode table. The model knows neither latency nor overlap. It compares plans of
//! one kernel; it does not predict its time (`driver::predict` walks the scheduled program for that). Hexcute,
//! section 5.1, "Expanding Search Tree".

use super::blocked::blocked;
use super::constraint::adapts;
use super::convert::{cell_bits, choose};
use super::cost_summary::Cost;
use super::touched::touched;
use super::trips::{deferred_insts, depths, weigh};
use super::types::{Fill, Plan, Remade, SharedTile, Staged, StorePlan, WarpProduct};
use crate::feature::Ways;
use crate::operand::WARP_ATOM;
use crate::rows::{redux, row_of};
use crate::tiles::{extents, layout_error, reads_tile, runs, warps};
use crate::vector::vector_elements;
use crate::{IselError, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::layout::convert::Conversion;
use warplift_ir::layout::{Axis, Builder, Layout, access};
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::{Depth, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Bytes of shared memory for barriers and for exchanges between threads.
const RESERVED: f64 = 4096.0;
/// Cycles of a plan that does not fit in shared memory: more than any that fits.
const OVERFULL: f64 = 1e12;
/// The share of a deferred epilogue's cycles that remains visible: it overlaps with MMAs.
const HIDDEN: f64 = 0.25;
/// More stages of a ring than this hide no further latency.
const STAGES: f64 = 4.0;
/// Stages that a ring has where a plan is weighed, if the mapping gives it what fits.
const FIT_STAGES: f64 = 2.0;
/// Stages with which a ring hides the latency of its copies: one is read, one is full, and one is being filled. `sched` gives
/// a main loop as many before anything else.
const HIDING_STAGES: f64 = 3.0;
/// Registers of a thread for addresses and counters.
const ADDRESSES: u32 = 16;
/// Lanes of a warp.
const LANES: f64 = 32.0;

/// The model of a kernel's plans.
pub(super) struct Model<'k> {
    /// The chip.
    pub target: &'k Target,
    k: &'k Kernel,
    order: &'k [Inst],
    trips: SecondaryMap<Inst, f64>,
    deferred_insts: FxHashSet<Inst>,
    /// Depth of the rings that feed a loop, for what it loads.
    looped: FxHashMap<Inst, Depth>,
    ways: Ways,
    conversions: RefCell<FxHashMap<(Layout, Layout, u64), Option<Passed>>>,
}

/// A conversion of one warp.
#[derive(Clone, Copy, Debug)]
struct Passed {
    cycles: f64,
    /// Bytes of shared memory for the whole block.
    scratch: f64,
}

/// The sum over all conversions.
#[derive(Clone, Copy, Debug, Default)]
struct Conversions {
    cycles: f64,
    scratch: f64,
    /// Whether a deferred result goes through shared memory.
    deferred_insts: bool,
}

impl<'k> Model<'k> {
    /// The cost model of a kernel; `ways` says what conversions may use.
    pub fn new(k: &'k Kernel, order: &'k [Inst], ways: Ways, target: &'k Target) -> Self {
        let mut trips = SecondaryMap::with_default(1.0);
        weigh(k, k.entry, 1.0, &mut trips);
        Self {
            target,
            k,
            order,
            trips,
            deferred_insts: deferred_insts(k),
            looped: depths(k),
            ways,
            conversions: RefCell::default(),
        }
    }

    /// Cycles between two of an instruction on a scheduler; none of what the target lacks, which lowering refuses.
    fn interval(&self, op: Opcode) -> f64 {
        self.target.require(op).map_or(0.0, |row| row.interval.into())
    }

    fn schedulers(&self) -> f64 {
        self.target.schedulers.into()
    }

    /// Bytes of device memory in a cycle for each multiprocessor.
    fn memory_share(&self) -> f64 {
        self.target.rates.memory_bytes_per_cycle / f64::from(self.target.multiprocessors)
    }

    /// Trip count of an instruction, over all loops around it. It is scaled down if the instruction overlaps with the
    /// next tile's MMAs.
    pub fn trips(&self, inst: Inst) -> f64 {
        self.trips[inst] * if self.deferred_insts.contains(&inst) { HIDDEN } else { 1.0 }
    }

    /// The cycles of a plan.
    ///
    /// # Errors
    /// A conversion is impossible.
    pub fn cost(&self, plan: &Plan) -> Result<Cost> {
        let [mut early, mut deferred_insts] = [Cost::default(); 2];
        for &inst in self.order {
            self.instruction(
                plan,
                inst,
                if self.deferred_insts.contains(&inst) { &mut deferred_insts } else { &mut early },
            )?;
        }
        let conversions = self.conversions(plan)?;
        // A result that goes through shared memory is not deferred.
        let exposed = if conversions.deferred_insts { 1.0 / HIDDEN } else { 1.0 };
        Ok(Cost {
            memory: early.memory
                + exposed * deferred_insts.memory
                + self.stages_lost(plan, conversions.scratch),
            conversions: conversions.cycles,
            products: early.products + deferred_insts.products,
            reductions: early.reductions + exposed * deferred_insts.reductions,
            work: early.work + exposed * deferred_insts.work,
            least: early.least + deferred_insts.least,
        })
    }

    /// Whether shared memory has room for the bytes of another load, with the stages that the mapping asks for, or one. Staging
    /// buffers and exchanges are not known yet and do not count.
    pub fn has_room(&self, plan: &Plan, load: Inst, bytes: u32) -> bool {
        let stages = match self.looped.get(&load) {
            Some(Depth::Stages(n)) => f64::from(*n),
            _ => 1.0,
        };
        let own = stages * f64::from(bytes);
        self.taken(plan) + own + RESERVED <= f64::from(self.target.shared_bytes)
            && !self.takes_stage(plan, load, own)
    }

    /// Whether bytes for a load outside of loops take a stage from rings that then have too few to hide their copies. Such
    /// rings have as many stages as fit.
    fn takes_stage(&self, plan: &Plan, load: Inst, own: f64) -> bool {
        let fit = |i: &Inst| matches!(self.looped.get(i), Some(Depth::Fit));
        let shared = plan.shared.iter().filter(|(_, tile)| tile.fill.by_copies());
        let rings = shared.filter(|(i, _)| fit(i));
        let stage: f64 = rings.map(|(&i, tile)| self.place_bytes(i, tile)).sum();
        let others = self.taken(plan) - FIT_STAGES * stage;
        let free = f64::from(self.target.shared_bytes) - RESERVED - others;
        let stages = |free: f64| (free / stage).floor();
        stage > 0.0 && !fit(&load) && stages(free - own) < stages(free).min(HIDING_STAGES)
    }

    /// Stages of a load's ring: as the mapping says, else two.
    fn stages(&self, load: Inst) -> f64 {
        match self.looped.get(&load) {
            Some(Depth::Stages(n)) => f64::from(*n),
            Some(Depth::Fit) => FIT_STAGES,
            None => 1.0,
        }
    }

    /// Bytes of shared memory of a plan without conversions; rings have the stages that the mapping says, else two.
    fn taken(&self, plan: &Plan) -> f64 {
        let stages = |i: Inst, tile: &SharedTile| if tile.fill.by_copies() { self.stages(i) } else { 1.0 };
        let tiles = plan.shared.iter().map(|(&i, tile)| stages(i, tile) * self.place_bytes(i, tile));
        let staged = plan.staged.iter().map(|(&i, s)| self.stages(i) * f64::from(s.bytes));
        let mut staging: Vec<u32> =
            plan.stores.iter().filter_map(|(&i, s)| s.staging(warps(self.k, i))).collect();
        staging.sort_unstable();
        staging.dedup();
        tiles.chain(staged).sum::<f64>() + staging.into_iter().map(f64::from).sum::<f64>()
    }

    /// Cycles lost when conversions take stages away from rings: the latency of a copy in every trip. A plan that
    /// does not fit gets more cycles than any that fits.
    fn stages_lost(&self, plan: &Plan, scratch: f64) -> f64 {
        let room = f64::from(self.target.shared_bytes);
        if scratch > 0.0 && self.taken(plan) + scratch > room {
            return OVERFULL;
        }
        let looped = |i: &Inst| self.trips[*i] > 1.0;
        let rings = plan.shared.keys().filter(|i| looped(i) && plan.shared[*i].fill.by_copies());
        let (mut bytes, mut trips) = (0.0, 0.0f64);
        for &load in rings {
            bytes += self.place_bytes(load, &plan.shared[&load]);
            trips = trips.max(self.trips[load]);
        }
        if bytes == 0.0 || scratch == 0.0 {
            return 0.0;
        }
        let stages = |free: f64| (free / bytes).floor().clamp(0.0, STAGES);
        (stages(room) - stages(room - scratch)) * trips * self.target.rates.copy_latency
    }

    /// Adds the cycles of one instruction without its conversions.
    fn instruction(&self, plan: &Plan, inst: Inst, cost: &mut Cost) -> Result<()> {
        let (k, trips) = (self.k, self.trips(inst));
        match &k.insts[inst].op {
            Op::Load | Op::LoadGather { .. } | Op::LoadRuns(_) if reads_tile(k, inst) => {
                let (own, least) = self.load(plan, inst)?;
                cost.memory += trips * own;
                cost.least += trips * least;
            }
            Op::Arrive => {}
            op if op.is_write() => {
                let (own, least) = self.store(plan, inst);
                cost.memory += trips * own;
                cost.least += trips * least;
            }
            Op::Mma { .. } => {
                let own = trips * self.product(plan, inst);
                cost.products += own;
                cost.least += own;
            }
            Op::Reduce(..) | Op::Scan(..) => {
                let (own, least) = self.reduction(plan, inst);
                cost.reductions += trips * own;
                cost.least += trips * least;
            }
            _ => {
                let (own, least) = self.work(plan, inst);
                cost.work += trips * own;
                cost.least += trips * least;
            }
        }
        Ok(())
    }

    /// Cycles of a load, and the least over all layouts.
    fn load(&self, plan: &Plan, inst: Inst) -> Result<(f64, f64)> {
        let v = self.k.result(inst);
        let Type::Tile(..) = self.k.ty(v) else { return Ok((0.0, 0.0)) };
        let mut sum = (0.0, 0.0);
        if let Some(tile) = plan.shared.get(&inst) {
            let own = self.fill(inst, tile)?;
            sum = (own, own);
        }
        if let Some(staged) = plan.staged.get(&inst) {
            let own = self.staged(staged);
            return Ok((sum.0 + own, sum.1 + own));
        }
        if let Some(layout) = plan.made.get(&v).or(plan.layouts[v].as_ref()) {
            let [own, least] = self.reads(plan, inst, layout);
            sum = (sum.0 + own, sum.1 + least);
        }
        Ok(sum)
    }

    /// Cycles in which threads read a loaded tile in a layout, and the least over all layouts: in shared memory, if
    /// copies bring it there for products.
    pub fn reads(&self, plan: &Plan, inst: Inst, layout: &Layout) -> [f64; 2] {
        let v = self.k.result(inst);
        let tile = plan.shared.get(&inst).filter(|t| t.fill.by_copies());
        let Some(tile) = tile else { return [self.access(inst, v, layout), self.least_access(inst, v)] };
        let bits = u64::from(self.k.ty(v).elem().bits()).max(1);
        let least = self.bytes(v) / self.line();
        let most = (128 / bits).max(1);
        let waves = tile.from_register_layout(layout).and_then(|to| {
            let vector = access::vector_width(&to, most, most)?.elements;
            let each = access::wavefronts(&to, bits, vector)?;
            Ok(to.in_extent(Axis::Reg) / vector * each)
        });
        [waves.map_or(least, |w| w as f64 * f64::from(warps(self.k, inst))), least]
    }

    /// Cycles of a store, and the least over all layouts.
    fn store(&self, plan: &Plan, inst: Inst) -> (f64, f64) {
        let args = self.k.args(inst);
        let n = self.k.insts[inst].op.written_operand(args.len()).unwrap_or(args.len() - 1);
        let layout = plan.uses.get(&(inst, n)).or(plan.layouts[args[n]].as_ref());
        match (plan.stores.get(&inst), layout) {
            (Some(StorePlan::Bulk(s)), _) => {
                let conflicts = if s.swizzle == 0 { 8.0 } else { 1.0 };
                let bytes = self.bytes(args[n]);
                let own = bytes / self.target.rates.store_bytes_per_cycle + conflicts * bytes / self.line();
                (own, own)
            }
            (_, Some(layout)) => (self.access(inst, args[n], layout), self.least_access(inst, args[n])),
            _ => (0.0, 0.0),
        }
    }

    /// Cycles of plain accesses of a tile in a layout.
    pub fn access(&self, inst: Inst, tile: Value, layout: &Layout) -> f64 {
        let t = touched(self.k, inst, tile, layout, self.target);
        let all = f64::from(warps(self.k, inst)) * t.instructions as f64;
        let looked_up = all * (t.lines.max(1)) as f64;
        let sector_bytes = t.sectors as f64 * f64::from(self.target.sector_bytes);
        match self.k.insts[inst].op {
            // A repeated sector comes from the first-level cache.
            Op::Load | Op::LoadGather { .. } => {
                self.bytes(tile) / self.memory_share() + looked_up + all * sector_bytes / self.line()
            }
            _ => {
                let moved = (t.warps * t.instructions) as f64 * sector_bytes;
                looked_up + moved / self.target.rates.store_bytes_per_cycle
            }
        }
    }

    /// Lower bound on the accesses of a tile: every byte once, in whole lines.
    pub fn least_access(&self, inst: Inst, tile: Value) -> f64 {
        let (bytes, line) = (self.bytes(tile), self.line());
        match self.k.insts[inst].op {
            Op::Load | Op::LoadGather { .. } => bytes / self.memory_share() + 2.0 * bytes / line,
            _ => bytes / self.target.rates.store_bytes_per_cycle + bytes / line,
        }
    }

    /// Bytes of a line.
    fn line(&self) -> f64 {
        self.target.line_bytes.into()
    }

    fn bytes(&self, tile: Value) -> f64 {
        let elements: f64 = extents(self.k, tile).iter().map(|&e| f64::from(e)).product();
        elements * f64::from(self.k.ty(tile).elem().bits()) / 8.0
    }

    /// Bytes of a tile's place in shared memory.
    fn place_bytes(&self, inst: Inst, tile: &SharedTile) -> f64 {
        let bits = self.k.ty(self.k.result(inst)).elem().bits();
        tile.extents.iter().map(|&e| f64::from(e)).product::<f64>() * f64::from(bits) / 8.0
    }

    /// Cycles of bringing a tile to shared memory.
    pub fn fill(&self, inst: Inst, tile: &SharedTile) -> Result<f64> {
        let bytes = self.bytes(self.k.result(inst));
        let copies = f64::from(tile.extents[1] / tile.slab * runs(self.k, inst));
        match tile.fill {
            Fill::Tma => {
                Ok(bytes / self.target.rates.copy_bytes_per_cycle + copies * self.interval(Opcode::TmaLoad))
            }
            Fill::CpAsync(bytes) => self.fill_by_threads(inst, tile, bytes),
            Fill::Computed => Ok(bytes / self.line()),
            Fill::Threads => {
                let elem = self.k.ty(self.k.result(inst)).elem().bits() / 8;
                let facts = vector_elements(self.k, inst, self.k.result(inst));
                self.fill_by_threads(inst, tile, facts.max(2).min(16 / elem.max(1)) * elem)
            }
        }
    }

    /// The same, filled by the threads: their loads, and the wavefronts of their stores.
    fn fill_by_threads(&self, inst: Inst, tile: &SharedTile, bytes: u32) -> Result<f64> {
        let (k, v) = (self.k, self.k.result(inst));
        let error = layout_error(k, inst);
        let bits = u64::from(k.ty(v).elem().bits());
        let vector = (u64::from(bytes) * 8 / bits).max(1);
        let layout =
            blocked(&extents(k, v), tile.inner_dim, vector as u32, warps(k, inst)).map_err(&error)?;
        let to = tile.from_register_layout(&layout).map_err(&error)?;
        let wavefronts = access::wavefronts(&to, bits, vector).map_err(&error)?;
        let stores = f64::from(warps(k, inst)) * (layout.in_extent(Axis::Reg) / vector) as f64;
        Ok(self.access(inst, v, &layout) + stores * wavefronts as f64)
    }

    /// Cycles of a tile that comes through a ring: copies in, wide accesses out.
    fn staged(&self, staged: &Staged) -> f64 {
        let bytes = f64::from(staged.bytes);
        bytes / self.target.rates.copy_bytes_per_cycle + bytes / self.line()
    }

    /// Cycles of an MMA on the tensor cores, for all warps.
    fn product(&self, plan: &Plan, inst: Inst) -> f64 {
        let conflicts = |load: Inst| plan.shared.get(&load).map_or(1.0, conflicts);
        if let Some(p) = plan.warp_products.get(&inst) {
            let warps = f64::from(p.warp_grid.warps());
            let steps = f64::from(p.k_steps);
            let rows = f64::from(p.m_atoms * p.n_atoms) * row_of_warps(self.target);
            let matrices = f64::from(p.m_atoms) * p.a.map_or(0.0, |a| conflicts(a.0))
                + f64::from(p.n_atoms) / 2.0 * conflicts(p.b.0);
            let loads = matrices * self.interval(Opcode::Ldmatrix) / self.schedulers();
            return warps * steps * rows.max(loads) + self.spilled(inst, p);
        }
        let Some(p) = plan.products.get(&inst) else { return 0.0 };
        let groups = f64::from(warps(self.k, inst)) / 4.0;
        let repeats = f64::from(p.n_atoms * p.m_atoms * p.k_steps);
        let meet = p.a.as_ref().map_or(1.0, |a| conflicts(a.0)).max(conflicts(p.b.0));
        groups * repeats * meet * self.target.rates.product(p.n, p.a.is_some())
    }

    /// More cycles than any valid plan if a thread cannot hold its accumulator and the operands of two steps.
    fn spilled(&self, inst: Inst, p: &WarpProduct) -> f64 {
        let sums = p.m_atoms * p.n_atoms * 4;
        let operands = p.m_atoms * 4 + p.n_atoms * 2;
        let threads = 32 * warps(self.k, inst);
        let room = (self.target.registers / threads).min(self.target.thread_registers);
        if sums + 2 * operands + ADDRESSES > room { OVERFULL } else { 0.0 }
    }

    /// Cycles of a row over some registers of a thread, for all warps.
    fn row(&self, inst: Inst, registers: f64, interval: f64) -> f64 {
        registers * interval * f64::from(warps(self.k, inst)) / self.schedulers()
    }

    /// Registers of a thread for a tile, and the number without elements that several threads hold.
    fn registers(&self, plan: &Plan, inst: Inst, v: Value) -> (f64, f64) {
        let packed = cell_bits(self.k.ty(v).elem()) as f64 / 32.0;
        let elements: f64 = extents(self.k, v).iter().map(|&e| f64::from(e)).product();
        let least = elements * packed / LANES / f64::from(warps(self.k, inst));
        let layout = plan.made.get(&v).or(plan.layouts[v].as_ref());
        (layout.map_or(least, |l| l.in_extent(Axis::Reg) as f64 * packed), least)
    }

    /// Elementwise work: registers times the interval of the row.
    fn work(&self, plan: &Plan, inst: Inst) -> (f64, f64) {
        let Some(&v) = self.k.results(inst).first() else { return (0.0, 0.0) };
        let interval = match (row_of(self.k, inst), self.k.ty(v)) {
            (Some(row), Type::Tile(..)) => self.interval(row),
            _ => return (0.0, 0.0),
        };
        let (own, least) = self.registers(plan, inst, v);
        (self.row(inst, own, interval), self.row(inst, least.min(own), interval))
    }

    /// A reduction or scan: over registers, then over the lanes and warps that share a result.
    fn reduction(&self, plan: &Plan, inst: Inst) -> (f64, f64) {
        let v = self.k.args(inst)[0];
        let layout = plan.uses.get(&(inst, 0)).or(plan.layouts[v].as_ref());
        let Some(layout) = layout else { return (0.0, 0.0) };
        let axis = match self.k.insts[inst].op {
            Op::Reduce(_, axis) | Op::Scan(_, axis) => usize::from(axis),
            _ => return (0.0, 0.0),
        };
        let along = |a: Axis| layout.basis(a).iter().filter(|b| b.out[axis] != 0).map(|b| b.extent).product();
        let [kept, lanes, across, groups]: [u64; 4] =
            [Axis::Reg, Axis::Lane, Axis::Warp, Axis::Warpgroup].map(along);
        let interval = row_of(self.k, inst).map_or(2.0, |r| self.interval(r));
        let elements: f64 = extents(self.k, v).iter().map(|&e| f64::from(e)).product();
        let least = elements / LANES / f64::from(warps(self.k, inst));
        let registers = layout.in_extent(Axis::Reg) as f64;
        let results = registers / kept as f64;
        let shuffle = self.interval(Opcode::ShflBfly) + interval;
        let least = self.row(inst, least.min(registers), interval);
        let mut own = self.row(inst, registers, interval);
        if plan.is_partial(inst) {
            return (own, least);
        }
        let whole = lanes == 32 && matches!(self.k.insts[inst].op, Op::Reduce(..));
        own += match row_of(self.k, inst).and_then(redux).filter(|_| whole) {
            Some((redux, _)) => self.row(inst, results, self.interval(redux)),
            None => self.row(inst, results * (lanes as f64).log2(), shuffle),
        };
        if across * groups > 1 {
            own += self.target.estimates.meeting_cycles + results * f64::from(warps(self.k, inst));
        }
        (own, least)
    }

    /// Cycles of all conversions. Uses with the same layout share one.
    fn conversions(&self, plan: &Plan) -> Result<Conversions> {
        let (k, mut seen, mut all) = (self.k, FxHashSet::default(), Conversions::default());
        let mut add = |inst: Inst, c: Passed| {
            all.cycles += self.trips[inst] * c.cycles;
            all.scratch += c.scratch;
            all.deferred_insts |= c.scratch > 0.0 && self.deferred_insts.contains(&inst);
        };
        let mut uses: Vec<_> = plan.uses.iter().collect();
        uses.sort_by_key(|u| *u.0);
        for (&(inst, n), to) in uses {
            let v = k.args(inst)[n];
            let Some(from) = plan.layouts[v].as_ref() else { continue };
            if seen.insert((v, to)) {
                let passed = match plan.rematerialized.get(&(inst, n)) {
                    Some(chain) => Passed { cycles: self.rematerialization(chain), scratch: 0.0 },
                    None => self.conversion(inst, v, from, to)?,
                };
                add(inst, passed);
            }
        }
        let mut made: Vec<_> = plan.made.iter().collect();
        made.sort_by_key(|m| *m.0);
        for (&v, from) in made {
            let (Some(to), Some(inst)) = (plan.layouts[v].as_ref(), k.def(v)) else { continue };
            add(inst, self.conversion(inst, v, from, to)?);
        }
        for &inst in self.order {
            let Some((v, from, to)) = plan.rearranged(k, inst) else { continue };
            add(inst, self.conversion(inst, v, from, to)?);
        }
        Ok(all)
    }

    /// Cycles of a conversion; `None` if it is impossible.
    pub fn converted(&self, inst: Inst, v: Value, from: &Layout, to: &Layout) -> Option<f64> {
        self.conversion(inst, v, from, to).ok().map(|p| p.cycles)
    }

    /// Cycles of rematerializing tiles.
    pub fn rematerialization(&self, chain: &[Remade]) -> f64 {
        let one = |(v, layout): &Remade| {
            let Some(def) = self.k.def(*v) else { return 0.0 };
            let registers = (layout.in_extent(Axis::Reg) * cell_bits(self.k.ty(*v).elem())) as f64 / 32.0;
            let row = match self.k.insts[def].op {
                Op::Iota(_) => Some(Opcode::AddS32),
                _ => row_of(self.k, def),
            };
            row.map_or(0.0, |r| self.row(def, registers, self.interval(r)))
        };
        chain.iter().map(one).sum()
    }

    /// Cycles of one conversion for all warps, or of rematerializing the tile.
    fn conversion(&self, inst: Inst, v: Value, from: &Layout, to: &Layout) -> Result<Passed> {
        let elem = self.k.ty(v).elem();
        let registers = (to.in_extent(Axis::Reg) * cell_bits(elem)) as f64 / 32.0;
        if adapts(self.k, v) {
            let cycles = self.row(inst, registers, self.interval(Opcode::AddS32));
            return Ok(Passed { cycles, scratch: 0.0 });
        }
        let key = (from.clone(), to.clone(), cell_bits(elem));
        let known = self.conversions.borrow().get(&key).copied();
        let passed = match known {
            Some(passed) => passed,
            None => {
                let passed = self.way(inst, from, to, elem).ok();
                self.conversions.borrow_mut().insert(key, passed);
                passed
            }
        };
        let refused = || {
            IselError::at(
                self.k,
                inst,
                format!(
                    "this tile of {elem} is wanted in two layouts, and no conversion compiles: `cast` to 8, 16 or 32 bits before"
                ),
            )
        };
        let one = passed.ok_or_else(refused)?;
        Ok(Passed { cycles: one.cycles * f64::from(warps(self.k, inst)), ..one })
    }

    /// The cheapest conversion between two layouts, for one warp.
    fn way(&self, inst: Inst, from: &Layout, to: &Layout, elem: Elem) -> Result<Passed> {
        let meeting = self.target.estimates.meeting_cycles as u64;
        let way = choose(self.k, inst, from, to, elem, self.ways, meeting)?;
        Ok(self.passed(inst, &way, [from, to], cell_bits(elem)))
    }

    /// Cycles of a warp for a conversion of elements of so many bits.
    fn passed(&self, inst: Inst, way: &Conversion, [from, to]: [&Layout; 2], bits: u64) -> Passed {
        let meeting = self.target.estimates.meeting_cycles;
        let registers = |l: &Layout| (l.in_extent(Axis::Reg) * bits) as f64 / 32.0;
        let interval = |op: Opcode| self.interval(op) / self.schedulers();
        let mut scratch = 0.0;
        let cycles = match way {
            Conversion::Registers { .. } => registers(to) * interval(Opcode::Prmt),
            Conversion::Shuffle(s) => {
                s.rounds.len() as f64 * interval(Opcode::ShflIdx)
                    + (registers(from) + registers(to)) * interval(Opcode::Selp)
            }
            Conversion::Shared(pass) => {
                scratch = (pass.memory.out_extent(Axis::Mem) * bits / 8) as f64;
                let (wavefronts, instructions) = pass.cost();
                (wavefronts + instructions) as f64 + meeting / f64::from(warps(self.k, inst))
            }
            Conversion::Cells(cells, plan) => {
                let moved = self.passed(inst, plan, [&cells.from, &cells.to], cells.bits);
                let spread = if cells.widened { WIDENING * interval(Opcode::Lop3) } else { 0.0 };
                let bytes = (cells.from.in_extent(Axis::Reg) + cells.to.in_extent(Axis::Reg)) as f64;
                return Passed { cycles: moved.cycles + spread * bytes / 4.0, ..moved };
            }
        };
        Passed { cycles, scratch }
    }
}

/// Cycles of one `mma.sync` if every scheduler issues one.
fn row_of_warps(target: &Target) -> f64 {
    f64::from(target.row(Opcode::MmaSync).interval) / f64::from(target.schedulers)
}

/// Instructions that widen four elements below a byte to a register of bytes, or narrow them.
const WIDENING: f64 = 7.0;

/// Lower bound on the cycles of `mma.sync` MMAs; 0 for those of warpgroups.
pub(crate) fn least_products(k: &Kernel, target: &Target) -> f64 {
    let mut trips = SecondaryMap::with_default(1.0);
    weigh(k, k.entry, 1.0, &mut trips);
    let shared =
        k.insts.iter().filter(|(i, d)| matches!(d.op, Op::Mma { .. }) && k.attrs[*i].warp_grid.is_some());
    let rows = |inst: Inst| -> f64 {
        let sum = extents(k, k.args(inst)[0]);
        let depth = extents(k, k.args(inst)[1]).get(1).copied();
        let parts = sum.into_iter().chain(depth).zip(WARP_ATOM);
        parts.map(|(extent, atom)| f64::from(extent) / f64::from(atom)).product()
    };
    shared.map(|(i, _)| trips[i] * rows(i) * row_of_warps(target)).sum()
}

/// Bank conflicts of eight rows of 16 bytes, as an MMA reads them.
fn conflicts(tile: &SharedTile) -> f64 {
    let rows =
        Builder::new(tile.layout.ins()).add(Axis::Lane, 8, &[1, 0]).add(Axis::Lane, 4, &[0, 0]).build();
    let bits = u64::from(tile.row_bytes * 8 / tile.slab.max(1));
    let read = rows.and_then(|r| r.then(&tile.layout));
    let parts = read.and_then(|r| access::wavefronts(&r, bits, 128 / bits.max(1)));
    parts.map_or(1.0, |w| (w as f64 / 4.0).max(1.0))
}
