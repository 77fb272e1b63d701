//! Chunks: a wide store becomes several narrow ones. A small staging buffer then suffices, and the chunks can be
//! spread in time. Chunks are of columns if the rows of a warpgroup (or warp) are contiguous, of rows if warps share
//! the columns.
//!
//! ```text
//!  store c[i, j], x : 128 x 256   ─►   store c[i, j], x[.., 0..64]   store c[i, j + 64], x[.., 64..128]   ..
//! ```

use super::drop_unused::do_drop_unused;
use super::fixed_loads::fixed_loads;
use super::sink::{Stops, TilePart, is_converted};
use crate::boxes::flat;
use crate::operand::WARP_ATOM;
use crate::tiles::written;
use crate::variant::MmaVariant;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{Block, Dim, Inst, Kernel, Mapping, Op, Shape, Type, Value};

/// Bytes of a row in one tensor copy: the swizzle spans, the widest first.
const SPANS_BYTES: [u32; 3] = [128, 64, 32];

/// Chunks along a dimension, which is counted from the last one.
#[derive(Clone, Copy)]
struct Chunks {
    back: usize,
    width: u32,
    count: u32,
}

/// Splits every store of rows and columns that depends on an MMA into stores of slices. The rows may be reshaped to more
/// dimensions.
pub fn do_chunk(k: &mut Kernel, mapping: &Mapping, variant: MmaVariant) {
    if !mapping.whole.bulk_store || !k.insts.values().any(|d| matches!(d.op, Op::Mma { .. })) {
        return;
    }
    let rows = variant.warp_grid().filter(|s| !s.contiguous).map(|s| WARP_ATOM[0] * s.rows);
    let written = written(k);
    let blocks: Vec<_> = k.blocks.keys().collect();
    for block in blocks {
        let reduced = taken_whole(k, block);
        let old = std::mem::take(&mut k.blocks[block].insts);
        for (at, &inst) in old.iter().enumerate() {
            match chunks(k, inst, mapping, rows) {
                Some(all) => {
                    let mut fixed = fixed_loads(k, &old[..at], inst, &written);
                    fixed.extend(&reduced);
                    push_chunks(k, block, inst, all, &fixed, mapping);
                }
                None => {
                    mark(k, inst, mapping);
                    k.blocks[block].insts.push(inst);
                }
            }
        }
    }
    do_drop_unused(k);
}

/// Elementwise work that a reduction takes as a whole, and that takes its operand's place: its block does not
/// read the operand after it.
/// A slice of its result holds no more registers than one of the operand, and is not computed again.
fn taken_whole(k: &Kernel, block: Block) -> FxHashSet<Inst> {
    let insts = &k.blocks[block].insts;
    let mut users: FxHashMap<Value, Vec<usize>> = FxHashMap::default();
    for (at, &inst) in insts.iter().enumerate() {
        k.args(inst).iter().for_each(|&v| users.entry(v).or_default().push(at));
    }
    let of = |v: Value| users.get(&v).map_or(&[][..], |all| all);
    let mut whole: FxHashSet<usize> = FxHashSet::default();
    for (at, &inst) in insts.iter().enumerate().rev() {
        let reduces = |&n: &usize| matches!(k.insts[insts[n]].op, Op::Reduce(..) | Op::Scan(..));
        let taken = |n: &usize| whole.contains(n) || reduces(n);
        if k.insts[inst].op.is_elementwise() && k.results(inst).iter().any(|&r| of(r).iter().any(taken)) {
            whole.insert(at);
        }
    }
    let is_last = |at: usize, v: Value| of(v).last() == Some(&at);
    let replaces = |at: usize| {
        let (inst, ty) = (insts[at], k.ty(k.result(insts[at])));
        k.args(inst).iter().any(|&v| k.ty(v) == ty && is_last(at, v))
    };
    whole.iter().copied().filter(|&at| replaces(at)).map(|at| insts[at]).collect()
}

fn mark(k: &mut Kernel, inst: Inst, mapping: &Mapping) {
    let deferred = mapping.defers();
    if deferred && matches!(k.insts[inst].op, Op::Store | Op::StoreScatter { .. }) {
        k.attrs[inst].deferred = true;
    }
}

/// How a store is split, if it is. `rows`: rows of a chunk, if chunks are of rows.
fn chunks(k: &Kernel, inst: Inst, mapping: &Mapping, rows: Option<u32>) -> Option<Chunks> {
    if !matches!(k.insts[inst].op, Op::Store) || k.attrs[inst].by_threads {
        return None;
    }
    let value = *k.args(inst).last()?;
    let tile = flat(k, value);
    let extents = k.ty(tile).shape()?.extents()?;
    let [height, columns] = extents[..] else { return None };
    if tile != value && rows.is_some() {
        return None;
    }
    let bits = k.ty(value).elem().bits();
    let spans = SPANS_BYTES.iter().map(|bytes| bytes * 8 / bits);
    let mut widths = mapping.whole.chunk.into_iter().chain(spans).filter(|w| *w > 0);
    let (extent, width, back) = match rows {
        Some(rows) => (height, Some(rows).filter(|r| height.is_multiple_of(*r)), 1),
        None => (columns, widths.find(|w| columns.is_multiple_of(*w)), 0),
    };
    let width = width?;
    (extent > width).then(|| Chunks { back, width, count: extent / width })
}

/// Replaces a store by stores of chunks. A chunk is computed, converted and stored before the next one needs
/// registers. If stores are deferred, all chunks are computed first: nothing then stands between the waits of their
/// loads.
fn push_chunks(
    k: &mut Kernel,
    block: Block,
    store: Inst,
    chunks: Chunks,
    fixed: &FxHashSet<Inst>,
    mapping: &Mapping,
) {
    // A conversion alone runs in place of the whole accumulator.
    let value = k.args(store).last().map(|&v| flat(k, v));
    let converted = value.filter(|&v| is_converted(k, v)).and_then(|v| k.def(v));
    let whole: FxHashSet<Inst> = fixed.iter().copied().chain(converted).collect();
    let deferred = mapping.defers();
    let start = k.blocks[block].insts.len();
    let mut computed = Vec::new();
    for number in 0..chunks.count {
        computed.extend(chunk_of(k, block, store, number, chunks, &whole));
        if !deferred {
            computed.drain(..).for_each(|args| push_store(k, block, store, &args, mapping));
        }
    }
    computed.into_iter().for_each(|args| push_store(k, block, store, &args, mapping));
    slices_first(k, block, start);
}

/// Moves the slices of several accumulators to the front of a block's instructions from `start` on. Each chunk then
/// ends with its own last use, and what is computed of it takes its registers: together the accumulators leave no
/// others. The chunks of a single accumulator end so wherever their slices stand.
fn slices_first(k: &mut Kernel, block: Block, start: usize) {
    let new = &k.blocks[block].insts[start..];
    let own: FxHashSet<Value> = new.iter().flat_map(|&i| k.results(i)).copied().collect();
    let early =
        |&i: &Inst| matches!(k.insts[i].op, Op::Slice(_)) && !k.args(i).iter().any(|a| own.contains(a));
    let (slices, rest): (Vec<Inst>, Vec<Inst>) = new.iter().copied().partition(early);
    let sliced: FxHashSet<Value> = slices.iter().flat_map(|&i| k.args(i)).copied().collect();
    if sliced.len() > 1 {
        k.blocks[block].insts.truncate(start);
        k.blocks[block].insts.extend(slices.into_iter().chain(rest));
    }
}

fn push_store(k: &mut Kernel, block: Block, store: Inst, args: &[Value], mapping: &Mapping) {
    let chunk = k.append_inst(block, Op::Store, args, &[], &[], k.insts[store].loc);
    mark(k, chunk, mapping);
}

/// The chunk of a tile whose rows a reshape makes more dimensions of.
fn reshaped(k: &mut Kernel, block: Block, chunk: Value, whole: Value, columns: u32) -> Option<Value> {
    let Type::Tile(elem, shape) = k.ty(whole) else { return None };
    let mut dims = shape.dims().to_vec();
    *dims.last_mut()? = Dim::new(columns);
    let narrow = Shape::new(&dims)?;
    let loc = k.def(chunk).map(|def| k.insts[def].loc).unwrap_or_default();
    let made = k.append_inst(block, Op::Reshape, &[chunk], &[Type::Tile(elem, narrow)], &[], loc);
    Some(k.result(made))
}

/// Computes a chunk of what is stored, from slices of the instructions that stay `whole`. Returns the arguments of its
/// store.
fn chunk_of(
    k: &mut Kernel,
    block: Block,
    store: Inst,
    number: u32,
    Chunks { back, width, .. }: Chunks,
    whole: &FxHashSet<Inst>,
) -> Option<Vec<Value>> {
    let mut args = k.args(store).to_vec();
    let loc = k.insts[store].loc;
    let from = number * width;
    let stored = args.pop()?;
    let value = flat(k, stored);
    let extent = k.ty(value).shape()?.dims().iter().rev().nth(back)?.constant()?;
    let (done, stops) = (FxHashMap::default(), Stops::At(whole));
    let mut part = TilePart { k, block, extent, from, width, loc, done, stops, holds: &[] };
    let slice = part.of(value, back);
    if let Some(index) = args.iter_mut().rev().nth(back) {
        *index = part.moved(*index);
    }
    args.push(if value == stored { slice } else { reshaped(k, block, slice, stored, width)? });
    Some(args)
}
