//! The deferred epilogue: the results of a tile are stored under the next tile's main loop, if nothing prevents it.

use crate::analysis::{
    Copying, Graph, SCALAR_REGISTERS, budgets, copying, global_access, is_product, order_of, tile_loop,
    touched, yields,
};
use crate::rewrite::array_of;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Attr, Block, BufferKind, Deferral, Func, Inst, InstData, Program, Ty, Value};
use warplift_ir::target::{Effect, Opcode, Target};
use warplift_ir::tile::MemoryOrder;

/// The most iterations that are peeled off a main loop. Each one adds a copy of the body to the code.
const MAX_PARTS: usize = 4;

fn is_write(op: Opcode) -> bool {
    op.effect() == Effect::Write
}

/// Whether a store may be executed one tile later, and not at all for the first tile.
fn stores_late(data: &InstData<'_>) -> bool {
    let staged = matches!(data.op, Opcode::Stmatrix | Opcode::StShared | Opcode::StShared16);
    staged || data.op == Opcode::TmaStore || stores_plainly(data)
}

/// Whether an instruction stores or updates global memory, nobody waits for what was there, and nothing is ordered by it.
pub(crate) fn stores_plainly(data: &InstData<'_>) -> bool {
    let writes = global_access(data).is_some_and(|(_, writes)| writes);
    writes && data.results.is_empty() && order_of(data) == MemoryOrder::Relaxed
}

pub(super) fn deferral(program: &Program<'_>, graph: &Graph, target: &Target) -> Result<Deferral, String> {
    let func = &program.func;
    let outer = tile_loop(func).ok_or("the kernel is not persistent")?;
    let body = func.insts[outer].blocks[0];
    let insts = &func.blocks[body].insts;
    let is_main = |i: &Inst| {
        let d = &func.insts[*i];
        d.op == Opcode::For && func.blocks[d.blocks[0]].insts.iter().any(|&j| is_product(func.insts[j].op))
    };
    let at = insts.iter().rposition(is_main).ok_or("no loop of products inside")?;
    let inner = insts[at];
    if func.insts[inner].is_conditional_loop() {
        return Err("an iteration of the main loop decides if another follows".to_owned());
    }
    let rest = &insts[at + 1..];
    if rest.iter().any(|&i| func.insts[i].op == Opcode::For || is_product(func.insts[i].op)) {
        return Err("more than stores follows the main loop".to_owned());
    }
    let scratch = |i: &Inst| {
        let touched = touched(&func.insts[*i].attr, func.insts[*i].op);
        touched.iter().any(|&(b, _)| program.buffers[b].kind == BufferKind::Scratch)
    };
    if rest.iter().any(scratch) {
        return Err("results are exchanged between threads on their way".to_owned());
    }
    if matches!(copying(program, graph), Copying::Producer { decisions, .. } if !decisions.is_empty()) {
        return Err("the producer waits for what threads find behind the main loop".to_owned());
    }
    if graph.conflicts_in_global(func) {
        return Err("what is stored is read as well".to_owned());
    }
    if let Some(d) = rest.iter().map(|&i| &func.insts[i]).find(|d| is_write(d.op) && !stores_late(d)) {
        return Err(format!("`{}` is not held back for a tile", d.op.name()));
    }
    let groups = store_groups(func, rest);
    if groups.is_empty() {
        return Err("nothing is stored after the main loop".to_owned());
    }
    passes_none(program, rest)?;
    let parts = spread(groups);
    let d = Deferral { outer, inner, parts };
    check_registers(program, &d, target)?;
    Ok(d)
}

/// Checks that no store that is held back passes another access that is not: one that stores to the same array behind it, or
/// one that orders what stands before it, as a flag does.
fn passes_none(program: &Program<'_>, rest: &[Inst]) -> Result<(), String> {
    let func = &program.func;
    let mut held: FxHashSet<Option<&str>> = FxHashSet::default();
    for &inst in rest {
        let data = &func.insts[inst];
        if data.op == Opcode::TmaStore || stores_plainly(data) {
            held.insert(array(program, data));
            continue;
        }
        for d in with_inside(func, inst).iter().map(|&i| &func.insts[i]) {
            let writes = d.op == Opcode::TmaStore || global_access(d).is_some_and(|(_, writes)| writes);
            if order_of(d) != MemoryOrder::Relaxed || writes && held.contains(&array(program, d)) {
                return Err(format!("a store would pass the `{}` behind it", d.op.name()));
            }
        }
    }
    Ok(())
}

/// An instruction and those of its blocks.
fn with_inside(func: &Func<'_>, inst: Inst) -> Vec<Inst> {
    let inside = func.insts[inst].blocks.iter().flat_map(|&b| func.blocks[b].insts.iter());
    std::iter::once(inst).chain(inside.flat_map(|&i| with_inside(func, i))).collect()
}

/// The array in global memory that an instruction accesses.
fn array<'p>(program: &'p Program<'_>, data: &InstData<'_>) -> Option<&'p str> {
    match data.attr {
        Attr::Tma(t) => array_of(program, t.map),
        _ => array_of(program, global_access(data)?.0.pointer),
    }
}

/// Stores after the main loop, in groups: one for each tensor copy or plain store, with what it alone uses and may be computed
/// late.
fn store_groups(func: &Func<'_>, rest: &[Inst]) -> Vec<Vec<Inst>> {
    let mut groups: Vec<Vec<Inst>> = vec![Vec::new()];
    let mut closed = false;
    for &inst in rest {
        let data = &func.insts[inst];
        let ends = data.op == Opcode::TmaStore || stores_plainly(data);
        if !is_write(data.op) && !ends {
            continue;
        }
        if closed && !ends {
            groups.push(Vec::new());
            closed = false;
        }
        closed |= ends;
        if let Some(g) = groups.last_mut() {
            g.push(inst);
        }
    }
    groups.retain(|g| !g.is_empty());
    let stored: FxHashSet<Inst> = groups.iter().flatten().copied().collect();
    let late = computed_late(func, rest, &stored);
    for g in &mut groups {
        let needed = slice_within(func, g, &late);
        let mut all: Vec<Inst> =
            rest.iter().copied().filter(|i| needed.contains(i) || g.contains(i)).collect();
        std::mem::swap(g, &mut all);
    }
    groups
}

/// What is computed when it is stored: its users are all deferred, and holding its operands takes no more registers.
fn computed_late(func: &Func<'_>, rest: &[Inst], stored: &FxHashSet<Inst>) -> FxHashSet<Inst> {
    let place = rest.iter().enumerate().map(|(n, &inst)| (inst, n)).collect();
    let mut all = Late { func, place, late: stored.clone() };
    for &inst in rest.iter().rev() {
        if all.may_hold(inst) && all.is_held_as_well(inst) {
            all.late.insert(inst);
        }
    }
    all.late
}

/// What follows a main loop, from its end: which of it goes with the stores.
struct Late<'f, 'a> {
    func: &'f Func<'a>,
    /// The place of each instruction behind the main loop.
    place: FxHashMap<Inst, usize>,
    /// What goes with the stores.
    late: FxHashSet<Inst>,
}

impl Late<'_, '_> {
    /// Whether an instruction has no effect, and all that uses its results, also in branches, goes with the stores.
    fn may_hold(&self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        let users_late = || data.results.iter().all(|&r| self.func.users(r).all(|u| self.late.contains(&u)));
        data.op.is_pure() && !data.results.is_empty() && users_late()
    }

    /// Registers of the fragments among some values.
    fn width(&self, values: &[Value]) -> u32 {
        values.iter().filter(|&&v| self.is_held(v)).map(|&v| self.func.ty(v).regs()).sum()
    }

    fn is_held(&self, v: Value) -> bool {
        self.func.ty(v).is_frag() && self.func.constant(v).is_none()
    }

    /// Whether an instruction's operands may be held in its result's place: it is a view or a scalar, or its fragments are no
    /// wider than its result, as pairs of halves that are bounded; or than what all their users make of them, as pairs taken
    /// apart.
    fn is_held_as_well(&self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        let (args, results) = (self.width(data.args), self.width(data.results));
        if data.op == Opcode::Slice || results == 0 || args <= results {
            return true;
        }
        let held = data.args.iter().filter(|&&v| self.is_held(v));
        let sharers: FxHashSet<Inst> = held.flat_map(|&v| self.func.users(v)).collect();
        // What stands behind this instruction has been decided.
        let decided = |i: &Inst| self.place.get(i) > self.place.get(&inst);
        let all_late = sharers.iter().all(|i| match self.place.contains_key(i) {
            true => self.late.contains(i) || !decided(i) && self.may_hold(*i),
            false => false,
        });
        all_late && args <= sharers.iter().map(|&i| self.width(self.func.insts[i].results)).sum()
    }
}

fn slice_within(func: &Func<'_>, group: &[Inst], late: &FxHashSet<Inst>) -> FxHashSet<Inst> {
    let mut needed = FxHashSet::default();
    let mut work: Vec<Inst> = group.to_vec();
    while let Some(inst) = work.pop() {
        let d = &func.insts[inst];
        for &v in d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred)) {
            work.extend(func.def(v).filter(|i| late.contains(i) && needed.insert(*i)));
        }
    }
    needed
}

/// Distributes groups over at most [`MAX_PARTS`] parts, in order.
fn spread(groups: Vec<Vec<Inst>>) -> Vec<Vec<Inst>> {
    let parts = groups.len().min(MAX_PARTS);
    let mut out: Vec<Vec<Inst>> = vec![Vec::new(); parts];
    let total = groups.len();
    for (i, g) in groups.into_iter().enumerate() {
        for inst in g {
            let part = &mut out[i * parts / total];
            if !part.contains(&inst) {
                part.push(inst);
            }
        }
    }
    out
}

/// Whether the main loop's trip count is another one for each tile.
pub(crate) fn trips_vary(func: &Func<'_>, d: &Deferral) -> bool {
    let body = func.insts[d.outer].blocks[0];
    let varies = |&v: &Value| func.constant(v).is_none() && func.is_defined_in(v, body);
    func.insts[d.inner].args[..3].iter().any(varies)
}

/// Values of the outer body that deferred instructions need. They are carried to the next iteration.
pub(crate) fn pending(func: &Func<'_>, d: &Deferral) -> Vec<Value> {
    let body = func.insts[d.outer].blocks[0];
    let late: FxHashSet<Inst> = d.parts.iter().flatten().copied().collect();
    let mut found = Vec::new();
    for &inst in d.parts.iter().flatten() {
        let data = &func.insts[inst];
        for &v in data.args.iter().chain(data.guard.as_ref().map(|g| &g.pred)) {
            let carried = func.is_defined_in(v, body)
                && func.constant(v).is_none()
                && !func.def(v).is_some_and(|i| late.contains(&i));
            if carried && !found.contains(&v) {
                found.push(v);
            }
        }
    }
    found
}

fn check_registers(program: &Program<'_>, d: &Deferral, target: &Target) -> Result<(), String> {
    let func = &program.func;
    let held: u32 = pending(func, d).iter().map(|&v| func.ty(v).regs()).sum();
    let main: u32 = func.insts[d.inner].results.iter().map(|&v| func.ty(v).regs()).sum();
    let (budget, ..) = budgets(program.warps * program.teams, true, target);
    // Operands of products of warps, for two steps.
    let fragments = 2 * operand_registers(func, func.insts[d.inner].blocks[0]);
    // Work between tiles runs in place of accumulators that it has read. If that does not suffice, allocation says so.
    let needed = held + main + fragments + SCALAR_REGISTERS;
    if needed > budget {
        return Err(format!(
            "{held} registers of results beside {} of accumulators and operands and {SCALAR_REGISTERS} others exceed {budget}",
            main + fragments
        ));
    }
    let loops_ok = yields(func, func.insts[d.inner].blocks[0]).iter().all(|&v| func.ty(v) != Ty::Event);
    if loops_ok { Ok(()) } else { Err("events leave the main loop".to_owned()) }
}

/// Registers of the operands of a block's widest product of warps.
fn operand_registers(func: &Func<'_>, block: Block) -> u32 {
    let products = func.blocks[block].insts.iter().map(|&i| &func.insts[i]);
    let products = products.filter(|d| d.op == Opcode::MmaSync);
    products.map(|d| d.args[1..].iter().map(|&v| func.ty(v).regs()).sum()).max().unwrap_or(0)
}
