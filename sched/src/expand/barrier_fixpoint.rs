//! The state of scratch buffers at the start of a loop's body.
//!
//! ```text
//!  before the loop ──┐
//!                    ├─► the body begins ─ store, barrier, load, ... ─► state after an iteration ─┐
//!                    └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A buffer that a loop only reads becomes visible before the loop. Inside the loop, the barriers of an iteration order
//! most of its accesses. With two buffers in turn, the second buffer's barrier tells that all threads have read the
//! first, so the next iteration stores to the first without another barrier. The state at the start of the body is a
//! fixed point over the accesses in their order, of branches over both sides. A nested loop that begins with a barrier counts
//! as one there. If an iteration leaves more than that, all threads meet at its end.

use super::role::Expand;
use super::state::Touched;
use crate::analysis::{Access, touched};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Attr, Block, Buffer, BufferKind, Inst};
use warplift_ir::target::Opcode;

type Scratch = SecondaryMap<Buffer, Touched>;

impl<'p> Expand<'p, '_> {
    fn accesses_inside(&self, inst: Inst) -> &'p [Access] {
        self.given.graph.accesses_inside(&self.given.program.func, inst)
    }

    /// Sets the state at the start of a loop's body. Returns the assumed state, if there is one.
    pub fn assume_inside(&mut self, inst: Inst) -> Option<Scratch> {
        let barrier_fixpoint = self.barrier_fixpoint(inst);
        match &barrier_fixpoint {
            Some(assumed) => self.memory.seen.scratch = assumed.clone(),
            None => self.forget_inside(inst),
        }
        barrier_fixpoint
    }

    /// Before a loop: makes buffers that the loop only reads visible, once for all iterations.
    pub fn show_read_inside(&mut self, inst: Inst) {
        let inside = self.accesses_inside(inst);
        for a in inside.iter().filter(|a| !is_written(inside, a.buffer)) {
            self.visible(a.buffer, matches!(self.data(a.inst).attr, Attr::Wgmma(_)));
        }
    }

    /// At the start of a body without a known state: another iteration may have run before, with all its accesses.
    fn forget_inside(&mut self, inst: Inst) {
        let inside = self.accesses_inside(inst);
        for b in inside.iter().map(|a| a.buffer) {
            let before = self.memory.seen.scratch[b];
            let read = Touched { read: true, ..before };
            self.memory.seen.scratch[b] = if is_written(inside, b) { Touched::anything() } else { read };
        }
    }

    /// At the end of a loop's body: all threads meet if more happened than the start assumes. Rings are ordered by
    /// their own barriers.
    pub fn keep_assumed(&mut self, assumed: Option<Scratch>) {
        let Some(assumed) = assumed else { return };
        let buffers: Vec<Buffer> =
            self.given.program.buffers.keys().filter(|&b| !self.kind(b).is_ring()).collect();
        let more = |now: Touched, then: Touched| now.join(then) != then;
        if buffers.iter().any(|&b| self.memory.seen.scratch[b].unfenced && !assumed[b].unfenced) {
            self.fence();
        }
        if buffers.iter().any(|&b| more(self.memory.seen.scratch[b], assumed[b])) {
            self.block_barrier();
        }
    }

    /// The least state that covers both the state before the loop and the state that an iteration leaves. `None` for
    /// loops that do not run their accesses in program order, and for roles that copy, which have no such state.
    fn barrier_fixpoint(&self, inst: Inst) -> Option<Scratch> {
        let overlapped = matches!(&self.data(inst).attr, Attr::Loop(l) if l.overlapped);
        if overlapped || self.who.role.copies() {
            return None;
        }
        let mut seen = self.memory.seen.scratch.clone();
        loop {
            let left = self.left_by(self.data(inst).blocks[0], seen.clone())?;
            let joined = self.join(&seen, &left);
            if self.given.program.buffers.keys().all(|b| joined[b] == seen[b]) {
                return Some(seen);
            }
            seen = joined;
        }
    }

    /// The state that a block leaves, if it begins with `seen`. `None` if nested loops access memory other than rings.
    /// Rings have barriers of their own.
    fn left_by(&self, body: Block, mut seen: Scratch) -> Option<Scratch> {
        for &inside in &self.given.program.func.blocks[body].insts {
            let ring = |a: &Access| self.kind(a.buffer).is_ring();
            let d = self.data(inside);
            if !self.accesses_inside(inside).iter().all(ring) {
                if d.op != Opcode::If {
                    return None;
                }
                seen = self.left_by_sides(&d.blocks, seen)?;
                continue;
            }
            if d.blocks.first().is_some_and(|&b| self.meets_before(b)) {
                self.meet(&mut seen, false);
            }
            let accesses = touched(&d.attr, d.op);
            let scratch = |b: Buffer| self.kind(b) == BufferKind::Scratch;
            let tensor = matches!(d.attr, Attr::Wgmma(_));
            let conflicts = |&(b, writes): &(Buffer, bool)| match writes {
                true => seen[b].read,
                false => seen[b].written || tensor && seen[b].unfenced,
            };
            if accesses.iter().filter(|a| scratch(a.0)).any(conflicts) {
                self.meet(&mut seen, tensor);
            }
            for (b, writes) in accesses.into_iter().filter(|a| !self.kind(a.0).is_ring()) {
                let own = Touched { written: writes, read: !writes, unfenced: writes };
                seen[b] = seen[b].join(if scratch(b) { own } else { Touched::anything() });
            }
        }
        Some(seen)
    }

    /// The same of a branch, whichever side is taken.
    fn left_by_sides(&self, sides: &[Block], seen: Scratch) -> Option<Scratch> {
        let passes = (sides.len() < 2).then(|| seen.clone());
        let left = sides.iter().map(|&side| self.left_by(side, seen.clone()));
        let mut all = left.chain(passes.map(Some)).collect::<Option<Vec<Scratch>>>()?.into_iter();
        let first = all.next()?;
        Some(all.fold(first, |joined, side| self.join(&joined, &side)))
    }

    fn join(&self, a: &Scratch, b: &Scratch) -> Scratch {
        let mut joined = a.clone();
        self.given.program.buffers.keys().for_each(|buffer| joined[buffer] = a[buffer].join(b[buffer]));
        joined
    }

    /// What is left of accesses behind a barrier of all threads, and a fence between the proxies if one stands there.
    fn meet(&self, seen: &mut Scratch, fenced: bool) {
        for b in self.given.program.buffers.keys() {
            seen[b] = Touched { unfenced: seen[b].unfenced && !fenced, ..Touched::default() };
        }
    }
}

/// Whether one of these accesses writes the buffer.
fn is_written(accesses: &[Access], buffer: Buffer) -> bool {
    accesses.iter().any(|a| a.buffer == buffer && a.writes)
}
