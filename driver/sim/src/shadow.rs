//! The last accesses to each word of shared memory. Each new access must be ordered after them (Flanagan and Freund,
//! "FastTrack: Efficient and Precise Dynamic Race Detection").
//!
//! A cell covers 4 bytes: the last write, and the reads since. A cell that is touched in parts
//! splits into its bytes.

use super::clock::Clocks;
use super::inst::Scope;
use super::parts::Parts;
use std::collections::HashMap;

/// An access to memory, with the data to order and report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub timeline: u16,
    /// Lane, or [`MANY`].
    pub lane: u8,
    pub kind: Kind,
    /// Clock on the timeline; 0 where nobody was here.
    pub clock: u32,
    pub pc: u32,
    /// Epoch of the warp: it rises where its lanes synchronise, or all arrive somewhere.
    pub sync: u32,
}

/// Several lanes of one warp.
pub(crate) const MANY: u8 = 0xff;

/// The kind of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By an ordinary instruction.
    #[default]
    Generic,
    /// By an ordinary instruction that reads what nobody writes: `ld.global.nc`.
    ReadOnly,
    /// By an ordinary instruction that does not race with its like, as far as its scope reaches: atomic, volatile,
    /// relaxed.
    Strong(Scope),
    /// Asynchronously, but in the generic proxy: `cp.async`.
    Copy,
    /// Through the asynchronous proxy: bulk copies, wgmma.
    Async,
    /// As an mbarrier object.
    Barrier,
    /// As an mbarrier object that ended there.
    Ended,
}

/// A new access and the knowledge of its thread.
#[derive(Clone, Copy)]
pub(crate) struct Who<'a> {
    pub access: Access,
    pub clocks: &'a Clocks,
    /// Parts of asynchronous operations that each lane of the warp knows for itself alone.
    pub own: Option<&'a Parts>,
    /// The last epoch of the warp up to which its lanes know one another's accesses.
    pub synced: u32,
    /// The warp whose lanes issued an operation in parts.
    pub issuer: Option<usize>,
    /// Warps of a block.
    pub warps: usize,
}

impl Who<'_> {
    /// Whether it comes behind another access.
    fn knows(&self, old: Access) -> bool {
        let timeline = usize::from(old.timeline);
        let own = |o: &Parts| old.lane == self.access.lane && o.covers(timeline, old.clock, old.lane);
        self.clocks.seen.covers(timeline, old.clock, old.lane) || self.own.is_some_and(own)
    }

    /// Whether the lane that made an access knows it, and no other.
    fn only_its_lane_knows(&self, old: Access) -> bool {
        self.own.is_some_and(|o| o.covers(old.timeline.into(), old.clock, old.lane))
    }

    /// Whether an access is of another lane of this warp, without a synchronisation since.
    fn is_beside(&self, old: Access) -> bool {
        old.sync > self.synced && (old.lane == MANY || old.lane != self.access.lane)
    }

    /// Whether both are strong, and each one's scope includes the other (PTX ISA, "morally strong").
    fn is_strong_beside(&self, old: Access) -> bool {
        let (Kind::Strong(a), Kind::Strong(b)) = (old.kind, self.access.kind) else { return false };
        let block = |t: u16| usize::from(t) / self.warps.max(1);
        a.min(b) != Scope::Cta || block(old.timeline) == block(self.access.timeline)
    }
}

/// The mistake of two accesses to the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not ordered at all.
    Unordered,
    /// Lanes of one warp without a warp synchronisation between.
    Lanes,
    /// Ordered, but without the fence between the proxies.
    Proxy,
    /// Read of bytes that nobody wrote.
    Undefined,
}

/// A fault with the other access and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    pub fault: Fault,
    pub other: Access,
    pub other_writes: bool,
    pub offset: u32,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Access,
    read: Access,
    /// Further readers: index into [`Shadow::more`] plus one.
    more: u32,
    split: bool,
}

/// The shadow of one block's shared memory.
#[derive(Default)]
pub(crate) struct Shadow {
    cells: Vec<Cell>,
    bytes: HashMap<u32, Box<[Cell; 4]>>,
    more: Vec<Vec<Access>>,
    free: Vec<u32>,
}

impl Shadow {
    pub fn new(size: u32) -> Self {
        Self {
            cells: vec![Cell::default(); size.div_ceil(4) as usize],
            bytes: HashMap::new(),
            more: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Records a read of `len` bytes; the first fault found.
    pub fn read(&mut self, offset: u32, len: u32, who: Who<'_>) -> Option<Conflict> {
        self.touch(offset, len, who, false)
    }

    /// Records a write of `len` bytes; the first fault found.
    pub fn write(&mut self, offset: u32, len: u32, who: Who<'_>) -> Option<Conflict> {
        self.touch(offset, len, who, true)
    }

    fn touch(&mut self, offset: u32, len: u32, who: Who<'_>, write: bool) -> Option<Conflict> {
        let mut worst = None;
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let index = at / 4;
            let next = (index + 1) * 4;
            let whole = at.is_multiple_of(4) && next <= end;
            let found = self.touch_cell(index, at % 4, end.min(next) - at, who, write, whole);
            if worst.is_none() {
                worst = found.map(|c| Conflict { offset: at, ..c });
            }
            at = next;
        }
        worst
    }

    fn touch_cell(
        &mut self,
        index: u32,
        from: u32,
        len: u32,
        who: Who<'_>,
        write: bool,
        whole: bool,
    ) -> Option<Conflict> {
        let cell = self.cells.get_mut(index as usize)?;
        if whole && !cell.split {
            return touch(cell, &mut self.more, &mut self.free, who, write);
        }
        let parts = self.bytes.entry(index).or_insert_with(|| Box::new([Cell { more: 0, ..*cell }; 4]));
        cell.split = true;
        let (more, free) = (&mut self.more, &mut self.free);
        let mut worst = None;
        for part in parts.iter_mut().skip(from as usize).take(len as usize) {
            worst = worst.or(touch(part, more, free, who, write));
        }
        if whole && write {
            *cell = Cell { more: 0, ..parts[0] };
            self.bytes.remove(&index);
        }
        worst
    }
}

fn touch(
    cell: &mut Cell,
    more: &mut Vec<Vec<Access>>,
    free: &mut Vec<u32>,
    who: Who<'_>,
    write: bool,
) -> Option<Conflict> {
    if write {
        let mut found = against(cell.write, who, true, true);
        found = found.or_else(|| against(cell.read, who, false, true));
        if cell.more != 0 {
            let list = &mut more[cell.more as usize - 1];
            found = found.or_else(|| list.iter().find_map(|r| against(*r, who, false, true)));
            list.clear();
            free.push(cell.more);
        }
        *cell = Cell { write: who.access, ..Cell::default() };
        return found;
    }
    if cell.write.clock == 0 {
        return Some(conflict(Fault::Undefined, cell.write, true));
    }
    let mut found = against(cell.write, who, true, false);
    if cell.write.kind == Kind::Ended {
        found = found.or(Some(conflict(Fault::Undefined, cell.write, true)));
    }
    add_reader(cell, more, free, who);
    found
}

fn add_reader(cell: &mut Cell, more: &mut Vec<Vec<Access>>, free: &mut Vec<u32>, who: Who<'_>) {
    let new = who.access;
    if replaceable(cell.read, who) {
        cell.read = merge(cell.read, who);
        return;
    }
    if cell.more == 0 {
        cell.more = free.pop().unwrap_or_else(|| {
            more.push(Vec::new());
            more.len() as u32
        });
    }
    let list = &mut more[cell.more as usize - 1];
    match list.iter_mut().find(|r| replaceable(**r, who)) {
        Some(slot) => *slot = merge(*slot, who),
        None => list.push(new),
    }
}

/// Whether the new read replaces an older one: every access that is ordered after the new read, and after its proxy
/// fence, is also ordered after the older one.
fn replaceable(old: Access, who: Who<'_>) -> bool {
    let timeline = usize::from(old.timeline);
    let ordered = || who.clocks.seen.get(timeline).min(who.clocks.settled.get(timeline)) >= old.clock;
    old.clock == 0 || old.timeline == who.access.timeline || old.kind == who.access.kind && ordered()
}

fn merge(old: Access, who: Who<'_>) -> Access {
    let new = who.access;
    let same = old.timeline == new.timeline && old.sync > who.synced && old.clock != 0;
    let lane = if same && old.lane != new.lane { MANY } else { new.lane };
    Access { lane, ..new }
}

fn conflict(fault: Fault, other: Access, other_writes: bool) -> Conflict {
    Conflict { fault, other, other_writes, offset: 0 }
}

/// Whether `old` is ordered before `who`. `old_writes` and `writes` say which side writes.
pub(crate) fn against(old: Access, who: Who<'_>, old_writes: bool, writes: bool) -> Option<Conflict> {
    if old.clock == 0 || (!old_writes && !writes) {
        return None;
    }
    let new = who.access;
    if who.is_strong_beside(old) {
        return None;
    }
    let fault = |f| Some(conflict(f, old, old_writes));
    let timeline = usize::from(old.timeline);
    if old.timeline == new.timeline {
        let apart =
            who.is_beside(old) && old.pc != new.pc && new.kind != Kind::Async && new.kind != Kind::Barrier;
        return if apart { fault(Fault::Lanes) } else { None };
    }
    if !who.knows(old) {
        return fault(if who.only_its_lane_knows(old) { Fault::Lanes } else { Fault::Unordered });
    }
    if who.issuer == Some(timeline) && who.is_beside(old) {
        return fault(Fault::Lanes);
    }
    // An asynchronous write too: it may overtake a read that still waits behind others (measured on the chip).
    let crosses = new.kind == Kind::Async && old.kind != Kind::Async;
    let fenced = if old_writes { &who.clocks.proxied } else { &who.clocks.settled };
    let barrier = matches!(old.kind, Kind::Barrier | Kind::Ended);
    if crosses && !barrier && !fenced.covers(timeline, old.clock, old.lane) {
        return fault(Fault::Proxy);
    }
    None
}
