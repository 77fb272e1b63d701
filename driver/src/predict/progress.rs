//! How far a warp has come, by the counters of its loops. Where a walk is cut short and its rest is too long to count, the
//! rest goes on as the part that was walked.
//!
//! ```text
//!  for tile in 0, 132, 264 .. < 1024    the branch compares a counter with its bound; loops are told apart by the bound
//!      for t in 0 .. < 64               progress = (trips of the outer loop + progress of the inner one) / all trips
//! ```

use smallvec::SmallVec;
use warplift_ir::machine::Value;

/// A loop's counter.
#[derive(Clone)]
struct Counter {
    bound: Value,
    /// When the loop was entered.
    since: f64,
    first: i64,
    last: i64,
    /// Value of the bound.
    end: i64,
    /// What a trip adds; 0 before the second trip.
    step: i64,
}

impl Counter {
    /// Trips that are over, and all trips; `None` before the second one.
    fn trips(&self) -> Option<(f64, f64)> {
        if self.step == 0 {
            return None;
        }
        let step = self.step as f64;
        Some((
            (self.last - self.first) as f64 / step,
            ((self.end - self.first) as f64 / step).ceil().max(1.0),
        ))
    }
}

/// The loops that a warp is in, outermost first.
#[derive(Clone, Default)]
pub struct Progress(SmallVec<[Counter; 4]>);

impl Progress {
    /// A branch compared a counter with the value of its bound. Whether a trip of a loop is over.
    pub fn compare(&mut self, bound: Value, counter: i64, end: i64, now: f64) -> bool {
        let fresh = Counter { bound, since: now, first: counter, last: counter, end, step: 0 };
        let Some(k) = self.0.iter().position(|c| c.bound == bound) else {
            self.0.push(fresh);
            return false;
        };
        let known = &mut self.0[k];
        let over = counter != known.last;
        let forwards = (counter - known.last).signum() == (end - known.first).signum();
        if known.end == end && forwards {
            known.step = counter - known.last;
            known.last = counter;
        } else if counter != known.last || known.end != end {
            // Entered anew: as many trips as before are likely to be as long.
            *known = Counter { step: known.step, ..fresh };
        }
        self.0.truncate(k + 1);
        over
    }

    /// Whether the last branch was one of the outermost loop.
    pub fn is_outermost(&self) -> bool {
        self.0.len() == 1
    }

    /// When the outermost loop was entered, and the part of it that is over; `None` where that is not known yet.
    pub fn part(&self) -> Option<(f64, f64)> {
        let mut part = None;
        for counter in self.0.iter().rev() {
            part = match (counter.trips(), part) {
                (Some((over, all)), inner) => Some(((over + inner.unwrap_or(0.0)) / all).min(1.0)),
                (None, None) => None,
                // How many trips are to come shows only after the first.
                (None, Some(_)) => return None,
            };
        }
        Some((self.0.first()?.since, part.filter(|&p| p > 0.0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::entity::EntityRef;

    #[test]
    fn nested_loops_add_up() {
        let (outer, inner) = (Value::new(1), Value::new(2));
        let mut p = Progress::default();
        p.compare(outer, 0, 40, 5.0);
        for t in 0..8 {
            p.compare(inner, t, 8, 5.0 + t as f64);
        }
        assert_eq!(p.part(), None, "the outer loop has not come round");
        p.compare(outer, 10, 40, 15.0);
        assert_eq!(p.part(), Some((5.0, 0.25)));
        for t in 0..5 {
            p.compare(inner, t, 8, 15.0 + t as f64);
        }
        assert_eq!(p.part(), Some((5.0, (1.0 + 0.5) / 4.0)));
    }

    #[test]
    fn a_bound_that_moves_enters_anew() {
        let bound = Value::new(1);
        let mut p = Progress::default();
        for t in 0..4 {
            p.compare(bound, t, 4, f64::from(t as i32));
        }
        p.compare(bound, 0, 8, 10.0);
        p.compare(bound, 2, 8, 12.0);
        assert_eq!(p.part(), Some((10.0, 0.25)));
    }
}
