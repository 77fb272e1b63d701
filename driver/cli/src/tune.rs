//! `tune`: tries mappings for a class of sizes and keeps the best in a tuning file.
//!
//! ```text
//!  kernel, class ─► candidates by prediction ─► ptxas, in parallel ─► measured, where there is a GPU ─► tuning file
//!                       └── budget, Ctrl-C: what is known so far is taken ──┘                            table, picture
//! ```

use super::Tools;
use super::artifact::{Artifact, write};
use super::bench::times_of;
use super::failure::{Failure, Outcome, user};
use super::progress::Bar;
use super::run::{Machine, leave_if_stuck};
use super::source::{Proposals, Source, load};
use super::tuning_file::usual_file;
use rayon::prelude::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tabled::builder::Builder;
use tabled::settings::Style;
use warplift::Options;
use warplift::bundle::SizeClass;
use warplift::enumerate::{Candidate, Search, choose};
use warplift::problem::Sizes;
use warplift::toolchain::PtxasOptions;
use warplift::tuning::{Took, Tunings, one_line};
use warplift_lab::drawing::bars;

/// Times as many forms as a choice compiles.
const WIDER: usize = 3;
/// Candidates that are assembled and measured at most.
const MOST: usize = 16;

/// `tune KERNEL --size ..`.
#[derive(clap::Args)]
pub struct TuneArgs {
    /// A file of tile IR, or the name of a kernel of the library.
    source: String,
    #[command(flatten)]
    proposals: Proposals,
    /// A class of sizes, `m=1..8,n=4096,k=4096`, which is tuned at its greatest sizes; may be repeated.
    #[arg(long, value_name = "CLASS", required = true)]
    size: Vec<String>,
    /// Time for each class: `60s`, `5m`.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    budget: Duration,
    /// The tuning file; default: WARPLIFT_TUNING, else a file beside the cache.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Draw what was tried here.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Number of the GPU that measures, where there is one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Measure nothing.
    #[arg(long)]
    predict: bool,
}

/// Reads `90`, `90s` or `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, each) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let wrong = || format!("`{text}` is no time such as `60s` or `5m`");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(each).filter(|s| (1..=86400).contains(s)).map(Duration::from_secs).ok_or_else(wrong)
}

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Lets the first Ctrl-C end the search, and the second one the program.
fn listen() {
    let handler = on_interrupt as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler stores to an atomic, which is allowed in one; the structure is zero where nothing is said.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
    }
}

/// A candidate, and what became of it.
struct Tried {
    candidate: Candidate,
    /// Registers and spills, or why there is no code.
    assembled: Result<Option<String>, String>,
    took: Option<Took>,
}

/// Runs `tune`.
///
/// # Errors
/// Mistakes in the text or the sizes, no mapping that compiles, a tuning file that cannot be written.
pub fn tune(args: &TuneArgs, tools: &Tools) -> Outcome<()> {
    let source = load(&args.source, &args.proposals.choice())?;
    let classes = args.size.iter().map(|text| SizeClass::parse(&source.kernel, text));
    let classes = classes.collect::<Result<Vec<_>, _>>().map_err(|e| user(e.to_string()))?;
    let file = args.file.clone().or_else(usual_file);
    let file = file.ok_or_else(|| user("there is no place for a tuning file: --file names one"))?;
    Tunings::read(&file).map_err(|e| user(e.to_string()))?;
    let machine = if args.predict { None } else { Machine::open(args.device, None, tools)? };
    listen();
    let mut pictures = Vec::new();
    for class in &classes {
        if STOP.load(Ordering::Relaxed) {
            break;
        }
        let (tried, fault) = tune_class(&source, class, args, tools, machine.as_ref())?;
        record(&source, class, &tried, &file)?;
        println!("{class}\n{}", table(&tried));
        if let Some(fault) = fault {
            return Err(leave_if_stuck(fault).about("measuring ended; what is known is in the file"));
        }
        pictures.extend(tried.iter().filter_map(|t| Some((one_line(&t.candidate.mapping), number(t.took?)))));
    }
    if let Some(path) = &args.svg {
        write(path, bars(&args.source, &pictures).map_err(user)?.as_bytes())?;
    }
    Ok(())
}

/// The candidates of a class, the best first, and what ended measuring, if something did.
fn tune_class(
    source: &Source,
    class: &SizeClass,
    args: &TuneArgs,
    tools: &Tools,
    machine: Option<&Machine>,
) -> Outcome<(Vec<Tried>, Option<Failure>)> {
    let (start, sizes) = (Instant::now(), class.greatest());
    let bar = Bar::new(3, "candidates");
    let stop = Arc::new(AtomicBool::new(false));
    let mut grants = source.grants.clone();
    grants.tell(class.fixed());
    // Half of the time is for assembling and measuring.
    let search = Search {
        wider: WIDER,
        grants,
        time: Some(args.budget / 2),
        stop: Some(stop.clone()),
        ..Search::default()
    };
    let chosen = std::thread::scope(|s| {
        let choosing =
            s.spawn(|| choose(&source.kernel, &sizes, source.target, &Options::default(), &search));
        while !choosing.is_finished() {
            stop.fetch_or(STOP.load(Ordering::Relaxed), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(20));
        }
        choosing.join()
    });
    let chosen = chosen.map_err(|_| user("the search ended by a fault of the compiler"))?;
    let chosen = chosen.map_err(|e| user(e.to_string()))?;
    eprintln!("{chosen}");
    bar.step();
    let mut tried: Vec<Tried> = chosen
        .candidates()
        .take(MOST)
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|c| assembled(c, tools))
        .collect();
    bar.step();
    for one in tried.iter_mut().filter(|t| matches!(t.assembled, Ok(None))) {
        one.took = Some(Took::Predicted(one.candidate.cycles));
    }
    let measured = machine.map(|m| measure(source, &sizes, &mut tried, tools, m, start + args.budget));
    // Measured ones come first. Of the others, those that ptxas serializes or spills come behind.
    let rank = |t: &Tried| {
        (t.took.is_none(), matches!(t.took, Some(Took::Predicted(_))), t.took.map_or(0.0, number))
    };
    tried.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
    Ok((tried, measured.and_then(Result::err)))
}

fn number(took: Took) -> f64 {
    match took {
        Took::Measured(us) => us,
        Took::Predicted(cycles) => cycles,
    }
}

/// Assembles a candidate, where there is a ptxas and nobody asked to stop.
fn assembled(candidate: Candidate, tools: &Tools) -> Tried {
    let assembled = match tools.find() {
        Ok(found) if !STOP.load(Ordering::Relaxed) => found
            .ptxas(&candidate.compiled.ptx, &PtxasOptions::default())
            .map(|made| made.passed_over())
            .map_err(|e| e.to_string()),
        _ => Ok(None),
    };
    Tried { candidate, assembled, took: None }
}

/// Measures candidates, the best predictions first, until the time is over. A fault or a kernel that hangs takes the device
/// from the process: then the others keep their predictions.
fn measure(
    source: &Source,
    sizes: &Sizes,
    tried: &mut [Tried],
    tools: &Tools,
    machine: &Machine,
    end: Instant,
) -> Outcome<()> {
    for one in tried.iter_mut().filter(|t| t.assembled.is_ok()) {
        if Instant::now() >= end || STOP.load(Ordering::Relaxed) {
            break;
        }
        let (mapping, compiled) = (one.candidate.mapping.clone(), &one.candidate.compiled);
        let artifact = Artifact::of(source, mapping, compiled, tools);
        match artifact.and_then(|artifact| times_of(&artifact, sizes, machine)) {
            Ok(us) => one.took = Some(Took::Measured(us)),
            Err(failure) => {
                // Neither a wrong result nor what the device does not run is ever taken.
                (one.took, one.assembled) = (None, Err(failure.message()));
                if !matches!(&failure, Failure::Wrong(text) if !text.contains("deadlock")) {
                    return Err(failure);
                }
            }
        }
    }
    Ok(())
}

/// Puts the best candidate into the file.
fn record(source: &Source, class: &SizeClass, tried: &[Tried], file: &Path) -> Outcome<()> {
    let Some((best, took)) = tried.first().and_then(|t| Some((t, t.took?))) else {
        return Err(user(format!("{class}: nothing that ptxas takes as it is")));
    };
    let mut found = Tunings::default();
    found.add(&source.kernel, source.target, &class.to_string(), &best.candidate.mapping, took);
    found.write_into(file).map_err(|e| user(e.to_string()))
}

/// What was tried, the best first.
fn table(tried: &[Tried]) -> String {
    let mut table = Builder::default();
    table.push_record(["took", "predicted", "mapping"]);
    for one in tried {
        let took = match (&one.took, &one.assembled) {
            (Some(took), _) => took.to_string(),
            (None, Ok(why)) => why.clone().unwrap_or_default(),
            (None, Err(why)) => why.lines().next().unwrap_or_default().to_owned(),
        };
        let mut predicted = String::new();
        let _ = write!(predicted, "{:.0} cycles", one.candidate.cycles);
        table.push_record([took, predicted, one_line(&one.candidate.mapping)]);
    }
    table.build().with(Style::markdown()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_seconds_or_minutes() {
        assert_eq!(
            (duration("90"), duration("90s"), duration("2m")),
            (Ok(Duration::from_secs(90)), Ok(Duration::from_secs(90)), Ok(Duration::from_secs(120)))
        );
        for wrong in ["", "0", "x", "1h", "-1s", "99999999m"] {
            assert!(duration(wrong).unwrap_err().contains("no time"), "{wrong}");
        }
    }
}
