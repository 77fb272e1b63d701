//! A product that is the same in every warp is computed once, by a helper warp.
//!
//! ```text
//!  for t ..                      consumers, warp by warp             a helper, one warp
//!    load x, w; await            wait for x, w                       wait for x, w
//!    s = product of c and x  ─►                                      s = product of c and x
//!                                s = load of that stage ◄··········· store s, in a stage
//!    sums = s + product ..       sums = s + product ..               next iteration
//! ```
//!
//! The ring of the sums moves with the ring of `x`. The helper has read a slot of `x` before it stores the sums of that
//! slot, and consumers release `x` after they have loaded the sums. So the sums need one barrier for each stage, and no
//! release.
//!
//! A product qualifies if its sums do not depend on the warp (`analysis::thread_invariance`) and a helper can compute
//! them alone: from scalars, loop counters and stages that tensor copies fill. Helpers are the warps of the producer's
//! warpgroup that do not copy. They take slots in turn (`expand::helper`) and run ahead of the consumers by the depth
//! of the ring. Consumers load the sums where the product stood. If they loaded them earlier in the iteration, they
//! would wait for them (measured).
//!
//! The program stays sequential: if all warps run it, each warp stores the same sums and loads them. The schedule gives
//! the stores, and everything that only they need, to the helper (Task-Based Tensor Computations on Modern GPUs,
//! section 4.2.6).

use super::handoff::{By, handoff_buffer, through, through_transposed};
use super::transpose_helper_mma::transpose;
use crate::analysis::{Copying, Graph, LANE, ThreadInvariance, buffer_of, copying, touched};
use crate::feature::Feature;
use warplift_ir::machine::{Block, Buffer, Cursor, Func, Inst, Program, Value, ValueDef};
use warplift_ir::target::{Effect, Opcode};

/// Bits of a lane that select its columns of a product's sums. The other bits select its rows.
const COLUMNS: u32 = 3;
/// The most registers that are handed over: a helper has only a producer's registers.
const MOST_REGISTERS: u32 = 16;

/// Moves products that are the same in every warp to helper warps, if the producer's warpgroup has free warps.
pub fn do_dedup_mma<'a>(mut program: Program<'a>, graph: &mut Graph, disabled: &[Feature]) -> Program<'a> {
    if disabled.contains(&Feature::WarpSpecialization) || !has_room(&program, graph) {
        return program;
    }
    for block in program.func.blocks.keys().collect::<Vec<_>>() {
        if program.func.loop_of(block).is_none() {
            continue;
        }
        for (last, equal) in last_products(&program, graph, block) {
            hand_off(&mut program, block, last, equal);
            graph.update(&mut program.func);
        }
    }
    program
}

/// Whether there is a producer whose warpgroup serves only one team of one block.
fn has_room(program: &Program<'_>, graph: &Graph) -> bool {
    let products = program.func.insts.values().any(|d| d.op == Opcode::MmaSync);
    let alone = products && program.teams == 1 && program.blocks == 1 && program.launch.cluster == 1;
    let produced = || matches!(copying(program, graph), Copying::Producer { loads, .. } if !loads.is_empty());
    alone && !program.deferred && !program.epilogue_warps && produced()
}

/// Products of a block that are the same in all warps. Of each chain of products that add up, only the last is given,
/// with whether the rows of its sums are equal.
fn last_products(program: &Program<'_>, graph: &Graph, block: Block) -> Vec<(Inst, bool)> {
    let func = &program.func;
    let insts = &func.blocks[block].insts;
    let products: Vec<Inst> =
        insts.iter().copied().filter(|&i| func.insts[i].op == Opcode::MmaSync).collect();
    if products.is_empty() {
        return Vec::new();
    }
    let threads = ThreadInvariance::of(func, graph);
    let continues = |j: Inst, sums: Value| {
        func.block_of(j) == Some(block)
            && func.insts[j].op == Opcode::MmaSync
            && func.insts[j].args[0] == sums
    };
    let goes_on =
        |i: Inst| func.users(func.insts[i].results[0]).any(|j| continues(j, func.insts[i].results[0]));
    let fits = |&i: &Inst| {
        let sums = func.insts[i].results[0];
        let small = func.ty(sums).regs() <= MOST_REGISTERS && threads.in_warps(sums);
        small && is_self_contained(program, graph, block, i) && is_separable(program, graph, block, i)
    };
    let last = products.iter().copied().filter(|&i| !goes_on(i)).filter(fits);
    last.map(|i| (i, has_equal_rows(func, &threads, i))).collect()
}

/// Whether a product can be separated from the other work on its stage. The loads for the product must serve nothing
/// else, and one await must cover the stage. An instruction behind the product must read the stage too: then the stage
/// is released after the product's sums are used.
fn is_separable(program: &Program<'_>, graph: &Graph, block: Block, product: Inst) -> bool {
    let func = &program.func;
    let own = graph.operand_slice(product);
    let reads = own.iter().filter(|&&i| func.insts[i].op.effect() == Effect::Read);
    let buffers = |i: Inst| func.insts[i].args.iter().filter_map(|&e| buffer_of(func, e)).collect::<Vec<_>>();
    let awaits = func.blocks[block].insts.iter().filter(|&&i| func.insts[i].op == Opcode::Await);
    let mut stages = awaits.map(|&i| buffers(i));
    let alone =
        reads.clone().flat_map(|&i| func.insts[i].results).all(|&r| func.users(r).all(|u| own.contains(&u)));
    let touches = |&i: &Inst| touched(&func.insts[i].attr, func.insts[i].op);
    let behind = func.blocks[block].insts.iter().skip_while(|&&i| i != product);
    let behind: Vec<(Buffer, bool)> = behind.flat_map(touches).collect();
    let read: Vec<(Buffer, bool)> = reads.flat_map(touches).collect();
    let of_one = stages.any(|s| read.iter().all(|(b, _)| s.contains(b)));
    alone && of_one && read.iter().all(|stage| behind.contains(stage))
}

/// Whether a helper can compute everything that a product depends on: from scalars, loop counters, and the copies of
/// this block.
fn is_self_contained(program: &Program<'_>, graph: &Graph, block: Block, product: Inst) -> bool {
    let func = &program.func;
    let here = |i: Inst| func.block_of(i) == Some(block);
    let brought = |b: Buffer| graph.accesses(func, b).iter().filter(|a| a.writes).all(|a| here(a.inst));
    let stage = |i: Inst| {
        let read = touched(&func.insts[i].attr, func.insts[i].op);
        here(i) && !read.is_empty() && read.iter().all(|&(b, _)| brought(b))
    };
    let counts = |v: Value| match func.values[v].def {
        ValueDef::Result(..) => true,
        ValueDef::Param(b, n) => n == 0 && func.loop_of(b).is_some(),
    };
    graph.operand_slice(product).into_iter().all(|i| {
        let d = &func.insts[i];
        let made = d.guard.is_none() && d.blocks.is_empty() && d.args.iter().all(|&v| counts(v));
        made && (d.op.is_pure() || stage(i))
    })
}

/// Stores the sums of a product behind it, and loads them for their readers. `equal`: whether the rows of the sums are
/// equal.
fn hand_off(program: &mut Program<'_>, block: Block, product: Inst, equal: bool) {
    let sums = program.func.insts[product].results[0];
    let by = By::Lanes(if equal { COLUMNS } else { LANE });
    let buffer = handoff_buffer(program, &[sums], by);
    let func = &mut program.func;
    let users: Vec<Inst> = func.users(sums).collect();
    // All readers of the sums read the loaded value, so the sums may change their type.
    let transposed = if equal { transpose(func, product) } else { None };
    let all = &func.blocks[block].insts;
    let at = all.iter().position(|&i| i == product).map_or(all.len(), |at| at + 1);
    let loc = func.insts[product].loc;
    let new = func.insert_at(block, at, |func| {
        let c = Cursor::new(func, block, loc);
        match transposed {
            Some(transposed) => through_transposed(c, buffer, by, transposed),
            None => through(c, buffer, by, &[sums]),
        }
    });
    users.into_iter().for_each(|inst| func.rename(inst, |v| new.get(&v).copied().unwrap_or(v)));
}

/// Whether the rows of a product's sums are equal. They are if the rows of its left operand and of its accumulator are.
fn has_equal_rows(func: &Func<'_>, threads: &ThreadInvariance<'_, '_>, product: Inst) -> bool {
    let equal = |v: Value| match func.def(v).filter(|&i| func.insts[i].op == Opcode::MmaSync) {
        Some(before) => has_equal_rows(func, threads, before),
        None => threads.in_block(v),
    };
    func.insts[product].args[..2].iter().all(|&v| equal(v))
}
