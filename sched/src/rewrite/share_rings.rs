//! Loops that run one behind the other fill the same ring.
//!
//! ```text
//!  for s ..  load a, b; await; read         a ring of a, b: n/2 stages         one ring of a, b: n stages,
//!  for t ..  load c, d; await; read    ─►   a ring of c, d: n/2 stages    ─►   where c, d are copied to a, b
//! ```
//!
//! A stage is filled and released within one block. So two blocks may take turns at a ring if neither stands inside the
//! other: every role walks them in the same order, and the second block goes on where the first one left the ring. The
//! ring's barriers order what would otherwise be a write after a read (Task-Based Tensor Computations on Modern GPUs,
//! section 4.2.4). Twice the stages hide more latency, and while the first loop ends, the loads of the second begin as
//! before.
//!
//! The tiles that are awaited together take the place of others of the same sizes. Blocks of a cluster keep their rings,
//! since each ring is multicast or not; so do tiles that another role reads again.

use super::buffers::redirect;
use crate::analysis::{Graph, buffer_of, handoff};
use crate::feature::Feature;
use warplift_ir::machine::{Attr, Block, Buffer, BufferKind, Inst, Program};
use warplift_ir::target::Opcode;

/// Tiles that one await waits for, from the largest to the smallest, and the blocks in which they are loaded and read.
struct Stage {
    buffers: Vec<Buffer>,
    blocks: Vec<Block>,
}

/// Lets the loads of later blocks fill the rings of earlier ones.
pub fn do_share_rings<'a>(mut program: Program<'a>, graph: &mut Graph, disabled: &[Feature]) -> Program<'a> {
    let helped = program.buffers_of(BufferKind::Helper).next().is_some();
    let alone = program.launch.cluster == 1 && handoff(&program).is_none() && !helped;
    if disabled.contains(&Feature::SharedRings) || !alone {
        return program;
    }
    let mut rings: Vec<Stage> = Vec::new();
    for stage in stages(&program, graph) {
        match rings.iter_mut().find(|ring| takes(&program, ring, &stage)) {
            Some(ring) => {
                let pairs = stage.buffers.iter().copied().zip(ring.buffers.iter().copied());
                pairs.for_each(|(from, to)| redirect(&mut program, graph, from, to));
                ring.blocks.extend(stage.blocks);
            }
            None => rings.push(stage),
        }
    }
    graph.update(&mut program.func);
    program
}

/// The awaits whose tiles are loaded and read in one block only, in program order.
fn stages(program: &Program<'_>, graph: &Graph) -> Vec<Stage> {
    let func = &program.func;
    let mut stages = Vec::new();
    func.walk(|block, inst| {
        if func.insts[inst].op != Opcode::Await {
            return;
        }
        let awaited = func.insts[inst].args.iter();
        let mut buffers: Vec<Buffer> = awaited.filter_map(|&event| buffer_of(func, event)).collect();
        if !buffers.is_empty() && buffers.iter().all(|&b| stays_with(program, graph, b, inst)) {
            buffers.sort_by_key(|&b| (std::cmp::Reverse(program.buffers[b].bytes), b));
            buffers.dedup();
            stages.push(Stage { buffers, blocks: vec![block] });
        }
    });
    stages
}

/// Whether a buffer is filled by tensor copies of a block, and awaited and read nowhere else than by `wait` and in its
/// block.
fn stays_with(program: &Program<'_>, graph: &Graph, buffer: Buffer, wait: Inst) -> bool {
    let func = &program.func;
    let block = func.block_of(wait);
    let inside = |i| func.block_of(i).zip(block).is_some_and(|(b, outer)| func.is_within(b, outer));
    let alone = |i| {
        let events = func.insts[i].results.iter().flat_map(|&event| func.users(event));
        let mut waits = events.filter(|&user| func.insts[user].op == Opcode::Await);
        func.block_of(i) == block && func.insts[i].op.is_async_load() && waits.all(|other| other == wait)
    };
    let accesses = graph.accesses(func, buffer);
    program.buffers[buffer].kind == BufferKind::Ring
        && accesses.iter().all(|a| if a.writes { alone(a.inst) } else { inside(a.inst) })
}

/// Whether tiles of the sizes of `stage` are copied to a ring by loops of the same depth, one behind the other.
fn takes(program: &Program<'_>, ring: &Stage, stage: &Stage) -> bool {
    let func = &program.func;
    let bytes = |s: &Stage| -> Vec<u32> { s.buffers.iter().map(|&b| program.buffers[b].bytes).collect() };
    let depth = |b: Block| match func.loop_of(b).map(|inst| &func.insts[inst].attr) {
        Some(Attr::Loop(attr)) => Some(attr.depth),
        _ => None,
    };
    let [block] = stage.blocks[..] else { return false };
    let sequential = |&b: &Block| !func.is_within(b, block) && !func.is_within(block, b);
    let as_deep = |&b: &Block| func.loop_of(b).is_some() && depth(b) == depth(block);
    bytes(ring) == bytes(stage) && ring.blocks.iter().all(|b| sequential(b) && as_deep(b))
}
