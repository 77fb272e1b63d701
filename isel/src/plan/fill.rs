//! The layouts in which threads fill tiles in shared memory, and with them the layouts of the indices and masks of
//! gathered tiles: the thread that copies a vector of a row knows the row's index.
//!
//! ```text
//!  ta = load x[rows, t*64] : f16[128, 64]     16-byte copies: 8 lanes a row, 4 rows a warp at once
//!  rows : i32[128] ─► i32[128, 1] ─► i32[128, 64]     each thread keeps the indices of its rows in registers
//! ```

use super::blocked::blocked;
use super::solve::Solver;
use super::types::{Fill, Plan, SharedTile};
use crate::boxes::only_products;
use crate::tiles::{extents, layout_error, warps};
use crate::vector::vector_elements;
use crate::{IselError, Result};
use warplift_ir::layout::Layout;
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};

/// Limit on the bits of one store.
pub const STORE_BITS: u32 = 128;

/// The register layout by which threads fill a tile, and the elements that they hold side by side at most.
///
/// # Errors
/// As the layout's construction.
pub fn fill_layout(k: &Kernel, inst: Inst, tile: &SharedTile) -> Result<(Layout, u32)> {
    let result = k.result(inst);
    let bits = k.ty(result).elem().bits();
    let vector = match tile.fill {
        Fill::CpAsync(bytes) => 8 * bytes / bits,
        // A thread holds runs of at least a register and two elements, so there are few stores.
        _ => vector_elements(k, inst, result).max((32 / bits).max(2)).min(STORE_BITS / bits),
    };
    let layout = blocked(&extents(k, result), tile.inner_dim, vector, warps(k, inst));
    Ok((layout.map_err(layout_error(k, inst))?, vector))
}

/// Gathered tiles that are operands of products, with the layout of their indices and masks.
fn gathered(k: &Kernel, order: &[Inst], plan: &Plan) -> Result<Vec<(Inst, Layout)>> {
    let mut found = Vec::new();
    for &inst in order.iter().filter(|&&i| matches!(k.insts[i].op, Op::LoadGather { .. })) {
        let layout = match plan.shared.get(&inst) {
            Some(tile) => Some(fill_layout(k, inst, tile)?.0),
            None if only_products(k, k.result(inst)) => plan.layouts[k.result(inst)].clone(),
            None => None,
        };
        found.extend(layout.map(|l| (inst, l)));
    }
    Ok(found)
}

/// The tiles of indices and the mask of a load, by operand number.
fn index_tiles(k: &Kernel, load: Inst) -> impl Iterator<Item = (usize, Value)> + '_ {
    let tile = |&(_, v): &(usize, Value)| matches!(k.ty(v), Type::Tile(..));
    k.args(load).iter().copied().enumerate().filter(tile)
}

/// Gives the indices and masks of gathered operands the layout of those who copy.
///
/// # Errors
/// As propagation.
pub(super) fn anchor_indices(k: &Kernel, order: &[Inst], solver: &Solver<'_>, plan: &mut Plan) -> Result<()> {
    for (inst, layout) in gathered(k, order, plan)? {
        for (_, v) in index_tiles(k, inst) {
            if plan.layouts[v].is_none() {
                plan.layouts[v] = Some(layout.clone());
                solver.spread([v], plan)?;
            }
        }
    }
    Ok(())
}

/// Converts indices and masks of gathered operands that have another layout.
///
/// # Errors
/// A tile that goes through registers to shared memory, and that threads read in another layout.
pub(super) fn do_fill_indices(k: &Kernel, order: &[Inst], plan: &mut Plan) -> Result<()> {
    for (inst, layout) in gathered(k, order, plan)? {
        let by_registers = plan.shared.get(&inst).is_some_and(|t| t.fill == Fill::Threads);
        if by_registers && plan.layouts[k.result(inst)].is_some() {
            let message = "a gathered tile that products and threads both read must be copied by 4 bytes or more at once: \
                           give facts of its array, or load it twice";
            return Err(IselError::at(k, inst, message));
        }
        for (n, v) in index_tiles(k, inst) {
            match plan.layouts[v].as_ref() == Some(&layout) {
                true => plan.uses.remove(&(inst, n)),
                false => plan.uses.insert((inst, n), layout.clone()),
            };
        }
    }
    Ok(())
}
