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

/// A causal tile costs more the further down it stands, so the last blocks are walked too.
#[test]
fn blocks_that_differ_are_walked_one_by_one() {
    let text = "kernel sums(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 in 1..=65536 % 64) {
            tunable B = 64
            grid cdiv(n, B)
            gx = view x : f32[n, n]
            gy = view y : f32[n]
            i = block_index
            zero = full 0.0 : f32[B, B]
            s = for t in 0..i+1 carry c = zero {
                v = load gx[i*B, t*B] : f32[B, B]
                d = c + v
                yield d
            }
            r = reduce_sum(s, 1)
            store gy[i*B], r
        }
        mapping sums { B = 64 kernel: warps 4 }";
    let module = parse_file(text, "sums.tile").unwrap_or_else(|e| panic!("{e}"));
    let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
    let of = |n: i64| {
        let sizes = Sizes::parse(kernel, &format!("n={n}")).unwrap();
        predict(kernel, mapping, &SM90A, &sizes, &Default::default()).unwrap_or_else(|e| panic!("{e}"))
    };
    let (one, many) = (of(64), of(4096));
    assert_eq!(one.walked, 1);
    assert!(many.walked > 2, "{many}");
    assert!(many.cycles > 4.0 * one.cycles, "the last block has 64 trips, the first one: {one} {many}");
}
