//! Scales of the next iterations are loaded ahead. A loop of products waits for its operands in rings; a scale that
//! threads load for themselves would make each iteration wait for memory.
//!
//! ```text
//!  for t {                             s = load scale[0]   r = load scale[1]
//!    s = load scale[t]          ─►     for t carry s, r {
//!    yield x + mma(..) * s               u = load scale[t + 2]
//!                                        yield x + mma(..) * s, r, u
//! ```
//!
//! Scales that are gathered by a tile of indices are loaded ahead as well. Past the last iteration the load is outside its
//! view, or its number is not used. So views without a known end are left alone.

use super::prefetch_next_tile::{load_ahead, never_fails};
use crate::feature::Ways;
use crate::tensor_copies::{COPY_BITS, row_around};
use crate::tiles::{
    Users, acquired, array, depends, has_products, loads_tile, memory, program_order, unit_dim, users,
    written,
};
use crate::window::Window;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value, Way};
use warplift_ir::types::Elem;

/// Iterations between a load and its use: a short iteration takes half the latency of device memory.
const AHEAD: usize = 2;

/// Loads the scales of the loops of products ahead.
pub fn do_prefetch_scales(k: &mut Kernel, ways: Ways) {
    let loops = program_order(k).into_iter().filter(|&i| matches!(k.insts[i].op, Op::For));
    for looped in loops.collect::<Vec<_>>() {
        let body = k.insts[looped].blocks[0];
        let users = users(k);
        let own = scales(k, &users, body, ways).into_iter();
        let by_threads = own.filter(|&l| !comes_beside_operands(k, looped, l, ways));
        let loads: Vec<Inst> = by_threads.filter(|&l| !is_ahead(k, &users, body, l)).collect();
        if !k.attrs[looped].persistent {
            prefetch(k, looped, loads);
        }
    }
}

/// Whether a tensor copy brings a row of scales with the others of their 16 bytes, in the ring of the operands.
pub(super) fn comes_beside_operands(k: &Kernel, looped: Inst, load: Inst, ways: Ways) -> bool {
    let produced = k.attrs[looped].looped.is_some_and(|l| l.producers == Some(1));
    let view = k.args(load)[0];
    let reached = || Window::of(k, view).is_some_and(|w| w.tensor_refused(k, ways).is_none());
    let brought = produced && ways.smem_staging && loads_tile(k, load) && array(k, load).way == Way::Fit;
    brought && acquired(k, view).is_none() && row_around(k, load).is_some() && reached()
}

/// Whether a load is for another iteration already: only the end of the body takes what it gives.
fn is_ahead(k: &Kernel, users: &Users, body: Block, load: Inst) -> bool {
    let end = k.blocks[body].insts.last().copied();
    users.get(&k.result(load)).into_iter().flatten().all(|&i| Some(i) == end)
}

/// The loads of scales in the body of a loop of products.
pub(super) fn scales(k: &Kernel, users: &Users, body: Block, ways: Ways) -> Vec<Inst> {
    let own = &k.blocks[body].insts;
    if !has_products(k, body) {
        return Vec::new();
    }
    let (written, counter) = (written(k), k.blocks[body].params[0]);
    let inside: FxHashSet<Inst> = own.iter().copied().collect();
    let fits = |&&inst: &&Inst| {
        let view = k.args(inst)[0];
        let fixed = memory(k, view).is_some_and(|m| !written.contains(&m));
        let plain =
            k.args(inst).iter().all(|&a| is_computed(k, a, (body, &inside), &mut FxHashSet::default()));
        let moves = k.args(inst)[1..].iter().any(|&a| depends(k, a, counter, |d| inside.contains(&d)));
        is_scale(k, users, inst, ways)
            && !k.is_open(view)
            && fixed
            && plain
            && moves
            && !is_coordinate(k, k.result(inst), own)
    };
    let loads = |&&i: &&Inst| matches!(k.insts[i].op, Op::Load | Op::LoadGather { .. });
    own.iter().filter(loads).filter(fits).copied().collect()
}

/// Whether an iteration before can compute a value too: what the body computes it of is its counter, what is known in front of the
/// loop, and arithmetic that never fails. What the loop carries is known when the iteration begins.
fn is_computed(
    k: &Kernel,
    v: Value,
    (body, inside): (Block, &FxHashSet<Inst>),
    seen: &mut FxHashSet<Value>,
) -> bool {
    let carried = k.blocks[body].params[1..].contains(&v);
    let Some(def) = k.def(v).filter(|d| inside.contains(d) && seen.insert(v)) else { return !carried };
    never_fails(k, def) && k.args(def).iter().all(|&a| is_computed(k, a, (body, inside), seen))
}

/// Whether a load gives one number to multiply with, or a row of them that no tensor copy can bring.
fn is_scale(k: &Kernel, users: &Users, inst: Inst, ways: Ways) -> bool {
    let ty = k.ty(k.result(inst));
    let Type::Tile(elem, shape) = ty else { return ty.elem().is_float() };
    let is_number = elem.is_float() || is_converted(k, users, k.result(inst), Elem::is_float);
    let Some(extents) = shape.extents() else { return false };
    let array = k.def(k.whole_view(k.args(inst)[0])).map(|v| k.attrs[v].array.way);
    // A scale for each row takes few registers, one for each column takes many.
    let of_rows = extents.get(1) == Some(&1);
    let window = Window::of(k, k.args(inst)[0]).filter(|_| of_rows);
    let refused = window.is_some_and(|w| w.tensor_refused(k, ways).is_some());
    let by_threads = match unit_dim(k, k.args(inst)[0]) {
        _ if !loads_tile(k, inst) => true,
        Some(d) => refused || extents.get(d).is_none_or(|&e| e * elem.bits() < COPY_BITS),
        None => true,
    };
    let row = extents.iter().filter(|&&e| e > 1).count() <= 1;
    row && is_number && by_threads && matches!(array, Some(Way::Fit | Way::Plain))
}

/// Whether bytes become floats of some types wherever they are used: they are exponents, or small integers.
pub(super) fn is_converted(k: &Kernel, users: &Users, v: Value, to: fn(Elem) -> bool) -> bool {
    let converts = |&i: &Inst| matches!(k.insts[i].op, Op::Cast) && to(k.ty(k.result(i)).elem());
    k.ty(v).elem() == Elem::Uint(8) && users.get(&v).is_some_and(|used| used.iter().all(converts))
}

/// Whether a load, loop or branch of the body takes a value as it is.
fn is_coordinate(k: &Kernel, v: Value, own: &[Inst]) -> bool {
    let takes = |i: &&Inst| k.insts[**i].op.is_read() || !k.insts[**i].blocks.is_empty();
    own.iter().filter(takes).any(|&i| k.args(i).contains(&v))
}

/// Lets a loop carry the scales of the next iterations.
pub(super) fn prefetch(k: &mut Kernel, looped: Inst, mut loads: Vec<Inst>) {
    for _ in 0..AHEAD {
        if loads.is_empty() {
            return;
        }
        loads = load_ahead(k, looped, &loads);
    }
}
