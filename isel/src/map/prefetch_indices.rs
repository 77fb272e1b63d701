//! Indices of the next iteration are loaded ahead. A load at places that another load gives waits twice for memory in each
//! iteration; the first of these waits passes under the iteration before.
//!
//! ```text
//!  for t {                             c = load column[0]
//!    c = load column[t]         ─►     for t carry c {
//!    yield s + load x[c]                 next = load column[t + 1]
//!                                        yield s + load x[c], next
//! ```
//!
//! Of a chain of several each is loaded ahead of the one that it leads to: `load x[load b[load a[t]]]` reads `a` two iterations
//! ahead. Past the last iteration a load is outside its view, or its number is not used. So views without a known end are
//! left alone. Loops of products have rings, whose copies run ahead anyway.

use super::drop_unused::do_drop_unused;
use super::prefetch_next_tile::load_ahead;
use crate::Ways;
use crate::facts::trips;
use crate::operand::is_plain;
use crate::tiles::{
    WARP, WARPGROUP_THREADS, ancestors, constant, depends, extents, in_shared, index_operands, memory,
    program_order, written,
};
use rustc_hash::FxHashSet;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Mapping, Op, Value};

/// Loads that follow each other in an iteration at most: each is carried as many iterations as loads follow it.
const CHAIN: usize = 3;
/// Indices that a thread carries at most of one load.
const CARRIED: u32 = 8;

/// Loads the indices in loops without products ahead.
pub fn do_prefetch_indices(k: &mut Kernel, mapping: &Mapping, ways: Ways) {
    if !ways.prefetch_indices {
        return;
    }
    let threads = mapping.whole.warps.map_or(WARPGROUP_THREADS, |w| WARP * w);
    let mut changed = false;
    for looped in program_order(k).into_iter().filter(|&i| can_lead(k, i)).collect::<Vec<_>>() {
        for _ in 0..CHAIN {
            changed |= prefetch(k, looped, threads);
        }
    }
    if changed {
        do_drop_unused(k);
    }
}

/// Whether it is a loop of several iterations that loads may run ahead in.
fn can_lead(k: &Kernel, looped: Inst) -> bool {
    let attrs = &k.attrs[looped];
    let products = k.any_inside(looped, |i| matches!(k.insts[i].op, Op::Mma { .. }));
    matches!(k.insts[looped].op, Op::For)
        && !products
        && !attrs.persistent
        && !attrs.looped.is_some_and(|l| l.stream_k)
        && trips(k, looped).is_none_or(|n| n > 1)
}

/// Lets a loop carry the indices of its next iteration. Whether there are any.
fn prefetch(k: &mut Kernel, looped: Inst, threads: u32) -> bool {
    let body = k.insts[looped].blocks[0];
    let loads = indices(k, body, threads);
    if loads.is_empty() {
        return false;
    }
    load_ahead(k, looped, &loads);
    true
}

/// The loads in a loop's body that tell others of the same iteration where to load, in order. Their own places follow from the
/// counter, and from what such loads find.
fn indices(k: &Kernel, body: Block, threads: u32) -> Vec<Inst> {
    let own = &k.blocks[body].insts;
    let (written, counter) = (written(k), k.blocks[body].params[0]);
    let inside: FxHashSet<Inst> = own.iter().copied().collect();
    let mut early: Vec<Inst> = Vec::new();
    for &inst in own.iter().filter(|&&i| k.insts[i].op.is_read()) {
        let (view, ty) = (k.args(inst)[0], k.ty(k.result(inst)));
        let fixed = is_plain(k, inst)
            && !in_shared(k, inst)
            && memory(k, view).is_some_and(|m| !written.contains(&m));
        let small = extents(k, k.result(inst)).iter().product::<u32>() <= CARRIED * threads;
        let moves = k.args(inst)[1..].iter().any(|&a| depends(k, a, counter, |d| inside.contains(&d)));
        let at_once = |&v: &Value| is_early(k, v, &early, body, &inside, &mut FxHashSet::default());
        if ty.elem().is_int()
            && fixed
            && small
            && moves
            && !k.is_open(view)
            && k.args(inst).iter().all(at_once)
        {
            early.push(inst);
        }
    }
    let leading = leading(k, body);
    early.retain(|&i| leading.contains(&k.result(i)));
    early
}

/// Whether a value can be computed an iteration ahead.
fn is_early(
    k: &Kernel,
    v: Value,
    early: &[Inst],
    body: Block,
    inside: &FxHashSet<Inst>,
    seen: &mut FxHashSet<Value>,
) -> bool {
    let Some(def) = k.def(v).filter(|d| inside.contains(d)) else {
        return !k.blocks[body].params[1..].contains(&v);
    };
    if early.contains(&def) || !seen.insert(v) {
        return true;
    }
    let op = &k.insts[def].op;
    let divides = matches!(op, Op::Binary(BinOp::Div | BinOp::CeilDiv | BinOp::Rem));
    let harmless = !divides || constant(k, k.args(def)[1]).is_some_and(|d| d != 0.0);
    // What the text promises of a number need not hold past the last iteration.
    let promises = matches!(op, Op::Assume(_));
    let effect = op.has_effect() || op.is_read() || op.is_allocation() || !k.insts[def].blocks.is_empty();
    harmless && !effect && !promises && k.args(def).iter().all(|&a| is_early(k, a, early, body, inside, seen))
}

/// The values of a body, and what they are made of, that say where threads load, in blocks inside it too. A copy has rings of its
/// own.
fn leading(k: &Kernel, body: Block) -> FxHashSet<Value> {
    let inside: FxHashSet<Inst> = k.inside(body).into_iter().collect();
    let computed = |d: Inst| inside.contains(&d) && !k.insts[d].op.is_read();
    let loads = inside.iter().filter(|&&i| k.insts[i].op.is_read() && is_plain(k, i));
    let places = loads.flat_map(|&i| &k.args(i)[index_operands(k, i)]);
    places.flat_map(|&v| ancestors(k, v, computed)).collect()
}
