//! The mapping says WHERE and HOW a kernel runs. The kernel itself says what to compute (Task-Based Tensor Computations
//! on Modern GPUs, section 3.3). Every mapping computes the same result, up to the order of float sums, or is refused
//! with the reason.

use super::{Loc, Promise, Tunable, TunableData};
use crate::layout::Layout;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A mapping of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    /// The kernel's name.
    pub kernel: String,
    /// Values of tunables by name.
    pub tunables: Vec<(String, i64)>,
    /// Loops by the name of their counter.
    pub loops: Vec<(String, LoopMapping)>,
    /// Arrays by the name of their pointer argument.
    pub arrays: Vec<(String, ArrayMapping)>,
    /// Pinned register layouts of tiles, by the tile's name.
    pub tiles: Vec<(String, Layout)>,
    /// What is assumed of arguments beyond the text's facts, by their names.
    #[serde(default)]
    pub promises: Vec<(String, Promise)>,
    /// The kernel as a whole.
    pub whole: KernelMapping,
    /// Places of its items and words in its text; empty for built mappings.
    pub places: Places,
}

impl Mapping {
    /// The value that this mapping gives a tunable.
    pub fn tunable(&self, name: &str) -> Option<i64> {
        self.tunables.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    /// Whether blocks share out a loop: only the last block of a tile ends it.
    pub fn is_shared_out(&self) -> bool {
        self.is_streamed() || self.loops.iter().any(|(_, l)| l.split_k.is_some())
    }

    /// Whether the programs share out a loop's iterations evenly, wherever a tile ends.
    pub fn is_streamed(&self) -> bool {
        self.loops.iter().any(|(_, l)| l.stream_k)
    }

    /// Whether stores wait for the next tile's first iterations.
    pub fn defers(&self) -> bool {
        self.whole.epilogue == Epilogue::Deferred && !self.is_shared_out()
    }

    /// The value of a tunable under this mapping: the one it gives, else the text's.
    pub fn value_of(&self, tunable: &TunableData) -> i64 {
        self.tunable(&tunable.name).unwrap_or(tunable.default)
    }
}

/// A part of a mapping with a place in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Item {
    /// `mapping NAME { .. }`, the whole of it.
    Mapping,
    /// The tunable of this number.
    Tunable(usize),
    /// The loop of this number.
    Loop(usize),
    /// The array of this number.
    Array(usize),
    /// The tile of this number.
    Tile(usize),
    /// What is assumed of the argument of this number.
    Promise(usize),
    /// The words about the kernel as a whole.
    Kernel,
}

/// Places of a mapping's items and of their words. Comparisons ignore places.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Places(Vec<(Item, Cow<'static, str>, Loc)>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Places {
    /// Notes the place of a word of an item, or with an empty word the place of the item. The first noted place counts.
    pub fn put(&mut self, item: Item, word: &'static str, loc: Loc) {
        if !self.says(item, word) {
            self.0.push((item, word.into(), loc));
        }
    }

    /// Notes that an item no longer has a place in the text, because its value came from elsewhere.
    pub fn forget(&mut self, item: Item) {
        self.0.retain(|p| p.0 != item);
        self.0.push((item, "".into(), Loc::default()));
    }

    /// Whether the text says a word of an item.
    pub fn says(&self, item: Item, word: &str) -> bool {
        self.0.iter().any(|(i, w, _)| (*i, &**w) == (item, word))
    }

    /// The place of a word of an item. If the text lacks the word, it is the place of the item, else that of the
    /// mapping.
    pub fn of(&self, item: Item, word: &str) -> Loc {
        let find = |item, word: &str| self.0.iter().find(|(i, w, _)| (*i, &**w) == (item, word)).map(|p| p.2);
        find(item, word).or_else(|| find(item, "")).or_else(|| find(Item::Mapping, "")).unwrap_or_default()
    }
}

/// The text of a place. Kernel and mapping may come from different texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// The kernel's.
    #[default]
    Kernel,
    /// The mapping's.
    Mapping,
}

/// A remark: a word of the mapping that has no effect on this kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The word's place; line 0 for built mappings.
    pub loc: Loc,
    /// The word, and why it has no effect.
    pub message: String,
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.loc.line {
            0 => f.write_str(&self.message),
            line => write!(f, "{line}:{}: {}", self.loc.column, self.message),
        }
    }
}

/// Depth of a ring of buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Depth {
    /// As many as shared memory holds.
    #[default]
    Fit,
    /// So many.
    Stages(u32),
}

/// How a loop runs: `for t: pipeline 4, producers 1, consumers 2, wait 0, chunk 64, split_k 4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopMapping {
    /// Stages of the rings that feed it.
    pub pipeline: Depth,
    /// Whether loads go to a producer warpgroup; 0 keeps them with the consumers.
    pub producers: Option<u32>,
    /// Warpgroups that compute.
    pub consumers: Option<u32>,
    /// Groups of tensor-core work left in flight at the end of an iteration; absent: the scheduler decides.
    pub wait: Option<u32>,
    /// Depth of the blocks in which a product's computed left operand is made; absent: all at once.
    pub chunk: Option<u32>,
    /// Whether its warpgroups take turns at the tensor cores: 1 yes, 0 no; absent: the scheduler decides.
    pub mma_order: Option<u32>,
    /// Blocks that share out the iterations of a loop that only adds up. Each adds a part, and the last one to finish adds
    /// the parts and does the rest of the kernel; absent: one block runs the loop.
    pub split_k: Option<u32>,
    /// Whether the programs of a persistent kernel share out the iterations of a loop that only adds up: whole tiles in
    /// waves, and of the remaining tiles each program gets as many iterations as the others.
    pub stream_k: bool,
}

/// How tiles of an array get to registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Way {
    /// The planner decides. Loads beside the products of a loop go through shared memory, if tensor copies can bring
    /// them and there is room. All others are direct.
    #[default]
    Fit,
    /// Directly, by plain loads.
    Plain,
    /// Through a ring of shared memory that tensor copies fill.
    Staged,
    /// The same from an array that was packed before the launch. Each tile is one run of bytes in the order in which
    /// threads hold it. The manifest describes the packing.
    Packed,
}

impl Way {
    /// Whether the mapping does not ask for copies to shared memory.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Fit | Self::Plain)
    }
}

/// How an array is read: `array w: packed, stream, before_wait`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArrayMapping {
    /// How its tiles get to registers.
    pub way: Way,
    /// Whether it is read once. The L2 cache then evicts it first.
    pub stream: bool,
    /// Whether grids that may still run when this one starts do not write it. Its first tiles are then loaded before
    /// this grid waits. See [`KernelMapping::pdl`].
    pub before_wait: bool,
}

/// Order in which a persistent kernel visits the tiles of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Raster {
    /// The first grid dimension runs fastest.
    #[default]
    Linear,
    /// Like linear, but a program takes tiles of the first dimension in pairs, one from either end. If the work of a
    /// tile grows along that dimension (causal attention), all programs get equal work.
    Paired,
    /// Bands whose footprint per wave is as square as possible in bytes moved.
    Square,
    /// Bands of so many tiles along grid dimension 0.
    BandM(u32),
    /// Bands of so many tiles along grid dimension 1.
    BandN(u32),
}

/// When the results of a tile are stored, and by which warps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Epilogue {
    /// At once.
    #[default]
    Direct,
    /// Spread under the first iterations of the next tile's main loop.
    Deferred,
    /// By epilogue warps, as many as consumer warps. They run the last loop of a tile's work while the consumers
    /// continue with the next tile (Task-Based Tensor Computations on Modern GPUs, section 4.2.6: roles are cut where
    /// one waits for the other).
    Warps,
}

/// The instruction of products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Products {
    /// `wgmma` if all products of the kernel have its shapes, else `mma.sync`.
    #[default]
    Fit,
    /// `wgmma`: warpgroups, operands in shared memory.
    Wgmma,
    /// `mma.sync`: warps, operands in registers.
    MmaSync,
}

/// The kernel as a whole: `kernel: persistent, raster square, epilogue deferred, cluster 2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelMapping {
    /// A fixed number of blocks takes tile after tile.
    pub persistent: bool,
    /// Tile order.
    pub raster: Raster,
    /// Whether a persistent kernel's programs draw their tiles from a counter in memory, in the order of `raster`: a
    /// program takes the next tile when it has done the one before. Otherwise program p takes p, p + programs, and so on.
    pub counter: bool,
    /// Store time.
    pub epilogue: Epilogue,
    /// Blocks of a cluster along grid dimension 0. Shared operands are multicast.
    pub cluster: u32,
    /// Teams of warpgroups in a block, each with rings of its own. They take whole tiles in turn, so one team's
    /// epilogue overlaps with another's products. 1: one team.
    pub pingpong: u32,
    /// Blocks of the cluster that share each tile. The warps of all these blocks work on the tile and exchange data
    /// through the shared memory of each block (PTX ISA, "mapa"). 1: each block has its own tile.
    pub blocks: u32,
    /// Computing warps; four make a warpgroup. Absent: as the consumers of its loops say, else 4; for products of
    /// warps, by the size of the tile.
    pub warps: Option<u32>,
    /// Columns of an epilogue chunk; absent: one swizzle span.
    pub chunk: Option<u32>,
    /// Whether copies from shared memory store the results if the facts allow it. Otherwise threads store them.
    pub bulk_store: bool,
    /// The instruction of products.
    pub products: Products,
    /// Blocks that a multiprocessor should hold at once. ptxas limits the registers of a thread accordingly (PTX ISA,
    /// ".minnctapersm"). Several resident blocks hide one another's waits.
    pub resident: u32,
    /// Programmatic dependent launch: blocks may start before the preceding grid has ended, and wait for it themselves
    /// (PTX ISA, "griddepcontrol").
    pub pdl: bool,
}

impl KernelMapping {
    /// The words about the order of tiles: `raster counter band_m 16`; `None` for the default.
    pub fn raster_words(&self) -> Option<String> {
        let order = match self.raster {
            Raster::Linear => None,
            Raster::Square => Some("square".to_owned()),
            Raster::Paired => Some("paired".to_owned()),
            Raster::BandM(n) => Some(format!("band_m {n}")),
            Raster::BandN(n) => Some(format!("band_n {n}")),
        };
        let words: Vec<String> =
            self.counter.then(|| "counter".to_owned()).into_iter().chain(order).collect();
        (!words.is_empty()).then(|| format!("raster {}", words.join(" ")))
    }
}

impl Default for KernelMapping {
    fn default() -> Self {
        Self {
            persistent: false,
            raster: Raster::Linear,
            counter: false,
            epilogue: Epilogue::Direct,
            cluster: 1,
            pingpong: 1,
            blocks: 1,
            warps: None,
            chunk: None,
            bulk_store: true,
            products: Products::Fit,
            resident: 1,
            pdl: false,
        }
    }
}

/// Threads that execute an operation together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, PartialOrd, Ord)]
pub enum Team {
    /// Not decided.
    #[default]
    None,
    /// One thread.
    Thread,
    /// So many warps.
    Warps(u32),
    /// So many warpgroups.
    Warpgroups(u32),
}

impl Team {
    /// Warps of the team; a thread counts as one.
    pub fn warps(self) -> u32 {
        match self {
            Self::None | Self::Thread => 1,
            Self::Warps(n) => n,
            Self::Warpgroups(n) => n.saturating_mul(4),
        }
    }
}

/// How warps share the rows and columns of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, PartialOrd, Ord)]
pub struct WarpGrid {
    /// Warps along the rows.
    pub rows: u32,
    /// Warps along the columns.
    pub columns: u32,
    /// Whether a warp's rows are contiguous. Otherwise its atoms of 16 rows are `16 * rows` apart, so every warp has an
    /// equal share of each `16 * rows` rows.
    pub contiguous: bool,
}

impl WarpGrid {
    /// All warps.
    pub fn warps(self) -> u32 {
        self.rows * self.columns
    }
}

/// The decisions of `map` for one instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs {
    /// The team that executes it.
    pub team: Team,
    /// For a loop: how it runs.
    pub looped: Option<LoopMapping>,
    /// For the loop over tiles of a persistent kernel.
    pub persistent: bool,
    /// For a scalar: an index of the grid that arithmetic decodes, never negative.
    pub index: bool,
    /// For a scalar: the dimension of the grid whose extent this index stays below.
    pub below: Option<u32>,
    /// For a store and the instructions that only it needs: it may be deferred under the next tile.
    pub deferred: bool,
    /// For a store: threads store, not copies from shared memory.
    pub by_threads: bool,
    /// For a load: the next tile's load is issued before the work on this tile.
    pub ahead: bool,
    /// For a load through shared memory: the tile stays there, and each use reads its part.
    pub in_parts: bool,
    /// For a rearrangement: it copies a computed tile to shared memory, where products read it.
    pub operand: bool,
    /// For a scalar: iterations of a tile's loop that programs share out, which the loop over tiles deals to them.
    pub trips: bool,
    /// For a view: how its array is read.
    pub array: ArrayMapping,
    /// For an instruction that defines a tile: its register layout. Few have one, and a layout is large.
    pub layout: Option<Box<Layout>>,
    /// For a product of warps: how they share it.
    pub warp_grid: Option<WarpGrid>,
}

/// A flag of [`Attrs`]: its word in the text, its getter, its setter.
type Flag = (&'static str, fn(&Attrs) -> bool, fn(&mut Attrs));

/// The table of some flags, whose fields have the names of their words.
macro_rules! flags {
    ($($name:ident),*) => { [$((stringify!($name), |a| a.$name, |a| a.$name = true)),*] };
}

/// All flags of [`Attrs`], in the order of the text.
pub(super) const FLAGS: [Flag; 8] =
    flags!(persistent, index, deferred, by_threads, ahead, in_parts, operand, trips);

/// A tunable's value, resolved; see [`super::Dim::resolve`].
pub type TunableValue = (Tunable, i64);
