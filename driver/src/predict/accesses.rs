//! What an access of a warp costs, by the addresses of its lanes.
//!
//! ```text
//!  shared   32 banks of 4 bytes      cycles = different words in the busiest bank, for each group of lanes that moves 128 bytes
//!  updates  the same banks             cycles = lanes in the busiest bank, also those of one word
//!  global   sectors of 32 bytes      bytes  = 32 x different sectors
//!           lines of 128 bytes       cycles = 1.87 x different lines of a load, where its bytes take less (measured)
//! ```

use super::patterns::{Number, Patterns};
use super::scalars::{Lanes, WARP};
use rustc_hash::FxHashMap;

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

/// Bytes after which banks and sectors repeat.
const PERIOD: i64 = WORD * BANKS as i64;

/// What an access costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Cycles in which shared memory moves so many bytes a lane.
    Shared(u32),
    /// Cycles in which every lane updates a word of shared memory (measured: a lane after the other, of a bank or of a word).
    Updates,
    /// Cycles of so many matrices, whose rows are where the lanes say.
    Matrices(u32),
    /// Bytes that global memory moves for so many bytes a lane.
    Global(u32),
    /// Lines of global memory that so many bytes a lane touch.
    Lines(u32),
}

/// Costs that were computed: one for each pattern of the lanes, the place in a line where it begins, and the lanes that
/// take part.
#[derive(Default)]
pub struct Accesses(FxHashMap<(Access, Number, u32), f64>);

impl Accesses {
    /// What an access at known addresses costs.
    pub fn cost(&mut self, access: Access, at: Number, active: u32, patterns: &Patterns) -> f64 {
        let at = Number { first: at.first.rem_euclid(PERIOD), ..at };
        let known = self.0.entry((access, at, active));
        *known.or_insert_with(|| access.of(&patterns.lanes(at), active))
    }
}

impl Access {
    fn of(self, lanes: &Lanes, active: u32) -> f64 {
        match self {
            Self::Shared(bytes) => shared_cycles(lanes, active, bytes.into()),
            Self::Updates => f64::from(busiest_bank(lanes, active).max(1)),
            Self::Matrices(count) => matrix_cycles(lanes, count.into()),
            Self::Global(bytes) => (pieces(lanes, active, bytes.into(), SECTOR) as i64 * SECTOR) as f64,
            Self::Lines(bytes) => pieces(lanes, active, bytes.into(), PERIOD) as f64,
        }
    }

    /// The same where the addresses depend on data: another one in every lane.
    pub fn anywhere(self) -> f64 {
        match self {
            Self::Shared(bytes) => least_cycles(bytes.into()) * RANDOM_LANES_OF_A_BANK,
            Self::Updates => RANDOM_LANES_OF_A_BANK,
            Self::Matrices(count) => f64::from(count) * RANDOM_LANES_OF_A_BANK,
            Self::Global(bytes) => f64::from(bytes) * WARP as f64,
            Self::Lines(_) => WARP as f64,
        }
    }
}

fn least_cycles(bytes: f64) -> f64 {
    (bytes * WARP as f64 / 128.0).max(1.0)
}

fn shared_cycles(lanes: &Lanes, active: u32, bytes: f64) -> f64 {
    let words = (bytes / WORD as f64).max(1.0) as i64;
    least_cycles(bytes).max(conflicts(lanes, active, WARP / words as usize, words))
}

fn matrix_cycles(lanes: &Lanes, matrices: f64) -> f64 {
    let rows = MATRIX_ROWS * matrices as usize;
    let active = if rows >= WARP { u32::MAX } else { (1 << rows) - 1 };
    matrices.max(conflicts(lanes, active, MATRIX_ROWS, ROW_WORDS))
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

/// Lanes in the bank that most of them address.
fn busiest_bank(lanes: &Lanes, active: u32) -> u32 {
    let mut counts = [0_u32; BANKS];
    let active = lanes.iter().enumerate().filter(|(l, _)| active >> l & 1 == 1);
    active.for_each(|(_, at)| counts[at.div_euclid(WORD).rem_euclid(BANKS as i64) as usize] += 1);
    counts.into_iter().max().unwrap_or(0)
}

/// The different pieces of so many bytes of memory, sectors or lines, that the lanes touch with `bytes` each.
fn pieces(lanes: &Lanes, active: u32, bytes: i64, piece: i64) -> usize {
    let mut touched: smallvec::SmallVec<[i64; WARP]> = smallvec::SmallVec::new();
    let active = lanes.iter().enumerate().filter(|(l, _)| active >> l & 1 == 1);
    for (_, &at) in active {
        touched.extend(at.div_euclid(piece)..=(at + bytes.max(1) - 1).div_euclid(piece));
    }
    touched.sort_unstable();
    touched.dedup();
    touched.len()
}

/// The lines that lanes touch, and how many lanes meet at the word of it where most do.
pub fn meetings(lanes: &Lanes, active: u32) -> smallvec::SmallVec<[(i64, u32); 4]> {
    let active = lanes.iter().enumerate().filter(|(l, _)| active >> l & 1 == 1);
    let mut words: smallvec::SmallVec<[i64; WARP]> = active.map(|(_, &at)| at.div_euclid(WORD)).collect();
    words.sort_unstable();
    let mut lines: smallvec::SmallVec<[(i64, u32); 4]> = smallvec::SmallVec::new();
    for same in words.chunk_by(|a, b| a == b) {
        let (line, met) = (same[0].div_euclid(PERIOD / WORD) * PERIOD, same.len() as u32);
        match lines.last_mut().filter(|last| last.0 == line) {
            Some(last) => last.1 = last.1.max(met),
            None => lines.push((line, met)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(of: impl Fn(i64) -> i64) -> Lanes {
        std::array::from_fn(|l| of(l as i64))
    }

    /// The cycles of docs/microbenchmarks.md's table: lanes 4 * conflicts bytes apart, and wider accesses.
    #[test]
    fn conflicts_are_those_that_were_measured() {
        for ways in [1, 2, 4, 8, 16, 32] {
            let strided = each(|l| 4 * ways * l);
            assert_eq!(shared_cycles(&strided, u32::MAX, 4.0), ways as f64);
        }
        for count in [1, 2, 4] {
            let wide = each(|l| 4 * count * l);
            assert_eq!(shared_cycles(&wide, u32::MAX, 4.0 * count as f64), count as f64);
        }
        assert_eq!(shared_cycles(&each(|l| 2 * l), u32::MAX, 2.0), 1.0, "two lanes share a word");
        assert_eq!(shared_cycles(&each(|_| 64), u32::MAX, 4.0), 1.0, "all lanes share a word");
        assert_eq!(shared_cycles(&each(|l| 128 * l), 0xff, 4.0), 8.0, "only eight lanes take part");
    }

    /// Cycles of an update of each lane, measured by `warplift bench micro atomics.red.shared` on an H100.
    #[test]
    fn updates_of_a_bank_come_one_after_the_other() {
        for (of, cycles) in [
            (each(|l| 4 * l), 1.0),
            (each(|l| 8 * l), 2.0),
            (each(|l| 32 * l), 8.0),
            (each(|l| l / 2 * 4), 2.0),
            (each(|l| l / 8 * 4), 8.0),
        ] {
            assert_eq!(Access::Updates.of(&of, u32::MAX), cycles, "{of:?}");
        }
        assert_eq!(Access::Updates.of(&each(|_| 0), 0b1011), 3.0, "lanes that take part");
    }

    #[test]
    fn rows_of_matrices_meet_in_banks() {
        assert_eq!(matrix_cycles(&each(|l| 16 * l), 4.0), 4.0);
        assert_eq!(matrix_cycles(&each(|l| 128 * l), 4.0), 32.0, "all rows begin in one bank");
        assert_eq!(matrix_cycles(&each(|l| 128 * l), 1.0), 8.0);
    }

    #[test]
    fn sectors_are_counted_once() {
        let sectors = |lanes: &Lanes, active, bytes| pieces(lanes, active, bytes, SECTOR);
        assert_eq!(sectors(&each(|l| 4 * l), u32::MAX, 4), 4);
        assert_eq!(sectors(&each(|l| 64 * l), u32::MAX, 4), 32);
        assert_eq!(sectors(&each(|l| 64 * l), 0b11, 4), 2);
        assert_eq!(sectors(&each(|_| 30), u32::MAX, 4), 2, "across a border");
        let lines = |step: i64| Access::Lines(4).of(&each(|l| step * l), u32::MAX);
        assert_eq!([4, 32, 64, 128, 512].map(lines), [1.0, 8.0, 16.0, 32.0, 32.0]);
    }

    #[test]
    fn lanes_meet_at_words_of_lines() {
        let of = |at: Lanes, active| meetings(&at, active).to_vec();
        assert_eq!(of(each(|l| 4 * l), u32::MAX), [(0, 1)]);
        assert_eq!(of(each(|_| 132), u32::MAX), [(128, 32)]);
        assert_eq!(of(each(|l| 128 * (l % 2)), 0b1111), [(0, 2), (128, 2)]);
        assert_eq!(of(each(|l| 4 * l), 0), []);
    }

    /// A cost that was found for one place of a line holds for the same place of another, and for no other place.
    #[test]
    fn costs_depend_on_the_place_in_a_line() {
        let (mut patterns, mut found) = (Patterns::default(), Accesses::default());
        for access in [Access::Shared(4), Access::Shared(16), Access::Matrices(4), Access::Global(2)] {
            for (step, base) in (0..40).flat_map(|s| [0, 2, 30, 126, 128 * 7 + 30, 4096].map(|b| (6 * s, b)))
            {
                let lanes = each(|l| base + step * (l % 8));
                let number = patterns.number(lanes);
                let cost = found.cost(access, number, u32::MAX, &patterns);
                assert_eq!(cost, access.of(&lanes, u32::MAX), "{access:?} {base} {step}");
            }
        }
        assert!(found.0.len() < 4 * 40 * 6, "some were known");
    }
}
