//! Whatever mapping is chosen, a kernel computes what its own text says, with the text's values of the tunables.

use warplift::enumerate::{Grants, mappings};
use warplift::ir::interp::Options;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::kernels::find;
use warplift::problem::Problem;
use warplift_lab::validate::{Sizes, Style, Validation};

/// Kernels of the library, sizes with ragged edges, and how far sums in another order may be off.
const CASES: &[(&str, &str, f64)] = &[
    ("gemm", "72x136x136", 0.0),
    ("gemm_dual", "72x136x136", 0.0),
    ("gemm_split_k", "72x136x264", 0.0),
    ("a16w4", "24x136x256", 0.0),
    ("a16w4_large", "72x136x256", 0.0),
    ("attention", "batch=1,heads=2,queries=72,keys=150", 0.02),
    ("attention_causal", "batch=1,heads=2,length=200", 0.02),
    ("row_max", "40x300", 0.0),
    ("cumsum", "10x1200", 0.0),
    ("gemv", "20x2000", 0.0),
    ("softmax_long", "3x9000", 0.01),
    ("layer_norm_warp_specialized", "3x9000", 0.02),
    ("axpy", "n=3000", 0.0),
    ("transpose", "136x200", 0.0),
];

/// Values of tunables that are proposed, each set once.
fn proposed(kernel: &Kernel) -> Vec<Vec<(String, i64)>> {
    let mut all: Vec<Vec<(String, i64)>> =
        mappings(kernel, &SM90A, &Grants::packing(kernel)).into_iter().map(|m| m.tunables).collect();
    all.sort();
    all.dedup();
    all
}

/// Runs the text's own values and every proposed set in the interpreter.
fn computes_the_same(kernel: &Kernel, sizes: &str, tolerance: f64) {
    let sizes = Sizes::parse(kernel, sizes).expect("sizes");
    let own = Validation::new(kernel, &Mapping::default(), sizes.clone()).expect("a trial");
    let style = if tolerance > 0.0 { Style::Normal } else { Style::Integers };
    let own = own.reference(style, 3).expect("a reference");
    for tunables in proposed(kernel) {
        let mapping = Mapping { tunables, ..Mapping::default() };
        let other = Problem::new(kernel, &mapping, sizes.clone()).expect("possible values");
        let found = own.interpret(&other.resolved, &Options::default()).expect("a run");
        let off = own.difference_beyond(&found, tolerance);
        assert!(off.is_none(), "{} {:?}: {}", kernel.name, mapping.tunables, off.unwrap());
    }
}

#[test]
fn proposals_compute_what_the_text_says() {
    for (name, sizes, tolerance) in CASES {
        let kernel = find(name).unwrap().parse().unwrap().kernels.remove(0);
        computes_the_same(&kernel, sizes, *tolerance);
    }
}

/// Counts of 16 experts in one tile, and blocks of 128 columns that have one scale.
const FIXED: &str = "
kernel counts(x: ptr<i32>, y: ptr<i32>, n: i32, experts: i32 in 1..=16) {
    tunable E = 16, B = 64
    grid cdiv(n, B)
    gx = view x : i32[n] fill -1.0
    gy = view y : i32[experts]
    i = block_index
    t = expand_dims(load gx[i*B] : i32[B], 1)
    expert = broadcast(iota 0 : i32[E]) : i32[B, E]
    atomic_add gy[0], reduce_sum(select((broadcast(t) : i32[B, E]) == expert, 1, 0), 0)
}
kernel scaled(a: ptr<f16>, b: ptr<f16>, s: ptr<f32>, c: ptr<f32>, m: i32, n: i32 % 8, k: i32 % 8) {
    tunable BM = 128, BN = 128, BK = 64
    grid cdiv(m, BM), cdiv(n, BN)
    ga = view a : f16[m, k]
    gb = view b : f16[n, k]
    gs = view s : f32[m, cdiv(n, 128)]
    gc = view c : f32[m, n]
    i, j = block_index
    zero = full 0.0 : f32[BM, BN]
    acc = for t in 0..cdiv(k, BK) carry x = zero {
        ta = load ga[i*BM, t*BK] : f16[BM, BK]
        tb = load gb[j*BN, t*BK] : f16[BN, BK]
        y = mma x, cast(cast(ta, f32) * 2.0, f16), trans(tb)
        yield y
    }
    scale = load gs[i*BM, j] : f32[BM, 1]
    store gc[i*BM, j*BN], acc * scale
}
kernel squares(a: ptr<f16> align 16, c: ptr<f16> align 16, m: i32 % 8, k: i32 % 8) {
    tunable BM in {64, 128, 192, 256} = 128, BK = 64
    grid cdiv(m, BM), cdiv(m, BM)
    ga = view a : f16[m, k]
    gc = view c : f16[m, m]
    i, j = block_index
    zero = full 0.0 : f32[BM, BM]
    acc = for t in 0..cdiv(k, BK) carry x = zero {
        ta = load ga[i*BM, t*BK] : f16[BM, BK]
        tb = load ga[j*BM, t*BK] : f16[BM, BK]
        y = mma x, ta, trans(tb)
        yield y
    }
    store gc[i*BM, j*BM], cast(acc, f16)
}
kernel ruled(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8) {
    const GROUP = 128
    tunable BM in {64, 128} = 128, BN in 16..=256 step 16 = 128, BK in {32, 64} = 64
    assert GROUP % BN == 0
    assert BM >= BN
    grid cdiv(m, BM), cdiv(n, BN)
    ga = view a : f16[m, k]
    gb = view b : f16[n, k]
    gc = view c : f16[m, n]
    i, j = block_index
    zero = full 0.0 : f32[BM, BN]
    acc = for t in 0..cdiv(k, BK) carry x = zero {
        y = mma x, load ga[i*BM, t*BK] : f16[BM, BK], trans(load gb[j*BN, t*BK] : f16[BN, BK])
        yield y
    }
    store gc[i*BM, j*BN], cast(acc, f16)
}
";

#[test]
fn what_says_what_is_computed_is_not_chosen() {
    let module = parse_file(FIXED, "fixed.tile").unwrap_or_else(|e| panic!("{e}"));
    for (name, sizes, fixed) in [
        ("counts", "n=500,experts=16", &["E"][..]),
        ("scaled", "72x264x72", &["BN"]),
        ("squares", "200x72", &[]),
        ("ruled", "72x264x72", &[]),
    ] {
        let kernel = module.kernel(name).unwrap();
        computes_the_same(kernel, sizes, 0.0);
        let all = mappings(kernel, &SM90A, &Grants::packing(kernel));
        assert!(!all.is_empty(), "{name}");
        for m in &all {
            assert!(m.tunables.iter().all(|(name, _)| !fixed.contains(&name.as_str())), "{m}");
            let text = m.to_string();
            assert!(parse_file(&text, "").is_ok(), "a name twice:\n{text}");
        }
    }
}

#[test]
fn domains_and_asserts_bound_the_choice() {
    let module = parse_file(FIXED, "fixed.tile").unwrap();
    let all = proposed(module.kernel("ruled").unwrap());
    let value = |set: &[(String, i64)], name: &str| set.iter().find(|(n, _)| n == name).map(|t| t.1);
    assert!(all.len() >= 2, "{all:?}");
    for set in &all {
        let [bm, bn] = ["BM", "BN"].map(|name| value(set, name).expect("a tunable that may be set"));
        assert!([64, 128].contains(&bm) && 128 % bn == 0 && bm >= bn, "{set:?}");
    }
}

/// Blocks that a flag leaves out: their loop has a ring and warpgroups as without the flag.
#[test]
fn products_in_a_branch_of_a_loop_have_words_for_the_loop() {
    let text = |body: &str| {
        format!(
            "kernel k(a: ptr<f16> align 16, b: ptr<f16> align 16, flag: ptr<i32>, c: ptr<f32> align 16, n: i32) {{
                grid 1
                ga = view a : f16[128, n]  gb = view b : f16[128, n]  gf = view flag : i32[n]  gc = view c : f32[128, 128]
                acc = for t in 0..cdiv(n, 64) carry x = (full 0.0 : f32[128, 128]) {{
                    {body}
                }}
                store gc[0, 0], acc
            }}"
        )
    };
    let loops = |body: &str| -> Vec<_> {
        let kernel = parse_file(&text(body), "k.tile").unwrap().kernels.remove(0);
        mappings(&kernel, &SM90A, &Grants::default()).into_iter().map(|m| m.loops).collect()
    };
    let product = "y = mma x, load ga[0, t*64] : f16[128, 64], trans(load gb[0, t*64] : f16[128, 64])";
    let flagged =
        format!("f = load gf[t] : i32  z = if f != 0 {{ {product} yield y }} else {{ yield x }} yield z");
    for body in [flagged, format!("{product} yield y")] {
        let found = loops(&body);
        let (with, without): (Vec<_>, Vec<_>) = found.iter().partition(|l| !l.is_empty());
        assert!(with.len() > without.len(), "{body}: {found:?}");
    }
}
