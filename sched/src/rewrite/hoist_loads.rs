//! Loads that do not depend on the tile are hoisted out of the loop over tiles and kept in registers.
//!
//! ```text
//!                                        w0 = load w[0]; w1 = load w[1]; ..
//!  for tile ..                           for tile ..
//!    s = load of the handoff               s = load of the handoff
//!    for u                          ─►     for u
//!      x = load x[tile, u]                   x = load x[tile, u]
//!      w = load w[u]                         w = pick u of w0, w1, ..
//!      store f(s, x, w)                      store f(s, x, w)
//! ```
//!
//! A load qualifies under three conditions:
//!
//! - Nothing writes its array.
//! - Its address can be computed before the loop over tiles.
//! - It changes only with the counter of a tile's last loop, or not at all (`analysis::invariance`).
//!
//! Registers cannot be indexed, so a tile's last loop is unrolled fully (`expand::unroll`), and its number of
//! iterations must be bounded. A load that stands directly in the loop over tiles needs neither.
//!
//! Traffic from the L2 cache limits such kernels. A row of 128 KB with as much of `w` and of `b` is 384 KB for each
//! tile (measured: 0.93 of a copy's rate without `w`, 0.88 with it). The registers that the fragments of a tile's work
//! leave decide how many arrays are hoisted. If epilogue warps run the loop, the consumers need few registers for their
//! half of the work, and `setmaxnreg` gives the rest to the epilogue warps.

use crate::analysis::{
    Copying, Graph, Invariance, Remaking, SCALAR_REGISTERS, budgets, copying, epilogue_insts, global_access,
    handoff, last_loop, limit, most_alive, tiles,
};
use crate::feature::Feature;
use rustc_hash::FxHashMap;
use warplift_ir::machine::{Attr, Block, Cursor, Func, Guard, Inst, NewInst, Program, Ty, Value};
use warplift_ir::target::{Opcode, Target};

/// Hoists loads that are the same for all tiles, if there are enough registers. The remarks name the loads that stay,
/// and why.
pub fn do_hoist_loads<'a>(
    mut program: Program<'a>,
    graph: &mut Graph,
    target: &Target,
    disabled: &[Feature],
) -> (Program<'a>, Vec<String>) {
    let mut remarks = Vec::new();
    let tiles = tiles(&program.func).ok().filter(|_| !disabled.contains(&Feature::HoistLoads));
    let Some(tiles) = tiles.filter(|&t| reads_global(&program.func, graph, t)) else {
        return (program, remarks);
    };
    let mut room = Room::of(&program, graph, tiles, target);
    let direct = direct_loads(&program, graph, tiles);
    let loads = room.take(&program.func, &direct, 1, &mut remarks);
    hoist_direct(&mut program.func, tiles, &loads);
    graph.update(&mut program.func);
    if let Some(l) = Loop::of(&program.func, tiles) {
        hoist_from_loop(&mut program.func, graph, &l, (room, target), &mut remarks);
    }
    graph.update(&mut program.func);
    (program, remarks)
}

/// Whether anything inside a block reads global memory.
fn reads_global(func: &Func<'_>, graph: &Graph, block: Block) -> bool {
    let mut reads = graph.global_accesses(func).iter().filter(|g| !g.writes);
    reads.any(|g| func.block_of(g.inst).is_some_and(|b| func.is_within(b, block)))
}

/// Hoists loads out of a tile's last loop. Each iteration has loads of its own.
fn hoist_from_loop(
    func: &mut Func<'_>,
    graph: &Graph,
    l: &Loop,
    (mut room, target): (Room, &Target),
    remarks: &mut Vec<String>,
) {
    let loads = l.loads(func, graph);
    if loads.is_empty() {
        return;
    }
    if let Some(why) = too_long(func, l, room.who, target) {
        return remarks.push(why);
    }
    let loads = room.take(func, &loads, l.most, remarks);
    if !loads.is_empty() {
        hoist(func, l, &loads);
    }
}

/// Why a loop is not unrolled fully. All copies of the body together may take three quarters of the instruction cache.
/// (`layer_norm_warp_specialized` gains from unrolling, and takes half of that.)
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

/// Number of instructions of a block with its nested blocks. Repetitions over the registers of fragments count.
fn length(func: &Func<'_>, block: Block) -> u32 {
    let of = |&i: &Inst| {
        let d = &func.insts[i];
        let repeats = d.results.first().filter(|_| !d.maps.is_empty()).map_or(1, |&r| func.ty(r).regs());
        repeats + d.blocks.iter().map(|&b| length(func, b)).sum::<u32>()
    };
    func.blocks[block].insts.iter().map(of).sum()
}

/// Registers available for hoisted loads.
struct Room {
    /// The role that runs the end of a tile's work.
    who: &'static str,
    registers: u32,
}

impl Room {
    /// The room that the fragments of a role leave. The role is the one that runs a tile's last loop. For epilogue
    /// warps, the room is limited by what consumers can spare.
    fn of(program: &Program<'_>, graph: &Graph, tiles: Block, target: &Target) -> Self {
        let (func, warps) = (&program.func, program.computing_warps());
        if handoff(program).is_some() {
            let (.., split) = budgets(warps, true, target);
            let all = if split { limit(2, warps, target) } else { 0 };
            return Self { who: "epilogue warps", registers: all.saturating_sub(SCALAR_REGISTERS) };
        }
        // Several blocks of a multiprocessor divide its registers among themselves.
        if program.launch.resident > 1 {
            return Self { who: "consumers", registers: 0 };
        }
        let producer = matches!(copying(program, graph), Copying::Producer { .. });
        let (high, ..) = budgets(warps, producer, target);
        let deferred = if program.deferred { widest_sums(func, tiles) } else { 0 };
        let taken = SCALAR_REGISTERS + most_alive(func, tiles) + deferred;
        Self { who: "consumers", registers: high.saturating_sub(taken) }
    }

    /// Takes the loads of whole arrays, in order, while there is room for `times` of each load. A remark names
    /// the other arrays.
    fn take(
        &mut self,
        func: &Func<'_>,
        all: &[(Inst, u32)],
        times: u32,
        remarks: &mut Vec<String>,
    ) -> Vec<Inst> {
        let mut loads = Vec::new();
        let mut arrays: Vec<(u32, Vec<Inst>)> = Vec::new();
        for &(load, pointer) in all {
            match arrays.iter_mut().find(|a| a.0 == pointer) {
                Some((_, all)) => all.push(load),
                None => arrays.push((pointer, vec![load])),
            }
        }
        for (_, all) in arrays {
            let each: u32 = all.iter().map(|&i| func.ty(func.result(i)).regs()).sum();
            let takes = each.saturating_mul(times);
            if takes <= self.registers {
                self.registers -= takes;
                loads.extend(all);
                continue;
            }
            remarks.push(format!(
                "line {}: the {} load it again for every tile: to hold it takes {takes} registers, {} are left",
                func.insts[all[0]].loc.line, self.who, self.registers
            ));
        }
        loads
    }
}

/// Registers of the largest accumulators that a loop inside a block leaves. A deferred epilogue keeps them beside those
/// of the next tile.
fn widest_sums(func: &Func<'_>, block: Block) -> u32 {
    let loops = func.blocks[block].insts.iter().map(|&i| &func.insts[i]).filter(|d| d.op == Opcode::For);
    loops.map(|d| d.results.iter().map(|&r| func.ty(r).regs()).sum()).max().unwrap_or(0)
}

/// Loads directly in the loop over tiles that are the same for every tile, each with its array. If epilogue warps end a
/// tile's work, only their loads count.
fn direct_loads(program: &Program<'_>, graph: &Graph, tiles: Block) -> Vec<(Inst, u32)> {
    let func = &program.func;
    let own = match handoff(program) {
        Some(_) => epilogue_insts(program).unwrap_or_default(),
        None => func.blocks[tiles].insts.iter().copied().collect(),
    };
    let reads = |&i: &Inst| match global_access(&func.insts[i]) {
        Some((access, false)) if own.contains(&i) => Some((i, access.pointer)),
        _ => None,
    };
    let all: Vec<(Inst, u32)> = func.blocks[tiles].insts.iter().filter_map(reads).collect();
    let Some(looped) = func.loop_of(tiles).filter(|_| !all.is_empty()) else { return Vec::new() };
    let invariance = Invariance::of(func, graph);
    let mut made = Remaking::outside(func, tiles, None);
    let same = |&(i, _): &(Inst, u32)| invariance.repeats_itself(func, i, looped) && made.operands(i);
    all.into_iter().filter(same).collect()
}

/// Moves loads out of the loop over tiles, in front of it.
fn hoist_direct(func: &mut Func<'_>, tiles: Block, loads: &[Inst]) {
    let hoisted = before_tiles(func, tiles, |func| {
        let mut known = FxHashMap::default();
        loads.iter().map(|&i| rematerialize(func, (tiles, func.result(i)), &mut known)).collect::<Vec<_>>()
    });
    for (&load, new) in loads.iter().zip(hoisted) {
        let old = func.result(load);
        for user in func.users(old).collect::<Vec<_>>() {
            func.rename(user, |v| if v == old { new } else { v });
        }
        func.remove(load);
    }
}

/// Places the instructions that `make` adds at the end of the entry block before the loop over tiles.
fn before_tiles<T>(func: &mut Func<'_>, tiles: Block, make: impl FnOnce(&mut Func<'_>) -> T) -> T {
    let entry = func.entry;
    let around = |i: &Inst| func.insts[*i].blocks.contains(&tiles);
    let at = func.blocks[entry].insts.iter().position(around).unwrap_or_default();
    func.insert_at(entry, at, make)
}

/// The last loop of a tile's work.
struct Loop {
    /// Body of the loop over tiles.
    tiles: Block,
    body: Block,
    counter: Value,
    /// The most iterations.
    most: u32,
}

impl Loop {
    /// The last loop of a tile's work, if it has one whose counter starts at 0 and is bounded.
    fn of(func: &Func<'_>, tiles: Block) -> Option<Self> {
        let d = &func.insts[func.blocks[tiles].insts[last_loop(func, tiles).ok()?]];
        let Attr::Loop(attr) = &d.attr else { return None };
        let [low, _, step] = d.loop_bounds()?;
        let counts = (func.constant(low), func.constant(step)) == (Some(0), Some(1));
        let body = d.blocks[0];
        attr.most.filter(|&most| counts && most > 0).map(|most| Self {
            tiles,
            body,
            counter: func.blocks[body].params[0],
            most,
        })
    }

    /// Loads of the loop that are the same for every tile and differ by iteration, each with its array. Scalars stay: every
    /// role that needs one loads it, and only the role whose loop is unrolled could pick it.
    fn loads(&self, func: &Func<'_>, graph: &Graph) -> Vec<(Inst, u32)> {
        let reads = |&i: &Inst| global_access(&func.insts[i]).is_some_and(|(_, writes)| !writes);
        let Some(tiles) = func.loop_of(self.tiles).filter(|_| func.blocks[self.body].insts.iter().any(reads))
        else {
            return Vec::new();
        };
        let invariance = Invariance::of(func, graph);
        let mut made = Remaking::outside(func, self.tiles, Some(self.counter));
        let mut found = Vec::new();
        for &inst in &func.blocks[self.body].insts {
            let Some((access, false)) = global_access(&func.insts[inst]) else { continue };
            let scalar = func.values[func.result(inst)].uniform;
            if !scalar && invariance.repeats_itself(func, inst, tiles) && made.operands(inst) {
                found.push((inst, access.pointer));
            }
        }
        found
    }
}

/// Places a load for each iteration before the loop over tiles, and replaces the original loads by picks.
fn hoist(func: &mut Func<'_>, l: &Loop, loads: &[Inst]) {
    let entry = func.entry;
    let hoisted = before_tiles(func, l.tiles, |func| {
        let mut hoisted: Vec<Vec<Value>> = vec![vec![l.counter]; loads.len()];
        for n in 0..l.most {
            let loc = func.insts[loads[0]].loc;
            let counter = Cursor::new(func, entry, loc).imm(n.into());
            let mut known: FxHashMap<Value, Value> = [(l.counter, counter)].into_iter().collect();
            for (&load, hoisted) in loads.iter().zip(&mut hoisted) {
                hoisted.push(rematerialize(func, (l.tiles, func.result(load)), &mut known));
            }
        }
        hoisted
    });
    for (&load, hoisted) in loads.iter().zip(hoisted) {
        func.set_args(load, &hoisted);
        func.set_guard(load, None);
        func.set_op(load, Opcode::Pick, Attr::None);
        func.insts[load].maps.clear();
    }
}

/// Computes a value of the loop over tiles again, at the end of the entry block.
fn rematerialize(
    func: &mut Func<'_>,
    (tiles, v): (Block, Value),
    known: &mut FxHashMap<Value, Value>,
) -> Value {
    if let Some(&made) = known.get(&v) {
        return made;
    }
    let Some(def) = func.def(v).filter(|_| func.is_defined_in(v, tiles)) else { return v };
    let d = func.insts[def].clone();
    let args: Vec<Value> = d.args.iter().map(|&a| rematerialize(func, (tiles, a), known)).collect();
    let guard = d.guard.map(|g| Guard { pred: rematerialize(func, (tiles, g.pred), known), ..g });
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
