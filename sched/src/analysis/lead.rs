//! Copies that can be issued iterations before their data is read.

use super::access::copy_place;
use super::graph::Graph;
use super::invariance::Remaking;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Block, Buffer, Func, Inst, RingFill, Schedule, Value};

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

/// The instructions of a block that only copies into these buffers need.
pub(crate) fn led_by(func: &Func<'_>, block: Block, buffers: &[Buffer]) -> FxHashSet<Inst> {
    let copies = copies_of(func, block, buffers);
    let here = &func.blocks[block].insts;
    let scalars = scalars_of(func, block, &copies);
    let scalars: FxHashSet<Inst> = scalars.into_iter().filter(|i| here.contains(i)).collect();
    let mut led = scalars.clone();
    let mut needed: FxHashSet<Value> = FxHashSet::default();
    let others = |i: &Inst| !scalars.contains(i) && !copies.contains(i);
    func.walk(|_, inst| needed.extend(func.named(inst).filter(|_| others(&inst))));
    // From the last one to the first: who uses a result stands behind it.
    for &inst in here.iter().rev().filter(|i| scalars.contains(i)) {
        if func.insts[inst].results.iter().any(|r| needed.contains(r)) {
            led.remove(&inst);
            needed.extend(func.named(inst));
        }
    }
    led
}

/// The instructions that only copies need which threads issue iterations ahead: they are made there, and nowhere else.
pub(crate) fn led_ahead(func: &Func<'_>, s: &Schedule) -> FxHashSet<Inst> {
    let rings = s.rings.values().filter(|r| r.fill == RingFill::CpAsync && r.depth > 1);
    rings.flat_map(|r| led_by(func, r.blocks[0], &r.buffers)).collect()
}

/// Whether copies of a loop's body can be issued iterations ahead. Inside the body they may need only scalars that are
/// computed from the counter, and the iterations must be known.
pub(crate) fn can_lead(func: &Func<'_>, body: Block, buffers: &[Buffer]) -> bool {
    leads(func, body, buffers, Remaking::outside(func, body, Some(func.blocks[body].params[0])))
}

/// Whether threads can issue their own copies of a loop's body iterations ahead. Beside what is computed from the counter these
/// may need what the threads load of memory that the program writes nowhere: rows by a tile of indices.
pub(crate) fn threads_can_lead(func: &Func<'_>, graph: &Graph, body: Block, buffers: &[Buffer]) -> bool {
    let ahead = Remaking::outside(func, body, Some(func.blocks[body].params[0]));
    leads(func, body, buffers, ahead.loading_again(graph).by_the_same_threads())
}

fn leads<'f>(func: &'f Func<'_>, body: Block, buffers: &[Buffer], mut ahead: Remaking<'f, '_>) -> bool {
    if func.loop_of(body).is_some_and(|l| func.insts[l].is_conditional_loop()) {
        return false;
    }
    copies_of(func, body, buffers).into_iter().all(|copy| ahead.operands(copy))
}
