//! Mutation proof: every synchronisation of emitted PTX removed, moved or corrupted must show itself as a
//! hazard, a wrong result or a run that does not end.

use crate::library::{Case, difference, load, sizes};
use warplift::ir::target::SM90A;
use warplift::problem::{Array, Data, Problem, ProblemError};
use warplift::sim::mutate::{Mutant, Verdict, adversaries, judge, mutants};
use warplift::sim::{Options, Report, SimError};
use warplift::{Compiled, compile};

/// Warp instructions after which a mutant counts as one that does not end.
const STEPS: u64 = 3_000_000;

/// A compiled case with what it must compute.
pub struct Subject {
    compiled: Compiled,
    problem: Problem,
    want: Vec<Array>,
    sms: u32,
}

impl Subject {
    /// Compiles a case and interprets it.
    ///
    /// # Panics
    /// If the case does not compile or run: then the library is broken.
    pub fn new(case: &Case) -> Self {
        let (kernel, mapping) = load(case.name);
        let compiled = compile(&kernel, &mapping, &SM90A, &warplift::Options::default());
        let compiled = compiled.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let problem = Problem::new(&kernel, &sizes(case.sizes), Data::Small, 5);
        let problem = problem.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let want = problem.interpret(&kernel).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        Self { compiled, problem, want, sms: case.sms }
    }

    /// All mutants of its PTX.
    pub fn mutants(&self) -> Vec<Mutant> {
        mutants(&self.compiled.ptx).unwrap_or_else(|e| panic!("emitted PTX does not parse: {e}"))
    }

    /// How a mutant shows itself under both extreme orders and `seeds` random ones.
    pub fn judge(&self, mutant: &Mutant, seeds: u64) -> Verdict {
        judge(mutant, &adversaries(seeds, STEPS), |ptx, options| self.run(ptx, options))
    }

    fn run(&self, ptx: &str, options: &Options) -> Result<(Report, bool), SimError> {
        match self.problem.simulate(ptx, &self.compiled.manifest, options, self.sms) {
            Ok((have, report)) => Ok((report, difference(&self.want, &have) == 0.0)),
            Err(ProblemError::Simulator(e)) => Err(e),
            Err(e) => Err(SimError::Launch(e.to_string())),
        }
    }
}
