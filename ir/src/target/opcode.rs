//! The definitions of the instructions of machine IR. They are the same on every chip.
//!
//! ```text
//!  definition (here)     name, operands, results, effect, least architecture     part of the IR
//!  row ([`super::Row`])  unit, cycles, PTX, SASS                                 one chip's implementation
//! ```
//!
//! Least architecture: PTX ISA, chapter 9, "Target ISA Notes" by instruction; `sm_10`: any.

use super::{Arch, Class, Class::*, Effect};

/// A line of the table of definitions.
struct Definition {
    name: &'static str,
    args: &'static [Class],
    results: &'static [Class],
    effect: Effect,
    least: Arch,
}

macro_rules! opcodes {
    ($($op:ident $name:literal $args:expr, $results:expr, $effect:ident $least:literal;)*) => {
        /// An instruction of machine IR.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Opcode {
            $(#[doc = concat!("`", $name, "`, from ", $least, " on.")] $op,)*
        }

        /// Accesses of global memory, each with the same access of shared memory.
const IN_SHARED: [(Opcode, Opcode); 34] = {
    use Opcode::*;
    [
        (LdGlobal8, LdShared8),
        (LdGlobal16, LdShared16),
        (LdGlobal, LdShared),
        (StGlobal8, StShared8),
        (StGlobal16, StShared16),
        (StGlobal, StShared),
        (RedGlobalAddF32, RedSharedAddF32),
        (RedGlobalAddS32, RedSharedAddS32),
        (RedGlobalMinS32, RedSharedMinS32),
        (RedGlobalMaxS32, RedSharedMaxS32),
        (RedGlobalMinU32, RedSharedMinU32),
        (RedGlobalMaxU32, RedSharedMaxU32),
        (RedGlobalAddF16, RedSharedAddF16),
        (RedGlobalAddBf16, RedSharedAddBf16),
        (RedGlobalAddF16x2, RedSharedAddF16x2),
        (RedGlobalAddBf16x2, RedSharedAddBf16x2),
        (AtomAddU32, AtomSharedAddU32),
        (AtomAddF32, AtomSharedAddF32),
        (AtomMinS32, AtomSharedMinS32),
        (AtomMaxS32, AtomSharedMaxS32),
        (AtomMinU32, AtomSharedMinU32),
        (AtomMaxU32, AtomSharedMaxU32),
        (AtomExchB32, AtomSharedExchB32),
        (AtomCasB32, AtomSharedCasB32),
        (AtomCasB16, AtomSharedCasB16),
        (AtomAddF16, AtomSharedAddF16),
        (AtomAddBf16, AtomSharedAddBf16),
        (AtomAddU64, AtomSharedAddU64),
        (AtomMinS64, AtomSharedMinS64),
        (AtomMaxS64, AtomSharedMaxS64),
        (AtomMinU64, AtomSharedMinU64),
        (AtomMaxU64, AtomSharedMaxU64),
        (AtomExchB64, AtomSharedExchB64),
        (AtomCasB64, AtomSharedCasB64),
    ]
};

impl Opcode {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$op,)*];
            /// Their number.
            pub const COUNT: usize = Self::ALL.len();
        }

        /// In the order of [`Opcode`].
        static DEFINITIONS: [Definition; Opcode::COUNT] = [
            $(Definition {
                name: $name, args: $args, results: $results, effect: Effect::$effect, least: Arch::new($least),
            },)*
        ];
    };
}

#[rustfmt::skip]
opcodes! {
    Const "const" &[], &[Any], Pure "sm_10";
    Undef "undef" &[], &[Any], Pure "sm_10";
    Join "join" &[Any], &[Any], Pure "sm_10";
    Slice "slice" &[Any], &[Any], Pure "sm_10";
    Pick "pick" &[Any], &[Any], Pure "sm_10";
    Await "await" &[Any], &[], Order "sm_10";
    For "for" &[Any], &[Any], Order "sm_10";
    If "if" &[Pred], &[Any], Order "sm_10";
    Yield "yield" &[Any], &[], Order "sm_10";
    Br "br" &[], &[], Order "sm_10";
    BrIf "br_if" &[Pred], &[], Order "sm_10";
    Ret "ret" &[], &[], Order "sm_10";
    Mov "mov" &[B32], &[B32], Pure "sm_10";
    MovPred "mov.pred" &[Pred], &[Pred], Pure "sm_10";
    LikelyPred "likely.pred" &[Pred], &[Pred], Pure "sm_10";
    UnlikelyPred "unlikely.pred" &[Pred], &[Pred], Pure "sm_10";
    Mov64 "mov.b64" &[B64], &[B64], Pure "sm_10";
    Assume "assume" &[B32], &[B32], Pure "sm_10";
    Assume64 "assume.b64" &[B64], &[B64], Pure "sm_10";
    Pack64 "pack64" &[B32, B32], &[B64], Pure "sm_10";
    Pack16 "pack16" &[B16, B16], &[B32], Pure "sm_10";
    Low16 "low16" &[B32], &[B16], Pure "sm_10";
    TeamIndex "team.index" &[], &[B32], Pure "sm_10";
    Tid "tid.x" &[], &[B32], Pure "sm_10";
    CtaidX "ctaid.x" &[], &[B32], Pure "sm_10";
    CtaidY "ctaid.y" &[], &[B32], Pure "sm_10";
    CtaidZ "ctaid.z" &[], &[B32], Pure "sm_10";
    NctaidX "nctaid.x" &[], &[B32], Pure "sm_10";
    NctaidY "nctaid.y" &[], &[B32], Pure "sm_10";
    NctaidZ "nctaid.z" &[], &[B32], Pure "sm_10";
    Laneid "laneid" &[], &[B32], Pure "sm_10";
    ClusterRank "cluster_ctarank" &[], &[B32], Pure "sm_90";
    ClusterId "clusterid.x" &[], &[B32], Pure "sm_90";
    ClusterCount "nclusterid.x" &[], &[B32], Pure "sm_90";
    LdParam32 "ld.param.b32" &[], &[B32], Pure "sm_10";
    LdParam16 "ld.param.b16" &[], &[B32], Pure "sm_10";
    LdParam64 "ld.param.b64" &[], &[B64], Pure "sm_10";
    ParamAddr "param.addr" &[], &[B64], Pure "sm_20";
    SharedBase "shared.base" &[], &[B32], Pure "sm_10";
    ArrayBase "array.base" &[], &[B32], Pure "sm_10";
    ToGlobal "cvta.to.global" &[B64], &[B64], Pure "sm_20";
    Uniform "uniform" &[B32], &[B32], Pure "sm_30";
    AddS32 "add.s32" &[B32, B32], &[B32], Pure "sm_10";
    SubS32 "sub.s32" &[B32, B32], &[B32], Pure "sm_10";
    MulS32 "mul.lo.s32" &[B32, B32], &[B32], Pure "sm_10";
    DivS32 "div.s32" &[B32, B32], &[B32], Pure "sm_10";
    DivU32 "div.u32" &[B32, B32], &[B32], Pure "sm_10";
    RemS32 "rem.s32" &[B32, B32], &[B32], Pure "sm_10";
    RemU32 "rem.u32" &[B32, B32], &[B32], Pure "sm_10";
    MinS32 "min.s32" &[B32, B32], &[B32], Pure "sm_10";
    MaxS32 "max.s32" &[B32, B32], &[B32], Pure "sm_10";
    MinU32 "min.u32" &[B32, B32], &[B32], Pure "sm_10";
    MaxU32 "max.u32" &[B32, B32], &[B32], Pure "sm_10";
    And "and.b32" &[B32, B32], &[B32], Pure "sm_10";
    Or "or.b32" &[B32, B32], &[B32], Pure "sm_10";
    Xor "xor.b32" &[B32, B32], &[B32], Pure "sm_10";
    Shl "shl.b32" &[B32, B32], &[B32], Pure "sm_10";
    ShrS32 "shr.s32" &[B32, B32], &[B32], Pure "sm_10";
    ShrU32 "shr.u32" &[B32, B32], &[B32], Pure "sm_10";
    MadS32 "mad.lo.s32" &[B32, B32, B32], &[B32], Pure "sm_10";
    MulHiU32 "mul.hi.u32" &[B32, B32], &[B32], Pure "sm_10";
    MulHiS32 "mul.hi.s32" &[B32, B32], &[B32], Pure "sm_10";
    Lop3 "lop3.b32" &[B32, B32, B32], &[B32], Pure "sm_50";
    FunnelR "shf.r.clamp.b32" &[B32, B32, B32], &[B32], Pure "sm_32";
    NegS32 "neg.s32" &[B32], &[B32], Pure "sm_10";
    AbsS32 "abs.s32" &[B32], &[B32], Pure "sm_10";
    Not "not.b32" &[B32], &[B32], Pure "sm_10";
    Selp "selp.b32" &[B32, B32, Pred], &[B32], Pure "sm_10";
    Selp64 "selp.b64" &[B64, B64, Pred], &[B64], Pure "sm_10";
    SetpS32 "setp.s32" &[B32, B32], &[Pred], Pure "sm_10";
    SetpU32 "setp.u32" &[B32, B32], &[Pred], Pure "sm_10";
    SetpF32 "setp.f32" &[B32, B32], &[Pred], Pure "sm_10";
    SetS32 "set.s32" &[B32, B32], &[B32], Pure "sm_10";
    SetU32 "set.u32" &[B32, B32], &[B32], Pure "sm_10";
    SetF32 "set.f32" &[B32, B32], &[B32], Pure "sm_10";
    SelectMask "select.mask" &[B32, B32, B32], &[B32], Pure "sm_10";
    SelectS32 "select.s32" &[B32, B32, B32, B32], &[B32], Pure "sm_10";
    SelectSumS32 "select_sum.s32" &[B32, B32, B32, B32, B32], &[B32], Pure "sm_10";
    SelectDiffS32 "select_diff.s32" &[B32, B32, B32, B32, B32], &[B32], Pure "sm_10";
    SelectU32 "select.u32" &[B32, B32, B32, B32], &[B32], Pure "sm_10";
    SelectF32 "select.f32" &[B32, B32, B32, B32], &[B32], Pure "sm_10";
    SetpS64 "setp.s64" &[B64, B64], &[Pred], Pure "sm_10";
    AndPred "and.pred" &[Pred, Pred], &[Pred], Pure "sm_10";
    OrPred "or.pred" &[Pred, Pred], &[Pred], Pure "sm_10";
    XorPred "xor.pred" &[Pred, Pred], &[Pred], Pure "sm_10";
    NotPred "not.pred" &[Pred], &[Pred], Pure "sm_10";
    AddS64 "add.s64" &[B64, B64], &[B64], Pure "sm_10";
    SubS64 "sub.s64" &[B64, B64], &[B64], Pure "sm_10";
    MulS64 "mul.lo.s64" &[B64, B64], &[B64], Pure "sm_10";
    MinS64 "min.s64" &[B64, B64], &[B64], Pure "sm_10";
    MaxS64 "max.s64" &[B64, B64], &[B64], Pure "sm_10";
    And64 "and.b64" &[B64, B64], &[B64], Pure "sm_10";
    Or64 "or.b64" &[B64, B64], &[B64], Pure "sm_10";
    MulWideS32 "mul.wide.s32" &[B32, B32], &[B64], Pure "sm_10";
    MadWideS32 "mad.wide.s32" &[B32, B32, B64], &[B64], Pure "sm_10";
    WidenS32 "cvt.s64.s32" &[B32], &[B64], Pure "sm_10";
    WidenU32 "cvt.u64.u32" &[B32], &[B64], Pure "sm_10";
    Narrow64 "cvt.u32.u64" &[B64], &[B32], Pure "sm_10";
    High64 "high64" &[B64], &[B32], Pure "sm_10";
    AddF32 "add.f32" &[B32, B32], &[B32], Pure "sm_10";
    SubF32 "sub.f32" &[B32, B32], &[B32], Pure "sm_10";
    MulF32 "mul.f32" &[B32, B32], &[B32], Pure "sm_10";
    MinF32 "min.f32" &[B32, B32], &[B32], Pure "sm_10";
    MaxF32 "max.f32" &[B32, B32], &[B32], Pure "sm_10";
    DivF32 "div.f32" &[B32, B32], &[B32], Pure "sm_10";
    DivFullF32 "div.full.f32" &[B32, B32], &[B32], Pure "sm_10";
    FmaF32 "fma.f32" &[B32, B32, B32], &[B32], Pure "sm_10";
    NegF32 "neg.f32" &[B32], &[B32], Pure "sm_10";
    AbsF32 "abs.f32" &[B32], &[B32], Pure "sm_10";
    Ex2F32 "ex2.approx.ftz.f32" &[B32], &[B32], Pure "sm_10";
    Lg2F32 "lg2.approx.f32" &[B32], &[B32], Pure "sm_10";
    RsqrtF32 "rsqrt.approx.f32" &[B32], &[B32], Pure "sm_10";
    SinF32 "sin.approx.f32" &[B32], &[B32], Pure "sm_10";
    CosF32 "cos.approx.f32" &[B32], &[B32], Pure "sm_10";
    TanhF32 "tanh.approx.f32" &[B32], &[B32], Pure "sm_75";
    SqrtF32 "sqrt.rn.f32" &[B32], &[B32], Pure "sm_10";
    RcpF32 "rcp.rn.f32" &[B32], &[B32], Pure "sm_10";
    AddF16x2 "add.f16x2" &[B32, B32], &[B32], Pure "sm_53";
    SubF16x2 "sub.f16x2" &[B32, B32], &[B32], Pure "sm_53";
    MulF16x2 "mul.f16x2" &[B32, B32], &[B32], Pure "sm_53";
    FmaF16x2 "fma.f16x2" &[B32, B32, B32], &[B32], Pure "sm_53";
    MinF16x2 "min.f16x2" &[B32, B32], &[B32], Pure "sm_80";
    MaxF16x2 "max.f16x2" &[B32, B32], &[B32], Pure "sm_80";
    NegF16x2 "neg.f16x2" &[B32], &[B32], Pure "sm_53";
    AbsF16x2 "abs.f16x2" &[B32], &[B32], Pure "sm_53";
    AddBf16x2 "add.bf16x2" &[B32, B32], &[B32], Pure "sm_90";
    SubBf16x2 "sub.bf16x2" &[B32, B32], &[B32], Pure "sm_90";
    MulBf16x2 "mul.bf16x2" &[B32, B32], &[B32], Pure "sm_90";
    FmaBf16x2 "fma.bf16x2" &[B32, B32, B32], &[B32], Pure "sm_80";
    MinBf16x2 "min.bf16x2" &[B32, B32], &[B32], Pure "sm_80";
    MaxBf16x2 "max.bf16x2" &[B32, B32], &[B32], Pure "sm_80";
    NegBf16x2 "neg.bf16x2" &[B32], &[B32], Pure "sm_80";
    AbsBf16x2 "abs.bf16x2" &[B32], &[B32], Pure "sm_80";
    PackF16 "cvt.f16x2.f32" &[B32, B32], &[B32], Pure "sm_80";
    PackBf16 "cvt.bf16x2.f32" &[B32, B32], &[B32], Pure "sm_80";
    LowF16 "low.f16" &[B32], &[B32], Pure "sm_53";
    HighF16 "high.f16" &[B32], &[B32], Pure "sm_53";
    LowBf16 "low.bf16" &[B32], &[B32], Pure "sm_10";
    HighBf16 "high.bf16" &[B32], &[B32], Pure "sm_10";
    F32FromS32 "cvt.f32.s32" &[B32], &[B32], Pure "sm_10";
    F32FromU32 "cvt.f32.u32" &[B32], &[B32], Pure "sm_10";
    F32FromS64 "cvt.f32.s64" &[B64], &[B32], Pure "sm_13";
    F32FromU64 "cvt.f32.u64" &[B64], &[B32], Pure "sm_13";
    LowE4m3 "low.e4m3x2" &[B32], &[B32], Pure "sm_89";
    HighE4m3 "high.e4m3x2" &[B32], &[B32], Pure "sm_89";
    PackE4m3 "cvt.e4m3x2.f32" &[B32, B32], &[B32], Pure "sm_89";
    PackE5m2 "cvt.e5m2x2.f32" &[B32, B32], &[B32], Pure "sm_89";
    S32FromF32 "cvt.s32.f32" &[B32], &[B32], Pure "sm_10";
    U32FromF32 "cvt.u32.f32" &[B32], &[B32], Pure "sm_10";
    LdGlobal8 "ld.global.u8" &[B64], &[B32], Read "sm_10";
    LdGlobal16 "ld.global.b16" &[B64], &[B32], Read "sm_10";
    LdGlobal "ld.global" &[B64], &[Any], Read "sm_10";
    LdGlobal64 "ld.global.b64" &[B64], &[B64], Read "sm_10";
    LdShared8 "ld.shared.u8" &[B32], &[B32], Read "sm_10";
    LdShared16 "ld.shared.b16" &[B32], &[B32], Read "sm_10";
    LdShared "ld.shared" &[B32], &[Any], Read "sm_10";
    StGlobal8 "st.global.u8" &[B64, B32], &[], Write "sm_10";
    StGlobal16 "st.global.b16" &[B64, B32], &[], Write "sm_10";
    StGlobal "st.global" &[B64, Any], &[], Write "sm_10";
    StShared8 "st.shared.u8" &[B32, B32], &[], Write "sm_10";
    StShared16 "st.shared.b16" &[B32, B32], &[], Write "sm_10";
    StShared "st.shared" &[B32, Any], &[], Write "sm_10";
    StRemote8 "st.shared.remote.u8" &[B32, B32], &[], Write "sm_90";
    StRemote16 "st.shared.remote.b16" &[B32, B32], &[], Write "sm_90";
    StRemote "st.shared.remote" &[B32, Any], &[], Write "sm_90";
    Stmatrix "stmatrix" &[B32, Any], &[], Write "sm_90";
    Ldmatrix "ldmatrix" &[B32], &[Any], Read "sm_75";
    MmaSync "mma.sync" &[Any, Any, Any], &[Any], Pure "sm_80";
    CpAsync "cp.async" &[B32, B64, B32], &[], Order "sm_80";
    CpAsyncCommit "cp.async.commit" &[], &[], Order "sm_80";
    CpAsyncWait "cp.async.wait" &[], &[], Order "sm_80";
    Prmt "prmt.b32" &[B32, B32, B32], &[B32], Pure "sm_20";
    ShflBfly "shfl.bfly" &[B32], &[B32], Pure "sm_30";
    ShflIdx "shfl.idx" &[B32, B32], &[B32], Pure "sm_30";
    RedGlobalAddF32 "red.add.f32" &[B64, Any], &[], Write "sm_90";
    RedGlobalAddS32 "red.add.s32" &[B64, B32], &[], Write "sm_10";
    RedGlobalMinS32 "red.min.s32" &[B64, B32], &[], Write "sm_10";
    RedGlobalMaxS32 "red.max.s32" &[B64, B32], &[], Write "sm_10";
    RedGlobalMinU32 "red.min.u32" &[B64, B32], &[], Write "sm_10";
    RedGlobalMaxU32 "red.max.u32" &[B64, B32], &[], Write "sm_10";
    RedGlobalAddF16 "red.add.f16" &[B64, B16], &[], Write "sm_70";
    RedGlobalAddBf16 "red.add.bf16" &[B64, B16], &[], Write "sm_90";
    RedGlobalAddF16x2 "red.add.f16x2" &[B64, Any], &[], Write "sm_90";
    RedGlobalAddBf16x2 "red.add.bf16x2" &[B64, Any], &[], Write "sm_90";
    RedSharedAddF32 "red.shared.add.f32" &[B32, B32], &[], Write "sm_20";
    RedSharedAddS32 "red.shared.add.s32" &[B32, B32], &[], Write "sm_12";
    RedSharedMinS32 "red.shared.min.s32" &[B32, B32], &[], Write "sm_12";
    RedSharedMaxS32 "red.shared.max.s32" &[B32, B32], &[], Write "sm_12";
    RedSharedMinU32 "red.shared.min.u32" &[B32, B32], &[], Write "sm_12";
    RedSharedMaxU32 "red.shared.max.u32" &[B32, B32], &[], Write "sm_12";
    RedSharedAddF16 "red.shared.add.f16" &[B32, B16], &[], Write "sm_70";
    RedSharedAddBf16 "red.shared.add.bf16" &[B32, B16], &[], Write "sm_90";
    RedSharedAddF16x2 "red.shared.add.f16x2" &[B32, B32], &[], Write "sm_60";
    RedSharedAddBf16x2 "red.shared.add.bf16x2" &[B32, B32], &[], Write "sm_90";
    AtomAddU32 "atom.add.u32" &[B64, B32], &[B32], Order "sm_10";
    AtomIncU32 "atom.inc.acq_rel.u32" &[B64, B32], &[B32], Order "sm_70";
    AtomIncRelaxedU32 "atom.inc.u32" &[B64, B32], &[B32], Order "sm_20";
    AtomAddF32 "atom.add.f32" &[B64, B32], &[B32], Order "sm_20";
    AtomMinS32 "atom.min.s32" &[B64, B32], &[B32], Order "sm_10";
    AtomMaxS32 "atom.max.s32" &[B64, B32], &[B32], Order "sm_10";
    AtomMinU32 "atom.min.u32" &[B64, B32], &[B32], Order "sm_10";
    AtomMaxU32 "atom.max.u32" &[B64, B32], &[B32], Order "sm_10";
    AtomExchB32 "atom.exch.b32" &[B64, B32], &[B32], Order "sm_10";
    AtomCasB32 "atom.cas.b32" &[B64, B32, B32], &[B32], Order "sm_10";
    AtomCasB16 "atom.cas.b16" &[B64, B16, B16], &[B16], Order "sm_70";
    AtomAddF16 "atom.add.f16" &[B64, B16], &[B16], Order "sm_70";
    AtomAddBf16 "atom.add.bf16" &[B64, B16], &[B16], Order "sm_90";
    AtomAddU64 "atom.add.u64" &[B64, B64], &[B64], Order "sm_20";
    AtomMinS64 "atom.min.s64" &[B64, B64], &[B64], Order "sm_32";
    AtomMaxS64 "atom.max.s64" &[B64, B64], &[B64], Order "sm_32";
    AtomMinU64 "atom.min.u64" &[B64, B64], &[B64], Order "sm_32";
    AtomMaxU64 "atom.max.u64" &[B64, B64], &[B64], Order "sm_32";
    AtomExchB64 "atom.exch.b64" &[B64, B64], &[B64], Order "sm_20";
    AtomCasB64 "atom.cas.b64" &[B64, B64, B64], &[B64], Order "sm_20";
    AtomSharedAddU32 "atom.shared.add.u32" &[B32, B32], &[B32], Order "sm_12";
    AtomSharedAddF32 "atom.shared.add.f32" &[B32, B32], &[B32], Order "sm_20";
    AtomSharedMinS32 "atom.shared.min.s32" &[B32, B32], &[B32], Order "sm_12";
    AtomSharedMaxS32 "atom.shared.max.s32" &[B32, B32], &[B32], Order "sm_12";
    AtomSharedMinU32 "atom.shared.min.u32" &[B32, B32], &[B32], Order "sm_12";
    AtomSharedMaxU32 "atom.shared.max.u32" &[B32, B32], &[B32], Order "sm_12";
    AtomSharedExchB32 "atom.shared.exch.b32" &[B32, B32], &[B32], Order "sm_12";
    AtomSharedCasB32 "atom.shared.cas.b32" &[B32, B32, B32], &[B32], Order "sm_12";
    AtomSharedCasB16 "atom.shared.cas.b16" &[B32, B16, B16], &[B16], Order "sm_70";
    AtomSharedAddF16 "atom.shared.add.f16" &[B32, B16], &[B16], Order "sm_70";
    AtomSharedAddBf16 "atom.shared.add.bf16" &[B32, B16], &[B16], Order "sm_90";
    AtomSharedAddU64 "atom.shared.add.u64" &[B32, B64], &[B64], Order "sm_20";
    AtomSharedMinS64 "atom.shared.min.s64" &[B32, B64], &[B64], Order "sm_32";
    AtomSharedMaxS64 "atom.shared.max.s64" &[B32, B64], &[B64], Order "sm_32";
    AtomSharedMinU64 "atom.shared.min.u64" &[B32, B64], &[B64], Order "sm_32";
    AtomSharedMaxU64 "atom.shared.max.u64" &[B32, B64], &[B64], Order "sm_32";
    AtomSharedExchB64 "atom.shared.exch.b64" &[B32, B64], &[B64], Order "sm_20";
    AtomSharedCasB64 "atom.shared.cas.b64" &[B32, B64, B64], &[B64], Order "sm_20";
    Wgmma "wgmma" &[Any], &[Any], Order "sm_90a";
    WgmmaFence "wgmma.fence" &[], &[], Order "sm_90a";
    WgmmaCommit "wgmma.commit" &[], &[], Order "sm_90a";
    WgmmaWait "wgmma.wait" &[], &[], Order "sm_90a";
    TmaLoad "tma.load" &[Any], &[], Order "sm_90";
    BulkLoad "bulk.load" &[Any], &[], Order "sm_90";
    TmaStore "tma.store" &[Any], &[], Order "sm_90";
    BulkCommit "bulk.commit" &[], &[], Order "sm_90";
    BulkWaitRead "bulk.wait.read" &[], &[], Order "sm_90";
    BulkWait "bulk.wait" &[], &[], Order "sm_90";
    FenceProxyAsync "fence.proxy.async" &[], &[], Order "sm_90";
    PrefetchMap "prefetch.tensormap" &[B64], &[], Order "sm_90";
    MbarInit "mbarrier.init" &[B32], &[], Order "sm_80";
    MbarArrive "mbarrier.arrive" &[B32], &[], Order "sm_80";
    MbarArriveRemote "mbarrier.arrive.remote" &[B32], &[], Order "sm_90";
    MbarExpectTx "mbarrier.expect_tx" &[B32], &[], Order "sm_90";
    MbarWait "mbarrier.wait" &[B32, B32], &[], Order "sm_90";
    FenceMbarInit "fence.mbarrier_init" &[], &[], Order "sm_90";
    Mapa "mapa" &[B32, B32], &[B32], Pure "sm_90";
    BarSync "bar.sync" &[], &[], Order "sm_10";
    BarWarpSync "bar.warp.sync" &[], &[], Order "sm_30";
    ClusterArrive "barrier.cluster.arrive" &[], &[], Order "sm_90";
    ClusterWait "barrier.cluster.wait" &[], &[], Order "sm_90";
    SetmaxnregInc "setmaxnreg.inc" &[], &[], Order "sm_90a";
    SetmaxnregDec "setmaxnreg.dec" &[], &[], Order "sm_90a";
    Elect "elect" &[], &[Pred], Order "sm_90";
    GriddepWait "griddepcontrol.wait" &[], &[], Order "sm_90";
    GriddepLaunch "griddepcontrol.launch" &[], &[], Order "sm_90";
    Pmevent "pmevent" &[], &[], Order "sm_10";
    Trap "trap" &[], &[], Order "sm_10";
    Printf "printf" &[Any], &[], Order "sm_20";
    Clock64 "clock64" &[], &[B64], Order "sm_20";
    ReduxAddS32 "redux.add.s32" &[B32], &[B32], Pure "sm_80";
    ReduxMaxS32 "redux.max.s32" &[B32], &[B32], Pure "sm_80";
    ReduxOr "redux.or.b32" &[B32], &[B32], Pure "sm_80";
    BarArrive "bar.arrive" &[], &[], Order "sm_10";
}

impl Opcode {
    fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    /// Name in dumps.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// Classes of its operands.
    pub fn args(self) -> &'static [Class] {
        self.definition().args
    }

    /// Classes of its results.
    pub fn results(self) -> &'static [Class] {
        self.definition().results
    }

    /// Its effect on memory and shared state.
    pub fn effect(self) -> Effect {
        self.definition().effect
    }

    /// Least architecture that runs it.
    pub fn least(self) -> Arch {
        self.definition().least
    }

    /// The instruction with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// Whether passes may clone, merge, move and drop it.
    pub fn is_pure(self) -> bool {
        self.effect() == Effect::Pure
    }

    /// Whether it stays though nothing reads its results: it has an effect, or is a promise that the simulator checks.
    pub fn stays(self) -> bool {
        !self.is_pure() || matches!(self, Self::Assume | Self::Assume64)
    }

    /// Whether it loads from global memory to registers.
    pub fn is_global_load(self) -> bool {
        matches!(self, Self::LdGlobal | Self::LdGlobal8 | Self::LdGlobal16 | Self::LdGlobal64)
    }

    /// The same access to an array in the block's shared memory, whose address has 32 bits. Not all that access global
    /// memory have one.
    pub fn in_shared(self) -> Option<Self> {
        IN_SHARED.iter().find(|pair| pair.0 == self).map(|pair| pair.1)
    }

    /// The access of global memory that [`Opcode::in_shared`] makes this one of.
    pub fn in_global(self) -> Option<Self> {
        IN_SHARED.iter().find(|pair| pair.1 == self).map(|pair| pair.0)
    }

    /// Whether it is a copy into shared memory that completes on a barrier.
    pub fn is_async_load(self) -> bool {
        matches!(self, Self::TmaLoad | Self::BulkLoad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_opcode() {
        for &op in Opcode::ALL {
            assert_eq!(Opcode::from_name(op.name()), Some(op), "{op:?}");
        }
    }
}
