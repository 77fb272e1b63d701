//! Values at run time.

use super::memory::BufferId;
use super::number::Number;
use super::tile::Tile;
use smallvec::SmallVec;
use std::rc::Rc;

/// The content of a value.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Scalar(Number),
    /// A place in a buffer, in bytes.
    Ptr(BufferId, u64),
    Tile(Rc<Tile>),
    View(Rc<View>),
}

/// The extent of a dimension whose end the kernel does not know.
pub(super) const UNBOUNDED: i64 = i64::MAX;

/// A bounded window on a buffer.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub buffer: BufferId,
    /// First element, in bytes.
    pub offset: u64,
    /// Elements from there to the one at index zero.
    pub first: i128,
    /// [`UNBOUNDED`] where no index is outside.
    pub extents: SmallVec<[i64; 5]>,
    /// In elements.
    pub strides: SmallVec<[i64; 5]>,
    pub fill: f64,
    /// Whether the array reaches as far as accesses do: the view, or the one that it is a part of, has an unbounded extent.
    pub open: bool,
}

impl View {
    /// Whether an index lies outside of a dimension.
    pub fn is_outside(&self, dim: usize, index: i128) -> bool {
        let extent = self.extents[dim];
        extent != UNBOUNDED && !(0..extent.into()).contains(&index)
    }
}

impl Val {
    /// The tile, if it is one.
    pub fn tile(&self) -> Option<&Tile> {
        match self {
            Self::Tile(t) => Some(t),
            _ => None,
        }
    }

    /// The element at a place; a scalar is the same everywhere.
    pub fn number(&self, at: usize) -> Number {
        match self {
            Self::Scalar(n) => *n,
            Self::Tile(t) => t.get(at),
            _ => Number::Int(0),
        }
    }
}
