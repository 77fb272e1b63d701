//! Scalars of the abstract machine. A scalar is a known integer, or unknown.

use warplift_ir::machine::{Attr, InstData, fold};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// The result of a pure instruction with known operands. `None` if it is unknown.
pub(super) fn pure(data: &InstData<'_>, args: &[Option<i64>]) -> Option<i64> {
    let arg = |k: usize| args.get(k).copied().flatten();
    let word = |k: usize| arg(k).map(|v| v as i32);
    Some(match data.op {
        Opcode::Const => match data.attr {
            Attr::Imm(v) => v,
            _ => return None,
        },
        Opcode::Mov
        | Opcode::MovPred
        | Opcode::LikelyPred
        | Opcode::UnlikelyPred
        | Opcode::Mov64
        | Opcode::Assume
        | Opcode::Assume64
        | Opcode::Uniform => arg(0)?,
        Opcode::Pack64 => i64::from(word(0)? as u32) | (arg(1)? << 32),
        Opcode::Selp | Opcode::Selp64 => arg(if arg(2)? != 0 { 0 } else { 1 })?,
        Opcode::MadS32 => i64::from(word(0)?.wrapping_mul(word(1)?).wrapping_add(word(2)?)),
        Opcode::NegS32 => i64::from(word(0)?.wrapping_neg()),
        Opcode::Not => i64::from(!word(0)?),
        Opcode::SetpS32 => i64::from(compare(&data.attr, word(0)?.cmp(&word(1)?))?),
        Opcode::SetpU32 => i64::from(compare(&data.attr, (word(0)? as u32).cmp(&(word(1)? as u32)))?),
        Opcode::AndPred => match (arg(0), arg(1)) {
            (Some(0), _) | (_, Some(0)) => 0,
            (a, b) => a? & b?,
        },
        Opcode::OrPred => arg(0)? | arg(1)?,
        Opcode::XorPred => arg(0)? ^ arg(1)?,
        Opcode::NotPred => i64::from(arg(0)? == 0),
        // An address of this block as seen from the cluster. The high bits are the rank.
        Opcode::Mapa => super::memory::remote(arg(0)?, arg(1)?),
        op => i64::from(fold(op, word(0)?, word(1)?)?),
    })
}

fn compare(attr: &Attr, order: std::cmp::Ordering) -> Option<bool> {
    let Attr::Cmp(op) = attr else { return None };
    Some(match op {
        CmpOp::Eq => order.is_eq(),
        CmpOp::Ne => order.is_ne(),
        CmpOp::Lt => order.is_lt(),
        CmpOp::Le => order.is_le(),
        CmpOp::Gt => order.is_gt(),
        CmpOp::Ge => order.is_ge(),
    })
}
