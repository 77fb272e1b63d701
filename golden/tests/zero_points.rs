//! Zero points of weights of 8 bits and fewer, in the simulator against the interpreter: as they are stored, as constants, and made
//! by one warp for all others.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, parse_file};
use warplift::{Feature, Options, compile};
use warplift_golden::described;
use warplift_golden::given::{self, Given};
use warplift_golden::lowbit::{check, is_helped, mapped, narrow, roles, variant, way, zeros};
use warplift_golden::orders::{ORDERS, right};

#[test]
fn zero_points_of_groups() {
    for ty in ["u8", "f16"] {
        check(&format!("zero points {ty}"), &narrow(&zeros(ty)), [13, 72, 384]);
    }
}

/// Zero points of a few bits share bytes with those of other rows: copies bring them, and threads read each from its byte.
#[test]
fn zero_points_that_share_bytes() {
    for ty in ["u4", "i4", "u2"] {
        let sizes = [("n: i32 % 8", "n: i32 % 64")];
        for (from, to) in [("[BN, GROUP]", "[BN, GROUP]"), ("cast(q, f16)", "cast(cast(q, f32), f16)")] {
            let words = [&zeros(ty)[..], &sizes, &[(from, to)]].concat();
            let both = narrow(&words);
            assert!(way(&both, "20:22").contains("tensor copies"), "{}", way(&both, "20:22"));
            check(&format!("zero points {ty}"), &both, [13, 192, 384]);
        }
    }
}

/// Zero points of a few bits of groups that come several to an iteration are converted together, whichever way they lie.
#[test]
fn zero_points_of_joined_groups() {
    for ty in ["u4", "i4"] {
        let zeros = zeros(ty);
        let depths =
            [("GROUP = 128", "GROUP = 32"), ("n: i32 % 8", "n: i32 % 64"), ("k: i32 % 128", "k: i32 % 2048")];
        let apart = format!("z : {ty}[n, cdiv(k, GROUP)] strides [1, n]");
        let beside = format!("z : {ty}[n, cdiv(k, GROUP)]");
        for lies in [&[][..], &[(apart.as_str(), beside.as_str())]] {
            let words = [&zeros[..], lies, &depths].concat();
            let both = narrow(&words);
            let load = way(&both, "20:22");
            assert!(load.contains("tensor copies"), "{ty} {lies:?}: {load}");
            let compiled = compile(&both.0, &both.1, &SM90A, &Options::default()).unwrap();
            let products = compiled.explained.plan.iter().filter(|line| line.contains(" mma: "));
            let all: Vec<&String> = products.collect();
            assert!(all.iter().any(|line| line.contains("4 times")), "{ty} {lies:?}: {all:?}");
            check(&format!("joined zero points {ty} {lies:?}"), &both, [13, 192, 2048]);
        }
    }
}

#[test]
fn what_operands_are_less_is_multiplied_by_one_warp_for_all() {
    let zeros = zeros("u8");
    let with = |more: &[(&'static str, &'static str)]| narrow(more);
    let zero_point: Feature = "zero-point".parse().expect("a feature");
    let roles: Feature = "warp-specialization".parse().expect("a feature");
    assert!(is_helped(&with(&[]), &[]));
    assert!(!is_helped(&with(&[]), &[zero_point]));
    assert!(is_helped(&narrow(&zeros), &[]));
    // Groups that spare too little, of rows' zero points that a conversion takes along too; elements that wait for memory,
    // types without the numbers, rounded differences.
    assert!(is_helped(&with(&[("GROUP = 128", "GROUP = 64")]), &[]));
    assert!(!is_helped(&with(&[("GROUP = 128", "GROUP = 32")]), &[]));
    assert!(!is_helped(&narrow(&[&zeros[..], &[("GROUP = 128", "GROUP = 64")]].concat()), &[]));
    assert!(!is_helped(&with(&[("ptr<u4>", "ptr<u8>"), (": u4[", ": u8[")]), &[]));
    assert!(!is_helped(&with(&[("- 8.0", "- 7.3")]), &[]));
    // What threads bring nobody makes for all, and where nothing is to be taken away nothing is made.
    assert!(!is_helped(&with(&[("x: ptr<f16> align 16", "x: ptr<f16>")]), &[]));
    assert!(!is_helped(&with(&[(" - 8.0", "")]), &[]));
    let (kernel, _) = variant(&[]);
    let of = |tile, kernel: &Kernel| {
        (kernel.clone(), mapped(kernel, tile, 1, "", "array w: packed array s: staged"))
    };
    assert!(is_helped(&of([64, 8], &kernel), &[]));
    assert!(!is_helped(&of([64, 32], &kernel), &[]));
    assert!(is_helped(&of([64, 8], &variant(&zeros).0), &[]));
    // Nobody makes it for all where there is no producer: then each takes it away by itself.
    let (kernel, mapping) = with(&[]);
    let options = Options { disable: vec![roles], ..Options::default() };
    let compiled = compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{e}"));
    assert!(!compiled.ptx.contains("mma.sync") && compiled.ptx.contains("sub.rn.f16x2"));
}

/// Parts of a group, several atoms of rows, several warpgroups, more slots than helpers and fewer, tiles in turn, sums that
/// something else reads, two products of the same tile: all sums exact.
#[test]
fn sums_apart_from_their_constants() {
    let packed = "array w: packed array s: staged";
    let zeros = zeros("u4");
    for (what, kernel) in [("constant", variant(&[]).0), ("rows", variant(&zeros).0)] {
        for (tile, consumers, chunk, rest) in [
            ([128, 16], 1, "", packed.to_owned()),
            ([128, 16], 2, ", chunk 32", packed.to_owned()),
            ([256, 16], 2, ", chunk 64", format!("{packed} kernel: persistent")),
            ([128, 16], 1, "", format!("{packed} kernel: persistent, raster counter")),
            ([64, 16], 1, ", chunk 16", packed.to_owned()),
        ] {
            for stages in ["2", "5"] {
                let mapping = mapped(&kernel, tile, consumers, chunk, &rest);
                let text = mapping.to_string().replace("pipeline fit", &format!("pipeline {stages}"));
                let mapping = parse_file(&text, "mapping")
                    .unwrap_or_else(|e| panic!("{text}: {e:?}"))
                    .mappings
                    .remove(0);
                let both = (kernel.clone(), mapping);
                assert!(is_helped(&both, &[]), "{what} {text}");
                check(&format!("{what} {text}"), &both, [25, 200, 1152]);
            }
        }
    }
    for (from, to) in [
        ("yield fma(group, cast(scale, f32), sum)", "yield sum + group * 2.0"),
        ("yield fma(group, cast(scale, f32), sum)", "yield fma(group, group, sum)"),
        ("yield fma(group, cast(scale, f32), sum)", "yield fma(cast(scale, f32), group, group)"),
    ] {
        let both = narrow(&[(from, to)]);
        assert!(is_helped(&both, &[]), "{to}");
        check(to, &both, [13, 72, 256]);
    }
}

/// A constant whose differences are exact may have a fraction, also one that no subnormal half holds; fields of any width
/// up to 4 bits lie at the same bits in all rows of half an atom.
#[test]
fn constants_with_fractions_and_narrower_fields() {
    for ty in ["u1", "u2", "i2", "u4", "i4"] {
        for constant in ["0.5", "1.5", "2.0", "0.03125"] {
            let (pointer, view) = (format!("ptr<{ty}>"), format!(": {ty}["));
            let less = format!("- {constant}");
            let words = [("ptr<u4>", pointer.as_str()), (": u4[", &view), ("- 8.0", &less)];
            let both = narrow(&words);
            assert!(is_helped(&both, &[]), "{ty} {less}");
            check(&format!("{ty} {less}"), &both, [13, 72, 384]);
        }
    }
    // 15 - 1/256 has 12 digits.
    assert!(!is_helped(&narrow(&[("- 8.0", "- 0.00390625")]), &[]));
    check("rounded differences", &narrow(&[("- 8.0", "- 0.00390625")]), [13, 72, 384]);
}

#[test]
fn sixteen_tokens_are_the_rows_of_a_helpers_products() {
    let zeros = zeros("u8");
    for words in [&[][..], &zeros] {
        let [_, producer] = roles(&narrow(words));
        assert_eq!(producer.matches("mma.sync").count(), 128 / 16, "{words:?}");
        assert_eq!(producer.matches("st.shared").count(), 2, "{words:?}");
    }
}

/// A token that is no number, at either end of its depth, stays alone: no product multiplies it by the zeros of another token.
#[test]
fn tokens_that_are_no_numbers_spoil_no_others() {
    const NAN: u16 = 0x7e00;
    let packed = "array w: packed array s: staged";
    let zeros = zeros("u8");
    let wide = [("cast(q, f16)", "cast(cast(q, f32), f16)")];
    for (what, words) in [("constant", &[][..]), ("rows", &zeros), ("through f32", &wide)] {
        let (kernel, _) = variant(words);
        for (tile, consumers, chunk, rest) in [
            ([64, 16], 1, "", packed),
            ([128, 16], 2, ", chunk 32", packed),
            ([64, 8], 1, "", packed),
            ([64, 32], 1, "", packed),
            ([64, 16], 1, "", "array s: staged"),
        ] {
            let mapping = mapped(&kernel, tile, consumers, chunk, rest);
            let compiled = given::made(&kernel, &mapping);
            for (m, row) in [(16usize, 0usize), (16, 9), (13, 12), (20, 7)] {
                let mut x: Vec<u16> = (0..m * 256).map(|at| 0x3c00 | ((at % 7) << 7) as u16).collect();
                x[row * 256] = NAN;
                x[row * 256 + 255] = NAN;
                let sizes = [("m", m as i64), ("n", 72), ("k", 256)];
                let problem = given::problem(&kernel, &mapping, &sizes, &[("x", Given::F16(&x))]);
                right(&problem, &compiled, &ORDERS, (2, 0.0), &format!("{what} {tile:?} {rest} {m} {row}"));
            }
        }
    }
}

/// A zero point gets the offset that signed fields have. A bf16 holds both up to 256 only.
#[test]
fn signed_integers_less_wide_zero_points() {
    let all = |ty: &str| match ty {
        "i7" => "ints:-64..64",
        "i4" => "ints:-8..8",
        "u6" => "ints:0..64",
        _ => "ints:0..128",
    };
    for (q, z) in [("i7", "u7"), ("i4", "u7"), ("i7", "i7"), ("u7", "i7"), ("i7", "u6"), ("u7", "u7")] {
        let text = format!(
            "kernel less(w: ptr<{q}> align 16, z: ptr<{z}> align 16, c: ptr<f32> align 16, m: i32) {{
                grid cdiv(m, 64)
                i = block_index
                gw = view w : {q}[m, 128]
                gz = view z : {z}[m, 128]
                gc = view c : f32[m, 128]
                tw = load gw[i*64, 0] : {q}[64, 128]
                tz = load gz[i*64, 0] : {z}[64, 128]
                store gc[i*64, 0], cast(cast(tw, bf16) - cast(tz, bf16), f32)
            }}
            mapping less {{ kernel: warps 4 array w: packed array z: packed }}"
        );
        described::check(&text, &[("m", 128)], &[&format!("w={} z={}", all(q), all(z))]);
    }
}
