//! The computing warps: waits, tensor products with their descriptors, and barriers around scratch memory.

use super::role::Expand;
use super::state::{Flown, Touched};
use crate::analysis::{buffer_of, global_access, handoff};
use crate::error::Result;
use warplift_ir::machine::{
    Attr, Block, Buffer, BufferKind, Func, Inst, NewInst, RingFill, RoleKind, SharedOperand, Ty, Value,
    WgmmaAttr,
};
use warplift_ir::target::Opcode;

/// Bits of an address that a matrix descriptor holds.
const DESCRIPTOR_BITS: i64 = 0x3ffff;

impl<'a> Expand<'_, 'a> {
    /// Expands the consumers' role. `registers`: the number that `setmaxnreg` sets.
    pub fn consumer(mut self, registers: Option<u32>) -> Result<Func<'a>> {
        if let Some(n) = registers {
            self.at().push(NewInst::new(Opcode::SetmaxnregInc, &[], &[]).attr(Attr::Imm(n.into())));
        }
        if self.given.program.teams > 1 {
            let thread = self.at().op(Opcode::Tid, &[], Ty::B32);
            let own = i64::from(32 * self.given.program.warps);
            let threads = self.at().imm(own);
            let team = self.at().int(Opcode::DivU32, thread, threads);
            self.own.team = Some(self.at().op(Opcode::Uniform, &[team], Ty::B32));
        }
        self.shared_base();
        let elected = self.at().op(Opcode::Elect, &[], Ty::Pred);
        self.own.elected = Some(elected);
        self.open_mma_order();
        self.open_blocks();
        if !self.reads_before_wait() && self.touches_global() {
            self.wait_for_grids();
        }
        self.open_rings();
        self.walk(self.given.program.func.entry)?;
        self.close_mma_order();
        self.drain_staging();
        self.leave_together();
        self.close_blocks();
        self.at().push(NewInst::new(Opcode::Ret, &[], &[]));
        Ok(self.code.func)
    }

    /// Expands one instruction for the consumers.
    pub fn consume(&mut self, _block: Block, inst: Inst) -> Result<()> {
        let d = self.data(inst);
        self.await_blocks(inst);
        match d.op {
            Opcode::Await if self.is_others(inst) => {}
            Opcode::Await => self.awaited(d.args),
            Opcode::Yield => {}
            _ if self.hears_tile_info(inst) => {}
            _ if !self.keeps(inst) || self.ahead.led.contains(&inst) => {}
            Opcode::For => self.consume_loop(inst)?,
            Opcode::If => {
                self.wait_wgmma();
                self.expand_if(inst)?;
            }
            // The first half's loads fill the stages that epilogue warps read again.
            Opcode::TmaLoad | Opcode::BulkLoad if self.who.role == RoleKind::Epilogue => {}
            Opcode::TmaLoad | Opcode::BulkLoad => self.fill(inst),
            Opcode::CpAsync => self.copy_in_place(inst),
            Opcode::Wgmma => {
                self.await_operands(inst);
                self.begin_mmas(inst);
                self.product(inst);
                self.end_mmas(inst);
            }
            Opcode::Const | Opcode::Undef => self.clone_inst(inst),
            Opcode::Pick => self.pick(inst),
            Opcode::ArrayBase => self.array_base(inst),
            _ if global_access(d).is_some() => self.consume_plain(inst),
            Opcode::Stmatrix
            | Opcode::StShared
            | Opcode::StShared16
            | Opcode::StShared8
            | Opcode::LdShared
            | Opcode::LdShared16
            | Opcode::LdShared8
            | Opcode::Ldmatrix => {
                if !self.runs_beside(inst) {
                    self.wait_wgmma();
                }
                self.shared_access(inst);
            }
            Opcode::TmaStore => {
                self.wait_wgmma();
                self.staged_copy(inst);
            }
            _ => self.consume_plain(inst),
        }
        Ok(())
    }

    /// A loop: deferred, peeled, or as it is written.
    fn consume_loop(&mut self, inst: Inst) -> Result<()> {
        self.wait_wgmma();
        self.wait_after_early(inst);
        match self.given.schedule.deferral.as_ref() {
            Some(df) if df.outer == inst => self.expand_deferred(inst),
            Some(df) if df.inner == inst && self.deferred.have.is_some() => self.expand_main(inst),
            _ => self.expand_for(inst),
        }
    }

    /// An instruction without a part in rings or barriers. Pure scalars need no wait for products in flight.
    fn consume_plain(&mut self, inst: Inst) {
        let d = self.data(inst);
        let scalar = d.op.is_pure() && d.results.iter().all(|&r| !self.given.program.func.ty(r).is_frag());
        if !scalar && !self.runs_beside(inst) {
            self.wait_wgmma();
        }
        self.order_global(inst);
        self.clone_inst(inst);
        self.acquired(inst);
    }

    /// Whether an await belongs to the other half of a tile's work. Both halves wait for tiles that are loaded only
    /// once.
    fn is_others(&self, inst: Inst) -> bool {
        handoff(self.given.program).is_some()
            && self.given.schedule.roles[inst] != self.who.role
            && self.given.program.func.repeats(self.from.source)
    }

    /// An await: loads wait for their stage at once, and products are complete before the next instruction.
    fn awaited(&mut self, events: &[Value]) {
        for &e in events {
            self.arrive(e);
            let Some(ring) = buffer_of(&self.given.program.func, e).and_then(|b| self.ring_of(b)) else {
                continue;
            };
            let data = &self.given.schedule.rings[ring];
            if self.who.role == RoleKind::Helper && !data.helped {
                continue;
            }
            if data.fill == RingFill::Tma && !self.moves_in(data, self.from.source) {
                // A surrounding block fills this ring, and only once. Another path to this place may not have waited.
                self.spin(ring);
                continue;
            }
            match (self.ring(ring).open, self.given.schedule.rings[ring].fill) {
                (true, RingFill::CpAsync) if self.ring(ring).filled => self.open_copies(ring),
                (true, _) => {}
                (false, RingFill::Tma | RingFill::Handoff | RingFill::Helper) => self.wait_stage(ring),
                (false, RingFill::CpAsync) => self.open_copies(ring),
                // No await names the stages of these.
                (
                    false,
                    RingFill::Operand
                    | RingFill::NextTile
                    | RingFill::NextTileByThreads
                    | RingFill::TileInfo
                    | RingFill::Decision,
                ) => {}
            }
        }
    }

    /// Waits for one product of a rotated body, and for those issued before it. Later products stay in flight.
    fn arrive(&mut self, event: Value) {
        let Some(at) = self.flight.events.iter().position(|&f| f == event) else { return };
        self.flight.events.drain(..=at);
        let left = self.flight.events.len() as i64;
        self.at().push(NewInst::new(Opcode::WgmmaWait, &[], &[]).attr(Attr::Imm(left)));
    }

    /// Waits for products in flight. A deferred part of the previous tile's stores goes before the wait.
    pub fn wait_wgmma(&mut self) {
        if !self.flight.flying || self.flight.exact {
            return;
        }
        self.flight.flying = false;
        self.flight.groups = 0;
        let flown: Vec<Value> = self.flight.flown.drain(..).map(|f| f.sum).collect();
        if let Some(part) = self.deferred.part.take() {
            self.deferred_part(part);
            self.still_read(&flown);
        }
        self.at().push(NewInst::new(Opcode::WgmmaWait, &[], &[]).attr(Attr::Imm(0)));
    }

    /// `wgmma` over all atoms and k-steps, as one committed group.
    fn product(&mut self, inst: Inst) {
        let d = self.data(inst);
        let Attr::Wgmma(w) = &d.attr else { return };
        let operands: Vec<&SharedOperand> = w.a.iter().chain([&w.b]).collect();
        for o in &operands {
            self.visible(o.place.buffer, true);
        }
        // The product reads after the last of the barriers, whichever operand needs it.
        for buffer in operands.iter().map(|o| o.place.buffer) {
            self.memory.seen.scratch[buffer].read |= self.kind(buffer) == BufferKind::Scratch;
        }
        let mut acc = self.value(d.args[0]);
        let mut keep = self.value(d.args[1]);
        if self.is_zero_fragment(acc) {
            // An accumulator of zeros is not read: the product overwrites it.
            let ty = self.given.program.func.ty(d.args[0]);
            acc = self.at().op(Opcode::Undef, &[], ty);
            keep = self.at().imm_of(Ty::Pred, 0);
        }
        let mut args = vec![acc, keep];
        args.extend(d.args.get(2).map(|&a| self.value(a)));
        if let Some(a) = &w.a {
            self.descriptors_of(a, w.m_atoms, &mut args);
        }
        self.descriptors_of(&w.b, w.n_atoms, &mut args);
        let ty = self.given.program.func.ty(d.results[0]);
        self.at().push(NewInst::new(Opcode::WgmmaFence, &[], &[]));
        let attr = Attr::Wgmma(Box::new(WgmmaAttr { ..(**w).clone() }));
        let result = self.at().value(NewInst::new(Opcode::Wgmma, &args, &[ty]).attr(attr));
        self.at().push(NewInst::new(Opcode::WgmmaCommit, &[], &[]));
        self.from.env.insert(d.results[0], result);
        if self.flight.exact {
            self.flight.events.push(d.results[1]);
            return;
        }
        self.flight.flying = true;
        self.flight.groups += 1;
        self.flight.flown.push(Flown { sum: d.results[0], registers: w.a.is_none() });
    }

    /// Matrix descriptors of an operand by atom and k-step (PTX ISA, "Matrix Descriptor Format"). Only the low word
    /// changes. It holds the address in units of 16 bytes.
    fn descriptors_of(&mut self, o: &SharedOperand, atoms: u8, args: &mut Vec<Value>) {
        let low = self.stage_descriptor(o);
        let code = match o.swizzle {
            128 => 1i64,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        let high = (i64::from(o.stride) >> 4) | (code << 30);
        let high = self.at().imm(i64::from(high as u32 as i32));
        for atom in 0..u32::from(atoms) {
            for &step in &o.steps {
                let moved = i64::from((atom * o.atom_stride + step) >> 4);
                let low = self.at().add_imm(low, moved);
                args.push(self.at().op(Opcode::Pack64, &[low, high], Ty::B64));
            }
        }
    }

    fn stage_descriptor(&mut self, o: &SharedOperand) -> Value {
        let buffer = o.place.buffer;
        let base = self.descriptor_base(o);
        let data = &self.given.program.buffers[buffer];
        let stage = i64::from(data.stride() >> 4);
        match self.ring_of(buffer) {
            Some(ring) => {
                let slot = self.ring(ring).slot;
                let moved = self.at().mul_imm(slot, stage);
                self.at().add(base, moved)
            }
            None => base,
        }
    }

    /// The low word for stage 0 and this warpgroup, computed once at entry.
    fn descriptor_base(&mut self, o: &SharedOperand) -> Value {
        let key = (o.place.buffer, [o.warpgroup_stride, o.place.offset, o.leading], o.mn_major);
        if let Some(&v) = self.own.descriptors.get(&key) {
            return v;
        }
        let base = self.shared_base();
        let start = self.given.smem.buffers[o.place.buffer] + o.place.offset;
        let entry = self.code.func.entry;
        let (teams, warps) = (self.given.program.teams, self.given.program.warps);
        let low = self.before_end(entry, |c| {
            let mut at = c.add_imm(base, i64::from(start));
            if o.warpgroup_stride > 0 {
                let thread = c.op(Opcode::Tid, &[], Ty::B32);
                let threads = c.imm(i64::from(32 * warps));
                let own = if teams > 1 { c.int(Opcode::RemU32, thread, threads) } else { thread };
                let seven = c.imm(7);
                let group = c.int(Opcode::ShrU32, own, seven);
                let group = c.op(Opcode::Uniform, &[group], Ty::B32);
                let moved = c.mul_imm(group, i64::from(o.warpgroup_stride));
                at = c.add(at, moved);
            }
            // In a cluster an address carries the block's rank above these bits.
            let inside = c.and_imm(at, DESCRIPTOR_BITS);
            let four = c.imm(4);
            let low = c.int(Opcode::ShrU32, inside, four);
            let leading = c.imm(i64::from(o.leading >> 4) << 16);
            c.int(Opcode::Or, low, leading)
        });
        self.own.descriptors.insert(key, low);
        low
    }

    /// Makes the stores of threads to a scratch buffer visible to all threads, and to the tensor cores if `tensor` is
    /// set.
    pub fn visible(&mut self, buffer: Buffer, tensor: bool) {
        if self.kind(buffer) != BufferKind::Scratch {
            return;
        }
        let Touched { written, unfenced, .. } = self.memory.seen.scratch[buffer];
        if written || (tensor && unfenced) {
            self.wait_wgmma();
            if tensor {
                self.fence();
            }
            self.block_barrier();
        }
        self.memory.seen.scratch[buffer].read = true;
    }

    /// Makes this thread's stores visible to asynchronous reads after the next barrier.
    pub fn fence(&mut self) {
        self.at().push(NewInst::new(Opcode::FenceProxyAsync, &[], &[]));
        for b in self.given.program.buffers.keys() {
            self.memory.seen.scratch[b].unfenced = false;
        }
    }

    /// Waits until all threads have read a scratch buffer, so that it may be overwritten.
    pub fn writable(&mut self, buffer: Buffer) {
        if self.memory.seen.scratch[buffer].read {
            self.wait_wgmma();
            self.block_barrier();
        }
        self.memory.seen.scratch[buffer].written = true;
        self.memory.seen.scratch[buffer].unfenced = true;
    }
}
