//! Layouts without a hardware instruction behind them: blocked ones for plain loads and stores, and what a reduction leaves.

use super::refuse;
use crate::layout::{Axes, Axis, Builder, Layout, LayoutError, OutVec};

/// A blocked layout `(reg, lane, warp)` to the dimensions of `shape` (Linear Layouts, proposition 4.6).
///
/// In each dimension a thread holds `per_thread` neighbours, `lanes` threads of a warp and `warps` warps stand side by side;
/// `order` lists dimensions, the fastest first. Where that covers less than the shape the block repeats in
/// registers; where a dimension is shorter the surplus threads repeat elements. Extents may be any that divide the shape (or are
/// multiples of what is left of it).
pub fn blocked(
    shape: &[u64],
    per_thread: &[u64],
    lanes: &[u64],
    warps: &[u64],
    order: &[usize],
) -> Result<Layout, LayoutError> {
    check_order(shape.len(), order)?;
    let dims: Axes = (0..shape.len()).map(|d| (Axis::Dim(d as u8), shape[d])).collect();
    if let Some(&(axis, _)) = dims.iter().find(|d| d.1 == 0) {
        return Err(LayoutError::ZeroExtent(axis));
    }
    let mut covered = OutVec::from_elem(1, shape.len());
    let mut layout = Builder::new(&dims);
    for (axis, extents) in [(Axis::Reg, per_thread), (Axis::Lane, lanes), (Axis::Warp, warps)] {
        if extents.len() != shape.len() {
            return Err(refuse("blocked", "rank", extents.len() as u64, "it is the shape's"));
        }
        layout = layout.axis(axis);
        for &d in order {
            layout = cover(layout, axis, extents[d], (d, shape[d]), &mut covered)?;
        }
    }
    for &d in order {
        let rest = shape[d] / covered[d];
        layout = cover(layout, Axis::Reg, rest, (d, shape[d]), &mut covered)?;
    }
    layout.build()
}

/// `order` is a permutation of the dimensions.
fn check_order(rank: usize, order: &[usize]) -> Result<(), LayoutError> {
    let complete = order.len() == rank && (0..rank).all(|d| order.contains(&d)) && rank < 200;
    match complete {
        true => Ok(()),
        false => Err(refuse("blocked", "order", order.len() as u64, "it names every dimension once")),
    }
}

/// Lets a digit of `axis` step along dimension `d` behind what is covered; what exceeds the shape repeats.
fn cover(
    layout: Builder,
    axis: Axis,
    extent: u64,
    (d, shape): (usize, u64),
    covered: &mut OutVec,
) -> Result<Builder, LayoutError> {
    let dim = Axis::Dim(d as u8);
    let left = shape / covered[d];
    if extent == 0 {
        return Err(LayoutError::ZeroExtent(axis));
    }
    let (moves, repeats) = match (left.is_multiple_of(extent), extent.is_multiple_of(left)) {
        (true, _) => (extent, 1),
        (false, true) => (left, extent / left),
        _ => {
            return Err(LayoutError::NotDivisible { axis: dim, extent: left, by: extent });
        }
    };
    let mut column = OutVec::from_elem(0, covered.len());
    column[d] = covered[d];
    let layout = layout.add(axis, moves, &column);
    covered[d] *= moves;
    column[d] = 0;
    Ok(layout.add(axis, repeats, &column))
}

/// The sliced layout (Linear Layouts, section 4.4): what a reduction over `dim` leaves. The dimension is gone and those behind it
/// move up; registers that would repeat an element are gone, lanes and warps that repeat stay.
pub fn row_slice(layout: &Layout, dim: u8) -> Result<Layout, LayoutError> {
    let sliced = layout.project_out(Axis::Dim(dim))?;
    let sliced = match layout.ins().iter().any(|a| a.0 == Axis::Reg) {
        true => sliced.without_broadcast(Axis::Reg)?,
        false => sliced,
    };
    sliced.renamed(|axis| match axis {
        Axis::Dim(d) if d > dim => Axis::Dim(d - 1),
        other => other,
    })
}
