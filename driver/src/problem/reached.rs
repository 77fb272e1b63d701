//! How long arrays must be whose views have extents that nothing says: as long as what the launch may touch of them.
//!
//! ```text
//!  gx = view x : f16[?, n]     load gx[i*BM, 0] : f16[BM, n]     blocks i in 0..cdiv(m, BM)     ─►  x: cdiv(m, BM) * BM * n elements
//! ```
//!
//! Indices that follow from memory say nothing before the launch.

use super::operands::is_from_memory;
use super::touched::{Part, parts};
use super::{Problem, extents, grid_of};
use warplift_ir::tile::{Inst, InstData, MOST_INDEX, Op};

/// Elements from the start of each array to the last one that may be touched, for arrays with views whose extents are
/// unknown; `None` for others, and where indices follow from memory.
pub(super) fn reached(problem: &Problem) -> Vec<Option<u64>> {
    let kernel = &problem.resolved;
    let open =
        |view: Inst| matches!(kernel.insts[view].op, Op::View { .. }) && kernel.is_open(kernel.result(view));
    let Some(grid) = kernel.insts.keys().any(open).then(|| grid_of(kernel, &problem.sizes)).flatten() else {
        return vec![None; problem.operands.len()];
    };
    let parts = parts(problem, grid);
    let end_of = |operand: usize| {
        let own = parts.iter().filter(|((of, _), _)| *of == operand).flat_map(|(_, all)| all);
        let mut all = own.filter(|(view, _)| open(*view)).peekable();
        all.peek()?;
        let name = &problem.operands[operand].name;
        let pointer = kernel.params.iter().find(|p| p.name == *name)?.value;
        let measured = |(view, data): (Inst, &InstData)| {
            let own = matches!(data.op, Op::View { .. }) && kernel.args(view)[0] == pointer;
            own && is_from_memory(kernel, view)
        };
        if kernel.insts.iter().any(measured) {
            return None;
        }
        all.map(|(view, part)| part_end(problem, *view, part)).try_fold(0, |most, end| Some(end?.max(most)))
    };
    (0..problem.operands.len()).map(end_of).collect()
}

/// The element behind the last one of a part; `None` where nothing says where the part ends.
fn part_end(problem: &Problem, view: Inst, part: &Part) -> Option<u64> {
    let kernel = &problem.resolved;
    let Op::View { strided, .. } = kernel.insts[view].op else { return None };
    let (bounds, strides) = extents(kernel, view, strided, &problem.sizes).ok()?;
    let mut last = 0_i64;
    for ((cover, &bound), &stride) in part.iter().zip(&bounds).zip(&strides) {
        let end = cover.end().filter(|&end| end < MOST_INDEX || bound < MOST_INDEX)?;
        if end == 0 {
            return Some(0);
        }
        last = last.checked_add((end - 1).checked_mul(stride.max(0))?)?;
    }
    u64::try_from(last + 1).ok()
}
