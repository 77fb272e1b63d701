//! Shared memory: `(d0 row, d1 column)` to `m`, the offset in elements.
//!
//! ```text
//!  128-byte swizzle, 16-byte chunks of the first rows
//!  row 0   0 1 2 3 4 5 6 7
//!  row 1   1 0 3 2 5 4 7 6        chunk' = chunk ⊕ (row % 8)
//!  row 2   2 3 0 1 6 7 4 5
//! ```

use super::fragment::{multiple, refuse, tile};
use super::{Axis, Builder, Layout, LayoutError};

/// Rows one behind the other.
pub fn row_major(rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    padded(rows, cols, cols)
}

/// Rows that start every `pitch` elements.
pub fn padded(rows: u64, cols: u64, pitch: u64) -> Result<Layout, LayoutError> {
    let rule = "it is at least 1 and below 2^32";
    multiple("shared", "rows", rows, 1, rule)?;
    multiple("shared", "cols", cols, 1, rule)?;
    if pitch < cols || pitch >= 1 << 32 {
        return Err(refuse("shared.padded", "pitch", pitch, "it is at least the columns"));
    }
    let [row, col] = tile(rows, cols);
    Builder::new(&[(Axis::Mem, (rows - 1) * pitch + cols)])
        .add(row.0, rows, &[pitch])
        .add(col.0, cols, &[1])
        .build()
}

/// `mma` swizzling (Linear Layouts, definition 4.11): in row `i` the group of `vec` columns number `g` stands at
/// `g ⊕ (i / per_phase % max_phase)`. All parameters are powers of two; `max_phase` groups fit a row.
pub fn mma_swizzled(
    rows: u64,
    cols: u64,
    vec: u64,
    per_phase: u64,
    max_phase: u64,
) -> Result<Layout, LayoutError> {
    const FORM: &str = "shared.mma_swizzled";
    let parameters =
        [("rows", rows), ("cols", cols), ("vec", vec), ("per_phase", per_phase), ("max_phase", max_phase)];
    for (parameter, value) in parameters {
        if !value.is_power_of_two() || value >= 1 << 31 {
            return Err(refuse(FORM, parameter, value, "it is a power of two below 2^31"));
        }
    }
    if vec.saturating_mul(max_phase) > cols {
        return Err(refuse(FORM, "max_phase", max_phase, "vec * max_phase columns fit a row"));
    }
    let [row, col] = tile(rows, cols);
    let mut layout = Builder::new(&[(Axis::Mem, rows * cols)]).axis(row.0);
    for bit in 0..cols.trailing_zeros() {
        layout = layout.xor(col.0, &[1 << bit]);
    }
    for bit in 0..rows.trailing_zeros() {
        let phase = (1 << bit) / per_phase % max_phase;
        layout = layout.xor(row.0, &[(cols << bit) | (phase * vec)]);
    }
    layout.build()
}

/// Core matrices of 8 rows of 16 bytes (128 bytes each), those of a column of matrices one behind the other: what `wgmma` and
/// `ldmatrix` read without a swizzle (PTX ISA, "Shared Memory Matrix Layout", no swizzling). `rows` is a multiple of 8.
pub fn core_matrices(rows: u64, cols: u64, elem_bits: u64) -> Result<Layout, LayoutError> {
    const FORM: &str = "shared.core_matrices";
    if elem_bits == 0 || 128 % elem_bits != 0 {
        return Err(refuse(FORM, "elem_bits", elem_bits, "it divides 128"));
    }
    let wide = 128 / elem_bits;
    multiple(FORM, "rows", rows, 8, "it is a multiple of 8")?;
    let slabs = multiple(FORM, "cols", cols, wide, "it is a multiple of 16 bytes")?;
    let [row, col] = tile(rows, cols);
    Builder::new(&[(Axis::Mem, rows * cols)])
        .add(row.0, rows, &[wide])
        .add(col.0, wide, &[1])
        .add(col.0, slabs, &[rows * wide])
        .build()
}

/// What a TMA box writes with a swizzle of `swizzle_bytes` (0, 32, 64 or 128) into memory that starts at a multiple of 1024 bytes.
///
/// A row of a slab is `swizzle_bytes` long; columns beyond it go to further slabs `[rows][swizzle_bytes]`, one behind the other. The
/// 16-byte chunk number (byte address bits 4 and up) is exclusive-or-ed with address bits 7 and up: three bits for 128, two for
/// 64, one for 32 (PTX ISA, "Tensor Data Movement and Addressing", swizzling modes). `rows` is a multiple of 8 or a power of two.
pub fn swizzled(rows: u64, cols: u64, elem_bits: u64, swizzle_bytes: u64) -> Result<Layout, LayoutError> {
    const FORM: &str = "shared.swizzled";
    if swizzle_bytes == 0 {
        return row_major(rows, cols);
    }
    if ![32, 64, 128].contains(&swizzle_bytes) {
        return Err(refuse(FORM, "swizzle_bytes", swizzle_bytes, "it is 0, 32, 64 or 128"));
    }
    if !elem_bits.is_power_of_two() || elem_bits > 128 {
        return Err(refuse(FORM, "elem_bits", elem_bits, "it is a power of two up to 128"));
    }
    if !rows.is_power_of_two() && !rows.is_multiple_of(8) || rows == 0 || rows >= 1 << 32 {
        return Err(refuse(FORM, "rows", rows, "it is a multiple of 8 or a power of two"));
    }
    let pitch = swizzle_bytes * 8 / elem_bits;
    let slabs = multiple(FORM, "cols", cols, pitch, "it is a multiple of the swizzle's row")?;
    let [row, col] = tile(rows, cols);
    let mut layout = Builder::new(&[(Axis::Mem, rows * cols)]).axis(row.0).axis(col.0);
    let swizzle = Swizzle { span: swizzle_bytes, elem_bits };
    swizzle.digit(&mut layout, row.0, rows, pitch);
    swizzle.digit(&mut layout, col.0, pitch, 1);
    swizzle.digit(&mut layout, col.0, slabs, rows * pitch);
    layout.build()
}

/// A swizzling mode of TMA and `wgmma` for elements of a size.
#[derive(Clone, Copy, Debug)]
struct Swizzle {
    span: u64,
    elem_bits: u64,
}

impl Swizzle {
    /// Where the element at a linear offset goes.
    fn move_to(self, offset: u64) -> u64 {
        let chunk = 128 / self.elem_bits;
        let rows = offset * self.elem_bits / 8 / 128;
        offset ^ ((rows % (self.span / 16)) * chunk)
    }

    /// A digit of the linear layout, bit by bit through the swizzle; what lies beyond its period only adds.
    fn digit(self, layout: &mut Builder, axis: Axis, extent: u64, stride: u64) {
        let period = 8 * self.span * 8 / self.elem_bits;
        let (mut extent, mut stride) = (extent, stride);
        while extent.is_multiple_of(2) && !stride.is_multiple_of(period) {
            layout.digit(axis, 2, &[self.move_to(stride)], true);
            extent /= 2;
            stride *= 2;
        }
        layout.digit(axis, extent, &[stride], false);
    }
}
