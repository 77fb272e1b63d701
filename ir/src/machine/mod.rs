//! Machine IR says HOW a kernel runs on Hopper.
//!
//! It is SSA over registers. One instruction is one row of the opcode table ([`crate::target`]), or that row repeated
//! over a fragment. One type, [`Func`], serves both levels:
//!
//! ```text
//!  structured   one program for the block in program order; For/If hold blocks; buffers are symbolic;
//!      |        asynchronous instructions yield EVENTS and `await` names them
//!    sched
//!      v
//!  scheduled    one Func per role, a control-flow graph with block parameters; every address is
//!               register + constant; no event is left
//! ```
//!
//! Invariant: no instruction touches a fragment that an asynchronous instruction writes before its event was awaited.

mod edit;
mod func;
mod schedule;
mod text;
mod verify;

pub use func::*;
pub use schedule::*;
use serde::{Deserialize, Serialize};
pub use text::{ParseError, parse_func, parse_program, parse_scheduled};
pub use verify::{MachineError, verify_scheduled, verify_structured};

use crate::target::Rates;
use crate::tile::Loc;
use cranelift_entity::entity_impl;
use smallvec::SmallVec;

/// A value: a scalar register, a predicate, a fragment or an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Value(u32);
entity_impl!(Value, "r");

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Inst(u32);
entity_impl!(Inst, "i");

/// A list of instructions with parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block(u32);
entity_impl!(Block, "b");

/// A region of shared memory, for one stage. `sched` decides the number of stages and their addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Buffer(u32);
entity_impl!(Buffer, "buf");

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// A predicate.
    Pred,
    /// A 16-bit register.
    B16,
    /// A 32-bit register.
    B32,
    /// A 64-bit register.
    B64,
    /// 32-bit registers in atoms. One hardware instruction names the registers of an atom together.
    Frag {
        /// 32-bit registers.
        regs: u16,
        /// Registers of one atom; divides `regs`.
        atom: u16,
    },
    /// Completion of an asynchronous instruction. It occupies no register.
    Event,
}

impl Ty {
    /// A fragment of one atom.
    pub fn frag(regs: u16) -> Self {
        Self::Frag { regs, atom: regs }
    }

    /// 32-bit registers that a value of this type occupies.
    pub fn regs(self) -> u32 {
        match self {
            Self::Pred | Self::Event => 0,
            Self::B16 | Self::B32 => 1,
            Self::B64 => 2,
            Self::Frag { regs, .. } => u32::from(regs),
        }
    }

    /// The type without its division into atoms. Registers can be passed between types whose whole types are equal.
    pub fn whole(self) -> Self {
        match self {
            Self::Frag { regs, .. } => Self::frag(regs),
            other => other,
        }
    }

    /// Whether this is a fragment.
    pub fn is_frag(self) -> bool {
        matches!(self, Self::Frag { .. })
    }
}

/// Which registers of an operand a repeated instruction reads at repetition `i`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexMap {
    /// A scalar operand, or the whole operand at once.
    Whole,
    /// Register `scale * i + offset`.
    Affine {
        /// Registers per repetition.
        scale: u16,
        /// First register.
        offset: u16,
    },
    /// Register `table[i]`.
    Table(Box<[u16]>),
}

impl IndexMap {
    /// Register `i` at repetition `i`.
    pub const EACH: Self = Self::Affine { scale: 1, offset: 0 };

    /// Registers of two atoms of a right operand that were read in the order of a left one's matrices: the two in the middle change
    /// places. It is its own inverse.
    pub const READ_AS_ROWS: [u16; 4] = [0, 2, 1, 3];

    /// The register read at repetition `i`, `None` for [`IndexMap::Whole`].
    pub fn at(&self, i: u16) -> Option<u16> {
        match self {
            Self::Whole => None,
            Self::Affine { scale, offset } => Some(scale * i + offset),
            Self::Table(t) => t.get(usize::from(i)).copied(),
        }
    }
}

/// A plain access to an array, in global memory or one that the text keeps in shared memory. Two accesses with the same
/// pointer and footprint touch the same bytes only in one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GlobalAccess {
    /// Number of the array: of the pointer argument, or of an array in shared memory, with [`GlobalAccess::IN_BLOCK`].
    pub pointer: u32,
    /// Number of the tile with the layout that gives its elements to threads.
    pub footprint: u32,
}

impl GlobalAccess {
    /// The footprint of what several threads touch: no access meets only its own thread's.
    pub const SHARED: u32 = 0;
    /// The footprint of a uniform read of memory that the program writes nowhere: every role may repeat it by itself, at
    /// any time.
    pub const FIXED: u32 = u32::MAX >> 1;
    /// Set in the footprint of an access by tiles of indices, or by indices that a loop moves by less than a tile: in another
    /// iteration other threads may touch the same.
    pub const SCATTERED: u32 = 1 << 31;

    /// Set in the number of an array in the block's shared memory.
    pub const IN_BLOCK: u32 = 1 << 31;

    /// Whether the array lies in the block's shared memory, where a tile finds what the tile before left.
    pub fn is_in_block(&self) -> bool {
        self.pointer & Self::IN_BLOCK != 0
    }

    /// Whether the data decides which thread touches what.
    pub fn is_scattered(self) -> bool {
        self.footprint & Self::SCATTERED != 0
    }
}

/// A place in a buffer: stage offset by `sched`, then bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Buffer.
    pub buffer: Buffer,
    /// Constant bytes from the stage's start.
    pub offset: u32,
}

/// A branch target with the values of its block parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCall<'a> {
    /// Target.
    pub block: Block,
    /// One value a parameter.
    pub args: &'a [Value],
}

/// A value that guards an instruction: it has no effect where the predicate is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate.
    pub pred: Value,
    /// Executed where the predicate is false instead.
    pub negated: bool,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstData<'a> {
    /// Row of the opcode table.
    pub op: crate::target::Opcode,
    /// Attributes of that row.
    pub attr: Attr,
    /// Operands; their meaning stands at the row.
    pub args: &'a [Value],
    /// Results.
    pub results: &'a [Value],
    /// The index maps of a repeated elementwise row, one for each operand. Empty: the row is not repeated.
    pub maps: SmallVec<[IndexMap; 3]>,
    /// Guard.
    pub guard: Option<Guard>,
    /// Nested blocks of structured instructions.
    pub blocks: SmallVec<[Block; 2]>,
    /// Targets of branches.
    pub targets: SmallVec<[BlockCall<'a>; 2]>,
    /// Place in the kernel's text.
    pub loc: Loc,
}

impl InstData<'_> {
    /// Whether it is a loop whose body says if another iteration follows ([`LoopAttr::conditional`]).
    pub fn is_conditional_loop(&self) -> bool {
        matches!(&self.attr, Attr::Loop(l) if l.conditional)
    }

    /// First value, end and step of a loop's counter. `None` for other rows, and for a conditional loop: its operands have
    /// the form of bounds and tell nothing of its iterations.
    pub fn loop_bounds(&self) -> Option<[Value; 3]> {
        match self.args {
            &[low, high, step, ..]
                if self.op == crate::target::Opcode::For && !self.is_conditional_loop() =>
            {
                Some([low, high, step])
            }
            _ => None,
        }
    }
}

/// Attributes beyond the opcode, by kind of row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attr {
    /// None.
    None,
    /// An immediate: constants, shift and lane masks, counts, barrier numbers.
    Imm(i64),
    /// Two immediates: barrier number and threads; start and stride.
    Imm2(i64, i64),
    /// A comparison.
    Cmp(crate::tile::CmpOp),
    /// A kernel parameter by its number.
    Param(u32),
    /// A memory access: constant byte offset and registers moved (1, 2, 4) of `bytes` each.
    Mem {
        /// Bytes added to the address.
        offset: i32,
        /// Registers.
        count: u8,
    },
    /// The same in an array, before `sched`.
    GlobalMem {
        /// Bytes added to the address.
        offset: i32,
        /// Registers.
        count: u8,
        /// Pointer and footprint of the access.
        access: GlobalAccess,
    },
    /// An atomic update of another scope or order than usual: relaxed, and of the GPU.
    Sync {
        /// Bytes added to the address.
        offset: i32,
        /// Registers.
        count: u8,
        /// Pointer and footprint of the access, before `sched`.
        access: Option<GlobalAccess>,
        /// Scope and order.
        sync: crate::tile::MemorySync,
    },
    /// A place in shared memory, before `sched`.
    Place(Place),
    /// Access to a place: the place, and registers moved.
    PlaceMem {
        /// Place.
        place: Place,
        /// Registers.
        count: u8,
    },
    /// Tensor product.
    Wgmma(Box<WgmmaAttr>),
    /// Tensor product of one step of K by warps.
    Mma(MmaAttr),
    /// Tensor copy.
    Tma(TmaAttr),
    /// Asynchronous copy of a thread.
    Copy(CopyAttr),
    /// `stmatrix`/`ldmatrix`: matrices moved, transposed, byte offset.
    Matrix {
        /// 8x8 matrices: 1, 2 or 4.
        count: u8,
        /// `.trans`.
        trans: bool,
        /// Byte offset.
        offset: i32,
        /// Buffer before `sched`.
        buffer: Option<Buffer>,
    },
    /// A promise about the operand, which is a number with a sign or without.
    Assume {
        /// The promise.
        promise: crate::tile::Assumption,
        /// Whether the number has a sign.
        signed: bool,
    },
    /// The text of a print, with a conversion for each operand: `%d`, `%u`, `%lld`, `%llu`, or `%g` for an f32.
    Print(String),
    /// A loop's name and its words of the mapping.
    Loop(Box<LoopAttr>),
}

/// An operand of wgmma in shared memory: the addresses within one stage of the buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SharedOperand {
    /// Buffer and constant byte offset.
    pub place: Place,
    /// Bytes from one warpgroup's part to the next (0 where all read the same).
    pub warpgroup_stride: u32,
    /// Bytes from one atom (64 rows of A, n columns of B) to the next.
    pub atom_stride: u32,
    /// Byte offsets of the k-steps.
    pub steps: SmallVec<[u32; 8]>,
    /// Descriptor's leading-dimension byte offset.
    pub leading: u32,
    /// Descriptor's stride-dimension byte offset.
    pub stride: u32,
    /// Swizzle span in bytes: 0, 32, 64, 128.
    pub swizzle: u32,
    /// Whether the contiguous dimension is M (or N) instead of K.
    pub mn_major: bool,
}

/// A whole tile product of one warpgroup: `wgmma` repeated over atoms of M, of N, and k-steps.
///
/// Order of operands: accumulator, `scale_d` predicate (false: the first k-step ignores the accumulator), [A fragment],
/// then in structured form events; in scheduled form the descriptors of A by (atom, step) if A is shared, then those of
/// B by (atom, step). Results: accumulator, tied to the operand; event (structured form).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaAttr {
    /// Columns of one instruction.
    pub n: u16,
    /// Element type of A.
    pub elem: crate::types::Elem,
    /// Element type of B: that of A, or another one of 8 bits.
    pub right: crate::types::Elem,
    /// Element type of the accumulator.
    pub acc: crate::types::Elem,
    /// Atoms along M for one warpgroup.
    pub m_atoms: u8,
    /// Atoms along N.
    pub n_atoms: u8,
    /// k-steps.
    pub k_steps: u8,
    /// Whether the product is subtracted: A is negated as it is read (floats only).
    pub negated: bool,
    /// A in shared memory; `None`: in registers.
    pub a: Option<SharedOperand>,
    /// B in shared memory.
    pub b: SharedOperand,
}

impl WgmmaAttr {
    /// Instructions that it stands for.
    pub fn instructions(&self) -> u32 {
        u32::from(self.m_atoms) * u32::from(self.n_atoms) * u32::from(self.k_steps)
    }

    /// Cycles that the tensor cores need for the tile product of one warpgroup.
    pub fn cycles(&self, rates: &Rates) -> f64 {
        f64::from(self.instructions()) * rates.product(self.n.into(), self.a.is_some())
    }
}

/// A product of one step of K by a warp: `mma.sync.m16n8k16` repeated over its atoms of M and N.
///
/// Operands: accumulator (registers of an atom, atoms of N, atoms of M), A (registers, atoms of M), B
/// (registers, atoms of N). Result: accumulator, which may lie where the operand does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaAttr {
    /// Element type of A and B.
    pub elem: crate::types::Elem,
    /// Element type of the accumulator.
    pub acc: crate::types::Elem,
    /// Atoms along M.
    pub m_atoms: u8,
    /// Atoms along N.
    pub n_atoms: u8,
}

/// A tensor copy between global memory and one stage of a buffer.
///
/// Load, structured: coordinates (innermost first) -> event. Store: coordinates -> event.
/// Load, scheduled: shared address, barrier address, coordinates; store: shared address, coordinates.
/// A bulk load has no map and rank 0. Its only coordinate is a global address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TmaAttr {
    /// Parameter number of the tensor map.
    pub map: u32,
    /// Dimensions of the map.
    pub rank: u8,
    /// Bytes that one copy moves.
    pub bytes: u32,
    /// Place, before `sched`.
    pub place: Option<Place>,
    /// Mask of the cluster's blocks that receive the copy; 0: only this block.
    pub multicast: u16,
    /// L2 policy.
    pub hint: CacheHint,
    /// Whether it may run before the grids that this grid depends on have ended.
    pub before_wait: bool,
}

/// `cp.async`: a copy of one thread from global memory to one stage of a buffer.
///
/// Operands: byte offset in the stage (the shared address once scheduled), global address, bytes to read. The rest of the
/// copy is filled with zeros. Result, structured: event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyAttr {
    /// Bytes that one copy writes: 4, 8 or 16.
    pub bytes: u8,
    /// Bytes added to the global address.
    pub source: i32,
    /// Place, before `sched`.
    pub place: Option<Place>,
    /// Bytes added to the shared address.
    pub offset: i32,
}

/// L2 eviction policy of a bulk copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CacheHint {
    /// None given.
    #[default]
    Normal,
    /// Evict first: streamed data.
    First,
    /// Evict last: data that others reread.
    Last,
}

/// A structured loop. Operands: low, high, step, initial carried values. Body parameters: counter,
/// carried values. Results: last carried values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopAttr {
    /// Name of its counter, for `explain`.
    pub name: String,
    /// Requested depth of the rings.
    pub depth: Option<u32>,
    /// Producer warpgroups.
    pub producers: u32,
    /// Tensor groups left in flight at the end of an iteration, if the mapping says it.
    pub wait: Option<u32>,
    /// Whether warpgroups take turns at the tensor cores. The mapping decides, else the modulo scheduler.
    pub mma_order: Option<bool>,
    /// Whether it is the loop over the tiles of a persistent kernel.
    pub persistent: bool,
    /// The parameter that holds the address of a tile counter in memory. The index of the next iteration is then
    /// `step + atom.inc(counter, high - 1)` instead of `index + step`: each iteration of each program draws once, and the
    /// tile counter wraps to zero behind `high - 1`.
    pub counter: Option<u32>,
    /// Upper bound on the iterations, if the signature gives one.
    pub most: Option<u32>,
    /// Whether the modulo scheduler rotated it. Its awaits then stand where products must have completed, not where their
    /// results are first used.
    pub overlapped: bool,
    /// Whether data decides on the iterations: the first carried value is a predicate, and another iteration follows
    /// where the body yields true. There is at least one. The bounds and the counter have no meaning.
    pub conditional: bool,
}
