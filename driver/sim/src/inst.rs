//! The decoded form of a program, as a warp executes it.
//!
//! An elementwise instruction is a scalar function over bits ([`LaneFn`]) with its modifiers; the
//! executor maps it over the active lanes. Everything that touches memory, other lanes or other
//! threads is a variant of its own.

use super::float::{Format, Round};

/// A value in each lane of a warp.
pub(crate) type Lanes = [u64; 32];
/// The function of an elementwise instruction on one lane's operands.
pub(crate) type LaneFn = fn(&[u64; 4], &Mods) -> u64;

/// Types as the instruction names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Pred,
    U(u8),
    S(u8),
    B(u8),
    F(Format),
    /// Two halves of a b32.
    F2(Format),
}

impl Ty {
    pub fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::U(b) | Self::S(b) | Self::B(b) => u32::from(b),
            Self::F(f) => f.width() + f.shift,
            Self::F2(f) => 2 * f.width(),
        }
    }

    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub fn signed(self) -> bool {
        matches!(self, Self::S(_))
    }
}

/// Modifiers that a lane function sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mods {
    pub ty: Ty,
    /// The other type of a conversion.
    pub from: Ty,
    pub round: Round,
    /// `.rni` and its kin: round to an integral value.
    pub integral: bool,
    pub ftz: bool,
    pub sat: bool,
    pub relu: bool,
    pub nan: bool,
    pub wide: bool,
    /// Free parameter of the family: a sub-operation or a table index.
    pub op: u32,
}

impl Default for Mods {
    fn default() -> Self {
        Self {
            ty: Ty::B(32),
            from: Ty::B(32),
            round: Round::Even,
            integral: false,
            ftz: false,
            sat: false,
            relu: false,
            nan: false,
            wide: false,
            op: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NWarpId,
    ClusterId(u8),
    NClusterId(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    SmId,
    NSmId,
    GridId,
    Clock,
    LaneMaskEq,
    LaneMaskLt,
    LaneMaskLe,
    LaneMaskGt,
    LaneMaskGe,
    DynamicSmemSize,
    TotalSmemSize,
    ActiveMask,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PredSrc {
    pub id: u32,
    pub neg: bool,
}

/// A predicate operand: a register or a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bool {
    Reg(PredSrc),
    Const(bool),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Src {
    Reg(u32),
    Imm(u64),
    Special(Special),
    /// Address of a shared variable: offset in the block's window.
    Shared(u32),
    /// Address of a global variable of the module: offset in their buffer.
    Variable(u64),
    /// Predicate as 0 or 1.
    Pred(PredSrc),
}

/// A destination register and the mask of its width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dst {
    pub reg: u32,
    pub mask: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Addr {
    pub base: Src,
    pub offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    SharedCluster,
    Param,
    Const,
    Local,
}

/// The role of a load or store in synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    Weak,
    /// Volatile, relaxed, acquire or release: does not race with its like.
    Strong,
}

/// The scope of a synchronization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Of the block.
    #[default]
    Cta,
    /// Of the block's cluster.
    Cluster,
    /// Of the device, and all beyond.
    Gpu,
}

impl Scope {
    /// From the narrowest to this one.
    pub fn up_to(self) -> impl Iterator<Item = Self> {
        [Self::Cta, Self::Cluster, Self::Gpu].into_iter().filter(move |s| *s <= self)
    }
}

/// The release and acquire semantics of a memory access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryOrder {
    pub acquire: bool,
    pub release: bool,
    pub scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exch,
    Cas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceKind {
    /// `fence.proxy.async*`.
    ProxyAsync,
    /// `fence.mbarrier_init.release.cluster`.
    MbarrierInit,
    /// `membar` and `fence.acq_rel`/`.sc`.
    Memory(Scope),
    /// A fence of a proxy that the simulator has no separate view of.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarMode {
    Sync,
    Arrive,
    Popc,
    And,
    Or,
}

/// Which side of a bulk copy a tensor map stands on.
#[derive(Clone, Debug)]
pub(crate) struct TensorOperand {
    pub map: Addr,
    pub coordinates: Vec<Src>,
}

/// Element of a matrix instruction's operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elem {
    Float(Format),
    S8,
    U8,
    S4,
    U4,
    B1,
}

impl Elem {
    pub fn bits(self) -> u32 {
        match self {
            Self::Float(f) => f.width() + f.shift,
            Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }
}

/// Accumulator of a matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acc {
    F32,
    F16,
    F64,
    S32,
}

#[derive(Clone, Debug)]
pub(crate) enum WgmmaA {
    Descriptor(Src),
    Registers([u32; 4]),
}

#[derive(Clone, Debug)]
pub(crate) struct Wgmma {
    pub n: u32,
    pub k: u32,
    pub acc: Acc,
    pub a: Elem,
    pub b: Elem,
    pub d: Vec<u32>,
    pub a_from: WgmmaA,
    pub b_desc: Src,
    pub scale_d: Bool,
    pub negate: (bool, bool),
    pub transpose: (bool, bool),
    pub satfinite: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Mma {
    pub k: u32,
    pub acc: Acc,
    pub a: Elem,
    pub b: Elem,
    pub d: Vec<Dst>,
    pub ra: Vec<Src>,
    pub rb: Vec<Src>,
    pub rc: Vec<Src>,
    pub satfinite: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Arrive {
    pub addr: Addr,
    pub cluster: bool,
    /// Bytes of `.expect_tx`.
    pub expect: Option<Src>,
    pub count: Src,
    pub state: Option<Dst>,
    /// Scope is the cluster.
    pub wide: bool,
    pub relaxed: bool,
    pub drop: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub addr: Addr,
    /// Parity, or the token of an arrive.
    pub phase: Src,
    pub parity: bool,
    /// `try_wait` may block.
    pub blocking: bool,
    pub wide: bool,
    pub relaxed: bool,
    pub d: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub space: Space,
    pub ty: Ty,
    pub d: Vec<Option<Dst>>,
    pub addr: Addr,
    pub strength: Strength,
    pub sync: MemoryOrder,
    /// `.nc`: of memory that nobody writes.
    pub read_only: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub space: Space,
    pub ty: Ty,
    pub s: Vec<Src>,
    pub addr: Addr,
    pub strength: Strength,
    pub sync: MemoryOrder,
}

#[derive(Clone, Debug)]
pub(crate) struct Atom {
    pub sync: MemoryOrder,
    pub space: Space,
    pub op: AtomOp,
    pub ty: Ty,
    pub d: Option<Dst>,
    pub addr: Addr,
    pub s: [Src; 2],
    /// Operands of the elements behind the first, of a vector.
    pub more: Vec<Src>,
}

/// A copy from global memory into shared memory that a mbarrier completes.
#[derive(Clone, Debug)]
pub(crate) struct BulkLoad {
    pub dst: Addr,
    pub from: BulkFrom,
    pub mbar: Addr,
    pub multicast: Option<Src>,
}

#[derive(Clone, Debug)]
pub(crate) enum BulkFrom {
    Global { addr: Addr, bytes: Src },
    Shared { addr: Addr, bytes: Src },
    Tensor(TensorOperand),
}

/// A copy (or reduction) out of shared memory that a bulk group completes.
#[derive(Clone, Debug)]
pub(crate) struct BulkStore {
    pub src: Addr,
    pub to: BulkTo,
    /// Operation of a reduction with its type (a tensor map brings its own).
    pub reduce: Option<(AtomOp, Option<Ty>)>,
}

#[derive(Clone, Debug)]
pub(crate) enum BulkTo {
    Global { addr: Addr, bytes: Src },
    Tensor(TensorOperand),
}

#[derive(Clone, Debug)]
pub(crate) enum Inst {
    /// No effect on the simulated state (hints, prefetches, debugging events).
    Nop,
    Lane {
        f: LaneFn,
        m: Mods,
        d: Dst,
        s: [Src; 4],
        n: u8,
    },
    SetP {
        f: LaneFn,
        m: Mods,
        d: [Option<u32>; 2],
        s: [Src; 2],
        combine: Option<(BoolOp, Bool)>,
    },
    PredMov {
        d: u32,
        s: Bool,
        neg: bool,
    },
    PredOp {
        d: u32,
        op: BoolOp,
        a: Bool,
        b: Bool,
    },
    Pack {
        d: Dst,
        parts: Vec<Src>,
        bits: u32,
    },
    Unpack {
        d: Vec<Option<Dst>>,
        s: Src,
        bits: u32,
    },
    /// `d = a * b + c + carry in` (or `a + b`, `a - b`), with the carry flag.
    Carry {
        f: fn([u64; 3], bool, u32) -> (u64, bool),
        bits: u32,
        d: Dst,
        s: [Src; 3],
        read: bool,
        write: bool,
    },
    Load(Box<Load>),
    Store(Box<Store>),
    Atom(Box<Atom>),
    Bra {
        target: u32,
        uniform: bool,
    },
    Exit,
    Trap,
    /// `vprintf`: offsets of the local variables that hold the addresses of the text and of its values.
    Print {
        text: u32,
        values: u32,
    },
    /// A number that is promised to be a multiple and in a range.
    Assume {
        s: Src,
        ty: Ty,
        multiple: i64,
        min: i64,
        max: i64,
    },
    Bar {
        id: Src,
        count: Option<Src>,
        mode: BarMode,
        aligned: bool,
        d: Option<Dst>,
        p: Option<Bool>,
        dp: Option<u32>,
    },
    WarpSync {
        mask: Src,
    },
    ClusterArrive {
        relaxed: bool,
        aligned: bool,
    },
    ClusterWait {
        aligned: bool,
    },
    Fence(FenceKind),
    MbarInit {
        addr: Addr,
        count: Src,
    },
    MbarInval {
        addr: Addr,
    },
    MbarArrive(Box<Arrive>),
    MbarExpect {
        addr: Addr,
        bytes: Src,
        complete: bool,
    },
    MbarWait(Box<Wait>),
    Elect {
        d: Option<Dst>,
        p: Option<u32>,
        mask: Src,
    },
    Shfl {
        mode: ShflMode,
        d: Dst,
        p: Option<u32>,
        a: Src,
        b: Src,
        c: Src,
        mask: Src,
    },
    Vote {
        mode: VoteMode,
        d: Option<Dst>,
        p: Option<u32>,
        a: Bool,
        mask: Src,
    },
    Match {
        all: bool,
        d: Dst,
        p: Option<u32>,
        a: Src,
        mask: Src,
    },
    Redux {
        op: AtomOp,
        signed: bool,
        d: Dst,
        a: Src,
        mask: Src,
    },
    LdMatrix {
        d: Vec<Dst>,
        addr: Addr,
        trans: bool,
    },
    StMatrix {
        s: Vec<Src>,
        addr: Addr,
        trans: bool,
    },
    MovMatrix {
        d: Dst,
        s: Src,
    },
    CpAsync {
        dst: Addr,
        src: Addr,
        bytes: u32,
        /// Bytes really read; the rest is zero.
        src_bytes: Option<Src>,
        ignore: Option<Bool>,
    },
    CpAsyncCommit,
    CpAsyncWait {
        /// Groups that may remain; `None` waits for all, committed or not.
        pending: Option<u32>,
    },
    CpAsyncArrive {
        addr: Addr,
        noinc: bool,
    },
    BulkLoad(Box<BulkLoad>),
    BulkStore(Box<BulkStore>),
    BulkCommit,
    BulkWait {
        pending: u32,
        read: bool,
    },
    PrefetchTensor {
        map: Addr,
    },
    GridWait,
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait(u32),
    Wgmma(Box<Wgmma>),
    Mma(Box<Mma>),
    SetMaxNReg {
        inc: bool,
        count: u32,
    },
}

/// One instruction in place.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub inst: Inst,
    pub guard: Option<PredSrc>,
    /// Instruction at which lanes that part here meet again.
    pub meet: u32,
}
