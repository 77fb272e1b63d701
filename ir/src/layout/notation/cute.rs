//! CuTe layouts `shape:stride` and their algebra (Hexcute, section 2.3 and appendix A; NVIDIA CuTe, "Layout Algebra").
//!
//! ```text
//!   ((2,2),8):((1,8),16)       coordinates nest; the leftmost runs fastest:  f(i) = i%2·1 + i/2%2·8 + i/4·16
//!   Sw<3,4,3> o 32:1           f(i), then bits 4..6 ⊕= bits 7..9 of the offset
//! ```

use super::{Cursor, joined};
use crate::layout::canonical::{Run, Runs, times, xor_mask};
use crate::layout::{Axis, Builder, LIMIT, Layout, LayoutError};
use std::cell::RefCell;
use std::fmt;

/// A nested tuple of modes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Mode {
    /// `extent:stride`.
    Leaf(u64, u64),
    /// Modes of modes, the first fastest.
    List(Vec<Mode>),
}

/// A CuTe layout: its outermost mode.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cute(Mode);

/// Flat modes `(extent, stride)`.
type Flat = Vec<(u64, u64)>;

impl Cute {
    /// A layout of flat modes.
    pub(crate) fn flat(modes: &[(u64, u64)]) -> Cute {
        match modes {
            [(extent, stride)] => Cute(Mode::Leaf(*extent, *stride)),
            _ => Cute(Mode::List(modes.iter().map(|&(e, s)| Mode::Leaf(e, s)).collect())),
        }
    }

    /// A layout of layouts, one mode each.
    pub fn modes(modes: Vec<Cute>) -> Cute {
        Cute(Mode::List(modes.into_iter().map(|m| m.0).collect()))
    }

    /// Reads `shape:stride`; a tuple may end with a comma.
    pub fn parse(text: &str) -> Result<Cute, LayoutError> {
        let mut cursor = Cursor::new(text);
        let cute = cute(&mut cursor)?;
        cursor.end()?;
        Ok(cute)
    }

    /// All leaves, fastest first.
    pub fn leaves(&self) -> Flat {
        let mut leaves = Flat::new();
        self.0.collect(&mut leaves);
        leaves
    }

    /// The outermost modes, one for a leaf.
    pub fn top(&self) -> Vec<Cute> {
        match &self.0 {
            Mode::List(modes) => modes.iter().cloned().map(Cute).collect(),
            leaf => vec![Cute(leaf.clone())],
        }
    }

    /// Number of coordinates.
    pub fn size(&self) -> u64 {
        self.leaves().iter().fold(1, |n: u64, l| n.saturating_mul(l.0))
    }

    /// Largest offset plus 1.
    pub fn cosize(&self) -> u64 {
        let reach = |(e, s): &(u64, u64)| (e - 1).saturating_mul(*s);
        self.leaves().iter().fold(1, |sum: u64, l| sum.saturating_add(reach(l)))
    }

    /// The offset of a flat coordinate.
    pub fn apply(&self, mut index: u64) -> u64 {
        let mut offset = 0u64;
        for (extent, stride) in self.leaves() {
            offset = offset.saturating_add((index % extent).saturating_mul(stride));
            index /= extent;
        }
        offset
    }

    /// The flat layout with the fewest modes.
    pub fn coalesce(&self) -> Cute {
        Cute::flat(&coalesce(&self.leaves()))
    }

    /// `self ∘ inner`: coordinates of `inner`, offsets of `self`, which goes on in its last mode beyond its size. Refuses modes of
    /// `inner` that do not divide those of `self`, and modes that together carry out of one: no strides are the composition then.
    pub fn compose(&self, inner: &Cute) -> Result<Cute, LayoutError> {
        let outer = coalesce(&self.leaves());
        let reach = RefCell::new(vec![0; outer.len()]);
        let composed =
            inner.0.map(&|extent, stride| compose_leaf(&outer, extent, stride, &mut reach.borrow_mut()))?;
        let mut within = outer.iter().zip(reach.take()).take(outer.len() - 1);
        match within.find(|((digit, _), reach)| reach >= digit) {
            Some((&(digit, _), reach)) => Err(LayoutError::Carry { axis: Axis::Mem, digit, reach }),
            None => Ok(Cute(composed)),
        }
    }

    /// The layout, in ascending order, of the offsets below `size` (rounded up) that this one leaves out: between two modes as many whole
    /// copies of what lies below as there is room for. Refuses overlapping modes.
    pub fn complement(&self, size: u64) -> Result<Cute, LayoutError> {
        let mut current = 1;
        let mut rest = Flat::new();
        for (extent, stride) in self.ascending() {
            if stride < current {
                return Err(LayoutError::Misaligned { axis: Axis::Mem, extent, stride, digit: current });
            }
            rest.push((stride / current, current));
            current = times(stride, extent, "stride", Axis::Mem)?;
        }
        rest.push((size.div_ceil(current).max(1), current));
        Ok(Cute::flat(&coalesce(&rest)))
    }

    /// The modes that move, by stride.
    fn ascending(&self) -> Flat {
        let mut modes: Flat = self.leaves().into_iter().filter(|&(e, s)| e > 1 && s > 0).collect();
        modes.sort_by_key(|m| (m.1, m.0));
        modes
    }

    /// The largest layout `r` with `self(r(i)) == i`.
    pub fn right_inverse(&self) -> Cute {
        let leaves = self.leaves();
        let mut inverse = Flat::new();
        let mut current = 1;
        while let Some(at) = (0..leaves.len()).find(|&k| leaves[k].1 == current && leaves[k].0 > 1) {
            let below = leaves[..at].iter().map(|l| l.0).product();
            inverse.push((leaves[at].0, below));
            current = current.saturating_mul(leaves[at].0);
        }
        Cute::flat(&coalesce(&inverse))
    }

    /// A layout `l` with `l(self(i)) == i`: the right inverse of this layout completed by its complement. Where strides divide but a mode
    /// does not fill the gap up to the next, its digit takes all of the gap. Refuses modes that repeat offsets, that overlap, or whose
    /// strides are no multiples of each other.
    pub fn left_inverse(&self) -> Result<Cute, LayoutError> {
        if let Some(&(extent, _)) = self.leaves().iter().find(|&&(e, s)| e > 1 && s == 0) {
            return Err(LayoutError::ZeroStride { axis: Axis::Mem, extent });
        }
        let complement = self.complement(self.cosize())?;
        let modes = self.ascending();
        let whole = |w: &[(u64, u64)]| w[1].1.is_multiple_of(w[0].0 * w[0].1);
        if modes.windows(2).all(whole) {
            return Ok(Cute::modes(vec![self.clone(), complement]).right_inverse());
        }
        self.digits_of_strides(&modes)
    }

    /// The left inverse by the digits of an offset between neighbouring strides.
    fn digits_of_strides(&self, modes: &[(u64, u64)]) -> Result<Cute, LayoutError> {
        let leaves = self.leaves();
        let below = |mode: &(u64, u64)| {
            let at = leaves.iter().position(|l| l == mode).unwrap_or(0);
            leaves[..at].iter().map(|l| l.0).product()
        };
        let mut digits = vec![(modes[0].1, 0)];
        for (k, mode) in modes.iter().enumerate() {
            let extent = match modes.get(k + 1) {
                Some(next) if !next.1.is_multiple_of(mode.1) => return Err(divides(next.1, mode.1)),
                Some(next) => next.1 / mode.1,
                None => mode.0,
            };
            digits.push((extent, below(mode)));
        }
        Ok(Cute::flat(&coalesce(&digits)))
    }

    /// `self` cut by a tiler: first mode inside a tile, second mode over tiles.
    pub fn logical_divide(&self, tiler: &Cute) -> Result<Cute, LayoutError> {
        let complement = tiler.complement(self.size())?;
        self.compose(&Cute::modes(vec![tiler.clone(), complement]))
    }

    /// `self` repeated: first mode `self`, second mode the places of `tiler` in units of it.
    pub fn logical_product(&self, tiler: &Cute) -> Result<Cute, LayoutError> {
        let size = times(self.size(), tiler.cosize(), "size", Axis::Mem)?;
        let places = self.complement(size)?.compose(tiler)?;
        Ok(Cute::modes(vec![self.clone(), places]))
    }

    /// As a memory layout: one dimension for each outermost mode, to `m`.
    pub fn to_layout(&self) -> Result<Layout, LayoutError> {
        let mut layout = Builder::new(&[(Axis::Mem, self.cosize())]);
        for (dim, mode) in self.top().iter().enumerate() {
            let dim = Axis::Dim(dim.min(255) as u8);
            let add = |l: Builder, (e, s): (u64, u64)| l.add(dim, e, &[s]);
            layout = mode.leaves().into_iter().fold(layout.axis(dim), add);
        }
        layout.build()
    }

    /// A layout with one output and no swizzle, one mode for each input axis.
    pub fn of_layout(layout: &Layout) -> Result<Cute, LayoutError> {
        let lacks = |reason| LayoutError::Notation { notation: "CuTe", reason };
        if layout.outs().len() != 1 {
            return Err(lacks("it has other than one output"));
        }
        let runs = layout.open();
        if runs.iter().any(|r| r.swizzles()) {
            return Err(lacks("it swizzles"));
        }
        let mode = |index: usize| {
            let of = runs.iter().filter(|r| r.axis as usize == index);
            let flat: Flat = of.map(|r| (r.extent, r.add[0])).collect();
            if flat.is_empty() { Cute::flat(&[(1, 0)]) } else { Cute::flat(&flat) }
        };
        let mut modes: Vec<Cute> = (0..layout.ins().len()).map(mode).collect();
        Ok(if modes.len() == 1 { modes.remove(0) } else { Cute::modes(modes) })
    }
}

impl Mode {
    /// Appends the leaves.
    fn collect(&self, leaves: &mut Flat) {
        match self {
            Mode::Leaf(extent, stride) => leaves.push((*extent, *stride)),
            Mode::List(modes) => modes.iter().for_each(|m| m.collect(leaves)),
        }
    }

    /// Replaces every leaf.
    fn map(&self, leaf: &impl Fn(u64, u64) -> Result<Flat, LayoutError>) -> Result<Mode, LayoutError> {
        match self {
            Mode::Leaf(extent, stride) => Ok(Cute::flat(&leaf(*extent, *stride)?).0),
            Mode::List(modes) => Ok(Mode::List(modes.iter().map(|m| m.map(leaf)).collect::<Result<_, _>>()?)),
        }
    }

    /// Extents or strides as text.
    fn write(&self, f: &mut fmt::Formatter<'_>, part: fn(u64, u64) -> u64) -> fmt::Result {
        match self {
            Mode::Leaf(extent, stride) => write!(f, "{}", part(*extent, *stride)),
            Mode::List(modes) => {
                f.write_str("(")?;
                for (k, mode) in modes.iter().enumerate() {
                    f.write_str(if k > 0 { "," } else { "" })?;
                    mode.write(f, part)?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for Cute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, |extent, _| extent)?;
        f.write_str(":")?;
        self.0.write(f, |_, stride| stride)
    }
}

/// Merges modes that follow on, drops extents of 1.
fn coalesce(modes: &[(u64, u64)]) -> Flat {
    let mut out = Flat::new();
    for &(extent, stride) in modes.iter().filter(|m| m.0 != 1) {
        match out.last_mut() {
            Some(last) if last.0.checked_mul(last.1) == Some(stride) => last.0 *= extent,
            _ => out.push((extent, stride)),
        }
    }
    if out.is_empty() {
        out.push((1, 0));
    }
    out
}

/// One mode of the inner layout through the outer's modes; adds to `reach` what it reaches in each of them.
fn compose_leaf(
    outer: &[(u64, u64)],
    extent: u64,
    stride: u64,
    reach: &mut [u64],
) -> Result<Flat, LayoutError> {
    if stride == 0 || extent == 1 {
        return Ok(vec![(extent, 0)]);
    }
    let (mut rest, mut skip) = (extent, stride);
    let mut out = Flat::new();
    for (k, &(e, s)) in outer.iter().enumerate() {
        let last = k + 1 == outer.len();
        if !last && skip.is_multiple_of(e) {
            skip /= e;
            continue;
        }
        // All of it inside the mode, or as much as fills it.
        let inside = last || skip.saturating_mul(rest - 1) < e;
        if !inside && e % skip != 0 {
            return Err(divides(e, skip));
        }
        let room = if inside { rest } else { e / skip };
        if rest % room != 0 {
            return Err(divides(rest, room));
        }
        out.push((room, times(s, skip, "stride", Axis::Mem)?));
        reach[k] = reach[k].saturating_add(skip.saturating_mul(room - 1));
        rest /= room;
        skip = 1;
        if rest == 1 {
            break;
        }
    }
    Ok(coalesce(&out))
}

/// A division with a remainder.
fn divides(extent: u64, by: u64) -> LayoutError {
    LayoutError::NotDivisible { axis: Axis::Mem, extent, by }
}

/// An integer tuple.
#[derive(Clone, Debug)]
enum Tuple {
    Int(u64),
    List(Vec<Tuple>),
}

/// Reads a tuple.
fn tuple(cursor: &mut Cursor<'_>) -> Result<Tuple, LayoutError> {
    match cursor.rest().starts_with('(') {
        true => Ok(Tuple::List(cursor.list("(", ")", tuple)?)),
        false => Ok(Tuple::Int(cursor.number()?)),
    }
}

/// Reads `shape:stride`.
pub(super) fn cute(cursor: &mut Cursor<'_>) -> Result<Cute, LayoutError> {
    let shape = tuple(cursor)?;
    cursor.expect(":")?;
    let stride = tuple(cursor)?;
    let mode = zip(&shape, &stride).ok_or_else(|| cursor.error("strides nested like the shape"))?;
    let cute = Cute(mode);
    let (mut size, mut reach) = (1, 0u64);
    for (extent, stride) in cute.leaves() {
        if extent == 0 {
            return Err(LayoutError::ZeroExtent(Axis::Mem));
        }
        size = times(size, extent, "size", Axis::Mem)?;
        reach = reach.saturating_add(times(extent - 1, stride, "stride", Axis::Mem)?);
    }
    match reach < LIMIT {
        true => Ok(cute),
        false => Err(LayoutError::Overflow { what: "cosize", axis: Axis::Mem }),
    }
}

/// Shape and stride leaf by leaf.
fn zip(shape: &Tuple, stride: &Tuple) -> Option<Mode> {
    match (shape, stride) {
        (Tuple::Int(extent), Tuple::Int(stride)) => Some(Mode::Leaf(*extent, *stride)),
        (Tuple::List(a), Tuple::List(b)) if a.len() == b.len() && !a.is_empty() => {
            Some(Mode::List(a.iter().zip(b).map(|(x, y)| zip(x, y)).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// A swizzle functor `Sw<bits, base, shift>` (Hexcute, figure 15): bits `base .. base + bits` of an offset are exclusive-or-ed with those
/// `shift` above.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Swizzle {
    bits: u32,
    base: u32,
    shift: u32,
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sw<{}>", joined([self.bits, self.base, self.shift], ","))
    }
}

impl Swizzle {
    /// `bits` bits from bit `base` up, combined with those `shift` above; none for more bits than the shift, or numbers over 19.
    pub fn new(bits: u32, base: u32, shift: u32) -> Option<Swizzle> {
        let fits = bits <= shift && bits < 20 && base < 20 && shift < 20;
        fits.then_some(Swizzle { bits, base, shift })
    }

    /// Number of bits, lowest bit that changes, distance to the bits that are added.
    pub fn parts(&self) -> [u32; 3] {
        [self.bits, self.base, self.shift]
    }

    /// The offset after the swizzle.
    pub fn apply(&self, offset: u64) -> u64 {
        let mask = ((1u64 << self.bits) - 1) << self.base;
        offset ^ (offset >> self.shift & mask)
    }

    /// Reads `Sw<b,m,s>`.
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Swizzle, LayoutError> {
        cursor.expect("Sw<")?;
        let mut parts = [0u32; 3];
        for (k, part) in parts.iter_mut().enumerate() {
            *part = u32::try_from(cursor.number()?).map_err(|_| cursor.error("a number below 30"))?;
            cursor.expect(if k == 2 { ">" } else { "," })?;
        }
        Swizzle::new(parts[0], parts[1], parts[2])
            .ok_or_else(|| cursor.error("a swizzle of bits up to its shift, each below 20"))
    }

    /// A memory layout (to `m`) followed by the swizzle. Refuses a stride that carries inside the bits that the swizzle sees.
    pub fn after(&self, layout: &Layout) -> Result<Layout, LayoutError> {
        let mem = layout.outs().iter().position(|a| a.0 == Axis::Mem);
        let mem = mem.ok_or(LayoutError::MissingAxis(Axis::Mem))?;
        let open = layout.open();
        let mut seen = xor_mask(&open, layout.outs().len())[mem];
        let mut runs = Runs::new();
        for run in open {
            match run.swizzles() {
                true => runs.push(self.moved(run, mem)),
                false => self.cut(run, mem, &mut seen, &mut runs)?,
            }
        }
        let mut outs = layout.outs.clone();
        // The swizzle moves offsets inside aligned blocks of this size.
        outs[mem].1 = outs[mem].1.next_multiple_of(1 << (self.base + self.bits));
        Layout::from_runs(layout.ins.clone(), outs, runs)
    }

    /// A swizzled bit, swizzled again.
    fn moved(&self, mut run: Run, mem: usize) -> Run {
        run.xor[mem] = self.apply(run.xor[mem]);
        run
    }

    /// Cuts a digit that adds into bits as long as the swizzle sees them.
    fn cut(&self, mut run: Run, mem: usize, seen: &mut u64, runs: &mut Runs) -> Result<(), LayoutError> {
        let period = 1u64 << (self.base + self.bits + self.shift);
        while run.extent.is_multiple_of(2) && !run.add[mem].is_multiple_of(period) {
            let column = run.add[mem] % period;
            if column & *seen != 0 {
                return Err(LayoutError::Entangled { axis: Axis::Mem, bits: column & *seen });
            }
            *seen |= column;
            runs.push(self.moved(Run::bit(run.axis, run.add.clone()), mem));
            run.extent /= 2;
            run.add.iter_mut().for_each(|a| *a *= 2);
        }
        let reach = run.add[mem].saturating_mul(run.extent - 1);
        let below = reach < 1 << self.base && (reach.next_power_of_two() * 2 - 1) & *seen == 0;
        if run.extent > 1 && !run.add[mem].is_multiple_of(period) && !below {
            return Err(LayoutError::Entangled { axis: Axis::Mem, bits: run.add[mem] % period });
        }
        runs.push(run);
        Ok(())
    }

    /// The swizzle and the layout under it, `layout == swizzle.after(plain)`, if there is one.
    pub fn find(layout: &Layout) -> Option<(Swizzle, Layout)> {
        if layout.open().iter().all(|r| !r.swizzles()) {
            return None;
        }
        let all = (1..6).flat_map(|bits| {
            (0..10).flat_map(move |base| (bits..10).map(move |shift| Swizzle { bits, base, shift }))
        });
        all.into_iter().find_map(|swizzle| {
            // A swizzle undoes itself.
            let plain = swizzle.after(layout).ok()?;
            let fits = plain.open().iter().all(|r| !r.swizzles()) && swizzle.after(&plain).ok()? == *layout;
            fits.then_some((swizzle, plain))
        })
    }
}
