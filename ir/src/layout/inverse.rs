//! Inverses lead from the place of an element back to the element.
//!
//! Every output axis must be a chain of digits, each the output of one outer iter or one row of the bit
//! matrix; the matrix is inverted by elimination over F2 (Linear Layouts, definition 4.5 and section 5.4).

use super::canonical::{Run, Runs, append};
use super::{Layout, LayoutError, OutVec};
use smallvec::SmallVec;

/// A digit of an output axis in the inverse.
enum Link {
    /// The value of the outer digit `digit`.
    Outer { out: usize, digit: usize },
    /// A digit of two values with the step `weight` on the output axis.
    Bit { out: usize, weight: u64 },
}

impl Link {
    /// Output and step of a bit.
    fn bit(&self) -> Option<(usize, u64)> {
        match *self {
            Link::Bit { out, weight } => Some((out, weight)),
            Link::Outer { .. } => None,
        }
    }
}

/// Vectors of F2^64 in echelon form, each with the set of inputs that sum to it.
pub(crate) struct Elimination {
    /// The vector whose highest bit is the index (0 where there is none), and its inputs.
    pivots: [(u64, u64); 64],
}

impl Elimination {
    /// No vector yet.
    pub fn new() -> Elimination {
        Elimination { pivots: [(0, 0); 64] }
    }

    /// The rest of a vector after elimination (0 if it depends on the inserted vectors), and the inputs used.
    pub fn reduce(&self, mut vector: u64) -> (u64, u64) {
        let mut used = 0;
        while vector != 0 {
            let (pivot, from) = self.pivots[vector.ilog2() as usize];
            if pivot == 0 {
                break;
            }
            vector ^= pivot;
            used ^= from;
        }
        (vector, used)
    }

    /// Adds the column of input `index` (below 64); false where it depends on earlier ones.
    pub fn insert(&mut self, column: u64, index: usize) -> bool {
        let (rest, used) = self.reduce(column);
        if rest != 0 {
            self.pivots[rest.ilog2() as usize] = (rest, used ^ (1 << index));
        }
        rest != 0
    }

    /// Inputs whose columns sum to `target`, if any.
    pub fn solve(&self, target: u64) -> Option<u64> {
        match self.reduce(target) {
            (0, used) => Some(used),
            _ => None,
        }
    }
}

/// Lowest set bit.
fn lowest(x: u64) -> u64 {
    x & x.wrapping_neg()
}

impl Layout {
    /// The inverse of a layout that is one-to-one and onto.
    pub fn invert(&self) -> Result<Layout, LayoutError> {
        self.inverse(true)
    }

    /// A layout `r` with `self(r(y)) == y`. If several inputs reach `y`, it takes the one with zero on the slowest
    /// inputs that are not needed. Requires a layout that is onto.
    pub fn right_inverse(&self) -> Result<Layout, LayoutError> {
        self.inverse(false)
    }

    /// Inverse; `exact` refuses inputs that repeat elements.
    fn inverse(&self, exact: bool) -> Result<Layout, LayoutError> {
        let mut used = SmallVec::<[bool; 32]>::from_elem(false, self.digits.len());
        let chain = self.chain(&mut used)?;
        let rows = self.solve_bits(&chain, &mut used)?;
        if exact && let Some(k) = used.iter().position(|u| !u) {
            let digit = self.digits[k];
            return Err(LayoutError::NotInjective {
                axis: self.ins[digit.axis as usize].0,
                weight: self.weight(k),
                extent: digit.extent,
            });
        }
        let (ins, outs) = (self.outs.clone(), self.ins.clone());
        match self.is_linear() && rows.len() == chain.len() && ins.iter().all(|a| a.1.is_power_of_two()) {
            true => Ok(self.reversed_bits(&chain, &rows)),
            false => Layout::from_runs(ins, outs, self.reversed(&chain, &rows)?),
        }
    }

    /// The inverse of a bit matrix.
    fn reversed_bits(&self, chain: &[Link], rows: &[u64]) -> Layout {
        let n = self.ins.len();
        let places = self.places();
        let mut columns = SmallVec::from_elem(0, chain.len() * n);
        for (k, &row) in rows.iter().enumerate() {
            let mut digits = row;
            while digits != 0 {
                let (axis, weight) = places[digits.trailing_zeros() as usize];
                columns[k * n + axis] |= weight;
                digits &= digits - 1;
            }
        }
        let axes = chain.iter().filter_map(Link::bit).map(|b| b.0 as u8);
        Layout::from_bits(self.outs.clone(), self.ins.clone(), axes, columns)
    }

    /// Axis and step of every digit on its input.
    fn places(&self) -> SmallVec<[(usize, u64); 32]> {
        let mut weights = OutVec::from_elem(1, self.ins.len());
        let place = |d: &super::Digit| {
            let weight = &mut weights[d.axis as usize];
            let place = (d.axis as usize, *weight);
            *weight *= d.extent;
            place
        };
        self.digits.iter().map(place).collect()
    }

    /// Step of a digit on its own input axis.
    pub(crate) fn weight(&self, digit: usize) -> u64 {
        let axis = self.digits[digit].axis;
        let below = self.digits[..digit].iter().filter(|d| d.axis == axis);
        below.map(|d| d.extent).product()
    }

    /// The digits of every output axis, low to high.
    fn chain(&self, used: &mut [bool]) -> Result<SmallVec<[Link; 24]>, LayoutError> {
        let mut chain = SmallVec::new();
        let outer = (0..self.digits.len()).filter(|&k| !self.digits[k].inner);
        let outer: SmallVec<[usize; 8]> = outer.collect();
        for (out, &(axis, extent)) in self.outs.iter().enumerate() {
            let mut weight = 1;
            while weight < extent {
                if let Some(digit) = self.outer_at(&outer, out, weight) {
                    chain.push(Link::Outer { out, digit });
                    used[digit] = true;
                    weight *= self.digits[digit].extent;
                } else if (extent / weight).is_multiple_of(2) {
                    chain.push(Link::Bit { out, weight });
                    weight *= 2;
                } else {
                    return Err(LayoutError::NotSurjective { axis, weight });
                }
            }
            if weight != extent {
                return Err(LayoutError::OutOfRange { axis, extent, needed: weight });
            }
        }
        Ok(chain)
    }

    /// The first of the outer digits that steps by `weight` on `out` and moves nothing else.
    fn outer_at(&self, outer: &[usize], out: usize, weight: u64) -> Option<usize> {
        outer.iter().copied().find(|&k| {
            let simple = |(o, &c): (usize, &u64)| c == if o == out { weight } else { 0 };
            self.column(k).iter().enumerate().all(simple)
        })
    }

    /// For every bit of the chain the inner digits whose columns sum to it.
    fn solve_bits(&self, chain: &[Link], used: &mut [bool]) -> Result<SmallVec<[u64; 24]>, LayoutError> {
        let mut elimination = Elimination::new();
        let mut columns = SmallVec::<[u64; 32]>::from_elem(0, self.digits.len());
        // Without outer digits the chain is the bits of all outputs, side by side.
        let plain = chain.iter().all(|l| l.bit().is_some_and(|b| b.1.is_power_of_two()));
        for k in (0..self.digits.len()).filter(|&k| self.digits[k].inner) {
            columns[k] = self.pack(k, chain, plain)?;
            used[k] |= elimination.insert(columns[k], k);
        }
        let bits: SmallVec<[(usize, u64); 32]> = chain.iter().filter_map(Link::bit).collect();
        apart(&columns, &bits)
            .map_err(|(out, bits)| LayoutError::Entangled { axis: self.outs[out].0, bits })?;
        let row = |(k, &(out, weight)): (usize, &(usize, u64))| {
            let axis = self.outs[out].0;
            elimination.solve(1 << k).ok_or(LayoutError::NotSurjective { axis, weight })
        };
        bits.iter().enumerate().map(row).collect()
    }

    /// A column as a mask over the chain's bits; a value inside an outer digit is in the way.
    fn pack(&self, digit: usize, chain: &[Link], plain: bool) -> Result<u64, LayoutError> {
        if plain {
            return Ok(self.pack_outs(self.column(digit)));
        }
        let mut rest = OutVec::from_slice(self.column(digit));
        let (mut packed, mut index) = (0, 0);
        for link in chain {
            let (out, extent) = match *link {
                Link::Outer { out, digit } => (out, self.digits[digit].extent),
                Link::Bit { out, .. } => (out, 2),
            };
            let value = rest[out] % extent;
            rest[out] /= extent;
            if let Link::Bit { .. } = link {
                packed |= value << index;
                index += 1;
            } else if value != 0 {
                return Err(LayoutError::Entangled { axis: self.outs[out].0, bits: self.column(digit)[out] });
            }
        }
        Ok(packed)
    }

    /// The digits of the inverse.
    fn reversed(&self, chain: &[Link], rows: &[u64]) -> Result<Runs, LayoutError> {
        let places = self.places();
        apart(rows, &places)
            .map_err(|(axis, bits)| LayoutError::Entangled { axis: self.ins[axis].0, bits })?;
        let mut rows_left = rows.iter();
        let several = shared(rows);
        let mut runs = Runs::new();
        for link in chain {
            let mut run = Run::strided(0, 2, OutVec::from_elem(0, self.ins.len()));
            match *link {
                Link::Outer { out, digit } => {
                    run.axis = out as u8;
                    run.extent = self.digits[digit].extent;
                    run.add[places[digit].0] = places[digit].1;
                }
                Link::Bit { out, .. } => {
                    run.axis = out as u8;
                    let row = rows_left.next().copied().unwrap_or(0);
                    fill(&mut run, row, several, &places);
                }
            }
            append(&mut runs, run);
        }
        Ok(runs)
    }
}

/// The column of one bit of the inverse: the steps of the digits in `row`; those in `several` rows swizzle.
fn fill(run: &mut Run, mut row: u64, several: u64, places: &[(usize, u64)]) {
    while row != 0 {
        let (axis, weight) = places[row.trailing_zeros() as usize];
        match several & lowest(row) {
            0 => run.add[axis] += weight,
            _ => run.xor[axis] ^= weight,
        }
        row &= row - 1;
    }
}

/// Elements that several of the sets have.
fn shared(sets: &[u64]) -> u64 {
    let add = |(seen, twice): (u64, u64), set: &u64| (seen | set, twice | seen & set);
    sets.iter().fold((0, 0), add).1
}

/// Checks that the steps of swizzled digits of one axis share no bits, so that exclusive or of sums is the sum of exclusive ors. `sets` are
/// columns over `places` (axis, step); fails with the axis and the bits that meet.
fn apart(sets: &[u64], places: &[(usize, u64)]) -> Result<(), (usize, u64)> {
    let mut several = shared(sets);
    let mut seen = SmallVec::<[(usize, u64); 8]>::new();
    while several != 0 {
        let (axis, weight) = places[several.trailing_zeros() as usize];
        several &= several - 1;
        match seen.iter_mut().find(|s| s.0 == axis) {
            Some(other) if other.1 & weight != 0 => return Err((axis, other.1 & weight)),
            Some(other) => other.1 |= weight,
            None => seen.push((axis, weight)),
        }
    }
    Ok(())
}
