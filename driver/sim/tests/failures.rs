//! Failure classes that an outside fuzzer found in TileLang (numbers are its issues): each one,
//! written as PTX, must be reported.

mod common;

use common::kernel::Kernel;
use common::{LONG, Problem, gemm};
use warplift_sim::mutate::adversaries;
use warplift_sim::{HazardKind, Hazards, SimError};

const PTX: &str = include_str!("ptx/gemm_ws.ptx");

/// Hazards and wrong elements of a changed GEMM over the adversaries.
fn changed(from: &str, to: &str, p: &Problem) -> (Vec<HazardKind>, usize) {
    assert!(PTX.contains(from), "{from}");
    let ptx = PTX.replacen(from, to, 1);
    let (mut kinds, mut wrong) = (Vec::new(), 0);
    for mut o in adversaries(2, 3_000_000) {
        o.hazards = Hazards::Warn;
        let (report, bad) = gemm(&ptx, p, &o).unwrap_or_else(|e| panic!("{e}"));
        kinds.extend(report.hazards.iter().map(|h| h.kind));
        wrong += bad;
    }
    (kinds, wrong)
}

fn kernel(name: &str, body: &str) -> Vec<HazardKind> {
    let k = Kernel {
        name,
        body,
        block: 128,
        shared: 40960,
        input: vec![0; 4096],
        out_bytes: 4096,
        ..Kernel::default()
    };
    k.hazards().iter().map(|h| h.kind).collect()
}

/// Fills 128 x 64 bytes of shared memory by ordinary stores.
const FILL: &str = "shl.b32 %r3, %r2, 6;\nadd.u32 %r3, %r3, %r1;\nmov.u32 %r4, 0;\n\
    st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4};\nst.shared.v4.u32 [%r3+16], {%r4, %r4, %r4, %r4};\n\
    st.shared.v4.u32 [%r3+32], {%r4, %r4, %r4, %r4};\nst.shared.v4.u32 [%r3+48], {%r4, %r4, %r4, %r4};\n";

/// One m64n8k16 on operands without swizzle at the start of shared memory.
const MULTIPLY: &str = "mov.f32 %f1, 0f00000000;\nmov.f32 %f2, %f1;\nmov.f32 %f3, %f1;\nmov.f32 %f4, %f1;\n\
    and.b32 %r5, %r1, 0x3ffff;\nshr.u32 %r5, %r5, 4;\nor.b32 %r5, %r5, 0x80000;\nmov.u32 %r6, 16;\nmov.b64 %rd5, {%r5, %r6};\n\
    wgmma.fence.sync.aligned;\n\
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd5, 1, 1, 1, 0, 0;\n\
    wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";

#[test]
fn missing_proxy_fence_before_wgmma_2634() {
    let good = format!("{FILL}fence.proxy.async.shared::cta;\nbar.sync 0;\n{MULTIPLY}");
    assert_eq!(kernel("fence_wgmma", &good), vec![]);
    let bad = format!("{FILL}bar.sync 0;\n{MULTIPLY}");
    assert_eq!(kernel("no_fence_wgmma", &bad), vec![HazardKind::MissingProxyFence]);
    // The fence of the reader does not do: it stands behind the barrier.
    let late = format!("{FILL}bar.sync 0;\nfence.proxy.async.shared::cta;\n{MULTIPLY}");
    assert_eq!(kernel("late_fence_wgmma", &late), vec![HazardKind::MissingProxyFence]);
}

#[test]
fn no_loop_back_barrier_2613() {
    let body = |back: &str| {
        format!(
            "shl.b32 %r3, %r2, 2;\nadd.u32 %r3, %r3, %r1;\nxor.b32 %r4, %r3, 256;\nmov.u32 %r5, 0;\nmov.u32 %r6, 0;\n\
             LOOP:\nst.shared.u32 [%r3], %r5;\nbar.sync 0;\nld.shared.u32 %r7, [%r4];\nadd.u32 %r6, %r6, %r7;\n{back}\
             add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 4;\n@%p1 bra LOOP;\n\
             mul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd3, %rd3, %rd2;\nst.global.u32 [%rd3], %r6;"
        )
    };
    assert_eq!(kernel("loop_barrier", &body("bar.sync 0;\n")), vec![]);
    assert_eq!(kernel("no_loop_barrier", &body("")), vec![HazardKind::SharedRace]);
}

#[test]
fn expect_tx_without_arrive_2566() {
    let (kinds, _) = changed(
        "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r19], 24576;",
        "    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r19], 24576;",
        &LONG,
    );
    assert!(kinds.contains(&HazardKind::Deadlock));
}

#[test]
fn phase_not_carried_over_tiles_2674_3087() {
    // The producer begins each tile with parity 1 again; the depth is no multiple of the ring.
    let p = Problem { k: 64 * 4, ..LONG };
    let (kinds, wrong) = changed("P_TILE:", "P_TILE:\n    mov.u32 %r11, 1;", &p);
    assert!(!kinds.is_empty() || wrong > 0);
    let (kinds, wrong) = changed("C_TILE:", "C_TILE:\n    mov.u32 %r11, 0;", &p);
    assert!(!kinds.is_empty() || wrong > 0);
    let (kinds, wrong) = changed("C_TILE:", "C_TILE:\n    mov.u32 %r10, 0;", &p);
    assert!(!kinds.is_empty() || wrong > 0);
}

#[test]
fn bulk_store_tail_and_offset_2525_2527() {
    let body = |bytes: u32, offset: u32| {
        format!(
            "{FILL}fence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%rd2+{offset}], [%r1], {bytes};\n\
             cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:"
        )
    };
    assert_eq!(kernel("bulk_store", &body(128, 16)), vec![]);
    assert_eq!(kernel("bulk_tail", &body(120, 16)), vec![HazardKind::Misaligned]);
    assert_eq!(kernel("bulk_offset", &body(128, 8)), vec![HazardKind::Misaligned]);
}

#[test]
fn stage_off_the_swizzle_boundary_2528_2379() {
    // Shared memory of the ring begins 128 bytes late.
    let (kinds, wrong) =
        changed("    mov.u32 %r4, smem;", "    mov.u32 %r4, smem;\n    add.u32 %r4, %r4, 128;", &LONG);
    assert!(kinds.contains(&HazardKind::BadOperand) || wrong > 0, "{kinds:?}");
}

/// Roundings that the target does not have are refused with their place, and those that it has are the same for one
/// value and for two. (The tile language has no roundings to choose: a cast is to the nearest even.)
#[test]
fn roundings_that_a_conversion_does_not_have_2503() {
    let text =
        |body: &str| Kernel { name: "rounding", body, block: 1, out_bytes: 8, ..Kernel::default() }.text();
    for missing in [
        "cvt.rs.f16x2.f32 %r3, %f1, %f1, %r4;",
        "cvt.rs.satfinite.e4m3x4.f32 %r3, {%f1, %f1, %f1, %f1}, %r4;",
        "cvt.rs.satfinite.e2m1x4.f32 %h1, {%f1, %f1, %f1, %f1}, %r4;",
        "cvt.rz.satfinite.e4m3x2.f32 %h1, %f1, %f1;",
        "cvt.rm.f16x2.f32 %r3, %f1, %f1;",
        "cvt.rn.satfinite.e2m1x2.f32 %h1, %f1, %f1;",
    ] {
        let ptx = text(missing);
        let line = ptx.lines().position(|l| l == missing).expect("the line") as u32 + 1;
        let e = warplift_sim::parse(&ptx).map(|_| ()).expect_err(missing);
        assert_eq!(e.line, line, "{missing}: {e}");
    }
    // 1 + 2^-10 - 2^-23 is nearest to 1 + 2^-10 in f16, and cut off it is 1.
    for (mode, one) in [("rn", 0x3c01), ("rz", 0x3c00)] {
        let body = format!(
            "mov.b32 %f1, 0x3f801fff;\ncvt.{mode}.f16.f32 %h1, %f1;\ncvt.u32.u16 %r3, %h1;\n\
             cvt.{mode}.f16x2.f32 %r4, %f1, %f1;\nst.global.v2.u32 [%rd2], {{%r3, %r4}};"
        );
        let k = Kernel { name: "halves", body: &body, block: 1, out_bytes: 8, ..Kernel::default() };
        assert_eq!(k.words(), [one, one << 16 | one]);
    }
}

#[test]
fn tiles_dropped_by_a_persistent_scheduler_2433() {
    let p = Problem { blocks: 2, m: 384, ..LONG };
    let (kinds, wrong) = changed("    mov.u32 %r13, %nctaid.x;", "    mov.u32 %r13, 3;", &p);
    assert!(wrong > 0, "{kinds:?}");
}

#[test]
fn warpgroups_swap_their_rows_2522() {
    let (_, wrong) = changed(
        "    shl.b32 %r31, %r26, 13;",
        "    xor.b32 %r31, %r26, 1;\n    shl.b32 %r31, %r31, 13;",
        &LONG,
    );
    assert!(wrong > 0);
}

#[test]
fn tail_of_k_dropped_2381() {
    let p = Problem { k: 64 * 3 + 24, ..LONG };
    let (_, wrong) = changed(
        "    ld.param.u32 %r3, [depth];",
        "    ld.param.u32 %r3, [depth];\n    sub.u32 %r3, %r3, 1;",
        &p,
    );
    assert!(wrong > 0);
}

#[test]
fn a_barrier_of_no_threads_3030() {
    assert!(kernel("barrier_of_none", "mov.u32 %r5, 0;\nbar.sync 1, %r5;").contains(&HazardKind::BadOperand));
}

#[test]
fn wrong_number_of_threads_2547() {
    let module = warplift_sim::parse(PTX).expect("parses");
    let mut launch = warplift_sim::Launch::new(&module, "gemm");
    launch.block = 256;
    let e = warplift_sim::run(&launch, &mut warplift_sim::Memory::new(), &Default::default()).unwrap_err();
    assert!(matches!(e, SimError::Launch(w) if w.contains("256 threads") && w.contains("384")));
}

#[test]
fn operands_of_8_bits_are_k_major_3223() {
    let multiply = |elem: &str, k: u32, majors: &str| {
        MULTIPLY
            .replace(".f16.f16 {", &format!(".{elem}.{elem} {{"))
            .replace("k16", &format!("k{k}"))
            .replace("1, 1, 1, 0, 0;", &format!("1, 1, 1{majors};"))
    };
    let text = |body: &str| Kernel { name: "major", body, block: 128, ..Kernel::default() }.text();
    assert!(warplift_sim::parse(&text(&multiply("f16", 16, ", 1, 1"))).is_ok());
    assert!(warplift_sim::parse(&text(&multiply("e4m3", 32, ""))).is_ok());
    assert!(warplift_sim::parse(&text(&multiply("e4m3", 32, ", 1, 0"))).is_err());
}

#[test]
fn exchange_through_shared_memory_without_synchronisation_2698_2699_2703() {
    let body = |sync: &str| {
        format!(
            "shl.b32 %r3, %r2, 2;\nadd.u32 %r3, %r3, %r1;\nst.shared.u32 [%r3], %r2;\nbar.sync 0;\n\
             xor.b32 %r4, %r3, 128;\nld.shared.u32 %r5, [%r4];\n{sync}st.shared.u32 [%r3], %r5;"
        )
    };
    assert_eq!(kernel("exchange_twice", &body("bar.sync 0;\n")), vec![]);
    assert_eq!(kernel("exchange_once", &body("")), vec![HazardKind::SharedRace]);
}

#[test]
fn nan_stays_nan_in_bf16_2481() {
    let body = "mov.b32 %f1, 0x7f800001;\ncvt.rn.bf16.f32 %h1, %f1;\ncvt.u32.u16 %r3, %h1;\nst.global.u32 [%rd2], %r3;";
    let k = Kernel { name: "bf16_nan", body, block: 1, out_bytes: 4, ..Kernel::default() };
    assert_eq!(k.words(), [0x7fff]);
}
