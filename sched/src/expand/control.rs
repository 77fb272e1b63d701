//! Structured loops and branches become blocks with parameters.
//!
//! A loop is rotated: `if lo < hi { do { body } while (next < hi) }`.

use super::ring::RingState;
use super::role::{Expand, Seen, Touched};
use crate::Result;
use crate::graph::touched;
use warplift_ir::machine::{Attr, Block, BlockCall, Inst, NewInst, Ring, RoleKind, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

impl<'a> Expand<'_, 'a> {
    /// Ends the block with a jump.
    pub fn jump(&mut self, to: Block, args: &[Value]) {
        let inst = self.at().push(NewInst::new(Opcode::Br, &[], &[]));
        let args = self.func.list(args);
        self.func.insts[inst].targets.push(BlockCall { block: to, args });
    }

    /// Ends the block with a branch.
    pub fn branch(&mut self, cond: Value, yes: (Block, &[Value]), no: (Block, &[Value])) {
        let inst = self.at().push(NewInst::new(Opcode::BrIf, &[cond], &[]));
        for (block, args) in [yes, no] {
            let args = self.func.list(args);
            self.func.insts[inst].targets.push(BlockCall { block, args });
        }
    }

    /// Slots and phases of rings, as values to pass.
    pub fn ring_values(&self, rings: &[Ring]) -> Vec<Value> {
        rings.iter().flat_map(|&r| [self.ring(r).slot, self.ring(r).phase]).collect()
    }

    /// Parameters that take slots and phases.
    pub fn ring_params(&mut self, block: Block, rings: &[Ring]) {
        for &r in rings {
            let slot = self.func.append_param(block, Ty::B32, true);
            let phase = self.func.append_param(block, Ty::B32, true);
            self.rings[r] = Some(RingState { slot, phase, open: false, filled: false });
        }
    }

    /// Numbers of the carried values that this role keeps.
    pub fn kept_carries(&self, inst: Inst) -> Vec<usize> {
        let d = self.data(inst);
        let params = &self.program.func.blocks[d.blocks[0]].params;
        (0..d.results.len())
            .filter(|&n| self.keeps_value(params[1 + n]) || self.keeps_value(d.results[n]))
            .collect()
    }

    /// Nothing is known of scratch buffers.
    pub fn forget_scratch(&mut self) {
        for b in self.program.buffers.keys() {
            self.seen.scratch[b] = Touched::anything();
        }
    }

    /// At the start of a loop's body nothing is known of what is touched inside: an iteration may precede.
    pub fn forget_inside(&mut self, inst: Inst) {
        let d = self.data(inst);
        for &inside in d.blocks.iter().flat_map(|&b| &self.program.func.blocks[b].insts) {
            let data = self.data(inside);
            for (b, _) in touched(&data.attr, data.op) {
                self.seen.scratch[b] = Touched::anything();
            }
            self.forget_inside(inside);
        }
    }

    /// What may have happened to memory here or on another way to this place.
    fn join_seen(&mut self, other: &Seen) {
        for b in self.program.buffers.keys() {
            self.seen.scratch[b] = self.seen.scratch[b].join(other.scratch[b]);
        }
        for (&pointer, &accesses) in &other.global {
            self.seen.global.entry(pointer).or_default().join(accesses);
        }
    }

    /// A loop, from its low bound with its initial values.
    pub fn expand_for(&mut self, inst: Inst) -> Result<()> {
        let d = self.data(inst);
        let kept = self.kept_carries(inst);
        let inits: Vec<Value> = kept.iter().map(|&n| self.value(d.args[3 + n])).collect();
        if self.most == Some((inst, 0)) {
            self.env.extend(kept.iter().map(|&n| d.results[n]).zip(inits));
            return Ok(());
        }
        if self.role == RoleKind::Consumer {
            self.lead_in(inst);
        }
        let low = self.value(d.args[0]);
        self.expand_rest(inst, low, &inits)
    }

    /// A loop from a given start: all of it, or what peeling left.
    pub fn expand_rest(&mut self, inst: Inst, low: Value, inits: &[Value]) -> Result<()> {
        let high = self.value(self.data(inst).args[1]);
        self.expand_between(inst, [low, high], inits)
    }

    /// The iterations of a loop between two values of its counter.
    pub fn expand_between(&mut self, inst: Inst, [low, high]: [Value; 2], inits: &[Value]) -> Result<()> {
        let d = self.data(inst);
        let kept = self.kept_carries(inst);
        let rings = self.rings_inside(inst);
        let step = self.value(d.args[2]);
        let [body, exit] = [self.func.new_block(), self.func.new_block()];
        let held = self.body_of(inst);
        let around = [inits, &self.ring_values(&rings)].concat();
        let before = self.held.take();
        let skip = if before.is_some() { self.func.new_block() } else { exit };
        let past = if before.is_some() { &[][..] } else { &around };
        let into =
            [&[low], inits, &self.held_values(&held, before.as_ref()), &self.ring_values(&rings)].concat();
        let some = self.at().compare(CmpOp::Lt, low, high);
        self.branch(some, (body, &into), (skip, past));
        if skip != exit {
            self.held = before;
            self.landing(skip, exit, &around);
        }

        self.func.order.push(body);
        self.block = body;
        let source = self.program.func.blocks[d.blocks[0]].params.clone();
        let counter = self.func.append_param(body, Ty::B32, true);
        self.env.insert(source[0], counter);
        for (&n, &init) in kept.iter().zip(inits) {
            let p = self.func.append_param(body, self.func.ty(init), false);
            self.env.insert(source[1 + n], p);
        }
        self.held_params(body, &held);
        self.ring_params(body, &rings);
        let touched_before = self.seen.clone();
        let assumed = self.assume_inside(inst);
        self.forget_global_inside(inst);
        let outer = std::mem::replace(&mut self.exact, matches!(&d.attr, Attr::Loop(l) if l.overlapped));
        let yields = self.walk(d.blocks[0])?;
        self.keep_assumed(assumed);
        self.exact = outer;
        let next: Vec<Value> = kept.iter().map(|&n| self.value(yields[n])).collect();
        let counter = self.at().add(counter, step);
        let again = self.at().compare(CmpOp::Lt, counter, high);
        let after = self.held.take();
        let back =
            [&[counter], &next[..], &self.held_values(&held, after.as_ref()), &self.ring_values(&rings)];
        let out = [next.clone(), self.ring_values(&rings)].concat();
        let land = if after.is_some() { self.func.new_block() } else { exit };
        let past = if after.is_some() { &[][..] } else { &out };
        if self.most == Some((inst, 1)) {
            self.jump(land, past);
        } else {
            self.branch(again, (body, &back.concat()), (land, past));
        }
        if land != exit {
            self.held = after;
            self.landing(land, exit, &out);
        }

        self.func.order.push(exit);
        self.block = exit;
        for (&n, &init) in kept.iter().zip(inits) {
            let p = self.func.append_param(exit, self.func.ty(init), false);
            self.env.insert(d.results[n], p);
        }
        self.ring_params(exit, &rings);
        self.join_seen(&touched_before);
        Ok(())
    }

    /// A branch.
    pub fn expand_if(&mut self, inst: Inst) -> Result<()> {
        let d = self.data(inst);
        let rings = self.rings_inside(inst);
        let kept: Vec<usize> = (0..d.results.len()).filter(|&n| self.keeps_value(d.results[n])).collect();
        let cond = self.value(d.args[0]);
        let [yes, no, join] = [self.func.new_block(), self.func.new_block(), self.func.new_block()];
        self.branch(cond, (yes, &[]), (no, &[]));
        let before = self.rings.clone();
        let touched_before = self.seen.clone();
        let mut touched = (d.blocks.len() < 2).then(|| touched_before.clone());
        for (at, &source) in [yes, no].into_iter().zip(&d.blocks) {
            self.func.order.push(at);
            self.block = at;
            self.rings = before.clone();
            self.seen = touched_before.clone();
            let yields = self.walk(source)?;
            let out: Vec<Value> = kept.iter().map(|&n| self.value(yields[n])).collect();
            let out = [out, self.ring_values(&rings)].concat();
            self.jump(join, &out);
            if let Some(other) = touched.replace(self.seen.clone()) {
                self.join_seen(&other);
                touched = Some(self.seen.clone());
            }
        }
        self.rings = before;
        if d.blocks.len() < 2 {
            self.func.order.push(no);
            self.block = no;
            let out = self.ring_values(&rings);
            self.jump(join, &out);
        }
        self.func.order.push(join);
        self.block = join;
        for &n in &kept {
            let p = self.func.append_param(join, self.program.func.ty(d.results[n]), false);
            self.env.insert(d.results[n], p);
        }
        self.ring_params(join, &rings);
        self.seen = touched.unwrap_or(touched_before);
        Ok(())
    }
}
