//! The transpose of a loaded tile is free, and goes right before its first use: threads wait for a tile where they first
//! use it, and one wait serves all tiles that are loaded before.
//!
//! ```text
//!  q = load w; qt = trans(q)                         q = load w
//!  s = load scales                            ─►     s = load scales
//!  .. cast(qt, f16) .. s ..                          qt = trans(q); .. cast(qt, f16) .. s ..
//! ```

use crate::tiles::{has_products, program_order};
use warplift_ir::tile::{Block, Inst, Kernel, Op};

/// Sinks them in the bodies of loops of products.
pub fn do_sink_transposes(k: &mut Kernel) {
    let loops = program_order(k).into_iter().filter(|&i| matches!(k.insts[i].op, Op::For));
    let bodies: Vec<Block> = loops.map(|l| k.insts[l].blocks[0]).filter(|&b| has_products(k, b)).collect();
    bodies.into_iter().for_each(|b| sink(k, b));
}

/// Moves transposes of tiles that are loaded in a block right before their first use.
fn sink(k: &mut Kernel, block: Block) {
    let mut insts = std::mem::take(&mut k.blocks[block].insts);
    let loaded = |v| k.def(v).is_some_and(|d| k.insts[d].op.is_read() && insts.contains(&d));
    let is_free = |&i: &Inst| matches!(k.insts[i].op, Op::Trans(_)) && loaded(k.args(i)[0]);
    let free: Vec<Inst> = insts.iter().copied().filter(is_free).collect();
    for inst in free.into_iter().rev() {
        let uses = |&i: &Inst| k.any_inside(i, |user| k.args(user).contains(&k.result(inst)));
        let Some(first) = insts.iter().copied().find(uses) else { continue };
        insts.retain(|&i| i != inst);
        let at = insts.iter().position(|&i| i == first).unwrap_or(insts.len());
        insts.insert(at, inst);
    }
    k.blocks[block].insts = insts;
}
