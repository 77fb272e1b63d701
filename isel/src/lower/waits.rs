//! Awaits: every load in shared memory is awaited before the first instruction that uses it.
//!
//! ```text
//!  a = load ..  (event e1)      b = load ..  (event e2)
//!  work on neither
//!  await e1, e2                 both operands of one MMA fill one stage
//!  y = mma x, a, b
//! ```

use super::Lower;
use crate::Result;
use warplift_ir::machine::{self, NewInst};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, InstData, Kernel, Op, Type, Value};

impl Lower<'_, '_> {
    /// Awaits the pending loads that an instruction uses, and reads their stages.
    pub(super) fn await_used(&mut self, inst: Inst, pending: &mut Vec<Inst>) -> Result<()> {
        let mut now: Vec<Inst> = pending.iter().copied().filter(|&load| self.uses(inst, load)).collect();
        let overlapped = self.looped.last().is_some_and(|l| l.wait.unwrap_or(0) > 0);
        if !overlapped && now.iter().any(|load| self.plan.staged.contains_key(load)) {
            // Threads start all loads of an MMA before it, because its operands fill one stage. The exception is an
            // MMA that overlaps with the start of the next iteration.
            let same_stage = self.operands_beside(&now);
            now = pending.iter().copied().filter(|l| now.contains(l) || same_stage.contains(l)).collect();
        }
        pending.retain(|load| !now.contains(load));
        self.await_kept(&now);
        let others = now.iter().filter(|&&load| !self.is_kept(load));
        let events: Vec<machine::Value> = others.filter_map(|l| self.filled[l].1).collect();
        if !events.is_empty() {
            self.at().push(NewInst::new(Opcode::Await, &events, &[]));
        }
        let filled = |load: &Inst| self.plan.filled_tile(self.k, *load).is_some();
        self.unread.extend(now.iter().copied().filter(filled));
        now.into_iter().try_for_each(|load| self.read_stage(load))?;
        self.read_filled(inst)
    }

    /// Reads the operands of products that an instruction uses in registers. Products come first: their operands were
    /// awaited, and threads read under them.
    fn read_filled(&mut self, inst: Inst) -> Result<()> {
        let now: Vec<Inst> =
            self.unread.iter().copied().filter(|&load| self.uses_registers(inst, load)).collect();
        self.unread.retain(|load| !now.contains(load));
        now.into_iter().try_for_each(|load| self.read_tile(load))
    }

    /// Whether an instruction, or one inside it, uses a tile in registers that products read in shared memory.
    fn uses_registers(&self, inst: Inst, load: Inst) -> bool {
        let k = self.k;
        if k.args(inst).contains(&k.result(load)) {
            let moved = matches!(k.insts[inst].op, Op::Trans(_) | Op::Slice(_));
            return match k.insts[inst].op {
                Op::Mma { .. } => !self.multiplies(inst, load),
                _ => !moved || self.plan.layouts[k.result(inst)].is_some(),
            };
        }
        let nested = &k.insts[inst].blocks;
        nested.iter().any(|&b| k.blocks[b].insts.iter().any(|&i| self.uses_registers(i, load)))
    }

    /// Whether an instruction is an MMA that reads this load in shared memory.
    fn multiplies(&self, inst: Inst, load: Inst) -> bool {
        if let Some(p) = self.plan.products.get(&inst) {
            return p.b.0 == load || p.a.as_ref().is_some_and(|a| a.0 == load);
        }
        self.plan.warp_products.get(&inst).is_some_and(|p| p.b.0 == load || p.a.is_some_and(|a| a.0 == load))
    }

    /// Loads that feed the same MMA as one of these, through elementwise work.
    fn operands_beside(&self, loads: &[Inst]) -> Vec<Inst> {
        let products = self.k.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma { .. })).map(|(i, _)| i);
        let fed = products.map(|p| self.loads_behind(p));
        fed.filter(|behind| behind.iter().any(|l| loads.contains(l))).flatten().collect()
    }

    /// Loads that reach an instruction without passing an MMA, and those that its result meets next.
    fn loads_behind(&self, product: Inst) -> Vec<Inst> {
        let (k, mut found) = (self.k, Vec::new());
        let meets = |(_, d): &(Inst, &InstData)| matches!(d.op, Op::Binary(_) | Op::Fma | Op::Select);
        let next = k.insts.iter().filter(meets).filter(|(i, _)| k.args(*i).contains(&k.result(product)));
        let mut work: Vec<Value> =
            next.flat_map(|(i, _)| k.args(i)).chain(k.args(product)).copied().collect();
        while let Some(v) = work.pop() {
            let Some(def) = k.def(v) else { continue };
            match k.insts[def].op {
                ref op if op.is_read() && !found.contains(&def) => found.push(def),
                ref op if op.is_read() || matches!(op, Op::Mma { .. }) => {}
                ref op if !op.has_effect() => work.extend(k.args(def).iter().filter(|a| is_tile(k, **a))),
                _ => {}
            }
        }
        found
    }

    /// Whether an instruction, or one inside it, reads this load.
    pub(super) fn uses(&self, inst: Inst, load: Inst) -> bool {
        if self.plan.staged.contains_key(&load) && self.k.args(inst).contains(&self.k.result(load)) {
            return true;
        }
        if self.multiplies(inst, load) || self.overwrites(inst, load) {
            return true;
        }
        let filled = self.plan.filled_tile(self.k, load).is_some();
        if filled && self.k.args(inst).contains(&self.k.result(load)) {
            return true;
        }
        if self.is_kept(load) {
            return false;
        }
        let nested = &self.k.insts[inst].blocks;
        nested.iter().any(|&b| self.k.blocks[b].insts.iter().any(|&i| self.uses(i, load)))
    }
}

fn is_tile(k: &Kernel, v: Value) -> bool {
    matches!(k.ty(v), Type::Tile(..))
}
