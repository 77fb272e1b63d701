//! `mutate`: the mutation proof.

use super::failure::{Failure, Outcome, user};
use super::progress::Bar;
use warplift_lab::mutation::{CASES, Case, MutationError, MutationReport, Subject, find, source};

/// `mutate [KERNEL]`.
#[derive(clap::Args)]
pub struct MutateArgs {
    /// Kernels of the library; default: all kernels of the proof.
    kernels: Vec<String>,
    /// Judge this many random mutants of each case instead of all.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed of the random choice.
    #[arg(long, default_value_t = 1, requires = "sample")]
    seed: u64,
    /// List the mutants declared equivalent, each with its rule.
    #[arg(long)]
    equivalent: bool,
}

/// Runs `mutate`.
///
/// # Errors
/// The proof does not cover a kernel, or a mutant was not noticed.
pub fn mutate(args: &MutateArgs) -> Outcome<()> {
    let (mut all, mut many) = (MutationReport { name: "all".into(), ..MutationReport::default() }, false);
    for case in chosen(&args.kernels)? {
        let report = prove(args, case)?;
        println!("{report}");
        let missed = report.escaped.iter().map(|m| ("ESCAPED", m));
        let missed = missed.chain(report.unexecuted.iter().map(|m| ("not executed", m)));
        let missed = missed.chain(report.one_sided.iter().map(|m| ("one parity", m)));
        let missed = missed.chain(report.contradicted.iter().map(|m| ("CONTRADICTED", m)));
        missed.for_each(|(what, m)| println!("  {what} {m}"));
        if args.equivalent {
            report.equivalent.iter().for_each(|(m, why)| println!("  {why}: {m}"));
        }
        if args.sample.is_none() && !report.few_in_case() {
            println!("  MANY equivalent: {:?} of {:?}", report.excused, report.made);
            many = true;
        }
        all.add(report);
    }
    println!("{all}");
    all.caught.iter().for_each(|(kind, n)| println!("  {n:>6} {kind}"));
    for (class, made) in &all.made {
        println!("  {made:>6} of class {class:?}, {} equivalent", all.excused.get(class).unwrap_or(&0));
    }
    // A few cases have a larger share of them than all together.
    let whole = args.sample.is_none() && args.kernels.is_empty();
    many |= whole && !all.few_equivalent();
    if all.is_sound() && !many {
        return Ok(());
    }
    Err(Failure::Wrong(all.to_string()))
}

fn chosen(names: &[String]) -> Outcome<Vec<&'static Case>> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let of = |name: &String| {
        let found: Vec<_> = find(name).collect();
        let none = || user(format!("the mutation proof does not cover `{name}`"));
        if found.is_empty() { Err(none()) } else { Ok(found) }
    };
    Ok(names.iter().map(of).collect::<Outcome<Vec<_>>>()?.concat())
}

fn prove(args: &MutateArgs, case: &Case) -> Outcome<MutationReport> {
    let (kernel, mapping) = source(case)?;
    let subject = Subject::new(&kernel, &mapping, case)?;
    let mutants = match args.sample {
        Some(count) => subject.sample(count, args.seed)?,
        None => subject.mutants()?,
    };
    let bar = Bar::new(mutants.len() as u64, &case.name());
    Ok(subject.prove(&mutants, &|| bar.step())?)
}

impl From<MutationError> for Failure {
    fn from(error: MutationError) -> Self {
        match error {
            MutationError::Validation(e) => e.into(),
            wrong @ MutationError::Wrong(..) => Self::Wrong(wrong.to_string()),
            other => user(other.to_string()),
        }
    }
}
