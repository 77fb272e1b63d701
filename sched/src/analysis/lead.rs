//! Copies that can be issued iterations before their data is read.

use super::access::copy_place;
use super::invariance::Remaking;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Block, Buffer, Func, Inst};

/// The copies of a block into these buffers.
pub(crate) fn copies_of(func: &Func<'_>, block: Block, buffers: &[Buffer]) -> Vec<Inst> {
    let insts = func.blocks[block].insts.iter().copied();
    insts.filter(|&i| copy_place(&func.insts[i]).is_some_and(|p| buffers.contains(&p.buffer))).collect()
}

/// The instructions of a block that `roots` need.
pub(crate) fn scalars_of(func: &Func<'_>, block: Block, roots: &[Inst]) -> FxHashSet<Inst> {
    let mut needed: FxHashSet<Inst> = FxHashSet::default();
    for &inst in func.blocks[block].insts.iter().rev() {
        let d = &func.insts[inst];
        if roots.contains(&inst) || needed.contains(&inst) {
            let values = d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred));
            needed.extend(values.filter_map(|&v| func.def(v)).filter(|i| !roots.contains(i)));
        }
    }
    needed
}

/// Whether copies of a loop's body can be issued iterations ahead. Inside the body they may need only scalars that are
/// computed from the counter, and the iterations must be known.
pub(crate) fn can_lead(func: &Func<'_>, body: Block, buffers: &[Buffer]) -> bool {
    if func.loop_of(body).is_some_and(|l| func.insts[l].is_conditional_loop()) {
        return false;
    }
    let mut ahead = Remaking::outside(func, body, Some(func.blocks[body].params[0]));
    copies_of(func, body, buffers).into_iter().all(|copy| ahead.operands(copy))
}
