//! Products of few columns come several to an iteration: weights in groups of 32 have a scale each, so each group has a product
//! of its own, and an iteration of one waits longer for its copies than it computes. Loads of groups that follow each other
//! become one load, and the iterations work on its parts, in the order in which they did.
//!
//! ```text
//!  for t in 0..n carry x                         for g in 0..n / 4 carry x
//!    q = load w[i, t*32] : u4[BN, 32]              q = load w[i, g*128] : u4[BN, 128]     s = load scale[i, g*4] : f16[BN, 4]
//!    s = load scale[i, t] : f16[BN, 1]     ─►      x0 = fma(mma(0, f(q[.., 0..32]), ..), s[.., 0], x)
//!    yield fma(mma(0, f(q), ..), s, x)             ..
//!                                                  yield fma(mma(0, f(q[.., 96..128]), ..), s[.., 3], x2)
//! ```
//!
//! Facts must say that the number of iterations is a multiple of the groups of one.

use super::MapContext;
use super::cursor::Cursor;
use super::group_scales::line;
use crate::boxes::MOST_EXTENT;
use crate::facts::is_multiple;
use crate::takes::takes;
use crate::tiles::{
    WARPGROUP_THREADS, ancestors, constant, depends, extents, program_order, unit_dim, with_elem,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use warplift_ir::tile::{BinOp, Block, Depth, Dim, Inst, Kernel, LoopMapping, Op, Shape, Type, Value};

/// Depth of the products of an iteration together.
const DEPTH: u32 = 128;
/// Depth up to which products are joined where several columns lie in rows: each takes the copy engine a line for each of its rows,
/// in every iteration. Half of that else: from 64 on an iteration computes long enough (by prediction).
const SHALLOW: u32 = 64;
/// Sums of a product that a thread holds at most. More would not leave registers for the parts.
const MOST_SUMS: u32 = 16;
/// The same of a product that goes on with the sums of the loop.
const MOST_CARRIED: u32 = 64;
/// Bits of a byte.
const BYTE_BITS: u32 = 8;
/// Bits of a half.
const HALF_BITS: u32 = 16;

/// Joins the groups of loops that have a producer.
pub fn do_join_groups(k: &mut Kernel, c: &MapContext<'_>) {
    if !c.ways.joined_groups {
        return;
    }
    for looped in program_order(k) {
        if let Some(count) = k.attrs[looped].looped.and_then(|l| groups(k, looped, l)) {
            let loads = pieces(k, looped, count);
            if has_operands(k, looped, &loads) {
                join(k, looped, count, &loads);
            }
        }
    }
}

/// The groups of an iteration, if a loop is made of shallow products of converted weights.
fn groups(k: &Kernel, looped: Inst, mapping: LoopMapping) -> Option<u32> {
    let fits = mapping.producers.is_some_and(|p| p > 0) && mapping.pipeline == Depth::Fit;
    if !fits || !matches!(k.insts[looped].op, Op::For) || k.attrs[looped].persistent {
        return None;
    }
    let body = k.insts[looped].blocks[0];
    let mut depth = None;
    for &inst in &k.blocks[body].insts {
        let op = &k.insts[inst].op;
        if !k.insts[inst].blocks.is_empty() || op.has_effect() {
            return None;
        }
        if matches!(op, Op::Mma { .. }) {
            let sums = extents(k, k.result(inst)).iter().product::<u32>();
            let own = extents(k, k.args(inst)[1]).get(1).copied()?;
            let threads = mapping.consumers.unwrap_or(1).max(1) * WARPGROUP_THREADS;
            // Sums of a group of its own stand beside those of the loop.
            let most = if constant(k, k.args(inst)[0]).is_some() { MOST_SUMS } else { MOST_CARRIED };
            if sums > most * threads || depth.is_some_and(|d| d != own) {
                return None;
            }
            depth = Some(own);
        }
    }
    let deepest = if columns_of_rows(k, body) > 1 { SHALLOW } else { SHALLOW / 2 };
    let count = depth.filter(|&d| d <= deepest && d > 0 && DEPTH.is_multiple_of(d)).map(|d| DEPTH / d)?;
    let &[low, high, step] = k.args(looped).get(..3)? else { return None };
    let counts = k.int_const(low) == Some(0) && k.int_const(step) == Some(1);
    (counts && is_multiple(k, high, count.into())).then_some(count)
}

/// Loads of a column that lies in rows of memory.
fn columns_of_rows(k: &Kernel, body: Block) -> usize {
    let loads = k.blocks[body].insts.iter().filter(|&&i| matches!(k.insts[i].op, Op::Load));
    loads.filter(|&&load| is_column(k, load) && unit_dim(k, k.args(load)[0]) == Some(1)).count()
}

/// Whether a load gives one element of each row.
fn is_column(k: &Kernel, load: Inst) -> bool {
    extents(k, k.result(load)).get(1) == Some(&1)
}

/// A load of which each iteration takes the next piece along a dimension, from an element on.
struct Piece {
    load: Inst,
    /// The conversion whose result is sliced, because no slice of the loaded elements is possible.
    cast: Option<Inst>,
    along: usize,
    first: i64,
}

/// The loads of a body whose pieces follow each other.
fn pieces(k: &Kernel, looped: Inst, count: u32) -> Vec<Piece> {
    let body = k.insts[looped].blocks[0];
    let loads = k.blocks[body].insts.iter().filter(|&&i| matches!(k.insts[i].op, Op::Load));
    loads.filter_map(|&load| piece(k, looped, load, count)).collect()
}

fn piece(k: &Kernel, looped: Inst, load: Inst, count: u32) -> Option<Piece> {
    let counter = k.blocks[k.insts[looped].blocks[0]].params[0];
    let ty = k.ty(k.result(load));
    let shape = ty.shape()?.extents()?;
    let lines: Vec<(i64, i64)> =
        k.args(load)[1..].iter().map(|&a| line(k, a, counter).unwrap_or((0, 0))).collect();
    if shape.len() != 2 || lines.len() != 2 {
        return None;
    }
    let along = (0..2).find(|&d| lines[d].0 > 0 && lines[d].0 == i64::from(shape[d]))?;
    // The other index does not move with the counter.
    let own = &k.blocks[k.insts[looped].blocks[0]].insts;
    let fixed = !depends(k, k.args(load)[2 - along], counter, |d| own.contains(&d));
    // Parts of elements below a byte are whole operands, or are converted first.
    let sliced = |v: Value| takes(&Op::Slice(smallvec![]), k.ty(v).elem());
    let whole = sliced(k.result(load)) || shape[along] > 1;
    // Bytes of a column lie side by side in memory, and are converted together.
    let bytes = shape[along] == 1 && k.ty(k.result(load)).elem().bits() <= BYTE_BITS;
    let cast = conversion(k, load).filter(|&c| (!whole || bytes) && sliced(k.result(c)));
    let most = shape[along].checked_mul(count).is_some_and(|e| e <= MOST_EXTENT);
    (fixed && (whole || cast.is_some()) && most).then_some(Piece { load, cast, along, first: lines[along].1 })
}

/// The conversion that alone uses a load.
fn conversion(k: &Kernel, load: Inst) -> Option<Inst> {
    let mut users = k.insts.keys().filter(|&i| k.args(i).contains(&k.result(load)));
    let only = users.next().filter(|_| users.next().is_none())?;
    matches!(k.insts[only].op, Op::Cast).then_some(only)
}

/// Whether both operands of every product come of such loads, and the left one is computed, of halves at most but for columns: what
/// computes with wider numbers does not wait (by prediction). Other loads of the iterations would be as many as before.
fn has_operands(k: &Kernel, looped: Inst, loads: &[Piece]) -> bool {
    let body = k.insts[looped].blocks[0];
    let (own, counter) = (&k.blocks[body].insts, k.blocks[body].params[0]);
    let reads = |v: Value, of: Value| depends(k, v, of, |d| own.contains(&d));
    let joined = |i: Inst| loads.iter().any(|p| p.load == i);
    let others = own.iter().filter(|&&i| k.insts[i].op.is_read() && !joined(i));
    if others.flat_map(|&i| k.args(i)).any(|&a| reads(a, counter)) {
        return false;
    }
    let of = |v: Value| loads.iter().filter(move |p| reads(v, k.result(p.load)));
    let halves = |p: &Piece| k.ty(k.result(p.load)).elem().bits() <= HALF_BITS || is_column(k, p.load);
    let narrow = |v: Value| of(v).all(halves);
    let computed = |v: Value| {
        k.def(v).is_some_and(|d| own.contains(&d) && !matches!(k.insts[d].op, Op::Load | Op::Trans(_)))
    };
    let fits = |left: Value, right: Value| {
        computed(left) && narrow(left) && [left, right].into_iter().all(|v| of(v).count() > 0)
    };
    let mut products = own.iter().filter(|&&i| matches!(k.insts[i].op, Op::Mma { .. }));
    products.all(|&i| fits(k.args(i)[1], k.args(i)[2]))
}

/// Lets each iteration do the work of several.
fn join(k: &mut Kernel, looped: Inst, count: u32, loads: &[Piece]) {
    let body = k.insts[looped].blocks[0];
    let counter = k.blocks[body].params[0];
    let mut insts = std::mem::take(&mut k.blocks[body].insts);
    let Some(end) = insts.pop() else { return };
    let mut joined: FxHashMap<Inst, Value> = FxHashMap::default();
    let mut carried: Vec<Value> = k.blocks[body].params[1..].to_vec();
    for n in 0..count {
        let mut c = Cursor::at_end(k, body);
        let at = c.with(BinOp::Mul, counter, count.into());
        let at = c.with(BinOp::Add, at, n.into());
        let mut known: FxHashMap<Value, Value> = FxHashMap::from_iter([(counter, at)]);
        known.extend(c.k.blocks[body].params[1..].iter().copied().zip(carried));
        for &inst in &insts {
            let args: Vec<Value> = c.k.args(inst).iter().map(|a| *known.get(a).unwrap_or(a)).collect();
            if let Some(piece) = loads.iter().find(|p| p.load == inst) {
                let whole = *joined.entry(inst).or_insert_with(|| whole(&mut c, piece, args, counter, count));
                if piece.cast.is_none() {
                    let part = part(&mut c, piece, whole, n);
                    known.insert(c.k.result(inst), part);
                }
            } else if let Some(piece) = loads.iter().find(|p| p.cast == Some(inst)) {
                let of = joined[&piece.load];
                let whole = *joined.entry(inst).or_insert_with(|| converted(&mut c, inst, of));
                let part = part(&mut c, piece, whole, n);
                known.insert(c.k.result(inst), part);
            } else if c.k.args(inst) == &args[..] {
                // It does not depend on the iteration: one serves all.
                if n == 0 {
                    c.keep(inst);
                }
            } else {
                let made = c.copy(inst, &args);
                let both: Vec<(Value, Value)> =
                    c.k.results(inst).iter().copied().zip(c.k.results(made).to_vec()).collect();
                known.extend(both);
            }
        }
        carried = k.args(end).iter().map(|a| *known.get(a).unwrap_or(a)).collect();
    }
    k.set_args(end, &carried);
    k.blocks[body].insts.push(end);
    loads_first(k, body, &joined);
    let mut args = k.args(looped).to_vec();
    args[1] = Cursor::before(k, looped, |c| c.with(BinOp::Div, args[1], count.into()));
    k.set_args(looped, &args);
}

/// Puts the loads of an iteration's pieces, and the indices that they need, before the work on the pieces: threads wait for all of
/// them at once, and one ring holds them.
fn loads_first(k: &mut Kernel, body: Block, joined: &FxHashMap<Inst, Value>) {
    let mut insts = std::mem::take(&mut k.blocks[body].insts);
    let own: FxHashSet<Inst> = insts.iter().copied().collect();
    let loads = joined.values().filter(|&&v| k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Load)));
    let needed: FxHashSet<Value> = loads.flat_map(|&v| ancestors(k, v, |d| own.contains(&d))).collect();
    insts.sort_by_key(|&i| !k.results(i).iter().any(|r| needed.contains(r)));
    k.blocks[body].insts = insts;
}

/// The load of an iteration's pieces.
fn whole(c: &mut Cursor<'_>, piece: &Piece, mut args: Vec<Value>, counter: Value, count: u32) -> Value {
    let ty = c.k.ty(c.k.result(piece.load));
    let mut shape = extents(c.k, c.k.result(piece.load));
    shape[piece.along] *= count;
    c.loc = c.k.insts[piece.load].loc;
    let start = c.with(BinOp::Mul, counter, shape[piece.along].into());
    args[1 + piece.along] = c.with(BinOp::Add, start, piece.first);
    let ty = Shape::of(&shape).map_or(ty, |s| Type::Tile(ty.elem(), s));
    let loaded = c.inst(Op::Load, &args, ty);
    if let (Some(new), old) = (c.k.def(loaded), piece.load) {
        c.k.attrs[new] = c.k.attrs[old].clone();
    }
    loaded
}

/// The conversion of an iteration's pieces.
fn converted(c: &mut Cursor<'_>, cast: Inst, whole: Value) -> Value {
    let ty = with_elem(c.k.ty(whole), c.k.ty(c.k.result(cast)).elem());
    c.loc = c.k.insts[cast].loc;
    c.inst(Op::Cast, &[whole], ty)
}

/// A piece of what was loaded, or converted.
fn part(c: &mut Cursor<'_>, piece: &Piece, whole: Value, n: u32) -> Value {
    let ty = c.k.ty(c.k.result(piece.cast.unwrap_or(piece.load)));
    let own = extents(c.k, c.k.result(piece.load))[piece.along];
    let offsets = (0..2).map(|d| Dim::new(if d == piece.along { n * own } else { 0 })).collect();
    c.inst(Op::Slice(offsets), &[whole], ty)
}
