//! The ends of lanes, warps and blocks.

use super::hazard::HazardKind;
use super::machine::{Found, Machine, Reason, State, Stop};
use super::mask::lanes;
use super::shadow::{Kind, MANY};

impl Machine<'_> {
    /// Ends lanes.
    pub fn exit_lanes(&mut self, w: usize, mask: u32) -> Result<(), Stop> {
        self.warps[w].live &= !mask;
        self.promote(w);
        if self.warps[w].live == 0 {
            return self.finish_warp(w);
        }
        Ok(())
    }

    /// Ends a warp, and its block if it was the last warp.
    pub fn finish_warp(&mut self, w: usize) -> Result<(), Stop> {
        if self.warps[w].state == State::Done {
            return Ok(());
        }
        let warp = &mut self.warps[w];
        warp.state = State::Done;
        warp.live = 0;
        let block = warp.block;
        let mut clocks = warp.clocks.clone();
        // The knowledge of any lane at its end counts for the block.
        warp.partial.iter().for_each(|(_, c)| clocks.join(c));
        clocks.seen.join_parts(&warp.own, u32::MAX);
        let b = &mut self.blocks[block];
        b.ended.join(&clocks);
        b.live_warps -= 1;
        let last = b.live_warps == 0;
        self.progress += 1;
        if last {
            self.end_block(w, block)?;
        } else {
            self.shrink_named(block);
        }
        self.complete_cluster();
        Ok(())
    }

    /// All accesses to the block's shared memory must be known to be complete.
    fn end_block(&mut self, w: usize, block: usize) -> Result<(), Stop> {
        self.report.blocks += 1;
        self.check_changes(block)?;
        let pc = self.launch.entry.code.len().saturating_sub(1) as u32;
        let unmet = self.blocks[block].named.iter().position(|n| n.arrived > 0);
        if let Some(id) = unmet {
            let n = &self.blocks[block].named[id];
            let what = format!(
                "a block ends while {} threads have arrived on barrier {id}, which nobody completes",
                n.arrived
            );
            let at = n.pc;
            self.hazard(Found::new(HazardKind::BarrierMisuse, w, pc, what).other(at))?;
        }
        let b = &self.blocks[block];
        let known = |t: u16, clock: u32| b.ended.seen.get(usize::from(t)) >= clock;
        let mut open: Vec<_> = b.touched.values().filter(|a| !known(a.timeline, a.clock)).copied().collect();
        let remote = b.remote.iter().map(|r| r.2).filter(|a| !known(a.timeline, a.clock));
        open.extend(remote);
        open.sort_by_key(|a| (a.pc, a.timeline));
        for a in open {
            let what = match a.kind {
                Kind::Barrier | Kind::Ended => {
                    "a block ends while another block's arrival on its mbarrier may still come"
                }
                Kind::Async | Kind::Copy => {
                    "a block ends while an asynchronous operation may still use its shared memory"
                }
                Kind::Generic | Kind::ReadOnly | Kind::Strong(_) => {
                    "a block ends while another block may still access its shared memory"
                }
            };
            let lane = if a.lane == MANY { 0 } else { u32::from(a.lane) };
            self.hazard(Found::new(HazardKind::EarlyExit, w, pc, what).lane(lane).other(a.pc))?;
        }
        Ok(())
    }

    /// The deadlock's description: every waiting warp and every barrier.
    pub fn deadlock(&mut self) -> Result<(), Stop> {
        let mut text = "no thread can go on".to_owned();
        let mut first = None;
        for (w, warp) in self.warps.iter().enumerate() {
            if warp.state == State::Done {
                continue;
            }
            first.get_or_insert(w);
            let site = self.site(self.pc(w));
            let id = self.blocks[warp.block].id;
            let why = self.reason(w);
            let lanes = lanes(warp.stack.last().map_or(0, |f| f.mask)).count();
            text += &format!("\n  block {id:?} warp {} ({lanes} lanes) at {site}: {why}", warp.index);
        }
        for b in &self.blocks {
            let mut all: Vec<_> = b.mbarriers.iter().collect();
            all.sort_by_key(|(o, _)| **o);
            for (offset, m) in all {
                text += &format!(
                    "\n  block {:?} mbarrier {offset:#x}: phase {}, {} of {} arrivals missing, {} bytes missing, initialised at {}",
                    b.id,
                    m.phase,
                    m.pending,
                    m.count,
                    m.transactions,
                    self.site(m.init.pc)
                );
            }
        }
        let w = first.unwrap_or(0);
        let mut found = Found::new(HazardKind::Deadlock, w, self.pc(w), text);
        if let State::Blocked(_, Reason::Mbarrier { block, offset, .. }) = &self.warps[w].state
            && let Some(b) = self.blocks[*block].mbarriers.get(offset)
        {
            found = found.at(u64::from(*offset)).other(b.init.pc);
        }
        self.hazard(found)
    }

    fn reason(&self, w: usize) -> String {
        match &self.warps[w].state {
            State::Ready => "polls without progress".to_owned(),
            State::Done => "done".to_owned(),
            State::Blocked(_, r) => match r {
                Reason::Mbarrier { block, offset, phase, parity } => {
                    let kind = if *parity { "parity" } else { "phase" };
                    format!("waits for {kind} {phase} of mbarrier {offset:#x} of rank {block}")
                }
                Reason::Named(id) => {
                    let b = &self.blocks[self.warps[w].block].named[*id as usize];
                    let expected = b.expected.unwrap_or(0);
                    format!("waits at barrier {id}: {} of {expected} threads are there", b.arrived)
                }
                Reason::Cluster => "waits at the cluster's barrier".to_owned(),
                Reason::Wgmma => "waits for its wgmma, which other warps have not issued".to_owned(),
                Reason::Bulk | Reason::Copy => "waits for its copies".to_owned(),
                Reason::Registers(n) => {
                    let pool = self.blocks[self.warps[w].block].pool;
                    format!("waits for {n} registers a thread; the pool has {pool}")
                }
            },
        }
    }
}
