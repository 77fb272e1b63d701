//! A tile held by all blocks of a cluster. Their threads form one team, and each block has a copy of the scratch
//! memory.
//!
//! ```text
//!  scratch    every block has a copy      store ─► the copy of each block       read ─► the own copy
//!  barrier    the cluster's barrier       arrive (release) ─ wait (acquire)
//!  first      no block sends before all have begun: they arrive at entry, and wait at the first store or barrier
//!  last       all blocks meet before one ends: nobody sends to a block that has ended
//! ```
//!
//! All blocks run the same program on equal scalars, so they meet at the same places.

use super::role::Expand;
use crate::analysis::{global_access, touched};
use warplift_ir::machine::{Attr, BufferKind, Guard, Inst, NewInst, Ty, Value};
use warplift_ir::target::Opcode;

impl Expand<'_, '_> {
    /// Whether threads of other blocks share a scratch buffer.
    fn sends(&self) -> bool {
        let scratch = self.given.program.buffers.values().any(|b| b.kind == BufferKind::Scratch);
        self.given.program.blocks > 1 && scratch
    }

    /// Signals that this block has begun.
    pub fn open_blocks(&mut self) {
        self.memory.begun = !self.sends();
        if !self.memory.begun {
            self.at().push(NewInst::new(Opcode::ClusterArrive, &[], &[]));
        }
    }

    /// Waits until all blocks have begun, before the first instruction that sends to them, or behind which threads may meet:
    /// nobody arrives twice at the cluster's barrier.
    pub fn await_blocks(&mut self, inst: Inst) {
        if !self.memory.begun && self.from.source == self.given.program.func.entry && self.writes(inst) {
            self.at().push(NewInst::new(Opcode::ClusterWait, &[], &[]));
            self.memory.begun = true;
        }
    }

    /// Whether an instruction, or one nested in it, writes a scratch buffer or global memory.
    fn writes(&self, inst: Inst) -> bool {
        let d = self.data(inst);
        let mut all = touched(&d.attr, d.op).into_iter();
        all.any(|(b, writes)| writes && self.kind(b) == BufferKind::Scratch)
            || global_access(d).is_some_and(|(_, writes)| writes)
            || d.blocks
                .iter()
                .any(|&b| self.given.program.func.blocks[b].insts.iter().any(|&i| self.writes(i)))
    }

    /// A barrier of all threads of all blocks.
    pub fn cluster_barrier(&mut self) {
        self.at().push(NewInst::new(Opcode::ClusterArrive, &[], &[]));
        self.at().push(NewInst::new(Opcode::ClusterWait, &[], &[]));
    }

    /// A store to each block's copy of a buffer.
    pub fn store_everywhere(
        &mut self,
        op: Opcode,
        [address, value]: [Value; 2],
        attr: &Attr,
        guard: Option<Guard>,
    ) {
        let remote = match op {
            Opcode::StShared8 => Opcode::StRemote8,
            Opcode::StShared16 => Opcode::StRemote16,
            _ => Opcode::StRemote,
        };
        for rank in 0..self.given.program.blocks {
            let rank = self.at().imm(rank.into());
            let to = self.at().op(Opcode::Mapa, &[address, rank], Ty::B32);
            self.at().push(NewInst::new(remote, &[to, value], &[]).attr(attr.clone()).guard(guard));
        }
    }

    /// Waits at the end of a block: it must not end while another block may still send to it.
    pub fn close_blocks(&mut self) {
        if self.given.program.blocks > 1
            && self.given.program.buffers.keys().any(|b| self.memory.seen.scratch[b].written)
        {
            self.cluster_barrier();
        }
    }
}
