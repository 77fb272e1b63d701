//! How much a launch does: operations, bytes, and what the interpreter would spend.

use super::operands::evaluate;
use super::{Operand, Sizes, Trial};
use crate::bench::{Peak, Work};
use warplift_ir::tile::{Block, Inst, Kernel, Op, Value};

/// Trips assumed for a loop whose range is only known inside the kernel.
const UNKNOWN_TRIPS: f64 = 16.0;

/// Work of one launch: operations of the product, or of all products on whole tiles and one an
/// element of every other result; each input read once, each output written once.
pub fn work(trial: &Trial<'_>) -> Work {
    let blocks: f64 = trial
        .resolved
        .grid
        .iter()
        .filter_map(|&v| evaluate(&trial.resolved, v, &trial.sizes))
        .map(|v| v as f64)
        .product();
    let flops = match &trial.product {
        Some(p) => p.problem.flops(),
        None => 2.0 * blocks * total(&trial.resolved, &trial.sizes, multiplications),
    };
    let moved = |o: &Operand| o.bytes() as f64 * f64::from(u8::from(o.read) + u8::from(o.written));
    let bytes = trial.operands.iter().map(moved).sum();
    let label = format!("{} {}", trial.kernel.name, trial.sizes);
    Work { label, flops, bytes, peak: Peak::h200_dense(operand_bits(&trial.resolved)) }
}

/// Bits of the widest operands that a kernel multiplies on tensor cores; 16 where it has no products.
pub(crate) fn operand_bits(kernel: &Kernel) -> u32 {
    let products = kernel.insts.keys().filter(|&i| matches!(kernel.insts[i].op, Op::Mma));
    products.map(|i| kernel.ty(kernel.args(i)[1]).elem().bits()).max().unwrap_or(16)
}

/// Multiplications of one block of a kernel without tunables, and bytes that it loads and stores.
pub(crate) fn block_work(kernel: &Kernel, sizes: &Sizes) -> (f64, f64) {
    let bytes = |k: &Kernel, i: Inst| {
        let tile = match k.insts[i].op {
            Op::Load | Op::AsyncCopy => k.results(i).first(),
            Op::Store | Op::Atomic(_) => k.args(i).last(),
            _ => None,
        };
        let of =
            |v: &Value| Some(k.ty(*v).shape()?.elements()? as f64 * f64::from(k.ty(*v).elem().bits()) / 8.0);
        tile.and_then(of).unwrap_or(0.0)
    };
    (total(kernel, sizes, multiplications), total(kernel, sizes, bytes))
}

/// What the interpreter spends on one block, in multiplications.
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
    matches!(kernel.insts[inst].op, Op::Mma).then_some((1, 1))
}

/// The most terms of the sums that instructions make in all their trips; `along`: operand and dimension.
fn longest(kernel: &Kernel, sizes: &Sizes, along: impl Fn(Inst) -> Option<(usize, usize)>) -> f64 {
    let mut longest: f64 = 1.0;
    visit(kernel, sizes, kernel.entry, 1.0, &mut |inst, trips| {
        let extent = |(n, d): (usize, usize)| {
            kernel.ty(kernel.args(inst)[n]).shape().and_then(|s| s.extents()?.get(d).copied())
        };
        longest = longest.max(trips * f64::from(along(inst).and_then(extent).unwrap_or(0)));
    });
    longest
}

fn multiplications(kernel: &Kernel, inst: Inst) -> f64 {
    let data = &kernel.insts[inst];
    match data.op {
        Op::Mma => {
            let depth = kernel.ty(kernel.args(inst)[1]).shape().and_then(|s| s.extents()?.get(1).copied());
            elements(kernel, inst) * f64::from(depth.unwrap_or(1))
        }
        Op::Binary(_) | Op::Unary(_) => elements(kernel, inst) / 2.0,
        _ => 0.0,
    }
}

fn elements(kernel: &Kernel, inst: Inst) -> f64 {
    let each = kernel.results(inst).iter().filter_map(|&r| kernel.ty(r).shape()?.elements());
    each.sum::<u64>() as f64
}

fn total(kernel: &Kernel, sizes: &Sizes, cost: impl Fn(&Kernel, Inst) -> f64) -> f64 {
    let mut sum = 0.0;
    visit(kernel, sizes, kernel.entry, 1.0, &mut |inst, trips| sum += trips * cost(kernel, inst));
    sum
}

/// Visits every instruction of a block with the number of times it runs.
fn visit(kernel: &Kernel, sizes: &Sizes, block: Block, trips: f64, act: &mut dyn FnMut(Inst, f64)) {
    for &inst in &kernel.blocks[block].insts {
        act(inst, trips);
        let data = &kernel.insts[inst];
        let times = match data.op {
            Op::For => range(kernel, inst, sizes).unwrap_or(UNKNOWN_TRIPS),
            Op::While => UNKNOWN_TRIPS,
            _ => 1.0,
        };
        for &nested in &data.blocks {
            visit(kernel, sizes, nested, trips * times, act);
        }
    }
}

fn range(kernel: &Kernel, inst: Inst, sizes: &Sizes) -> Option<f64> {
    let args = kernel.args(inst);
    let value = |i: usize| evaluate(kernel, *args.get(i)?, sizes).map(|v| v as f64);
    Some(((value(1)? - value(0)?) / value(2)?.max(1.0)).ceil().max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;

    fn with<T>(name: &str, sizes: &str, act: impl Fn(&Trial<'_>) -> T) -> T {
        let module = find(name).unwrap().parse().unwrap();
        let kernel = &module.kernels[0];
        let sizes = Sizes::parse(kernel, sizes).unwrap();
        act(&Trial::new(kernel, &module.mappings[0], sizes).unwrap())
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
