//! Shared and global memory as instructions reach it: windows, bounds, alignment, races.

use super::clock::Clocks;
use super::hazard::HazardKind;
use super::inst::Space;
use super::machine::{Found, Machine, Stop};
use super::shadow::{Access, Conflict, Fault, Kind, MANY};
use super::space::{GENERIC_CONST, GENERIC_LOCAL, GENERIC_PARAM, GENERIC_SHARED, GLOBAL, split_shared};

/// The place of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Global(u64),
    Shared { block: usize, offset: u32 },
    Param(u32),
    Const(u32),
    Local(u32),
}

/// The threads to name in a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blame {
    pub warp: usize,
    pub lane: u8,
    pub pc: u32,
}

impl Machine<'_> {
    /// The place of an address, or `None` after reporting that it is outside.
    pub fn resolve(
        &mut self,
        blame: Blame,
        space: Space,
        address: u64,
        bytes: u32,
    ) -> Result<Option<Target>, Stop> {
        if !address.is_multiple_of(u64::from(bytes.max(1))) {
            let what = format!("an access of {bytes} bytes is not aligned");
            let found = Found::new(HazardKind::Misaligned, blame.warp, blame.pc, what);
            self.hazard(found.lane(u32::from(blame.lane)).at(address))?;
            return Ok(None);
        }
        let target = match space {
            Space::Global => Some(Target::Global(address)),
            Space::Shared => self.shared_place(blame.warp, address, false),
            Space::SharedCluster => self.shared_place(blame.warp, address, true),
            Space::Param => Some(Target::Param(address as u32)),
            Space::Const => u32::try_from(address).ok().map(Target::Const),
            Space::Local => Some(Target::Local(address as u32)),
            Space::Generic => self.generic(blame.warp, address),
        };
        let inside = target.is_some_and(|t| self.inside(t, bytes));
        if inside {
            return Ok(target);
        }
        self.outside(blame, address, bytes)?;
        Ok(None)
    }

    fn generic(&self, w: usize, address: u64) -> Option<Target> {
        match address {
            a if a >= GLOBAL => Some(Target::Global(a)),
            a if a >= GENERIC_CONST => Some(Target::Const((a - GENERIC_CONST) as u32)),
            a if a >= GENERIC_LOCAL => Some(Target::Local((a - GENERIC_LOCAL) as u32)),
            a if a >= GENERIC_PARAM => Some(Target::Param((a - GENERIC_PARAM) as u32)),
            a if a >= GENERIC_SHARED => self.shared_place(w, a - GENERIC_SHARED, true),
            _ => None,
        }
    }

    fn shared_place(&self, w: usize, address: u64, cluster: bool) -> Option<Target> {
        let (block, offset) = split_shared(address);
        let reach = cluster || block == self.warps[w].block;
        (address < 1 << 32 && reach && block < self.blocks.len()).then_some(Target::Shared { block, offset })
    }

    fn inside(&self, t: Target, bytes: u32) -> bool {
        let fits = |at: u32, size: usize| u64::from(at) + u64::from(bytes) <= size as u64;
        match t {
            Target::Global(a) => self.memory.load(a, bytes as usize).is_some(),
            Target::Shared { block, offset } => {
                offset >= super::space::SHARED_BASE && fits(offset, self.blocks[block].shared.len())
            }
            Target::Param(at) => fits(at, self.launch.params.len()),
            Target::Const(at) => fits(at, self.launch.module.constants.len()),
            Target::Local(at) => fits(at, self.launch.entry.local_bytes as usize),
        }
    }

    pub fn outside(&mut self, blame: Blame, address: u64, bytes: u32) -> Result<(), Stop> {
        let near = self.memory.nearest(address).map_or_else(String::new, |(name, at, size)| {
            format!("; buffer `{name}` has {size} bytes, this is byte {at}")
        });
        let what = format!("an access of {bytes} bytes at {address:#x} is outside all memory{near}");
        let found = Found::new(HazardKind::OutOfBounds, blame.warp, blame.pc, what);
        self.hazard(found.lane(u32::from(blame.lane)).at(address))
    }

    /// Checks an ordinary access to shared memory and records it.
    pub fn note_shared(
        &mut self,
        w: usize,
        block: usize,
        offset: u32,
        bytes: u32,
        access: Access,
        write: bool,
    ) -> Result<(), Stop> {
        if block != self.warps[w].block {
            self.note_remote(block, access)?;
        }
        let lane = if access.lane == MANY { u32::MAX } else { 1 << access.lane };
        if access.kind != Kind::Barrier {
            let warp = &mut self.warps[w];
            warp.dirty |= lane;
            warp.dirty_epoch = warp.sync;
            warp.unfenced |= lane;
            self.not_a_barrier(w, block, offset, bytes, access)?;
        }
        let is_far = block != self.warps[w].block && !self.warps[w].gathered;
        if is_far && !self.has_begun(block, &self.clocks_of(w, lane)) {
            self.late_start(w, (block, offset), access)?;
        }
        let warps = self.warps_of_block();
        let (warp, shadow) = (&self.warps[w], &mut self.blocks[block].shadow);
        let clocks = warp.clocks_of(lane);
        let who = warp.who(access, &clocks, warps);
        let found = if write { shadow.write(offset, bytes, who) } else { shadow.read(offset, bytes, who) };
        match found {
            Some(c) => self.conflict(w, block, access, c, write),
            None => Ok(()),
        }
    }

    /// Whether a thread with this knowledge knows that a block runs, because it knows any action of one of its warps.
    fn has_begun(&self, block: usize, clocks: &Clocks) -> bool {
        let mut own = self.warps.iter().enumerate().filter(|(_, warp)| warp.block == block);
        own.any(|(timeline, _)| clocks.seen.get(timeline) > 0)
    }

    fn late_start(&mut self, w: usize, (block, offset): (usize, u32), access: Access) -> Result<(), Stop> {
        let what =
            format!("block {block} of the cluster may not have begun: nothing orders its start before this");
        let found = Found::new(HazardKind::LateStart, w, access.pc, what).lane(u32::from(access.lane));
        self.hazard(found.at(super::space::shared_address(block, offset)))
    }

    /// Reports data accesses to an mbarrier, and the reverse.
    pub fn not_a_barrier(
        &mut self,
        w: usize,
        block: usize,
        offset: u32,
        bytes: u32,
        access: Access,
    ) -> Result<(), Stop> {
        let b = &self.blocks[block];
        let (low, high) = b.barrier_range;
        if offset + bytes <= low || offset >= high {
            return Ok(());
        }
        let first = offset / 8 * 8;
        let hit = (first..offset + bytes).step_by(8).find_map(|o| b.mbarriers.get(&o));
        let Some(other) = hit.map(|m| m.init.pc) else {
            return Ok(());
        };
        let what = "memory that holds an mbarrier is accessed as data";
        let found = Found::new(HazardKind::BarrierMisuse, w, access.pc, what).other(other);
        self.hazard(found.lane(u32::from(access.lane)).at(u64::from(offset)))
    }

    /// Remembers an access from another block, and refuses one to a block that has ended.
    pub fn note_remote(&mut self, block: usize, access: Access) -> Result<(), Stop> {
        let b = &mut self.blocks[block];
        if b.live_warps == 0 {
            let rank = block;
            let what = format!("block {rank} of the cluster has ended, its shared memory is gone");
            let w = usize::from(access.timeline).min(self.warps.len() - 1);
            return self.hazard(Found::new(HazardKind::EarlyExit, w, access.pc, what));
        }
        b.touched.insert(access.timeline, access);
        Ok(())
    }

    /// Reports a conflict between an access and an older one.
    pub fn conflict(
        &mut self,
        w: usize,
        block: usize,
        access: Access,
        c: Conflict,
        write: bool,
    ) -> Result<(), Stop> {
        let (kind, message) = describe(access, c, write);
        let mut found = Found::new(kind, w, access.pc, message).lane(u32::from(access.lane));
        if c.fault != Fault::Undefined {
            found = found.other(c.other.pc);
        }
        found.address = Some(super::space::shared_address(block, c.offset));
        self.hazard(found)
    }
}

fn describe(new: Access, c: Conflict, write: bool) -> (HazardKind, String) {
    let verb = |w: bool| if w { "write" } else { "read" };
    let (now, before) = (verb(write), verb(c.other_writes));
    let name = |k: Kind| match k {
        Kind::Generic | Kind::ReadOnly => "ordinary",
        Kind::Strong(_) => "strong",
        Kind::Copy | Kind::Async => "asynchronous",
        Kind::Barrier | Kind::Ended => "mbarrier",
    };
    let barrier = |k: Kind| matches!(k, Kind::Barrier | Kind::Ended);
    let asynchronous = |k: Kind| matches!(k, Kind::Async | Kind::Copy);
    match c.fault {
        Fault::Undefined => (
            HazardKind::UninitialisedMemory,
            format!("{} read of shared memory that nobody wrote", name(new.kind)),
        ),
        Fault::Lanes => (
            HazardKind::LaneRace,
            format!("{now} after another lane's {before} without a warp synchronisation"),
        ),
        Fault::Proxy => (
            HazardKind::MissingProxyFence,
            format!("asynchronous {now} after a generic {before} without fence.proxy.async"),
        ),
        Fault::Unordered if barrier(new.kind) || barrier(c.other.kind) => (
            HazardKind::BarrierMisuse,
            format!("{} {now} and {} {before} are not ordered", name(new.kind), name(c.other.kind)),
        ),
        Fault::Unordered if asynchronous(new.kind) || asynchronous(c.other.kind) => (
            HazardKind::InFlight,
            format!("{} {now} is not ordered after {} {before}", name(new.kind), name(c.other.kind)),
        ),
        Fault::Unordered => {
            (HazardKind::SharedRace, format!("{now} and {before} of shared memory are not ordered"))
        }
    }
}

/// The lane to name for an access by several.
pub(crate) fn lane_of(mask: u32) -> u8 {
    if mask.count_ones() == 1 { mask.trailing_zeros() as u8 } else { MANY }
}
