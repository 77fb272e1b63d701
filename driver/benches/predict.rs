//! How long a prediction takes beyond the compile it stands on, on one core.
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

/// The least of five.
fn predicted(text: &Text) -> Option<(Duration, Prediction)> {
    let module = text.parse().ok()?;
    let (kernel, mapping) = (module.kernel(text.name)?, module.mapping(text.name)?);
    let sizes: Sizes = Problem::usual_sizes(kernel, mapping)?;
    let options = Options::default();
    let mut best = [Duration::MAX; 2];
    let mut prediction = None;
    for _ in 0..5 {
        let start = Instant::now();
        compile(kernel, mapping, &SM90A, &options).ok()?;
        best[0] = best[0].min(start.elapsed());
        let start = Instant::now();
        prediction = compile_and_predict(kernel, mapping, &SM90A, &sizes, &options).ok()?.1;
        best[1] = best[1].min(start.elapsed());
    }
    Some((best[1].saturating_sub(best[0]), prediction?))
}
