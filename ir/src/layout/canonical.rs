//! The canonical form. Digits with consecutive strides are fused. Then digits whose extent is a power of two and that
//! never carry move inward (Axe, appendix A, rules D0 to C2, combined with Linear Layouts).

use super::{Axes, Axis, Digit, LIMIT, Layout, LayoutError, OutVec};
use smallvec::SmallVec;

/// A digit on the way to the canonical form: it contributes `value * add` and, a bit, `xor`.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub axis: u8,
    pub extent: u64,
    pub xor: OutVec,
    pub add: OutVec,
}

/// Digits of all axes, those of an axis in order, the fastest first.
pub(crate) type Runs = SmallVec<[Run; 16]>;

impl Run {
    /// A digit that adds.
    pub fn strided(axis: u8, extent: u64, add: OutVec) -> Run {
        let xor = OutVec::from_elem(0, add.len());
        Run { axis, extent, xor, add }
    }

    /// A bit that swizzles.
    pub fn bit(axis: u8, xor: OutVec) -> Run {
        let add = OutVec::from_elem(0, xor.len());
        Run { axis, extent: 2, xor, add }
    }

    /// Whether some exclusive or remains.
    pub fn swizzles(&self) -> bool {
        self.xor.iter().any(|&x| x != 0)
    }

    /// Whether a digit that adds `column` continues this one.
    fn goes_on(&self, axis: u8, column: &[u64]) -> bool {
        let follows = |(a, b): (&u64, &u64)| a.checked_mul(self.extent) == Some(*b);
        self.axis == axis && !self.swizzles() && self.add.iter().zip(column).all(follows)
    }

    /// Whether another digit that adds continues this one.
    fn joins(&self, next: &Run) -> bool {
        !next.swizzles() && self.goes_on(next.axis, &next.add)
    }
}

/// Whether two columns share no bit on any output.
pub(crate) fn disjoint(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).all(|(x, y)| x & y == 0)
}

/// The bits that `extent` multiples of `stride` can set, as a mask (rounded up to a range).
fn support(extent: u64, stride: u64) -> u64 {
    match stride.saturating_mul(extent - 1) {
        0 => 0,
        top if extent == 2 => top,
        top => (u64::MAX >> top.leading_zeros()) & !(stride & stride.wrapping_neg()).wrapping_sub(1),
    }
}

/// `a * b` on `axis`, below the limit.
pub(crate) fn times(a: u64, b: u64, what: &'static str, axis: Axis) -> Result<u64, LayoutError> {
    a.checked_mul(b).filter(|&p| p <= LIMIT).ok_or(LayoutError::Overflow { what, axis })
}

/// Refuses zero extents, labels that occur twice, and more than 2^62 coordinates.
fn check_axes(axes: &[(Axis, u64)]) -> Result<(), LayoutError> {
    let mut total = 1;
    for (k, &(axis, extent)) in axes.iter().enumerate() {
        if extent == 0 {
            return Err(LayoutError::ZeroExtent(axis));
        }
        if axes[..k].iter().any(|a| a.0 == axis) {
            return Err(LayoutError::DuplicateAxis(axis));
        }
        total = times(total, extent, "number of coordinates", axis)?;
    }
    match axes.get(200) {
        Some(&(axis, _)) => Err(LayoutError::Overflow { what: "number of axes", axis }),
        None => Ok(()),
    }
}

/// Turns bits whose column shares no bit with any other column into additive digits. Only real swizzles keep an
/// exclusive or.
fn disentangle(runs: &mut Runs) {
    let (mut seen, mut twice): (OutVec, OutVec) = match runs.first() {
        Some(r) => (OutVec::from_elem(0, r.xor.len()), OutVec::from_elem(0, r.xor.len())),
        None => return,
    };
    for run in runs.iter() {
        for (k, &x) in run.xor.iter().enumerate() {
            twice[k] |= seen[k] & x;
            seen[k] |= x;
        }
    }
    for run in runs.iter_mut().filter(|r| disjoint(&r.xor, &twice)) {
        for k in 0..run.xor.len() {
            run.add[k] += std::mem::take(&mut run.xor[k]);
        }
    }
}

/// Gives every run either an exclusive or or a sum. Refuses a run that needs both in the same bits.
fn unmix(runs: &mut Runs, outs: &Axes) -> Result<(), LayoutError> {
    let mut mask = xor_mask(runs, outs.len());
    for run in runs.iter_mut().filter(|r| r.swizzles()) {
        for (k, m) in mask.iter_mut().enumerate() {
            let bits = run.add[k] & *m;
            if bits != 0 {
                return Err(LayoutError::Entangled { axis: outs[k].0, bits });
            }
            *m |= run.add[k];
            run.xor[k] |= std::mem::take(&mut run.add[k]);
        }
    }
    Ok(())
}

/// Union of all exclusive-or columns.
pub(crate) fn xor_mask(runs: &[Run], outs: usize) -> OutVec {
    let mut mask = OutVec::from_elem(0, outs);
    for run in runs {
        mask.iter_mut().zip(&run.xor).for_each(|(m, x)| *m |= x);
    }
    mask
}

/// Drops digits of one value, and joins neighbours of an axis whose strides follow on.
fn fuse(runs: &mut Runs) {
    let mut kept = 0;
    for k in 0..runs.len() {
        if runs[k].extent == 1 {
            continue;
        }
        let (before, rest) = runs.split_at_mut(k);
        match before[..kept].last_mut() {
            Some(last) if last.joins(&rest[0]) => last.extent *= rest[0].extent,
            _ => {
                runs.swap(kept, k);
                kept += 1;
            }
        }
    }
    runs.truncate(kept);
}

/// Appends a digit, joined to the last where it goes on.
pub(crate) fn append(runs: &mut Runs, run: Run) {
    match runs.last_mut() {
        Some(last) if last.joins(&run) => last.extent *= run.extent,
        _ => runs.push(run),
    }
}

/// How many low bits of the run move inward: all of its factors of two, or none.
fn inward_bits(runs: &Runs, index: usize, mask: &OutVec) -> u32 {
    let run = &runs[index];
    let bits = run.extent.trailing_zeros();
    let odd = run.extent >> bits;
    let free = |out: usize| {
        let stride = run.add[out];
        let mut taken = mask[out] | support(odd, stride << bits);
        for (k, other) in runs.iter().enumerate() {
            if k != index && !other.swizzles() {
                taken |= support(other.extent, other.add[out]);
            }
        }
        (0..bits).all(|b| {
            let ok = taken & (stride << b) == 0;
            taken |= stride << b;
            ok
        })
    };
    if (0..mask.len()).all(free) { bits } else { 0 }
}

/// Refuses a coordinate beyond its axis. The bound takes every bit of a swizzle as set.
fn check_range(runs: &Runs, outs: &Axes) -> Result<(), LayoutError> {
    let mask = xor_mask(runs, outs.len());
    for (k, &(axis, extent)) in outs.iter().enumerate() {
        let mut top = mask[k];
        for run in runs.iter() {
            let reach = times(run.add[k], run.extent - 1, "stride", axis)?;
            top = top.saturating_add(reach);
        }
        if top >= extent {
            let needed = top.saturating_add(1);
            return Err(LayoutError::OutOfRange { axis, extent, needed });
        }
    }
    Ok(())
}

/// Refuses an exclusive or on a digit that is no bit.
fn check_bits(runs: &Runs, ins: &Axes) -> Result<(), LayoutError> {
    match runs.iter().find(|r| r.swizzles() && r.extent > 2) {
        Some(r) => Err(LayoutError::NotABit { axis: ins[r.axis as usize].0, extent: r.extent }),
        None => Ok(()),
    }
}

impl Layout {
    /// The layout of the given digits, in canonical form. The digits of an axis must multiply to its extent.
    pub(crate) fn from_runs(ins: Axes, outs: Axes, mut runs: Runs) -> Result<Layout, LayoutError> {
        check_axes(&ins)?;
        check_axes(&outs)?;
        check_bits(&runs, &ins)?;
        check_range(&runs, &outs)?;
        if runs.iter().any(Run::swizzles) {
            disentangle(&mut runs);
            unmix(&mut runs, &outs)?;
        }
        fuse(&mut runs);
        let mask = xor_mask(&runs, outs.len());
        let mut layout = Layout { ins, outs, digits: SmallVec::new(), columns: SmallVec::new() };
        for (k, run) in runs.iter().enumerate() {
            if run.swizzles() {
                let digit = Digit { extent: 2, axis: run.axis, inner: true, swizzles: true };
                layout.push(digit, &run.xor, 0);
                continue;
            }
            let bits = inward_bits(&runs, k, &mask);
            let digit = |extent, inner| Digit { extent, axis: run.axis, inner, swizzles: false };
            for b in 0..bits {
                layout.push(digit(2, true), &run.add, b);
            }
            if run.extent >> bits > 1 {
                layout.push(digit(run.extent >> bits, false), &run.add, bits);
            }
        }
        Ok(layout)
    }

    /// The layout of a bit matrix: a column of `outs.len()` numbers for each bit, whose axis is in `axes`. The coordinates are known to be in
    /// range, and all extents of `ins` to be powers of two: then this is the canonical form.
    pub(crate) fn from_bits(
        ins: Axes,
        outs: Axes,
        axes: impl Iterator<Item = u8>,
        columns: SmallVec<[u64; 48]>,
    ) -> Layout {
        let n = outs.len().max(1);
        let (mut seen, mut twice) = (OutVec::from_elem(0, n), OutVec::from_elem(0, n));
        for column in columns.chunks_exact(n) {
            for ((s, t), c) in seen.iter_mut().zip(&mut twice).zip(column) {
                *t |= *s & c;
                *s |= c;
            }
        }
        let mut chunks = columns.chunks_exact(n);
        let digit = |axis| {
            let swizzles = chunks.next().is_some_and(|c| !disjoint(c, &twice));
            Digit { extent: 2, axis, inner: true, swizzles }
        };
        let digits = axes.map(digit).collect();
        Layout { ins, outs, digits, columns }
    }

    /// Appends a digit, whose column is shifted.
    fn push(&mut self, digit: Digit, column: &[u64], shift: u32) {
        self.digits.push(digit);
        self.columns.extend(column.iter().map(|c| c << shift));
    }

    /// The open form that operations work on: real swizzles as bits, all else added and fused.
    pub(crate) fn open(&self) -> Runs {
        let mut runs = Runs::new();
        let n = self.outs.len().max(1);
        // A layout without outputs has no columns, and nothing but free digits.
        let mut columns = self.columns.chunks_exact(n);
        for digit in &self.digits {
            let column = columns.next().unwrap_or(&[]);
            if digit.swizzles {
                runs.push(Run::bit(digit.axis, OutVec::from_slice(column)));
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.goes_on(digit.axis, column) => last.extent *= digit.extent,
                _ => runs.push(Run::strided(digit.axis, digit.extent, OutVec::from_slice(column))),
            }
        }
        runs
    }
}

/// Builds a layout digit by digit.
///
/// ```
/// use warplift_ir::layout::{Axis, Builder};
/// // A warp that owns an 8 x 8 tile, two neighbouring elements to a lane.
/// let layout = Builder::new(&[(Axis::Dim(0), 8), (Axis::Dim(1), 8)])
///     .add(Axis::Reg, 2, &[0, 1])
///     .add(Axis::Lane, 4, &[0, 2])
///     .add(Axis::Lane, 8, &[1, 0])
///     .build()?;
/// assert_eq!(layout.apply(&[1, 6])[..], [1, 5]);
/// # Ok::<(), warplift_ir::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    ins: Axes,
    outs: Axes,
    runs: Runs,
    error: Option<LayoutError>,
}

impl Builder {
    /// Starts a layout with the given output axes.
    pub fn new(outs: &[(Axis, u64)]) -> Builder {
        Builder { ins: Axes::new(), outs: Axes::from_slice(outs), runs: Runs::new(), error: None }
    }

    /// Names an input axis before its digits, which fixes the order of axes.
    pub fn axis(mut self, axis: Axis) -> Builder {
        self.index(axis);
        self
    }

    /// Index of an input axis. A missing axis is created.
    fn index(&mut self, axis: Axis) -> usize {
        match self.ins.iter().position(|a| a.0 == axis) {
            Some(i) => i,
            None => {
                self.ins.push((axis, 1));
                self.ins.len() - 1
            }
        }
    }

    /// The next slower digit of an input axis: `extent` values, each adding `column` (one number for each output).
    pub fn add(mut self, axis: Axis, extent: u64, column: &[u64]) -> Builder {
        self.digit(axis, extent, column, false);
        self
    }

    /// The next slower digit of an input axis: a bit that is exclusive-or-ed as `column`.
    pub fn xor(mut self, axis: Axis, column: &[u64]) -> Builder {
        self.digit(axis, 2, column, true);
        self
    }

    /// Appends a digit; the first error is kept for [`build`](Builder::build).
    pub(super) fn digit(&mut self, axis: Axis, extent: u64, column: &[u64], xor: bool) {
        let index = self.index(axis);
        match times(self.ins[index].1, extent, "extent", axis) {
            Ok(e) => self.ins[index].1 = e,
            Err(e) => {
                self.error.get_or_insert(e);
            }
        }
        let mut column = OutVec::from_slice(column);
        column.resize(self.outs.len(), 0);
        let axis = index.min(255) as u8;
        self.runs.push(match xor {
            true => Run::bit(axis, column),
            false => Run::strided(axis, extent, column),
        });
    }

    /// The layout. Refuses zero extents, coordinates beyond the outputs, and swizzles that meet carries.
    pub fn build(mut self) -> Result<Layout, LayoutError> {
        if let Some(e) = self.error {
            return Err(e);
        }
        check_axes(&self.ins)?;
        self.runs.sort_by_key(|r| r.axis);
        Layout::from_runs(self.ins, self.outs, self.runs)
    }
}
