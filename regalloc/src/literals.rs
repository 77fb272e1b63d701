//! Literals: the operands for which a constant needs no register.

use warplift_ir::machine::InstData;
use warplift_ir::target::{Opcode, Rows};

/// Whether operand `k` may be a literal in PTX.
pub(crate) fn takes_literal(rows: &Rows, data: &InstData<'_>, k: usize) -> bool {
    match data.op {
        Opcode::Join => true,
        Opcode::Wgmma | Opcode::MbarWait => k == 1,
        Opcode::CpAsync => k == 2,
        Opcode::TmaLoad => k >= 2,
        Opcode::TmaStore => k >= 1,
        op => rows[op as usize].as_ref().is_some_and(|row| row.literals >> k.min(31) & 1 == 1),
    }
}
