//! Loops and branches: structured in machine IR too.
//!
//! ```text
//!  x = for t in a..b carry y = c { .. yield z }     ─►     x = for a, b, 1, c { block(t, y): .. yield z }
//!  x = while carry y = c { .. yield p, z }          ─►     q, x = for 0, 1, 1, true, c { block(_, _, y): .. yield p, z }
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
        let bounds = k.args(inst)[..3].iter().map(|&v| self.scalar(v)).collect::<Result<Vec<_>>>()?;
        let tile_counter = (self.counter && k.attrs[inst].persistent).then(|| self.tile_counter());
        let attr = self.loop_attr(inst, tile_counter);
        self.lower_loop(inst, bounds, 3, attr)
    }

    /// A loop whose body says if another iteration follows. Its first carried value in machine IR is that predicate.
    pub(super) fn lower_while(&mut self, inst: Inst) -> Result<()> {
        let mut at = self.at();
        let [low, high] = [at.imm(0), at.imm(1)];
        let goes_on = at.imm_of(Ty::Pred, 1);
        let Attr::Loop(attr) = self.loop_attr(inst, None) else { return self.interpreted_only() };
        // What it carries is no bound, and says nothing of its iterations.
        let attr = LoopAttr { name: "while".to_owned(), conditional: true, most: None, ..*attr };
        self.lower_loop(inst, vec![low, high, high, goes_on], 0, Attr::Loop(Box::new(attr)))
    }

    /// A loop in machine IR. `args`: its bounds, and the values carried before those of the text, which are the operands
    /// from `first` on.
    fn lower_loop(
        &mut self,
        inst: Inst,
        mut args: Vec<machine::Value>,
        first: usize,
        attr: Attr,
    ) -> Result<()> {
        let k = self.k;
        let before = args.len() - 3;
        let mut types: Vec<Ty> = args[3..].iter().map(|&v| self.func.ty(v)).collect();
        for (&v, &result) in k.args(inst)[first..].iter().zip(k.results(inst)) {
            types.push(self.ty(result)?);
            args.push(self.materialize(v, result)?);
        }
        let lowered = self.loop_body(inst, &types)?;
        self.inst = inst;
        let made = self.at().push(NewInst::new(Opcode::For, &args, &types).attr(attr).blocks(&[lowered]));
        for (i, &r) in k.results(inst).iter().enumerate() {
            let v = self.func.insts[made].results[before + i];
            let v = self.whole_carried(r, v)?;
            let v = self.carried_scale(r, v);
            self.set(r, v);
        }
        Ok(())
    }

    /// The body of a loop that carries these types. The last parameters are those of the text.
    fn loop_body(&mut self, inst: Inst, types: &[Ty]) -> Result<machine::Block> {
        let k = self.k;
        let body = k.insts[inst].blocks[0];
        let lowered = self.func.new_block();
        self.func.append_param(lowered, Ty::B32, true);
        for &ty in types {
            self.func.append_param(lowered, ty, false);
        }
        let made = self.func.blocks[lowered].params.clone();
        let own = &k.blocks[body].params;
        for (&p, &v) in own.iter().zip(&made[made.len() - own.len()..]) {
            self.set(p, v);
        }
        let outer = std::mem::replace(&mut self.block, lowered);
        self.looped.push(k.attrs[inst].looped.unwrap_or_default());
        self.lower_block(body)?;
        self.looped.pop();
        self.block = outer;
        Ok(lowered)
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
            conditional: false,
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
