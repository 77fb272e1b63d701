//! Loops whose iterations overlap though threads exchange values in shared memory or store to global memory in them, as
//! emitted, in the simulator against the interpreter.
//!
//! ```text
//!  one iteration      S ═══  maxima of warps ─ st.shared ─ bar ─ ld.shared ─ powers ─ P V ═══ ─ st.global
//!  overlapped                S ═══ of the next iteration stands under the exchange of this one
//! ```

use warplift_golden::described::{compiled, reference};
use warplift_golden::orders::{ORDERS, right};

const TOLERANCE: f64 = 2e-2;

/// Compiles a text with its mapping, requires that its loop overlaps, and runs it for these sizes.
fn overlaps(text: &str, name: &str, sizes: &[i64]) -> String {
    let (kernel, mapping, made) = compiled(text);
    let explained = &made.explained.schedule;
    assert!(explained.loops.iter().any(|l| l.pipelined), "{:?}", explained.remarks);
    for &size in sizes {
        let problem = reference(&kernel, &mapping, &[(name, size)], &[]);
        right(&problem, &made, &ORDERS, (2, TOLERANCE), &format!("{name} = {size}"));
    }
    made.ptx
}

/// Keys are the rows of scores, so maxima and sums cross warps; values of 8 bits are converted beside them.
const DECODE: &str = "kernel decode(
    q: ptr<bf16> align 16, k: ptr<f8e4m3> align 16, v: ptr<f8e4m3> align 16, o: ptr<bf16> align 16, keys: i32
) {
    grid 1
    gq = view q : bf16[16, 128]  gk = view k : f8e4m3[keys, 128]  gv = view v : f8e4m3[keys, 128]
    go = view o : bf16[16, 128]
    tq = load gq[0, 0] : bf16[16, 128]
    zero = full 0.0 : f32[16, 128]
    column = iota 1 : i32[16, 128]
    m, l, acc = for t in 0..cdiv(keys, 128)
        carry m0 = full -1.0e30 : f32[16], l0 = full 0.0 : f32[16], acc0 = full 0.0 : f32[16, 128] {
        tk = cast(load gk[t*128, 0] : f8e4m3[128, 128], bf16)
        s = select(column + t*128 < keys, (mma zero, tq, trans(tk)) * 0.125, -inf)
        m1 = max(m0, reduce_max(s, 1))
        p = exp2(s - expand_dims(m1, 1))
        alpha = exp2(m0 - m1)
        tv = cast(load gv[t*128, 0] : f8e4m3[128, 128], bf16)
        yield m1, l0 * alpha + reduce_sum(p, 1), mma acc0 * expand_dims(alpha, 1), cast(p, bf16), tv
    }
    store go[0, 0], cast(acc / expand_dims(l, 1), bf16)
}
mapping decode { for t: pipeline fit, producers 1, consumers 2 }";

#[test]
fn an_exchange_between_warps_overlaps() {
    let ptx = overlaps(DECODE, "keys", &[1, 128, 129, 640]);
    assert!(ptx.contains("ld.shared") && ptx.contains("wgmma"), "{ptx}");
}

/// A state is passed on, and every iteration stores its rows: those of `y` twice, the second time for good.
const STATE: &str = "kernel state(
    q: ptr<bf16> align 16, k: ptr<bf16> align 16, v: ptr<bf16> align 16, o: ptr<bf16> align 16, length: i32
) {
    grid 1
    gq = view q : bf16[length, 64]  gk = view k : bf16[length, 64]  gv = view v : bf16[length, 64]
    go = view o : bf16[length, 64]
    zero = full 0.0 : f32[64, 64]
    row = iota 0 : i32[64, 64]
    column = iota 1 : i32[64, 64]
    state = for t in 0..cdiv(length, 64) carry s0 = full 0.0 : f32[64, 64] {
        tq = load gq[t*64, 0] : bf16[64, 64]
        tk = load gk[t*64, 0] : bf16[64, 64]
        tv = load gv[t*64, 0] : bf16[64, 64]
        p = cast(select(column <= row, mma zero, tq, trans(tk), 0.0), bf16)
        y0 = mma zero, p, tv
        store go[t*64, 0], cast(y0, bf16)
        y1 = mma y0, tq, cast(s0, bf16)
        store go[t*64, 0], cast(y1, bf16)
        yield mma s0, trans(tk), tv
    }
}
mapping state { for t: pipeline fit, producers 1, consumers 1 }";

#[test]
fn stores_of_an_overlapped_loop_keep_their_order() {
    let ptx = overlaps(STATE, "length", &[1, 64, 65, 320]);
    assert!(ptx.contains("st.global"), "{ptx}");
}

/// Column sums cross warps and the probabilities are stored: with one warpgroup more is live at once than there are registers,
/// so iterations stay apart.
const FULL: &str = "kernel full_of_fragments(
    q: ptr<bf16> align 16, k: ptr<bf16> align 16, v: ptr<bf16> align 16, o: ptr<bf16> align 16, w: ptr<f32> align 16,
    rows: i32, keys: i32
) {
    grid cdiv(rows, 128)
    gq = view q : bf16[rows, 64]  gk = view k : bf16[keys, 64]  gv = view v : bf16[keys, 64]
    go = view o : bf16[rows, 64]  gw = view w : f32[rows, keys]
    i = block_index
    tq = load gq[i*128, 0] : bf16[128, 64]
    zero = full 0.0 : f32[128, 64]
    m, l, acc = for t in 0..cdiv(keys, 64)
        carry m0 = full -1.0e30 : f32[128], l0 = full 0.0 : f32[128], acc0 = zero {
        tk = load gk[t*64, 0] : bf16[64, 64]
        s = select((t*64 + iota 1 : i32[128, 64]) < keys, mma zero, tq, trans(tk), -inf)
        m1 = max(m0, reduce_max(s, 1))
        p = exp2(s - expand_dims(m1, 1))
        p2 = p + expand_dims(reduce_sum(p, 0), 0) * 0.001
        alpha = exp2(m0 - m1)
        store gw[i*128, t*64], p2
        tv = load gv[t*64, 0] : bf16[64, 64]
        yield m1, l0 * alpha + reduce_sum(p2, 1), mma acc0 * expand_dims(alpha, 1), cast(p2, bf16), tv
    }
    store go[i*128, 0], cast(acc / expand_dims(l, 1), bf16)
}
mapping full_of_fragments { for t: pipeline fit, producers 1, consumers 1 }";

#[test]
fn iterations_stay_apart_where_registers_do_not_reach() {
    let (kernel, mapping, made) = compiled(FULL);
    for keys in [64, 100] {
        let problem = reference(&kernel, &mapping, &[("rows", 130), ("keys", keys)], &[]);
        right(&problem, &made, &ORDERS, (2, TOLERANCE), &format!("{keys} keys"));
    }
}
