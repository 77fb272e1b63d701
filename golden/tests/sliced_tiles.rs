//! Slices at any offsets, as emitted, in the simulator against the interpreter: along one dimension and two, of parts that do
//! not divide the tile, of all types that a gather takes, and of more than one slice of a tile.

use warplift_golden::described::check;

fn right(elem: &str, whole: [u32; 2], from: [u32; 2], part: [u32; 2]) {
    let ([a, b], [c, d], [f, g]) = (whole, part, from);
    let text = format!(
        "kernel part(x: ptr<{elem}> align 16, y: ptr<{elem}> align 16, m: i32) {{
            grid cdiv(m, {a})
            gx = view x : {elem}[m, {b}]  gy = view y : {elem}[{a}, {d}]
            i = block_index
            t = load gx[i*{a}, 0] : {elem}[{a}, {b}]
            store gy[i*{a}, 0], slice(t, [{f}, {g}]) : {elem}[{c}, {d}]
        }}
        mapping part {{ kernel: warps 4 }}"
    );
    check(&text, &[("m", a.into())], &[""]);
}

#[test]
fn a_slice_begins_anywhere() {
    for from in [0, 1, 3, 8, 17, 24] {
        right("f32", [16, 32], [0, from], [16, 8]);
        right("f16", [16, 32], [from.min(12), 0], [4, 32]);
    }
    right("f32", [16, 32], [0, 8], [16, 16]);
    right("f32", [16, 32], [0, 0], [16, 24]);
    right("i32", [16, 32], [3, 5], [8, 16]);
    right("bf16", [64, 64], [1, 33], [32, 31]);
    right("u32", [16, 32], [15, 31], [1, 1]);
    right("i64", [16, 32], [2, 7], [8, 16]);
    right("i16", [16, 32], [0, 9], [16, 16]);
}

/// A convolution along a row: three slices of one tile, each beside the other.
#[test]
fn slices_of_one_tile_overlap() {
    let text = "kernel stencil(x: ptr<f32> align 16, y: ptr<f32> align 16, m: i32) {
        grid cdiv(m, 8)
        gx = view x : f32[m, 68]  gy = view y : f32[m, 64]
        i = block_index
        t = load gx[i*8, 0] : f32[8, 68]
        a = slice(t, [0, 0]) : f32[8, 64]
        b = slice(t, [0, 2]) : f32[8, 64]
        c = slice(t, [0, 4]) : f32[8, 64]
        store gy[i*8, 0], a - 2.0 * b + c
    }
    mapping stencil { kernel: warps 4 }";
    check(text, &[("m", 20)], &[""]);
}
