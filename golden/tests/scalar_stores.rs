//! Scalars that are stored: to one element, or to each that tiles of indices and masks name. Against the interpreter, under many
//! orders of events.

use warplift::ir::tile::parse_file;
use warplift_golden::given::{Given, check};

const SIZES: [(&str, i64); 2] = [("n", 37), ("m", 53)];

fn text(ty: &str, statements: &str) -> String {
    format!(
        "kernel scalars(at: ptr<i32>, x: ptr<{ty}>, y: ptr<{ty}>, z: ptr<{ty}>, n: i32, m: i32) {{
        grid n
        ga = view at : i32[n, 16] fill -1
        gx = view x : {ty}[n]
        gy = view y : {ty}[n]
        gz = view z : {ty}[m, 4]
        i = block_index
        v = load gx[i] : {ty}
        place = reshape (load ga[i, 0] : i32[1, 16]) : i32[16]
        {statements}
    }}
    mapping scalars {{ kernel: warps 2 }}"
    )
}

/// Places of which some lie outside, each written by one block.
fn places() -> Vec<i32> {
    (0..37 * 16).map(|p| if p % 16 == 0 && p / 16 < 53 { p / 16 } else { -1 - p % 3 }).collect()
}

#[test]
fn one_element() {
    let at = places();
    for ty in ["f32", "f16", "bf16", "i32", "u32", "i64", "u64"] {
        let one = if ty.starts_with('i') || ty.starts_with('u') { "3" } else { "0.5" };
        let text = text(
            ty,
            &format!("store gy[i], v + {one} store gz[i + 20, 1], {one} store gz[i, 3], v where i % 3 == 1"),
        );
        let made = check(&text, &SIZES, &[("at", Given::I32(&at))]);
        let width = match &ty[ty.len() - 2..] {
            "64" => "st.global.v2",
            "16" => "st.global.u16",
            _ => "st.global.b32",
        };
        assert!(made.ptx.contains(width), "{}", made.ptx);
    }
}

#[test]
fn each_that_indices_name() {
    let at = places();
    for ty in ["f32", "f16", "i32", "i64"] {
        for statements in [
            "store gz[place, 2], v store gy[i], v",
            "store gz[place, 2], 1 where place % 2 == 0",
            "atomic_add gz[place, 1], v",
            "old = atomic_add gz[place, 1], v : TY[16, 1] store gy[i], reduce_sum(reshape old : TY[16], 0)",
        ] {
            let literal = if ty.starts_with('i') { "1" } else { "1.0" };
            let text = text(ty, &statements.replace("], 1 ", &format!("], {literal} ")).replace("TY", ty));
            if !(ty == "f16" && statements.contains("reduce_sum")) {
                check(&text, &SIZES, &[("at", Given::I32(&at))]);
            }
        }
    }
}

/// A histogram: sums of ones, some of them outside.
#[test]
fn counts() {
    let text = text("i32", "atomic_add gz[place % 4 + 1, 2], 1 store gy[i], v");
    let at: Vec<i32> = (0..37 * 16).map(|p| p * 7 % 19 - 4).collect();
    check(&text, &SIZES, &[("at", Given::I32(&at))]);
}

#[test]
fn another_type_is_refused() {
    for (statement, why) in [
        ("store gy[i], i", "f32"),
        ("store gz[place, place, 1], v", "indices"),
        ("store gz[i, 0], full v : f32[4]", "dimensions"),
    ] {
        let error = parse_file(&text("f32", statement), "f.tile").expect_err(statement).to_string();
        assert!(error.contains(why), "{statement}: {error}");
    }
}
