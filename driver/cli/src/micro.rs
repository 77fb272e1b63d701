//! `bench micro`: measures instructions and units, and writes tables from the results.

use super::Tools;
use super::artifact::write;
use super::failure::{Failure, Outcome, user};
use std::fs;
use std::path::{Path, PathBuf};
use warplift::cuda::Device;
use warplift_lab::bench::micro::{Case, Ready, Results, Runner, cases, plots, update_chapter, update_table};

/// `bench micro [NAMES]`.
#[derive(clap::Args)]
pub struct MicroArgs {
    /// Prefixes of the names of cases to measure; default: all.
    names: Vec<String>,
    /// Number of the GPU.
    #[arg(long, default_value_t = 0)]
    gpu: u32,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Take code from a folder that `--save` wrote, for a machine without ptxas.
    #[arg(long, value_name = "DIR", conflicts_with = "save")]
    artifacts: Option<PathBuf>,
    /// Assemble all cases into a folder and measure nothing.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Add the results of other runs to the file of `--json` and measure nothing.
    #[arg(long, value_name = "FILE", requires = "json", conflicts_with_all = ["save", "artifacts"])]
    merge: Vec<PathBuf>,
    /// Write the table's module of cycles from results; run in the repository's root.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "save", "artifacts"])]
    update_table: Option<PathBuf>,
    /// Write the chapter's tables and plots from results; run in the repository's root.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "save", "artifacts"])]
    update_docs: Option<PathBuf>,
}

/// The module of cycles, the chapter and its plots, from the repository's root.
const TABLE: &str = "ir/src/target/sm90a_cycles.rs";
const CHAPTER: &str = "docs/microbenchmarks.md";
const PLOTS: &str = "docs/microbenchmarks";

/// Runs `bench micro`.
///
/// # Errors
/// No GPU, a case that is refused, a file.
pub fn micro(args: &MicroArgs, tools: &Tools) -> Outcome<()> {
    if args.update_table.is_some() || args.update_docs.is_some() {
        return update(args);
    }
    if let (Some(into), false) = (&args.json, args.merge.is_empty()) {
        return merge(&args.merge, into);
    }
    let chosen =
        |c: &Case| args.names.is_empty() || args.names.iter().any(|n| c.name.starts_with(n.as_str()));
    let cases: Vec<Case> = cases().into_iter().filter(chosen).collect();
    if cases.is_empty() {
        return Err(user(format!("no case begins with any of {:?}", args.names)));
    }
    let ready = match &args.artifacts {
        Some(folder) => Ready::Folder(folder.clone()),
        None => Ready::Assemble(tools.find()?.clone()),
    };
    match &args.save {
        Some(folder) => save(&cases, &ready, folder),
        None => measure(&cases, &ready, args),
    }
}

fn read(path: &Path) -> Outcome<Results> {
    let text = fs::read_to_string(path).map_err(|e| user(format!("reading {}: {e}", path.display())))?;
    Ok(serde_json::from_str(&text)?)
}

fn merge(runs: &[PathBuf], into: &Path) -> Outcome<()> {
    let mut all = read(into)?;
    runs.iter().try_for_each(|path| all.take(read(path)?).map_err(user))?;
    write(into, (serde_json::to_string_pretty(&all)? + "\n").as_bytes())
}

fn update(args: &MicroArgs) -> Outcome<()> {
    if let Some(path) = &args.update_table {
        write(Path::new(TABLE), update_table(&read(path)?).map_err(user)?.as_bytes())?;
    }
    let Some(path) = &args.update_docs else { return Ok(()) };
    let results = read(path)?;
    let old = fs::read_to_string(CHAPTER).map_err(|e| user(format!("reading {CHAPTER}: {e}")))?;
    write(Path::new(CHAPTER), update_chapter(&old, &results).map_err(user)?.as_bytes())?;
    fs::create_dir_all(PLOTS).map_err(|e| user(format!("{PLOTS}: {e}")))?;
    let drawn = plots(&results).map_err(user)?;
    drawn.iter().try_for_each(|(file, text)| write(&Path::new(PLOTS).join(file), text.as_bytes()))
}

fn save(cases: &[Case], ready: &Ready, folder: &Path) -> Outcome<()> {
    fs::create_dir_all(folder).map_err(|e| user(format!("{}: {e}", folder.display())))?;
    for case in cases {
        ready.save(case, folder)?;
    }
    println!("{} kernels in {}", cases.len(), folder.display());
    Ok(())
}

fn measure(cases: &[Case], ready: &Ready, args: &MicroArgs) -> Outcome<()> {
    let device = Device::open(args.gpu)?;
    let mut runner = Runner::new(&device)?;
    let mut results = Results::new(device.info());
    // A fault of a kernel takes the device from the process: what was measured before it is kept.
    let measured = cases.iter().try_for_each(|case| one(case, &mut runner, ready, &mut results));
    if let Some(path) = &args.json {
        write(path, (serde_json::to_string_pretty(&results)? + "\n").as_bytes())?;
    }
    measured
}

fn one(case: &Case, runner: &mut Runner, ready: &Ready, results: &mut Results) -> Outcome<()> {
    let is_whole = runner.measure(case, ready, results).map_err(|e| Failure::from(e).about(&case.name))?;
    if !is_whole {
        eprintln!("{}: left out, since {} was not measured", case.name, case.less.join(" or "));
    } else if let Some(figure) = results.figures.last() {
        println!("{:<56} {:>10.2} {}", figure.name, figure.value, figure.unit.name());
    }
    Ok(())
}
