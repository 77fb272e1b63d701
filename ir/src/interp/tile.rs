//! A tile at run time: its elements in row-major order.

use super::memory::{get, put};
use super::number::{Number, from_bits, to_bits};
use crate::types::Elem;
use smallvec::SmallVec;

/// Extents.
pub(super) type Extents = SmallVec<[usize; 5]>;

/// The elements of a tile.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Float(Vec<f64>),
    Int(Vec<i64>),
}

/// A tile.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub elem: Elem,
    pub extents: Extents,
    pub data: Data,
}

impl Tile {
    /// A tile whose element at each row-major place is given.
    pub fn from_fn(elem: Elem, extents: Extents, mut at: impl FnMut(usize) -> Number) -> Self {
        let count = extents.iter().product();
        let data = match elem.is_float() {
            true => Data::Float((0..count).map(|i| at(i).as_f64()).collect()),
            false => Data::Int((0..count).map(|i| at(i).as_i64()).collect()),
        };
        Self { elem, extents, data }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.data {
            Data::Float(v) => v.len(),
            Data::Int(v) => v.len(),
        }
    }

    /// The element at a row-major place.
    pub fn get(&self, at: usize) -> Number {
        match &self.data {
            Data::Float(v) => Number::Float(v[at]),
            Data::Int(v) => Number::Int(v[at]),
        }
    }

    /// A tile of this one's elements: `from` gives the place of each, from its index.
    pub fn pick(&self, extents: Extents, mut from: impl FnMut(&[usize]) -> usize) -> Self {
        let mut places = Vec::with_capacity(extents.iter().product());
        each_index(&extents, |index| places.push(from(index)));
        let data = match &self.data {
            Data::Float(v) => Data::Float(places.iter().map(|&p| v[p]).collect()),
            Data::Int(v) => Data::Int(places.iter().map(|&p| v[p]).collect()),
        };
        Self { elem: self.elem, extents, data }
    }

    /// Distances of neighbours along each dimension.
    pub fn strides(&self) -> Extents {
        strides(&self.extents)
    }

    /// The same bits as elements of another type.
    pub fn view_as(&self, elem: Elem, extents: Extents) -> Self {
        let (from, to) = (self.elem.bits(), elem.bits());
        let mut bytes = vec![0u8; (self.len() * from as usize).div_ceil(8)];
        for i in 0..self.len() {
            let bits = to_bits(self.elem, self.get(i));
            put(&mut bytes, i * from as usize, from, bits);
        }
        Self::from_fn(elem, extents, |i| from_bits(elem, get(&bytes, i * to as usize, to)))
    }
}

/// Row-major distances.
pub(super) fn strides(extents: &[usize]) -> Extents {
    let mut all: Extents = extents.into();
    let mut step = 1;
    for (stride, &extent) in all.iter_mut().zip(extents).rev() {
        *stride = step;
        step *= extent;
    }
    all
}

pub(super) fn dot(a: &[usize], b: &[usize]) -> usize {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Visits all indices in row-major order.
pub(super) fn each_index(extents: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut index: Extents = extents.iter().map(|_| 0).collect();
    for _ in 0..extents.iter().product::<usize>() {
        visit(&index);
        for (i, &extent) in index.iter_mut().zip(extents).rev() {
            *i += 1;
            if *i < extent {
                break;
            }
            *i = 0;
        }
    }
}
