//! Structured loops and branches become blocks with parameters.
//!
//! A loop is rotated: `if lo < hi { do { body } while (next < hi) }`. A conditional loop is so as it is written: its body
//! says if another iteration follows.

use super::role::Expand;
use super::state::{RingState, Seen, StoreState, Touched, Unreleased};
use crate::analysis::goes_on;
use crate::error::Result;
use warplift_ir::machine::{Attr, Block, Inst, NewInst, Ring, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// A loop during expansion.
pub(super) struct Rotated<'x> {
    pub inst: Inst,
    high: Value,
    /// Initial values of the carried values.
    inits: &'x [Value],
    /// Numbers of the carried values that this role keeps.
    pub kept: Vec<usize>,
    /// Rings that advance inside the loop.
    pub rings: Vec<Ring>,
    /// Rings whose stages stay in flight over an iteration.
    pub unreleased: Vec<Ring>,
    body: Block,
    pub exit: Block,
    /// The most iterations, if the loop is unrolled fully because it picks values by its counter.
    picks: Option<u32>,
}

/// The block to which the loop exits, and the stages in flight there.
struct Past {
    block: Block,
    unreleased: Option<Unreleased>,
}

impl Past {
    /// The values to pass there. A block of its own takes none.
    fn passed<'v>(&self, values: &'v [Value]) -> &'v [Value] {
        if self.unreleased.is_some() { &[] } else { values }
    }
}

impl<'a> Expand<'_, 'a> {
    /// Ends the block with a jump.
    pub fn jump(&mut self, to: Block, args: &[Value]) {
        let inst = self.at().push(NewInst::new(Opcode::Br, &[], &[]));
        self.code.func.add_target(inst, to, args);
    }

    /// Ends the block with a branch.
    pub fn branch(&mut self, cond: Value, yes: (Block, &[Value]), no: (Block, &[Value])) {
        let inst = self.at().push(NewInst::new(Opcode::BrIf, &[cond], &[]));
        for (block, args) in [yes, no] {
            self.code.func.add_target(inst, block, args);
        }
    }

    /// Slots and phases of rings, as block arguments.
    pub fn ring_values(&self, rings: &[Ring]) -> Vec<Value> {
        let slot = |r: Ring, slot: Value| self.changes_slot(r).then_some(slot);
        let mut values = Vec::new();
        for &r in rings {
            let state = self.ring(r);
            let stored = state.stored.map(|s| (s.slot, s.phase));
            for (s, phase) in std::iter::once((state.slot, state.phase)).chain(stored) {
                values.extend(slot(r, s).into_iter().chain([phase]));
            }
        }
        values
    }

    /// Block parameters for slots and phases of rings.
    pub fn ring_params(&mut self, block: Block, rings: &[Ring]) {
        for &r in rings {
            let RingState { slot, stored, .. } = self.ring(r);
            let (slot, phase) = self.stage_params(block, r, slot);
            self.move_to(r, slot, phase);
            if let Some(stored) = stored {
                let (slot, phase) = self.stage_params(block, r, stored.slot);
                self.set_stored(r, StoreState { slot, phase, open: false });
            }
        }
    }

    /// Block parameters for a position in a ring. The only slot of a ring stays the constant that it is.
    fn stage_params(&mut self, block: Block, ring: Ring, slot: Value) -> (Value, Value) {
        let changes = self.changes_slot(ring);
        let slot = if changes { self.code.func.append_param(block, Ty::B32, true) } else { slot };
        (slot, self.code.func.append_param(block, Ty::B32, true))
    }

    /// Whether a ring has several slots. The only slot of others stays the constant of the role's entry.
    fn changes_slot(&self, ring: Ring) -> bool {
        self.given.schedule.rings[ring].depth > 1
    }

    /// Numbers of the carried values that this role keeps.
    pub fn kept_carries(&self, inst: Inst) -> Vec<usize> {
        let d = self.data(inst);
        let params = &self.given.program.func.blocks[d.blocks[0]].params;
        (0..d.results.len())
            .filter(|&n| self.keeps_value(params[1 + n]) || self.keeps_value(d.results[n]))
            .collect()
    }

    /// Forgets the state of scratch buffers.
    pub fn forget_scratch(&mut self) {
        for b in self.given.program.buffers.keys() {
            self.memory.seen.scratch[b] = Touched::anything();
        }
    }

    /// Joins the accesses on another path to this place.
    pub fn join_seen(&mut self, other: &Seen) {
        for b in self.given.program.buffers.keys() {
            self.memory.seen.scratch[b] = self.memory.seen.scratch[b].join(other.scratch[b]);
        }
        for (&pointer, &accesses) in &other.global {
            self.memory.seen.global.entry(pointer).or_default().join(accesses);
        }
    }

    /// Expands a loop, from its low bound with its initial values.
    pub fn expand_for(&mut self, inst: Inst) -> Result<()> {
        let d = self.data(inst);
        let kept = self.kept_carries(inst);
        let inits: Vec<Value> = kept.iter().map(|&n| self.value(d.args[3 + n])).collect();
        if self.ahead.most == Some((inst, 0)) {
            self.from.env.extend(kept.iter().map(|&n| d.results[n]).zip(inits));
            return Ok(());
        }
        if !self.who.role.copies() {
            self.show_read_inside(inst);
            self.order_global_before(inst);
            self.lead_in(inst);
        }
        let low = self.value(d.args[0]);
        self.expand_rest(inst, low, &inits)
    }

    /// Expands a loop from a given start: all of it, or the iterations that peeling left.
    pub fn expand_rest(&mut self, inst: Inst, low: Value, inits: &[Value]) -> Result<()> {
        let high = self.value(self.data(inst).args[1]);
        self.expand_between(inst, [low, high], inits)
    }

    /// Expands the iterations of a loop between two values of its counter.
    pub fn expand_between(&mut self, inst: Inst, [low, high]: [Value; 2], inits: &[Value]) -> Result<()> {
        let l = Rotated {
            inst,
            high,
            inits,
            kept: self.kept_carries(inst),
            rings: self.rings_inside(inst),
            unreleased: self.body_of(inst),
            body: self.code.func.new_block(),
            exit: self.code.func.new_block(),
            picks: self.picked(inst),
        };
        let copies = l.picks.unwrap_or_else(|| self.copies_of_body(&l));
        self.enter_loop(&l, low);
        let counter = self.begin_body(&l);
        let by_slots = copies > 1 && l.picks.is_none();
        if by_slots {
            self.at_first_slots(&l.rings);
        }
        let around = std::mem::replace(&mut self.own.in_copies, by_slots);
        let before = self.memory.seen.clone();
        self.iterate(&l, counter, copies)?;
        self.own.in_copies = around;
        self.leave_loop(&l);
        self.join_seen(&before);
        Ok(())
    }

    /// Enters the body, or skips the loop if it has no iterations.
    fn enter_loop(&mut self, l: &Rotated<'_>, low: Value) {
        let around = [l.inits, &self.ring_values(&l.rings)].concat();
        let before = self.flight.unreleased.take();
        let unreleased = self.unreleased_values(&l.unreleased, before.as_ref());
        let into = [&[low], l.inits, &unreleased, &self.ring_values(&l.rings)].concat();
        if self.data(l.inst).is_conditional_loop() {
            return self.jump(l.body, &into);
        }
        let some = self.at().compare(CmpOp::Lt, low, l.high);
        let past = self.past(l, before);
        self.branch(some, (l.body, &into), (past.block, past.passed(&around)));
        self.land_behind(l, past, &around);
    }

    /// Makes the body's parameters: the counter (which is returned), carried values, held slots, rings.
    fn begin_body(&mut self, l: &Rotated<'_>) -> Value {
        self.code.func.order.push(l.body);
        self.code.block = l.body;
        let source = self.given.program.func.blocks[self.data(l.inst).blocks[0]].params.clone();
        let counter = self.code.func.append_param(l.body, Ty::B32, true);
        self.from.env.insert(source[0], counter);
        for (&n, &init) in l.kept.iter().zip(l.inits) {
            let p = self.code.func.append_param(l.body, self.code.func.ty(init), false);
            self.from.env.insert(source[1 + n], p);
        }
        self.unreleased_params(l.body, &l.unreleased);
        self.ring_params(l.body, &l.rings);
        counter
    }

    /// Expands the copies of the body, then jumps back to its start or exits.
    fn iterate(&mut self, l: &Rotated<'_>, mut counter: Value, copies: u32) -> Result<()> {
        let all = l.picks.is_some();
        for n in 1..copies {
            let next = self.numbered(l, all.then_some(n - 1))?;
            let more = self.count_on(l, &mut counter);
            let out = [&next[..], &self.ring_values(&l.rings)].concat();
            self.next_copy(l, more, &out, &[&[counter], &next[..]].concat());
        }
        let next = self.numbered(l, all.then_some(copies - 1))?;
        debug_assert!(
            copies == 1 || all || l.rings.iter().all(|&r| self.is_at_zero(r)),
            "rings end where they began"
        );
        let more = self.count_on(l, &mut counter);
        let after = self.flight.unreleased.take();
        let unreleased = self.unreleased_values(&l.unreleased, after.as_ref());
        let rings = self.ring_values(&l.rings);
        let back = [&[counter], &next[..], &unreleased, &rings].concat();
        let out = [next, rings].concat();
        let past = self.past(l, after);
        match all || self.ahead.most == Some((l.inst, 1)) {
            true => self.jump(past.block, past.passed(&out)),
            false => self.branch(more, (l.body, &back), (past.block, past.passed(&out))),
        }
        self.land_behind(l, past, &out);
        Ok(())
    }

    /// Expands one iteration. In a fully unrolled loop, `iteration` is its number.
    fn numbered(&mut self, l: &Rotated<'_>, iteration: Option<u32>) -> Result<Vec<Value>> {
        let around = self.own.iteration;
        self.own.iteration = iteration.unwrap_or(around);
        let next = self.body_once(l);
        self.own.iteration = around;
        next
    }

    /// Expands one iteration. Returns the values carried on.
    fn body_once(&mut self, l: &Rotated<'_>) -> Result<Vec<Value>> {
        let d = self.data(l.inst);
        let assumed = self.assume_inside(l.inst);
        self.forget_global_inside(l.inst);
        let overlapped = matches!(&d.attr, Attr::Loop(l) if l.overlapped);
        let outer = std::mem::replace(&mut self.flight.exact, overlapped);
        self.draw_ahead(l.inst);
        let yields = self.walk_round_robin(d.blocks[0])?;
        self.keep_assumed(assumed);
        self.flight.exact = outer;
        Ok(l.kept.iter().map(|&n| self.value(yields[n])).collect())
    }

    /// Computes the next iteration's counter, and whether there is a next iteration.
    fn count_on(&mut self, l: &Rotated<'_>, counter: &mut Value) -> Value {
        if let Some(decides) = goes_on(&self.given.program.func, l.inst) {
            return self.value(decides);
        }
        *counter = self.next_counter(l.inst, *counter);
        self.at().compare(CmpOp::Lt, *counter, l.high)
    }

    /// The block to which the loop exits. It is a block of its own if products are in flight.
    fn past(&mut self, l: &Rotated<'_>, unreleased: Option<Unreleased>) -> Past {
        let block = if unreleased.is_some() { self.code.func.new_block() } else { l.exit };
        Past { block, unreleased }
    }

    /// Waits on the way out for the products in flight.
    fn land_behind(&mut self, l: &Rotated<'_>, past: Past, passed: &[Value]) {
        if past.unreleased.is_some() {
            self.flight.unreleased = past.unreleased;
            self.drain_block(past.block, l.exit, passed);
        }
    }

    /// Continues after the loop, with its results.
    fn leave_loop(&mut self, l: &Rotated<'_>) {
        self.code.func.order.push(l.exit);
        self.code.block = l.exit;
        for (&n, &init) in l.kept.iter().zip(l.inits) {
            let p = self.code.func.append_param(l.exit, self.code.func.ty(init), false);
            self.from.env.insert(self.data(l.inst).results[n], p);
        }
        self.ring_params(l.exit, &l.rings);
    }

    /// Expands a branch.
    pub fn expand_if(&mut self, inst: Inst) -> Result<()> {
        let d = self.data(inst);
        let rings = self.rings_inside(inst);
        let kept: Vec<usize> = (0..d.results.len()).filter(|&n| self.keeps_value(d.results[n])).collect();
        let cond = self.value(d.args[0]);
        let [yes, no, join] =
            [self.code.func.new_block(), self.code.func.new_block(), self.code.func.new_block()];
        self.branch(cond, (yes, &[]), (no, &[]));
        let before = self.rings.clone();
        let touched_before = self.memory.seen.clone();
        let mut touched = (d.blocks.len() < 2).then(|| touched_before.clone());
        for (at, &source) in [yes, no].into_iter().zip(&d.blocks) {
            self.code.func.order.push(at);
            self.code.block = at;
            self.rings = before.clone();
            self.memory.seen = touched_before.clone();
            let yields = self.walk(source)?;
            let out: Vec<Value> = kept.iter().map(|&n| self.value(yields[n])).collect();
            let out = [out, self.ring_values(&rings)].concat();
            self.jump(join, &out);
            if let Some(other) = touched.replace(self.memory.seen.clone()) {
                self.join_seen(&other);
                touched = Some(self.memory.seen.clone());
            }
        }
        self.rings = before;
        if d.blocks.len() < 2 {
            self.code.func.order.push(no);
            self.code.block = no;
            let out = self.ring_values(&rings);
            self.jump(join, &out);
        }
        self.code.func.order.push(join);
        self.code.block = join;
        for &n in &kept {
            let p = self.code.func.append_param(join, self.given.program.func.ty(d.results[n]), false);
            self.from.env.insert(d.results[n], p);
        }
        self.ring_params(join, &rings);
        self.memory.seen = touched.unwrap_or(touched_before);
        Ok(())
    }
}
