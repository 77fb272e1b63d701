//! Groups of `cp.async`: each thread has its own.
//!
//! ```text
//!  lanes 0-31: open, committed..      commit by lane 0      lane 0: open, committed..
//!                                     ───────────────►      lanes 1-31: open, committed..
//! ```
//!
//! Lanes with the same history share an entry. An action of some of them splits it. Source: PTX ISA, "Data movement and
//! conversion instructions: cp.async.commit_group, cp.async.wait_group".

use std::collections::VecDeque;

/// A copy of several lanes, as a lane waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub id: u64,
    pub timeline: usize,
    pub clock: u32,
    /// The lanes that it is of.
    pub lanes: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Groups {
    open: Vec<Pending>,
    committed: VecDeque<Vec<Pending>>,
}

/// The groups of a warp's threads.
#[derive(Clone, Debug)]
pub(crate) struct CopyGroups(Vec<(u32, Groups)>);

impl Default for CopyGroups {
    fn default() -> Self {
        Self(vec![(u32::MAX, Groups::default())])
    }
}

impl CopyGroups {
    /// Applies a change to the groups of some lanes.
    fn each(&mut self, mask: u32, mut change: impl FnMut(u32, &mut Groups)) {
        for (lanes, groups) in std::mem::take(&mut self.0) {
            let mut inside = groups.clone();
            if lanes & mask != 0 {
                change(lanes & mask, &mut inside);
            }
            self.put(lanes & mask, inside);
            self.put(lanes & !mask, groups);
        }
    }

    fn put(&mut self, lanes: u32, groups: Groups) {
        match self.0.iter_mut().find(|(_, g)| *g == groups) {
            Some((l, _)) => *l |= lanes,
            None if lanes != 0 => self.0.push((lanes, groups)),
            None => {}
        }
    }

    /// Lanes have issued a copy. Whatever ran on its timeline before is known to be complete.
    pub fn issue(&mut self, copy: Pending) {
        self.each(copy.lanes, |_, g| {
            let groups = g.committed.iter_mut().chain([&mut g.open]);
            groups.for_each(|group| group.retain(|p| p.timeline != copy.timeline));
            g.open.push(copy);
        });
    }

    pub fn commit(&mut self, mask: u32) {
        self.each(mask, |_, g| g.committed.push_back(std::mem::take(&mut g.open)));
    }

    /// The copies that lanes wait for if so many groups may remain, or none and no open copies: lanes and copies.
    pub fn awaited(&self, mask: u32, remain: Option<u32>) -> Vec<(u32, Vec<Pending>)> {
        let of = |(lanes, g): &(u32, Groups)| {
            let retire = g.committed.len().saturating_sub(remain.unwrap_or(0) as usize);
            let open = g.open.iter().filter(|_| remain.is_none());
            (lanes & mask, g.committed.iter().take(retire).flatten().chain(open).copied().collect())
        };
        self.0.iter().filter(|(lanes, _)| lanes & mask != 0).map(of).collect()
    }

    /// Forgets the copies that [`Self::awaited`] returned.
    pub fn retire(&mut self, mask: u32, remain: Option<u32>) {
        self.each(mask, |_, g| {
            let retire = g.committed.len().saturating_sub(remain.unwrap_or(0) as usize);
            g.committed.drain(..retire);
            if remain.is_none() {
                g.open.clear();
            }
        });
    }

    /// All copies of some lanes that may be in flight: lanes and copies.
    pub fn issued(&self, mask: u32) -> Vec<(u32, Vec<Pending>)> {
        self.awaited(mask, None)
    }
}
