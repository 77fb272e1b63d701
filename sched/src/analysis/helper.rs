//! The work of a helper warp: the products that it computes for all warps, and everything these products need.

use super::access::touched;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Buffer, BufferKind, Func, Inst, InstData, Program};
use warplift_ir::target::Opcode;

/// An instruction and all instructions that its operands depend on.
pub(crate) fn slice(func: &Func<'_>, inst: Inst) -> Vec<Inst> {
    let (mut all, mut at) = (vec![inst], 0);
    while at < all.len() {
        for def in func.insts[all[at]].args.iter().filter_map(|&v| func.def(v)) {
            if !all.contains(&def) {
                all.push(def);
            }
        }
        at += 1;
    }
    all
}

/// The stores to the helper's buffers, and all instructions that they need.
pub(crate) fn helper_insts(program: &Program<'_>) -> FxHashSet<Inst> {
    let func = &program.func;
    let stores = |&i: &Inst| {
        let to = touched(&func.insts[i].attr, func.insts[i].op);
        to.iter().any(|&(b, writes)| writes && program.buffers[b].kind == BufferKind::Helper)
    };
    func.insts.keys().filter(stores).flat_map(|store| slice(func, store)).collect()
}

/// Buffers of shared memory that are read to compute the contents of a helper's buffer.
pub(crate) fn read_for(program: &Program<'_>, handoff: Buffer) -> Vec<Buffer> {
    let func = &program.func;
    let touches = |i: Inst| touched(&func.insts[i].attr, func.insts[i].op);
    let stores = func.insts.keys().filter(|&i| touches(i).contains(&(handoff, true)));
    let all = stores.flat_map(|store| slice(func, store)).flat_map(touches);
    all.filter(|t| !t.1).map(|t| t.0).collect()
}

/// Whether a kernel with products of warpgroups also has products of warps that every warp computes alike, without a
/// helper.
pub fn is_mma_duplicated(program: &Program<'_>) -> bool {
    let has = |op: Opcode| program.func.insts.values().any(|d| d.op == op);
    let handoff = helper_insts(program);
    let own = |(i, d): (Inst, &InstData<'_>)| d.op == Opcode::MmaSync && !handoff.contains(&i);
    has(Opcode::Wgmma) && program.func.insts.iter().any(own)
}
