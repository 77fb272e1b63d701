//! A hand-written warp-specialised GEMM in the simulator: right without a hazard under every
//! adversary, and each mutation of its synchronisation found.

mod common;

use common::{LONG, Problem, SMALL, gemm};
use warplift_sim::{Adversary, HazardKind, Hazards, Options, SimError};

const PTX: &str = include_str!("ptx/gemm_ws.ptx");

fn options(seed: u64, order: Adversary) -> Options {
    Options { seed, order, max_steps: 3_000_000, ..Options::default() }
}

fn adversaries() -> Vec<Options> {
    let mut all = vec![options(0, Adversary::Earliest), options(0, Adversary::Latest)];
    all.extend((1..=6).map(|s| options(s, Adversary::Random)));
    all
}

#[test]
fn right_and_clean_under_every_adversary() {
    for o in adversaries() {
        let (report, wrong) = gemm(PTX, &SMALL, &o).unwrap_or_else(|e| panic!("{o:?}: {e}"));
        assert_eq!(wrong, 0, "{o:?}");
        assert_eq!(report.hazards, vec![], "{o:?}");
        assert_eq!(report.blocks, 2);
    }
}

/// Kinds of hazards that a change of the text gives over a few adversaries, and whether some
/// result was wrong.
fn verdict(ptx: &str) -> (Vec<HazardKind>, bool) {
    let (mut kinds, mut wrong) = (Vec::new(), false);
    for mut o in adversaries().into_iter().take(4) {
        o.hazards = Hazards::Warn;
        match gemm(ptx, &LONG, &o) {
            Ok((r, n)) => {
                kinds.extend(r.hazards.iter().map(|h| h.kind));
                wrong |= n > 0;
            }
            Err(e) => panic!("{e}"),
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    (kinds, wrong)
}

fn change(from: &str, to: &str) -> String {
    assert!(PTX.contains(from), "{from}");
    PTX.replacen(from, to, 1)
}

#[test]
fn each_missing_synchronisation_is_found() {
    use HazardKind::*;
    let arrive = "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r18];";
    let cases: [(&str, &str, HazardKind); 16] = [
        ("    @!%p3 bra P_WAIT;", "", InFlight),
        ("    @!%p3 bra C_WAIT;", "", InFlight),
        (arrive, "", Deadlock),
        ("[%r19], 24576;", "[%r19], 24560;", Deadlock),
        ("[%r19], 24576;", "[%r19], 16384;", InFlight),
        ("    fence.proxy.async.shared::cta;\n", "", MissingProxyFence),
        ("    fence.mbarrier_init.release.cluster;\n", "", MissingProxyFence),
        ("INIT_DONE:\n    bar.sync 0;", "INIT_DONE:", BarrierMisuse),
        ("    wgmma.fence.sync.aligned;\n", "", MissingWgmmaFence),
        ("    wgmma.commit_group.sync.aligned;\n", "", RegisterInFlight),
        ("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;", InFlight),
        ("@%p7 cp.async.bulk.wait_group.read 0;", "", InFlight),
        ("@%p7 cp.async.bulk.wait_group 0;", "", EarlyExit),
        ("    mov.u32 %r11, 1;", "    mov.u32 %r11, 0;", Deadlock),
        ("[%r9], 8;", "[%r9], 7;", InFlight),
        ("[%r9], 8;", "[%r9], 16;", Deadlock),
    ];
    for (from, to, kind) in cases {
        let (kinds, _) = verdict(&change(from, to));
        assert!(kinds.contains(&kind), "{from:?} -> {to:?}: {kinds:?}, not {kind:?}");
    }
}

#[test]
fn a_hazard_names_both_places() {
    let ptx = change("    fence.proxy.async.shared::cta;\n", "");
    let e = gemm(&ptx, &SMALL, &options(1, Adversary::Earliest)).unwrap_err();
    let SimError::Hazard(h) = e else { panic!("{e}") };
    assert!(h.site.opcode.starts_with("cp.async.bulk.tensor.2d.global"), "{h}");
    let other = h.other.expect("the write");
    assert!(other.opcode.starts_with("stmatrix"), "{}", other.opcode);
    assert_eq!(other.loc, Some(("gemm.tile".to_owned(), 10, 1)));
    let line = ptx.lines().nth(h.site.line as usize - 1).expect("the line");
    assert!(line.contains("cp.async.bulk.tensor.2d.global"), "{line}");
}

#[test]
fn setmaxnreg_beyond_the_pool_deadlocks() {
    let (kinds, _) =
        verdict(&change("setmaxnreg.dec.sync.aligned.u32 40", "setmaxnreg.dec.sync.aligned.u32 48"));
    assert_eq!(kinds, vec![HazardKind::Deadlock]);
}

#[test]
fn every_trip_count_works() {
    for blocks_deep in 1..=7 {
        let p = Problem { m: 256, n: 64, k: 64 * blocks_deep, blocks: 1, cluster: 1 };
        for o in adversaries().into_iter().take(3) {
            let (_, wrong) = gemm(PTX, &p, &o).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(wrong, 0);
        }
    }
}
