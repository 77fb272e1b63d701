//! The number that a value is never less than: maxima that a loop carries do not fall below their start.
//!
//! ```text
//!  for .. carry m0 = -1e30 { .. yield max(m0, x) }     ─►     m0 and the result are -1e30 or more
//! ```

use crate::map::loops::body;
use crate::map::reaching::owner;
use crate::tiles::constant;
use warplift_ir::tile::{BinOp, Kernel, Op, Value, ValueDef};

/// How many loops are followed.
const DEPTH: u32 = 8;

/// Whether a value is certainly at least a number, so that their maximum is the value.
pub(super) fn is_at_least(k: &Kernel, v: Value, number: f64) -> bool {
    number != 0.0 && least(k, v, DEPTH).is_some_and(|l| l >= number)
}

fn least(k: &Kernel, v: Value, depth: u32) -> Option<f64> {
    if let Some(c) = constant(k, v) {
        return Some(c);
    }
    let (looped, n) = match k.values[v].def {
        ValueDef::Param(block, n) => (owner(k, block)?, n.checked_sub(1)?),
        ValueDef::Result(inst, n) => (inst, n),
    };
    let n = usize::try_from(n).ok().filter(|_| depth > 0 && matches!(k.insts[looped].op, Op::For))?;
    let own = body(k, looped);
    let (param, yielded) = (k.blocks[own].params[1 + n], k.yields(own)[n]);
    let grows = k
        .def(yielded)
        .is_some_and(|d| matches!(k.insts[d].op, Op::Binary(BinOp::Max)) && k.args(d).contains(&param));
    (grows || yielded == param).then(|| least(k, k.args(looped)[3 + n], depth - 1))?
}
