//! Predictions beside what was measured: the errors may not grow.

use warplift::Options;
use warplift::ir::target::SM90A;
use warplift::kernels::find;
use warplift::predict::predict;
use warplift::problem::Sizes;
use warplift_lab::bench::micro::{cases, update_chapter};
use warplift_lab::bench::predicted::predictions;

/// The median of all figures today, as a part of the measurement, and the largest error. They only sink: rates change by a
/// measurement, never for a bar.
const MEDIAN: f64 = 0.0475;
const WORST: f64 = 0.248;

/// Cycles that a launch of these is predicted to take, without the launch itself: they move only with a reason in the lab
/// book.
const PINNED: &[(&str, &str, f64)] = &[
    ("gemm", "m=4096,n=4096,k=4096", 267_303.0),
    ("gemm_e4m3", "m=4096,n=4096,k=4096", 136_231.0),
    ("a16w4", "m=16,n=57344,k=8192", 105_115.0),
    ("attention", "batch=1,heads=16,queries=16384,keys=16384", 5_070_649.0),
];

#[test]
fn pinned_predictions_stay_where_they_are() {
    for &(name, sizes, cycles) in PINNED {
        let module = find(name).unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let sizes = Sizes::parse(kernel, sizes).unwrap();
        let predicted = predict(kernel, mapping, &SM90A, &sizes, &Options::default()).unwrap();
        let ratio = (predicted.cycles - SM90A.estimates.start_cycles) / cycles;
        assert!((0.98..=1.02).contains(&ratio), "{name}: {ratio:.3} {predicted}");
        assert!(predicted.cycles >= predicted.floor.cycles, "{name}: {predicted}");
    }
}

/// Cycles of a multiprocessor for a product and what each thread executes beside it, of docs/microbenchmarks.md.
const BESIDE: &[(&str, f64)] = &[
    ("turns.f16.rs.n8.beside.prmt.b32.16", 35.3),
    ("turns.f16.rs.n16.beside.ex2.approx.ftz.f32.8", 67.0),
    ("turns.f16.rs.n32.beside.prmt.b32.16", 41.1),
    ("turns.f16.rs.n64.beside.fma.f32.32", 53.2),
    ("turns.f16.rs.n128.beside.prmt.b32.32", 97.2),
    ("turns.f16.ss.n16.beside.prmt.b32.4", 20.0),
    ("turns.f16.ss.n64.beside.prmt.b32.16", 48.4),
    ("turns.f16.ss.n128.beside.fma.f32.64", 100.3),
    ("turns.f16.ss.n256.beside.prmt.b32.32", 128.0),
];

/// Alone these instructions take up to 128 cycles and the products up to 128: the sum is seldom right, and the larger is not.
#[test]
fn threads_wait_for_registers_that_products_move() {
    let cases = cases();
    for &(name, measured) in BESIDE {
        let case = cases.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("{name}"));
        let ratio = case.predicted().unwrap() / measured;
        assert!((0.88..=1.12).contains(&ratio), "{name}: {ratio:.3}");
    }
}

#[test]
fn predictions_are_near_what_was_measured() {
    let table = predictions().unwrap();
    println!("{table}");
    for r in table.rows().iter().filter(|r| r.elsewhere) {
        println!("{} {}: {:?} {} {:.1} {:.3}", r.kernel, r.sizes, r.kind, r.measured, r.predicted, r.ratio());
    }
    assert!(table.rows().len() >= 420, "every line is a row");
    assert!(table.median() <= MEDIAN, "median {}", table.median());
    let worst = table.worst().unwrap();
    assert!(worst.error() <= WORST, "{worst:?}");
    page_says(&table.to_string());
    page_shows_figures();
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/microbenchmarks.md");

fn blesses() -> bool {
    std::env::var_os("WARPLIFT_BLESS").is_some()
}

/// The page of microbenchmarks shows what was measured, and what the model predicts for the measuring kernels.
fn page_shows_figures() {
    let figures = include_str!("../../../docs/microbenchmarks/h200.json");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let new = update_chapter(&page, &serde_json::from_str(figures).unwrap()).unwrap();
    if blesses() {
        return std::fs::write(PAGE, new).unwrap();
    }
    assert!(new == page, "docs/microbenchmarks.md shows other figures; WARPLIFT_BLESS=1 writes them");
}

/// The page of microbenchmarks shows the table; `WARPLIFT_BLESS=1` writes it there.
fn page_says(table: &str) {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) =
        page.split_once("<!-- predicted -->\n\n").expect("the page has a place for the table");
    let (shown, after) = rest.split_once("\n<!-- end -->").unwrap();
    if blesses() {
        let page = format!("{before}<!-- predicted -->\n\n{table}\n<!-- end -->{after}");
        return std::fs::write(PAGE, page).unwrap();
    }
    assert!(shown == table, "docs/microbenchmarks.md shows other predictions; WARPLIFT_BLESS=1 writes them");
}
