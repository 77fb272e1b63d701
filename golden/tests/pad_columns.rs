//! Right operands whose rows no swizzle divides, in several texts: as emitted, in the simulator against the interpreter. What
//! ends with its array takes as many copies as a tile of wider rows.

use warplift_golden::described::check;
use warplift_golden::given::{self, Given};

/// A product of probabilities and values over heads of `d` columns, with `result` stored and tiles of `tile` columns.
fn text(d: u32, tile: u32, views: &str, result: &str) -> String {
    format!(
        "kernel values(p: ptr<f16> align 16, v: ptr<f16> align 16, r: ptr<f16> align 16, o: ptr<f16> align 16,
                       m: i32, keys: i32 % 8, heads: i32) {{
            const D = {d}, T = {tile}
            grid cdiv(m, 64), heads
            i, head = block_index
            gp = view p : f16[m, keys]
            {views}
            none = full 0.0 : f32[64, T]
            acc, l = for t in 0..cdiv(keys, 64) carry a = none, l0 = full 0.0 : f32[64] {{
                tp = load gp[i*64, t*64] : f16[64, 64]
                scaled = a * 0.5
                b = mma scaled, tp, load gv[t*64, 0] : f16[64, T]
                yield b, l0 + reduce_sum(cast(tp, f32), 1)
            }}
            {result}
        }}
        mapping values {{ for t: pipeline 2, producers 1, consumers 1  kernel: persistent }}"
    )
}

const HEADS: &str = "all_v = view v : f16[keys, heads, D]  gv = subview all_v[_, head, _]
    all_r = view r : f16[m, heads, D]  gr = subview all_r[_, head, _]
    all_o = view o : f16[m, heads, D]  go = subview all_o[_, head, _]";
const STORE: &str = "store go[i*64, 0], cast(acc * 0.25, f16)";

/// Tensor copies that load, where the text is right in all orders.
fn loads(text: &str) -> usize {
    let sizes = [("m", 70), ("keys", 136), ("heads", 2)];
    let copies = |l: &&str| l.contains("cp.async.bulk.tensor") && l.contains(".shared::cluster.global");
    check(text, &sizes, &[""]).lines().filter(copies).count()
}

/// The same text with products that warps share.
fn shared(text: &str) -> String {
    text.replace(", consumers 1  kernel: persistent", "  kernel: warps 4, products mma_sync")
}

#[test]
fn columns_that_end_with_their_array_are_padded() {
    for (d, wide) in [(24, 32), (40, 48), (72, 80), (88, 96), (104, 128), (120, 128), (136, 160)] {
        let copies = |tile| loads(&shared(&text(d, tile, HEADS, STORE)));
        assert_eq!(copies(d), copies(wide), "{d}");
    }
}

/// Warpgroups read slabs of which the last one is narrower: as many copies as of whole ones.
#[test]
fn last_slabs_may_be_narrower() {
    for (d, wide) in
        [(24, 32), (40, 64), (72, 128), (80, 128), (104, 128), (112, 128), (120, 128), (136, 192)]
    {
        assert_eq!(loads(&text(d, d, HEADS, STORE)), loads(&text(d, wide, HEADS, STORE)), "{d}");
    }
}

/// Columns of a wider array, of all its blocks: boxes are narrower than the span, and cut where the array ends.
fn columns(tile: u32, depth: u32, mapping: &str) -> String {
    format!(
        "kernel columns(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8) {{
            const T = {tile}, K = {depth}
            grid cdiv(m, 128), cdiv(n, T)
            ga = view a : f16[m, k]
            gb = view b : f16[k, n]
            gc = view c : f16[m, n]
            i, j = block_index
            acc = for t in 0..cdiv(k, K) carry x = full 0.0 : f32[128, T] {{
                ta = load ga[i*128, t*K] : f16[128, K]
                yield mma x, ta, load gb[t*K, j*T] : f16[K, T]
            }}
            store gc[i*128, j*T], cast(acc, f16)
        }}
        mapping columns {{ for t: pipeline 2, producers 1, consumers {mapping} }}"
    )
}

/// Blocks of a cluster bring parts of narrow boxes, each to its rows of the span.
#[test]
fn narrow_boxes_are_shared_in_clusters() {
    for (tile, depth) in [(72, 64), (40, 48), (104, 32), (24, 80), (200, 64)] {
        for mapping in
            ["1", "2", "2  kernel: cluster 2", "1  kernel: persistent", "2  kernel: cluster 2, persistent"]
        {
            for sizes in [[300, 216, 168], [256, 104, 8], [70, 24, 320]] {
                let [m, n, k] = sizes;
                check(&columns(tile, depth, mapping), &[("m", m), ("n", n), ("k", k)], &[""]);
            }
        }
    }
}

/// What lies beside a head's columns in memory reaches no result: there it is not a number.
#[test]
fn columns_of_other_heads_are_not_read() {
    let (keys, nan) = (136, 0x7e00);
    for d in [40, 72, 104, 120] {
        let text = text(d, d, HEADS, STORE).replace("grid cdiv(m, 64), heads", "grid cdiv(m, 64), 1");
        let own = |at: u32| at % (2 * d) < d;
        let values: Vec<u16> =
            (0..keys * 2 * d).map(|at| if own(at) { 0x3c00 + at as u16 % 7 } else { nan }).collect();
        let sizes = [("m", 70), ("keys", keys.into()), ("heads", 2)];
        given::check(&text, &sizes, &[("v", Given::F16(&values))]);
    }
}

#[test]
fn what_is_made_of_the_columns_may_be_many_things() {
    let padded = loads(&text(72, 72, HEADS, STORE));
    for result in [
        "store go[i*64, 0], cast(acc * expand_dims(rcp(1.0 + abs(l)), 1), f16)",
        "store go[i*64, 0], cast(acc, f16) + load gr[i*64, 0] : f16[64, T]",
        "x = if m > 3 { yield acc } else { yield acc + 1.0 }  store go[i*64, 0], cast(x, f16)",
        "y = for n in 0..3 carry x = acc { yield x * 0.5 + cast(n, f32) }  store go[i*64, 0], cast(y, f16)",
        "c = iota 1 : i32[64, T]  store go[i*64, 0], cast(select(c < 70, acc, 3.0), f16)",
        "store go[i*64, 0], cast(acc - expand_dims(reduce_max(acc, 0), 0), f16)",
        "store go[i*64, 0], cast(trans(trans(acc) + 1.0), f16)",
        "store go[i*64, 0], cast(acc + expand_dims(cast(iota 0 : i32[T], f32), 0), f16)",
    ] {
        assert!(loads(&text(72, 72, HEADS, result)) >= padded, "{result}");
    }
}

/// Sums along the columns, parts of them, and columns that others follow in memory: the results tell.
#[test]
fn columns_that_are_needed_as_they_are_stay() {
    for result in [
        "store go[i*64, 0], cast(acc - expand_dims(reduce_max(acc, 1), 1), f16)",
        "store go[i*64, 0], cast(acc + expand_dims(reduce_sum(exp(acc * 0.01), 1), 1), f16)",
        "store go[i*64, 0], cast(slice(acc, [0, 0]) : f32[64, 8], f16)",
        "store go[i*64, 0], cast(reshape (reshape acc : f32[64, 9, 8]) : f32[64, T], f16)",
        "store go[i*64, 8], cast(acc, f16)",
    ] {
        loads(&text(72, 72, HEADS, result));
    }
    let rows = "gv0 = view v : f16[keys, heads * D]  gr = view r : f16[m, heads * D]
        gv1 = view v : f16[keys, heads, D]  gv = subview gv1[_, head, _]  go = view o : f16[m, heads * D]";
    loads(&text(72, 72, rows, "store go[i*64, head*D], cast(acc, f16)"));
    let part = "gv1 = view v : f16[keys, heads, 80]  gv = subview gv1[_, head, _]
        all_o = view o : f16[m, heads, D]  go = subview all_o[_, head, _]";
    loads(&text(72, 72, part, STORE));
}

/// Scores of 70 queries over heads of 72 columns: `body` makes the tile that is stored.
fn scores(body: &str) -> String {
    format!(
        "kernel scores(q: ptr<f16> align 16, k: ptr<f16> align 16, v: ptr<f16> align 16, o: ptr<f16> align 16,
                       m: i32, keys: i32, heads: i32) {{
            const D = 72
            grid cdiv(m, 64), heads
            i, head = block_index
            all_q = view q : f16[m, heads, D]     gq = subview all_q[_, head, _]
            all_k = view k : f16[keys, heads, D]  gk = subview all_k[_, head, _]
            all_o = view o : f16[m, heads, D]     go = subview all_o[_, head, _]
            tq = load gq[i*64, 0] : f16[64, D]
            zero = full 0.0 : f32[64, 64]
            none = full 0.0 : f32[64, D]
            {body}
            store go[i*64, 0], cast(acc, f16)
        }}
        mapping scores {{ for t: pipeline 2, producers 1, consumers 1  kernel: persistent }}"
    )
}

/// Operands that are something else too: a residual, or the values.
#[test]
fn depths_of_tiles_with_other_uses_are_padded() {
    for body in [
        "acc = for t in 0..cdiv(keys, 64) carry x = none {
            tk = load gk[t*64, 0] : f16[64, D]
            s = mma zero, tq, trans(tk)
            yield mma x, cast(s * 0.125, f16), tk
        }",
        "acc = for t in 0..cdiv(keys, 64) carry x = cast(tq, f32) {
            tk = load gk[t*64, 0] : f16[64, D]
            s = mma zero, tq, trans(tk)
            yield mma x, cast(s * 0.125, f16), tk
        }",
        "acc = for t in 0..cdiv(keys, 64) carry x = none {
            s = mma zero, tq, trans(load gk[t*64, 0] : f16[64, D])
            u = mma s, tq, trans(load gk[64, 0] : f16[64, D])
            yield x + cast(tq, f32) + expand_dims(reduce_max(u, 1), 1)
        }",
    ] {
        assert!(loads(&scores(body)) > 0, "{body}");
    }
}
