//! Every mutant of the hand-written GEMM is caught.

mod sim_common;

use sim_common::{LONG, gemm};
use warplift::sim::mutate::{Mutation, Verdict, adversaries, judge, mutants};

const PTX: &str = include_str!("ptx/gemm_ws.ptx");

#[test]
fn every_mutant_is_caught() {
    let all = mutants(PTX).expect("PTX");
    assert!(all.len() >= 40, "{} mutants", all.len());
    for kind in [Mutation::Remove, Mutation::Corrupt, Mutation::Move] {
        assert!(all.iter().filter(|m| m.mutation == kind).count() >= 5, "{kind:?}");
    }
    let options = adversaries(4, 3_000_000);
    let escaped: Vec<_> = all
        .iter()
        .filter(|m| {
            let run = |ptx: &str, o: &_| gemm(ptx, &LONG, o).map(|(r, wrong)| (r, wrong == 0));
            judge(m, &options, run) == Verdict::Escaped
        })
        .map(|m| m.description.as_str())
        .collect();
    assert_eq!(escaped, Vec::<&str>::new());
}

#[test]
fn the_original_is_not_caught() {
    for o in adversaries(4, 3_000_000) {
        let (report, wrong) = gemm(PTX, &LONG, &o).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((report.hazards.len(), wrong), (0, 0));
    }
}
