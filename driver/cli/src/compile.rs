//! `compile` and `explain`.

use super::Tools;
use super::ablate::Forms;
use super::artifact::{Artifact, assembled, compile as make, compile_for, manifest_text, times, write};
use super::dump::{DumpArgs, state_after};
use super::failure::{Outcome, user};
use super::run::takes;
use super::source::{Choice, Source, SourceArgs, load, remarked};
use std::fs;
use std::path::{Path, PathBuf};
use warplift::ir::manifest::Manifest;
use warplift::ir::target::SM90A;
use warplift::ir::tile::Mapping;
use warplift::packing::kernel_text;
use warplift::predict::predict;
use warplift::problem::{Problem, Sizes};
use warplift::toolchain::PtxasOptions;
use warplift::{Compiled, Context, Options, kernels};
use warplift_lab::drawing::svg;

/// `compile FILE|NAME`.
#[derive(clap::Args)]
pub struct CompileArgs {
    /// A file of tile IR, or the name of a kernel of the library.
    #[arg(required_unless_present = "all")]
    source: Option<String>,
    #[command(flatten)]
    choice: Choice,
    /// File for the PTX; default: standard output, unless another output is requested.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// File for the launch manifest.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Assemble, and write the cubin to this file.
    #[arg(long, value_name = "FILE")]
    cubin: Option<PathBuf>,
    /// Print the text of the kernel that packs this argument for the mapping, instead of PTX.
    #[arg(long, value_name = "ARGUMENT", conflicts_with_all = ["save", "cubin", "manifest"])]
    packing: Option<String>,
    /// Write kernel, PTX, manifest and cubin into this folder, for `run --artifacts`.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Write also the kernel without each feature, for `bench --ablate`.
    #[arg(long, requires = "save", conflicts_with = "all")]
    ablate: bool,
    /// Name of the saved files; default: the kernel's.
    #[arg(long = "as", value_name = "NAME", requires = "save")]
    name: Option<String>,
    /// Compile the whole library; with --save.
    #[arg(long, requires = "save", conflicts_with = "source")]
    all: bool,
    #[command(flatten)]
    dump: DumpArgs,
    /// Print the state after this pass instead of PTX; `--start-after` reads it.
    #[arg(long, value_name = "PASS", conflicts_with_all = ["save", "cubin", "manifest", "packing"])]
    stop_after: Option<String>,
    /// The source is the state after this pass, as `--stop-after` and `--dump-dir` write it. Runs the later passes.
    #[arg(long, value_name = "PASS", conflicts_with_all = ["save", "all", "stop_after"])]
    start_after: Option<String>,
    /// Print the time of each pass to standard error.
    #[arg(long)]
    timings: bool,
    /// Run every level's verifier after its passes.
    #[arg(long)]
    verify: bool,
}

/// Runs `compile`.
///
/// # Errors
/// Mistakes in the text, refusals of the compiler or ptxas, files that cannot be written.
pub fn compile(args: &CompileArgs, tools: &Tools) -> Outcome<()> {
    if let (Some(folder), true) = (&args.save, args.all) {
        for text in kernels::LIBRARY {
            save(text.name, &args.choice, None, folder, tools)?;
        }
        return Ok(());
    }
    let source = args.source.as_deref().unwrap_or_default();
    if let (Some(folder), true) = (&args.save, args.ablate) {
        return save_forms(source, args, folder, tools);
    }
    if let Some(folder) = &args.save {
        return save(source, &args.choice, args.name.as_deref(), folder, tools);
    }
    compile_one(source, args, tools)
}

fn save(name: &str, choice: &Choice, saved_as: Option<&str>, folder: &Path, tools: &Tools) -> Outcome<()> {
    let mut artifact = Artifact::make(&load(name, choice)?, tools).map_err(|e| e.about(name))?;
    if let Some(name) = saved_as {
        name.clone_into(&mut artifact.name);
    }
    artifact.save(folder)?;
    println!("{}: {}", artifact.name, artifact.notes.last().map_or("", String::as_str));
    Ok(())
}

fn save_forms(source: &str, args: &CompileArgs, folder: &Path, tools: &Tools) -> Outcome<()> {
    let mut forms = Forms::make(load(source, &args.choice)?, tools)?;
    if let Some(name) = &args.name {
        forms.rename(name);
    }
    forms.save(folder)?;
    print!("{}", forms.lines());
    Ok(())
}

fn compile_one(source: &str, args: &CompileArgs, tools: &Tools) -> Outcome<()> {
    let options = Options { verify: args.verify, observer: args.dump.observer()?, ..Options::default() };
    if let Some(pass) = &args.start_after {
        return put(args, &resumed(source, pass, &options)?, tools);
    }
    let source = load(source, &args.choice)?;
    if let Some(pass) = &args.stop_after {
        return put_text(args.output.as_deref(), &state_after(&source, pass, &options)?);
    }
    let (_, compiled) = match args.cubin {
        Some(_) => compile_for(&source, &options, tools)?,
        None => make(&source, &options)?,
    };
    for remark in remarked(&source, &compiled.explained.lints) {
        eprintln!("{remark}");
    }
    put(args, &compiled, tools)
}

/// Resumes from the state after a pass.
fn resumed(file: &str, pass: &str, options: &Options) -> Outcome<Compiled> {
    let text = fs::read_to_string(file).map_err(|e| user(format!("reading {file}: {e}")))?;
    let resumed = Context::default().resume(&text, Some(pass), &SM90A, options);
    resumed.map_err(|e| user(format!("{file}: {e}")))
}

/// A text to a file, or to standard output.
fn put_text(output: Option<&Path>, text: &str) -> Outcome<()> {
    match output {
        Some(path) => write(path, text.as_bytes()),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// The requested outputs of a compiled kernel.
fn put(args: &CompileArgs, compiled: &Compiled, tools: &Tools) -> Outcome<()> {
    if args.timings {
        eprintln!("{}", times(&compiled.timings));
    }
    if let Some(argument) = &args.packing {
        return put_text(args.output.as_deref(), &packing_text(&compiled.manifest, argument)?);
    }
    if let Some(path) = &args.cubin {
        let made = tools.find()?.ptxas(&compiled.ptx, &PtxasOptions::default())?;
        eprintln!("{}", assembled(&made));
        write(path, &made.cubin)?;
    }
    if let Some(path) = &args.manifest {
        write(path, manifest_text(&compiled.manifest)?.as_bytes())?;
    }
    match (&args.output, &args.cubin, &args.manifest) {
        (None, Some(_), _) | (None, _, Some(_)) => Ok(()),
        (output, ..) => put_text(output.as_deref(), &compiled.ptx),
    }
}

/// The kernel that packs an argument.
fn packing_text(manifest: &Manifest, argument: &str) -> Outcome<String> {
    let found = manifest.arguments.iter().find(|a| a.name == argument);
    match found.and_then(|a| a.packing.as_ref()) {
        Some(packing) => kernel_text(packing).map_err(|e| user(e.to_string())),
        None => Err(user(format!("no argument `{argument}` of `{}` is packed", manifest.kernel))),
    }
}

/// `explain NAME`.
#[derive(clap::Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Sizes for predicted cycles, `m=128,n=256`; may be repeated. Default: a large problem.
    #[arg(long, value_name = "SIZES")]
    size: Vec<String>,
    /// Draw a steady iteration of each scheduled loop into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Predicted cycles for each of the sizes; a kernel that cannot be walked says why.
fn explain_time(source: &Source, mapping: &Mapping, sizes: Vec<Sizes>) -> Outcome<()> {
    let kernel = &source.kernel;
    let options = Options { disable: source.disable.clone(), ..Options::default() };
    let usual = || Problem::usual_sizes(kernel, mapping).into_iter().collect();
    for sizes in if sizes.is_empty() { usual() } else { sizes } {
        match predict(kernel, mapping, &SM90A, &sizes, &options) {
            Ok(prediction) => print!("{sizes}\n{prediction}"),
            Err(error) => println!("{sizes}: {error}"),
        }
    }
    Ok(())
}

/// Runs `explain`.
///
/// # Errors
/// Mistakes in the text, refusals of the compiler or ptxas.
pub fn explain(args: &ExplainArgs, tools: &Tools) -> Outcome<()> {
    let source = args.source.load()?;
    let nominal = Sizes::nominal(&source.kernel);
    let given = args.size.iter().map(|s| nominal.clone().overridden(&source.kernel, s));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let (mapping, compiled) = make(&source, &Options::default())?;
    for sizes in &given {
        takes(&source.kernel, &compiled.manifest, sizes)?;
    }
    println!("kernel `{}` from {}", source.kernel.name, source.text.file);
    println!("{mapping}");
    print!("{}", compiled.explained);
    if let Some(path) = &args.svg {
        write(path, svg(&compiled.explained.schedule.loops).map_err(user)?.as_bytes())?;
    }
    explain_time(&source, &mapping, given)?;
    println!("{}", times(&compiled.timings));
    match tools.find() {
        Ok(tools) => {
            let made = tools.ptxas(&compiled.ptx, &PtxasOptions::default())?;
            println!("ptxas {}: {}", tools.version, assembled(&made));
            let live = tools.life_ranges(&made.cubin);
            if let Some(most) = live.ok().and_then(|rows| rows.iter().map(|r| r.general).max()) {
                println!("most live registers: {most}");
            }
        }
        Err(failure) => println!("not assembled: {}", failure.message()),
    }
    Ok(())
}
