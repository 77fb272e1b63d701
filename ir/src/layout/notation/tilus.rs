//! Tilus layouts: Kronecker products of `local` and `spatial` (Tilus, sections 4 and 5).
//!
//! ```text
//!   local(2, 3)    0:0 0:1 0:2      spatial(2, 3)   0:0 1:0 2:0       thread:element
//!                  0:3 0:4 0:5                      3:0 4:0 5:0
//!   f.g            every element of f becomes a tile of g: g is the fast part of threads, elements and tile
//! ```

use super::{Cursor, joined};
use crate::layout::canonical::{Run, Runs};
use crate::layout::shape::dims;
use crate::layout::{Axis, Builder, Layout, LayoutError, OutVec};
use std::fmt;

/// A primitive layout with one extent for each dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Primitive {
    /// Whether elements go to one thread each (`spatial`) or all to one thread (`local`).
    pub spatial: bool,
    /// Whether the first dimension runs fastest (`column_`).
    pub column: bool,
    /// Extents.
    pub shape: Vec<u64>,
}

/// A product of primitives, the last the fastest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tilus(pub Vec<Primitive>);

/// The unified representation (Tilus, section 5): each dimension cut into modes, and who gets them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Unified {
    /// Extents of the tile.
    pub(crate) shape: Vec<u64>,
    /// Extents of all modes, those of a dimension slowest first.
    pub(crate) mode_shape: Vec<u64>,
    /// Modes of the thread index, slowest first.
    pub(crate) spatial_modes: Vec<usize>,
    /// Modes of the element index, slowest first.
    pub(crate) local_modes: Vec<usize>,
}

/// Axis of all threads of a Tilus layout.
pub fn thread_axis() -> Axis {
    Axis::parse("thread").unwrap_or(Axis::Lane)
}

impl Primitive {
    /// The primitive as a layout `(reg, thread)` to dimensions.
    fn layout(&self) -> Result<Layout, LayoutError> {
        let axis = if self.spatial { thread_axis() } else { Axis::Reg };
        let mut layout = Builder::new(&dims(&self.shape)).axis(Axis::Reg).axis(thread_axis());
        let rank = self.shape.len();
        for k in 0..rank {
            let dim = if self.column { k } else { rank - 1 - k };
            let mut column = OutVec::from_elem(0, rank);
            column[dim] = 1;
            layout = layout.add(axis, self.shape[dim], &column);
        }
        layout.build()
    }

    /// Its name.
    fn name(&self) -> &'static str {
        match (self.column, self.spatial) {
            (false, false) => "local",
            (false, true) => "spatial",
            (true, false) => "column_local",
            (true, true) => "column_spatial",
        }
    }

    /// One mode of one dimension.
    fn single(spatial: bool, dim: usize, rank: usize, extent: u64) -> Primitive {
        let mut shape = vec![1; rank];
        shape[dim] = extent;
        Primitive { spatial, column: false, shape }
    }

    /// `self.next` as one primitive, if it is one.
    fn merged(&self, next: &Primitive) -> Option<Primitive> {
        let used = |p: &Primitive| -> Vec<usize> { (0..p.shape.len()).filter(|&d| p.shape[d] > 1).collect() };
        let (slow, fast) = (used(self), used(next));
        let (first, last) = (*fast.first()?, *fast.last()?);
        let order = if slow.iter().all(|&d| d < first) {
            false
        } else if slow.iter().all(|&d| d > last) {
            true
        } else {
            return None;
        };
        let fits = |p: &Primitive, n: usize| n == 1 || p.column == order;
        let same = self.spatial == next.spatial && fits(self, slow.len()) && fits(next, fast.len());
        let shape = self.shape.iter().zip(&next.shape).map(|(a, b)| a * b).collect();
        same.then_some(Primitive { spatial: self.spatial, column: order, shape })
    }
}

impl Tilus {
    /// Reads `local(2, 1).spatial(8, 4)...`; also `column_local`, `column_spatial`.
    pub fn parse(text: &str) -> Result<Tilus, LayoutError> {
        let mut cursor = Cursor::new(text);
        let tilus = tilus(&mut cursor)?;
        cursor.end()?;
        Ok(tilus)
    }

    /// The layout `(reg, thread)` to dimensions.
    pub fn to_layout(&self) -> Result<Layout, LayoutError> {
        let rank = self.0.first().map_or(0, |p| p.shape.len());
        let mut layout = Builder::new(&dims(&vec![1; rank])).axis(Axis::Reg).axis(thread_axis()).build()?;
        for primitive in self.0.iter().rev() {
            layout = layout.product(&primitive.layout()?)?;
        }
        layout.with_outs(&dims(&vec![1; rank]).iter().map(|d| d.0).collect::<Vec<_>>())
    }

    /// The layout `(reg, lane, warp)`, 32 threads to a warp.
    pub fn to_fragment(&self) -> Result<Layout, LayoutError> {
        split_threads(&self.to_layout()?)
    }

    /// The product of fewest primitives that a fragment is: threads are all inputs but `reg`. Refuses swizzles, repetition and
    /// digits that move several dimensions.
    pub fn of_layout(layout: &Layout) -> Result<Tilus, LayoutError> {
        let flat = join_threads(layout)?;
        let rank = flat.outs().len();
        let mut singles = Vec::new();
        let mut queues: [Runs; 2] = [axis_runs(&flat, Axis::Reg), axis_runs(&flat, thread_axis())];
        let mut covered = vec![1u64; rank];
        while queues.iter().any(|q| !q.is_empty()) {
            let next = peel(&mut queues, &covered, &flat)?;
            covered[next.1] *= next.2;
            singles.push(Primitive::single(next.0, next.1, rank, next.2));
        }
        singles.reverse();
        let mut merged: Vec<Primitive> = Vec::new();
        for single in singles {
            match merged.last().and_then(|last| last.merged(&single)) {
                Some(both) => *merged.last_mut().unwrap_or(&mut single.clone()) = both,
                None => merged.push(single),
            }
        }
        if merged.is_empty() {
            merged.push(Primitive { spatial: false, column: false, shape: vec![1; rank] });
        }
        Ok(Tilus(merged))
    }

    /// The unified representation.
    pub fn unified(&self) -> Result<Unified, LayoutError> {
        Unified::of_layout(&self.to_layout()?)
    }
}

impl fmt::Display for Tilus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let primitive = |p: &Primitive| format!("{}({})", p.name(), joined(&p.shape, ", "));
        f.write_str(&joined(self.0.iter().map(primitive), "."))
    }
}

/// A cut of a thread index into lanes and warps.
pub(super) fn split_threads(layout: &Layout) -> Result<Layout, LayoutError> {
    let threads = layout.in_extent(thread_axis());
    if threads > 32 && !threads.is_multiple_of(32) {
        return Err(LayoutError::Notation { notation: "Tilus", reason: "its threads are no whole warps" });
    }
    let regs = layout.in_extent(Axis::Reg);
    Builder::new(&[(Axis::Reg, regs), (thread_axis(), threads)])
        .add(Axis::Reg, regs, &[1, 0])
        .add(Axis::Lane, threads.min(32), &[0, 1])
        .add(Axis::Warp, threads.div_ceil(32), &[0, 32])
        .build()?
        .then(layout)
}

/// All inputs but `reg` as one thread index, in order, and the registers.
fn join_threads(layout: &Layout) -> Result<Layout, LayoutError> {
    let mut join = Builder::new(layout.ins()).axis(Axis::Reg).axis(thread_axis());
    for (index, &(axis, extent)) in layout.ins().iter().enumerate() {
        let mut column = OutVec::from_elem(0, layout.ins().len());
        column[index] = 1;
        let to = if axis == Axis::Reg { Axis::Reg } else { thread_axis() };
        join = join.add(to, extent, &column);
    }
    join.build()?.then(layout)
}

/// Open digits of an axis.
fn axis_runs(layout: &Layout, axis: Axis) -> Runs {
    let index = layout.ins().iter().position(|a| a.0 == axis);
    layout.open().into_iter().filter(|r| Some(r.axis as usize) == index).collect()
}

/// Takes the lowest digit that continues what is covered of a dimension: (spatial, dimension, extent). Elements before threads, last
/// dimension first.
fn peel(queues: &mut [Runs; 2], covered: &[u64], flat: &Layout) -> Result<(bool, usize, u64), LayoutError> {
    for dim in (0..covered.len()).rev() {
        for (which, queue) in queues.iter_mut().enumerate() {
            let Some(run) = queue.first() else { continue };
            let moves = |(d, &c): (usize, &u64)| c == if d == dim { covered[dim] } else { 0 };
            if run.swizzles() || !run.add.iter().enumerate().all(moves) {
                continue;
            }
            let extent = border(run, dim, covered[dim], flat);
            if extent == run.extent {
                queue.remove(0);
            } else {
                queue[0].extent /= extent;
                queue[0].add.iter_mut().for_each(|a| *a *= extent);
            }
            return Ok((which == 1, dim, extent));
        }
    }
    Err(LayoutError::Notation { notation: "Tilus", reason: "some digit swizzles, repeats or overlaps" })
}

/// Extent of the digit up to the next digit of the same dimension.
fn border(run: &Run, dim: usize, covered: u64, flat: &Layout) -> u64 {
    let above = flat.open().into_iter().map(|r| r.add[dim]).filter(|&s| s > covered);
    let next = above.min().map_or(run.extent, |s| s / covered);
    next.min(run.extent)
}

impl fmt::Display for Unified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, modes) = (joined(&self.shape, ", "), joined(&self.mode_shape, ", "));
        let (spatial, local) = (joined(&self.spatial_modes, ", "), joined(&self.local_modes, ", "));
        write!(f, "shape [{shape}] mode_shape [{modes}] spatial_modes [{spatial}] local_modes [{local}]")
    }
}

impl Unified {
    /// The representation of a layout; refuses what [`Tilus::of_layout`] refuses.
    pub fn of_layout(layout: &Layout) -> Result<Unified, LayoutError> {
        let flat = join_threads(layout)?;
        let shape: Vec<u64> = flat.outs().iter().map(|o| o.1).collect();
        let tilus = Tilus::of_layout(&flat)?;
        // Modes as (dimension, extent, spatial) in the order of the product, slowest first.
        let mut modes: Vec<(usize, u64, bool)> = Vec::new();
        for p in &tilus.0 {
            let rank = p.shape.len();
            let order = (0..rank).map(|k| if p.column { rank - 1 - k } else { k });
            modes.extend(order.filter(|&d| p.shape[d] > 1).map(|d| (d, p.shape[d], p.spatial)));
        }
        let mut order: Vec<usize> = (0..modes.len()).collect();
        order.sort_by_key(|&k| modes[k].0);
        let place = |k: usize| order.iter().position(|&o| o == k).unwrap_or(0);
        let of = |spatial| (0..modes.len()).filter(|&k| modes[k].2 == spatial).map(place).collect();
        Ok(Unified {
            shape,
            mode_shape: order.iter().map(|&k| modes[k].1).collect(),
            spatial_modes: of(true),
            local_modes: of(false),
        })
    }

    /// Reads `shape [..] mode_shape [..] spatial_modes [..] local_modes [..]`.
    pub fn parse(text: &str) -> Result<Unified, LayoutError> {
        let mut cursor = Cursor::new(text);
        let unified = unified(&mut cursor)?;
        cursor.end()?;
        Ok(unified)
    }

    /// The layout `(reg, thread)` to dimensions. Refuses modes that do not multiply to the shape, and modes that nobody or several get.
    pub fn to_layout(&self) -> Result<Layout, LayoutError> {
        let columns = self.mode_columns()?;
        let mut layout = Builder::new(&dims(&self.shape));
        let mut given = vec![false; columns.len()];
        for (axis, modes) in [(Axis::Reg, &self.local_modes), (thread_axis(), &self.spatial_modes)] {
            layout = layout.axis(axis);
            for &mode in modes.iter().rev() {
                match given.get_mut(mode) {
                    Some(given) if !*given => *given = true,
                    _ => return Err(lacks("a mode is given twice, or there is none of that number")),
                }
                layout = layout.add(axis, self.mode_shape[mode], &columns[mode]);
            }
        }
        match (0..columns.len()).all(|k| given[k] || self.mode_shape[k] == 1) {
            true => layout.build(),
            false => Err(lacks("a mode is given to neither threads nor elements")),
        }
    }

    /// The step of each mode on the coordinates.
    fn mode_columns(&self) -> Result<Vec<OutVec>, LayoutError> {
        let mut columns = vec![OutVec::from_elem(0, self.shape.len()); self.mode_shape.len()];
        let mut next = 0;
        for (dim, &extent) in self.shape.iter().enumerate() {
            let mut left = extent;
            while left > 1 {
                let mode = self.mode_shape.get(next).filter(|&&m| m > 0 && left.is_multiple_of(m));
                left /=
                    mode.ok_or_else(|| lacks("the modes of a dimension do not multiply to its extent"))?;
                columns[next][dim] = left;
                next += 1;
            }
        }
        match self.mode_shape[next..].iter().all(|&m| m == 1) {
            true => Ok(columns),
            false => Err(lacks("modes are left behind the last dimension")),
        }
    }

    /// Thread and element of a coordinate, by the three steps of Tilus, figure 6: split, distribute, merge.
    pub fn place(&self, coords: &[u64]) -> (u64, u64) {
        let mut digits = vec![0; self.mode_shape.len()];
        let mut mode = self.mode_shape.len();
        for (&extent, &coord) in self.shape.iter().zip(coords).rev() {
            let (mut left, mut rest) = (extent, coord);
            while left > 1 && mode > 0 {
                mode -= 1;
                let extent = self.mode_shape[mode].max(1);
                digits[mode] = rest % extent;
                rest /= extent;
                left /= extent;
            }
        }
        let ravel = |modes: &[usize]| modes.iter().fold(0, |n, &m| n * self.mode_shape[m] + digits[m]);
        (ravel(&self.spatial_modes), ravel(&self.local_modes))
    }
}

/// The error of a unified representation.
fn lacks(reason: &'static str) -> LayoutError {
    LayoutError::Notation { notation: "unified", reason }
}

/// Reads a unified representation.
pub(super) fn unified(cursor: &mut Cursor<'_>) -> Result<Unified, LayoutError> {
    let mut numbers = |name| {
        cursor.expect(name)?;
        cursor.list("[", "]", Cursor::number)
    };
    let (shape, mode_shape) = (numbers("shape")?, numbers("mode_shape")?);
    let (spatial, local) = (numbers("spatial_modes")?, numbers("local_modes")?);
    let modes = |list: Vec<u64>| list.into_iter().map(|m| m as usize).collect();
    Ok(Unified { shape, mode_shape, spatial_modes: modes(spatial), local_modes: modes(local) })
}

/// Reads a product.
pub(super) fn tilus(cursor: &mut Cursor<'_>) -> Result<Tilus, LayoutError> {
    let mut primitives: Vec<Primitive> = Vec::new();
    loop {
        let column = cursor.eat("column_");
        let spatial = cursor.eat("spatial");
        if !spatial {
            cursor.expect("local")?;
        }
        let shape = cursor.list("(", ")", Cursor::number)?;
        if shape.is_empty() || primitives.first().is_some_and(|p| p.shape.len() != shape.len()) {
            return Err(cursor.error("as many extents in every factor"));
        }
        primitives.push(Primitive { spatial, column, shape });
        if !cursor.eat(".") {
            return Ok(Tilus(primitives));
        }
    }
}

/// `h / g`, the `f` with `h = f.g` (Tilus, section 4.2).
pub fn divide_right(h: &Layout, g: &Layout) -> Result<Layout, LayoutError> {
    h.left_divide(g)
}

/// `f \ h`, the `g` with `h = f.g`: the fast part that is left when `f` is taken off above it.
pub fn divide_left(h: &Layout, f: &Layout) -> Result<Layout, LayoutError> {
    h.right_divide(f)
}

/// Whether registers can be read under another layout and type for free (Tilus, `View`): as many threads, and as many bits in each.
pub fn view_compatible((a, a_bits): (&Layout, u64), (b, b_bits): (&Layout, u64)) -> bool {
    let regs = |l: &Layout| l.in_extent(Axis::Reg);
    let threads = |l: &Layout| l.size() / regs(l);
    threads(a) == threads(b) && regs(a).checked_mul(a_bits) == regs(b).checked_mul(b_bits)
}

/// The layout of bytes that a tile with `bytes` bytes in each of `threads` threads is stored with, so that every access is as wide as it
/// can be: `local(n2).spatial(T).local(n1)`, `n1 = gcd(bytes, 16)` (Tilus, section 7.2).
pub fn byte_view(bytes: u64, threads: u64) -> Tilus {
    let inner = crate::layout::algebra::gcd(bytes, 16);
    let factor = |spatial, extent| Primitive { spatial, column: false, shape: vec![extent] };
    let factors = [factor(false, bytes / inner.max(1)), factor(true, threads), factor(false, inner)];
    Tilus(factors.into())
}
