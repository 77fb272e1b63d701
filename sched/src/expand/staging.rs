//! Accesses of threads to shared memory, and results that are staged for tensor copies.
//!
//! ```text
//!  [elected] wait until the slot's last copy has read it ─ warp meets ─ stores ─ proxy fence ─ warp meets
//!  ─ [elected] copies ─ [elected] commit
//! ```
//!
//! Each warp has its own part of every slot, so only the threads of one warp meet.

use super::role::Expand;
use super::state::Site;
use warplift_ir::machine::{Attr, Buffer, BufferKind, Guard, Inst, NewInst, Place, TmaAttr, Ty, Value};
use warplift_ir::target::Opcode;

impl Expand<'_, '_> {
    fn by_elected(&mut self, op: Opcode, attr: Attr) {
        let guard = self.own.elected.map(|pred| Guard { pred, negated: false });
        self.at().push(NewInst::new(op, &[], &[]).attr(attr).guard(guard));
    }

    /// Address of a thread's offset in a stage or slot of a buffer, and its constant part.
    fn place(&mut self, offset: Value, place: Place) -> (Value, i32) {
        if let Some(ring) = self.ring_of(place.buffer) {
            let state = self.ring(ring);
            let slot = state.stored.map_or(state.slot, |s| s.slot);
            return self.stage_place(ring, slot, offset, place);
        }
        let base = self.shared_base();
        let data = &self.given.program.buffers[place.buffer];
        let at = self.at().add(base, offset);
        let slot = self.memory.staged.slot_now[place.buffer] * data.stride();
        (at, (self.given.smem.buffers[place.buffer] + slot + place.offset) as i32)
    }

    /// The address of an array of the text.
    pub fn array_base(&mut self, inst: Inst) {
        let d = self.data(inst);
        let Attr::Place(place) = d.attr else { return };
        let none = self.at().imm(0);
        let (address, constant) = self.place(none, place);
        let address = self.at().add_imm(address, constant.into());
        self.from.env.insert(d.results[0], address);
    }

    /// A store or load of threads in shared memory.
    pub fn shared_access(&mut self, inst: Inst) {
        let d = self.data(inst);
        let place = match &d.attr {
            Attr::PlaceMem { place, .. } => *place,
            Attr::Matrix { buffer: Some(buffer), offset, .. } => {
                Place { buffer: *buffer, offset: *offset as u32 }
            }
            _ => return,
        };
        let reads =
            matches!(d.op, Opcode::LdShared | Opcode::LdShared16 | Opcode::LdShared8 | Opcode::Ldmatrix);
        self.protocol(inst, place.buffer, reads);
        let offset = self.value(d.args[0]);
        let (address, constant) = self.place(offset, place);
        let attr = match &d.attr {
            Attr::Matrix { count, trans, .. } => {
                Attr::Matrix { count: *count, trans: *trans, offset: constant, buffer: None }
            }
            Attr::PlaceMem { count, .. } => Attr::Mem { offset: constant, count: *count },
            other => other.clone(),
        };
        let args: Vec<Value> = [address].into_iter().chain(self.values(&d.args[1..])).collect();
        let types: Vec<Ty> = d.results.iter().map(|&r| self.given.program.func.ty(r)).collect();
        let guard = d.guard.map(|g| Guard { pred: self.value(g.pred), ..g });
        if let (2.., Opcode::StShared | Opcode::StShared16 | Opcode::StShared8, [to, value]) =
            (self.given.program.blocks, d.op, &args[..])
        {
            return self.store_everywhere(d.op, [*to, *value], &attr, guard);
        }
        let made = self.at().push(NewInst::new(d.op, &args, &types).attr(attr).guard(guard));
        for (i, &old) in d.results.iter().enumerate() {
            let new = self.code.func.insts[made].results[i];
            self.from.env.insert(old, new);
        }
    }

    fn protocol(&mut self, inst: Inst, buffer: Buffer, reads: bool) {
        match self.kind(buffer) {
            BufferKind::Array => {}
            BufferKind::Scratch if reads => self.visible(buffer, false),
            BufferKind::Scratch => self.writable(buffer),
            BufferKind::Staging => {
                if let Some(&Site { buffer, slot, pending }) = self.memory.staged.sites.get(&inst) {
                    self.memory.staged.slot_now[buffer] = slot;
                    if let Some(pending) = pending {
                        self.by_elected(Opcode::BulkWaitRead, Attr::Imm(pending.into()));
                        self.at().push(NewInst::new(Opcode::BarWarpSync, &[], &[]));
                    }
                    self.memory.seen.scratch[buffer].unfenced = true;
                }
            }
            BufferKind::NextTile | BufferKind::TileInfo | BufferKind::Decision => {}
            BufferKind::Operand => self.ring_of(buffer).into_iter().for_each(|r| self.open_store(r)),
            BufferKind::Ring | BufferKind::Handoff | BufferKind::Helper => {
                if let Some(ring) = self.ring_of(buffer).filter(|&r| self.opens_handoff(r)) {
                    self.wait_stage(ring);
                }
            }
        }
    }

    /// A tensor copy from a staging buffer to global memory.
    pub fn staged_copy(&mut self, inst: Inst) {
        let d = self.data(inst);
        let Attr::Tma(t) = &d.attr else { return };
        let Some(place) = t.place else { return };
        if self.memory.seen.scratch[place.buffer].unfenced {
            self.at().push(NewInst::new(Opcode::FenceProxyAsync, &[], &[]));
            self.at().push(NewInst::new(Opcode::BarWarpSync, &[], &[]));
            self.memory.seen.scratch[place.buffer].unfenced = false;
        }
        let offset = self.value(d.args[0]);
        let (address, constant) = self.place(offset, place);
        let address = self.at().add_imm(address, constant.into());
        let args: Vec<Value> = [address].into_iter().chain(self.values(&d.args[1..])).collect();
        let guard = self.have_guard();
        let attr = Attr::Tma(TmaAttr { place: None, ..*t });
        self.at().push(NewInst::new(Opcode::TmaStore, &args, &[]).attr(attr).guard(guard));
        if self.is_committed(inst) {
            self.by_elected(Opcode::BulkCommit, Attr::None);
        }
    }

    /// The guard of deferred copies: there must be a previous tile.
    fn have_guard(&mut self) -> Option<Guard> {
        let elected = self.own.elected?;
        let pred = match self.deferred.have {
            Some(have) => self.at().op(Opcode::AndPred, &[elected, have], Ty::Pred),
            None => elected,
        };
        Some(Guard { pred, negated: false })
    }

    /// Whether a copy ends its group. It does if no other copy follows at once. If only the end of the block waits for
    /// groups, it does so if no other copy follows at all.
    fn is_committed(&self, inst: Inst) -> bool {
        let func = &self.given.program.func;
        let list = func.block_of(inst).map_or(&[][..], |b| &func.blocks[b].insts);
        let mut after = list.iter().skip_while(|&&i| i != inst).skip(1).map(|&i| func.insts[i].op);
        if self.memory.staged.sites.values().all(|s| s.pending.is_none()) {
            return after.all(|op| op != Opcode::TmaStore);
        }
        after.find(|op| !op.is_pure()) != Some(Opcode::TmaStore)
    }

    /// Waits at the end: shared memory must outlive the copies that read it.
    pub fn drain_staging(&mut self) {
        if self.given.program.buffers.values().any(|b| b.kind == BufferKind::Staging) {
            self.by_elected(Opcode::BulkWaitRead, Attr::Imm(0));
        }
    }
}
