//! Index types: indices, extents and counters are `i32` behind `narrow_indices`, tiles of indices `i32` or `u32`. The rows
//! that compute addresses take no other type.
//!
//! ```text
//!  load x[i : i64]     ─►   error: only i32
//! ```

use crate::tiles::index_operands;
use crate::{IselError, Result};
use warplift_ir::tile::{Kernel, Type, Value};
use warplift_ir::types::Elem;

/// Refuses an index, extent or counter of another type than `i32`.
pub(super) fn check_indices(k: &Kernel) -> Result<()> {
    for inst in k.insts.keys() {
        let words = |v: &&Value| {
            !matches!(k.ty(**v), Type::Scalar(Elem::I32) | Type::Tile(Elem::I32 | Elem::Uint(32), _))
        };
        if let Some(v) = k.args(inst)[index_operands(k, inst)].iter().find(words) {
            let message = format!(
                "an index, extent or counter of type {} does not compile: `cast` it to i32",
                k.ty(*v).elem()
            );
            return Err(IselError::at(k, inst, message));
        }
    }
    Ok(())
}
