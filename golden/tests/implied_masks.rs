//! Accesses whose masks say what the view says, in several wordings, and others that say more: as emitted, in the simulator
//! against the interpreter. Tensor copies bring the first.

use warplift_golden::described::check;

const SIZES: [(&str, i64); 3] = [("m", 70), ("n", 72), ("k", 88)];

/// A product of 70 x 72 by 88 with the left operand loaded where `mask` holds, before a store with a mask.
fn text(load: &str, store: &str) -> String {
    format!(
        "kernel masked(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8) {{
            grid cdiv(m, 64), cdiv(n, 64)
            ga = view a : f16[m, k]  gb = view b : f16[n, k]  gc = view c : f16[m, n]
            i, j = block_index
            row = i*64 + iota 0 : i32[64, 64]
            acc = for t in 0..cdiv(k, 64) carry x = full 0.0 : f32[64, 64] {{
                at = t*64 + iota 1 : i32[64, 64]
                ta = {load}
                yield mma x, ta, trans(load gb[j*64, t*64] : f16[64, 64])
            }}
            {store}
        }}
        mapping masked {{ for t: pipeline 2, producers 1, consumers 1 }}"
    )
}

fn right(load: &str, store: &str) -> String {
    check(&text(load, store), &SIZES, &[""])
}

fn tensor_copies(ptx: &str, of: &str) -> usize {
    ptx.lines().filter(|l| l.contains("cp.async.bulk.tensor") && l.contains(of)).count()
}

const STORE: &str = "store gc[i*64, j*64], cast(acc, f16)";

#[test]
fn what_the_view_bounds_needs_no_mask() {
    let plain = tensor_copies(&right("load ga[i*64, t*64] : f16[64, 64]", STORE), ".shared::cluster.global");
    for load in [
        "load ga[i*64, t*64] : f16[64, 64] where at < k",
        "load ga[i*64, t*64] : f16[64, 64] where (k > at) & (row < m)",
        "load ga[i*64, t*64] : f16[64, 64] where (iota 1 : i32[64, 64]) < k - t*64",
        "load ga[i*64, t*64] : f16[64, 64] where (at >= 0) & (0 <= row)",
        "load ga[i*64, t*64] : f16[64, 64] where expand_dims((i*64 + iota 0 : i32[64]) < m, 1) & (at < k)",
        "load ga[row, at] : f16[64, 64] where row < m",
        "select(at < k, load ga[i*64, t*64] : f16[64, 64], 0.0)",
        "cast(select(row < m, cast(load ga[i*64, t*64] : f16[64, 64], f32), 0.0), f16)",
    ] {
        let ptx = right(load, STORE);
        let gathered = load.contains("ga[row");
        assert!(gathered || tensor_copies(&ptx, ".shared::cluster.global") == plain, "{load}\n{ptx}");
    }
    let ptx =
        right("load ga[i*64, t*64] : f16[64, 64]", "store gc[i*64, j*64], cast(acc, f16) where row < m");
    assert_eq!(tensor_copies(&ptx, "global.shared::cta"), 1, "{ptx}");
}

#[test]
fn what_says_more_than_the_view_stays() {
    let plain = tensor_copies(&right("load ga[i*64, t*64] : f16[64, 64]", STORE), ".shared::cluster.global");
    for load in [
        "load ga[i*64, t*64] : f16[64, 64] where at < k - 1",
        "load ga[i*64, t*64] : f16[64, 64] where at < m",
        "load ga[i*64, t*64] : f16[64, 64] where (row < k) & (at <= 9)",
        "load ga[i*64, t*64] : f16[64, 64] where at + 1 < k",
        "load ga[i*64, t*64] : f16[64, 64] where (at > 0) & (at < k)",
        "load ga[i*64, t*64] : f16[64, 64] where at != 5",
        "select(at < k, load ga[i*64, t*64] : f16[64, 64], 1.0)",
    ] {
        let ptx = right(load, STORE);
        let same = tensor_copies(&ptx, ".shared::cluster.global") == plain;
        assert!(!same || load.starts_with("select"), "{load}\n{ptx}");
    }
    let ptx =
        right("load ga[i*64, t*64] : f16[64, 64]", "store gc[i*64, j*64], cast(acc, f16) where row < m - 1");
    assert_eq!(tensor_copies(&ptx, "global.shared::cta"), 0, "{ptx}");
}
