use super::*;
use crate::kernels::find;
use warplift_ir::target::SM90A;
use warplift_ir::tile::parse_file;

/// Under the library's first mapping.
fn predicted(name: &str, sizes: &str) -> Prediction {
    mapped(name, &find(name).unwrap().parse().unwrap().mappings[0], sizes)
}

fn mapped(name: &str, mapping: &Mapping, sizes: &str) -> Prediction {
    let module = find(name).unwrap().parse().unwrap();
    let kernel = &module.kernels[0];
    predict(kernel, mapping, &SM90A, &Sizes::parse(kernel, sizes).unwrap(), &Default::default()).unwrap()
}

/// Kernel, sizes, and the cycles that `sm__cycles_active.max` of Nsight Compute counted on an H200, 2026-11-21 to 23.
const MEASURED: &[(&str, &str, f64)] = &[
    ("gemm", "m=2048,n=2048,k=2048", 42_217.0),
    ("gemm", "m=4096,n=4096,k=4096", 272_126.0),
    ("gemm", "m=8192,n=8192,k=1024", 280_748.0),
    ("gemm_nn", "m=4096,n=4096,k=4096", 273_016.0),
    ("gemm_any", "m=1024,n=1024,k=1024", 60_600.0),
    ("gemm_dual", "m=2048,n=2048,k=2048", 77_258.0),
    ("gemm_chain", "m=4096,n=128,k=1024,p=1024", 25_251.0),
    ("gemm_bias_relu_residual", "m=4096,n=4096,k=4096", 306_637.0),
    ("gemm_f32out", "m=4096,n=4096,k=4096", 289_706.0),
    ("axpy", "n=33554432", 193_888.0),
    ("row_max", "m=8192,n=4096", 63_370.0),
    ("row_sum", "m=8192,n=4096", 64_204.0),
    ("attention", "batch=1,heads=16,queries=4096,keys=4096", 324_232.0),
    ("attention", "batch=1,heads=16,queries=16384,keys=16384", 5_024_119.0),
    ("attention_causal", "batch=4,heads=16,length=4096", 691_886.0),
    ("softmax", "m=8192,n=4096", 58_568.0),
    ("softmax_long", "m=1024,n=32768", 81_666.0),
    ("softmax_warp_specialized", "m=512,n=65536", 59_535.0),
    ("layer_norm_warp_specialized", "m=512,n=65536", 68_416.0),
    ("rms_norm", "m=8192,n=4096", 59_830.0),
    ("layer_norm", "m=8192,n=4096", 63_692.0),
    ("transpose", "m=8192,n=4096", 63_193.0),
    ("cumsum", "m=8192,n=2048", 63_318.0),
    ("gemv", "m=8192,n=4096", 36_937.0),
    ("gather_rows", "m=8192,n=4096,p=4096", 117_559.0),
    ("a16w4", "m=16,n=57344,k=8192", 106_432.0),
    ("a16w4_large", "m=4096,n=8192,k=8192", 1_136_144.0),
    ("gemm_split_k", "m=512,n=512,k=16384", 42_917.0),
];

#[test]
fn predictions_are_near_what_was_measured() {
    let mut far = Vec::new();
    for (name, sizes, measured) in MEASURED {
        let ratio = predicted(name, sizes).cycles / measured;
        println!("{name:<26} {sizes:<28} {measured:>9.0} {ratio:.2}");
        if !(0.7..=1.3).contains(&ratio) {
            far.push(format!("{name} {sizes}: {ratio:.2}"));
        }
    }
    assert!(far.is_empty(), "{far:?}");
}

/// Rows of other lengths, under the library's mapping for them: `BN`, sizes, cycles.
const ROWS: &[(&str, i64, &str, f64)] = &[
    ("layer_norm", 8192, "m=4096,n=8192", 61_700.0),
    ("layer_norm", 16384, "m=2048,n=16384", 63_400.0),
    ("layer_norm", 32768, "m=1024,n=32768", 65_800.0),
    ("rms_norm", 32768, "m=1024,n=32768", 62_400.0),
    ("softmax", 16384, "m=2048,n=16384", 60_251.0),
    ("softmax", 32768, "m=1024,n=32768", 63_500.0),
    ("softmax", 65536, "m=512,n=65536", 69_500.0),
];

#[test]
fn rows_of_other_lengths_are_near_what_was_measured() {
    for &(name, columns, sizes, measured) in ROWS {
        let module = find(name).unwrap().parse().unwrap();
        let fits = |m: &&Mapping| m.tunable("BN") == Some(columns);
        let ratio = mapped(name, module.mappings.iter().find(fits).unwrap(), sizes).cycles / measured;
        println!("{name:<26} {sizes:<28} {measured:>9.0} {ratio:.2}");
        assert!((0.7..=1.3).contains(&ratio), "{name} {sizes}: {ratio:.2}");
    }
}

#[test]
fn products_of_warps_are_near_what_was_measured() {
    let text = "mapping gemm { BM = 128, BN = 256, BK = 64 for t: pipeline fit, producers 1 \
                kernel: persistent, raster band_m 16, warps 8, products mma_sync }";
    let mapping = parse_file(text, "mma_sync.tile").unwrap().mappings.remove(0);
    let p = mapped("gemm", &mapping, "m=4096,n=4096,k=4096");
    let ratio = p.cycles / 430_586.0;
    println!("gemm by mma_sync {ratio:.2}");
    assert!((0.7..=1.3).contains(&ratio), "{ratio:.2} {p}");
    assert_eq!(p.taken[0].0, Unit::Tensor, "{p}");
}

#[test]
fn memory_that_far_blocks_share_is_read_again() {
    let text = "mapping gather_rows { BM = 1, BN = 4096, BP = 1024 kernel: warps 4 }";
    let mapping = parse_file(text, "parts.tile").unwrap().mappings.remove(0);
    let of = |rows| mapped("gather_rows", &mapping, &format!("m={rows},n=4096,p=4096"));
    let (few, many) = (of(1024), of(8192));
    assert!(many.memory > 12.0 * few.memory, "x is larger than the L2 only in the second: {few} {many}");
}

#[test]
fn the_fullest_unit_of_a_large_product_is_the_tensor_cores() {
    let p = predicted("gemm", "m=4096,n=4096,k=4096");
    assert_eq!(p.taken[0].0, Unit::Tensor, "{p}");
    assert!(p.taken[0].1 > 0.95 && p.waves == 1 && p.resident == 1, "{p}");
    let p = predicted("axpy", "n=33554432");
    assert!(p.cycles > p.memory && p.memory > p.block, "{p}");
}
