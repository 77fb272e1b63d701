//! Shape operations: the layout of a tile before and after, such that the operation moves nothing (Linear Layouts,
//! section 4.4 and theorem 9.3).
//!
//! ```text
//!   input tile ──layout──► dims of the input
//!        ║ same registers        │ Shape::map, a layout between dimensions
//!   output tile ─layout──► dims of the output        forward = layout · map,  backward = layout · map⁻¹
//! ```

use super::canonical::{Run, Runs, times};
use super::{Axes, Axis, Layout, LayoutError, OutVec};

/// Dimensions `d0, d1, ...` with the extents of a shape.
pub fn dims(shape: &[u64]) -> Vec<(Axis, u64)> {
    let dim = |(d, &e): (usize, &u64)| (Axis::Dim(d.min(255) as u8), e);
    shape.iter().enumerate().map(dim).collect()
}

/// A shape operation on a tile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `reshape` from one shape to another of equal size, row-major.
    Reshape(Vec<u64>, Vec<u64>),
    /// `trans`: output dimension `i` is input dimension `order[i]`; the shape is the input's.
    Trans(Vec<u64>, Vec<usize>),
    /// `expand_dims`: a new dimension of extent 1 before the dimension at the index; the shape is the input's.
    Expand(Vec<u64>, usize),
}

impl Shape {
    /// The map from the dimensions of the input to those of the output.
    pub fn map(&self) -> Result<Layout, LayoutError> {
        match self {
            Shape::Reshape(from, to) => reshape(&dims(from), &dims(to)),
            Shape::Trans(shape, order) => trans(shape, order),
            Shape::Expand(shape, at) => {
                let mut to = shape.clone();
                to.insert((*at).min(shape.len()), 1);
                reshape(&dims(shape), &dims(&to))
            }
        }
    }

    /// The layout of the output, given that of the input.
    pub fn forward(&self, input: &Layout) -> Result<Layout, LayoutError> {
        input.then(&self.map()?)
    }

    /// The layout of the input, given that of the output.
    pub fn backward(&self, output: &Layout) -> Result<Layout, LayoutError> {
        output.then(&self.map()?.invert()?)
    }
}

/// Row-major flattening: the last of `from` runs fastest.
pub fn flatten(from: &[(Axis, u64)], to: Axis) -> Result<Layout, LayoutError> {
    let mut stride = 1;
    let mut runs = Runs::new();
    for (index, &(axis, extent)) in from.iter().enumerate().rev() {
        runs.insert(0, Run::strided(index.min(255) as u8, extent.max(1), OutVec::from_slice(&[stride])));
        stride = times(stride, extent, "number of elements", axis)?;
    }
    Layout::from_runs(Axes::from_slice(from), Axes::from_slice(&[(to, stride)]), runs)
}

/// The map between two row-major shapes of equal size.
pub fn reshape(from: &[(Axis, u64)], to: &[(Axis, u64)]) -> Result<Layout, LayoutError> {
    let (a, b) = (flatten(from, Axis::Mem)?, flatten(to, Axis::Mem)?);
    match (a.out_extent(Axis::Mem), b.out_extent(Axis::Mem)) {
        (extent, needed) if extent != needed => {
            Err(LayoutError::OutOfRange { axis: Axis::Mem, extent, needed })
        }
        _ => a.then(&b.invert()?),
    }
}

/// The map that permutes dimensions.
fn trans(shape: &[u64], order: &[usize]) -> Result<Layout, LayoutError> {
    let bad = order.iter().find(|&&d| d >= shape.len());
    if let Some(&d) = bad {
        return Err(LayoutError::MissingAxis(Axis::Dim(d.min(255) as u8)));
    }
    if order.len() != shape.len() {
        return Err(LayoutError::MissingAxis(Axis::Dim(order.len().min(255) as u8)));
    }
    let permuted: Vec<u64> = order.iter().map(|&d| shape[d]).collect();
    let mut runs = Runs::new();
    for (d, &extent) in shape.iter().enumerate() {
        let column = order.iter().map(|&o| u64::from(o == d)).collect();
        runs.push(Run::strided(d as u8, extent.max(1), column));
    }
    Layout::from_runs(Axes::from_slice(&dims(shape)), Axes::from_slice(&dims(&permuted)), runs)
}

impl Layout {
    /// Layout of `join(a, b)`: a new last dimension of extent 2, which is the fastest register bit.
    pub fn join(&self) -> Result<Layout, LayoutError> {
        let last = Axis::Dim(self.outs.len().min(255) as u8);
        Layout::identity(Axis::Reg, last, 2)?
            .product(self)?
            .reordered(&self.ins_with(Axis::Reg), &self.outs_with(last))
    }

    /// Layout of the halves of `split`: the last dimension (extent 2) is gone. It must be a register bit of its own;
    /// the value returned beside the layout is that bit's weight: the first half are the registers where it is 0.
    pub fn split(&self) -> Result<(Layout, u64), LayoutError> {
        let last = self.outs.len().wrapping_sub(1);
        let axis = self.outs.get(last).ok_or(LayoutError::MissingAxis(Axis::Dim(0)))?.0;
        let own = |b: &super::Basis| {
            b.extent == 2 && b.out.iter().enumerate().all(|(o, &c)| c == u64::from(o == last))
        };
        let bit = self.basis(Axis::Reg).into_iter().find(own);
        let bit = bit.ok_or(LayoutError::NotATile(axis))?;
        let kept = self.without_digit(Axis::Reg, bit.weight)?;
        match kept.project_out(axis)? {
            half if kept.moves(axis) => Err(LayoutError::NotATile(half.outs[0].0)),
            half => Ok((half, bit.weight)),
        }
    }

    /// Whether some input moves the output axis.
    pub fn moves(&self, axis: Axis) -> bool {
        let out = self.outs.iter().position(|a| a.0 == axis);
        out.is_some_and(|o| (0..self.digits.len()).any(|k| self.column(k)[o] != 0))
    }

    /// Layout of `broadcast` of dimension `dim` (extent 1) to `extent`: new registers, slower than all others.
    pub fn broadcast(&self, dim: u8, extent: u64) -> Result<Layout, LayoutError> {
        let axis = Axis::Dim(dim);
        match self.out_extent(axis) {
            1 => self
                .product(&Layout::identity(Axis::Reg, axis, extent)?)?
                .reordered(&self.ins_with(Axis::Reg), &self.outs_with(axis)),
            extent => Err(LayoutError::NotDivisible { axis, extent, by: extent }),
        }
    }

    /// Layout of the input of a broadcast of `dim`, given that of the output: the dimension shrinks to one element, and
    /// registers that differ in it alone are one.
    pub fn broadcast_backward(&self, dim: u8) -> Result<Layout, LayoutError> {
        let axis = Axis::Dim(dim);
        let mut outs = self.outs.clone();
        let at = outs.iter().position(|a| a.0 == axis).ok_or(LayoutError::MissingAxis(axis))?;
        outs[at].1 = 1;
        let small = self.project_out(axis)?;
        let small = if small.ins.iter().any(|a| a.0 == Axis::Reg) {
            small.without_broadcast(Axis::Reg)?
        } else {
            small
        };
        small.reordered(&small.ins, &outs)
    }

    /// Without the digit of `axis` at `weight` (an inner bit): only its value 0 stays.
    pub fn without_digit(&self, axis: Axis, weight: u64) -> Result<Layout, LayoutError> {
        let index = self.ins.iter().position(|a| a.0 == axis).ok_or(LayoutError::MissingAxis(axis))?;
        let mut runs = Runs::new();
        let mut ins = self.ins.clone();
        for (k, digit) in self.digits.iter().enumerate() {
            if digit.axis as usize == index && self.weight(k) == weight {
                ins[index].1 /= digit.extent;
                continue;
            }
            let column = OutVec::from_slice(self.column(k));
            runs.push(match digit.inner {
                true => Run::bit(digit.axis, column),
                false => Run::strided(digit.axis, digit.extent, column),
            });
        }
        Layout::from_runs(ins, self.outs.clone(), runs)
    }

    /// The first `extent` values of an input axis. The extent must fall on a border of the axis' digits.
    pub fn truncated(&self, axis: Axis, extent: u64) -> Result<Layout, LayoutError> {
        let index = self.ins.iter().position(|a| a.0 == axis).ok_or(LayoutError::MissingAxis(axis))?;
        let mut ins = self.ins.clone();
        ins[index].1 = extent;
        let mut left = extent;
        let mut runs = Runs::new();
        for mut run in self.open() {
            if run.axis as usize == index {
                let keep = if left >= run.extent { run.extent } else { left };
                if !left.is_multiple_of(keep.max(1)) {
                    return Err(LayoutError::NotDivisible { axis, extent: left, by: run.extent });
                }
                run.extent = keep.max(1);
                left /= run.extent;
            }
            if run.extent > 1 {
                runs.push(run);
            }
        }
        match left {
            0 | 1 => Layout::from_runs(ins, self.outs.clone(), runs),
            _ => Err(LayoutError::OutOfRange { axis, extent: self.ins[index].1, needed: extent }),
        }
    }

    /// Concatenation of inputs (Axe, appendix F, direct sum): `(x, y)` goes to `self(x) + rhs(y)`; shared input axes get the digits of
    /// `rhs` above those of `self`. Outputs are those of `self`, which must contain those of `rhs` and the sums.
    pub fn direct_sum(&self, rhs: &Layout) -> Result<Layout, LayoutError> {
        let rhs = rhs.reordered(&rhs.ins, &self.outs)?;
        let mut ins = self.ins.clone();
        let mut runs = self.open();
        let places = rhs.ins.iter().map(|&(axis, extent)| match ins.iter().position(|a| a.0 == axis) {
            Some(i) => times(ins[i].1, extent, "extent", axis).map(|e| {
                ins[i].1 = e;
                i
            }),
            None => {
                ins.push((axis, extent));
                Ok(ins.len() - 1)
            }
        });
        let places: Vec<usize> = places.collect::<Result<_, _>>()?;
        for mut run in rhs.open() {
            run.axis = places[run.axis as usize] as u8;
            runs.push(run);
        }
        runs.sort_by_key(|r| r.axis);
        Layout::from_runs(ins, self.outs.clone(), runs)
    }

    /// Concatenation of outputs: one input, the coordinates of both. The input axes must be the same.
    pub fn concat_outs(&self, rhs: &Layout) -> Result<Layout, LayoutError> {
        let rhs = rhs.reordered(&self.ins, &rhs.outs)?;
        let unequal = self.ins.iter().zip(&rhs.ins).find(|(a, b)| a != b);
        if let Some((&(axis, extent), &(_, needed))) = unequal {
            return Err(LayoutError::OutOfRange { axis, extent, needed });
        }
        let outs: Axes = self.outs.iter().chain(&rhs.outs).copied().collect();
        let mut runs = Runs::new();
        for index in 0..self.ins.len() {
            runs.extend(side_by_side(
                &self.of_axis(index),
                &rhs.of_axis(index),
                self.ins[index].0,
                (self.outs.len(), rhs.outs.len()),
            )?);
        }
        Layout::from_runs(self.ins.clone(), outs, runs)
    }

    /// The layout at coordinate 0 of every input axis but `axis`.
    pub fn with_in_only(&self, axis: Axis) -> Result<Layout, LayoutError> {
        let index = self.ins.iter().position(|a| a.0 == axis).ok_or(LayoutError::MissingAxis(axis))?;
        let mut runs = self.of_axis(index);
        runs.iter_mut().for_each(|r| r.axis = 0);
        Layout::from_runs(Axes::from_slice(&[self.ins[index]]), self.outs.clone(), runs)
    }

    /// Open digits of one input axis.
    fn of_axis(&self, index: usize) -> Runs {
        self.open().into_iter().filter(|r| r.axis as usize == index).collect()
    }

    /// Input axes, with `axis` behind where it is new.
    fn ins_with(&self, axis: Axis) -> Axes {
        with(&self.ins, axis)
    }

    /// Output axes, with `axis` behind where it is new.
    fn outs_with(&self, axis: Axis) -> Axes {
        with(&self.outs, axis)
    }
}

/// Axes with one more where it is new.
fn with(axes: &Axes, axis: Axis) -> Axes {
    let mut axes = axes.clone();
    if !axes.iter().any(|a| a.0 == axis) {
        axes.push((axis, 1));
    }
    axes
}

/// Digits of one axis under two layouts, cut at common borders, with their columns side by side.
fn side_by_side(a: &Runs, b: &Runs, axis: Axis, widths: (usize, usize)) -> Result<Runs, LayoutError> {
    let zero = |n: usize| OutVec::from_elem(0, n);
    let (mut a, mut b) = (a.clone(), b.clone());
    let mut out = Runs::new();
    while let (Some(x), Some(y)) = (a.first().cloned(), b.first().cloned()) {
        let step = super::algebra::gcd(x.extent, y.extent);
        if step == 1 || x.swizzles() != y.swizzles() && step != 2 {
            return Err(LayoutError::Misaligned { axis, extent: x.extent, stride: 1, digit: y.extent });
        }
        let mut run = Run::strided(x.axis, step, x.add.iter().chain(&y.add).copied().collect());
        run.xor = x.xor.iter().chain(&y.xor).copied().collect();
        out.push(run);
        cut(&mut a, step);
        cut(&mut b, step);
    }
    for x in a {
        let add = x.add.iter().copied().chain(zero(widths.1)).collect();
        out.push(Run { add, xor: x.xor.iter().copied().chain(zero(widths.1)).collect(), ..x });
    }
    for y in b {
        let add = zero(widths.0).into_iter().chain(y.add.iter().copied()).collect();
        out.push(Run { add, xor: zero(widths.0).into_iter().chain(y.xor.iter().copied()).collect(), ..y });
    }
    Ok(out)
}

/// Removes the `step` lowest values of the first digit.
fn cut(runs: &mut Runs, step: u64) {
    if runs[0].extent == step {
        runs.remove(0);
    } else {
        runs[0].extent /= step;
        runs[0].add.iter_mut().for_each(|a| *a *= step);
    }
}
