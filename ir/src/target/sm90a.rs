//! `sm_90a`: H100 and H200. Their multiprocessors are the same, their memories are not (module `h100`).
//!
//! Latency and interval in cycles as they stand here are the architecture's usual figures, by hand. Where
//! the driver's microbenchmarks have measured a row, their figure (module `sm90a_cycles`) replaces the
//! line's; [`Row::latency`], [`Row::interval`] and [`Row::source`] give what holds.
//! `interval` of [`Opcode::Wgmma`] is that of one m64n256 of 32 bytes' depth (k16 of halves); it scales with n.
//! Syntax: PTX ISA, chapter 9, by instruction. Limits: CUDA C++ Programming Guide, "Compute Capability 9.0".

use super::sm90a_cycles::{MEASURED, MEASURED_ON, RATES};
use super::{
    Arch, Clock, Clocks, Estimates, Measured, Opcode, RoleRegisters, Row, Rows, Source, Target, Unit,
    literals,
};

/// Hopper with the memory of an H200; what is not told for which chip it is compiled is compiled for this one.
pub static SM90A: Target = H200;

/// Hopper with the memory of an H100 SXM.
pub static H100: Target =
    Target { name: "h100", measured_on: super::h100::MEASURED_ON, rates: super::h100::RATES, ..H200 };

const H200: Target = Target {
    name: "h200",
    arch: Arch::new("sm_90a"),
    block_threads: 1024,
    resident_threads: 2048,
    resident_blocks: 32,
    multiprocessors: 132,
    clock_hz: 1.98e9,
    schedulers: 4,
    shared_bytes: 232_448,
    reserved_shared_bytes: 1024,
    sector_bytes: 32,
    line_bytes: 128,
    l2_promotion: 256,
    l2_bytes: 50 << 20,
    registers: 65_536,
    thread_registers: 255,
    register_step: 8,
    warpgroup_accumulator: 224,
    warp_accumulator: 160,
    operand_registers: 128,
    least_registers: 24,
    role_registers: RoleRegisters { computing: 240, producer: &[(8, 40), (32, 32)] },
    instruction_cache_bytes: 128 << 10,
    uniform_registers: 63,
    predicates: 7,
    cluster: 8,
    named_barriers: 16,
    box_extent: 256,
    least_ptx: 80,
    rows: &ROWS,
    measured_on: MEASURED_ON,
    rates: RATES,
    estimates: Estimates {
        start_cycles: 4700.0,
        streamed_start_cycles: 1720.0,
        streamed_start_growth: 0.25,
        // Times of `a16w4` on layers of 10 blocks (docs/performance.md), by a line through k = 4096 and 14336: 1.06 to 1.38
        // us at k = 0, of which 1,900 cycles are the block's own begin and end.
        overlapped_start_cycles: 500.0,
        pdl_saved_cycles: 650.0,
        cache_line_cycles: 1.87,
        neighbours: 4.0,
        block_start_cycles: 1.21,
        cluster_start_cycles: 1900.0,
        multicast_slowdown: 1.25,
        product_issue_cycles: 13.0,
        products_ahead: 2,
        accumulator_columns: 4.0,
        fragment_port_cycles: 1.7,
        beside_products: 0.58,
        meeting_cycles: 60.0,
        product_rate: 2048.0,
        epilogue_cycles: [600.0, 2050.0, 8700.0],
        cache_row_cycles: 1.5,
        copy_box_cycles: 19.2,
        outside_bytes_per_cycle: 14.0,
        cut_row_cycles: 1.3,
        footprint_slowdown: 0.0023,
        narrow_slowdown: 0.06,
        shallow_slowdown: 1.16,
        thread_copy_slowdown: 3.0,
        plain_bytes_per_cycle: 20.0,
        plain_latency: 1000.0,
    },
    // From the times of docs/performance.md over the cycles predicted for them, 2026-11-24: a line through products
    // whose tensor cores work 11% to 99% of the time. Launches that device memory bounds take as long in both regimes (33
    // rows of "Kernels bound by memory").
    clocks: Clocks {
        nominal: 1.755,
        top: 1.98,
        products: Clock { burst: 1.44, sustained: 1.27 },
        relief: 0.9,
        memory: Clock { burst: 1.86, sustained: 1.86 },
    },
};

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

/// A line of the table: syntax, unit, latency and interval by hand, least version of PTX, SASS.
macro_rules! rows {
    ($($op:ident $syntax:literal $unit:ident $latency:literal $interval:literal $ptx:literal $sass:literal;)*) => {{
        let mut rows: Rows = [None; Opcode::COUNT];
        $(rows[Opcode::$op as usize] = Some(Row {
            opcode: Opcode::$op, syntax: $syntax, literals: literals($syntax), unit: Unit::$unit,
            latency: or(measured(Opcode::$op).latency, $latency),
            interval: or(measured(Opcode::$op).interval, $interval),
            source: source(measured(Opcode::$op)), ptx: $ptx, sass: $sass,
        });)*
        rows
    }};
}

#[rustfmt::skip]
static ROWS: Rows = rows! {
    Const "" None 0 0 10 "";
    Undef "" None 0 0 10 "";
    Join "" None 0 0 10 "";
    Slice "" None 0 0 10 "";
    Pick "" None 0 0 10 "";
    Await "" None 0 0 10 "";
    For "" None 0 0 10 "";
    If "" None 0 0 10 "";
    Yield "" None 0 0 10 "";
    Br "" Branch 0 2 10 "";
    BrIf "" Branch 0 2 10 "";
    Ret "ret" Branch 0 2 10 "EXIT";
    Mov "mov.b32 $d, $0" Alu 4 2 10 "";
    MovPred "mov.pred $d, $0" Alu 4 2 10 "";
    LikelyPred "mov.pred $d, $0" Alu 4 2 10 "";
    UnlikelyPred "mov.pred $d, $0" Alu 4 2 10 "";
    Mov64 "mov.b64 $d, $0" Alu 4 2 10 "";
    Assume "" None 0 0 10 "";
    Assume64 "" None 0 0 10 "";
    Pack64 "mov.b64 $d, {$0, $1}" Alu 4 2 10 "";
    Pack16 "mov.b32 $d, {$0, $1}" Alu 4 2 10 "";
    Low16 "cvt.u16.u32 $d, $0" Alu 4 2 10 "";
    TeamIndex "" None 0 0 10 "";
    Tid "mov.u32 $d, %tid.x" Alu 12 2 10 "";
    CtaidX "mov.u32 $d, %ctaid.x" Alu 12 2 10 "";
    CtaidY "mov.u32 $d, %ctaid.y" Alu 12 2 10 "";
    CtaidZ "mov.u32 $d, %ctaid.z" Alu 12 2 10 "";
    NctaidX "mov.u32 $d, %nctaid.x" Alu 12 2 10 "";
    NctaidY "mov.u32 $d, %nctaid.y" Alu 12 2 10 "";
    NctaidZ "mov.u32 $d, %nctaid.z" Alu 12 2 10 "";
    Laneid "mov.u32 $d, %laneid" Alu 12 2 10 "";
    ClusterRank "mov.u32 $d, %cluster_ctarank" Alu 12 2 78 "";
    ClusterId "mov.u32 $d, %clusterid.x" Alu 12 2 78 "";
    ClusterCount "mov.u32 $d, %nclusterid.x" Alu 12 2 78 "";
    LdParam32 "ld.param.b32 $d, [$p]" Lsu 30 2 10 "";
    LdParam16 "{ .reg .b16 h; ld.param.b16 h, [$p]; mov.b32 $d, {h, h}; }" Lsu 30 2 10 "";
    LdParam64 "ld.param.b64 $d, [$p]" Lsu 30 2 10 "";
    ParamAddr "mov.b64 $d, $p; cvta.param.u64 $d, $d" Alu 4 2 77 "";
    SharedBase "mov.u32 $d, smem" Alu 4 2 10 "";
    ArrayBase "" None 0 0 10 "";
    ToGlobal "cvta.to.global.u64 $d, $0" Alu 4 2 10 "";
    Uniform "shfl.sync.idx.b32 $d, $0, 0, 31, -1" Lsu 24 2 60 "";
    AddS32 "add.s32 $d, $0, $1" Alu 4 2 10 "";
    SubS32 "sub.s32 $d, $0, $1" Alu 4 2 10 "";
    MulS32 "mul.lo.s32 $d, $0, $1" Alu 4 2 10 "";
    DivS32 "div.s32 $d, $0, $1" Alu 30 40 10 "";
    DivU32 "div.u32 $d, $0, $1" Alu 30 40 10 "";
    RemS32 "rem.s32 $d, $0, $1" Alu 30 40 10 "";
    RemU32 "rem.u32 $d, $0, $1" Alu 30 40 10 "";
    MinS32 "min.s32 $d, $0, $1" Alu 4 2 10 "";
    MaxS32 "max.s32 $d, $0, $1" Alu 4 2 10 "";
    MinU32 "min.u32 $d, $0, $1" Alu 4 2 10 "";
    MaxU32 "max.u32 $d, $0, $1" Alu 4 2 10 "";
    And "and.b32 $d, $0, $1" Alu 4 2 10 "";
    Or "or.b32 $d, $0, $1" Alu 4 2 10 "";
    Xor "xor.b32 $d, $0, $1" Alu 4 2 10 "";
    Shl "shl.b32 $d, $0, $1" Alu 4 2 10 "";
    ShrS32 "shr.s32 $d, $0, $1" Alu 4 2 10 "";
    ShrU32 "shr.u32 $d, $0, $1" Alu 4 2 10 "";
    MadS32 "mad.lo.s32 $d, $0, $1, $2" Fma 4 2 10 "";
    MulHiU32 "mul.hi.u32 $d, $0, $1" Fma 5 2 10 "";
    MulHiS32 "mul.hi.s32 $d, $0, $1" Fma 9 4 10 "";
    Lop3 "lop3.b32 $d, $0, $1, $2, $i" Alu 4 2 43 "LOP3";
    FunnelR "shf.r.clamp.b32 $d, $0, $1, $2" Alu 4 2 31 "SHF";
    NegS32 "neg.s32 $d, $0" Alu 4 2 10 "";
    AbsS32 "abs.s32 $d, $0" Alu 4 2 10 "";
    Not "not.b32 $d, $0" Alu 4 2 10 "";
    Selp "selp.b32 $d, $0, $1, $2" Alu 4 2 10 "";
    Selp64 "selp.b64 $d, $0, $1, $2" Alu 4 4 10 "";
    SetpS32 "setp.$c.s32 $d, $0, $1" Alu 6 2 10 "";
    SetpU32 "setp.$c.u32 $d, $0, $1" Alu 6 2 10 "";
    SetpF32 "setp.$c.f32 $d, $0, $1" Alu 6 2 10 "";
    SetS32 "set.$c.u32.s32 $d, $0, $1" Alu 6 4 10 "";
    SetU32 "set.$c.u32.u32 $d, $0, $1" Alu 6 4 10 "";
    SetF32 "set.$c.u32.f32 $d, $0, $1" Alu 6 4 10 "";
    SelectMask "{ .reg .pred q; setp.ne.b32 q, $2, 0; selp.b32 $d, $0, $1, q; }" Alu 8 4 10 "";
    SelectS32 "{ .reg .pred q; setp.$c.s32 q, $2, $3; selp.b32 $d, $0, $1, q; }" Alu 8 4 10 "";
    SelectSumS32 "{ .reg .pred q; .reg .b32 n; add.s32 n, $2, $3; setp.$c.s32 q, n, $4; selp.b32 $d, $0, $1, q; }" Alu 12 6 10 "";
    SelectDiffS32 "{ .reg .pred q; .reg .b32 n; sub.s32 n, $2, $3; setp.$c.s32 q, n, $4; selp.b32 $d, $0, $1, q; }" Alu 12 6 10 "";
    SelectU32 "{ .reg .pred q; setp.$c.u32 q, $2, $3; selp.b32 $d, $0, $1, q; }" Alu 8 4 10 "";
    SelectF32 "{ .reg .pred q; setp.$c.f32 q, $2, $3; selp.b32 $d, $0, $1, q; }" Alu 8 4 10 "";
    SetpS64 "setp.$c.s64 $d, $0, $1" Alu 8 4 10 "";
    AndPred "and.pred $d, $0, $1" Alu 6 2 10 "";
    OrPred "or.pred $d, $0, $1" Alu 6 2 10 "";
    XorPred "xor.pred $d, $0, $1" Alu 6 2 10 "";
    NotPred "not.pred $d, $0" Alu 6 2 10 "";
    AddS64 "add.s64 $d, $0, $1" Alu 6 4 10 "";
    SubS64 "sub.s64 $d, $0, $1" Alu 6 4 10 "";
    MulS64 "mul.lo.s64 $d, $0, $1" Alu 6 4 10 "";
    MinS64 "min.s64 $d, $0, $1" Alu 12 8 10 "";
    MaxS64 "max.s64 $d, $0, $1" Alu 12 8 10 "";
    And64 "and.b64 $d, $0, $1" Alu 6 4 10 "";
    Or64 "or.b64 $d, $0, $1" Alu 6 4 10 "";
    MulWideS32 "mul.wide.s32 $d, $0, $1" Fma 5 4 10 "";
    MadWideS32 "mad.wide.s32 $d, $0, $1, $2" Fma 5 4 10 "";
    WidenS32 "cvt.s64.s32 $d, $0" Alu 4 2 10 "";
    WidenU32 "cvt.u64.u32 $d, $0" Alu 4 2 10 "";
    Narrow64 "cvt.u32.u64 $d, $0" Alu 4 2 10 "";
    High64 "{ .reg .b32 l; mov.b64 {l, $d}, $0; }" Alu 4 2 10 "";
    AddF32 "add.f32 $d, $0, $1" Fma 4 2 10 "";
    SubF32 "sub.f32 $d, $0, $1" Fma 4 2 10 "";
    MulF32 "mul.f32 $d, $0, $1" Fma 4 2 10 "";
    MinF32 "min.f32 $d, $0, $1" Alu 4 2 10 "";
    MaxF32 "max.f32 $d, $0, $1" Alu 4 2 10 "";
    DivF32 "div.rn.f32 $d, $0, $1" Fma 40 40 14 "";
    DivFullF32 "div.full.f32 $d, $0, $1" Sfu 36 10 14 "MUFU";
    FmaF32 "fma.rn.f32 $d, $0, $1, $2" Fma 4 2 10 "";
    NegF32 "neg.f32 $d, $0" Fma 4 2 10 "";
    AbsF32 "abs.f32 $d, $0" Fma 4 2 10 "";
    Ex2F32 "ex2.approx.ftz.f32 $d, $0" Sfu 18 8 14 "MUFU";
    Lg2F32 "lg2.approx.f32 $d, $0" Sfu 18 8 14 "MUFU";
    RsqrtF32 "rsqrt.approx.f32 $d, $0" Sfu 18 8 14 "MUFU";
    SinF32 "sin.approx.f32 $d, $0" Sfu 18 8 14 "MUFU";
    CosF32 "cos.approx.f32 $d, $0" Sfu 18 8 14 "MUFU";
    TanhF32 "tanh.approx.f32 $d, $0" Sfu 18 8 70 "MUFU";
    SqrtF32 "sqrt.rn.f32 $d, $0" Sfu 40 40 14 "";
    RcpF32 "rcp.rn.f32 $d, $0" Sfu 40 40 14 "";
    AddF16x2 "add.rn.f16x2 $d, $0, $1" Fma 4 2 53 "";
    SubF16x2 "sub.rn.f16x2 $d, $0, $1" Fma 4 2 53 "";
    MulF16x2 "mul.rn.f16x2 $d, $0, $1" Fma 4 2 53 "";
    FmaF16x2 "fma.rn.f16x2 $d, $0, $1, $2" Fma 4 2 53 "";
    MinF16x2 "min.f16x2 $d, $0, $1" Alu 4 2 70 "";
    MaxF16x2 "max.f16x2 $d, $0, $1" Alu 4 2 70 "";
    NegF16x2 "neg.f16x2 $d, $0" Fma 4 2 70 "";
    AbsF16x2 "abs.f16x2 $d, $0" Fma 4 2 70 "";
    AddBf16x2 "add.bf16x2 $d, $0, $1" Fma 4 2 78 "";
    SubBf16x2 "sub.bf16x2 $d, $0, $1" Fma 4 2 78 "";
    MulBf16x2 "mul.bf16x2 $d, $0, $1" Fma 4 2 78 "";
    FmaBf16x2 "fma.rn.bf16x2 $d, $0, $1, $2" Fma 4 2 70 "";
    MinBf16x2 "min.bf16x2 $d, $0, $1" Alu 4 2 70 "";
    MaxBf16x2 "max.bf16x2 $d, $0, $1" Alu 4 2 70 "";
    NegBf16x2 "neg.bf16x2 $d, $0" Fma 4 2 70 "";
    AbsBf16x2 "abs.bf16x2 $d, $0" Fma 4 2 70 "";
    PackF16 "cvt.rn.f16x2.f32 $d, $0, $1" Alu 6 4 70 "F2FP";
    PackBf16 "cvt.rn.bf16x2.f32 $d, $0, $1" Alu 6 4 70 "F2FP";
    LowF16 "{ .reg .b16 l, h; mov.b32 {l, h}, $0; cvt.f32.f16 $d, l; }" Fma 6 4 10 "";
    HighF16 "{ .reg .b16 l, h; mov.b32 {l, h}, $0; cvt.f32.f16 $d, h; }" Fma 6 4 10 "";
    LowBf16 "shl.b32 $d, $0, 16" Alu 4 2 10 "";
    HighBf16 "and.b32 $d, $0, 0xffff0000" Alu 4 2 10 "";
    F32FromS32 "cvt.rn.f32.s32 $d, $0" Alu 6 8 10 "I2FP";
    F32FromU32 "cvt.rn.f32.u32 $d, $0" Alu 6 8 10 "I2FP";
    F32FromS64 "cvt.rn.f32.s64 $d, $0" Sfu 12 16 10 "I2F";
    F32FromU64 "cvt.rn.f32.u64 $d, $0" Sfu 12 16 10 "I2F";
    LowE4m3 "{ .reg .b16 l, h; mov.b32 {l, h}, $0; cvt.rn.f16x2.e4m3x2 $d, l; }" Alu 6 4 78 "F2FP";
    HighE4m3 "{ .reg .b16 l, h; mov.b32 {l, h}, $0; cvt.rn.f16x2.e4m3x2 $d, h; }" Alu 6 4 78 "F2FP";
    PackE4m3 "{ .reg .b16 p; cvt.rn.satfinite.e4m3x2.f32 p, $0, $1; cvt.u32.u16 $d, p; }" Alu 6 4 78 "F2FP";
    PackE5m2 "{ .reg .b16 p; cvt.rn.satfinite.e5m2x2.f32 p, $0, $1; cvt.u32.u16 $d, p; }" Alu 6 4 78 "F2FP";
    S32FromF32 "cvt.rzi.s32.f32 $d, $0" Sfu 6 8 10 "F2I";
    U32FromF32 "cvt.rzi.u32.f32 $d, $0" Sfu 6 8 10 "F2I";
    LdGlobal8 "ld.global.u8 $d, [$0$o]" Lsu 500 4 10 "LDG";
    LdGlobal16 "ld.global.u16 $d, [$0$o]" Lsu 500 4 10 "LDG";
    LdGlobal "ld.global$v.b32 $d, [$0$o]" Lsu 500 4 10 "LDG";
    LdGlobal64 "ld.global.b64 $d, [$0$o]" Lsu 500 4 10 "LDG";
    LdShared8 "ld.shared.u8 $d, [$0$o]" Lsu 30 4 10 "LDS";
    LdShared16 "ld.shared.u16 $d, [$0$o]" Lsu 30 4 10 "LDS";
    LdShared "ld.shared$v.b32 $d, [$0$o]" Lsu 30 4 10 "LDS";
    StGlobal8 "st.global.u8 [$0$o], $1" Lsu 20 4 10 "STG";
    StGlobal16 "st.global.u16 [$0$o], $1" Lsu 20 4 10 "STG";
    StGlobal "st.global$v.b32 [$0$o], $1" Lsu 20 4 10 "STG";
    StShared8 "st.shared.u8 [$0$o], $1" Lsu 20 4 10 "STS";
    StShared16 "st.shared.u16 [$0$o], $1" Lsu 20 4 10 "STS";
    StShared "st.shared$v.b32 [$0$o], $1" Lsu 20 4 10 "STS";
    StRemote8 "st.shared::cluster.u8 [$0$o], $1" Lsu 20 4 78 "ST";
    StRemote16 "st.shared::cluster.u16 [$0$o], $1" Lsu 20 4 78 "ST";
    StRemote "st.shared::cluster$v.b32 [$0$o], $1" Lsu 20 4 78 "ST";
    Stmatrix "" Lsu 33 8 78 "STSM";
    Ldmatrix "" Lsu 33 8 65 "LDSM";
    MmaSync "" Tensor 33 6 70 "HMMA";
    CpAsync "" Lsu 500 4 70 "LDGSTS";
    CpAsyncCommit "cp.async.commit_group" Lsu 2 2 70 "LDGDEPBAR";
    CpAsyncWait "cp.async.wait_group $i" Sync 20 2 70 "DEPBAR";
    Prmt "prmt.b32 $d, $0, $1, $2" Alu 4 2 20 "PRMT";
    ShflBfly "shfl.sync.bfly.b32 $d, $0, $i, 31, -1" Lsu 24 4 60 "SHFL";
    ShflIdx "shfl.sync.idx.b32 $d, $0, $1, 31, -1" Lsu 24 4 60 "SHFL";
    RedGlobalAddF32 "red.global.add$v.f32 [$0$o], $1" Lsu 500 8 81 "RED";
    RedGlobalAddS32 "red.global.add.s32 [$0$o], $1" Lsu 500 8 20 "RED";
    RedGlobalMinS32 "red.global.min.s32 [$0$o], $1" Lsu 500 8 20 "RED";
    RedGlobalMaxS32 "red.global.max.s32 [$0$o], $1" Lsu 500 8 20 "RED";
    RedGlobalMinU32 "red.global.min.u32 [$0$o], $1" Lsu 500 8 20 "RED";
    RedGlobalMaxU32 "red.global.max.u32 [$0$o], $1" Lsu 500 8 20 "RED";
    RedGlobalAddF16 "red.global.add.noftz.f16 [$0$o], $1" Lsu 500 8 62 "RED";
    RedGlobalAddBf16 "red.global.add.noftz.bf16 [$0$o], $1" Lsu 500 8 78 "RED";
    RedGlobalAddF16x2 "red.global.add.noftz$v.f16x2 [$0$o], $1" Lsu 500 8 81 "RED";
    RedGlobalAddBf16x2 "red.global.add.noftz$v.bf16x2 [$0$o], $1" Lsu 500 8 81 "RED";
    RedSharedAddF32 "red.shared.add.f32 [$0$o], $1" Lsu 30 197 20 "";
    RedSharedAddS32 "red.shared.add.s32 [$0$o], $1" Lsu 30 4 20 "ATOMS";
    RedSharedMinS32 "red.shared.min.s32 [$0$o], $1" Lsu 30 4 20 "ATOMS";
    RedSharedMaxS32 "red.shared.max.s32 [$0$o], $1" Lsu 30 4 20 "ATOMS";
    RedSharedMinU32 "red.shared.min.u32 [$0$o], $1" Lsu 30 4 20 "ATOMS";
    RedSharedMaxU32 "red.shared.max.u32 [$0$o], $1" Lsu 30 4 20 "ATOMS";
    RedSharedAddF16 "red.shared.add.noftz.f16 [$0$o], $1" Lsu 30 197 62 "";
    RedSharedAddBf16 "red.shared.add.noftz.bf16 [$0$o], $1" Lsu 30 197 78 "";
    RedSharedAddF16x2 "red.shared.add.noftz.f16x2 [$0$o], $1" Lsu 30 197 62 "";
    RedSharedAddBf16x2 "red.shared.add.noftz.bf16x2 [$0$o], $1" Lsu 30 197 78 "";
    AtomAddU32 "atom.global.add.u32 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomIncU32 "atom.acq_rel.gpu.global.inc.u32 $d, [$0$o], $1" Lsu 700 8 60 "ATOM";
    AtomIncRelaxedU32 "atom.global.inc.u32 $d, [$0$o], $1" Lsu 500 8 20 "ATOM";
    AtomAddF32 "atom.global.add.f32 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomMinS32 "atom.global.min.s32 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomMaxS32 "atom.global.max.s32 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomMinU32 "atom.global.min.u32 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomMaxU32 "atom.global.max.u32 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomExchB32 "atom.global.exch.b32 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomCasB32 "atom.global.cas.b32 $d, [$0$o], $1, $2" Lsu 500 8 20 "";
    AtomCasB16 "atom.global.cas.b16 $d, [$0$o], $1, $2" Lsu 500 8 63 "";
    AtomAddF16 "atom.global.add.noftz.f16 $d, [$0$o], $1" Lsu 500 8 62 "";
    AtomAddBf16 "atom.global.add.noftz.bf16 $d, [$0$o], $1" Lsu 500 8 78 "";
    AtomAddU64 "atom.global.add.u64 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomMinS64 "atom.global.min.s64 $d, [$0$o], $1" Lsu 500 8 31 "";
    AtomMaxS64 "atom.global.max.s64 $d, [$0$o], $1" Lsu 500 8 31 "";
    AtomMinU64 "atom.global.min.u64 $d, [$0$o], $1" Lsu 500 8 31 "";
    AtomMaxU64 "atom.global.max.u64 $d, [$0$o], $1" Lsu 500 8 31 "";
    AtomExchB64 "atom.global.exch.b64 $d, [$0$o], $1" Lsu 500 8 20 "";
    AtomCasB64 "atom.global.cas.b64 $d, [$0$o], $1, $2" Lsu 500 8 20 "";
    AtomSharedAddU32 "atom.shared.add.u32 $d, [$0$o], $1" Lsu 50 4 20 "ATOMS";
    AtomSharedAddF32 "atom.shared.add.f32 $d, [$0$o], $1" Lsu 395 197 20 "";
    AtomSharedMinS32 "atom.shared.min.s32 $d, [$0$o], $1" Lsu 50 4 20 "ATOMS";
    AtomSharedMaxS32 "atom.shared.max.s32 $d, [$0$o], $1" Lsu 50 4 20 "ATOMS";
    AtomSharedMinU32 "atom.shared.min.u32 $d, [$0$o], $1" Lsu 50 4 20 "ATOMS";
    AtomSharedMaxU32 "atom.shared.max.u32 $d, [$0$o], $1" Lsu 50 4 20 "ATOMS";
    AtomSharedExchB32 "atom.shared.exch.b32 $d, [$0$o], $1" Lsu 50 4 20 "ATOMS";
    AtomSharedCasB32 "atom.shared.cas.b32 $d, [$0$o], $1, $2" Lsu 50 4 20 "ATOMS";
    AtomSharedCasB16 "atom.shared.cas.b16 $d, [$0$o], $1, $2" Lsu 395 197 63 "";
    AtomSharedAddF16 "atom.shared.add.noftz.f16 $d, [$0$o], $1" Lsu 395 197 62 "";
    AtomSharedAddBf16 "atom.shared.add.noftz.bf16 $d, [$0$o], $1" Lsu 395 197 78 "";
    AtomSharedAddU64 "atom.shared.add.u64 $d, [$0$o], $1" Lsu 395 197 20 "";
    AtomSharedMinS64 "atom.shared.min.s64 $d, [$0$o], $1" Lsu 395 197 31 "";
    AtomSharedMaxS64 "atom.shared.max.s64 $d, [$0$o], $1" Lsu 395 197 31 "";
    AtomSharedMinU64 "atom.shared.min.u64 $d, [$0$o], $1" Lsu 395 197 31 "";
    AtomSharedMaxU64 "atom.shared.max.u64 $d, [$0$o], $1" Lsu 395 197 31 "";
    AtomSharedExchB64 "atom.shared.exch.b64 $d, [$0$o], $1" Lsu 50 4 20 "";
    AtomSharedCasB64 "atom.shared.cas.b64 $d, [$0$o], $1, $2" Lsu 50 4 20 "";
    Wgmma "" Tensor 0 128 80 "HGMMA";
    WgmmaFence "wgmma.fence.sync.aligned" Sync 2 2 80 "WARPGROUP.ARRIVE";
    WgmmaCommit "wgmma.commit_group.sync.aligned" Sync 2 2 80 "";
    WgmmaWait "wgmma.wait_group.sync.aligned $i" Sync 2 2 80 "WARPGROUP.DEPBAR";
    TmaLoad "" Tma 700 8 80 "UTMALDG";
    BulkLoad "" Tma 700 8 80 "UBLKCP";
    TmaStore "" Tma 700 8 80 "UTMASTG";
    BulkCommit "cp.async.bulk.commit_group" Sync 2 2 80 "UTMACMDFLUSH";
    BulkWaitRead "cp.async.bulk.wait_group.read $i" Sync 2 2 80 "";
    BulkWait "cp.async.bulk.wait_group $i" Sync 2 2 80 "";
    FenceProxyAsync "fence.proxy.async.shared::cta" Sync 30 2 80 "";
    PrefetchMap "prefetch.tensormap [$0]" Lsu 2 2 80 "";
    MbarInit "mbarrier.init.shared::cta.b64 [$0$o], $i" Sync 20 4 70 "SYNCS";
    MbarArrive "mbarrier.arrive.shared::cta.b64 _, [$0$o]" Sync 20 4 80 "SYNCS";
    MbarArriveRemote "mbarrier.arrive.shared::cluster.b64 _, [$0$o]" Sync 20 4 80 "SYNCS";
    MbarExpectTx "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0$o], $i" Sync 20 4 80 "SYNCS";
    MbarWait "" Sync 20 20 80 "SYNCS";
    FenceMbarInit "fence.mbarrier_init.release.cluster" Sync 20 2 80 "";
    Mapa "mapa.shared::cluster.u32 $d, $0, $1" Alu 4 2 78 "";
    BarSync "bar.sync $i, $j" Sync 20 2 10 "BAR.SYNC";
    BarWarpSync "bar.warp.sync -1" Sync 4 2 60 "";
    ClusterArrive "barrier.cluster.arrive.release" Sync 20 2 78 "";
    ClusterWait "barrier.cluster.wait.acquire" Sync 20 2 78 "";
    SetmaxnregInc "setmaxnreg.inc.sync.aligned.u32 $i" Sync 20 2 80 "USETMAXREG";
    SetmaxnregDec "setmaxnreg.dec.sync.aligned.u32 $i" Sync 20 2 80 "USETMAXREG";
    Elect "{ .reg .b32 l; elect.sync l|$d, -1; }" Sync 10 2 80 "ELECT";
    GriddepWait "griddepcontrol.wait" Sync 20 2 78 "";
    GriddepLaunch "griddepcontrol.launch_dependents" Sync 20 2 78 "";
    Pmevent "pmevent $i" Sync 2 2 20 "PMTRIG";
    Printf "" None 0 0 20 "";
    Trap "trap" Branch 0 2 10 "";
    Clock64 "mov.u64 $d, %clock64" Alu 20 20 20 "CS2R";
    ReduxAddS32 "redux.sync.add.s32 $d, $0, -1" Lsu 20 4 70 "REDUX";
    ReduxMaxS32 "redux.sync.max.s32 $d, $0, -1" Lsu 20 4 70 "REDUX";
    ReduxOr "redux.sync.or.b32 $d, $0, -1" Lsu 20 4 70 "REDUX";
    BarArrive "bar.arrive $i, $j" Sync 20 2 10 "BAR";
};
