//! What device memory moves beyond each byte once: places that blocks far from each other ask for.
//!
//! ```text
//!  block (0,0)  asks for  x[0]   index[0,0]        along x: other rows
//!  block (0,1)  asks for  x[0]   index[0,1]        along y: x[0] again, after all blocks of a row of the grid
//!                          └─ read again from memory if those blocks' bytes are more than the L2 holds
//! ```
//!
//! Pointers stand at places of their own, so addresses of two blocks can be compared.

use rustc_hash::{FxHashMap, FxHashSet};

/// Places of global memory that a block asks for, with the bytes of all warps that go along.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    places: FxHashMap<i64, f64>,
    /// Bytes at places that depend on data that is not given.
    elsewhere: f64,
    /// All bytes by parameter.
    parameters: FxHashMap<u32, f64>,
}

/// Dimensions of a grid.
const DIMS: usize = 3;

impl Requests {
    /// Bytes at a place of a parameter's array; asked for again by the same block they come from a cache. Whether this is
    /// the first time.
    pub fn add(&mut self, parameter: u32, place: i64, bytes: f64) -> bool {
        let before = self.places.len();
        self.places.entry(place).or_insert(bytes);
        let fresh = self.places.len() > before;
        if fresh {
            *self.parameters.entry(parameter).or_default() += bytes;
        }
        fresh
    }

    /// Bytes somewhere in a parameter's array, where nobody has asked before.
    pub fn add_elsewhere(&mut self, parameter: u32, bytes: f64) {
        self.elsewhere += bytes;
        *self.parameters.entry(parameter).or_default() += bytes;
    }

    /// As many times the bytes at each place: what a walk that was cut short did not see.
    pub fn grow(&mut self, times: f64) {
        self.places.values_mut().for_each(|bytes| *bytes *= times);
        self.elsewhere *= times;
        self.parameters.values_mut().for_each(|bytes| *bytes *= times);
    }

    /// All bytes.
    pub fn bytes(&self) -> f64 {
        self.places.values().sum::<f64>() + self.elsewhere
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
    let again = |place: &i64, d: usize| next[d].as_ref().is_some_and(|n| n.contains(place));
    // Distinct bytes of all blocks along the dimensions before one.
    let distinct = |dims: usize| {
        let fresh = |place: &i64| (0..dims).filter(|&d| !again(place, d)).map(|d| blocks[d]).product::<f64>();
        first.places.iter().map(|(place, bytes)| bytes * fresh(place)).sum::<f64>()
    };
    let lost: Vec<bool> = (0..DIMS).map(|d| distinct(d) > cache).collect();
    let fetches = |place: &i64, all: bool| {
        let counts = |&d: &usize| !again(place, d) || (all && lost[d]);
        (0..DIMS).filter(counts).map(|d| blocks[d]).product::<f64>()
    };
    first.places.iter().map(|(place, bytes)| bytes * (fetches(place, true) - fetches(place, false))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(places: &[(i64, f64)]) -> Requests {
        Requests { places: places.iter().copied().collect(), ..Requests::default() }
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
