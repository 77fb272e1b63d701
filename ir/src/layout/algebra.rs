//! Building blocks, product, division and relabelling (Linear Layouts, section 4).

use super::canonical::{Run, Runs, times};
use super::{Axes, Axis, Layout, LayoutError, OutVec};

/// Position of an axis.
fn position(axes: &[(Axis, u64)], axis: Axis) -> Option<usize> {
    axes.iter().position(|a| a.0 == axis)
}

/// Axes of both, those of `a` first; shared ones multiply.
fn merge(a: &Axes, b: &Axes) -> Result<Axes, LayoutError> {
    let mut out = a.clone();
    for &(axis, extent) in b {
        match position(&out, axis) {
            Some(i) => out[i].1 = times(out[i].1, extent, "extent", axis)?,
            None => out.push((axis, extent)),
        }
    }
    Ok(out)
}

impl Layout {
    /// The layout without axes: neutral in [`product`](Layout::product).
    pub fn empty() -> Layout {
        Layout {
            ins: Axes::new(),
            outs: Axes::new(),
            digits: Default::default(),
            columns: Default::default(),
        }
    }

    /// `x` on `axis_in` goes to `x` on `axis_out`.
    pub fn identity(axis_in: Axis, axis_out: Axis, extent: u64) -> Result<Layout, LayoutError> {
        Layout::strided(axis_in, axis_out, extent, 1, extent)
    }

    /// `x` on `axis_in` goes to `x * stride` on `axis_out`, which has extent `out_extent`.
    pub fn strided(
        axis_in: Axis,
        axis_out: Axis,
        extent: u64,
        stride: u64,
        out_extent: u64,
    ) -> Result<Layout, LayoutError> {
        let runs = Runs::from_iter([Run::strided(0, extent.max(1), OutVec::from_slice(&[stride]))]);
        Layout::from_runs(
            Axes::from_slice(&[(axis_in, extent)]),
            Axes::from_slice(&[(axis_out, out_extent)]),
            runs,
        )
    }

    /// An input axis that moves nothing (broadcast, replication) beside the outputs `outs`.
    pub fn zeros(axis_in: Axis, extent_in: u64, outs: &[(Axis, u64)]) -> Result<Layout, LayoutError> {
        let column = OutVec::from_elem(0, outs.len());
        Layout::from_runs(
            Axes::from_slice(&[(axis_in, extent_in)]),
            Axes::from_slice(outs),
            Runs::from_iter([Run::strided(0, extent_in.max(1), column)]),
        )
    }

    /// The product (Linear Layouts, definition 4.3): `self` is the fast part of every shared axis, `rhs` runs over
    /// copies of it. A swizzle in `rhs` needs an extent of `self` that is a power of two.
    pub fn product(&self, rhs: &Layout) -> Result<Layout, LayoutError> {
        let ins = merge(&self.ins, &rhs.ins)?;
        let outs = merge(&self.outs, &rhs.outs)?;
        let mut runs: Runs = self.open();
        for run in &mut runs {
            run.xor.resize(outs.len(), 0);
            run.add.resize(outs.len(), 0);
        }
        for mut run in rhs.open() {
            let axis = rhs.ins[run.axis as usize].0;
            run.axis = position(&ins, axis).unwrap_or(0) as u8;
            run.xor = self.scale(&run.xor, rhs, &outs, true)?;
            run.add = self.scale(&run.add, rhs, &outs, false)?;
            runs.push(run);
        }
        runs.sort_by_key(|r| r.axis);
        Layout::from_runs(ins, outs, runs)
    }

    /// A column of `rhs` behind the outputs of `self`.
    fn scale(&self, column: &[u64], rhs: &Layout, outs: &Axes, xor: bool) -> Result<OutVec, LayoutError> {
        let mut scaled = OutVec::from_elem(0, outs.len());
        for (&(axis, _), &c) in rhs.outs.iter().zip(column).filter(|(_, c)| **c != 0) {
            let by = self.out_extent(axis);
            if xor && !by.is_power_of_two() {
                return Err(LayoutError::Entangled { axis, bits: c });
            }
            let at = position(outs, axis).unwrap_or(0);
            scaled[at] = times(c, by, "stride", axis)?;
        }
        Ok(scaled)
    }

    /// The quotient `q` with `self == tile.product(q)` up to the order of axes (Linear Layouts, definition 4.4). The
    /// quotient has all axes of `self`.
    pub fn left_divide(&self, tile: &Layout) -> Result<Layout, LayoutError> {
        let ins = divide_axes(&self.ins, &tile.ins)?;
        let outs = divide_axes(&self.outs, &tile.outs)?;
        let (mut low, mut high) = (Runs::new(), Runs::new());
        let mut skips: OutVec = self.ins.iter().map(|a| tile.in_extent(a.0)).collect();
        for run in self.open() {
            let skip = &mut skips[run.axis as usize];
            let below = gcd(*skip, run.extent);
            if *skip > 1 && below != run.extent && below != *skip {
                return Err(LayoutError::NotATile(self.ins[run.axis as usize].0));
            }
            *skip /= below;
            if run.extent > below {
                high.push(self.above(&run, below, tile)?);
            }
            if below > 1 {
                low.push(Run { extent: below, ..run });
            }
        }
        self.require_tile(low, tile)?;
        Layout::from_runs(ins, outs, high)
    }

    /// The quotient `q` with `self == q.product(tile)`: the fast part that remains without the tile. (It is the left
    /// division of Tilus, section 4.2, which writes the fast part last.)
    pub fn right_divide(&self, tile: &Layout) -> Result<Layout, LayoutError> {
        let outs = divide_axes(&self.outs, &tile.outs)?;
        let mut low = self.clone();
        for (axis, extent) in divide_axes(&self.ins, &tile.ins)? {
            low = low.truncated(axis, extent)?;
        }
        let quotient = Layout::from_runs(low.ins.clone(), outs, low.open())?;
        match quotient.product(tile)?.reordered(&self.ins, &self.outs)? == *self {
            true => Ok(quotient),
            false => Err(LayoutError::NotATile(self.ins.first().map_or(Axis::Reg, |a| a.0))),
        }
    }

    /// Left division after a permutation of the bits of `axis` (Linear Layouts, section 5.3, generalized vectorization): the permutation `p`
    /// (`axis -> axis`) and the quotient `q` with `p.then(self) == tile.product(q)`. The other axes keep their order.
    pub fn left_divide_permuted(&self, tile: &Layout, axis: Axis) -> Result<(Layout, Layout), LayoutError> {
        let mut bits = super::access::bits(self, axis);
        let mut order: Vec<super::Basis> = Vec::new();
        for wanted in super::access::bits(&tile.reordered(&tile.ins, &self.outs)?, axis) {
            let same = |b: &super::Basis| b.extent == wanted.extent && b.out == wanted.out;
            let at = bits.iter().position(same).ok_or(LayoutError::NotATile(axis))?;
            order.push(bits.remove(at));
        }
        let mut permutation = super::Builder::new(&[(axis, self.in_extent(axis))]).axis(axis);
        for bit in order.iter().chain(&bits) {
            permutation = permutation.add(axis, bit.extent, &[bit.weight]);
        }
        let permutation = permutation.build()?;
        let others = self.ins.iter().filter(|a| a.0 != axis);
        let whole = others.map(|a| Layout::identity(a.0, a.0, a.1));
        let all = whole.into_iter().try_fold(permutation.clone(), |all, id| all.product(&id?))?;
        let permuted = all.then(self)?.reordered(&self.ins, &self.outs)?;
        Ok((permutation, permuted.left_divide(tile)?))
    }

    /// Checks that the low digits are those of the tile.
    fn require_tile(&self, low: Runs, tile: &Layout) -> Result<(), LayoutError> {
        let ins: Axes = self.ins.iter().map(|a| (a.0, tile.in_extent(a.0))).collect();
        let outs: Axes = self.outs.iter().map(|a| (a.0, tile.out_extent(a.0))).collect();
        let not = |axis| LayoutError::NotATile(axis);
        let first = self.ins.first().map_or(Axis::Reg, |a| a.0);
        let mine = Layout::from_runs(ins, outs, low).map_err(|_| not(first))?;
        if mine == *tile {
            return Ok(());
        }
        let tile = tile.reordered(&mine.ins, &mine.outs)?;
        match self.ins.iter().find(|a| mine.basis(a.0) != tile.basis(a.0)) {
            Some(wrong) => Err(not(wrong.0)),
            None => Ok(()),
        }
    }

    /// The part of a digit above its `below` lowest values, in units of the tile.
    fn above(&self, run: &Run, below: u64, tile: &Layout) -> Result<Run, LayoutError> {
        let mut run = Run { extent: run.extent / below, ..run.clone() };
        for (k, &(axis, _)) in self.outs.iter().enumerate() {
            let by = tile.out_extent(axis);
            if run.xor[k] != 0 && !by.is_power_of_two() {
                return Err(LayoutError::Entangled { axis, bits: run.xor[k] });
            }
            for c in [&mut run.xor[k], &mut run.add[k]] {
                let column = times(*c, below, "stride", axis)?;
                if !column.is_multiple_of(by) {
                    return Err(LayoutError::NotDivisible { axis, extent: column, by });
                }
                *c = column / by;
            }
        }
        Ok(run)
    }

    /// The same layout with its axes in the given orders. Extents are those of `self`; an axis missing from `self` is
    /// added with extent 1, one missing from a list must have extent 1.
    pub fn reordered(&self, ins: &[(Axis, u64)], outs: &[(Axis, u64)]) -> Result<Layout, LayoutError> {
        for (list, mine) in [(ins, &self.ins), (outs, &self.outs)] {
            let lost = mine.iter().find(|a| a.1 > 1 && position(list, a.0).is_none());
            if let Some(&(axis, _)) = lost {
                return Err(LayoutError::MissingAxis(axis));
            }
        }
        let new_ins: Axes = ins.iter().map(|a| (a.0, self.in_extent(a.0))).collect();
        let new_outs: Axes = outs.iter().map(|a| (a.0, self.out_extent(a.0))).collect();
        let pick = |column: &OutVec| -> OutVec {
            let at = |a: &(Axis, u64)| position(&self.outs, a.0).map_or(0, |i| column[i]);
            outs.iter().map(at).collect()
        };
        let mut runs = self.open();
        for run in &mut runs {
            run.axis = position(ins, self.ins[run.axis as usize].0).unwrap_or(0) as u8;
            run.xor = pick(&run.xor);
            run.add = pick(&run.add);
        }
        runs.sort_by_key(|r| r.axis);
        Layout::from_runs(new_ins, new_outs, runs)
    }

    /// The same layout with input axes in the order of `axes`; see [`reordered`](Layout::reordered).
    pub fn with_ins(&self, axes: &[Axis]) -> Result<Layout, LayoutError> {
        let ins: Axes = axes.iter().map(|&a| (a, 1)).collect();
        self.reordered(&ins, &self.outs)
    }

    /// The same layout with output axes in the order of `axes`; see [`reordered`](Layout::reordered).
    pub fn with_outs(&self, axes: &[Axis]) -> Result<Layout, LayoutError> {
        let outs: Axes = axes.iter().map(|&a| (a, 1)).collect();
        self.reordered(&self.ins, &outs)
    }

    /// The same layout with other labels: `rename` is asked for each axis.
    pub fn renamed(&self, rename: impl Fn(Axis) -> Axis) -> Result<Layout, LayoutError> {
        let new = |axes: &Axes| -> Axes { axes.iter().map(|&(a, e)| (rename(a), e)).collect() };
        Layout::from_runs(new(&self.ins), new(&self.outs), self.open())
    }

    /// The layout without an output axis. Elements with the same coordinates on the other axes coincide.
    pub fn project_out(&self, axis: Axis) -> Result<Layout, LayoutError> {
        let gone = position(&self.outs, axis).ok_or(LayoutError::MissingAxis(axis))?;
        let mut outs = self.outs.clone();
        outs.remove(gone);
        let mut runs = self.open();
        for run in &mut runs {
            run.xor.remove(gone);
            run.add.remove(gone);
        }
        Layout::from_runs(self.ins.clone(), outs, runs)
    }

    /// The layout without the values of an input axis that move nothing.
    pub fn without_broadcast(&self, axis: Axis) -> Result<Layout, LayoutError> {
        let index = position(&self.ins, axis).ok_or(LayoutError::MissingAxis(axis))?;
        let zero = |r: &Run| r.axis as usize == index && !r.swizzles() && r.add.iter().all(|&a| a == 0);
        let runs: Runs = self.open().into_iter().filter(|r| !zero(r)).collect();
        let mut ins = self.ins.clone();
        ins[index].1 = runs.iter().filter(|r| r.axis as usize == index).map(|r| r.extent).product();
        Layout::from_runs(ins, self.outs.clone(), runs)
    }
}

/// Extents divided axis by axis.
fn divide_axes(axes: &Axes, by: &Axes) -> Result<Axes, LayoutError> {
    if let Some(&(axis, _)) = by.iter().find(|a| a.1 > 1 && position(axes, a.0).is_none()) {
        return Err(LayoutError::MissingAxis(axis));
    }
    let divide = |&(axis, extent): &(Axis, u64)| {
        let by = position(by, axis).map_or(1, |i| by[i].1);
        match extent.is_multiple_of(by) {
            true => Ok((axis, extent / by)),
            false => Err(LayoutError::NotDivisible { axis, extent, by }),
        }
    };
    axes.iter().map(divide).collect()
}

/// Greatest common divisor.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
