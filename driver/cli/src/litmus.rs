//! `litmus`: instructions and hard features, in the simulator and on the GPU.

use super::Tools;
use super::artifact::{manifest_text, write};
use super::failure::{Failure, Outcome, user};
use clap::ValueEnum;
use rayon::prelude::*;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use warplift::cuda::{CudaError, Device, Kernel, LaunchError};
use warplift::toolchain::PtxasOptions;
use warplift_lab::litmus::{self, Case, Difference, Entry, Record};
use warplift_lab::validate::{GpuExecutor, ProblemError, ValidationError};

/// `litmus [NAMES]`.
#[derive(clap::Args)]
pub struct LitmusArgs {
    /// Litmus tests, or families of them as before a `/`; default: all.
    names: Vec<String>,
    /// Where they run.
    #[arg(long, value_enum, default_value_t)]
    device: Where,
    /// Number of the GPU.
    #[arg(long, default_value_t = 0, value_name = "N")]
    gpu: u32,
    /// Print the tests and the compared values, and run nothing.
    #[arg(long)]
    list: bool,
    /// Assemble them into this folder, for `--artifacts` on a machine without ptxas; run nothing.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Folder that `--save` has written.
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,
    /// Write digests of the GPU's answers to this file.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Folder of the GPU's complete answers. They are written on a machine with a GPU and compared elsewhere.
    #[arg(long, value_name = "DIR")]
    answers: Option<PathBuf>,
    /// Seconds after which a launch counts as deadlocked.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    limit: u64,
}

/// Where litmus tests run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Where {
    /// In the simulator.
    Sim,
    /// On the GPU.
    Gpu,
    /// In the simulator, and on the GPU where there is one.
    #[default]
    Both,
}

/// Runs `litmus`.
///
/// # Errors
/// A difference; a name of no litmus, a missing GPU that was asked for, files.
pub fn litmus(args: &LitmusArgs, tools: &Tools) -> Outcome<()> {
    let cases = litmus::select(&args.names).map_err(user)?;
    if args.list {
        cases.iter().for_each(|c| {
            println!("{:<44} {:>3} instructions, {}", c.name, c.instructions(), c.comparison())
        });
        return Ok(());
    }
    if let Some(folder) = &args.save {
        return save(&cases, folder, tools);
    }
    if let Some(folder) = &args.answers {
        fs::create_dir_all(folder).map_err(|e| user(format!("{}: {e}", folder.display())))?;
    }
    let device = match args.device {
        Where::Sim => None,
        Where::Gpu => Some(Device::open(args.gpu)?),
        Where::Both => open(args.gpu, tools)?,
    };
    if let (Some(path), None) = (&args.record, &device) {
        return Err(user(format!("{} would hold no answer of a GPU: --record needs one", path.display())));
    }
    let simulated: Vec<Option<Result<Vec<u8>, Difference>>> =
        cases.par_iter().map(|c| (args.device != Where::Gpu).then(|| litmus::simulate(c))).collect();
    Bench { args, tools, device, cases: &cases, wrong: Vec::new() }.run(simulated)
}

/// The device, or `None` where the machine has none.
fn open(ordinal: u32, tools: &Tools) -> Outcome<Option<Device>> {
    match Device::open(ordinal) {
        Ok(device) => Ok(Some(device)),
        Err(error @ (CudaError::NoDriver(_) | CudaError::NoDevice)) => {
            println!("{}", tools.no_device(&error));
            println!("in the simulator only, against what a GPU answered before");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn save(cases: &[Case], folder: &Path, tools: &Tools) -> Outcome<()> {
    fs::create_dir_all(folder).map_err(|e| user(format!("{}: {e}", folder.display())))?;
    let ptxas = tools.find()?;
    let one = |case: &Case| -> Outcome<()> {
        let at = |extension: &str| folder.join(format!("{}.{extension}", case.file_stem()));
        let made = ptxas.ptxas(&case.ptx, &PtxasOptions::default());
        let made = made.map_err(|e| user(format!("{}: {e}", case.name)))?;
        write(&at("json"), manifest_text(&case.manifest)?.as_bytes())?;
        write(&at("ptx"), case.ptx.as_bytes())?;
        write(&at("cubin"), &made.cubin)
    };
    let failed: Vec<String> =
        cases.par_iter().filter_map(|c| one(c).err()).map(|failure| failure.message()).collect();
    if !failed.is_empty() {
        return Err(user(failed.join("\n")));
    }
    println!("{} litmus tests in {}", cases.len(), folder.display());
    Ok(())
}

/// The state of a run.
struct Bench<'a> {
    args: &'a LitmusArgs,
    tools: &'a Tools,
    device: Option<Device>,
    cases: &'a [Case],
    wrong: Vec<String>,
}

/// Why this process can no longer use the device.
enum Lost {
    /// A launch faulted.
    Fault,
    /// A launch did not end.
    Hang,
}

impl Bench<'_> {
    fn run(mut self, simulated: Vec<Option<Result<Vec<u8>, Difference>>>) -> Outcome<()> {
        let mut record = match &self.args.record {
            Some(path) => Record::parse(&fs::read_to_string(path).unwrap_or_default()),
            None => Record::committed(),
        };
        for (at, (case, simulated)) in self.cases.iter().zip(simulated).enumerate() {
            print!("{:<44} {:<38} ", case.name, case.comparison());
            let _ = std::io::stdout().flush();
            let (verdict, lost) = self.one(case, simulated, &mut record);
            match verdict {
                Ok(line) => println!("{line}"),
                Err(difference) => {
                    println!("WRONG\n    {}", difference.0.replace('\n', "\n    "));
                    self.wrong.push(case.name.clone());
                }
            }
            if let Some(lost) = lost {
                self.keep(&record)?;
                return self.go_on(at + 1, &lost);
            }
        }
        self.keep(&record)?;
        self.summary()
    }

    fn keep(&self, record: &Record) -> Outcome<()> {
        self.args.record.as_deref().map_or(Ok(()), |path| write(path, record.text().as_bytes()))
    }

    fn summary(&self) -> Outcome<()> {
        println!("{} of {} litmus tests passed", self.cases.len() - self.wrong.len(), self.cases.len());
        match self.wrong.is_empty() {
            true => Ok(()),
            false => Err(Failure::Wrong(self.wrong.join(", "))),
        }
    }

    /// One case: its line, and whether the device remains usable.
    fn one(
        &self,
        case: &Case,
        simulated: Option<Result<Vec<u8>, Difference>>,
        record: &mut Record,
    ) -> (Result<String, Difference>, Option<Lost>) {
        let Some(device) = &self.device else {
            return (simulated.map_or(Ok(String::new()), |s| self.recorded(case, &s?, record)), None);
        };
        let gpu = match self.on(device, case) {
            Ok(out) => out,
            Err(error) => {
                let lost = match error {
                    ValidationError::Hang(_) => Some(Lost::Hang),
                    ValidationError::Cuda(_) | ValidationError::Launch(LaunchError::Cuda(_)) => {
                        Some(Lost::Fault)
                    }
                    _ => None,
                };
                return (Err(Difference(format!("GPU: {error}"))), lost);
            }
        };
        if let Some(Err(failure)) = self.answer(case).map(|path| write(&path, &gpu)) {
            return (Err(Difference(failure.message())), None);
        }
        let verdict = match simulated {
            Some(Ok(out)) => litmus::judge(case, &gpu, Some(&out)),
            Some(Err(difference)) => Err(difference),
            None => litmus::judge(case, &gpu, None),
        };
        // The record of an approximation says only that it was good.
        if verdict.is_ok() || !case.approximates() {
            record.insert(Entry::new(case, &gpu));
        }
        (verdict, None)
    }

    /// What the GPU leaves in `out`.
    fn on(&self, device: &Device, case: &Case) -> Result<Vec<u8>, ValidationError> {
        let code = self.code(case).map_err(|f| ProblemError::Sizes(f.message()))?;
        let kernel = Kernel::load(device, &code, case.manifest.clone())?;
        case.execute(&GpuExecutor::new(device, kernel, self.args.limit))
    }

    /// A ready cubin, one made now, or PTX for the driver's compiler.
    fn code(&self, case: &Case) -> Outcome<Vec<u8>> {
        if let Some(folder) = &self.args.artifacts {
            let at = |extension: &str| folder.join(format!("{}.{extension}", case.file_stem()));
            let read =
                |path: PathBuf| fs::read(&path).map_err(|e| user(format!("reading {}: {e}", path.display())));
            return match read(at("ptx"))? == case.ptx.as_bytes() {
                true => read(at("cubin")),
                false => Err(user(format!("{} is of another version of this litmus", at("ptx").display()))),
            };
        }
        Ok(match self.tools.find() {
            Ok(ptxas) => ptxas.ptxas(&case.ptx, &PtxasOptions::default())?.cubin,
            Err(_) => case.ptx.clone().into_bytes(),
        })
    }

    /// The remaining cases in a new process, since this one's device is lost.
    fn go_on(&self, from: usize, lost: &Lost) -> Outcome<()> {
        let rest = self.cases[from..].iter().map(|c| c.name.as_str());
        let program = std::env::current_exe().map_err(|e| user(format!("finding this program: {e}")))?;
        let options = std::env::args().skip(1).filter(|a| !self.args.names.contains(a));
        if from < self.cases.len() {
            let run = Command::new(&program).args(options).args(rest).status();
            run.map_err(|e| user(format!("starting {}: {e}", program.display())))?;
        }
        let wrong = self.wrong.join(", ");
        if matches!(lost, Lost::Hang) {
            // A hanging kernel keeps its process from ending: leave without asking the driver.
            println!("WRONG: {wrong}");
            let _ = std::io::stdout().flush();
            std::process::abort();
        }
        Err(Failure::Wrong(wrong))
    }

    /// Where the answer to a case lies.
    fn answer(&self, case: &Case) -> Option<PathBuf> {
        Some(self.args.answers.as_ref()?.join(format!("{}.out", case.file_stem())))
    }

    /// Compares with what a GPU answered.
    fn recorded(&self, case: &Case, simulated: &[u8], record: &Record) -> Result<String, Difference> {
        if let Some(Ok(gpu)) = self.answer(case).map(fs::read) {
            return litmus::judge(case, &gpu, Some(simulated));
        }
        match record.answer(case) {
            None => Ok("simulator; not yet on a GPU".to_owned()),
            Some(answer) if answer == Entry::new(case, simulated).answer => {
                let near = case.approximates();
                Ok(if near { "simulator; GPU within it too" } else { "simulator, as a GPU answered" }
                    .to_owned())
            }
            Some(_) => Err(Difference("a GPU answered otherwise".to_owned())),
        }
    }
}
