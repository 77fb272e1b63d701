//! `bench`: measures kernels, alone and beside peers.

use super::Tools;
use super::ablate::{self, Forms};
use super::artifact::{Artifact, Ready, write};
use super::failure::{Failure, Outcome, user};
use super::micro::{MicroArgs, micro};
use super::run::{Destination, LIMIT, Location, Machine, accepted, leave_if_stuck, sizes, try_sizes};
use super::source::{Choice, SEED, load, overlay};
use std::path::PathBuf;
use std::sync::Arc;
use warplift::cuda::{Arg, Buffer, Device, Kernel, Prepared};
use warplift::enumerate;
use warplift::ir::manifest::Manifest;
use warplift_lab::bench::choices::{PRODUCTS, Table, WEIGHTS, choices};
use warplift_lab::bench::predicted::predictions;
use warplift_lab::bench::{
    Contender, CublasGemm, CublasLt, GemmProblem, KernelContender, Operands, Regime, Report, Settings,
    best_of, measure, rotations,
};
use warplift_lab::validate::{Data, Given, Input, Scalar, Sizes, Style, Validation, work};

/// `bench NAMES`, `bench micro`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// Kernels: files, names of the library, or of artifacts.
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    choice: Choice,
    /// Sizes, `m=128,n=256` or in order `128x256x64`; may be repeated.
    #[arg(long, value_name = "SIZES")]
    size: Vec<String>,
    /// Measure this peer too.
    #[arg(long, value_enum)]
    vs: Option<Peer>,
    /// Conditions.
    #[arg(long, value_enum, default_value_t = Regimes::Both)]
    regime: Regimes,
    /// Number of rounds. Every contender runs once in each.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Measure every proposed mapping instead of one.
    #[arg(long, conflicts_with_all = ["artifacts", "cubin"])]
    sweep: bool,
    /// Measure each kernel without each feature too, and print a table of their gains.
    #[arg(long, conflicts_with_all = ["sweep", "vs", "best", "cubin"])]
    ablate: bool,
    /// Measure the best of cuBLASLt's first 16 proposals too.
    #[arg(long)]
    best: bool,
    /// Skip the correctness check before measuring.
    #[arg(long)]
    no_check: bool,
    /// Write the reports to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the measurements to this file as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    ready: Ready,
    #[command(flatten)]
    place: Destination,
}

#[derive(clap::Subcommand)]
enum BenchCommand {
    /// Measure instructions and units instead of kernels; tables and plots from the results.
    Micro(MicroArgs),
    /// Compare predicted cycles and times with those that were measured; needs no GPU.
    Predicted,
    /// Choose a mapping for each of 40 products and print its predicted cycles beside what no schedule beats; needs no
    /// GPU.
    Choices {
        /// Another list: a kernel and its sizes in each line.
        #[arg(value_name = "FILE")]
        list: Option<PathBuf>,
        /// The layers with weights of 4 bits, 1 to 64 rows, instead of the 40 products.
        #[arg(long, conflicts_with = "list")]
        weights: bool,
    },
}

/// The peer.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    /// NVIDIA cuBLASLt, its first proposal.
    Cublas,
}

/// The conditions of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Regimes {
    /// Idle, then a few milliseconds of launches.
    Burst,
    /// Launches back to back.
    Sustained,
    /// Both.
    Both,
}

impl Regimes {
    fn all(self) -> &'static [Regime] {
        match self {
            Self::Burst => &[Regime::Burst],
            Self::Sustained => &[Regime::Sustained],
            Self::Both => &[Regime::Burst, Regime::Sustained],
        }
    }
}

/// Runs `bench`.
///
/// # Errors
/// No GPU, anything on the way, a wrong result.
pub fn bench(args: &BenchArgs, tools: &Tools) -> Outcome<()> {
    if let Some(BenchCommand::Predicted) = &args.command {
        print!("{}", predictions().map_err(user)?);
        return Ok(());
    }
    if let Some(BenchCommand::Choices { list, weights }) = &args.command {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|e| user(format!("reading {}: {e}", path.display())))
        };
        let list = list.as_ref().map(read).transpose()?;
        let own = if *weights { WEIGHTS } else { PRODUCTS };
        print!("{}", Table(choices(list.as_deref().unwrap_or(own)).map_err(user)?));
        return Ok(());
    }
    if let Some(BenchCommand::Micro(args)) = &args.command {
        return micro(args, tools);
    }
    let Location::Gpu(ordinal) = args.place.device else {
        return Err(user("the simulator measures no time; bench needs a GPU"));
    };
    // Mistakes in names, texts and sizes come before the machine.
    for name in &args.names {
        launches(name, args)?;
    }
    let machine = Machine::open(ordinal, args.place.cublas.as_deref(), tools)?;
    let machine = machine.ok_or_else(|| user("bench needs a GPU; nothing was measured"))?;
    let mut reports = Vec::new();
    let mut wrong = Vec::new();
    let mut ablation = Vec::new();
    for name in &args.names {
        for sizes in launches(name, args)? {
            let (candidates, row) = candidates(name, &sizes, args, tools)?;
            match bench_sizes(&candidates, &sizes, &machine, args) {
                Ok(report) => {
                    println!("{}", report.table());
                    ablation.extend(row.clone().map(|row| (row, report.clone())));
                    reports.push(report);
                }
                Err(failure @ Failure::Wrong(_)) => wrong.push(leave_if_stuck(failure).message()),
                Err(failure) => return Err(failure.about(&format!("{name} {sizes}"))),
            }
        }
    }
    if args.ablate {
        println!("{}", ablate::table(&ablation));
    }
    save(args, &reports)?;
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Wrong(wrong.join("\n"))) }
}

/// The sizes at which a kernel is measured.
fn launches(name: &str, args: &BenchArgs) -> Outcome<Vec<Sizes>> {
    let source = args.ready.source(name, &args.choice)?;
    sizes(&args.size, &source.kernel, Sizes::defaults(&source.assumed()))
}

fn save(args: &BenchArgs, reports: &[Report]) -> Outcome<()> {
    if let Some(path) = &args.json {
        write(path, (serde_json::to_string_pretty(reports)? + "\n").as_bytes())?;
    }
    if let Some(path) = &args.csv {
        let each = reports.iter().enumerate().map(|(i, r)| {
            let text = r.csv();
            let skip = usize::from(i > 0);
            text.lines().skip(skip).map(|l| format!("{l}\n")).collect::<String>()
        });
        write(path, each.collect::<String>().as_bytes())?;
    }
    Ok(())
}

/// The artifacts to measure at these sizes: one, or one for each proposed mapping, or one for each disabled feature.
fn candidates(
    name: &str,
    sizes: &Sizes,
    args: &BenchArgs,
    tools: &Tools,
) -> Outcome<(Vec<Artifact>, Option<ablate::Row>)> {
    if args.ablate {
        let (forms, row) = Forms::of(&args.ready, name, &args.choice, tools)?.into_parts();
        return Ok((forms, Some(row)));
    }
    let made = match args.sweep {
        true => proposed(name, args, tools)?,
        false => vec![args.ready.artifact(name, &args.choice, Some(sizes), tools)?],
    };
    Ok((made, None))
}

/// One artifact for each proposed mapping.
fn proposed(name: &str, args: &BenchArgs, tools: &Tools) -> Outcome<Vec<Artifact>> {
    let mut source = load(name, &args.choice)?;
    let mut proposals = enumerate::mappings(&source.kernel, source.target, &source.grants);
    let chosen = proposals.len();
    proposals.splice(0..0, source.mapping.take());
    let given = proposals.len() - chosen;
    let mut made = Vec::new();
    for (n, mut mapping) in proposals.into_iter().enumerate() {
        overlay(&mut mapping, &source.defines);
        source.mapping = Some(mapping);
        match Artifact::make(&source, tools) {
            Ok(mut artifact) => {
                artifact.name = short(&artifact);
                if n >= given {
                    artifact.meaning = source.own_values();
                }
                made.push(artifact);
            }
            Err(failure) => eprintln!("passed over: {}", failure.message()),
        }
    }
    Ok(made)
}

/// A mapping in one line.
fn short(artifact: &Artifact) -> String {
    let text = artifact.mapping.to_string();
    let inner = text.split_once('{').map_or(text.as_str(), |(_, rest)| rest);
    let words: Vec<&str> = inner.trim_end().trim_end_matches('}').split_whitespace().collect();
    words.join(" ")
}

fn bench_sizes(
    candidates: &[Artifact],
    sizes: &Sizes,
    machine: &Machine,
    args: &BenchArgs,
) -> Outcome<Report> {
    let Some(first) = candidates.first() else { return Err(user("nothing to measure")) };
    let validation = Validation::new(&first.kernel, &first.meaning, sizes.clone())?;
    for artifact in candidates {
        accepted(artifact, sizes)?;
        if !args.no_check {
            correct(artifact, sizes, machine, args)?;
        }
    }
    let sets = Sets::new(&validation, &first.manifest, machine, args.place.seed)?;
    let kernels = candidates.iter().map(|artifact| {
        let kernel = Kernel::load(&machine.device, artifact.code()?, artifact.manifest.clone())?;
        let prepared =
            sets.args(&validation).iter().map(|a| kernel.prepare(a)).collect::<Result<Vec<Prepared>, _>>()?;
        let pdl = artifact.manifest.pdl;
        let prepared = prepared.into_iter().map(|p| p.pdl(pdl)).collect();
        Ok(KernelContender::new(artifact.name.clone(), prepared))
    });
    let kernels: Vec<KernelContender> = kernels.collect::<Outcome<_>>()?;
    let peers = peers(&validation, &sets, machine, args)?;
    let ours = kernels.iter().map(|k| k as &dyn Contender);
    let contenders: Vec<&dyn Contender> = ours.chain(peers.iter().map(|p| p as &dyn Contender)).collect();
    let settings = Settings { rounds: args.rounds.max(1), seed: args.place.seed, ..Settings::default() };
    let work = work(&validation);
    let mut report: Option<Report> = None;
    for &regime in args.regime.all() {
        let part = measure(&machine.device, &work, &contenders, regime, &settings)?;
        report = Some(match report {
            Some(r) => r.merge(part),
            None => part,
        });
    }
    report.ok_or_else(|| user("no regime"))
}

/// Microseconds of a launch in bursts, after a check of its result.
///
/// # Errors
/// The device refuses the kernel, or its result is wrong.
pub fn times_of(artifact: &Artifact, sizes: &Sizes, machine: &Machine) -> Outcome<f64> {
    accepted(artifact, sizes)?;
    let executor = machine.load(artifact, LIMIT)?;
    let lines = try_sizes(artifact, sizes, &Given::default(), &executor, Some(machine), SEED)?;
    if let Some((_, line)) = lines.iter().find(|(passed, _)| !passed) {
        return Err(Failure::Wrong(format!("{} {sizes}: {line}", artifact.name)));
    }
    let validation = Validation::new(&artifact.kernel, &artifact.meaning, sizes.clone())?;
    let sets = Sets::new(&validation, &artifact.manifest, machine, SEED)?;
    let kernel = Kernel::load(&machine.device, artifact.code()?, artifact.manifest.clone())?;
    let prepared = sets.args(&validation).iter().map(|a| kernel.prepare(a)).collect::<Result<Vec<_>, _>>()?;
    let prepared = prepared.into_iter().map(|p| p.pdl(artifact.manifest.pdl)).collect();
    let contender = KernelContender::new(artifact.name.clone(), prepared);
    let settings = Settings { rounds: TUNING_ROUNDS, seed: SEED, ..Settings::default() };
    let report = measure(&machine.device, &work(&validation), &[&contender], Regime::Burst, &settings)?;
    let first = report.measurements.first().map(|m| m.median_us);
    first.ok_or_else(|| user("nothing was measured"))
}

/// Rounds in which `tune` measures a candidate.
const TUNING_ROUNDS: usize = 5;

fn correct(artifact: &Artifact, sizes: &Sizes, machine: &Machine, args: &BenchArgs) -> Outcome<()> {
    let executor = machine.load(artifact, args.place.limit)?;
    for (passed, line) in
        try_sizes(artifact, sizes, &Given::default(), &executor, Some(machine), args.place.seed)?
    {
        if !passed {
            return Err(Failure::Wrong(format!("{} {sizes}: {line}", artifact.name)));
        }
        println!("{}: {line}", artifact.name);
    }
    Ok(())
}

/// The vendor's library on the same buffers, if the kernel is a plain product.
fn peers(
    validation: &Validation<'_>,
    sets: &Sets,
    machine: &Machine,
    args: &BenchArgs,
) -> Outcome<Vec<CublasGemm>> {
    if args.vs.is_none() && !args.best {
        return Ok(Vec::new());
    }
    let Some(product) = &validation.product else {
        return Err(user(format!(
            "`{}` is no plain product: cuBLASLt has no such kernel",
            validation.kernel.name
        )));
    };
    // Loading again gives the reason why it was not found.
    let library = match &machine.cublas {
        Some(library) => library.clone(),
        None => CublasLt::load(&machine.device, args.place.cublas.as_deref())?,
    };
    println!("cuBLASLt {}", library.version());
    let problem: &GemmProblem = &product.problem;
    let operands = sets.operands(product.operands);
    let mut peers = vec![CublasGemm::new(&library, problem, &operands)?];
    if args.best {
        peers.push(best_of(&library, problem, &operands)?.0);
    }
    Ok(peers)
}

/// Rotating sets of buffers with the same contents, packed for the first candidate. (Other candidates have another
/// order of packed arrays, but the same sizes and the same work.)
struct Sets(Vec<Vec<Arc<Buffer>>>);

impl Sets {
    fn new(validation: &Validation<'_>, manifest: &Manifest, machine: &Machine, seed: u64) -> Outcome<Self> {
        let device: &Device = &machine.device;
        let mut data = Data::new(&validation.operands, Style::Normal, seed);
        validation.pack(manifest, &mut data)?;
        let bytes = data.buffers.iter().map(|b| b.len() as u64).sum();
        let count = rotations(bytes, device.info().l2, device.memory()?.0);
        let set = || {
            data.buffers.iter().map(|b| Ok(Arc::new(Buffer::from_bytes(device, b)?))).collect::<Outcome<_>>()
        };
        Ok(Self((0..count).map(|_| set()).collect::<Outcome<_>>()?))
    }

    /// Arguments of a launch on each set.
    fn args(&self, validation: &Validation<'_>) -> Vec<Vec<Arg>> {
        let empty = Data { buffers: vec![Vec::new(); validation.operands.len()] };
        let inputs = validation.inputs(&empty);
        let each = self.0.iter().map(|set| {
            let mut buffers = set.iter();
            let arg = |input: &Input<'_>| match input {
                Input::Scalar(Scalar::Int(v)) => Some(Arg::Int((*v).into())),
                Input::Scalar(Scalar::Float(v)) => Some(Arg::Float(*v)),
                Input::Buffer(_) | Input::Output(_) => buffers.next().map(|b| Arg::from(&**b)),
            };
            inputs.iter().filter_map(arg).collect()
        });
        each.collect()
    }

    fn operands(&self, [a, b, c]: [usize; 3]) -> Vec<Operands> {
        let each = self.0.iter().map(|s| Operands { a: s[a].clone(), b: s[b].clone(), c: s[c].clone() });
        each.collect()
    }
}
