//! Attention as one text under other head dimensions, tiles, types and lengths, as emitted, in the simulator
//! against the interpreter: every trip count of the rotated loop, ragged ends, rows that see one key.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::sim::{self, Adversary};
use warplift::{Compiled, Options, compile};
use warplift_golden::library::reference;

const FULL: &str = include_str!("../../driver/kernels/attention.tile");
const CAUSAL: &str = include_str!("../../driver/kernels/attention_causal.tile");

/// Results are rounded to 16 bits, probabilities too.
const TOLERANCE: f64 = 2e-2;

fn parsed(text: &str, words: &[(&str, &str)]) -> (Kernel, Mapping) {
    let mut text = text.to_owned();
    for (from, to) in words {
        assert!(text.contains(from), "the text has no `{from}`");
        text = text.replace(from, to);
    }
    let module = parse_file(&text, "attention").unwrap_or_else(|e| panic!("{words:?}: {e:?}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

fn compiled((kernel, mapping): &(Kernel, Mapping)) -> Compiled {
    let options = Options { verify: true, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"))
}

fn check(case: &(Kernel, Mapping), sizes: &[(&str, i64)], orders: &[Adversary]) {
    let made = compiled(case);
    let problem = reference(&case.0, &case.1, sizes, 3);
    for &order in orders {
        let options = sim::Options { order, ..sim::Options::default() };
        let run = problem.simulate(&made.ptx, &made.manifest, &options, 2);
        let (have, report) = run.unwrap_or_else(|e| panic!("{sizes:?} {order:?}: {e}"));
        assert!(report.hazards.is_empty(), "{sizes:?} {order:?}: {:?}", report.hazards);
        assert_eq!(problem.difference_beyond(&have, TOLERANCE), None, "{sizes:?} {order:?}");
    }
}

fn full(queries: i64, keys: i64) -> [(&'static str, i64); 4] {
    [("batch", 1), ("heads", 1), ("queries", queries), ("keys", keys)]
}

#[test]
fn every_length() {
    let case = parsed(FULL, &[]);
    for (queries, keys) in [(1, 1), (63, 64), (64, 65), (65, 63), (128, 256), (130, 385)] {
        check(&case, &full(queries, keys), &[Adversary::Latest]);
    }
    check(&case, &full(129, 650), &[Adversary::Earliest, Adversary::Latest, Adversary::Random]);
}

#[test]
fn a_causal_row_sees_the_keys_before_it() {
    let case = parsed(CAUSAL, &[]);
    for length in [1, 64, 65, 129, 300] {
        check(&case, &[("batch", 1), ("heads", 1), ("length", length)], &[Adversary::Random]);
    }
}

#[test]
fn other_heads_tiles_and_types() {
    let tile = "BM = 128, BN = 128, D = 128\n    for";
    for words in [
        vec![(tile, "BM = 128, BN = 128, D = 64\n    for")],
        vec![(tile, "BM = 128, BN = 64, D = 128\n    for")],
        vec![(tile, "BM = 128, BN = 96, D = 64\n    for")],
        vec![(tile, "BM = 64, BN = 64, D = 192\n    for"), ("consumers 2", "consumers 1")],
        vec![("    kernel: persistent\n", "")],
        vec![("kernel: persistent", "kernel: cluster 2")],
        vec![("bf16", "f16")],
    ] {
        check(&parsed(FULL, &words), &full(150, 290), &[Adversary::Random]);
    }
}

#[test]
fn diagonals_that_cross_several_blocks() {
    let tile = "BM = 128, BN = 128, D = 128\n    for";
    for to in ["BM = 128, BN = 64, D = 64\n    for", "BM = 128, BN = 96, D = 64\n    for"] {
        let case = parsed(CAUSAL, &[(tile, to)]);
        check(&case, &[("batch", 1), ("heads", 1), ("length", 300)], &[Adversary::Random]);
    }
}

#[test]
fn softmax_overlaps_the_products_of_two_iterations() {
    for text in [FULL, CAUSAL] {
        let loops = compiled(&parsed(text, &[])).explained.schedule.loops;
        assert_eq!(loops.len(), 1);
        assert!(loops[0].pipelined, "the second product runs an iteration late");
        assert!(loops[0].interval >= loops[0].resource().max(loops[0].recurrence));
    }
}

/// Keys before `first` and behind `last` are masked by numbers that stand for minus infinity.
const MASKED: &str = "kernel masked(
    q: ptr<f16> align 16, k: ptr<f16> align 16, v: ptr<f16> align 16, o: ptr<f16> align 16,
    m: i32, n: i32, first: i32
) {
    grid cdiv(m, 64)
    gq = view q : f16[m, 64]
    gk = view k : f16[n, 64]
    gv = view v : f16[n, 64]
    go = view o : f16[m, 64]
    i = block_index
    tq = load gq[i*64, 0] : f16[64, 64]
    zero = full 0.0 : f32[64, 64]
    low = full LOW : f32[64]
    none = full 0.0 : f32[64]
    top, l, acc = for t in 0..cdiv(n, 64) carry m0 = low, l0 = none, x = zero {
        s = mma zero, tq, trans(load gk[t*64, 0] : f16[64, 64])
        column = (iota 1 : i32[64, 64]) + t*64
        r = select((column >= first) & (column < n), s * 0.125, MASK)
        top = max(m0, reduce_max(r, 1))
        p = exp(r - expand_dims(top, 1))
        a = exp(m0 - top)
        y = mma x * expand_dims(a, 1), cast(p, f16), load gv[t*64, 0] : f16[64, 64]
        yield top, l0 * a + reduce_sum(p, 1), y
    }
    store go[i*64, 0], cast(acc / expand_dims(l, 1), f16)
}
mapping masked {
    for t: pipeline fit, producers 1, consumers 1
}";

/// In rows without keys so far all scores are the mask's number, and their differences are zero.
#[test]
fn masks_may_be_finite_numbers() {
    for (low, mask) in [
        ("-inf", "-1.0e30"),
        ("-1.0e30", "-1.0e30"),
        ("-3.0e38", "-3.0e38"),
        ("-inf", "-1.0e9"),
        ("-1.0e30", "-inf"),
    ] {
        let case = parsed(MASKED, &[("LOW", low), ("MASK", mask)]);
        check(&case, &[("m", 64), ("n", 256), ("first", 130)], &[Adversary::Latest]);
    }
}

/// Each tile is masked by what it needs: by all conditions, one of them, or none.
#[test]
fn masks_of_several_conditions() {
    for condition in [
        "(column < first) | (column >= n - 70)",
        "(column <= row) & (column < n)",
        "column < min(max(row + 1, first), n)",
        "column - max(row, first) <= 0",
        "not((column >= first) & (column > row))",
        "(column <= row) & ((column < first) | (column + 20 >= row))",
    ] {
        let rows = format!("row = (iota 0 : i32[64, 64]) + i*64\n        r = select({condition},");
        let written = "r = select((column >= first) & (column < n),";
        let case = parsed(MASKED, &[("LOW", "-inf"), ("MASK", "-inf"), (written, &rows)]);
        check(&case, &[("m", 130), ("n", 300), ("first", 70)], &[Adversary::Latest]);
        check(&case, &[("m", 200), ("n", 200), ("first", 0)], &[Adversary::Random]);
    }
}
