//! Barriers for the order of warpgroups at the tensor cores; see `schedule::mma_order`.

use super::role::Expand;
use crate::analysis::WARPGROUP;
use crate::schedule::{NamedBarrier, NamedBarriers};
use warplift_ir::machine::{Attr, Guard, Inst, NewInst, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// Threads at a barrier: those of the warpgroup that waits, and those of the warpgroup that wakes it.
const THREADS: i64 = 2 * 32 * WARPGROUP as i64;

impl Expand<'_, '_> {
    /// Computes a predicate for each warpgroup: whether this is the one. The last warpgroup wakes the first.
    pub fn open_mma_order(&mut self) {
        if self.given.schedule.mma_order.is_empty() {
            return;
        }
        let thread = self.at().op(Opcode::Tid, &[], Ty::B32);
        let threads = self.at().imm(i64::from(32 * WARPGROUP));
        let group = self.at().int(Opcode::DivU32, thread, threads);
        let group = self.at().op(Opcode::Uniform, &[group], Ty::B32);
        for n in 0..self.given.program.warps / WARPGROUP {
            let n = self.at().imm(n.into());
            let own: Value = self.at().compare(CmpOp::Eq, group, n);
            self.own.group.push(own);
        }
        self.wake(self.own.group.len() - 1);
    }

    /// At the end the first warpgroup takes the last wake.
    pub fn close_mma_order(&mut self) {
        if !self.own.group.is_empty() {
            self.wait_order(0);
        }
    }

    /// Before the first product of an iteration, every warpgroup waits for its turn.
    pub fn begin_mmas(&mut self, product: Inst) {
        if self.given.schedule.mma_order.iter().any(|t| t.first == product) && !self.own.group.is_empty() {
            (0..self.own.group.len()).for_each(|n| self.wait_order(n));
        }
    }

    /// After the last product of an iteration, the warpgroup wakes the next one.
    pub fn end_mmas(&mut self, product: Inst) {
        if self.given.schedule.mma_order.iter().any(|t| t.last == product) && !self.own.group.is_empty() {
            (0..self.own.group.len()).for_each(|n| self.wake(n));
        }
    }

    fn wait_order(&mut self, group: usize) {
        self.order_barrier(Opcode::BarSync, group, group);
    }

    fn wake(&mut self, group: usize) {
        self.order_barrier(Opcode::BarArrive, group, (group + 1) % self.own.group.len());
    }

    /// An instruction of one warpgroup on the barrier of the same or another warpgroup.
    fn order_barrier(&mut self, op: Opcode, group: usize, barrier: usize) {
        let guard = Some(Guard { pred: self.own.group[group], negated: false });
        let barriers = NamedBarriers::of(self.given.program, self.given.schedule.producer);
        let attr = Attr::Imm2(barriers.id(NamedBarrier::MmaOrder(barrier as u32)), THREADS);
        self.at().push(NewInst::new(op, &[], &[]).attr(attr).guard(guard));
    }
}
