//! Programs that draw their tiles from a counter: each takes the next one when it is free.
//!
//! ```text
//!  in turn   program 0  ████████ 0  ██ 3        drawn    ████████ 0
//!            program 1  ████ 1  ████████ 4               ████ 1  ██ 3  ██ 5
//!            program 2  ██ 2  ██ 5                       ██ 2  ████████ 4
//! ```
//!
//! The first program is walked as if programs drew in turn. That gives the cycles of a copy of the role that draws, or of an
//! instruction where threads draw. Where the text and given data tell what each tile computes, tiles take cycles by that. Else
//! what this role issues for other tiles is counted without times: for each tile, or in a large launch for one of each run
//! of tiles, whichever lies at a pseudorandom place in it. A regular choice would meet the same part of every row of tiles.
//! Then all tiles are placed in the order of the counter.

use super::unequal::Unequal;
use super::walk::Program;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Instructions that are counted at most, and tiles that are placed.
const COUNTED: u64 = 1 << 19;
const PLACED: u64 = 1 << 18;

/// When the last of so many programs ends, of which the first takes so many cycles if they draw in turn, and what they take
/// together. `None` where tiles cannot be counted.
pub fn end(program: &Program<'_, '_>, first: f64, programs: u32, work: &Unequal<'_>) -> Option<(f64, f64)> {
    let tiles = match computed(program, first, work) {
        Some(tiles) => tiles,
        None => counted(program, first, programs)?,
    };
    Some((placed(&tiles, programs), tiles.iter().sum()))
}

/// Cycles of each tile by what it computes, as the text and the data say.
fn computed(program: &Program<'_, '_>, first: f64, work: &Unequal<'_>) -> Option<Vec<f64>> {
    let own = *work.work.as_ref()?.first().filter(|&&own| own > 0.0)?;
    let tiles = work.tiles(program.skim_tiles(0, true)?.tiles)?;
    Some(tiles.into_iter().map(|tile| tile * first / own).collect())
}

/// Cycles of each tile by what the role that draws it issues.
fn counted(program: &Program<'_, '_>, first: f64, programs: u32) -> Option<Vec<f64>> {
    let whole = program.skim_tiles(0, true)?;
    let each = whole.effort * u64::from(programs) / whole.tiles.max(1);
    let runs = whole.tiles.min((COUNTED / each.max(1)).max(1));
    if whole.tiles > PLACED || runs == 0 {
        return None;
    }
    let start = |run: u64| run * whole.tiles / runs;
    let mut tiles = Vec::with_capacity(whole.tiles as usize);
    for run in 0..runs {
        let (from, to) = (start(run), start(run + 1));
        let cycles = program.skim_tiles(chosen(from, to), false)?.tile as f64 * first / whole.all as f64;
        tiles.extend((from..to).map(|_| cycles));
    }
    Some(tiles)
}

/// A tile of a run, at a place without a pattern (the multiplier of Knuth, The Art of Computer Programming, section 6.4).
fn chosen(from: u64, to: u64) -> i64 {
    // The upper bits as a fraction: the lower ones repeat where runs begin at multiples of a power of two.
    let fraction = u128::from((from + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    from as i64 + ((fraction * u128::from(to - from)) >> 64) as i64
}

/// The end of tiles that programs take in order, each when it is free.
fn placed(tiles: &[f64], programs: u32) -> f64 {
    let mut free: BinaryHeap<Reverse<u64>> = (0..programs).map(|_| Reverse(0)).collect();
    let mut last = 0.0_f64;
    for cycles in tiles {
        // Times are positive, so their bits are ordered as they are.
        let start = free.pop().map_or(0.0, |Reverse(bits)| f64::from_bits(bits));
        last = last.max(start + cycles);
        free.push(Reverse((start + cycles).to_bits()));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_free_takes_the_next_tile() {
        // In turn: 8 + 8 beside 2 + 2.
        assert_eq!(placed(&[8.0, 2.0, 8.0, 2.0], 2), 10.0);
        assert_eq!(placed(&[10.0; 9], 4), 30.0);
        assert_eq!(placed(&[], 4), 0.0);
    }

    #[test]
    fn a_run_is_met_at_places_without_a_pattern() {
        let places: Vec<i64> = (0..64).map(|run| chosen(32 * run, 32 * run + 32) % 32).collect();
        assert!(places.iter().all(|p| (0..32).contains(p)));
        let distinct: std::collections::BTreeSet<_> = places.iter().collect();
        assert!(distinct.len() > 16, "{places:?}");
        assert_eq!(chosen(7, 8), 7);
    }
}
