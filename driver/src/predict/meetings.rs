//! Barriers at which warps of a block meet (`bar.sync`, `bar.arrive`): the last one to come lets all go on.
//!
//! ```text
//!  warpgroup 0   ──────■ ─ ─ ─ ─ ►──       waits until as many threads have come as the barrier expects
//!  warpgroup 1   ─────────────■──►──
//! ```

use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Default)]
struct Meeting {
    /// Times that all have come.
    over: u64,
    /// Threads that have come since.
    threads: i64,
    /// When the latest of them came; when the last meeting was over.
    latest: f64,
    ended: f64,
}

/// All barriers of a block, by number.
#[derive(Default)]
pub struct Meetings {
    all: FxHashMap<i64, Meeting>,
    /// All have come to one since that was last asked.
    ended: bool,
}

/// A warp that has come to a barrier: its number, and the meetings that were over before.
pub type Ticket = (i64, u64);

impl Meetings {
    /// So many threads come to a barrier that expects `all`.
    pub fn arrive(&mut self, barrier: i64, threads: i64, all: i64, now: f64) -> Ticket {
        let meeting = self.all.entry(barrier).or_default();
        let ticket = (barrier, meeting.over);
        meeting.threads += threads;
        meeting.latest = meeting.latest.max(now);
        if meeting.threads >= all {
            *meeting = Meeting { over: meeting.over + 1, ended: meeting.latest, ..Meeting::default() };
            self.ended = true;
        }
        ticket
    }

    /// Whether all have come to a barrier since this was last asked: only then may a warp that waited go on.
    pub fn ended(&mut self) -> bool {
        std::mem::take(&mut self.ended)
    }

    /// When the meeting that a warp came to was over; `None` while it waits.
    pub fn over(&self, (barrier, before): Ticket) -> Option<f64> {
        self.all.get(&barrier).filter(|m| m.over > before).map(|m| m.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_lets_all_go_on() {
        let mut meetings = Meetings::default();
        let first = meetings.arrive(1, 128, 256, 10.0);
        assert!(!meetings.ended() && meetings.over(first).is_none());
        let second = meetings.arrive(1, 128, 256, 30.0);
        assert!(meetings.ended() && !meetings.ended());
        assert_eq!([first, second].map(|t| meetings.over(t)), [Some(30.0); 2]);
        let next = meetings.arrive(1, 128, 256, 40.0);
        assert!(!meetings.ended() && meetings.over(next).is_none(), "a new meeting");
        let other = meetings.arrive(2, 256, 256, 5.0);
        assert_eq!(meetings.over(other), Some(5.0), "barriers are apart");
    }
}
