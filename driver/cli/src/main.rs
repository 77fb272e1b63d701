//! The `warplift` binary; see `warplift help`.
//!
//! ```text
//!  FILE or NAME ─ source ─► kernel, mapping ─ artifact ─► PTX, manifest, cubin ─► run, check, bench
//! ```
//!
//! Exit status: 0 for success, 1 for a wrong result, 2 for a mistake of the user or the machine.

#[macro_use]
mod output;

mod ablate;
mod artifact;
mod bench;
mod bundle;
mod cache;
mod check;
mod compile;
mod dump;
mod failure;
mod layout;
mod litmus;
mod micro;
mod mutate;
mod progress;
mod run;
mod sim;
mod source;
mod tune;
mod tuning_file;

use clap::{Args, Parser, Subcommand};
use failure::{Outcome, user};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use warplift::cuda::CudaError;
use warplift::toolchain::{self, Fetch, Toolchain};

/// Compiles tile kernels to PTX for NVIDIA Hopper, runs, checks and measures them.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    tools: Tools,
}

/// Options that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct Tools {
    /// The ptxas to use; else WARPLIFT_PTXAS, the cache, PATH. Where none is found, the pinned one is fetched.
    #[arg(long, global = true, value_name = "PATH")]
    ptxas: Option<PathBuf>,
    /// Fetch nothing; WARPLIFT_OFFLINE in the environment says the same.
    #[arg(long, global = true)]
    offline: bool,
    /// Neither read nor write the cache of what ptxas and the disassemblers made.
    #[arg(long, global = true)]
    no_cache: bool,
    /// Print more details, such as the places that were searched for libraries.
    #[arg(long, global = true)]
    verbose: bool,
    #[arg(skip)]
    found: OnceLock<Result<Toolchain, String>>,
}

impl Tools {
    /// The tools, fetched on first use. The result is kept, because a command may compile many kernels.
    fn find(&self) -> Outcome<&Toolchain> {
        let find = || {
            let found = Toolchain::find_or_install(self.ptxas.as_deref(), self.fetch());
            let found = found.map(|tools| if self.no_cache { tools.cached(None) } else { tools });
            found.map_err(|e| e.to_string())
        };
        self.found.get_or_init(find).as_ref().map_err(|e| user(e.as_str()))
    }

    fn fetch(&self) -> Fetch {
        let usual = Fetch::default();
        Fetch { allowed: usual.allowed && !self.offline, ..usual }
    }

    /// Why there is no device, in a line; under `--verbose` where its driver was looked for.
    fn no_device(&self, error: &CudaError) -> String {
        match error {
            CudaError::NoDriver(missing) if self.verbose => {
                format!("{error}:\n{}", missing.places().trim_end())
            }
            CudaError::NoDriver(_) => format!("{error} (--verbose lists them)"),
            _ => error.to_string(),
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Compile a kernel to PTX and a launch manifest.
    Compile(compile::CompileArgs),
    /// Run a kernel on random data and check its result.
    Run(run::RunArgs),
    /// Check a table of kernels and sizes; on a GPU each kernel in a process of its own.
    Check(check::CheckArgs),
    /// Measure kernels, and peers beside them.
    Bench(Box<bench::BenchArgs>),
    /// Make one file of several mappings of a kernel, with a table of the sizes that each serves.
    Bundle(bundle::BundleArgs),
    /// Try mappings for classes of sizes, and keep the best in a tuning file that `auto` reads.
    Tune(tune::TuneArgs),
    /// Show the compiler's decisions: versions, roles, rings, buffers, registers, times.
    Explain(compile::ExplainArgs),
    /// Run PTX in the simulator, under several orders of events, and check it.
    Sim(sim::SimArgs),
    /// Run the mutation proof: every removed, corrupted or moved synchronization must be noticed.
    Mutate(mutate::MutateArgs),
    /// Run a litmus test of each instruction and hard feature in the simulator and on the GPU, and compare.
    Litmus(litmus::LitmusArgs),
    /// Show a layout: its notations, facts, table and picture.
    Layout(layout::LayoutArgs),
    /// List the kernels of the library.
    Kernels,
    /// The pinned assembler and disassemblers.
    #[command(subcommand)]
    Toolchain(ToolchainCommand),
    /// What ptxas and the disassemblers made, kept on disk.
    #[command(subcommand)]
    Cache(cache::CacheCommand),
}

#[derive(Subcommand)]
enum ToolchainCommand {
    /// Fetch them from the Python package index into the cache, unless the pinned ones are there. Needs Python 3
    /// with pip.
    Install {
        /// Fetch them even if the pinned ones are there.
        #[arg(long)]
        force: bool,
    },
    /// Print the path of ptxas.
    Where,
}

/// A reader that closes early (`warplift explain gemm | head`) ends the program silently. Without this, the next
/// `println!` would panic, because Rust programs ignore the signal by default.
fn end_with_the_reader() {
    // SAFETY: no other thread runs yet, and the default action of a signal needs no handler of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

fn main() -> ExitCode {
    end_with_the_reader();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                let _ = error.print();
                return ExitCode::from(2);
            }
            // Help and version are not mistakes.
            output::done(error.print());
            output::flush();
            return ExitCode::SUCCESS;
        }
    };
    let done = execute(cli);
    output::flush();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.message());
            ExitCode::from(failure.status())
        }
    }
}

fn execute(cli: Cli) -> Outcome<()> {
    let tools = &cli.tools;
    match cli.command {
        Command::Compile(args) => compile::compile(&args, tools),
        Command::Run(args) => run::run(&args, tools),
        Command::Check(args) => check::check(&args, tools),
        Command::Bench(args) => bench::bench(&args, tools),
        Command::Bundle(args) => bundle::bundle(&args, tools),
        Command::Tune(args) => tune::tune(&args, tools),
        Command::Explain(args) => compile::explain(&args, tools),
        Command::Sim(args) => sim::sim(&args),
        Command::Mutate(args) => mutate::mutate(&args),
        Command::Litmus(args) => litmus::litmus(&args, tools),
        Command::Layout(args) => layout::layout(&args),
        Command::Kernels => kernels(),
        Command::Toolchain(ToolchainCommand::Install { force }) => install(tools, force),
        Command::Toolchain(ToolchainCommand::Where) => whereabouts(tools),
        Command::Cache(command) => cache::cache(&command),
    }
}

fn kernels() -> Outcome<()> {
    for text in warplift::kernels::LIBRARY {
        println!("{:<24} {}", text.name, text.summary());
    }
    Ok(())
}

fn install(tools: &Tools, force: bool) -> Outcome<()> {
    println!("{}", toolchain::install(force, tools.fetch())?.display());
    Ok(())
}

/// Looks without fetching.
fn whereabouts(tools: &Tools) -> Outcome<()> {
    let found = Toolchain::find(tools.ptxas.as_deref())?;
    println!("{} ({})", found.ptxas.display(), found.version);
    Ok(())
}
