//! Versions: the plan notes that a use or a result has a layout of its own. This pass writes a `rearrange` between
//! the two layouts, or rematerializes the tile.
//!
//! ```text
//!  y = f(x)      uses[(f, 0)] = B     ─►   x' = rearrange x : A to B      y = f(x')
//!                remat[(f, 0)] = [x]  ─►   x' = x computed in layout B    y = f(x')
//!                made[y] = C          ─►   y' = f(x')   y = rearrange y' : C to B
//! ```
//!
//! A conversion in a loop of what the loop does not change stands before the loop.

use crate::plan::Plan;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::entity::EntityList;
use warplift_ir::layout::Layout;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Value, ValueDef};

/// Returns the kernel and plan with every conversion as an instruction.
pub fn do_versions(k: &Kernel, plan: &Plan) -> (Kernel, Plan) {
    let mut v = Versions {
        original: k,
        k: k.clone(),
        plan: plan.clone(),
        known: FxHashMap::default(),
        conversions: FxHashSet::default(),
    };
    let blocks: Vec<Block> = k.blocks.keys().collect();
    for block in blocks {
        v.block(block);
    }
    while v.hoist() {}
    (v.k, v.plan)
}

struct Versions<'k> {
    original: &'k Kernel,
    k: Kernel,
    plan: Plan,
    /// The versions of the current block so far.
    known: FxHashMap<(Value, Layout), Value>,
    /// Conversions of operands.
    conversions: FxHashSet<Inst>,
}

impl Versions<'_> {
    fn block(&mut self, block: Block) {
        self.known.clear();
        let old = std::mem::take(&mut self.k.blocks[block].insts);
        let mut new = Vec::new();
        for inst in old {
            for n in 0..self.k.args(inst).len() {
                if let Some(layout) = self.plan.uses.remove(&(inst, n)) {
                    self.use_of(inst, n, layout, &mut new);
                }
            }
            new.push(inst);
            for n in 0..self.k.results(inst).len() {
                let v = self.k.results(inst)[n];
                if let Some(layout) = self.plan.made.remove(&v) {
                    self.result_of(inst, n, layout, &mut new);
                }
            }
        }
        self.k.blocks[block].insts = new;
    }

    /// Moves conversions out of one loop that does not define what they convert. Whether there was one.
    fn hoist(&mut self) -> bool {
        for block in self.k.blocks.keys().collect::<Vec<_>>() {
            for at in 0..self.k.blocks[block].insts.len() {
                let inst = self.k.blocks[block].insts[at];
                let (Op::For | Op::While) = self.k.insts[inst].op else { continue };
                let body = self.k.insts[inst].blocks[0];
                let invariant = self.invariant(body);
                if !invariant.is_empty() {
                    self.k.blocks[body].insts.retain(|i| !invariant.contains(i));
                    self.k.blocks[block].insts.splice(at..at, invariant);
                    return true;
                }
            }
        }
        false
    }

    /// Conversions in a loop's body of values that are defined before the loop.
    fn invariant(&self, body: Block) -> Vec<Inst> {
        let data = &self.k.blocks[body];
        let own = |v: &Value| match self.k.values[*v].def {
            ValueDef::Param(block, _) => block == body,
            ValueDef::Result(inst, _) => data.insts.contains(&inst),
        };
        let outside = |i: &Inst| self.conversions.contains(i) && !self.k.args(*i).iter().any(own);
        data.insts.iter().copied().filter(outside).collect()
    }

    /// Operand `n` in its own layout.
    fn use_of(&mut self, inst: Inst, n: usize, layout: Layout, list: &mut Vec<Inst>) {
        let v = self.k.args(inst)[n];
        let mut remade = FxHashMap::default();
        for (tile, layout) in self.plan.rematerialized.remove(&(inst, n)).unwrap_or_default() {
            self.rematerialize(inst, tile, layout, &mut remade, list);
        }
        let version = match self.known.get(&(v, layout.clone())) {
            Some(&known) => known,
            None => {
                let source = self.k.def(v).filter(|&d| matches!(self.k.insts[d].op, Op::Full | Op::Iota(_)));
                let (op, args) = match source {
                    Some(def) => (self.k.insts[def].op.clone(), self.k.args(def).to_vec()),
                    None => (Op::Rearrange, vec![v]),
                };
                let made = self.make(inst, op, &args, v);
                list.push(made);
                if source.is_none() {
                    self.conversions.insert(made);
                }
                let version = self.k.result(made);
                self.plan.layouts[version] = Some(layout.clone());
                self.known.insert((v, layout), version);
                version
            }
        };
        let mut args = self.k.insts[inst].args;
        if let Some(slot) = args.get_mut(n, &mut self.k.pool) {
            *slot = version;
        }
        self.k.insts[inst].args = args;
    }

    /// Rematerializes a tile in a layout, from operands that are already rematerialized.
    fn rematerialize(
        &mut self,
        beside: Inst,
        tile: Value,
        layout: Layout,
        remade: &mut FxHashMap<Value, Value>,
        list: &mut Vec<Inst>,
    ) {
        let Some(def) = self.original.def(tile) else { return };
        if let Some(&known) = self.known.get(&(tile, layout.clone())) {
            remade.insert(tile, known);
            return;
        }
        let version = |a: &Value| remade.get(a).copied().unwrap_or(*a);
        let args: Vec<Value> = self.original.args(def).iter().map(version).collect();
        let made = self.make(beside, self.original.insts[def].op.clone(), &args, tile);
        list.push(made);
        let version = self.k.result(made);
        self.plan.layouts[version] = Some(layout.clone());
        remade.insert(tile, version);
        self.known.insert((tile, layout), version);
    }

    /// The instruction defines a new value; its old result becomes a conversion of it.
    fn result_of(&mut self, inst: Inst, n: usize, layout: Layout, list: &mut Vec<Inst>) {
        let v = self.k.results(inst)[n];
        let def = ValueDef::Result(inst, n as u32);
        let raw = self.k.values.push(warplift_ir::tile::ValueData { ty: self.k.ty(v), def });
        self.plan.layouts[raw] = Some(layout);
        let mut results = self.k.insts[inst].results;
        if let Some(slot) = results.get_mut(n, &mut self.k.pool) {
            *slot = raw;
        }
        self.k.insts[inst].results = results;
        let made = self.make(inst, Op::Rearrange, &[raw], v);
        let fresh = self.k.insts[made].results;
        debug_assert_eq!(fresh.len(&self.k.pool), 1);
        self.k.insts[made].results = EntityList::from_slice(&[v], &mut self.k.pool);
        self.k.values[v].def = ValueDef::Result(made, 0);
        list.push(made);
    }

    /// Inserts an instruction beside another one, with a result of the type of a value.
    fn make(&mut self, beside: Inst, op: Op, args: &[Value], like: Value) -> Inst {
        let (ty, loc) = (self.k.ty(like), self.k.insts[beside].loc);
        let made = self.k.make_inst(op, args, &[ty], &[], loc);
        self.k.attrs[made] = self.k.attrs[beside].clone();
        made
    }
}
