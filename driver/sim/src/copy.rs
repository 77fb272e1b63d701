//! `cp.async` in its groups, and the arrival that follows it.

use super::access::{Blame, Target};
use super::exec::Flow;
use super::inst::{Addr, Inst, Space};
use super::machine::{Machine, Reason, Stop};
use super::shadow::{Kind, Who};
use super::state::{ArriveTask, Copied, CopyTask, Operation, Stage, Task};
use super::values::lanes;

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
        self.warps[w].copies.open.push(id);
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
                let access = op.access(Kind::Copy);
                self.note_global(blame, (p.source, p.read), access, Some(op), false)?;
            }
            let mut access = op.access(Kind::Copy);
            access.lane = p.lane;
            let who = Who { access, clocks: &op.start };
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

    pub fn cp_async_commit(&mut self, w: usize) -> Result<Flow, Stop> {
        let groups = &mut self.warps[w].copies;
        let open = std::mem::take(&mut groups.open);
        groups.committed.push_back(open);
        Ok(Flow::Next)
    }

    pub fn cp_async_wait(&mut self, w: usize, pending: Option<u32>, mask: u32) -> Result<Flow, Stop> {
        let groups = &self.warps[w].copies;
        let keep = pending.unwrap_or(0) as usize;
        let retire = groups.committed.len().saturating_sub(keep);
        let mut ids: Vec<u64> = groups.committed.iter().take(retire).flatten().copied().collect();
        if pending.is_none() {
            ids.extend(&groups.open);
        }
        if !self.reached(&ids, Stage::Done) {
            return Ok(Flow::Wait(Reason::Copy));
        }
        self.learn(w, mask, &ids, Stage::Done);
        self.forget(&ids);
        let groups = &mut self.warps[w].copies;
        groups.committed.drain(..retire);
        if pending.is_none() {
            groups.open.clear();
        }
        Ok(Flow::Next)
    }

    pub fn cp_async_arrive(&mut self, w: usize, addr: Addr, noinc: bool, mask: u32) -> Result<Flow, Stop> {
        let a = self.addresses(w, addr, mask)?;
        let mut at = Vec::new();
        for l in lanes(mask) {
            if let Some(b) = self.local_barrier(w, l, a[l])? {
                if !noinc && let Some(m) = self.blocks[b.block].mbarriers.get_mut(&b.offset) {
                    m.pending += 1;
                }
                at.push(b);
            }
        }
        let groups = &self.warps[w].copies;
        let copies = groups.committed.iter().flatten().chain(&groups.open).copied().collect();
        self.issue(w, mask, Task::Arrive(ArriveTask { at, copies }))?;
        Ok(Flow::Next)
    }

    pub fn run_arrive(&mut self, op: &Operation, task: &ArriveTask) -> Result<Stage, Stop> {
        let mut clocks = super::clock::Clocks::default();
        for id in &task.copies {
            if let Some(c) = self.operations.get(id) {
                clocks.seen.raise(c.timeline, c.clock);
            }
        }
        for at in &task.at {
            self.arrive_for(op.warp, op.pc, *at, 1, &clocks)?;
        }
        Ok(Stage::Done)
    }
}
