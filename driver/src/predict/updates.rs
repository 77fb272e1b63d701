//! Numbers that blocks tell each other by counters in global memory, and warps of a block by words of shared memory.
//!
//! ```text
//!  atomic_add next, 1    draws of a counter are shared out evenly: of B blocks, block p draws p, p + B, p + 2B ..
//!  arrive                a block is walked as the last one that counts itself, or as another
//!  atomic_add flag, 0    a look at a counter finds that all others have come
//!  st.shared by one lane ──► ld.shared by all: the number is known to all warps
//! ```
//!
//! A counter whose contents are not given starts at zero.
//!
//! Updates of one line are done one behind the other, whoever sends them: a block's part of that time is kept by line.

use rustc_hash::FxHashMap;
use warplift_ir::machine::Attr;

/// Looks at one counter that find it full. A block waits once for each tile.
const LOOKS: u32 = 64;

/// How a block that counts itself at a counter finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All others have come before.
    Last,
    /// Others are still to come.
    Other,
}

/// Counters and words of one block's walk.
pub struct Updates {
    /// The block's place in the order of the grid, and all blocks.
    place: i64,
    blocks: i64,
    arrival: Arrival,
    sharers: i64,
    arrivals: u32,
    /// Draws by address.
    draws: FxHashMap<i64, i64>,
    /// Looks at a counter, by address.
    looks: FxHashMap<i64, u32>,
    /// Words of shared memory by address.
    words: FxHashMap<i64, i64>,
    /// Cycles of updates by line of global memory.
    lines: Lines,
}

/// Cycles that updates of each line of global memory take.
pub type Lines = FxHashMap<i64, f64>;

/// The longest time that updates of one line by all blocks take, of the first block's lines and those of the last blocks
/// along each dimension that has several. What the first block shares with its neighbours alone is a few blocks' time.
pub fn busiest(first: &Lines, last: &[Option<Lines>; 3], grid: [i64; 3]) -> f64 {
    let meets = |line: &i64, d: usize| last[d].as_ref().is_some_and(|lines| lines.contains_key(line));
    let blocks = |line| (0..3).filter(|&d| meets(line, d)).map(|d| grid[d] as f64).product::<f64>();
    first.iter().map(|(line, cycles)| cycles * blocks(line)).fold(0.0, f64::max)
}

impl Updates {
    /// Of a block of a grid.
    pub fn new(place: [i64; 3], grid: [i64; 3], arrival: Arrival) -> Self {
        let [x, y, z] = place;
        let (draws, looks, words, lines) = Default::default();
        let place = x + grid[0] * (y + grid[1] * z);
        Self {
            place,
            blocks: grid.iter().product(),
            arrival,
            sharers: 1,
            arrivals: 0,
            draws,
            looks,
            words,
            lines,
        }
    }

    /// What the block draws next at a counter that began at `first`, if every draw adds `by`.
    pub fn draw(&mut self, at: i64, first: i64, by: i64) -> i64 {
        let drawn = self.draws.entry(at).or_default();
        *drawn += 1;
        first + (self.place + (*drawn - 1) * self.blocks) * by
    }

    /// What the block finds at a counter that it only looks at: more than what it waits for. Where that does not end its
    /// wait, it is not known.
    pub fn look(&mut self, at: i64) -> Option<i64> {
        let looks = self.looks.entry(at).or_default();
        *looks += 1;
        (*looks <= LOOKS).then_some(i32::MAX.into())
    }

    /// What the block finds at a counter at which `most` + 1 blocks count themselves.
    pub fn arrive(&mut self, most: i64) -> i64 {
        self.sharers = self.sharers.max(most + 1);
        self.arrivals += 1;
        match self.arrival {
            Arrival::Last => most,
            // The first of them: with one alone it is the last one too.
            Arrival::Other => 0,
        }
    }

    /// How often the block has counted itself.
    pub fn arrivals(&self) -> u32 {
        self.arrivals
    }

    /// Blocks that count themselves at a counter; 1 without one.
    pub fn sharers(&self) -> i64 {
        self.sharers
    }

    /// An update takes so many cycles of a line.
    pub fn meet(&mut self, line: i64, cycles: f64) {
        *self.lines.entry(line).or_default() += cycles;
    }

    /// As many times the cycles at each line: what a walk that was cut short did not see.
    pub fn grow(&mut self, times: f64) {
        self.lines.values_mut().for_each(|cycles| *cycles *= times);
    }

    /// Cycles by line.
    pub fn lines(self) -> Lines {
        self.lines
    }

    /// A word of shared memory, if one register is read and it is known.
    pub fn word(&self, at: i64, attr: &Attr) -> Option<i64> {
        let Attr::Mem { offset: _, count: 1 } = attr else { return None };
        self.words.get(&at).copied()
    }

    /// Whether no word is known, and nothing that could be told by one.
    pub fn has_nothing_to_tell(&self) -> bool {
        self.words.is_empty() && self.draws.is_empty()
    }

    /// A store of one register or more at an address; `None` where the number is not known.
    pub fn put(&mut self, at: i64, attr: &Attr, value: Option<i64>) {
        let count = if let Attr::Mem { count, .. } = attr { i64::from(*count) } else { 1 };
        match value.filter(|_| count == 1) {
            Some(value) => drop(self.words.insert(at, value)),
            None => {
                for k in 0..count {
                    self.words.remove(&(at + 4 * k));
                }
            }
        }
    }

    /// A store somewhere.
    pub fn forget(&mut self) {
        self.words.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: Attr = Attr::Mem { offset: 0, count: 1 };

    #[test]
    fn draws_are_shared_out() {
        let all = (0..6).map(|p| {
            let mut updates = Updates::new([p % 3, p / 3, 0], [3, 2, 1], Arrival::Last);
            [updates.draw(8, 100, 2), updates.draw(16, 0, 1), updates.draw(8, 100, 2)]
        });
        let all: Vec<_> = all.collect();
        assert_eq!(all[0], [100, 0, 112]);
        assert_eq!(all[5], [110, 5, 122]);
    }

    #[test]
    fn blocks_wait_for_each_other_at_a_line_that_they_share() {
        let lines = |all: &[(i64, f64)]| all.iter().copied().collect::<Lines>();
        let first = lines(&[(0, 2.0), (128, 3.0)]);
        let next = [Some(lines(&[(128, 3.0)])), Some(lines(&[(0, 2.0), (128, 3.0)])), None];
        assert_eq!(busiest(&first, &next, [10, 4, 1]), 3.0 * 40.0);
        assert_eq!(busiest(&first, &[None, None, None], [1, 1, 1]), 3.0);
        assert_eq!(busiest(&Lines::default(), &next, [10, 4, 1]), 0.0);
    }

    #[test]
    fn the_last_block_finds_all_others_counted() {
        let of = |arrival| {
            let mut updates = Updates::new([0; 3], [4, 1, 1], arrival);
            (updates.arrive(3), updates.sharers())
        };
        assert_eq!((of(Arrival::Last), of(Arrival::Other)), ((3, 4), (0, 4)));
    }

    #[test]
    fn words_are_known_until_they_are_overwritten() {
        let mut updates = Updates::new([0; 3], [1; 3], Arrival::Last);
        updates.put(64, &WORD, Some(7));
        assert_eq!((updates.word(64, &WORD), updates.word(68, &WORD)), (Some(7), None));
        updates.put(56, &Attr::Mem { offset: 0, count: 4 }, None);
        assert_eq!(updates.word(64, &WORD), None);
        updates.put(64, &WORD, Some(8));
        updates.forget();
        assert!(updates.has_nothing_to_tell());
    }
}
