//! Loops and branches: structured in machine IR too.
//!
//! ```text
//!  x = for t in a..b carry y = c { .. yield z }     ─►     x = for a, b, 1, c { block(t, y): .. yield z }
//! ```

use super::Lower;
use crate::Result;
use warplift_ir::machine::{self, Attr, LoopAttr, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Depth, Inst};

impl Lower<'_, '_> {
    /// A loop: its body becomes a block, its carried values become block parameters.
    pub(super) fn lower_for(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let args = k.args(inst).to_vec();
        let mut machine_args: Vec<machine::Value> = Vec::new();
        for &v in &args[..3] {
            machine_args.push(self.scalar(v)?);
        }
        let mut types = Vec::new();
        for (i, &v) in args[3..].iter().enumerate() {
            types.push(self.ty(k.results(inst)[i])?);
            let init = self.materialize(v, k.results(inst)[i])?;
            machine_args.push(init);
        }
        let body = k.insts[inst].blocks[0];
        let lowered = self.func.new_block();
        let tile_counter = (self.counter && k.attrs[inst].persistent).then(|| self.tile_counter());
        let attr = self.loop_attr(inst, tile_counter);
        let params = k.blocks[body].params.clone();
        let counter = self.func.append_param(lowered, Ty::B32, true);
        self.set(params[0], counter);
        for (i, &ty) in types.iter().enumerate() {
            let p = self.func.append_param(lowered, ty, false);
            self.set(params[1 + i], p);
        }
        let outer = std::mem::replace(&mut self.block, lowered);
        self.looped.push(k.attrs[inst].looped.unwrap_or_default());
        self.lower_block(body)?;
        self.looped.pop();
        self.block = outer;
        self.inst = inst;
        let new = NewInst::new(Opcode::For, &machine_args, &types).attr(attr).blocks(&[lowered]);
        let made = self.at().push(new);
        for (i, &r) in k.results(inst).iter().enumerate() {
            let v = self.func.insts[made].results[i];
            let v = self.whole_carried(r, v)?;
            let v = self.carried_scale(r, v);
            self.set(r, v);
        }
        Ok(())
    }

    /// The facts about a loop that scheduling needs.
    fn loop_attr(&self, inst: Inst, counter: Option<u32>) -> Attr {
        let attrs = &self.k.attrs[inst];
        let mapping = attrs.looped.unwrap_or_default();
        let depth = match mapping.pipeline {
            Depth::Fit => None,
            Depth::Stages(n) => Some(n),
        };
        Attr::Loop(Box::new(LoopAttr {
            name: crate::tiles::loop_name(self.k, inst).unwrap_or("").to_owned(),
            depth,
            producers: mapping.producers.unwrap_or(1),
            wait: mapping.wait,
            mma_order: mapping.mma_order.map(|n| n > 0),
            persistent: attrs.persistent,
            counter,
            most: crate::facts::trips(self.k, inst),
            overlapped: false,
        }))
    }

    /// A branch: each side becomes a block.
    pub(super) fn lower_if(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let cond = self.scalar(k.args(inst)[0])?;
        let types = k.results(inst).iter().map(|&r| self.ty(r)).collect::<Result<Vec<_>>>()?;
        let mut blocks = Vec::new();
        for &b in &k.insts[inst].blocks {
            let lowered = self.func.new_block();
            let outer = std::mem::replace(&mut self.block, lowered);
            self.lower_block(b)?;
            self.block = outer;
            blocks.push(lowered);
        }
        self.inst = inst;
        let made = self.at().push(NewInst::new(Opcode::If, &[cond], &types).blocks(&blocks));
        for (i, &r) in k.results(inst).iter().enumerate() {
            let v = self.func.insts[made].results[i];
            self.set(r, v);
        }
        Ok(())
    }

    /// The values that a block gives to its loop or branch.
    pub(super) fn lower_yield(&mut self, inst: Inst) -> Result<()> {
        let args = self.k.args(inst).to_vec();
        let values = args.iter().map(|&v| self.materialize(v, v)).collect::<Result<Vec<_>>>()?;
        self.at().push(NewInst::new(Opcode::Yield, &values, &[]));
        Ok(())
    }
}
