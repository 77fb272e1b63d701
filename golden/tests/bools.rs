//! Truth values in memory: any byte but 0 is true, and true is stored as 1. Against the interpreter, under eight orders.

use warplift_golden::given::{Given, check, made, parsed, problem};
use warplift_golden::orders::{MANY_ORDERS, right};

/// Bytes that are true and false in turns, of all values.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| [0, 1, 255, 0, 2, 128, 0, 0, 64, 1][i % 10]).collect()
}

const MASKS: &str =
    "kernel masks(m: ptr<bool> WORDS, x: ptr<f32> align 16, y: ptr<f32> align 16, c: ptr<bool> WORDS,
        any: ptr<bool>, rows: i32, n: i32 FACT) {
        tunable BM = 4, BN = 64
        grid cdiv(rows, BM)
        gm = view m : bool[rows, n]
        gx = view x : f32[rows, n]
        gy = view y : f32[rows, n]
        gc = view c : bool[rows, n]
        ga = view any : bool[rows, 2]
        i = block_index
        some = full false : bool[BM]
        none = full true : bool[BM]
        found, missing = for t in 0..cdiv(n, BN) carry s = some, e = none {
            b = load gm[i*BM, t*BN] : bool[BM, BN]
            v = load gx[i*BM, t*BN] : f32[BM, BN]
            big = v > 0.0
            store gy[i*BM, t*BN], select(b, v, -1.0)
            store gc[i*BM, t*BN], (b & !big) | (b == big)
            yield s | reduce_or(b, 1), e & (reduce_and(b, 1) != big_row(v))
        }
        store ga[i*BM, 0], expand_dims(found, 1)
        store ga[i*BM, 1], expand_dims(missing, 1)
    }
    mapping masks { kernel: warps WARPS }";

fn masks(words: &str, fact: &str, warps: &str) -> String {
    let function = "fn big_row(v) { yield reduce_or(v > 2.0, 1) }\n";
    let text = MASKS.replace("WORDS", words).replace("FACT", fact).replace("WARPS", warps);
    format!("{function}{text}")
}

/// A fill is `true` or `false` in words, too.
#[test]
fn a_fill_is_a_truth_value() {
    for (fill, of) in [("fill true", 1), ("fill false", 0), ("", 0)] {
        let text = format!(
            "kernel k(x: ptr<bool>, y: ptr<i32>, n: i32) {{ grid 1 gx = view x : bool[n] {fill} gy = view y : i32[64]
                store gy[0], cast(load gx[0] : bool[64], i32) }} mapping k {{ kernel: warps 1 }}"
        );
        let (kernel, _) = parsed(&text);
        assert_eq!(kernel.to_string().contains("fill true"), of == 1, "{kernel}");
        warplift_golden::described::check(&text, &[("n", 10)], &[""]);
    }
}

#[test]
fn masks_are_loaded_and_stored_in_vectors_and_one_by_one() {
    for (words, fact, warps, n) in
        [("align 16", "% 16", "2", 144), ("align 4", "% 4", "1", 68), ("", "", "4", 77)]
    {
        let m = bytes(9 * n);
        let sizes = [("rows", 9), ("n", n as i64)];
        let compiled = check(&masks(words, fact, warps), &sizes, &[("m", Given::Bytes(&m))]);
        assert!(
            n == 77 || compiled.ptx.contains("ld.global.b32") || compiled.ptx.contains("ld.global.v"),
            "{}",
            compiled.ptx
        );
    }
}

/// Flags as conditions, masks by tiles of indices, a fill that is true, constants, all of them in a list.
#[test]
fn flags_decide_and_fills_are_true() {
    let text = "kernel flags(on: ptr<bool>, m: ptr<bool>, at: ptr<i32> align 16, y: ptr<bool> align 16, z: ptr<u8>, rows: i32, n: i32) {
        grid rows
        go = view on : bool[rows]
        gm = view m : bool[n] fill 1.0
        raw = view m : u8[n]
        gi = view at : i32[rows, 64]
        gy = view y : bool[rows, 64]
        gz = view z : u8[rows, 64]
        i = block_index
        own = subview gi[i, _]
        index = load own[0] : i32[64]
        got = load gm[index] : bool[64]
        flag = load go[i] : bool
        next = load go[i + 1] : bool
        r = if flag & !next {
            yield got
        } else if next {
            yield full true : bool[64]
        } else {
            yield load gm[index] : bool[64] where index % 2 == 0
        }
        to = subview gy[i, _]
        store to[63 - iota 0 : i32[64]], r
        rest = subview gz[i, _]
        store rest[0], load raw[index] : u8[64]
    }
    mapping flags { kernel: warps 1 }";
    let m = bytes(50);
    let index: Vec<i32> = (0..6 * 64).map(|i| [i, 49 - i, -1, 50, i32::MAX][i as usize % 5] % 60).collect();
    for on in [[0u8, 1, 2, 0, 0, 255], [1, 1, 1, 0, 1, 0]] {
        let given = [("m", Given::Bytes(&m)), ("at", Given::I32(&index)), ("on", Given::Bytes(&on))];
        check(text, &[("rows", 6), ("n", 50)], &given);
    }
}

/// A mask of attention's kind, staged by tensor copies, and a kernel that only copies truth values.
#[test]
fn truth_values_are_staged_and_copied() {
    let text = "kernel copy(m: ptr<bool> align 16, y: ptr<bool> align 16, rows: i32, n: i32 % 16) {
        tunable BM = 16, BN = 128
        grid cdiv(rows, BM), cdiv(n, BN)
        gm = view m : bool[rows, n]
        gy = view y : bool[rows, n]
        i, j = block_index
        store gy[i*BM, j*BN], load gm[i*BM, j*BN] : bool[BM, BN]
    }
    mapping copy { WORDS kernel: persistent, warps 4 }";
    for words in ["", "array m: staged"] {
        let (kernel, mapping) = parsed(&text.replace("WORDS", words));
        let compiled = made(&kernel, &mapping);
        let m = bytes(40 * 272);
        let problem = problem(&kernel, &mapping, &[("rows", 40), ("n", 272)], &[("m", Given::Bytes(&m))]);
        right(&problem, &compiled, &MANY_ORDERS, (2, 0.0), words);
        let run = problem.simulate(&compiled.ptx, &compiled.manifest, &warplift::sim::Options::default(), 2);
        let (found, _) = run.unwrap_or_else(|e| panic!("{e}"));
        let want: Vec<u8> = m.iter().map(|&b| u8::from(b != 0)).collect();
        assert_eq!(found[1], want, "true is stored as 1");
    }
}

/// Bytes compared with a constant are masks without a conversion: in attention-like scores each column has one, and rows share
/// it. The bytes of random data take all values.
#[test]
fn bytes_that_equal_a_constant_are_masks_without_a_conversion() {
    let cases = [
        ("u8", "(load gm[t*64] : u8[64]) != 0"),
        ("u8", "cast(load gm[t*64] : u8[64], i32) == 3"),
        ("u8", "7.0 != cast(load gm[t*64] : u8[64], f32)"),
        ("i8", "(load gm[t*64] : i8[64]) == -2"),
        ("i8", "cast(load gm[t*64] : i8[64], i32) != -1"),
        ("bool", "load gm[t*64] : bool[64]"),
    ];
    for (elem, mask) in cases {
        let text = masked_product(elem, mask);
        let ptx = warplift_golden::described::check(&text, &[("m", 65), ("n", 80)], &[""]);
        assert!(ptx.contains("prmt.b32") && !ptx.contains("cvt.rn.f32"), "{mask}: {ptx}");
        assert!(!ptx.contains("set.ne.u32"), "{mask}: {ptx}");
    }
}

/// What a byte does not hold is compared as it was.
#[test]
fn other_comparisons_of_bytes_are_right() {
    for (elem, mask) in [
        ("u8", "cast(load gm[t*64] : u8[64], i32) != 300"),
        ("u8", "cast(load gm[t*64] : u8[64], i32) != -1"),
        ("u8", "cast(load gm[t*64] : u8[64], f32) != 0.5"),
        ("i8", "cast(load gm[t*64] : i8[64], i32) == 255"),
        ("u8", "(load gm[t*64] : u8[64]) < 128"),
    ] {
        warplift_golden::described::check(&masked_product(elem, mask), &[("m", 65), ("n", 80)], &[""]);
    }
}

/// Arithmetic gives the NaN of the device, whose bits the host does not have.
#[test]
fn truth_values_that_become_nan_have_its_bits() {
    for value in [
        "(1.0 - cast(c, f32)) * inf",
        "-(cast(c, f32) * inf)",
        "cast(c, f32) - nan",
        "cast(c, f32) * 2.0 - 1.0",
    ] {
        let text = format!(
            "kernel k(q: ptr<i8> align 16, y: ptr<u32> align 16, a: ptr<f16> align 16, z: ptr<f32> align 16, m: i32) {{
                grid cdiv(m, 64)
                gq = view q : i8[m, 64]  gy = view y : u32[m, 64]  ga = view a : f16[m, 64]  gz = view z : f32[m, 64]
                i = block_index
                c = (load gq[i*64, 0] : i8[64, 64]) > 0
                store gy[i*64, 0], view_as({value}, u32)
                t = load ga[i*64, 0] : f16[64, 64]
                store gz[i*64, 0], mma full 0.0 : f32[64, 64], t, trans(t)
            }}
            mapping k {{ kernel: warps 4 }}"
        );
        warplift_golden::described::check(&text, &[("m", 65)], &[""]);
    }
}

/// Sums of products of which a mask of columns chooses.
fn masked_product(elem: &str, mask: &str) -> String {
    format!(
        "kernel k(a: ptr<f16> align 16, b: ptr<f16> align 16, mask: ptr<{elem}> align 16, c: ptr<f32> align 16, m: i32, n: i32 % 16) {{
            grid cdiv(m, 64)
            ga = view a : f16[m, 64]  gb = view b : f16[n, 64]  gm = view mask : {elem}[n]  gc = view c : f32[m]
            i = block_index
            zero = full 0.0 : f32[64, 64]
            ta = load ga[i*64, 0] : f16[64, 64]
            top = for t in 0..cdiv(n, 64) carry x = full -1.0e30 : f32[64] {{
                s = mma zero, ta, trans(load gb[t*64, 0] : f16[64, 64])
                yield max(x, reduce_max(select(expand_dims({mask}, 0), s, -1.0e9), 1))
            }}
            store gc[i*64], top
        }}
        mapping k {{ for t: pipeline 2, producers 1, consumers 1 }}"
    )
}

/// A constant is rounded to the type of the elements beside it, also where they are compared as f32.
#[test]
fn constants_are_rounded_before_they_are_compared() {
    for (ty, constants) in [
        ("f8e4m3", ["1.05", "-0.3", "1000.0"]),
        ("f8e5m2", ["1.1", "-0.3", "1.0"]),
        ("f16", ["1.0001", "-0.1", "2.0"]),
        ("bf16", ["1.001", "-0.1", "2.0"]),
        ("u8", ["1", "200", "0"]),
        ("i8", ["1", "-100", "0"]),
    ] {
        for constant in constants {
            let chosen = ["==", "<", "<=", ">"].map(|c| format!("select(t {c} {constant}, 1.0, 0.0)"));
            let sum = ["1.0", "2.0", "4.0", "8.0"].iter().zip(&chosen).map(|(w, s)| format!("{w} * {s}"));
            let text = format!(
                "kernel k(x: ptr<{ty}> align 16, y: ptr<f32> align 16, n: i32 % 16) {{
                    grid cdiv(n, 128)
                    gx = view x : {ty}[n]  gy = view y : f32[n]
                    i = block_index
                    t = load gx[i*128] : {ty}[128]
                    store gy[i*128], {}
                }}
                mapping k {{ kernel: warps 1 }}",
                sum.collect::<Vec<_>>().join(" + ")
            );
            warplift_golden::described::check(&text, &[("n", 1040)], &[""]);
        }
    }
}
