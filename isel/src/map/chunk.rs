//! Wide stores in chunks of columns, so that a small staging buffer suffices and the chunks can be
//! spread in time.

use warplift_ir::tile::{BinOp, Dim, Epilogue, Inst, Kernel, Mapping, Op, Shape, Type};
use warplift_ir::types::Elem;

/// Bytes of a row that one tensor copy stores: the widest swizzle span.
const SPAN_BYTES: u32 = 128;

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
    let width = mapping.whole.chunk.unwrap_or(SPAN_BYTES * 8 / k.ty(value).elem().bits());
    (width > 0 && columns > width && columns.is_multiple_of(width)).then(|| (width, columns / width))
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
    let (ty, Some(shape)) = (k.ty(value), k.ty(value).shape()) else { return };
    let Some(part) = Shape::new(&[shape.dims()[0], Dim::new(width)]) else { return };
    let offsets = [Dim::new(0), Dim::new(from)].into_iter().collect();
    let slice = k.append_inst(block, Op::Slice(offsets), &[value], &[Type::Tile(ty.elem(), part)], &[], loc);
    let i32 = [Type::Scalar(Elem::I32)];
    let offset = k.append_inst(block, Op::Int(i64::from(from)), &[], &i32, &[], loc);
    if let Some(column) = args.pop() {
        let offset = k.result(offset);
        let moved = k.append_inst(block, Op::Binary(BinOp::Add), &[column, offset], &i32, &[], loc);
        args.push(k.result(moved));
    }
    args.push(k.result(slice));
    let chunk = k.append_inst(block, Op::Store, &args, &[], &[], loc);
    mark(k, chunk, mapping);
}
