//! Boxes: loads of tiles of more than two dimensions whose elements an MMA reads as rows and columns. One tensor copy brings
//! them all (PTX ISA, "Tensors"): in shared memory its box lies as the rows of the tile.
//!
//! ```text
//!  load x[n, y, x, c] : f16[1, 8, 16, 64] ─► reshape f16[128, 64] ─► mma
//!        box 64 x 16 x 8 x 1 ─────────────────► 128 rows of 64, one below the other
//! ```
//!
//! A store goes the other way: of a tile of rows that is reshaped to more dimensions, each warp's stripe of rows is a box.
//!
//! ```text
//!  store o[n, y, x, c], reshape f16[1, 8, 16, 64] of f16[128, 64]     stripe of 16 rows: box 64 x 16 x 1 x 1
//! ```
//!
//! So a convolution reads the pixels of a patch, and grouped queries the rows of several heads. What lies outside the view is
//! zero in every dimension, as for any load. Another use of the tile, and what tensor copies cannot bring, leaves the load to
//! the threads.

use crate::feature::Ways;
use crate::tensor_copies::load_refused;
use crate::tiles::{array, extents, loads_tile};
use warplift_ir::tile::{Inst, Kernel, Op, Value, Way};

/// The greatest extent of a box on any target (PTX ISA, "Tensor size, stride, and box size"). Operands are recognized before a
/// target is asked.
pub(crate) const MOST_EXTENT: u32 = 256;

/// Whether a reshape makes rows of the leading dimensions of a loaded tile, and tensor copies bring that tile.
pub(crate) fn is_box(k: &Kernel, reshape: Inst) -> bool {
    let Some(load) = k.args(reshape).first().and_then(|&v| k.def(v)) else { return false };
    let alone = |i: Inst| makes_rows(k, i) && only_products(k, k.result(i));
    let mut users = k.insts.keys().filter(|&i| k.args(i).contains(&k.result(load)));
    makes_rows(k, reshape) && users.all(alone) && is_copied(k, load)
}

/// Whether a reshape makes one dimension of all leading dimensions of a loaded tile of more than two.
fn makes_rows(k: &Kernel, inst: Inst) -> bool {
    let load = || k.def(k.args(inst)[0]).filter(|&load| loads_tile(k, load));
    matches!(k.insts[inst].op, Op::Reshape)
        && load().is_some_and(|load| {
            let from = extents(k, k.result(load));
            from.len() > 2 && rows_and_columns(&from).is_some_and(|to| extents(k, k.result(inst)) == to)
        })
}

/// The rows and columns of a tile: all dimensions but the last, and the last.
pub(crate) fn rows_and_columns(extents: &[u32]) -> Option<[u32; 2]> {
    let (&columns, rows) = extents.split_last()?;
    let rows = rows.iter().try_fold(1u32, |product, &e| product.checked_mul(e))?;
    (extents.len() > 1).then_some([rows, columns])
}

/// The tile of two dimensions in the same registers: behind a reshape that makes more dimensions of its rows.
pub(crate) fn flat(k: &Kernel, v: Value) -> Value {
    let reshaped = k.def(v).filter(|&d| matches!(k.insts[d].op, Op::Reshape)).map(|d| k.args(d)[0]);
    let (from, to) = (reshaped.map(|v| extents(k, v)), extents(k, v));
    let rows = (to.len() > 2).then(|| rows_and_columns(&to)).flatten();
    match (reshaped, from, rows) {
        (Some(tile), Some(from), Some(rows)) if from == rows => tile,
        _ => v,
    }
}

/// The box of some rows that follow each other, by the leading dimensions of a tile from the outside in; `None` if they are
/// none. They begin at a multiple of their number.
pub(crate) fn box_of_rows(leading: &[u32], rows: u32) -> Option<Vec<u32>> {
    let mut left = rows;
    let mut extents = vec![1; leading.len()];
    for (own, &extent) in extents.iter_mut().zip(leading).rev() {
        *own = if left.is_multiple_of(extent) { extent } else { left };
        if !extent.is_multiple_of(*own) {
            return None;
        }
        left /= *own;
    }
    (left == 1).then_some(extents)
}

/// Whether the mapping leaves a load to tensor copies, and one can bring its tile.
pub(crate) fn is_copied(k: &Kernel, load: Inst) -> bool {
    let extents = extents(k, k.result(load));
    let fits = extents[..extents.len() - 1].iter().all(|&extent| extent <= MOST_EXTENT);
    fits && array(k, load).way != Way::Plain && load_refused(k, load, Ways::without(&[])).is_none()
}

/// Whether only MMAs use a value. Looks through transpositions, slices, and the reshapes of boxes.
pub(crate) fn only_products(k: &Kernel, v: Value) -> bool {
    let mut used = false;
    let fine = k.insts.iter().all(|(inst, data)| {
        if !k.args(inst).contains(&v) {
            return true;
        }
        used = true;
        match data.op {
            Op::Mma { .. } => k.args(inst)[0] != v,
            Op::Trans(_) | Op::Slice(_) => only_products(k, k.result(inst)),
            Op::Reshape => makes_rows(k, inst) && only_products(k, k.result(inst)),
            _ => false,
        }
    });
    used && fine
}
