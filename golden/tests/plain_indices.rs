//! Accesses by tiles of indices that count up from a scalar, in several wordings, and by others that do not: as emitted, in the
//! simulator against the interpreter under all orders.

use warplift_golden::described::check;

const SIZES: [(&str, i64); 2] = [("n", 1000), ("m", 5)];

/// Doubles rows of an array, block by block of 256 elements, by these indices.
fn rows(declared: &str, load: &str, store: &str) -> String {
    format!(
        "kernel rows(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32, n: i32 % 4) {{
            grid m
            gx = view x : f32[m, n]  gy = view y : f32[m, n]
            i = block_index
            for t in 0..cdiv(n, 256) {{
                {declared}
                v = load gx[i, {load}
                store gy[i, {store}
            }}
        }}
        mapping rows {{ kernel: warps 2 }}"
    )
}

/// Loads and stores of four elements, and barriers.
fn found(text: &str) -> [usize; 3] {
    let ptx = check(text, &SIZES, &[""]);
    ["ld.global.v4", "st.global.v4", "bar.sync"].map(|what| ptx.matches(what).count())
}

#[test]
fn what_counts_up_is_loaded_in_vectors() {
    let plain = found(&rows("", "t*256] : f32[1, 256]", "t*256], v * 2.0"));
    assert!(plain[0] > 0 && plain[1] > 0 && plain[2] == 0, "{plain:?}");
    for declared in [
        "o = t*256 + iota 1 : i32[1, 256]",
        "o = (iota 1 : i32[1, 256]) + (t + 1)*256 - 256",
        "o = expand_dims((iota 0 : i32[256]) + t*256, 0)",
        "o = reshape ((iota 0 : i32[256]) + t*256) : i32[1, 256]",
        "u = iota 0 : i32[256]  o = expand_dims(u + (full t : i32[256]) * 256, 0)",
        "o = cast(iota 1 : i32[1, 256], i64) + cast(t, i64) * 256",
    ] {
        let mask = if declared.contains("i64") { "where o < cast(n, i64)" } else { "where o < n" };
        let text = rows(declared, "o] : f32[1, 256]", "o], v * 2.0");
        assert_eq!(found(&text)[..2], plain[..2], "{declared}");
        let text = rows(declared, &format!("o] : f32[1, 256] {mask}"), &format!("o], v * 2.0 {mask}"));
        let got = found(&text);
        let wide = declared.contains("i64");
        assert!(wide || got == plain, "{declared} {mask}");
    }
}

#[test]
fn what_does_not_count_up_stays_a_gather() {
    for declared in [
        "o = (iota 1 : i32[1, 256])*2 + t*256",
        "o = t*256 + 255 - iota 1 : i32[1, 256]",
        "o = min((iota 1 : i32[1, 256]) + t*256, n - 1)",
        "o = ((iota 1 : i32[1, 256]) + t*256) % 512",
        "o = cast((iota 1 : i32[1, 256]) + t*256, i64) * 2",
    ] {
        let text = rows(declared, "o] : f32[1, 256]", "t*256], v * 2.0");
        assert_eq!(found(&text)[0], 0, "{declared}");
    }
}

/// Wherever it begins: before the array, behind it, where sums wrap around, and in the wrong dimension.
#[test]
fn any_first_element_is_right() {
    for first in ["-3", "n - 5", "n + 3", "2147483640", "-2147483648", "t*256 - 7", "i*3 + t*256"] {
        for index in [
            format!("(iota 1 : i32[1, 256]) + ({first})"),
            format!("cast(iota 1 : i32[1, 256], i64) + cast({first}, i64)"),
            format!("cast(iota 1 : i32[1, 256], i64) + cast({first}, i64) * 4294967296"),
            format!("cast((iota 1 : i32[1, 256]) + ({first}), i64)"),
        ] {
            let text = rows(&format!("o = {index}"), "o] : f32[1, 256]", "t*256], v * 2.0");
            check(&text, &SIZES, &[""]);
        }
    }
    let swapped = "kernel swapped(x: ptr<f32>, y: ptr<f32>, m: i32, n: i32) {
        grid 1
        gx = view x : f32[m, n]  gy = view y : f32[64, 64]
        store gy[0, 0], load gx[iota 1 : i32[64, 64], iota 0 : i32[64, 64]] : f32[64, 64]
    }
    mapping swapped { kernel: warps 2 }";
    check(swapped, &[("m", 70), ("n", 50)], &[""]);
}

/// Both operands of a product, and its result, by tiles of indices under masks: tensor copies bring them as without.
#[test]
fn products_by_indices_keep_their_tensor_copies() {
    let text = |a: &str, b: &str, c: &str| {
        format!(
            "kernel masked(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8) {{
                grid cdiv(m, 64), cdiv(n, 64)
                ga = view a : f16[m, k]  gb = view b : f16[n, k]  gc = view c : f16[m, n]
                i, j = block_index
                rm = (iota 0 : i32[64]) + i*64
                rn = (iota 0 : i32[64]) + j*64
                acc = for t in 0..cdiv(k, 64) carry x = full 0.0 : f32[64, 64] {{
                    rk = (iota 0 : i32[64]) + t*64
                    yield mma x, {a}, trans({b})
                }}
                {c}
            }}
            mapping masked {{ for t: pipeline 2, producers 1, consumers 1 }}"
        )
    };
    let copies = |text: &str| {
        let ptx = check(text, &[("m", 70), ("n", 72), ("k", 88)], &[""]);
        ptx.matches("cp.async.bulk.tensor").count()
    };
    let plain = copies(&text(
        "load ga[i*64, t*64] : f16[64, 64]",
        "load gb[j*64, t*64] : f16[64, 64]",
        "store gc[i*64, j*64], cast(acc, f16)",
    ));
    assert!(plain >= 3, "{plain}");
    let inside = |rows: &str, rest: &str| format!("where (expand_dims({rows}, 1) & expand_dims({rest}, 0))");
    let by_indices = text(
        &format!("load ga[rm, rk] : f16[64, 64] {}", inside("rm < m", "rk < k")),
        &format!("load gb[rn, rk] : f16[64, 64] {}", inside("rn < n", "rk < k")),
        &format!("store gc[rm, rn], cast(acc, f16) {}", inside("rm < m", "rn < n")),
    );
    assert_eq!(copies(&by_indices), plain);
}

/// Stores under a mask, and reads of them in other iterations: without a barrier where each thread meets its own elements
/// alone, and with one where it does not.
#[test]
fn masks_and_constant_starts_keep_elements_with_their_threads() {
    let text = |body: &str| {
        format!(
            "kernel own(x: ptr<f32>, s: ptr<i32>, m: i32, n: i32) {{
                grid m
                gx = view x : f32[m, n]
                gs = view s : i32[m]
                i = block_index
                a = load gs[i] : i32
                for t in 0..4 {{
                    o = (iota 1 : i32[1, 128])
                    {body}
                }}
            }}
            mapping own {{ kernel: warps 2 }}"
        )
    };
    let barriers = |body: &str| {
        let ptx = check(&text(body), &SIZES, &["s=ints:-3..9"]);
        ptx.matches("bar.sync").count()
    };
    let add = |at: &str, mask: &str| {
        format!("store gx[i, {at}], (load gx[i, {at}] : f32[1, 128] {mask}) + 1.0 {mask}")
    };
    for at in ["a + t*128", "a + t*256 - 5", "a - t*128", "3 + a*2", "o + a + t*128"] {
        assert_eq!(barriers(&add(at, "where o % 3 == 1")), 0, "{at}");
        assert_eq!(barriers(&add(at, "")), 0, "{at}");
    }
    for at in ["a + t*64", "a*t", "a + t*127", "(load gs[t] : i32) + t*128", "o + t*3"] {
        assert!(barriers(&add(at, "where o % 3 == 1")) > 0, "{at}");
    }
}

/// Blocks of a persistent kernel, loops within loops, and under conditions.
#[test]
fn nested_loops_are_right_under_all_orders() {
    for (a, b) in [("u*32", "t*128"), ("u*128", "t"), ("a", "u*128 + t*128"), ("a + t*128", "u*16")] {
        for words in ["warps 2", "warps 4, persistent"] {
            let text = format!(
                "kernel nested(x: ptr<f32>, s: ptr<i32>, m: i32, n: i32) {{
                grid m
                gx = view x : f32[m, n]
                gs = view s : i32[m]
                i = block_index
                o = (iota 1 : i32[1, 128])
                for u in 0..3 {{
                    a = load gs[u] : i32
                    for t in 0..3 {{
                        at = o + {a} + {b}
                        v = load gx[i, at] : f32[1, 128] where at % 5 != 1
                        if a > t {{ store gx[i, at], v + 1.0 where o != 3 }}
                        store gx[i, {a} + 128 + {b}], v where o > 2
                    }}
                }}
            }}
            mapping nested {{ kernel: {words} }}"
            );
            check(&text, &SIZES, &["s=ints:-3..9", "s=list:128,0,1,64,5"]);
        }
    }
}

/// Values form a graph: an index that adds itself to itself again and again has as many paths as elements of a large array.
#[test]
fn long_chains_of_sums_end() {
    let mut text = "kernel k(x: ptr<f32>, y: ptr<f32>, n: i32) {
        grid 2
        gx = view x : f32[n]
        gy = view y : f32[2, 64]
        i = block_index
        a0 = full i : i32[64]\n"
        .to_owned();
    (1..=40).for_each(|j| text += &format!("a{j} = a{} + a{}\n", j - 1, j - 1));
    text += "store gy[i, 0], expand_dims(load gx[a40 + (iota 0 : i32[64])] : f32[64], 0)\n}\nmapping k { kernel: warps 2 }";
    check(&text, &[("n", 64)], &[""]);
}
