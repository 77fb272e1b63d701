//! Loops whose body is written once for each slot of their rings.
//!
//! ```text
//!  do { slot ; next slot, wrapped }        do { slot 0 ─ left? ─ slot 1 ─ left? ─ .. ─ slot depth-1 ; phase flips }
//! ```
//!
//! With a known slot, every address of a stage is one register and a literal, and nothing counts slots and phases. The
//! longer code pays if threads' instructions take most of the time. If tensor cores take most of the time, they hide
//! the counting.
//!
//! A loop that picks hoisted values by its counter is unrolled fully, since registers cannot be indexed.

use super::control::Rotated;
use super::role::Expand;
use super::state::StoreState;
use crate::schedule::slots_of;
use warplift_ir::machine::{Inst, Ring, RoleKind, Value};
use warplift_ir::target::Opcode;

impl Expand<'_, '_> {
    /// Number of copies of a loop's body in one iteration: one, or one for each slot.
    pub fn copies_of_body(&self, l: &Rotated<'_>) -> u32 {
        let wanted = self.given.schedule.loops.iter().any(|s| s.inst == l.inst && s.unrolls);
        let plain =
            self.who.role == RoleKind::Consumer && l.unreleased.is_empty() && self.ahead.most.is_none();
        let possible = wanted && plain && l.rings.iter().all(|&r| self.is_at_zero(r));
        if possible { slots_of(self.given.program, self.given.schedule, l.inst).unwrap_or(1) } else { 1 }
    }

    /// The most iterations of a loop that picks hoisted values by its counter, in this role.
    pub fn picked(&self, inst: Inst) -> Option<u32> {
        let picks = |&i: &Inst| self.data(i).op == Opcode::Pick && self.keeps(i);
        let pick =
            self.given.program.func.blocks[self.data(inst).blocks[0]].insts.iter().copied().find(picks)?;
        Some(self.data(pick).args.len() as u32 - 1)
    }

    /// Picks the hoisted value of the iteration that is expanded.
    pub fn pick(&mut self, inst: Inst) {
        let d = self.data(inst);
        let hoisted = self.value(d.args[1 + self.own.iteration as usize]);
        self.from.env.insert(d.results[0], hoisted);
    }

    /// Whether a ring is known to be at its first slot.
    pub fn is_at_zero(&self, ring: Ring) -> bool {
        let state = self.ring(ring);
        let slots = std::iter::once(state.slot).chain(state.stored.map(|s| s.slot));
        slots.into_iter().all(|slot| self.code.func.constant(slot) == Some(0))
    }

    /// At the start of a body that is written once for each slot: sets the number of the first slot.
    pub fn at_first_slots(&mut self, rings: &[Ring]) {
        let zero = self.at().imm(0);
        for &r in rings {
            if let Some(state) = &mut self.rings[r] {
                state.slot = zero;
                state.stored = state.stored.map(|s| StoreState { slot: zero, ..s });
            }
        }
    }

    /// A thread's address in the first stages. If the offset is computed at entry, the address is too, once for all
    /// copies of a body.
    pub fn address_once(&mut self, offset: Value) -> Value {
        if let Some(&made) = self.own.addresses.get(&offset) {
            return made;
        }
        let (base, entry) = (self.shared_base(), self.code.func.entry);
        let at_entry = |i| self.code.func.blocks[entry].insts.contains(&i);
        if !self.own.in_copies || !self.code.func.def(offset).is_some_and(at_entry) {
            return self.at().add(base, offset);
        }
        let made = self.before_end(entry, |c| c.add(base, offset));
        self.own.addresses.insert(offset, made);
        made
    }

    /// Between two copies of a body: leaves the loop, or goes on with the next iteration's counter and carried values.
    pub fn next_copy(&mut self, l: &Rotated<'_>, more: Value, out: &[Value], next: &[Value]) {
        let on = self.code.func.new_block();
        self.branch(more, (on, &[]), (l.exit, out));
        self.code.func.order.push(on);
        self.code.block = on;
        let params = &self.given.program.func.blocks[self.data(l.inst).blocks[0]].params;
        let carried = l.kept.iter().map(|&n| params[1 + n]);
        self.from.env.extend(std::iter::once(params[0]).chain(carried).zip(next.iter().copied()));
    }
}
