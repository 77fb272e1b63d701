//! Knowledge about asynchronous operations that several threads wait for, each for its part.
//!
//! ```text
//!  cp.async of 32 lanes: a part each     wgmma of a warpgroup: a part each warp
//!  lane 3 waits: part 3 is known to it   all parts known: the operation is known
//! ```
//!
//! A timeline's operations follow one another. If a part of a later one is known, the same part of the earlier ones is
//! too.

use super::mask::lanes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far the parts of one timeline are seen.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// The parts that its operation has, as bits.
    all: u32,
    at: [u32; 32],
}

impl Seen {
    fn least(&self) -> u32 {
        lanes(self.all).map(|part| self.at[part]).min().unwrap_or(0)
    }

    fn most(&self) -> u32 {
        self.at.iter().copied().max().unwrap_or(0)
    }
}

/// Parts by timeline; most programs have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts(Option<Arc<BTreeMap<usize, Seen>>>);

impl Parts {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn covers(&self, timeline: usize, clock: u32, part: u8) -> bool {
        let seen = self.0.as_ref().and_then(|p| p.get(&timeline));
        seen.is_some_and(|s| s.at.get(usize::from(part)).is_some_and(|at| *at >= clock))
    }

    pub fn raise(&mut self, timeline: usize, to: u32, parts: u32, all: u32) {
        let map = Arc::make_mut(self.0.get_or_insert_default());
        let seen = map.entry(timeline).or_insert(Seen { all, at: [0; 32] });
        if seen.most() < to {
            seen.all = all;
        }
        for part in lanes(parts) {
            seen.at[part] = seen.at[part].max(to);
        }
    }

    /// Joins the parts of some threads.
    pub fn join(&mut self, other: &Self, of: u32) {
        let Some(more) = &other.0 else { return };
        if self.0.as_ref().is_some_and(|own| Arc::ptr_eq(own, more)) {
            return;
        }
        for (timeline, theirs) in more.iter() {
            for part in lanes(of).filter(|part| theirs.at[*part] > 0) {
                self.raise(*timeline, theirs.at[part], 1 << part, theirs.all);
            }
        }
    }

    /// Timelines of which every part is seen, and how far.
    pub fn whole(&self) -> Vec<(usize, u32)> {
        let all = self.0.iter().flat_map(|p| p.iter());
        all.map(|(t, s)| (*t, s.least())).filter(|(_, least)| *least > 0).collect()
    }

    /// Keeps the timelines of which more is asked for than this.
    pub fn retain(&mut self, mut keep: impl FnMut(usize, u32) -> bool) {
        let Some(map) = &mut self.0 else { return };
        if map.iter().all(|(t, s)| keep(*t, s.most())) {
            return;
        }
        let map = Arc::make_mut(map);
        map.retain(|t, s| keep(*t, s.most()));
        if map.is_empty() {
            self.0 = None;
        }
    }
}
