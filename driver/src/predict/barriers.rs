//! mbarriers by address: phases, arrivals, bytes, and when each phase was over. Barriers by number: threads that have come.

use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug, Default)]
struct Barrier {
    count: i64,
    phase: u64,
    pending: i64,
    bytes: i64,
    /// Latest arrival of the current phase; end of the phase before.
    latest: f64,
    over: f64,
}

impl Barrier {
    /// Arrivals and bytes at a time; whether they end the phase.
    fn update(&mut self, arrivals: i64, bytes: i64, time: f64) -> bool {
        self.pending -= arrivals;
        self.bytes += bytes;
        self.latest = self.latest.max(time);
        let over = self.pending <= 0 && self.bytes <= 0;
        if over {
            *self = Self {
                phase: self.phase + 1,
                pending: self.pending + self.count,
                over: self.latest,
                latest: 0.0,
                ..*self
            };
        }
        over
    }
}

/// All barriers of a block.
#[derive(Default)]
pub struct Barriers {
    at: FxHashMap<i64, Barrier>,
    numbered: FxHashMap<i64, Barrier>,
    /// A phase has ended since that was last asked.
    ended: bool,
}

impl Barriers {
    /// Initialises one.
    pub fn init(&mut self, at: i64, count: i64) {
        self.at.insert(at, Barrier { count, pending: count, ..Barrier::default() });
    }

    /// Arrivals and expected or completed bytes at a time. A barrier that was not initialised here belongs
    /// to another block: nothing waits for it.
    pub fn update(&mut self, at: i64, arrivals: i64, bytes: i64, time: f64) {
        let Some(b) = self.at.get_mut(&at) else { return };
        self.ended |= b.update(arrivals, bytes, time);
    }

    /// Threads come to a barrier that has a number and meets so many; the phase that they come to.
    pub fn come(&mut self, number: i64, threads: i64, meets: i64, time: f64) -> u64 {
        let new = Barrier { count: meets, pending: meets, ..Barrier::default() };
        let b = self.numbered.entry(number).or_insert(new);
        let phase = b.phase;
        self.ended |= b.update(threads, 0, time);
        phase
    }

    /// When all had come to a phase of such a barrier; `None` if they have not yet.
    pub fn met(&self, number: i64, phase: u64) -> Option<f64> {
        self.numbered.get(&number).filter(|b| b.phase > phase).map(|b| b.over)
    }

    /// Whether a phase has ended since this was last asked: only then may a wait that held go on.
    pub fn phase_ended(&mut self) -> bool {
        std::mem::take(&mut self.ended)
    }

    /// When the phase of a parity was over; `None` if it is not yet.
    pub fn over(&self, at: i64, parity: i64) -> Option<f64> {
        let Some(b) = self.at.get(&at) else { return Some(0.0) };
        (b.phase as i64 & 1 != parity & 1).then_some(b.over)
    }
}
