//! Cycles that an instruction takes of a warp, from the target's rows.

use crate::error::{Result, SchedError};
use warplift_ir::machine::{Attr, Func, Inst};
use warplift_ir::target::{Lacks, Opcode, Target, Unit};

/// Rows that the model reads wherever tensor copies fill a ring: those of the handover of a stage.
const HANDOVER: [Opcode; 3] = [Opcode::MbarWait, Opcode::MbarArrive, Opcode::FenceProxyAsync];

/// Refuses a program if a model of time needs a row that the target's table lacks.
pub(crate) fn require_rows(func: &Func<'_>, target: &Target) -> Result<()> {
    let lacks = |op: Opcode| target.require(op).err();
    let of_inst = |inst: Inst| {
        let d = &func.insts[inst];
        let handover = HANDOVER.iter().filter(|_| d.op.is_async_load());
        let found: Option<Lacks> = [d.op, Opcode::BarSync].iter().chain(handover).find_map(|&op| lacks(op));
        found.map(|lacks| SchedError::Lacks { loc: d.loc, lacks })
    };
    match func.insts.keys().filter(|&i| func.block_of(i).is_some()).find_map(of_inst) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// How many times an instruction is issued: once for each register of its result.
pub(crate) fn issues(func: &Func<'_>, target: &Target, inst: Inst) -> u32 {
    let d = &func.insts[inst];
    let times = d.results.iter().map(|&r| func.ty(r).regs()).max().unwrap_or(1).max(1);
    if target.row(d.op).unit == Unit::None { 0 } else { times }
}

/// Cycles that an instruction of one warp takes of its unit, without its nested blocks. For a product, the cycles are
/// those of a warpgroup.
pub(crate) fn unit_cycles(func: &Func<'_>, target: &Target, inst: Inst) -> u32 {
    match &func.insts[inst].attr {
        Attr::Wgmma(w) => w.cycles(&target.rates) as u32,
        _ => issues(func, target, inst) * u32::from(target.row(func.insts[inst].op).interval),
    }
}
