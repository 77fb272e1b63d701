//! The parts of a loop.
//!
//! ```text
//!  results = for counter in low..high step s carry params = starts { body  yield .. }
//! ```

use crate::tiles::has_products;
use warplift_ir::tile::{Block, Inst, Kernel, Op};

/// Whether an instruction is a loop with products in its body.
pub(super) fn is_loop_of_products(k: &Kernel, inst: Inst) -> bool {
    let data = &k.insts[inst];
    matches!(data.op, Op::For) && has_products(k, data.blocks[0])
}

/// The number of values that a loop carries.
pub(super) fn carried(k: &Kernel, looped: Inst) -> usize {
    k.args(looped).len() - 3
}

/// The body of a loop.
pub(super) fn body(k: &Kernel, looped: Inst) -> Block {
    k.insts[looped].blocks[0]
}

/// The block in which an instruction stands.
pub(super) fn block_of(k: &Kernel, inst: Inst) -> Block {
    k.blocks.iter().find(|(_, b)| b.insts.contains(&inst)).map_or(k.entry, |(b, _)| b)
}
