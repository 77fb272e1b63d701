//! Every litmus in the simulator: it runs, has no hazard, gives the same under every order of events,
//! what its definition says, and what a GPU answered when it was last asked.

use rayon::prelude::*;
use warplift::ir::target::SM90A;
use warplift_lab::litmus::{self, Entry, Record};

#[test]
fn the_simulator_passes_every_litmus() {
    let (cases, record) = (litmus::cases(), Record::committed());
    let check = |case: &litmus::Case| match litmus::simulate(case) {
        Err(difference) => Some(format!("{}: {}", case.name, difference.0)),
        Ok(out) => match record.answer(case) {
            Some(answer) if answer != Entry::new(case, &out).answer => {
                Some(format!("{}: a GPU answered otherwise", case.name))
            }
            _ => None,
        },
    };
    let wrong: Vec<String> = cases.par_iter().filter_map(check).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The record would otherwise go stale unnoticed: a changed text has no answer any more.
#[test]
fn a_gpu_has_answered_most() {
    let (cases, record) = (litmus::cases(), Record::committed());
    let answered = cases.iter().filter(|c| record.answer(c).is_some()).count();
    assert!(answered * 10 >= cases.len() * 9, "{answered} of {} have a GPU's answer", cases.len());
}

#[test]
fn every_row_of_the_opcode_table_is_simulated() {
    let cases = litmus::cases();
    let lacking: Vec<&str> = SM90A
        .rows()
        .filter(|row| litmus::covering(row, &cases).is_none())
        .map(|row| row.opcode.name())
        .collect();
    assert!(lacking.is_empty(), "no litmus executes {lacking:?}");
}
