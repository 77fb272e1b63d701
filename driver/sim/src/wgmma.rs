//! The warpgroup's tensor core: what may touch its registers when, and its groups.
//!
//! A wgmma is issued when all four warps have executed it, runs at a moment of the adversary's
//! choice before the wait that retires its group, and reads shared memory and writes its
//! accumulators then. Source: PTX ISA, "Asynchronous warpgroup level matrix instructions".

use super::clock::Clocks;
use super::exec::Flow;
use super::hazard::HazardKind;
use super::inst::{Bool, Inst, Wgmma, WgmmaA};
use super::machine::{Found, Machine, Reason, Stop};
use super::parts::Parts;
use super::shadow::Kind;
use super::state::{Issue, Operation, Stage, Task, WarpOperands, WarpTensor};

/// A wgmma's parts: one for each warp.
const WARPGROUP: u32 = 0b1111;

impl Machine<'_> {
    /// An ordinary access to a register that some wgmma uses.
    pub fn tensor_touch(&mut self, w: usize, register: usize, write: bool) -> Result<(), Stop> {
        let pc = self.pc(w);
        let t = &mut self.warps[w].tensor;
        let fences = t.fences + 1;
        let r = &mut t.registers[register];
        r.touched = fences;
        if write {
            r.written = fences;
        }
        r.touch_pc = pc;
        let (accumulates, reads) = (r.accumulates > t.retired, write && r.reads > t.retired);
        if !accumulates && !reads {
            return Ok(());
        }
        let other = r.wgmma_pc;
        let name = &self.launch.entry.register_names[register];
        let verb = if write { "written" } else { "read" };
        let what = if accumulates {
            format!("accumulator `{name}` is {verb} while a wgmma may write it")
        } else {
            format!("register `{name}` is written while a wgmma may read it as A")
        };
        self.hazard(Found::new(HazardKind::RegisterInFlight, w, pc, what).other(other))
    }

    pub fn wgmma_fence(&mut self, w: usize, mask: u32) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let t = &mut self.warps[w].tensor;
        t.fences += 1;
        Ok(Flow::Next)
    }

    pub fn wgmma_commit(&mut self, w: usize, mask: u32) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let pc = self.pc(w);
        let t = &mut self.warps[w].tensor;
        t.committed.push_back(t.issued);
        t.closed = Some((t.fences, pc));
        Ok(Flow::Next)
    }

    pub fn wgmma_wait(&mut self, w: usize, pending: u32, mask: u32) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let t = &self.warps[w].tensor;
        let retire = t.committed.len().saturating_sub(pending as usize);
        let Some(target) = retire.checked_sub(1).and_then(|i| t.committed.get(i).copied()) else {
            return Ok(Flow::Next);
        };
        let from = t.retired;
        let first = w - self.warps[w].index as usize % 4;
        let done = |s: u32| self.issuing.get(&(first, s)).is_none_or(|i| i.done);
        if !(from..target).all(done) {
            return Ok(Flow::Wait(Reason::Wgmma));
        }
        for s in from..target {
            self.retire(w, first, s);
        }
        let t = &mut self.warps[w].tensor;
        t.retired = t.retired.max(target);
        t.committed.drain(..retire);
        Ok(Flow::Next)
    }

    fn retire(&mut self, w: usize, first: usize, sequence: u32) {
        let Some(i) = self.issuing.get_mut(&(first, sequence)) else {
            return;
        };
        i.retired += 1;
        let (timeline, clock, last) = (i.timeline, i.clock, i.retired == 4);
        // PTX ISA, `wgmma.wait_group`: the groups of the executing threads are complete, so this warp's part is.
        let warp = &mut self.warps[w];
        warp.clocks.seen.raise_parts(timeline, clock, 1 << (warp.index % 4), WARPGROUP);
        if last {
            self.issuing.remove(&(first, sequence));
        }
    }

    pub fn wgmma(&mut self, w: usize, g: &Wgmma, mask: u32) -> Result<Flow, Stop> {
        self.aligned(w, mask)?;
        let index = self.warps[w].index as usize;
        let first = w - index % 4;
        let block = self.warps[w].block;
        let whole = (index / 4 + 1) * 128 <= self.launch.block as usize;
        if !whole || self.warps[w].live != u32::MAX {
            let what = "a wgmma in a warpgroup of fewer than 128 threads";
            self.hazard(Found::new(HazardKind::Divergence, w, self.pc(w), what))?;
            return Ok(Flow::Next);
        }
        self.check_registers(w, g)?;
        let part = self.part_of(w, g, mask)?;
        self.tick(w);
        let pc = self.pc(w);
        let t = &mut self.warps[w].tensor;
        let sequence = t.issued;
        t.issued += 1;
        mark(t, g, sequence + 1, pc);
        for r in &g.d {
            self.warps[w].defined[*r as usize] = u32::MAX;
        }
        let issue = self.issuing.entry((first, sequence)).or_insert_with(|| Issue {
            pc,
            parts: Default::default(),
            timeline: 0,
            clock: 0,
            done: false,
            retired: 0,
        });
        let other = issue.pc;
        issue.parts[index % 4] = Some(part.clone());
        let differs =
            issue.parts.iter().flatten().any(|p| (p.a, p.b) != (part.a, part.b) || p.scale_d != part.scale_d);
        if other != pc || differs {
            let what = "the warps of a warpgroup disagree on a wgmma";
            self.hazard(Found::new(HazardKind::Disagreement, w, pc, what).other(other))?;
        }
        self.start_wgmma(first, sequence, block)?;
        Ok(Flow::Next)
    }

    fn part_of(&mut self, w: usize, g: &Wgmma, mask: u32) -> Result<WarpOperands, Stop> {
        let a = match g.a_from {
            WgmmaA::Descriptor(s) => Some(self.get_uniform(w, s, mask)?),
            WgmmaA::Registers(_) => None,
        };
        let b = self.get_uniform(w, g.b_desc, mask)?;
        let scale = self.boolean(w, g.scale_d, mask)?;
        if scale != 0 && scale != u32::MAX {
            let what = "lanes disagree on scale-d";
            self.hazard(Found::new(HazardKind::Disagreement, w, self.pc(w), what))?;
        }
        Ok(WarpOperands { a, b, scale_d: scale & 1 == 1, clocks: self.warps[w].clocks.clone() })
    }

    /// All four warps have come: the wgmma may run.
    fn start_wgmma(&mut self, first: usize, sequence: u32, block: usize) -> Result<(), Stop> {
        let Some(issue) = self.issuing.get(&(first, sequence)) else {
            return Ok(());
        };
        let pc = issue.pc;
        let all: Option<Vec<Clocks>> =
            issue.parts.iter().map(|p| p.as_ref().map(|p| p.clocks.clone())).collect();
        let Some(all) = all else { return Ok(()) };
        let mut start = all[0].clone();
        all[1..].iter().for_each(|p| start.meet(p));
        // Owners of warpgroups stand apart from those of warps.
        let owner = self.warps.len() + first;
        let knows = |t: usize, clock: u32| (0..).zip(&all).all(|(part, c)| c.seen.covers(t, clock, part));
        let (timeline, clock) = self.open_timeline(owner, &start.seen, (WARPGROUP, &knows))?;
        if let Some(issue) = self.issuing.get_mut(&(first, sequence)) {
            (issue.timeline, issue.clock) = (timeline, clock);
        }
        let id = self.enqueue(Operation {
            task: Task::Wgmma(first, sequence),
            warp: first,
            lane: 0,
            pc,
            timeline,
            clock,
            start,
            own: Parts::default(),
            lanes_synced: 0,
            waited: 0,
            stage: Stage::Pending,
        });
        self.hold(id, block, Kind::Async);
        Ok(())
    }

    /// The registers must be fenced since their last ordinary access, and defined. Every group begins with a
    /// fence: stricter than the PTX ISA, where products that add to the same accumulators need none between, but
    /// what ptxas asks for (C7519 says where it puts one).
    fn check_registers(&mut self, w: usize, g: &Wgmma) -> Result<(), Stop> {
        let pc = self.pc(w);
        let t = &self.warps[w].tensor;
        let now = t.fences + 1;
        let mut late = g.d.iter().map(|r| (*r, t.registers[*r as usize].touched)).collect::<Vec<_>>();
        if let WgmmaA::Registers(a) = &g.a_from {
            late.extend(a.iter().map(|r| (*r, t.registers[*r as usize].written)));
        }
        if t.fences == 0 {
            let what = "the first wgmma of a warpgroup without a wgmma.fence";
            self.hazard(Found::new(HazardKind::MissingWgmmaFence, w, pc, what))?;
        } else if let Some((_, commit)) = t.closed.filter(|(fences, _)| *fences == t.fences) {
            let what =
                "the first wgmma of a group without a wgmma.fence since the group before was committed";
            self.hazard(Found::new(HazardKind::MissingWgmmaFence, w, pc, what).other(commit))?;
        } else if let Some(other) = self.reshaped(w, g) {
            let what = "an accumulator goes to a wgmma of another shape without a wgmma.fence";
            let found = Found::new(HazardKind::MissingWgmmaFence, w, pc, what);
            self.hazard(found.other(other))?;
        } else if let Some((r, _)) = late.iter().find(|(_, at)| *at == now) {
            let other = t.registers[*r as usize].touch_pc;
            let name = &self.launch.entry.register_names[*r as usize];
            let what = format!("register `{name}` was accessed since the last wgmma.fence");
            self.hazard(Found::new(HazardKind::MissingWgmmaFence, w, pc, what).other(other))?;
        }
        let mut read: Vec<u32> = Vec::new();
        if let WgmmaA::Registers(a) = &g.a_from {
            read.extend(a);
        }
        if self.scale_d(w, g) {
            read.extend(&g.d);
        }
        for r in read {
            if self.warps[w].defined[r as usize] != u32::MAX {
                let name = &self.launch.entry.register_names[r as usize];
                let what = format!("register `{name}` is read by a wgmma before it is written");
                self.hazard(Found::new(HazardKind::UninitialisedRegister, w, pc, what))?;
            }
        }
        Ok(())
    }

    /// An earlier wgmma of another shape on these accumulators, with no fence since.
    fn reshaped(&self, w: usize, g: &Wgmma) -> Option<u32> {
        let t = &self.warps[w].tensor;
        let mut all = g.d.iter().map(|r| &t.registers[*r as usize]);
        all.find(|r| r.accumulates > 0 && r.fenced == t.fences && r.shape != shape(g)).map(|r| r.wgmma_pc)
    }

    fn scale_d(&self, w: usize, g: &Wgmma) -> bool {
        match g.scale_d {
            Bool::Reg(p) => (self.warps[w].predicates[p.id as usize] != 0) != p.neg,
            Bool::Const(b) => b,
        }
    }

    pub fn run_wgmma(&mut self, op: &Operation, first: usize, sequence: u32) -> Result<Stage, Stop> {
        let code = &self.launch.entry.code;
        let Some(issue) = self.issuing.get_mut(&(first, sequence)) else {
            return Ok(Stage::Done);
        };
        issue.done = true;
        let parts = issue.parts.clone();
        if let Some(Inst::Wgmma(g)) = code.get(op.pc as usize).map(|o| &o.inst) {
            self.multiply(op, first, g, &parts)?;
        }
        Ok(Stage::Done)
    }
}

fn shape(g: &Wgmma) -> (u32, bool) {
    (g.n, g.acc == super::inst::Acc::F16)
}

fn mark(t: &mut WarpTensor, g: &Wgmma, number: u32, pc: u32) {
    let fences = t.fences;
    for r in &g.d {
        let r = &mut t.registers[*r as usize];
        r.accumulates = number;
        r.wgmma_pc = pc;
        r.shape = shape(g);
        r.fenced = fences;
    }
    if let WgmmaA::Registers(a) = &g.a_from {
        for r in a {
            let r = &mut t.registers[*r as usize];
            r.reads = number;
            r.wgmma_pc = pc;
        }
    }
}
