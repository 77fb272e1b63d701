//! Races in global memory: between the threads of a block, between blocks, and with asynchronous copies.
//!
//! ```text
//!  st, red, atom ─ release, or behind a fence ─► what the writer knew, kept at the address
//!  ld, atom ─ acquire, or before a fence ─► the reader knows it too
//! ```
//!
//! What a warp knows of other clusters ([`Foreign`]) it has from an address that both used, and passes on with all
//! else that it knows. Atomics and other strong accesses do not race among themselves.

use super::access::Blame;
use super::clock::{Clock, Clocks, Foreign};
use super::hazard::HazardKind;
use super::inst::{FenceKind, MemoryOrder};
use super::machine::{Found, Machine, Stop};
use super::shadow::{Access, MANY, Who};
use super::state::Operation;
use std::sync::Arc;

impl Machine<'_> {
    /// Checks and records an access to global memory by a warp or by an operation.
    pub fn note_global(
        &mut self,
        blame: Blame,
        (address, bytes): (u64, u32),
        access: Access,
        operation: Option<&Operation>,
        write: bool,
    ) -> Result<(), Stop> {
        let waited = operation.map_or(self.warps[blame.warp].waited, |op| op.waited);
        self.after_grids(blame, address, waited, write)?;
        let clocks = operation.map(|op| &op.start);
        let lane = if access.lane == MANY { u32::MAX } else { 1 << access.lane };
        let mut races = std::mem::take(&mut self.memory.races);
        let own = if clocks.is_none() { Some(self.clocks_of(blame.warp, lane)) } else { None };
        let none = Clocks::default();
        let clocks = clocks.or(own.as_deref()).unwrap_or(&none);
        let found = races.touch(address, bytes, Who { access, clocks }, self.number, write);
        drop(own);
        self.memory.races = races;
        let Some((other, wrote, at)) = found else { return Ok(()) };
        let verb = |w: bool| if w { "write" } else { "read" };
        let what = format!("{} and {} of global memory are not ordered", verb(write), verb(wrote));
        let found = Found::new(HazardKind::GlobalRace, blame.warp, access.pc, what);
        self.hazard(found.lane(u32::from(blame.lane)).other(other.pc).at(at))
    }

    /// A strong write: what the thread releases, or has fenced before, stands at the address. An atomic adds
    /// to what stands there, a store replaces it.
    pub fn release_at(&mut self, w: usize, lane: usize, address: u64, sync: MemoryOrder, adds: bool) {
        let clocks = match sync.release && sync.wide {
            true => self.known_to(w, 1 << lane),
            false => self.warps[w].fenced.clone(),
        };
        let mut known = clocks.foreign.0.as_deref().cloned().unwrap_or_default();
        let nothing = known.is_empty() && clocks.seen == Clock::default();
        known.entry(self.number).or_default().join(&clocks.seen);
        let old = self.memory.races.released.remove(&address).filter(|_| adds);
        if let Some(old) = &old {
            old.iter().for_each(|(cluster, clock)| known.entry(*cluster).or_default().join(clock));
        }
        if !nothing || old.is_some() {
            self.memory.races.released.insert(address, Arc::new(known));
        }
        if sync.release {
            self.tick(w);
        }
    }

    /// A strong read: the thread knows what stands at the address, at once or from its next fence on.
    pub fn acquire_at(&mut self, w: usize, lane: usize, address: u64, sync: MemoryOrder) {
        let Some(known) = self.memory.races.released.get(&address).cloned() else { return };
        let found = Foreign(Some(known));
        match sync.acquire && sync.wide {
            true => self.know(w, 1 << lane, &found),
            false => self.warps[w].unfenced_reads.join(&found),
        }
    }

    /// A fence makes what strong reads before it found the thread's knowledge.
    pub fn acquire_fenced(&mut self, w: usize, kind: FenceKind, mask: u32) {
        if kind == FenceKind::Memory(true) {
            let found = std::mem::take(&mut self.warps[w].unfenced_reads);
            self.know(w, mask, &found);
        }
    }

    fn know(&mut self, w: usize, mask: u32, found: &Foreign) {
        let number = self.number;
        let own = found.0.as_ref().and_then(|k| k.get(&number));
        self.tell(w, mask, |c| {
            c.foreign.join(found);
            own.iter().for_each(|clock| c.seen.join(clock));
        });
    }
}
