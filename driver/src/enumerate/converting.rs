//! Forms of a product one of whose operands threads convert from narrow elements, for few columns: weights of 1 to 8 bits
//! times 1 to 64 tokens.
//!
//! ```text
//!            tokens: one tile of columns
//!            ┌──┐
//!  weights ─►│  │ BN rows x warpgroups or warps x blocks beside each other x slices of the loop
//!    n x k   │  │
//!            └──┘   trip = the time that one conversion takes from the barrier to the sums (CHAIN)
//!                        + a part of what all warps of a multiprocessor convert meanwhile (BESIDE)
//! ```
//!
//! All weights are read once, so what counts is how many multiprocessors read, and how well conversions of several warps
//! overlap. Blocks that share out the loop fill the multiprocessors, and several blocks beside each other hide the chain
//! of one conversion. Forms of more columns are left to the proposals: there the tensor cores decide.

use super::forms::{Computes, Form, Kind, Space, with_warps};
use super::rough::ROWS;
use warplift_ir::tile::{Depth, KernelMapping};

/// Columns of a tile at most.
const COLUMNS: i64 = 64;
/// Rows of an instruction of a warp.
const WARP_ROWS: i64 = 16;
/// Warpgroups that compute, and tiles of rows that each takes at most.
const GROUPS: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];
const TILES: i64 = 2;
/// Warps that compute by `mma.sync`, and tiles of rows that each takes at most.
const WARPS: [u32; 3] = [4, 8, 16];
const WARP_TILES: i64 = 2;
/// Blocks beside each other on a multiprocessor at most.
const RESIDENT: u32 = 4;
/// Stages of a ring at least, where they are counted.
const STAGES: u32 = 3;
/// Trips that a block which shares out the loop has at least, and blocks that share it out at most.
const LEAST_TRIPS: f64 = 4.0;
const SLICES: f64 = 64.0;
/// Threads of a producer, and registers of each.
const PRODUCER: u32 = 128;
const PRODUCER_REGISTERS: i64 = 24;
/// Registers of a thread beside sums and operands.
const REGISTERS: i64 = 40;
/// Depth of a trip from which the following cycles are, and elements that the fullest unit converts in a cycle. From
/// walks of 30 mappings of `a16w4` at 1 x 4096 x 14336. Elements of arrays that are not packed are put together from bytes.
const DEEP: f64 = 128.0;
const CONVERTED: f64 = 50.5;
const CONVERTED_BYTES: f64 = 27.0;
/// Cycles of a conversion that nothing overlaps: of warpgroups, of warps, and of each further tile.
const CHAIN: [f64; 2] = [750.0, 700.0];
const CHAIN_OF_TILE: f64 = 150.0;
/// The part of the fullest unit's time by which a trip is longer than the chain.
const BESIDE: f64 = 0.72;
/// Cycles around the loop.
const AROUND: f64 = 2000.0;
/// Cycles in which the last block adds parts, and bytes of parts that a multiprocessor takes in a cycle.
const ADDED: f64 = 1600.0;
const ADDED_BYTES: f64 = 32.0;
/// The part of the unit's time that is certain.
const CERTAIN: f64 = 0.8;

/// A product whose operand on one side is converted.
pub(super) struct Converting<'s> {
    pub space: &'s Space<'s>,
    /// Bits of an element before.
    pub bits: u32,
    /// Whether they are packed.
    pub packed: bool,
    /// The dimension of the converted operand's rows: 0 or 1.
    pub side: usize,
}

/// How a tile is computed on a multiprocessor.
#[derive(Clone, Copy)]
struct Shape {
    rows: i64,
    columns: i64,
    deep: i64,
    computes: Computes,
    resident: u32,
}

impl Shape {
    /// Tiles of an instruction's rows that each warpgroup or warp takes.
    fn tiles(&self) -> i64 {
        match self.computes {
            Computes::Groups(n) => self.rows / (ROWS * i64::from(n)),
            Computes::Warps(n) => self.rows / (WARP_ROWS * i64::from(n)),
        }
    }

    fn threads(&self) -> u32 {
        match self.computes {
            Computes::Groups(n) => 128 * n,
            Computes::Warps(n) => 32 * n,
        }
    }

    fn is_legal(&self, most_threads: u32) -> bool {
        let (rows, most) = match self.computes {
            Computes::Groups(n) => (ROWS * i64::from(n), TILES),
            Computes::Warps(n) => (WARP_ROWS * i64::from(n), WARP_TILES),
        };
        self.rows % rows == 0
            && (1..=most).contains(&self.tiles())
            && self.threads() + PRODUCER <= most_threads
    }

    /// Registers of a thread for the sums of a trip and of all trips, and for the converted operand.
    fn registers(&self, chunk: Option<u32>) -> i64 {
        let threads = i64::from(self.threads());
        let operand = self.rows * chunk.map_or(self.deep, i64::from) / 2 / threads;
        REGISTERS + 2 * self.rows * self.columns / threads + operand
    }
}

impl Converting<'_> {
    /// All forms; none where one tile does not hold all columns.
    pub fn forms(&self) -> Vec<Form> {
        let Some(columns) = self.columns() else { return Vec::new() };
        let mut found = Vec::new();
        for (at, &rows) in self.space.values[self.side].iter().enumerate() {
            let blocks = self.space.blocks[self.side][at] * self.share(columns);
            for (&deep, &trips) in self.space.values[2].iter().zip(&self.space.trips) {
                let columns = self.space.values[1 - self.side][columns];
                let groups = GROUPS.map(Computes::Groups).into_iter();
                for computes in groups.chain(WARPS.map(Computes::Warps)) {
                    for resident in 1..=RESIDENT {
                        let shape = Shape { rows, columns, deep, computes, resident };
                        found.extend(self.of_shape(shape, blocks, trips));
                    }
                }
            }
        }
        found
    }

    /// The least number of columns with which no further blocks are saved, by its place; `None` if it is large.
    fn columns(&self) -> Option<usize> {
        let (values, blocks) = (&self.space.values[1 - self.side], &self.space.blocks[1 - self.side]);
        let fewest = blocks.iter().copied().fold(f64::INFINITY, f64::min);
        let at = blocks.iter().position(|&b| b == fewest)?;
        (values[at] <= COLUMNS).then_some(at)
    }

    /// Blocks with these columns over blocks with the first ones.
    fn share(&self, columns: usize) -> f64 {
        self.space.blocks[1 - self.side][columns] / self.space.base
    }

    /// The forms of a shape: by the number of blocks that share out the loop.
    fn of_shape(&self, shape: Shape, blocks: f64, trips: f64) -> Vec<Form> {
        let Some(pipeline) = self
            .pipeline(&shape)
            .filter(|_| shape.is_legal(self.space.target.block_threads) && blocks >= 1.0)
        else {
            return Vec::new();
        };
        let register_file = i64::from(self.space.target.registers) / i64::from(shape.resident);
        let beside = shape.resident * (shape.threads() + PRODUCER);
        let share = i64::from(self.space.target.entry_registers(beside));
        let fits = |chunk: &Option<u32>| {
            // Blocks of warpgroups beside each other have an equal share for each thread.
            if shape.resident > 1 && matches!(shape.computes, Computes::Groups(_)) {
                return shape.registers(*chunk) <= share;
            }
            let own = ((shape.registers(*chunk) + 7) / 8 * 8) * i64::from(shape.threads());
            own + PRODUCER_REGISTERS * i64::from(PRODUCER) <= register_file
        };
        let Some(chunk) = [None, Some(32)].into_iter().find(fits) else { return Vec::new() };
        let whole = with_warps(KernelMapping::default(), shape.computes);
        let mut extents = [0, 0, shape.deep];
        (extents[self.side], extents[1 - self.side]) = (shape.rows, shape.columns);
        let of = |slices: u32| {
            let form = Form {
                pipeline,
                chunk,
                kind: Kind::Converting,
                slices,
                ..Form::new(extents, shape.computes, whole)
            };
            self.weighed(form, &shape, blocks, trips)
        };
        self.slices(&shape, blocks, trips).into_iter().map(of).collect()
    }

    /// Stages for so many blocks beside each other; `None` where there is no room.
    fn pipeline(&self, shape: &Shape) -> Option<Depth> {
        let target = self.space.target;
        let weights = shape.rows * shape.deep * i64::from(self.bits) / 8 * self.space.count;
        let tokens = (shape.columns * shape.deep) as f64 * self.space.bytes;
        let stage = weights + 2 * shape.rows + tokens as i64;
        let around = 4 * shape.rows * shape.columns + 2048;
        let each = i64::from(target.shared_bytes / shape.resident) - i64::from(target.reserved_shared_bytes);
        let stages = (each - around) / stage;
        match shape.resident {
            _ if stages < i64::from(STAGES) => None,
            1 => Some(Depth::Fit),
            _ => Some(Depth::Stages(stages.min(16) as u32)),
        }
    }

    /// Numbers of blocks that share out the loop: one, as many as fill the multiprocessors once, and fewer with the
    /// same number of trips.
    fn slices(&self, shape: &Shape, blocks: f64, trips: f64) -> Vec<u32> {
        let places = f64::from(self.space.target.multiprocessors * shape.resident) / blocks;
        let most = places.floor().min((trips / LEAST_TRIPS).floor()).min(SLICES);
        if !self.space.shares || most < 2.0 {
            return vec![1];
        }
        let least = (trips / (trips / most).ceil()).ceil();
        let mut all = vec![1, least as u32];
        all.dedup();
        all
    }

    /// The form with its floor and estimate.
    fn weighed(&self, form: Form, shape: &Shape, blocks: f64, trips: f64) -> Form {
        let (target, slices) = (self.space.target, f64::from(form.slices));
        let resident =
            f64::from(shape.resident).min((blocks * slices / f64::from(target.multiprocessors)).ceil());
        let waves = (blocks * slices / (f64::from(target.multiprocessors) * resident)).ceil();
        let trips = (trips / slices).ceil();
        let unit = self.unit(shape);
        let (groups, warps) = (CHAIN[0], CHAIN[1]);
        let own = if matches!(shape.computes, Computes::Groups(_)) { groups } else { warps };
        let chain = (own + CHAIN_OF_TILE * (shape.tiles() - 1) as f64) * shape.deep as f64 / DEEP;
        let trip = (chain + BESIDE * unit * resident).max(unit * resident);
        let part = (4 * shape.rows * shape.columns * self.space.count) as f64;
        let added = if form.slices > 1 { ADDED + part * slices * resident / ADDED_BYTES } else { 0.0 };
        let busy = waves * trips * trip + AROUND + added;
        let least = CERTAIN * waves * trips * unit * resident;
        let start = target.estimates.start_cycles;
        let (floor, cycles) = (start + least.max(self.space.memory), start + busy.max(self.space.memory));
        Form { floor, estimate: cycles + super::rough::second(busy, 0.0, target), busy, ..form }
    }

    /// Cycles of the fullest unit for a trip of one block: conversions, or products.
    fn unit(&self, shape: &Shape) -> f64 {
        let rate = if self.packed { CONVERTED } else { CONVERTED_BYTES };
        let converted = (shape.rows * shape.deep * self.space.count) as f64 / rate;
        let steps = (shape.deep as f64 * self.space.bytes / 32.0) * self.space.count as f64;
        let rates = &self.space.target.rates;
        let products = match shape.computes {
            Computes::Groups(_) => {
                (shape.rows / ROWS) as f64 * steps * rates.product(shape.columns as u32, false)
            }
            Computes::Warps(_) => {
                let each = rates.warp_product_cycles / f64::from(self.space.target.schedulers);
                (shape.rows / WARP_ROWS * (shape.columns / 8)) as f64 * steps * each
            }
        };
        converted.max(products)
    }
}
