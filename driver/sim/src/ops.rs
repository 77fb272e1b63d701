//! Asynchronous operations: their timelines and their steps.
//!
//! An operation starts with its issuer's knowledge and acts at a moment that the adversary chooses. Threads that
//! observe its completion know it. Each operation runs on a timeline. One timeline serves several operations in turn,
//! if each issuer knows that the preceding one is complete.

use super::classes::Rule;
use super::clock::Clock;
use super::hazard::SimError;
use super::machine::{Machine, Reason, State, Stop};
use super::mask::lanes;
use super::state::{Operation, Stage, Task, Timeline};

impl Machine<'_> {
    /// A timeline whose last operation is known to be complete, and the next clock on it. Of an operation in parts
    /// it is enough that each thread knows its part of one with the same parts: `knows` says so.
    pub fn open_timeline(
        &mut self,
        owner: usize,
        seen: &Clock,
        (parts, knows): (u32, &dyn Fn(usize, u32) -> bool),
    ) -> Result<(usize, u32), Stop> {
        let first = self.first_async();
        let free = (first..self.timelines.len()).find(|t| {
            let line = &self.timelines[*t];
            let in_parts = || parts != 0 && parts == line.parts && knows(*t, line.clock);
            line.owner == owner && (seen.get(*t) >= line.clock || in_parts())
        });
        let t = free.unwrap_or(self.timelines.len());
        if free.is_none() {
            self.timelines.push(Timeline { owner, clock: 0, parts });
        }
        self.timelines[t].parts = parts;
        if t > usize::from(u16::MAX) {
            return Err(SimError::Unsupported {
                what: "more than 65535 asynchronous operations in flight".to_owned(),
                site: self.site(0),
            });
        }
        // One tick for what is read or happens at once, one for what a store writes after that.
        self.timelines[t].clock += 2;
        Ok((t, self.timelines[t].clock))
    }

    /// Issues an operation of a warp.
    pub fn issue(&mut self, w: usize, mask: u32, task: Task) -> Result<u64, Stop> {
        let start = self.known_to_each(w, mask);
        let lane = super::access::lane_of(mask);
        // Copies of threads are of another proxy than the rest, so they share no timeline with it.
        let (owner, parts) = match task {
            Task::Copy(_) => (2 * self.warps.len() + w, mask),
            _ => (w, 0),
        };
        let own = self.warps[w].own.clone();
        let knows = |t: usize, clock: u32| lanes(parts).all(|l| own.covers(t, clock, l as u8));
        let (timeline, clock) = self.open_timeline(owner, &start.seen, (parts, &knows))?;
        let (pc, waited, lanes_synced) = (self.pc(w), self.warps[w].waited, self.warps[w].lanes_synced);
        let stage = Stage::Pending;
        let operation =
            Operation { task, warp: w, lane, pc, timeline, clock, start, own, lanes_synced, waited, stage };
        // What the warp does from now on does not come before it.
        self.tick(w);
        Ok(self.enqueue(operation))
    }

    pub fn enqueue(&mut self, operation: Operation) -> u64 {
        let id = self.next_operation;
        self.next_operation += 1;
        self.operations.insert(id, operation);
        self.queue.push_back(id);
        id
    }

    /// Executes the next step of an operation in the queue.
    pub fn advance_operation(&mut self, index: usize) -> Result<(), Stop> {
        let index = self.startable(index);
        let Some(&id) = self.queue.get(index) else {
            return Ok(());
        };
        let Some(mut op) = self.operations.remove(&id) else {
            self.queue.remove(index);
            return Ok(());
        };
        let stage = match op.task.clone() {
            Task::Load(t) => self.run_load(&op, &t)?,
            Task::Store(mut t) => {
                let stage = self.run_store(&op, &mut t)?;
                op.task = Task::Store(t);
                stage
            }
            Task::Copy(t) => self.run_copy(&op, &t)?,
            Task::Arrive(t) => self.run_arrive(&op, &t)?,
            Task::Wgmma(first, sequence) => self.run_wgmma(&op, first, sequence)?,
        };
        self.progress += 1;
        op.stage = stage;
        if stage == Stage::Done {
            self.report.asynchronous += 1;
            self.queue.remove(index);
            // Who waits for a store asks for it once more.
            if !matches!(op.task, Task::Store(_)) {
                return Ok(());
            }
        }
        self.operations.insert(id, op);
        Ok(())
    }

    /// The operation to run in place of `index`: wgmma of a warpgroup run in order, and an arrival
    /// waits for the copies before it.
    fn startable(&self, index: usize) -> usize {
        let Some(op) = self.queue.get(index).and_then(|id| self.operations.get(id)) else {
            return index;
        };
        let before = |f: &dyn Fn(&Operation) -> bool| {
            self.queue
                .iter()
                .take(index)
                .position(|id| self.operations.get(id).is_some_and(f))
                .unwrap_or(index)
        };
        match &op.task {
            Task::Wgmma(first, _) => before(&|o| matches!(&o.task, Task::Wgmma(f, _) if f == first)),
            Task::Arrive(_) => before(&|o| o.warp == op.warp && matches!(o.task, Task::Copy(_))),
            _ => index,
        }
    }

    /// Whether all of these operations have come so far.
    pub fn reached(&self, ids: &[u64], stage: Stage) -> bool {
        ids.iter().all(|id| self.operations.get(id).is_none_or(|o| o.stage >= stage))
    }

    /// Tells a warp that these operations have come so far.
    pub fn learn(&mut self, w: usize, mask: u32, ids: &[u64], stage: Stage) {
        for id in ids {
            if let Some(op) = self.operations.get(id) {
                let (t, clock) = (op.timeline, op.clock + u32::from(stage == Stage::Done));
                self.tell(w, mask, |c| c.seen.raise(t, clock));
            }
        }
    }

    /// Drops finished operations that no group will ask for again.
    pub fn forget(&mut self, ids: &[u64]) {
        for id in ids {
            if self.operations.get(id).is_some_and(|o| o.stage == Stage::Done) {
                self.operations.remove(id);
            }
        }
    }
}

/// An operation whose class completes at random gets one in so many turns.
const RARITY: usize = 8;

impl Machine<'_> {
    /// The place in the queue of an operation that completes before any warp goes on.
    pub fn hasty(&mut self) -> Option<usize> {
        let lot = self.random.below(RARITY) == 0;
        self.queue.iter().position(|id| {
            self.operations.get(id).is_some_and(|op| match self.rules.of(op) {
                Rule::AtOnce => true,
                Rule::ByLot => lot,
                Rule::Awaited => false,
            })
        })
    }

    /// The place in the queue of the operation that completes if no warp can continue.
    pub fn awaited(&self) -> usize {
        let waited = |id| self.operations.get(id).is_some_and(|op| self.is_awaited(op));
        self.queue.iter().position(waited).unwrap_or(0)
    }

    /// Whether some warp cannot continue without an operation.
    fn is_awaited(&self, op: &Operation) -> bool {
        self.warps.iter().enumerate().any(|(w, warp)| match (&warp.state, &op.task) {
            (State::Blocked(_, Reason::Mbarrier { block, offset, .. }), Task::Load(load)) => {
                load.completes_on(*block, *offset)
            }
            (State::Blocked(_, Reason::Mbarrier { .. }), Task::Arrive(_)) => true,
            (State::Blocked(_, Reason::Wgmma), Task::Wgmma(first, _)) => (*first..first + 4).contains(&w),
            (State::Blocked(_, Reason::Bulk), Task::Store(_))
            | (State::Blocked(_, Reason::Copy), Task::Copy(_)) => op.warp == w,
            _ => false,
        })
    }
}
