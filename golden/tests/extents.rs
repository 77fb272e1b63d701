//! Extents of tiles that are products of tunables, and sums of one and a number. Against the interpreter, under eight orders.

use warplift::ir::tile::{parse_file, verify};
use warplift_golden::given::check;

/// Groups of rows, padded rows, and tiles whose halves are joined.
const ROWS: &str =
    "kernel rows(x: ptr<f32> align 16, w: ptr<f32> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 4) {
        tunable A = 2, B = 4, C = 24
        grid cdiv(m, A*B)
        gx = view x : f32[m, n]
        gw = view w : f32[A*B, C + 8]
        gy = view y : f32[m, C + 8]
        i = block_index
        t = load gx[i*A*B, 0] : f32[A*B, C + 8]
        by = load gw[0, 0] : f32[B*A, 8 + C]
        parts = reshape t + by : f32[A, B, C + 8]
        each = reduce_sum(parts, 1)
        spread = broadcast expand_dims(each, 1) : f32[A, B, C + 8]
        ends = reshape spread : f32[B*A, C + 8]
        left = slice(ends, [0, 0]) : f32[A*B, (C + 8) / 4]
        low = reduce_max(left, 1)
        none = full 0.5 : f32[2*A*B/2, C + 8]
        store gy[i*A*B, 0], ends + expand_dims(low, 1) + none + cast(dim(A*B), f32) + cast(dim(C - 4), f32)
    }
    mapping rows { WORDS kernel: warps 2 }";

#[test]
fn extents_are_products_and_sums_of_tunables() {
    for words in ["", "A = 1, B = 8", "A = 4, B = 4, C = 8", "A = 2, B = 2, C = 56"] {
        check(&ROWS.replace("WORDS", words), &[("m", 21), ("n", 44)], &[]);
    }
}

/// A product of heads that share rows, as grouped queries do.
#[test]
fn products_have_rows_of_several_tunables() {
    let text = "kernel grouped(q: ptr<f16> align 16, k: ptr<f16> align 16, s: ptr<f32> align 16, rows: i32, keys: i32) {
        tunable H = 4, R = 16, BN = 64
        const D = 64
        grid cdiv(rows, R), cdiv(keys, BN)
        i, j = block_index
        gq = view q : f16[rows*H, D]
        gk = view k : f16[keys, D]
        gs = view s : f32[rows*H, keys]
        tq = load gq[i*R*H, 0] : f16[H*R, D]
        tk = load gk[j*BN, 0] : f16[BN, D]
        store gs[i*R*H, j*BN], mma full 0.0 : f32[R*H, BN], tq, trans(tk)
    }
    mapping grouped { WORDS kernel: persistent, warps 4 }";
    for words in ["", "H = 2, R = 32", "H = 8, R = 8"] {
        check(&text.replace("WORDS", words), &[("rows", 33), ("keys", 72)], &[]);
    }
}

#[test]
fn what_is_no_extent_is_said() {
    for (shape, why) in [
        ("A*B*C", "one or two tunables"),
        ("A + B", "one or two tunables"),
        ("(A + 8)*B", "one or two tunables"),
        ("(A + 8)/3", "one or two tunables"),
    ] {
        let text = format!(
            "kernel f(y: ptr<f32>) {{ tunable A = 16, B = 4, C = 4 grid 1 gy = view y : f32[1024] t = full 0.0 : f32[{shape}] store gy[0], t }}"
        );
        let error = parse_file(&text, "f.tile").expect_err(shape).to_string();
        assert!(error.contains(why), "{shape}: {error}");
    }
    let text = "kernel f(y: ptr<f32>) { tunable A = 16 grid 1 gy = view y : f32[64] t = full 0.0 : f32[A - 32] store gy[0], t }";
    let kernel = parse_file(text, "f.tile").unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
    let error =
        verify(&kernel).expect_err("a negative extent").iter().map(ToString::to_string).collect::<String>();
    assert!(error.contains("positive whole extents"), "{error}");
}

/// A product that wraps around is no index inside, though its factors are not negative.
#[test]
fn what_may_wrap_around_is_compared() {
    let text = "kernel wraps(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32) {
        grid 1
        gx = view x : f32[128]
        gy = view y : f32[64]
        at = min(n * 3, 64)
        store gy[0], load gx[at] : f32[64]
    }
    mapping wraps { kernel: warps 2 }";
    let counted = "kernel counts(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32) {
        grid 1
        gx = view x : f32[128]
        gy = view y : f32[64]
        low = n * 3
        for t in low..min(low + 1, 64) { store gy[0], load gx[t] : f32[64] }
    }
    mapping counts { kernel: warps 2 }";
    for n in [1, 7, 1_000_000_001] {
        check(text, &[("n", n)], &[]);
        check(counted, &[("n", n)], &[]);
    }
}
