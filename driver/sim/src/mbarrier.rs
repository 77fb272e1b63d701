//! Mbarriers: phases, pending arrivals, transaction counts, and the knowledge that they pass on.
//!
//! ```text
//!  arrive ──► pending - 1 ┐                      ┌ phase + 1, pending = count
//!  expect_tx ► tx + bytes ├─ pending 0 and tx 0 ─┤
//!  copy done ► tx - bytes ┘                      └ waiters get the knowledge released into the phase
//! ```
//! Source: PTX ISA, "Parallel synchronization and communication instructions: mbarrier".

use super::access::{Blame, Target};
use super::clock::Clocks;
use super::exec::Flow;
use super::hazard::HazardKind;
use super::inst::{Addr, Arrive, Space, Src, Wait};
use super::launch::Adversary;
use super::machine::{Found, Machine, Reason, Stop};
use super::mask::{first_lane, lanes};
use super::shadow::{Access, Kind};
use super::state::{BarrierAt, Mbarrier, Operation, Released, WaitFor};

/// The largest count and transaction count of an mbarrier.
const LIMIT: i64 = (1 << 20) - 1;

impl Mbarrier {
    /// Remembers a use.
    pub fn used(&mut self, access: Access) {
        match self.uses.iter_mut().find(|a| a.timeline == access.timeline) {
            Some(old) => *old = access,
            None => self.uses.push(access),
        }
    }
}

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
        let access = self.access(w, lane as u8, Kind::Barrier);
        if let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) {
            b.used(access);
        }
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
            self.barriers += 1;
            let barrier = Mbarrier {
                number: self.barriers - 1,
                ender: None,
                uses: Vec::new(),
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
                self.behind_uses(w, l, at)?;
                self.blocks[at.block].mbarriers.remove(&at.offset);
                let access = self.access(w, l as u8, Kind::Ended);
                self.note_shared(w, at.block, at.offset, 8, access, true)?;
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
        let one = lanes(mask).all(|l| addresses[l] == addresses[first_lane(mask)]);
        let mut together = one && !a.relaxed && mask == self.warps[w].live;
        for l in lanes(mask) {
            let Some(at) = self.barrier_at(w, l, addresses[l], a.cluster)? else {
                continue;
            };
            if !self.use_barrier(w, l, at)? {
                continue;
            }
            if std::mem::take(&mut together) {
                self.arrive_together(w, at);
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
        if let Some(d) = a.state {
            self.put(w, d, &states, mask)?;
        }
        Ok(Flow::Next)
    }

    /// Publishes the warp's knowledge through a barrier. An arrival at another block's barrier with block scope carries
    /// only completed asynchronous operations.
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

    /// All lanes of a warp arrive on a barrier: what they did before is theirs together behind the phase.
    fn arrive_together(&mut self, w: usize, at: BarrierAt) {
        let warp = &mut self.warps[w];
        let arrival = (w, warp.sync, warp.clock);
        warp.sync += 1;
        if let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) {
            b.current.whole.push(arrival);
        }
    }

    /// An arrival knows that the phase before its own is over: else it may count there.
    fn knows_phase(&mut self, w: usize, lane: usize, at: BarrierAt) -> Result<(), Stop> {
        let Some(b) = self.blocks[at.block].mbarriers.get(&at.offset) else { return Ok(()) };
        let (phase, last) = (b.phase, b.last);
        let knows = |c: &Clocks| c.phases.get(b.number) >= phase as u32;
        if phase == 0 || b.ender == Some((w, lane)) || knows(&self.clocks_of(w, 1 << lane)) {
            return Ok(());
        }
        self.lost(w, self.pc(w), at, (phase, last, lane))
    }

    fn lost(
        &mut self,
        w: usize,
        pc: u32,
        at: BarrierAt,
        (phase, last, lane): (u64, u32, usize),
    ) -> Result<(), Stop> {
        let what = format!(
            "an arrival in phase {phase} of an mbarrier by a thread that does not know that phase {} is over: it may \
             count in that one",
            phase - 1
        );
        let found = Found::new(HazardKind::OverArrival, w, pc, what).lane(lane as u32);
        self.hazard(found.at(u64::from(at.offset)).other(last))
    }

    /// All uses of a barrier must be ordered before its end.
    fn behind_uses(&mut self, w: usize, lane: usize, at: BarrierAt) -> Result<(), Stop> {
        let Some(b) = self.blocks[at.block].mbarriers.get(&at.offset) else { return Ok(()) };
        let (warp, clocks) = (&self.warps[w], self.clocks_of(w, 1 << lane));
        let ordered = |a: &Access| match usize::from(a.timeline) == w {
            true => usize::from(a.lane) == lane || a.sync <= warp.lanes_synced,
            false => clocks.seen.get(a.timeline.into()) >= a.clock,
        };
        let Some(open) = b.uses.iter().find(|a| !ordered(a)).copied() else { return Ok(()) };
        let what = "an mbarrier is invalidated while another thread may still use it";
        let found = Found::new(HazardKind::BarrierMisuse, w, self.pc(w), what).lane(lane as u32);
        self.hazard(found.at(u64::from(at.offset)).other(open.pc))
    }

    fn arrive(&mut self, w: usize, lane: usize, at: BarrierAt, n: i64) -> Result<(), Stop> {
        let pc = self.pc(w);
        self.knows_phase(w, lane, at)?;
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
        if self.complete_phase(at)
            && let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset)
        {
            b.ender = Some((w, lane));
        }
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
    pub fn complete_phase(&mut self, at: BarrierAt) -> bool {
        let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) else {
            return false;
        };
        if b.pending > 0 || b.transactions != 0 {
            return false;
        }
        b.phase += 1;
        b.pending = b.count;
        let current = std::mem::take(&mut b.current);
        b.done.near.join(&current.near);
        b.done.far.join(&current.far);
        b.done.whole = current.whole;
        b.done.near.phases.raise(b.number, b.phase as u32);
        b.ender = None;
        self.progress += 1;
        true
    }

    /// An arrival that an asynchronous operation makes for a warp.
    pub fn arrive_for(&mut self, op: &Operation, at: BarrierAt, n: i64, clocks: &Clocks) -> Result<(), Stop> {
        let (w, pc) = (op.warp, op.pc);
        let Some(b) = self.blocks[at.block].mbarriers.get_mut(&at.offset) else {
            return Ok(());
        };
        let (phase, before) = (b.phase, b.last);
        let known = phase == 0 || op.start.phases.get(b.number) >= phase as u32;
        b.used(op.access(Kind::Barrier));
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
        if known { Ok(()) } else { self.lost(w, pc, at, (phase, before, 0)) }
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
            self.parities[pc as usize] |= 1 << (phase[l] & 1);
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
            self.meet_behind(w, done, at, m);
        }
        if let Some(d) = m.d {
            self.put_predicate(w, d, done, mask);
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

    /// All lanes have waited for a phase in which all of them arrived.
    fn meet_behind(&mut self, w: usize, mask: u32, at: BarrierAt, m: &Wait) {
        let barrier = self.blocks[at.block].mbarriers.get(&at.offset).filter(|_| !m.relaxed);
        let of = |b: &Mbarrier| b.done.whole.iter().rev().find(|a| a.0 == w).map(|a| (a.1, a.2));
        if let Some(arrival) = barrier.and_then(of).filter(|_| mask == self.warps[w].live) {
            self.sync_from(w, arrival);
        }
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
