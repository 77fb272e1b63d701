//! Slices: the layout of a rectangular region (Axe, appendix E).
//!
//! ```text
//!   digits of a dimension, slowest first:   [ left | pivot | peeled ]
//!   peeled  start 0 and whole               kept
//!   pivot   stays inside its digit          one iter                      (no wrap)
//!           or its middle is the digit's end  two iters, 2 : jump back     (symmetric one-wrap)
//! ```

use super::{Axe, Iter, Iters, Place, add, algebra::canonical_shard, same_rank};
use crate::layout::LayoutError;
use std::ops::Range;

/// A region of one dimension.
struct Region {
    dim: usize,
    start: u64,
    extent: u64,
}

impl Region {
    /// The region does not fit the iter.
    fn refused(&self, iter: &Iter) -> LayoutError {
        LayoutError::Slice {
            dim: self.dim,
            start: self.start,
            extent: self.extent,
            iter_extent: iter.extent,
            stride: iter.stride,
            axis: iter.axis,
        }
    }
}

impl Axe {
    /// The layout of a region (one range for each dimension of `shape`) that agrees with this one there (Axe, theorem E.3). Refuses a region that wraps
    /// inside an iter other than once and symmetrically.
    pub fn slice(&self, shape: &[u64], region: &[Range<u64>]) -> Result<Axe, LayoutError> {
        let ends: Vec<u64> = region.iter().map(|r| r.end).collect();
        same_rank(shape, &ends)?;
        let grouped = self.group(shape)?;
        let mut sliced =
            Axe { shard: Iters::new(), replica: self.replica.clone(), offset: self.offset.clone() };
        for (dim, (block, range)) in grouped.blocks().zip(region).enumerate() {
            let extent = range.end.saturating_sub(range.start);
            let region = Region { dim, start: range.start, extent };
            if extent == 0 || range.end > shape[dim] {
                let axis = crate::layout::Axis::Dim(dim.min(255) as u8);
                return Err(LayoutError::OutOfRange { axis, extent: shape[dim], needed: range.end });
            }
            sliced.shard.extend(slice_block(&canonical_shard(block), &region, &mut sliced.offset)?);
        }
        sliced.checked()
    }
}

/// Slices one dimension; adds the place of its first element to the offset.
fn slice_block(block: &Iters, region: &Region, offset: &mut Place) -> Result<Iters, LayoutError> {
    let starts = digits(block, region.start);
    for (iter, &digit) in block.iter().zip(&starts) {
        add(offset, iter.axis, iter.stride * digit as i64)?;
    }
    let mut rest = region.extent;
    let mut pivot = block.len();
    while pivot > 0 && starts[pivot - 1] == 0 && rest.is_multiple_of(block[pivot - 1].extent) {
        pivot -= 1;
        rest /= block[pivot].extent;
    }
    let mut iters = match (pivot, rest) {
        (_, 1) => Iters::new(),
        (0, _) => return Err(region.refused(&block[0])),
        _ => at_pivot(block, &starts, pivot - 1, rest).ok_or_else(|| region.refused(&block[pivot - 1]))?,
    };
    iters.extend(block[pivot..].iter().copied());
    Ok(iters)
}

/// The iters that cover `rest` steps of the pivot.
fn at_pivot(block: &Iters, starts: &[u64], k: usize, rest: u64) -> Option<Iters> {
    let (iter, start) = (block[k], starts[k]);
    if start + rest <= iter.extent {
        return Some(Iters::from_iter([Iter { extent: rest, ..iter }]));
    }
    let half = rest / 2;
    let left = k.checked_sub(1).map(|l| (block[l], starts[l]))?;
    let symmetric = rest.is_multiple_of(2) && start + half == iter.extent;
    if !symmetric || left.1 + 1 >= left.0.extent {
        return None;
    }
    jump(&iter, &left.0, half)
}

/// Two chunks of `half` steps: the second begins one step of `left` further and at the first value of the pivot.
fn jump(iter: &Iter, left: &Iter, half: u64) -> Option<Iters> {
    let back = iter.stride.checked_mul((iter.extent - half) as i64)?;
    let inner = Iter { extent: half, ..*iter };
    if left.axis == iter.axis {
        let stride = left.stride.checked_sub(back)?;
        return (stride != 0).then(|| Iters::from_iter([Iter::new(2, stride, iter.axis), inner]));
    }
    // One iter steps on one axis: a jump on two exists only where the way back is none.
    (back == 0).then(|| Iters::from_iter([Iter { extent: 2, ..*left }, inner]))
}

/// Digits of an index, in the order of the iters.
fn digits(block: &Iters, mut index: u64) -> Vec<u64> {
    let mut digits: Vec<u64> = block
        .iter()
        .rev()
        .map(|i| {
            let digit = index % i.extent;
            index /= i.extent;
            digit
        })
        .collect();
    digits.reverse();
    digits
}
