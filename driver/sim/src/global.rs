//! Races in global memory: between the threads of a block, between blocks, and with asynchronous copies.
//!
//! ```text
//!  st, red, atom ─ release, or behind a fence ─► what the writer knew, kept at the address
//!  ld, atom ─ acquire, or before a fence ─► the reader knows it too
//! ```
//!
//! A warp gets knowledge about other clusters ([`Foreign`]) from an address that both used, and passes it on with all
//! other knowledge. Atomics and other strong accesses do not race among themselves.

use super::access::Blame;
use super::clock::{Clock, Clocks, Foreign};
use super::hazard::HazardKind;
use super::inst::{FenceKind, MemoryOrder, Scope};
use super::machine::{Found, Machine, Stop};
use super::released::Home;
use super::shadow::{Access, Kind, MANY};
use super::space::GLOBAL;
use super::state::Operation;

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
        let lane = if access.lane == MANY { u32::MAX } else { 1 << access.lane };
        let warps = self.warps_of_block();
        let (warp, races) = (&self.warps[blame.warp], &mut self.memory.races);
        let found = match operation {
            Some(op) => races.touch(address, bytes, op.who(access, warps), self.number, write),
            None => {
                let clocks = warp.clocks_of(lane);
                races.touch(address, bytes, warp.who(access, &clocks, warps), self.number, write)
            }
        };
        let Some((other, wrote, at)) = found else { return Ok(()) };
        let verb = |w: bool| if w { "write" } else { "read" };
        let mut what = format!("{} and {} of global memory are not ordered", verb(write), verb(wrote));
        if access.kind == Kind::ReadOnly || other.kind == Kind::ReadOnly {
            what = "ld.global.nc reads memory that the grid writes".to_owned();
        }
        let found = Found::new(HazardKind::GlobalRace, blame.warp, access.pc, what);
        self.hazard(found.lane(u32::from(blame.lane)).other(other.pc).at(at))
    }

    /// The key of what stands at an address: shared memory is a cluster's own.
    fn key_of(&self, address: u64) -> u64 {
        if address >= GLOBAL { address } else { u64::from(self.number + 1) << 40 | address & 0xffff_ffff }
    }

    fn home(&self, w: usize) -> Home {
        Home { cluster: self.number, block: self.warps[w].block }
    }

    /// A strong write. It leaves at the address the knowledge that the thread releases or has fenced before. An atomic
    /// adds to the knowledge there; a store replaces it.
    pub fn release_at(&mut self, w: usize, lane: usize, address: u64, sync: MemoryOrder, adds: bool) {
        let (key, home) = (self.key_of(address), self.home(w));
        let old = self.memory.races.released.remove(&key).filter(|_| adds);
        let existed = old.is_some();
        let mut stands = old.unwrap_or_default();
        let mut added = false;
        let released: Vec<(Scope, Clocks)> = match sync.release {
            true => vec![(sync.scope, self.known_to(w, 1 << lane))],
            false => sync.scope.up_to().map(|s| (s, self.warps[w].fenced[s as usize].clone())).collect(),
        };
        for (scope, clocks) in released {
            let mut known = clocks.foreign.0.as_deref().cloned().unwrap_or_default();
            if !known.is_empty() || clocks.seen != Clock::default() {
                known.entry(self.number).or_default().join(&clocks.seen);
                stands.add(scope, home, known);
                added = true;
            }
        }
        if added || existed {
            self.memory.races.released.insert(key, stands);
        }
        if sync.release {
            self.tick(w);
        }
    }

    /// A strong read: the thread knows what stands at the address, at once or from its next fence on.
    pub fn acquire_at(&mut self, w: usize, lane: usize, address: u64, sync: MemoryOrder) {
        let Some(stands) = self.memory.races.released.get(&self.key_of(address)) else { return };
        let (home, first) = (self.home(w), self.first_async());
        let own = |t: usize| t >= first || self.warps[t].block == home.block;
        if sync.acquire {
            let found = stands.seen(sync.scope, home, own);
            self.know(w, 1 << lane, &found);
            return;
        }
        let found: Vec<_> = sync.scope.up_to().map(|s| (s, stands.seen(s, home, own))).collect();
        for (scope, found) in found {
            self.warps[w].unfenced_reads[scope as usize].join(&found);
        }
    }

    /// A fence adds the knowledge that earlier strong reads found to the thread's knowledge.
    pub fn acquire_fenced(&mut self, w: usize, kind: FenceKind, mask: u32) {
        let FenceKind::Memory(scope) = kind else { return };
        for scope in scope.up_to() {
            let found = std::mem::take(&mut self.warps[w].unfenced_reads[scope as usize]);
            self.know(w, mask, &found);
        }
    }

    fn know(&mut self, w: usize, mask: u32, found: &Foreign) {
        if found.0.is_none() {
            return;
        }
        let number = self.number;
        let own = found.0.as_ref().and_then(|k| k.get(&number));
        self.tell(w, mask, |c| {
            c.foreign.join(found);
            own.iter().for_each(|clock| c.seen.join(clock));
        });
    }
}
