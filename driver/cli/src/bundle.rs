//! `bundle`: one file of several mappings, with a table of the sizes that each serves.

use super::Tools;
use super::artifact::write;
use super::failure::{Outcome, user};
use super::progress::Bar;
use super::source::{Proposals, Source, load};
use super::tuning_file::usual_tunings;
use std::path::PathBuf;
use warplift::bundle::{Bundle, Code, Making, SizeClass};
use warplift::ir::tile::Mapping;
use warplift::toolchain::PtxasOptions;
use warplift::{Compiled, Options};

/// `bundle KERNEL --sizes .. -o FILE`, `bundle --show FILE`.
#[derive(clap::Args)]
pub struct BundleArgs {
    /// A file of tile IR, or the name of a kernel of the library.
    #[arg(required_unless_present = "show")]
    source: Option<String>,
    #[command(flatten)]
    proposals: Proposals,
    /// A class of sizes, `m=1..64,n=4096,k=14336`: every integer argument, of which one may have a range; may be repeated.
    #[arg(long, value_name = "CLASS", required_unless_present = "show")]
    sizes: Vec<String>,
    /// File for the bundle.
    #[arg(short, long, value_name = "FILE", required_unless_present = "show")]
    output: Option<PathBuf>,
    /// Store PTX, which the driver compiles, even where there is a ptxas.
    #[arg(long)]
    ptx: bool,
    /// Print what this bundle holds.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "kernel", "sizes", "output", "ptx"])]
    show: Option<PathBuf>,
}

/// Runs `bundle`.
///
/// # Errors
/// Mistakes in the text or the sizes, refusals of the compiler or ptxas, files that cannot be read or written.
pub fn bundle(args: &BundleArgs, tools: &Tools) -> Outcome<()> {
    if let Some(path) = &args.show {
        let bytes = std::fs::read(path).map_err(|e| user(format!("reading {}: {e}", path.display())))?;
        let bundle = Bundle::from_bytes(&bytes).map_err(|e| user(format!("{}: {e}", path.display())))?;
        print!("{bundle}");
        return Ok(());
    }
    let Source { kernel, grants, target, .. } =
        load(args.source.as_deref().unwrap_or_default(), &args.proposals.choice())?;
    let classes = args.sizes.iter().map(|text| SizeClass::parse(&kernel, text));
    let classes = classes.collect::<Result<Vec<_>, _>>().map_err(|e| user(e.to_string()))?;
    let found =
        if args.ptx { None } else { tools.find().map_err(|e| eprintln!("PTX: {}", e.message())).ok() };
    let code = |_: &Mapping, compiled: &Compiled| match found {
        Some(tools) => {
            let made = tools.ptxas(&compiled.ptx, &PtxasOptions::default()).map_err(|e| e.to_string())?;
            Ok(Code::Cubin(made.cubin))
        }
        None => Ok(Code::Ptx(compiled.ptx.clone())),
    };
    let is_slow = |compiled: &Compiled| {
        let made = found.map(|tools| tools.ptxas(&compiled.ptx, &PtxasOptions::default()));
        made.and_then(Result::ok).is_some_and(|made| made.passed_over().is_some())
    };
    let bar = Bar::new(0, "samples");
    let progress = &mut |done, all| bar.set(done as u64, all as u64);
    let making = Making { code: &code, is_slow: &is_slow, progress, tuned: usual_tunings(), grants };
    let made = Bundle::make(&kernel, &classes, target, &Options::default(), making);
    drop(bar);
    let made = made.map_err(|e| user(e.to_string()))?;
    if let Some(path) = &args.output {
        write(path, &made.to_bytes())?;
    }
    print!("{made}");
    Ok(())
}
