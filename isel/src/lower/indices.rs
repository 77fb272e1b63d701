//! Index types: indices, extents and counters must be `i32`, tiles of indices `i32` or `u32`. The rows that compute
//! addresses take no other type.
//!
//! ```text
//!  load x[i : i64]     ─►   error: only i32
//! ```

use crate::{IselError, Result};
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Refuses an index, extent or counter of another type than `i32`.
pub(super) fn check_indices(k: &Kernel) -> Result<()> {
    for inst in k.insts.keys() {
        let words = |v: &&Value| {
            !matches!(k.ty(**v), Type::Scalar(Elem::I32) | Type::Tile(Elem::I32 | Elem::Uint(32), _))
        };
        if let Some(v) = indices(k, inst).iter().find(words) {
            let message = format!(
                "an index, extent or counter of type {} does not compile: `cast` it to i32",
                k.ty(*v).elem()
            );
            return Err(IselError::at(k, inst, message));
        }
    }
    Ok(())
}

/// The operands of an instruction that are places or counts.
fn indices(k: &Kernel, inst: Inst) -> &[Value] {
    let args = k.args(inst);
    match k.insts[inst].op {
        Op::View { .. } | Op::SubView(_) | Op::Load | Op::AsyncCopy => &args[1..],
        Op::LoadGather { masked } => &args[1..args.len() - usize::from(masked)],
        ref op if op.is_write() => &args[1..op.written_operand(args.len()).unwrap_or(1)],
        Op::For => &args[..3],
        _ => &[],
    }
}
