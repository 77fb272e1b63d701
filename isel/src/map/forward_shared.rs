//! Arrays in shared memory that hand tiles to products become values. The scheduler then copies by itself, with rings, stages
//! and barriers in mind.
//!
//! ```text
//!  store s[0, 0], load a[0]                          │
//!  for t in 0..n {                                   │   for t in 0..n {
//!    store s[(t + 1) % 2, 0], load a[t + 1]          │     x = load a[(t - 1) + 1]
//!    .. mma .., load s[t % 2, 0] ..                  │     .. mma .., x ..
//!  }                                                 │   }
//!
//!  store s[0], x     .. mma .., load s[0] ..        ─►   .. mma .., x ..
//! ```
//!
//! [`reaching`](super::reaching) finds for each load the one store whose tile it reads. A tile of the same iteration is used as it
//! is. One of an earlier iteration is computed where it is read: it is a function of the counter, and the stores before the loop
//! are that function of the iterations that there are not. A part of a tile is loaded, converted and transposed as a part.
//!
//! Either all loads of an array are replaced or none (memory SSA: Novillo, "Memory SSA, a unified approach for sparsely
//! representing memory operations", 2007).

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::loops::{block_of, body};
use super::persist::rename;
use super::prefetch_next_tile::copy;
use super::reaching::{Array, Found, Offset, Source, reaching, tile_of};
use super::tunables::do_tunables;
use crate::tiles::{program_order, users, written};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, Dim, Inst, Kernel, Mapping, Op, Shape, Type, Value};

/// Replaces all arrays whose loads are known to read what one store left.
pub fn do_forward_shared(k: &mut Kernel) {
    let mut changed = false;
    for array in arrays(k) {
        if let Some(Ok((array, found))) = forwarded(k, array) {
            replace(k, &array, &found);
            changed = true;
        }
    }
    if changed {
        tidy(k);
    }
}

fn tidy(k: &mut Kernel) {
    drop_empty(k);
    fold_reshapes(k);
    do_drop_unused(k);
}

/// The same for a kernel whose tunables are open: what holds for their defaults is taken to hold. For proposals of mappings, which
/// follow from what is loaded. Returns whether anything changed.
pub fn forward_shared_by_defaults(k: &mut Kernel) -> bool {
    let own = Mapping { kernel: k.name.clone(), ..Mapping::default() };
    let Ok(mut resolved) = do_tunables(k, &own) else { return false };
    let mut changed = false;
    for array in arrays(k) {
        let Some(Ok((array, found))) = forwarded(&resolved, array) else { continue };
        [&mut resolved, &mut *k].into_iter().for_each(|k| replace(k, &array, &found));
        changed = true;
        // What is found in one is done in the other, as long as both have the same instructions.
        if resolved.insts.len() != k.insts.len() {
            break;
        }
    }
    if changed {
        tidy(k);
    }
    changed
}

/// The arrays that products read through a copy, and why they stay.
pub(crate) fn kept_arrays(k: &Kernel) -> Vec<(Inst, &'static str)> {
    arrays(k).into_iter().filter_map(|a| Some((a, forwarded(k, a)?.err()?))).collect()
}

fn arrays(k: &Kernel) -> Vec<Inst> {
    program_order(k).into_iter().filter(|&i| matches!(k.insts[i].op, Op::Shared { .. })).collect()
}

type Forwarded = Result<(Array, Vec<Found>), &'static str>;

/// What each load of an array reads. `None` if no product reads the array.
fn forwarded(k: &Kernel, array: Inst) -> Option<Forwarded> {
    let users = users(k);
    let mut views = vec![k.result(array)];
    let (mut seen, mut feeds) = (0, false);
    while let Some(&view) = views.get(seen) {
        seen += 1;
        for &user in users.get(&view).into_iter().flatten() {
            match k.insts[user].op {
                Op::SubView(_) => views.push(k.result(user)),
                Op::Load => feeds |= feeds_product(k, &users, k.result(user)),
                _ => {}
            }
        }
    }
    let found = |array: Array| {
        let found = reaching(k, &written(k), &array)?;
        Ok((array, found))
    };
    feeds.then(|| Array::of(k, array).and_then(found))
}

/// Whether a tile, or what is computed of it element by element, is an operand of a product.
fn feeds_product(k: &Kernel, users: &crate::tiles::Users, tile: Value) -> bool {
    let (mut all, mut seen) = (vec![tile], 0);
    while let Some(&v) = all.get(seen) {
        seen += 1;
        for &user in users.get(&v).into_iter().flatten() {
            match k.insts[user].op {
                Op::Mma { .. } => return true,
                Op::Trans(_) | Op::Reshape | Op::Cast | Op::Unary(_) | Op::Binary(_) | Op::Slice(_) => {
                    let next = k.result(user);
                    if !all.contains(&next) {
                        all.push(next);
                    }
                }
                _ => {}
            }
        }
    }
    false
}

/// Lets the loads be what they read, and drops the stores.
fn replace(k: &mut Kernel, array: &Array, found: &[Found]) {
    let mut made: FxHashMap<(Inst, Inst), Value> = FxHashMap::default();
    for (load, found) in array.loads.iter().zip(found) {
        let whole = match found.source {
            Source::Same => tile_of(k, found.store),
            Source::Earlier { looped, by } => *made
                .entry((looped, found.store))
                .or_insert_with(|| computed_earlier(k, looped, found.store, by)),
            Source::AtEnd { looped, by } => computed_at_end(k, looped, found.store, by, load.inst),
        };
        let (result, lengths) = (k.result(load.inst), lengths(k, load.inst, found));
        let read = Cursor::before(k, load.inst, |c| {
            let part = if found.whole { whole } else { part(c, whole, &found.offsets, &lengths) };
            if c.k.ty(part) == c.k.ty(result) { part } else { reshaped(c, part, c.k.ty(result)) }
        });
        rename(k, &[(result, read)]);
    }
    array.loads.iter().chain(&array.stores).for_each(|access| remove(k, access.inst));
}

fn remove(k: &mut Kernel, inst: Inst) {
    let block = block_of(k, inst);
    k.blocks[block].insts.retain(|&i| i != inst);
}

/// What a loop stored `by` counts before, computed at the start of its body.
fn computed_earlier(k: &mut Kernel, looped: Inst, store: Inst, by: i64) -> Value {
    let own = body(k, looped);
    let counter = k.blocks[own].params[0];
    let inside = k.inside(own).into_iter().collect();
    Cursor::at_start(k, own, |c| computed(c, store, &inside, (counter, counter, by)))
}

/// What a loop stored `by` counts before its end, computed in front of a load behind it.
fn computed_at_end(k: &mut Kernel, looped: Inst, store: Inst, by: i64, load: Inst) -> Value {
    let own = body(k, looped);
    let (counter, high) = (k.blocks[own].params[0], k.args(looped)[1]);
    let inside = k.inside(own).into_iter().collect();
    Cursor::before(k, load, |c| computed(c, store, &inside, (counter, high, by)))
}

/// What a store in a loop's body, of which these are all instructions, stores where the counter is `by` less than a number.
fn computed(
    c: &mut Cursor<'_>,
    store: Inst,
    inside: &FxHashSet<Inst>,
    (counter, number, by): (Value, Value, i64),
) -> Value {
    let at = c.with(BinOp::Sub, number, by);
    let tile = tile_of(c.k, store);
    copy(c.k, c.block, tile, inside, &mut [(counter, at)].into_iter().collect())
}

/// The extents of what a load reads, along the dimensions of the stored tile.
fn lengths(k: &Kernel, load: Inst, found: &Found) -> Vec<Dim> {
    let own = k.ty(k.result(load)).shape().map_or_else(Vec::new, |s| s.dims().to_vec());
    match own.len() == found.lengths.len() {
        true => own,
        false => found.lengths.iter().map(|&l| Dim::new(l as u32)).collect(),
    }
}

/// A part of a tile. Of what is loaded, it is what is loaded there.
fn part(c: &mut Cursor<'_>, tile: Value, offsets: &[Offset], lengths: &[Dim]) -> Value {
    let def = c.k.def(tile);
    let ty = Shape::new(lengths).map_or(c.k.ty(tile), |shape| Type::Tile(c.k.ty(tile).elem(), shape));
    let (op, args) = match def.map(|d| (c.k.insts[d].op.clone(), c.k.args(d).to_vec())) {
        Some((Op::Load, args)) => {
            let moved: Vec<Value> = args[1..].iter().zip(offsets).map(|(&v, &by)| moved(c, v, by)).collect();
            (Op::Load, [&args[..1], &moved].concat())
        }
        Some((Op::Cast, args)) => (Op::Cast, vec![part(c, args[0], offsets, lengths)]),
        Some((Op::Trans(perm), args)) => {
            let (mut from, mut size) = (offsets.to_vec(), lengths.to_vec());
            for (d, &p) in perm.iter().enumerate() {
                (from[usize::from(p)], size[usize::from(p)]) = (offsets[d], lengths[d]);
            }
            let inner = part(c, args[0], &from, &size);
            (Op::Trans(perm), vec![inner])
        }
        _ => {
            let number = |o: &Offset| if let Offset::Number(n) = o { *n as u32 } else { 0 };
            (Op::Slice(offsets.iter().map(|o| Dim::new(number(o))).collect()), vec![tile])
        }
    };
    let loc = def.map(|d| c.k.insts[d].loc).unwrap_or_default();
    let made = c.k.append_inst(c.block, op, &args, &[ty], &[], loc);
    if let Some(def) = def {
        c.k.attrs[made] = c.k.attrs[def].clone();
    }
    c.k.result(made)
}

/// An index further on.
fn moved(c: &mut Cursor<'_>, index: Value, by: Offset) -> Value {
    match by {
        Offset::Number(0) => index,
        Offset::Number(n) => c.with(BinOp::Add, index, n),
        Offset::At(v) => c.op(BinOp::Add, index, v),
    }
}

fn reshaped(c: &mut Cursor<'_>, tile: Value, ty: Type) -> Value {
    let loc = c.k.def(tile).map(|d| c.k.insts[d].loc).unwrap_or_default();
    let made = c.k.append_inst(c.block, Op::Reshape, &[tile], &[ty], &[], loc);
    c.k.result(made)
}

/// Drops branches and loops that only stored.
fn drop_empty(k: &mut Kernel) {
    for inst in program_order(k).into_iter().rev() {
        let only_blocks = matches!(k.insts[inst].op, Op::If | Op::For) && k.results(inst).is_empty();
        if only_blocks && !k.any_inside(inst, |i| k.insts[i].op.has_effect()) {
            remove(k, inst);
        }
    }
}

/// Reshapes that give back the shape that a tile had.
fn fold_reshapes(k: &mut Kernel) {
    for inst in program_order(k) {
        let reshapes = |d: &Inst| matches!(k.insts[*d].op, Op::Reshape | Op::ExpandDims(_));
        if !reshapes(&inst) {
            continue;
        }
        let (result, mut from) = (k.result(inst), k.args(inst)[0]);
        while k.ty(from) != k.ty(result)
            && let Some(def) = k.def(from).filter(reshapes)
        {
            from = k.args(def)[0];
        }
        if k.ty(from) == k.ty(result) {
            rename(k, &[(result, from)]);
        }
    }
}
