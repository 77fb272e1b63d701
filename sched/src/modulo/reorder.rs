//! A body whose iterations do not overlap in the schedule's order. A text that was pipelined by hand names its products where
//! their results are used; they belong above the work beside which they run.
//!
//! ```text
//!  text        S   softmax ─────────   P V of the iteration before
//!  schedule    S   P V   softmax ─────────
//! ```
//!
//! Other bodies of one stage stay as they were written.

use crate::analysis::global_accesses_inside;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Func, Inst, LoopSchedule};
use warplift_ir::target::{Opcode, Unit};

/// Part of an interval that must run beside a product that rises.
const LEAST: f64 = 0.03;

/// A part of a body: whether it is a product, its place in the text, and the cycles of its work.
pub(super) type Part = (bool, usize, u32);

/// Whether products rise above work that stands before them in the text. `parts`: in the schedule's order.
pub(super) fn rises(parts: &[Part], interval: u32) -> bool {
    let above = |at: usize, place: usize| {
        let later = parts[at + 1..].iter().filter(|p| !p.0 && p.1 < place);
        later.map(|p| p.2).sum::<u32>()
    };
    let products = parts.iter().enumerate().filter(|(_, p)| p.0);
    let most = products.map(|(at, p)| above(at, p.1)).max().unwrap_or(0);
    f64::from(most) > LEAST * f64::from(interval)
}

/// Puts the bodies of such loops into the schedule's order. Returns whether there were any.
pub(super) fn do_reorder(func: &mut Func<'_>, schedules: &[LoopSchedule]) -> bool {
    let raised: Vec<&LoopSchedule> = schedules
        .iter()
        .filter(|s| s.extra_stages() == 0 && is_raised(func, s) && !reads_own_stores(func, s.inst))
        .collect();
    for s in &raised {
        reorder(func, s);
        if let Attr::Loop(l) = &mut func.insts[s.inst].attr {
            l.overlapped = true;
        }
    }
    !raised.is_empty()
}

/// Whether a loop's body reads arrays that it writes, in global or in shared memory. The graph of an iteration has no edges from
/// these stores to their loads (`memory`), so the order of its schedule says nothing of them.
fn reads_own_stores(func: &Func<'_>, inst: Inst) -> bool {
    let all = global_accesses_inside(func, inst);
    let written = |pointer: u32| all.iter().any(|(a, writes)| *writes && a.pointer == pointer);
    all.iter().any(|(a, writes)| !writes && written(a.pointer))
}

fn is_raised(func: &Func<'_>, s: &LoopSchedule) -> bool {
    let body = &func.blocks[func.insts[s.inst].blocks[0]].insts;
    let place = |i: &Inst| body.iter().position(|b| b == i).unwrap_or(0);
    let parts: Vec<Part> = s
        .slots
        .iter()
        .filter_map(|slot| Some((slot.span.unit == Unit::Tensor, place(slot.insts.last()?), slot.span.busy)))
        .collect();
    rises(&parts, s.interval)
}

/// Scalars of the counter come first: any part may need them.
fn reorder(func: &mut Func<'_>, s: &LoopSchedule) {
    let block = func.insts[s.inst].blocks[0];
    let placed: Vec<Inst> = s.slots.iter().flat_map(|slot| slot.insts.iter().copied()).collect();
    let known: FxHashSet<Inst> = placed.iter().copied().collect();
    let rest = func.take(block).into_iter().filter(|i| !known.contains(i));
    let (end, free): (Vec<Inst>, Vec<Inst>) = rest.partition(|&i| func.insts[i].op == Opcode::Yield);
    free.into_iter().chain(placed).chain(end).for_each(|i| func.append(block, i));
}
