//! A loop that decides for itself has no bounds: what it carries is not read as some, by no analysis.
//!
//! ```text
//!  while carry low = 0, high = 3, width = 1, ..      is no      for low in 0..3 step 1
//! ```

use warplift::ir::target::SM90A;
use warplift::{Options, compile};
use warplift_golden::given::{Given, check, has_producer, made, parsed};

/// A sum over as many iterations as an array says, whose first carried values look like bounds.
const COUNTED: &str =
    "kernel hoist(x: ptr<f32> align 16, w: ptr<f32> align 16, y: ptr<f32> align 16, lim: ptr<i32>, m: i32) {
            grid m
            gx = view x : f32[m, 128]
            gw = view w : f32[1, 128]
            gl = view lim : i32[1]
            gy = view y : f32[m, 128]
            i = block_index
            zero = full 0.0 : f32[1, 128]
            n = load gl[0] : i32
            a, b, c, s = while carry a0 = 0, b0 = 4, c0 = 1, s0 = zero {
                tx = load gx[i, 0] : f32[1, 128]
                tw = load gw[0, 0] : f32[1, 128]
                a1 = a0 + 1
                yield a1 < n, a1, b0, c0, s0 + tx * tw
            }
            store gy[i, 0], s
        }
        ";

#[test]
fn carried_values_are_no_bounds() {
    for mapping in ["array x: staged kernel: persistent, warps 4", "kernel: persistent, warps 4"] {
        let text = format!("{COUNTED} mapping hoist {{ {mapping} }}");
        for trips in [1, 4, 7] {
            let compiled = check(&text, &[("m", 300)], &[("lim", Given::I32(&[trips]))]);
            assert_eq!(has_producer(&compiled), mapping.contains("staged"), "{mapping}");
        }
    }
}

/// Both parts of a tile's work read the same tiles, in loops that run unequally often: the first as `before` says, the second as
/// often as the last number of `lim`.
fn unequal(before: &str) -> String {
    format!(
        "kernel share(x: ptr<f32> align 16, y: ptr<f32> align 16, lim: ptr<i32>, m: i32) {{
            grid m
            gx = view x : f32[m, 128]
            gl = view lim : i32[2]
            gy = view y : f32[m, 128]
            i = block_index
            zero = full 0.0 : f32[1, 128]
            first = load gl[0] : i32
            second = load gl[1] : i32
            {before}
            total = reduce_sum(q, 1)
            a, s = while carry a0 = 0, s0 = zero {{
                ty = load gx[i, 0] : f32[1, 128]
                yield a0 + 1 < second, a0 + 1, s0 + ty * expand_dims(total, 1)
            }}
            store gy[i, 0], s
        }}
        mapping share {{ array x: staged kernel: persistent, warps 4, epilogue warps }}"
    )
}

#[test]
fn loops_that_run_unequally_share_no_stages() {
    let tile = "load gx[i, 0] : f32[1, 128]";
    let once = format!("q = for t in 0..1 carry q0 = zero {{ yield q0 + ({tile}) * 2.0 }}");
    let often = format!(
        "b, c, d, q = while carry b0 = 0, c0 = 3, d0 = 1, q0 = zero {{
            yield b0 + 1 < first, b0 + 1, c0, d0, q0 + ({tile}) * 2.0
        }}"
    );
    for (before, all) in [(&once, [[0, 1], [0, 2], [0, 7]]), (&often, [[7, 6], [2, 3], [1, 1]])] {
        for trips in all {
            check(&unequal(before), &[("m", 300)], &[("lim", Given::I32(&trips))]);
        }
    }
}

/// Products while a number from memory says so.
const PRODUCTS: &str = "kernel mc(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, lim: ptr<i32>, m: i32, n: i32 % 8, k: i32 % 8) {
            tunable BM = 128, BN = 128, BK = 64
            grid cdiv(m, BM), cdiv(n, BN)
            ga = view a : f16[m, k]
            gb = view b : f16[n, k]
            gc = view c : f16[m, n]
            gl = view lim : i32[4] fill 1
            i, j = block_index
            zero = full 0.0 : f32[BM, BN]
            steps, acc = while carry s = 0, x = zero {
                ta = load ga[i*BM, s*BK] : f16[BM, BK]
                tb = load gb[j*BN, s*BK] : f16[BN, BK]
                y = mma x, ta, trans(tb)
                l = load gl[0] : i32
                yield s + 1 < l, s + 1, y
            }
            store gc[i*BM, j*BN], cast(acc, f16)
        }
        mapping mc { BM = 64, BN = 64, BK = 64
            kernel: warps 4, cluster 2 }";

#[test]
fn blocks_that_go_on_together_multicast() {
    let (kernel, mapping) = parsed(PRODUCTS);
    let compiled = made(&kernel, &mapping);
    assert!(compiled.ptx.contains("multicast"), "{}", compiled.ptx);
    for trips in [1, 3] {
        let sizes = [("m", 100), ("n", 72), ("k", 136)];
        check(PRODUCTS, &sizes, &[("lim", Given::I32(&[trips, 1, 1, 1]))]);
    }
    let own = PRODUCTS.replace("load gl[0]", "load gl[i]");
    assert_ne!(own, PRODUCTS);
    let (kernel, mapping) = parsed(&own);
    assert!(!made(&kernel, &mapping).ptx.contains("multicast"), "each block has a condition of its own");
}

/// What an address stands for must be known where it is used.
#[test]
fn pointers_are_not_carried() {
    let loops = [
        "a, v = while carry n = 0, v0 = x { yield n < 3, n + 1, v0 }",
        "v = for t in 0..3 carry v0 = x { yield v0 }",
    ];
    for looped in loops {
        let text = format!(
            "kernel carried(x: ptr<f32>, y: ptr<f32>, m: i32) {{
                grid 1
                {looped}
                gv = view v : f32[m]
                gy = view y : f32[m]
                store gy[0], load gv[0] : f32[32]
            }}
            mapping carried {{ kernel: warps 1 }}"
        );
        let (kernel, mapping) = parsed(&text);
        let made = compile(&kernel, &mapping, &SM90A, &Options::default());
        let why = made.err().map_or_else(String::new, |e| e.to_string());
        assert!(why.contains("carries no pointers"), "{looped}: {why}");
    }
}
