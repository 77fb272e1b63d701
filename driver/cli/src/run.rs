//! `run`: runs a kernel on random data and checks the result.

use super::Tools;
use super::artifact::{Artifact, Ready};
use super::failure::{Failure, Outcome, user};
use super::progress::Watch;
use super::source::{Choice, SEED, Source};
use std::path::Path;
use std::sync::Arc;
use warplift::cuda::{Arg, CudaError, Device, Kernel, arguments};
use warplift::ir::manifest::Manifest;
use warplift::ir::target::SM90A;
use warplift::ir::tile::Kernel as Tile;
use warplift::kernels;
use warplift_lab::bench::{CublasLt, GemmProblem, product_on_device};
use warplift_lab::reference::Array;
use warplift_lab::validate::{
    Executor, Given, GpuExecutor, Scalar, SimExecutor, Sizes, Validation, agree, work,
};
use warplift_sim::{Hazards, Options};

/// `run NAME`.
#[derive(clap::Args)]
pub struct RunArgs {
    /// A file of tile IR, the name of a kernel of the library, or of an artifact.
    source: String,
    #[command(flatten)]
    choice: Choice,
    /// Sizes, `m=128,n=256` or in order `128x256x64`; may be repeated. `--mapping auto` chooses for the first.
    #[arg(long, value_name = "SIZES")]
    size: Vec<String>,
    /// Contents of an array; may be repeated. CONTENTS: normal, zeros, ints:LO..HI, perm, sorted:LO..HI,
    /// zipf:S:LO..HI, list:A,B,.. or a file FILE.npy. Default: random.
    #[arg(long, value_name = "NAME=CONTENTS")]
    data: Vec<String>,
    #[command(flatten)]
    ready: Ready,
    #[command(flatten)]
    place: Destination,
}

/// Seconds after which a launch counts as deadlocked, where nothing else is said.
pub const LIMIT: u64 = 20;

/// Where and how kernels run.
#[derive(clap::Args, Clone, Debug)]
pub struct Destination {
    /// Number of the GPU, or `sim` for the simulator.
    #[arg(long, default_value = "0", value_name = "N|sim", value_parser = location)]
    pub device: Location,
    /// Seed of the random data.
    #[arg(long, default_value_t = SEED)]
    pub seed: u64,
    /// Hazards of a simulated run: `deny` stops with status 1; `warn` only reports.
    #[arg(long, default_value = "deny", value_name = "deny|warn", value_parser = hazards)]
    pub hazards: Hazards,
    /// Seconds after which a launch counts as deadlocked.
    #[arg(long, default_value_t = LIMIT, value_name = "SECONDS")]
    pub limit: u64,
    /// Path of cuBLASLt, which computes the f64 reference of large products on the GPU.
    #[arg(long, value_name = "PATH")]
    pub cublas: Option<std::path::PathBuf>,
}

/// Where kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// A GPU by its number.
    Gpu(u32),
    /// The simulator.
    Simulator,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gpu(ordinal) => write!(f, "{ordinal}"),
            Self::Simulator => f.write_str("sim"),
        }
    }
}

fn location(text: &str) -> Result<Location, String> {
    match text {
        "sim" => Ok(Location::Simulator),
        _ => text.parse().map(Location::Gpu).map_err(|_| format!("`{text}` is neither a number nor `sim`")),
    }
}

/// Reads `deny` or `warn`.
///
/// # Errors
/// Anything else.
pub fn hazards(text: &str) -> Result<Hazards, String> {
    match text {
        "deny" => Ok(Hazards::Deny),
        "warn" => Ok(Hazards::Warn),
        _ => Err(format!("`{text}` is neither `deny` nor `warn`")),
    }
}

/// Multiprocessors of the simulator's imagined device. They are few, so that programs take tile after tile.
pub const SIM_MULTIPROCESSORS: u32 = 2;

/// The artifact in the simulator; on a terminal a bar shows what runs.
///
/// # Errors
/// It has no PTX text.
pub fn simulated(artifact: &Artifact, place: &Destination, what: &str) -> Outcome<SimExecutor> {
    let ptx = artifact.ptx.clone();
    let ptx = ptx.ok_or_else(|| user(format!("the simulator needs the PTX of `{}`", artifact.name)))?;
    let options = Options { seed: place.seed, hazards: place.hazards, ..Options::default() };
    let executor = SimExecutor::new(ptx, artifact.manifest.clone(), options, SIM_MULTIPROCESSORS);
    Ok(executor.observed(Box::new(Watch::new(what))))
}

/// A device, and the library that helps to check results on it.
pub struct Machine {
    /// The device.
    pub device: Device,
    /// The vendor's library, if it was found.
    pub cublas: Option<Arc<CublasLt>>,
}

impl Machine {
    /// Opens the device; `None` if the machine has no CUDA driver.
    ///
    /// # Errors
    /// A driver without such a device, or a failing one.
    pub fn open(ordinal: u32, cublas: Option<&Path>, tools: &Tools) -> Outcome<Option<Self>> {
        match Device::open(ordinal) {
            Ok(device) => {
                let cublas = CublasLt::load(&device, cublas).ok();
                Ok(Some(Self { device, cublas }))
            }
            Err(error @ (CudaError::NoDriver(_) | CudaError::NoDevice)) => {
                println!("{}", tools.no_device(&error));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The artifact, loaded.
    ///
    /// # Errors
    /// The device refuses it.
    pub fn load(&self, artifact: &Artifact, limit: u64) -> Outcome<GpuExecutor> {
        let kernel = Kernel::load(&self.device, artifact.code()?, artifact.manifest.clone())?;
        if let Some(warning) = kernel.warning() {
            eprintln!("warning: {warning}");
        }
        Ok(GpuExecutor::new(&self.device, kernel, limit))
    }

    /// A full f64 product on the device.
    pub fn product(&self, problem: &GemmProblem, a: &Array, b: &Array) -> Option<(Vec<f64>, Vec<f64>)> {
        let library = self.cublas.as_ref()?;
        product_on_device(library, &self.device, problem, a, b).ok()
    }
}

/// Runs `run`.
///
/// # Errors
/// A failure before or during the launch, or a wrong result.
pub fn run(args: &RunArgs, tools: &Tools) -> Outcome<()> {
    let given = Given::parse(args.data.iter().map(String::as_str))?;
    let source = args.ready.source(&args.source, &args.choice)?;
    // Mistakes in sizes are reported before anything slow.
    let assumed = source.assumed();
    let sizes = sizes(&args.size, &source.kernel, Sizes::defaults(&assumed))?;
    let small = self::sizes(&args.size, &source.kernel, Sizes::small(&assumed))?;
    let simulated = args.place.device == Location::Simulator;
    let all = if simulated { &small } else { &sizes };
    let told = if args.size.is_empty() {
        Source { sizes: all.first().cloned(), ..source }
    } else {
        source.launched(all)
    };
    let artifact = args.ready.made(&args.source, Source { data: given.clone(), ..told }, tools)?;
    for note in &artifact.notes {
        println!("{note}");
    }
    for s in all {
        accepted(&artifact, s)?;
    }
    let Location::Gpu(ordinal) = args.place.device else {
        return simulate(&artifact, &small, &given, &args.place);
    };
    let Some(machine) = Machine::open(ordinal, args.place.cublas.as_deref(), tools)? else {
        println!("this machine has no GPU: the kernel runs in the simulator, on a size that takes seconds");
        for s in &small {
            if operations(&artifact, s)? > SIMULATED {
                return Err(user(format!(
                    "{s} is too large for the simulator; `--device sim` runs it all the same"
                )));
            }
        }
        return simulate(&artifact, &small, &given, &args.place);
    };
    let executor = machine.load(&artifact, args.place.limit)?;
    try_all(&artifact, &sizes, &given, &executor, Some(&machine), args.place.seed)
}

/// The given sizes, completed by `usual`; only `usual` if none are given.
///
/// # Errors
/// Mistakes in them.
pub fn sizes(given: &[String], kernel: &Tile, usual: Sizes) -> Outcome<Vec<Sizes>> {
    let read = given.iter().map(|s| usual.clone().overridden(kernel, s));
    let read = read.collect::<Result<Vec<_>, _>>()?;
    Ok(if read.is_empty() { vec![usual] } else { read })
}

fn simulate(artifact: &Artifact, sizes: &[Sizes], given: &Given, place: &Destination) -> Outcome<()> {
    let executor = simulated(artifact, place, "blocks").map_err(|_| {
        user(format!("nothing was executed: the simulator needs the PTX text of {}", artifact.name))
    })?;
    try_all(artifact, sizes, given, &executor, None, place.seed)
}

/// A launch with more operations is simulated only on request.
pub const SIMULATED: f64 = 1e8;

/// The work of a launch, for the simulator.
///
/// # Errors
/// Sizes that do not fit the kernel.
pub fn operations(artifact: &Artifact, sizes: &Sizes) -> Outcome<f64> {
    let validation = Validation::open(&artifact.kernel, &artifact.meaning, sizes.clone())?;
    let work = work(&validation);
    Ok(work.flops.max(8.0 * work.bytes))
}

fn try_all(
    artifact: &Artifact,
    sizes: &[Sizes],
    given: &Given,
    executor: &dyn Executor,
    machine: Option<&Machine>,
    seed: u64,
) -> Outcome<()> {
    println!("{}", executor.name());
    let mut wrong = Vec::new();
    for sizes in sizes {
        println!("{} {sizes}", artifact.name);
        let lines = try_sizes(artifact, sizes, given, executor, machine, seed);
        for (passed, line) in lines.map_err(leave_if_stuck)? {
            println!("  {}", line.replace('\n', "\n  "));
            if !passed {
                wrong.push(sizes.to_string());
            }
        }
    }
    wrong.dedup();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::Wrong(format!("{} at {}", artifact.name, wrong.join("; "))))
}

/// Checks one set of sizes in every applicable style: whether it passed, and a message.
///
/// # Errors
/// The launch fails.
pub fn try_sizes(
    artifact: &Artifact,
    sizes: &Sizes,
    given: &Given,
    executor: &dyn Executor,
    machine: Option<&Machine>,
    seed: u64,
) -> Outcome<Vec<(bool, String)>> {
    let validation = Validation::open(&artifact.kernel, &artifact.meaning, sizes.clone())?;
    let validation = validation.with_data(given.clone())?;
    let products = |p: &GemmProblem, a: &Array, b: &Array| machine.and_then(|m| m.product(p, a, b));
    let mut lines = Vec::new();
    for style in validation.styles() {
        let verdict = validation.check(executor, style, seed, Some(&products))?;
        if verdict.outputs.is_empty() {
            return Err(user(format!("{} stores nothing: there is nothing to compare", artifact.name)));
        }
        lines.push((verdict.passed(), verdict.to_string()));
    }
    Ok(lines)
}

/// A hanging kernel keeps its process from ending. Reports and leaves at once, without asking the driver.
pub fn leave_if_stuck(failure: Failure) -> Failure {
    if let Failure::Wrong(text) = &failure
        && text.contains("deadlock")
    {
        use std::io::Write;
        println!("WRONG: {text}");
        let _ = std::io::stdout().flush();
        // SAFETY: this process has nothing left to do, and an orderly exit would wait for the device.
        unsafe { libc::_exit(1) };
    }
    failure
}

/// Refuses sizes that break a fact, and names a kernel of the library that takes them.
///
/// # Errors
/// The launcher's refusal.
pub fn accepted(artifact: &Artifact, sizes: &Sizes) -> Outcome<()> {
    takes(&artifact.kernel, &artifact.manifest, sizes).map_err(|e| e.about(&artifact.name))
}

/// The same for a compiled kernel.
///
/// # Errors
/// The launcher's refusal.
pub fn takes(kernel: &Tile, manifest: &Manifest, sizes: &Sizes) -> Outcome<()> {
    let args = kernel.params.iter().map(|p| match sizes.get(&p.name) {
        Some(Scalar::Int(v)) => Arg::Int(v.into()),
        Some(Scalar::Float(v)) => Arg::Float(v),
        None => Arg::Pointer { address: 1 << 20, bytes: None },
    });
    let args: Vec<Arg> = args.collect();
    let planned = arguments::plan(manifest, &args, SM90A.multiprocessors);
    let refused = |e: arguments::LaunchError| {
        let hint = instead(kernel, sizes).map_or(String::new(), |name| {
            format!("; kernel `{name}` computes the same and takes these sizes")
        });
        user(format!("{sizes}: {e}{hint}"))
    };
    planned.map(|_| ()).map_err(refused)
}

/// Another kernel of the library that computes the same and whose facts these sizes obey.
fn instead(own: &Tile, sizes: &Sizes) -> Option<&'static str> {
    let names = |k: &Tile| -> Vec<_> { k.params.iter().map(|p| (p.name.clone(), k.ty(p.value))).collect() };
    let obeyed = |k: &Tile, sizes: &Sizes| {
        k.params.iter().all(|p| {
            let (value, f) = (sizes.int(&p.name), p.facts);
            value.is_none_or(|v| v % f.multiple == 0 && (f.min..=f.max).contains(&v))
        })
    };
    let common = Sizes::small(own);
    kernels::LIBRARY.iter().find_map(|text| {
        let module = text.parse().ok()?;
        let kernel = module.kernel(text.name)?;
        let fits = kernel.name != own.name && names(kernel) == names(own);
        let fits = fits && obeyed(kernel, sizes) && obeyed(kernel, &common);
        (fits && agree(own, kernel, &common).unwrap_or(false)).then_some(text.name)
    })
}
