//! The mutation proof shows that every emitted synchronization is needed, and that the simulator notices its absence.
//!
//! ```text
//!  kernel, mapping ─ compile ─► PTX ─ mutate ─► mutants ─┐
//!  sizes, data ─ interpreter ─► expected results ────────┴─ simulator, several orders ─► caught
//!                                                                                    └─► nothing seen:
//!                                        a rule proves it equivalent, else it ESCAPED ◄───────┘
//! ```
//!
//! Each synchronization is removed, corrupted or moved past the accesses that it orders ([`warplift_sim::mutate`]). A
//! mutant counts only if some problem executes its line. A proof holds if no mutant escaped and no line was left out.
//! Every rule is applied to every mutant. If a mutant is noticed although a rule calls it equivalent, the rule or the
//! simulator is wrong. A few mutants are equivalent for reasons that the text does not show. Their case names them with
//! the reason ([`Known`]).

mod cases;
mod first_fill;
mod groups;
mod rules;
mod text;

pub use cases::{CASES, Case, Known, find};
pub use rules::equivalent;

use crate::validate::{
    Difference, Given, ProblemError, Reference, Sizes, Style, Validation, ValidationError, exact_on_integers,
};
use rand::rngs::StdRng;
use rand::{SeedableRng, seq::index};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;
use warplift::{CompileError, Options, compile, kernels};
use warplift_ir::manifest::Manifest;
use warplift_ir::target::SM90A;
use warplift_ir::tile::{Kernel, Mapping, ParseErrors, parse_file};
use warplift_sim::mutate::{Mutant, Mutation, Verdict, adversaries, judge, mutants};
use warplift_sim::{Options as SimOptions, PtxError, SimError};

/// Limit on the warp instructions of one cluster. A longer run does not end.
const STEPS: u64 = 20_000_000;
/// Random orders for a mutant, besides the four fixed ones.
const SEEDS: u64 = 4;
/// Allowed difference of kernels with functions that round, relative to the output's greatest element at most.
const ROUNDED: f64 = 1e-2;
/// Share of a proof's mutants that may be declared equivalent.
pub const EQUIVALENT: f64 = 0.02;
/// Share of each class that may be: of the arithmetic, none but wraps of rings (1 of 426 is; 2 would be allowed).
const CLASSES: [(Mutation, f64); 4] =
    [(Mutation::Remove, 0.04), (Mutation::Corrupt, 0.02), (Mutation::Move, 0.04), (Mutation::Slot, 0.005)];

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum MutationError {
    /// A case whose kernel is not in the library, or that does not parse.
    #[error("case `{0}`: {1}")]
    Case(String, String),
    /// A kernel that the compiler refuses.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Sizes that do not fit; the kernel itself, unchanged, is hazardous.
    #[error(transparent)]
    Validation(#[from] ValidationError),
    /// Sizes that the kernel does not take.
    #[error(transparent)]
    Sizes(#[from] ProblemError),
    /// Emitted text that the simulator cannot read.
    #[error(transparent)]
    Text(#[from] PtxError),
    /// The kernel itself, unchanged, is wrong.
    #[error("{0} {1}: {2}")]
    Wrong(String, String, String),
}

/// The kernel and the mapping of a case.
///
/// # Errors
/// The library has no such kernel, or the mapping does not parse.
pub fn source(case: &Case) -> Result<(Kernel, Mapping), MutationError> {
    let wrong = |what: String| MutationError::Case(case.name(), what);
    let text = kernels::find(case.kernel).ok_or_else(|| wrong("no such kernel".into()))?;
    let shown = |errors: ParseErrors| wrong(errors.to_string());
    let edited =
        case.edits.iter().try_fold(text.text.to_owned(), |text, (from, to)| match text.contains(from) {
            true => Ok(text.replacen(from, to, 1)),
            false => Err(wrong(format!("its text has no `{from}`"))),
        })?;
    let mut module = parse_file(&edited, case.kernel).map_err(shown)?;
    let kernel = module.kernels.remove(0);
    if case.mapping.is_empty() {
        return Ok((kernel, module.mappings.remove(0)));
    }
    let text = format!("{kernel}\nmapping {} {{\n{}\n}}\n", kernel.name, case.mapping.replace("; ", "\n"));
    let mut with = parse_file(&text, case.kernel).map_err(shown)?;
    Ok((kernel, with.mappings.remove(0)))
}

/// A compiled kernel with problems whose results are known.
pub struct Subject<'a> {
    name: String,
    ptx: String,
    manifest: Manifest,
    problems: Vec<(Reference<'a>, u32)>,
    /// Greatest difference from the interpreter, of the output's scale.
    tolerance: f64,
    known: &'static [Known],
    caps: &'static [(Mutation, usize)],
    coverage: OnceLock<Coverage>,
}

/// The results of the unchanged kernel.
#[derive(Default)]
struct Coverage {
    /// Lines of the PTX that each problem executes.
    lines: Vec<BTreeSet<u32>>,
    /// The parities that each line waits for on any problem, as bits.
    parities: BTreeMap<u32, u8>,
}

impl<'a> Subject<'a> {
    /// Compiles a kernel, draws data and interprets each problem.
    ///
    /// # Errors
    /// The compiler or the interpreter refuses it.
    pub fn new(kernel: &'a Kernel, mapping: &Mapping, case: &Case) -> Result<Self, MutationError> {
        let compiled = compile(kernel, mapping, &SM90A, &Options { verify: true, ..Options::default() })?;
        let problem = |(sizes, sms): &(&str, u32)| -> Result<_, MutationError> {
            let given = Given::parse(case.data.iter().copied())?;
            let validation =
                Validation::new(kernel, mapping, Sizes::parse(kernel, sizes)?)?.with_data(given)?;
            Ok((validation.reference(Style::Integers, 5)?, *sms))
        };
        Ok(Self {
            name: case.name(),
            ptx: compiled.ptx,
            manifest: compiled.manifest,
            problems: case.problems.iter().map(problem).collect::<Result<_, _>>()?,
            tolerance: if exact_on_integers(kernel) { 0.0 } else { ROUNDED },
            known: case.known,
            caps: case.caps,
            coverage: OnceLock::new(),
        })
    }

    /// All mutants.
    ///
    /// # Errors
    /// Emitted text that cannot be read.
    pub fn mutants(&self) -> Result<Vec<Mutant>, MutationError> {
        Ok(mutants(&self.ptx)?)
    }

    /// So many random mutants.
    ///
    /// # Errors
    /// As [`Self::mutants`].
    pub fn sample(&self, count: usize, seed: u64) -> Result<Vec<Mutant>, MutationError> {
        let all = self.mutants()?;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut chosen = index::sample(&mut rng, all.len(), count.min(all.len())).into_vec();
        chosen.sort_unstable();
        Ok(chosen.into_iter().map(|i| all[i].clone()).collect())
    }

    /// Runs the kernel itself: it must be right and clean.
    fn cover(&self) -> Result<Coverage, MutationError> {
        let run = |(reference, sms): &(Reference<'_>, u32), o: &SimOptions| {
            let (found, report) = reference.simulate(&self.ptx, &self.manifest, o, *sms)?;
            let wrong = |d: Difference| {
                MutationError::Wrong(self.name.clone(), reference.validation.sizes.to_string(), d.to_string())
            };
            reference.difference_to_scale(&found, self.tolerance).map_or(Ok(report), |d| Err(wrong(d)))
        };
        let orders = adversaries(1, STEPS);
        let all = self.problems.par_iter().map(|p| orders.iter().map(|o| run(p, o)).collect());
        let mut coverage = Coverage::default();
        for reports in all.collect::<Result<Vec<Vec<_>>, MutationError>>()? {
            coverage.lines.push(reports.iter().flat_map(|r| r.lines.keys().copied()).collect());
            for (line, parities) in reports.iter().flat_map(|r| &r.parities) {
                *coverage.parities.entry(*line).or_default() |= parities;
            }
        }
        Ok(coverage)
    }

    fn coverage(&self) -> Result<&Coverage, MutationError> {
        if let Some(known) = self.coverage.get() {
            return Ok(known);
        }
        let found = self.cover()?;
        Ok(self.coverage.get_or_init(|| found))
    }

    /// How a mutant is noticed: under some order, on some problem that executes its line.
    fn judge(&self, mutant: &Mutant, coverage: &Coverage) -> Verdict {
        let options = adversaries(SEEDS, STEPS);
        let on = |(reference, sms): &(Reference<'_>, u32)| {
            let verdict =
                judge(mutant, &options, |ptx, o| match reference.simulate(ptx, &self.manifest, o, *sms) {
                    Ok((found, report)) => {
                        Ok((report, reference.difference_to_scale(&found, self.tolerance).is_none()))
                    }
                    Err(ValidationError::Simulation(e)) => Err(e),
                    Err(e) => Err(SimError::Launch(e.to_string())),
                });
            Some(verdict).filter(|v| *v != Verdict::Escaped)
        };
        let problems = self.problems.iter().zip(&coverage.lines);
        let reached = problems.filter(|(_, lines)| lines.contains(&mutant.line));
        reached.map(|(p, _)| p).find_map(on).unwrap_or(Verdict::Escaped)
    }

    /// Judges mutants; `done` is called after each.
    ///
    /// # Errors
    /// The kernel itself is wrong or hazardous.
    pub fn prove(
        &self,
        mutants: &[Mutant],
        done: &(dyn Fn() + Sync),
    ) -> Result<MutationReport, MutationError> {
        let coverage = self.coverage()?;
        let judged = mutants.par_iter().map(|m| {
            let verdict = self.judge(m, coverage);
            done();
            (m, verdict)
        });
        let judged: Vec<_> = judged.collect();
        let mut report = MutationReport {
            name: self.name.clone(),
            caps: self.caps,
            mutants: mutants.len(),
            one_sided: self.one_sided(coverage),
            ..MutationReport::default()
        };
        for (m, verdict) in judged {
            let same = equivalent(&self.ptx, m).filter(|_| verdict != Verdict::Escaped);
            report.contradicted.extend(same.map(|why| format!("{}: {verdict:?}, but {why}", m.description)));
            *report.made.entry(m.mutation).or_default() += 1;
            match verdict {
                Verdict::Hazard(kind) => *report.caught.entry(format!("{kind:?}")).or_default() += 1,
                Verdict::WrongResult => *report.caught.entry("wrong result".into()).or_default() += 1,
                Verdict::Failed(_) => *report.caught.entry("no end".into()).or_default() += 1,
                Verdict::Refused(why) => report.escaped.push(format!("{}: {why}", m.description)),
                Verdict::Escaped => self.excuse(m, coverage, &mut report),
            }
        }
        Ok(report)
    }

    /// A mutant that was not noticed: never executed, equivalent by a rule, or escaped.
    fn excuse(&self, m: &Mutant, coverage: &Coverage, report: &mut MutationReport) {
        match equivalent(&self.ptx, m) {
            _ if !coverage.lines.iter().any(|l| l.contains(&m.line)) => {
                report.unexecuted.push(m.description.clone());
            }
            Some(why) => report.excuse(m, why),
            None => match self.known.iter().find(|k| k.names(&m.description)) {
                Some(k) => report.excuse(m, k.why),
                None => report.escaped.push(m.description.clone()),
            },
        }
    }

    /// Waits whose parity is computed and comes out the same on every problem: their ring does not wrap.
    fn one_sided(&self, coverage: &Coverage) -> Vec<String> {
        let computed = |line: &str| line.contains("try_wait.parity") && line.contains(", %");
        let lines = (1_u32..).zip(self.ptx.lines()).filter(|(_, line)| computed(line));
        let one = lines.filter(|(n, _)| coverage.parities.get(n).is_some_and(|p| p.count_ones() == 1));
        one.map(|(n, line)| format!("line {n}: one parity alone: `{line}`")).collect()
    }
}

/// The outcomes of a subject's mutants.
#[derive(Clone, Debug, Default)]
pub struct MutationReport {
    /// Of the case.
    pub name: String,
    /// Caps of the case, see [`Case::caps`].
    pub caps: &'static [(Mutation, usize)],
    /// Mutants judged.
    pub mutants: usize,
    /// Of each class.
    pub made: BTreeMap<Mutation, usize>,
    /// Of each class that are the same program.
    pub excused: BTreeMap<Mutation, usize>,
    /// Waits that no problem makes with both parities.
    pub one_sided: Vec<String>,
    /// Noticed mutants, by the hazard or result that revealed them.
    pub caught: BTreeMap<String, usize>,
    /// Equivalent mutants, each with its rule.
    pub equivalent: Vec<(String, &'static str)>,
    /// Mutants of lines that no problem executes.
    pub unexecuted: Vec<String>,
    /// Mutants that were not noticed and that no rule covers.
    pub escaped: Vec<String>,
    /// Mutants that were noticed although a rule calls them equivalent.
    pub contradicted: Vec<String>,
}

impl MutationReport {
    fn excuse(&mut self, mutant: &Mutant, why: &'static str) {
        *self.excused.entry(mutant.mutation).or_default() += 1;
        self.equivalent.push((mutant.description.clone(), why));
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: Self) {
        self.mutants += other.mutants;
        for (into, of) in [(&mut self.made, other.made), (&mut self.excused, other.excused)] {
            of.into_iter().for_each(|(class, n)| *into.entry(class).or_default() += n);
        }
        self.one_sided.extend(other.one_sided);
        for (kind, n) in other.caught {
            *self.caught.entry(kind).or_default() += n;
        }
        self.equivalent.extend(other.equivalent);
        self.unexecuted.extend(other.unexecuted);
        self.escaped.extend(other.escaped);
        self.contradicted.extend(other.contradicted);
    }

    /// Whether every mutant of a case was noticed, except for the allowed number of equivalent ones.
    pub fn holds(&self) -> bool {
        self.is_sound() && self.few_in_case()
    }

    /// Whether every mutant was noticed or is equivalent, whatever their numbers.
    pub fn is_sound(&self) -> bool {
        let missed = [&self.escaped, &self.unexecuted, &self.contradicted, &self.one_sided];
        missed.iter().all(|list| list.is_empty())
    }

    /// Whether in this case no more mutants than allowed were declared equivalent: of each class its share, rounded up, or
    /// what the case says.
    pub fn few_in_case(&self) -> bool {
        let share = |class: &Mutation| CLASSES.iter().find(|(c, _)| c == class).map_or(0.0, |c| c.1);
        let made = |class: &Mutation| self.made.get(class).copied().unwrap_or(0) as f64;
        let usual = |class: &Mutation| (share(class) * made(class)).ceil() as usize;
        let own = |class: &Mutation| self.caps.iter().find(|(c, _)| c == class).map(|c| c.1);
        self.excused.iter().all(|(class, n)| *n <= own(class).unwrap_or_else(|| usual(class)))
    }

    /// Whether in all cases together no more mutants than allowed were declared equivalent.
    pub fn few_equivalent(&self) -> bool {
        let share = |class: &Mutation| CLASSES.iter().find(|(c, _)| c == class).map_or(0.0, |c| c.1);
        let made = |class: &Mutation| self.made.get(class).copied().unwrap_or(0) as f64;
        let few = |(class, n): (&Mutation, &usize)| *n as f64 <= share(class) * made(class);
        self.excused.iter().all(few) && self.equivalent.len() as f64 <= EQUIVALENT * self.mutants as f64
    }
}

impl fmt::Display for MutationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let caught: usize = self.caught.values().sum();
        write!(f, "{}: {} mutants, {caught} caught", self.name, self.mutants)?;
        let rest = [
            ("equivalent", self.equivalent.len()),
            ("not executed", self.unexecuted.len()),
            ("ESCAPED", self.escaped.len()),
            ("CONTRADICTED", self.contradicted.len()),
            ("of one parity", self.one_sided.len()),
        ];
        for (what, n) in rest.into_iter().filter(|(_, n)| *n > 0) {
            write!(f, ", {n} {what}")?;
        }
        Ok(())
    }
}
