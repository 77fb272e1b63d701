//! Every mutant of the hand-written GEMM is caught.

mod common;

use common::{CLUSTER, LONG, Problem, gemm};
use warplift_sim::mutate::{Mutation, Verdict, adversaries, judge, mutants};

const PTX: &str = include_str!("ptx/gemm_ws.ptx");

const MULTICAST: &str = include_str!("ptx/gemm_cluster.ptx");

/// Descriptions of the mutants that nothing noticed.
fn escaped(ptx: &str, p: &Problem) -> Vec<String> {
    let all = mutants(ptx).expect("PTX");
    assert!(all.len() >= 40, "{} mutants", all.len());
    for kind in [Mutation::Remove, Mutation::Corrupt, Mutation::Move] {
        let n = all.iter().filter(|m| m.mutation == kind).count();
        assert!(n >= 5, "{n} of {kind:?}");
    }
    let options = adversaries(4, 3_000_000);
    let run = |ptx: &str, o: &_| gemm(ptx, p, o).map(|(r, wrong)| (r, wrong == 0));
    let through = all.iter().filter(|m| judge(m, &options, run) == Verdict::Escaped);
    through.map(|m| m.description.clone()).collect()
}

#[test]
fn every_mutant_is_caught() {
    assert_eq!(escaped(PTX, &LONG), Vec::<String>::new());
}

#[test]
fn every_mutant_of_a_cluster_is_caught() {
    assert_eq!(escaped(MULTICAST, &CLUSTER), Vec::<String>::new());
}

#[test]
fn the_originals_are_not_caught() {
    for o in adversaries(6, 3_000_000) {
        for (ptx, p) in [(PTX, &LONG), (MULTICAST, &CLUSTER)] {
            let (report, wrong) = gemm(ptx, p, &o).unwrap_or_else(|e| panic!("{o:?}: {e}"));
            assert_eq!((report.hazards.len(), wrong), (0, 0));
        }
    }
}
