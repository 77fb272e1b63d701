//! `sim`: runs PTX in the simulator.

use super::artifact::{Artifact, compile, read_manifest};
use super::failure::{Failure, Outcome, user};
use super::progress::Watch;
use super::run::{SIM_MULTIPROCESSORS, accepted, hazards, try_sizes};
use super::source::{Choice, Source, load};
use std::fs;
use std::path::{Path, PathBuf};
use warplift::Feature;
use warplift::ir::manifest::Manifest;
use warplift::ir::tile::Mapping;
use warplift_lab::validate::{Given, SimExecutor, Sizes};
use warplift_sim::{Adversary, Hazards, Options};

/// `sim FILE.ptx --manifest FILE.json`, `sim NAME`.
#[derive(clap::Args)]
pub struct SimArgs {
    /// PTX text with --manifest; else a file of tile IR or the name of a kernel of the library, which is
    /// compiled.
    #[arg(value_name = "FILE|NAME")]
    ptx: String,
    /// Launch manifest of the PTX.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Disable an optimization; several separated by commas, or repeated.
    #[arg(long, value_name = "FEATURE", value_delimiter = ',', conflicts_with = "manifest")]
    disable: Vec<Feature>,
    /// What the PTX should compute: a file of tile IR or the name of a kernel of the library;
    /// default: the manifest's kernel in the library.
    #[arg(long, value_name = "FILE|NAME", requires = "manifest")]
    kernel: Option<String>,
    /// Contents of an array, as for `run`; may be repeated.
    #[arg(long, value_name = "NAME=CONTENTS")]
    data: Vec<String>,
    /// Sizes, `m=128,n=256` or in order `128x256x64`.
    #[arg(long, value_name = "SIZES")]
    size: Option<String>,
    /// Number of runs in random order, besides the earliest and the latest order.
    #[arg(long, default_value_t = 3, value_name = "N")]
    seeds: u64,
    /// Seed of the first random run and of the data.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Hazards: `deny` stops with status 1; `warn` only reports.
    #[arg(long, default_value = "deny", value_name = "deny|warn", value_parser = hazards)]
    hazards: Hazards,
    /// Multiprocessors of the imagined device.
    #[arg(long, default_value_t = SIM_MULTIPROCESSORS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    multiprocessors: u32,
}

/// Runs `sim`.
///
/// # Errors
/// Files that cannot be read, hazards, a wrong result.
pub fn sim(args: &SimArgs) -> Outcome<()> {
    let given = Given::parse(args.data.iter().map(String::as_str))?;
    let (artifact, ptx) = simulated(args)?;
    let manifest = &artifact.manifest;
    let small = Sizes::small(&artifact.kernel.assuming(&artifact.mapping));
    let sizes = match &args.size {
        Some(text) => small.overridden(&artifact.kernel, text)?,
        None => small,
    };
    accepted(&artifact, &sizes)?;
    let random = (0..args.seeds).map(|i| args.seed.wrapping_add(i)).map(|seed| (Adversary::Random, seed));
    let next = args.seed.wrapping_add(1);
    let fixed = [
        (Adversary::Earliest, args.seed),
        (Adversary::Latest, args.seed),
        (Adversary::Classes, args.seed),
        (Adversary::Classes, next),
    ];
    for (order, seed) in fixed.into_iter().chain(random) {
        let options = Options { order, seed, hazards: args.hazards, ..Options::default() };
        let executor = SimExecutor::new(ptx.clone(), manifest.clone(), options, args.multiprocessors);
        let executor = executor.observed(Box::new(Watch::new("blocks")));
        for (passed, line) in try_sizes(&artifact, &sizes, &given, &executor, None, seed)? {
            println!("{sizes}, order {order:?} {seed}: {}", line.replace('\n', "\n  "));
            if !passed {
                return Err(Failure::Wrong(format!("{} {sizes}", artifact.name)));
            }
        }
    }
    Ok(())
}

/// The simulated PTX: the given one, or that of a compiled kernel.
fn simulated(args: &SimArgs) -> Outcome<(Artifact, String)> {
    let read =
        |path: &Path| fs::read_to_string(path).map_err(|e| user(format!("reading {}: {e}", path.display())));
    let choice = Choice { disable: args.disable.clone(), ..Choice::default() };
    let Some(manifest) = &args.manifest else {
        if args.ptx.ends_with(".ptx") {
            return Err(user(format!("{} needs its launch manifest: --manifest FILE", args.ptx)));
        }
        let source = load(&args.ptx, &choice)?;
        let (mapping, compiled) = compile(&source, &warplift::Options::default())?;
        return Ok((artifact(source, mapping, compiled.manifest), compiled.ptx));
    };
    let ptx = read(Path::new(&args.ptx))?;
    let manifest = read_manifest(manifest)?;
    let source = load(args.kernel.as_deref().unwrap_or(&manifest.kernel), &choice)?;
    let mapping = source.mapping.clone().unwrap_or_default();
    Ok((artifact(source, mapping, manifest), ptx))
}

fn artifact(source: Source, mapping: Mapping, manifest: Manifest) -> Artifact {
    let meaning = source.meaning().unwrap_or_else(|| mapping.clone());
    let (name, kernel) = (manifest.kernel.clone(), source.kernel);
    Artifact { name, kernel, mapping, meaning, manifest, ptx: None, cubin: None, notes: Vec::new() }
}
