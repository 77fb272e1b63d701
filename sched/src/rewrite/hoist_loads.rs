//! What a loop of epilogue warps loads alike for every tile, they load once and hold in registers.
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
//! Registers have no addresses: the loop's body stands there once for each iteration (`expand::unroll`), so that they must be
//! bounded. What comes from the L2 cache for every tile is what bounds such a kernel: a row of 128 KB with as much of `w` and
//! of `b` is 384 KB to a multiprocessor (measured: without `w` 0.93 of a copy where 0.88 were possible).
//!
//! Consumers need few registers for their half: what epilogue warps hold is taken from both, by what each needs (`setmaxnreg`).

use crate::analysis::{SCALAR_REGISTERS, budgets, global_access, last_loop, most_of_epilogue, tiles};
use crate::feature::Feature;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{
    Attr, Block, Cursor, EpilogueRole, Func, Guard, Inst, InstData, NewInst, Program, Ty, Value,
};
use warplift_ir::target::{Opcode, Target};

/// Instructions of all bodies together at most: three quarters of what 128 KB of instruction cache hold (`layer_norm_warp_specialized`, where
/// this pays, has half as many).
const MOST_INSTRUCTIONS: u32 = 6144;

/// Lets epilogue warps hold what is the same for all tiles, if registers suffice; what was left, and why.
pub fn do_hoist_loads<'a>(
    mut program: Program<'a>,
    target: &Target,
    disabled: &[Feature],
) -> (Program<'a>, Vec<String>) {
    let Some(epilogue_role) =
        program.epilogue_role.clone().filter(|_| !disabled.contains(&Feature::HoistLoads))
    else {
        return (program, Vec::new());
    };
    let Some(l) = Loop::of(&program.func) else { return (program, Vec::new()) };
    if let Some(why) = too_long(&program.func, &l) {
        return (program, vec![why]);
    }
    let (loads, hoisted_registers, remarks) = what_fits(&program, &l, room(&program, target));
    if !loads.is_empty() {
        hoist(&mut program.func, &l, &loads);
        program.epilogue_role = Some(EpilogueRole { hoisted_registers, ..epilogue_role });
    }
    (program, remarks)
}

/// Why a body is not written for each iteration, where there is something to hold.
fn too_long(func: &Func<'_>, l: &Loop) -> Option<String> {
    let each = length(func, l.body);
    let all = each.saturating_mul(l.most);
    (all > MOST_INSTRUCTIONS && !l.loads(func).is_empty()).then(|| {
        format!(
            "epilogue warps hold nothing for all tiles: {} bodies of {each} instructions are {all}, at most {MOST_INSTRUCTIONS} are worth it",
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

/// Registers that epilogue warps may hold something in.
fn room(program: &Program<'_>, target: &Target) -> u32 {
    let (high, _, split) = budgets(program.computing_warps(), true, target);
    if split { most_of_epilogue(high).saturating_sub(SCALAR_REGISTERS) } else { 0 }
}

/// Loads of whole arrays, in their order, as long as there is room; the registers that they take; why others are left.
fn what_fits(program: &Program<'_>, l: &Loop, room: u32) -> (Vec<Inst>, u32, Vec<String>) {
    let func = &program.func;
    let (mut loads, mut hoisted_registers, mut remarks) = (Vec::new(), 0, Vec::new());
    let mut arrays: Vec<(u32, Vec<Inst>)> = Vec::new();
    for (load, pointer) in l.loads(func) {
        match arrays.iter_mut().find(|a| a.0 == pointer) {
            Some((_, all)) => all.push(load),
            None => arrays.push((pointer, vec![load])),
        }
    }
    for (_, all) in arrays {
        let each: u32 = all.iter().map(|&i| func.ty(func.result(i)).regs()).sum();
        let takes = each.saturating_mul(l.most);
        if takes <= room - hoisted_registers {
            hoisted_registers += takes;
            loads.extend(all);
            continue;
        }
        remarks.push(format!(
            "line {}: epilogue warps load it for every tile, which is the same for all of them: to hold it takes {takes} registers, {} are left",
            func.insts[all[0]].loc.line,
            room - hoisted_registers
        ));
    }
    (loads, hoisted_registers, remarks)
}

/// The loop of the second half.
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

    /// Loads that bring the same for every tile, and the arrays that they read, which nothing writes.
    fn loads(&self, func: &Func<'_>) -> Vec<(Inst, u32)> {
        let all = func.insts.values().filter_map(global_access);
        let written: Vec<u32> = all.filter(|(_, writes)| *writes).map(|(access, _)| access.pointer).collect();
        let read = |&i: &Inst| {
            let (access, writes) = global_access(&func.insts[i])?;
            let fixed = || self.are_fixed(func, &func.insts[i], &mut FxHashSet::default());
            let fits = !writes && !written.contains(&access.pointer) && fixed();
            fits.then_some((i, access.pointer))
        };
        func.blocks[self.body].insts.iter().filter_map(read).collect()
    }

    /// Whether operands depend on nothing of a tile but the loop's counter.
    fn are_fixed(&self, func: &Func<'_>, d: &InstData<'_>, seen: &mut FxHashSet<Value>) -> bool {
        d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred)).all(|&v| self.is_fixed(func, v, seen))
    }

    /// Whether a value that was not seen before is: one that is not ends the search.
    fn is_fixed(&self, func: &Func<'_>, v: Value, seen: &mut FxHashSet<Value>) -> bool {
        if v == self.counter || !seen.insert(v) || !func.is_defined_in(v, self.tiles) {
            return true;
        }
        let made = func.def(v).map(|i| &func.insts[i]);
        made.is_some_and(|d| d.op.is_pure() && d.blocks.is_empty() && self.are_fixed(func, d, seen))
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
