//! The work of a launch: operations, bytes, and the interpreter's effort.

use super::{Sizes, Validation};
use crate::bench::{Peak, Work};
use warplift::problem::{elements, evaluate, multiplications, operand_bits, total, traffic, visit};
use warplift_ir::tile::{Inst, Kernel, Op};

/// Work of one launch: operations of the product, or of all products on whole tiles and one an
/// element of every other result; each input read once, each output written once.
pub fn work(validation: &Validation<'_>) -> Work {
    let blocks: f64 = validation
        .resolved
        .grid
        .iter()
        .filter_map(|&v| evaluate(&validation.resolved, v, &validation.sizes))
        .map(|v| v as f64)
        .product();
    let flops = match &validation.product {
        Some(p) => p.problem.flops(),
        None => 2.0 * blocks * total(&validation.resolved, &validation.sizes, multiplications),
    };
    let bytes = traffic(&validation.operands);
    let label = format!("{} {}", validation.kernel.name, validation.sizes);
    Work { label, flops, bytes, peak: Peak::h200_dense(operand_bits(&validation.resolved)) }
}

/// The interpreter's effort for one block, in multiplications.
pub(super) fn block_cost(kernel: &Kernel, sizes: &Sizes) -> f64 {
    total(kernel, sizes, |k, i| multiplications(k, i) + 4.0 * elements(k, i))
}

/// The longest sum of a kernel: of a product, a reduction or a scan.
pub(super) fn longest_sum(kernel: &Kernel, sizes: &Sizes) -> f64 {
    longest(kernel, sizes, |inst| match kernel.insts[inst].op {
        Op::Reduce(_, d) | Op::Scan(_, d) => Some((0, d.into())),
        _ => product_depth(kernel, inst),
    })
}

/// The longest sum of products.
pub(super) fn longest_product(kernel: &Kernel, sizes: &Sizes) -> f64 {
    longest(kernel, sizes, |inst| product_depth(kernel, inst))
}

/// The operand of a product, and its dimension, along which it adds.
fn product_depth(kernel: &Kernel, inst: Inst) -> Option<(usize, usize)> {
    matches!(kernel.insts[inst].op, Op::Mma { .. }).then_some((1, 1))
}

/// The most terms of the sums that instructions make in all their trips; `along`: operand and dimension.
fn longest(kernel: &Kernel, sizes: &Sizes, along: impl Fn(Inst) -> Option<(usize, usize)>) -> f64 {
    let mut longest: f64 = 1.0;
    visit(kernel, sizes, &mut |inst, trips| {
        let extent = |(n, d): (usize, usize)| {
            kernel.ty(kernel.args(inst)[n]).shape().and_then(|s| s.extents()?.get(d).copied())
        };
        longest = longest.max(trips * f64::from(along(inst).and_then(extent).unwrap_or(0)));
    });
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift::kernels::find;

    fn with<T>(name: &str, sizes: &str, act: impl Fn(&Validation<'_>) -> T) -> T {
        let module = find(name).unwrap().parse().unwrap();
        let kernel = &module.kernels[0];
        let sizes = Sizes::parse(kernel, sizes).unwrap();
        act(&Validation::new(kernel, &module.mappings[0], sizes).unwrap())
    }

    #[test]
    fn operations_and_bytes_are_counted() {
        let gemm = with("gemm", "1000x1000x1000", work);
        assert_eq!((gemm.flops, gemm.bytes), (2e9, 6e6));
        let dual = with("gemm_dual", "1024x1024x1024", work);
        assert!((dual.flops / (4.0 * 1024f64.powi(3)) - 1.0).abs() < 0.01, "{}", dual.flops);
        let axpy = with("axpy", "n=8192", work);
        assert_eq!(axpy.bytes, 3.0 * 4.0 * 8192.0, "y is read and written");
    }

    #[test]
    fn sums_are_as_long_as_the_loop() {
        assert_eq!(with("gemm", "64x64x1024", |t| longest_sum(&t.resolved, &t.sizes)), 1024.0);
        assert_eq!(with("row_sum", "64x2000", |t| longest_sum(&t.resolved, &t.sizes)), 2048.0);
        assert_eq!(with("axpy", "n=100", |t| longest_sum(&t.resolved, &t.sizes)), 1.0);
    }
}
