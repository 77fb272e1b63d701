//! Questions to a layout: its digits, contiguity, replication, injectivity.

use super::inverse::Elimination;
use super::{Axis, Layout, OutVec};

/// How a digit of an input axis moves the output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A bit whose column is exclusive-or-ed with the other inner columns.
    Xor,
    /// A digit whose value times the column is added.
    Add,
}

/// One digit of an input axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Basis {
    /// The step of the digit on its input axis: the digit is `x / weight % extent`.
    pub weight: u64,
    /// Number of values, 2 for [`Step::Xor`].
    pub extent: u64,
    /// How it moves the output.
    pub step: Step,
    /// The output coordinates of its value one, in the order of [`Layout::outs`].
    pub out: OutVec,
}

impl Layout {
    /// Every digit of an input axis, the fastest first: exclusive-or bits and additive strides. The output is the
    /// exclusive or of the `Xor` columns whose bit is set, plus the sum of value times column of the `Add` ones.
    /// Empty where there is no such axis or its extent is 1.
    pub fn basis(&self, axis: Axis) -> Vec<Basis> {
        let mut weight = 1;
        let mut basis = Vec::new();
        for (k, digit) in self.digits.iter().enumerate() {
            if self.ins[digit.axis as usize].0 != axis {
                continue;
            }
            let step = if digit.inner { Step::Xor } else { Step::Add };
            let out = OutVec::from_slice(self.column(k));
            basis.push(Basis { weight, extent: digit.extent, step, out });
            weight *= digit.extent;
        }
        basis
    }

    /// Whether the whole layout is linear over F2 (no outer digit is left).
    pub fn is_linear(&self) -> bool {
        self.digits.iter().all(|d| d.inner)
    }

    /// Largest power-of-two run of `in_axis` that is mapped contiguously onto `out_axis` and starts at a multiple of its
    /// length there: the width in elements of a vector access (Linear Layouts, section 5.1).
    pub fn contiguous(&self, in_axis: Axis, out_axis: Axis) -> u64 {
        let Some(out) = self.outs.iter().position(|a| a.0 == out_axis) else {
            return 1;
        };
        let mut run = 1;
        let mut outside = 0;
        for (k, digit) in self.digits.iter().enumerate() {
            let column = self.column(k);
            let only = column.iter().enumerate().all(|(o, &c)| o == out || c == 0);
            let follows = self.ins[digit.axis as usize].0 == in_axis
                && only
                && column[out] == run
                && self.weight(k) == run;
            match follows && digit.extent.is_power_of_two() {
                true => run *= digit.extent,
                false => outside |= column[out],
            }
        }
        run.min(1 << outside.trailing_zeros().min(62))
    }

    /// Bits of an input axis that move nothing. Digits whose extent is no power of two are not in the mask, see
    /// [`replicated`](Layout::replicated).
    pub fn free_mask(&self, axis: Axis) -> u64 {
        let zero = |b: &Basis| b.extent == 2 && b.weight.is_power_of_two() && b.out.iter().all(|&o| o == 0);
        self.basis(axis).iter().filter(|b| zero(b)).map(|b| b.weight).sum()
    }

    /// The digits of an input axis that only repeat elements which other digits (earlier in the order of
    /// [`ins`](Layout::ins), faster on the same axis) reach too. Exactly the inputs where all replicated digits of all axes are
    /// zero hold each element once.
    pub fn replicated(&self, axis: Axis) -> Vec<Basis> {
        let all = self.dependent_digits();
        let mut basis = self.basis(axis).into_iter();
        let of_axis = |k: &usize| self.ins[self.digits[*k].axis as usize].0 == axis;
        let digits = (0..self.digits.len()).filter(of_axis);
        digits.zip(&mut basis).filter(|(k, _)| all[*k]).map(|(_, b)| b).collect()
    }

    /// For every digit, whether the other digits reach the same outputs.
    fn dependent_digits(&self) -> Vec<bool> {
        let mut elimination = Elimination::new();
        let mut dependent = Vec::with_capacity(self.digits.len());
        for (k, digit) in self.digits.iter().enumerate() {
            let column = self.column(k);
            let zero = column.iter().all(|&c| c == 0);
            dependent.push(match digit.inner {
                true => zero || !elimination.insert(self.pack_outs(column), k),
                false => zero || self.repeats(k),
            });
        }
        dependent
    }

    /// Whether an earlier outer digit has the same column and at least the same extent.
    fn repeats(&self, digit: usize) -> bool {
        let extent = self.digits[digit].extent;
        (0..digit).any(|k| {
            let d = self.digits[k];
            !d.inner && d.extent >= extent && self.column(k) == self.column(digit)
        })
    }

    /// Whether every output is reached at most once.
    pub fn is_injective(&self) -> bool {
        match self.outs.iter().map(|a| a.1).product::<u64>() < self.size() {
            true => false,
            false => self.by_evaluation_or_inverse(),
        }
    }

    /// How many outputs are reached: of a linear layout by its rank, else by evaluation.
    pub fn image_size(&self) -> u64 {
        let bits: u32 = self.outs.iter().map(|a| u64::BITS - (a.1 - 1).leading_zeros()).sum();
        if self.is_linear() && bits <= super::linear::PACKED_BITS {
            return 1 << self.rank();
        }
        let reached: rustc_hash::FxHashSet<_> = self.inputs().map(|x| self.apply(&x)).collect();
        reached.len() as u64
    }

    /// Injective where an inverse exists; else decided by evaluation.
    fn by_evaluation_or_inverse(&self) -> bool {
        if self.invert().is_ok() {
            return true;
        }
        let mut seen = rustc_hash::FxHashSet::default();
        self.inputs().all(|x| seen.insert(self.apply(&x)))
    }
}
