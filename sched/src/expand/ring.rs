//! Rings: slot and phase of a role, and the barriers of a stage.
//!
//! `full[slot]` completes when the copies' bytes have arrived, or when every warp that hands values over has stored its
//! part. `empty[slot]` completes when every warp has released the stage. A reader starts with phase 0. A filler starts
//! with phase 1, so that its first round of waits returns at once.

use super::role::Expand;
use super::state::RingState;
use crate::analysis::BARRIER;
use crate::schedule::{fills_first, fills_last};
use warplift_ir::machine::{Attr, Guard, NewInst, Place, Ring, RingFill, RoleKind, StageRelease, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

impl Expand<'_, '_> {
    /// Counters of all rings at the role's entry.
    pub fn open_rings(&mut self) {
        for ring in self.given.schedule.rings.keys().collect::<Vec<_>>() {
            let first = i64::from(self.is_filler(ring));
            let slot = self.at().imm(0);
            let phase = self.at().imm(first);
            let stored = self.first_store(ring);
            self.rings[ring] = Some(RingState { slot, phase, open: false, filled: false, stored });
        }
    }

    /// Whether this role fills a ring. A filler waits for empty stages, and signals that they are full.
    fn is_filler(&self, ring: Ring) -> bool {
        match self.given.schedule.rings[ring].fill {
            RingFill::Handoff | RingFill::Decision => self.who.role == RoleKind::Consumer,
            // Who stores has another place in the ring: see `operand`.
            RingFill::Operand => false,
            RingFill::Helper => self.who.role == RoleKind::Helper,
            RingFill::Tma | RingFill::CpAsync => self.who.role.copies(),
            RingFill::NextTile | RingFill::NextTileByThreads | RingFill::TileInfo => {
                self.who.role == RoleKind::Producer
            }
        }
    }

    /// Whether this is the first access to a stage by which one role hands values over to another.
    pub fn opens_handoff(&self, ring: Ring) -> bool {
        self.given.schedule.rings[ring].fill.is_stored() && !self.ring(ring).open
    }

    pub fn ring(&self, ring: Ring) -> RingState {
        // Every ring is opened at the role's entry.
        let of = |r: Ring| self.rings[r].unwrap_or_else(|| panic!("{r} is not open"));
        match self.leader(ring) {
            Some(leader) => RingState { slot: of(leader).slot, phase: of(leader).phase, ..of(ring) },
            None => of(ring),
        }
    }

    /// The ring whose slots and phases a helper's ring follows.
    fn leader(&self, ring: Ring) -> Option<Ring> {
        match (self.given.schedule.rings[ring].fill, self.given.schedule.rings[ring].release) {
            (RingFill::Helper, StageRelease::With(leader)) => Some(leader),
            _ => None,
        }
    }

    /// The ring that fills a buffer.
    pub fn ring_of(&self, buffer: warplift_ir::machine::Buffer) -> Option<Ring> {
        self.given.schedule.rings.iter().find(|(_, r)| r.buffers.contains(&buffer)).map(|(r, _)| r)
    }

    /// Address of a stage's full barrier. The empty barrier stands `depth` barriers behind it.
    fn barrier(&mut self, ring: Ring) -> Value {
        self.barrier_at(self.ring(ring).slot)
    }

    pub fn barrier_at(&mut self, slot: Value) -> Value {
        let base = self.shared_base();
        self.barrier_from(base, slot)
    }

    pub fn barrier_from(&mut self, base: Value, slot: Value) -> Value {
        let offset = self.at().mul_imm(slot, i64::from(BARRIER));
        self.at().add(base, offset)
    }

    /// Constant offset of the full or empty barriers from the start of shared memory.
    pub fn barrier_offset(&self, ring: Ring, empty: bool) -> i32 {
        let depth = self.given.schedule.rings[ring].depth;
        (self.given.smem.barriers[ring] + if empty { depth * BARRIER } else { 0 }) as i32
    }

    /// Spins until the stage is full (a reader), or until it is empty (a filler, unless it is known to be empty).
    pub fn wait_stage(&mut self, ring: Ring) {
        let data = &self.given.schedule.rings[ring];
        let empty = data.release != StageRelease::Alone
            || fills_first(&self.given.program.func, data, self.from.source);
        // The handoff tells that all stages that the consumers waited for are full.
        let rereads = self.who.role == RoleKind::Epilogue && data.rereads.contains(&self.from.source);
        if !rereads && (!self.is_filler(ring) || !empty) {
            self.spin(ring);
        }
        if let Some(state) = &mut self.rings[ring] {
            state.open = true;
        }
    }

    /// Spins until the stage is full (a reader) or empty (a filler).
    pub fn spin(&mut self, ring: Ring) {
        let empty = self.is_filler(ring);
        let address = self.barrier(ring);
        let phase = self.ring(ring).phase;
        self.wait_barrier(ring, address, phase, empty);
    }

    /// Spins until a phase of a stage's full or empty barrier is over.
    pub fn wait_barrier(&mut self, ring: Ring, address: Value, phase: Value, empty: bool) {
        let offset = self.barrier_offset(ring, empty);
        let attr = Attr::Mem { offset, count: 1 };
        self.at().push(NewInst::new(Opcode::MbarWait, &[address, phase], &[]).attr(attr));
    }

    /// Announces the bytes of a fill.
    pub fn expect(&mut self, ring: Ring, guard: Option<Guard>) {
        let address = self.full_barrier(ring);
        let bytes = i64::from(self.given.schedule.rings[ring].bytes);
        let new = NewInst::new(Opcode::MbarExpectTx, &[address], &[]).attr(Attr::Imm(bytes));
        self.at().push(new.guard(guard));
        if let Some(state) = &mut self.rings[ring] {
            state.filled = true;
        }
    }

    /// Address of the full barrier, on which copies complete.
    pub fn full_barrier(&mut self, ring: Ring) -> Value {
        let base = self.barrier(ring);
        let offset = i64::from(self.barrier_offset(ring, false));
        self.at().add_imm(base, offset)
    }

    /// Address of a place in the stage.
    pub fn stage_address(&mut self, ring: Ring, buffer: warplift_ir::machine::Buffer, offset: u32) -> Value {
        let base = self.shared_base();
        let slot = self.ring(ring).slot;
        let data = &self.given.program.buffers[buffer];
        let stage = i64::from(data.stride());
        let moved = self.at().mul_imm(slot, stage);
        let at = self.at().add(base, moved);
        let start = i64::from(self.given.smem.buffers[buffer] + offset);
        self.at().add_imm(at, start)
    }

    /// Address of a thread's offset in a slot, and its constant part.
    pub fn stage_place(&mut self, ring: Ring, slot: Value, offset: Value, place: Place) -> (Value, i32) {
        debug_assert!(self.given.schedule.rings[ring].buffers.contains(&place.buffer));
        let stride = self.given.program.buffers[place.buffer].stride();
        let first = (self.given.smem.buffers[place.buffer] + place.offset) as i32;
        if let Some(known) = self.code.func.constant(slot) {
            return (self.address_once(offset), first + known as i32 * stride as i32);
        }
        let base = self.shared_base();
        let stage = self.at().mul_imm(slot, i64::from(stride));
        let stage = self.at().add(base, stage);
        (self.at().add(stage, offset), first)
    }

    /// Ends a stage: consumers release it, and every role goes on to the next slot.
    pub fn end_stage(&mut self, ring: Ring) {
        if !self.ring(ring).open {
            return;
        }
        if self.given.schedule.rings[ring].fill == RingFill::CpAsync {
            self.finish_copies(ring);
            self.wait_wgmma();
            if self.given.schedule.rings[ring].depth == 1 {
                self.block_barrier();
            }
        } else if self.stores_operand(ring) {
            self.release_operand(ring);
        } else if !self.given.schedule.producer {
            self.wait_wgmma();
            if self.given.schedule.rings[ring].release != StageRelease::Never {
                self.keep_from_copies(ring);
                self.block_barrier();
            }
        } else if !self.who.role.copies() {
            self.wait_wgmma();
            let data = &self.given.schedule.rings[ring];
            let kept = self.who.role == RoleKind::Consumer && !data.rereads.is_empty();
            // Consumers release the stages that a helper has read: they wait for its results.
            let told = self.who.role == RoleKind::Helper || data.release != StageRelease::Alone;
            let told = told && !self.is_filler(ring);
            if kept || told || fills_last(&self.given.program.func, data, self.from.source) {
                return self.advance(ring);
            }
            self.keep_from_copies(ring);
            if data.threads_read {
                // The elected lane arrives for all lanes, so all of them must have read or stored.
                self.at().push(NewInst::new(Opcode::BarWarpSync, &[], &[]));
            }
            let guard = self.own.elected.map(|pred| Guard { pred, negated: false });
            self.release(ring, self.ring(ring).slot, guard);
        }
        self.advance(ring);
    }

    /// Adds a proxy fence, so that the next copies overwrite a stage only after threads have read it. Without the
    /// fence, copies overtake reads that still wait behind stores (measured: rows of layer_norm that held columns of
    /// the block's next row).
    fn keep_from_copies(&mut self, ring: Ring) {
        let data = &self.given.schedule.rings[ring];
        if data.threads_read && data.fill == RingFill::Tma {
            self.fence();
        }
    }

    /// This warp has read a stage, or filled it for others, and releases it. Nothing is done if another ring's release
    /// speaks for this one, or if the ring needs no release.
    pub fn release(&mut self, ring: Ring, slot: Value, guard: Option<Guard>) {
        if self.given.schedule.rings[ring].release != StageRelease::Alone && !self.is_filler(ring) {
            return;
        }
        let address = self.barrier_at(slot);
        let offset = i64::from(self.barrier_offset(ring, !self.is_filler(ring)));
        let address = self.at().add_imm(address, offset);
        self.at().push(NewInst::new(Opcode::MbarArrive, &[address], &[]).guard(guard));
        if self.given.schedule.rings[ring].cluster {
            self.release_remote(ring, slot, guard);
        }
    }

    /// Goes on to the next slot. Every helper goes on after the slot's work, whether it was its turn or not. A ring
    /// that follows another ring goes on with it.
    pub fn advance(&mut self, ring: Ring) {
        let RingState { slot, phase, .. } = self.ring(ring);
        let stays = self.own.in_slot || self.leader(ring).is_some();
        let (slot, phase) = if stays { (slot, phase) } else { self.next_stage(ring, slot, phase) };
        self.move_to(ring, slot, phase);
    }

    /// Places this role at a stage that it has not opened.
    pub fn move_to(&mut self, ring: Ring, slot: Value, phase: Value) {
        let stored = self.rings[ring].and_then(|r| r.stored);
        self.rings[ring] = Some(RingState { slot, phase, open: false, filled: false, stored });
    }

    /// Slot and phase of the stage behind another one.
    pub fn next_stage(&mut self, ring: Ring, slot: Value, phase: Value) -> (Value, Value) {
        let depth = i64::from(self.given.schedule.rings[ring].depth);
        let one = self.at().imm(1);
        let flipped = self.at().int(Opcode::Xor, phase, one);
        if depth == 1 {
            return (slot, flipped);
        }
        if let Some(known) = self.code.func.constant(slot) {
            let next = (known + 1) % depth;
            return (self.at().imm(next), if next == 0 { flipped } else { phase });
        }
        let next = self.at().add_imm(slot, 1);
        let end = self.at().imm(depth);
        let wraps = self.at().compare(CmpOp::Eq, next, end);
        let zero = self.at().imm(0);
        let slot = self.at().op(Opcode::Selp, &[zero, next, wraps], Ty::B32);
        (slot, self.at().op(Opcode::Selp, &[flipped, phase, wraps], Ty::B32))
    }
}
