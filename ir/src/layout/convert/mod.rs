//! Conversion of one distributed layout into another: a permutation of registers, rounds of warp shuffles, or a pass through
//! shared memory (Linear Layouts, section 5.4).
//!
//! ```text
//!   U = all elements of a warp = lanes(A) + registers(A) = lanes(B) + registers(B)
//!   V   registers that both share: they travel together in one 32-bit shuffle
//!   H   a largest space that meets neither registers(A) nor registers(B): one element for every lane, on both sides
//!   R   the rest of a basis of U:  in round i the space R(i) + H is exchanged, 2^|R| rounds
//! ```

mod cells;
mod shared;
pub(crate) mod shuffle;

pub use cells::{Cells, cells};
pub use shared::{SharedPass, pass_through, through_rows, through_shared};
pub use shuffle::{LaneMap, Round, Shuffle};

use super::canonical::Run;
use super::fragment::refuse;
use super::linear::labels;
use super::space::{Coordinates, combine, sum};
use super::{Axis, Basis, Layout, LayoutError};
use shuffle::{Side, repetitions, shuffle};

/// How registers of one layout become registers of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conversion {
    /// Every thread already holds what it needs: register `r` of the target is register `source[r]` of the source.
    Registers {
        /// Source register (in elements) of each target register.
        source: Vec<u64>,
    },
    /// Elements change lanes inside their warps.
    Shuffle(Shuffle),
    /// Elements change warps, or no linear form exists.
    Shared(Box<SharedPass>),
    /// Elements below a byte move as cells.
    Cells(Box<Cells>, Box<Conversion>),
}

/// Plans the conversion of `from` into `to`, distributed layouts `(reg, lane, warp, ..)` of the same tile with elements of
/// `elem_bits` bits. Prefers register moves, then shuffles, then shared memory. Elements below a byte move as [`cells`].
pub fn convert(from: &Layout, to: &Layout, elem_bits: u64) -> Result<Conversion, LayoutError> {
    let (from, to) = same_axes(from, to)?;
    if elem_bits < BYTE {
        let cells = cells(&from, &to, elem_bits)?;
        let plan = convert(&cells.from, &cells.to, cells.bits)?;
        return Ok(Conversion::Cells(Box::new(cells), Box::new(plan)));
    }
    if let Some(source) = registers(&from, &to) {
        return Ok(Conversion::Registers { source });
    }
    match shuffle(&from, &to, elem_bits) {
        Some(plan) => Ok(Conversion::Shuffle(plan)),
        None => through_shared(&from, &to, elem_bits).map(|p| Conversion::Shared(Box::new(p))),
    }
}

/// Bits of what memory has addresses for.
const BYTE: u64 = 8;

/// Registers of a thread that a plan is made for: far above what a thread has.
const REGISTERS: u64 = 1 << 12;

/// Both with the axes `reg, lane, ...` in one order, and the same outputs.
fn same_axes(from: &Layout, to: &Layout) -> Result<(Layout, Layout), LayoutError> {
    let mut axes = vec![Axis::Reg, Axis::Lane];
    for axis in labels(from.ins()).into_iter().chain(labels(to.ins())) {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    let from = from.with_ins(&axes)?;
    let to = to.with_ins(&axes)?.reordered(&to.with_ins(&axes)?.ins, from.outs())?;
    for layout in [&from, &to] {
        let registers = layout.in_extent(Axis::Reg);
        if registers > REGISTERS {
            return Err(refuse("convert", "registers", registers, "a plan is made for 4096 at most"));
        }
    }
    let differ = from.outs().iter().zip(to.outs()).find(|(a, b)| a != b);
    match differ {
        Some((&(axis, extent), &(_, needed))) => Err(LayoutError::OutOfRange { axis, extent, needed }),
        None => Ok((from, to)),
    }
}

/// `to` in terms of `from`: for each target coordinate the source's. On every axis where both have the same digits it is the identity,
/// else copies are read from the first holder (Linear Layouts, section 5.4, the two preferences).
pub fn invert_and_compose(to: &Layout, from: &Layout) -> Result<Layout, LayoutError> {
    let (from, to) = same_axes(from, to)?;
    let composed = to.then(&from.right_inverse()?)?;
    let mut runs = composed.open();
    for (index, &(axis, extent)) in to.ins().iter().enumerate() {
        if to.basis(axis) != from.basis(axis) {
            continue;
        }
        runs.retain(|r| r.axis as usize != index);
        let mut column = super::OutVec::from_elem(0, composed.outs().len());
        column[index] = 1;
        runs.push(Run::strided(index as u8, extent, column));
    }
    runs.sort_by_key(|r| r.axis);
    let outs = composed.outs.clone();
    Layout::from_runs(composed.ins.clone(), outs, runs)
}

/// Source register of each target register where no element leaves its thread: all axes but `reg` must hold the same on both sides.
fn registers(from: &Layout, to: &Layout) -> Option<Vec<u64>> {
    let others = |l: &Layout| -> Vec<Vec<Basis>> { l.ins()[1..].iter().map(|a| l.basis(a.0)).collect() };
    if others(from) != others(to) {
        return None;
    }
    linear_registers(from, to).or_else(|| composed_registers(from, to))
}

/// By solving for each register bit of the target over the register bits of the source.
fn linear_registers(from: &Layout, to: &Layout) -> Option<Vec<u64>> {
    let repeats = repetitions(from, to)?;
    let (a, b) = (Side::new(from)?, Side::new(to)?);
    let coordinates = Coordinates::new(&a.regs);
    let sources: Vec<u64> = b.regs.iter().map(|c| coordinates.of(*c)).collect::<Option<_>>()?;
    let mut source = vec![0; to.in_extent(Axis::Reg) as usize];
    for (base, shift) in repeats {
        for set in 0..1u64 << sources.len() {
            let register = (sum(&b.weights, set) + shift) as usize;
            *source.get_mut(register)? = sum(&a.weights, combine(&sources, set)) + base;
        }
    }
    Some(source)
}

/// By composition with an inverse, which also has digits that line up only in part.
fn composed_registers(from: &Layout, to: &Layout) -> Option<Vec<u64>> {
    let source = invert_and_compose(to, from).ok()?;
    for (index, &(axis, _)) in source.ins().iter().enumerate() {
        let others = |b: &Basis| b.out[1..].iter().all(|&o| o == 0);
        let stays =
            |b: &Basis| b.out.iter().enumerate().all(|(o, &c)| c == if o == index { b.weight } else { 0 });
        let basis = source.basis(axis);
        let fine = if axis == Axis::Reg { basis.iter().all(others) } else { basis.iter().all(stays) };
        if !fine {
            return None;
        }
    }
    let mut at = vec![0; source.ins().len()];
    let source_of = |r| {
        at[0] = r;
        source.apply(&at)[0]
    };
    Some((0..source.in_extent(Axis::Reg)).map(source_of).collect())
}
