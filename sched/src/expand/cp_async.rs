//! Rings that threads fill themselves with `cp.async`, iterations ahead.
//!
//! ```text
//!  before the loop   copies of iterations 0 .. D-2, each a committed group
//!  iteration t       wait until D-2 groups are pending ─ all meet ─ reads of the stage of t
//!                    ─ copies of t+D-1 into the stage of t-1, commit ─ the products that are left
//! ```
//!
//! The wait covers this thread's copies of iteration t, and the barrier those of all other threads. The barrier also
//! tells that all threads have read the stage of t-1, which the new copies overwrite. Past the loop's end the groups
//! are empty, so that the number of pending groups never changes. The copies follow the reads, since the assembler
//! keeps their order: before the reads, copies would hold up the first products; between reads, every change of
//! direction would cost idle loads (seen in the code of ptxas 13.0). A ring of one stage is filled and awaited in
//! place, and all threads meet once more before it is filled again.
//!
//! A ring of three stages or more that only products read is opened one iteration ahead: threads meet under the products of
//! iteration t for the stage of t+1. Without that, all warpgroups begin their products at once, behind the barrier, and the
//! tensor cores wait for them.
//!
//! ```text
//!  iteration t       products on the stage of t ─ wait until D-3 groups are pending ─ all meet
//!                    ─ copies of t+D-1 into the stage of t-1, commit ─ wait for the products
//! ```
//!
//! Warpgroups that meet under each iteration's products still end these at once. So products stay in flight over an iteration
//! where they may: threads wait for the products of t-1 before they meet, and the barrier tells that nobody reads the stage of
//! t-1 any more.

use super::role::Expand;
use super::state::Ahead;
use crate::analysis::{copies_of, copy_place, global_access, scalars_of};
use crate::schedule::OPENED_AHEAD;
use rustc_hash::FxHashMap;
use warplift_ir::machine::{Attr, Block, CopyAttr, Guard, Inst, NewInst, Ring, RingFill, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

impl Expand<'_, '_> {
    /// Rings that threads fill iterations ahead in a loop's body.
    fn leading(&self, body: Block) -> Vec<Ring> {
        let rings = self.given.schedule.rings.iter();
        let rings =
            rings.filter(|(_, r)| r.blocks.contains(&body) && r.fill == RingFill::CpAsync && r.depth > 1);
        rings.map(|(r, _)| r).collect()
    }

    /// Issues the copies of a loop's first iterations, before the loop.
    pub fn lead_in(&mut self, inst: Inst) {
        let d = self.data(inst);
        let [low, high, step] = [self.value(d.args[0]), self.value(d.args[1]), self.value(d.args[2])];
        for ring in self.leading(d.blocks[0]) {
            let mut counter = low;
            for ahead in 0..self.given.schedule.rings[ring].depth - 1 {
                let next = self.ahead(ring, counter, high, ahead);
                self.ahead.copies.push(next);
                self.issue_copies(ring);
                counter = self.at().add(counter, step);
            }
            if self.opens_ahead(ring) {
                self.meet_copies(ring, 2);
            }
        }
    }

    /// Whether all threads meet before the loop of this body, for the copies of its first iteration.
    pub fn meets_before(&self, body: Block) -> bool {
        self.leading(body).into_iter().any(|r| self.opens_ahead(r))
    }

    /// Whether threads meet for a stage under the products on the stage before it.
    fn opens_ahead(&self, ring: Ring) -> bool {
        let data = &self.given.schedule.rings[ring];
        data.depth >= OPENED_AHEAD && !data.threads_read && self.read_by_products(ring)
    }

    /// Waits until a stage is complete: this thread's copies and those of all other threads. `behind` of the ring's stages
    /// may still be filled.
    fn meet_copies(&mut self, ring: Ring, behind: u32) {
        let pending = self.given.schedule.rings[ring].depth.saturating_sub(behind);
        self.at().push(NewInst::new(Opcode::CpAsyncWait, &[], &[]).attr(Attr::Imm(pending.into())));
        if self.read_by_products(ring) {
            self.at().push(NewInst::new(Opcode::FenceProxyAsync, &[], &[]));
        }
        self.block_barrier();
    }

    /// Waits until the stage for the next reads is complete: this thread's copies and those of all other threads.
    pub fn open_copies(&mut self, ring: Ring) {
        let data = &self.given.schedule.rings[ring];
        let ahead = data.depth - 1;
        if ahead == 0 {
            self.commit();
        }
        if !self.opens_ahead(ring) {
            self.meet_copies(ring, 2);
        }
        if let Some(state) = &mut self.rings[ring] {
            state.open = true;
            state.filled = false;
        }
        if let Some(around) = self.given.program.func.loop_of(data.blocks[0]).filter(|_| ahead > 0) {
            let d = self.data(around);
            let counter = self.value(self.given.program.func.blocks[data.blocks[0]].params[0]);
            let (high, step) = (self.value(d.args[1]), self.value(d.args[2]));
            let moved = self.at().mul_imm(step, i64::from(ahead));
            let counter = self.at().add(counter, moved);
            let next = self.ahead(ring, counter, high, ahead);
            self.ahead.copies.push(next);
            self.load_ahead(ring);
        }
    }

    /// Loads what the pending copies need of memory, as rows by a tile of indices: its latency passes under the products.
    fn load_ahead(&mut self, ring: Ring) {
        let block = self.given.schedule.rings[ring].blocks[0];
        let Some(n) = self.ahead.copies.iter().position(|a| a.ring == ring) else { return };
        let env = std::mem::take(&mut self.ahead.copies[n].env);
        let copies = self.ahead.copies[n].copies.clone();
        let env = self.in_iteration(env, |x| {
            let func = &x.given.program.func;
            let loads = scalars_of(func, block, &copies);
            let loads = loads.into_iter().filter(|&i| global_access(&func.insts[i]).is_some());
            let mut loads: Vec<Inst> = loads.collect();
            loads.sort_unstable();
            loads.into_iter().for_each(|load| x.scalars_ahead(block, load, true));
        });
        self.ahead.copies[n].env = env;
    }

    /// Expands something with the values of another iteration. Returns these, and those that were added.
    fn in_iteration(
        &mut self,
        env: FxHashMap<Value, Value>,
        of: impl FnOnce(&mut Self),
    ) -> FxHashMap<Value, Value> {
        let outer = std::mem::replace(&mut self.deferred.overlay, env);
        let deferred = std::mem::replace(&mut self.deferred.inside, true);
        of(self);
        self.deferred.inside = deferred;
        std::mem::replace(&mut self.deferred.overlay, outer)
    }

    /// The copies of the iteration with this counter. They run only if the loop reaches that iteration.
    fn ahead(&mut self, ring: Ring, counter: Value, high: Value, stages: u32) -> Ahead {
        let data = &self.given.schedule.rings[ring];
        let func = &self.given.program.func;
        let slot = self.slot_ahead(ring, stages);
        let runs = self.at().compare(CmpOp::Lt, counter, high);
        let copies = copies_of(func, data.blocks[0], &data.buffers);
        // The body's scalars have the values of another iteration here.
        let env = [(func.blocks[data.blocks[0]].params[0], counter)].into_iter().collect();
        Ahead { ring, slot, runs, copies, env }
    }

    /// Opens the stage of the next iteration, if that is done ahead, and issues the pending copies of a later one.
    pub fn finish_copies(&mut self, ring: Ring) {
        if self.opens_ahead(ring) {
            self.meet_copies(ring, 3);
        }
        self.issue_copies(ring);
    }

    /// Issues the pending copies of a later iteration, and ends their group.
    fn issue_copies(&mut self, ring: Ring) {
        let Some(n) = self.ahead.copies.iter().position(|a| a.ring == ring) else { return };
        let Ahead { slot, runs, copies, env, .. } = self.ahead.copies.remove(n);
        let block = self.given.schedule.rings[ring].blocks[0];
        self.in_iteration(env, |x| {
            for copy in copies {
                x.scalars_ahead(block, copy, false);
                x.copy_to(copy, ring, slot, Some(runs));
            }
        });
        self.commit();
    }

    /// Computes the scalars of the body that an instruction needs and that are not available yet, and the instruction too.
    fn scalars_ahead(&mut self, block: Block, of: Inst, too: bool) {
        let func = &self.given.program.func;
        let mut needed = scalars_of(func, block, &[of]);
        needed.extend(Some(of).filter(|_| too));
        for &inst in func.blocks[block].insts.iter().filter(|i| needed.contains(i)) {
            let results = func.insts[inst].results;
            if !results.iter().all(|r| self.deferred.overlay.contains_key(r)) {
                let made = self.copy(inst);
                self.deferred.overlay.extend(results.iter().copied().zip(made));
            }
        }
    }

    /// Whether `wgmma` reads stages of a ring. It reads through the asynchronous proxy.
    fn read_by_products(&self, ring: Ring) -> bool {
        let buffers = &self.given.schedule.rings[ring].buffers;
        self.given.graph.is_read_by_products(&self.given.program.func, buffers)
    }

    /// Issues a copy in place, for a ring of one stage. Copies into deeper rings were issued iterations before.
    pub fn copy_in_place(&mut self, inst: Inst) {
        let Some(ring) = copy_place(self.data(inst)).and_then(|p| self.ring_of(p.buffer)) else { return };
        if self.given.schedule.rings[ring].depth == 1 {
            let slot = self.ring(ring).slot;
            self.copy_to(inst, ring, slot, None);
            if let Some(state) = &mut self.rings[ring] {
                state.filled = true;
            }
        }
    }

    fn commit(&mut self) {
        self.at().push(NewInst::new(Opcode::CpAsyncCommit, &[], &[]));
    }

    /// The slot that is `ahead` stages further.
    fn slot_ahead(&mut self, ring: Ring, ahead: u32) -> Value {
        let (slot, depth) = (self.ring(ring).slot, i64::from(self.given.schedule.rings[ring].depth));
        if ahead == 0 {
            return slot;
        }
        let end = self.at().imm(depth - i64::from(ahead));
        let wraps = self.at().compare(CmpOp::Ge, slot, end);
        let on = self.at().add_imm(slot, ahead.into());
        let back = self.at().add_imm(slot, i64::from(ahead) - depth);
        self.at().op(Opcode::Selp, &[back, on, wraps], Ty::B32)
    }

    /// Issues one copy into a slot.
    fn copy_to(&mut self, inst: Inst, ring: Ring, slot: Value, runs: Option<Value>) {
        let d = self.data(inst);
        let (Attr::Copy(copy), Some(place)) = (&d.attr, copy_place(d)) else { return };
        let offset = self.value(d.args[0]);
        let (to, constant) = self.stage_place(ring, slot, offset, place);
        let own = d.guard.map(|g| self.value(g.pred));
        let pred = match (own, runs) {
            (Some(a), Some(b)) => Some(self.at().op(Opcode::AndPred, &[a, b], Ty::Pred)),
            (a, b) => a.or(b),
        };
        let args = [to, self.value(d.args[1]), self.value(d.args[2])];
        let attr = Attr::Copy(CopyAttr { place: None, offset: constant, ..*copy });
        let guard = pred.map(|pred| Guard { pred, negated: false });
        self.at().push(NewInst::new(Opcode::CpAsync, &args, &[]).attr(attr).guard(guard));
    }
}
