//! Truth values in memory are bytes: 0 is false, any other byte is true, and true is stored as 1.
//!
//! ```text
//!  c = load m[i] : bool[64]     ─►     b = load m[i] : u8[64]       c = b != 0
//!  store m[i], c                ─►     store m[i], cast(select(c, 1, 0), u8)
//! ```
//!
//! Views of such arrays become views of bytes, so that vectors, tensor copies and masks are those of bytes.

use crate::tiles::with_elem;
use warplift_ir::tile::{Block, CmpOp, Inst, Kernel, Op, Type, Value, ValueData, ValueDef, ValueList};
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
    for block in k.blocks.keys().collect::<Vec<_>>() {
        for inst in std::mem::take(&mut k.blocks[block].insts) {
            rewrite(k, block, inst);
        }
    }
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

/// Appends an instruction to a block, with conversions around it if it reads or writes truth values.
fn rewrite(k: &mut Kernel, block: Block, inst: Inst) {
    let op = &k.insts[inst].op;
    let result = k.results(inst).first().copied().filter(|&r| op.is_read() && k.ty(r).elem() == Elem::Bool);
    let written = op.written_operand(k.args(inst).len()).filter(|_| op.is_write());
    if let Some(n) = written.filter(|&n| k.ty(k.args(inst)[n]).elem() == Elem::Bool) {
        byte_of(k, block, inst, n);
    }
    k.blocks[block].insts.push(inst);
    if let Some(result) = result {
        is_true(k, block, inst, result);
    }
}

/// The written truth values become bytes.
fn byte_of(k: &mut Kernel, block: Block, inst: Inst, n: usize) {
    let (v, loc) = (k.args(inst)[n], k.insts[inst].loc);
    let [one, zero] = [1, 0].map(|c| number(k, block, inst, Elem::I32, c));
    let wide = with_elem(k.ty(v), Elem::I32);
    let made = k.append_inst(block, Op::Select, &[v, one, zero], &[wide], &[], loc);
    let chosen = k.result(made);
    let made = k.append_inst(block, Op::Cast, &[chosen], &[with_elem(wide, BYTE)], &[], loc);
    let byte = k.result(made);
    let mut args = k.args(inst).to_vec();
    args[n] = byte;
    k.insts[inst].args = ValueList::from_slice(&args, &mut k.pool);
}

/// The old result becomes a comparison of the bytes that are loaded.
fn is_true(k: &mut Kernel, block: Block, inst: Inst, result: Value) {
    let loc = k.insts[inst].loc;
    let raw = k.values.push(ValueData { ty: with_elem(k.ty(result), BYTE), def: ValueDef::Result(inst, 0) });
    k.insts[inst].results = ValueList::from_slice(&[raw], &mut k.pool);
    // Tiles of bytes are compared as they are, scalars as words.
    let (byte, elem) = match k.ty(raw) {
        Type::Tile(..) => (raw, BYTE),
        scalar => {
            let made = k.append_inst(block, Op::Cast, &[raw], &[with_elem(scalar, Elem::I32)], &[], loc);
            (k.result(made), Elem::I32)
        }
    };
    let zero = number(k, block, inst, elem, 0);
    let made = k.append_inst(block, Op::Compare(CmpOp::Ne), &[byte, zero], &[], &[], loc);
    k.insts[made].results = ValueList::from_slice(&[result], &mut k.pool);
    k.values[result].def = ValueDef::Result(made, 0);
}

fn number(k: &mut Kernel, block: Block, inst: Inst, elem: Elem, n: i64) -> Value {
    let made = k.append_inst(block, Op::Int(n), &[], &[Type::Scalar(elem)], &[], k.insts[inst].loc);
    k.result(made)
}
