//! Loads that do not depend on the tile are hoisted out of the loop over tiles and kept in registers.
//!
//! ```text
//!                                        w0 = load w[0]; w1 = load w[1]; ..
//!  for tile ..                           for tile ..
//!    s = what consumers hand on            s = what consumers hand on
//!    for u                          ─►     for u
//!      x = load x[tile, u]                   x = load x[tile, u]
//!      w = load w[u]                         w = pick u of w0, w1, ..
//!      store f(s, x, w)                      store f(s, x, w)
//! ```
//!
//! A load qualifies if it changes with the inner loop's counter alone (`analysis::invariance`), nothing writes its array, and
//! its address can be computed before the loop over tiles. Registers cannot be indexed, so the inner loop is unrolled fully
//! (`expand::unroll`). Its number of iterations must be bounded.
//!
//! Traffic from the L2 cache limits such kernels. A row of 128 KB with as much of `w` and of `b` is 384 KB for each tile
//! (measured: 0.93 of a copy's rate without `w`, 0.88 with it). Registers decide how many arrays are hoisted: those that
//! the fragments of a tile's work leave. Where epilogue warps run the loop, the consumers need few for their half of the work,
//! and `setmaxnreg` gives the rest to the epilogue warps.

use crate::analysis::{
    Copying, Graph, Invariance, Remaking, SCALAR_REGISTERS, budgets, copying, global_access, last_loop,
    most_alive, most_of_epilogue, tiles,
};
use crate::feature::Feature;
use rustc_hash::FxHashMap;
use warplift_ir::machine::{Attr, Block, Cursor, Func, Guard, Inst, NewInst, Program, Ty, Value};
use warplift_ir::target::{Opcode, Target};

/// Hoists what is the same for all tiles, if registers suffice; what was left, and why.
pub fn do_hoist_loads<'a>(
    mut program: Program<'a>,
    target: &Target,
    disabled: &[Feature],
) -> (Program<'a>, Vec<String>) {
    let l = Loop::of(&program.func).filter(|_| !disabled.contains(&Feature::HoistLoads));
    let Some(l) = l else { return (program, Vec::new()) };
    let loads = l.loads(&program.func);
    if loads.is_empty() {
        return (program, Vec::new());
    }
    let who = if program.epilogue_role.is_some() { "epilogue warps" } else { "consumers" };
    if let Some(why) = too_long(&program.func, &l, who, target) {
        return (program, vec![why]);
    }
    let room = room(&program, &l, target);
    let (loads, registers, remarks) = what_fits(&program.func, &l, &loads, room, who);
    if !loads.is_empty() {
        hoist(&mut program.func, &l, &loads);
        if let Some(role) = &mut program.epilogue_role {
            role.hoisted_registers = registers;
        }
    }
    (program, remarks)
}

/// Why a body is not written for each iteration: all bodies together may take three quarters of the instruction cache
/// (`layer_norm_warp_specialized`, where this pays, takes half of that).
fn too_long(func: &Func<'_>, l: &Loop, who: &str, target: &Target) -> Option<String> {
    let room = target.cached_instructions() / 4 * 3;
    let each = length(func, l.body);
    let all = each.saturating_mul(l.most);
    (all > room).then(|| {
        format!(
            "{who} hold nothing for all tiles: {} bodies of {each} instructions are {all}, at most {room} are worth it",
            l.most
        )
    })
}

/// Instructions of a block and those inside it, repetitions over fragments counted.
fn length(func: &Func<'_>, block: Block) -> u32 {
    let of = |&i: &Inst| {
        let d = &func.insts[i];
        let repeats = d.results.first().filter(|_| !d.maps.is_empty()).map_or(1, |&r| func.ty(r).regs());
        repeats + d.blocks.iter().map(|&b| length(func, b)).sum::<u32>()
    };
    func.blocks[block].insts.iter().map(of).sum()
}

/// Registers that are left for what is hoisted: by the fragments of the role that runs the loop, or, for epilogue warps, by what
/// consumers can spare.
fn room(program: &Program<'_>, l: &Loop, target: &Target) -> u32 {
    let (func, warps) = (&program.func, program.computing_warps());
    if program.epilogue_role.is_some() {
        let (high, _, split) = budgets(warps, true, target);
        return if split { most_of_epilogue(high, target).saturating_sub(SCALAR_REGISTERS) } else { 0 };
    }
    // Several blocks of a multiprocessor share its registers out by themselves.
    if program.launch.resident > 1 {
        return 0;
    }
    let producer = matches!(copying(program, &Graph::of(func)), Copying::Producer(_));
    let (high, ..) = budgets(warps, producer, target);
    high.saturating_sub(SCALAR_REGISTERS + most_alive(func, l.tiles))
}

/// Loads of whole arrays, in their order, as long as there is room; the registers that they take; why others are left.
fn what_fits(
    func: &Func<'_>,
    l: &Loop,
    all: &[(Inst, u32)],
    room: u32,
    who: &str,
) -> (Vec<Inst>, u32, Vec<String>) {
    let (mut loads, mut registers, mut remarks) = (Vec::new(), 0, Vec::new());
    let mut arrays: Vec<(u32, Vec<Inst>)> = Vec::new();
    for &(load, pointer) in all {
        match arrays.iter_mut().find(|a| a.0 == pointer) {
            Some((_, all)) => all.push(load),
            None => arrays.push((pointer, vec![load])),
        }
    }
    for (_, all) in arrays {
        let each: u32 = all.iter().map(|&i| func.ty(func.result(i)).regs()).sum();
        let takes = each.saturating_mul(l.most);
        if takes <= room - registers {
            registers += takes;
            loads.extend(all);
            continue;
        }
        remarks.push(format!(
            "line {}: {who} load it for every tile, which is the same for all of them: to hold it takes {takes} registers, {} are left",
            func.insts[all[0]].loc.line,
            room - registers
        ));
    }
    (loads, registers, remarks)
}

/// The last loop of a tile's work.
struct Loop {
    /// Body of the loop over tiles.
    tiles: Block,
    body: Block,
    counter: Value,
    /// Iterations at most.
    most: u32,
}

impl Loop {
    /// The last loop of a tile's work, if it has iterations, numbered from 0 and bounded.
    fn of(func: &Func<'_>) -> Option<Self> {
        let tiles = tiles(func).ok()?;
        let d = &func.insts[func.blocks[tiles].insts[last_loop(func, tiles).ok()?]];
        let Attr::Loop(attr) = &d.attr else { return None };
        let counts = (func.constant(d.args[0]), func.constant(d.args[2])) == (Some(0), Some(1));
        let body = d.blocks[0];
        attr.most.filter(|&most| counts && most > 0).map(|most| Self {
            tiles,
            body,
            counter: func.blocks[body].params[0],
            most,
        })
    }

    /// Loads that bring the same for every tile, each iteration its own, and the arrays that they read.
    fn loads(&self, func: &Func<'_>) -> Vec<(Inst, u32)> {
        let reads = |&i: &Inst| global_access(&func.insts[i]).is_some_and(|(_, writes)| !writes);
        let Some(tiles) = func.loop_of(self.tiles).filter(|_| func.blocks[self.body].insts.iter().any(reads))
        else {
            return Vec::new();
        };
        let invariance = Invariance::of(func);
        let mut made = Remaking::outside(func, self.tiles, self.counter);
        let mut found = Vec::new();
        for &inst in &func.blocks[self.body].insts {
            let Some((access, false)) = global_access(&func.insts[inst]) else { continue };
            if invariance.repeats_itself(func, inst, tiles) && made.operands(inst) {
                found.push((inst, access.pointer));
            }
        }
        found
    }
}

/// Loads before the loop over tiles, for each iteration, and picks in their place.
fn hoist(func: &mut Func<'_>, l: &Loop, loads: &[Inst]) {
    let entry = func.entry;
    let around = |i: &Inst| func.insts[*i].blocks.contains(&l.tiles);
    let at = func.blocks[entry].insts.iter().position(around).unwrap_or_default();
    let hoisted = func.insert_at(entry, at, |func| {
        let mut hoisted: Vec<Vec<Value>> = vec![vec![l.counter]; loads.len()];
        for n in 0..l.most {
            let loc = func.insts[loads[0]].loc;
            let counter = Cursor::new(func, entry, loc).imm(n.into());
            let mut known: FxHashMap<Value, Value> = [(l.counter, counter)].into_iter().collect();
            for (&load, hoisted) in loads.iter().zip(&mut hoisted) {
                hoisted.push(rematerialize(func, (l, func.result(load)), &mut known));
            }
        }
        hoisted
    });
    for (&load, hoisted) in loads.iter().zip(hoisted) {
        func.set_args(load, &hoisted);
        func.set_guard(load, None);
        let d = &mut func.insts[load];
        (d.op, d.attr, d.maps) = (Opcode::Pick, Attr::None, Default::default());
    }
}

/// A value of the loop's body once more at the end of the entry, for one iteration.
fn rematerialize(func: &mut Func<'_>, (l, v): (&Loop, Value), known: &mut FxHashMap<Value, Value>) -> Value {
    if let Some(&made) = known.get(&v) {
        return made;
    }
    let Some(def) = func.def(v).filter(|_| func.is_defined_in(v, l.tiles)) else { return v };
    let d = func.insts[def].clone();
    let args: Vec<Value> = d.args.iter().map(|&a| rematerialize(func, (l, a), known)).collect();
    let guard = d.guard.map(|g| Guard { pred: rematerialize(func, (l, g.pred), known), ..g });
    let (ty, entry) = (func.ty(v), func.entry);
    let mut c = Cursor::new(func, entry, d.loc);
    let scalars = ty == Ty::B32 && guard.is_none() && d.attr == Attr::None && d.maps.is_empty();
    let made = match args[..] {
        [a, b] if scalars => c.int(d.op, a, b),
        _ => c.value(NewInst::new(d.op, &args, &[ty]).attr(d.attr).maps(d.maps).guard(guard)),
    };
    known.insert(v, made);
    made
}
