//! Where the rows of an operand begin in the lines of memory.
//!
//! ```text
//!  lines  │       │       │
//!  rows   │[■■■■■■■]      │     rows of the array are whole lines: a row of 128 bytes touches one
//!         │   [■■■■■■■]   │     they are not: up to two, which takes the copy engine as long as two rows
//! ```

use crate::problem::{Sizes, extents};
use warplift_ir::tile::{Inst, Kernel, Op};
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
}
