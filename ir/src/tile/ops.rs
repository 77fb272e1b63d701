//! The operations of tile IR: the union of Hexcute's Table 1, Tilus's Table 1 and Triton's shape
//! operations. Operands stand in the order in which each variant names them.

use super::{Assumption, Dim, MAX_RANK};
use crate::layout::Layout;
use crate::types::Elem;
use smallvec::SmallVec;
use std::ops::Range;

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// `-x`.
    Neg,
    /// `|x|`.
    Abs,
    /// Bitwise or logical complement.
    Not,
    /// Natural exponential, as `exp2(x * log2(e))`.
    Exp,
    /// Power of two; within 2 ulp in f32.
    Exp2,
    /// Natural logarithm.
    Log,
    /// Logarithm to base two.
    Log2,
    /// Square root, rounded.
    Sqrt,
    /// Reciprocal square root; within 2 ulp in f32.
    Rsqrt,
    /// Reciprocal.
    Rcp,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Hyperbolic tangent; within 2^-11 relative in f32.
    Tanh,
    /// Error function; within 2^-20 absolute in f32.
    Erf,
    /// The same condition, expected to be true: plans and predictions count with that where data decides.
    Likely,
    /// The same condition, expected to be false.
    Unlikely,
}

/// Two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// High half of the product of two integers: what lies above the bits that [`BinOp::Mul`] keeps.
    MulHi,
    /// Quotient; within 2 ulp in f32. Integers round toward zero, and dividing by zero is undefined.
    Div,
    /// Quotient of integers rounded up; the divisor must be positive.
    CeilDiv,
    /// Remainder with the dividend's sign.
    Rem,
    /// Minimum; a NaN operand gives the other.
    Min,
    /// Maximum; a NaN operand gives the other.
    Max,
    /// Bitwise or logical and.
    And,
    /// Bitwise or logical or.
    Or,
    /// Bitwise or logical exclusive or.
    Xor,
    /// Shift left.
    Shl,
    /// Shift right, arithmetic for signed types.
    Shr,
}

/// Comparisons; a NaN operand makes all but [`CmpOp::Ne`] false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmpOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

impl CmpOp {
    /// Whether the comparison holds. With a NaN only `Ne` does.
    pub fn holds<T: PartialOrd>(self, x: &T, y: &T) -> bool {
        match self {
            Self::Eq => x == y,
            Self::Ne => x != y,
            Self::Lt => x < y,
            Self::Le => x <= y,
            Self::Gt => x > y,
            Self::Ge => x >= y,
        }
    }

    /// The comparison of `(y, x)` that is equivalent to this one of `(x, y)`.
    pub fn exchanged(self) -> Self {
        match self {
            Self::Eq | Self::Ne => self,
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
        }
    }
}

/// Reductions and scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// Operations on global memory that are atomic per element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Sum.
    Add,
    /// Minimum. Floats are ordered as by IEEE 754's totalOrder; an operand that is NaN changes nothing.
    Min,
    /// Maximum, in the same order.
    Max,
    /// Exchange.
    Exchange,
    /// Exchange where the element is what is expected.
    CompareAndSwap,
}

/// Whose threads see an atomic update as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryScope {
    /// Those of its block.
    Cta,
    /// Those of its cluster.
    Cluster,
    /// Those of the GPU.
    #[default]
    Gpu,
    /// Those of all GPUs, and of the host.
    Sys,
}

/// What an atomic update orders beside itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryOrder {
    /// Nothing.
    #[default]
    Relaxed,
    /// What its block does after it sees what was released before what it found.
    Acquire,
    /// What its block did before it is seen by who acquires what it leaves.
    Release,
    /// Both.
    AcqRel,
}

impl MemoryOrder {
    /// Whether later accesses come after it.
    pub fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcqRel)
    }

    /// Whether earlier accesses come before it.
    pub fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcqRel)
    }
}

/// Scope and order of an atomic update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemorySync {
    /// The scope.
    pub scope: MemoryScope,
    /// The order.
    pub order: MemoryOrder,
}

/// An operation and its attributes. `x, y` are operands: scalars or tiles, unless the text says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Integer or truth constant of the result's scalar type.
    Int(i64),
    /// Float constant of the result's scalar type.
    Float(f64),
    /// An extent as an i32 scalar: a tunable in arithmetic.
    Dim(Dim),
    /// Index of the logical block along one grid dimension, i32.
    BlockIndex(u8),
    /// Number of logical blocks along one grid dimension, i32.
    GridDim(u8),
    /// Made by `map`: index of this program (thread block, cluster of them, or team of warpgroups in one) among those launched, i32.
    ProgramId,
    /// Made by `map`: number of programs launched, i32.
    ProgramCount,
    /// The extent of a dimension whose end the kernel does not know, `?` in a view's type.
    Unbounded,
    /// `x`: element by element.
    Unary(UnOp),
    /// `x, y`: element by element; a scalar operand stands for a tile of equal elements.
    Binary(BinOp),
    /// `x, y`: as [`Op::Binary`], giving bool.
    Compare(CmpOp),
    /// `c, x, y`: `c ? x : y`, element by element.
    Select,
    /// `x, y, z`: `x * y + z` of floats, rounded once, element by element.
    Fma,
    /// `x`: conversion to the result's element type; floats round to nearest even and saturate only in
    /// f8e5m2 and types without infinity, float to integer rounds toward zero and saturates, integers wrap.
    Cast,
    /// `x`: i64 as i32 indices, element by element. Negative ones and those that i32 does not hold become -1, which is
    /// outside every view.
    ToIndex,
    /// `x`: the same bits as elements of another type; the last extent scales.
    ViewAs(Elem),
    /// `x`: a tile of equal elements.
    Full,
    /// Tile of i32 with the index along this dimension.
    Iota(u8),
    /// `x`: extents of 1 grow to the result's shape; missing leading extents count as 1.
    Broadcast,
    /// `x`: the same elements in row-major order under the result's shape.
    Reshape,
    /// `x`: dimensions permuted; result dimension `d` is operand dimension `perm[d]`.
    Trans(SmallVec<[u8; MAX_RANK]>),
    /// `x, y`: a new last dimension of extent 2.
    Join,
    /// `x`: two results, the halves of a last dimension of extent 2.
    Split,
    /// `x`: a part, starting at these offsets, of the result's shape.
    Slice(SmallVec<[Dim; MAX_RANK]>),
    /// `x`: the same elements in any layout, a hint to the planner.
    Rearrange,
    /// `x`: an extra dimension of extent 1 before this one.
    ExpandDims(u8),
    /// `ptr, extent.. , stride..`: a view. With `strided` as many strides (in elements) as extents follow,
    /// else it is row-major. Loads outside give `fill`.
    View {
        /// Whether strides follow the extents.
        strided: bool,
        /// The value of a load outside.
        fill: f64,
    },
    /// `view, index..`: a view of the dimensions in this list. The other dimensions, in order, have these indices. If
    /// one of the indices is outside, the whole view is.
    SubView(SmallVec<[u8; MAX_RANK]>),
    /// `view, index..`: the tile whose first element has these indices, or the one element there as a scalar.
    Load,
    /// `view, index.., x`: writes the part of a tile that lies inside.
    Store,
    /// `view, index.., x`: atomic update of the elements that lie inside.
    Atomic(AtomicOp),
    /// `extent..`: an array of so many elements, the product, that no argument holds. It is zero before the first launch
    /// and keeps its content from launch to launch.
    Workspace,
    /// `extent..`: a view of an array of constant extents in the block's shared memory. Its content is not defined until the
    /// block stores it. The layout says where an element lies, `(d0, d1, ..)` to `m`; without one the array is row-major.
    Shared {
        /// Where elements lie.
        layout: Option<Box<Layout>>,
    },
    /// `view, index.., n`: counts this block at an element of a view of u32, and gives a bool: whether it is the `n`-th.
    /// The `n`-th sets the element back to zero, and sees everything that the blocks before it wrote before they
    /// arrived. Outside the view nothing is counted, and no block is the last.
    Arrive,
    /// `view, index.., c?`: as [`Op::Load`], but some indices are tiles of the result's shape, which give each element
    /// its own index, not that of the first. An index outside gives the view's fill, as does an element whose mask
    /// `c` (a bool tile, with `masked`) is false.
    LoadGather {
        /// Whether a mask follows the indices.
        masked: bool,
    },
    /// `view, index..`: as [`Op::Load`], but several indices stand in the place of that of this dimension. Along it the
    /// tile has as many equal parts, each of which begins at an index of its own: `x[[a, b], j] : f16[64, N]` is 32 rows
    /// from `a` on and 32 from `b` on.
    LoadRuns(u8),
    /// `view, index.., x, c?`: as [`Op::Store`] with the indices and the mask of [`Op::LoadGather`]. Of several elements at one
    /// place the last one in row-major order stays in the interpreter, any of them on a machine.
    StoreScatter {
        /// Whether a mask follows the tile.
        masked: bool,
    },
    /// `view, index.., x, c?`: as [`Op::Atomic`] with the indices and the mask of [`Op::LoadGather`]. With `old` it gives
    /// what each element was before; 0 outside the view and where the mask is false. [`Op::Atomic`] is relaxed, and of the
    /// GPU.
    AtomicScatter {
        /// The update.
        op: AtomicOp,
        /// Whether the elements before are the result.
        old: bool,
        /// Whether a mask follows the tile.
        masked: bool,
        /// Scope and order.
        sync: MemorySync,
    },
    /// `acc, a, b`: `acc + a b` for `a: [M, K]`, `b: [K, N]`, sums in the type of `acc`.
    Mma {
        /// Whether the product is subtracted: `acc - a b`. The text writes `mma acc, -a, b`. Of floats only.
        negated: bool,
    },
    /// `x`: along a dimension, which disappears (a rank-1 tile gives a scalar).
    Reduce(ReduceOp, u8),
    /// `x`: inclusive prefix along a dimension.
    Scan(ReduceOp, u8),
    /// `x, index`: element `index[..]` along a dimension; out of range is undefined.
    Gather(u8),
    /// `view, index..`: starts a load whose result may be read after a [`Op::AsyncWait`].
    AsyncCopy,
    /// Closes the group of asynchronous copies started since the last commit.
    AsyncCommit,
    /// Waits until at most this many groups are unfinished.
    AsyncWait(u32),
    /// `x..`: prints values, a debugging aid.
    Print(String),
    /// `x`: the same integer, of which this is promised. Only what is made of the result relies on the promise.
    Assume(Assumption),
    /// `c`: stops the kernel with a message if false.
    Assert(String),
    /// `lo, hi, step, init..`: body parameters are counter and carried values; results the last ones.
    For,
    /// `init..`: the first yielded value says whether to continue; the others are the next carried values.
    While,
    /// `c`: two blocks; their yields are the results.
    If,
    /// `x..`: ends a block.
    Yield,
}

impl Op {
    /// Whether each element of the result depends only on the operands' elements at the same place.
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self,
            Self::Unary(_)
                | Self::Binary(_)
                | Self::Compare(_)
                | Self::Select
                | Self::Fma
                | Self::Cast
                | Self::ToIndex
        )
    }

    /// Whether it reads an array.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Load | Self::LoadGather { .. } | Self::LoadRuns(_))
    }

    /// Whether it makes an array: two that read the same are two arrays.
    pub fn is_allocation(&self) -> bool {
        matches!(self, Self::Workspace | Self::Shared { .. })
    }

    /// Whether it writes or updates an array.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Store
                | Self::Atomic(_)
                | Self::Arrive
                | Self::StoreScatter { .. }
                | Self::AtomicScatter { .. }
        )
    }

    /// The update of an atomic operation.
    pub fn atomic(&self) -> Option<AtomicOp> {
        match self {
            Self::Atomic(op) | Self::AtomicScatter { op, .. } => Some(*op),
            _ => None,
        }
    }

    /// Scope and order of an atomic operation.
    pub fn sync(&self) -> MemorySync {
        match self {
            Self::AtomicScatter { sync, .. } => *sync,
            _ => MemorySync::default(),
        }
    }

    /// Whether its block sees what other blocks did before they released what it finds.
    pub fn acquires(&self) -> bool {
        matches!(self, Self::Arrive) || self.sync().order.acquires()
    }

    /// Whether who acquires what it leaves sees what its block did before.
    pub fn releases(&self) -> bool {
        matches!(self, Self::Arrive) || self.sync().order.releases()
    }

    /// The operand that is written, updated by or counted to, of so many.
    pub fn written_operand(&self, operands: usize) -> Option<usize> {
        match self {
            Self::Store | Self::Atomic(_) | Self::Arrive => operands.checked_sub(1),
            Self::StoreScatter { masked } | Self::AtomicScatter { masked, .. } => {
                operands.checked_sub(1 + usize::from(*masked))
            }
            _ => None,
        }
    }

    /// The operand that is compared with what is there, of so many.
    pub fn expected_operand(&self, operands: usize) -> Option<usize> {
        match self.atomic() {
            Some(AtomicOp::CompareAndSwap) => self.written_operand(operands)?.checked_sub(1),
            _ => None,
        }
    }

    /// The operands of an access that are indices, of so many.
    pub fn indices(&self, operands: usize) -> Range<usize> {
        let written = self.expected_operand(operands).or(self.written_operand(operands));
        1..written.unwrap_or(operands - usize::from(self.is_masked())).max(1)
    }

    /// Of a load of runs of a view of this rank, with so many operands: the operands that are the starts of its runs.
    pub fn run_starts(&self, rank: usize, operands: usize) -> Option<Range<usize>> {
        let Self::LoadRuns(dim) = *self else { return None };
        let first = 1 + usize::from(dim);
        Some(first..(first + operands).saturating_sub(rank))
    }

    /// The write by tiles of indices, or under a mask, that is this one otherwise.
    pub(crate) fn scattered(self, old: bool, masked: bool, sync: MemorySync) -> Self {
        match self {
            Self::Atomic(op) => Self::AtomicScatter { op, old, masked, sync },
            _ => Self::StoreScatter { masked },
        }
    }

    /// Whether its last operand is a mask.
    pub fn is_masked(&self) -> bool {
        matches!(
            self,
            Self::LoadGather { masked: true }
                | Self::StoreScatter { masked: true }
                | Self::AtomicScatter { masked: true, .. }
        )
    }

    /// Whether it changes memory or has another effect, so that its order matters and it must not be removed.
    pub fn has_effect(&self) -> bool {
        self.is_write()
            || matches!(
                self,
                Self::AsyncCopy | Self::AsyncCommit | Self::AsyncWait(_) | Self::Print(_) | Self::Assert(_)
            )
    }
}
