//! The knowledge of the lanes of a warp, and the part of it that some lanes may pass on.
//!
//! A warp has one timeline, but its lanes are threads. The other lanes share the waits, accesses and fences of one lane
//! only after a warp-wide synchronization.

use super::clock::Clocks;
use super::machine::{Machine, Warp};
use super::shadow::{Access, Who};
use std::borrow::Cow;

impl Warp {
    /// The common knowledge of the lanes of `mask`. Few lanes have knowledge of their own, so a copy is rare.
    pub fn clocks_of(&self, mask: u32) -> Cow<'_, Clocks> {
        let mut all = Cow::Borrowed(&self.clocks);
        for (_, c) in self.partial.iter().filter(|(m, _)| mask & self.live & !m == 0) {
            all.to_mut().join(c);
        }
        all
    }

    /// Who an ordinary instruction of the warp is, in blocks of so many warps.
    pub fn who<'b>(&'b self, access: Access, clocks: &'b Clocks, warps: usize) -> Who<'b> {
        let own = Some(&self.own).filter(|o| !o.is_empty());
        Who { access, clocks, own, synced: self.lanes_synced, issuer: None, warps }
    }
}

impl Machine<'_> {
    /// All lanes have synchronized. Every later action of a lane is ordered after all earlier ones.
    pub fn sync_warp(&mut self, w: usize) {
        self.tick(w);
        let warp = &mut self.warps[w];
        for (_, c) in warp.partial.drain(..) {
            warp.clocks.join(&c);
        }
        let own = std::mem::take(&mut warp.own);
        warp.clocks.seen.join_parts(&own, u32::MAX);
        warp.lanes_synced = warp.sync;
        warp.sync += 1;
        warp.synced = warp.clock - 1;
        warp.dirty = 0;
        warp.fenced_lanes = 0;
        warp.fence_synced = warp.clocks.proxied.get(w);
    }

    /// All lanes wait for a phase in which all of them arrived, by one instruction of this epoch and clock: what any
    /// did before it comes before what each does now.
    pub fn sync_from(&mut self, w: usize, (epoch, clock): (u32, u32)) {
        let warp = &mut self.warps[w];
        warp.lanes_synced = warp.lanes_synced.max(epoch);
        if warp.dirty_epoch <= epoch {
            warp.synced = warp.synced.max(clock);
            warp.dirty = 0;
            warp.fenced_lanes = 0;
            warp.fence_synced = warp.clocks.proxied.get(w);
        }
    }

    /// Adds knowledge to the lanes of `mask`.
    pub fn tell(&mut self, w: usize, mask: u32, learn: impl Fn(&mut Clocks)) {
        let warp = &mut self.warps[w];
        if warp.live & !mask == 0 {
            learn(&mut warp.clocks);
            return;
        }
        if let Some((_, c)) = warp.partial.iter_mut().find(|(m, _)| *m == mask) {
            learn(c);
            return;
        }
        let mut fresh = Clocks::default();
        learn(&mut fresh);
        warp.partial.push((mask, fresh));
    }

    /// The common knowledge of the lanes of `mask`.
    pub fn clocks_of(&self, w: usize, mask: u32) -> Cow<'_, Clocks> {
        self.warps[w].clocks_of(mask)
    }

    /// The knowledge that the lanes of `mask` release together: the knowledge of any of them, as far as they may pass
    /// it on.
    pub fn known_to(&self, w: usize, mask: u32) -> Clocks {
        let mut clocks = self.warps[w].clocks.clone();
        for (_, c) in self.warps[w].partial.iter().filter(|(m, _)| mask & m != 0) {
            clocks.join(c);
        }
        clocks.seen.join_parts(&self.warps[w].own, mask);
        self.limit(w, mask, clocks)
    }

    /// The events before an operation that the lanes of `mask` issue in parts.
    pub fn known_to_each(&self, w: usize, mask: u32) -> Clocks {
        self.limit(w, mask, self.clocks_of(w, mask).into_owned())
    }

    /// Where other lanes touched shared memory since the last synchronisation of the warp, only what
    /// came before that may be passed on; and so with their fences.
    fn limit(&self, w: usize, mask: u32, mut clocks: Clocks) -> Clocks {
        let warp = &self.warps[w];
        let others = warp.live & !mask;
        if warp.dirty & others != 0 {
            clocks.seen.lower(w, warp.synced);
            clocks.proxied.lower(w, warp.synced);
            clocks.settled.lower(w, warp.synced);
        }
        if warp.fenced_lanes & others != 0 {
            clocks.proxied.lower(w, warp.fence_synced);
            clocks.settled.lower(w, warp.fence_synced);
        }
        clocks
    }

    /// Lanes have ended. The common knowledge of the remaining lanes becomes the warp's.
    pub fn promote(&mut self, w: usize) {
        let warp = &mut self.warps[w];
        let live = warp.live;
        let (whole, part) = std::mem::take(&mut warp.partial).into_iter().partition(|(m, _)| live & !m == 0);
        warp.partial = part;
        let whole: Vec<(u32, Clocks)> = whole;
        for (_, c) in whole {
            warp.clocks.join(&c);
        }
    }
}
