//! The work of a helper warp: the products that it computes for all warps, and everything these products need.

use super::access::touched;
use super::graph::Graph;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Buffer, BufferKind, Inst, InstData, Program};
use warplift_ir::target::Opcode;

/// The stores to the helper's buffers, and all instructions that they need.
pub(crate) fn helper_insts(program: &Program<'_>, graph: &Graph) -> FxHashSet<Inst> {
    let buffers = program.buffers_of(BufferKind::Helper);
    buffers.flat_map(|b| stores(program, graph, b)).flat_map(|s| graph.operand_slice(s)).collect()
}

/// The stores to a buffer.
fn stores<'g>(program: &Program<'_>, graph: &'g Graph, buffer: Buffer) -> impl Iterator<Item = Inst> + 'g {
    graph.accesses(&program.func, buffer).iter().filter(|a| a.writes).map(|a| a.inst)
}

/// Buffers of shared memory that are read to compute the contents of a helper's buffer.
pub(crate) fn read_for(program: &Program<'_>, graph: &Graph, handoff: Buffer) -> Vec<Buffer> {
    let func = &program.func;
    let touches = |i: Inst| touched(&func.insts[i].attr, func.insts[i].op);
    let all = stores(program, graph, handoff).flat_map(|store| graph.operand_slice(store)).flat_map(touches);
    all.filter(|t| !t.1).map(|t| t.0).collect()
}

/// Whether a kernel with products of warpgroups also has products of warps that every warp computes alike, without a
/// helper.
pub fn is_mma_duplicated(program: &Program<'_>, graph: &Graph) -> bool {
    let has = |op: Opcode| program.func.insts.values().any(|d| d.op == op);
    let handoff = helper_insts(program, graph);
    let own = |(i, d): (Inst, &InstData<'_>)| d.op == Opcode::MmaSync && !handoff.contains(&i);
    has(Opcode::Wgmma) && program.func.insts.iter().any(own)
}
