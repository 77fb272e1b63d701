//! Operands that threads compute in a loop get a ring, so that warpgroups need not meet twice in each iteration.
//!
//! ```text
//!  one buffer    meet ─ store t ─ meet ─ product t             all wait for the slowest, and nothing runs meanwhile
//!  a ring        wait empty ─ store t+1 ─ arrive full          a warpgroup stores for later products while another one's
//!                wait full  ─ product t ─ arrive empty         products run
//! ```
//!
//! The threads that fill such a ring also read it, so they go through it twice: once as they store, and once as their
//! products read. Overlapped iterations store as many stages ahead as the ring has.

use crate::analysis::{Access, Graph, handoff, is_tile_loop};
use crate::feature::Feature;
use warplift_ir::machine::{Buffer, BufferKind, Func, Program};
use warplift_ir::target::{Opcode, Target};

/// Bytes that are kept for barriers.
const BARRIERS: i64 = 512;

/// Makes rings of the buffers that a loop's threads fill for its products.
pub fn do_operand_rings<'a>(
    mut program: Program<'a>,
    graph: &mut Graph,
    target: &Target,
    disabled: &[Feature],
) -> Program<'a> {
    let helped = program.buffers_of(BufferKind::Helper).next().is_some();
    let alone = program.blocks == 1 && program.teams == 1 && handoff(&program).is_none() && !helped;
    if disabled.contains(&Feature::OperandRings) || !alone {
        return program;
    }
    let scratch = program.buffers_of(BufferKind::Scratch);
    let operands: Vec<Buffer> =
        scratch.filter(|&b| is_operand(&program.func, graph.accesses(&program.func, b))).collect();
    let mut free = free_bytes(&program, graph, target);
    for buffer in operands {
        let bytes = i64::from(program.buffers[buffer].stride());
        if bytes <= free {
            program.buffers[buffer].kind = BufferKind::Operand;
            free -= bytes;
        }
    }
    program
}

/// Bytes that are left if each buffer has what it needs, and rings that a loop's own copies fill have two stages. An operand
/// with one stage gains nothing.
fn free_bytes(program: &Program<'_>, graph: &Graph, target: &Target) -> i64 {
    let func = &program.func;
    let looped = |b: Buffer| {
        let fills = graph.accesses(func, b).iter().filter(|a| a.writes);
        fills
            .filter_map(|a| func.block_of(a.inst))
            .any(|b| func.loop_of(b).is_some_and(|l| !is_tile_loop(func, l)))
    };
    let stages = |b: Buffer| if program.buffers[b].kind.is_ring() && looped(b) { 2 } else { 1 };
    let taken = program.buffers.iter().map(|(b, d)| i64::from(d.stride()) * stages(b)).sum::<i64>();
    i64::from(target.shared_of_resident(program.launch.resident)) - BARRIERS - taken
}

/// Whether threads store to a buffer in a loop that tensor copies feed, and then only products of the same iteration read
/// it.
fn is_operand(func: &Func<'_>, accesses: &[Access]) -> bool {
    let Some(block) = accesses.first().and_then(|a| func.block_of(a.inst)) else { return false };
    let insts = &func.blocks[block].insts;
    let fed = insts.iter().any(|&i| func.insts[i].op.is_async_load());
    let stored = accesses.iter().take_while(|a| a.writes).count();
    let product = |a: &Access| !a.writes && func.insts[a.inst].op == Opcode::Wgmma;
    let here = accesses.iter().all(|a| func.block_of(a.inst) == Some(block));
    let read = &accesses[stored..];
    func.loop_of(block).is_some() && fed && here && stored > 0 && !read.is_empty() && read.iter().all(product)
}
