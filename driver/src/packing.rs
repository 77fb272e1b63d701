//! Packs an array before the launch, as a manifest requires it. Weights are packed once and used often.
//!
//! ```text
//!  W[n, k], row by row ──► tile by tile, each in the order in which the kernel's threads hold it
//! ```
//!
//! (Tilus, section 7 and Fig. 9.) The compiler derives the order from its plan. Here the order is data. [`kernel_text`]
//! turns the same data into a kernel.

mod kernel;

pub use kernel::{PackingKernelError, kernel_text};

use std::borrow::Cow;
use warplift_ir::manifest::{ExprError, Manifest, Packing};

/// Why an array cannot be packed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PackingError {
    /// The array is smaller than its extents say.
    #[error("the array has {found} bytes, {rows} rows of {columns} elements of {bits} bits take {needed}")]
    Short {
        /// Bytes given.
        found: usize,
        /// Bytes needed.
        needed: u64,
        /// Rows of all outer dimensions.
        rows: u64,
        /// Elements of a row.
        columns: u64,
        /// Bits of an element.
        bits: u32,
    },
    /// An extent has no value.
    #[error(transparent)]
    Extent(#[from] ExprError),
}

/// An array in the form that a kernel needs: packed if its manifest says so.
///
/// # Errors
/// As [`pack`].
pub fn as_wanted<'a>(
    manifest: &Manifest,
    argument: &str,
    bytes: &'a [u8],
    value: &dyn Fn(&str) -> Option<i64>,
) -> Result<Cow<'a, [u8]>, PackingError> {
    let found = manifest.arguments.iter().find(|a| a.name == argument);
    match found.and_then(|a| a.packing.as_ref()) {
        Some(packing) => pack(packing, bytes, value).map(Cow::Owned),
        None => Ok(Cow::Borrowed(bytes)),
    }
}

/// The packed array. `value` gives the scalar arguments. Rows and columns beyond the end are zeros, as is the tile behind
/// the last.
///
/// # Errors
/// The array is too short, or an extent has no value.
pub fn pack(
    packing: &Packing,
    bytes: &[u8],
    value: &dyn Fn(&str) -> Option<i64>,
) -> Result<Vec<u8>, PackingError> {
    let extent = |d: usize| packing.extents[d].eval(value).map(|e| e.max(0) as u64);
    let (outer, rows, columns) = (packing.outer_count(value)? as u64, extent(0)?, extent(1)?);
    let needed = (outer * rows * columns * u64::from(packing.bits)).div_ceil(8);
    if (bytes.len() as u64) < needed {
        let (found, bits) = (bytes.len(), packing.bits);
        return Err(PackingError::Short { found, needed, rows: outer * rows, columns, bits });
    }
    let mut packed = vec![0; packing.bytes(value)? as usize];
    let places = places(packing);
    let [tile_rows, tile_columns] = packing.tile.map(u64::from);
    let (down, across) = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
    let mut to = 0u64;
    for tile in 0..outer * down * across {
        let (above, first_row) = (tile / across / down * rows, tile / across % down * tile_rows);
        let first_column = tile % across * tile_columns;
        for &[row, column] in &places {
            let (row, column) = (first_row + u64::from(row), first_column + u64::from(column));
            if row < rows && column < columns {
                copy(packing.bits, bytes, (above + row) * columns + column, &mut packed, to);
            }
            to += 1;
        }
    }
    Ok(packed)
}

/// Row and column inside a tile of every place.
fn places(packing: &Packing) -> Vec<[u32; 2]> {
    let mut all = vec![[0, 0]];
    for digit in &packing.digits {
        let before = all.clone();
        for value in 1..digit.extent {
            all.extend(before.iter().map(|p| [p[0] + value * digit.step[0], p[1] + value * digit.step[1]]));
        }
    }
    all
}

/// Writes one element. Elements smaller than a byte are written bit by bit into zeros.
fn copy(bits: u32, from: &[u8], source: u64, to: &mut [u8], target: u64) {
    if bits.is_multiple_of(8) {
        let bytes = (bits / 8) as usize;
        let (source, target) = (source as usize * bytes, target as usize * bytes);
        to[target..target + bytes].copy_from_slice(&from[source..source + bytes]);
        return;
    }
    for bit in 0..u64::from(bits) {
        let at = |element: u64| {
            let bit = element * u64::from(bits) + bit;
            ((bit / 8) as usize, bit % 8)
        };
        let ((source, low), (target, high)) = (at(source), at(target));
        to[target] |= (from[source] >> low & 1) << high;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::manifest::{Expr, PackingDigit};

    fn digit(extent: u32, step: [u32; 2]) -> PackingDigit {
        PackingDigit { extent, step }
    }

    #[test]
    fn tiles_follow_each_other_and_edges_are_zeros() {
        let packing = Packing {
            outer: Vec::new(),
            extents: [Expr::Const(3), Expr::var("k")],
            tile: [2, 2],
            bits: 8,
            digits: vec![digit(2, [1, 0]), digit(2, [0, 1])],
            zeros: false,
        };
        let value = |name: &str| (name == "k").then_some(3);
        let bytes: Vec<u8> = (1..=9).collect();
        let packed = pack(&packing, &bytes, &value).unwrap();
        assert_eq!(packed, [1, 4, 2, 5, 3, 6, 0, 0, 7, 0, 8, 0, 9, 0, 0, 0]);
        assert!(matches!(pack(&packing, &bytes[..8], &value), Err(PackingError::Short { needed: 9, .. })));
        assert!(matches!(pack(&packing, &bytes, &|_| None), Err(PackingError::Extent(_))));
    }

    #[test]
    fn outer_indices_have_tiles_of_their_own() {
        let packing = Packing {
            outer: vec![Expr::Const(2), Expr::var("e")],
            extents: [Expr::Const(1), Expr::Const(2)],
            tile: [1, 2],
            bits: 8,
            digits: vec![digit(2, [0, 1])],
            zeros: true,
        };
        let value = |name: &str| (name == "e").then_some(2);
        let bytes: Vec<u8> = (1..=8).collect();
        assert_eq!(pack(&packing, &bytes, &value).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0]);
        let taller = Packing { tile: [2, 1], digits: vec![digit(2, [1, 0])], zeros: false, ..packing };
        assert_eq!(pack(&taller, &bytes, &value).unwrap()[..8], [1, 0, 2, 0, 3, 0, 4, 0]);
        assert!(matches!(
            pack(&taller, &bytes[..7], &value),
            Err(PackingError::Short { needed: 8, rows: 4, .. })
        ));
    }

    #[test]
    fn nibbles_are_moved_one_by_one() {
        let packing = Packing {
            outer: Vec::new(),
            extents: [Expr::Const(1), Expr::Const(4)],
            tile: [1, 4],
            bits: 4,
            digits: vec![digit(2, [0, 2]), digit(2, [0, 1])],
            zeros: false,
        };
        assert_eq!(pack(&packing, &[0x21, 0x43], &|_| None).unwrap(), [0x31, 0x42]);
        // 1, 2, 3, 4 of six bits each.
        let six = Packing { bits: 6, ..packing };
        let word = |v: [u32; 4]| v.iter().enumerate().map(|(i, x)| x << (6 * i)).sum::<u32>().to_le_bytes();
        let packed = pack(&six, &word([1, 2, 3, 4])[..3], &|_| None).unwrap();
        assert_eq!(packed, word([1, 3, 2, 4])[..3]);
    }
}
