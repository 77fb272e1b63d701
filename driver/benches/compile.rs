//! Text to PTX: how long a compile takes, cold, on one core, verifiers off.
//!
//! `cargo bench --bench compile` prints each kernel's whole time, each pass of the GEMM, and a
//! compile that chooses its mapping. `-- --check` fails where a bar is broken: 5 ms for the GEMM,
//! 15 ms for any kernel, and for texts of a size what [`GROWN`] says.

mod generated;

use std::time::{Duration, Instant};
use warplift::enumerate::Grants;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Module, parse_file};
use warplift::kernels::{LIBRARY, find};
use warplift::passes::names as pass_names;
use warplift::{Options, compile, enumerate};

/// Milliseconds for the GEMM, and for any kernel of the library.
const BARS: [f64; 2] = [5.0, 15.0];

/// Name, text of a size, that size, and the bar in milliseconds.
type Grown = (&'static str, fn(usize) -> String, usize, f64);

/// Texts of a size, and milliseconds for each: what took time by the square or the cube of it must not again.
const GROWN: [Grown; 3] = [
    ("products", generated::products, 16, 15.0),
    ("products", generated::products, 32, 40.0),
    ("elementwise", generated::elementwise, 3000, 60.0),
];

fn main() {
    if std::env::args().any(|a| a == "--check") {
        return check();
    }
    divan::main();
    passes("gemm");
}

/// Parses and compiles a text of the library under its own mapping; times of the passes.
fn text_to_ptx(name: &str) -> Option<Vec<(&'static str, Duration)>> {
    own_mapping(&find(name)?.parse().ok()?, name)
}

fn own_mapping(module: &Module, name: &str) -> Option<Vec<(&'static str, Duration)>> {
    let (kernel, mapping) = (module.kernel(name)?, module.mapping(name)?);
    let compiled = compile(kernel, mapping, &SM90A, &Options::default()).ok()?;
    divan::black_box(&compiled.ptx);
    Some(compiled.timings)
}

fn names() -> impl Iterator<Item = &'static str> {
    LIBRARY.iter().map(|t| t.name).filter(|n| text_to_ptx(n).is_some())
}

#[divan::bench(args = names())]
fn kernel(bencher: divan::Bencher<'_, '_>, name: &str) {
    bencher.bench(|| text_to_ptx(name));
}

#[divan::bench]
fn gemm_auto(bencher: divan::Bencher<'_, '_>) {
    bencher.bench(|| {
        let module = find("gemm")?.parse().ok()?;
        let kernel = module.kernel("gemm")?;
        let proposals = enumerate::mappings(kernel, &SM90A, &Grants::packing(kernel));
        enumerate::best(kernel, &proposals, &SM90A, &Options::default()).ok()
    });
}

/// Parses and compiles a text of a size; whether it can be compiled.
fn grown(n: usize) -> bool {
    let (name, text, size, _) = GROWN[n];
    parse_file(&text(size), name).ok().and_then(|m| own_mapping(&m, name)).is_some()
}

#[divan::bench(args = 0..GROWN.len(), sample_count = 20)]
fn size(bencher: divan::Bencher<'_, '_>, n: usize) {
    bencher.bench(|| grown(n));
}

/// Median of some runs, in milliseconds.
fn median<T>(run: impl Fn() -> T) -> f64 {
    let mut times: Vec<f64> = (0..21)
        .map(|_| {
            let start = Instant::now();
            divan::black_box(run());
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Prints the median time of each pass; divan times whole functions.
fn passes(name: &str) {
    let runs: Vec<_> = (0..101).filter_map(|_| text_to_ptx(name)).collect();
    println!("passes of {name}, median of {} compiles", runs.len());
    for pass in pass_names() {
        let time = |run: &Vec<(&str, Duration)>| run.iter().find(|t| t.0 == pass).map(|t| t.1);
        let mut times: Vec<Duration> = runs.iter().filter_map(time).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        println!("  {pass:<24} {:.3} ms", median.as_secs_f64() * 1e3);
    }
}

fn check() {
    let mut failed = false;
    let mut tell = |name: &str, time: f64, bar: f64| {
        failed |= time > bar;
        println!("{name:<24} {time:.2} ms, bar {bar} ms");
    };
    for name in names() {
        tell(name, median(|| text_to_ptx(name)), BARS[usize::from(name != "gemm")]);
    }
    for (n, (name, _, size, bar)) in GROWN.iter().enumerate() {
        assert!(grown(n), "{size} {name} are refused");
        tell(&format!("{size} {name}"), median(|| grown(n)), *bar);
    }
    std::process::exit(failed.into());
}
