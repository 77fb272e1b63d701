//! Vector clocks over timelines.
//!
//! Each warp has a timeline, and each asynchronous operation runs on one. A clock gives, for every timeline, the last
//! event that is ordered before now. [`Clocks`] holds four of them: all ordered events; the writes that an async-proxy
//! access may read, and the reads that it may overwrite, because a proxy fence stands between; and the mbarrier
//! initializations that the asynchronous units can see.
//!
//! Several threads may issue one asynchronous operation, and each waits only for its part. Such a timeline is seen in
//! [`Parts`]. It is seen as a whole when all parts are seen.

use super::parts::Parts;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The last event seen of each timeline; 0: none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clock {
    times: Vec<u32>,
    parts: Parts,
}

impl Clock {
    pub fn get(&self, timeline: usize) -> u32 {
        self.times.get(timeline).copied().unwrap_or(0)
    }

    /// Whether it sees so far, at least of one part.
    pub fn covers(&self, timeline: usize, clock: u32, part: u8) -> bool {
        self.get(timeline) >= clock || self.parts.covers(timeline, clock, part)
    }

    pub fn raise(&mut self, timeline: usize, to: u32) {
        if self.times.len() <= timeline {
            self.times.resize(timeline + 1, 0);
        }
        self.times[timeline] = self.times[timeline].max(to);
    }

    /// Sees so far of some parts, given as bits, of all that the operation has.
    pub fn raise_parts(&mut self, timeline: usize, to: u32, parts: u32, all: u32) {
        if self.get(timeline) < to {
            self.parts.raise(timeline, to, parts, all);
            self.gather();
        }
    }

    /// Sees what the parts of some threads are known to be.
    pub fn join_parts(&mut self, other: &Parts, of: u32) {
        if !other.is_empty() {
            self.parts.join(other, of);
            self.gather();
        }
    }

    /// Sees the whole of an operation all of whose parts it sees.
    fn gather(&mut self) {
        for (timeline, clock) in self.parts.whole() {
            self.raise(timeline, clock);
        }
        let times = &self.times;
        self.parts.retain(|t, clock| times.get(t).copied().unwrap_or(0) < clock);
    }

    pub fn lower(&mut self, timeline: usize, to: u32) {
        if let Some(v) = self.times.get_mut(timeline) {
            *v = (*v).min(to);
        }
    }

    pub fn join(&mut self, other: &Self) {
        if self.times.len() < other.times.len() {
            self.times.resize(other.times.len(), 0);
        }
        for (a, b) in self.times.iter_mut().zip(&other.times) {
            *a = (*a).max(*b);
        }
        self.join_parts(&other.parts, u32::MAX);
    }

    /// Joins the timelines from `first` on; those of operations in parts are among them.
    pub fn join_from(&mut self, other: &Self, first: usize) {
        for (t, v) in other.times.iter().enumerate().skip(first) {
            self.raise(t, *v);
        }
        self.join_parts(&other.parts, u32::MAX);
    }

    /// What both see, but for parts.
    pub fn meet(&mut self, other: &Self) {
        for (t, v) in self.times.iter_mut().enumerate() {
            *v = (*v).min(other.get(t));
        }
        self.parts = Parts::default();
    }

    /// Only these timelines.
    pub fn among(&self, keep: impl Fn(usize) -> bool) -> Self {
        let times = self.times.iter().enumerate();
        Self { times: times.map(|(t, v)| if keep(t) { *v } else { 0 }).collect(), parts: self.parts.clone() }
    }
}

/// How far into the timelines of each cluster.
pub(super) type Known = BTreeMap<u32, Clock>;

/// Knowledge about other clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign(pub(super) Option<Arc<Known>>);

impl Foreign {
    pub(super) fn get(&self, cluster: u32, timeline: u16) -> u32 {
        let known = self.0.as_ref().and_then(|k| k.get(&cluster));
        known.map_or(0, |c| c.get(usize::from(timeline)))
    }

    /// Also knows what the other does.
    pub fn join(&mut self, other: &Self) {
        let Some(more) = &other.0 else { return };
        match &mut self.0 {
            None => self.0 = Some(Arc::clone(more)),
            Some(own) if Arc::ptr_eq(own, more) => {}
            Some(own) => {
                let own = Arc::make_mut(own);
                more.iter().for_each(|(cluster, clock)| own.entry(*cluster).or_default().join(clock));
            }
        }
    }

    /// Knows only what both do.
    pub fn meet(&mut self, other: &Self) {
        let (Some(own), Some(more)) = (&mut self.0, &other.0) else {
            self.0 = None;
            return;
        };
        if !Arc::ptr_eq(own, more) {
            let own = Arc::make_mut(own);
            let none = Clock::default();
            own.iter_mut().for_each(|(cluster, clock)| clock.meet(more.get(cluster).unwrap_or(&none)));
        }
    }
}

/// The knowledge of a thread. See the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    /// Ordered before now.
    pub seen: Clock,
    /// Generic-proxy writes that asynchronous accesses may follow.
    pub proxied: Clock,
    /// Generic-proxy reads that asynchronous writes may follow: a fence speaks for all reads ordered before it.
    pub settled: Clock,
    /// Mbarrier initialisations that others and the asynchronous units may use.
    pub inits: Clock,
    /// Phases of mbarriers that are over: each barrier has a number, and a phase is over at its clock.
    pub phases: Clock,
    /// Knowledge about other clusters.
    pub foreign: Foreign,
}

impl Clocks {
    pub fn join(&mut self, other: &Self) {
        self.seen.join(&other.seen);
        self.proxied.join(&other.proxied);
        self.settled.join(&other.settled);
        self.inits.join(&other.inits);
        self.phases.join(&other.phases);
        self.foreign.join(&other.foreign);
    }

    /// Joins only what is known of asynchronous operations, whose timelines begin at `first`.
    pub fn join_async(&mut self, other: &Self, first: usize) {
        self.seen.join_from(&other.seen, first);
        self.proxied.join_from(&other.proxied, first);
        self.settled.join_from(&other.settled, first);
        self.phases.join(&other.phases);
    }

    pub fn meet(&mut self, other: &Self) {
        self.seen.meet(&other.seen);
        self.proxied.meet(&other.proxied);
        self.settled.meet(&other.settled);
        self.inits.meet(&other.inits);
        self.phases.meet(&other.phases);
        self.foreign.meet(&other.foreign);
    }
}
