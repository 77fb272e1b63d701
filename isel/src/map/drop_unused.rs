//! Drops what nothing uses: instructions without effects whose results nobody takes, and then those that only they used.
//!
//! ```text
//!  tx = load x[i, t]      nobody reads tx      ─►      no copy, no stage of a ring
//! ```

use rustc_hash::FxHashSet;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Value, ValueList};

/// Removes instructions without effects whose results are unused. Promises stay: the simulator checks them.
pub fn do_drop_unused(k: &mut Kernel) {
    loop {
        let mut used: FxHashSet<Value> = k.grid.iter().copied().collect();
        k.walk(|_, inst| used.extend(k.args(inst)));
        let dead = |i: &Inst| {
            let data = &k.insts[*i];
            let kept = data.op.has_effect()
                || !data.blocks.is_empty()
                || matches!(data.op, Op::Yield | Op::Assume(_));
            !kept && !k.results(*i).iter().any(|r| used.contains(r))
        };
        let lists: Vec<(Block, Vec<Inst>)> = k
            .blocks
            .iter()
            .map(|(b, d)| (b, d.insts.iter().copied().filter(|i| !dead(i)).collect()))
            .collect();
        let mut changed = false;
        for (block, insts) in lists {
            changed |= insts.len() != k.blocks[block].insts.len();
            k.blocks[block].insts = insts;
        }
        if !changed {
            return forget_removed(k);
        }
    }
}

/// Takes the operands from instructions that stand nowhere: whoever asks for the users of a value asks all instructions.
fn forget_removed(k: &mut Kernel) {
    let mut standing: FxHashSet<Inst> = FxHashSet::default();
    k.walk(|_, inst| _ = standing.insert(inst));
    for inst in k.insts.keys().filter(|i| !standing.contains(i)).collect::<Vec<_>>() {
        k.insts[inst].op = Op::Int(0);
        k.insts[inst].args = ValueList::new();
        k.insts[inst].blocks.clear();
    }
}
