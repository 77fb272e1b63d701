//! Widening: operations on narrow elements for which the opcode table has no row go through f32, which is exact for
//! them.
//!
//! ```text
//!  m = reduce_max(x : f16)      ─►   m = cast(reduce_max(cast(x, f32)), f16)
//!  c = x : u8 != 0              ─►   c = cast(x, f32) != 0.0
//! ```

use crate::tiles::{constant, with_elem};
use warplift_ir::tile::{Block, Inst, Kernel, Op, Type, Value, ValueData, ValueDef, ValueList};
use warplift_ir::types::Elem;

/// Widens reductions and scans of 16-bit floats, and comparisons of elements of up to 8 bits.
pub fn do_widen(k: &mut Kernel) {
    for block in k.blocks.keys().collect::<Vec<_>>() {
        let old = std::mem::take(&mut k.blocks[block].insts);
        for inst in old {
            if widens(k, inst) {
                widen(k, block, inst);
            } else {
                k.blocks[block].insts.push(inst);
            }
        }
    }
}

fn widens(k: &Kernel, inst: Inst) -> bool {
    let Some(&arg) = k.args(inst).first() else { return false };
    let elem = k.ty(arg).elem();
    match k.insts[inst].op {
        _ if !matches!(k.ty(arg), Type::Tile(..)) => false,
        Op::Reduce(..) | Op::Scan(..) => matches!(elem, Elem::F16 | Elem::Bf16),
        Op::Compare(_) => {
            elem != Elem::Bool && elem.bits() <= 8 && k.args(inst).iter().all(|&a| castable(k, a))
        }
        _ => false,
    }
}

/// Whether elements can be converted: those of loaded or computed tiles, and constants.
fn castable(k: &Kernel, v: Value) -> bool {
    let full = k.def(v).is_some_and(|d| matches!(k.insts[d].op, Op::Full));
    let tile = matches!(k.ty(v), Type::Tile(..));
    (tile && !full) || constant(k, v).is_some()
}

fn widen(k: &mut Kernel, block: Block, inst: Inst) {
    let args = k.args(inst).to_vec();
    let args: Vec<Value> = args.into_iter().map(|a| wide(k, block, inst, a)).collect();
    k.insts[inst].args = ValueList::from_slice(&args, &mut k.pool);
    k.blocks[block].insts.push(inst);
    let result = k.result(inst);
    if k.ty(result).elem() != Elem::Bool {
        narrow(k, block, inst, result);
    }
}

/// An operand as f32.
fn wide(k: &mut Kernel, block: Block, inst: Inst, v: Value) -> Value {
    let loc = k.insts[inst].loc;
    let ty = with_elem(k.ty(v), Elem::F32);
    let Some(number) = constant(k, v) else {
        let made = k.append_inst(block, Op::Cast, &[v], &[ty], &[], loc);
        return k.result(made);
    };
    let scalar = k.append_inst(block, Op::Float(number), &[], &[Type::Scalar(Elem::F32)], &[], loc);
    let scalar = k.result(scalar);
    if ty == Type::Scalar(Elem::F32) {
        return scalar;
    }
    let made = k.append_inst(block, Op::Full, &[scalar], &[ty], &[], loc);
    k.result(made)
}

/// The old result becomes a conversion of the f32 result.
fn narrow(k: &mut Kernel, block: Block, inst: Inst, result: Value) {
    let ty = with_elem(k.ty(result), Elem::F32);
    let raw = k.values.push(ValueData { ty, def: ValueDef::Result(inst, 0) });
    k.insts[inst].results = ValueList::from_slice(&[raw], &mut k.pool);
    let cast = k.append_inst(block, Op::Cast, &[raw], &[], &[], k.insts[inst].loc);
    k.insts[cast].results = ValueList::from_slice(&[result], &mut k.pool);
    k.values[result].def = ValueDef::Result(cast, 0);
}
