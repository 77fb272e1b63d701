//! Whether converted bytes equal a constant is asked of the bytes.
//!
//! ```text
//!  expand_dims(cast(q : u8, i32), 0) != 3      ─►      expand_dims(q, 0) != 3
//! ```
//!
//! A mask of bytes is written in both ways.

use super::Rewrite;
use crate::tiles::{byte_of, constant, with_elem};
use warplift_ir::tile::{CmpOp, Inst, Op, Value};
use warplift_ir::types::Elem;

/// A comparison for equality of bytes that are converted to a type that holds them all.
pub(super) fn rule(r: &mut Rewrite<'_>, inst: Inst) -> Option<(Op, Vec<Value>)> {
    let Op::Compare(cmp @ (CmpOp::Eq | CmpOp::Ne)) = r.k.insts[inst].op else { return None };
    let &[a, b] = r.k.args(inst) else { return None };
    // Scalars are compared as words.
    r.k.ty(r.k.result(inst)).shape()?;
    let (x, c) = if constant(r.k, a).is_some() { (b, a) } else { (a, b) };
    let (number, from) = (constant(r.k, c)?, source(r, x)?);
    byte_of(number, from)?;
    let bytes = unconverted(r, x)?;
    let ty = with_elem(r.k.ty(c), from);
    let byte = r.constant(Op::Int(number as i64), ty);
    Some((Op::Compare(cmp), vec![bytes, byte]))
}

/// The type of 8 bits that a tile, or what it repeats, was converted from without loss.
fn source(r: &Rewrite<'_>, v: Value) -> Option<Elem> {
    match r.once(v)? {
        (Op::Cast, args) => {
            let from = r.k.ty(args[0]).elem();
            let holds = match r.k.ty(v).elem() {
                Elem::Int(bits) => bits > 8,
                Elem::Uint(bits) => bits > 8 && !from.is_signed(),
                to => matches!(to, Elem::F32 | Elem::F16),
            };
            (matches!(from, Elem::Int(8) | Elem::Uint(8)) && holds).then_some(from)
        }
        (Op::Broadcast | Op::ExpandDims(_) | Op::Trans(_), args) => source(r, args[0]),
        _ => None,
    }
}

/// The bytes of a tile for which [`source`] knows a type.
fn unconverted(r: &mut Rewrite<'_>, v: Value) -> Option<Value> {
    let (op, args) = r.maker(v)?;
    if op == Op::Cast {
        return Some(args[0]);
    }
    let inner = unconverted(r, args[0])?;
    let ty = with_elem(r.k.ty(v), r.k.ty(inner).elem());
    Some(r.inst(op, &[inner], ty))
}
