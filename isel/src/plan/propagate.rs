//! Propagates layouts through shape operations: the register digits that a slice keeps, the columns that a
//! permutation or a broadcast moves. Distributed layouts are closed under these (Linear Layouts, section 4.4).
//!
//! ```text
//!  y = slice a[0, 64]     y's layout: a's without the register digits along columns 64 and up
//! ```

use crate::facts::gcd;
use crate::tiles::layout_error;
use crate::{IselError, Result};
use warplift_ir::layout::{Axis, Builder, Layout, fragment, shape};
use warplift_ir::tile::{Inst, Kernel};

/// The layout of a slice: register digits outside the slice are dropped.
///
/// # Errors
/// The slice does not end at a digit, or threads hold elements outside it.
pub fn slice_layout(k: &Kernel, inst: Inst, layout: &Layout, from: &[u32], shape: &[u32]) -> Result<Layout> {
    let refuse = || {
        let message = format!(
            "the slice {shape:?} at {from:?} starts or ends inside what a thread holds: offsets are multiples of the slice's \
             extents, and the tile's extents too"
        );
        IselError::at(k, inst, message)
    };
    let aligned = from.iter().zip(shape).all(|(f, s)| f.is_multiple_of(*s));
    if !aligned {
        return Err(refuse());
    }
    rebuild(layout, shape, |axis, out| {
        let inside = out.iter().zip(shape).all(|(&o, &s)| o < u64::from(s));
        (inside || axis != Axis::Reg).then(|| out.to_vec())
    })
    .filter(|l| l.outs().iter().zip(shape).all(|(o, &s)| o.1 == u64::from(s)))
    .ok_or_else(refuse)
}

/// Whether packed elements of this width cross words.
pub(crate) fn crosses_words(bits: u32) -> bool {
    bits < 8 && !bits.is_power_of_two()
}

/// The layout of a whole tile whose slice has the given one: further slices take further registers. Elements that cross
/// words share registers with those of other slices: their last digit stays last, so pairs stand whole halfwords apart.
pub(super) fn unsliced(
    k: &Kernel,
    inst: Inst,
    layout: &Layout,
    part: &[u32],
    whole: &[u32],
) -> Result<Layout> {
    if part.iter().zip(whole).any(|(p, w)| !w.is_multiple_of(*p)) {
        let message =
            format!("a slice {part:?} of {whole:?}: the tile's extents are multiples of the slice's");
        return Err(IselError::at(k, inst, message));
    }
    let outs: Vec<(Axis, u64)> =
        whole.iter().enumerate().map(|(d, &e)| (Axis::Dim(d as u8), u64::from(e))).collect();
    let mut b = Builder::new(&outs);
    for &(axis, _) in layout.ins() {
        b = b.axis(axis);
        let digits = layout.basis(axis);
        let last = usize::from(axis == Axis::Reg && crosses_words(k.ty(k.result(inst)).elem().bits()));
        let (first, last) = digits.split_at(digits.len().saturating_sub(last));
        for digit in first {
            b = b.add(axis, digit.extent, &digit.out);
        }
        for (d, (&p, &w)) in part.iter().zip(whole).enumerate().filter(|_| axis == Axis::Reg) {
            let mut column = vec![0; whole.len()];
            column[d] = u64::from(p);
            b = b.add(axis, u64::from(w / p), &column);
        }
        for digit in last {
            b = b.add(axis, digit.extent, &digit.out);
        }
    }
    b.build().map_err(layout_error(k, inst))
}

/// The layout of two tiles beside each other in a last dimension: each thread holds the elements of both, in turn.
pub(super) fn joined(k: &Kernel, inst: Inst, layout: &Layout, to: &[u32]) -> Result<Layout> {
    let outs: Vec<(Axis, u64)> =
        to.iter().enumerate().map(|(d, &e)| (Axis::Dim(d as u8), u64::from(e))).collect();
    let mut in_turn = vec![0; to.len()];
    in_turn[to.len() - 1] = 1;
    let mut b = Builder::new(&outs);
    let none = layout.ins().iter().all(|a| a.0 != Axis::Reg);
    for axis in layout.ins().iter().map(|a| a.0).chain(none.then_some(Axis::Reg)) {
        b = b.axis(axis);
        if axis == Axis::Reg {
            b = b.add(axis, 2, &in_turn);
        }
        for digit in layout.basis(axis) {
            let mut column = digit.out.to_vec();
            column.push(0);
            b = b.add(axis, digit.extent, &column);
        }
    }
    b.build().map_err(layout_error(k, inst))
}

/// The layout of an operand that is broadcast to the given one: dimensions of extent 1 get no digits.
pub(super) fn collapse(k: &Kernel, inst: Inst, layout: &Layout, small: &[u32]) -> Result<Layout> {
    let missing = layout.outs().len().saturating_sub(small.len());
    let mut l = layout.clone();
    for _ in 0..missing {
        l = fragment::row_slice(&l, 0).map_err(layout_error(k, inst))?;
    }
    let kept = rebuild(&l, small, |axis, out| {
        let out: Vec<u64> = out.iter().zip(small).map(|(&o, &s)| if s == 1 { 0 } else { o }).collect();
        (axis != Axis::Reg || out.iter().any(|&o| o != 0)).then_some(out)
    });
    kept.ok_or_else(|| {
        IselError::at(k, inst, "no layout of this broadcast's operand gives the result's: store and load it")
    })
}

/// The layout of the same registers read as elements of another width. The last dimension scales. The elements that
/// one element becomes, or that make one, share one place of a register.
///
/// ```text
///   u6   │ e0  │ e1  │ e2  │ e3  │     four elements, as long as
///   u8   │  b0   │  b1   │  b2   │     three
/// ```
///
/// # Errors
/// If a thread holds parts of such a run.
pub(super) fn reinterpreted(k: &Kernel, inst: Inst, layout: &Layout, from: u32, to: u32) -> Result<Layout> {
    let common = gcd(from.into(), to.into()).unsigned_abs();
    let (old, new) = (u64::from(to) / common, u64::from(from) / common);
    let last = layout.outs().len().saturating_sub(1);
    let run = first_run(layout, last);
    let refuse = || {
        let message = format!(
            "elements of {from} bits seen as elements of {to} bits: {old} neighbours are {new}, and a thread holds {run} \
             (give the tile a layout whose registers begin with a multiple of {old} along the last dimension)"
        );
        IselError::at(k, inst, message)
    };
    let scaled = |x: u64| x.is_multiple_of(old).then(|| x / old * new).ok_or_else(refuse);
    let mut outs: Vec<(Axis, u64)> = layout.outs().to_vec();
    outs.last_mut().ok_or_else(refuse)?.1 = scaled(outs[last].1)?;
    let mut b = Builder::new(&outs);
    for &(axis, _) in layout.ins() {
        b = b.axis(axis);
        let inside = if axis == Axis::Reg { run } else { 1 };
        if axis == Axis::Reg {
            let mut column = vec![0; outs.len()];
            column[last] = 1;
            b = b.add(axis, scaled(run)?, &column);
        }
        for digit in layout.basis(axis).into_iter().filter(|d| d.weight >= inside) {
            let mut column = digit.out.to_vec();
            column[last] = scaled(column[last])?;
            b = b.add(axis, digit.extent, &column);
        }
    }
    b.build().map_err(layout_error(k, inst))
}

/// How many registers from the first on are neighbours along a dimension.
fn first_run(layout: &Layout, dim: usize) -> u64 {
    let mut run = 1;
    for digit in layout.basis(Axis::Reg) {
        let goes_on = digit.out.iter().enumerate().all(|(d, &c)| c == if d == dim { run } else { 0 });
        if digit.weight != run || !goes_on {
            break;
        }
        run *= digit.extent;
    }
    run
}

/// The same digits with other extents; `keep` gives the new column of a digit, or drops it.
fn rebuild(
    layout: &Layout,
    shape: &[u32],
    keep: impl Fn(Axis, &[u64]) -> Option<Vec<u64>>,
) -> Option<Layout> {
    let outs: Vec<(Axis, u64)> =
        shape.iter().enumerate().map(|(d, &e)| (Axis::Dim(d as u8), u64::from(e))).collect();
    let mut b = Builder::new(&outs);
    for &(axis, _) in layout.ins() {
        b = b.axis(axis);
        for digit in layout.basis(axis) {
            if let Some(column) = keep(axis, &digit.out) {
                b = b.add(axis, digit.extent, &column);
            }
        }
    }
    b.build().ok()
}

pub(super) fn permute(
    layout: &Layout,
    perm: &[u8],
) -> std::result::Result<Layout, warplift_ir::layout::LayoutError> {
    let to = |d: u8| perm.iter().position(|&p| p == d).unwrap_or(0) as u8;
    let renamed = layout.renamed(|a| match a {
        Axis::Dim(d) => Axis::Dim(to(d)),
        other => other,
    })?;
    let mut outs: Vec<(Axis, u64)> = renamed.outs().to_vec();
    outs.sort();
    renamed.reordered(renamed.ins(), &outs)
}

/// The layout of the same elements in row-major order under another shape.
pub(super) fn reshaped(k: &Kernel, inst: Inst, layout: &Layout, [from, to]: [&[u32]; 2]) -> Result<Layout> {
    let dims = |e: &[u32]| shape::dims(&e.iter().map(|&e| u64::from(e)).collect::<Vec<_>>());
    let map = shape::reshape(&dims(from), &dims(to)).map_err(layout_error(k, inst))?;
    layout.then(&map).map_err(layout_error(k, inst))
}
