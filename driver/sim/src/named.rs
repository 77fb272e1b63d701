//! Barriers of a block (`bar`, `barrier`), of a warp and of the cluster, fences and the register
//! pool.

use super::exec::Flow;
use super::hazard::HazardKind;
use super::inst::{BarMode, FenceKind, Inst, Scope, Src};
use super::launch::ProxyFence;
use super::machine::{ClusterWait, Found, Machine, NamedWait, Reason, State, Stop};

impl Machine<'_> {
    pub fn named(&mut self, w: usize, inst: &Inst, mask: u32) -> Result<Flow, Stop> {
        let Inst::Bar { id, count, mode, aligned, d, p, dp } = inst else {
            return Ok(Flow::Next);
        };
        if let Some(wait) = self.warps[w].at_named.clone() {
            let Some(votes) = wait.released else {
                return Ok(Flow::Wait(Reason::Named(wait.id)));
            };
            self.warps[w].at_named = None;
            if let Some(d) = d {
                self.put(w, *d, &[u64::from(votes); 32], mask)?;
            }
            if let Some(p) = dp {
                self.put_predicate(w, *p, if votes != 0 { u32::MAX } else { 0 }, mask);
            }
            return Ok(Flow::Next);
        }
        if *aligned {
            self.aligned(w, mask)?;
        }
        let id = self.get_uniform(w, *id, mask)?;
        if id > 15 {
            let what = format!("barrier {id}; a block has 0 to 15");
            self.hazard(Found::new(HazardKind::BadOperand, w, self.pc(w), what))?;
            return Ok(Flow::Next);
        }
        let count = match count {
            Some(c) => Some(self.get_uniform(w, *c, mask)? as u32),
            None => None,
        };
        let votes = match p {
            Some(b) => self.boolean(w, *b, mask)? & mask,
            None => 0,
        };
        let threads = if mask == self.warps[w].live { 32 } else { mask.count_ones() };
        self.arrive_named(w, id as u32, count, *mode, threads, (votes, mask))
    }

    fn arrive_named(
        &mut self,
        w: usize,
        id: u32,
        count: Option<u32>,
        mode: BarMode,
        threads: u32,
        (votes, mask): (u32, u32),
    ) -> Result<Flow, Stop> {
        let (block, pc) = (self.warps[w].block, self.pc(w));
        let expected = count.unwrap_or(self.blocks[block].live_warps * 32);
        if expected == 0 || !expected.is_multiple_of(32) || expected > 1024 {
            let what =
                format!("barrier {id} with {expected} threads; a multiple of 32 up to 1024 is possible");
            self.hazard(Found::new(HazardKind::BadOperand, w, pc, what))?;
        }
        let known = self.known_to(w, mask);
        let b = &mut self.blocks[block].named[id as usize];
        let first = b.expected.is_none();
        let before = *b.expected.get_or_insert(expected);
        let other = b.pc;
        if first {
            b.pc = pc;
            b.whole = count.is_none();
            b.votes = (0, true, false);
        }
        b.arrived += threads;
        b.clocks.join(&known);
        b.votes.0 += votes.count_ones();
        b.votes.1 &= votes == mask;
        b.votes.2 |= votes != 0;
        let arrived = b.arrived;
        if before != expected {
            let what = format!("barrier {id} expects {before} threads, this arrival says {expected}");
            self.hazard(Found::new(HazardKind::OverArrival, w, pc, what).other(other))?;
        } else if arrived > before {
            let what = format!("{arrived} threads arrive on barrier {id}, which expects {before}");
            self.hazard(Found::new(HazardKind::OverArrival, w, pc, what).other(other))?;
        }
        self.tick(w);
        if mode != BarMode::Arrive {
            self.blocks[block].named[id as usize].waiting.push(w);
            self.warps[w].at_named = Some(NamedWait { id, released: None });
        }
        self.complete_named(block, id, mode);
        if mode == BarMode::Arrive {
            return Ok(Flow::Next);
        }
        // Executed once more at once where it completed.
        let done = self.warps[w].at_named.as_ref().is_some_and(|n| n.released.is_some());
        Ok(if done { Flow::Jumped } else { Flow::Wait(Reason::Named(id)) })
    }

    /// Releases a barrier whose threads are all there.
    fn complete_named(&mut self, block: usize, id: u32, mode: BarMode) {
        let b = &mut self.blocks[block].named[id as usize];
        if b.expected.is_none_or(|e| b.arrived < e) {
            return;
        }
        let b = std::mem::take(b);
        let votes = match mode {
            BarMode::Popc => b.votes.0,
            BarMode::And => u32::from(b.votes.1),
            _ => u32::from(b.votes.2),
        };
        for w in b.waiting {
            self.sync_warp(w);
            let warp = &mut self.warps[w];
            warp.clocks.join(&b.clocks);
            if let Some(n) = &mut warp.at_named {
                n.released = Some(votes);
            }
        }
        self.progress += 1;
    }

    /// A warp has ended: barriers over all threads of the block expect fewer.
    pub fn shrink_named(&mut self, block: usize) {
        let live = self.blocks[block].live_warps * 32;
        for id in 0..16 {
            let b = &mut self.blocks[block].named[id as usize];
            if b.whole && b.expected.is_some() && live > 0 {
                b.expected = Some(live);
                self.complete_named(block, id, BarMode::Sync);
            }
        }
    }

    pub fn warp_sync(&mut self, w: usize, members: Src, mask: u32) -> Result<Flow, Stop> {
        let members = self.get_uniform(w, members, mask)? as u32;
        let live = self.warps[w].live;
        if members & live != mask {
            let what = format!("lanes {mask:#x} execute bar.warp.sync of lanes {members:#x}");
            self.divergence(w, mask.trailing_zeros(), what)?;
        }
        if mask == live {
            self.sync_warp(w);
        }
        Ok(Flow::Next)
    }

    pub fn cluster_arrive(
        &mut self,
        w: usize,
        relaxed: bool,
        aligned: bool,
        mask: u32,
    ) -> Result<Flow, Stop> {
        if aligned {
            self.aligned(w, mask)?;
        }
        let pc = self.pc(w);
        let generation = self.barrier.generation;
        let known = self.known_to(w, mask);
        let warp = &mut self.warps[w];
        let (twice, before) = (warp.cluster.arrived & mask, warp.cluster.pc);
        warp.cluster.arrived |= mask;
        warp.cluster.generation = generation;
        warp.cluster.pc = pc;
        let released = if relaxed { &warp.fenced[Scope::Cluster as usize] } else { &known };
        self.barrier.pending.join(released);
        if twice != 0 {
            let what = "a second barrier.cluster.arrive without a wait between";
            let found = Found::new(HazardKind::OverArrival, w, pc, what).other(before);
            self.hazard(found.lane(twice.trailing_zeros()))?;
        }
        self.tick(w);
        self.complete_cluster();
        Ok(Flow::Next)
    }

    /// Completes the cluster's barrier when every live thread has arrived.
    pub fn complete_cluster(&mut self) {
        let generation = self.barrier.generation;
        let here = |w: &super::machine::Warp| {
            w.live == 0 || (w.cluster.generation == generation && w.live & !w.cluster.arrived == 0)
        };
        if !self.warps.iter().all(here) || !self.warps.iter().any(|w| w.live != 0) {
            return;
        }
        self.barrier.generation += 1;
        let pending = std::mem::take(&mut self.barrier.pending);
        self.barrier.released.join(&pending);
        self.progress += 1;
    }

    pub fn cluster_wait(&mut self, w: usize, aligned: bool, mask: u32) -> Result<Flow, Stop> {
        if aligned {
            self.aligned(w, mask)?;
        }
        let warp = &self.warps[w];
        let missing = mask & !warp.cluster.arrived;
        if missing != 0 {
            let what = "barrier.cluster.wait without an arrive before it";
            let found = Found::new(HazardKind::BarrierMisuse, w, self.pc(w), what);
            self.hazard(found.lane(missing.trailing_zeros()))?;
            return Ok(Flow::Next);
        }
        if warp.cluster.generation == self.barrier.generation {
            return Ok(Flow::Wait(Reason::Cluster));
        }
        let released = self.barrier.released.clone();
        self.tell(w, mask, |clocks| clocks.join(&released));
        let warp = &mut self.warps[w];
        warp.gathered = true;
        warp.cluster.waited |= mask;
        if warp.cluster.waited & warp.live == warp.live {
            warp.cluster = ClusterWait::default();
            self.sync_warp(w);
        }
        Ok(Flow::Next)
    }

    pub fn fence(&mut self, w: usize, kind: FenceKind, mask: u32) -> Result<Flow, Stop> {
        let first = self.first_async();
        let path = self.options.proxy_fence == ProxyFence::Path;
        self.acquire_fenced(w, kind, mask);
        let known = self.known_to(w, mask);
        let warp = &mut self.warps[w];
        match kind {
            FenceKind::ProxyAsync => {
                let seen = known.seen;
                // A lane's fence covers what that lane touched, and is the others' from the next
                // synchronisation on.
                warp.fenced_lanes |= warp.unfenced & mask;
                warp.unfenced &= !mask & warp.live;
                let own = warp.clocks.settled.get(w);
                warp.clocks.settled.join(&seen);
                warp.clocks.settled.lower(w, own);
                if warp.unfenced == 0 {
                    warp.clocks.proxied.raise(w, warp.clock);
                    warp.clocks.settled.raise(w, warp.clock);
                }
                warp.clocks.inits.raise(w, warp.clock);
                if path {
                    warp.clocks.inits.join(&seen);
                }
                // Of copies by threads it covers what its own thread has seen complete.
                self.tell(w, mask, |c| c.proxied.join_from(&seen, if path { 0 } else { first }));
            }
            FenceKind::MbarrierInit => {
                warp.clocks.inits.raise(w, warp.clock);
                let inits = &warp.clocks.inits;
                warp.fenced.iter_mut().for_each(|f| f.inits.join(inits));
            }
            FenceKind::Memory(scope) => scope.up_to().for_each(|s| warp.fenced[s as usize].join(&known)),
            FenceKind::Other => return Ok(Flow::Next),
        }
        self.tick(w);
        Ok(Flow::Next)
    }

    /// Whether a warp may run now.
    pub fn runnable(&self, w: usize) -> bool {
        match &self.warps[w].state {
            State::Ready => true,
            State::Blocked(at, _) => *at != self.progress,
            State::Done => false,
        }
    }
}
