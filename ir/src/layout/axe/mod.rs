//! Axe layouts: from logical indices to sets of places on named axes (Axe, section 2).
//!
//! ```text
//!   L = D + R + O         D  shard: iters over the logical index, slowest first    (8 2 4 2 : 4@lane 1@warp 1@lane 1@reg)
//!                         R  replica: every choice is a copy                       [2 : 4@warp]
//!                         O  offset                                                5@warp
//! ```
//!
//! Extents are any, strides may be negative. This is the outer part of a [`Layout`] seen from the tensor, with what a function cannot have:
//! several places for one element, and an offset. [`Axe::to_layout`] and [`Axe::of_layout`] cross over; the
//! algebra (canonical form, grouping, tiling, slicing) follows appendices A to F.

mod algebra;
mod slice;

pub use algebra::Grouped;

use super::fragment::refuse;
use super::{Axis, Builder, LIMIT, Layout, LayoutError, OutVec};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// A loop of `extent` steps of `stride` on one axis (Axe, definition 2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Iter {
    /// Number of steps, at least 1.
    pub extent: u64,
    /// Distance of neighbours, not 0.
    pub stride: i64,
    /// Axis.
    pub axis: Axis,
}

/// Iters, stored inline up to eight.
pub type Iters = SmallVec<[Iter; 8]>;

/// A place: coordinates on the axes where they are not 0.
pub type Place = BTreeMap<Axis, i64>;

/// An Axe layout. See the module documentation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axe {
    /// Iters over the logical index, the slowest first.
    pub(crate) shard: Iters,
    /// Iters whose every choice is a copy.
    pub(crate) replica: Iters,
    /// Constant, by axis, without zeros.
    pub(crate) offset: Place,
}

/// Name of the input axis of replicas in [`Axe::to_layout`].
const COPY: &str = "copy";

impl Iter {
    /// An iter.
    pub fn new(extent: u64, stride: i64, axis: Axis) -> Iter {
        Iter { extent, stride, axis }
    }

    /// Distance from the first to the last step.
    fn reach(&self) -> u64 {
        self.stride.unsigned_abs().saturating_mul(self.extent - 1)
    }

    /// Refuses extent 0, stride 0 and what exceeds 62 bits.
    fn check(&self) -> Result<(), LayoutError> {
        match self {
            Iter { extent: 0, axis, .. } => Err(LayoutError::ZeroExtent(*axis)),
            Iter { stride: 0, extent, axis } if *extent > 1 => {
                Err(LayoutError::ZeroStride { axis: *axis, extent: *extent })
            }
            i if i.reach() > LIMIT || i.extent > LIMIT || i.stride.unsigned_abs() > LIMIT => {
                Err(LayoutError::Overflow { what: "iter", axis: i.axis })
            }
            _ => Ok(()),
        }
    }
}

impl Axe {
    /// A layout of its three parts. Refuses iters of extent 0 or stride 0, and sizes or spans beyond 62 bits.
    pub fn new(shard: &[Iter], replica: &[Iter], offset: &[(Axis, i64)]) -> Result<Axe, LayoutError> {
        let mut total = Place::new();
        for &(axis, by) in offset {
            add(&mut total, axis, by)?;
        }
        Axe { shard: shard.into(), replica: replica.into(), offset: total }.checked()
    }

    /// A plain strided layout in memory, `(extents) : (strides)` on `m`.
    pub fn strided(extents: &[u64], strides: &[i64]) -> Result<Axe, LayoutError> {
        let iters = extents.iter().zip(strides).map(|(&e, &s)| Iter::new(e, s, Axis::Mem));
        Axe::new(&iters.collect::<Iters>(), &[], &[])
    }

    /// Itself, when all numbers stay in bounds.
    pub(crate) fn checked(self) -> Result<Axe, LayoutError> {
        for part in [&self.shard, &self.replica] {
            let mut total = 1;
            for iter in part {
                iter.check()?;
                total = super::canonical::times(total, iter.extent, "number of elements", iter.axis)?;
            }
        }
        for axis in self.axes() {
            let offset = self.offset.get(&axis).map_or(0, |o| o.unsigned_abs());
            if self.span(axis).saturating_add(offset) > LIMIT {
                return Err(LayoutError::Overflow { what: "span", axis });
            }
        }
        Ok(self)
    }

    /// Iters over the logical index, slowest first.
    pub fn shard(&self) -> &[Iter] {
        &self.shard
    }

    /// Iters of copies.
    pub fn replica(&self) -> &[Iter] {
        &self.replica
    }

    /// Offset by axis.
    pub fn offset(&self) -> &Place {
        &self.offset
    }

    /// Number of logical indices.
    pub fn size(&self) -> u64 {
        self.shard.iter().map(|i| i.extent).product()
    }

    /// Axes that occur.
    pub fn axes(&self) -> BTreeSet<Axis> {
        let iters = self.shard.iter().chain(&self.replica).map(|i| i.axis);
        iters.chain(self.offset.keys().copied()).collect()
    }

    /// Whether the shape has as many elements as the layout (Axe, section 2.3).
    pub fn admits(&self, shape: &[u64]) -> bool {
        shape.iter().try_fold(1u64, |n, &s| n.checked_mul(s)) == Some(self.size())
    }

    /// Places of a logical index (which wraps at the size): one for each distinct copy.
    pub fn places(&self, index: u64) -> BTreeSet<Place> {
        let mut places = BTreeSet::from([self.base(index)]);
        for iter in &self.replica {
            let step = |place: &Place, k: u64| moved(place, iter, k);
            places = places.iter().flat_map(|p| (0..iter.extent).map(move |k| step(p, k))).collect();
        }
        places
    }

    /// Place of the first copy of a logical index.
    pub fn base(&self, index: u64) -> Place {
        let mut place = self.offset.clone();
        let mut rest = index;
        for iter in self.shard.iter().rev() {
            place = moved(&place, iter, rest % iter.extent);
            rest /= iter.extent;
        }
        place
    }

    /// Row-major index of coordinates in a shape.
    pub fn flat(shape: &[u64], coords: &[u64]) -> u64 {
        shape.iter().zip(coords).fold(0, |n, (s, c)| n * s + c)
    }

    /// Largest minus smallest coordinate on an axis, plus 1 (Axe, lemma C.1).
    pub fn span(&self, axis: Axis) -> u64 {
        let iters = self.shard.iter().chain(&self.replica).filter(|i| i.axis == axis);
        iters.fold(1, |sum: u64, i| sum.saturating_add(i.reach()))
    }

    /// The same map of sets: by canonical form, else by evaluation.
    pub fn equivalent(&self, other: &Axe) -> bool {
        let same = self.canonical() == other.canonical();
        same || self.size() == other.size() && (0..self.size()).all(|x| self.places(x) == other.places(x))
    }

    /// The function from dimensions of `shape` (and, when there are replicas, an axis `copy` with a digit for each) to the axes. Refuses
    /// offsets and negative strides, which no [`Layout`] has.
    pub fn to_layout(&self, shape: &[u64]) -> Result<Layout, LayoutError> {
        if let Some((&axis, &by)) = self.offset.iter().next() {
            return Err(LayoutError::Offset { axis, by });
        }
        let outs: Vec<(Axis, u64)> = self.axes().iter().map(|&a| (a, self.span(a))).collect();
        let mut layout = Builder::new(&outs);
        for (dim, block) in self.group(shape)?.blocks().enumerate() {
            let dim = Axis::Dim(dim.min(255) as u8);
            layout = block.iter().rev().try_fold(layout.axis(dim), |l, i| digit(l, dim, i, &outs))?;
        }
        let copy = Axis::parse(COPY)?;
        let copies = self.replica.iter();
        copies.into_iter().try_fold(layout, |l, i| digit(l, copy, i, &outs))?.build()
    }

    /// The Axe layout of a function from dimensions (all inputs, row-major) to axes. Refuses swizzles and digits that move several axes.
    pub fn of_layout(layout: &Layout) -> Result<Axe, LayoutError> {
        let mut shard = Iters::new();
        for &(axis, _) in layout.ins() {
            let mut block = one_axis(layout, axis)?;
            block.reverse();
            shard.extend(block);
        }
        if shard.is_empty() {
            shard.extend(layout.outs().first().map(|o| Iter::new(1, 1, o.0)));
        }
        Axe { shard, replica: Iters::new(), offset: Place::new() }.checked()
    }

    /// The Axe layout of a fragment `(reg, lane, ..)` to dimensions: its inverse, with the digits that repeat elements as replicas.
    pub fn of_fragment(fragment: &Layout) -> Result<Axe, LayoutError> {
        let mut axe = Axe::of_layout(&fragment.right_inverse()?)?;
        for &(axis, _) in fragment.ins() {
            let copies = fragment.replicated(axis).into_iter();
            axe.replica.extend(copies.map(|b| Iter::new(b.extent, b.weight as i64, axis)));
        }
        axe.checked()
    }

    /// The fragment `(reg, lane, ..)` over a tile of `shape` whose elements have these places: the inverse function, with replicas as digits that
    /// move nothing. Refuses offsets, negative strides, memory, and places between those that are held.
    pub fn to_fragment(&self, shape: &[u64]) -> Result<Layout, LayoutError> {
        if let Some((&axis, &by)) = self.offset.iter().next() {
            return Err(LayoutError::Offset { axis, by });
        }
        let grouped = self.group(shape)?;
        let mut digits: Vec<(Iter, OutVec)> = Vec::new();
        for (dim, block) in grouped.blocks().enumerate() {
            let mut weight = 1;
            for iter in block.iter().rev() {
                let mut column = OutVec::from_elem(0, shape.len());
                column[dim] = weight;
                weight *= iter.extent;
                digits.push((*iter, column));
            }
        }
        let copies = self.canonical().replica.into_iter();
        digits.extend(copies.map(|i| (i, OutVec::from_elem(0, shape.len()))));
        digits.sort_by_key(|(i, _)| (i.axis, i.stride));
        let layout = Builder::new(&super::shape::dims(shape)).axis(Axis::Reg).axis(Axis::Lane);
        let mut held = BTreeMap::new();
        digits.iter().try_fold(layout, |l, (i, column)| place_digit(l, i, column, &mut held))?.build()
    }
}

/// A digit of a fragment, which goes on where the axis is held so far.
fn place_digit(
    layout: Builder,
    iter: &Iter,
    column: &[u64],
    held: &mut BTreeMap<Axis, u64>,
) -> Result<Builder, LayoutError> {
    let Iter { extent, stride, axis } = *iter;
    let digit = held.entry(axis).or_insert(1);
    match u64::try_from(stride) {
        _ if axis != Axis::Reg && !axis.is_processor() => {
            let reason = "a fragment's elements lie in registers, lanes and warps";
            Err(LayoutError::Notation { notation: "Axe", reason })
        }
        Err(_) => Err(LayoutError::Offset { axis, by: stride }),
        Ok(stride) if stride != *digit => {
            Err(LayoutError::Misaligned { axis, extent, stride, digit: *digit })
        }
        Ok(_) => {
            *digit = digit.saturating_mul(extent);
            Ok(layout.add(axis, extent, column))
        }
    }
}

/// The open digits of an input axis as iters, fastest first.
fn one_axis(layout: &Layout, axis: Axis) -> Result<Iters, LayoutError> {
    let index = layout.ins().iter().position(|a| a.0 == axis);
    let runs = layout.open().into_iter().filter(|r| Some(r.axis as usize) == index);
    let iter = |run: super::canonical::Run| {
        let moves: Vec<usize> = (0..run.add.len()).filter(|&o| run.add[o] != 0).collect();
        match (run.swizzles(), &moves[..]) {
            (false, [o]) => Ok(Iter::new(run.extent, run.add[*o] as i64, layout.outs()[*o].0)),
            (false, []) => Err(LayoutError::ZeroStride { axis, extent: run.extent }),
            _ => Err(LayoutError::Entangled { axis, bits: run.xor.iter().fold(0, |m, x| m | x) }),
        }
    };
    runs.map(iter).collect()
}

/// A digit of `input` that steps like the iter.
fn digit(layout: Builder, input: Axis, iter: &Iter, outs: &[(Axis, u64)]) -> Result<Builder, LayoutError> {
    if iter.stride < 0 {
        return Err(LayoutError::Offset { axis: iter.axis, by: iter.stride });
    }
    let column = |o: &(Axis, u64)| {
        if o.0 == iter.axis { iter.stride as u64 } else { 0 }
    };
    let column: Vec<u64> = outs.iter().map(column).collect();
    Ok(layout.add(input, iter.extent, &column))
}

/// A place after `k` steps.
fn moved(place: &Place, iter: &Iter, k: u64) -> Place {
    let mut place = place.clone();
    if k > 0 {
        let at = place.get(&iter.axis).copied().unwrap_or(0) + iter.stride * k as i64;
        set(&mut place, iter.axis, at);
    }
    place
}

/// Sets a coordinate; zeros are not stored.
fn set(place: &mut Place, axis: Axis, at: i64) {
    match at {
        0 => place.remove(&axis),
        _ => place.insert(axis, at),
    };
}

/// Adds to a coordinate.
pub(crate) fn add(place: &mut Place, axis: Axis, by: i64) -> Result<(), LayoutError> {
    let sum = place.get(&axis).copied().unwrap_or(0).checked_add(by);
    match sum.filter(|s| s.unsigned_abs() <= LIMIT) {
        Some(at) => {
            set(place, axis, at);
            Ok(())
        }
        None => Err(LayoutError::Overflow { what: "offset", axis }),
    }
}

/// Refuses a shape of another rank.
pub(crate) fn same_rank(a: &[u64], b: &[u64]) -> Result<(), LayoutError> {
    match a.len() == b.len() {
        true => Ok(()),
        false => Err(refuse("axe", "rank", b.len() as u64, "both shapes have the same rank")),
    }
}
