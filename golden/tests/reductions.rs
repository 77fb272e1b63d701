//! Reductions of integers over a whole warp take one instruction, of any number of rows. Against the interpreter, under many orders
//! of events, with numbers of either sign and at the ends of their range.

use warplift_golden::given::{Given, check};

/// Rows of 256 in one warp, columns of 64 rows over warps, and both.
fn text(ty: &str, op: &str, warps: u32) -> String {
    format!(
        "kernel reduced(x: ptr<{ty}> align 16, y: ptr<{ty}>, z: ptr<{ty}>, w: ptr<{ty}>, m: i32) {{
        tunable BM = 8
        grid cdiv(m, BM)
        gx = view x : {ty}[m, 256]
        gy = view y : {ty}[m]
        gz = view z : {ty}[cdiv(m, BM), 256]
        gw = view w : {ty}[cdiv(m, BM)]
        i = block_index
        t = load gx[i*BM, 0] : {ty}[BM, 256]
        rows = reduce_{op}(t, 1)
        store gy[i*BM], rows
        store gz[i, 0], expand_dims(reduce_{op}(t, 0), 0)
        store gw[i], reduce_{op}(rows, 0)
    }}
    mapping reduced {{ kernel: warps {warps} }}"
    )
}

/// Numbers of which some rows are equal, some have an end of the range, and some only negative ones.
fn numbers(m: i32) -> Vec<i32> {
    let of = |i: i32, j: i32| match i % 4 {
        0 => -5,
        1 if j == 77 => [i32::MIN, i32::MAX, -1][i as usize / 4 % 3],
        2 => -1 - (i * 7919 + j * 104_729) % 1_000_003,
        _ => (i * 31 + j * 17) % 1000 - 500,
    };
    (0..m).flat_map(|i| (0..256).map(move |j| of(i, j))).collect()
}

#[test]
fn integers_of_a_warp() {
    let x = numbers(19);
    for ty in ["i32", "u32"] {
        for op in ["sum", "min", "max", "and", "or", "xor"] {
            for warps in [1, 4] {
                let made = check(&text(ty, op, warps), &[("m", 19)], &[("x", Given::I32(&x))]);
                let one = made.ptx.contains("redux.sync");
                assert_eq!(one, op != "xor", "{ty} {op} {warps}: {}", made.ptx);
            }
        }
    }
}

/// Whether any lane is open, and which is the first: a branch of all threads.
#[test]
fn truth_of_a_warp() {
    let text = "kernel first(x: ptr<i32> align 16, y: ptr<i32>, m: i32) {
        grid m
        gx = view x : i32[m, 256] fill -1
        gy = view y : i32[m]
        i = block_index
        t = reshape (load gx[i, 0] : i32[1, 256]) : i32[256]
        if reduce_or(t > 480, 0) & !reduce_and(t == -5, 0) {
            store gy[i], argmax(t, 0)
        } else {
            store gy[i], -1 - argmin(t, 0)
        }
    }
    mapping first { kernel: warps 1 }";
    let made = check(text, &[("m", 19)], &[("x", Given::I32(&numbers(19)))]);
    assert!(made.ptx.contains("redux.sync.or") && made.ptx.contains("redux.sync.max"), "{}", made.ptx);
}
