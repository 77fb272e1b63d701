//! `check`: a table of kernels and sizes.

use super::Tools;
use super::artifact::{Artifact, Ready};
use super::failure::{Failure, Outcome, user};
use super::run::{
    Location, Machine, Place, SIMULATED, accepted, leave_if_stuck, operations, simulated, try_sizes,
};
use super::source::Choice;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use warplift::Feature;
use warplift::cuda::Device;
use warplift::kernels;
use warplift::trial::{Executor, Sizes};

/// `check [NAMES]`.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Kernels; default: all artifacts of the folder, or the whole library.
    names: Vec<String>,
    /// Cases: a kernel and its sizes on each line, `refuse` behind sizes that must be refused.
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
    /// Stay in one process, although a launch that faults or hangs ends the whole table.
    #[arg(long)]
    in_process: bool,
    /// Leave out what the compiler does by itself; several separated by commas, or repeated.
    #[arg(long, value_name = "FEATURE", value_delimiter = ',')]
    disable: Vec<Feature>,
    #[command(flatten)]
    ready: Ready,
    #[command(flatten)]
    place: Place,
}

/// Cases where no file names others. Edges of tiles, a single element, nothing at all, and sizes
/// above the full reference.
const CASES: &str = include_str!("cases.txt");

/// Sizes of one kernel.
struct Case {
    kernel: String,
    sizes: String,
    refuse: bool,
}

/// Runs `check`.
///
/// # Errors
/// Something could not be tried; a wrong result.
pub fn check(args: &CheckArgs, tools: &Tools) -> Outcome<()> {
    let text = match &args.sizes {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|e| user(format!("reading {}: {e}", path.display())))?
        }
        None => CASES.to_owned(),
    };
    let cases = cases(&text)?;
    let names = names(args)?;
    let known = |c: &&Case| !names.contains(&c.kernel) && kernels::find(&c.kernel).is_none();
    if let Some(case) = cases.iter().find(known) {
        return Err(user(format!(
            "a case of `{}`, which is neither checked nor in the library",
            case.kernel
        )));
    }
    if names.len() > 1
        && !args.in_process
        && matches!(args.place.device, Location::Gpu(_))
        && Device::count().is_ok()
    {
        return isolated(&args.names, &names);
    }
    let machine = match args.place.device {
        Location::Gpu(ordinal) => Machine::open(ordinal, args.place.cublas.as_deref())?,
        Location::Simulator => None,
    };
    let mut failures = Vec::new();
    for name in names {
        let own = |kernel: &str| {
            cases.iter().filter(|c| c.kernel == name || c.kernel == kernel).collect::<Vec<_>>()
        };
        let choice = Choice { disable: args.disable.clone(), ..Choice::default() };
        let tried = args.ready.artifact(&name, &choice, tools).and_then(|artifact| {
            check_kernel(&artifact, &own(&artifact.kernel.name), machine.as_ref(), &args.place)
        });
        // A kernel that cannot be tried does not keep the others from being tried.
        match tried.map_err(leave_if_stuck) {
            Ok(failed) => failures.extend(failed),
            Err(failure) => {
                println!("{name:<24} {}", failure.message());
                failures.push(name);
            }
        }
    }
    match failures.len() {
        0 if machine.is_none() && args.place.device != Location::Simulator => Err(user(
            "nothing was executed: this machine has no GPU; `--device sim` takes the simulator".to_owned(),
        )),
        0 => Ok(()),
        n => Err(Failure::Wrong(format!("{n} cases: {}", failures.join("; ")))),
    }
}

/// Checks each kernel in a process of its own: a fault on the device or a deadlock spoils no other.
fn isolated(given: &[String], names: &[String]) -> Outcome<()> {
    let program = std::env::current_exe().map_err(|e| user(format!("finding this program: {e}")))?;
    let options: Vec<String> = std::env::args().skip(1).filter(|a| !given.contains(a)).collect();
    let mut failed = Vec::new();
    for name in names {
        let run = Command::new(&program).args(&options).arg("--in-process").arg(name).status();
        let status = run.map_err(|e| user(format!("starting {}: {e}", program.display())))?;
        if !status.success() {
            failed.push(name.as_str());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Wrong(failed.join(", "))) }
}

fn names(args: &CheckArgs) -> Outcome<Vec<String>> {
    match &args.ready.artifacts {
        _ if !args.names.is_empty() => Ok(args.names.clone()),
        Some(folder) => Artifact::names(folder),
        None => Ok(kernels::LIBRARY.iter().map(|t| t.name.to_owned()).collect()),
    }
}

fn cases(text: &str) -> Outcome<Vec<Case>> {
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or("").trim()).filter(|l| !l.is_empty());
    let each = lines.map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        match (words.next(), words.next(), words.next()) {
            (Some(kernel), Some(sizes), last) if last.as_deref().is_none_or(|l| l == "refuse") => {
                Ok(Case { kernel, sizes, refuse: last.is_some() })
            }
            _ => Err(user(format!("`{line}`: expected `KERNEL SIZES [refuse]`"))),
        }
    });
    each.collect()
}

/// Tries the cases of one kernel; gives those that failed.
fn check_kernel(
    artifact: &Artifact,
    cases: &[&Case],
    machine: Option<&Machine>,
    place: &Place,
) -> Outcome<Vec<String>> {
    let executor: Option<Box<dyn Executor>> = match (machine, place.device) {
        (Some(machine), _) => Some(Box::new(machine.load(artifact, place.limit)?)),
        (None, Location::Simulator) => Some(Box::new(simulated(artifact, place)?)),
        (None, _) => None,
    };
    let mut failed = Vec::new();
    for case in cases {
        let start = Instant::now();
        print!("{:<24} {:<24} ", artifact.name, case.sizes);
        // Seen before a launch that may not end.
        let _ = std::io::stdout().flush();
        let sizes = Sizes::parse(&artifact.kernel, &case.sizes)?;
        let taken = accepted(artifact, &sizes);
        let large = taken.is_ok() && machine.is_none() && operations(artifact, &sizes)? > SIMULATED;
        let (passed, line) = match (taken, case.refuse, executor.as_deref().filter(|_| !large)) {
            (Err(refusal), true, _) => (true, format!("refused: {}", refusal.message())),
            (Err(refusal), false, _) => (false, refusal.message()),
            (Ok(()), true, _) => (false, "was not refused".to_owned()),
            (Ok(()), false, None) => (true, "not executed".to_owned()),
            (Ok(()), false, Some(executor)) => {
                let lines = try_sizes(artifact, &sizes, executor, machine, place.seed);
                summary(lines.map_err(leave_if_stuck))
            }
        };
        println!("{line} ({:.1} s)", start.elapsed().as_secs_f64());
        if !passed {
            failed.push(format!("{} {}", artifact.name, case.sizes));
        }
    }
    Ok(failed)
}

/// One line for a case: `ok` and the errors, or everything about what is wrong.
fn summary(lines: Outcome<Vec<(bool, String)>>) -> (bool, String) {
    let lines = match lines {
        Ok(lines) => lines,
        Err(failure) => return (false, failure.message()),
    };
    if lines.iter().all(|(passed, _)| *passed) {
        let first = lines.first().and_then(|(_, l)| l.split("relative error ").nth(1));
        let error = first.and_then(|l| l.split([' ', ',']).next()).unwrap_or("-");
        let exact = if lines.len() > 1 { ", exact on integers" } else { "" };
        return (true, format!("ok, error {error}{exact}"));
    }
    let wrong = lines.into_iter().filter(|(passed, _)| !passed).map(|(_, l)| format!("\n    {l}"));
    (false, format!("WRONG{}", wrong.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_are_of_the_library_and_fit_their_kernels() {
        let all = cases(CASES).unwrap();
        for text in kernels::LIBRARY {
            let module = text.parse().unwrap();
            let own = all.iter().filter(|c| c.kernel == text.name);
            assert!(own.clone().count() > 2, "{}", text.name);
            for case in own {
                assert!(
                    Sizes::parse(&module.kernels[0], &case.sizes).is_ok(),
                    "{} {}",
                    text.name,
                    case.sizes
                );
            }
        }
        assert!(all.iter().all(|c| kernels::find(&c.kernel).is_some()));
        assert!(cases("gemm").is_err() && cases("gemm 1x2x3 maybe").is_err());
    }
}
