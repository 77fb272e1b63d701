//! What an access of a warp costs, by the addresses of its lanes.
//!
//! ```text
//!  shared   32 banks of 4 bytes      cycles = different words in the busiest bank, for each group of lanes that moves 128 bytes
//!  global   sectors of 32 bytes      bytes  = 32 x different sectors
//! ```

use super::lanes::Number;
use super::scalars::{Lanes, WARP};

/// Bytes of a sector, the least that global memory moves.
pub const SECTOR: i64 = 32;
/// Bytes of a word of a bank, and banks.
const WORD: i64 = 4;
const BANKS: usize = 32;
/// Lanes in the fullest of 32 banks, if 32 lanes choose theirs at random: the expected value.
const RANDOM_LANES_OF_A_BANK: f64 = 3.533;
/// Rows of a matrix of `ldmatrix`, each an address of a lane, and words of a row.
const MATRIX_ROWS: usize = 8;
const ROW_WORDS: i64 = 4;

/// Cycles in which shared memory moves what the lanes access: `bytes` each. An address that depends on data is another
/// one in every lane.
pub fn shared_cycles(addresses: Option<&Number>, active: u32, bytes: f64) -> f64 {
    let least = (bytes * WARP as f64 / 128.0).max(1.0);
    match addresses {
        None => least * RANDOM_LANES_OF_A_BANK,
        Some(Number::Same(_)) => least,
        Some(Number::Each(lanes)) => {
            let words = (bytes / WORD as f64).max(1.0) as i64;
            least.max(conflicts(lanes, active, WARP / words as usize, words))
        }
    }
}

/// The same of so many matrices, whose rows are where the lanes say.
pub fn matrix_cycles(addresses: Option<&Number>, matrices: f64) -> f64 {
    match addresses {
        None => matrices * RANDOM_LANES_OF_A_BANK,
        Some(Number::Same(_)) => matrices,
        Some(Number::Each(lanes)) => {
            let rows = MATRIX_ROWS * matrices as usize;
            let active = if rows >= WARP { u32::MAX } else { (1 << rows) - 1 };
            matrices.max(conflicts(lanes, active, MATRIX_ROWS, ROW_WORDS))
        }
    }
}

/// Cycles of groups of lanes one after the other: of each the different words in the busiest bank.
fn conflicts(lanes: &Lanes, active: u32, group: usize, words: i64) -> f64 {
    let mut cycles = 0;
    for (g, group_lanes) in lanes.chunks(group.max(1)).enumerate() {
        // Of each bank the first word and how many there are; the other words of all banks stand together.
        let (mut first, mut counts) = ([i64::MIN; BANKS], [0_u32; BANKS]);
        let mut others: smallvec::SmallVec<[i64; WARP]> = smallvec::SmallVec::new();
        let active = group_lanes.iter().enumerate().filter(|(l, _)| active >> (g * group + l) & 1 == 1);
        for word in active.flat_map(|(_, &at)| (0..words).map(move |w| at.div_euclid(WORD) + w)) {
            let bank = word.rem_euclid(BANKS as i64) as usize;
            if counts[bank] == 0 {
                (first[bank], counts[bank]) = (word, 1);
            } else if first[bank] != word && !others.contains(&word) {
                others.push(word);
                counts[bank] += 1;
            }
        }
        cycles += counts.into_iter().max().unwrap_or(0);
    }
    f64::from(cycles)
}

/// The different sectors that the lanes touch with `bytes` each, in order; `None` where the addresses are not known.
pub fn sectors(
    addresses: Option<&Number>,
    active: u32,
    bytes: f64,
) -> Option<smallvec::SmallVec<[i64; WARP]>> {
    let last = |at: i64| at + (bytes as i64).max(1) - 1;
    let mut touched = smallvec::SmallVec::new();
    match addresses? {
        Number::Same(at) => touched.extend(at.div_euclid(SECTOR)..=last(*at).div_euclid(SECTOR)),
        Number::Each(lanes) => {
            let active = lanes.iter().enumerate().filter(|(l, _)| active >> l & 1 == 1);
            active.for_each(|(_, &at)| touched.extend(at.div_euclid(SECTOR)..=last(at).div_euclid(SECTOR)));
            touched.sort_unstable();
            touched.dedup();
        }
    }
    Some(touched)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(of: impl Fn(i64) -> i64) -> Number {
        Number::Each(std::array::from_fn(|l| of(l as i64)))
    }

    /// The cycles of docs/microbenchmarks.md's table: lanes 4 * conflicts bytes apart, and wider accesses.
    #[test]
    fn conflicts_are_those_that_were_measured() {
        for ways in [1, 2, 4, 8, 16, 32] {
            let strided = each(|l| 4 * ways * l);
            assert_eq!(shared_cycles(Some(&strided), u32::MAX, 4.0), ways as f64);
        }
        for count in [1, 2, 4] {
            let wide = each(|l| 4 * count * l);
            assert_eq!(shared_cycles(Some(&wide), u32::MAX, 4.0 * count as f64), count as f64);
        }
        assert_eq!(shared_cycles(Some(&each(|l| 2 * l)), u32::MAX, 2.0), 1.0, "two lanes share a word");
        assert_eq!(shared_cycles(Some(&Number::Same(64)), u32::MAX, 4.0), 1.0, "all lanes share a word");
        assert_eq!(shared_cycles(Some(&each(|l| 128 * l)), 0xff, 4.0), 8.0, "only eight lanes take part");
    }

    #[test]
    fn rows_of_matrices_meet_in_banks() {
        assert_eq!(matrix_cycles(Some(&each(|l| 16 * l)), 4.0), 4.0);
        assert_eq!(matrix_cycles(Some(&each(|l| 128 * l)), 4.0), 32.0, "all rows begin in one bank");
        assert_eq!(matrix_cycles(Some(&each(|l| 128 * l)), 1.0), 8.0);
    }

    #[test]
    fn sectors_are_counted_once() {
        let count = |n: &Number, active, bytes| sectors(Some(n), active, bytes).map(|s| s.len());
        assert_eq!(count(&each(|l| 4 * l), u32::MAX, 4.0), Some(4));
        assert_eq!(count(&each(|l| 64 * l), u32::MAX, 4.0), Some(32));
        assert_eq!(count(&each(|l| 64 * l), 0b11, 4.0), Some(2));
        assert_eq!(count(&Number::Same(30), u32::MAX, 4.0), Some(2), "across a border");
    }
}
