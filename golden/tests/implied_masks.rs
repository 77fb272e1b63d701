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

/// Tensor copies that load, and those that store, where both are right in all orders.
fn copies(load: &str, store: &str) -> (usize, usize) {
    let ptx = check(&text(load, store), &SIZES, &[""]);
    let of =
        |way: &str| ptx.lines().filter(|l| l.contains("cp.async.bulk.tensor") && l.contains(way)).count();
    (of(".shared::cluster.global"), of("global.shared::cta"))
}

const LOAD: &str = "load ga[i*64, t*64] : f16[64, 64]";
const STORE: &str = "store gc[i*64, j*64], cast(acc, f16)";

#[test]
fn what_the_view_bounds_needs_no_mask() {
    let plain = copies(LOAD, STORE);
    assert_eq!(plain.1, 1);
    for mask in [
        "at < k",
        "(k > at) & (row < m)",
        "(iota 1 : i32[64, 64]) < k - t*64",
        "(at >= 0) & (0 <= row)",
        "expand_dims((i*64 + iota 0 : i32[64]) < m, 1) & (at < k)",
    ] {
        assert_eq!(copies(&format!("{LOAD} where {mask}"), STORE), plain, "{mask}");
    }
    let inner = format!("select(row < m, cast({LOAD}, f32), 0.0)");
    for load in [format!("select(at < k, {LOAD}, 0.0)"), format!("cast({inner}, f16)")] {
        assert_eq!(copies(&load, STORE), plain, "{load}");
    }
    assert_eq!(copies(LOAD, &format!("{STORE} where row < m")), plain);
}

#[test]
fn what_says_more_than_the_view_stays() {
    let (loads, stores) = copies(LOAD, STORE);
    let more =
        ["at < k - 1", "at < m", "(row < k) & (at <= 9)", "at + 1 < k", "(at > 0) & (at < k)", "at != 5"];
    for mask in more {
        // Threads load the one operand, and the other's copies differ with it.
        assert_ne!(copies(&format!("{LOAD} where {mask}"), STORE).0, loads, "{mask}");
    }
    assert!(copies(LOAD, &format!("{STORE} where row < m - 1")).1 < stores);
}

/// What a copy brings is then selected from, or gathered: only the results tell.
#[test]
fn a_value_beside_the_fill_and_gathered_rows_are_right() {
    copies(&format!("select(at < k, {LOAD}, 1.0)"), STORE);
    copies("load ga[row, at] : f16[64, 64] where row < m", STORE);
}
