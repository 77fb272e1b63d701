//! Composition: the digits of one layout run through the digits of the next.
//!
//! ```text
//!  left:  iter 6 : 4 on d0          right: d0 = [4, 8] with strides [1, 64]
//!         k·4, k < 6                       4 is digit (0, 1): 6 steps stay inside the 8  ->  iter 6 : 64
//! ```
//!
//! An iter that fits no digit is cut at the digit's border (CuTe's rule). A sum that would carry from one digit into
//! the next, or a multiplied swizzle, is refused with the axis at fault.

use super::canonical::{Run, Runs, append, disjoint, times, xor_mask};
use super::{Axes, Layout, LayoutError, OutVec};
use smallvec::SmallVec;

/// The right layout, prepared: its digits axis by axis as the left layout orders them.
struct Target<'a> {
    outs: usize,
    runs: Runs,
    /// For each output of the left layout the range of digits of the right.
    ranges: SmallVec<[(usize, usize); 4]>,
    left_outs: &'a Axes,
}

/// A column of the left layout taken apart: the digits of the right that it sets.
type Split = SmallVec<[DigitPart; 8]>;

/// A digit of the right and the value it gets, which came in on the left's output `axis`.
#[derive(Clone, Copy)]
struct DigitPart {
    axis: usize,
    digit: usize,
    value: u64,
}

/// One number for each digit of the right.
type Loads = SmallVec<[u64; 24]>;

/// Quotient and remainder; most digits are powers of two.
fn divide(value: u64, by: u64) -> (u64, u64) {
    match by.is_power_of_two() {
        true => (value >> by.trailing_zeros(), value & (by - 1)),
        false => (value / by, value % by),
    }
}

/// Input of the right layout that each output of the left is; none where the right has no such input (and the extent is 1).
type Matched = SmallVec<[Option<usize>; 4]>;

/// Matches axes by label.
fn matched(left: &Layout, right: &Layout) -> Result<Matched, LayoutError> {
    let missing = |&&(a, e): &&(_, u64)| e > 1 && !left.outs.iter().any(|o| o.0 == a);
    if let Some(&(axis, _)) = right.ins.iter().find(missing) {
        return Err(LayoutError::MissingAxis(axis));
    }
    let input = |&(axis, needed): &(_, u64)| {
        let index = right.ins.iter().position(|a| a.0 == axis);
        let extent = index.map_or(1, |i| right.ins[i].1);
        match index {
            _ if needed <= extent => Ok(index),
            Some(_) => Err(LayoutError::OutOfRange { axis, extent, needed }),
            None => Err(LayoutError::MissingAxis(axis)),
        }
    };
    left.outs.iter().map(input).collect()
}

impl<'a> Target<'a> {
    /// Finds the digits of the right layout on each output of the left.
    fn new(left: &'a Layout, right: &Layout, matched: &Matched) -> Target<'a> {
        let runs = right.open();
        let range = |index: &Option<usize>| {
            let of = |r: &Run| *index == Some(r.axis as usize);
            let start = runs.iter().position(of).unwrap_or(runs.len());
            let count = runs[start..].iter().take_while(|r| of(r)).count();
            (start, start + count)
        };
        let ranges = matched.iter().map(range).collect();
        Target { outs: right.outs.len(), runs, ranges, left_outs: &left.outs }
    }

    /// Takes a column apart.
    fn split(&self, column: &[u64]) -> Split {
        let mut split = Split::new();
        for (axis, (&(start, end), &c)) in self.ranges.iter().zip(column).enumerate() {
            let mut rest = c;
            for digit in start..end {
                if rest == 0 {
                    break;
                }
                let (quotient, value) = divide(rest, self.runs[digit].extent);
                rest = quotient;
                if value != 0 {
                    split.push(DigitPart { axis, digit, value });
                }
            }
        }
        split
    }

    /// How many steps of a digit with `extent` steps of `split` stay inside the digits of the right: the
    /// whole extent, or the steps to the nearest border.
    fn steps(&self, extent: u64, column: &[u64], split: &Split) -> Result<u64, LayoutError> {
        let mut steps = extent;
        for &DigitPart { axis, digit, value } in split {
            let room = self.runs[digit].extent;
            if (extent - 1).saturating_mul(value) < room {
                continue;
            }
            let (fits, rest) = divide(room, value);
            if rest != 0 || !extent.is_multiple_of(fits) {
                return Err(LayoutError::Misaligned {
                    axis: self.left_outs[axis].0,
                    extent,
                    stride: column[axis],
                    digit: room,
                });
            }
            steps = steps.min(fits);
        }
        Ok(steps)
    }

    /// Image of a column that adds.
    fn image(&self, axis: u8, extent: u64, split: &Split) -> Result<Run, LayoutError> {
        let mut run = Run::strided(axis, extent, OutVec::from_elem(0, self.outs));
        for part in split {
            let digit = &self.runs[part.digit];
            for out in 0..self.outs {
                run.xor[out] ^= digit.xor[out];
                let at = self.left_outs[part.axis].0;
                run.add[out] += times(part.value, digit.add[out], "stride", at)?;
            }
        }
        Ok(run)
    }

    /// Image of a column that swizzles: exclusive or of the images of its bits.
    fn image_xor(&self, axis: u8, split: &Split) -> Run {
        let mut run = Run::bit(axis, OutVec::from_elem(0, self.outs));
        for part in split {
            let digit = &self.runs[part.digit];
            for out in 0..self.outs {
                run.xor[out] ^= digit.xor[out];
                for b in (0..62).filter(|b| part.value >> b & 1 == 1) {
                    run.xor[out] ^= digit.add[out] << b;
                }
            }
        }
        run
    }

    /// Checks that swizzled bits fall on whole digits, that multiplying them is exclusive or, and that what
    /// comes of them stays apart. Returns how far they reach in each digit.
    fn check_swizzle(&self, mask: &OutVec) -> Result<Loads, LayoutError> {
        let mut fields = Loads::from_elem(0, self.runs.len());
        let mut taken = OutVec::from_elem(0, self.outs);
        for run in self.runs.iter() {
            taken.iter_mut().zip(&run.xor).for_each(|(t, x)| *t |= x);
        }
        for (axis, (&(start, end), &bits)) in self.ranges.iter().zip(mask).enumerate() {
            let at = self.left_outs[axis].0;
            let mut rest = bits;
            for k in start..end {
                let run = &self.runs[k];
                if rest == 0 {
                    break;
                }
                if !run.extent.is_power_of_two() && rest >= run.extent {
                    return Err(LayoutError::Misaligned {
                        axis: at,
                        extent: 2,
                        stride: rest,
                        digit: run.extent,
                    });
                }
                fields[k] = rest % run.extent;
                rest /= run.extent;
                for b in (0..62).filter(|b| fields[k] >> b & 1 == 1) {
                    let column: OutVec = run.add.iter().map(|a| a << b).collect();
                    if !disjoint(&column, &taken) {
                        return Err(LayoutError::Entangled { axis: at, bits: fields[k] });
                    }
                    taken.iter_mut().zip(&column).for_each(|(t, c)| *t |= c);
                }
            }
        }
        Ok(fields)
    }
}

impl Layout {
    /// Composition `rhs(self(x))`. Axes match by label; every output of `self` must be an input of `rhs`
    /// with at least its extent.
    ///
    /// Errors name the iter which does not line up with the digits of `rhs`, or the axis where a carry or a
    /// multiplied swizzle stands in the way (Linear Layouts, section 4.1; Axe, appendix E).
    pub fn then(&self, rhs: &Layout) -> Result<Layout, LayoutError> {
        let matched = matched(self, rhs)?;
        if self.is_linear() && rhs.is_linear() {
            return Ok(self.then_bits(rhs, &matched));
        }
        let target = Target::new(self, rhs, &matched);
        let left = self.open();
        let mut load = target.check_swizzle(&xor_mask(&left, self.outs.len()))?;
        let mut runs = Runs::new();
        for run in &left {
            if run.swizzles() {
                runs.push(target.image_xor(run.axis, &target.split(&run.xor)));
                continue;
            }
            let (mut extent, mut column) = (run.extent, run.add.clone());
            while extent > 1 {
                let split = target.split(&column);
                let steps = target.steps(extent, &column, &split)?;
                append(&mut runs, target.image(run.axis, steps, &split)?);
                for part in &split {
                    let load = &mut load[part.digit];
                    *load = load.saturating_add(part.value.saturating_mul(steps - 1));
                }
                extent /= steps;
                column.iter_mut().for_each(|c| *c *= steps);
            }
        }
        self.check_carries(&target, &load)?;
        Layout::from_runs(self.ins.clone(), rhs.outs.clone(), runs)
    }

    /// Composition of bit matrices: every column is the exclusive or of the right's columns at its bits.
    fn then_bits(&self, rhs: &Layout, matched: &Matched) -> Layout {
        let n = rhs.outs.len();
        // A linear layout has one digit for each bit of an input.
        let first = |index: &Option<usize>| {
            let below = rhs.ins[..index.unwrap_or(0)].iter();
            below.map(|a| a.1.trailing_zeros() as usize).sum()
        };
        let first: SmallVec<[usize; 4]> = matched.iter().map(first).collect();
        let mut columns = SmallVec::from_elem(0, self.digits.len() * n);
        for digit in 0..self.digits.len() {
            let image = &mut columns[digit * n..][..n];
            for (&value, &start) in self.column(digit).iter().zip(&first) {
                let mut bits = value;
                while bits != 0 {
                    let column = rhs.column(start + bits.trailing_zeros() as usize);
                    image.iter_mut().zip(column).for_each(|(i, c)| *i ^= c);
                    bits &= bits - 1;
                }
            }
        }
        let axes = self.digits.iter().map(|d| d.axis);
        Layout::from_bits(self.ins.clone(), rhs.outs.clone(), axes, columns)
    }

    /// Refuses sums that leave a digit of the right layout.
    fn check_carries(&self, target: &Target<'_>, load: &Loads) -> Result<(), LayoutError> {
        for (axis, &(start, end)) in target.ranges.iter().enumerate() {
            for k in start..end {
                let (digit, reach) = (target.runs[k].extent, load[k]);
                if reach >= digit {
                    return Err(LayoutError::Carry { axis: self.outs[axis].0, digit, reach });
                }
            }
        }
        Ok(())
    }
}
