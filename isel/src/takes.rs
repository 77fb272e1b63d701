//! Element types with which an operation on tiles compiles. Refusals name them, and the page of the language lists them.
//!
//! ```text
//!  `not` of f32 tiles   ─►   `not` of tiles of f32 does not compile: i32, u32 and bool do; `cast` to one of these
//! ```

use crate::rows::{binary_row, fma_row, is_fetched, is_half, is_swapped, kind, natural, reduced, unary_row};
use crate::{IselError, Result};
use warplift_ir::machine::Ty;
use warplift_ir::target::Opcode;
use warplift_ir::tile::{AtomicOp, BinOp, CmpOp, Inst, Kernel, Op, Type, UnOp};
use warplift_ir::types::Elem;

/// Bits of an element of a tile at most: that of a register.
const WIDEST: u32 = 32;

/// Element types that tiles have, in the order in which they are listed.
const ELEMS: [Elem; 22] = [
    Elem::F32,
    Elem::Tf32,
    Elem::F16,
    Elem::Bf16,
    Elem::E4M3,
    Elem::E5M2,
    Elem::Mini { exponent: 2, mantissa: 1 },
    Elem::Int(64),
    Elem::Uint(64),
    Elem::I32,
    Elem::Uint(32),
    Elem::Int(16),
    Elem::Uint(16),
    Elem::Int(8),
    Elem::Uint(8),
    Elem::Int(4),
    Elem::Uint(4),
    Elem::Int(2),
    Elem::Uint(2),
    Elem::Int(1),
    Elem::Uint(1),
    Elem::Bool,
];

/// Why an operation on tiles of a type does not compile, and which types do.
pub(crate) fn refusal(op: &Op, elem: Elem) -> String {
    let name = op.name();
    let all: Vec<String> = ELEMS.iter().filter(|&&e| takes(op, e)).map(ToString::to_string).collect();
    let advice = match elem {
        Elem::Bool => "`select(x, 1, 0)` makes integers of it",
        _ => "`cast` to one of these",
    };
    match &all[..] {
        [] => format!("`{name}` of tiles does not compile, only of scalars"),
        [only] => format!("`{name}` of tiles of {elem} does not compile: {only} does; {advice}"),
        [first @ .., last] => format!(
            "`{name}` of tiles of {elem} does not compile: {} and {last} do; {advice}",
            first.join(", ")
        ),
    }
}

/// Whether an operation compiles with tiles of a type.
pub(crate) fn takes(op: &Op, elem: Elem) -> bool {
    let row = |of: Elem| kind(of, true);
    // 16-bit floats go through f32 where they have no row of their own.
    let wide = if is_half(elem) { Elem::F32 } else { elem };
    let either = |has: &dyn Fn(Elem) -> bool| has(elem) || has(wide);
    if is_long(elem) {
        return moves_long(op) || has_words(op);
    }
    match *op {
        // `map` makes arithmetic of it.
        Op::Unary(UnOp::Erf) => elem == Elem::F32 || is_half(elem),
        Op::Unary(op) => {
            let base = natural(op).map_or(op, |n| n.0);
            either(&|e| row(e).is_some_and(|kind| unary_row(base, kind).is_some()))
        }
        Op::Binary(op) => either(&|e| row(e).is_some_and(|kind| binary_row(op, kind).is_some())),
        Op::Fma => row(elem).is_some_and(|kind| fma_row(kind).is_some()),
        Op::Reduce(op, _) if elem == Elem::Bool => {
            row(elem).is_some_and(|kind| binary_row(reduced(op), kind).is_some())
        }
        Op::Reduce(op, _) | Op::Scan(op, _) => {
            let step = reduced(op);
            wide.bits() == WIDEST && row(wide).is_some_and(|kind| binary_row(step, kind).is_some())
        }
        Op::Compare(CmpOp::Eq | CmpOp::Ne) if elem == Elem::Bool => true,
        Op::Compare(_) => elem != Elem::Bool && (row(elem).is_some() || elem.bits() <= 8),
        Op::Select => matches!(elem.bits(), 16 | 32),
        Op::Gather(_) => matches!(elem.bits(), 16 | 32) || elem == Elem::Bool,
        Op::AtomicScatter { op, old: true, .. } => is_fetched(op, elem) || is_swapped(op, elem),
        Op::AtomicScatter { op, old: false, .. } => takes(&Op::Atomic(op), elem),
        Op::Atomic(AtomicOp::Add) => {
            is_half(elem) || matches!(elem, Elem::F32 | Elem::Int(32) | Elem::Uint(32))
        }
        Op::Atomic(AtomicOp::Min | AtomicOp::Max) => {
            is_half(elem) || matches!(elem, Elem::F32 | Elem::Int(32) | Elem::Uint(32))
        }
        // A truth value in a register is a mask, not the byte that memory holds.
        Op::ViewAs(_) => elem != Elem::Bool,
        // Elements that share a byte stay together, and those of 4 bits have no conversion.
        Op::Broadcast => elem.bits() >= 8,
        Op::Join | Op::Split => elem == Elem::Bool || elem.bits() >= 8,
        Op::Slice(_) => elem.bits() != 4,
        Op::Print(_) => is_half(elem) || matches!(elem, Elem::F32 | Elem::Int(32) | Elem::Uint(32)),
        Op::Store => elem.bits() >= 8,
        Op::LoadGather { .. } | Op::LoadRuns(_) => takes(&Op::Load, elem),
        Op::StoreScatter { .. } => takes(&Op::Store, elem),
        _ => true,
    }
}

/// The opcode that loads one element as a scalar, and the type of its register.
pub(crate) fn scalar_load(elem: Elem) -> Option<(Opcode, Ty)> {
    match elem {
        Elem::Uint(8) => Some((Opcode::LdGlobal8, Ty::B32)),
        Elem::F16 | Elem::Bf16 => Some((Opcode::LdGlobal16, Ty::B32)),
        Elem::F32 | Elem::Int(32) | Elem::Uint(32) => Some((Opcode::LdGlobal, Ty::B32)),
        Elem::Int(64) | Elem::Uint(64) => Some((Opcode::LdGlobal64, Ty::B64)),
        _ => None,
    }
}

/// Refuses tiles whose elements no register holds.
pub(crate) fn check_width(k: &Kernel, order: &[Inst]) -> Result<()> {
    let wide = |v: &&warplift_ir::tile::Value| matches!(k.ty(**v), Type::Tile(e, _) if e != Elem::Bool && e.bits() > 8 && !matches!(e.bits(), 16 | 32) && !is_long(e));
    match order.iter().find_map(|&i| k.results(i).iter().find(wide).map(|&v| (i, v))) {
        Some((inst, v)) => {
            let elem = k.ty(v).elem();
            let message = format!(
                "tiles of {elem} ({} bits) do not compile: elements of 1 to 8, 16 and {WIDEST} bits do",
                elem.bits()
            );
            Err(IselError::at(k, inst, message))
        }
        None => check_long(k, order),
    }
}

/// Whether an element is an integer of 64 bits.
pub(crate) fn is_long(elem: Elem) -> bool {
    matches!(elem, Elem::Int(64) | Elem::Uint(64))
}

/// Whether `map` writes an operation on tiles of 64-bit integers with words.
fn has_words(op: &Op) -> bool {
    match op {
        Op::Binary(op) => *op != BinOp::CeilDiv,
        Op::Unary(op) => matches!(op, UnOp::Neg | UnOp::Abs | UnOp::Not),
        Op::Compare(_) | Op::Select | Op::Full | Op::Gather(_) | Op::Reduce(..) | Op::Scan(..) => true,
        Op::Trans(_) | Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Slice(_) => true,
        Op::Rearrange | Op::Join | Op::Split => true,
        _ => false,
    }
}

/// Whether an operation takes tiles of 64-bit integers: `map` writes arithmetic with words, and joins and parts these.
fn moves_long(op: &Op) -> bool {
    let joins = matches!(op, Op::Full | Op::Binary(BinOp::Or | BinOp::Shl | BinOp::Shr));
    let moves = matches!(op, Op::Store | Op::StoreScatter { .. } | Op::Cast | Op::ToIndex);
    let updates = op.atomic().is_some();
    op.is_read() || joins || moves || updates
}

/// Refuses what has no form with words.
fn check_long(k: &Kernel, order: &[Inst]) -> Result<()> {
    let long = |v: &&warplift_ir::tile::Value| matches!(k.ty(**v), Type::Tile(e, _) if is_long(e));
    let touched = |i: Inst| k.args(i).iter().chain(k.results(i)).find(long);
    let carries = |op: &Op| matches!(op, Op::Yield | Op::For | Op::If | Op::While);
    let computes = |i: &Inst| !moves_long(&k.insts[*i].op) && !carries(&k.insts[*i].op);
    match order.iter().copied().filter(computes).find_map(|i| Some((i, *touched(i)?))) {
        Some((inst, v)) => {
            let (op, elem) = (&k.insts[inst].op, k.ty(v).elem());
            let name = op.name();
            let message = match op {
                Op::Gather(_) => {
                    format!("`gather` by indices of {elem} does not compile: `cast` them to i32")
                }
                _ => format!(
                    "`{name}` of tiles of {elem} does not compile: arithmetic, reductions, scans, updates and moves do; `cast` \
                     to i32"
                ),
            };
            Err(IselError::at(k, inst, message))
        }
        None => Ok(()),
    }
}
