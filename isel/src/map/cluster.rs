//! Cluster bounds: a launch consists of whole clusters, so blocks past the end of the grid run too. They must not
//! store anything.
//!
//! ```text
//!  grid cdiv(m, BM) = 3, clusters of 2      blocks  0  1  2 │ 3        block 3 stores at 3 * BM >= m: outside
//! ```
//!
//! Such a block is harmless if the view of a store ends with the first dimension of the grid. Every other store is
//! refused.

use crate::facts::{is_never_negative, launch_expr, terms};
use crate::tiles::in_shared;
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::manifest::{Expr, ExprOp};
use warplift_ir::tile::{BinOp, Inst, Kernel, Mapping, Op, Value};

/// Refuses stores that a block past the end of the grid would make.
pub fn do_cluster_bounds(k: &Kernel, mapping: &Mapping) -> Result<()> {
    if mapping.whole.cluster <= 1 {
        return Ok(());
    }
    let writes = |i: &Inst| k.insts[*i].op.is_write() && !in_shared(k, *i);
    match k.insts.keys().filter(writes).find(|&i| !ends_with_the_grid(k, i)) {
        Some(inst) => {
            let message = "a cluster's blocks past the grid's end would store here: no dimension of the view is known \
                           to end with the grid's first dimension";
            Err(IselError::at(k, inst, message))
        }
        None => Ok(()),
    }
}

/// Whether one dimension of the view keeps the stores of blocks past the end of the grid outside.
fn ends_with_the_grid(k: &Kernel, inst: Inst) -> bool {
    let args = k.args(inst);
    let (Some(window), Some(&first)) = (Window::of(k, args[0]), k.grid.first()) else { return false };
    let kept = window.kept.iter().copied().zip(args[1..].iter().copied());
    let ends = |(dim, index): (usize, Value)| {
        let step = step_of_block(k, index)?;
        let (grid, extent) = (launch_expr(k, first)?, launch_expr(k, window.extent(k, dim))?);
        Some(covers(&grid, &extent, step))
    };
    kept.chain(window.fixed.iter().copied()).any(|d| ends(d) == Some(true))
}

/// The least step of an index when the block index grows by one; `None` if it may decrease.
fn step_of_block(k: &Kernel, index: Value) -> Option<i64> {
    let (mut step, mut known, mut fuel) = (0, true, 64);
    terms(k, index, false, &mut fuel, &mut |v, minus| match multiple_of_block(k, v) {
        Some(n) if !minus => step += n,
        _ => known &= !minus && is_never_negative(k, v),
    });
    (known && step > 0).then_some(step)
}

/// `n` if a value is `n` times the block index along the first dimension.
fn multiple_of_block(k: &Kernel, v: Value) -> Option<i64> {
    let inst = k.def(v)?;
    match k.insts[inst].op {
        Op::BlockIndex(0) => Some(1),
        Op::Binary(BinOp::Mul) => {
            let [a, b] = [k.args(inst)[0], k.args(inst)[1]];
            let times = |v, by| Some(multiple_of_block(k, v)? * k.int_const(by).filter(|&n| n > 0)?);
            times(a, b).or_else(|| times(b, a))
        }
        _ => None,
    }
}

/// Whether one step for each block of the grid reaches the end of a dimension.
fn covers(grid: &Expr, extent: &Expr, step: i64) -> bool {
    let divided = match grid {
        Expr::Op(ExprOp::CeilDiv, both) => match (&both.0, &both.1) {
            (all, Expr::Const(by)) => all == extent && step >= *by,
            _ => false,
        },
        _ => false,
    };
    divided || grid == extent
}
