//! A layout says where an element lives.
//!
//! A [`Layout`] maps coordinates on its input axes to coordinates on its output axes. Every input
//! axis is cut into digits, and a digit moves the output either by exclusive or or by addition:
//!
//! ```text
//!   row of a swizzled 96 x 64 f16 tile (d0)                      offset in memory (m)
//!   ┌───────────────┬──────┬──────┬──────┬──────┬──────┐
//!   │ digit 3       │ bit 4│ bit 3│ bit 2│ bit 1│ bit 0│   = 3 · 2 · 2 · 2 · 2 · 2 rows
//!   └──────┬────────┴──┬───┴──┬───┴──┬───┴──┬───┴──┬───┘
//!          + 2048 · k  └──────┴── ⊕ columns of a bit matrix over F2 (swizzles live here)
//!          outer part             inner part
//!
//!   layout(x) = (⊕ inner columns of the bits of x) + (Σ stride · outer digits of x)
//! ```
//!
//! The inner part is a linear layout (Linear Layouts: Robust Code Generation of Efficient Tensor
//! Computation Using F2, section 4); the outer part is the strided part of Axe (Axe: A Simple Unified
//! Layout Abstraction for Machine Learning Compilers, section 2), which has any extents. Digits whose
//! extent is a power of two and that never carry move inward. The others stay outward. The form is canonical: `==`
//! compares functions. ([`Layout::equivalent`] compares by evaluation.)
//!
//! Distributed layouts map `(reg, lane, warp, warpgroup)` to dimensions of a tile. Memory layouts map dimensions to
//! `m`. The composition of one with the inverse of another is a copy.

pub mod access;
mod algebra;
pub mod axe;
mod axis;
mod canonical;
mod compose;
pub mod convert;
mod error;
pub mod fragment;
pub mod gather;
mod inverse;
mod linear;
pub mod notation;
pub mod picture;
mod query;
pub mod report;
pub mod shape;
pub mod shared;
mod space;
pub mod swizzle;
pub mod synthesis;

#[cfg(test)]
mod tests;

pub use axis::{Axis, Symbol};
pub use canonical::Builder;
pub use error::LayoutError;
pub use query::{Basis, Step};

use smallvec::SmallVec;

/// Coordinates, one for each axis in order.
pub type OutVec = SmallVec<[u64; 4]>;

/// Axes with their extents.
pub(crate) type Axes = SmallVec<[(Axis, u64); 4]>;

/// Largest extent, stride or offset: sums and products of two stay inside `u64`.
pub(crate) const LIMIT: u64 = 1 << 62;

/// One digit of an input axis. Digits of an axis stand next to each other, the fastest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Digit {
    /// Number of values.
    pub extent: u64,
    /// Index of the input axis.
    pub axis: u8,
    /// Whether its column is combined by exclusive or (extent 2) or by addition.
    pub inner: bool,
    /// Whether that makes a difference: its column shares bits with those of other inner digits.
    pub swizzles: bool,
}

/// A map from coordinates on input axes to coordinates on output axes. See the module documentation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    ins: Axes,
    outs: Axes,
    digits: SmallVec<[Digit; 24]>,
    /// One row of `outs.len()` numbers for each digit: the output of its value one.
    columns: SmallVec<[u64; 48]>,
}

impl Layout {
    /// Input axes with their extents.
    pub fn ins(&self) -> &[(Axis, u64)] {
        &self.ins
    }

    /// Output axes with their extents; every coordinate that the layout yields lies below them.
    pub fn outs(&self) -> &[(Axis, u64)] {
        &self.outs
    }

    /// Extent of an input axis, 1 where there is none.
    pub fn in_extent(&self, axis: Axis) -> u64 {
        self.ins.iter().find(|(a, _)| *a == axis).map_or(1, |a| a.1)
    }

    /// Extent of an output axis, 1 where there is none.
    pub fn out_extent(&self, axis: Axis) -> u64 {
        self.outs.iter().find(|(a, _)| *a == axis).map_or(1, |a| a.1)
    }

    /// Product of the extents of the input axes (below 2^62).
    pub fn size(&self) -> u64 {
        self.ins.iter().map(|a| a.1).product()
    }

    /// Column of a digit.
    pub(crate) fn column(&self, digit: usize) -> &[u64] {
        let n = self.outs.len();
        &self.columns[digit * n..(digit + 1) * n]
    }

    /// The coordinates on [`outs`](Layout::outs) of the coordinates `ins` (in the order of
    /// [`ins`](Layout::ins)). Missing inputs count as 0, inputs wrap at their extent.
    pub fn apply(&self, ins: &[u64]) -> OutVec {
        let mut xor = OutVec::from_elem(0, self.outs.len());
        let mut sum = xor.clone();
        let (mut axis, mut rest) = (u8::MAX, 0);
        for (k, digit) in self.digits.iter().enumerate() {
            if digit.axis != axis {
                axis = digit.axis;
                rest = ins.get(axis as usize).copied().unwrap_or(0);
            }
            let value = rest % digit.extent;
            rest /= digit.extent;
            if value != 0 {
                let column = self.column(k);
                match digit.inner {
                    true => xor.iter_mut().zip(column).for_each(|(x, c)| *x ^= c),
                    false => sum.iter_mut().zip(column).for_each(|(s, c)| *s += value * c),
                }
            }
        }
        sum.iter_mut().zip(&xor).for_each(|(s, x)| *s += x);
        sum
    }

    /// Whether both are the same function on the same axes: linear ones by evaluation of every bit of the inputs, others of
    /// every input. Layouts whose strides overlap can be equal without having equal canonical forms.
    pub fn equivalent(&self, other: &Layout) -> bool {
        let agree = |x: OutVec| self.apply(&x) == other.apply(&x);
        let bits = self.is_linear() && other.is_linear();
        let same = self.ins == other.ins && self.outs.len() == other.outs.len();
        same && (self == other || if bits { self.input_bits().all(agree) } else { self.inputs().all(agree) })
    }

    /// All inputs that are one bit of one axis.
    fn input_bits(&self) -> impl Iterator<Item = OutVec> + '_ {
        let of = move |(k, &(_, extent)): (usize, &(Axis, u64))| {
            let bits = (0..u64::BITS).map(|b| 1 << b).take_while(move |&v| v < extent);
            bits.map(move |v| {
                let mut input = OutVec::from_elem(0, self.ins.len());
                input[k] = v;
                input
            })
        };
        self.ins.iter().enumerate().flat_map(of)
    }

    /// All inputs, the first axis running fastest.
    pub fn inputs(&self) -> impl Iterator<Item = OutVec> + '_ {
        (0..self.size()).map(|mut i| {
            let digit = |&(_, e): &(Axis, u64)| {
                let v = i % e;
                i /= e;
                v
            };
            self.ins.iter().map(digit).collect()
        })
    }
}
