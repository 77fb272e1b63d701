//! What device memory moves beyond each byte once: places that blocks far from each other ask for.
//!
//! ```text
//!  block (0,0)  asks for  x[0]   index[0,0]        along x: other rows
//!  block (0,1)  asks for  x[0]   index[0,1]        along y: x[0] again, after all blocks of a row of the grid
//!                          └─ read again from memory if those blocks' bytes are more than the L2 holds
//! ```
//!
//! Pointers stand at places of their own, so addresses of two blocks can be compared.
//!
//! And what the L2 gives beyond that: what blocks beside each other ask for at the same time goes to them once.
//!
//! ```text
//!  block b      copies  A[0]  B[0]   A[1]  B[1] ..        all of B is asked for by b + 1 too: a quarter of it counts
//!  block b + 1  copies  A'[0] B[0]   A'[1] B[1] ..        A is its own: all of it counts
//! ```

use rustc_hash::{FxHashMap, FxHashSet};

/// Places of global memory that a block asks for, with the bytes of all warps that go along.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    places: FxHashMap<i64, Asked>,
    /// All that was asked for, as often as it was.
    asked: f64,
    /// Bytes that were asked for again, by parameter and octave part of the bytes in between.
    rereads: FxHashMap<(u32, i32), f64>,
    /// Bytes at places that depend on data that is not given.
    elsewhere: f64,
    /// All bytes by parameter.
    parameters: FxHashMap<u32, f64>,
    /// Bytes that copies load, by parameter, however often they were asked for.
    copied: FxHashMap<u32, f64>,
}

/// What a place was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    bytes: f64,
    /// What had been asked for in all when this was asked for last.
    behind: f64,
}

/// A copy to shared memory: of which parameter's array, from where if that is known, and how many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// The parameter.
    pub parameter: u32,
    /// As [`Requests::add`] takes it.
    pub place: Option<i64>,
    /// Of the block's own request, whoever receives them.
    pub bytes: f64,
}

/// Parts of an octave in which distances are told apart.
const OCTAVE: f64 = 8.0;

/// Dimensions of a grid.
const DIMS: usize = 3;

impl Requests {
    /// Bytes at a place of a parameter's array. Whether they come from device memory: the block has not asked for them
    /// before, or for more than `lost` bytes since.
    pub fn add(&mut self, parameter: u32, place: i64, bytes: f64, lost: f64) -> bool {
        let (before, own) = (self.asked, self.places.len());
        self.asked += bytes;
        let asked = self.places.entry(place).or_insert(Asked { bytes, behind: 0.0 });
        let between = before - std::mem::replace(&mut asked.behind, self.asked);
        if self.places.len() > own {
            *self.parameters.entry(parameter).or_default() += bytes;
            return true;
        }
        let part = (between.max(1.0).log2() * OCTAVE).floor() as i32;
        *self.rereads.entry((parameter, part)).or_default() += bytes;
        between > lost
    }

    /// Bytes of a parameter's array that the block asks for again behind more than so many others.
    pub fn rereads(&self, parameter: u32, lost: f64) -> f64 {
        let part = (lost.log2() * OCTAVE).floor();
        let far = self.rereads.iter().filter(|(at, _)| at.0 == parameter && f64::from(at.1) >= part);
        far.map(|(_, bytes)| bytes).sum()
    }

    /// Bytes somewhere in a parameter's array, where nobody has asked before.
    pub fn add_elsewhere(&mut self, parameter: u32, bytes: f64) {
        self.elsewhere += bytes;
        self.asked += bytes;
        *self.parameters.entry(parameter).or_default() += bytes;
    }

    /// Bytes of a parameter's array, as often as they are asked for.
    pub fn all_of(&self, parameter: u32) -> f64 {
        self.of(parameter) + self.rereads(parameter, 1.0)
    }

    /// Bytes that a copy loads.
    pub fn add_copied(&mut self, parameter: u32, bytes: f64) {
        *self.copied.entry(parameter).or_default() += bytes;
    }

    /// Bytes of all copies.
    pub fn copied(&self) -> f64 {
        self.copied.values().sum()
    }

    /// Bytes of all copies, of those that a neighbour asks for too the part that goes to this block alone: the L2 answers as
    /// many neighbours at once. By the first copies of the next block.
    pub fn copied_alone(&self, next: &[Copied], neighbours: f64) -> f64 {
        let of = |parameter: u32, bytes: f64| {
            let copies = || next.iter().filter(|copy| copy.parameter == parameter);
            let shared = copies().filter(|copy| copy.place.is_some_and(|at| self.places.contains_key(&at)));
            let sum = shared.map(|copy| copy.bytes).sum::<f64>();
            let part = sum / copies().map(|copy| copy.bytes).sum::<f64>().max(1.0);
            bytes * (1.0 - part + part / neighbours)
        };
        self.copied.iter().map(|(&parameter, &bytes)| of(parameter, bytes)).sum()
    }

    /// As many times the bytes at each place: what a walk that was cut short did not see.
    pub fn grow(&mut self, times: f64) {
        self.places.values_mut().for_each(|asked| asked.bytes *= times);
        self.elsewhere *= times;
        let counted = self.parameters.values_mut().chain(self.copied.values_mut());
        counted.chain(self.rereads.values_mut()).for_each(|bytes| *bytes *= times);
    }

    /// All bytes.
    pub fn bytes(&self) -> f64 {
        self.places.values().map(|asked| asked.bytes).sum::<f64>() + self.elsewhere
    }

    /// Bytes of a parameter's array.
    pub fn of(&self, parameter: u32) -> f64 {
        self.parameters.get(&parameter).copied().unwrap_or(0.0)
    }

    fn places(&self) -> FxHashSet<i64> {
        self.places.keys().copied().collect()
    }
}

/// Bytes that all blocks fetch again, of the first block's requests and those of its neighbours along each
/// dimension that has any.
pub fn refetched(first: &Requests, next: &[Option<Requests>; DIMS], grid: [i64; DIMS], cache: f64) -> f64 {
    let next: Vec<_> = next.iter().map(|n| n.as_ref().map(Requests::places)).collect();
    let blocks = grid.map(|g| g as f64);
    // How often a place is asked for along a dimension: by one block of it, or by all.
    let shared = |place: &i64, d: usize| next[d].as_ref().is_some_and(|n| n.contains(place));
    // Distinct bytes of all blocks along the dimensions before one.
    let distinct = |dims: usize| {
        let fresh =
            |place: &i64| (0..dims).filter(|&d| !shared(place, d)).map(|d| blocks[d]).product::<f64>();
        first.places.iter().map(|(place, asked)| asked.bytes * fresh(place)).sum::<f64>()
    };
    let lost: Vec<bool> = (0..DIMS).map(|d| distinct(d) > cache).collect();
    let fetches = |place: &i64, all: bool| {
        let counts = |&d: &usize| !shared(place, d) || (all && lost[d]);
        (0..DIMS).filter(counts).map(|d| blocks[d]).product::<f64>()
    };
    let again = |place: &i64| fetches(place, true) - fetches(place, false);
    first.places.iter().map(|(place, asked)| asked.bytes * again(place)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(places: &[(i64, f64)]) -> Requests {
        let mut all = Requests::default();
        places.iter().for_each(|&(place, bytes)| _ = all.add(0, place, bytes, f64::INFINITY));
        all
    }

    /// Of 300 bytes of array 0, which the next block copies too, a quarter; of 100 of array 1, of whose copies it shares half,
    /// five eighths; all of array 2, from places that nobody knows.
    #[test]
    fn copies_of_neighbours_share_what_the_cache_gives() {
        let mut first = requests(&[(0, 100.0), (10, 50.0)]);
        for (parameter, bytes) in [(0, 100.0), (0, 200.0), (1, 100.0), (2, 30.0)] {
            first.add_copied(parameter, bytes);
        }
        let copy = |(parameter, place)| Copied { parameter, place, bytes: 50.0 };
        let next = [(0, Some(0)), (1, Some(10)), (1, Some(11)), (2, None)].map(copy);
        assert_eq!(first.copied(), 430.0);
        assert_eq!(first.copied_alone(&next, 4.0), 75.0 + 62.5 + 30.0);
        assert_eq!(first.copied_alone(&[], 4.0), 430.0);
    }

    /// Places 0: a row of x, the same along y; 1, 2: different in every block.
    #[test]
    fn what_far_blocks_share_is_fetched_again() {
        let first = requests(&[(0, 8.0), (1, 4.0)]);
        let next = [Some(requests(&[(10, 8.0), (11, 4.0)])), Some(requests(&[(0, 8.0), (2, 4.0)])), None];
        assert_eq!(refetched(&first, &next, [100, 4, 1], 1000.0), 8.0 * 100.0 * 3.0);
        assert_eq!(refetched(&first, &next, [100, 4, 1], 1200.0), 0.0, "a row of the grid stays in the L2");
        let same = [Some(requests(&[(0, 8.0), (11, 4.0)])), None, None];
        assert_eq!(refetched(&first, &same, [100, 1, 1], 20.0), 0.0, "neighbours run at the same time");
    }
}
