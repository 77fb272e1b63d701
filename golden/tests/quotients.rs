//! Quotients and remainders by constants: compiled without a division, simulated under several orders without hazard, and
//! compared with the interpreter; with divisions where the feature is disabled.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::{Options, compile};
use warplift_golden::described::check;

/// Quotient and remainder of loaded numbers, of numbers of elements, of numbers that wrap, and of a scalar.
const TEXT: &str =
    "kernel divided(x: ptr<i32> align 16, y: ptr<i32> align 16, z: ptr<i32> align 16, n: i32) {
    grid cdiv(n, 256)
    gx = view x : i32[n]
    gy = view y : i32[n]
    gz = view z : i32[n]
    i = block_index
    t = load gx[i*256] : i32[256]
    at = iota 0 : i32[256] + i*256
    far = iota 0 : i32[256] + 2147483600
    store gy[i*256], t / BY + (t % BY) * 3
    store gz[i*256], at / BY * 5 + at % BY + far / BY + far % BY + i / BY + i % BY
}
mapping divided { kernel: warps 4 }";

const BY: [i64; 8] = [2, 3, 7, 8, 12, 641, 1 << 30, 2147483647];
const NEGATIVE: [i64; 3] = [-2, -7, -641];

/// Numbers of either sign, and the ends.
const ALL: [&str; 2] = ["x=ints:-2147483648..2147483647", "x=ints:-20..20"];

fn of(by: i64) -> String {
    TEXT.replace("BY", &format!("({by})"))
}

fn divides(ptx: &str) -> bool {
    ["div.", "rem."].iter().any(|row| ptx.contains(row))
}

#[test]
fn signed_numbers() {
    for by in BY.into_iter().chain(NEGATIVE) {
        let ptx = check(&of(by), &[("n", 1000)], &ALL);
        assert!(!divides(&ptx), "by {by}: {ptx}");
    }
}

/// Every bit of an unsigned number counts.
#[test]
fn unsigned_numbers() {
    let loaded = "load gx[i*256] : i32[256]";
    assert!(TEXT.contains(loaded));
    let text = TEXT.replace(loaded, &format!("cast({loaded}, u32)"));
    let text = text.replace("t / BY + (t % BY) * 3", "cast(t / BY + (t % BY) * 3, i32)");
    for by in BY {
        let ptx = check(&text.replace("BY", &by.to_string()), &[("n", 1000)], &ALL);
        assert!(!divides(&ptx), "by {by}: {ptx}");
    }
}

#[test]
fn divisions_stay_where_the_feature_is_disabled() {
    let module = parse_file(&of(7), "divided.tile").unwrap();
    let disable = vec!["quotients".parse().unwrap()];
    let options = Options { disable, ..Options::default() };
    let ptx = compile(&module.kernels[0], &module.mappings[0], &SM90A, &options).unwrap().ptx;
    assert!(divides(&ptx), "{ptx}");
}

/// Dividends at both ends of their range: the sum with a divisor would wrap.
#[test]
fn quotients_rounded_up_at_the_ends() {
    let text = "kernel ceils(x: ptr<TYPE>, y: ptr<TYPE>, n: i32) {
    grid n
    gx = view x : TYPE[n]
    gy = view y : TYPE[n, 4]
    i = block_index
    v = load gx[i] : TYPE
    store gy[i, 0], cdiv(v, BY)
    store gy[i, 1], cdiv(7, max(v, 1))
    store gy[i, 2], cdiv(min(v, 1000), BY)
    w = assume (v & 1023) in 0..1024
    store gy[i, 3], cdiv(w, BY)
}
mapping ceils { kernel: warps 1 }";
    let near = "2147483647,2147483646,2147483521,2147483520,1073741825,1,0,7,128,129";
    for (ty, more) in
        [("i32", "-2147483648,-2147483647,-129,-1"), ("u32", "4294967295,4294967294,4294967168,2147483648")]
    {
        for by in BY.into_iter().chain([1, 128, (1 << 30) + 1]) {
            let text = text.replace("TYPE", ty).replace("BY", &by.to_string());
            check(&text, &[("n", 14)], &[&format!("x=list:{near},{more}")]);
        }
    }
}
