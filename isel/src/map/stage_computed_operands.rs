//! Computed MMA operands in shared memory. A right operand must be there: tensor cores read it nowhere else. A left
//! operand that a loop does not change is staged too, because it would occupy registers in every iteration.
//!
//! ```text
//!  x = q * scale                      x = q * scale
//!  for t {                            y = rearrange(x)        an operand: shared memory alone holds it
//!    s = mma zero, x, trans(k)   ─►   for t {
//!  }                                    s = mma zero, y, trans(k)
//!                                     }
//! ```

use super::drop_unused::do_drop_unused;
use crate::feature::Ways;
use crate::operand::loaded;
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Value, ValueDef};

/// Bits of the elements that tensor cores multiply.
const OPERAND_BITS: u32 = 16;

/// The parents of blocks and instructions.
struct Places {
    block: FxHashMap<Inst, Block>,
    holder: FxHashMap<Block, Inst>,
}

impl Places {
    fn of(k: &Kernel) -> Self {
        let (mut block, mut holder) = (FxHashMap::default(), FxHashMap::default());
        k.walk(|at, inst| {
            block.insert(inst, at);
            holder.extend(k.insts[inst].blocks.iter().map(|&b| (b, inst)));
        });
        Self { block, holder }
    }

    /// The blocks around an instruction, the innermost first.
    fn around(&self, inst: Inst) -> impl Iterator<Item = Block> {
        std::iter::successors(self.block.get(&inst).copied(), |b| {
            self.block.get(self.holder.get(b)?).copied()
        })
    }

    /// Whether a value is invariant in the innermost loop around an MMA.
    fn is_smem_row(&self, k: &Kernel, v: Value, product: Inst) -> bool {
        let is_loop = |b: &Block| self.holder.get(b).is_some_and(|&i| matches!(k.insts[i].op, Op::For));
        let Some(body) = self.around(product).find(is_loop) else { return false };
        match k.values[v].def {
            ValueDef::Result(def, _) => self.around(def).all(|b| b != body),
            ValueDef::Param(block, _) => {
                self.around(product).skip_while(|&b| b != body).skip(1).any(|b| b == block)
            }
        }
    }
}

/// The state of the pass.
struct Operands<'k> {
    k: &'k mut Kernel,
    ways: Ways,
    places: Places,
    /// The staged copy of each tile.
    copies: FxHashMap<Value, Value>,
}

/// Gives such operands a copy that only MMAs read.
pub fn do_stage_computed_operands(k: &mut Kernel, ways: Ways) {
    let places = Places::of(k);
    let mut products = Vec::new();
    k.walk(|_, inst| products.extend(matches!(k.insts[inst].op, Op::Mma { .. }).then_some(inst)));
    let mut all = Operands { k, ways, places, copies: FxHashMap::default() };
    products.into_iter().for_each(|p| all.product(p));
    if !all.copies.is_empty() {
        do_drop_unused(k);
    }
}

impl Operands<'_> {
    fn product(&mut self, product: Inst) {
        for side in [1, 2] {
            let v = self.k.args(product)[side];
            if self.is_copied(product, side, v) {
                let seen = self.view(product, v);
                if let Some(slot) = self.k.insts[product].args.get_mut(side, &mut self.k.pool) {
                    *slot = seen;
                }
            }
        }
    }

    fn is_copied(&self, product: Inst, side: usize, v: Value) -> bool {
        let computed = loaded(self.k, v).is_none() && self.k.ty(v).elem().bits() == OPERAND_BITS;
        let is_smem_row = || self.places.is_smem_row(self.k, source(self.k, v), product);
        computed && (side == 2 || self.ways.smem_staging && is_smem_row())
    }

    /// The transposition of an operand, applied to the copy.
    fn view(&mut self, product: Inst, v: Value) -> Value {
        let Some(def) = viewed(self.k, v) else { return self.copy(product, v) };
        let below = self.view(product, self.k.args(def)[0]);
        let (op, ty, loc) = (self.k.insts[def].op.clone(), self.k.ty(v), self.k.insts[def].loc);
        let made = self.k.make_inst(op, &[below], &[ty], &[], loc);
        self.insert(self.places.block[&product], made, |insts| insts.iter().position(|&i| i == product));
        self.k.result(made)
    }

    /// The copy of a tile, right after its definition, or at the start of its block if it is a parameter.
    fn copy(&mut self, product: Inst, v: Value) -> Value {
        if let Some(&known) = self.copies.get(&v) {
            return known;
        }
        let def = self.k.values[v].def;
        let place = self.k.def(v).unwrap_or(product);
        let loc = self.k.insts[place].loc;
        let made = self.k.make_inst(Op::Rearrange, &[v], &[self.k.ty(v)], &[], loc);
        self.k.attrs[made].operand = true;
        match def {
            ValueDef::Param(block, _) => self.insert(block, made, |_| Some(0)),
            ValueDef::Result(def, _) => self.insert(self.places.block[&def], made, |insts| {
                insts.iter().position(|&i| i == def).map(|at| at + 1)
            }),
        }
        let copy = self.k.result(made);
        self.copies.insert(v, copy);
        copy
    }

    fn insert(&mut self, block: Block, inst: Inst, at: impl Fn(&[Inst]) -> Option<usize>) {
        let insts = &mut self.k.blocks[block].insts;
        let at = at(insts).unwrap_or(insts.len());
        insts.insert(at, inst);
    }
}

/// The instruction that makes a tile a transposition of another one. A slice is a tile of its own: slicing registers
/// costs nothing.
fn viewed(k: &Kernel, v: Value) -> Option<Inst> {
    k.def(v).filter(|&d| matches!(k.insts[d].op, Op::Trans(_)))
}

/// The tile that an operand is a transposition of.
fn source(k: &Kernel, v: Value) -> Value {
    viewed(k, v).map_or(v, |view| source(k, k.args(view)[0]))
}
