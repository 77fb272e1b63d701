//! Scalars of a walk: what a warp's first lane computes, where it depends on sizes and places alone.

use warplift_ir::machine::{Attr, InstData, fold};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// The value of a pure row, of its operands by number; `None` where one that matters is unknown, or the row has no
/// meaning here.
pub fn evaluate(data: &InstData<'_>, arg: impl Fn(usize) -> Option<i64>) -> Option<i64> {
    use Opcode::*;
    let both = || arg(0).zip(arg(1));
    match data.op {
        Const => match data.attr {
            Attr::Imm(v) => Some(v),
            _ => None,
        },
        SharedBase | ClusterRank | TeamIndex => Some(0),
        Mov | MovPred | Mov64 | Uniform | WidenS32 | Narrow64 | Mapa | ToGlobal => arg(0),
        WidenU32 => arg(0).map(|v| i64::from(v as u32)),
        MadS32 => both().zip(arg(2)).map(|((a, b), c)| word(a.wrapping_mul(b).wrapping_add(c))),
        MadWideS32 => both().zip(arg(2)).map(|((a, b), c)| a.wrapping_mul(b).wrapping_add(c)),
        NegS32 => arg(0).map(|v| word(-v)),
        Selp | Selp64 => match arg(2) {
            Some(p) => arg(if p != 0 { 0 } else { 1 }),
            None => None,
        },
        SetpS32 | SetpS64 => both().and_then(|(a, b)| compare(&data.attr, a, b)),
        SetpU32 => both().and_then(|(a, b)| compare(&data.attr, a as u32, b as u32)),
        AndPred => match (arg(0), arg(1)) {
            (Some(0), _) | (_, Some(0)) => Some(0),
            (Some(_), Some(_)) => Some(1),
            _ => None,
        },
        OrPred => match (arg(0), arg(1)) {
            (Some(0), Some(0)) => Some(0),
            (Some(v), _) | (_, Some(v)) if v != 0 => Some(1),
            _ => None,
        },
        XorPred => both().map(|(a, b)| i64::from((a != 0) != (b != 0))),
        NotPred => arg(0).map(|a| i64::from(a == 0)),
        MinU32 => both().map(|(a, b)| i64::from((a as u32).min(b as u32))),
        MaxU32 => both().map(|(a, b)| i64::from((a as u32).max(b as u32))),
        MulHiU32 => both().map(|(a, b)| word(((u64::from(a as u32) * u64::from(b as u32)) >> 32) as i64)),
        AddS64 => both().map(|(a, b)| a.wrapping_add(b)),
        SubS64 => both().map(|(a, b)| a.wrapping_sub(b)),
        MulS64 | MulWideS32 => both().map(|(a, b)| a.wrapping_mul(b)),
        Not => arg(0).map(|v| !v),
        op => both().and_then(|(a, b)| fold(op, a as i32, b as i32)).map(i64::from),
    }
}

/// The low 32 bits, signed.
fn word(v: i64) -> i64 {
    i64::from(v as i32)
}

fn compare<T: Ord>(attr: &Attr, a: T, b: T) -> Option<i64> {
    let Attr::Cmp(cmp) = attr else { return None };
    Some(i64::from(match cmp {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Lt => a < b,
        CmpOp::Le => a <= b,
        CmpOp::Gt => a > b,
        CmpOp::Ge => a >= b,
    }))
}
