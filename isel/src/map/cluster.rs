//! Clusters launch whole: blocks past the grid's end run too, and may store nothing.
//!
//! ```text
//!  grid cdiv(m, BM) = 3, clusters of 2      blocks  0  1  2 │ 3        block 3 stores at 3 * BM >= m: outside
//! ```
//!
//! That holds where a store's view ends with the grid's first dimension; every other store is refused.

use crate::facts::{is_never_negative, launch_expr, terms};
use crate::window::Window;
use crate::{IselError, Result};
use warplift_ir::manifest::{Expr, ExprOp};
use warplift_ir::tile::{BinOp, Inst, Kernel, Mapping, Op, Value};

/// Refuses stores that blocks past the grid's end would do.
pub fn do_cluster_bounds(k: &Kernel, mapping: &Mapping) -> Result<()> {
    if mapping.whole.cluster <= 1 {
        return Ok(());
    }
    let writes = |i: &Inst| matches!(k.insts[*i].op, Op::Store | Op::Atomic(_));
    match k.insts.keys().filter(writes).find(|&i| !ends_with_the_grid(k, i)) {
        Some(inst) => {
            let message = "a cluster's blocks past the grid's end would store here: no dimension of the view is known \
                           to end with the grid's first dimension";
            Err(IselError::at(k, inst, message))
        }
        None => Ok(()),
    }
}

/// Whether what blocks past the grid's end store lies outside the view, because of one of its dimensions.
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

/// How far an index moves at least with the block's; `None` where it may also move back.
fn step_of_block(k: &Kernel, index: Value) -> Option<i64> {
    let (mut step, mut known, mut fuel) = (0, true, 64);
    terms(k, index, false, &mut fuel, &mut |v, minus| match multiple_of_block(k, v) {
        Some(n) if !minus => step += n,
        _ => known &= !minus && is_never_negative(k, v),
    });
    (known && step > 0).then_some(step)
}

/// `n` where a value is `n` times the block's index along the first dimension.
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

/// Whether as many steps as the grid has blocks reach a dimension's end.
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
