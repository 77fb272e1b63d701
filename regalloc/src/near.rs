//! Nearness: an index by time of the values that may hold registers at the same time.
//!
//! ```text
//!  points    0 ───── 16 ───── 32 ───── 48
//!  a         ├──────────┤                      buckets 0 1
//!  b                  ├───────────────────┤    buckets   1 2
//!  c                                 ├────┤    bucket      2      a and c share none: they never meet
//! ```
//!
//! A value stands in every bucket that its hull touches, ends included. A dying operand and the result that takes its
//! place are therefore near each other.

use crate::ranges::Range;

/// Least points of a bucket, and limit on the buckets. A long function has wider buckets.
const WIDTH: u32 = 16;
const MOST_BUCKETS: u32 = 1024;

/// Values by the time at which they hold registers.
pub(crate) struct Near {
    width: u32,
    /// Values of all buckets, one bucket behind the other, and where each begins.
    values: Vec<u32>,
    starts: Vec<u32>,
}

impl Near {
    /// Of values with these ranges.
    pub(crate) fn of(ranges: &[Range]) -> Self {
        let end = ranges.iter().map(|r| r.hull().1).max().unwrap_or(0) + 1;
        let width = WIDTH.max(end.div_ceil(MOST_BUCKETS));
        let mut near = Self { width, values: Vec::new(), starts: vec![0; end.div_ceil(width) as usize + 1] };
        for range in ranges {
            let (from, to) = near.buckets(range);
            near.starts[from + 1..=to].iter_mut().for_each(|s| *s += 1);
        }
        for b in 1..near.starts.len() {
            near.starts[b] += near.starts[b - 1];
        }
        near.values = vec![0; near.starts.last().map_or(0, |&n| n as usize)];
        let mut at = near.starts.clone();
        for (v, range) in ranges.iter().enumerate() {
            let (from, to) = near.buckets(range);
            for next in &mut at[from..to] {
                near.values[*next as usize] = v as u32;
                *next += 1;
            }
        }
        near
    }

    /// The first bucket of a range, and the one behind its last.
    fn buckets(&self, range: &Range) -> (usize, usize) {
        let (from, to) = range.hull();
        ((from / self.width) as usize, (to / self.width) as usize + 1)
    }

    /// Values near a range, some of them more than once.
    pub(crate) fn to(&self, range: &Range) -> &[u32] {
        let (from, to) = self.buckets(range);
        &self.values[self.starts[from] as usize..self.starts[to] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_meet_are_near_and_what_is_far_is_not() {
        let spans = [(0, 20), (20, 60), (40, 41), (5000, 5001), (10, 6000)];
        let ranges: Vec<Range> = spans.iter().map(|&(a, b)| Range::of(a, b)).collect();
        let near = Near::of(&ranges);
        for (u, a) in ranges.iter().enumerate() {
            for (v, b) in ranges.iter().enumerate() {
                let touch = spans[u].0 <= spans[v].1 && spans[v].0 <= spans[u].1;
                let found = near.to(a).contains(&(v as u32));
                assert!(found || !touch, "{a:?} {b:?}");
            }
        }
        assert!(!near.to(&ranges[0]).contains(&3) && !near.to(&ranges[3]).contains(&1));
    }
}
