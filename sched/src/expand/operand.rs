//! Rings of operands that the consumers compute: they fill the stages that their own products read.
//!
//! ```text
//!  wait empty[stored] ─ stores ─ proxy fence ─ warp meets ─ [elected] arrive full[stored] ─ next stage to store
//!  wait full[slot] ─ product ─ .. ─ it is complete ─ [elected] arrive empty[slot] ─ next stage to read
//! ```
//!
//! Every warp arrives at both barriers of a stage.

use super::role::Expand;
use super::state::StoreState;
use crate::analysis::touched;
use crate::schedule::last_store;
use warplift_ir::machine::{Block, BufferKind, Guard, Inst, NewInst, Ring, RingFill, Value};
use warplift_ir::target::Opcode;

impl Expand<'_, '_> {
    /// Whether this role fills a ring for its own products.
    pub fn stores_operand(&self, ring: Ring) -> bool {
        self.given.schedule.rings[ring].fill == RingFill::Operand && !self.who.role.copies()
    }

    /// Where this role stores next, at its entry: a filler's first round of waits returns at once.
    pub fn first_store(&mut self, ring: Ring) -> Option<StoreState> {
        self.stores_operand(ring).then(|| {
            let slot = self.at().imm(0);
            let phase = self.at().imm(1);
            StoreState { slot, phase, open: false }
        })
    }

    /// Before a store: waits until all products have read the stage that is about to be overwritten.
    pub fn open_store(&mut self, ring: Ring) {
        let Some(stored) = self.ring(ring).stored.filter(|s| !s.open) else { return };
        let address = self.barrier_at(stored.slot);
        self.wait_barrier(ring, address, stored.phase, true);
        self.set_stored(ring, StoreState { open: true, ..stored });
    }

    /// Before a product: waits until all threads have stored its operands.
    pub fn await_operands(&mut self, product: Inst) {
        let d = self.data(product);
        for (buffer, _) in touched(&d.attr, d.op) {
            let ring = self
                .ring_of(buffer)
                .filter(|&r| self.kind(buffer) == BufferKind::Operand && !self.ring(r).open);
            ring.into_iter().for_each(|r| self.wait_stage(r));
        }
    }

    /// The instruction of a block behind which each operand is whole.
    pub fn store_ends(&self, block: Block) -> Vec<(Inst, Ring)> {
        let rings = self.given.schedule.rings.iter().filter(|&(r, _)| self.stores_operand(r));
        let end = |(ring, data)| Some((last_store(&self.given.program.func, data, block)?, ring));
        rings.filter_map(end).collect()
    }

    /// Behind the last store of a stage: hands it over to the products of all warps.
    pub fn hand_over(&mut self, ring: Ring) {
        let Some(stored) = self.ring(ring).stored else { return };
        self.fence();
        self.at().push(NewInst::new(Opcode::BarWarpSync, &[], &[]));
        self.arrive_at(ring, stored.slot, false);
        let (slot, phase) = self.next_stage(ring, stored.slot, stored.phase);
        self.set_stored(ring, StoreState { slot, phase, open: false });
    }

    /// This warp's products have read a stage.
    pub fn release_operand(&mut self, ring: Ring) {
        self.wait_wgmma();
        self.arrive_at(ring, self.ring(ring).slot, true);
    }

    fn arrive_at(&mut self, ring: Ring, slot: Value, empty: bool) {
        let guard = self.own.elected.map(|pred| Guard { pred, negated: false });
        let address = self.barrier_at(slot);
        let offset = i64::from(self.barrier_offset(ring, empty));
        let address = self.at().add_imm(address, offset);
        self.at().push(NewInst::new(Opcode::MbarArrive, &[address], &[]).guard(guard));
    }

    pub fn set_stored(&mut self, ring: Ring, to: StoreState) {
        if let Some(state) = &mut self.rings[ring] {
            state.stored = Some(to);
        }
    }
}
