//! Elements below a byte as cells that permutations of bytes, shuffles and shared memory can move.
//!
//! ```text
//!   runs      u4  │ e0 e1 │ e2 e3 │ ..   both sides begin a register with the same 2^k elements: one cell each
//!   widened   u4  │ e0 .. │ e1 .. │ ..   else every element goes to a byte of its own, and back behind the move
//! ```
//!
//! Memory has no address inside a byte, so that vectors of a conversion (Linear Layouts, section 5.4) are at least a byte. The
//! common registers of the two sides make it where they can; the layouts of cells are those of the elements, divided by them.

use super::super::linear::labels;
use super::super::space::{Coordinates, Vectors, dimension, extension, units};
use crate::layout::{Axis, Builder, Layout, LayoutError};

/// The unit that moves instead of elements smaller than a byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cells {
    /// Bits of a cell: 8, 16 or 32.
    pub bits: u64,
    /// Whether a cell is one element with zeros above it, so that registers are widened before the move and narrowed behind it. Else the
    /// registers of cells are those of elements.
    pub widened: bool,
    /// The source over cells.
    pub from: Layout,
    /// The target over cells.
    pub to: Layout,
}

/// Bits of a register.
const REGISTER: u64 = 32;

/// The cells of a conversion of elements with fewer than eight bits.
pub fn cells(from: &Layout, to: &Layout, elem_bits: u64) -> Result<Cells, LayoutError> {
    let run = common_run(from, to, elem_bits);
    let bits = elem_bits << run.len();
    if bits < 8 {
        return Ok(Cells { bits: 8, widened: true, from: from.clone(), to: to.clone() });
    }
    let (from, to) = (without_run(from, &run)?, without_run(to, &run)?);
    Ok(Cells { bits, widened: false, from, to })
}

/// The lowest register bits that are the same on both sides, up to a register; none where a layout has an outer part.
fn common_run(from: &Layout, to: &Layout, elem_bits: u64) -> Vectors {
    let linear =
        from.is_linear() && to.is_linear() && from.outs() == to.outs() && elem_bits.is_power_of_two();
    if !linear {
        return Vectors::new();
    }
    let registers =
        |l: &Layout| -> Vectors { l.basis(Axis::Reg).iter().map(|b| l.pack_outs(&b.out)).collect() };
    let pairs = registers(from).into_iter().zip(registers(to));
    let most = (REGISTER / elem_bits).ilog2() as usize;
    let run: Vectors = pairs.take(most).take_while(|(a, b)| a == b).map(|p| p.0).collect();
    let apart = (0..=run.len()).rev().find(|&n| dimension(&run[..n]) == n).unwrap_or(0);
    run[..apart].to_vec()
}

/// The layout over cells: coordinates behind those of the run, in one dimension.
fn without_run(layout: &Layout, run: &[u64]) -> Result<Layout, LayoutError> {
    let bits: u32 = layout.outs().iter().map(|o| o.1.trailing_zeros()).sum();
    let rest = extension(run, &units(bits));
    let basis: Vectors = run.iter().chain(&rest).copied().collect();
    let coordinates = Coordinates::new(&basis);
    let mut cells = Builder::new(&[(Axis::Dim(0), 1 << rest.len())]);
    for axis in labels(layout.ins()) {
        cells = cells.axis(axis);
        let skipped = if axis == Axis::Reg { run.len() } else { 0 };
        for digit in layout.basis(axis).into_iter().skip(skipped) {
            let column = coordinates.of(layout.pack_outs(&digit.out)).unwrap_or(0) >> run.len();
            cells = cells.xor(axis, &[column]);
        }
    }
    cells.build()
}
