//! Whether tensor copies may carry a store: they complete in any order, so nothing else that the block does may
//! touch the same place.
//!
//! ```text
//!  for t { store c[i, j], x }             every iteration writes the same place    declined
//!  store c[i, j], x   store c[i, j], y    the second must win                      declined
//!  store c[i, j + 0], x   store c[i, j + 64], y     chunks of one tile             fine
//! ```

use crate::window::Window;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Value};

/// Why the order of a store matters; `None` if it does not.
pub fn ordered(k: &Kernel, store: Inst) -> Option<String> {
    if repeats(k, store) {
        return Some("it repeats in a loop, and tensor copies have no order".to_owned());
    }
    let pointer = |i: Inst| Window::of(k, *k.args(i).first()?).map(|w| w.pointer(k));
    let own = pointer(store);
    let mut clash = false;
    k.walk(|_, i| {
        let writes = matches!(k.insts[i].op, Op::Store | Op::Atomic(_));
        clash |= writes && i != store && pointer(i) == own && !are_chunks(k, store, i);
    });
    clash.then(|| "another store may write the same place, and tensor copies have no order".to_owned())
}

/// Whether a loop other than the one over a persistent program's tiles holds an instruction.
fn repeats(k: &Kernel, inst: Inst) -> bool {
    let holder = |b: Block| k.insts.keys().find(|&i| k.insts[i].blocks.contains(&b) && stands(k, i));
    let mut block = k.blocks.iter().find(|(_, d)| d.insts.contains(&inst)).map(|(b, _)| b);
    while let Some(holder) = block.and_then(holder) {
        let looped = matches!(k.insts[holder].op, Op::For | Op::While);
        if looped && !k.attrs[holder].persistent {
            return true;
        }
        block = k.blocks.iter().find(|(_, d)| d.insts.contains(&holder)).map(|(b, _)| b);
    }
    false
}

/// Whether an instruction has a place in the program.
fn stands(k: &Kernel, inst: Inst) -> bool {
    k.blocks.values().any(|d| d.insts.contains(&inst))
}

/// Whether two stores write different columns that constants count from the same one.
fn are_chunks(k: &Kernel, a: Inst, b: Inst) -> bool {
    let split = |i: Inst| {
        let (index, _) = k.args(i).split_at(k.args(i).len() - 1);
        let (&last, before) = index.split_last()?;
        Some((before.to_vec(), column(k, last)?))
    };
    match (split(a), split(b)) {
        (Some((x, (base, from))), Some((y, (other, to)))) => x == y && base == other && from != to,
        _ => false,
    }
}

/// `base + constant`.
fn column(k: &Kernel, v: Value) -> Option<(Value, i64)> {
    let def = k.def(v)?;
    match (&k.insts[def].op, k.args(def)) {
        (Op::Binary(BinOp::Add), &[base, offset]) => Some((base, k.int_const(offset)?)),
        _ => None,
    }
}
