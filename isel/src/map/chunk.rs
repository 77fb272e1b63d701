//! Wide stores in chunks of columns, so that a small staging buffer suffices and the chunks can be
//! spread in time.

use super::sink::{Columns, do_dead, has_operands};
use rustc_hash::FxHashMap;
use warplift_ir::tile::{BinOp, Epilogue, Inst, Kernel, Mapping, Op, Type};
use warplift_ir::types::Elem;

/// Bytes of a row that one tensor copy stores: the swizzle spans, the widest first.
const SPANS_BYTES: [u32; 3] = [128, 64, 32];

/// Splits every store of a rank-2 tile that follows a product into stores of slices.
pub fn do_chunks(k: &mut Kernel, mapping: &Mapping) {
    if !mapping.whole.bulk_store || !k.insts.values().any(|d| matches!(d.op, Op::Mma)) {
        return;
    }
    let blocks: Vec<_> = k.blocks.keys().collect();
    for block in blocks {
        let old = std::mem::take(&mut k.blocks[block].insts);
        for inst in old {
            match chunks(k, inst, mapping) {
                Some((width, count)) => {
                    for c in 0..count {
                        push_chunk(k, block, inst, c * width, width, mapping);
                    }
                }
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

/// Width and number of the chunks of a store, if it is split.
fn chunks(k: &Kernel, inst: Inst, mapping: &Mapping) -> Option<(u32, u32)> {
    if !matches!(k.insts[inst].op, Op::Store) {
        return None;
    }
    let value = *k.args(inst).last()?;
    let extents = k.ty(value).shape()?.extents()?;
    let [_, columns] = extents[..] else { return None };
    let bits = k.ty(value).elem().bits();
    let spans = SPANS_BYTES.iter().map(|bytes| bytes * 8 / bits);
    let mut widths = mapping.whole.chunk.into_iter().chain(spans).filter(|w| *w > 0);
    let width = widths.find(|w| columns.is_multiple_of(*w))?;
    (columns > width).then(|| (width, columns / width))
}

fn push_chunk(
    k: &mut Kernel,
    block: warplift_ir::tile::Block,
    store: Inst,
    from: u32,
    width: u32,
    mapping: &Mapping,
) {
    let mut args = k.args(store).to_vec();
    let loc = k.insts[store].loc;
    let Some(value) = args.pop() else { return };
    let Some(shape) = k.ty(value).shape() else { return };
    let Some(columns) = shape.dims().last().and_then(|d| d.constant()) else { return };
    let sinks = has_operands(k, value);
    let mut part = Columns { k, block, columns, from, width, loc, done: FxHashMap::default(), loads: true };
    let slice = if sinks { part.of(value) } else { part.slice_of(value) };
    let i32 = [Type::Scalar(Elem::I32)];
    let offset = k.append_inst(block, Op::Int(i64::from(from)), &[], &i32, &[], loc);
    if let Some(column) = args.pop() {
        let offset = k.result(offset);
        let moved = k.append_inst(block, Op::Binary(BinOp::Add), &[column, offset], &i32, &[], loc);
        args.push(k.result(moved));
    }
    args.push(slice);
    let chunk = k.append_inst(block, Op::Store, &args, &[], &[], loc);
    mark(k, chunk, mapping);
}
