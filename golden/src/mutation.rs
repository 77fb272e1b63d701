//! Mutation proof: every synchronisation of emitted PTX removed, moved or corrupted must show itself as a
//! hazard, a wrong result or a run that does not end.

use crate::library::{CASES, Case, difference, load, sizes};
use warplift::ir::target::SM90A;
use warplift::problem::{Array, Data, Problem, ProblemError};
use warplift::sim::mutate::{Mutant, Verdict, adversaries, judge, mutants};
use warplift::sim::{Options, Report, SimError};
use warplift::{Compiled, compile};

/// Warp instructions after which a mutant counts as one that does not end.
const STEPS: u64 = 3_000_000;

/// A compiled kernel with its problems: together they reach all its code.
pub struct Subject {
    compiled: Compiled,
    problems: Vec<(Problem, Vec<Array>, u32)>,
}

impl Subject {
    /// Compiles a kernel of the library and interprets its cases.
    ///
    /// # Panics
    /// If it does not compile or run: then the library is broken.
    pub fn new(name: &str) -> Self {
        let (kernel, mapping) = load(name);
        let compiled = compile(&kernel, &mapping, &SM90A, &warplift::Options::default());
        let compiled = compiled.unwrap_or_else(|e| panic!("{name}: {e}"));
        let of = |case: &Case| {
            let problem = Problem::new(&kernel, &sizes(case.sizes), Data::Small, 5);
            let problem = problem.unwrap_or_else(|e| panic!("{name}: {e}"));
            let want = problem.interpret(&kernel).unwrap_or_else(|e| panic!("{name}: {e}"));
            (problem, want, case.sms)
        };
        Self { compiled, problems: CASES.iter().filter(|c| c.name == name).map(of).collect() }
    }

    /// All mutants of its PTX.
    pub fn mutants(&self) -> Vec<Mutant> {
        mutants(&self.compiled.ptx).unwrap_or_else(|e| panic!("emitted PTX does not parse: {e}"))
    }

    /// How a mutant shows itself in any of the problems, under both extreme orders and `seeds` random ones.
    pub fn judge(&self, mutant: &Mutant, seeds: u64) -> Verdict {
        let orders = adversaries(seeds, STEPS);
        let mut verdicts = self.problems.iter().map(|p| judge(mutant, &orders, |ptx, o| self.run(p, ptx, o)));
        verdicts.find(|v| *v != Verdict::Escaped).unwrap_or(Verdict::Escaped)
    }

    fn run(
        &self,
        (problem, want, sms): &(Problem, Vec<Array>, u32),
        ptx: &str,
        options: &Options,
    ) -> Result<(Report, bool), SimError> {
        match problem.simulate(ptx, &self.compiled.manifest, options, *sms) {
            Ok((have, report)) => Ok((report, difference(want, &have) == 0.0)),
            Err(ProblemError::Simulator(e)) => Err(e),
            Err(e) => Err(SimError::Launch(e.to_string())),
        }
    }
}
