//! Plans that only the search finds, shapes that are no powers of two, and plans without a feature: the kernel computes
//! what its text says, without a hazard.

use warplift::ir::manifest::Param;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::isel::Feature;
use warplift::{Compiled, Options, compile};
use warplift_golden::library::{CASES, load, reference};
use warplift_golden::orders::{ORDERS, right};

/// Sizes, and the difference from the interpreter that is allowed.
struct Problem<'a> {
    sizes: &'a [(&'a str, i64)],
    tolerance: f64,
}

fn disabled(features: &[Feature]) -> Vec<warplift::Feature> {
    features.iter().map(|&f| warplift::Feature::Isel(f)).collect()
}

fn check(kernel: &Kernel, mapping: &Mapping, of: &Problem<'_>, without: &[Feature]) -> Compiled {
    let name = format!("{} {:?} without {without:?}", kernel.name, of.sizes);
    let options = Options { verify: true, disable: disabled(without), ..Options::default() };
    let compiled = compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let problem = reference(kernel, mapping, of.sizes, 7);
    right(&problem, &compiled, &ORDERS, (2, of.tolerance), &name);
    compiled
}

/// A kernel of the library with other tunables.
fn with(name: &str, tunables: &[(&str, i64)]) -> (Kernel, Mapping) {
    let (kernel, mut mapping) = load(name);
    for &(tunable, value) in tunables {
        let found = mapping.tunables.iter_mut().find(|t| t.0 == tunable);
        found.unwrap_or_else(|| panic!("{name} has no {tunable}")).1 = value;
    }
    (kernel, mapping)
}

const EXACT: f64 = 0.0;
const GEMM: &[(&str, i64)] = &[("m", 200), ("n", 200), ("k", 136)];

#[test]
fn tiles_that_fill_no_swizzle_span_work() {
    for (name, n) in [("gemm", 96), ("gemm", 24), ("gemm_nn", 96), ("gemm_nn", 24), ("gemm_nn", 40)] {
        let (kernel, mapping) = with(name, &[("BN", n)]);
        check(&kernel, &mapping, &Problem { sizes: GEMM, tolerance: EXACT }, &[]);
    }
}

#[test]
fn columns_that_the_rule_cannot_cut_are_cut() {
    let (kernel, mut mapping) = with("gemm_nn", &[("BM", 192), ("BN", 192)]);
    mapping.loops[0].1.consumers = Some(3);
    let options = Options { disable: disabled(&[Feature::Synthesis]), ..Options::default() };
    let refused = compile(&kernel, &mapping, &SM90A, &options).map(|c| c.ptx).expect_err("no slabs of 64");
    assert!(refused.to_string().contains("96 columns"), "{refused}");
    let made = check(&kernel, &mapping, &Problem { sizes: GEMM, tolerance: EXACT }, &[]);
    assert!(made.explained.search[0].contains("the default plan is impossible"));
}

#[test]
fn heads_of_192_work() {
    let (kernel, mapping) = with("attention", &[("D", 192), ("BN", 96)]);
    let sizes = &[("batch", 1), ("heads", 1), ("queries", 130), ("keys", 200)];
    check(&kernel, &mapping, &Problem { sizes, tolerance: 2e-2 }, &[]);
}

#[test]
fn an_operand_held_in_registers_is_the_same_operand() {
    let text = "
kernel q(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, n: i32 % 8) {
    grid 1
    ga = view a : f16[64, 64]
    gb = view b : f16[n, 64]
    gc = view c : f32[64, 8]
    zero = full 0.0 : f32[64, 8]
    ta = load ga[0, 0] : f16[64, 64]
    acc = for t in 0..256 carry x = zero {
        tb = load gb[t*8, 0] : f16[8, 64]
        y = mma x, ta, trans(tb)
        yield y
    }
    store gc[0, 0], acc
}
mapping q { for t: consumers 1 }
";
    let module = parse_file(text, "q").unwrap_or_else(|e| panic!("{e:?}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let made = check(kernel, mapping, &Problem { sizes: &[("n", 64)], tolerance: EXACT }, &[]);
    assert!(made.explained.plan.iter().any(|l| l.contains("A in registers")), "{:?}", made.explained.plan);
}

#[test]
fn what_is_made_again_is_the_same_tile() {
    let text = "
kernel p(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 8) {
    grid 1
    gx = view x : f32[64, n]
    gy = view y : f32[128, n]
    tx = load gx[0, 0] : f32[64, 64]
    at = iota(1) : i32[64, 64]
    keep = at * 3 < n
    here = select(keep, tx, 0.0)
    there = select(keep, trans(tx), 1.0)
    store gy[0, 0], here
    store gy[64, 0], there
}
mapping p { kernel: warps 4 }
";
    let module = parse_file(text, "p").unwrap_or_else(|e| panic!("{e:?}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let made = check(kernel, mapping, &Problem { sizes: &[("n", 64)], tolerance: EXACT }, &[]);
    assert!(made.explained.plan.iter().any(|l| l.contains("made again")), "{:?}", made.explained.plan);
}

/// What the search chose for warps that share a product, and that the kernel means what its text says.
fn shared(text: &str, sizes: &[(&str, i64)], chosen: &str) {
    let module = parse_file(text, "w").unwrap_or_else(|e| panic!("{e:?}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let made = check(kernel, mapping, &Problem { sizes, tolerance: EXACT }, &[]);
    assert!(made.explained.plan.iter().any(|l| l.contains(chosen)), "{:?}", made.explained.plan);
}

#[test]
fn warps_whose_rows_lie_together_store_by_columns() {
    let text = "
kernel w(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16>, d: ptr<f32> align 16, m: i32, n: i32 % 8) {
    grid cdiv(m, 512), cdiv(n, 16)
    ga = view a : f16[m, 16]
    gb = view b : f16[n, 16]
    gc = view c : f16[m, n]
    gd = view d : f32[m, n]
    i, j = block_index
    ta = load ga[i*512, 0] : f16[512, 16]
    tb = load gb[j*16, 0] : f16[16, 16]
    zero = full 0.0 : f32[512, 16]
    y = mma zero, ta + ta, trans(tb)
    store gc[i*512, j*16], cast(y, f16)
    store gd[i*512, j*16], y
}
mapping w { kernel: warps 4, products mma_sync }
";
    shared(text, &[("m", 600), ("n", 24)], "4 x 1 warps, rows together, of 8 x 2 atoms");
}

#[test]
fn warps_take_whole_rows_where_these_are_reduced() {
    let text = "
kernel w(a: ptr<f16> align 16, b: ptr<f16> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 8) {
    grid cdiv(m, 128)
    ga = view a : f16[m, 16]
    gb = view b : f16[16, n]
    gy = view y : f32[m]
    i = block_index
    ta = load ga[i*128, 0] : f16[128, 16]
    none = full 0.0 : f32[128]
    sums = for t in 0..cdiv(n, 128) carry old = none {
        tb = load gb[0, t*128] : f16[16, 128]
        zero = full 0.0 : f32[128, 128]
        p = mma zero, ta, tb
        new = old + reduce_max(p, 1)
        yield new
    }
    store gy[i*128], sums
}
mapping w { kernel: warps 8, products mma_sync }
";
    shared(text, &[("m", 200), ("n", 328)], "8 x 1 warps");
}

/// Kernels that use what can be left: each kind of product, staged stores, conversions, reductions.
const KINDS: [&str; 9] = [
    "gemm",
    "gemm_tn",
    "gemm_tt",
    "gemm_mma_sync",
    "gemm_tt_mma_copies",
    "gemm_any",
    "a16w4",
    "transpose",
    "row_sum",
];

#[test]
fn without_a_feature_the_same_is_computed() {
    for name in KINDS {
        let (kernel, mapping) = load(name);
        let case = CASES.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no case of {name}"));
        for (_, feature) in Feature::ALL {
            let of = Problem { sizes: case.sizes, tolerance: case.tolerance };
            let made = check(&kernel, &mapping, &of, &[feature]);
            let plan = &made.explained.plan;
            match feature {
                Feature::Synthesis => assert_eq!(made.explained.search, [""; 0], "{name}"),
                Feature::Swizzle => assert!(plan.iter().all(|l| !swizzled(l)), "{name}: {plan:?}"),
                Feature::Shuffles => {
                    assert!(plan.iter().all(|l| !l.contains("warp shuffles")), "{name}: {plan:?}")
                }
                Feature::SmemStaging => {
                    assert!(plan.iter().all(|l| !l.contains("what they computed")), "{name}: {plan:?}")
                }
                Feature::PartialSums => {
                    assert!(plan.iter().all(|l| !l.contains("sums of lanes and warps")), "{name}: {plan:?}")
                }
                Feature::RaggedCopies => {
                    let twice = |p: &Param| match p {
                        Param::TensorMap(m) => m.strides.windows(2).any(|s| s[0] == s[1]),
                        _ => false,
                    };
                    assert!(!made.manifest.params.iter().any(twice), "{name}: a map has its rows twice");
                }
                // None of these cases divides by a constant: `quotients.rs` has one that does. None has elements of 3
                // bits: `features/halfwords.tile` has. None masks whole tiles, has groups of 32 weights, loads by indices in a
                // loop, or has a loop that memory ends: `skip_masked.rs`, `lowbit.rs` and `prefetch_indices.rs` have cases that do.
                Feature::Quotients
                | Feature::Halfwords
                | Feature::SkipMasked
                | Feature::JoinedGroups
                | Feature::PrefetchIndices
                | Feature::UnrolledLoads => {}
                Feature::ZeroPoint => {
                    let handed = made.explained.schedule.rings.values().any(|r| r.fill.is_stored());
                    assert!(!handed, "{name}: a helper hands something on");
                }
            }
        }
    }
}

fn swizzled(line: &str) -> bool {
    ["swizzle 128", "swizzle 64", "swizzle 32"].iter().any(|s| line.contains(s))
}
