//! The deferred epilogue: the results of a tile are stored under the next tile's main loop, if nothing prevents it.

use crate::analysis::{
    Graph, SCALAR_REGISTERS, budgets, global_access, is_product, order_of, tile_loop, touched, yields,
};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Block, BufferKind, Deferral, Func, Inst, InstData, Program, Ty, Value};
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
    let parts = spread(groups);
    let d = Deferral { outer, inner, parts };
    check_registers(program, &d, target)?;
    Ok(d)
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
    let mut late = stored.clone();
    for &inst in rest.iter().rev() {
        if may_be_late(func, rest, inst, &late) && is_held_as_well(func, rest, inst, &late) {
            late.insert(inst);
        }
    }
    late
}

/// Whether an instruction has no effect, and whoever uses its results is deferred.
fn may_be_late(func: &Func<'_>, rest: &[Inst], inst: Inst, late: &FxHashSet<Inst>) -> bool {
    let data = &func.insts[inst];
    let users_late =
        || data.results.iter().all(|r| rest.iter().all(|&u| late.contains(&u) || !uses(func, u, *r)));
    data.op.is_pure() && !data.results.is_empty() && users_late()
}

/// Whether an instruction's operands may be held in its result's place: it is a view or a scalar, or its fragments are no wider
/// than its result, as pairs of halves that are bounded; or than what all their users make of them, as pairs taken apart.
fn is_held_as_well(func: &Func<'_>, rest: &[Inst], inst: Inst, late: &FxHashSet<Inst>) -> bool {
    let data = &func.insts[inst];
    let is_held = |v: Value| func.ty(v).is_frag() && func.constant(v).is_none();
    let width = |values: &[Value]| -> u32 {
        values.iter().filter(|&&v| is_held(v)).map(|&v| func.ty(v).regs()).sum()
    };
    if data.op == Opcode::Slice || width(data.results) == 0 || width(data.args) <= width(data.results) {
        return true;
    }
    let shares = |&&user: &&Inst| data.args.iter().any(|&v| is_held(v) && uses(func, user, v));
    let sharers: Vec<Inst> = rest.iter().filter(shares).copied().collect();
    let all_late = sharers.iter().all(|&i| late.contains(&i) || may_be_late(func, rest, i, late));
    all_late && width(data.args) <= sharers.iter().map(|&i| width(func.insts[i].results)).sum()
}

fn uses(func: &Func<'_>, inst: Inst, v: Value) -> bool {
    let d = &func.insts[inst];
    d.args.contains(&v) || d.guard.is_some_and(|g| g.pred == v)
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
