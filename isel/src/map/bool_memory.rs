//! Truth values in memory are bytes: 0 is false, any other byte is true, and true is stored as 1.
//!
//! ```text
//!  c = load m[i] : bool[64]     ─►     b = load m[i] : u8[64]       c = b != 0
//!  store m[i], c                ─►     store m[i], cast(select(c, 1, 0), u8)
//! ```
//!
//! Views of such arrays become views of bytes, so that vectors, tensor copies and masks are those of bytes.

use super::cursor::Cursor;
use crate::tiles::with_elem;
use warplift_ir::tile::{CmpOp, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// What memory holds for a truth value.
const BYTE: Elem = Elem::Uint(8);

/// Loads and stores truth values as bytes.
pub fn do_bool_memory(k: &mut Kernel) {
    let views: Vec<Value> =
        k.values.iter().filter(|(_, d)| matches!(d.ty, Type::View(Elem::Bool, _))).map(|(v, _)| v).collect();
    if views.is_empty() {
        return;
    }
    for v in views {
        view_of_bytes(k, v);
    }
    Cursor::rewrite(k, rewrite);
}

/// Gives a view the type of bytes. Its fill is a truth value too.
fn view_of_bytes(k: &mut Kernel, v: Value) {
    if let Type::View(_, rank) = k.ty(v) {
        k.values[v].ty = Type::View(BYTE, rank);
    }
    if let Some(def) = k.def(v)
        && let Op::View { fill, .. } = &mut k.insts[def].op
    {
        *fill = f64::from(*fill != 0.0);
    }
}

/// Keeps an instruction, with conversions around it if it reads or writes truth values.
fn rewrite(mut c: Cursor<'_>, inst: Inst) {
    let k = &*c.k;
    let op = &k.insts[inst].op;
    let truth = |v: Value| k.ty(v).elem() == Elem::Bool;
    let read = k.results(inst).first().copied().filter(|&r| op.is_read() && truth(r));
    let written = op.written_operand(k.args(inst).len()).filter(|_| op.is_write());
    if let Some(n) = written.filter(|&n| truth(k.args(inst)[n])) {
        let mut args = k.args(inst).to_vec();
        args[n] = byte_of(&mut c, args[n]);
        c.k.set_args(inst, &args);
    }
    c.keep(inst);
    if let Some(result) = read {
        is_true(&mut c, inst, result);
    }
}

/// The bytes of truth values.
fn byte_of(c: &mut Cursor<'_>, v: Value) -> Value {
    let [one, zero] = [1, 0].map(|n| c.int(n));
    let chosen = c.inst(Op::Select, &[v, one, zero], with_elem(c.k.ty(v), Elem::I32));
    c.cast(chosen, BYTE)
}

/// The old result becomes a comparison of the bytes that are loaded.
fn is_true(c: &mut Cursor<'_>, inst: Inst, result: Value) {
    let raw = c.k.renew_result(inst, with_elem(c.k.ty(result), BYTE));
    // Tiles of bytes are compared as they are, scalars as words.
    let byte = if c.k.ty(raw).shape().is_some() { raw } else { c.cast(raw, Elem::I32) };
    let zero = c.inst(Op::Int(0), &[], Type::Scalar(c.k.ty(byte).elem()));
    c.define(result, Op::Compare(CmpOp::Ne), &[byte, zero]);
}
