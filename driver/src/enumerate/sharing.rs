//! Which tiles warpgroups and warps can share, so that no form is compiled to be refused.
//!
//! ```text
//!  wgmma       64 rows for each warpgroup, 8 to 256 columns     128 x 40 by two, and 40 x 128 transposed
//!  mma.sync    16 rows and 8 columns for each warp              16 x 96 by 1 x 4 warps; 16 x 80 by no four
//! ```

use super::rough::ROWS;

/// Columns of an instruction of a warpgroup at most.
const COLUMNS: i64 = 256;

/// Whether warpgroups can share the rows of a tile, or its columns where the product is transposed.
pub(super) fn groups_share([m, n, _]: [i64; 3], groups: u32) -> bool {
    let rows = ROWS * i64::from(groups);
    let shares = |rows_of: i64, columns: i64| rows_of % rows == 0 && columns % 8 == 0 && columns <= COLUMNS;
    shares(m, n) || shares(n, m)
}

/// Whether so many warps can share the rows and the columns of a tile by `mma.sync`, as they lie or transposed.
pub(super) fn warps_share([m, n, _]: [i64; 3], warps: u32) -> bool {
    let splits = (0..=warps.trailing_zeros()).map(|bits| [i64::from(warps >> bits), 1 << bits]);
    let mut legal =
        splits.flat_map(|[rows, columns]| [[m, n], [n, m]].map(|[m, n]| m % (16 * rows) + n % (8 * columns)));
    m % 16 == 0 && n % 16 == 0 && legal.any(|rest| rest == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_warp_and_warpgroup_has_whole_instructions() {
        let groups = |m, n| groups_share([m, n, 64], 2);
        assert_eq!(
            [groups(128, 40), groups(40, 128), groups(64, 256), groups(96, 72)],
            [true, true, true, false]
        );
        let warps = |m, n| [4, 8].map(|warps| warps_share([m, n, 64], warps));
        assert_eq!(warps(16, 80), [false, false]);
        assert_eq!(warps(16, 96), [true, false]);
        assert_eq!(warps(32, 64), [true, true]);
        assert_eq!(warps(8, 64), [false, false]);
    }
}
