//! Equal reductions of one tile are computed once.
//!
//! ```text
//!  at = argmax(s, 1)        ─►   top = reduce_max(s, 1)     at = reduce_min(select(s == top, iota, most), 1)
//!  top = reduce_max(s, 1)
//! ```
//!
//! Threads meet in each. Texts repeat them: `argmax` stands for two, the first of which is often wanted too.

use super::persist::rename;
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Block, Inst, Kernel, Mapping, Op, ReduceOp, Value};

/// Reductions that are computed where an instruction stands, with their results.
type Known = FxHashMap<(ReduceOp, u8, Value), Value>;

/// Takes the result of the first of equal reductions for those behind it. A mapping may give tiles layouts of their own.
pub fn do_merge_reductions(k: &mut Kernel, mapping: &Mapping) {
    if !mapping.tiles.is_empty() {
        return;
    }
    let mut again = Vec::new();
    find(k, k.entry, &mut Known::default(), &mut again);
    for (inst, value) in again {
        let old = k.result(inst);
        rename(k, &[(old, value)]);
        k.blocks.values_mut().for_each(|b| b.insts.retain(|&i| i != inst));
    }
}

/// The reductions of a block, and of those inside it, that are computed before, with their values there.
fn find(k: &Kernel, block: Block, known: &mut Known, again: &mut Vec<(Inst, Value)>) {
    for &inst in &k.blocks[block].insts {
        if let Op::Reduce(op, axis) = k.insts[inst].op {
            let result = k.result(inst);
            let value = *known.entry((op, axis, k.args(inst)[0])).or_insert(result);
            again.extend((value != result).then_some((inst, value)));
        }
        // What a block computes is not known behind it.
        for &inner in &k.insts[inst].blocks {
            find(k, inner, &mut known.clone(), again);
        }
    }
}
