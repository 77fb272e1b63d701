//! Staging buffers: threads store results in shared memory, and tensor copies move them on.

use crate::analysis::touched;
use warplift_ir::machine::{Block, Buffer, BufferKind, Inst, Program};
use warplift_ir::target::Opcode;

/// Whether a staging buffer is used more than once. Then a second slot hides the copy from the first.
pub(super) fn stored_again(program: &Program<'_>, buffer: Buffer) -> bool {
    let func = &program.func;
    let uses = func.blocks.keys().map(|block| {
        let sites = staging_sites(program, block).iter().filter(|(_, b)| *b == buffer).count();
        sites * if func.loop_of(block).is_some() { 2 } else { 1 }
    });
    uses.sum::<usize>() > 1
}

/// Staging buffers, in the order in which a block's copies read them.
pub(crate) fn staging_sites(program: &Program<'_>, block: Block) -> Vec<(Inst, Buffer)> {
    let func = &program.func;
    let mut sites: Vec<(Inst, Buffer)> = Vec::new();
    let mut open = false;
    for &inst in &func.blocks[block].insts {
        let d = &func.insts[inst];
        match touched(&d.attr, d.op).first() {
            Some(&(buffer, true)) if program.buffers[buffer].kind == BufferKind::Staging => {
                if !open {
                    sites.push((inst, buffer));
                }
                open = true;
            }
            _ if d.op == Opcode::TmaStore => open = false,
            _ => {}
        }
    }
    sites
}
