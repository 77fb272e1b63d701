//! Groups of weights that share an iteration, as emitted, in the simulator against the interpreter.
//!
//! ```text
//!  4 groups of 32, or 8 of 16: one load of each operand, and the sums in the order of the text
//! ```

use std::collections::BTreeSet;
use warplift_golden::described::check;

/// Weights in groups, 64 rows of them times 16 tokens, with some words replaced.
fn weights(group: u32, words: &[(&str, &str)]) -> String {
    let mut text = "kernel weights(x: ptr<f16> align 16, w: ptr<u4> align 16, s: ptr<f16> align 16, y: ptr<f32> align 16,
        n: i32 % 64, k: i32 % 128) {
        grid cdiv(n, 64)
        gx = view x : f16[16, k]  gw = view w : u4[n, k]  gy = view y : f32[n, 16]
        gs = view s : f16[n, k / GROUP] strides [1, n]
        i = block_index
        zero = full 0.0 : f32[64, 16]
        acc = for t in 0..k / GROUP carry sum = zero {
            q = load gw[i*64, t*GROUP] : u4[64, GROUP]
            tx = load gx[0, t*GROUP] : f16[16, GROUP]
            scale = load gs[i*64, t] : f16[64, 1]
            p = mma zero, cast(q, f16) - 8.0, trans(tx)
            yield fma(p, cast(scale, f32), sum)
        }
        store gy[i*64, 0], acc
    }
    mapping weights { for t: pipeline fit, producers 1, consumers 1 array w: packed }"
        .to_owned();
    for (from, to) in words {
        assert!(text.contains(from), "the text has no `{from}`");
        text = text.replace(from, to);
    }
    text.replace("GROUP", &group.to_string())
}

/// Bytes of a stage of each ring, which have other sizes, together. Results are right in all orders.
fn bytes(text: &str) -> u32 {
    bytes_of(text, &[128, 384, 1024])
}

fn bytes_of(text: &str, depths: &[i64]) -> u32 {
    let mut stages = BTreeSet::new();
    for &k in depths {
        let ptx = check(text, &[("n", 128), ("k", k)], &["x=ints:-3..4"]);
        let lines = ptx.lines().filter(|l| l.contains("expect_tx"));
        stages.extend(lines.filter_map(|l| l.rsplit(' ').next()?.trim_end_matches(';').parse::<u32>().ok()));
    }
    stages.iter().sum()
}

/// A depth that the mapping gives is that of single groups.
const SINGLE: (&str, &str) = ("pipeline fit", "pipeline 2");

#[test]
fn shallow_groups_share_an_iteration() {
    for (group, count) in [(16, 8), (32, 4)] {
        for words in [
            &[][..],
            &[("u4", "f4e2m1"), (" - 8.0", "")],
            &[("u4", "i8"), (" - 8.0", "")],
            &[
                ("s: ptr<f16>", "s: ptr<f32>"),
                ("s : f16", "s : f32"),
                ("gs[i*64, t] : f16", "gs[i*64, t] : f32"),
            ],
            &[("yield fma(p, cast(scale, f32), sum)", "yield sum + p * cast(scale, f32) + cast(t, f32)")],
        ] {
            let single = [words, &[SINGLE]].concat();
            assert_eq!(
                bytes(&weights(group, words)),
                count * bytes(&weights(group, &single)),
                "{group} {words:?}"
            );
        }
    }
}

#[test]
fn other_groups_stay_alone() {
    for (group, words) in [
        (64, vec![]),
        // The number of groups is no multiple of four.
        (32, vec![("k: i32 % 128", "k: i32 % 32")]),
        (32, vec![("0..k / GROUP", "1..k / GROUP")]),
        // Another load would be made for each group.
        (32, vec![("gs[i*64, t]", "gs[i*64, k / GROUP - 1 - t]")]),
        // The right operand is no piece of its rows.
        (32, vec![("gx[0, t*GROUP]", "gx[0, t*16]")]),
    ] {
        let single = [&words[..], &[SINGLE]].concat();
        assert_eq!(bytes(&weights(group, &words)), bytes(&weights(group, &single)), "{group} {words:?}");
    }
}

/// Each column that lies in rows takes the copy engine a line for each row, however few bytes of it are wanted. Two of them are
/// fetched for two groups of 64, and zero points of any type for four of 32.
#[test]
fn zero_points_are_fetched_for_several_groups() {
    let begin = ("i = block_index", "gz = view z : TYPE[n, k / GROUP] i = block_index");
    let load = ("p = mma zero,", "zp = load gz[i*64, t] : TYPE[64, 1]  p = mma zero,");
    for ty in ["u4", "u8", "f16", "f32", "i32"] {
        let [pointer, begin, load] =
            ["s: ptr<f16> align 16, z: ptr<TYPE> align 16", begin.1, load.1].map(|w| w.replace("TYPE", ty));
        let zero = if ty == "f16" { "zp" } else { "cast(zp, f16)" };
        let words = [
            ("s: ptr<f16> align 16", pointer.as_str()),
            ("i = block_index", &begin),
            ("p = mma zero,", &load),
            ("8.0", zero),
            ("k / GROUP] strides [1, n]", "k / GROUP]"),
            ("k: i32 % 128", "k: i32 % 2048"),
        ];
        for (group, count) in [(64, 2), (32, 4)] {
            // Weights and activations of several groups, and as many lines of scales and zero points as for one.
            let [operands, lines] = [(64 * group / 2) + 16 * group * 2, 64 * 16 * 2];
            assert_eq!(bytes_of(&weights(group, &words), &[2048]), count * operands + lines, "{ty} {group}");
        }
    }
}

/// Halves of four groups are 8 bytes of a row: a tensor copy brings the 16 bytes around them.
#[test]
fn halves_of_rows_come_in_boxes() {
    let words = [("k / GROUP] strides [1, n]", "k / GROUP]"), ("k: i32 % 128", "k: i32 % 256")];
    for k in [256, 768, 1024] {
        let ptx = check(&weights(32, &words), &[("n", 128), ("k", k)], &["x=ints:-3..4"]);
        assert!(!ptx.contains("ld.global"), "{ptx}");
    }
}

/// Halves hold weights times scales of few digits, so the sums need no factor. Halves times halves are rounded, and bytes times
/// bytes have 16 digits.
#[test]
fn scales_of_few_digits_go_to_the_weights() {
    let float = [("s: ptr<f16>", "s: ptr<f8e4m3>"), ("s : f16", "s : f8e4m3"), ("t] : f16", "t] : f8e4m3")];
    let byte = [("s: ptr<f16>", "s: ptr<u8>"), ("s : f16", "s : u8"), ("t] : f16", "t] : u8")];
    let blocks = [("u4", "f4e2m1"), (" - 8.0", "")];
    let bf16 = [("x: ptr<f16>", "x: ptr<bf16>"), ("x : f16", "x : bf16"), ("GROUP] : f16", "GROUP] : bf16")];
    let bf16 = [&bf16[..], &[("(q, f16)", "(q, bf16)")]].concat();
    let wide = [("u4", "u8"), (" - 8.0", "")];
    let backwards = [("- 8.0", "- 7.5")];
    for (scaled, words) in [
        (true, [&float[..], &blocks].concat()),
        (true, float.to_vec()),
        (true, [&float[..], &bf16].concat()),
        (true, [&float[..], &bf16, &blocks].concat()),
        (true, [&float[..], &[("fma(p, cast(scale, f32), sum)", "sum + cast(scale, f32) * p")]].concat()),
        (false, blocks.to_vec()),
        (false, [&byte[..], &wide].concat()),
        (false, [&float[..], &backwards].concat()),
    ] {
        let text = weights(16, &words);
        for k in [128, 384] {
            let ptx = check(&text, &[("n", 128), ("k", k)], &["x=ints:-3..4"]);
            assert_eq!(scaled, !ptx.contains("fma.rn.f32"), "{words:?}");
        }
    }
}

/// The same of a right operand, whose columns have the scales.
#[test]
fn right_operands_are_scaled_too() {
    let text = "kernel weights(x: ptr<f16> align 16, w: ptr<f4e2m1> align 16, s: ptr<f8e4m3> align 16, y: ptr<f32> align 16,
        m: i32, n: i32 % 64, k: i32 % 128) {
        grid n / 64, cdiv(m, 64)
        gx = view x : f16[m, k]  gw = view w : f4e2m1[n, k]  gs = view s : f8e4m3[k / 16, n]  gy = view y : f32[m, n]
        i, j = block_index
        acc = for t in 0..k / 16 carry sum = full 0.0 : f32[64, 64] {
            q = cast(load gw[i*64, t*16] : f4e2m1[64, 16], f16)
            scale = load gs[t, i*64] : f8e4m3[1, 64]
            p = mma full 0.0 : f32[64, 64], load gx[j*64, t*16] : f16[64, 16], trans(q)
            yield p * cast(scale, f32) + sum
        }
        store gy[j*64, i*64], acc
    }
    mapping weights { for t: pipeline fit, producers 1, consumers 1 array w: packed }";
    for (m, k) in [(64, 128), (77, 384)] {
        let ptx = check(text, &[("m", m), ("n", 128), ("k", k)], &["x=ints:-3..4"]);
        assert!(!ptx.contains("fma.rn.f32"), "{ptx}");
        // 32 sums a thread are those of the loop alone: weights, activations and scales of eight groups come together.
        assert!(ptx.contains(&format!(", {};", 64 * 64 + 64 * 256 + 64 * 8)), "{ptx}");
    }
}
