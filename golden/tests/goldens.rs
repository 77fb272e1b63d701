//! PTX and SASS of every kernel of the library against golden files, and its estimated registers against the live maximum
//! of its SASS. `UPDATE_GOLDENFILES=1` rewrites them; what must never be stays refused (see `warplift_golden::check`).

use goldenfile::Mint;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::thread;
use warplift::explain::RegisterUse;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Op};
use warplift::kernels::LIBRARY;
use warplift::toolchain::{Fetch, PtxasOptions, Toolchain};
use warplift::{Options, compile};
use warplift_golden::check::{ACCEPTED, Evidence};
use warplift_golden::kernels::texts;
use warplift_golden::library::{VARIANTS, load};
use warplift_golden::sass::{RoleLive, live, summarize};

/// PTX, the summary of its SASS, and the registers of its roles.
struct Output {
    ptx: String,
    summary: String,
    registers: Vec<Estimate>,
    /// The same where the assembler may not use many more than that; `None` where it need not be held, or spills then.
    held: Option<Vec<Estimate>>,
}

/// The registers of a role.
struct Estimate {
    estimated: u32,
    budget: u32,
    live: RoleLive,
}

/// Registers by which an estimate may miss the live maximum.
const MISS: u32 = 8;

/// Kernels whose estimate misses it by more. `spills`: held to the estimate and [`MISS`] more, the assembler spills so many
/// bytes (measured by hand), so the estimate is too low. As they are compiled, none of them spills.
const FAR: &[(&str, &str)] = &[
    ("attention_causal", "below, spills 72: it hoists the columns of the mask out of the loop"),
    ("attention_causal_max_free", "below, spills 132: it hoists the columns of the masks out of the loops"),
    ("attention_max_free", "below, spills 96: it hoists the columns of the mask out of the loop"),
    ("compaction", "above: it makes the numbers of the scan from comparisons, without the masks between"),
    ("gather_rows", "above: loads of rows past the end"),
    ("gemm_mma_copies", "above: addresses of copies by threads"),
    ("gemm_stream_k", "below where it is held, without spills: it loads parts of the next chunk ahead"),
    ("gemm_tt_mma_copies", "above: addresses of copies by threads"),
    ("gemv", "above: it multiplies each load as it arrives"),
    ("layer_norm_ahead", "below, spills 136: it loads and converts ahead"),
    ("softmax_strips", "below, spills: it loads and converts ahead"),
    ("swiglu", "below, spills 1036: the epilogue's chunks are made beside each other"),
    ("transpose", "below, spills 24: it makes the addresses of many loads ahead"),
];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Names of the library's kernels, and of the variants of them.
fn names() -> Vec<String> {
    let variants = VARIANTS.iter().map(|v| v.name.to_owned());
    texts().expect("the library").into_keys().chain(variants).collect()
}

fn has_product(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(|_, i| found |= matches!(kernel.insts[i].op, Op::Mma { .. }));
    found
}

/// Compiles, assembles and disassembles a kernel; its violations if there are any.
fn build(name: &str, tools: &Toolchain) -> Built {
    let (kernel, mapping) = load(name);
    let options = Options { verify: true, ..Options::default() };
    let compiled = compile(&kernel, &mapping, &SM90A, &options).map_err(|e| e.to_string())?;
    let assembled = tools.ptxas(&compiled.ptx, &PtxasOptions::default()).map_err(|e| e.to_string())?;
    let listing = tools.disassemble(&assembled.cubin).map_err(|e| e.to_string())?;
    let sass = summarize(&listing).map_err(|e| e.to_string())?;
    let product = has_product(&kernel);
    let evidence = Evidence {
        kernel: name,
        product,
        ptx: &compiled.ptx,
        manifest: &compiled.manifest,
        assembled: &assembled,
        sass: &sass,
    };
    let violations = evidence.violations(ACCEPTED).iter().map(ToString::to_string).collect();
    let launch = format!("entry: {} registers, {} barriers\n", assembled.registers, assembled.barriers);
    let rows = tools.life_ranges(&assembled.cubin).map_err(|e| e.to_string())?;
    let lives = live(&listing, &rows).map_err(|e| e.to_string())?;
    let uses = &compiled.explained.registers;
    let registers: Vec<Estimate> = lives.into_iter().map(|l| estimate(uses, l)).collect();
    let more = registers.iter().any(|e| misses(e) && e.estimated < e.live.general);
    let held = if more { held(&compiled.ptx, &registers, tools)? } else { None };
    let held = held.map(|lives| lives.into_iter().map(|l| estimate(uses, l)).collect());
    Ok((Output { ptx: compiled.ptx, summary: format!("{launch}{sass}"), registers, held }, violations))
}

/// Whether an estimate is too far off. Producers are left out: they have many more registers than they need.
fn misses(e: &Estimate) -> bool {
    e.live.name != "producer" && e.estimated.abs_diff(e.live.general) > MISS
}

/// The live registers where the assembler is held to those that were estimated and [`MISS`] more; `None` where it spills
/// then. With more to spare it computes ahead.
fn held(ptx: &str, registers: &[Estimate], tools: &Toolchain) -> Result<Option<Vec<RoleLive>>, String> {
    let own = registers.iter().filter(|e| e.live.name != "producer");
    let limit = own.map(|e| e.estimated).max().unwrap_or(0) + MISS;
    let line = |line: &str| match line.split_once("setmaxnreg.inc.sync.aligned.u32 ") {
        // It takes multiples of 8.
        Some(_) => format!("setmaxnreg.inc.sync.aligned.u32 {};\n", limit.next_multiple_of(8)),
        None if line.starts_with(".minnctapersm") && !ptx.contains("setmaxnreg") => {
            format!(".maxnreg {limit}\n")
        }
        None => format!("{line}\n"),
    };
    let text: String = ptx.lines().map(line).collect();
    let assembled = tools.ptxas(&text, &PtxasOptions::default()).map_err(|e| e.to_string())?;
    if assembled.spills != (0, 0) {
        return Ok(None);
    }
    let listing = tools.disassemble(&assembled.cubin).map_err(|e| e.to_string())?;
    let rows = tools.life_ranges(&assembled.cubin).map_err(|e| e.to_string())?;
    live(&listing, &rows).map(Some).map_err(|e| e.to_string())
}

/// The estimate of a role of the code: that of the manifest's role of the same name, or the largest if roles share code.
fn estimate(uses: &[RegisterUse], live: RoleLive) -> Estimate {
    let own = uses.iter().filter(|u| live.name == "all" || u.role.starts_with(live.name));
    let most = own.max_by_key(|u| u.needed).unwrap_or_else(|| panic!("no role {}", live.name));
    Estimate { estimated: most.needed, budget: most.budget, live }
}

type Built = Result<(Output, Vec<String>), String>;

/// All kernels, built once for all tests: a job for each, as many at once as there are processors.
static BUILT: LazyLock<BTreeMap<String, Built>> = LazyLock::new(|| {
    let (names, done) = (names(), Mutex::new(BTreeMap::new()));
    let tools = Toolchain::find_or_install(None, Fetch::default()).expect("the tools");
    let queue = Mutex::new(names.iter());
    let next = || queue.lock().expect("no worker panics").next();
    let work = || {
        while let Some(name) = next() {
            let built = build(name, &tools);
            done.lock().expect("no worker panics").insert(name.clone(), built);
        }
    };
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(work))));
    done.into_inner().expect("no worker panics")
});

#[test]
fn every_kernel_compiles_and_nothing_in_it_must_not_be() {
    let variants = VARIANTS.iter().map(|v| v.name);
    let library: BTreeSet<&str> = LIBRARY.iter().map(|t| t.name).chain(variants).collect();
    assert!(BUILT.keys().map(String::as_str).eq(library.iter().copied()), "{:?}: {library:?}", BUILT.keys());
    let mut wrong = Vec::new();
    for (name, built) in BUILT.iter() {
        match built {
            Err(error) => wrong.push(format!("{name}: {error}")),
            Ok((_, violations)) => wrong.extend(violations.iter().map(|v| format!("{name}: {v}"))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Compares with the files `FOLDER/NAME.ending`, or writes them.
fn compare(folder: &str, ending: &str, text: fn(&Output) -> &str) {
    let mut mint = Mint::new(here(folder));
    for (name, built) in BUILT.iter() {
        let Ok((output, _)) = built else { continue };
        let mut file = mint.new_goldenfile(format!("{name}.{ending}")).expect("a golden file");
        file.write_all(text(output).as_bytes()).expect("writing");
    }
}

#[test]
fn ptx_is_what_the_golden_files_say() {
    compare("ptx", "ptx", |o| &o.ptx);
}

#[test]
fn sass_is_what_the_golden_files_say() {
    compare("sass", "txt", |o| &o.summary);
}

#[test]
fn estimates_are_what_the_golden_file_says() {
    let mut mint = Mint::new(here("."));
    let mut file = mint.new_goldenfile("registers.txt").expect("a golden file");
    writeln!(file, "kernel, role: estimated registers of its budget, live maximum of the SASS, uniform ones")
        .expect("writing");
    for (name, built) in BUILT.iter() {
        let Ok((output, _)) = built else { continue };
        for Estimate { estimated, budget, live } in &output.registers {
            let RoleLive { name: role, general, uniform, text } = live;
            writeln!(
                file,
                "{name} {role}: {estimated} of {budget}, live {general} at `{text}`, uniform {uniform}"
            )
            .expect("writing");
        }
    }
}

/// Where the assembler has registers to spare it computes ahead, and more are live than are needed. So where it uses more than
/// the estimate it is held to the estimate and [`MISS`] more, and the test asks whether it spills then. An estimate that is too
/// high is compared with the live maximum itself.
#[test]
fn estimates_are_near_the_live_maximum() {
    let is_far = |o: &Output| o.held.as_ref().unwrap_or(&o.registers).iter().any(misses);
    let far: Vec<&str> = BUILT
        .iter()
        .filter(|(_, built)| built.as_ref().is_ok_and(|(o, _)| is_far(o)))
        .map(|(name, _)| name.as_str())
        .collect();
    let known: Vec<&str> = FAR.iter().map(|(name, _)| *name).collect();
    assert_eq!(far, known, "kernels whose estimate is more than {MISS} registers off");
}

#[test]
fn every_golden_file_has_its_kernel() {
    let names = names();
    for folder in ["ptx", "sass"] {
        for file in std::fs::read_dir(here(folder)).expect("golden files") {
            let path = file.expect("an entry").path();
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            assert!(names.contains(&stem), "{} belongs to no kernel", path.display());
        }
    }
}
