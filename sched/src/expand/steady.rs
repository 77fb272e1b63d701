//! What is known of scratch buffers where a loop's body begins.
//!
//! ```text
//!  before the loop ──┐
//!                    ├─► the body begins ─ store, barrier, load, ... ─► what an iteration leaves ─┐
//!                    └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! An iteration's own barriers order most of what it does: of two buffers in turn, the second one's barrier says
//! that all have read the first, which the next iteration then stores to without another. What holds at the start is
//! a fixed point, found on the accesses in their order, and kept: where an iteration leaves more, all meet at its end.

use super::role::{Expand, Touched};
use crate::graph::touched;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Buffer, BufferKind, Inst};

type Scratch = SecondaryMap<Buffer, Touched>;

impl Expand<'_, '_> {
    /// At the start of a loop's body; what is assumed there, where something is.
    pub fn assume_inside(&mut self, inst: Inst) -> Option<Scratch> {
        let steady = self.steady(inst);
        match &steady {
            Some(assumed) => self.seen.scratch = assumed.clone(),
            None => self.forget_inside(inst),
        }
        steady
    }

    /// At the end of a loop's body: all meet if more happened than its start assumes.
    pub fn keep_assumed(&mut self, assumed: Option<Scratch>) {
        let Some(assumed) = assumed else { return };
        let more = |b: Buffer| self.seen.scratch[b].join(assumed[b]) != assumed[b];
        if self.program.buffers.keys().any(more) {
            self.meet();
        }
    }

    /// Neither more than what was before the loop and what an iteration leaves, nor less. None for loops whose
    /// order of accesses is another than their text's.
    fn steady(&self, inst: Inst) -> Option<Scratch> {
        if matches!(&self.data(inst).attr, Attr::Loop(l) if l.overlapped) {
            return None;
        }
        let mut seen = self.seen.scratch.clone();
        loop {
            let left = self.iteration(inst, seen.clone())?;
            let mut joined = seen.clone();
            self.program.buffers.keys().for_each(|b| joined[b] = seen[b].join(left[b]));
            if self.program.buffers.keys().all(|b| joined[b] == seen[b]) {
                return Some(seen);
            }
            seen = joined;
        }
    }

    /// What an iteration leaves that begins with this; none where accesses stand in inner loops and branches.
    fn iteration(&self, inst: Inst, mut seen: Scratch) -> Option<Scratch> {
        let body = self.data(inst).blocks[0];
        for &inside in &self.program.func.blocks[body].insts {
            if self.touches_deeper(inside) {
                return None;
            }
            let d = self.data(inside);
            let accesses = touched(&d.attr, d.op);
            let scratch = |b: Buffer| self.kind(b) == BufferKind::Scratch;
            let meets = |&(b, writes): &(Buffer, bool)| if writes { seen[b].read } else { seen[b].written };
            if accesses.iter().filter(|a| scratch(a.0)).any(meets) {
                self.program.buffers.keys().for_each(|other| seen[other] = seen[other].met());
            }
            for (b, writes) in accesses {
                let own = scratch(b);
                let (written, read) = (writes || !own, !writes || !own);
                seen[b] = seen[b].join(Touched { written, read, unfenced: written });
            }
        }
        Some(seen)
    }

    /// Whether an instruction inside this one touches shared memory.
    fn touches_deeper(&self, inst: Inst) -> bool {
        let insts = self.data(inst).blocks.iter().flat_map(|&b| &self.program.func.blocks[b].insts);
        insts.copied().any(|i| {
            let d = self.data(i);
            !touched(&d.attr, d.op).is_empty() || self.touches_deeper(i)
        })
    }
}
