//! Buffers in which threads exchange tiles share their bytes, where the rings of the loops would else lack stages.
//!
//! ```text
//!  store a; load a    store b; load b         a, b: bytes each        a, then b in the place of a: the rings get
//!      chunk 0            chunk 1        ─►   rings: one stage   ─►   the bytes, and a barrier stands before `store b`
//! ```
//!
//! Such a buffer is written and read within one block, so its content lives from its first access to its last. Two that
//! do not live at once become one. It is written again only behind a barrier that follows its last read, which is placed
//! as for any buffer (Task-Based Tensor Computations on Modern GPUs, section 4.2.4: buffers that do not interfere share
//! memory, and owe the write after the read an edge).

use super::buffers::redirect;
use crate::analysis::{Graph, LEAST_STAGES};
use std::ops::RangeInclusive;
use warplift_ir::machine::{Buffer, BufferKind, Program};
use warplift_ir::target::Target;

/// The least bytes for which a barrier more is worth while.
const LEAST_BYTES: u32 = 4096;

/// A buffer, and the places of its accesses in program order, with those of the buffers that it took in.
struct Shared {
    buffer: Buffer,
    lives: Vec<RangeInclusive<usize>>,
}

/// Lets buffers that are not in use at the same time share their bytes.
pub fn do_share_scratch<'a>(mut program: Program<'a>, graph: &mut Graph, target: &Target) -> Program<'a> {
    if !is_short(&program, target) {
        return program;
    }
    let mut found: Vec<Shared> = Vec::new();
    for (buffer, life) in lives(&program, graph) {
        let apart = |other: &RangeInclusive<usize>| life.end() < other.start() || other.end() < life.start();
        match found.iter_mut().find(|f| f.lives.iter().all(apart)) {
            Some(first) => {
                let bytes = program.buffers[buffer].bytes.max(program.buffers[first.buffer].bytes);
                redirect(&mut program, graph, buffer, first.buffer);
                program.buffers[first.buffer].bytes = bytes;
                first.lives.push(life);
            }
            None => found.push(Shared { buffer, lives: vec![life] }),
        }
    }
    graph.update(&mut program.func);
    program
}

/// Whether rings of enough stages do not fit beside the other buffers.
fn is_short(program: &Program<'_>, target: &Target) -> bool {
    let stages = |b: Buffer| match program.buffers[b].kind {
        BufferKind::Operand => 1,
        kind if kind.is_ring() => LEAST_STAGES,
        _ => 1,
    };
    let bytes: u64 = program.buffers.iter().map(|(b, d)| u64::from(d.stride()) * u64::from(stages(b))).sum();
    bytes > u64::from(target.shared_of_resident(program.launch.resident) / program.teams)
}

/// The buffers that are written, then read, within one block, in the order of their first accesses.
fn lives(program: &Program<'_>, graph: &Graph) -> Vec<(Buffer, RangeInclusive<usize>)> {
    let func = &program.func;
    let all = graph.shared_accesses(func);
    let wide =
        program.buffers.iter().filter(|(_, d)| d.kind == BufferKind::Scratch && d.bytes >= LEAST_BYTES);
    let life = |buffer: Buffer| {
        let mut own = all.iter().enumerate().filter(|(_, a)| a.buffer == buffer);
        let (first, access) = own.next().filter(|(_, a)| a.writes)?;
        let block = func.block_of(access.inst);
        let last = own.try_fold(first, |_, (n, a)| (func.block_of(a.inst) == block).then_some(n))?;
        Some((buffer, first..=last))
    };
    let mut found: Vec<_> = wide.filter_map(|(b, _)| life(b)).collect();
    found.sort_by_key(|(_, life)| *life.start());
    found
}
