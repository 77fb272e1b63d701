//! The rows of `sm_90a`.
//!
//! Latency and interval in cycles as they stand here are the architecture's usual figures, by hand. Where
//! the driver's microbenchmarks have measured a row, their figure (module `sm90a_cycles`) replaces the
//! line's; [`Row::latency`], [`Row::interval`] and [`Row::source`] give what holds.
//! `interval` of [`Opcode::Wgmma`] is that of one m64n256 of 32 bytes' depth (k16 of halves); it scales with n.
//! Syntax: PTX ISA, chapter 9, by instruction.

use super::sm90a_cycles::MEASURED;
use super::{Class::*, Effect, Measured, Row, Source, Unit};

/// The figures measured of a row, empty if there are none.
const fn measured(opcode: Opcode) -> Measured {
    let mut i = 0;
    while i < MEASURED.len() {
        if MEASURED[i].opcode as usize == opcode as usize {
            return MEASURED[i];
        }
        i += 1;
    }
    Measured { opcode, latency: None, interval: None }
}

const fn or(measured: Option<u16>, by_hand: u16) -> u16 {
    match measured {
        Some(cycles) => cycles,
        None => by_hand,
    }
}

const fn source(m: Measured) -> Source {
    match (m.latency, m.interval) {
        (None, None) => Source::ByHand,
        (Some(_), Some(_)) => Source::Measured,
        _ => Source::Partly,
    }
}

macro_rules! rows {
    ($($op:ident $name:literal $syntax:literal $args:expr, $results:expr, $unit:ident $effect:ident $latency:literal $interval:literal $ptx:literal $sass:literal;)*) => {
        /// A row of the table; see [`Row`] for what stands in it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Opcode {
            $(#[doc = concat!("`", $name, "`: `", $syntax, "`")] $op,)*
        }

        /// All rows, in the order of [`Opcode`].
        pub const ROWS: &[Row] = &[
            $(Row {
                opcode: Opcode::$op, name: $name, syntax: $syntax, args: $args, results: $results,
                unit: Unit::$unit, effect: Effect::$effect,
                latency: or(measured(Opcode::$op).latency, $latency),
                interval: or(measured(Opcode::$op).interval, $interval),
                source: source(measured(Opcode::$op)), ptx: $ptx, sass: $sass,
            },)*
        ];
    };
}

#[rustfmt::skip]
rows! {
    Const "const" "" &[], &[Any], None Pure 0 0 10 "";
    Undef "undef" "" &[], &[Any], None Pure 0 0 10 "";
    Join "join" "" &[Any], &[Any], None Pure 0 0 10 "";
    Slice "slice" "" &[Any], &[Any], None Pure 0 0 10 "";
    Pick "pick" "" &[Any], &[Any], None Pure 0 0 10 "";
    Await "await" "" &[Any], &[], None Order 0 0 10 "";
    For "for" "" &[Any], &[Any], None Order 0 0 10 "";
    If "if" "" &[Pred], &[Any], None Order 0 0 10 "";
    Yield "yield" "" &[Any], &[], None Order 0 0 10 "";
    Br "br" "" &[], &[], Branch Order 0 2 10 "";
    BrIf "br_if" "" &[Pred], &[], Branch Order 0 2 10 "";
    Ret "ret" "ret" &[], &[], Branch Order 0 2 10 "EXIT";
    Mov "mov" "mov.b32 $d, $0" &[B32], &[B32], Alu Pure 4 2 10 "";
    MovPred "mov.pred" "mov.pred $d, $0" &[Pred], &[Pred], Alu Pure 4 2 10 "";
    Mov64 "mov.b64" "mov.b64 $d, $0" &[B64], &[B64], Alu Pure 4 2 10 "";
    Pack64 "pack64" "mov.b64 $d, {$0, $1}" &[B32, B32], &[B64], Alu Pure 4 2 10 "";
    Pack16 "pack16" "mov.b32 $d, {$0, $1}" &[B16, B16], &[B32], Alu Pure 4 2 10 "";
    TeamIndex "team.index" "" &[], &[B32], None Pure 0 0 10 "";
    Tid "tid.x" "mov.u32 $d, %tid.x" &[], &[B32], Alu Pure 12 2 10 "";
    CtaidX "ctaid.x" "mov.u32 $d, %ctaid.x" &[], &[B32], Alu Pure 12 2 10 "";
    CtaidY "ctaid.y" "mov.u32 $d, %ctaid.y" &[], &[B32], Alu Pure 12 2 10 "";
    CtaidZ "ctaid.z" "mov.u32 $d, %ctaid.z" &[], &[B32], Alu Pure 12 2 10 "";
    NctaidX "nctaid.x" "mov.u32 $d, %nctaid.x" &[], &[B32], Alu Pure 12 2 10 "";
    NctaidY "nctaid.y" "mov.u32 $d, %nctaid.y" &[], &[B32], Alu Pure 12 2 10 "";
    NctaidZ "nctaid.z" "mov.u32 $d, %nctaid.z" &[], &[B32], Alu Pure 12 2 10 "";
    Laneid "laneid" "mov.u32 $d, %laneid" &[], &[B32], Alu Pure 12 2 10 "";
    ClusterRank "cluster_ctarank" "mov.u32 $d, %cluster_ctarank" &[], &[B32], Alu Pure 12 2 78 "";
    ClusterId "clusterid.x" "mov.u32 $d, %clusterid.x" &[], &[B32], Alu Pure 12 2 78 "";
    ClusterCount "nclusterid.x" "mov.u32 $d, %nclusterid.x" &[], &[B32], Alu Pure 12 2 78 "";
    LdParam32 "ld.param.b32" "ld.param.b32 $d, [$p]" &[], &[B32], Lsu Pure 30 2 10 "";
    LdParam16 "ld.param.b16" "{ .reg .b16 h; ld.param.b16 h, [$p]; mov.b32 $d, {h, h}; }" &[], &[B32], Lsu Pure 30 2 10 "";
    LdParam64 "ld.param.b64" "ld.param.b64 $d, [$p]" &[], &[B64], Lsu Pure 30 2 10 "";
    ParamAddr "param.addr" "mov.b64 $d, $p; cvta.param.u64 $d, $d" &[], &[B64], Alu Pure 4 2 77 "";
    SharedBase "shared.base" "mov.u32 $d, smem" &[], &[B32], Alu Pure 4 2 10 "";
    ToGlobal "cvta.to.global" "cvta.to.global.u64 $d, $0" &[B64], &[B64], Alu Pure 4 2 10 "";
    Uniform "uniform" "shfl.sync.idx.b32 $d, $0, 0, 31, -1" &[B32], &[B32], Lsu Pure 24 2 60 "";
    AddS32 "add.s32" "add.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    SubS32 "sub.s32" "sub.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    MulS32 "mul.lo.s32" "mul.lo.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    DivS32 "div.s32" "div.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 30 40 10 "";
    DivU32 "div.u32" "div.u32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 30 40 10 "";
    RemS32 "rem.s32" "rem.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 30 40 10 "";
    RemU32 "rem.u32" "rem.u32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 30 40 10 "";
    MinS32 "min.s32" "min.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    MaxS32 "max.s32" "max.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    MinU32 "min.u32" "min.u32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    MaxU32 "max.u32" "max.u32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    And "and.b32" "and.b32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    Or "or.b32" "or.b32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    Xor "xor.b32" "xor.b32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    Shl "shl.b32" "shl.b32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    ShrS32 "shr.s32" "shr.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    ShrU32 "shr.u32" "shr.u32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    MadS32 "mad.lo.s32" "mad.lo.s32 $d, $0, $1, $2" &[B32, B32, B32], &[B32], Fma Pure 4 2 10 "";
    MulHiU32 "mul.hi.u32" "mul.hi.u32 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 5 2 10 "";
    Lop3 "lop3.b32" "lop3.b32 $d, $0, $1, $2, $i" &[B32, B32, B32], &[B32], Alu Pure 4 2 43 "LOP3";
    FunnelR "shf.r.clamp.b32" "shf.r.clamp.b32 $d, $0, $1, $2" &[B32, B32, B32], &[B32], Alu Pure 4 2 31 "SHF";
    NegS32 "neg.s32" "neg.s32 $d, $0" &[B32], &[B32], Alu Pure 4 2 10 "";
    AbsS32 "abs.s32" "abs.s32 $d, $0" &[B32], &[B32], Alu Pure 4 2 10 "";
    Not "not.b32" "not.b32 $d, $0" &[B32], &[B32], Alu Pure 4 2 10 "";
    Selp "selp.b32" "selp.b32 $d, $0, $1, $2" &[B32, B32, Pred], &[B32], Alu Pure 4 2 10 "";
    Selp64 "selp.b64" "selp.b64 $d, $0, $1, $2" &[B64, B64, Pred], &[B64], Alu Pure 4 4 10 "";
    SetpS32 "setp.s32" "setp.$c.s32 $d, $0, $1" &[B32, B32], &[Pred], Alu Pure 6 2 10 "";
    SetpU32 "setp.u32" "setp.$c.u32 $d, $0, $1" &[B32, B32], &[Pred], Alu Pure 6 2 10 "";
    SetpF32 "setp.f32" "setp.$c.f32 $d, $0, $1" &[B32, B32], &[Pred], Alu Pure 6 2 10 "";
    SetS32 "set.s32" "set.$c.u32.s32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 6 4 10 "";
    SetU32 "set.u32" "set.$c.u32.u32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 6 4 10 "";
    SetF32 "set.f32" "set.$c.u32.f32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 6 4 10 "";
    SelectMask "select.mask" "{ .reg .pred q; setp.ne.b32 q, $2, 0; selp.b32 $d, $0, $1, q; }" &[B32, B32, B32], &[B32], Alu Pure 8 4 10 "";
    SelectS32 "select.s32" "{ .reg .pred q; setp.$c.s32 q, $2, $3; selp.b32 $d, $0, $1, q; }" &[B32, B32, B32, B32], &[B32], Alu Pure 8 4 10 "";
    SelectSumS32 "select_sum.s32" "{ .reg .pred q; .reg .b32 n; add.s32 n, $2, $3; setp.$c.s32 q, n, $4; selp.b32 $d, $0, $1, q; }" &[B32, B32, B32, B32, B32], &[B32], Alu Pure 12 6 10 "";
    SelectDiffS32 "select_diff.s32" "{ .reg .pred q; .reg .b32 n; sub.s32 n, $2, $3; setp.$c.s32 q, n, $4; selp.b32 $d, $0, $1, q; }" &[B32, B32, B32, B32, B32], &[B32], Alu Pure 12 6 10 "";
    SelectU32 "select.u32" "{ .reg .pred q; setp.$c.u32 q, $2, $3; selp.b32 $d, $0, $1, q; }" &[B32, B32, B32, B32], &[B32], Alu Pure 8 4 10 "";
    SelectF32 "select.f32" "{ .reg .pred q; setp.$c.f32 q, $2, $3; selp.b32 $d, $0, $1, q; }" &[B32, B32, B32, B32], &[B32], Alu Pure 8 4 10 "";
    SetpS64 "setp.s64" "setp.$c.s64 $d, $0, $1" &[B64, B64], &[Pred], Alu Pure 8 4 10 "";
    AndPred "and.pred" "and.pred $d, $0, $1" &[Pred, Pred], &[Pred], Alu Pure 6 2 10 "";
    OrPred "or.pred" "or.pred $d, $0, $1" &[Pred, Pred], &[Pred], Alu Pure 6 2 10 "";
    XorPred "xor.pred" "xor.pred $d, $0, $1" &[Pred, Pred], &[Pred], Alu Pure 6 2 10 "";
    NotPred "not.pred" "not.pred $d, $0" &[Pred], &[Pred], Alu Pure 6 2 10 "";
    AddS64 "add.s64" "add.s64 $d, $0, $1" &[B64, B64], &[B64], Alu Pure 6 4 10 "";
    SubS64 "sub.s64" "sub.s64 $d, $0, $1" &[B64, B64], &[B64], Alu Pure 6 4 10 "";
    MulS64 "mul.lo.s64" "mul.lo.s64 $d, $0, $1" &[B64, B64], &[B64], Alu Pure 6 4 10 "";
    And64 "and.b64" "and.b64 $d, $0, $1" &[B64, B64], &[B64], Alu Pure 6 4 10 "";
    Or64 "or.b64" "or.b64 $d, $0, $1" &[B64, B64], &[B64], Alu Pure 6 4 10 "";
    MulWideS32 "mul.wide.s32" "mul.wide.s32 $d, $0, $1" &[B32, B32], &[B64], Fma Pure 5 4 10 "";
    MadWideS32 "mad.wide.s32" "mad.wide.s32 $d, $0, $1, $2" &[B32, B32, B64], &[B64], Fma Pure 5 4 10 "";
    WidenS32 "cvt.s64.s32" "cvt.s64.s32 $d, $0" &[B32], &[B64], Alu Pure 4 2 10 "";
    WidenU32 "cvt.u64.u32" "cvt.u64.u32 $d, $0" &[B32], &[B64], Alu Pure 4 2 10 "";
    Narrow64 "cvt.u32.u64" "cvt.u32.u64 $d, $0" &[B64], &[B32], Alu Pure 4 2 10 "";
    AddF32 "add.f32" "add.f32 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 10 "";
    SubF32 "sub.f32" "sub.f32 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 10 "";
    MulF32 "mul.f32" "mul.f32 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 10 "";
    MinF32 "min.f32" "min.f32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    MaxF32 "max.f32" "max.f32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 10 "";
    DivF32 "div.f32" "div.rn.f32 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 40 40 14 "";
    FmaF32 "fma.f32" "fma.rn.f32 $d, $0, $1, $2" &[B32, B32, B32], &[B32], Fma Pure 4 2 10 "";
    NegF32 "neg.f32" "neg.f32 $d, $0" &[B32], &[B32], Fma Pure 4 2 10 "";
    AbsF32 "abs.f32" "abs.f32 $d, $0" &[B32], &[B32], Fma Pure 4 2 10 "";
    Ex2F32 "ex2.approx.ftz.f32" "ex2.approx.ftz.f32 $d, $0" &[B32], &[B32], Sfu Pure 18 8 14 "MUFU";
    Lg2F32 "lg2.approx.f32" "lg2.approx.f32 $d, $0" &[B32], &[B32], Sfu Pure 18 8 14 "MUFU";
    RsqrtF32 "rsqrt.approx.f32" "rsqrt.approx.f32 $d, $0" &[B32], &[B32], Sfu Pure 18 8 14 "MUFU";
    SinF32 "sin.approx.f32" "sin.approx.f32 $d, $0" &[B32], &[B32], Sfu Pure 18 8 14 "MUFU";
    CosF32 "cos.approx.f32" "cos.approx.f32 $d, $0" &[B32], &[B32], Sfu Pure 18 8 14 "MUFU";
    TanhF32 "tanh.approx.f32" "tanh.approx.f32 $d, $0" &[B32], &[B32], Sfu Pure 18 8 70 "MUFU";
    SqrtF32 "sqrt.rn.f32" "sqrt.rn.f32 $d, $0" &[B32], &[B32], Sfu Pure 40 40 14 "";
    RcpF32 "rcp.rn.f32" "rcp.rn.f32 $d, $0" &[B32], &[B32], Sfu Pure 40 40 14 "";
    AddF16x2 "add.f16x2" "add.rn.f16x2 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 53 "";
    SubF16x2 "sub.f16x2" "sub.rn.f16x2 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 53 "";
    MulF16x2 "mul.f16x2" "mul.rn.f16x2 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 53 "";
    FmaF16x2 "fma.f16x2" "fma.rn.f16x2 $d, $0, $1, $2" &[B32, B32, B32], &[B32], Fma Pure 4 2 53 "";
    MinF16x2 "min.f16x2" "min.f16x2 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 70 "";
    MaxF16x2 "max.f16x2" "max.f16x2 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 70 "";
    NegF16x2 "neg.f16x2" "neg.f16x2 $d, $0" &[B32], &[B32], Fma Pure 4 2 70 "";
    AbsF16x2 "abs.f16x2" "abs.f16x2 $d, $0" &[B32], &[B32], Fma Pure 4 2 70 "";
    AddBf16x2 "add.bf16x2" "add.bf16x2 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 78 "";
    SubBf16x2 "sub.bf16x2" "sub.bf16x2 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 78 "";
    MulBf16x2 "mul.bf16x2" "mul.bf16x2 $d, $0, $1" &[B32, B32], &[B32], Fma Pure 4 2 78 "";
    FmaBf16x2 "fma.bf16x2" "fma.rn.bf16x2 $d, $0, $1, $2" &[B32, B32, B32], &[B32], Fma Pure 4 2 70 "";
    MinBf16x2 "min.bf16x2" "min.bf16x2 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 70 "";
    MaxBf16x2 "max.bf16x2" "max.bf16x2 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 70 "";
    NegBf16x2 "neg.bf16x2" "neg.bf16x2 $d, $0" &[B32], &[B32], Fma Pure 4 2 70 "";
    AbsBf16x2 "abs.bf16x2" "abs.bf16x2 $d, $0" &[B32], &[B32], Fma Pure 4 2 70 "";
    PackF16 "cvt.f16x2.f32" "cvt.rn.f16x2.f32 $d, $0, $1" &[B32, B32], &[B32], Sfu Pure 6 4 70 "F2FP";
    PackBf16 "cvt.bf16x2.f32" "cvt.rn.bf16x2.f32 $d, $0, $1" &[B32, B32], &[B32], Sfu Pure 6 4 70 "F2FP";
    LowF16 "low.f16" "{ .reg .b16 l, h; mov.b32 {l, h}, $0; cvt.f32.f16 $d, l; }" &[B32], &[B32], Sfu Pure 6 4 10 "";
    HighF16 "high.f16" "{ .reg .b16 l, h; mov.b32 {l, h}, $0; cvt.f32.f16 $d, h; }" &[B32], &[B32], Sfu Pure 6 4 10 "";
    LowBf16 "low.bf16" "shl.b32 $d, $0, 16" &[B32], &[B32], Alu Pure 4 2 10 "";
    HighBf16 "high.bf16" "and.b32 $d, $0, 0xffff0000" &[B32], &[B32], Alu Pure 4 2 10 "";
    F32FromS32 "cvt.f32.s32" "cvt.rn.f32.s32 $d, $0" &[B32], &[B32], Sfu Pure 6 8 10 "I2FP";
    F32FromU32 "cvt.f32.u32" "cvt.rn.f32.u32 $d, $0" &[B32], &[B32], Sfu Pure 6 8 10 "I2FP";
    LowE4m3 "low.e4m3x2" "{ .reg .b16 l, h; mov.b32 {l, h}, $0; cvt.rn.f16x2.e4m3x2 $d, l; }" &[B32], &[B32], Sfu Pure 6 4 78 "F2FP";
    HighE4m3 "high.e4m3x2" "{ .reg .b16 l, h; mov.b32 {l, h}, $0; cvt.rn.f16x2.e4m3x2 $d, h; }" &[B32], &[B32], Sfu Pure 6 4 78 "F2FP";
    PackE4m3 "cvt.e4m3x2.f32" "{ .reg .b16 p; cvt.rn.satfinite.e4m3x2.f32 p, $0, $1; cvt.u32.u16 $d, p; }" &[B32, B32], &[B32], Sfu Pure 6 4 78 "F2FP";
    S32FromF32 "cvt.s32.f32" "cvt.rzi.s32.f32 $d, $0" &[B32], &[B32], Sfu Pure 6 8 10 "F2I";
    U32FromF32 "cvt.u32.f32" "cvt.rzi.u32.f32 $d, $0" &[B32], &[B32], Sfu Pure 6 8 10 "F2I";
    LdGlobal8 "ld.global.u8" "ld.global.u8 $d, [$0$o]" &[B64], &[B32], Lsu Read 500 4 10 "LDG";
    LdGlobal16 "ld.global.b16" "ld.global.u16 $d, [$0$o]" &[B64], &[B32], Lsu Read 500 4 10 "LDG";
    LdGlobal "ld.global" "ld.global$v.b32 $d, [$0$o]" &[B64], &[Any], Lsu Read 500 4 10 "LDG";
    LdShared8 "ld.shared.u8" "ld.shared.u8 $d, [$0$o]" &[B32], &[B32], Lsu Read 30 4 10 "LDS";
    LdShared16 "ld.shared.b16" "ld.shared.u16 $d, [$0$o]" &[B32], &[B32], Lsu Read 30 4 10 "LDS";
    LdShared "ld.shared" "ld.shared$v.b32 $d, [$0$o]" &[B32], &[Any], Lsu Read 30 4 10 "LDS";
    StGlobal8 "st.global.u8" "st.global.u8 [$0$o], $1" &[B64, B32], &[], Lsu Write 20 4 10 "STG";
    StGlobal16 "st.global.b16" "st.global.u16 [$0$o], $1" &[B64, B32], &[], Lsu Write 20 4 10 "STG";
    StGlobal "st.global" "st.global$v.b32 [$0$o], $1" &[B64, Any], &[], Lsu Write 20 4 10 "STG";
    StShared8 "st.shared.u8" "st.shared.u8 [$0$o], $1" &[B32, B32], &[], Lsu Write 20 4 10 "STS";
    StShared16 "st.shared.b16" "st.shared.u16 [$0$o], $1" &[B32, B32], &[], Lsu Write 20 4 10 "STS";
    StShared "st.shared" "st.shared$v.b32 [$0$o], $1" &[B32, Any], &[], Lsu Write 20 4 10 "STS";
    StRemote8 "st.shared.remote.u8" "st.shared::cluster.u8 [$0$o], $1" &[B32, B32], &[], Lsu Write 20 4 78 "ST";
    StRemote16 "st.shared.remote.b16" "st.shared::cluster.u16 [$0$o], $1" &[B32, B32], &[], Lsu Write 20 4 78 "ST";
    StRemote "st.shared.remote" "st.shared::cluster$v.b32 [$0$o], $1" &[B32, Any], &[], Lsu Write 20 4 78 "ST";
    Stmatrix "stmatrix" "" &[B32, Any], &[], Lsu Write 33 8 78 "STSM";
    Ldmatrix "ldmatrix" "" &[B32], &[Any], Lsu Read 33 8 65 "LDSM";
    MmaSync "mma.sync" "" &[Any, Any, Any], &[Any], Tensor Pure 33 6 70 "HMMA";
    CpAsync "cp.async" "" &[B32, B64, B32], &[], Lsu Order 500 4 70 "LDGSTS";
    CpAsyncCommit "cp.async.commit" "cp.async.commit_group" &[], &[], Lsu Order 2 2 70 "LDGDEPBAR";
    CpAsyncWait "cp.async.wait" "cp.async.wait_group $i" &[], &[], Sync Order 20 2 70 "DEPBAR";
    Prmt "prmt.b32" "prmt.b32 $d, $0, $1, $2" &[B32, B32, B32], &[B32], Alu Pure 4 2 20 "PRMT";
    ShflBfly "shfl.bfly" "shfl.sync.bfly.b32 $d, $0, $i, 31, -1" &[B32], &[B32], Lsu Pure 24 4 60 "SHFL";
    ShflIdx "shfl.idx" "shfl.sync.idx.b32 $d, $0, $1, 31, -1" &[B32, B32], &[B32], Lsu Pure 24 4 60 "SHFL";
    RedGlobalAddF32 "red.add.f32" "red.global.add$v.f32 [$0$o], $1" &[B64, Any], &[], Lsu Write 500 8 81 "RED";
    RedGlobalAddS32 "red.add.s32" "red.global.add.s32 [$0$o], $1" &[B64, B32], &[], Lsu Write 500 8 20 "RED";
    RedGlobalMinS32 "red.min.s32" "red.global.min.s32 [$0$o], $1" &[B64, B32], &[], Lsu Write 500 8 20 "RED";
    RedGlobalMaxS32 "red.max.s32" "red.global.max.s32 [$0$o], $1" &[B64, B32], &[], Lsu Write 500 8 20 "RED";
    RedGlobalMinU32 "red.min.u32" "red.global.min.u32 [$0$o], $1" &[B64, B32], &[], Lsu Write 500 8 20 "RED";
    RedGlobalMaxU32 "red.max.u32" "red.global.max.u32 [$0$o], $1" &[B64, B32], &[], Lsu Write 500 8 20 "RED";
    AtomAddU32 "atom.add.u32" "atom.global.add.u32 $d, [$0$o], $1" &[B64, B32], &[B32], Lsu Order 500 8 20 "";
    Wgmma "wgmma" "" &[Any], &[Any], Tensor Order 0 128 80 "HGMMA";
    WgmmaFence "wgmma.fence" "wgmma.fence.sync.aligned" &[], &[], Sync Order 2 2 80 "WARPGROUP.ARRIVE";
    WgmmaCommit "wgmma.commit" "wgmma.commit_group.sync.aligned" &[], &[], Sync Order 2 2 80 "";
    WgmmaWait "wgmma.wait" "wgmma.wait_group.sync.aligned $i" &[], &[], Sync Order 2 2 80 "WARPGROUP.DEPBAR";
    TmaLoad "tma.load" "" &[Any], &[], Tma Order 700 8 80 "UTMALDG";
    BulkLoad "bulk.load" "" &[Any], &[], Tma Order 700 8 80 "UBLKCP";
    TmaStore "tma.store" "" &[Any], &[], Tma Order 700 8 80 "UTMASTG";
    BulkCommit "bulk.commit" "cp.async.bulk.commit_group" &[], &[], Sync Order 2 2 80 "UTMACMDFLUSH";
    BulkWaitRead "bulk.wait.read" "cp.async.bulk.wait_group.read $i" &[], &[], Sync Order 2 2 80 "";
    BulkWait "bulk.wait" "cp.async.bulk.wait_group $i" &[], &[], Sync Order 2 2 80 "";
    FenceProxyAsync "fence.proxy.async" "fence.proxy.async.shared::cta" &[], &[], Sync Order 30 2 80 "";
    PrefetchMap "prefetch.tensormap" "prefetch.tensormap [$0]" &[B64], &[], Lsu Order 2 2 80 "";
    MbarInit "mbarrier.init" "mbarrier.init.shared::cta.b64 [$0$o], $i" &[B32], &[], Sync Order 20 4 70 "SYNCS";
    MbarArrive "mbarrier.arrive" "mbarrier.arrive.shared::cta.b64 _, [$0$o]" &[B32], &[], Sync Order 20 4 80 "SYNCS";
    MbarArriveRemote "mbarrier.arrive.remote" "mbarrier.arrive.shared::cluster.b64 _, [$0$o]" &[B32], &[], Sync Order 20 4 80 "SYNCS";
    MbarExpectTx "mbarrier.expect_tx" "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0$o], $i" &[B32], &[], Sync Order 20 4 80 "SYNCS";
    MbarWait "mbarrier.wait" "" &[B32, B32], &[], Sync Order 20 20 80 "SYNCS";
    FenceMbarInit "fence.mbarrier_init" "fence.mbarrier_init.release.cluster" &[], &[], Sync Order 20 2 80 "";
    Mapa "mapa" "mapa.shared::cluster.u32 $d, $0, $1" &[B32, B32], &[B32], Alu Pure 4 2 78 "";
    BarSync "bar.sync" "bar.sync $i, $j" &[], &[], Sync Order 20 2 10 "BAR.SYNC";
    BarWarpSync "bar.warp.sync" "bar.warp.sync -1" &[], &[], Sync Order 4 2 60 "";
    ClusterArrive "barrier.cluster.arrive" "barrier.cluster.arrive.release" &[], &[], Sync Order 20 2 78 "";
    ClusterWait "barrier.cluster.wait" "barrier.cluster.wait.acquire" &[], &[], Sync Order 20 2 78 "";
    SetmaxnregInc "setmaxnreg.inc" "setmaxnreg.inc.sync.aligned.u32 $i" &[], &[], Sync Order 20 2 80 "USETMAXREG";
    SetmaxnregDec "setmaxnreg.dec" "setmaxnreg.dec.sync.aligned.u32 $i" &[], &[], Sync Order 20 2 80 "USETMAXREG";
    Elect "elect" "{ .reg .b32 l; elect.sync l|$d, -1; }" &[], &[Pred], Sync Order 10 2 80 "ELECT";
    GriddepWait "griddepcontrol.wait" "griddepcontrol.wait" &[], &[], Sync Order 20 2 78 "";
    GriddepLaunch "griddepcontrol.launch" "griddepcontrol.launch_dependents" &[], &[], Sync Order 20 2 78 "";
    Pmevent "pmevent" "pmevent $i" &[], &[], Sync Order 2 2 20 "PMTRIG";
    Trap "trap" "trap" &[], &[], Branch Order 0 2 10 "";
    Clock64 "clock64" "mov.u64 $d, %clock64" &[], &[B64], Alu Order 20 20 20 "CS2R";
    ReduxAddS32 "redux.add.s32" "redux.sync.add.s32 $d, $0, -1" &[B32], &[B32], Lsu Pure 20 4 70 "REDUX";
    ReduxMaxS32 "redux.max.s32" "redux.sync.max.s32 $d, $0, -1" &[B32], &[B32], Lsu Pure 20 4 70 "REDUX";
    ReduxOr "redux.or.b32" "redux.sync.or.b32 $d, $0, -1" &[B32], &[B32], Lsu Pure 20 4 70 "REDUX";
    BarArrive "bar.arrive" "bar.arrive $i, $j" &[], &[], Sync Order 20 2 10 "BAR";
}
