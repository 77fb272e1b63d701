//! Extents that are not known, `?`: no index is compared with them, and what leaves the array is an error that the
//! interpreter and the simulator report.

use warplift::ir::interp::{self, Arg, Memory};
use warplift::ir::tile::{Mapping, parse_file, verify};
use warplift::ir::types::Elem;
use warplift_golden::described::{check, compiled};
use warplift_golden::given::{made, parsed};
use warplift_golden::orders::{FEW_ORDERS, right};
use warplift_lab::validate::{Data, Problem, Reference, Sizes, Style, Validation};

/// Rows of an array whose length nothing says, by numbers from another one.
const ROWS: &str =
    "kernel rows(x: ptr<f16> align 16, ids: ptr<i32>, y: ptr<f16> align 16, m: i32, n: i32 % 8) {
        tunable BM = 16, BN = 64
        grid cdiv(m, BM), cdiv(n, BN)
        gx = view x : f16[?, n]
        gi = view ids : i32[?]
        gy = view y : f16[m, n]
        i, j = block_index
        at = i*BM + iota 0 : i32[BM]
        row = load gi[at] : i32[BM] where at < m
        store gy[i*BM, j*BN], load gx[row, j*BN] : f16[BM, BN]
    }
    mapping rows { kernel: warps 4 }";

#[test]
fn rows_of_an_array_of_any_length() {
    let (kernel, mapping) = parsed(ROWS);
    let sizes = Sizes::of(&kernel, &[("m", 40), ("n", 128)]).unwrap();
    let error = Problem::new(&kernel, &mapping, sizes).unwrap_err().to_string();
    assert!(error.contains("the size of `x` follows from memory"), "{error}");
    let known = ROWS.replace("load gi[at] : i32[BM] where at < m", "load gi[i*BM] : i32[BM]").replace(
        "load gx[row, j*BN] : f16[BM, BN]",
        "load gx[i*BM, j*BN] : f16[BM, BN] where expand_dims(row, 1) > -99",
    );
    let ptx = check(&known, &[("m", 40), ("n", 128)], &[""]);
    let whole = check(&known.replace('?', "m + 8"), &[("m", 40), ("n", 128)], &[""]);
    let compared = |ptx: &str| ptx.matches("setp.lt.u32").count();
    assert!(
        compared(&ptx) < compared(&whole),
        "{} comparisons, {} with bounds",
        compared(&ptx),
        compared(&whole)
    );
}

/// A product whose rows end where the array does.
const PRODUCT: &str = "kernel p(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8) {
        tunable BM = 128, BN = 64, BK = 64
        grid cdiv(m, BM), cdiv(n, BN)
        ga = view a : f16[?, k]
        gb = view b : f16[?, n, k]
        gc = view c : f16[m, n] strides [n, 1]
        i, j = block_index
        w = subview gb[1, _, _]
        zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cdiv(k, BK) carry x = zero {
            y = mma x, (load ga[i*BM, t*BK] : f16[BM, BK]), trans(load w[j*BN, t*BK] : f16[BN, BK])
            yield y
        }
        store gc[i*BM, j*BN], cast(acc, f16)
    }
    mapping p { for t: pipeline 3, producers 1, consumers 2 }";

#[test]
fn tensor_copies_reach_them() {
    let ptx = check(PRODUCT, &[("m", 200), ("n", 64), ("k", 128)], &[""]);
    assert!(ptx.matches("cp.async.bulk.tensor").count() >= 2, "{ptx}");
    let (.., made) = compiled(PRODUCT);
    let manifest = format!("{:?}", made.manifest);
    assert!(manifest.contains("2147483520"), "the map of `a` ends where an index does:\n{manifest}");
}

#[test]
fn arrays_are_as_long_as_the_launch_reaches() {
    let (kernel, mapping) = parsed(PRODUCT);
    let sizes = Sizes::of(&kernel, &[("m", 200), ("n", 64), ("k", 128)]).unwrap();
    let problem = Problem::new(&kernel, &mapping, sizes).unwrap();
    let elements: Vec<u64> = problem.operands.iter().map(|o| o.elements).collect();
    assert_eq!(elements, [256 * 128, 2 * 64 * 128, 200 * 64], "whole tiles of `a`, two matrices of `b`");
}

#[test]
fn what_leaves_the_array_is_an_error() {
    let text = "kernel k(x: ptr<f32>, y: ptr<f32>, at: i32 in -8..64) { grid 1
        gx = view x : f32[?] gy = view y : f32[4]
        store gy[0], load gx[at] : f32[4] }";
    let kernel = parse_file(text, "k.tile").unwrap().kernels.remove(0);
    for (at, right) in [(0, true), (4, true), (5, false), (-1, false)] {
        let mut memory = Memory::new();
        let x = memory.add_values("x", Elem::F32, &[1.0; 8]);
        let y = memory.add_values("y", Elem::F32, &[0.0; 4]);
        let args = [Arg::Ptr(x, 0), Arg::Ptr(y, 0), Arg::Int(at)];
        let run = interp::run(&kernel, &args, &mut memory, &interp::Options::default());
        match run {
            Ok(_) => assert!(right, "{at}"),
            Err(e) => assert!(!right && e.to_string().contains("out of bounds"), "{at}: {e}"),
        }
    }
}

#[test]
fn other_places_are_refused() {
    for (statement, why) in [
        ("g = view x : f32[n, ?]", "`?` is an extent on which no stride depends"),
        ("g = view x : f32[n] t = load g[?] : f32[4]", "`?` is an extent on which no stride depends"),
        ("g = view x : f32[? + 1]", "`?` is an extent on which no stride depends"),
    ] {
        let text = format!("kernel k(x: ptr<f32>, n: i32) {{ grid 1 {statement} }}");
        let kernel = parse_file(&text, "k.tile").unwrap().kernels.remove(0);
        let errors = verify(&kernel).unwrap_err();
        assert!(errors.iter().any(|e| e.to_string().contains(why)), "{statement}: {errors:?}");
    }
    let tile = "kernel k(n: i32) { grid 1 t = full 0.0 : f32[?] }";
    let error = parse_file(tile, "k.tile").unwrap_err().to_string();
    assert!(error.contains("an extent is a number or one or two tunables"), "{error}");
    let strided = "kernel k(x: ptr<f32>, n: i32) { grid 1 g = view x : f32[n, ?] strides [1, n] }";
    let kernel = parse_file(strided, "k.tile").unwrap().kernels.remove(0);
    assert!(kernel.to_string().contains("unbounded") && verify(&kernel).is_ok(), "{kernel}");
}

/// Nobody packs an array without an end.
#[test]
fn such_an_array_is_not_packed() {
    let text = "kernel k(w: ptr<u4> align 16, x: ptr<f16> align 16, y: ptr<f16> align 16, n: i32 % 64, k: i32 % 64) {
        grid cdiv(n, 64)
        gw = view w : u4[?, k] gx = view x : f16[64, k] gy = view y : f16[64, n]
        j = block_index
        zero = full 0.0 : f32[64, 64]
        acc = for t in 0..cdiv(k, 64) carry s = zero {
            tw = load gw[j*64, t*64] : u4[64, 64]
            yield mma s, (load gx[0, t*64] : f16[64, 64]), trans(cast(tw, f16))
        }
        store gy[0, j*64], cast(acc, f16) }
        mapping k { for t: pipeline 2, producers 1, consumers 1 array w: packed }";
    let (kernel, mapping): (_, Mapping) = parsed(text);
    let made =
        warplift::compile(&kernel, &mapping, &warplift::ir::target::SM90A, &warplift::Options::default());
    let why = made.map_or_else(|e| e.to_string(), |_| "it compiles".to_owned());
    assert!(why.contains("its view has none that is `?`"), "{why}");
}

/// Masks at an end that is not known stay, and nothing is loaded ahead past it: neither the next tile of a persistent
/// kernel, nor scales of the next iterations, nor what a part of the view reaches.
#[test]
fn nothing_is_accessed_past_their_ends() {
    let copied = |open: &str, access: &str, mapping: &str| {
        format!(
            "kernel q(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32) {{
                grid cdiv(m, 64)
                gx = view x : f32[{open}]
                gy = view y : f32[m]
                i = block_index
                at = i*64 - 8 + iota 0 : i32[64]
                row = subview gx[{}]
                {access}
            }}
            mapping q {{ kernel: {mapping}warps 1 }}",
            if open == "?" { "_" } else { "1, _" }
        )
    };
    let masked = "store gy[i*64], load gx[at] : f32[64] where at >= 0";
    let scattered = "store gy[i*64], full 0.0 : f32[64]
        store gx[at], full 2.0 : f32[64] where at >= 0";
    for (open, access, elements) in [
        ("?", masked, 56),
        ("?", scattered, 56),
        ("?", "store gy[i*64], (load gx[i*64] : f32[64]) + 1.0", 64),
        ("?, m", "store gy[i*64], load row[i*64] : f32[64]", 128),
    ] {
        for mapping in ["", "persistent, "] {
            ends_at(&copied(open, access, mapping), &[("m", 64)], ("x", elements));
        }
    }
    let scaled =
        "kernel s(a: ptr<f16> align 16, w: ptr<f32> align 16, c: ptr<f32> align 16, m: i32, k: i32 % 64) {
        grid cdiv(m, 64)
        ga = view a : f16[m, k]
        gw = view w : f32[?]
        gc = view c : f32[m, 64]
        i = block_index
        zero = full 0.0 : f32[64, 64]
        acc = for t in 0..cdiv(k, 64) carry x = zero {
            ta = load ga[i*64, t*64] : f16[64, 64]
            yield x + mma(zero, ta, trans(ta)) * (load gw[t] : f32)
        }
        store gc[i*64, 0], acc
    }
    mapping s { for t: pipeline 2, producers 1, consumers 1 }";
    ends_at(scaled, &[("m", 64), ("k", 128)], ("w", 2));
}

/// Runs a text on an array that is as long as what its views may touch.
fn ends_at(text: &str, sizes: &[(&str, i64)], (name, elements): (&str, u64)) {
    let (kernel, mapping) = parsed(text);
    let sizes = Sizes::of(&kernel, sizes).expect("sizes");
    let mut validation = Validation::open(&kernel, &mapping, sizes).expect("a problem");
    for operand in validation.operands.iter_mut().filter(|o| o.name == name) {
        (operand.elements, operand.from_memory) = (elements, None);
    }
    let data = Data::new(&validation.operands, Style::Integers, 7);
    let problem = Reference::of(validation, data).unwrap_or_else(|e| panic!("{text}: {e}"));
    right(&problem, &made(&kernel, &mapping), &FEW_ORDERS, (2, 0.0), text);
}
