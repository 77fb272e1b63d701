//! A grid of three dimensions as one of two: the last two are counted by one index.
//!
//! ```text
//!  grid a, b, c     i, j, l = block_index        grid a, b * c     i, x = block_index   j = x % b   l = x / b
//! ```
//!
//! Slices of a loop take a dimension of their own, and a launch has three.

use super::cursor::Cursor;
use super::persist::name_grid;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, Value};

/// Folds the last two of three dimensions. Other grids stay.
pub(super) fn do_fold_grid(k: &mut Kernel) {
    let &[rows, columns, layers] = &k.grid[..] else { return };
    name_grid(k);
    extents_first(k);
    let entry = k.entry;
    let both = Cursor::at_end(k, entry).op(BinOp::Mul, columns, layers);
    let index = Cursor::at_end(k, entry).index(Op::BlockIndex(1), &[]);
    let list = &mut k.blocks[entry].insts;
    let made = list.split_off(list.len() - 2);
    let at = behind(k, &[columns, layers]);
    k.blocks[entry].insts.splice(at..at, made);
    for inst in k.insts.keys().collect::<Vec<_>>() {
        let op = match k.insts[inst].op {
            Op::BlockIndex(1) if k.result(inst) != index => BinOp::Rem,
            Op::BlockIndex(2) => BinOp::Div,
            _ => continue,
        };
        k.insts[inst].op = Op::Binary(op);
        k.set_args(inst, &[index, columns]);
    }
    k.grid = vec![rows, both];
}

/// Moves what the extents follow from to the start of the entry block.
fn extents_first(k: &mut Kernel) {
    let (mut slice, mut open) = (FxHashSet::<Inst>::default(), k.grid.to_vec());
    while let Some(v) = open.pop() {
        let Some(def) = k.def(v).filter(|&d| slice.insert(d)) else { continue };
        open.extend(k.args(def));
    }
    // Whole scalars of arguments and tunables, in their order: nothing else is behind an extent.
    let entry = k.entry;
    k.blocks[entry].insts.sort_by_key(|i| !slice.contains(i));
}

/// The place in the entry block behind the definitions of some values.
fn behind(k: &Kernel, values: &[Value]) -> usize {
    let insts = &k.blocks[k.entry].insts;
    let places = values.iter().filter_map(|&v| insts.iter().position(|&i| Some(i) == k.def(v)));
    places.max().map_or(0, |at| at + 1)
}
