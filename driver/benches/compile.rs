//! Text to PTX: how long a compile takes, cold, on one core, verifiers off.
//!
//! `cargo bench --bench compile` prints each kernel's whole time, each pass of the GEMM, and a
//! compile that chooses its mapping. `-- --check` fails where a bar is broken: 5 ms for the GEMM,
//! 15 ms for any kernel.

use std::time::{Duration, Instant};
use warplift::ir::target::SM90A;
use warplift::kernels::{LIBRARY, find};
use warplift::pipeline::PASSES;
use warplift::{Options, compile, enumerate};

/// Milliseconds for the GEMM, and for any kernel of the library.
const BARS: [f64; 2] = [5.0, 15.0];

fn main() {
    if std::env::args().any(|a| a == "--check") {
        return check();
    }
    divan::main();
    passes("gemm");
}

/// Parses and compiles a text of the library under its own mapping; times of the passes.
fn text_to_ptx(name: &str) -> Option<Vec<(&'static str, Duration)>> {
    let module = find(name)?.parse().ok()?;
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
        let proposals = enumerate::mappings(kernel, &SM90A);
        enumerate::best(kernel, &proposals, &SM90A, &Options::default()).ok()
    });
}

/// Median of some compiles, in milliseconds.
fn median(name: &str) -> f64 {
    let mut times: Vec<f64> = (0..21)
        .map(|_| {
            let start = Instant::now();
            divan::black_box(text_to_ptx(name));
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
    for pass in PASSES {
        let time = |run: &Vec<(&str, Duration)>| run.iter().find(|t| t.0 == *pass).map(|t| t.1);
        let mut times: Vec<Duration> = runs.iter().filter_map(time).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        println!("  {pass:<10} {:.3} ms", median.as_secs_f64() * 1e3);
    }
}

fn check() {
    let mut failed = false;
    for name in names() {
        let (time, bar) = (median(name), BARS[usize::from(name != "gemm")]);
        failed |= time > bar;
        println!("{name:<24} {time:.2} ms, bar {bar} ms");
    }
    std::process::exit(failed.into());
}
