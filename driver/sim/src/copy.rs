//! `cp.async` in its groups, and the arrival that follows it.

use super::access::{Blame, Target};
use super::copy_groups::Pending;
use super::exec::Flow;
use super::inst::{Addr, Inst, Space};
use super::machine::{Machine, Reason, Stop};
use super::mask::lanes;
use super::shadow::{Access, Kind};
use super::state::{ArriveTask, Copied, CopyTask, Operation, Stage, Task};

impl Machine<'_> {
    pub fn cp_async(&mut self, w: usize, inst: &Inst, mask: u32) -> Result<Flow, Stop> {
        let Inst::CpAsync { dst, src, bytes, src_bytes, ignore } = inst else {
            return Ok(Flow::Next);
        };
        let (d, s) = (self.addresses(w, *dst, mask)?, self.addresses(w, *src, mask)?);
        let sizes = match src_bytes {
            Some(b) => self.get(w, *b, mask)?,
            None => [u64::from(*bytes); 32],
        };
        let ignored = match ignore {
            Some(b) => self.boolean(w, *b, mask)?,
            None => 0,
        };
        let mut parts = Vec::new();
        for l in lanes(mask) {
            let blame = Blame { warp: w, lane: l as u8, pc: self.pc(w) };
            let space = if d[l] >= super::space::GENERIC_SHARED { Space::Generic } else { Space::Shared };
            let place = self.resolve(blame, space, d[l], *bytes)?;
            let read = if ignored >> l & 1 == 1 { 0 } else { (sizes[l] as u32).min(*bytes) };
            let source = if read == 0 {
                Some(Target::Global(s[l]))
            } else {
                self.resolve(blame, Space::Generic, s[l], *bytes)?
            };
            if let (Some(Target::Shared { block, offset }), Some(Target::Global(source))) = (place, source) {
                parts.push(Copied { lane: l as u8, block, offset, source, bytes: *bytes, read });
            }
        }
        let block = self.warps[w].block;
        let id = self.issue(w, mask, Task::Copy(CopyTask(parts)))?;
        self.hold(id, block, Kind::Copy);
        if let Some(op) = self.operations.get(&id) {
            let copy = Pending { id, timeline: op.timeline, clock: op.clock, lanes: mask };
            self.warps[w].copies.issue(copy);
        }
        Ok(Flow::Next)
    }

    /// A block's memory is in use by an operation until someone there learns of its completion.
    pub fn hold(&mut self, id: u64, block: usize, kind: Kind) {
        if let Some(op) = self.operations.get(&id) {
            let access = op.access(kind);
            self.blocks[block].touched.insert(access.timeline, access);
        }
    }

    pub fn run_copy(&mut self, op: &Operation, task: &CopyTask) -> Result<Stage, Stop> {
        for p in &task.0 {
            let mut bytes = [0; 16];
            let blame = Blame { warp: op.warp, lane: p.lane, pc: op.pc };
            if p.read > 0 {
                self.read_global(blame, p.source, &mut bytes[..p.read as usize])?;
                let access = Access { lane: p.lane, ..op.access(Kind::Copy) };
                self.note_global(blame, (p.source, p.read), access, Some(op), false)?;
            }
            let access = Access { lane: p.lane, ..op.access(Kind::Copy) };
            let who = self.who_issued(op, access);
            let found = self.blocks[p.block].shadow.write(p.offset, p.bytes, who);
            let at = p.offset as usize;
            self.blocks[p.block].shared[at..at + p.bytes as usize]
                .copy_from_slice(&bytes[..p.bytes as usize]);
            if let Some(c) = found {
                self.conflict(op.warp, p.block, access, c, true)?;
            }
        }
        Ok(Stage::Done)
    }

    pub fn cp_async_commit(&mut self, w: usize, mask: u32) -> Result<Flow, Stop> {
        self.warps[w].copies.commit(mask);
        Ok(Flow::Next)
    }

    /// Each lane waits for its own copies, and knows of its own alone that they are complete.
    pub fn cp_async_wait(&mut self, w: usize, pending: Option<u32>, mask: u32) -> Result<Flow, Stop> {
        let awaited = self.warps[w].copies.awaited(mask, pending);
        let done = |p: &Pending| !self.operations.contains_key(&p.id);
        if !awaited.iter().all(|(_, copies)| copies.iter().all(done)) {
            return Ok(Flow::Wait(Reason::Copy));
        }
        let warp = &mut self.warps[w];
        for (lanes, copies) in awaited {
            copies.iter().for_each(|p| warp.own.raise(p.timeline, p.clock, lanes, p.lanes));
        }
        warp.copies.retire(mask, pending);
        Ok(Flow::Next)
    }

    pub fn cp_async_arrive(&mut self, w: usize, addr: Addr, noinc: bool, mask: u32) -> Result<Flow, Stop> {
        let a = self.addresses(w, addr, mask)?;
        let mut at: Vec<(u32, _)> = Vec::new();
        for l in lanes(mask) {
            if let Some(b) = self.local_barrier(w, l, a[l])? {
                if !noinc && let Some(m) = self.blocks[b.block].mbarriers.get_mut(&b.offset) {
                    m.pending += 1;
                }
                match at.iter_mut().find(|(_, known)| *known == b) {
                    Some((lanes, _)) => *lanes |= 1 << l,
                    None => at.push((1 << l, b)),
                }
            }
        }
        let copies = self.warps[w].copies.issued(mask);
        self.issue(w, mask, Task::Arrive(ArriveTask { at, copies }))?;
        Ok(Flow::Next)
    }

    /// The arrivals of some lanes, each of which tells of its own copies.
    pub fn run_arrive(&mut self, op: &Operation, task: &ArriveTask) -> Result<Stage, Stop> {
        for (lanes, at) in &task.at {
            let mut clocks = super::clock::Clocks::default();
            for (of, copies) in &task.copies {
                let part = |p: &Pending| clocks.seen.raise_parts(p.timeline, p.clock, lanes & of, p.lanes);
                copies.iter().for_each(part);
            }
            self.arrive_for(op, *at, i64::from(lanes.count_ones()), &clocks)?;
        }
        Ok(Stage::Done)
    }
}
