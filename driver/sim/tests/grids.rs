//! Grids that may start before their predecessors have ended: what may be touched before `griddepcontrol.wait`.

mod common;

use common::kernel::{Kernel, orders};
use warplift_sim::mutate::{Mutation, Verdict, judge, mutants};
use warplift_sim::{HazardKind, Hazards, Launch, Memory, Options, ParamValue, SimError, parse, run};

/// `%rd3` = address of the thread's input word, `%rd4` of its output word.
const PLACE: &str = "mul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd4, %rd2, %rd3;\nadd.s64 %rd3, %rd1, %rd3;\n";
const WAIT: &str = "griddepcontrol.wait;\n";

/// Hazards of a kernel with one warp; what the launch says of it, and whether the input may be read early.
fn hazards(body: &str, pdl: bool, before_wait: bool) -> Vec<HazardKind> {
    let kernel = Kernel { body, block: 64, ..Kernel::default() };
    let module = parse(&kernel.text()).unwrap_or_else(|e| panic!("{e}\n{}", kernel.text()));
    let mut kinds = Vec::new();
    for options in orders() {
        let mut memory = Memory::new();
        let (input, out) = (memory.alloc("in", vec![1; 256]), memory.alloc("out", vec![2; 256]));
        let mut launch = Launch::new(&module, "k");
        (launch.block, launch.dynamic_shared, launch.pdl) = (64, 4096, pdl);
        launch.params = vec![ParamValue::Pointer(input, 0), ParamValue::Pointer(out, 0)];
        launch.before_wait = if before_wait { vec![input] } else { Vec::new() };
        let report = run(&launch, &mut memory, &Options { hazards: Hazards::Warn, ..options });
        kinds.extend(report.unwrap_or_else(|e| panic!("{body}: {e}")).hazards.iter().map(|h| h.kind));
    }
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

const FOUND: &[HazardKind] = &[HazardKind::GridDependency];

#[test]
fn what_comes_after_the_wait_is_clean() {
    let body = format!("{PLACE}{WAIT}ld.global.u32 %r5, [%rd3];\nst.global.u32 [%rd4], %r5;");
    assert_eq!(hazards(&body, true, false), []);
    // A grid that starts after all others needs no wait.
    let never = body.replace(WAIT, "");
    assert_eq!(hazards(&never, false, false), []);
    assert_eq!(hazards(&never, true, false), FOUND);
}

#[test]
fn reads_before_the_wait_are_of_early_buffers() {
    let reads = [
        "ld.global.u32 %r5, [%rd3];\n",
        "cvta.to.global.u64 %rd5, %rd3;\nld.u32 %r5, [%rd5];\n",
        "add.u32 %r6, %r1, %r2;\nadd.u32 %r6, %r6, %r2;\nadd.u32 %r6, %r6, %r2;\nadd.u32 %r6, %r6, %r2;\n\
         cp.async.ca.shared.global [%r6], [%rd3], 4;\ncp.async.wait_all;\n",
    ];
    for read in reads {
        let body = format!("{PLACE}{read}{WAIT}st.global.u32 [%rd4], %r2;");
        assert_eq!(hazards(&body, true, true), [], "{read}");
        assert_eq!(hazards(&body, true, false), FOUND, "{read}");
        // PTX of others comes without a word about what is early.
        assert_eq!(hazards(&body, false, false), FOUND, "{read}");
        let other = body.replace("[%rd3]", "[%rd4]").replace("%rd5, %rd3", "%rd5, %rd4");
        assert_eq!(hazards(&other, true, true), FOUND, "the output is not early: {read}");
    }
}

/// A bulk copy is as early as its issue, however late it completes.
#[test]
fn copies_count_from_their_issue() {
    let body = |before: &str, behind: &str| {
        format!(
            "{PLACE}setp.eq.u32 %p1, %r2, 0;\n@%p1 mbarrier.init.shared.b64 [%r1], 1;\n\
             @%p1 fence.mbarrier_init.release.cluster;\nbar.sync 0;\nadd.u32 %r6, %r1, 128;\n\
             @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256;\n{before}\
             @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd1], 256, [%r1];\n\
             {behind}AGAIN:\nmbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;\n@!%p2 bra AGAIN;\nst.global.u32 [%rd4], %r2;"
        )
    };
    assert_eq!(hazards(&body(WAIT, ""), true, false), []);
    assert_eq!(hazards(&body("", WAIT), true, false), FOUND);
    assert_eq!(hazards(&body("", WAIT), true, true), []);
}

#[test]
fn writes_before_the_wait_are_hazards_always() {
    let stores = "add.u32 %r6, %r1, 128;\n@%p1 st.shared.u32 [%r6], %r2;\n@%p1 fence.proxy.async;\n";
    for write in [
        "st.global.u32 [%rd3], %r2;\n",
        "atom.global.add.u32 %r5, [%rd3], 1;\n",
        "red.global.add.u32 [%rd3], 1;\n",
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r6], 16;\n@%p1 cp.async.bulk.commit_group;\n",
    ] {
        let fill = "@%p1 st.shared.v4.u32 [%r6], {%r2, %r2, %r2, %r2};\n";
        let body = format!(
            "{PLACE}setp.eq.u32 %p1, %r2, 0;\n{stores}{fill}@%p1 fence.proxy.async;\n{write}{WAIT}@%p1 cp.async.bulk.wait_group 0;"
        );
        assert_eq!(hazards(&body, true, true), FOUND, "{write}");
        let after = body.replace(WAIT, "").replace(stores, &format!("{stores}{WAIT}"));
        assert_eq!(hazards(&after, true, true), [], "{write}");
    }
}

/// Each thread waits for itself: a barrier behind another's wait is not enough.
#[test]
fn a_thread_that_never_waits_touches_nothing() {
    let body = format!(
        "{PLACE}setp.ge.u32 %p1, %r2, 32;\n@%p1 bra WAITED;\n{WAIT}WAITED:\nbar.sync 0;\n\
         @!%p1 st.global.u32 [%rd4], %r2;"
    );
    assert_eq!(hazards(&body, true, true), []);
    let all = body.replace("@!%p1 st.global", "st.global");
    assert_eq!(hazards(&all, true, true), FOUND);
}

/// Both places are named: the access and the wait that comes too late.
#[test]
fn the_report_names_the_wait() {
    let body = format!("{PLACE}ld.global.u32 %r5, [%rd3];\n{WAIT}");
    let kernel = Kernel { body: &body, input: vec![0; 128], ..Kernel::default() };
    let Err(SimError::Hazard(h)) = kernel.run(&Options::default()) else { panic!("no hazard") };
    let other = h.other.expect("the wait");
    assert_eq!((h.site.opcode.as_str(), other.opcode.as_str()), ("ld.global.u32", "griddepcontrol.wait"));
    assert!(other.line > h.site.line && h.address.is_some(), "{}:{}", h.site.line, other.line);
}

/// The mutants of the wait are told.
#[test]
fn a_wait_that_is_gone_or_late_is_told() {
    let body = format!("{PLACE}{WAIT}ld.global.u32 %r5, [%rd3];\nst.global.u32 [%rd4], %r5;");
    let kernel = Kernel { body: &body, input: vec![0; 128], out_bytes: 128, ..Kernel::default() };
    let all = mutants(&kernel.text()).unwrap();
    assert_eq!(all.iter().map(|m| m.mutation).collect::<Vec<_>>(), [Mutation::Remove, Mutation::Move]);
    for mutant in all {
        let verdict = judge(&mutant, &orders(), |ptx, o| {
            let module = parse(ptx).unwrap();
            let mut memory = Memory::new();
            let (input, out) = (memory.alloc("in", vec![1; 128]), memory.alloc("out", vec![2; 128]));
            let mut launch = Launch::new(&module, "k");
            (launch.block, launch.dynamic_shared, launch.pdl) = (32, 4096, true);
            launch.params = vec![ParamValue::Pointer(input, 0), ParamValue::Pointer(out, 0)];
            run(&launch, &mut memory, o).map(|report| (report, true))
        });
        assert_eq!(verdict, Verdict::Hazard(HazardKind::GridDependency), "{}", mutant.description);
    }
}
