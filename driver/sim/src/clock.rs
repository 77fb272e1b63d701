//! Vector clocks over timelines.
//!
//! Each warp is a timeline, and each asynchronous operation runs on one. A clock says how far into
//! every timeline one can see. [`Clocks`] holds four: what is ordered at all, which writes an asynchronous
//! (async-proxy) access may see and which reads it may overwrite because a proxy fence stands on the way,
//! and whose mbarrier initialisations are visible to the asynchronous units.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How far one sees into each timeline; 0 is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    pub fn get(&self, timeline: usize) -> u32 {
        self.0.get(timeline).copied().unwrap_or(0)
    }

    pub fn raise(&mut self, timeline: usize, to: u32) {
        if self.0.len() <= timeline {
            self.0.resize(timeline + 1, 0);
        }
        self.0[timeline] = self.0[timeline].max(to);
    }

    pub fn lower(&mut self, timeline: usize, to: u32) {
        if let Some(v) = self.0.get_mut(timeline) {
            *v = (*v).min(to);
        }
    }

    pub fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a = (*a).max(*b);
        }
    }

    /// Joins the timelines from `first` on.
    pub fn join_from(&mut self, other: &Self, first: usize) {
        for (t, v) in other.0.iter().enumerate().skip(first) {
            self.raise(t, *v);
        }
    }

    /// What both see.
    pub fn meet(&mut self, other: &Self) {
        for (t, v) in self.0.iter_mut().enumerate() {
            *v = (*v).min(other.get(t));
        }
    }
}

/// How far into the timelines of each cluster.
pub(super) type Known = BTreeMap<u32, Clock>;

/// What is known of other clusters.
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

/// What a thread knows. See the module documentation.
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
    /// What is known of other clusters.
    pub foreign: Foreign,
}

impl Clocks {
    pub fn join(&mut self, other: &Self) {
        self.seen.join(&other.seen);
        self.proxied.join(&other.proxied);
        self.settled.join(&other.settled);
        self.inits.join(&other.inits);
        self.foreign.join(&other.foreign);
    }

    /// Joins only what is known of asynchronous operations, whose timelines begin at `first`.
    pub fn join_async(&mut self, other: &Self, first: usize) {
        self.seen.join_from(&other.seen, first);
        self.proxied.join_from(&other.proxied, first);
        self.settled.join_from(&other.settled, first);
    }

    pub fn meet(&mut self, other: &Self) {
        self.seen.meet(&other.seen);
        self.proxied.meet(&other.proxied);
        self.settled.meet(&other.settled);
        self.inits.meet(&other.inits);
        self.foreign.meet(&other.foreign);
    }
}
