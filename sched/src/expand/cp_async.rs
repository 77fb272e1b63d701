//! Rings that the threads fill themselves with `cp.async`, iterations ahead.
//!
//! ```text
//!  before the loop   copies of iterations 0 .. D-2, each a committed group
//!  iteration t       wait until D-2 groups are pending ─ all meet ─ reads of the stage of t
//!                    ─ copies of t+D-1 into the stage of t-1, commit ─ the products that are left
//! ```
//!
//! The wait is for this thread's copies of iteration t, the meeting for those of all others; it also says
//! that all have read the stage of t-1, which the new copies overwrite. Past the loop's end the groups are
//! empty, so that the count of pending ones never changes. The copies follow the reads since the assembler
//! keeps their order: before them they hold up the first products, between them every change of direction
//! costs idle loads (seen in the code of ptxas 13.0). A ring of one stage is filled and awaited in place, and
//! all meet once more before it is filled again.

use super::role::Expand;
use crate::graph::{copy_place, touched};
use crate::schedule::loop_of;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{
    Attr, Block, Buffer, CopyAttr, Func, Guard, Inst, NewInst, Ring, RingFill, Ty, Value,
};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// Copies of a later iteration that are yet to be issued.
pub(super) struct Ahead {
    ring: Ring,
    slot: Value,
    /// Whether the loop gets to that iteration.
    runs: Value,
    copies: Vec<Inst>,
    /// The body's scalars in that iteration, as far as they were needed.
    env: FxHashMap<Value, Value>,
}

impl Expand<'_, '_> {
    /// Rings that threads fill iterations ahead in a loop's body.
    fn leading(&self, body: Block) -> Vec<Ring> {
        let rings = self.s.rings.iter();
        let rings =
            rings.filter(|(_, r)| r.blocks.contains(&body) && r.fill == RingFill::CpAsync && r.depth > 1);
        rings.map(|(r, _)| r).collect()
    }

    /// Copies of a loop's first iterations, before it.
    pub fn lead_in(&mut self, inst: Inst) {
        let d = self.data(inst);
        let [low, high, step] = [self.value(d.args[0]), self.value(d.args[1]), self.value(d.args[2])];
        for ring in self.leading(d.blocks[0]) {
            let mut counter = low;
            for ahead in 0..self.s.rings[ring].depth - 1 {
                let next = self.ahead(ring, counter, high, ahead);
                self.ahead.copies.push(next);
                self.finish_copies(ring);
                counter = self.at().add(counter, step);
            }
        }
    }

    /// The stage that the next reads want: this thread's copies and all others' are complete.
    pub fn open_copies(&mut self, ring: Ring) {
        let data = &self.s.rings[ring];
        let ahead = data.depth - 1;
        if ahead == 0 {
            self.commit();
        }
        let pending = i64::from(ahead.saturating_sub(1));
        self.at().push(NewInst::new(Opcode::CpAsyncWait, &[], &[]).attr(Attr::Imm(pending)));
        if self.read_by_products(ring) {
            self.at().push(NewInst::new(Opcode::FenceProxyAsync, &[], &[]));
        }
        self.block_barrier();
        if let Some(state) = &mut self.rings[ring] {
            state.open = true;
            state.filled = false;
        }
        if let Some(around) = loop_of(&self.program.func, data.blocks[0]).filter(|_| ahead > 0) {
            let d = self.data(around);
            let counter = self.value(self.program.func.blocks[data.blocks[0]].params[0]);
            let (high, step) = (self.value(d.args[1]), self.value(d.args[2]));
            let moved = self.at().mul_imm(step, i64::from(ahead));
            let counter = self.at().add(counter, moved);
            let next = self.ahead(ring, counter, high, ahead);
            self.ahead.copies.push(next);
        }
    }

    /// The copies of an iteration with this counter, if the loop gets there.
    fn ahead(&mut self, ring: Ring, counter: Value, high: Value, stages: u32) -> Ahead {
        let data = &self.s.rings[ring];
        let func = &self.program.func;
        let slot = self.slot_ahead(ring, stages);
        let runs = self.at().compare(CmpOp::Lt, counter, high);
        let copies = copies_of(func, data.blocks[0], &data.buffers);
        // The body's scalars stand for another iteration here.
        let env = [(func.blocks[data.blocks[0]].params[0], counter)].into_iter().collect();
        Ahead { ring, slot, runs, copies, env }
    }

    /// Issues the copies of a later iteration that wait for this, and ends their group.
    pub fn finish_copies(&mut self, ring: Ring) {
        let Some(n) = self.ahead.copies.iter().position(|a| a.ring == ring) else { return };
        let Ahead { slot, runs, copies, env, .. } = self.ahead.copies.remove(n);
        let outer = std::mem::replace(&mut self.deferred.overlay, env);
        let deferred = std::mem::replace(&mut self.deferred.inside, true);
        let block = self.s.rings[ring].blocks[0];
        for copy in copies {
            self.scalars_ahead(block, copy);
            self.copy_to(copy, ring, slot, Some(runs));
        }
        self.deferred.inside = deferred;
        self.deferred.overlay = outer;
        self.commit();
    }

    /// The scalars of the body that a copy needs and that are not there yet.
    fn scalars_ahead(&mut self, block: Block, copy: Inst) {
        let func = &self.program.func;
        let needed = scalars_of(func, block, &[copy]);
        for &inst in func.blocks[block].insts.iter().filter(|i| needed.contains(i)) {
            let results = func.insts[inst].results;
            if !results.iter().all(|r| self.deferred.overlay.contains_key(r)) {
                let made = self.copy(inst);
                self.deferred.overlay.extend(results.iter().copied().zip(made));
            }
        }
    }

    /// Whether `wgmma` reads stages of a ring: through the other proxy.
    fn read_by_products(&self, ring: Ring) -> bool {
        let buffers = &self.s.rings[ring].buffers;
        let mut products = self.program.func.insts.values().filter(|d| d.op == Opcode::Wgmma);
        products.any(|d| touched(&d.attr, d.op).iter().any(|(b, _)| buffers.contains(b)))
    }

    /// A copy where it stands, for a ring of one stage; copies of deeper ones were issued iterations ago.
    pub fn copy_in_place(&mut self, inst: Inst) {
        let Some(ring) = copy_place(self.data(inst)).and_then(|p| self.ring_of(p.buffer)) else { return };
        if self.s.rings[ring].depth == 1 {
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

    /// The slot so many stages on.
    fn slot_ahead(&mut self, ring: Ring, ahead: u32) -> Value {
        let (slot, depth) = (self.ring(ring).slot, i64::from(self.s.rings[ring].depth));
        if ahead == 0 {
            return slot;
        }
        let end = self.at().imm(depth - i64::from(ahead));
        let wraps = self.at().compare(CmpOp::Ge, slot, end);
        let on = self.at().add_imm(slot, ahead.into());
        let back = self.at().add_imm(slot, i64::from(ahead) - depth);
        self.at().op(Opcode::Selp, &[back, on, wraps], Ty::B32)
    }

    /// One copy into a slot.
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

/// Copies of a block into these buffers.
fn copies_of(func: &Func<'_>, block: Block, buffers: &[Buffer]) -> Vec<Inst> {
    let insts = func.blocks[block].insts.iter().copied();
    insts.filter(|&i| copy_place(&func.insts[i]).is_some_and(|p| buffers.contains(&p.buffer))).collect()
}

/// Instructions of a block that these need.
fn scalars_of(func: &Func<'_>, block: Block, roots: &[Inst]) -> FxHashSet<Inst> {
    let mut needed: FxHashSet<Inst> = FxHashSet::default();
    for &inst in func.blocks[block].insts.iter().rev() {
        let d = &func.insts[inst];
        if roots.contains(&inst) || needed.contains(&inst) {
            let values = d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred));
            needed.extend(values.filter_map(|&v| func.def(v)).filter(|i| !roots.contains(i)));
        }
    }
    needed
}

/// Whether copies of a loop's body can be issued iterations ahead: all they need inside it are scalars made
/// of the counter.
pub(crate) fn can_lead(func: &Func<'_>, body: Block, buffers: &[Buffer]) -> bool {
    let copies = copies_of(func, body, buffers);
    let needed = scalars_of(func, body, &copies);
    let params = &func.blocks[body].params;
    let carried = |v: &Value| params.iter().skip(1).any(|p| p == v);
    let inside = |i: &&Inst| copies.contains(*i) || needed.contains(*i);
    func.blocks[body].insts.iter().filter(inside).all(|&i| {
        let d = &func.insts[i];
        let pure = copies.contains(&i) || d.op.is_pure() && d.blocks.is_empty();
        pure && !d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred)).any(carried)
    })
}
