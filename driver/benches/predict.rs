//! How long a prediction takes beyond the compile it stands on: processor time of one core, so that what else runs on the
//! machine does not count (Linux; wall time elsewhere).
//!
//! `cargo bench --bench predict` prints every kernel of the library at its usual sizes. `-- --check` fails where a bar is
//! broken: 3 ms for kernels of the GEMM family, 50 ms for any.

use std::time::{Duration, Instant};
use warplift::ir::target::SM90A;
use warplift::kernels::{LIBRARY, Text};
use warplift::predict::{Prediction, compile_and_predict};
use warplift::problem::{Problem, Sizes};
use warplift::{Options, compile};

/// Milliseconds for products of matrices, and for any kernel.
const BARS: [f64; 2] = [3.0, 50.0];

fn main() {
    let check = std::env::args().any(|a| a == "--check");
    let mut broken = 0;
    for text in LIBRARY {
        let Some((time, prediction)) = predicted(text) else { continue };
        let bar = BARS[usize::from(!text.name.starts_with("gemm"))];
        let milliseconds = 1e3 * time.as_secs_f64();
        let late = milliseconds > bar;
        broken += usize::from(late);
        println!(
            "{:<28} {milliseconds:>7.2} ms {:>9.0} cycles, {} of {} blocks walked, {:.0}% of the first{}",
            text.name,
            prediction.cycles,
            prediction.walked,
            prediction.blocks,
            100.0 * prediction.part,
            if late { "  over the bar" } else { "" }
        );
    }
    assert!(!check || broken == 0, "{broken} predictions take longer than they may");
}

/// Compiles whose times are averaged.
const TIMES: u32 = 20;

/// The average beyond the compile.
fn predicted(text: &Text) -> Option<(Duration, Prediction)> {
    let module = text.parse().ok()?;
    let (kernel, mapping) = (module.kernel(text.name)?, module.mapping(text.name)?);
    let sizes: Sizes = Problem::usual_sizes(kernel, mapping)?;
    let options = Options::default();
    let (begin, mut prediction) = (Instant::now(), None);
    let start = processor_time(begin);
    for _ in 0..TIMES {
        compile(kernel, mapping, &SM90A, &options).ok()?;
    }
    let between = processor_time(begin);
    for _ in 0..TIMES {
        prediction = compile_and_predict(kernel, mapping, &SM90A, &sizes, &options).ok()?.1;
    }
    let both = processor_time(begin).saturating_sub(between);
    Some((both.saturating_sub(between.saturating_sub(start)) / TIMES, prediction?))
}

/// Time that this process has had on a processor, in steps of some milliseconds; without such a count, since `begin`.
fn processor_time(begin: Instant) -> Duration {
    let counts = std::fs::read_to_string("/proc/self/schedstat").ok();
    let taken = counts.and_then(|c| c.split_whitespace().next()?.parse().ok());
    taken.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}
