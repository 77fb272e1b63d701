//! What bounds each phase of a block: a unit that is taken most of the time, or latency.
//!
//! ```text
//!  prologue            until the first trip of a loop is over, of the role that gets there first
//!  main loop           until the last trip of any loop is over
//!  epilogue            until the block ends
//! ```
//!
//! A persistent kernel's loop over tiles is its main loop: the epilogues of its tiles are part of it.

use super::units::{Busy, Units};
use warplift_ir::target::Unit;

/// Share of a phase above which a unit bounds it; below, the phase waits for latencies.
const BOUND: f64 = 0.8;

/// A phase of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// `prologue`, `main loop` or `epilogue`.
    pub name: &'static str,
    /// How long it takes, in cycles.
    pub cycles: f64,
    /// The unit that is taken longest, and its share of the phase.
    pub fullest: Option<(Unit, f64)>,
}

impl Phase {
    /// The unit that bounds it; `None` where latency does.
    pub fn bound(&self) -> Option<Unit> {
        self.fullest.filter(|f| f.1 >= BOUND).map(|f| f.0)
    }
}

/// Ends of trips of loops.
#[derive(Default)]
pub struct Trips {
    first: Option<(f64, Busy)>,
    last: Option<(f64, Busy)>,
}

impl Trips {
    /// A trip of a loop is over.
    pub fn over(&mut self, now: f64, units: &Units) {
        self.first.get_or_insert_with(|| (now, units.busy()));
        self.last = Some((now, units.busy()));
    }

    /// The phases of a block that ends at a time. Without trips it is a prologue; one that was not walked to its end is
    /// in its main loop until then.
    pub fn phases(&self, end: f64, units: &Units, whole: bool) -> Vec<Phase> {
        let finish = (end, units.busy());
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return vec![phase("prologue", (0.0, Busy::default()), finish)];
        };
        let mut phases = vec![phase("prologue", (0.0, Busy::default()), first)];
        if whole {
            phases.extend([phase("main loop", first, last), phase("epilogue", last, finish)]);
        } else {
            phases.push(phase("main loop", first, finish));
        }
        phases
    }
}

fn phase(name: &'static str, (start, before): (f64, Busy), (end, after): (f64, Busy)) -> Phase {
    let cycles = (end - start).max(0.0);
    let own = after.iter().zip(&before).filter_map(|(a, b)| {
        let (unit, busy) = (*a)?;
        Some((unit, (busy - b.map_or(0.0, |b| b.1)) / cycles.max(1.0)))
    });
    let fullest = own.filter(|f| f.0 != Unit::None && f.1 > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    Phase { name, cycles, fullest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_own_bound() {
        let (mut units, mut trips) = (Units::new(1, 4), Trips::default());
        units.take(Unit::Tma, 0.0, 10.0);
        trips.over(100.0, &units);
        units.take(Unit::Tensor, 100.0, 850.0);
        trips.over(1000.0, &units);
        units.take(Unit::Lsu, 1000.0, 30.0);
        let phases = trips.phases(1200.0, &units, true);
        let of = |k: usize| (phases[k].name, phases[k].cycles, phases[k].bound());
        assert_eq!(of(0), ("prologue", 100.0, None));
        assert_eq!(of(1), ("main loop", 900.0, Some(Unit::Tensor)));
        assert_eq!(of(2), ("epilogue", 200.0, None));
        assert_eq!(phases[2].fullest, Some((Unit::Lsu, 0.15)));
        assert_eq!(Trips::default().phases(50.0, &units, true).len(), 1);
    }
}
