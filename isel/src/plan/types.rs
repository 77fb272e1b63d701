//! The plan: the side table from `plan` to `lower`, as plain data.
//!
//! ```text
//!  value ─► register layout      load ─► shared tile, fill      store ─► stripes or vectors      mma ─► instruction shape
//! ```

use super::choices::Choices;
use super::cost_summary::SearchSummary;
use super::sorted::sorted;
use crate::feature::Ways;
use crate::operand::WARP_ATOM;
use crate::tensor_copies::COPY_BITS;
use crate::{IselError, Result};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::layout::{Axis, Layout, LayoutError};
use warplift_ir::machine::SharedOperand;
use warplift_ir::manifest::PackingDigit;
use warplift_ir::tile::{Inst, Kernel, Value, WarpGrid};

/// Rows of a warp's stripe of an accumulator.
pub(super) const STRIPE: u64 = 16;
/// A thread may make this many narrow accesses before the tile is filled another way.
const FEW_ACCESSES: u64 = 16;

/// How a tile in shared memory is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fill {
    /// Tensor copies, one for each slab of a swizzle span.
    Tma,
    /// Asynchronous copies by all threads, each of this many bytes.
    CpAsync(u32),
    /// Plain loads by all threads, then stores to shared memory.
    Threads,
    /// Stores of computed elements.
    Computed,
}

impl Fill {
    /// Whether asynchronous copies fill it. Threads do not observe these as their own stores.
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
    /// Extents `[outer, inner]` of its place: whole slabs, of which the last may be wider than what is left of the tile.
    pub extents: [u32; 2],
    /// Which dimension of the tile is contiguous in memory.
    pub inner_dim: usize,
    /// Swizzle span in bytes; 0: core matrices, one below the other, without swizzle.
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
    /// Elements along the contiguous dimension that a tile of this shape fills of its place.
    pub fn inner_extent(&self, shape: &[u32]) -> u32 {
        match shape {
            &[rows, columns] => [rows, columns][self.inner_dim],
            _ => self.extents[1],
        }
    }

    /// Bytes after which the swizzle repeats. Offsets below it combine by exclusive or; multiples of it are added.
    pub fn period(&self) -> u32 {
        if self.swizzle == 0 { 1 } else { 8 * self.swizzle }
    }

    /// A register layout of the tile as offsets in its buffer.
    ///
    /// # Errors
    /// The layout is of another tile.
    pub fn from_register_layout(&self, layout: &Layout) -> std::result::Result<Layout, LayoutError> {
        in_memory(layout, self.inner_dim, &self.layout)
    }
}

/// A register layout of a tile as offsets in the memory layout `(outer, inner)`.
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

/// A warp's part of an accumulator, as stripes of 16 rows and one swizzle span of columns.
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
    /// Whether rows are contiguous in memory instead of columns. The layout then takes `(column, row)`.
    pub transposed: bool,
}

/// How a tile is stored.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub enum StorePlan {
    /// Through a staging buffer and tensor copies; each warp stores its own rows and columns.
    Bulk(Box<Stripes>),
    /// Predicated vector stores.
    Plain {
        /// Elements of one store.
        vector: u32,
        /// Why tensor copies were declined.
        declined: Option<String>,
    },
}

impl StorePlan {
    /// Bytes of the staging buffer for `warps` warps, if there is one.
    pub(super) fn staging(&self, warps: u32) -> Option<u32> {
        let Self::Bulk(s) = self else { return None };
        let rows = if s.transposed { s.columns } else { STRIPE as u32 };
        Some(warps * s.atoms * s.slabs * rows * s.row_bytes)
    }
}

/// A warpgroup MMA.
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

/// The plan of a kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Plan {
    /// Register layouts of tiles.
    pub layouts: SecondaryMap<Value, Option<Layout>>,
    /// Uses, by operand number, that need a tile in another layout than its own.
    #[serde(serialize_with = "sorted")]
    pub uses: FxHashMap<(Inst, usize), Layout>,
    /// Uses whose tile is rematerialized in their layout: the tiles, operands first. All other uses are converted.
    #[serde(serialize_with = "sorted")]
    pub rematerialized: FxHashMap<(Inst, usize), Vec<Remade>>,
    /// Results that are defined in another layout than the one of their tile.
    #[serde(serialize_with = "sorted")]
    pub made: FxHashMap<Value, Layout>,
    /// Shared-memory versions of loaded tiles.
    #[serde(serialize_with = "sorted")]
    pub shared: FxHashMap<Inst, SharedTile>,
    /// Loads that go through a ring in shared memory to registers.
    #[serde(serialize_with = "sorted")]
    pub staged: FxHashMap<Inst, Staged>,
    /// Results of loops that are carried as each thread's part: the reductions that stop at registers, all along the
    /// same threads.
    #[serde(serialize_with = "sorted")]
    pub partial: FxHashMap<Value, Vec<Inst>>,
    /// Stores.
    #[serde(serialize_with = "sorted")]
    pub stores: FxHashMap<Inst, StorePlan>,
    /// Warpgroup MMAs.
    #[serde(serialize_with = "sorted")]
    pub products: FxHashMap<Inst, Product>,
    /// Warp-level MMAs.
    #[serde(serialize_with = "sorted")]
    pub warp_products: FxHashMap<Inst, WarpProduct>,
    /// The means that conversions and shared memory may use.
    pub ways: Ways,
    /// Cycles that a pass through shared memory takes at least.
    pub meeting_cycles: u64,
    /// The choice points of the plan.
    pub choices: Choices,
    /// The summary of the search.
    pub search: Option<SearchSummary>,
}

impl Plan {
    /// The shared tile and the register layout of a load that copies bring for products, and that threads read too:
    /// they read what the copies filled.
    pub fn filled_tile(&self, k: &Kernel, load: Inst) -> Option<(&SharedTile, &Layout)> {
        let tile = self.shared.get(&load).filter(|t| t.fill.by_copies())?;
        Some((tile, self.layouts[k.result(load)].as_ref()?))
    }

    /// Whether a reduction leaves each thread its part.
    pub fn is_partial(&self, reduction: Inst) -> bool {
        self.partial.values().any(|all| all.contains(&reduction))
    }

    /// The register layout of a tile.
    ///
    /// # Errors
    /// The tile has none: no use could give it one.
    pub fn layout(&self, k: &Kernel, value: Value) -> Result<&Layout> {
        self.layouts[value].as_ref().ok_or_else(|| match k.def(value) {
            Some(inst) => IselError::at(
                k,
                inst,
                "no use of this tile decides how threads hold it: give it a `layout` in the mapping",
            ),
            None => IselError::whole(format!(
                "no use of tile `{}` decides how threads hold it: give it a `layout` in the mapping",
                k.names[value]
            )),
        })
    }
}

/// A warp-level MMA, by `mma.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarpProduct {
    /// How warps share it.
    pub warp_grid: WarpGrid,
    /// Load of A, and whether the operand is its transpose; `None`: A is in registers.
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

/// Bits of a register.
pub(super) const WORD: u64 = 32;
/// Limit on the registers that one access moves.
pub(super) const ACCESS_WORDS: u64 = 4;
/// The rows of a copy are multiples of this many bytes.
pub(super) const COPY_BYTES: u32 = COPY_BITS / 8;

/// A staged load: a tile that goes through a ring to registers.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Staged {
    /// `(reg, lane, ..)` to shared memory, in units of [`Staged::bits`].
    pub to_memory: Layout,
    /// Bits of a unit: an element's, or a register's for packed tiles.
    pub bits: u32,
    /// Bytes of the tile.
    pub bytes: u32,
    /// Whether the L2 cache evicts it first.
    pub stream: bool,
    /// How it is filled.
    pub fill: StagedFill,
}

/// The copies that fill a stage.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub enum StagedFill {
    /// Tensor copies of `[rows, slab]` elements, the latter along the contiguous dimension.
    Tensor {
        /// Contiguous dimension of the tile.
        inner_dim: usize,
        /// Elements of one copy along it.
        slab: u32,
        /// Rows of one copy.
        rows: u32,
        /// Elements that the copy counts as one, so that more of them fit in its box.
        unit: u32,
        /// Swizzle span in bytes, which is also the row of a slab; 0: none.
        swizzle: u32,
        /// The copy begins at a multiple of so many elements, and the tile somewhere in it; 1: both begin together.
        around: u32,
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
    /// Whether rows are swizzled. A swizzled tile is never read in parts.
    pub fn is_swizzled(&self) -> bool {
        matches!(self.fill, StagedFill::Tensor { swizzle: 1.., .. })
    }

    /// Bits of one access.
    fn access_bits(&self) -> u64 {
        let width = self.to_memory.contiguous(Axis::Reg, Axis::Mem).min(128 / u64::from(self.bits));
        width * u64::from(self.bits)
    }

    /// Whether accesses fill registers, or are few.
    pub(super) fn is_read_wide(&self) -> bool {
        let all = self.to_memory.in_extent(Axis::Reg) * u64::from(self.bits);
        self.access_bits() >= 32 || all / self.access_bits() <= FEW_ACCESSES
    }

    /// For `explain`.
    pub(super) fn describe(&self) -> String {
        let bits = self.access_bits();
        let how = match &self.fill {
            StagedFill::Tensor { around: 2.., slab, .. } => {
                format!("tensor copies of the {slab} elements around each row")
            }
            StagedFill::Tensor { slab, swizzle: 0, .. } => format!("tensor copies of {slab} elements"),
            StagedFill::Tensor { slab, swizzle, .. } => {
                format!("tensor copies of {slab} elements, swizzle {swizzle}")
            }
            StagedFill::Packed { .. } => "one bulk copy, packed".to_owned(),
        };
        format!("through shared memory to registers, {how}, accesses of {bits} bits")
    }
}

/// A tile that is rematerialized, and its layout.
pub type Remade = (Value, Layout);
