//! Mbarriers: phases, pending arrivals, transaction counts, and who learns what from them.
//!
//! ```text
//!  arrive ──► pending - 1 ┐                      ┌ phase + 1, pending = count
//!  expect_tx ► tx + bytes ├─ pending 0 and tx 0 ─┤
//!  copy done ► tx - bytes ┘                      └ waiters see what was released into the phase
//! ```
//! Source: PTX ISA, "Parallel synchronization and communication instructions: mbarrier".

use super::access::{Blame, Target};
use super::clock::Clocks;
use super::exec::Flow;
use super::hazard::HazardKind;
use super::inst::{Addr, Arrive, Space, Src, Wait};
use super::launch::Adversary;
use super::machine::{Found, Machine, Reason, Stop};
use super::shadow::Kind;
use super::state::{BarrierAt, Mbarrier, Released, WaitFor};
use super::values::lanes;

/// The largest count and transaction count of an mbarrier.
const LIMIT: i64 = (1 << 20) - 1;

impl Machine<'_> {
    /// The place of an mbarrier operand.
    fn barrier_at(
        &mut self,
        w: usize,
        lane: usize,
        address: u64,
        cluster: bool,
    ) -> Result<Option<BarrierAt>, Stop> {
        let blame = Blame { warp: w, lane: lane as u8, pc: self.pc(w) };
        let space = match (cluster, address >= super::space::GENERIC_SHARED) {
            (_, true) => Space::Generic,
            (true, _) => Space::SharedCluster,
            _ => Space::Shared,
        };
        match self.resolve(blame, space, address, 8)? {
            Some(Target::Shared { block, offset }) => Ok(Some(BarrierAt { block, offset })),
            Some(_) => {
                self.outside(blame, address, 8)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// A barrier that was initialised, visibly to this warp.
    fn use_barrier(&mut self, w: usize, lane: usize, at: BarrierAt) -> Result<bool, Stop> {
        let pc = self.pc(w);
        let Some(b) = self.blocks[at.block].mbarriers.get(&at.offset) else {
            let what = "an mbarrier that was not initialised";
            let found = Found::new(HazardKind::BarrierMisuse, w, pc, what);
            self.hazard(found.lane(lane as u32).at(u64::from(at.offset)))?;
            return Ok(false);
        };
        let init = b.init;
        let clocks = self.clocks_of(w, 1 << lane);
        let t = usize::from(init.timeline);
        let visible = clocks.seen.get(t) >= init.clock || clocks.inits.get(t) >= init.clock;
        if !visible {
            let what = "the initialisation of the mbarrier is not ordered before its use";
            let found = Found::new(HazardKind::BarrierMisuse, w, pc, what);
            self.hazard(found.lane(lane as u32).at(u64::from(at.offset)).other(init.pc))?;
        }
        Ok(true)
    }

    pub fn mbar_init(&mut self, w: usize, addr: Addr, count: Src, mask: u32) -> Result<Flow, Stop> {
        let (a, c) = (self.addresses(w, addr, mask)?, self.get(w, count, mask)?);
        let pc = self.pc(w);
        for l in lanes(mask) {
            let Some(at) = self.barrier_at(w, l, a[l], false)? else {
                continue;
            };
            let count = i64::from(c[l] as u32);
            if !(1..=LIMIT).contains(&count) {
                let what = format!("an mbarrier of {count} arrivals; 1 to {LIMIT} are possible");
                self.hazard(Found::new(HazardKind::BadOperand, w, pc, what).lane(l as u32))?;
            }
            let access = self.access(w, l as u8, Kind::Barrier);
            if let Some(old) = self.blocks[at.block].mbarriers.get(&at.offset) {
                let other = old.init.pc;
                let what = "an mbarrier is initialised again without mbarrier.inval";
                let found = Found::new(HazardKind::BarrierMisuse, w, pc, what).other(other);
                self.hazard(found.lane(l as u32).at(u64::from(at.offset)))?;
            }
            self.note_shared(w, at.block, at.offset, 8, access, true)?;
            let barrier = Mbarrier {
                count,
                pending: count,
                transactions: 0,
                phase: 0,
                current: Released::default(),
                done: Released::default(),
                init: access,
                last: pc,
            };
            let b = &mut self.blocks[at.block];
            b.mbarriers.insert(at.offset, barrier);
            b.barrier_range.0 = b.barrier_range.0.min(at.offset);
            b.barrier_range.1 = b.barrier_range.1.max(at.offset + 8);
        }
        Ok(Flow::Next)
    }

    pub fn mbar_inval(&mut self, w: usize, addr: Addr, mask: u32) -> Result<Flow, Stop> {
        let a = self.addresses(w, addr, mask)?;
        for l in lanes(mask) {
            let Some(at) = self.barrier_at(w, l, a[l], false)? else {
                continue;
            };
            if self.use_barrier(w, l, at)? {
                self.blocks[at.block].mbarriers.remove(&at.offset);
                self.blocks[at.block].shadow.forget(at.offset, 8);
            }
        }
        Ok(Flow::Next)
    }

    pub fn mbar_arrive(&mut self, w: usize, a: &Arrive, mask: u32) -> Result<Flow, Stop> {
        let addresses = self.addresses(w, a.addr, mask)?;
        let counts = self.get(w, a.count, mask)?;
        let bytes = match a.expect {
            Some(s) => Some(self.get(w, s, mask)?),
            None => None,
        };
        let mut states = [0; 32];
        for l in lanes(mask) {
            let Some(at) = self.barrier_at(w, l, addresses[l], a.cluster)? else {
                continue;
            };
            if !self.use_barrier(w, l, at)? {
                continue;
            }
            states[l] = self.blocks[at.block].mbarriers.get(&at.offset).map_or(0, |b| b.phase);
            if let Some(bytes) = &bytes {
                self.expect((w, l), at, i64::from(bytes[l] as u32))?;
            }
            if !a.relaxed {
                self.release(w, mask, at, a.wide);
            }
            if a.drop
                && let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset)
            {
                b.count -= 1;
            }
            self.arrive(w, l, at, i64::from(counts[l] as u32))?;
        }
        self.tick(w);
        self.warps[w].arrived_whole |= mask == self.warps[w].live;
        if let Some(d) = a.state {
            self.put(w, d, &states, mask)?;
        }
        Ok(Flow::Next)
    }

    /// Publishes what the warp knows through a barrier. An arrival on another block's barrier with
    /// the scope of a block carries only completed asynchronous operations.
    fn release(&mut self, w: usize, mask: u32, at: BarrierAt, wide: bool) {
        let first = self.first_async();
        let foreign = self.warps[w].block != at.block;
        let clocks = &self.known_to(w, mask);
        let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) else {
            return;
        };
        if !foreign {
            b.current.near.join(clocks);
        } else {
            b.current.near.join_async(clocks, first);
            if wide {
                b.current.far.join(clocks);
            }
        }
    }

    fn arrive(&mut self, w: usize, lane: usize, at: BarrierAt, n: i64) -> Result<(), Stop> {
        let pc = self.pc(w);
        if self.warps[w].block != at.block {
            let access = self.access(w, lane as u8, Kind::Barrier);
            if self.blocks[at.block].live_warps == 0 {
                self.note_remote(at.block, access)?;
            }
            let b = &mut self.blocks[at.block];
            let phase = b.mbarriers.get(&at.offset).map_or(0, |b| b.phase);
            b.remote.push((at.offset, phase, access));
        }
        let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) else {
            return Ok(());
        };
        b.pending -= n;
        let (pending, count, last) = (b.pending, b.count, b.last);
        b.last = pc;
        if pending < 0 {
            let what =
                format!("an arrival of {n} on an mbarrier that has all its {count} arrivals of the phase");
            let found = Found::new(HazardKind::OverArrival, w, pc, what).lane(lane as u32);
            self.hazard(found.at(u64::from(at.offset)).other(last))?;
        }
        self.complete_phase(at);
        Ok(())
    }

    /// Raises the transaction count.
    fn expect(&mut self, (w, lane): (usize, usize), at: BarrierAt, bytes: i64) -> Result<(), Stop> {
        let pc = self.pc(w);
        if let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) {
            b.transactions += bytes;
            let (now, init) = (b.transactions, b.init.pc);
            if now > LIMIT || bytes < 0 {
                let what = format!("{bytes} bytes expected, {now} in all; an mbarrier counts to {LIMIT}");
                let found = Found::new(HazardKind::TransactionCount, w, pc, what);
                self.hazard(found.lane(lane as u32).at(u64::from(at.offset)).other(init))?;
            }
        }
        Ok(())
    }

    pub fn mbar_expect(
        &mut self,
        w: usize,
        addr: Addr,
        bytes: Src,
        complete: bool,
        mask: u32,
    ) -> Result<Flow, Stop> {
        let (a, n) = (self.addresses(w, addr, mask)?, self.get(w, bytes, mask)?);
        for l in lanes(mask) {
            let Some(at) = self.barrier_at(w, l, a[l], true)? else {
                continue;
            };
            if self.use_barrier(w, l, at)? {
                let n = i64::from(n[l] as u32);
                if complete {
                    self.transact(at, n);
                } else {
                    self.expect((w, l), at, n)?;
                    self.complete_phase(at);
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Lowers the transaction count by bytes that have come.
    pub fn transact(&mut self, at: BarrierAt, bytes: i64) -> bool {
        let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) else {
            return false;
        };
        b.transactions -= bytes;
        let ok = b.transactions >= -LIMIT;
        self.complete_phase(at);
        ok
    }

    /// Ends the phase when nothing is pending.
    pub fn complete_phase(&mut self, at: BarrierAt) {
        let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) else {
            return;
        };
        if b.pending > 0 || b.transactions != 0 {
            return;
        }
        b.phase += 1;
        b.pending = b.count;
        let current = std::mem::take(&mut b.current);
        b.done.near.join(&current.near);
        b.done.far.join(&current.far);
        self.progress += 1;
    }

    /// An arrival that an asynchronous operation makes for a warp.
    pub fn arrive_for(
        &mut self,
        w: usize,
        pc: u32,
        at: BarrierAt,
        n: i64,
        clocks: &Clocks,
    ) -> Result<(), Stop> {
        let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) else {
            return Ok(());
        };
        b.current.near.join(clocks);
        b.pending -= n;
        let (pending, last) = (b.pending, b.last);
        b.last = pc;
        if pending < 0 {
            let what = "an asynchronous arrival on an mbarrier that has all arrivals of its phase";
            let found = Found::new(HazardKind::OverArrival, w, pc, what).other(last);
            self.hazard(found.at(u64::from(at.offset)))?;
        }
        self.complete_phase(at);
        Ok(())
    }

    pub fn mbar_wait(&mut self, w: usize, m: &Wait, mask: u32) -> Result<Flow, Stop> {
        let (a, phase) = (self.addresses(w, m.addr, mask)?, self.get(w, m.phase, mask)?);
        let pc = self.pc(w);
        let (mut done, mut places, mut refused) = (0u32, Vec::new(), None);
        for l in lanes(mask) {
            let Some(at) = self.barrier_at(w, l, a[l], false)? else {
                continue;
            };
            if places.last() != Some(&at) && !self.use_barrier(w, l, at)? {
                continue;
            }
            let now = self.blocks[at.block].mbarriers.get(&at.offset).map_or(0, |b| b.phase);
            let over = if m.parity { now & 1 != phase[l] & 1 } else { now > phase[l] };
            done |= u32::from(over) << l;
            if over {
                places.push(at);
                places.dedup();
            } else {
                refused = Some((at, phase[l]));
            }
        }
        if let Some((at, phase)) = refused
            && self.blocks_here(w, (pc, at.offset, phase), m.blocking)
        {
            return Ok(Flow::Wait(Reason::Mbarrier {
                block: at.block,
                offset: at.offset,
                phase,
                parity: m.parity,
            }));
        }
        for at in places {
            self.acquire(w, done, at, m);
        }
        if let Some(d) = m.d {
            self.put_predicate(w, d, done, mask);
        }
        let whole = done == self.warps[w].live && self.warps[w].arrived_whole;
        if whole && !m.relaxed {
            self.sync_warp(w);
        }
        Ok(if done == mask { Flow::Next } else { Flow::Yield })
    }

    /// Whether a wait that is not over holds the warp: `try_wait` may wait or give up, and both are
    /// tried; the second refusal in a row without any progress always holds.
    fn blocks_here(&mut self, w: usize, wait_for: WaitFor, may_wait: bool) -> bool {
        let progress = self.progress;
        let wait = match self.options.order {
            Adversary::Earliest => false,
            _ => may_wait && self.random.below(4) != 0,
        };
        let warp = &mut self.warps[w];
        let again = warp.refused == Some((wait_for, progress));
        if again || (wait && !warp.forced) {
            return true;
        }
        warp.forced = false;
        warp.refused = Some((wait_for, progress));
        false
    }

    fn acquire(&mut self, w: usize, mask: u32, at: BarrierAt, m: &Wait) {
        let first = self.first_async();
        let block = &mut self.blocks[at.block];
        let Some(b) = block.mbarriers.get(&at.offset) else {
            return;
        };
        let phase = b.phase;
        block.remote.retain(|(o, p, _)| *o != at.offset || *p >= phase);
        if m.relaxed {
            return;
        }
        let done = b.done.clone();
        self.tell(w, mask, |clocks| {
            clocks.join(&done.near);
            if m.wide {
                clocks.join(&done.far);
            } else {
                clocks.join_async(&done.far, first);
            }
        });
        self.warps[w].refused = None;
    }
}
