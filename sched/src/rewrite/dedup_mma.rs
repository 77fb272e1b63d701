//! Products that every warp would make alike: one warp makes each for all, the helpers in turn.
//!
//! ```text
//!  for t ..                      consumers, warp by warp             a helper, one warp
//!    load x, w; await            wait for x, w                       wait for x, w
//!    s = product of c and x  ─►                                      s = product of c and x
//!                                s = load of that stage ◄··········· store s, in a stage
//!    sums = s + product ..       sums = s + product ..               next iteration
//! ```
//!
//! Stages of both rings follow each other. A slot of what is handed on is free where that of `x` is filled again, and what the
//! helper reads of `x` it has read before consumers hand it back: there is one barrier more a stage, and nothing to release.
//!
//! A value is alike in all warps if it comes from shared memory that tensor copies fill, from constants and scalars, and from
//! the thread's number only as far as that tells the lane. Helpers are the warps of the producer's warpgroup that copy
//! nothing; they take turns (`expand::helper`), and run ahead of the consumers as far as the ring goes. Consumers load what is
//! handed on where they would have made it: in front of the other work of an iteration they would wait for it (measured).
//!
//! What comes out is still sequential: run by all warps, each stores what all others store too, and loads it. The schedule
//! gives stores, and what only they need, to the helper (Task-Based Tensor Computations on Modern GPUs, section 4.2.6).

use super::handoff::{By, LANE, handoff_buffer, through, through_transposed};
use super::transpose_helper_mma::transpose;
use crate::analysis::{Copying, buffer_of, copying, slice, touched};
use crate::feature::Feature;
use warplift_ir::machine::{Block, Buffer, Cursor, Func, Inst, Program, Value};
use warplift_ir::target::{Effect, Opcode};

/// Bits of a lane that tell the columns of a product's sums that it holds; the others tell the rows.
const COLUMNS: u32 = 3;
/// Registers of what is handed on at most: a helper has a producer's.
const MOST_REGISTERS: u32 = 16;

/// Lets helpers make what all warps would make alike, where a producer leaves them room.
pub fn do_dedup_mma<'a>(mut program: Program<'a>, disabled: &[Feature]) -> Program<'a> {
    if disabled.contains(&Feature::WarpSpecialization) || !has_room(&program) {
        return program;
    }
    for block in program.func.blocks.keys().collect::<Vec<_>>() {
        if program.func.loop_of(block).is_none() {
            continue;
        }
        for last in last_products(&program, block) {
            hand_off(&mut program, block, last);
        }
    }
    program
}

/// Whether there is a producer, whose warpgroup works for one team of one block.
fn has_room(program: &Program<'_>) -> bool {
    let alone = program.teams == 1 && program.blocks == 1 && program.launch.cluster == 1;
    let produced = || matches!(copying(program), Copying::Producer(loads) if !loads.is_empty());
    alone && !program.deferred && !program.epilogue_warps && produced()
}

/// Products of a block that are alike in all warps, the last of each row of them that add up.
fn last_products(program: &Program<'_>, block: Block) -> Vec<Inst> {
    let func = &program.func;
    let insts = &func.blocks[block].insts;
    let product = |i: &&Inst| func.insts[**i].op == Opcode::MmaSync;
    let goes_on = |&i: &Inst| {
        let sums = func.insts[i].results[0];
        insts.iter().filter(product).any(|&j| func.insts[j].args[0] == sums)
    };
    let fits = |&i: &Inst| {
        let sums = func.insts[i].results[0];
        func.ty(sums).regs() <= MOST_REGISTERS
            && WarpInvariance { program, block }.value(sums)
            && is_separable(program, block, i)
    };
    insts.iter().filter(product).copied().filter(|i| !goes_on(i) && fits(i)).collect()
}

/// Whether what a product reads of shared memory goes to no other registers, is awaited together, and something behind it reads
/// that stage: it is handed back behind what comes of the product.
fn is_separable(program: &Program<'_>, block: Block, product: Inst) -> bool {
    let func = &program.func;
    let own = slice(func, product);
    let reads = own.iter().filter(|&&i| func.insts[i].op.row().effect == Effect::Read);
    let others = func.insts.iter().filter(|(i, _)| !own.contains(i));
    let used: Vec<Value> = others.flat_map(|(_, d)| d.args).copied().collect();
    let buffers = |i: Inst| func.insts[i].args.iter().filter_map(|&e| buffer_of(func, e)).collect::<Vec<_>>();
    let awaits = func.blocks[block].insts.iter().filter(|&&i| func.insts[i].op == Opcode::Await);
    let mut stages = awaits.map(|&i| buffers(i));
    let alone = reads.clone().flat_map(|&i| func.insts[i].results).all(|r| !used.contains(r));
    let touches = |&i: &Inst| touched(&func.insts[i].attr, func.insts[i].op);
    let behind = func.blocks[block].insts.iter().skip_while(|&&i| i != product);
    let behind: Vec<(Buffer, bool)> = behind.flat_map(touches).collect();
    let read: Vec<(Buffer, bool)> = reads.flat_map(touches).collect();
    let of_one = stages.any(|s| read.iter().all(|(b, _)| s.contains(b)));
    alone && of_one && read.iter().all(|stage| behind.contains(stage))
}

/// What is known of values in a loop's body.
struct WarpInvariance<'p, 'a> {
    program: &'p Program<'a>,
    block: Block,
}

impl WarpInvariance<'_, '_> {
    /// Whether all warps have the same.
    fn value(&self, v: Value) -> bool {
        let func = &self.program.func;
        if let Some((down, mask)) = bits(func, v) {
            return u64::from(mask) << down & !u64::from(LANE) == 0;
        }
        let Some(def) = func.def(v) else { return self.counts(v) };
        let d = &func.insts[def];
        let made = d.op.is_pure() && d.blocks.is_empty() && !matches!(d.op, Opcode::Elect | Opcode::Tid);
        d.guard.is_none() && (made || self.is_stage(def)) && d.args.iter().all(|&a| self.value(a))
    }

    /// Whether a block's parameter is a loop's counter.
    fn counts(&self, v: Value) -> bool {
        let func = &self.program.func;
        func.insts
            .values()
            .any(|d| d.op == Opcode::For && func.blocks[d.blocks[0]].params.first() == Some(&v))
    }

    /// Whether an instruction of this block reads what tensor copies brought.
    fn is_stage(&self, inst: Inst) -> bool {
        let func = &self.program.func;
        let d = &func.insts[inst];
        let here = |i: Inst| func.blocks[self.block].insts.contains(&i);
        let is_brought = |b: Buffer| {
            let mut loads = func.insts.iter().filter(|(_, d)| touched(&d.attr, d.op).contains(&(b, true)));
            loads.all(|(i, d)| d.op.is_async_load() && here(i))
        };
        let from = touched(&d.attr, d.op);
        let reads = from.iter().all(|&(b, writes)| !writes && is_brought(b)) && !from.is_empty();
        reads && d.op.row().effect == Effect::Read && here(inst)
    }
}

/// A value as bits of the thread's number: how far it is shifted down, and what is left of it then.
fn bits(func: &Func<'_>, v: Value) -> Option<(u32, u32)> {
    let d = &func.insts[func.def(v)?];
    if d.op == Opcode::Tid {
        return Some((0, u32::MAX));
    }
    let by = u32::try_from(func.constant(*d.args.get(1)?)?).ok()?;
    let (down, mask) = bits(func, d.args[0])?;
    match d.op {
        Opcode::And => Some((down, mask & by)),
        Opcode::ShrU32 if by < 32 => Some((down + by, mask >> by)),
        Opcode::DivU32 if by.is_power_of_two() => Some((down + by.ilog2(), mask >> by.ilog2())),
        Opcode::RemU32 if by.is_power_of_two() => Some((down, mask & (by - 1))),
        _ => None,
    }
}

/// Stores the sums of a product behind it and loads them for whoever reads them.
fn hand_off(program: &mut Program<'_>, block: Block, product: Inst) {
    let sums = program.func.insts[product].results[0];
    let equal = has_equal_rows(&program.func, product);
    let by = By::Lanes(if equal { COLUMNS } else { LANE });
    let buffer = handoff_buffer(program, "helper", &[sums], by);
    let func = &mut program.func;
    let users: Vec<Inst> = func.users(sums).collect();
    // Whoever read the sums reads what is loaded, so that they may change their type.
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
    program.helper_buffers.push(buffer);
}

/// Whether the rows of a product's sums are equal: those of its left operand are, and those of what it adds to.
fn has_equal_rows(func: &Func<'_>, product: Inst) -> bool {
    let equal = |v: Value| {
        func.def(v).is_some_and(|i| match func.insts[i].op {
            Opcode::MmaSync => has_equal_rows(func, i),
            _ => {
                slice(func, i).iter().all(|&j| func.insts[j].op.is_pure() && func.insts[j].op != Opcode::Tid)
            }
        })
    };
    func.insts[product].args[..2].iter().all(|&v| equal(v))
}
