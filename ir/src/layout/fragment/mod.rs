//! Hardware fragments as families: `(reg, lane, warp, warpgroup)` to `(d0 row, d1 column)`.
//!
//! ```text
//!  m16n8 accumulator, lane:reg in each cell          a thread holds 2 neighbours, twice, 8 rows apart
//!   0:0 0:1  1:0 1:1  2:0 2:1  3:0 3:1
//!   4:0 4:1  5:0 ...                                 lane = 4·(row % 8) + column / 2
//!   ...
//!   0:2 0:3  1:2 ...                                 reg  = 2·(row / 8) + column % 2
//! ```
//!
//! The register axis counts elements, not 32-bit registers: how elements pack is the fragment's type.
//! The formulas are those of the PTX ISA, chapters "Matrix multiply-accumulate operation using mma
//! instruction" and "Asynchronous warpgroup level matrix instructions".

mod blocked;
mod matrix;
mod wgmma;

pub use blocked::{blocked, row_slice};
pub use matrix::{
    QuadPair, ldmatrix, mma_a, mma_acc, mma_b, mma_quad_pair, mma_tile_acc, mma8_a, mma8_acc, stmatrix,
};
pub use wgmma::{wgmma_a, wgmma_acc};

use super::{Axis, LayoutError};

/// Row and column of a tile.
pub(crate) fn tile(rows: u64, cols: u64) -> [(Axis, u64); 2] {
    [(Axis::Dim(0), rows), (Axis::Dim(1), cols)]
}

/// Refuses a parameter.
pub(crate) fn refuse(
    form: &'static str,
    parameter: &'static str,
    value: u64,
    rule: &'static str,
) -> LayoutError {
    LayoutError::Form { form, parameter, value, rule }
}

/// Checks that `value` is a positive multiple of `of`.
pub(crate) fn multiple(
    form: &'static str,
    parameter: &'static str,
    value: u64,
    of: u64,
    rule: &'static str,
) -> Result<u64, LayoutError> {
    match value > 0 && of > 0 && value.is_multiple_of(of) && value < 1 << 32 {
        true => Ok(value / of),
        false => Err(refuse(form, parameter, value, rule)),
    }
}
