//! Chunks: a wide store becomes several narrow ones. A small staging buffer then suffices, and the chunks can be
//! spread in time. Chunks are of columns if the rows of a warpgroup (or warp) are contiguous, of rows if warps share
//! the columns.
//!
//! ```text
//!  store c[i, j], x : 128 x 256   ─►   store c[i, j], x[.., 0..64]   store c[i, j + 64], x[.., 64..128]   ..
//! ```

use super::sink::{Stops, TilePart, do_dead, has_operands};
use crate::operand::WARP_ATOM;
use crate::variant::MmaVariant;
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Epilogue, Inst, Kernel, Mapping, Op};

/// Bytes of a row in one tensor copy: the swizzle spans, the widest first.
const SPANS_BYTES: [u32; 3] = [128, 64, 32];

/// Chunks along a dimension, which is counted from the last one.
#[derive(Clone, Copy)]
struct Chunks {
    back: usize,
    width: u32,
    count: u32,
}

/// Splits every store of a rank-2 tile that depends on an MMA into stores of slices.
pub fn do_chunk(k: &mut Kernel, mapping: &Mapping, variant: MmaVariant) {
    if !mapping.whole.bulk_store || !k.insts.values().any(|d| matches!(d.op, Op::Mma)) {
        return;
    }
    let rows = variant.warp_grid().filter(|s| !s.contiguous).map(|s| WARP_ATOM[0] * s.rows);
    let blocks: Vec<_> = k.blocks.keys().collect();
    for block in blocks {
        let old = std::mem::take(&mut k.blocks[block].insts);
        for inst in old {
            match chunks(k, inst, mapping, rows) {
                Some(all) => (0..all.count).for_each(|c| push_chunk(k, block, inst, c, all, mapping)),
                None => {
                    mark(k, inst, mapping);
                    k.blocks[block].insts.push(inst);
                }
            }
        }
    }
    do_dead(k);
}

fn mark(k: &mut Kernel, inst: Inst, mapping: &Mapping) {
    let deferred = mapping.whole.epilogue == Epilogue::Deferred;
    if deferred && matches!(k.insts[inst].op, Op::Store) {
        k.attrs[inst].deferred = true;
    }
}

/// How a store is split, if it is. `rows`: rows of a chunk, if chunks are of rows.
fn chunks(k: &Kernel, inst: Inst, mapping: &Mapping, rows: Option<u32>) -> Option<Chunks> {
    if !matches!(k.insts[inst].op, Op::Store) {
        return None;
    }
    let value = *k.args(inst).last()?;
    let extents = k.ty(value).shape()?.extents()?;
    let [height, columns] = extents[..] else { return None };
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

fn push_chunk(
    k: &mut Kernel,
    block: warplift_ir::tile::Block,
    store: Inst,
    number: u32,
    Chunks { back, width, .. }: Chunks,
    mapping: &Mapping,
) {
    let mut args = k.args(store).to_vec();
    let loc = k.insts[store].loc;
    let from = number * width;
    let Some(value) = args.pop() else { return };
    let Some(shape) = k.ty(value).shape() else { return };
    let Some(extent) = shape.dims().iter().rev().nth(back).and_then(|d| d.constant()) else { return };
    let sinks = has_operands(k, value);
    let (done, stops) = (FxHashMap::default(), Stops::Nowhere);
    let mut part = TilePart { k, block, extent, from, width, loc, done, stops, holds: &[] };
    let slice = if sinks { part.of(value, back) } else { part.slice_of(value, back) };
    if let Some(index) = args.iter_mut().rev().nth(back) {
        *index = part.moved(*index);
    }
    args.push(slice);
    let chunk = k.append_inst(block, Op::Store, &args, &[], &[], loc);
    mark(k, chunk, mapping);
}
