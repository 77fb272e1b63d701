//! `compile` and `explain`.

use super::Tools;
use super::ablate::Forms;
use super::artifact::{Artifact, assembled, compile as make, compile_for, manifest_text, times, write};
use super::dump::{DumpArgs, state_after};
use super::failure::{Outcome, user};
use super::run::takes;
use super::source::{Choice, SEED, Source, SourceArgs, load, remarked};
use std::fs;
use std::path::{Path, PathBuf};
use warplift::ir::manifest::Manifest;
use warplift::ir::target::Target;
use warplift::ir::tile::Mapping;
use warplift::packing::kernel_text;
use warplift::predict::{Arrays, Launch, Prediction, predict};
use warplift::problem::{Problem, Sizes};
use warplift::toolchain::PtxasOptions;
use warplift::{Compiled, Context, Options, kernels};
use warplift_lab::drawing::{svg, units};
use warplift_lab::validate::Given;

/// `compile FILE|NAME`.
#[derive(clap::Args)]
pub struct CompileArgs {
    /// A file of tile IR, or the name of a kernel of the library.
    #[arg(required_unless_present = "all")]
    source: Option<String>,
    #[command(flatten)]
    choice: Choice,
    /// Sizes for which `--mapping auto` chooses, `m=128,n=256`. Default: a large problem.
    #[arg(long, value_name = "SIZES", conflicts_with_all = ["all", "start_after"])]
    size: Option<String>,
    /// With `--mapping auto`: contents of an array for which it chooses, as for `run`; may be repeated.
    #[arg(long, value_name = "NAME=CONTENTS", requires = "size", conflicts_with_all = ["all", "start_after"])]
    data: Vec<String>,
    /// With `--mapping auto`: compile and predict everything legal. Takes long; for tests of the choice.
    #[arg(long)]
    exhaustive: bool,
    /// File for the PTX, or `-` for standard output; default: standard output, unless another output is requested.
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
    #[arg(long, requires = "save", conflicts_with_all = ["all", "output", "cubin", "manifest", "dump", "dump_dir", "timings", "verify"])]
    ablate: bool,
    /// Name of the saved files; default: the kernel's.
    #[arg(long = "as", value_name = "NAME", requires = "save")]
    name: Option<String>,
    /// Compile the whole library; with --save.
    #[arg(long, requires = "save", conflicts_with_all = ["source", "name", "output", "cubin", "manifest", "dump_dir"])]
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
    if args.all {
        let mut all = kernels::LIBRARY.iter();
        return all.try_for_each(|t| compile_one(t.name, args, tools).map_err(|e| e.about(t.name)));
    }
    let source = args.source.as_deref().unwrap_or_default();
    if let (Some(folder), true) = (&args.save, args.ablate) {
        return save_forms(source, args, folder, tools);
    }
    compile_one(source, args, tools)
}

/// Writes all files of a compiled kernel; returns its cubin, where it could be assembled.
fn save(
    source: &Source,
    (mapping, compiled): (Mapping, &Compiled),
    args: &CompileArgs,
    folder: &Path,
    tools: &Tools,
) -> Outcome<Option<Vec<u8>>> {
    let mut artifact = Artifact::of(source, mapping, compiled, tools)?;
    if let Some(name) = &args.name {
        name.clone_into(&mut artifact.name);
    }
    artifact.save(folder)?;
    println!("{}: {}", artifact.name, artifact.notes.last().map_or("", String::as_str));
    Ok(artifact.cubin)
}

fn save_forms(source: &str, args: &CompileArgs, folder: &Path, tools: &Tools) -> Outcome<()> {
    let mut forms = Forms::make(sized(load(source, &args.choice)?, args)?, tools)?;
    if let Some(name) = &args.name {
        forms.rename(name);
    }
    forms.save(folder)?;
    print!("{}", forms.lines());
    Ok(())
}

/// The source with what the options say about the choice of its mapping.
fn sized(source: Source, args: &CompileArgs) -> Outcome<Source> {
    let nominal = || Sizes::nominal(&source.assumed());
    let sizes = args.size.as_ref().map(|text| nominal().overridden(&source.kernel, text)).transpose()?;
    if let (Some(_), true) = (&source.mapping, sizes.is_some() || args.exhaustive) {
        let option = if args.exhaustive { "--exhaustive" } else { "--size" };
        return Err(user(format!("{option} is for `--mapping auto`: the mapping is {}", source.origin)));
    }
    let data = Given::parse(args.data.iter().map(String::as_str))?;
    Ok(Source { data, exhaustive: args.exhaustive, ..source }.launched(sizes.as_slice()))
}

fn compile_one(source: &str, args: &CompileArgs, tools: &Tools) -> Outcome<()> {
    let options = Options { verify: args.verify, observer: args.dump.observer()?, ..Options::default() };
    if let Some(pass) = &args.start_after {
        return put(args, &resumed(source, (pass, args.choice.chip.target()), &options)?, None, tools);
    }
    let source = sized(load(source, &args.choice)?, args)?;
    if let Some(pass) = &args.stop_after {
        return put_text(args.output.as_deref(), &state_after(&source, pass, &options)?);
    }
    let (mapping, compiled) = match args.cubin.is_some() || args.save.is_some() {
        true => compile_for(&source, &options, tools)?,
        false => make(&source, &options)?,
    };
    for remark in remarked(&source, &compiled.explained.lints) {
        eprintln!("{remark}");
    }
    let cubin = match &args.save {
        Some(folder) => save(&source, (mapping, &compiled), args, folder, tools)?,
        None => None,
    };
    put(args, &compiled, cubin, tools)
}

/// Resumes from the state after a pass.
fn resumed(file: &str, (pass, target): (&str, &Target), options: &Options) -> Outcome<Compiled> {
    let text = fs::read_to_string(file).map_err(|e| user(format!("reading {file}: {e}")))?;
    let resumed = Context::default().resume(&text, Some(pass), target, options);
    resumed.map_err(|e| user(format!("{file}: {e}")))
}

/// A text to a file, or to standard output: for `-`, and without a file.
fn put_text(output: Option<&Path>, text: &str) -> Outcome<()> {
    match output.filter(|path| *path != Path::new("-")) {
        Some(path) => write(path, text.as_bytes()),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// What was asked for of a compiled kernel, whose cubin may be there already.
fn put(args: &CompileArgs, compiled: &Compiled, cubin: Option<Vec<u8>>, tools: &Tools) -> Outcome<()> {
    if args.timings {
        eprintln!("{}", times(&compiled.timings));
    }
    if let Some(argument) = &args.packing {
        return put_text(args.output.as_deref(), &packing_text(&compiled.manifest, argument)?);
    }
    if let Some(path) = &args.cubin {
        let cubin = match cubin {
            Some(cubin) => cubin,
            None => {
                let made = tools.find()?.ptxas(&compiled.ptx, &PtxasOptions::default())?;
                eprintln!("{}", assembled(&made));
                made.cubin
            }
        };
        write(path, &cubin)?;
    }
    if let Some(path) = &args.manifest {
        write(path, manifest_text(&compiled.manifest)?.as_bytes())?;
    }
    let elsewhere = args.cubin.is_some() || args.manifest.is_some() || args.save.is_some();
    match &args.output {
        None if elsewhere => Ok(()),
        output => put_text(output.as_deref(), &compiled.ptx),
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
    /// Contents of an array that the prediction follows, as for `run`; may be repeated.
    #[arg(long, value_name = "NAME=CONTENTS")]
    data: Vec<String>,
    /// Draw a steady iteration of each scheduled loop here; without one, how busy each unit is predicted to be.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Prints the predicted cycles for each of the sizes and returns the first prediction; a kernel that cannot be walked
/// says why.
fn explain_time(
    source: &Source,
    mapping: &Mapping,
    sizes: Vec<Sizes>,
    given: &Given,
) -> Outcome<Option<Prediction>> {
    let kernel = &source.kernel;
    let options = Options { disable: source.disable.clone(), ..Options::default() };
    let usual = || Problem::usual_sizes(kernel, mapping).into_iter().collect();
    let mut first = None;
    for sizes in if sizes.is_empty() { usual() } else { sizes } {
        // Sizes that make no problem have no arrays; the prediction says what is wrong with them.
        let problem = Problem::new(kernel, mapping, sizes.clone());
        let arrays = problem.map_or(Ok(Arrays::new()), |p| given.arrays(&p.operands, SEED))?;
        match predict(kernel, mapping, source.target, Launch { sizes: &sizes, arrays: &arrays }, &options) {
            Ok(prediction) => {
                print!("{sizes}\n{prediction}");
                first.get_or_insert(prediction);
            }
            Err(error) => println!("{sizes}: {error}"),
        }
    }
    Ok(first)
}

/// Runs `explain`.
///
/// # Errors
/// Mistakes in the text, refusals of the compiler or ptxas.
pub fn explain(args: &ExplainArgs, tools: &Tools) -> Outcome<()> {
    let source = args.source.load()?;
    let nominal = Sizes::nominal(&source.assumed());
    let given = args.size.iter().map(|s| nominal.clone().overridden(&source.kernel, s));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let data = Given::parse(args.data.iter().map(String::as_str))?;
    let source = Source { data, ..source }.launched(&given);
    let (mapping, compiled) = compile_for(&source, &Options::default(), tools)?;
    for sizes in &given {
        takes(&source.kernel, &compiled.manifest, sizes)?;
        // What memory says of extents is no mistake: the prediction tells what is missing.
        Problem::open(&source.kernel, &mapping, sizes.clone()).map_err(|e| user(format!("{sizes}: {e}")))?;
    }
    println!("kernel `{}` from {}", source.kernel.name, source.text.file);
    println!("{mapping}");
    print!("{}", compiled.explained);
    let predicted = explain_time(&source, &mapping, given, &source.data)?;
    if let Some(path) = &args.svg {
        let loops = &compiled.explained.schedule.loops;
        let drawn = if loops.is_empty() { units(predicted.as_ref()) } else { svg(loops) };
        write(path, drawn.map_err(user)?.as_bytes())?;
    }
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
