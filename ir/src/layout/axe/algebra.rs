//! Canonical form, grouping, tiling and its inverse, direct sum (Axe, appendices A to D and F).

use super::{Axe, Iter, Iters, Place, add, same_rank};
use crate::layout::algebra::gcd;
use crate::layout::fragment::refuse;
use crate::layout::{Axis, LayoutError};

/// A layout whose iters are cut into blocks, one for each dimension of a shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grouped {
    iters: Iters,
    /// End of each block.
    ends: Vec<usize>,
}

impl Grouped {
    /// The blocks, each slowest iter first.
    pub fn blocks(&self) -> impl Iterator<Item = &[Iter]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&a, &b)| &self.iters[a..b])
    }
}

impl Axe {
    /// The canonical form (Axe, appendix A): no iter of extent 1, none that continues its neighbour; replicas with positive strides, ascending,
    /// absorbed where they fill up. Unique where the replicas are [`separated`](Axe::separated).
    pub fn canonical(&self) -> Axe {
        let mut offset = self.offset.clone();
        let replica = canonical_replica(&self.replica, &mut offset);
        Axe { shard: canonical_shard(&self.shard), replica, offset }
    }

    /// The gap condition of appendix A: on each axis every replica stride exceeds all that the smaller ones reach.
    pub fn separated(&self) -> bool {
        let replica = self.canonical().replica;
        let neighbours = replica.windows(2).filter(|w| w[0].axis == w[1].axis);
        neighbours.into_iter().all(|w| w[1].stride as u64 > w[0].extent.saturating_mul(w[0].stride as u64))
    }

    /// Cuts the iters along a shape (Axe, algorithm 1), the fewest iters that do. Refuses a shape of another size, or one whose borders
    /// fall inside an iter without dividing it.
    pub fn group(&self, shape: &[u64]) -> Result<Grouped, LayoutError> {
        if !self.admits(shape) {
            let size = shape.iter().fold(1u64, |n, &s| n.saturating_mul(s));
            return Err(refuse("axe", "shape", size, "it has as many elements as the layout"));
        }
        let mut source = canonical_shard(&self.shard).into_iter();
        let mut current = source.next();
        let mut grouped = Grouped { iters: Iters::new(), ends: Vec::new() };
        for &target in shape {
            let mut rest = target;
            while rest > 1 {
                let iter = current.ok_or_else(|| refuse("axe", "shape", target, "iters remain for it"))?;
                let head = gcd(iter.extent, rest);
                if head == 1 {
                    return Err(LayoutError::NotDivisible { axis: iter.axis, extent: iter.extent, by: rest });
                }
                let tail = iter.extent / head;
                grouped.iters.push(Iter { extent: head, stride: iter.stride * tail as i64, ..iter });
                rest /= head;
                current = if tail > 1 { Some(Iter { extent: tail, ..iter }) } else { source.next() };
            }
            grouped.ends.push(grouped.iters.len());
        }
        Ok(grouped)
    }

    /// The tile product `self ⊗ inner` (Axe, appendix C): `inner` inside, copies of it placed by `self` scaled by the span of `inner`. The result is
    /// grouped by the shapes interleaved, `(outer 0, inner 0, outer 1, inner 1, ...)`.
    pub fn tile(&self, shape: &[u64], inner: &Axe, inner_shape: &[u64]) -> Result<Axe, LayoutError> {
        self.scaled(inner)?.direct_sum(shape, inner, inner_shape)
    }

    /// Every stride and offset multiplied by the span of `inner` on its axis.
    fn scaled(&self, inner: &Axe) -> Result<Axe, LayoutError> {
        let scale = |i: &Iter| Ok(Iter { stride: times(i.stride, inner.span(i.axis), i.axis)?, ..*i });
        let scale_offset = |(&axis, &by): (&Axis, &i64)| Ok((axis, times(by, inner.span(axis), axis)?));
        Axe {
            shard: self.shard.iter().map(scale).collect::<Result<_, _>>()?,
            replica: self.replica.iter().map(scale).collect::<Result<_, _>>()?,
            offset: self.offset.iter().map(scale_offset).collect::<Result<_, _>>()?,
        }
        .checked()
    }

    /// The direct sum on the interleaved domain (Axe, appendix F): `(x, y)` goes to `self(x) + inner(y)`.
    pub fn direct_sum(&self, shape: &[u64], inner: &Axe, inner_shape: &[u64]) -> Result<Axe, LayoutError> {
        same_rank(shape, inner_shape)?;
        let (outer_blocks, inner_blocks) = (self.group(shape)?, inner.group(inner_shape)?);
        let mut shard = Iters::new();
        for (a, b) in outer_blocks.blocks().zip(inner_blocks.blocks()) {
            shard.extend(a.iter().chain(b).copied());
        }
        let mut offset = self.offset.clone();
        for (&axis, &by) in &inner.offset {
            add(&mut offset, axis, by)?;
        }
        let replica = self.replica.iter().chain(&inner.replica).copied().collect();
        Axe { shard, replica, offset }.checked()
    }

    /// The outer layout `c` with `self == c ⊗ inner` (Axe, appendix D), and its shape. Refuses shapes that do not divide, tiles that differ, and
    /// strides or offsets that are no multiples of the span of `inner`.
    pub fn tile_of(
        &self,
        shape: &[u64],
        inner: &Axe,
        inner_shape: &[u64],
    ) -> Result<(Axe, Vec<u64>), LayoutError> {
        same_rank(shape, inner_shape)?;
        let mut outer_shape = Vec::new();
        let mut interleaved = Vec::new();
        for (dim, (&s, &t)) in shape.iter().zip(inner_shape).enumerate() {
            if t == 0 || s % t != 0 {
                return Err(LayoutError::NotDivisible {
                    axis: Axis::Dim(dim.min(255) as u8),
                    extent: s,
                    by: t,
                });
            }
            outer_shape.push(s / t);
            interleaved.extend([s / t, t]);
        }
        let (mine, tiles) = (self.group(&interleaved)?, inner.group(inner_shape)?);
        let blocks: Vec<&[Iter]> = mine.blocks().collect();
        let mut shard = Iters::new();
        for ((dim, pair), tile) in blocks.chunks(2).enumerate().zip(tiles.blocks()) {
            if canonical_shard(pair[1]) != canonical_shard(tile) {
                return Err(LayoutError::NotATile(Axis::Dim(dim.min(255) as u8)));
            }
            shard.extend(pair[0].iter().copied());
        }
        let outer = Axe { shard, replica: self.outer_replica(inner)?, offset: self.offset.clone() };
        let outer = outer.unscaled(inner)?;
        match outer.tile(&outer_shape, inner, inner_shape)?.equivalent(self) {
            true => Ok((outer, outer_shape)),
            false => Err(LayoutError::NotATile(Axis::Dim(0))),
        }
    }

    /// Replicas that are not the tile's.
    fn outer_replica(&self, inner: &Axe) -> Result<Iters, LayoutError> {
        let mut mine = self.canonical().replica;
        for iter in inner.canonical().replica {
            let at = mine.iter().position(|i| *i == iter).ok_or(LayoutError::NotATile(iter.axis))?;
            mine.remove(at);
        }
        Ok(mine)
    }

    /// Strides and offset divided by the span of the tile, after taking its offset off.
    fn unscaled(mut self, inner: &Axe) -> Result<Axe, LayoutError> {
        for (&axis, &by) in &inner.offset {
            add(&mut self.offset, axis, -by)?;
        }
        let divide = |by: i64, axis: Axis| match by % inner.span(axis) as i64 {
            0 => Ok(by / inner.span(axis) as i64),
            _ => Err(LayoutError::NotDivisible { axis, extent: by.unsigned_abs(), by: inner.span(axis) }),
        };
        for iter in self.shard.iter_mut().chain(&mut self.replica) {
            iter.stride = divide(iter.stride, iter.axis)?;
        }
        for (&axis, by) in &mut self.offset {
            *by = divide(*by, axis)?;
        }
        self.checked()
    }
}

/// `stride * by` inside 62 bits.
fn times(stride: i64, by: u64, axis: Axis) -> Result<i64, LayoutError> {
    let product = i64::try_from(by).ok().and_then(|by| stride.checked_mul(by));
    let fits = product.filter(|p| p.unsigned_abs() <= crate::layout::LIMIT);
    fits.ok_or(LayoutError::Overflow { what: "stride", axis })
}

/// Rules D0 and D1: without unit extents, neighbours merged where the slower continues the faster.
pub(crate) fn canonical_shard(iters: &[Iter]) -> Iters {
    let mut out = Iters::new();
    for iter in iters.iter().filter(|i| i.extent > 1) {
        match out.last_mut() {
            Some(slow)
                if slow.axis == iter.axis
                    && slow.stride == iter.stride.saturating_mul(iter.extent as i64) =>
            {
                *slow = Iter { extent: slow.extent * iter.extent, ..*iter };
            }
            _ => out.push(*iter),
        }
    }
    out
}

/// Rules C0, C1 and C2: without unit extents, positive strides (the offset takes the difference), sorted, and absorbed while a
/// stride is a multiple that leaves no gap.
fn canonical_replica(iters: &[Iter], offset: &mut Place) -> Iters {
    let mut out = Iters::new();
    for iter in iters.iter().filter(|i| i.extent > 1) {
        let mut iter = *iter;
        if iter.stride < 0 {
            let shift = iter.stride * (iter.extent as i64 - 1);
            // A span within bounds has its ends within bounds too.
            let at = offset.get(&iter.axis).copied().unwrap_or(0) + shift;
            super::set(offset, iter.axis, at);
            iter.stride = -iter.stride;
        }
        out.push(iter);
    }
    out.sort_by_key(|i| (i.axis, i.stride, i.extent));
    while let Some((small, large)) = absorbable(&out) {
        let factor = (out[large].stride / out[small].stride) as u64;
        out[small].extent += factor * (out[large].extent - 1);
        out.remove(large);
    }
    out
}

/// A pair of which the second fills up behind the first.
fn absorbable(iters: &Iters) -> Option<(usize, usize)> {
    let fills = |a: &Iter, b: &Iter| {
        a.axis == b.axis && b.stride % a.stride == 0 && (b.stride / a.stride) as u64 <= a.extent
    };
    (0..iters.len()).find_map(|a| (a + 1..iters.len()).find(|&b| fills(&iters[a], &iters[b])).map(|b| (a, b)))
}
