//! Where the rows of an operand begin in the lines of memory, and where they end.
//!
//! ```text
//!  lines  │       │       │
//!  rows   │[■■■■■■■]      │     rows of the array are whole lines: a row of 128 bytes touches one
//!         │   [■■■■■■■]   │     they are not: up to two, which takes the copy engine as long as two rows
//!
//!  129 rows   [40][40][40][9|31]     the last of four boxes is filled with zeros, which takes time of its own
//! ```

use super::tiling::extent_of;
use crate::problem::{Sizes, evaluate, extents};
use warplift_ir::tile::{Dim, Inst, Kernel, Op, TunableData};
use warplift_isel::facts::gcd;

/// Bytes at whose multiples the rows begin that a load reads; `None` where that is where lines begin, or where the sizes do not
/// tell.
pub(super) fn rows_begin(kernel: &Kernel, load: Inst, sizes: &Sizes, line: i64) -> Option<i64> {
    let mut view = kernel.def(*kernel.args(load).first()?)?;
    while let Op::SubView(_) = kernel.insts[view].op {
        view = kernel.def(kernel.args(view)[0])?;
    }
    let Op::View { strided, .. } = kernel.insts[view].op else { return None };
    let bits = i64::from(kernel.ty(kernel.result(view)).elem().bits());
    let (_, strides) = extents(kernel, view, strided, sizes).ok()?;
    let between = strides.iter().filter(|&&s| s > 1).map(|s| s * bits / 8);
    Some(between.fold(line, gcd)).filter(|&begins| begins < line)
}

/// How many rows an array has of which a load reads as many as a tunable says; `None` where these are its columns, or where the
/// sizes do not tell.
pub(super) fn rows_end(kernel: &Kernel, load: Inst, tunable: &TunableData, sizes: &Sizes) -> Option<i64> {
    let shape = kernel.ty(kernel.result(load)).shape()?;
    let (_, rows) = shape.dims().split_last()?;
    let of = |d: Dim| d.alone().is_some_and(|t| kernel.tunables[t].name == tunable.name);
    let at = rows.iter().position(|&d| of(d))?;
    evaluate(kernel, extent_of(kernel, kernel.args(load)[0], at)?, sizes).filter(|&rows| rows > 0)
}

/// Rows of which one box in the mean lies outside an array of so many, where boxes of so many cover it.
pub(super) fn rows_outside(end: i64, rows: i64) -> f64 {
    let boxes = (end as u64).div_ceil(rows as u64) as i64;
    (boxes * rows - end) as f64 / boxes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_whole_lines_begin_with_them() {
        let kernel = crate::kernels::find("gemm").unwrap().parse().unwrap().kernels.remove(0);
        let load = kernel.insts.iter().find(|(_, d)| matches!(d.op, Op::Load)).map(|(i, _)| i).unwrap();
        let begins =
            |k: i64| rows_begin(&kernel, load, &Sizes::of_integers(&[("m", 64), ("n", 64), ("k", k)]), 128);
        assert_eq!([64, 1024, 1048, 1056, 1088].map(begins), [None, None, Some(16), Some(64), None]);
    }

    #[test]
    fn the_last_box_is_partly_outside() {
        let of = |name: &str, tunable: &str, m: i64, n: i64| {
            let kernel = crate::kernels::find(name).unwrap().parse().unwrap().kernels.remove(0);
            let sizes = Sizes::of_integers(&[("m", m), ("n", n), ("k", 64)]);
            let tunable = kernel.tunables.values().find(|t| t.name == tunable).unwrap();
            let loads = kernel.insts.iter().filter(|(_, d)| matches!(d.op, Op::Load));
            loads.map(|(i, _)| rows_end(&kernel, i, tunable, &sizes)).collect::<Vec<_>>()
        };
        assert_eq!(of("gemm", "BM", 129, 8), [Some(129), None]);
        assert_eq!(of("gemm", "BN", 129, 8), [None, Some(8)]);
        assert_eq!(of("gemm_nn", "BN", 129, 8), [None, None], "columns of the array");
        assert_eq!(
            [rows_outside(129, 40), rows_outside(128, 64), rows_outside(1, 8)],
            [31.0 / 4.0, 0.0, 7.0]
        );
    }
}
