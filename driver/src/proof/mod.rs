//! The mutation proof: every synchronisation that Warplift emits is needed, and the simulator sees it.
//!
//! ```text
//!  kernel, mapping ─ compile ─► PTX ─ mutate ─► mutants ─┐
//!  sizes, data ─ interpreter ─► what it means ───────────┴─ simulator, several orders ─► caught
//!                                                                                    └─► nothing seen:
//!                                        a rule proves it the same program, else it ESCAPED ◄─┘
//! ```
//!
//! Each synchronisation is removed, corrupted or moved past what it orders ([`crate::sim::mutate`]). A mutant
//! counts only if its line is executed by some problem; a proof holds where none escaped and no line was
//! left out.

mod cases;

pub use cases::{CASES, Case, find};

use crate::sim::mutate::{Mutant, Mutation, Verdict, adversaries, judge, mutants};
use crate::sim::{Options as SimOptions, PtxError, SimError};
use crate::trial::{Difference, Reference, Sizes, Style, Trial, TrialError, exact_on_integers};
use crate::{CompileError, Options, compile, kernels};
use rand::rngs::StdRng;
use rand::{SeedableRng, seq::index};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;
use warplift_ir::manifest::Manifest;
use warplift_ir::target::SM90A;
use warplift_ir::tile::{Kernel, Mapping, ParseErrors, parse_file};

/// Warp instructions of one cluster after which a run is given up: it does not end.
const STEPS: u64 = 20_000_000;
/// Random orders that a mutant meets, beside the four fixed ones.
const SEEDS: u64 = 4;
/// Difference that is still right where functions round.
const ROUNDED: f64 = 1e-2;
/// Share of a proof's mutants that may be declared equivalent.
const EQUIVALENT: f64 = 0.02;

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// A case that is none of the library's kernels, or does not parse.
    #[error("case `{0}`: {1}")]
    Case(String, String),
    /// A kernel that the compiler refuses.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Sizes that do not fit; the kernel itself, unchanged, is hazardous.
    #[error(transparent)]
    Trial(#[from] TrialError),
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
pub fn source(case: &Case) -> Result<(Kernel, Mapping), ProofError> {
    let wrong = |what: String| ProofError::Case(case.name(), what);
    let text = kernels::find(case.kernel).ok_or_else(|| wrong("no such kernel".into()))?;
    let shown = |errors: ParseErrors| wrong(errors.to_string());
    let mut module = text.parse().map_err(shown)?;
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
    /// Greatest difference from the interpreter, relative above 1.
    tolerance: f64,
    coverage: OnceLock<Coverage>,
}

/// What runs of the kernel itself showed.
#[derive(Default)]
struct Coverage {
    /// Lines of the PTX that each problem executes.
    lines: Vec<BTreeSet<u32>>,
    /// Lines of waits that hold a warp, or tell it something.
    waits: BTreeSet<u32>,
}

impl<'a> Subject<'a> {
    /// Compiles a kernel, draws data and interprets each problem.
    ///
    /// # Errors
    /// What the compiler or the interpreter refuses.
    pub fn new(kernel: &'a Kernel, mapping: &Mapping, case: &Case) -> Result<Self, ProofError> {
        let compiled = compile(kernel, mapping, &SM90A, &Options { verify: true, ..Options::default() })?;
        let problem = |(sizes, sms): &(&str, u32)| -> Result<_, ProofError> {
            let trial = Trial::new(kernel, mapping, Sizes::parse(kernel, sizes)?)?;
            Ok((trial.reference(Style::Integers, 5)?, *sms))
        };
        Ok(Self {
            name: case.name(),
            ptx: compiled.ptx,
            manifest: compiled.manifest,
            problems: case.problems.iter().map(problem).collect::<Result<_, _>>()?,
            tolerance: if exact_on_integers(kernel) { 0.0 } else { ROUNDED },
            coverage: OnceLock::new(),
        })
    }

    /// All mutants.
    ///
    /// # Errors
    /// Emitted text that cannot be read.
    pub fn mutants(&self) -> Result<Vec<Mutant>, ProofError> {
        Ok(mutants(&self.ptx)?)
    }

    /// So many mutants by lot.
    ///
    /// # Errors
    /// As [`Self::mutants`].
    pub fn sample(&self, count: usize, seed: u64) -> Result<Vec<Mutant>, ProofError> {
        let all = self.mutants()?;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut chosen = index::sample(&mut rng, all.len(), count.min(all.len())).into_vec();
        chosen.sort_unstable();
        Ok(chosen.into_iter().map(|i| all[i].clone()).collect())
    }

    /// Runs the kernel itself: it must be right and clean.
    fn cover(&self) -> Result<Coverage, ProofError> {
        let run = |(reference, sms): &(Reference<'_>, u32), o: &SimOptions| {
            let (found, report) = reference.simulate(&self.ptx, &self.manifest, o, *sms)?;
            let wrong = |d: Difference| {
                ProofError::Wrong(self.name.clone(), reference.trial.sizes.to_string(), d.to_string())
            };
            reference.difference_beyond(&found, self.tolerance).map_or(Ok(report), |d| Err(wrong(d)))
        };
        let orders = adversaries(1, STEPS);
        let all = self.problems.par_iter().map(|p| orders.iter().map(|o| run(p, o)).collect());
        let mut coverage = Coverage::default();
        for reports in all.collect::<Result<Vec<Vec<_>>, ProofError>>()? {
            coverage.lines.push(reports.iter().flat_map(|r| r.lines.keys().copied()).collect());
            for report in reports {
                coverage.waits.extend(report.needed_waits);
            }
        }
        Ok(coverage)
    }

    fn coverage(&self) -> Result<&Coverage, ProofError> {
        if let Some(known) = self.coverage.get() {
            return Ok(known);
        }
        let found = self.cover()?;
        Ok(self.coverage.get_or_init(|| found))
    }

    /// How a mutant shows under some order, on some problem that executes its line.
    fn judge(&self, mutant: &Mutant, coverage: &Coverage) -> Verdict {
        let options = adversaries(SEEDS, STEPS);
        let on = |(reference, sms): &(Reference<'_>, u32)| {
            let verdict =
                judge(mutant, &options, |ptx, o| match reference.simulate(ptx, &self.manifest, o, *sms) {
                    Ok((found, report)) => {
                        Ok((report, reference.difference_beyond(&found, self.tolerance).is_none()))
                    }
                    Err(TrialError::Simulation(e)) => Err(e),
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
    pub fn prove(&self, mutants: &[Mutant], done: &(dyn Fn() + Sync)) -> Result<Proof, ProofError> {
        let coverage = self.coverage()?;
        let judged = mutants.par_iter().map(|m| {
            let verdict = self.judge(m, coverage);
            done();
            (m, verdict)
        });
        let judged: Vec<_> = judged.collect();
        let mut proof = Proof { name: self.name.clone(), mutants: mutants.len(), ..Proof::default() };
        for (m, verdict) in judged {
            match verdict {
                Verdict::Hazard(kind) => *proof.caught.entry(format!("{kind:?}")).or_default() += 1,
                Verdict::WrongResult => *proof.caught.entry("wrong result".into()).or_default() += 1,
                Verdict::Failed(_) => *proof.caught.entry("no end".into()).or_default() += 1,
                Verdict::Refused(why) => proof.escaped.push(format!("{}: {why}", m.description)),
                Verdict::Escaped => coverage.excuse(m, &mut proof),
            }
        }
        Ok(proof)
    }
}

impl Coverage {
    /// A mutant that nobody noticed: never executed, the same program by a rule, or escaped.
    fn excuse(&self, m: &Mutant, proof: &mut Proof) {
        let rule = RULES.iter().find(|(_, rule)| rule(m, self));
        match rule {
            _ if !self.lines.iter().any(|l| l.contains(&m.line)) => {
                proof.unexecuted.push(m.description.clone());
            }
            Some((why, _)) => proof.equivalent.push((m.description.clone(), *why)),
            None => proof.escaped.push(m.description.clone()),
        }
    }
}

/// Why a mutant is the same program, and when.
type Rule = (&'static str, fn(&Mutant, &Coverage) -> bool);

const RULES: [Rule; 8] = [
    (
        // A commit before its bulk store instead of after it: the store joins the next group. Where that
        // group is waited for before the store's buffer is written again, as at the end of a program (its
        // last wait is for all groups), nothing changes; elsewhere the simulator reports the overwrite.
        "the store joins the next group, which is waited for in time",
        |m, _| {
            m.mutation == Mutation::Move
                && m.description.contains("moved before")
                && m.description.contains("cp.async.bulk.commit_group")
        },
    ),
    (
        // The same of products: without its commit, a product joins the next one's group. Where every wait
        // between that group and the reuse of accumulators and operands is for both, nothing changes; elsewhere
        // the simulator reports what is in flight.
        "the product joins the next group, which is waited for in time",
        |m, _| m.mutation == Mutation::Remove && m.description.contains("`wgmma.commit_group"),
    ),
    (
        // Two waits for groups in a row, both for all: what lies between, on the only way, neither names a register
        // of the first group's products nor tells anybody anything, and so it may run while they do. Whether the
        // allocator uses a register again in between is its choice: the scheduler cannot know, and waits.
        "the next wait is for this group too, and nothing before it minds",
        |m, _| m.description.contains("`wgmma.wait_group") && waited_again(m),
    ),
    (
        // `cp.async` writes through the generic proxy, and the fence orders what the executing thread has seen
        // complete, its own copies or others' (PTX ISA, "Causality order": a proxy fence stands on the path). All
        // threads execute both, so before the barrier each speaks for its own copies, behind it for all.
        "each reader's own fence covers the copies of threads that the barrier told it of",
        |m, _| {
            let swapped = m.description.contains("fence.proxy.async") && m.description.contains("bar.sync");
            let above = m.ptx.lines().take(m.line as usize + 1).collect::<Vec<_>>();
            let copies = above.iter().rev().take(4).any(|l| l.starts_with("cp.async.wait_group"));
            m.mutation == Mutation::Move && swapped && copies
        },
    ),
    (
        // A wait whose phase was always over, and whose completion told nobody anything: another wait of the same
        // thread orders all that this one does. So with two rings that the same warps release, one behind the
        // other, and the producer fills in the other order.
        "another wait tells all that this one does",
        |m, seen| {
            m.mutation == Mutation::Remove
                && m.description.contains(": wait ")
                && !seen.waits.contains(&m.line)
        },
    ),
    (
        // In the first iterations of a product fewer groups are in flight than the wait may leave.
        "there is never a group to wait for here",
        |m, seen| m.description.contains("wait_group") && !seen.waits.contains(&m.line),
    ),
    (
        // A block's shared memory lives until its last warp ends. At the end all roles wait for the cluster; with
        // one of the waits gone the other still holds the block until every peer has arrived. A block of one role
        // has one wait, and the simulator reports its removal.
        "another role of the block waits for the cluster",
        |m, _| m.mutation == Mutation::Remove && m.description.contains("`barrier.cluster.wait"),
    ),
    (
        // The wait is for the block's own stores to have read the block's own memory: it must come before the
        // block's end, which is behind the wait for the cluster. The fence before those stores is for the same
        // memory. The arrival tells peers of other things.
        "the block does not end before its wait for the cluster",
        |m, _| {
            let waits =
                m.description.contains("moved behind") && m.description.contains("bulk.wait_group.read");
            let fences =
                m.description.contains("moved before") && m.description.contains("`fence.proxy.async");
            (waits || fences) && m.description.contains("`barrier.cluster.arrive")
        },
    ),
];

/// Whether behind a mutant's line comes a wait for all groups, and before it nothing but arithmetic on registers
/// that the products in front of the line do not use, and further products.
fn waited_again(m: &Mutant) -> bool {
    let lines: Vec<&str> = m.ptx.lines().collect();
    let (before, after) = lines.split_at((m.line as usize).min(lines.len()));
    let group = before.iter().rev().take_while(|l| !l.starts_with("wgmma.fence"));
    let own: BTreeSet<&str> =
        group.filter(|l| l.contains("wgmma.mma_async")).flat_map(|l| registers(l)).collect();
    let Some(next) = after.iter().position(|l| l.contains("wgmma.wait_group")) else { return false };
    let tells = ["bra", "ret", "bar", "st.", "ld.", "cp.", "red.", "atom.", "fence."];
    let harmless = |l: &&str| {
        let opcode = l.split(' ').find(|w| !w.starts_with('@')).unwrap_or_default();
        let told =
            opcode.ends_with(':') || tells.iter().any(|t| opcode.contains(t)) && !opcode.contains("wgmma");
        l.contains("wgmma.") || !told && registers(l).all(|r| !own.contains(r))
    };
    after[next].trim_end().ends_with(" 0;") && after[..next].iter().all(harmless)
}

/// Registers of data that a line names; descriptors and predicates are read when a product is issued.
fn registers(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '%' || c == '_'));
    words.filter(|w| w.starts_with("%r"))
}

/// What became of a subject's mutants.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// Of the case.
    pub name: String,
    /// Mutants judged.
    pub mutants: usize,
    /// Mutants noticed, by what showed them.
    pub caught: BTreeMap<String, usize>,
    /// Mutants that are the same program, each with the rule that says so.
    pub equivalent: Vec<(String, &'static str)>,
    /// Mutants of lines that no problem executes.
    pub unexecuted: Vec<String>,
    /// Mutants that nobody noticed and no rule covers.
    pub escaped: Vec<String>,
}

impl Proof {
    /// Adds the counts of another.
    pub fn add(&mut self, other: Self) {
        self.mutants += other.mutants;
        for (kind, n) in other.caught {
            *self.caught.entry(kind).or_default() += n;
        }
        self.equivalent.extend(other.equivalent);
        self.unexecuted.extend(other.unexecuted);
        self.escaped.extend(other.escaped);
    }

    /// Whether every mutant was noticed, but for the few that are equivalent.
    pub fn holds(&self) -> bool {
        self.escaped.is_empty() && self.unexecuted.is_empty() && self.few_equivalent()
    }

    /// Whether no more mutants than allowed were declared equivalent.
    pub fn few_equivalent(&self) -> bool {
        self.equivalent.len() as f64 <= EQUIVALENT * self.mutants as f64
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let caught: usize = self.caught.values().sum();
        write!(f, "{}: {} mutants, {caught} caught", self.name, self.mutants)?;
        let rest = [("equivalent", self.equivalent.len()), ("not executed", self.unexecuted.len())];
        for (what, n) in rest.into_iter().chain([("ESCAPED", self.escaped.len())]).filter(|(_, n)| *n > 0) {
            write!(f, ", {n} {what}")?;
        }
        Ok(())
    }
}
