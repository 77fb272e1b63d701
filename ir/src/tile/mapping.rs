//! The mapping: WHERE and HOW a kernel runs, apart from what it computes (Task-Based Tensor
//! Computations on Modern GPUs, section 3.3). Any mapping computes the same result, up to the order
//! of float sums, or is refused with the reason.

use super::{Loc, Tunable, TunableData};
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
    /// Tiles by their name: how threads hold them, where that is not left to the planner.
    pub tiles: Vec<(String, Layout)>,
    /// The kernel as a whole.
    pub whole: KernelMapping,
    /// Where in its text it says what; empty for built mappings.
    pub places: Places,
}

impl Mapping {
    /// The value that this mapping gives a tunable.
    pub fn tunable(&self, name: &str) -> Option<i64> {
        self.tunables.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    /// The value of a tunable under this mapping: the one it gives, else the text's.
    pub fn value_of(&self, tunable: &TunableData) -> i64 {
        self.tunable(&tunable.name).unwrap_or(tunable.default)
    }
}

/// A part of a mapping that stands somewhere in its text.
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
    /// What is said of the kernel as a whole.
    Kernel,
}

/// Places of a mapping's items and of their words. Places take no part in comparisons: mappings that say the same are
/// equal wherever they stand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Places(Vec<(Item, Cow<'static, str>, Loc)>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Places {
    /// Notes where a word of an item stands, or with an empty word the item itself. The first place of several stays.
    pub fn put(&mut self, item: Item, word: &'static str, loc: Loc) {
        if !self.says(item, word) {
            self.0.push((item, word.into(), loc));
        }
    }

    /// Notes that an item has no place in the text any more: its value came from elsewhere.
    pub fn forget(&mut self, item: Item) {
        self.0.retain(|p| p.0 != item);
        self.0.push((item, "".into(), Loc::default()));
    }

    /// Whether the text says a word of an item.
    pub fn says(&self, item: Item, word: &str) -> bool {
        self.0.iter().any(|(i, w, _)| (*i, &**w) == (item, word))
    }

    /// Where a word of an item stands; if it is not said the item, else the mapping.
    pub fn of(&self, item: Item, word: &str) -> Loc {
        let find = |item, word: &str| self.0.iter().find(|(i, w, _)| (*i, &**w) == (item, word)).map(|p| p.2);
        find(item, word).or_else(|| find(item, "")).or_else(|| find(Item::Mapping, "")).unwrap_or_default()
    }
}

/// Which text a place belongs to: kernel and mapping may come from two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// The kernel's.
    #[default]
    Kernel,
    /// The mapping's.
    Mapping,
}

/// What is worth knowing and no error: a word of the mapping that has no effect on this kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Where the mapping says it; line 0 for built mappings.
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

/// How a loop runs: `for t: pipeline 4, producers 1, consumers 2, wait 0, chunk 64`.
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
    /// Depth of a product's computed left operand that is made at once; absent: all of it.
    pub chunk: Option<u32>,
    /// Whether its warpgroups take turns at the tensor cores, 1, or want them as they come, 0; absent: the
    /// scheduler decides.
    pub mma_order: Option<u32>,
}

/// How tiles of an array come to registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Way {
    /// As the planner finds best: by way of shared memory what a loop loads beside its products, if tensor copies can and
    /// there is room, and directly everything else.
    #[default]
    Fit,
    /// Directly, by plain loads.
    Plain,
    /// Through a ring of shared memory that tensor copies fill.
    Staged,
    /// The same from an array that was packed before the launch: each tile is one run of bytes in the
    /// order in which threads hold it. The manifest says so and how.
    Packed,
}

impl Way {
    /// Whether copies to shared memory are not asked for.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Fit | Self::Plain)
    }
}

/// How an array is read: `array w: packed, stream, before_wait`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArrayMapping {
    /// Its way to registers.
    pub way: Way,
    /// Read once: the L2 cache lets it go first.
    pub stream: bool,
    /// Not written by the grids that may still run when this one starts: its first tiles are loaded before
    /// this grid waits for them. See [`KernelMapping::pdl`].
    pub before_wait: bool,
}

/// Order in which a persistent kernel visits the tiles of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Raster {
    /// The first grid dimension runs fastest.
    #[default]
    Linear,
    /// As linear, but a program takes tiles of the first dimension in pairs, one from either end: where a
    /// tile's work grows along it (causal attention), all programs have the same.
    Paired,
    /// Bands whose footprint per wave is as square as possible in bytes moved.
    Square,
    /// Bands of so many tiles along grid dimension 0.
    BandM(u32),
    /// Bands of so many tiles along grid dimension 1.
    BandN(u32),
}

/// When and by whom the results of a tile are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Epilogue {
    /// At once.
    #[default]
    Direct,
    /// Spread under the first iterations of the next tile's main loop.
    Deferred,
    /// By warps of their own: the last loop of a tile's work runs in an epilogue role of as many warps as compute what
    /// comes before, which go on to the next tile meanwhile (Task-Based Tensor Computations on Modern GPUs, section
    /// 4.2.6: roles are cut where one waits for the other).
    Warps,
}

/// The instruction that products become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Products {
    /// `wgmma` where all products of the kernel have its shapes, else `mma.sync`.
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
    /// Store time.
    pub epilogue: Epilogue,
    /// Blocks of a cluster along grid dimension 0; operands they share are multicast.
    pub cluster: u32,
    /// Teams of warpgroups that share a block and take whole tiles in turn, each with rings of its own, so
    /// that one team's epilogue hides under another's products; 1: one team.
    pub pingpong: u32,
    /// Blocks that hold each tile together, a cluster: its warps are those of all of them, and what threads
    /// tell each other goes through the shared memory of each (PTX ISA, "mapa"); 1: a block a tile.
    pub blocks: u32,
    /// Warps that compute, four of them a warpgroup; absent: from the consumers of its loops, else 4, or for
    /// products of warps as many as their tile is worth.
    pub warps: Option<u32>,
    /// Columns of an epilogue chunk; absent: one swizzle span.
    pub chunk: Option<u32>,
    /// Whether results are stored by copies from shared memory where the facts allow it, else by threads.
    pub bulk_store: bool,
    /// What products become.
    pub products: Products,
    /// Blocks that a multiprocessor is to hold at once: ptxas gives a thread no more registers than that leaves
    /// (PTX ISA, ".minnctapersm"). Of blocks that wait in turn for memory, for each other and for memory again, several
    /// hide one another's waits.
    pub resident: u32,
    /// Programmatic dependent launch: blocks may start while the grid before this one ends, they wait for
    /// it by themselves (PTX ISA, "griddepcontrol").
    pub pdl: bool,
}

impl Default for KernelMapping {
    fn default() -> Self {
        Self {
            persistent: false,
            raster: Raster::Linear,
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
    /// Warps one below the other.
    pub rows: u32,
    /// Warps side by side.
    pub columns: u32,
    /// Whether a warp's rows lie together; else its atoms of 16 rows lie `16 * rows` apart, so that a part of
    /// `16 * rows` rows belongs to all warps alike.
    pub contiguous: bool,
}

impl WarpGrid {
    /// All warps.
    pub fn warps(self) -> u32 {
        self.rows * self.columns
    }
}

/// What `map` decided for one instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs {
    /// Who executes it.
    pub team: Team,
    /// For a loop: how it runs.
    pub looped: Option<LoopMapping>,
    /// For the loop over tiles of a persistent kernel.
    pub persistent: bool,
    /// For a scalar: an index of the grid that arithmetic decodes, never negative.
    pub index: bool,
    /// For a scalar: the dimension of the grid whose extent this index stays below.
    pub below: Option<u32>,
    /// For a store (and what leads to it alone): may be deferred under the next tile.
    pub deferred: bool,
    /// For a store: made by threads, not by copies from shared memory.
    pub by_threads: bool,
    /// For a load: the next tile's is asked for before the work on this tile.
    pub ahead: bool,
    /// For a load by way of shared memory: it stays there, and parts of it are read where they are used.
    pub in_parts: bool,
    /// For a rearrangement: it makes the copy of a computed tile that products read in shared memory.
    pub operand: bool,
    /// For a view: how its array is read.
    pub array: ArrayMapping,
    /// For what gives a tile: the layout in which threads hold it.
    pub layout: Option<Layout>,
    /// For a product of warps: how they share it.
    pub warp_grid: Option<WarpGrid>,
}

/// A flag of [`Attrs`]: its word in the text, its value, and how it is set.
type Flag = (&'static str, fn(&Attrs) -> bool, fn(&mut Attrs));

/// The table of some flags, whose fields have the names of their words.
macro_rules! flags {
    ($($name:ident),*) => { [$((stringify!($name), |a| a.$name, |a| a.$name = true)),*] };
}

/// All flags of [`Attrs`], in the order of the text.
pub(super) const FLAGS: [Flag; 7] = flags!(persistent, index, deferred, by_threads, ahead, in_parts, operand);

/// A tunable's value, resolved; see [`super::Dim::resolve`].
pub type TunableValue = (Tunable, i64);
