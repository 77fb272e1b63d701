//! Rows of the opcode table for operations on elements: the row of each operation for each kind of register. The
//! plan's estimates and lowering read the same table.
//!
//! ```text
//!  (add, f32) ─► add.f32      (add, pair of f16) ─► add.f16x2      (add, 8-bit element) ─► no row
//! ```

use warplift_ir::interp::{Number, round, to_bits};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{AtomicOp, BinOp, Inst, Kernel, Op, ReduceOp, UnOp};
use warplift_ir::types::Elem;

/// The kind of arithmetic on a scalar or a packed register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Signed,
    Unsigned,
    Float,
    Half,
    Brain,
    Wide,
    Pred,
    /// A bool tile: a register holds all ones or zero.
    Mask,
}

/// Whether elements are 16-bit floats: two in a register, each exact in f32.
pub fn is_half(elem: Elem) -> bool {
    matches!(elem, Elem::F16 | Elem::Bf16)
}

/// The kind of an element type, in scalars (`tile: false`) or in fragments.
pub(crate) fn kind(elem: Elem, tile: bool) -> Option<Kind> {
    Some(match elem {
        Elem::Int(32) => Kind::Signed,
        Elem::Uint(32) => Kind::Unsigned,
        Elem::F32 => Kind::Float,
        // A 16-bit scalar fills both halves of its register, so the rows for pairs compute it.
        Elem::F16 => Kind::Half,
        Elem::Bf16 => Kind::Brain,
        Elem::Int(64) if !tile => Kind::Wide,
        Elem::Bool => {
            if tile {
                Kind::Mask
            } else {
                Kind::Pred
            }
        }
        _ => return None,
    })
}

/// The row of a binary operation; `None` if it takes more than one.
pub(crate) fn binary_row(op: BinOp, kind: Kind) -> Option<Opcode> {
    use Kind::{Brain, Float, Half, Mask, Pred, Signed, Unsigned, Wide};
    Some(match (op, kind) {
        (BinOp::Add, Signed | Unsigned) => Opcode::AddS32,
        (BinOp::Add, Float) => Opcode::AddF32,
        (BinOp::Add, Half) => Opcode::AddF16x2,
        (BinOp::Add, Brain) => Opcode::AddBf16x2,
        (BinOp::Add, Wide) => Opcode::AddS64,
        (BinOp::Sub, Signed | Unsigned) => Opcode::SubS32,
        (BinOp::Sub, Float) => Opcode::SubF32,
        (BinOp::Sub, Half) => Opcode::SubF16x2,
        (BinOp::Sub, Brain) => Opcode::SubBf16x2,
        (BinOp::Sub, Wide) => Opcode::SubS64,
        (BinOp::Mul, Signed | Unsigned) => Opcode::MulS32,
        (BinOp::Mul, Float) => Opcode::MulF32,
        (BinOp::Mul, Half) => Opcode::MulF16x2,
        (BinOp::Mul, Brain) => Opcode::MulBf16x2,
        (BinOp::Mul, Wide) => Opcode::MulS64,
        (BinOp::Min, Wide) => Opcode::MinS64,
        (BinOp::Max, Wide) => Opcode::MaxS64,
        (BinOp::MulHi, Signed) => Opcode::MulHiS32,
        (BinOp::MulHi, Unsigned) => Opcode::MulHiU32,
        (BinOp::Div, Signed) => Opcode::DivS32,
        (BinOp::Div, Unsigned) => Opcode::DivU32,
        (BinOp::Div, Float) => Opcode::DivFullF32,
        (BinOp::Rem, Signed) => Opcode::RemS32,
        (BinOp::Rem, Unsigned) => Opcode::RemU32,
        (BinOp::Min, Signed) => Opcode::MinS32,
        (BinOp::Min, Unsigned) => Opcode::MinU32,
        (BinOp::Min, Float) => Opcode::MinF32,
        (BinOp::Min, Half) => Opcode::MinF16x2,
        (BinOp::Min, Brain) => Opcode::MinBf16x2,
        (BinOp::Max, Signed) => Opcode::MaxS32,
        (BinOp::Max, Unsigned) => Opcode::MaxU32,
        (BinOp::Max, Float) => Opcode::MaxF32,
        (BinOp::Max, Half) => Opcode::MaxF16x2,
        (BinOp::Max, Brain) => Opcode::MaxBf16x2,
        (BinOp::And, Signed | Unsigned | Mask) => Opcode::And,
        (BinOp::And, Pred) => Opcode::AndPred,
        (BinOp::Or, Signed | Unsigned | Mask) => Opcode::Or,
        (BinOp::Or, Pred) => Opcode::OrPred,
        (BinOp::Xor, Signed | Unsigned | Mask) => Opcode::Xor,
        (BinOp::Xor, Pred) => Opcode::XorPred,
        (BinOp::Shl, Signed | Unsigned) => Opcode::Shl,
        (BinOp::Shr, Signed) => Opcode::ShrS32,
        (BinOp::Shr, Unsigned) => Opcode::ShrU32,
        _ => return None,
    })
}

/// The row that updates an element and gives what it was; `None` if there is none.
pub(crate) fn fetch_row(op: AtomicOp, elem: Elem) -> Option<Opcode> {
    Some(match (op, elem) {
        (AtomicOp::Add, Elem::F32) => Opcode::AtomAddF32,
        (AtomicOp::Add, Elem::F16) => Opcode::AtomAddF16,
        (AtomicOp::Add, Elem::Bf16) => Opcode::AtomAddBf16,
        (AtomicOp::Add, Elem::Int(32) | Elem::Uint(32)) => Opcode::AtomAddU32,
        (AtomicOp::Min, Elem::Int(32)) => Opcode::AtomMinS32,
        (AtomicOp::Max, Elem::Int(32)) => Opcode::AtomMaxS32,
        (AtomicOp::Min, Elem::Uint(32)) => Opcode::AtomMinU32,
        (AtomicOp::Max, Elem::Uint(32)) => Opcode::AtomMaxU32,
        (AtomicOp::Exchange, Elem::F32 | Elem::Int(32) | Elem::Uint(32)) => Opcode::AtomExchB32,
        (AtomicOp::CompareAndSwap, Elem::F32 | Elem::Int(32) | Elem::Uint(32)) => Opcode::AtomCasB32,
        (AtomicOp::CompareAndSwap, Elem::F16 | Elem::Bf16) => Opcode::AtomCasB16,
        (AtomicOp::Add, Elem::Int(64) | Elem::Uint(64)) => Opcode::AtomAddU64,
        (AtomicOp::Min, Elem::Int(64)) => Opcode::AtomMinS64,
        (AtomicOp::Max, Elem::Int(64)) => Opcode::AtomMaxS64,
        (AtomicOp::Min, Elem::Uint(64)) => Opcode::AtomMinU64,
        (AtomicOp::Max, Elem::Uint(64)) => Opcode::AtomMaxU64,
        (AtomicOp::Exchange, Elem::Int(64) | Elem::Uint(64)) => Opcode::AtomExchB64,
        (AtomicOp::CompareAndSwap, Elem::Int(64) | Elem::Uint(64)) => Opcode::AtomCasB64,
        _ => return None,
    })
}

/// Whether an update is a loop of compare-and-swap: no row makes it.
pub(crate) fn is_swapped(op: AtomicOp, elem: Elem) -> bool {
    is_half(elem) && matches!(op, AtomicOp::Min | AtomicOp::Max | AtomicOp::Exchange)
}

/// Whether an update that gives what was there compiles: by a row, or by the two that order floats as integers.
pub(crate) fn is_fetched(op: AtomicOp, elem: Elem) -> bool {
    fetch_row(op, elem).is_some() || is_extreme(op, elem)
}

/// Whether it leaves the least or the greatest float.
fn is_extreme(op: AtomicOp, elem: Elem) -> bool {
    matches!(op, AtomicOp::Min | AtomicOp::Max) && elem == Elem::F32
}

/// The row of a unary operation; `None` if it takes more than one.
pub(crate) fn unary_row(op: UnOp, kind: Kind) -> Option<Opcode> {
    Some(match (op, kind) {
        (UnOp::Neg, Kind::Signed) => Opcode::NegS32,
        (UnOp::Neg, Kind::Float) => Opcode::NegF32,
        (UnOp::Neg, Kind::Half) => Opcode::NegF16x2,
        (UnOp::Neg, Kind::Brain) => Opcode::NegBf16x2,
        (UnOp::Abs, Kind::Signed) => Opcode::AbsS32,
        (UnOp::Abs, Kind::Float) => Opcode::AbsF32,
        (UnOp::Abs, Kind::Half) => Opcode::AbsF16x2,
        (UnOp::Abs, Kind::Brain) => Opcode::AbsBf16x2,
        (UnOp::Not, Kind::Signed | Kind::Unsigned | Kind::Mask) => Opcode::Not,
        (UnOp::Not, Kind::Pred) => Opcode::NotPred,
        (UnOp::Likely, Kind::Pred) => Opcode::LikelyPred,
        (UnOp::Unlikely, Kind::Pred) => Opcode::UnlikelyPred,
        (UnOp::Exp2, Kind::Float) => Opcode::Ex2F32,
        (UnOp::Log2, Kind::Float) => Opcode::Lg2F32,
        (UnOp::Sqrt, Kind::Float) => Opcode::SqrtF32,
        (UnOp::Rsqrt, Kind::Float) => Opcode::RsqrtF32,
        (UnOp::Rcp, Kind::Float) => Opcode::RcpF32,
        (UnOp::Sin, Kind::Float) => Opcode::SinF32,
        (UnOp::Cos, Kind::Float) => Opcode::CosF32,
        (UnOp::Tanh, Kind::Float) => Opcode::TanhF32,
        _ => return None,
    })
}

/// The base-two function behind `exp` or `log`, its factor, and whether the factor comes first.
pub(crate) fn natural(op: UnOp) -> Option<(UnOp, f32, bool)> {
    match op {
        UnOp::Exp => Some((UnOp::Exp2, std::f32::consts::LOG2_E, true)),
        UnOp::Log => Some((UnOp::Log2, std::f32::consts::LN_2, false)),
        _ => None,
    }
}

/// Bits of a float constant in a 32-bit register. A 16-bit constant fills both halves.
pub(crate) fn float_bits(elem: Elem, v: f64) -> Option<i64> {
    Some(match elem {
        Elem::F32 => i64::from((v as f32).to_bits()),
        Elem::F16 => i64::from(half::f16::from_f64(v).to_bits()) * 0x1_0001,
        Elem::Bf16 => i64::from(half::bf16::from_f64(v).to_bits()) * 0x1_0001,
        _ => return None,
    })
}

/// Bits of a float constant of at most 8 bits or of `tf32`, in the low bits of a register.
pub(crate) fn small_bits(elem: Elem, v: f64) -> Option<i64> {
    let small = matches!(elem, Elem::Tf32 | Elem::Mini { .. });
    small.then(|| to_bits(elem, Number::Float(round(elem, v))) as i64)
}

/// The row of `x * y + z`.
pub(crate) fn fma_row(kind: Kind) -> Option<Opcode> {
    Some(match kind {
        Kind::Float => Opcode::FmaF32,
        Kind::Half => Opcode::FmaF16x2,
        Kind::Brain => Opcode::FmaBf16x2,
        _ => return None,
    })
}

/// The row that an elementwise operation or a reduction repeats over a tile, for cost estimates; `None` if the
/// operation is only a view.
pub(crate) fn row_of(k: &Kernel, inst: Inst) -> Option<Opcode> {
    let of = |n: usize| k.args(inst).get(n).and_then(|&v| kind(k.ty(v).elem(), true));
    match k.insts[inst].op {
        Op::Unary(op) => {
            of(0).and_then(|kd| unary_row(natural(op).map_or(op, |n| n.0), kd)).or(Some(Opcode::Mov))
        }
        Op::Binary(op) => of(0).and_then(|kd| binary_row(op, kd)).or(Some(Opcode::Mov)),
        Op::Reduce(op, _) | Op::Scan(op, _) => of(0).and_then(|kd| binary_row(reduced(op), kd)),
        Op::Fma => of(0).and_then(fma_row),
        Op::Compare(_) => Some(Opcode::SetF32),
        Op::Select => Some(Opcode::Selp),
        Op::Cast => Some(Opcode::PackF16),
        _ => None,
    }
}

/// The row that compares.
pub(crate) fn compare_row(kind: Kind) -> Option<Opcode> {
    Some(match kind {
        Kind::Signed => Opcode::SetpS32,
        Kind::Unsigned => Opcode::SetpU32,
        Kind::Float => Opcode::SetpF32,
        Kind::Wide => Opcode::SetpS64,
        _ => return None,
    })
}

/// The binary operation of a reduction.
pub(crate) fn reduced(op: ReduceOp) -> BinOp {
    match op {
        ReduceOp::Sum => BinOp::Add,
        ReduceOp::Prod => BinOp::Mul,
        ReduceOp::Min => BinOp::Min,
        ReduceOp::Max => BinOp::Max,
        ReduceOp::And => BinOp::And,
        ReduceOp::Or => BinOp::Or,
        ReduceOp::Xor => BinOp::Xor,
    }
}

/// The instruction that reduces words over a warp, and the bits that are turned before it and behind it: the least number is the
/// greatest one of the complements, and the order of unsigned numbers is that of signed ones with the highest bit turned.
pub(crate) fn redux(row: Opcode) -> Option<(Opcode, i64)> {
    Some(match row {
        Opcode::AddS32 => (Opcode::ReduxAddS32, 0),
        Opcode::MaxS32 => (Opcode::ReduxMaxS32, 0),
        Opcode::MinS32 => (Opcode::ReduxMaxS32, -1),
        Opcode::MaxU32 => (Opcode::ReduxMaxS32, i64::from(i32::MIN)),
        Opcode::MinU32 => (Opcode::ReduxMaxS32, i64::from(i32::MAX)),
        Opcode::Or => (Opcode::ReduxOr, 0),
        Opcode::And => (Opcode::ReduxOr, -1),
        _ => return None,
    })
}
