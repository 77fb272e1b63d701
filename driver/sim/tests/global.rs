//! Races in global memory: within a block, between blocks, with asynchronous copies; and the patterns that order
//! accesses, each taken apart.

mod common;

use common::kernel::Kernel;
use warplift_sim::HazardKind::{self, *};

fn kinds(body: &str, grid: u32, block: u32) -> Vec<HazardKind> {
    let k = Kernel { name: "global", body, grid, block, out_bytes: 256, ..Kernel::default() };
    k.hazards().iter().map(|h| h.kind).collect()
}

/// Clean as it stands; a race once any of the pieces is replaced.
fn pattern(body: &str, grid: u32, block: u32, pieces: &[(&str, &str)]) {
    assert_eq!(kinds(body, grid, block), vec![], "{body}");
    for (from, to) in pieces {
        let broken = body.replacen(from, to, 1);
        assert_ne!(broken, body, "{from}");
        let found = kinds(&broken, grid, block);
        assert!(found.contains(&GlobalRace), "without {from}: {found:?}\n{broken}");
    }
}

#[test]
fn blocks_that_write_the_same_word_race() {
    assert_eq!(kinds("mov.u32 %r3, 7;\nst.global.u32 [%rd2], %r3;", 2, 1), vec![GlobalRace]);
    assert_eq!(kinds("mov.u32 %r3, 7;\nst.global.u32 [%rd2], %r3;", 1, 1), vec![]);
    let bytes = "mov.u32 %r3, %ctaid.x;\ncvt.u64.u32 %rd3, %r3;\nadd.s64 %rd3, %rd3, %rd2;\ncvt.u16.u32 %h1, %r3;\nst.global.u8 [%rd3], %h1;";
    assert_eq!(kinds(bytes, 16, 1), vec![], "bytes of a word are apart");
}

#[test]
fn a_read_beside_a_write_of_another_block_races() {
    let body = "mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p1, %r3, 0;\n\
        @%p1 st.global.u32 [%rd1], %r3;\n@!%p1 ld.global.u32 %r4, [%rd1];";
    assert_eq!(kinds(body, 2, 1), vec![GlobalRace]);
    assert_eq!(kinds("ld.global.u32 %r4, [%rd1];", 8, 1), vec![], "reads do not race");
}

/// Block 0 writes data and sets a flag, block 1 waits for the flag.
fn message(set: &str, wait: &str, behind: &str) -> String {
    format!(
        "mov.u32 %r3, %ctaid.x;\nmov.u32 %r5, 1;\nsetp.eq.u32 %p1, %r3, 0;\n@!%p1 bra WAIT;\n\
         st.global.u32 [%rd1+4], %r5;\n{set}\nbra END;\n\
         WAIT:\n{wait}\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra WAIT;\n{behind}ld.global.u32 %r6, [%rd1+4];\nEND:"
    )
}

#[test]
fn a_message_is_passed_by_release_and_acquire() {
    let body =
        message("st.release.gpu.global.u32 [%rd1], %r5;", "ld.acquire.gpu.global.u32 %r4, [%rd1];", "");
    pattern(&body, 2, 1, &[("st.release", "st.relaxed"), ("ld.acquire", "ld.relaxed")]);
}

#[test]
fn a_message_is_passed_by_fences() {
    let fence = "fence.acq_rel.gpu;\n";
    let set = format!("{fence}st.relaxed.gpu.global.u32 [%rd1], %r5;");
    let body = message(&set, "ld.relaxed.gpu.global.u32 %r4, [%rd1];", "fence.sc.gpu;\n");
    pattern(&body, 2, 1, &[(fence, ""), ("fence.sc.gpu;\n", "")]);
    let atomic = message(
        "red.release.gpu.global.add.u32 [%rd1], %r5;",
        "atom.acquire.gpu.global.or.b32 %r4, [%rd1], 0;",
        "",
    );
    pattern(&atomic, 2, 1, &[("red.release", "red.relaxed"), ("atom.acquire", "atom.relaxed")]);
}

#[test]
fn the_last_block_of_a_semaphore_sees_all() {
    // Each block of two warps writes 64 words' worth, the last to arrive reads the others' part.
    let body = "mov.u32 %r3, %ctaid.x;\nmad.lo.u32 %r4, %r3, 64, %r2;\nand.b32 %r4, %r4, 63;\nshl.b32 %r4, %r4, 2;\n\
        cvt.u64.u32 %rd3, %r4;\nadd.s64 %rd3, %rd3, %rd2;\n\
        setp.lt.u32 %p3, %r2, 32;\nsetp.eq.u32 %p4, %r3, 0;\nxor.pred %p5, %p3, %p4;\n\
        @%p5 st.global.u32 [%rd3], %r2;\nfence.acq_rel.gpu;\nbar.sync 0;\n\
        setp.ne.u32 %p1, %r2, 0;\n@%p1 bra MEET;\n\
        fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %r5, [%rd1], 1;\nfence.acq_rel.gpu;\n\
        st.shared.u32 [%r1], %r5;\n\
        MEET:\nbar.sync 1;\nld.shared.u32 %r5, [%r1];\nsetp.ne.u32 %p2, %r5, 1;\n@%p2 bra END;\n\
        ld.global.u32 %r6, [%rd3];\nEND:";
    let last = "%r5, [%rd1], 1;\nfence.acq_rel.gpu;\n";
    pattern(body, 2, 64, &[("bar.sync 0;\n", ""), (last, "%r5, [%rd1], 1;\n")]);
}

#[test]
fn atomics_race_with_plain_accesses_only() {
    let atomic = "mov.u32 %r3, 1;\nred.relaxed.gpu.global.add.u32 [%rd1], %r3;";
    assert_eq!(kinds(atomic, 4, 64), vec![]);
    assert_eq!(kinds(&format!("{atomic}\nld.global.u32 %r4, [%rd1];"), 2, 1), vec![GlobalRace]);
}

#[test]
fn warps_of_a_block_are_ordered_by_its_barrier() {
    let body = "setp.eq.u32 %p1, %r2, 0;\n@%p1 st.global.u32 [%rd1], %r2;\nbar.sync 0;\n\
        setp.eq.u32 %p2, %r2, 40;\n@%p2 ld.global.u32 %r4, [%rd1];";
    pattern(body, 1, 64, &[("bar.sync 0;\n", "")]);
}

#[test]
fn a_bulk_store_is_done_once_its_group_is_waited_for() {
    let body = "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\nst.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};\n\
        fence.proxy.async.shared::cta;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;\n\
        cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nld.global.u32 %r4, [%rd1];\nEND:";
    pattern(body, 1, 1, &[("wait_group 0", "wait_group.read 0")]);
}
