//! Sums and extrema of a right operand's rows keep the layout in which threads read it, and are rearranged once behind the
//! loop. Otherwise they would have the layout of the product's columns, of which every warp holds all, and every warp would
//! compute them.
//!
//! ```text
//!  acc, s = for .. carry x, r {                          acc, s = for .. carry x, r { .. }
//!    yield mma x, a, trans(b), r + reduce_sum(b, 1)  ─►   q = rearrange(s)
//!  }                                                     store c, acc - q
//!  store c, acc - s
//! ```

use super::loops::{block_of, body, carried, is_loop_of_products};
use super::persist::rename;
use crate::feature::Ways;
use crate::tiles::program_order;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Value};

/// Rearranges what loops of products make of the rows of right operands.
pub fn do_rearrange_sums(k: &mut Kernel, ways: Ways) {
    if !ways.partial_sums {
        return;
    }
    for looped in program_order(k).into_iter().filter(|&i| is_loop_of_products(k, i)).collect::<Vec<_>>() {
        let right = right_operands(k, body(k, looped));
        let of_right = |n: &usize| reduces(k, body(k, looped), k.yields(body(k, looped))[*n], &right);
        for n in (0..carried(k, looped)).filter(of_right).collect::<Vec<_>>() {
            rearrange(k, looped, k.results(looped)[n]);
        }
    }
}

/// The loads of a body that its products take as right operands.
fn right_operands(k: &Kernel, body: Block) -> FxHashSet<Inst> {
    let products = k.blocks[body].insts.iter().filter(|&&i| matches!(k.insts[i].op, Op::Mma { .. }));
    products.flat_map(|&i| loads(k, body, k.args(i)[2])).collect()
}

/// The loads of a body that a tile is computed of, element by element.
fn loads(k: &Kernel, body: Block, v: Value) -> FxHashSet<Inst> {
    let through = |op: &Op| op.is_elementwise() || matches!(op, Op::Trans(_));
    behind(k, body, v, through).into_iter().filter(|&i| matches!(k.insts[i].op, Op::Load)).collect()
}

/// Whether a yielded tile has the reduction of a right operand as a term.
fn reduces(k: &Kernel, body: Block, yielded: Value, right: &FxHashSet<Inst>) -> bool {
    let through = |op: &Op| op.is_elementwise() || matches!(op, Op::ExpandDims(_));
    let mut found = behind(k, body, yielded, through).into_iter();
    let is_of_right = |i: Inst| loads(k, body, k.args(i)[0]).iter().any(|l| right.contains(l));
    found.any(|i| matches!(k.insts[i].op, Op::Reduce(..)) && is_of_right(i))
}

/// The instructions of a body that a value is computed of, through some of them.
fn behind(k: &Kernel, body: Block, v: Value, through: impl Fn(&Op) -> bool) -> FxHashSet<Inst> {
    let (mut found, mut todo) = (FxHashSet::default(), vec![v]);
    while let Some(v) = todo.pop() {
        let Some(def) = k.def(v).filter(|d| k.blocks[body].insts.contains(d)) else { continue };
        if found.insert(def) && through(&k.insts[def].op) {
            todo.extend(k.args(def));
        }
    }
    found
}

/// Gives what reads a result of a loop a tile whose layout may differ.
fn rearrange(k: &mut Kernel, looped: Inst, result: Value) {
    let (loc, ty, around) = (k.insts[looped].loc, k.ty(result), block_of(k, looped));
    let inst = k.make_inst(Op::Rearrange, &[result], &[ty], &[], loc);
    let moved = k.result(inst);
    rename(k, &[(result, moved)]);
    k.insts[inst].args.as_mut_slice(&mut k.pool)[0] = result;
    let at = k.blocks[around].insts.iter().position(|&i| i == looped).map_or(0, |at| at + 1);
    k.blocks[around].insts.insert(at, inst);
}
