//! The numbers that a scalar takes over all blocks and trips of a launch.
//!
//! ```text
//!  i * 128 + t * 64       base 0, steps 128 x (0..32), 64 x (0..16)     counters of the grid and of loops
//!  load table[i]          these: 3, 7, 9                               contents that are given
//!  load unknown[i]        few: not known, but no more of them than elements are loaded
//!  t of 0..n, n unknown   any
//! ```

use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::rc::Rc;
use warplift_ir::tile::BinOp;

/// Numbers that are listed one by one at most.
const LISTED: usize = 1 << 12;

/// The origin of numbers that have none yet.
const NOWHERE: u64 = u64::MAX;

/// A counter's part: `by` times each of `0..count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which counter.
    pub counter: u32,
    /// What a count adds.
    pub by: i64,
    /// How many counts.
    pub count: i64,
}

/// Numbers of a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// A base, and steps that are independent of each other.
    Steps(i64, SmallVec<[Step; 4]>),
    /// These.
    These(BTreeSet<i64>),
    /// All of these intervals, in order.
    Within(Rc<[(i64, i64)]>),
    /// Not known, but at most so many. Two accesses whose numbers have the same origin touch the same places.
    Few {
        /// How many.
        count: i64,
        /// Where they come from.
        origin: u64,
    },
    /// Not known.
    Any,
}

impl Numbers {
    /// One number.
    pub fn one(number: i64) -> Self {
        Self::Steps(number, SmallVec::new())
    }

    /// These, too many to list.
    pub fn within(mut all: Vec<i64>) -> Self {
        all.sort_unstable();
        Self::Within(joined(all.into_iter().map(|at| (at, at.saturating_add(1)))).into())
    }

    /// A counter that goes from a number in steps.
    pub fn counter(counter: u32, base: i64, by: i64, count: i64) -> Self {
        match count {
            1 => Self::one(base),
            _ => Self::Steps(base, SmallVec::from_slice(&[Step { counter, by, count }])),
        }
    }

    /// The number, if there is only one.
    pub fn single(&self) -> Option<i64> {
        match self {
            Self::Steps(base, steps) if steps.is_empty() => Some(*base),
            Self::These(all) if all.len() == 1 => all.first().copied(),
            _ => None,
        }
    }

    /// The least and the greatest.
    pub fn ends(&self) -> Option<(i64, i64)> {
        match self {
            Self::Steps(base, steps) => {
                let far = |s: &Step| s.by.saturating_mul(s.count - 1);
                let sum =
                    |of: fn(i64) -> i64| steps.iter().map(|s| of(far(s))).fold(*base, i64::saturating_add);
                Some((sum(|v| v.min(0)), sum(|v| v.max(0))))
            }
            Self::These(all) => Some((*all.first()?, *all.last()?)),
            Self::Within(all) => Some((all.first()?.0, all.last()?.1 - 1)),
            Self::Few { .. } | Self::Any => None,
        }
    }

    /// How many there are at most.
    pub fn count(&self) -> Option<i64> {
        match self {
            Self::Steps(_, steps) => Some(steps.iter().map(|s| s.count).fold(1, i64::saturating_mul)),
            Self::These(all) => Some(all.len() as i64),
            Self::Within(all) => Some(all.iter().map(|(a, b)| b - a).sum()),
            Self::Few { count, .. } => Some(*count),
            Self::Any => None,
        }
    }

    /// Every number, if they are few.
    pub fn list(&self) -> Option<BTreeSet<i64>> {
        match self {
            Self::These(all) => Some(all.clone()),
            Self::Within(_) | Self::Few { .. } | Self::Any => None,
            Self::Steps(base, steps) => {
                let few = self.count().is_some_and(|n| n <= LISTED as i64);
                few.then(|| steps.iter().fold(BTreeSet::from([*base]), |all, step| spread(&all, *step)))
            }
        }
    }

    /// Of the numbers of two scalars that are independent of each other.
    pub fn with(&self, op: BinOp, other: &Self) -> Self {
        let along = match op {
            BinOp::Add => self.sum(other, 1),
            BinOp::Sub => self.sum(other, -1),
            BinOp::Mul => self.times(other).or_else(|| other.times(self)),
            _ => None,
        };
        along.or_else(|| self.each_with(op, other)).or_else(|| self.few_with(other)).unwrap_or(Self::Any)
    }

    /// Of numbers that are not known, or too many to list: no more than there are pairs.
    fn few_with(&self, other: &Self) -> Option<Self> {
        Some(Self::Few { count: self.count()?.saturating_mul(other.count()?), origin: NOWHERE })
    }

    /// Numbers that an operation made have an origin of their own.
    pub fn made_at(self, origin: u64) -> Self {
        match self {
            Self::Few { count, .. } => Self::Few { count, origin },
            known => known,
        }
    }

    fn sum(&self, other: &Self, sign: i64) -> Option<Self> {
        let (Self::Steps(a, steps), Self::Steps(b, more)) = (self, other) else { return None };
        let mut steps = steps.clone();
        for step in more {
            let by = step.by.checked_mul(sign)?;
            match steps.iter_mut().find(|s| s.counter == step.counter) {
                Some(same) => same.by = same.by.checked_add(by)?,
                None => steps.push(Step { by, ..*step }),
            }
        }
        steps.retain(|s| s.by != 0);
        Some(Self::Steps(a.checked_add(b.checked_mul(sign)?)?, steps))
    }

    fn times(&self, other: &Self) -> Option<Self> {
        let (Self::Steps(base, steps), factor) = (self, other.single()?) else { return None };
        let mut steps = steps.clone();
        for step in &mut steps {
            step.by = step.by.checked_mul(factor)?;
        }
        steps.retain(|s| s.by != 0);
        Some(Self::Steps(base.checked_mul(factor)?, steps))
    }

    fn each_with(&self, op: BinOp, other: &Self) -> Option<Self> {
        let (first, second) = (self.list()?, other.list()?);
        if first.len() * second.len() > LISTED {
            return None;
        }
        let pairs = first.iter().flat_map(|&a| second.iter().map(move |&b| pair(op, a, b)));
        pairs.collect::<Option<_>>().map(Self::These)
    }

    /// Both.
    pub fn or(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        let both = self.list().zip(other.list()).map(|(a, b)| a.union(&b).copied().collect());
        let few = || {
            let count = self.count()?.saturating_add(other.count()?);
            Some(Self::Few { count, origin: NOWHERE })
        };
        both.map(Self::These).or_else(few).unwrap_or(Self::Any)
    }

    /// Places of `0..extent` that begin at these numbers and are `length` long.
    pub fn covered(&self, length: i64, extent: i64) -> Cover {
        match self {
            Self::Few { count, origin } => {
                Cover::Somewhere { origin: *origin, count: *count, length, extent }
            }
            _ => Cover::Spans(self.spans(length, extent)),
        }
    }

    fn spans(&self, length: i64, extent: i64) -> Vec<(i64, i64)> {
        if let Self::Within(all) = self {
            let grown = all.iter().map(|&(a, b)| (a.max(0), b.saturating_add(length - 1).min(extent)));
            return joined(grown.filter(|(a, b)| a < b));
        }
        let dense = self.dense(length);
        let spans = match (dense, self.list()) {
            (Some(span), _) => vec![span],
            (None, Some(all)) => all.into_iter().map(|at| (at, at.saturating_add(length))).collect(),
            (None, None) => vec![self.ends().map_or((0, extent), |(a, b)| (a, b.saturating_add(length)))],
        };
        joined(spans.into_iter().map(|(a, b)| (a.max(0), b.min(extent))).filter(|(a, b)| a < b))
    }

    /// One interval, where the steps leave no gap.
    fn dense(&self, length: i64) -> Option<(i64, i64)> {
        let Self::Steps(_, steps) = self else { return None };
        let mut sizes: SmallVec<[_; 4]> = steps.iter().map(|s| (s.by.saturating_abs(), s.count)).collect();
        sizes.sort_unstable();
        let grow = |covered: i64, &(by, count): &(i64, i64)| {
            (by <= covered).then(|| covered.saturating_add(by.saturating_mul(count - 1)))
        };
        let covered = sizes.iter().try_fold(length, grow)?;
        let (least, _) = self.ends()?;
        Some((least, least.saturating_add(covered)))
    }
}

/// What is covered of a dimension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cover {
    /// Intervals in order.
    Spans(Vec<(i64, i64)>),
    /// So many intervals of a length at most, at places that are not known.
    Somewhere {
        /// Where their places come from.
        origin: u64,
        /// How many.
        count: i64,
        /// How long each is.
        length: i64,
        /// The dimension's extent.
        extent: i64,
    },
}

impl Cover {
    /// The place behind the last one, 0 where nothing is covered; places that are not known may be the last ones.
    pub fn end(&self) -> Option<i64> {
        match self {
            Self::Spans(spans) => Some(spans.last().map_or(0, |s| s.1)),
            Self::Somewhere { extent, .. } => Some(*extent),
        }
    }

    /// The covered elements, if an interval counts as `least` of them or more.
    pub fn elements(&self, least: f64) -> f64 {
        let whole = |length: i64| (length as f64).max(least);
        match self {
            Self::Spans(spans) => spans.iter().map(|&(a, b)| whole(b - a)).sum(),
            Self::Somewhere { count, length, extent, .. } => {
                (*count as f64 * whole((*length).min(*extent))).min(whole(*extent))
            }
        }
    }
}

fn spread(all: &BTreeSet<i64>, step: Step) -> BTreeSet<i64> {
    all.iter()
        .flat_map(|&v| (0..step.count).map(move |k| v.saturating_add(step.by.saturating_mul(k))))
        .collect()
}

/// Intervals in order, those that touch as one.
fn joined(spans: impl Iterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for (start, end) in spans {
        match all.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => all.push((start, end)),
        }
    }
    all
}

/// What an operation of two integers gives, if it is defined.
fn pair(op: BinOp, a: i64, b: i64) -> Option<i64> {
    match op {
        BinOp::Add => a.checked_add(b),
        BinOp::Sub => a.checked_sub(b),
        BinOp::Mul => a.checked_mul(b),
        BinOp::MulHi => i64::try_from((i128::from(a) * i128::from(b)) >> 32).ok(),
        BinOp::Div => a.checked_div(b),
        BinOp::CeilDiv if b > 0 => Some(a.checked_add(b - 1)?.div_euclid(b)),
        BinOp::CeilDiv => None,
        BinOp::Rem => a.checked_rem(b),
        BinOp::Min => Some(a.min(b)),
        BinOp::Max => Some(a.max(b)),
        BinOp::And => Some(a & b),
        BinOp::Or => Some(a | b),
        BinOp::Xor => Some(a ^ b),
        BinOp::Shl => a.checked_shl(u32::try_from(b).ok()?),
        BinOp::Shr => a.checked_shr(u32::try_from(b).ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_gaps_are_one_interval() {
        let tiles = Numbers::counter(0, 0, 1, 10).with(BinOp::Mul, &Numbers::one(128));
        assert_eq!(tiles.spans(128, 1200), [(0, 1200)]);
        assert_eq!(tiles.spans(32, 300), [(0, 32), (128, 160), (256, 288)]);
        let part = tiles.with(BinOp::Add, &Numbers::counter(1, 0, 32, 4));
        assert_eq!(part.spans(32, 4096), [(0, 1280)], "inner tiles close the gaps");
        assert_eq!(part.with(BinOp::Sub, &tiles).ends(), Some((0, 96)), "the outer counter is gone");
    }

    #[test]
    fn listed_numbers_are_united() {
        let these = Numbers::These([7, 3, 8].into());
        assert_eq!(these.spans(1, 100), [(3, 4), (7, 9)]);
        assert_eq!(these.with(BinOp::Div, &Numbers::one(2)).list(), Some([1, 3, 4].into()));
        assert_eq!(Numbers::Any.spans(1, 100), [(0, 100)]);
        assert_eq!(these.or(&Numbers::one(1)).ends(), Some((1, 8)));
    }

    #[test]
    fn numbers_that_are_not_known_are_counted() {
        let of = |count| Numbers::Few { count, origin: 9 };
        let (few, steps) = (of(3), Numbers::counter(0, 0, 8, 4));
        assert_eq!(few.with(BinOp::Add, &steps).made_at(9), of(12));
        assert_eq!(few.with(BinOp::Rem, &Numbers::one(7)).count(), Some(3));
        let listed = Numbers::These((0..5000).collect());
        assert_eq!(listed.with(BinOp::Mul, &Numbers::one(2)).count(), Some(5000), "too many to list");
        assert_eq!(few.with(BinOp::Add, &Numbers::Any), Numbers::Any);
        assert_eq!(few.or(&Numbers::These([1, 2].into())).made_at(9), of(5));
        assert_eq!(few.covered(2, 100).elements(1.0), 6.0);
        assert_eq!(few.covered(2, 100).elements(8.0), 24.0, "whole sectors");
        assert_eq!(few.covered(2, 5).elements(1.0), 5.0, "no more than there are");
    }
}
