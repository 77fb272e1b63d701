//! The bit matrix of the inner part: rank, kernel, image, transpose (Linear Layouts, sections 4.2 and 5.1).

use super::canonical::{Run, Runs};
use super::inverse::Elimination;
use super::{Axis, Layout, LayoutError, OutVec};
use smallvec::SmallVec;

/// Output bits that fit a packed column.
pub(crate) const PACKED_BITS: u32 = u64::BITS;

impl Layout {
    /// Rank of the bit matrix: the inner digits reach `2^rank` outputs.
    pub fn rank(&self) -> u32 {
        let all = self.columns_packed();
        let mut elimination = Elimination::new();
        let inner = (0..self.digits.len()).filter(|&k| self.digits[k].inner);
        inner.filter(|&k| elimination.insert(all[k], k)).count() as u32
    }

    /// A basis of the inputs that the bit matrix sends to zero, each in the order of [`ins`](Layout::ins).
    pub fn kernel(&self) -> Vec<OutVec> {
        let all = self.columns_packed();
        let mut elimination = Elimination::new();
        let mut kernel = Vec::new();
        for k in (0..self.digits.len()).filter(|&k| self.digits[k].inner) {
            let (rest, used) = elimination.reduce(all[k]);
            match rest {
                0 => kernel.push(self.input_of(used | 1 << k)),
                _ => {
                    elimination.insert(all[k], k);
                }
            }
        }
        kernel
    }

    /// Independent columns of the bit matrix, the first of each dependent set: a basis of its image.
    pub fn image(&self) -> Vec<OutVec> {
        let all = self.columns_packed();
        let mut elimination = Elimination::new();
        let inner = (0..self.digits.len()).filter(|&k| self.digits[k].inner);
        inner.filter(|&k| elimination.insert(all[k], k)).map(|k| OutVec::from_slice(self.column(k))).collect()
    }

    /// The transposed bit matrix: `d1 -> reg` where `reg -> d1` was. It is the inverse of a layout that permutes
    /// bits. Refuses a layout with an outer part, and axes that are no powers of two.
    pub fn transpose(&self) -> Result<Layout, LayoutError> {
        self.require_linear()?;
        let mut runs = Runs::new();
        for (out, &(axis, extent)) in self.outs.iter().enumerate() {
            if !extent.is_power_of_two() {
                return Err(LayoutError::NotDivisible { axis, extent, by: 2 });
            }
            for bit in 0..extent.trailing_zeros() {
                let mut row = OutVec::from_elem(0, self.ins.len());
                for k in (0..self.digits.len()).filter(|&k| self.column(k)[out] >> bit & 1 == 1) {
                    row[self.digits[k].axis as usize] |= self.weight(k);
                }
                runs.push(Run::bit(out as u8, row));
            }
        }
        Layout::from_runs(self.outs.clone(), self.ins.clone(), runs)
    }

    /// Names an outer digit where there is one.
    pub(crate) fn require_linear(&self) -> Result<(), LayoutError> {
        match self.digits.iter().position(|d| !d.inner) {
            None => Ok(()),
            Some(k) => Err(LayoutError::Outer {
                axis: self.ins[self.digits[k].axis as usize].0,
                weight: self.weight(k),
                extent: self.digits[k].extent,
            }),
        }
    }

    /// Whether both are equal when inputs that move nothing are left out (Linear Layouts, section 6.2: conversions between
    /// such layouts only drop or repeat copies).
    pub fn equal_up_to_broadcast(&self, other: &Layout) -> bool {
        let strip = |l: &Layout| {
            let mut stripped = l.clone();
            for &(axis, _) in &l.ins {
                stripped = stripped.without_broadcast(axis).ok()?;
            }
            let axes: Vec<Axis> = l.ins.iter().map(|a| a.0).filter(|&a| stripped.in_extent(a) > 1).collect();
            stripped.with_ins(&axes).ok()
        };
        match (strip(self), strip(other)) {
            (Some(a), Some(b)) => a.with_ins(&labels(&b.ins)).is_ok_and(|a| a == b),
            _ => false,
        }
    }

    /// Every column as one number, outputs side by side, low bits first. Output bits beyond [`PACKED_BITS`] are lost: many axes
    /// whose extents are no powers of two have more.
    pub(crate) fn columns_packed(&self) -> SmallVec<[u64; 24]> {
        (0..self.digits.len()).map(|k| self.pack_outs(self.column(k))).collect()
    }

    /// Output coordinates as one number: each output has the bits of its extent.
    pub(crate) fn pack_outs(&self, coords: &[u64]) -> u64 {
        let (mut packed, mut shift) = (0u64, 0u32);
        for (&(_, extent), &c) in self.outs.iter().zip(coords) {
            packed |= c.checked_shl(shift).unwrap_or(0);
            shift += bits_of(extent);
        }
        packed
    }

    /// The input that has exactly the digits of the set at one.
    pub(crate) fn input_of(&self, digits: u64) -> OutVec {
        let mut input = OutVec::from_elem(0, self.ins.len());
        for k in (0..self.digits.len()).filter(|k| digits >> k & 1 == 1) {
            input[self.digits[k].axis as usize] += self.weight(k);
        }
        input
    }
}

/// Bits that coordinates below an extent need.
pub(crate) fn bits_of(extent: u64) -> u32 {
    64 - (extent.max(1) - 1).leading_zeros()
}

/// The labels of axes.
pub(crate) fn labels(axes: &[(Axis, u64)]) -> Vec<Axis> {
    axes.iter().map(|a| a.0).collect()
}
