//! What a view says of its elements: rows that overlap, what lies outside, elements of 64 bits.

use warplift_golden::given::check;

/// Rows of a view that begin eight elements apart share elements, which other threads touch in the next iteration.
#[test]
fn accesses_of_rows_that_overlap_are_ordered() {
    let text = |accesses: &str| {
        format!(
            "kernel k(y: ptr<f32>, n: i32) {{
                grid 1
                all = view y : f32[8, n] strides [8, 1]
                for t in 0..6 {{
                    row = subview all[t, _]
                    at = iota 0 : i32[128]
                    {accesses}
                }}
            }}
            mapping k {{ kernel: warps 4 }}"
        )
    };
    for accesses in [
        "v = load row[at] : f32[128] where at % 3 != 1  store row[at], v + 1.0 where at != 5",
        "v = load all[t, 0] : f32[1, 128]  store all[t, 0], v + 1.0",
        "v = load row[0] : f32[128]  store row[0], v + 1.0",
    ] {
        check(&text(accesses), &[("n", 130)], &[]);
    }
}

/// The negative zero is no zero that copies and guarded loads give.
#[test]
fn a_negative_zero_fills_what_lies_outside() {
    for elem in ["f32", "f16", "bf16"] {
        let text = format!(
            "kernel k(x: ptr<{elem}> align 16, y: ptr<{elem}> align 16, z: ptr<{elem}> align 16, m: i32 % 8) {{
                grid 2
                gx = view x : {elem}[m] fill -0.0
                gy = view y : {elem}[2, 256]
                gz = view z : {elem}[2, 32]
                i = block_index
                store gy[i, 0], expand_dims(load gx[i*256] : {elem}[256], 0)
                store gz[i, 0], full (load gx[i - 1] : {elem}) : {elem}[1, 32]
            }}
            mapping k {{ kernel: warps 4 }}"
        );
        check(&text, &[("m", 264)], &[]);
    }
}

/// Long tiles of 64 bits are stored whole: no part of one is taken.
#[test]
fn stores_of_long_integers_are_not_cut() {
    let text = "kernel k(x: ptr<i64>, y: ptr<i64>, m: i32, n: i32) {
        grid cdiv(m, 8)
        gx = view x : i64[m, n]
        gy = view y : i64[m, n]
        i = block_index
        v = load gx[i*8, 4] : i64[8, 256]
        store gy[i*8, 3], v + v
        store gx[i*8, 0], v + 1
    }
    mapping k { kernel: warps 2 }";
    check(text, &[("m", 9), ("n", 300)], &[]);
}
