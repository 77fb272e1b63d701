//! Loads that must run where they stand. A slice that sinks into a load recomputes it where its result is used; there
//! the memory may hold something else.
//!
//! ```text
//!  old = load c[i, j]            old = load c[i, j]            the second store's chunks slice `old`:
//!  store c[i, j], acc + old      store c[i, j], acc            at their place c holds acc
//!    sinks: each chunk reads     store d[i, j], acc + old
//!    what it then overwrites
//! ```

use crate::tiles::memory;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// The loads that a store's slices must not sink into: of memory that the kernel writes, unless the load stands before
/// the store in its block, nothing between the two writes there, and the store itself writes elsewhere or exactly what
/// was loaded. `before`: the block's instructions up to the store. `written`: what the kernel writes.
pub fn fixed_loads(k: &Kernel, before: &[Inst], store: Inst, written: &FxHashSet<Value>) -> FxHashSet<Inst> {
    let moves = |load: Inst| {
        let Some(read) = memory(k, k.args(load)[0]) else { return false };
        let behind = || before.iter().position(|&i| i == load).map(|at| &before[at..]);
        let stays = |between: &[Inst]| {
            let elsewhere = !writes(k, store, read) || same_place(k, load, store);
            elsewhere && !between.iter().any(|&i| writes(k, i, read))
        };
        !written.contains(&read) || behind().is_some_and(stays)
    };
    k.insts.keys().filter(|&i| matches!(k.insts[i].op, Op::Load) && !moves(i)).collect()
}

/// Whether an instruction, or one inside it, writes to this memory.
fn writes(k: &Kernel, inst: Inst, to: Value) -> bool {
    let data = &k.insts[inst];
    match data.op {
        ref op if op.is_write() => memory(k, k.args(inst)[0]).is_none_or(|m| m == to),
        _ => data.blocks.iter().any(|&b| k.blocks[b].insts.iter().any(|&i| writes(k, i, to))),
    }
}

/// Whether a load and a store name the same view and indices.
fn same_place(k: &Kernel, load: Inst, store: Inst) -> bool {
    let (from, to) = (k.args(load), k.args(store));
    from.len() + 1 == to.len() && from.iter().zip(to).all(|(&a, &b)| same_value(k, a, b))
}

/// Whether two scalars or views are computed alike from the same values.
fn same_value(k: &Kernel, a: Value, b: Value) -> bool {
    let alike = |x: Inst, y: Inst| {
        let (left, right) = (&k.insts[x], &k.insts[y]);
        let pure = !left.op.has_effect() && left.blocks.is_empty() && !left.op.is_read();
        let (xs, ys) = (k.args(x), k.args(y));
        pure && !matches!(k.ty(a), Type::Tile(..))
            && left.op == right.op
            && k.results(x).len() == 1
            && xs.len() == ys.len()
            && xs.iter().zip(ys).all(|(&p, &q)| same_value(k, p, q))
    };
    a == b || k.def(a).zip(k.def(b)).is_some_and(|(x, y)| k.ty(a) == k.ty(b) && alike(x, y))
}
