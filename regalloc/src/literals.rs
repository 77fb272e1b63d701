//! Which operands a literal may stand for, so that a constant takes no register.

use std::sync::LazyLock;
use warplift_ir::machine::InstData;
use warplift_ir::target::{Opcode, ROWS, Row};

/// Whether operand `k` may be a literal in PTX: everywhere but in addresses and packed halves (tried, row
/// by row, with the assembler).
pub(crate) fn takes_literal(data: &InstData<'_>, k: usize) -> bool {
    match data.op {
        Opcode::Join => true,
        Opcode::Wgmma | Opcode::MbarWait => k == 1,
        Opcode::CpAsync => k == 2,
        Opcode::TmaLoad => k >= 2,
        Opcode::TmaStore => k >= 1,
        op => LITERALS[op as usize] >> k.min(31) & 1 == 1,
    }
}

/// For each row, which operands of its syntax may be literals, as bits.
static LITERALS: LazyLock<Vec<u32>> = LazyLock::new(|| ROWS.iter().map(literals).collect());

fn literals(row: &Row) -> u32 {
    let packed = row.syntax.split(' ').next().is_some_and(|op| op.ends_with("f16x2"));
    let address = |k: usize| row.syntax.split('[').skip(1).any(|s| s.starts_with(&format!("${k}")));
    let takes = |k: &usize| !row.syntax.is_empty() && !packed && !address(*k);
    (0..row.args.len()).filter(takes).fold(0, |bits, k| bits | 1 << k)
}
