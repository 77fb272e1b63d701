//! Tiles of indices are computed where they are used. A tile of positions or of a mask that stands before a loop of
//! products would hold registers through all of it; it takes one or two operations to compute it again.
//!
//! ```text
//!  column = iota 1                    for t {
//!  for t {                     ─►       column = iota 1
//!    select(column < n, ..)             select(column < n, ..)
//! ```

use super::drop_unused::do_drop_unused;
use super::prefetch_next_tile::copy;
use crate::tiles::{has_products, program_order};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Sinks them into the loops of products, to the blocks that use them.
pub fn do_sink_indices(k: &mut Kernel) {
    let loops = program_order(k).into_iter().filter(|&i| matches!(k.insts[i].op, Op::For));
    let bodies: Vec<Block> = loops.map(|l| k.insts[l].blocks[0]).filter(|&b| has_products(k, b)).collect();
    let mut changed = false;
    for body in bodies {
        let inside = inside(k, body);
        for &block in &blocks_of(k, body) {
            changed |= sink_into(k, block, &inside);
        }
    }
    if changed {
        do_drop_unused(k);
    }
}

/// Sinks them into one block, whether it stands in a loop of products or not.
pub(super) fn sink_indices_into(k: &mut Kernel, block: Block) {
    let inside = inside(k, block);
    sink_into(k, block, &inside);
}

/// A block and those inside it.
fn blocks_of(k: &Kernel, block: Block) -> Vec<Block> {
    let nested = k.blocks[block].insts.iter().flat_map(|&i| k.insts[i].blocks.iter());
    let nested: Vec<Block> = nested.flat_map(|&b| blocks_of(k, b)).collect();
    [vec![block], nested].concat()
}

/// The instructions of a block and of those inside it.
fn inside(k: &Kernel, block: Block) -> FxHashSet<Inst> {
    blocks_of(k, block).into_iter().flat_map(|b| k.blocks[b].insts.clone()).collect()
}

fn sink_into(k: &mut Kernel, block: Block, inside: &FxHashSet<Inst>) -> bool {
    let mut known: FxHashMap<Value, Value> = FxHashMap::default();
    let mut changed = false;
    for inst in std::mem::take(&mut k.blocks[block].insts) {
        let mut args = k.args(inst).to_vec();
        // A branch or loop is entered with what it is given; its blocks are visited by themselves.
        for arg in &mut args {
            if sinks(k, *arg, inside) {
                let chain = chain(k, *arg, inside);
                *arg = copy(k, block, *arg, &chain, &mut known);
                changed = true;
            }
        }
        k.set_args(inst, &args);
        k.blocks[block].insts.push(inst);
    }
    changed
}

/// Whether a value is a matrix of indices or of a mask that stands outside.
fn sinks(k: &Kernel, v: Value, inside: &FxHashSet<Inst>) -> bool {
    let wide = |s: warplift_ir::tile::Shape| s.dims().iter().filter(|d| d.constant() != Some(1)).count() > 1;
    let outside = k.def(v).is_some_and(|d| !inside.contains(&d));
    outside && matches!(k.ty(v), Type::Tile(e, s) if is_index(e) && wide(s)) && is_of_indices(k, v)
}

fn is_index(elem: Elem) -> bool {
    matches!(elem, Elem::Int(32) | Elem::Bool)
}

/// Whether a tile is computed of `iota`s and scalars by cheap operations alone.
fn is_of_indices(k: &Kernel, v: Value) -> bool {
    let Type::Tile(elem, _) = k.ty(v) else { return true };
    let Some(def) = k.def(v).filter(|&d| is_index(elem) && k.attrs[d].layout.is_none()) else { return false };
    let cheap = match k.insts[def].op {
        Op::Iota(_) | Op::Full | Op::Broadcast | Op::ExpandDims(_) | Op::Trans(_) | Op::Compare(_) => true,
        Op::Binary(op) => !matches!(op, BinOp::Div | BinOp::Rem | BinOp::CeilDiv),
        _ => false,
    };
    cheap && k.args(def).iter().all(|&a| is_of_indices(k, a))
}

/// The instructions outside that compute a tile.
fn chain(k: &Kernel, v: Value, inside: &FxHashSet<Inst>) -> FxHashSet<Inst> {
    let mut all = FxHashSet::default();
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        let Some(def) = k.def(v).filter(|d| !inside.contains(d)) else { continue };
        if matches!(k.ty(v), Type::Tile(..)) && all.insert(def) {
            open.extend(k.args(def));
        }
    }
    all
}
