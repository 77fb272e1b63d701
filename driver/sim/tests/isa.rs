//! What the PTX ISA leaves unordered though it looks ordered: each pattern as it should be, and with the piece taken
//! out that the ISA asks for.

mod common;

use common::kernel::Kernel;
use warplift_sim::HazardKind::{self, *};
use warplift_sim::{Adversary, Hazards, Options};

/// Words of the thread: `%r3` in shared memory, `%rd3` in the input, `%r4` in shared memory of the lane beside it.
/// `%p1` is lane 0, `%p2` thread 0, `%p3` warp 0.
const PLACE: &str = "shl.b32 %r4, %r2, 2;\nadd.u32 %r3, %r1, %r4;\nmul.wide.u32 %rd3, %r2, 4;\n\
    add.s64 %rd4, %rd2, %rd3;\nadd.s64 %rd3, %rd1, %rd3;\nxor.b32 %r4, %r4, 4;\nadd.u32 %r4, %r4, %r1;\n\
    mov.u32 %r5, %laneid;\nsetp.eq.u32 %p1, %r5, 0;\nsetp.eq.u32 %p2, %r2, 0;\nsetp.lt.u32 %p3, %r2, 32;\n";

struct Shape {
    grid: u32,
    cluster: u32,
    block: u32,
}

const fn of(block: u32) -> Shape {
    Shape { grid: 1, cluster: 1, block }
}

const fn blocks(grid: u32, cluster: u32) -> Shape {
    Shape { grid, cluster, block: 32 }
}

fn kinds(body: &str, shape: &Shape) -> Vec<HazardKind> {
    let body = format!("{PLACE}{body}");
    let Shape { grid, cluster, block } = *shape;
    let input = vec![0; 1024];
    let k = Kernel { name: "isa", body: &body, grid, cluster, block, input, shared: 16384, out_bytes: 1024 };
    k.hazards().iter().map(|h| h.kind).collect()
}

/// Clean as it stands; a hazard of this kind once a piece is replaced.
fn pattern(body: &str, shape: &Shape, pieces: &[(&str, &str, HazardKind)]) {
    assert_eq!(kinds(body, shape), vec![], "{body}");
    for (from, to, kind) in pieces {
        let broken = body.replacen(from, to, 1);
        assert_ne!(broken, body, "{from}");
        let found = kinds(&broken, shape);
        assert!(found.contains(kind), "without `{from}`: {found:?}\n{broken}");
    }
}

const COPY: &str = "cp.async.ca.shared.global [%r3], [%rd3], 4;\n";

/// PTX ISA, `cp.async.commit_group`, `cp.async.wait_group`: a group is of the executing thread's copies, and the wait
/// makes them visible to the executing thread alone.
#[test]
fn groups_of_copies_belong_to_a_thread() {
    let commit = "cp.async.commit_group;\n";
    let wait = "cp.async.wait_group 0;\n";
    let body = format!("{COPY}{commit}{wait}bar.sync 0;\nld.shared.u32 %r6, [%r4];");
    let one = |line: &str| format!("@%p1 {line}");
    pattern(
        &body,
        &of(64),
        &[
            (commit, &one(commit), InFlight),
            (wait, &one(wait), InFlight),
            ("bar.sync 0;\n", "", LaneRace),
            (wait, "cp.async.wait_group 1;\n", InFlight),
        ],
    );
    let all = body.replace(commit, "").replace(wait, "cp.async.wait_all;\n");
    pattern(&all, &of(64), &[("cp.async.wait_all;\n", "@%p1 cp.async.wait_all;\n", InFlight)]);
}

#[test]
fn a_thread_needs_nobody_for_its_own_copies() {
    let once = format!("{COPY}cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.u32 %r6, [%r3];\n");
    assert_eq!(kinds(&format!("{once}{once}{once}"), &of(64)), vec![]);
    let split = format!(
        "{COPY}@%p1 cp.async.commit_group;\n@!%p1 cp.async.commit_group;\n@%p1 cp.async.wait_group 0;\n\
         @!%p1 cp.async.wait_group 0;\nbar.warp.sync -1;\nld.shared.u32 %r6, [%r4];"
    );
    pattern(&split, &of(64), &[("@!%p1 cp.async.wait_group 0;\n", "", InFlight)]);
}

/// A copy overwrites what another lane has read: that lane is ordered before it by a synchronisation of the warp.
#[test]
fn copies_overwrite_what_other_lanes_read() {
    let wait = "cp.async.wait_all;\n";
    let body = format!(
        "{COPY}{wait}bar.warp.sync -1;\nld.shared.u32 %r6, [%r4];\nbar.warp.sync 0xffffffff;\n{COPY}{wait}"
    );
    pattern(&body, &of(32), &[("bar.warp.sync 0xffffffff;\n", "", LaneRace)]);
}

/// PTX ISA, `cp.async.mbarrier.arrive`: it tracks the copies that the executing thread has issued.
#[test]
fn an_arrival_of_copies_tracks_those_of_its_thread() {
    let body = format!(
        "@%p2 mbarrier.init.shared::cta.b64 [%r1+1024], 64;\nbar.sync 0;\n{COPY}\
         cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1+1024];\nAGAIN:\n\
         mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r1+1024], 0;\n@!%p5 bra AGAIN;\nld.shared.u32 %r6, [%r4];"
    );
    assert_eq!(kinds(&body, &of(64)), vec![]);
    let one = body.replace("+1024], 64", "+1024], 2").replace("cp.async.mbarrier", "@%p1 cp.async.mbarrier");
    assert!(kinds(&one, &of(64)).contains(&InFlight));
}

/// The fence between the proxies is the writing thread's, or that of a thread that has seen the copies complete.
#[test]
fn a_proxy_fence_covers_what_its_thread_has_seen() {
    let fence = "fence.proxy.async.shared::cta;\n";
    let store = "@%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 128;\n\
        @%p2 cp.async.bulk.commit_group;\n@%p2 cp.async.bulk.wait_group 0;";
    let body = format!("{COPY}cp.async.wait_all;\n{fence}bar.warp.sync -1;\n{store}");
    pattern(&body, &of(32), &[(fence, &format!("@%p1 {fence}"), MissingProxyFence)]);
    let behind = format!("{COPY}cp.async.wait_all;\nbar.warp.sync -1;\n@%p1 {fence}{store}");
    pattern(&behind, &of(32), &[(fence, "mov.u32 %r6, 0;\n", MissingProxyFence)]);
}

fn wait(name: &str, at: u32, parity: u32) -> String {
    format!(
        "{name}:\nmbarrier.try_wait.parity.shared::cta.b64 %p5, [%r1+{at}], {parity};\n@!%p5 bra {name};\n"
    )
}

/// PTX ISA, "Memory consistency model: synchronizes-with": a wait orders what was released into its phase, whoever waits.
#[test]
fn a_wait_at_an_mbarrier_is_no_synchronisation_of_the_warp() {
    let init = "@%p2 mbarrier.init.shared::cta.b64 [%r1+1024], 1;\n@%p2 mbarrier.init.shared::cta.b64 [%r1+1032], 1;\n\
        @%p2 mbarrier.init.shared::cta.b64 [%r1+1040], 1000;\nbar.sync 0;\n@!%p3 bra OTHER;\n";
    let reader = format!(
        "bra END;\nOTHER:\n{}sub.u32 %r6, %r4, 128;\nld.shared.u32 %r6, [%r6];\nEND:",
        wait("W", 1024, 0)
    );
    let body = format!(
        "{init}@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1+1032];\nmbarrier.arrive.shared::cta.b64 _, [%r1+1040];\n\
         st.shared.u32 [%r3], %r2;\n{}bar.warp.sync -1;\n@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1+1024];\n{reader}",
        wait("Q", 1032, 0)
    );
    pattern(&body, &of(64), &[("bar.warp.sync -1;\n", "", SharedRace)]);
}

#[test]
fn lanes_that_all_arrive_are_ordered_behind_the_wait() {
    let arrive = "mbarrier.arrive.shared::cta.b64 _, [%r1+1024];\n";
    let body = format!(
        "@%p2 mbarrier.init.shared::cta.b64 [%r1+1024], 32;\nbar.sync 0;\nst.shared.u32 [%r3], %r2;\n{arrive}\
         {}ld.shared.u32 %r6, [%r4];",
        wait("W", 1024, 0)
    );
    assert_eq!(kinds(&body, &of(32)), vec![]);
    let early = body.replace(arrive, "").replace("bar.sync 0;\n", &format!("bar.sync 0;\n{arrive}"));
    assert_eq!(kinds(&early, &of(32)), vec![LaneRace]);
}

/// PTX ISA, `st`: which of several lanes' values stays where one instruction writes one word is not said.
#[test]
fn lanes_of_one_instruction_write_one_word() {
    for (store, kind) in [
        ("st.shared.u32 [%r1], %r5;", LaneRace),
        ("st.global.u32 [%rd2], %r5;", GlobalRace),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r5};", LaneRace),
    ] {
        assert_eq!(kinds(store, &of(32)), vec![kind], "{store}");
        let same = format!("mov.u32 %r5, 7;\n{store}");
        assert_eq!(kinds(&same, &of(32)), vec![], "{same}");
    }
    let bytes = "cvt.u16.u32 %h1, %r5;\nadd.u32 %r6, %r1, %r5;\nst.shared.u8 [%r6], %h1;";
    assert_eq!(kinds(bytes, &of(32)), vec![]);
    let strong = "st.relaxed.gpu.global.u32 [%rd2], %r5;";
    assert_eq!(kinds(strong, &of(32)), vec![], "strong writes have an order, whichever it is");
}

/// Block 0 writes, releases with a scope; the other block acquires with it and reads.
fn message(scope: &str) -> String {
    format!(
        "mov.u32 %r6, %ctaid.x;\nsetp.eq.u32 %p4, %r6, 0;\nmov.u32 %r7, 1;\n@!%p4 bra READ;\n\
         st.global.u32 [%rd4], %r7;\nbar.warp.sync -1;\n@%p2 st.release.{scope}.global.u32 [%rd1], %r7;\nbra END;\n\
         READ:\nld.acquire.{scope}.global.u32 %r8, [%rd1];\nsetp.ne.u32 %p6, %r8, 1;\n@%p6 bra END;\n\
         ld.global.u32 %r9, [%rd4];\nEND:"
    )
}

/// PTX ISA, "Memory consistency model: morally strong": each side's scope includes the other's thread.
#[test]
fn a_scope_orders_the_threads_that_it_includes() {
    for (scope, shape, kinds_found) in [
        ("cluster", blocks(2, 1), vec![GlobalRace]),
        ("cta", blocks(2, 2), vec![GlobalRace]),
        ("cluster", blocks(2, 2), vec![]),
        ("gpu", blocks(2, 1), vec![]),
        ("sys", blocks(2, 1), vec![]),
    ] {
        assert_eq!(kinds(&message(scope), &shape), kinds_found, "{scope}");
    }
    // The narrower of the two counts, and a fence's scope too.
    let mixed = message("gpu").replace("ld.acquire.gpu", "ld.acquire.cluster");
    assert_eq!(kinds(&mixed, &blocks(2, 1)), vec![GlobalRace]);
    assert_eq!(kinds(&mixed, &blocks(2, 2)), vec![]);
    let fenced = |scope: &str| {
        let fence = format!("fence.acq_rel.{scope};\n");
        message("gpu")
            .replace("@%p2 st.release.gpu", &format!("{fence}@%p2 st.relaxed.gpu"))
            .replace("ld.acquire.gpu", "ld.relaxed.gpu")
            .replace("ld.global.u32 %r9", &format!("{fence}ld.global.u32 %r9"))
    };
    assert_eq!(kinds(&fenced("gpu"), &blocks(2, 1)), vec![]);
    assert_eq!(kinds(&fenced("cluster"), &blocks(2, 1)), vec![GlobalRace]);
    assert_eq!(kinds(&fenced("cluster"), &blocks(2, 2)), vec![]);
}

#[test]
fn strong_accesses_race_beyond_their_scope() {
    for access in
        ["red.relaxed.SCOPE.global.add.u32 [%rd2], %r5;", "st.relaxed.SCOPE.global.u32 [%rd2], %r5;"]
    {
        for (scope, shape, kinds_found) in [
            ("cta", blocks(2, 1), vec![GlobalRace]),
            ("cta", blocks(2, 2), vec![GlobalRace]),
            ("cta", of(64), vec![]),
            ("cluster", blocks(2, 1), vec![GlobalRace]),
            ("cluster", blocks(2, 2), vec![]),
            ("gpu", blocks(4, 1), vec![]),
        ] {
            assert_eq!(kinds(&access.replace("SCOPE", scope), &shape), kinds_found, "{access} {scope}");
        }
    }
}

/// PTX ISA, `setmaxnreg`: all warps of the warpgroup execute it, and synchronise before the next one.
#[test]
fn registers_are_given_by_whole_warpgroups() {
    let body = "setmaxnreg.dec.sync.aligned.u32 128;\nbar.sync 0;\nsetmaxnreg.dec.sync.aligned.u32 64;";
    pattern(body, &of(128), &[("bar.sync 0;\n", "", RegisterPool)]);
    let one = "@%p3 bra ONE;\nbra END;\nONE:\nsetmaxnreg.dec.sync.aligned.u32 128;\nEND:";
    assert_eq!(kinds(one, &of(128)), vec![RegisterPool]);
    let other = "@%p3 bra ONE;\nsetmaxnreg.dec.sync.aligned.u32 136;\nbra END;\nONE:\n\
        setmaxnreg.dec.sync.aligned.u32 128;\nEND:";
    assert_eq!(kinds(other, &of(128)), vec![RegisterPool]);
}

/// PTX ISA, `ld.global.nc`: the memory is read-only while the kernel runs.
#[test]
fn non_coherent_loads_read_what_nobody_writes() {
    let load = "ld.global.nc.u32 %r6, [%rd3];\n";
    assert_eq!(kinds(load, &of(64)), vec![]);
    let store = "st.global.u32 [%rd3], %r2;\n";
    for body in [format!("{store}bar.sync 0;\n{load}"), format!("{load}bar.sync 0;\n{store}")] {
        pattern(&body.replace(".nc", ""), &of(64), &[("ld.global", "ld.global.nc", GlobalRace)]);
    }
}

/// PTX ISA, `mbarrier.inval`: it is an access to the barrier as the others are, and comes behind all of them.
#[test]
fn a_barrier_is_invalidated_behind_its_uses() {
    let inval = |behind: &str| {
        format!(
            "@%p2 mbarrier.init.shared::cta.b64 [%r1+1024], 2;\nbar.sync 0;\n\
             @%p1 mbarrier.arrive.shared::cta.b64 _, [%r1+1024];\nbar.sync 1;\n\
             @%p2 mbarrier.inval.shared::cta.b64 [%r1+1024];\n{behind}"
        )
    };
    pattern(&inval(""), &of(64), &[("bar.sync 1;\n", "", BarrierMisuse)]);
    // Also where the arrivals come first.
    let late = inval("").replace(
        "bar.sync 1;\n",
        "@!%p3 bra END;\nmov.u32 %r6, 0;\nAGAIN:\nadd.u32 %r6, %r6, 1;\n\
        setp.lt.u32 %p5, %r6, 1000;\n@%p5 bra AGAIN;\n",
    ) + "END:";
    let body = format!("{PLACE}{late}");
    let k = Kernel { name: "inval", body: &body, block: 64, input: vec![0; 1024], ..Kernel::default() };
    let found = k.run(&Options { order: Adversary::Earliest, hazards: Hazards::Warn, ..Options::default() });
    let found: Vec<_> = found.expect("it ends").0.hazards.iter().map(|h| h.message.clone()).collect();
    assert!(found.iter().any(|m| m.contains("invalidated")), "{found:?}");
    let data = inval("bar.sync 2;\nsetp.eq.u32 %p4, %r2, 40;\n@%p4 st.shared.u32 [%r1+1024], %r2;");
    pattern(&data, &of(64), &[("bar.sync 2;\n", "", BarrierMisuse)]);
}

/// An arrival that may count in the phase before: 31 lanes arrive where one belongs, and the parity is the same.
#[test]
fn an_arrival_knows_its_phase() {
    let body = format!(
        "@%p2 mbarrier.init.shared::cta.b64 [%r1+1024], 1;\nbar.sync 0;\nsetp.lt.u32 %p6, %r2, 31;\n@!%p3 bra WAIT;\n\
         @%p1 mbarrier.arrive.shared::cta.b64 _, [%r1+1024];\nbra END;\nWAIT:\n{}END:",
        wait("W", 1024, 0)
    );
    pattern(&body, &of(64), &[("@%p1 mbarrier.arrive", "@%p6 mbarrier.arrive", OverArrival)]);
    // One thread alone knows its own arrivals, and a wait tells of the phase's end.
    let twice = "@%p2 mbarrier.init.shared::cta.b64 [%r1+1024], 1;\nbar.sync 0;\n\
        @%p2 mbarrier.arrive.shared::cta.b64 _, [%r1+1024];\n@%p2 mbarrier.arrive.shared::cta.b64 _, [%r1+1024];";
    assert_eq!(kinds(twice, &of(64)), vec![]);
    let turns = format!(
        "@%p2 mbarrier.init.shared::cta.b64 [%r1+1024], 2;\nbar.sync 0;\n\
         @%p1 mbarrier.arrive.shared::cta.b64 _, [%r1+1024];\n{}@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1+1024];\n{}",
        wait("V", 1024, 0),
        wait("W", 1024, 1)
    );
    pattern(&turns, &of(64), &[(&wait("V", 1024, 0), "", OverArrival)]);
}

/// A value that nobody wrote is a mistake where something depends on it.
#[test]
fn values_that_nothing_uses_may_be_unknown() {
    for (body, found) in [
        ("add.u32 %r6, %r40, 1;\nmul.lo.u32 %r7, %r6, %r6;", vec![]),
        ("add.u32 %r6, %r40, 1;\nst.shared.u32 [%r1], %r6;", vec![UninitialisedRegister]),
        ("setp.ge.u32 %p4, %r2, 0;\nselp.b32 %r6, %r2, %r40, %p4;\nst.shared.u32 [%r3], %r6;", vec![]),
        (
            "setp.lt.u32 %p4, %r2, 0;\nselp.b32 %r6, %r2, %r40, %p4;\nst.shared.u32 [%r3], %r6;",
            vec![UninitialisedRegister],
        ),
        (
            "setp.eq.u32 %p4, %r40, 0;\nsetp.lt.and.u32 %p5, %r2, 0, %p4;\n@%p5 st.shared.u32 [%r3], %r2;",
            vec![],
        ),
        ("setp.eq.u32 %p4, %r40, 0;\n@%p4 st.shared.u32 [%r3], %r2;", vec![UninitialisedRegister]),
    ] {
        assert_eq!(kinds(body, &of(32)), found, "{body}");
    }
}

/// PTX ISA, `wgmma.wait_group`: it waits for the groups of the executing threads.
#[test]
fn a_wait_for_products_covers_those_of_its_warp() {
    let body = format!(
        "@%p2 mbarrier.init.shared::cta.b64 [%r1+8192], 4;\n\
         shl.b32 %r6, %r2, 4;\nadd.u32 %r6, %r6, %r1;\nmov.u32 %r7, 0;\n\
         st.shared.v4.u32 [%r6], {{%r7, %r7, %r7, %r7}};\nst.shared.v4.u32 [%r6+2560], {{%r7, %r7, %r7, %r7}};\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.ge.u32 %p7, %r2, 128;\n@%p7 bra OTHER;\n\
         and.b32 %r8, %r1, 0x3ffff;\nshr.u32 %r8, %r8, 4;\nor.b32 %r8, %r8, 0x80000;\nmov.u32 %r9, 16;\n\
         mov.b64 %rd5, {{%r8, %r9}};\n\
         mov.f32 %f1, 0f00000000;\nmov.f32 %f2, %f1;\nmov.f32 %f3, %f1;\nmov.f32 %f4, %f1;\n\
         wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f1, %f2, %f3, %f4}}, %rd5, %rd5, 1, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n\
         @%p1 mbarrier.arrive.shared::cta.b64 _, [%r1+8192];\nbra END;\nOTHER:\n{}st.shared.u32 [%r1], %r7;\nEND:",
        wait("W", 8192, 0)
    );
    let one = body.replace("+8192], 4", "+8192], 1").replace("@%p1 mbarrier.arrive", "@%p2 mbarrier.arrive");
    assert_eq!(kinds(&body, &of(160)), vec![]);
    assert_eq!(kinds(&one, &of(160)), vec![InFlight]);
}

/// PTX ISA, `vote.sync`: a thread waits for the threads of its own `membermask`, and must be one of them. Halves of a
/// warp that name themselves vote apart by one instruction, in converged code and in diverged code.
#[test]
fn lanes_vote_with_the_lanes_that_they_name() {
    let halves = "and.b32 %r5, %r5, 16;\nshl.b32 %r6, 0xffff, %r5;\n";
    let vote = "vote.sync.ballot.b32 %r7, 1, %r6;\nredux.sync.add.u32 %r7, %r7, %r6;\n";
    pattern(
        &format!("{halves}{vote}"),
        &of(32),
        &[("0xffff,", "0xfffe,", Divergence), ("and.b32 %r5, %r5, 16", "mov.u32 %r5, 0", Divergence)],
    );
    let apart =
        format!("{halves}setp.eq.u32 %p1, %r5, 0;\n@%p1 bra THERE;\n{vote}bra DONE;\nTHERE:\n{vote}DONE:\n");
    pattern(
        &format!("{apart}mov.u32 %r3, 0;"),
        &of(32),
        &[("0xffff,", "0x1ffff,", Divergence), ("%r7, 1, %r6", "%r7, 1, -1", Divergence)],
    );
    let ballots = |mask: &str| {
        let body = format!("{PLACE}{halves}vote.sync.ballot.b32 %r7, 1, {mask};\nst.global.u32 [%rd4], %r7;");
        let (input, out_bytes) = (vec![0; 1024], 128);
        let k = Kernel {
            name: "isa",
            body: &body,
            grid: 1,
            cluster: 1,
            block: 32,
            input,
            shared: 16384,
            out_bytes,
        };
        k.words()
    };
    assert_eq!(ballots("-1"), [u32::MAX; 32]);
    assert_eq!(ballots("%r6"), [[0xffff; 16], [0xffff_0000; 16]].concat());
}
