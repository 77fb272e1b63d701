//! The parts of a loop.
//!
//! ```text
//!  results = for counter in low..high step s carry params = starts { body  yield .. }
//! ```

use crate::tiles::has_products;
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value};

/// Whether an instruction is a loop with products in its body.
pub(super) fn is_loop_of_products(k: &Kernel, inst: Inst) -> bool {
    let data = &k.insts[inst];
    matches!(data.op, Op::For) && has_products(k, data.blocks[0])
}

/// The number of values that a loop carries.
pub(super) fn carried(k: &Kernel, looped: Inst) -> usize {
    k.args(looped).len() - 3
}

/// The body of a loop.
pub(super) fn body(k: &Kernel, looped: Inst) -> Block {
    k.insts[looped].blocks[0]
}

/// The block in which an instruction stands.
pub(super) fn block_of(k: &Kernel, inst: Inst) -> Block {
    k.blocks.iter().find(|(_, b)| b.insts.contains(&inst)).map_or(k.entry, |(b, _)| b)
}

/// Appends copies of instructions to a block. What they make is `known` behind it.
pub(super) fn copy(k: &mut Kernel, insts: &[Inst], to: Block, known: &mut FxHashMap<Value, Value>) {
    for &inst in insts {
        let mut blocks = Vec::new();
        for from in k.insts[inst].blocks.clone() {
            let inner = k.blocks.push(Default::default());
            for param in k.blocks[from].params.clone() {
                let made = k.append_param(inner, k.ty(param));
                known.insert(param, made);
            }
            let all = k.blocks[from].insts.clone();
            copy(k, &all, inner, known);
            blocks.push(inner);
        }
        let args: Vec<Value> = k.args(inst).iter().map(|a| *known.get(a).unwrap_or(a)).collect();
        let results = k.results(inst).to_vec();
        let types: Vec<Type> = results.iter().map(|&r| k.ty(r)).collect();
        let (op, loc) = (k.insts[inst].op.clone(), k.insts[inst].loc);
        let made = k.append_inst(to, op, &args, &types, &blocks, loc);
        k.attrs[made] = k.attrs[inst].clone();
        known.extend(results.into_iter().zip(k.results(made).to_vec()));
    }
}
