//! The last accesses to each byte of global memory: pages of cells, each with its last write and two readers.
//!
//! ```text
//!  page of 4096 bytes ─► cells of 16, 8, 4, 2 or 1 bytes: last write, two readers
//! ```
//!
//! A cluster has its own timelines, so an access carries the cluster's number. The last write is always kept. Of many
//! unordered readers, two are kept. A write that races only with the others is missed.

use super::inst::Scope;
use super::released::Released;
use super::shadow::{Access, Fault, Kind, MANY, Who, against};
use rustc_hash::FxHashMap;

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
    /// The last `ld.global.nc`: its instruction plus 1.
    read_only: u32,
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
    pub(super) released: FxHashMap<u64, Released>,
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
    pub(super) fn touch(
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
        let read_only = self.read_only;
        *self = Self { write: Touch { access: who.access, cluster }, read_only, ..Self::default() };
        let reader = || Access { kind: Kind::ReadOnly, pc: read_only - 1, ..Access::default() };
        found.or_else(|| (read_only > 0).then(|| (reader(), false)))
    }

    fn read(&mut self, who: Who<'_>, cluster: u32) -> Option<(Access, bool)> {
        let read_only = who.access.kind == Kind::ReadOnly;
        if read_only {
            self.read_only = who.access.pc + 1;
        }
        let written = read_only && self.write.access.clock != 0;
        let races = written || self.write.races(who, cluster, true, false);
        let found = races.then_some((self.write.access, true));
        let new = Touch { access: who.access, cluster };
        let replaces = |old: &Touch| {
            let same = old.cluster == cluster && old.access.timeline == new.access.timeline;
            old.access.clock == 0 || same
        };
        let place = self.reads.iter().position(replaces).unwrap_or(1);
        let old = self.reads[place].access;
        self.reads[place] = new;
        if old.clock != 0 && old.sync > who.synced && old.lane != new.access.lane {
            self.reads[place].access.lane = MANY;
        }
        found
    }
}

impl Touch {
    fn races(&self, who: Who<'_>, cluster: u32, wrote: bool, writes: bool) -> bool {
        let old = self.access;
        if old.clock == 0 {
            return false;
        }
        if self.cluster != cluster {
            let far = Kind::Strong(Scope::Gpu);
            let strong = old.kind == far && who.access.kind == far;
            return !strong && who.clocks.foreign.get(self.cluster, old.timeline) < old.clock;
        }
        let conflict = against(old, who, wrote, writes);
        conflict.is_some_and(|c| c.fault != Fault::Proxy)
    }
}
