//! What a helper warp does: the products that it hands to all warps, and what these need.

use super::access::touched;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Buffer, BufferKind, Func, Inst, InstData, Program};
use warplift_ir::target::Opcode;

/// An instruction and all that its operands come from.
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

/// The stores of what the helper hands on, and all that they need.
pub(crate) fn helper_insts(program: &Program<'_>) -> FxHashSet<Inst> {
    let func = &program.func;
    let stores = |&i: &Inst| {
        let to = touched(&func.insts[i].attr, func.insts[i].op);
        to.iter().any(|&(b, writes)| writes && program.buffers[b].kind == BufferKind::Helper)
    };
    func.insts.keys().filter(stores).flat_map(|store| slice(func, store)).collect()
}

/// What is read of shared memory for what the helper hands on by a buffer.
pub(crate) fn read_for(program: &Program<'_>, handoff: Buffer) -> Vec<Buffer> {
    let func = &program.func;
    let touches = |i: Inst| touched(&func.insts[i].attr, func.insts[i].op);
    let stores = func.insts.keys().filter(|&i| touches(i).contains(&(handoff, true)));
    let all = stores.flat_map(|store| slice(func, store)).flat_map(touches);
    all.filter(|t| !t.1).map(|t| t.0).collect()
}

/// Whether warps that multiply as warpgroups make products of warps, each the same: nobody makes them for all.
pub fn is_mma_duplicated(program: &Program<'_>) -> bool {
    let has = |op: Opcode| program.func.insts.values().any(|d| d.op == op);
    let handoff = helper_insts(program);
    let own = |(i, d): (Inst, &InstData<'_>)| d.op == Opcode::MmaSync && !handoff.contains(&i);
    has(Opcode::Wgmma) && program.func.insts.iter().any(own)
}
