//! The shape of a program: loops, their contents, and the values that blocks pass on.

use crate::error::{Result, word};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Block, Func, Inst, Value};
use warplift_ir::target::Opcode;

/// Operands of a block's yield.
pub fn yields<'a>(func: &Func<'a>, block: Block) -> &'a [Value] {
    match func.terminator(block) {
        Some(t) if func.insts[t].op == Opcode::Yield => func.insts[t].args,
        _ => &[],
    }
}

/// The predicate of a conditional loop's body that says if another iteration follows.
pub(crate) fn goes_on(func: &Func<'_>, inst: Inst) -> Option<Value> {
    let d = &func.insts[inst];
    d.is_conditional_loop().then(|| yields(func, d.blocks[0]).first().copied()).flatten()
}

/// Whether a row is a product on tensor cores.
pub(crate) fn is_product(op: Opcode) -> bool {
    matches!(op, Opcode::Wgmma | Opcode::MmaSync)
}

/// The loop over tiles of a persistent program. It stands in the entry block.
pub(crate) fn tile_loop(func: &Func<'_>) -> Option<Inst> {
    func.blocks[func.entry].insts.iter().copied().find(|&i| is_tile_loop(func, i))
}

/// Whether an instruction is the loop over tiles.
pub(crate) fn is_tile_loop(func: &Func<'_>, inst: Inst) -> bool {
    matches!(&func.insts[inst].attr, Attr::Loop(l) if l.persistent)
}

/// The parameter with the address of the counter from which a loop draws tiles.
pub(crate) fn tile_counter(func: &Func<'_>, inst: Inst) -> Option<u32> {
    match &func.insts[inst].attr {
        Attr::Loop(l) => l.counter,
        _ => None,
    }
}

/// Whether a loop draws tiles from a counter.
pub(crate) fn draws_tiles(func: &Func<'_>, inst: Inst) -> bool {
    tile_counter(func, inst).is_some()
}

/// The body of the loop over tiles.
pub(crate) fn tiles(func: &Func<'_>) -> Result<Block> {
    let outer = tile_loop(func);
    outer
        .map(|i| func.insts[i].blocks[0])
        .ok_or_else(|| word("epilogue", "`epilogue warps` needs a loop over tiles: add `persistent`"))
}

/// The index at which the second half begins.
pub(crate) fn last_loop(func: &Func<'_>, body: Block) -> Result<usize> {
    let at = func.blocks[body].insts.iter().rposition(|&i| func.insts[i].op == Opcode::For);
    at.ok_or_else(|| {
        word("epilogue", "`epilogue warps` runs the last loop of a tile's work, which holds no loop")
    })
}

/// Instructions and all instructions nested in them.
pub(crate) fn inside(func: &Func<'_>, insts: &[Inst]) -> FxHashSet<Inst> {
    let mut all: FxHashSet<Inst> = insts.iter().copied().collect();
    for &b in insts.iter().flat_map(|&i| &func.insts[i].blocks) {
        all.extend(inside(func, &func.blocks[b].insts));
    }
    all
}
