//! What stands beside a product: scales of rows that lie row by row, and sums of the operands, as emitted, in the simulator
//! against the interpreter.
//!
//! ```text
//!  wgmma ─ commit ─ ld.shared, selections, sums ─ wait ─ what needs the product
//! ```

use warplift_golden::described::{check, compiled, reference};
use warplift_golden::orders::{ORDERS, right};

/// A block-scaled product of 64 x 64 tiles: a loop, and a scaled sum.
fn scaled(looped: &str, sum: &str, mapping: &str) -> String {
    format!(
        "kernel scaled(a: ptr<f8e4m3> align 16, b: ptr<f8e4m3> align 16, s: ptr<f32> align 16, w: ptr<f32> align 16,
            c: ptr<f32> align 16, m: i32 % 4, n: i32 % 8, k: i32 % 512, low: i32, high: i32) {{
            grid cdiv(m, 64), cdiv(n, 64)
            ga = view a : f8e4m3[m, k]  gb = view b : f8e4m3[n, k]  gc = view c : f32[m, n]
            gs = view s : f32[m, k / 64]  gw = view w : f32[cdiv(n, 64), k / 64]
            i, j = block_index
            acc = for t in {looped} carry x = full 0.0 : f32[64, 64] {{
                ta = load ga[i*64, t*128] : f8e4m3[64, 128]
                tb = load gb[j*64, t*128] : f8e4m3[64, 128]
                p = mma full 0.0 : f32[64, 64], ta, trans(tb)
                yield {sum}
            }}
            store gc[i*64, j*64], acc
        }}
        mapping scaled {{ for t: pipeline 2, producers 1, consumers 1{mapping} }}"
    )
}

const ROW: &str = "load gs[i*64, t] : f32[64, 1]";
const BLOCK: &str = "load gw[j, t] : f32";

/// The loads of global memory that threads make, where results are right in all orders.
fn plain_loads(text: &str, [m, n, k, low, high]: [i64; 5]) -> usize {
    let ptx = check(text, &[("m", m), ("n", n), ("k", k), ("low", low), ("high", high)], &[""]);
    ptx.matches("ld.global").count()
}

#[test]
fn rows_of_scales_come_in_groups() {
    for sum in [
        format!("x + p * (({ROW}) * ({BLOCK}))"),
        format!("x + p * ({BLOCK}) * ({ROW})"),
        format!("x + p * ({ROW})"),
        format!("x + p * ({ROW}) + ({ROW})"),
    ] {
        let text = scaled("0..k / 128", &sum, "");
        for size in [[64, 64, 512, 0, 0], [68, 72, 1536, 0, 0], [4, 8, 0, 0, 0]] {
            assert_eq!(plain_loads(&text, size), 0, "{sum}");
        }
    }
}

/// They are converted for a group at once, where facts allow a tensor copy.
#[test]
fn narrow_scales_come_in_groups() {
    for elem in ["f16", "bf16"] {
        let row = format!("cast(load gs[i*64, t] : {elem}[64, 1], f32)");
        let narrow = |sum: &str, per: i64| {
            scaled("low..high", sum, "")
                .replace("s: ptr<f32>", &format!("s: ptr<{elem}>"))
                .replace("f32[m, k / 64]", &format!("{elem}[m, k / {per}]"))
        };
        for sum in [format!("x + p * ({row} * ({BLOCK}))"), format!("x + p * ({BLOCK}) * ({row} + 1.0)")] {
            for [low, high] in [[0, 8], [1, 7], [3, 3]] {
                let size = [68, 72, 1024, low, high];
                assert_eq!(plain_loads(&narrow(&sum, 64), size), 0, "{sum} {low}..{high}");
                assert!(plain_loads(&narrow(&sum, 128), size) > 0, "{sum} {low}..{high}");
            }
        }
    }
    let blocks = scaled("0..k / 128", &format!("x + p * ({ROW}) * cast(load gw[j, t] : f16, f32)"), "")
        .replace("w: ptr<f32>", "w: ptr<f16>")
        .replace("f32[cdiv(n, 64), k / 64]", "f16[cdiv(n, 64), k / 64]");
    assert_eq!(plain_loads(&blocks, [68, 72, 1536, 0, 0]), 0);
}

/// Bytes stay words: a group is as long as a box, and its iterations shift theirs out.
#[test]
fn bytes_of_scales_come_in_words() {
    let row = "cast(load gs[i*64, t] : u8[64, 1], f32)";
    let bytes = |sum: &str, per: i64| {
        scaled("low..high", sum, "")
            .replace("s: ptr<f32>", "s: ptr<u8>")
            .replace("gs = view s : f32[m, k / 64]", &format!("gs = view s : u8[m, k / {per}]"))
    };
    for sum in [format!("x + p * ({row} * ({BLOCK}))"), format!("x + p * ({row} * 0.5 - 1.0)")] {
        for [low, high] in [[0, 32], [3, 19], [15, 17], [5, 5], [30, 33]] {
            let size = [68, 72, 4096, low, high];
            assert_eq!(plain_loads(&bytes(&sum, 32), size), 0, "{sum} {low}..{high}");
            assert!(plain_loads(&bytes(&sum, 128), size) > 0, "{sum} {low}..{high}");
        }
    }
    let signed = bytes(&format!("x + p * {row}"), 32).replace("u8", "i8");
    assert_eq!(plain_loads(&signed, [68, 72, 1024, 0, 8]), 0, "those with signs come with their neighbours");
}

/// Loads of scales that threads make in the loop itself, and all.
fn loads_inside(text: &str, size: [i64; 3]) -> [usize; 2] {
    let [m, n, k] = size;
    let ptx = check(text, &[("m", m), ("n", n), ("k", k), ("low", 0), ("high", 0)], &[""]);
    let product = ptx.find("wgmma.mma").expect("a product");
    let looped = ptx[..product].rfind(".pragma \"nounroll\"").expect("a loop");
    let end = looped + ptx[looped..].find("bra.uni").expect("its end");
    [&ptx[looped..end], &ptx[..]].map(|p| p.matches("ld.global").count())
}

/// Scales that come one by one are loaded ahead, also around groups of others: no group of iterations begins with a load.
#[test]
fn other_scales_are_loaded_ahead_of_groups() {
    let strided = format!("x + p * ({ROW}) * (load gw[j, t] : f32)");
    let strided = scaled("0..k / 128", &strided, "")
        .replace("f32[cdiv(n, 64), k / 64]", "f32[cdiv(n, 64), k / 64] strides [1, cdiv(n, 64)]");
    let rows = scaled("0..k / 128", &format!("x + p * ({ROW})"), "")
        .replace("m: i32 % 4", "m: i32")
        .replace("f32[m, k / 64]", "f32[m, k / 64] strides [1, m]");
    for (text, ahead, inside) in [(&strided, 2, 1), (&rows, 4, 2)] {
        for size in [[68, 72, 512], [64, 64, 1536], [4, 8, 0]] {
            assert_eq!(loads_inside(text, size), [inside, inside + ahead], "{text}");
        }
    }
}

#[test]
fn groups_may_be_cut_at_both_ends() {
    let text = scaled("low..high", &format!("x + p * (({ROW}) * ({BLOCK}))"), "");
    for [low, high] in [[0, 8], [1, 7], [3, 4], [5, 5], [6, 2], [2, 9]] {
        assert_eq!(plain_loads(&text, [68, 72, 1024, low, high]), 0, "{low}..{high}");
    }
    let two = "load gs[i*64, t*2] : f32[64, 1]";
    let text = scaled("low..high", &format!("x + p * (({two}) * (load gs[i*64, t*2 + 1] : f32[64, 1]))"), "");
    for [low, high] in [[0, 8], [1, 6]] {
        assert_eq!(plain_loads(&text, [68, 72, 1024, low, high]), 0, "{low}..{high}");
    }
}

/// Scales of which an iteration takes another one come with the 16 bytes around them, in each iteration; threads load them where the
/// mapping says so.
#[test]
fn other_scales_come_with_their_neighbours() {
    let every_other = format!("x + p * ({})", ROW.replace("t]", "t / 2]"));
    let backwards = format!("x + p * ({})", ROW.replace("t]", "k / 128 - 1 - t]"));
    for sum in [every_other, backwards] {
        assert_eq!(plain_loads(&scaled("0..k / 128", &sum, ""), [68, 72, 1024, 0, 0]), 0, "{sum}");
    }
    let said = scaled("0..k / 128", &format!("x + p * ({ROW})"), " array s: plain");
    assert!(plain_loads(&said, [68, 72, 1024, 0, 0]) > 0);
}

#[test]
fn parts_of_a_shared_out_loop_have_groups() {
    let text = scaled("0..k / 128", &format!("x + p * (({ROW}) * ({BLOCK}))"), ", split_k 3");
    let (kernel, mapping, made) = compiled(&text);
    for k in [512, 2048] {
        let sizes = [("m", 68), ("n", 72), ("k", k), ("low", 0), ("high", 0)];
        let problem = reference(&kernel, &mapping, &sizes, &[]);
        right(&problem, &made, &ORDERS, (2, 0.0), &format!("k = {k}"));
    }
}

/// Sums over the depth of both operands beside a product that reads them in shared memory.
const SUMS: &str =
    "kernel sums(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, r: ptr<f32> align 16,
    m: i32, n: i32 % 8, k: i32 % 8) {
    grid cdiv(m, 64), cdiv(n, 64)
    ga = view a : f16[m, k]  gb = view b : f16[n, k]  gc = view c : f32[m, n]  gr = view r : f32[m]
    i, j = block_index
    acc, sums = for t in 0..cdiv(k, 64) carry x = full 0.0 : f32[64, 64], s = full 0.0 : f32[64] {
        ta = load ga[i*64, t*64] : f16[64, 64]
        tb = load gb[j*64, t*64] : f16[64, 64]
        yield mma x, ta, trans(tb), s + reduce_sum(cast(ta, f32), 1)
    }
    store gc[i*64, j*64], acc
    if j == 0 {
        store gr[i*64], sums
    }
}
mapping sums { for t: pipeline 3, producers 1, consumers 1, wait 0 }";

/// Threads add up an operand while the tensor cores read it, and wait behind that.
#[test]
fn sums_of_an_operand_stand_under_its_product() {
    for (m, n, k) in [(64, 64, 64), (65, 72, 200), (1, 8, 8)] {
        let ptx = check(SUMS, &[("m", m), ("n", n), ("k", k)], &[""]);
        let from = ptx.find("wgmma.commit_group").expect("a product");
        let until = ptx[from..].find("wgmma.wait_group").expect("a wait");
        let under = &ptx[from..from + until];
        assert!(under.contains("ld.shared") && under.contains("add.f32"), "{under}");
    }
}

/// Reductions of both operands' rows, which the epilogue takes as a column and a row.
fn reduced(left: &str, right: &str) -> String {
    format!(
        "kernel reduced(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f32> align 16, m: i32, n: i32 % 8, k: i32 % 8) {{
            grid cdiv(m, 64), cdiv(n, 128)
            ga = view a : f16[m, k]  gb = view b : f16[n, k]  gc = view c : f32[m, n]
            i, j = block_index
            acc, r, s = for t in 0..cdiv(k, 64) carry x = full 0.0 : f32[64, 128], y = full 0.0 : f32[64], z = full 0.0 : f32[128] {{
                ta = load ga[i*64, t*64] : f16[64, 64]
                tb = load gb[j*128, t*64] : f16[128, 64]
                yield mma x, ta, trans(tb), {left}, {right}
            }}
            store gc[i*64, j*128], acc - expand_dims(r, 1) - s
        }}
        mapping reduced {{ for t: pipeline fit, producers 1, consumers 1 }}"
    )
}

#[test]
fn reductions_of_right_operands_lie_as_threads_read_them() {
    let [sum_a, sum_b] = ["y + reduce_sum(cast(ta, f32), 1)", "z + reduce_sum(cast(tb, f32), 1)"];
    for (left, right) in [
        (sum_a, sum_b),
        ("y", sum_b),
        ("max(y, reduce_max(abs(cast(ta, f32)), 1))", "max(z, reduce_max(cast(tb, f32), 1))"),
        (sum_a, "z * 0.5 + reduce_sum(cast(tb, f32) * cast(tb, f32), 1)"),
    ] {
        let text = reduced(left, right);
        for (m, n, k) in [(64, 128, 64), (65, 136, 200), (1, 8, 8)] {
            check(&text, &[("m", m), ("n", n), ("k", k)], &[""]);
        }
        // Threads that share a column meet once, behind the loop.
        let explained = compiled(&text).2.explained;
        assert!(
            explained.plan.iter().any(|l| l.contains("sums of lanes and warps behind it")),
            "{right}: {:?}",
            explained.plan
        );
    }
}
