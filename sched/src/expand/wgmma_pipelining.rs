//! Products left in flight over an iteration. Iteration t waits for the products of t-1, and then releases the stage of
//! t-1.
//!
//! ```text
//!  t:    wait full[t] ─ products, commit ─ wait for t-1 ─ release t-1
//!  exit: wait for all ─ release the last, if the ring is filled again
//! ```
//!
//! One warpgroup alone needs this to keep the tensor cores busy between two iterations. Two warpgroups fill each
//! other's gaps, unless they meet in each iteration because they copy.

use super::role::Expand;
use super::state::Unreleased;
use crate::schedule::ends_with_its_loop;
use warplift_ir::machine::{Attr, Block, Guard, Inst, NewInst, Ring, RingFill, RoleKind, Ty, Value};
use warplift_ir::target::Opcode;

impl Expand<'_, '_> {
    /// Rings of a loop's body whose stages are held over an iteration. There are none if every product is waited for,
    /// or if there is no second iteration.
    pub fn unreleased_rings(&self, body: Block) -> Vec<Ring> {
        let insts = &self.given.program.func.insts;
        let mut flying = insts.keys().filter(|&i| self.given.schedule.in_flight[i] > 0);
        let here = flying.any(|i| insts[i].blocks.contains(&body) && self.ahead.most != Some((i, 1)));
        let rings = self.given.schedule.rings.iter().filter(|(_, r)| here && r.blocks.contains(&body));
        rings.map(|(r, _)| r).filter(|_| self.who.role == RoleKind::Consumer).collect()
    }

    /// Whether threads may run an instruction while products are in flight: it must not use their sums. It may read their
    /// operands in shared memory, which stay until the wait. Of products whose left operand is in registers one stays in
    /// flight, so that at most two operands are live at a time.
    pub fn runs_beside(&mut self, inst: Inst) -> bool {
        let d = self.data(inst);
        let flown = &self.flight.flown;
        let converted = flown.iter().any(|f| f.registers);
        let reads = !converted && matches!(d.op, Opcode::LdShared | Opcode::LdShared16 | Opcode::LdShared8);
        let free = flown.iter().all(|f| f.registers == converted && !d.args.contains(&f.sum));
        let may = (converted || self.given.schedule.beside_products) && self.deferred.part.is_none();
        let beside = may && free && (d.op.is_pure() || reads);
        let older = flown.len().saturating_sub(1);
        if beside && converted && older > 0 && !self.flight.exact {
            self.flight.flown.drain(..older);
            self.flight.groups = 1;
            self.at().push(NewInst::new(Opcode::WgmmaWait, &[], &[]).attr(Attr::Imm(1)));
        }
        beside
    }

    /// The end of an iteration whose products stay in flight.
    pub fn defer_release(&mut self, rings: &[Ring]) {
        if let Some(part) = self.deferred.part.take() {
            self.deferred_part(part);
        }
        let groups = i64::from(std::mem::take(&mut self.flight.groups));
        self.flight.flying = false;
        self.flight.flown.clear();
        if self.flight.unreleased.is_some() {
            self.at().push(NewInst::new(Opcode::WgmmaWait, &[], &[]).attr(Attr::Imm(groups)));
        }
        let copied = |r: &&Ring| self.given.schedule.rings[**r].fill == RingFill::CpAsync;
        for &ring in rings.iter().filter(copied).collect::<Vec<_>>() {
            self.finish_copies(ring);
        }
        self.release_deferred();
        self.flight.unreleased =
            Some(Unreleased { slots: rings.iter().map(|&r| (r, self.ring(r).slot)).collect(), any: None });
        rings.iter().for_each(|&r| self.advance(r));
    }

    fn release_deferred(&mut self) {
        let Some(unreleased) = self.flight.unreleased.take().filter(|h| !h.slots.is_empty()) else { return };
        let pred = match (self.own.elected, unreleased.any) {
            (Some(e), Some(any)) => Some(self.at().op(Opcode::AndPred, &[e, any], Ty::Pred)),
            (e, _) => e,
        };
        let guard = pred.map(|pred| Guard { pred, negated: false });
        for (ring, slot) in unreleased.slots {
            // Stages that threads copy are handed over where these meet.
            if self.given.schedule.rings[ring].fill.has_barriers() {
                self.release(ring, slot, guard);
            }
        }
    }

    /// A block on the way out of a loop, in which all products are waited for. It must be a block of its own: if the
    /// loop is skipped nothing is in flight, and values computed elsewhere must not meet the wait (C7515).
    pub fn drain_block(&mut self, block: Block, next: Block, passed: &[Value]) {
        self.code.func.order.push(block);
        self.code.block = block;
        self.at().push(NewInst::new(Opcode::WgmmaWait, &[], &[]).attr(Attr::Imm(0)));
        if let Some(unreleased) = &mut self.flight.unreleased {
            let (func, rings) = (&self.given.program.func, &self.given.schedule.rings);
            unreleased.slots.retain(|(r, _)| !ends_with_its_loop(func, &rings[*r]));
        }
        self.release_deferred();
        self.jump(next, passed);
    }

    /// Held slots, and whether there are any, as block arguments.
    pub fn unreleased_values(&mut self, rings: &[Ring], unreleased: Option<&Unreleased>) -> Vec<Value> {
        if rings.is_empty() {
            return Vec::new();
        }
        let mut values: Vec<Value> = match unreleased {
            Some(h) => h.slots.iter().map(|s| s.1).collect(),
            None => vec![self.at().imm(0); rings.len()],
        };
        values.push(match unreleased.and_then(|h| h.any) {
            Some(any) => any,
            None => self.at().imm_of(Ty::Pred, unreleased.is_some().into()),
        });
        values
    }

    /// Block parameters for held slots.
    pub fn unreleased_params(&mut self, block: Block, rings: &[Ring]) {
        if rings.is_empty() {
            return;
        }
        let mut slots = Vec::new();
        for &r in rings {
            slots.push((r, self.code.func.append_param(block, Ty::B32, true)));
        }
        let any = Some(self.code.func.append_param(block, Ty::Pred, true));
        self.flight.unreleased = Some(Unreleased { slots, any });
    }

    /// The rings of a loop's body whose stages are held over an iteration.
    pub fn body_of(&self, inst: Inst) -> Vec<Ring> {
        self.data(inst).blocks.first().map_or_else(Vec::new, |&b| self.unreleased_rings(b))
    }
}
