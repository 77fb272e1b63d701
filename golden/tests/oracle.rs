//! Every kernel of the library, compiled and executed by the simulator exactly as emitted, against the
//! interpreter's reading of the same text: no hazard under any order, and the same numbers.

use std::collections::BTreeMap;
use std::path::Path;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Depth, Epilogue, Kernel, Mapping, parse_file};
use warplift::problem::{Array, Data, Problem};
use warplift::sim::{self, Adversary};
use warplift::{Options, compile};

/// Seeds and orders that every case runs under.
const ORDERS: [(u64, Adversary); 8] = [
    (1, Adversary::Earliest),
    (2, Adversary::Latest),
    (3, Adversary::Random),
    (4, Adversary::Random),
    (5, Adversary::Random),
    (6, Adversary::Random),
    (7, Adversary::Random),
    (8, Adversary::Latest),
];

/// Kernel, sizes, multiprocessors: small grids on which every role works, rings wrap, edges are ragged
/// and a persistent program takes more than one tile.
const CASES: &[(&str, &[(&str, i64)], u32)] = &[
    ("gemm", &[("m", 136), ("n", 264), ("k", 328)], 2),
    ("gemm", &[("m", 129), ("n", 264), ("k", 72)], 2),
    ("gemm_bf16", &[("m", 136), ("n", 264), ("k", 328)], 3),
    ("gemm_f32out", &[("m", 136), ("n", 264), ("k", 136)], 2),
    ("gemm_nn", &[("m", 136), ("n", 264), ("k", 328)], 2),
    ("gemm_tn", &[("m", 136), ("n", 264), ("k", 327)], 2),
    ("gemm_tt", &[("m", 136), ("n", 264), ("k", 328)], 2),
    ("gemm_any", &[("m", 65), ("n", 67), ("k", 69)], 2),
    ("gemm_any", &[("m", 1), ("n", 8), ("k", 0)], 2),
    ("gemm_dual", &[("m", 136), ("n", 136), ("k", 136)], 2),
    ("gemm_two_outputs", &[("m", 136), ("n", 136), ("k", 136)], 2),
    ("gemm_chain", &[("m", 136), ("n", 128), ("k", 136), ("p", 72)], 2),
    ("axpy", &[("n", 2001)], 2),
    ("row_max", &[("m", 33), ("n", 516)], 2),
    ("row_sum", &[("m", 33), ("n", 516)], 2),
];

fn load(name: &str) -> (Kernel, Mapping) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../driver/kernels/{name}.tile"));
    let text = std::fs::read_to_string(&path).expect("a kernel of the library");
    let module = parse_file(&text, name).expect("it parses");
    (module.kernels[0].clone(), module.mappings[0].clone())
}

fn sizes(list: &[(&str, i64)]) -> BTreeMap<String, i64> {
    list.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
}

/// Greatest difference of written arrays.
fn difference(a: &[Array], b: &[Array]) -> f64 {
    let pairs = a.iter().zip(b).filter(|(x, _)| x.written).flat_map(|(x, y)| x.values.iter().zip(&y.values));
    pairs.map(|(x, y)| if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() }).fold(
        0.0,
        |m, d| {
            if d.is_nan() { f64::INFINITY } else { f64::max(m, d) }
        },
    )
}

fn run_case(name: &str, size: &[(&str, i64)], sms: u32, orders: &[(u64, Adversary)]) {
    let (kernel, mapping) = load(name);
    let options = Options { verify: true, dump: Vec::new() };
    let compiled = compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let problem = Problem::new(&kernel, &sizes(size), Data::Small, 7).expect("a problem");
    let want = problem.interpret(&kernel).expect("the interpreter runs");
    for &(seed, order) in orders {
        let options = sim::Options { seed, order, ..sim::Options::default() };
        let run = problem.simulate(&compiled.ptx, &compiled.manifest, &options, sms);
        let (have, report) = run.unwrap_or_else(|e| panic!("{name} {size:?} seed {seed} {order:?}: {e}"));
        assert!(report.hazards.is_empty(), "{name} {size:?} seed {seed}: {:?}", report.hazards);
        let off = difference(&want, &have);
        assert_eq!(off, 0.0, "{name} {size:?} seed {seed} {order:?}: differs by {off}");
    }
}

#[test]
fn every_kernel_means_what_its_text_says() {
    let only = std::env::var("WARPLIFT_CASE").ok();
    for (name, size, sms) in CASES.iter().filter(|c| only.as_deref().is_none_or(|o| o == c.0)) {
        run_case(name, size, *sms, &ORDERS);
    }
}

/// Tile, warpgroups, epilogue, persistent, pipeline depth.
type Variant = ([i64; 3], u32, Epilogue, bool, Option<u32>);

const MAPPINGS: &[Variant] = &[
    ([128, 128, 64], 1, Epilogue::Direct, true, None),
    ([64, 256, 64], 1, Epilogue::Deferred, true, None),
    ([256, 128, 64], 2, Epilogue::Deferred, true, None),
    ([128, 192, 64], 2, Epilogue::Direct, true, Some(3)),
    ([256, 192, 64], 2, Epilogue::Direct, true, None),
    ([192, 128, 64], 3, Epilogue::Direct, true, None),
    ([128, 96, 32], 2, Epilogue::Deferred, true, None),
    ([128, 24, 64], 2, Epilogue::Direct, false, None),
    ([64, 64, 16], 1, Epilogue::Direct, false, Some(2)),
    ([128, 64, 128], 1, Epilogue::Direct, false, Some(1)),
    ([128, 256, 64], 2, Epilogue::Direct, false, None),
];

fn vary(mapping: &Mapping, (tile, consumers, epilogue, persistent, depth): &Variant) -> Mapping {
    let mut m = mapping.clone();
    for (t, value) in m.tunables.iter_mut().zip(tile) {
        t.1 = *value;
    }
    for l in &mut m.loops {
        l.1.consumers = Some(*consumers);
        l.1.pipeline = depth.map_or(Depth::Fit, Depth::Stages);
        l.1.wait = None;
    }
    m.whole.epilogue = *epilogue;
    m.whole.persistent = *persistent;
    m
}

#[test]
fn any_mapping_computes_the_same() {
    let mut computed = 0;
    for name in ["gemm", "gemm_tn", "gemm_nn"] {
        let (kernel, mapping) = load(name);
        let size = sizes(&[("m", 264), ("n", 272), ("k", 208)]);
        let problem = Problem::new(&kernel, &size, Data::Small, 11).expect("a problem");
        let want = problem.interpret(&kernel).expect("the interpreter runs");
        for variant in MAPPINGS {
            let mapping = vary(&mapping, variant);
            let options = Options { verify: true, dump: Vec::new() };
            let compiled = match compile(&kernel, &mapping, &SM90A, &options) {
                Ok(c) => c,
                // A transposed operand needs whole swizzle spans along N.
                Err(e) if name != "gemm" && e.to_string().contains("a multiple of") => continue,
                Err(e) => panic!("{name} {variant:?}: {e}"),
            };
            let run = problem.simulate(&compiled.ptx, &compiled.manifest, &sim::Options::default(), 3);
            let (have, _) = run.unwrap_or_else(|e| panic!("{name} {variant:?}: {e}"));
            assert_eq!(difference(&want, &have), 0.0, "{name} {variant:?}");
            computed += 1;
        }
    }
    assert!(computed > 2 * MAPPINGS.len(), "most mappings suit every storage order, {computed} did");
}
