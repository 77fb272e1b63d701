//! Tiles in their order against a cache: what is asked for again after more different bytes than it holds.
//!
//! ```text
//!  wave 0   A0 A1 .. A131  B0        wave 1   A0 A1 .. A131  B1        A0 again, behind the bytes of a wave
//! ```

use crate::problem::{Footprint, Tiles};
use rustc_hash::{FxHashMap, FxHashSet};

/// What the tiles of a launch ask for, wave after wave.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Bytes of each array that is read, as far as they come again from device memory.
    pub rereads: FxHashMap<usize, f64>,
    /// The number of tiles.
    pub tiles: u64,
    /// Of all bytes that the tiles of a wave ask for, the part that others of it do not ask for too.
    pub distinct: f64,
}

impl Order {
    /// Bytes that come again of the array with a name, where these are all names; `None` where it is not known.
    pub(super) fn of(&self, names: &[&str], name: &str) -> Option<f64> {
        self.rereads.get(&names.iter().position(|n| *n == name)?).copied()
    }
}

/// An array, and a place in it.
type Place = (usize, u64);

/// Tiles in their order, so many beside each other, with a cache of so many bytes. Those that were not looked at are taken
/// to go on like the others.
pub fn in_order(Tiles { all, each }: &Tiles, beside: usize, cache: f64) -> Order {
    // Bytes of the places that a wave asked for last, and the wave of each place.
    let (mut live, mut last): (Vec<f64>, FxHashMap<Place, usize>) = Default::default();
    let (mut order, mut asked, mut own) = (Order::default(), 0.0, 0.0);
    for (wave, tiles) in each.chunks(beside.max(1)).enumerate() {
        asked += tiles.iter().flatten().map(|s| s.bytes).sum::<f64>();
        let mut seen: FxHashSet<Place> = FxHashSet::default();
        let footprints: Vec<&Footprint> =
            tiles.iter().flatten().filter(|s| seen.insert((s.array, s.place))).collect();
        let bytes: f64 = footprints.iter().map(|s| s.bytes).sum();
        own += bytes;
        // From a wave on: what was asked for since it began, each place once.
        let mut since: Vec<f64> = live.clone();
        (1..wave).rev().for_each(|w| since[w - 1] += since[w]);
        for footprint in footprints {
            let before = last.insert((footprint.array, footprint.place), wave);
            before.into_iter().for_each(|w| live[w] -= footprint.bytes);
            if !footprint.written {
                let lost = before.is_some_and(|w| since[w] > cache);
                *order.rereads.entry(footprint.array).or_default() +=
                    if lost { footprint.bytes } else { 0.0 };
            }
        }
        live.push(bytes);
    }
    order.tiles = *all;
    order.distinct = if asked > 0.0 { own / asked } else { 1.0 };
    // Within one wave nothing comes again: of what follows nothing is known.
    if each.len() < *all as usize && each.len() < 2 * beside.max(1) {
        order.rereads.clear();
    }
    let more = *all as f64 / each.len().max(1) as f64;
    order.rereads.values_mut().for_each(|bytes| *bytes *= more);
    order
}

/// Of the bytes that tiles read, the part that is left where so many tiles that follow each other are answered together.
pub fn answered(tiles: &Tiles, together: usize) -> f64 {
    let (mut read, mut distinct) = (0.0, 0.0);
    for group in tiles.each.chunks(together.max(1)) {
        let mut seen: FxHashSet<Place> = FxHashSet::default();
        for footprint in group.iter().flatten().filter(|f| !f.written) {
            read += footprint.bytes;
            distinct += if seen.insert((footprint.array, footprint.place)) { footprint.bytes } else { 0.0 };
        }
    }
    if read > 0.0 { distinct / read } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of `rows` times `columns`, rows first: footprints of 10 bytes of the rows, of one byte of the columns.
    fn tiles(rows: u64, columns: u64) -> Tiles {
        let footprint = |array, place, bytes| Footprint { array, place, bytes, written: false };
        let tile = |n: u64| vec![footprint(0, n % rows, 10.0), footprint(1, n / rows, 1.0)];
        let all = rows * columns;
        Tiles { all, each: (0..all).map(tile).collect() }
    }

    #[test]
    fn rows_come_again_unless_a_wave_fits() {
        let tiles = tiles(8, 4);
        let of = |cache| in_order(&tiles, 8, cache).rereads;
        assert_eq!((of(80.0)[&0], of(81.0)[&0]), (240.0, 0.0), "a wave is 81 bytes");
        assert_eq!(of(80.0)[&1], 0.0, "a column is asked for by one wave alone");
    }

    /// Waves of half a column: a row comes again behind the other half.
    #[test]
    fn distances_are_those_of_different_places() {
        let tiles = tiles(8, 4);
        let again = |cache| in_order(&tiles, 4, cache).rereads[&0];
        assert_eq!((again(80.0), again(82.0)), (240.0, 0.0));
        assert_eq!(in_order(&tiles, 4, 1e9).distinct, 41.0 / 44.0);
    }

    #[test]
    fn what_is_written_takes_room() {
        let mut tiles = tiles(2, 2);
        let written = |n| Footprint { array: 2, place: n, bytes: 100.0, written: true };
        tiles.each.iter_mut().zip(0..).for_each(|(tile, n)| tile.push(written(n)));
        let again = in_order(&tiles, 2, 200.0).rereads;
        assert_eq!((again[&0], again.get(&2)), (20.0, None));
    }

    /// Eight rows, then the next column: of four tiles each has its own row of 10 bytes and one column of 1.
    #[test]
    fn neighbours_are_answered_together() {
        let mut tiles = tiles(8, 4);
        assert_eq!([1, 4].map(|n| answered(&tiles, n)), [1.0, 41.0 / 44.0]);
        tiles.each.iter_mut().flatten().for_each(|f| f.place /= 2);
        assert_eq!(answered(&tiles, 4), 21.0 / 44.0);
    }

    #[test]
    fn tiles_that_were_not_looked_at_go_on() {
        let mut tiles = tiles(8, 4);
        tiles.each.truncate(16);
        assert_eq!(in_order(&tiles, 8, 80.0).rereads[&0], 160.0);
    }
}
