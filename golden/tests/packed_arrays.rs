//! Packed arrays with outer dimensions: one of several that a number from memory picks, and what lies outside.

use warplift::compile;
use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift_golden::described::{check, compiled};

/// Weights of which a number from memory picks one of several arrays.
const ONE_OF: &str = "kernel one_of(x: ptr<f16> align 16, w: ptr<u4> align 16, which: ptr<i32>, y: ptr<f32>,
    all: i32, blocks: i32, n: i32 % 8, k: i32 % 64) {
    grid cdiv(n, 64), blocks
    gx = view x : f16[16, k]
    gw = view w : u4[all, n, k]
    gi = view which : i32[blocks] fill -1
    gy = view y : f32[blocks, n, 16]
    i, b = block_index
    at = load gi[b] : i32
    one = subview gw[at, _, _]
    own = subview gy[b, _, _]
    zero = full 0.0 : f32[64, 16]
    sum = for t in 0..cdiv(k, 64) carry s = zero {
        tw = load one[i*64, t*64] : u4[64, 64]
        tx = load gx[0, t*64] : f16[16, 64]
        yield mma s, cast(tw, f16) - 8.0, trans(tx)
    }
    store own[i*64, 0], sum
}
mapping one_of { for t: pipeline 2, producers 1, consumers 1 array w: packed }";

/// Packed arrays have outer dimensions; what lies outside of them is zero, as in any array.
#[test]
fn a_packed_array_is_one_of_several() {
    let sizes = [("all", 3), ("blocks", 5), ("n", 72), ("k", 128)];
    check(ONE_OF, &sizes, &["which=list:0,2,-1,3,1", "which=ints:-2147483648..2147483647"]);
    let (.., made) = compiled(ONE_OF);
    let packing = made.manifest.arguments.iter().find_map(|a| a.packing.clone()).expect("a packed array");
    assert!(packing.zeros && packing.outer.len() == 1, "{packing:?}");
    // Of two outer dimensions, with indices that are known to be inside.
    let two = ONE_OF
        .replace("w : u4[all, n, k]", "w : u4[blocks, 2, n, k]")
        .replace("gw[at, _, _]", "gw[b, 1, _, _]");
    check(&two, &sizes, &["which=list:0,2,-1,3,1"]);
    let (.., made) = compiled(&two);
    let packing = made.manifest.arguments.iter().find_map(|a| a.packing.clone()).expect("a packed array");
    assert!(!packing.zeros && packing.outer.len() == 2, "{packing:?}");
    // Two loads share the packing.
    let twice = ONE_OF.replace(
        "yield mma s, cast(tw, f16) - 8.0, trans(tx)",
        "tv = load one[i*64, max(t - 1, 0)*64] : u4[64, 64]
        s1 = mma s, cast(tw, f16) - 8.0, trans(tx)
        yield mma s1, cast(tv, f16) - 8.0, trans(tx)",
    );
    check(&twice, &sizes, &["which=list:0,2,-1,3,1"]);
}

#[test]
fn packed_arrays_are_zero_outside() {
    let filled = ONE_OF.replace("w : u4[all, n, k]", "w : u4[all, n, k] fill 3.0");
    let module = parse_file(&filled, "f.tile").expect("a kernel");
    let refused = compile(&module.kernels[0], &module.mappings[0], &SM90A, &warplift::Options::default());
    let error = refused.expect_err("a fill").to_string();
    assert!(error.contains("zeros outside"), "{error}");
}

/// A block past the end of a grid of clusters reads zeros for weights that are not there.
#[test]
fn packed_arrays_end_with_the_grid() {
    let clusters = "kernel clusters(x: ptr<bf16> align 16, w: ptr<u4> align 16, y: ptr<f32> align 16, all: i32, m: i32, n: i32 % 4, k: i32 % 128) {
    grid all, cdiv(n, 64), cdiv(m, 16)
    e, i, j = block_index
    gx = view x : bf16[m, k]
    whole = view w : u4[all, n, k]
    gw = subview whole[e, _, _]
    gya = view y : f32[all, n, m]
    gy = subview gya[e, _, _]
    zero = full 0.0 : f32[64, 16]
    acc = for t in 0..cdiv(k, 128) carry sum = zero {
        q = load gw[i*64, t*128] : u4[64, 128]
        tx = load gx[j*16, t*128] : bf16[16, 128]
        yield mma sum, cast(q, bf16), trans(tx)
    }
    store gy[i*64, j*16], acc
}
mapping clusters { for t: pipeline 3, producers 1, consumers 1
 array w: packed
 kernel: cluster 2 }";
    check(clusters, &[("m", 20), ("n", 200), ("k", 256), ("all", 3)], &[""]);
}
