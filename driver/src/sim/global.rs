//! Races in global memory: between the threads of a block, between blocks, and with asynchronous copies.
//!
//! ```text
//!  page of 4096 bytes ─► cells of 16, 8, 4, 2 or 1 bytes: last write, two readers
//!  st, red, atom ─ release, or behind a fence ─► what the writer knew, kept at the address
//!  ld, atom ─ acquire, or before a fence ─► the reader knows it too
//! ```
//!
//! A cluster has its own timelines, so an access carries the cluster's number; what a warp knows of other
//! clusters ([`Foreign`]) it has from an address that both used, and passes on with all else that it knows. The
//! last write is always kept; of many readers that nothing orders, two are: a write that races only with the
//! others is missed. Atomics and other strong accesses do not race among themselves.

use super::access::Blame;
use super::clock::{Clock, Clocks};
use super::hazard::HazardKind;
use super::inst::{FenceKind, MemoryOrder};
use super::machine::{Found, Machine, Stop};
use super::ops::Operation;
use super::shadow::{Access, Fault, Kind, MANY, Who, against};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far into the timelines of each cluster.
type Known = BTreeMap<u32, Clock>;

/// What is known of other clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign(Option<Arc<Known>>);

impl Foreign {
    fn get(&self, cluster: u32, timeline: u16) -> u32 {
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

/// An access and the cluster that made it.
#[derive(Clone, Copy, Default)]
struct Touch {
    access: Access,
    cluster: u32,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Touch,
    reads: [Touch; 2],
}

/// Bytes of a page, as a power of two.
const PAGE: u32 = 12;
/// Bytes of a cell at first, as a power of two.
const GRAIN: u32 = 4;

struct Page {
    /// Bytes of a cell, as a power of two.
    grain: u32,
    cells: Vec<Cell>,
}

impl Page {
    fn new() -> Self {
        Self { grain: GRAIN, cells: vec![Cell::default(); 1 << (PAGE - GRAIN)] }
    }

    /// Makes the cells small enough.
    fn refine(&mut self, grain: u32) {
        if grain < self.grain {
            let each = 1 << (self.grain - grain);
            self.cells = self.cells.iter().flat_map(|c| std::iter::repeat_n(*c, each)).collect();
            self.grain = grain;
        }
    }
}

/// Who touched each byte of global memory last, and what is known at addresses that synchronise.
#[derive(Default)]
pub(crate) struct GlobalShadow {
    places: FxHashMap<u64, usize>,
    pages: Vec<Page>,
    /// Page that was used last, and its place.
    last: (u64, usize),
    released: FxHashMap<u64, Arc<Known>>,
}

impl std::fmt::Debug for GlobalShadow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pages", self.pages.len())
    }
}

impl GlobalShadow {
    fn page(&mut self, number: u64) -> &mut Page {
        if self.last.0 != number || self.pages.is_empty() {
            let pages = &mut self.pages;
            let place = *self.places.entry(number).or_insert_with(|| {
                pages.push(Page::new());
                pages.len() - 1
            });
            self.last = (number, place);
        }
        &mut self.pages[self.last.1]
    }

    /// Records an access; the first fault with the other access, whether that writes, and the address.
    fn touch(
        &mut self,
        address: u64,
        bytes: u32,
        who: Who<'_>,
        cluster: u32,
        write: bool,
    ) -> Option<(Access, bool, u64)> {
        let mut found = None;
        let (mut at, end) = (address, address + u64::from(bytes));
        while at < end {
            let next = end.min(((at >> PAGE) + 1) << PAGE);
            let page = self.page(at >> PAGE);
            let (from, to) = (at as u32 & ((1 << PAGE) - 1), (next - 1) as u32 & ((1 << PAGE) - 1));
            page.refine((from | (to + 1)).trailing_zeros().min(GRAIN));
            let grain = page.grain;
            for (i, cell) in
                page.cells[(from >> grain) as usize..=(to >> grain) as usize].iter_mut().enumerate()
            {
                let other = if write { cell.write(who, cluster) } else { cell.read(who, cluster) };
                found = found.or(other.map(|(a, w)| (a, w, at + ((i as u64) << grain))));
            }
            at = next;
        }
        found
    }
}

impl Cell {
    fn write(&mut self, who: Who<'_>, cluster: u32) -> Option<(Access, bool)> {
        let races = |t: &Touch, wrote: bool| t.races(who, cluster, wrote, true).then_some((t.access, wrote));
        let found = races(&self.write, true).or_else(|| self.reads.iter().find_map(|t| races(t, false)));
        *self = Self { write: Touch { access: who.access, cluster }, ..Self::default() };
        found
    }

    fn read(&mut self, who: Who<'_>, cluster: u32) -> Option<(Access, bool)> {
        let found = self.write.races(who, cluster, true, false).then_some((self.write.access, true));
        let new = Touch { access: who.access, cluster };
        let replaces = |old: &Touch| {
            let same = old.cluster == cluster && old.access.timeline == new.access.timeline;
            old.access.clock == 0 || same
        };
        let place = self.reads.iter().position(replaces).unwrap_or(1);
        let old = self.reads[place].access;
        self.reads[place] = new;
        if old.clock != 0 && old.sync == new.access.sync && old.lane != new.access.lane {
            self.reads[place].access.lane = MANY;
        }
        found
    }
}

impl Touch {
    fn races(&self, who: Who<'_>, cluster: u32, wrote: bool, writes: bool) -> bool {
        let old = self.access;
        if old.clock == 0 || old.kind == Kind::Strong && who.access.kind == Kind::Strong {
            return false;
        }
        if self.cluster != cluster {
            return who.clocks.foreign.get(self.cluster, old.timeline) < old.clock;
        }
        let conflict = against(old, who, wrote, writes);
        conflict.is_some_and(|c| c.fault != Fault::Proxy)
    }
}

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
