//! Arithmetic of 64-bit integers in tiles, as emitted, in the simulator against the interpreter, on numbers whose low words
//! carry, whose signs differ, and on the least and the greatest.

use warplift::ir::target::SM90A;
use warplift::{Options, compile};
use warplift_golden::given::{Given, check, parsed};

/// Pairs of numbers: all of some edges, and others.
fn numbers() -> (Vec<i64>, Vec<i64>) {
    let words = [0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000, i64::MIN, i64::MAX];
    let edges = [&[0, 1, -1, 2, 31, 32, 33, 63, 64, 65][..], &words].concat();
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut other = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29) as i64
    };
    (0..256).map(|n| (edges[n / 16], edges[n % 16])).chain((0..256).map(|_| (other(), other()))).unzip()
}

/// Words of what is computed from 512 pairs, in rows of 64. Whole numbers would be compared as floats.
fn text(elem: &str, body: &str) -> String {
    format!(
        "kernel long(px: ptr<{elem}> align 16, py: ptr<{elem}> align 16, low: ptr<u32> align 16, high: ptr<u32> align 16) {{
            grid 1
            gx = view px : {elem}[8, 64]  gy = view py : {elem}[8, 64]
            gl = view low : u32[8, 64]  gh = view high : u32[8, 64]
            x = load gx[0, 0] : {elem}[8, 64]
            y = load gy[0, 0] : {elem}[8, 64]
            z = {body}
            store gl[0, 0], cast(z, u32)
            store gh[0, 0], cast(z >> 32, u32)
        }}
        mapping long {{ kernel: warps 4 }}"
    )
}

fn right(elem: &str, body: &str) {
    let (x, y) = numbers();
    check(&text(elem, body), &[], &[("px", Given::I64(&x)), ("py", Given::I64(&y))]);
}

#[test]
fn arithmetic_of_64_bits() {
    for elem in ["i64", "u64"] {
        for body in
            ["x + y", "x - y", "x * y", "mulhi(x, y)", "min(x, y)", "max(x, y)", "x & y", "x | y", "x ^ y"]
        {
            right(elem, body);
        }
        for body in
            ["!x", "x << y", "x >> y", "x << 7", "x >> 40", "x >> 32", "x + 5000000000", "(x - 1) * y + x"]
        {
            right(elem, body);
        }
    }
    for body in ["-x", "abs(x)", "cast(cast(x, i32), i64) * y", "x - cast(cast(y, u32), i64)"] {
        right("i64", body);
    }
}

#[test]
fn comparisons_of_64_bits() {
    for elem in ["i64", "u64"] {
        for compare in ["<", "<=", ">", ">=", "==", "!="] {
            right(elem, &format!("select(x {compare} y, x, y + 1)"));
        }
    }
}

#[test]
fn what_moves_elements_moves_both_words() {
    for body in [
        "trans(trans(x) + trans(y))",
        "x + expand_dims(reduce_sum(y, 1), 1)",
        "x * expand_dims(reduce_sum(y, 0), 0)",
        "x + full 3 : i64[8, 64]",
        "x + trans(full 5000000000 : i64[64, 8])",
        "gather(x, (iota 0 : i32[8, 64]) ^ 5, 0) - y",
        "select((iota 1 : i32[8, 64]) < 20, x, y)",
        "cast(x < y, i64) * 3 + x",
        "rearrange(x) + y",
        "reshape (reshape (x ^ y) : i64[512]) : i64[8, 64]",
        "gather(x, (iota 1 : i32[8, 64]) ^ 3, 1)",
        "for t in 0..3 carry s = x { yield s * 3 + y }",
        "if 2 > 1 { yield x } else { yield y }",
    ] {
        right("i64", body);
    }
}

/// Divisors that are not 0, of one word and of two, and dividends of all lengths.
#[test]
fn quotients_of_64_bits() {
    for elem in ["i64", "u64"] {
        for op in ["/", "%"] {
            for body in [
                format!("x {op} select(y == 0, 3, y)"),
                format!("x {op} select(y >> 32 == 0, 4294967296, y >> 32)"),
                format!("(x >> 20) {op} max(y & 65535, 1)"),
                format!("x {op} 10"),
                format!("x {op} 4294967296"),
                format!("x {op} 9223372036854775807"),
            ] {
                right(elem, &body);
            }
        }
    }
    right("i64", "x / -1");
    right("i64", "x % select(y > -7, -7, y)");
}

#[test]
fn reductions_and_scans_of_64_bits() {
    for elem in ["i64", "u64"] {
        for op in ["sum", "prod", "min", "max", "and", "or", "xor"] {
            right(elem, &format!("scan_{op}(x ^ y, 1)"));
            right(elem, &format!("x + expand_dims(reduce_{op}(y, 0), 0)"));
        }
        right(elem, "scan_max(x, 0) - scan_min(y, 0)");
        right(elem, &format!("x + reduce_min(reshape y : {elem}[512], 0)"));
        right(elem, &format!("x ^ reduce_prod(reshape y : {elem}[512], 0)"));
    }
}

/// So many elements that sums of halves of words would not fit.
#[test]
fn sums_of_very_many_elements() {
    let text = "kernel many(px: ptr<i64> align 16, low: ptr<u32>) {
            grid 1
            gx = view px : i64[64]  gl = view low : u32[1]
            x = broadcast reshape (load gx[0] : i64[64]) : i64[1, 64] : i64[2048, 64]
            z = reduce_sum(reshape x : i64[131072], 0)
            store gl[0], full cast(z, u32) : u32[1]
        }
        mapping many { kernel: warps 8 }";
    let (kernel, mapping) = parsed(text);
    let made = compile(&kernel, &mapping, &SM90A, &Options::default());
    let why = made.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(!why.contains("of tiles of i64"), "{why}");
}

/// Scalars of two words beside tiles: loaded, computed, arguments, and made full tiles.
#[test]
fn scalars_of_64_bits_beside_tiles() {
    for elem in ["i64", "u64"] {
        let loaded = text(elem, "body")
            .replace("z = body", "m = load gy[3, 5] : ELEM  k = load gx[7, 63] : ELEM  z = body");
        for body in [
            "x + m",
            "m - x",
            "x * m",
            "min(x, m)",
            "select(x < m, x, m)",
            "full m : ELEM[8, 64]",
            "x ^ (m + k)",
            "x + min(m, k)",
            "x + max(m, k)",
            "x + (m - k) * 3",
            "x + select(m < k, m, k)",
            "x + select(m >= k, m, k)",
            "x + reduce_sum(reshape y : ELEM[512], 0)",
            "x / max(m, 1)",
        ] {
            let (x, y) = numbers();
            let text = loaded.replace("z = body", &format!("z = {body}")).replace("ELEM", elem);
            check(&text, &[], &[("px", Given::I64(&x)), ("py", Given::I64(&y))]);
        }
    }
}

/// Masks of keys as frameworks have them: 64-bit numbers come by tensor copies beside the operands.
#[test]
fn masks_of_64_bits_come_by_tensor_copies() {
    for (elem, mask) in [("i64", "x != 0"), ("u64", "x == 1"), ("i64", "x > -2")] {
        let text = format!(
            "kernel masked(a: ptr<f16> align 16, b: ptr<f16> align 16, mask: ptr<{elem}> align 16, c: ptr<f32> align 16,
                           m: i32, n: i32, k: i32 % 8) {{
                grid cdiv(m, 64)
                ga = view a : f16[m, k]  gb = view b : f16[n, k]  gm = view mask : {elem}[n]  gc = view c : f32[m]
                i = block_index
                ta = load ga[i*64, 0] : f16[64, 64]
                low = full -1000.0 : f32[64]
                zero = full 0.0 : f32[64, 64]
                most = for t in 0..cdiv(n, 64) carry m0 = low {{
                    s = mma zero, ta, trans(load gb[t*64, 0] : f16[64, 64])
                    x = load gm[t*64] : {elem}[64]
                    seen = {mask}
                    yield max(m0, reduce_max(select(expand_dims(seen, 0), s, -500.0), 1))
                }}
                store gc[i*64], most
            }}
            mapping masked {{ for t: pipeline 2, producers 1, consumers 1 }}"
        );
        let ptx = warplift_golden::described::check(
            &text,
            &[("m", 70), ("n", 136), ("k", 40)],
            &["mask=ints:0..2", ""],
        );
        let copies = ptx.lines().filter(|l| l.contains("cp.async.bulk.tensor.1d")).count();
        assert_eq!(copies, 1, "{elem} {mask}");
    }
}
