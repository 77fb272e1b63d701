//! Accumulator fusion: the MMA accumulates directly into the tile that its result is added to.
//!
//! ```text
//!  d = mma zero, a, b     y = x + d             ─►   y = mma x, a, b
//!                         y = fma(u, v, d)      ─►   y = mma (u * v), a, b
//! ```
//!
//! The tensor cores add in any case, and the second accumulator tile is gone. The order of a float sum changes, and a
//! fused product is rounded before it is added. Only accumulators that a loop carries are fused: another tile (a
//! mask, a loaded tile) may be ready later than the MMA, which need not wait for it.

use super::cursor::Cursor;
use crate::tiles::constant;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Type, Value, ValueDef};

/// A fusion: the addition, and the MMA that replaces it.
struct Fusion {
    sum: Inst,
    product: Inst,
}

/// Fuses an MMA into the addition that is its only use.
pub fn do_fuse_accumulator(k: &mut Kernel) {
    let mut uses: FxHashMap<Value, u32> = FxHashMap::default();
    k.walk(|_, inst| k.args(inst).iter().for_each(|&v| *uses.entry(v).or_default() += 1));
    let loops = k.insts.values().filter(|d| matches!(d.op, Op::For)).flat_map(|d| d.blocks.to_vec());
    for block in loops.collect::<Vec<_>>() {
        let sums = k.blocks[block].insts.clone();
        for fusion in sums.into_iter().filter_map(|sum| fusion(k, block, sum, &uses)).collect::<Vec<_>>() {
            join(k, block, &fusion);
        }
    }
}

/// The MMA that is fused into an addition of this block.
fn fusion(k: &Kernel, block: Block, sum: Inst, uses: &FxHashMap<Value, u32>) -> Option<Fusion> {
    let args = k.args(sum);
    let orders: &[(&[usize], usize)] = match k.insts[sum].op {
        Op::Binary(BinOp::Add) => &[(&[0], 1), (&[1], 0)],
        Op::Fma => &[(&[0, 1], 2)],
        _ => return None,
    };
    let fits = |&(others, product): &(&[usize], usize)| {
        let v = args[product];
        let product = k.def(v).filter(|&d| matches!(k.insts[d].op, Op::Mma { .. }))?;
        let nothing = constant(k, k.args(product)[0]) == Some(0.0) && k.attrs[product].layout.is_none();
        let alone = uses.get(&v) == Some(&1) && k.blocks[block].insts.contains(&product);
        // A factor may be a scalar.
        let same = |o: &usize| k.ty(args[*o]) == k.ty(v);
        let fits = others.iter().all(|o| same(o) || matches!(k.ty(args[*o]), Type::Scalar(_)));
        let mut sums = others.iter().filter(|o| same(o));
        let carried = sums.any(|&o| is_carried(k, block, args[o], &mut FxHashSet::default()));
        (nothing && alone && fits && carried).then_some(Fusion { sum, product })
    };
    orders.iter().find_map(fits)
}

/// Whether a tile depends on a value that the loop of this block carries.
fn is_carried(k: &Kernel, block: Block, v: Value, seen: &mut FxHashSet<Value>) -> bool {
    if let ValueDef::Param(holder, n) = k.values[v].def {
        return holder == block && n > 0;
    }
    let computed = |d: &Inst| !matches!(k.insts[*d].op, Op::Load) && k.blocks[block].insts.contains(d);
    let inside = k.def(v).filter(computed);
    seen.insert(v) && inside.is_some_and(|d| k.args(d).iter().any(|&a| is_carried(k, block, a, seen)))
}

/// The MMA takes the place of the addition.
fn join(k: &mut Kernel, block: Block, fusion: &Fusion) {
    let d = k.result(fusion.product);
    let args = k.args(fusion.sum).to_vec();
    let others: Vec<Value> = args.into_iter().filter(|&v| v != d).collect();
    let old = std::mem::take(&mut k.blocks[block].insts);
    for inst in old.into_iter().filter(|&i| i != fusion.product) {
        if inst == fusion.sum {
            let onto = match others[..] {
                [x, y] => Cursor::at_end(k, block).like(inst).op(BinOp::Mul, x, y),
                _ => others[0],
            };
            let factors = [onto, k.args(fusion.product)[1], k.args(fusion.product)[2]];
            k.insts[inst].op = k.insts[fusion.product].op.clone();
            k.set_args(inst, &factors);
        }
        k.blocks[block].insts.push(inst);
    }
}
