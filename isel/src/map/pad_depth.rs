//! Depths that tensor cores have no step for are padded with zeros. Heads of 40 or 72 halves are read as 48 or 80, those of
//! 104 as 128, which wide swizzles divide: what lies past the end of the array's rows is its fill.
//!
//! ```text
//!  view q : f16[n, 40]    load q[i, 0] : f16[64, 40]     ─►     load q[i, 0] : f16[64, 48]
//! ```

use super::common_dim::{Connections, extent};
use super::mma_variant::by_warpgroups;
use crate::operand::{padded_row, takes_narrow_slabs};
use warplift_ir::tile::{Kernel, Mapping, Op, Value};

/// Bits of a product's step along its depth: 16 halves, 32 bytes, 8 words.
const STEP_BITS: u32 = 256;

/// Pads the operands of all products, and what else has their depth.
pub fn do_pad_depth(k: &mut Kernel, mapping: &Mapping) {
    let narrow = by_warpgroups(k, mapping);
    let lefts: Vec<Value> = k
        .insts
        .values()
        .filter(|d| matches!(d.op, Op::Mma { .. }))
        .map(|d| d.args.as_slice(&k.pool)[1])
        .collect();
    let connections = Connections::of(k);
    for left in lefts {
        let (Some(extent), bits) = (extent(k, left, 1), k.ty(left).elem().bits()) else { continue };
        let step = STEP_BITS / bits;
        if extent.is_multiple_of(step) {
            continue;
        }
        if let Some(tiles) = connections.tiles(k, left, 1) {
            let narrow = narrow && tiles.loads(k).all(|load| takes_narrow_slabs(k, load));
            let row = (!narrow && tiles.are_contiguous(k))
                .then(|| padded_row((extent * bits).div_ceil(8)) * 8 / bits);
            tiles.set_extent(k, row.unwrap_or_else(|| extent.next_multiple_of(step)));
        }
    }
}
