//! `check`: checks a table of kernels and sizes.

use super::artifact::{Artifact, Ready};
use super::failure::{Failure, Outcome, user};
use super::run::{
    Destination, Location, Machine, SIMULATED, accepted, leave_if_stuck, operations, simulated, try_sizes,
};
use super::source::{Choice, repeated};
use super::{Tools, output};
use rayon::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use warplift::Feature;
use warplift::cuda::Device;
use warplift::ir::plural;
use warplift::kernels;
use warplift_lab::validate::{Executor, Given, Sizes};
use warplift_sim::Hazards;

/// `check [NAMES]`.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// Kernels; default: those that `--sizes` names, all artifacts of the folder, or the whole library.
    names: Vec<String>,
    /// File of cases: a kernel and its sizes on each line, then NAME=CONTENTS of arrays as `--data` takes them, or
    /// `refuse` after sizes that must be refused.
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
    /// Stay in one process. A launch that faults or hangs then ends the whole table.
    #[arg(long)]
    in_process: bool,
    /// Cases that are too large for the simulator count as meant: without this, leaving them out is no success.
    #[arg(long)]
    skip_large: bool,
    /// Disable an optimization; several separated by commas, or repeated.
    #[arg(long, value_name = "FEATURE", value_delimiter = ',')]
    disable: Vec<Feature>,
    #[command(flatten)]
    ready: Ready,
    #[command(flatten)]
    place: Destination,
}

/// The default cases: edges of tiles, a single element, no elements, and sizes above the full reference.
const CASES: &str = include_str!("cases.txt");

/// Sizes of one kernel.
struct Case {
    kernel: String,
    sizes: String,
    /// Contents of arrays, as `--data` takes them.
    data: Vec<String>,
    refuse: bool,
}

/// What became of the cases of some kernels.
#[derive(Default)]
struct Tally {
    passed: usize,
    wrong: Vec<String>,
    untried: Vec<String>,
    large: usize,
}

/// What became of one case.
enum Verdict {
    Passed,
    Wrong,
    Untried,
    Large,
}

impl Tally {
    fn add(&mut self, case: String, verdict: Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Wrong => self.wrong.push(case),
            Verdict::Untried => self.untried.push(case),
            Verdict::Large => self.large += 1,
        }
    }

    /// `155 cases: 88 passed, 67 too large for the simulator`.
    fn summary(&self) -> String {
        let (wrong, untried) = (self.wrong.len(), self.untried.len());
        let counts = [
            (wrong, "wrong"),
            (untried, "not tried"),
            (self.large, "too large for the simulator, not executed"),
        ];
        let others = counts.iter().filter(|c| c.0 > 0).map(|(n, what)| format!(", {n} {what}"));
        let all = self.passed + wrong + untried + self.large;
        format!("{}: {} passed{}", plural(all as u64, "case"), self.passed, others.collect::<String>())
    }

    /// Success only where everything asked for was done.
    fn outcome(&self, skip_large: bool) -> Outcome<()> {
        if !self.wrong.is_empty() {
            return Err(Failure::Wrong(self.wrong.join("; ")));
        }
        if !self.untried.is_empty() {
            return Err(user(format!("not tried: {}", self.untried.join("; "))));
        }
        if self.large > 0 && !skip_large {
            let large = plural(self.large as u64, "case");
            return Err(user(format!("not executed: {large}; --skip-large says that this is meant")));
        }
        Ok(())
    }
}

/// Runs `check`.
///
/// # Errors
/// A case could not be tried, or a result is wrong.
pub fn check(args: &CheckArgs, tools: &Tools) -> Outcome<()> {
    let text = match &args.sizes {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|e| user(format!("reading {}: {e}", path.display())))?
        }
        None => CASES.to_owned(),
    };
    let cases = cases(&text)?;
    let names = names(args, &cases)?;
    let choice = Choice { disable: args.disable.clone(), ..Choice::default() };
    known(&names, &cases, args, &choice)?;
    if names.len() > 1
        && !args.in_process
        && matches!(args.place.device, Location::Gpu(_))
        && Device::count().is_ok()
    {
        // The processes find what was assembled here in the cache.
        drop((!tools.no_cache).then(|| artifacts(&names, args, &choice, tools)));
        return isolated(args, tools, &names);
    }
    let machine = match args.place.device {
        Location::Gpu(ordinal) => Machine::open(ordinal, args.place.cublas.as_deref(), tools)?,
        Location::Simulator => None,
    };
    if machine.is_none() && args.place.device != Location::Simulator {
        println!("this machine has no GPU: kernels run in the simulator");
    }
    let mut tally = Tally::default();
    let made = artifacts(&names, args, &choice, tools);
    for (name, artifact) in names.into_iter().zip(made) {
        let own = |kernel: &str| {
            cases.iter().filter(|c| c.kernel == name || c.kernel == kernel).collect::<Vec<_>>()
        };
        let tried = artifact.and_then(|artifact| {
            check_kernel(&artifact, &own(&artifact.kernel.name), machine.as_ref(), &args.place, &mut tally)
        });
        // A kernel that cannot be tried does not keep the others from being tried.
        if let Err(failure) = tried.map_err(leave_if_stuck) {
            let verdict =
                if matches!(failure, Failure::Wrong(_)) { Verdict::Wrong } else { Verdict::Untried };
            println!("{name:<24} {}", failure.message());
            tally.add(name, verdict);
        }
    }
    println!("{}", tally.summary());
    tally.outcome(args.skip_large)
}

/// Reads or makes the artifacts with these names; several are compiled and assembled at once.
fn artifacts(names: &[String], args: &CheckArgs, choice: &Choice, tools: &Tools) -> Vec<Outcome<Artifact>> {
    names.par_iter().map(|name| args.ready.artifact(name, choice, None, tools)).collect()
}

/// Whether every kernel can be read and has cases, and every case has its kernel.
fn known(names: &[String], cases: &[Case], args: &CheckArgs, choice: &Choice) -> Outcome<()> {
    let beside = args.ready.artifacts.as_deref().map_or(Ok(Vec::new()), Artifact::names)?;
    let stranger = |c: &&Case| {
        ![names, &beside].iter().any(|all| all.contains(&c.kernel))
            && kernels::find(&c.kernel).is_none()
            && !Path::new(&c.kernel).exists()
    };
    if let Some(case) = cases.iter().find(stranger) {
        let name = &case.kernel;
        return Err(user(format!("a case of `{name}`, which is neither checked nor in the library")));
    }
    for name in names {
        let kernel = args.ready.source(name, choice)?.kernel;
        let mut own = cases.iter().filter(|c| c.kernel == *name || c.kernel == kernel.name).peekable();
        if own.peek().is_none() {
            return Err(user(format!(
                "no case of `{name}`: nothing would be checked; --sizes FILE names some"
            )));
        }
        own.try_for_each(|c| Sizes::parse(&kernel, &c.sizes).map(drop))?;
    }
    Ok(())
}

/// Checks each kernel in a process of its own. A fault on the device or a deadlock then affects no other kernel.
fn isolated(args: &CheckArgs, tools: &Tools, names: &[String]) -> Outcome<()> {
    let program = std::env::current_exe().map_err(|e| user(format!("finding this program: {e}")))?;
    let (mut failed, mut wrong) = (Vec::new(), false);
    for name in names {
        let run = Command::new(&program).args(alone(args, tools, name)).status();
        let status = run.map_err(|e| user(format!("starting {}: {e}", program.display())))?;
        if !status.success() {
            failed.push(name.as_str());
            wrong |= status.code() != Some(2);
        }
    }
    println!("{}: {} failed", plural(names.len() as u64, "kernel"), failed.len());
    match failed.join(", ") {
        all if all.is_empty() => Ok(()),
        all if wrong => Err(Failure::Wrong(all)),
        all => Err(user(format!("not tried: {all}"))),
    }
}

/// The command line that checks one of the kernels in its own process.
fn alone(args: &CheckArgs, tools: &Tools, name: &str) -> Vec<OsString> {
    let CheckArgs { names: _, sizes, in_process: _, skip_large, disable, ready, place } = args;
    let mut line: Vec<OsString> = vec!["check".into(), "--in-process".into()];
    let flags = [
        ("--skip-large", *skip_large),
        ("--offline", tools.offline),
        ("--no-cache", tools.no_cache),
        ("--verbose", tools.verbose),
    ];
    line.extend(flags.into_iter().filter(|f| f.1).map(|f| f.0.into()));
    let mut option = |name: &str, value: Option<OsString>| {
        line.extend(value.into_iter().flat_map(|v| [OsString::from(name), v]));
    };
    let path = |p: &Option<PathBuf>| p.clone().map(PathBuf::into_os_string);
    option("--ptxas", path(&tools.ptxas));
    option("--sizes", path(sizes));
    disable.iter().for_each(|f| option("--disable", Some(f.to_string().into())));
    option("--artifacts", path(&ready.artifacts));
    option("--cubin", path(&ready.cubin));
    option("--manifest", path(&ready.manifest));
    option("--device", Some(place.device.to_string().into()));
    option("--seed", Some(place.seed.to_string().into()));
    option("--hazards", Some(if place.hazards == Hazards::Deny { "deny" } else { "warn" }.into()));
    option("--limit", Some(place.limit.to_string().into()));
    option("--cublas", path(&place.cublas));
    line.extend(["--".into(), name.into()]);
    line
}

fn names(args: &CheckArgs, cases: &[Case]) -> Outcome<Vec<String>> {
    if let Some(twice) = repeated(args.names.iter().map(String::as_str)) {
        return Err(user(format!("`{twice}` is named twice")));
    }
    if !args.names.is_empty() {
        return Ok(args.names.clone());
    }
    if args.sizes.is_some() {
        let mut named: Vec<String> = Vec::new();
        for case in cases {
            if !named.contains(&case.kernel) {
                named.push(case.kernel.clone());
            }
        }
        return Ok(named);
    }
    match &args.ready.artifacts {
        Some(folder) => Artifact::names(folder),
        None => Ok(kernels::LIBRARY.iter().map(|t| t.name.to_owned()).collect()),
    }
}

fn cases(text: &str) -> Outcome<Vec<Case>> {
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or("").trim()).filter(|l| !l.is_empty());
    let each = lines.map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (kernel, sizes, rest) = (words.next(), words.next(), words.collect::<Vec<_>>());
        let refuse = rest == ["refuse"];
        match (kernel, sizes) {
            (Some(kernel), Some(sizes)) if refuse || rest.iter().all(|w| w.contains('=')) => {
                Ok(Case { kernel, sizes, data: if refuse { Vec::new() } else { rest }, refuse })
            }
            _ => Err(user(format!("`{line}`: expected `KERNEL SIZES [refuse | NAME=CONTENTS ..]`"))),
        }
    });
    let cases = each.collect::<Outcome<Vec<Case>>>()?;
    let said = |c: &Case| [&[c.kernel.clone(), c.sizes.clone()], &c.data[..]].concat().join(" ");
    let lines: Vec<String> = cases.iter().map(said).collect();
    match repeated(lines.iter().map(String::as_str)) {
        Some(twice) => Err(user(format!("`{twice}` is there twice"))),
        None => Ok(cases),
    }
}

/// Tries the cases of one kernel, on the device or in the simulator.
fn check_kernel(
    artifact: &Artifact,
    cases: &[&Case],
    machine: Option<&Machine>,
    place: &Destination,
    tally: &mut Tally,
) -> Outcome<()> {
    let device = machine.map(|m| m.load(artifact, place.limit)).transpose()?;
    for case in cases {
        let start = Instant::now();
        let label = format!("{:<24} {:<24} ", artifact.name, case.sizes);
        // Seen before a launch that may not end. In the simulator the bar says it: what stands in a line that a
        // bar is drawn over is erased with it.
        if device.is_some() {
            print!("{label}");
            output::flush();
        }
        let simulator;
        let executor: &dyn Executor = match &device {
            Some(device) => device,
            None => {
                simulator = simulated(artifact, place, label.trim_end())?;
                &simulator
            }
        };
        let (verdict, line) = check_case(artifact, case, executor, machine, place.seed);
        if device.is_none() {
            print!("{label}");
        }
        println!("{line} ({:.1} s)", start.elapsed().as_secs_f64());
        tally.add(format!("{} {}", artifact.name, case.sizes), verdict);
    }
    Ok(())
}

/// Tries one case: what became of it, and words.
fn check_case(
    artifact: &Artifact,
    case: &Case,
    executor: &dyn Executor,
    machine: Option<&Machine>,
    seed: u64,
) -> (Verdict, String) {
    let untried = |failure: Failure| (Verdict::Untried, failure.message());
    let sizes = match Sizes::parse(&artifact.kernel, &case.sizes) {
        Ok(sizes) => sizes,
        Err(error) => return untried(error.into()),
    };
    match (accepted(artifact, &sizes), case.refuse) {
        (Err(refusal), true) => return (Verdict::Passed, format!("refused: {}", refusal.message())),
        (Err(refusal), false) => return untried(refusal),
        (Ok(()), true) => return (Verdict::Wrong, "was not refused".to_owned()),
        (Ok(()), false) => {}
    }
    match operations(artifact, &sizes) {
        Err(failure) => return untried(failure),
        Ok(count) if machine.is_none() && count > SIMULATED => {
            return (Verdict::Large, "not executed: too large for the simulator".to_owned());
        }
        Ok(_) => {}
    }
    let given = match Given::parse(case.data.iter().map(String::as_str)) {
        Ok(given) => given,
        Err(error) => return untried(error.into()),
    };
    summary(try_sizes(artifact, &sizes, &given, executor, machine, seed).map_err(leave_if_stuck))
}

/// One line for a case: `ok` and the errors, or everything about what is wrong.
fn summary(lines: Outcome<Vec<(bool, String)>>) -> (Verdict, String) {
    let lines = match lines {
        Ok(lines) => lines,
        Err(failure @ Failure::Wrong(_)) => return (Verdict::Wrong, failure.message()),
        Err(failure @ Failure::User(_)) => return (Verdict::Untried, failure.message()),
    };
    if lines.iter().all(|(passed, _)| *passed) {
        let first = lines.first().and_then(|(_, l)| l.split("relative error ").nth(1));
        let error = first.and_then(|l| l.split([' ', ',']).next()).unwrap_or("-");
        let exact = if lines.len() > 1 { ", exact on integers" } else { "" };
        return (Verdict::Passed, format!("ok, error {error}{exact}"));
    }
    let wrong = lines.into_iter().filter(|(passed, _)| !passed).map(|(_, l)| format!("\n    {l}"));
    (Verdict::Wrong, format!("WRONG{}", wrong.collect::<String>()))
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
        for wrong in ["gemm", "gemm 1x2x3 maybe", "gemm 1x2x3 refuse it", "gemm 1x2x3\ngemm 1x2x3 refuse"] {
            assert!(cases(wrong).is_err(), "{wrong}");
        }
    }

    /// `warplift check`, as the command line reads it.
    #[derive(clap::Parser, Debug)]
    struct Whole {
        #[command(subcommand)]
        command: Command,
        #[command(flatten)]
        tools: Tools,
    }

    #[derive(clap::Subcommand, Debug)]
    enum Command {
        Check(CheckArgs),
    }

    #[test]
    fn a_kernel_alone_is_checked_with_the_same_options() {
        let line = "warplift check --ptxas gemm --offline --no-cache --verbose --skip-large --sizes axpy --disable modulo,mma-order --artifacts softmax --device 3 \
                    --seed 7 --hazards warn --limit 5 --cublas gemv gemm axpy";
        let whole: Whole = clap::Parser::parse_from(line.split_whitespace());
        let Command::Check(args) = &whole.command;
        let of = |name: &str| {
            let line = alone(args, &whole.tools, name);
            let again: Whole = clap::Parser::parse_from(std::iter::once("warplift".into()).chain(line));
            format!("{again:?}")
        };
        let plain = format!("{whole:?}").replace("in_process: false", "in_process: true");
        let all = r#"names: ["gemm", "axpy"]"#;
        assert!(plain.contains(all));
        for name in ["gemm", "axpy", "--odd"] {
            assert_eq!(of(name), plain.replace(all, &format!("names: [{name:?}]")));
        }
    }
}
