//! Scalars of 64 bits whose operations no row computes, and promises about them. Against the interpreter, under many orders
//! of events.

use warplift_golden::given::{Given, check};

/// Numbers of every length, with a sign and without, none of them 0.
fn numbers() -> Vec<i64> {
    let edges = [1, 7, 4096, 0xffff_ffff, 0x1_0000_0000, 0x1_0000_0001, 5_000_000_019, i64::MAX, 1 << 62];
    edges.into_iter().flat_map(|n| [n, -n]).chain([i64::MIN, -1]).collect()
}

/// One operation of a block's scalars, by all pairs of numbers.
fn text(ty: &str, given: &str) -> String {
    format!(
        "kernel pairs(x: ptr<{ty}>, y: ptr<{ty}>, z: ptr<{ty}>, n: i32) {{
        grid n, n
        gx = view x : {ty}[n]
        gy = view y : {ty}[n]
        gz = view z : {ty}[n, n]
        i, j = block_index
        a = load gx[i] : {ty}
        b = load gy[j] : {ty}
        store gz[i, j], {given}
    }}
    mapping pairs {{ kernel: warps 1 }}"
    )
}

#[test]
fn what_no_row_computes() {
    let all = numbers();
    let given = || [("x", Given::I64(&all)), ("y", Given::I64(&all))];
    for ty in ["i64", "u64"] {
        for operation in [
            "a / b",
            "a % b",
            "cdiv(a, b)",
            "a & b | a ^ b",
            "a << (b & 63)",
            "a >> (b & 63)",
            "mulhi(a, b)",
            "not(a)",
            "a / 4096 + b % 4096",
            "a / 3 + b % 5000000019",
            "(a & 4294967295) / 3 + a / 1",
        ] {
            check(&text(ty, operation), &[("n", all.len() as i64)], &given());
        }
    }
    check(&text("i64", "neg(a) / b + abs(a)"), &[("n", all.len() as i64)], &given());
}

/// Words whose sum needs a bit more, and divisors of either sign.
#[test]
fn words_are_divided_up() {
    let edges = [1, 2, 7, 4096, 0x4000_0001, i32::MAX - 1, i32::MAX];
    let all: Vec<i32> = edges.into_iter().flat_map(|n| [n, -n - 1]).collect();
    for ty in ["i32", "u32"] {
        let given = [("x", Given::I32(&all)), ("y", Given::I32(&all))];
        check(&text(ty, "cdiv(a, b)"), &[("n", all.len() as i64)], &given);
    }
}

/// Places in an array by quotients, where a promise says that they fit a word: one division of words.
#[test]
fn promised_numbers_divide_as_words() {
    let text = "kernel places(x: ptr<i64>, y: ptr<f32>, z: ptr<f32>, n: i32, rows: i32, d: i32 in 1..) {
        grid n
        gx = view x : i64[n]
        gy = view y : f32[rows, d]
        gz = view z : f32[n]
        i = block_index
        v = load gx[i] : i64
        at = assume v in 0..4000000000
        wide = cast(d, i64)
        store gz[i], load gy[at / wide, at % wide] : f32
    }
    mapping places { kernel: warps 1 }";
    let at: Vec<i64> = (0..40).map(|i| if i % 9 == 8 { 3_999_999_999 } else { i * 37 % 100 }).collect();
    let made = check(text, &[("n", 40), ("rows", 20), ("d", 5)], &[("x", Given::I64(&at))]);
    assert!(made.ptx.contains("div.u32") && !made.ptx.contains("clz"), "{}", made.ptx);
    assert!(made.ptx.matches("div.u32").count() == 1, "{}", made.ptx);
}

/// A promise about 64 bits makes vectors of loads that begin there.
#[test]
fn promised_multiples_give_vectors() {
    let text = "kernel rows(x: ptr<f32> align 16, off: ptr<i64>, y: ptr<f32> align 16, n: i32, m: i32 % 4) {
        grid n
        gx = view x : f32[m]
        go = view off : i64[n]
        gy = view y : f32[n, 256]
        i = block_index
        v = load go[i] : i64
        PROMISE
        store gy[i, 0], reshape (load gx[at] : f32[256]) : f32[1, 256]
    }
    mapping rows { kernel: warps 1 }";
    let off: Vec<i64> = (0..7).map(|i| i * 124).chain([5_000_000_000, 9996]).collect();
    let sizes = [("n", 9), ("m", 1000)];
    let vector = "ld.global.v4";
    for (promise, expected) in [("at = assume v % 4 in 0..", true), ("at = v + 0", false)] {
        let made = check(&text.replace("PROMISE", promise), &sizes, &[("off", Given::I64(&off))]);
        assert_eq!(made.ptx.contains(vector), expected, "{promise}: {}", made.ptx);
    }
}

/// Positions and lengths of 64 bits as floats: rounded once.
#[test]
fn long_scalars_become_floats() {
    let all: Vec<i64> = numbers().into_iter().chain([0, (1 << 24) + 1, (1 << 53) + (1 << 29) + 1]).collect();
    for ty in ["i64", "u64"] {
        let text = text(ty, "cast(a, f32)")
            .replace("z: ptr<i64>", "z: ptr<f32>")
            .replace("z: ptr<u64>", "z: ptr<f32>");
        let text = text.replace(&format!("gz = view z : {ty}"), "gz = view z : f32");
        let given = [("x", Given::I64(&all)), ("y", Given::I64(&all))];
        check(&text, &[("n", all.len() as i64)], &given);
    }
}
