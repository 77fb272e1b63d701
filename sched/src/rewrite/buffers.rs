//! Accesses that go to another buffer.
//!
//! ```text
//!  load x ─► a    read a    load y ─► b    read b     redirect b to a     load x ─► a    read a    load y ─► a    read a
//! ```

use crate::analysis::{Graph, renamed};
use warplift_ir::machine::{Buffer, Func, Inst, Program};

/// Lets every access to `from` be one to `to`, which lies as both need it. Nothing is left of `from`.
pub(super) fn redirect(program: &mut Program<'_>, graph: &Graph, from: Buffer, to: Buffer) {
    let insts: Vec<Inst> = graph.accesses(&program.func, from).iter().map(|a| a.inst).collect();
    insts.into_iter().for_each(|i| set_buffer(&mut program.func, i, from, to));
    let align = program.buffers[from].align;
    program.buffers[to].align = program.buffers[to].align.max(align);
    program.buffers[from].bytes = 0;
}

/// Lets an instruction access `to` where it accesses `from`.
pub(super) fn set_buffer(func: &mut Func<'_>, inst: Inst, from: Buffer, to: Buffer) {
    let d = &func.insts[inst];
    let (op, attr) = (d.op, renamed(&d.attr, from, to));
    func.set_op(inst, op, attr);
}
