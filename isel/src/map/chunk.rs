//! Chunks: a wide store becomes several narrow ones. A small staging buffer then suffices, and the chunks can be
//! spread in time. Chunks are of columns if the rows of a warpgroup (or warp) are contiguous, of rows if warps share
//! the columns.
//!
//! ```text
//!  store c[i, j], x : 128 x 256   ─►   store c[i, j], x[.., 0..64]   store c[i, j + 64], x[.., 64..128]   ..
//!  store c[i, j], x                ─►   store c[i, j], x[.., 0..64]   store d[i, j], f(x[.., 0..64])
//!  store d[i, j], f(x)                  store c[i, j + 64], x[.., 64..128]   ..
//! ```
//!
//! Stores that follow each other and are cut alike are chunked together: what both are computed of is computed once, a chunk at a
//! time.

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::fixed_loads::fixed_loads;
use super::sink::{Stops, TilePart, is_converted};
use crate::boxes::flat;
use crate::operand::WARP_ATOM;
use crate::tiles::{memory, written};
use crate::variant::MmaVariant;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{Block, Dim, Inst, Kernel, Mapping, Op, Shape, Type, Value};

/// Bytes of a row in one tensor copy: the swizzle spans, the widest first.
const SPANS_BYTES: [u32; 3] = [128, 64, 32];

/// Chunks along a dimension, which is counted from the last one.
#[derive(Clone, Copy, PartialEq, Eq)]
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
        let mut at = 0;
        while let Some(&inst) = old.get(at) {
            let Some(all) = chunks(k, inst, mapping, rows) else {
                mark(k, inst, mapping);
                k.blocks[block].insts.push(inst);
                at += 1;
                continue;
            };
            let cut_alike = |k: &Kernel, i| chunks(k, i, mapping, rows) == Some(all);
            let group = group(k, &old[at..], &written, cut_alike);
            let stores: Vec<Inst> = group.iter().copied().filter(|&i| k.insts[i].op.has_effect()).collect();
            let mut fixed = reduced.clone();
            for &store in &stores {
                fixed.extend(fixed_loads(k, &old[..at], store, &written));
            }
            // What is computed between the stores is computed of their chunks, or before them.
            k.blocks[block].insts.extend(group.iter().filter(|i| !stores.contains(i)));
            push_chunks(k, block, &stores, all, &fixed, mapping);
            at += group.len();
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

/// The stores at the front of some instructions that are chunked together, with what stands between them: further stores that
/// are cut alike and write other memory, and what is computed without reading memory that the kernel writes.
fn group(
    k: &Kernel,
    insts: &[Inst],
    written: &FxHashSet<Value>,
    cut_alike: impl Fn(&Kernel, Inst) -> bool,
) -> Vec<Inst> {
    let target = |i: Inst| memory(k, k.args(i)[0]);
    let extent = |i: Inst| k.args(i).last().and_then(|&v| k.ty(flat(k, v)).shape());
    let reads = |i: Inst| k.insts[i].op.is_read() && target(i).is_none_or(|m| written.contains(&m));
    let mut stores = vec![insts[0]];
    let mut length = 1;
    for (n, &inst) in insts.iter().enumerate().skip(1) {
        if matches!(k.insts[inst].op, Op::Store) {
            let other =
                target(inst).is_some_and(|m| stores.iter().all(|&s| target(s).is_some_and(|o| o != m)));
            if !other || extent(inst) != extent(insts[0]) || !cut_alike(k, inst) {
                break;
            }
            stores.push(inst);
            length = n + 1;
        } else if k.insts[inst].op.has_effect() || !k.insts[inst].blocks.is_empty() || reads(inst) {
            break;
        }
    }
    insts[..length].to_vec()
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

/// Replaces stores by stores of chunks. A chunk is computed, converted and stored before the next one needs
/// registers. If stores are deferred, all chunks are computed first: nothing then stands between the waits of their
/// loads.
fn push_chunks(
    k: &mut Kernel,
    block: Block,
    stores: &[Inst],
    chunks: Chunks,
    fixed: &FxHashSet<Inst>,
    mapping: &Mapping,
) {
    // A conversion alone runs in place of the whole accumulator.
    let values = stores.iter().filter_map(|&s| k.args(s).last()).map(|&v| flat(k, v));
    let converted = values.filter(|&v| stores.len() == 1 && is_converted(k, v)).filter_map(|v| k.def(v));
    let whole: FxHashSet<Inst> = fixed.iter().copied().chain(converted).collect();
    let deferred = mapping.defers();
    let start = k.blocks[block].insts.len();
    let mut computed = Vec::new();
    for number in 0..chunks.count {
        computed.extend(chunks_of(k, block, stores, number, chunks, &whole));
        if !deferred {
            computed.drain(..).for_each(|(store, args)| push_store(k, block, store, &args, mapping));
        }
    }
    computed.into_iter().for_each(|(store, args)| push_store(k, block, store, &args, mapping));
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
    let chunk = Cursor::at_end(k, block).like(store).effect(Op::Store, args);
    mark(k, chunk, mapping);
}

/// The chunk of a tile whose rows a reshape makes more dimensions of.
fn reshaped(k: &mut Kernel, block: Block, chunk: Value, whole: Value, columns: u32) -> Option<Value> {
    let Type::Tile(elem, shape) = k.ty(whole) else { return None };
    let mut dims = shape.dims().to_vec();
    *dims.last_mut()? = Dim::new(columns);
    let narrow = Shape::new(&dims)?;
    let mut c = Cursor::at_end(k, block);
    c.loc = c.k.def(chunk).map(|def| c.k.insts[def].loc).unwrap_or_default();
    Some(c.inst(Op::Reshape, &[chunk], Type::Tile(elem, narrow)))
}

/// Computes a chunk of what each store stores, from slices of the instructions that stay `whole`. Returns the arguments of
/// their stores.
fn chunks_of(
    k: &mut Kernel,
    block: Block,
    stores: &[Inst],
    number: u32,
    Chunks { back, width, .. }: Chunks,
    whole: &FxHashSet<Inst>,
) -> Vec<(Inst, Vec<Value>)> {
    let (from, mut done) = (number * width, FxHashMap::default());
    let mut chunk_of = |k: &mut Kernel, store: Inst| {
        let mut args = k.args(store).to_vec();
        let stored = args.pop()?;
        let value = flat(k, stored);
        let extent = k.ty(value).shape()?.dims().iter().rev().nth(back)?.constant()?;
        let (known, stops) = (std::mem::take(&mut done), Stops::At(whole));
        let mut part = TilePart {
            at: Cursor::at_end(k, block).like(store),
            extent,
            from,
            width,
            done: known,
            stops,
            holds: &[],
        };
        let slice = part.of(value, back);
        if let Some(index) = args.iter_mut().rev().nth(back) {
            *index = part.moved(*index);
        }
        done = part.done;
        args.push(if value == stored { slice } else { reshaped(k, block, slice, stored, width)? });
        Some((store, args))
    };
    stores.iter().filter_map(|&store| chunk_of(k, store)).collect()
}
