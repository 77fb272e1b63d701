//! Columns of right operands that no swizzle divides are padded, and with them all tiles that have these columns. What lies past the
//! end of the array's rows is its fill, and a store writes nothing there. Nothing is padded where warpgroups read slabs whose last
//! one may be narrower.
//!
//! ```text
//!  view v : bf16[keys, 72]   tv = load v[t, 0] : bf16[128, 72]            ─►   tv : bf16[128, 80]
//!  acc1 = mma acc0 * c, p, tv                 : f32[128, 72]                   f32[128, 80]
//!  store o[i, 0], cast(acc * n, bf16)         : bf16[128, 72], view of 72      bf16[128, 80], the view clips
//! ```

use super::common_dim::{Connections, extent};
use super::mma_variant::by_warpgroups;
use crate::operand::{CORE_BYTES, padded_row, swizzle_span, takes_narrow_slabs};
use crate::window::Window;
use warplift_ir::tile::{Kernel, Mapping, Op, Value};

/// Pads the columns of the right operands of all products.
pub fn do_pad_columns(k: &mut Kernel, mapping: &Mapping) {
    let narrow = by_warpgroups(k, mapping);
    let products: Vec<Value> = k
        .insts
        .values()
        .filter(|d| matches!(d.op, Op::Mma { .. }))
        .map(|d| d.args.as_slice(&k.pool)[2])
        .collect();
    let connections = Connections::of(k);
    for right in products {
        let Some(padded) = padded(k, right, narrow) else { continue };
        if let Some(columns) = connections.tiles(k, right, 1) {
            columns.set_extent(k, padded);
        }
    }
}

/// The columns that a right operand should have, if it lacks some: that of a load whose rows lie in memory as copies bring them.
fn padded(k: &Kernel, right: Value, narrow: bool) -> Option<u32> {
    let load = k.def(right).filter(|&d| matches!(k.insts[d].op, Op::Load))?;
    let extent = extent(k, right, 1)?;
    let contiguous = Window::of(k, k.args(load)[0])?.unit(k) == Some(1);
    let bits = k.ty(right).elem().bits();
    let bytes = extent.checked_mul(bits).filter(|n| n.is_multiple_of(8))? / 8;
    if narrow && bytes.is_multiple_of(CORE_BYTES) && takes_narrow_slabs(k, load) {
        return None;
    }
    (contiguous && swizzle_span(bytes).is_none()).then(|| padded_row(bytes) * 8 / bits)
}
