//! Forms of a product at given sizes: every tile that the kernel's tunables and the instructions allow, with all that
//! goes with it, and what each form takes by closed formulas.
//!
//! ```text
//!  values of BM, BN, BK x warpgroups or warps x wait x cluster x persistent, raster, epilogue x split_k, stream_k ─► legal forms
//!  form ─► blocks, trips, cycles of copies and products in a trip ─► floor: the fullest unit, device memory
//!                                                                 └► estimate: with start, waits, epilogue
//! ```
//!
//! The floor is below every prediction, so a form whose floor is not below a known prediction is never compiled. The
//! estimate only orders forms: the best few are compiled and predicted. A tile of few rows, such as 16 x 128, needs no
//! word of its own: `swap_ab` puts its columns on the rows of `wgmma`. Where threads convert an operand, `converting`
//! has the choices and the formulas.

use super::beside::{Beside, Work};
use super::extents::{Asked, Tried};
use super::lines::{rows_begin, rows_end, rows_outside};
use super::propose::{ACCUMULATORS, Anchor, PART, from_a_counter, mapping};
use super::rough::{ROWS, oriented, second, slowdown, slowed};
use super::sharing::{groups_share, warps_share};
use crate::predict::Launch;
use crate::predict::neighbours::{l2_cycles, overlapped};
use crate::problem::{operand_bits, operands, traffic};
use warplift_ir::target::{Rates, Target};
use warplift_ir::tile::{Depth, Epilogue, Kernel, KernelMapping, LoopMapping, Mapping, Products, Raster};
use warplift_isel::map::{can_split_k, can_stream_k};

/// Bytes of a row of operands that one instruction multiplies, and of a row of a swizzled box.
const STEP: i64 = 32;
const BOX: i64 = 128;
/// Blocks that share out a loop, and trips that each has at least.
const SLICES: [u32; 12] = [2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64];
const LEAST_TRIPS: f64 = 2.0;
/// Tiles for each multiprocessor at most where programs share out the rest of a wave: of more, a part of a wave is little.
const STREAMED: f64 = 8.0;
/// The least of them: a tile then has no more parts than are added.
const LEAST_STREAMED: f64 = 0.34;
/// Lanes for which a scheduler issues in a cycle.
pub(super) const LANES: u32 = 32;
/// Warpgroups that compute.
const GROUPS: [u32; 4] = [1, 2, 3, 4];
/// Warps that compute by `mma.sync`.
const WARPS: [u32; 2] = [4, 8];
/// Orders of tiles, for persistent blocks.
const RASTERS: [Raster; 4] = [Raster::BandM(16), Raster::BandM(8), Raster::BandN(8), Raster::Linear];
/// Cycles by which a trip that waits for its own products is longer than they are, and for each instruction more. From
/// walks of 17 tiles at 1 x 8192 x 8192 and 64 x 4096 x 7168. A trip that waits for those of the one before takes no less: with four
/// instructions 223 to 227, with eight 291 and 295 (walks of small tiles at 64 x 2112 x 7168 and 129 x 4096 x 4096).
const WAIT: [f64; 2] = [148.0, 21.0];
/// Cycles of a block beyond its trips, and for each element of its tile: from walks of the same kernel.
const AROUND: [f64; 2] = [1800.0, 0.115];
/// Cycles for each element of a tile that persistent blocks add: deferred results, and direct ones.
const BETWEEN: [f64; 2] = [0.018, 0.062];
/// Trips by `mma.sync` are longer than their fullest unit by this.
const WARP_WAIT: f64 = 200.0;

/// What products do not hide of a warpgroup's own work with the sums. It orders forms; from walks of products of i8 weights
/// at 2048 x 4096 x 4096 by two and by four warpgroups.
const EXPOSED: f64 = 2.7;
/// Cycles of a trip, and the part of the work, that they do not hide where threads make an operand: in registers, by several
/// warpgroups and by one, and in shared memory, where all meet twice, so that a part of the products is not hidden either.
/// Measured on an H100 at 4096^3 and 2048 x 4096 x 4096 with `max(a, 0)`, SiLU and i8 operands
/// (docs/lab-book/2026-11-27.md).
const MADE: [(f64, f64); 2] = [(200.0, 0.55), (200.0, 1.0)];
const MADE_IN_SHARED: (f64, f64) = (250.0, 1.0);
const MEETING: f64 = 0.35;
/// Registers of a thread beside sums, tiles and operands, from refusals of the same.
const AROUND_SUMS: i64 = 30;
/// Registers of a thread that computes, at most, and of one of the producer.
const MOST_REGISTERS: i64 = 240;
const PRODUCER: i64 = 24;

/// Forms that are compiled at most: those whose loop one block computes, and those whose loop blocks share out. The
/// second come last: where another form reaches what device memory allows, none of them is compiled.
pub(super) const COMPILED: usize = 10;
/// With four, of six deep products three were up to 15% behind the best of everything legal; with twelve one is, by 12%.
const SHARED_OUT: usize = 12;

/// What computes a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Computes {
    /// Warpgroups, by `wgmma`.
    Groups(u32),
    /// Warps, by `mma.sync`.
    Warps(u32),
}

impl Computes {
    fn threads(self) -> i64 {
        match self {
            Self::Groups(groups) => 128 * i64::from(groups),
            Self::Warps(warps) => 32 * i64::from(warps),
        }
    }

    /// Warpgroups; 0 for warps.
    fn groups(self) -> u32 {
        match self {
            Self::Groups(groups) => groups,
            Self::Warps(_) => 0,
        }
    }
}

/// One form.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    pub extents: [i64; 3],
    pub computes: Computes,
    pub wait: Option<u32>,
    /// Stages of the rings.
    pub pipeline: Depth,
    /// Depth of an operand's columns that are converted at once.
    pub chunk: Option<u32>,
    /// Registers that a thread is expected to have left.
    pub spare: i64,
    /// What threads do beside its products.
    pub kind: Kind,
    /// Blocks that share out the loop.
    pub slices: u32,
    /// Whether programs share out the tiles of no whole wave.
    pub streams: bool,
    pub whole: KernelMapping,
    /// Cycles that no prediction of the form is below.
    pub floor: f64,
    /// Cycles expected of it.
    pub estimate: f64,
    /// Cycles expected of the multiprocessors, however long device memory takes.
    pub busy: f64,
}

/// What threads do beside products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    Plain,
    /// They compute operands, or with the sums.
    Mixed,
    /// They convert an operand, for few columns.
    Converting,
}

impl Kind {
    /// Forms that are compiled at most: those whose loop one block computes, and those whose loop blocks share out.
    fn most(self) -> [usize; 2] {
        match self {
            Self::Plain => [COMPILED, SHARED_OUT],
            Self::Mixed => [8, 2],
            Self::Converting => [4, 6],
        }
    }

    /// Forms of one tile that are compiled at most. Where threads do more than multiply that decides, not the order of tiles.
    pub fn of_tile(self) -> usize {
        if self == Self::Mixed { 1 } else { 3 }
    }

    /// So many times as many forms are proposed as are compiled, since some are refused.
    pub fn proposed(self) -> usize {
        if self == Self::Mixed { 4 } else { 2 }
    }

    /// Refusals without a success after which no further form is compiled: the kernel then has no such forms.
    pub fn refusals(self) -> usize {
        if self == Self::Mixed { 10 } else { 4 }
    }
}

impl Form {
    /// A form that is not weighed yet.
    pub fn new(extents: [i64; 3], computes: Computes, whole: KernelMapping) -> Self {
        let (wait, pipeline, chunk, kind) = (None, Depth::Fit, None, Kind::Plain);
        let (slices, streams, floor, estimate, busy) = (1, false, 0.0, 0.0, 0.0);
        Self {
            extents,
            computes,
            wait,
            pipeline,
            chunk,
            kind,
            slices,
            streams,
            whole,
            floor,
            estimate,
            busy,
            spare: 0,
        }
    }

    /// The complete mapping.
    pub fn mapping(&self, kernel: &Kernel, anchor: &Anchor<'_>) -> Mapping {
        let groups = match self.computes {
            Computes::Groups(groups) => Some(groups),
            Computes::Warps(_) => None,
        };
        let looped = LoopMapping {
            pipeline: self.pipeline,
            producers: Some(1),
            consumers: groups,
            wait: self.wait,
            chunk: self.chunk,
            split_k: (self.slices > 1).then_some(self.slices),
            stream_k: self.streams,
            ..Default::default()
        };
        let arrays = anchor.arrays.clone();
        Mapping { arrays, ..mapping(kernel, anchor, self.extents, looped, self.whole) }
    }

    /// Forms like it that are compiled at most.
    pub fn most(&self) -> usize {
        self.kind.most()[usize::from(self.is_shared_out())]
    }

    /// Whether blocks share out its loop.
    pub fn is_shared_out(&self) -> bool {
        self.slices > 1 || self.streams
    }

    /// The tile and what computes it, the slices, and whether its results are held beside the next tile's sums.
    pub fn key(&self) -> Key {
        ((self.extents, self.computes, self.slices, self.streams), self.whole.epilogue == Epilogue::Deferred)
    }
}

/// What decides the registers of a form: see [`Form::key`].
pub(super) type Key = (([i64; 3], Computes, u32, bool), bool);

/// The values of the tunables, and what follows from each.
pub(super) struct Space<'a> {
    pub target: &'a Target,
    pub values: [Vec<i64>; 3],
    /// Pairs of dimensions that one tunable decides.
    same: [Option<usize>; 3],
    /// Blocks of the grid for each number of rows and of columns: their product over `base`.
    pub blocks: [Vec<f64>; 2],
    pub base: f64,
    /// Columns of tiles where a tile has the first number of columns.
    columns: f64,
    /// Trips of the loop for each depth.
    pub trips: Vec<f64>,
    /// Bytes of an element, products side by side, and cycles of device memory.
    pub bytes: f64,
    pub count: i64,
    pub memory: f64,
    /// Whether blocks may share out the loop, and programs.
    pub shares: bool,
    streams: bool,
    /// Whether blocks do unequal work.
    unequal: bool,
    /// What threads do in a trip.
    beside: Beside,
    /// Bytes at whose multiples the rows of each operand begin, if not where lines do.
    begins: [Option<i64>; 2],
    /// Rows of the array of each operand, where a tile's are some of them.
    ends: [Option<i64>; 2],
    asked: Asked<'a>,
}

impl<'a> Space<'a> {
    /// The space of a kernel's product; `None` where an operand of it is made of another product, or where the sizes give
    /// no grid. `defines` are values that tunables must have.
    pub fn new(
        kernel: &'a Kernel,
        anchor: &'a Anchor<'a>,
        Launch { sizes, arrays }: Launch<'a>,
        target: &'a Target,
        defines: &'a [(String, i64)],
    ) -> Option<Self> {
        let asked = Asked { kernel, anchor, sizes, arrays, defines };
        (!anchor.chained).then(|| Self::of(asked, target)).flatten()
    }

    fn of(asked: Asked<'a>, target: &'a Target) -> Option<Self> {
        let bytes = f64::from(operand_bits(asked.kernel)) / 8.0;
        let (values, same) = (asked.values(bytes), asked.same());
        let base = [*values[0].first()?, *values[1].first()?, *values[2].first()?];
        let first = asked.tried(base)?;
        let memory =
            traffic(&operands(&first.resolved, asked.sizes).ok()?) / target.rates.memory_bytes_per_cycle;
        // One extent changes, and those that follow it; the grid is the product of what each makes of it.
        let along = |i: usize, wish: fn(&Tried) -> f64| {
            let at = |&v: &i64| {
                let extent = |j: usize| if j == i || same[j] == Some(i) { v } else { base[j] };
                asked.tried([0, 1, 2].map(extent)).map(|t| wish(&t))
            };
            values[i].iter().map(at).collect::<Option<Vec<f64>>>()
        };
        let blocks = [along(0, |t| t.blocks)?, along(1, |t| t.blocks)?];
        let trips = along(2, |t| t.trips)?;
        let (base, columns, count) = (first.blocks, first.columns.max(1.0), asked.anchor.count);
        let unequal = asked.anchor.unequal;
        let shares = asked.anchor.counter.is_some_and(|name| can_split_k(asked.kernel, name));
        let streams = asked.anchor.counter.is_some_and(|name| can_stream_k(asked.kernel, name));
        let beside = Beside::of(asked.kernel, &first.resolved, asked.anchor);
        let begin = |load| rows_begin(asked.kernel, load, asked.sizes, target.line_bytes.into());
        let begins = asked.anchor.loaded.map(|l| l.load.and_then(begin));
        let end = |side: usize| {
            let (load, tunable) = (asked.anchor.loaded[side].load?, asked.anchor.free[side]?);
            rows_end(asked.kernel, load, tunable, asked.sizes)
        };
        let ends = [end(0), end(1)];
        Some(Self {
            target,
            values,
            same,
            blocks,
            base,
            columns,
            trips,
            bytes,
            count,
            memory,
            shares,
            streams,
            unequal,
            beside,
            begins,
            ends,
            asked,
        })
    }

    /// All forms of the product.
    pub fn forms(&self) -> Vec<Form> {
        let mut found = Vec::new();
        for (at, &m) in self.values[0].iter().enumerate() {
            for (across, &n) in self.values[1].iter().enumerate() {
                for (deep, &k) in self.values[2].iter().enumerate() {
                    let extents = [m, n, k];
                    if (0..3).any(|i| self.same[i].is_some_and(|j| extents[i] != extents[j])) {
                        continue;
                    }
                    let columns = if self.same[1].is_some() { self.base } else { self.blocks[1][across] };
                    let blocks = self.blocks[0][at] * columns / self.base;
                    self.of_tile(extents, blocks, self.trips[deep], &mut found);
                }
            }
        }
        found
    }

    /// The forms of one tile.
    fn of_tile(&self, extents: [i64; 3], blocks: f64, trips: f64, found: &mut Vec<Form>) {
        if blocks < 1.0 || !self.fits_shared(extents) {
            return;
        }
        let work = self.beside.at(|t| self.asked.value(t, extents));
        let kind = if self.beside.is_nothing() { Kind::Plain } else { Kind::Mixed };
        let groups = GROUPS.into_iter().filter(|&g| groups_share(extents, g)).map(Computes::Groups);
        let warps = WARPS.into_iter().filter(|&warps| warps_share(extents, warps));
        for computes in groups.chain(warps.map(Computes::Warps)) {
            let groups = matches!(computes, Computes::Groups(_));
            // Beside other work the scheduler finds what to wait for.
            let waits: &[Option<u32>] =
                if groups && kind == Kind::Plain { &[Some(0), Some(1)] } else { &[None] };
            for &wait in waits {
                for (whole, slices, streams) in self.shared_out(blocks, trips) {
                    // A cluster's blocks are neighbours along the rows. One without rows would only slow the other down:
                    // 27.6 us for 21.7 at 64 x 4096 x 7168 (docs/lab-book/2026-11-25.md).
                    if f64::from(whole.cluster) > self.rows(extents[0]) {
                        continue;
                    }
                    let whole = with_warps(whole, computes);
                    let form = Form { wait, kind, slices, streams, ..Form::new(extents, computes, whole) };
                    found.extend(self.weighed(form, work, blocks, trips));
                }
            }
        }
    }

    /// Bytes that copies bring for a trip.
    fn read(&self, [m, n, k]: [i64; 3]) -> f64 {
        let [left, right] = self.asked.anchor.loaded;
        (m as f64 * left.bytes + n as f64 * right.bytes) * k as f64
    }

    /// Whether two stages fit beside the staged result. Products that follow each other in a trip are stages of their own.
    fn fits_shared(&self, [m, n, k]: [i64; 3]) -> bool {
        let anchor = self.asked.anchor;
        let following = anchor.loaded.map(|l| l.tiles / anchor.sums).into_iter().min();
        let stages = if following > Some(1) { 1.0 } else { 2.0 };
        stages * self.read([m, n, k]) + (m * n * 2) as f64 <= f64::from(self.target.shared_bytes)
    }

    /// The same, and blocks that share out each tile's loop where tiles alone do not fill the multiprocessors.
    fn shared_out(&self, blocks: f64, trips: f64) -> Vec<(KernelMapping, u32, bool)> {
        let places = (f64::from(self.target.multiprocessors) / blocks).min(trips / LEAST_TRIPS);
        let most = SLICES.iter().filter(|&&n| self.shares && f64::from(n) <= places);
        let plain = KernelMapping::default();
        let slices = most.rev().take(2).map(|&n| (plain, n, false));
        let whole = self.wholes(blocks).into_iter().map(|whole| (whole, 1, false));
        let waves = blocks / f64::from(self.target.multiprocessors);
        let streams = self.streams && (LEAST_STREAMED..STREAMED).contains(&waves) && waves.fract() > 0.0;
        let streamed = self
            .rasters()
            .filter(|_| streams)
            .map(|raster| (KernelMapping { persistent: true, raster, ..KernelMapping::default() }, 1, true));
        whole.chain(slices).chain(streamed).collect()
    }

    /// Orders of tiles. Bands are of rows and columns: a grid of another rank has one order.
    fn rasters(&self) -> impl Iterator<Item = Raster> {
        let bands = self.asked.kernel.grid.len() == 2;
        RASTERS.into_iter().filter(move |&raster| bands || raster == Raster::Linear)
    }

    /// Ways from tiles to blocks. Where every tile has a multiprocessor of its own, orders make no difference.
    fn wholes(&self, blocks: f64) -> Vec<KernelMapping> {
        let plain = [1, 2].map(|cluster| KernelMapping { cluster, ..KernelMapping::default() });
        let paired = self.unequal.then_some(Raster::Paired);
        // A walk takes trips that memory decides for the same in every loop: of loops with held results there are several.
        let epilogues: &[Epilogue] = match self.asked.anchor.ragged {
            true => &[Epilogue::Direct],
            false => &[Epilogue::Deferred, Epilogue::Direct],
        };
        let persistent = self.rasters().chain(paired).flat_map(|raster| {
            epilogues.iter().map(move |&epilogue| KernelMapping {
                persistent: true,
                raster,
                epilogue,
                ..KernelMapping::default()
            })
        });
        let drawn = self.asked.anchor.ragged.then(from_a_counter);
        let many = blocks > f64::from(self.target.multiprocessors);
        plain.into_iter().chain(persistent.chain(drawn).filter(|_| many)).collect()
    }

    /// The form, as it fits the registers; `None` where there are too few.
    fn fitted(&self, form: Form, work: Work) -> Option<Form> {
        let threads = form.computes.threads();
        let [sums, beside, operands] = work.words;
        let sums = if sums > 0.0 { sums as i64 } else { self.tile(form.extents) } / threads;
        let held = if form.whole.epilogue == Epilogue::Deferred { sums / 2 } else { 0 };
        let possible = registers(threads / 128, self.target);
        if sums + held > ACCUMULATORS.min(possible) {
            return None;
        }
        // An operand is made part by part where all of it takes too many registers.
        let spare = |chunk: Option<u32>| {
            let part = chunk.map_or(1.0, |deep| (f64::from(deep) / form.extents[2] as f64).min(1.0));
            possible
                - AROUND_SUMS
                - sums
                - ((beside + part * operands + work.brought) / threads as f64) as i64
        };
        let (chunk, spare) = match form.kind {
            Kind::Mixed => {
                [None, Some(PART)].map(|chunk| (chunk, spare(chunk))).into_iter().find(|s| s.1 >= 0)?
            }
            _ => (None, 0),
        };
        Some(Form { chunk, spare, ..form })
    }

    /// Elements of all sums.
    fn tile(&self, [m, n, _]: [i64; 3]) -> i64 {
        m * n * self.count
    }

    /// The form with its floor and estimate; `None` where it needs more registers than there are.
    fn weighed(&self, form: Form, work: Work, blocks: f64, trips: f64) -> Option<Form> {
        let form = self.fitted(form, work)?;
        let [m, n, _] = form.extents;
        let deferred = form.whole.epilogue == Epilogue::Deferred;
        let shared = if form.whole.cluster > 1 { 0.5 } else { 1.0 };
        let slices = f64::from(form.slices);
        let (all, trips) = (blocks * trips, (trips / slices).ceil());
        let places = f64::from(self.target.multiprocessors);
        let loading = if form.streams { places } else { places.min(blocks * slices) };
        let (copies, units, trip) = self.trip(&form, work, loading as u32);
        let waves = (blocks * slices / places).ceil();
        // Trips of a multiprocessor.
        let own = if form.streams { (all / places).ceil() } else { waves * trips };
        let start = self.target.estimates.start_cycles;
        let least = own * units.max(copies * shared);
        let [around, each] = AROUND;
        let tile = self.tile(form.extents) as f64;
        let busy = match form.whole.persistent {
            true => own * trip + waves * BETWEEN[usize::from(!deferred)] * tile + around + each * tile,
            false => waves * (trips * trip + around + each * tile),
        };
        let beside = (blocks.min(places) as u32, self.target.shared_bytes.into());
        let copying = l2_cycles(own * self.unshared(&form), beside, self.target);
        let busy = overlapped(busy + self.added_up(&form), copying);
        // A cluster's blocks wait for each other, at the start most of all.
        let launched = if form.whole.persistent { 1.0 } else { waves };
        let late = launched * self.target.estimates.cluster_start_cycles;
        let busy = if form.whole.cluster > 1 { 1.03 * busy + late } else { busy };
        let read = self.read(form.extents);
        let cycles = start + busy.max(self.memory_of(blocks * slices, all, read));
        let ideal = all * self.ideal(form.extents) / f64::from(self.target.multiprocessors);
        let columns = (blocks / self.rows(m)).max(1.0) as u64;
        let [_, of_instructions] = self.oriented([m, n], form.computes.groups());
        let power = slowdown(form.whole.raster, [m as f64, n as f64], of_instructions, columns, self.target);
        let estimate =
            slowed(cycles, ideal / cycles, power, self.target) + second(busy, own * read, self.target);
        Some(Form { floor: start + least.max(self.memory), estimate, busy, ..form })
    }

    /// Bytes that a trip copies for its block alone: the next block of the order has the same rows or the same columns.
    fn unshared(&self, form: &Form) -> f64 {
        let [m, n, k] = form.extents;
        let [left, right] = self.asked.anchor.loaded.map(|l| k as f64 * l.bytes);
        let (left, right) = (m as f64 * left, n as f64 * right);
        let of_rows = matches!(form.whole.raster, Raster::BandN(_)) || self.rows(m) <= 1.0;
        let shared =
            |bytes: f64, others: bool| if others { bytes / self.target.estimates.neighbours } else { bytes };
        shared(left, of_rows) + shared(right, !of_rows)
    }

    /// Cycles of device memory where so many blocks ask in so many trips for so many bytes each: few do not have enough in
    /// flight.
    fn memory_of(&self, blocks: f64, trips: f64, stage: f64) -> f64 {
        let (rates, all) = (self.target.rates, self.target.multiprocessors);
        let bytes = self.memory * rates.memory_bytes_per_cycle;
        let multiprocessors = blocks.min(all.into()) as u32;
        // Rings take all of shared memory, of which products hold two stages. Of the rest others ask for a part.
        let ring = (f64::from(self.target.shared_bytes) - 2.0 * stage).max(stage);
        let in_flight = ring * (bytes / (trips * stage)).min(1.0);
        let rate = f64::from(multiprocessors) * rates.memory_rate(multiprocessors, in_flight);
        if multiprocessors < all { self.memory.max(bytes / rate) } else { self.memory }
    }

    /// Cycles of the last block of a tile beyond those of a block alone: its part goes out, and all come in.
    fn added_up(&self, form: &Form) -> f64 {
        let [m, n, _] = form.extents;
        let part = (4 * m * n * self.count) as f64 / self.target.rates.cache_bytes_per_cycle;
        match form.slices {
            // Of the two tiles that a program cuts it adds up one or both.
            _ if form.streams => 2.0 * (2.0 * self.target.rates.memory_latency + 3.0 * part),
            1 => 0.0,
            slices => 2.0 * self.target.rates.memory_latency + part * f64::from(slices + 1),
        }
    }

    /// Cycles of a trip's products at the full rate.
    fn ideal(&self, [m, n, k]: [i64; 3]) -> f64 {
        (m * n * k * self.count) as f64 * self.bytes / (2.0 * self.target.estimates.product_rate)
    }

    /// Blocks along the rows, if there are as many of them as the first number of columns gives.
    fn rows(&self, m: i64) -> f64 {
        let at = self.values[0].iter().position(|&v| v == m);
        at.map_or(1.0, |at| self.blocks[0][at] / self.columns).max(1.0)
    }

    /// Cycles of the copies of a trip, of the fullest unit beside them, and of the trip, while so many multiprocessors load.
    fn trip(&self, form: &Form, work: Work, loading: u32) -> (f64, f64, f64) {
        let ([m, n, k], rates) = (form.extents, &self.target.rates);
        let lanes = f64::from(self.target.schedulers * LANES);
        let (makes, work, alone) = (work.words[2] > 0.0, work.slots / lanes, work.alone / lanes);
        let exposed = |groups: u32, products: Option<f64>| {
            let ((cycles, part), all) = match (makes, products) {
                (false, _) => ((0.0, EXPOSED / f64::from(groups)), 0.0),
                (true, Some(all)) => (MADE_IN_SHARED, all),
                (true, None) => (MADE[usize::from(groups == 1)], 0.0),
            };
            cycles + part * work + MEETING * all
        };
        let deep = (k as f64 * self.bytes) as i64;
        let [left, right] = self.asked.anchor.loaded.map(|l| (k as f64 * l.bytes) as i64);
        let of = |n: i64, beside| self.copies((m, left), 0, beside) + self.copies((n, right), 1, beside);
        // The floor's copies are alone; those of a trip are beside those of other multiprocessors. Blocks of a cluster are
        // neighbours along the rows: each brings its part of the right operand, and its own rows.
        let own = n / i64::from(form.whole.cluster.max(1));
        let (copies, beside) = (of(n, 0), of(own, loading));
        let steps = (deep / STEP).max(1) as f64;
        match form.computes {
            Computes::Groups(groups) => {
                let [rows, columns] = self.oriented([m, n], groups);
                let products = (rows / ROWS * self.count) as f64 * steps;
                let all = products * rates.product(columns as u32, true);
                let issued = WAIT[0] + WAIT[1] * products / f64::from(groups);
                let own = if form.wait == Some(1) { issued } else { all / f64::from(groups) + issued };
                let trip = all.max(own);
                let trip = work.max(trip + exposed(groups, self.meets([m, n], groups).then_some(all)));
                (copies, all, trip.max(beside) + alone)
            }
            Computes::Warps(warps) => {
                let units =
                    warp_cycles([m, n, deep], i64::from(warps), rates, self.target) * self.count as f64;
                (copies, units, units.max(beside) + WARP_WAIT + exposed(warps / 4, None) + alone)
            }
        }
    }

    /// Rows and columns of the instructions. A computed operand comes first, in registers, if warpgroups can share its rows.
    fn oriented(&self, [m, n]: [i64; 2], groups: u32) -> [i64; 2] {
        oriented(if self.asked.anchor.turned { [n, m] } else { [m, n] }, groups)
    }

    /// Whether an operand that threads make lies in shared memory, where all meet.
    fn meets(&self, [m, n]: [i64; 2], groups: u32) -> bool {
        let own = if self.asked.anchor.turned { n } else { m };
        self.beside.both || own % (ROWS * i64::from(groups)) != 0
    }

    /// Cycles of the copy engine for an operand of so many rows and bytes of each, beside so many multiprocessors that load.
    fn copies(&self, (rows, deep): (i64, i64), side: usize, beside: u32) -> f64 {
        let (boxes, width) = ((deep as f64 / BOX as f64).ceil(), BOX.min(deep) as f64);
        let high = i64::from(self.target.box_extent);
        let lines = self.begins[side].map_or(0.0, |begins| self.target.row_lines(width, begins));
        let copy = |rows: f64| {
            let split = self.target.lines_beside(rows * lines, beside);
            self.target.copy_beside(rows * width, rows, beside).max(split)
        };
        let (full, rest) = ((rows / high) as f64 * copy(high as f64), (rows % high) as f64);
        let outside = self.ends[side].map_or(0.0, |end| rows_outside(end, rows)) * width;
        boxes * (full + if rest > 0.0 { copy(rest) } else { 0.0 } + self.target.zeros_beside(outside, beside))
    }
}

/// Cycles of the tensor cores or of shared memory, whichever is more, for a trip of `mma.sync`.
fn warp_cycles([m, n, deep]: [i64; 3], warps: i64, rates: &Rates, target: &Target) -> f64 {
    let products = (m / 16 * (n / 8)) as f64 * (deep / STEP) as f64;
    let tensor = products * rates.warp_product_cycles / f64::from(target.schedulers);
    // Warps share the rows as far as they go, then the columns; each reads what it multiplies.
    let rows = warps.min(m / 16).max(1);
    let read = (m * (warps / rows).max(1) + n * rows) as f64 * deep as f64;
    tensor.max(read / f64::from(target.line_bytes))
}

/// Registers of a thread of so many warpgroups that compute, beside a producer: what the launch gives all of them is shared
/// out again.
fn registers(groups: i64, target: &Target) -> i64 {
    let down = |registers: i64| registers / 8 * 8;
    let launched = down(i64::from(target.registers) / 128 / (groups + 1));
    down((launched * (groups + 1) - PRODUCER) / groups).min(MOST_REGISTERS)
}

pub(super) fn with_warps(whole: KernelMapping, computes: Computes) -> KernelMapping {
    match computes {
        Computes::Groups(_) => whole,
        Computes::Warps(warps) => KernelMapping { warps: Some(warps), products: Products::MmaSync, ..whole },
    }
}
