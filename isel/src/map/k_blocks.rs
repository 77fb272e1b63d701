//! Blocks of k: an MMA with a computed left operand is split along its depth. The operand of a block is computed
//! right before its use, so registers hold one block at a time.
//!
//! ```text
//!  y = mma x, f(q), b     ─►     h = mma x, f(q[.., 0..w]), b[0..w, ..]
//!                                y = mma h, f(q[.., w..2w]), b[w..2w, ..]
//! ```

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::sink::{Stops, TilePart};
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Block, Dim, Inst, Kernel, Op, Shape, Type, Value};

/// Splits the MMAs of every loop whose mapping gives a width.
pub fn do_k_blocks(k: &mut Kernel) {
    let loops: Vec<(Block, u32)> =
        k.insts.iter().filter_map(|(i, d)| Some((*d.blocks.first()?, k.attrs[i].looped?.chunk?))).collect();
    for &(block, width) in &loops {
        let old = std::mem::take(&mut k.blocks[block].insts);
        for inst in old {
            if let Some((depth, width)) = splits(k, inst, width) {
                parts(k, block, inst, depth, width);
            }
            k.blocks[block].insts.push(inst);
        }
    }
    if !loops.is_empty() {
        do_drop_unused(k);
    }
}

/// The depth of an MMA that is split, and the depth of its blocks.
fn splits(k: &Kernel, inst: Inst, width: u32) -> Option<(u32, u32)> {
    let left = *k.args(inst).get(1).filter(|_| matches!(k.insts[inst].op, Op::Mma { .. }))?;
    let computed = !matches!(k.insts[k.def(left)?].op, Op::Load | Op::Trans(_));
    let depth = k.ty(left).shape()?.extents()?.get(1).copied()?;
    (computed && depth > width && depth.is_multiple_of(width)).then_some((depth, width))
}

/// All blocks but the last one. The instruction itself becomes the last.
fn parts(k: &mut Kernel, block: Block, inst: Inst, depth: u32, width: u32) {
    let op = k.insts[inst].op.clone();
    let &[mut sum, left, right] = k.args(inst) else { return };
    let ty = k.ty(k.result(inst));
    for from in (0..depth).step_by(width as usize) {
        let done = FxHashMap::default();
        let mut part = TilePart {
            at: Cursor::at_end(k, block).like(inst),
            extent: depth,
            from,
            width,
            done,
            stops: Stops::Loads,
            holds: &[],
        };
        let a = part.of(left, 0);
        let b = rows(k, block, right, from, width, inst);
        if from + width < depth {
            sum = Cursor::at_end(k, block).like(inst).inst(op.clone(), &[sum, a, b], ty);
        } else {
            k.set_args(inst, &[sum, a, b]);
        }
    }
}

/// Rows of the right operand.
fn rows(k: &mut Kernel, block: Block, v: Value, from: u32, width: u32, like: Inst) -> Value {
    let Type::Tile(elem, shape) = k.ty(v) else { return v };
    let dims: Vec<Dim> = std::iter::once(Dim::new(width)).chain(shape.dims()[1..].iter().copied()).collect();
    let Some(shape) = Shape::new(&dims) else { return v };
    let offsets = [Dim::new(from), Dim::new(0)].into_iter().collect();
    Cursor::at_end(k, block).like(like).inst(Op::Slice(offsets), &[v], Type::Tile(elem, shape))
}
