//! The side table between map and lower: data alone.

use super::choices::Choices;
use super::cost_summary::SearchSummary;
use crate::feature::Ways;
use crate::operand::WARP_ATOM;
use crate::{IselError, Result};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize, Serializer};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::layout::{Axis, Layout, LayoutError};
use warplift_ir::machine::SharedOperand;
use warplift_ir::manifest::PackingDigit;
use warplift_ir::tile::{Inst, Kernel, Value, WarpGrid};

/// Rows of a warp's stripe of an accumulator.
pub(super) const STRIPE: u64 = 16;
/// Narrow accesses of a thread that are no reason to bring a tile another way.
const FEW_ACCESSES: u64 = 16;

/// How a tile comes to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fill {
    /// Tensor copies, one for each slab of a swizzle span.
    Tma,
    /// Asynchronous copies of so many bytes by all threads.
    CpAsync(u32),
    /// Plain loads by all threads, then stores to shared memory.
    Threads,
    /// Stores of what the threads computed.
    Computed,
}

impl Fill {
    /// Whether asynchronous copies fill it, which threads do not see as stores of theirs.
    pub fn by_copies(self) -> bool {
        match self {
            Self::Tma | Self::CpAsync(_) => true,
            Self::Threads | Self::Computed => false,
        }
    }
}

impl std::fmt::Display for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tma => f.write_str("tensor copies"),
            Self::CpAsync(bytes) => write!(f, "the threads' copies of {bytes} bytes"),
            Self::Threads => f.write_str("the threads' loads and stores"),
            Self::Computed => f.write_str("the threads' stores of what they computed"),
        }
    }
}

/// The shared-memory version of a loaded tile.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct SharedTile {
    /// `(outer, inner)` coordinates to elements; inner is the contiguous dimension.
    pub layout: Layout,
    /// Extents `[outer, inner]`.
    pub extents: [u32; 2],
    /// Which dimension of the tile is contiguous in memory.
    pub inner_dim: usize,
    /// Swizzle span in bytes; 0: none, core matrices one below the other.
    pub swizzle: u32,
    /// Elements of a slab along the inner dimension.
    pub slab: u32,
    /// Bytes of a slab's row.
    pub row_bytes: u32,
    /// How it is filled.
    pub fill: Fill,
    /// Why tensor copies were declined.
    pub declined: Option<String>,
}

impl SharedTile {
    /// Bytes after which the swizzle repeats: offsets inside combine by exclusive or, multiples of it are added.
    pub fn period(&self) -> u32 {
        if self.swizzle == 0 { 1 } else { 8 * self.swizzle }
    }

    /// A register layout of the tile as places in its memory.
    ///
    /// # Errors
    /// A layout of another tile.
    pub fn from_register_layout(&self, layout: &Layout) -> std::result::Result<Layout, LayoutError> {
        in_memory(layout, self.inner_dim, &self.layout)
    }
}

/// A register layout of a tile as places in the memory of a layout `(outer, inner)`.
pub(super) fn in_memory(
    layout: &Layout,
    inner_dim: usize,
    memory: &Layout,
) -> std::result::Result<Layout, LayoutError> {
    let renamed = layout.renamed(|a| match a {
        Axis::Dim(d) => Axis::Dim(u8::from(usize::from(d) == inner_dim)),
        other => other,
    })?;
    renamed.with_outs(&[Axis::Dim(0), Axis::Dim(1)])?.then(memory)
}

/// What a warp holds of an accumulator, as stripes of 16 rows and a swizzle span of columns.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Stripes {
    /// `(row, column)` of one stripe to elements.
    pub layout: Layout,
    /// Swizzle span in bytes; 0: none.
    pub swizzle: u32,
    /// Bytes of a row.
    pub row_bytes: u32,
    /// Columns of a stripe.
    pub columns: u32,
    /// Stripes one below the other.
    pub atoms: u32,
    /// Rows from one to the next.
    pub step: u32,
    /// Stripes side by side.
    pub slabs: u32,
    /// Whether rows are contiguous in memory instead of columns: the layout takes `(column, row)` then.
    pub transposed: bool,
}

/// How a tile leaves.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub enum StorePlan {
    /// Through a staging buffer and tensor copies, each warp its own rows and columns.
    Bulk(Box<Stripes>),
    /// Predicated stores of so many elements.
    Plain {
        /// Elements of one store.
        vector: u32,
        /// Why tensor copies were declined.
        declined: Option<String>,
    },
}

impl StorePlan {
    /// Bytes of the staging buffer for so many warps, if there is one.
    pub(super) fn staging(&self, warps: u32) -> Option<u32> {
        let Self::Bulk(s) = self else { return None };
        let rows = if s.transposed { s.columns } else { STRIPE as u32 };
        Some(warps * s.atoms * s.slabs * rows * s.row_bytes)
    }
}

/// A product on tensor cores.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Product {
    /// Load that holds A, if it comes from shared memory.
    pub a: Option<(Inst, SharedOperand)>,
    /// Load that holds B.
    pub b: (Inst, SharedOperand),
    /// Columns of one instruction.
    pub n: u32,
    /// Instructions along N.
    pub n_atoms: u32,
    /// Instructions along M for one warpgroup.
    pub m_atoms: u32,
    /// Instructions along K.
    pub k_steps: u32,
}

/// Maps are written in the order of their keys: equal plans have equal texts.
pub(super) fn sorted<K: Ord + Serialize, V: Serialize, S: Serializer>(
    map: &FxHashMap<K, V>,
    s: S,
) -> std::result::Result<S::Ok, S::Error> {
    s.collect_map(map.iter().collect::<std::collections::BTreeMap<_, _>>())
}

/// The side table.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Plan {
    /// Register version of tiles.
    pub layouts: SecondaryMap<Value, Option<Layout>>,
    /// Uses, by operand number, that see a tile in another layout than its own.
    #[serde(serialize_with = "sorted")]
    pub uses: FxHashMap<(Inst, usize), Layout>,
    /// Uses whose tile is made again in their layout: what is, operands first. All other ones are converted.
    #[serde(serialize_with = "sorted")]
    pub rematerialized: FxHashMap<(Inst, usize), Vec<Remade>>,
    /// Results that are made in another layout than that in which they are used.
    #[serde(serialize_with = "sorted")]
    pub made: FxHashMap<Value, Layout>,
    /// Shared version of loaded tiles.
    #[serde(serialize_with = "sorted")]
    pub shared: FxHashMap<Inst, SharedTile>,
    /// Loads that come to registers by way of a ring in shared memory.
    #[serde(serialize_with = "sorted")]
    pub staged: FxHashMap<Inst, Staged>,
    /// Stores.
    #[serde(serialize_with = "sorted")]
    pub stores: FxHashMap<Inst, StorePlan>,
    /// Products of warpgroups.
    #[serde(serialize_with = "sorted")]
    pub products: FxHashMap<Inst, Product>,
    /// Products of warps.
    #[serde(serialize_with = "sorted")]
    pub warp_products: FxHashMap<Inst, WarpProduct>,
    /// What conversions and shared memory may use.
    pub ways: Ways,
    /// Cycles that a pass through shared memory takes at least.
    pub meeting_cycles: u64,
    /// Where the plan could have gone other ways.
    pub choices: Choices,
    /// What the search found.
    pub search: Option<SearchSummary>,
}

impl Plan {
    /// The register layout of a tile.
    ///
    /// # Errors
    /// If it has none: nothing that uses it could give it one.
    pub fn layout(&self, k: &Kernel, value: Value) -> Result<&Layout> {
        self.layouts[value].as_ref().ok_or_else(|| match k.def(value) {
            Some(inst) => IselError::at(k, inst, "no layout found for this tile in registers"),
            None => IselError::whole(format!("no layout found for tile `{}`", k.names[value])),
        })
    }
}

/// A product by `mma.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarpProduct {
    /// How warps share it.
    pub warp_grid: WarpGrid,
    /// Load of A, and whether the product sees it transposed; `None`: A is in registers.
    pub a: Option<(Inst, bool)>,
    /// Load of B, likewise.
    pub b: (Inst, bool),
    /// Instructions of a warp along M.
    pub m_atoms: u32,
    /// Instructions of a warp along N.
    pub n_atoms: u32,
    /// Instructions along K.
    pub k_steps: u32,
}

impl WarpProduct {
    /// Columns of a warp.
    pub fn columns(&self) -> u32 {
        self.n_atoms * WARP_ATOM[1]
    }
}

/// How a tile comes to registers through a ring.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Staged {
    /// `(reg, lane, ..)` to shared memory, in units of [`Staged::bits`].
    pub to_memory: Layout,
    /// Bits of a unit: an element's, or a register's for packed tiles.
    pub bits: u32,
    /// Bytes of the tile.
    pub bytes: u32,
    /// Whether the L2 cache lets it go first.
    pub stream: bool,
    /// How it is filled.
    pub fill: StagedFill,
}

/// What fills it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub enum StagedFill {
    /// Tensor copies of `[slab, outer]` elements along the contiguous dimension.
    Tensor {
        /// Contiguous dimension of the tile.
        inner_dim: usize,
        /// Elements of one copy along it.
        slab: u32,
        /// Elements that the copy counts as one, so that more of them fit its box.
        unit: u32,
        /// Swizzle span in bytes, then a slab's row; 0: none.
        swizzle: u32,
    },
    /// One bulk copy of a packed tile.
    Packed {
        /// Extents of the tile.
        tile: [u32; 2],
        /// Order of its elements; see [`warplift_ir::manifest::Packing`].
        digits: Vec<PackingDigit>,
    },
}

impl Staged {
    /// Whether rows are swizzled; such a tile is never read in parts.
    pub fn is_swizzled(&self) -> bool {
        matches!(self.fill, StagedFill::Tensor { swizzle: 1.., .. })
    }

    /// Bits of one access.
    fn access_bits(&self) -> u64 {
        let width = self.to_memory.contiguous(Axis::Reg, Axis::Mem).min(128 / u64::from(self.bits));
        width * u64::from(self.bits)
    }

    /// Whether accesses fill registers, or there are few.
    pub(super) fn is_read_wide(&self) -> bool {
        let all = self.to_memory.in_extent(Axis::Reg) * u64::from(self.bits);
        self.access_bits() >= 32 || all / self.access_bits() <= FEW_ACCESSES
    }

    /// For `explain`.
    pub(super) fn describe(&self) -> String {
        let bits = self.access_bits();
        let how = match &self.fill {
            StagedFill::Tensor { slab, swizzle: 0, .. } => format!("tensor copies of {slab} elements"),
            StagedFill::Tensor { slab, swizzle, .. } => {
                format!("tensor copies of {slab} elements, swizzle {swizzle}")
            }
            StagedFill::Packed { .. } => "one bulk copy, packed".to_owned(),
        };
        format!("through shared memory to registers, {how}, accesses of {bits} bits")
    }
}

/// A tile that is made again, and its layout then.
pub type Remade = (Value, Layout);
