//! The schedule of a program, as data: roles, rings, staging slots, deferral.

use crate::cluster::do_multicast;
use crate::dedup_mma::{do_helper, helper_rings};
use crate::graph::{conflicts_in_global, copy_place, touched, yields};
use crate::mma_order::do_mma_order;
use crate::pdl::do_pdl;
use crate::rings::{epilogue_rings, find_rings, hold_back};
use crate::roles::{do_epilogue, do_roles};
use crate::{Result, SchedError};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use warplift_ir::machine::{
    Attr, Block, Buffer, BufferKind, Deferral, Func, Inst, Program, RingFill, Schedule, Ty, Value,
};
use warplift_ir::target::{Effect, Opcode, Target};

/// Peeled iterations of a main loop at most: code grows by a copy each.
const MAX_PARTS: usize = 4;
/// Blocks of a cluster at most: more gain nothing where power limits, and couple more blocks.
const MAX_CLUSTER: u32 = 2;
/// Threads that a multiprocessor holds at once.
const RESIDENT_THREADS: u32 = 2048;
/// Warps of a warpgroup.
pub(crate) const WARPGROUP: u32 = 4;
/// Registers that a consumer needs beside its fragments: addresses, rings, coordinates.
pub(crate) const SCALAR_REGISTERS: u32 = 30;

/// What a schedule does by itself and can be told to leave, to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Feature {
    /// A warp of its own that copies; without it, one thread of those that compute copies stage by stage.
    WarpSpecialization,
    /// Copies to all blocks of a cluster.
    Multicast,
    /// Results stored under the next tile.
    Deferral,
    /// Products left in flight over an iteration.
    InFlight,
    /// Loops overlapped with themselves.
    Modulo,
    /// Warpgroups that take turns at the tensor cores.
    MmaOrder,
    /// Waits for products kept where the schedule has them.
    Pins,
    /// Elementwise chains cut, so that a loop's fragments fit twice.
    ElementwiseSubtiles,
    /// Loops whose body stands there once for each slot.
    Unroll,
    /// What is the same for all tiles, held in registers of those that end a tile's work.
    HoistLoads,
}

impl Feature {
    /// All of them, by the names that [`std::str::FromStr`] takes.
    pub const ALL: [(&'static str, Self); 10] = [
        ("warp-specialization", Self::WarpSpecialization),
        ("multicast", Self::Multicast),
        ("deferral", Self::Deferral),
        ("in-flight", Self::InFlight),
        ("modulo", Self::Modulo),
        ("mma-order", Self::MmaOrder),
        ("pins", Self::Pins),
        ("elementwise-subtiles", Self::ElementwiseSubtiles),
        ("unroll", Self::Unroll),
        ("hoist-loads", Self::HoistLoads),
    ];
}

/// Decides roles, rings and deferral.
///
/// # Errors
/// Limits of the target, by number.
pub fn do_schedule(program: &Program<'_>, target: &Target) -> Result<Schedule> {
    do_schedule_without(program, target, &[])
}

/// A schedule without some features.
///
/// # Errors
/// Limits of the target, by number.
pub fn do_schedule_without(program: &Program<'_>, target: &Target, disabled: &[Feature]) -> Result<Schedule> {
    let mut s = Schedule::default();
    let has = |f: Feature| !disabled.contains(&f);
    check_limits(program, target)?;
    if has(Feature::WarpSpecialization) {
        do_roles(program, &mut s);
    }
    let late = do_epilogue(program, &mut s)?;
    do_helper(program, &mut s);
    check_resident(program, &s)?;
    find_rings(program, &mut s)?;
    epilogue_rings(program, &late, &mut s);
    helper_rings(program, &mut s);
    hold_back(program, &mut s);
    if !s.producer && program.teams > 1 && !s.rings.is_empty() {
        let what = "teams in turn without a producer: the barriers of one would meet the whole block";
        return Err(word("pingpong", what));
    }
    if !s.producer {
        // Filled and emptied in turn by the same threads: a second stage would stay empty.
        s.rings.values_mut().filter(|r| r.fill == RingFill::Tma).for_each(|r| r.wish = Some(1));
    } else if has(Feature::Multicast) {
        do_multicast(program, &mut s);
    }
    for (b, d) in program.buffers.iter() {
        s.slots[b] = if d.kind == BufferKind::Staging && stored_again(program, b) { 2 } else { 1 };
    }
    do_pdl(program, &mut s);
    for inst in program.func.insts.keys().filter(|_| has(Feature::InFlight)) {
        in_flight(program, inst, &mut s);
    }
    if program.deferred && has(Feature::Deferral) {
        match deferral(program, target) {
            Ok(d) => s.deferral = Some(d),
            Err(reason) => s.remarks.push(format!("deferred epilogue declined: {reason}")),
        }
    }
    if has(Feature::MmaOrder) {
        do_mma_order(program, &mut s);
    }
    Ok(s)
}

/// Whether a staging buffer is used more than once: a second slot hides the copy of the first.
fn stored_again(program: &Program<'_>, buffer: Buffer) -> bool {
    let func = &program.func;
    let uses = func.blocks.keys().map(|block| {
        let sites = staging_sites(program, block).iter().filter(|(_, b)| *b == buffer).count();
        sites * if loop_of(func, block).is_some() { 2 } else { 1 }
    });
    uses.sum::<usize>() > 1
}

fn check_limits(program: &Program<'_>, target: &Target) -> Result<()> {
    let threads = 32 * program.computing_warps() + 128;
    if threads > 1024 + 128 {
        return Err(SchedError::Threads { threads });
    }
    let size = program.launch.cluster;
    let limit = target.cluster.min(if program.blocks > 1 { target.cluster } else { MAX_CLUSTER });
    if size > limit {
        return Err(SchedError::Cluster { size, limit });
    }
    let copies = program.func.insts.values().any(|d| d.op == Opcode::CpAsync);
    if let Some(op) = program.func.insts.values().map(|d| d.op).find(|&op| program.blocks > 1 && is_local(op))
    {
        let what = format!("`{}` in a kernel whose tiles several blocks hold together", op.row().name);
        return Err(word("blocks", what));
    }
    if program.teams > 1 && conflicts_in_global(&program.func) {
        let what = "teams in turn that read what they store: their barriers would meet the whole block";
        return Err(word("pingpong", what));
    }
    if program.teams > 1 && (copies || program.buffers.values().any(|b| b.kind == BufferKind::Scratch)) {
        let what = "teams in turn with tiles that threads fill: their barriers would meet the whole block";
        return Err(word("pingpong", what));
    }
    Ok(())
}

/// Several blocks of a multiprocessor: as many threads as it holds, whose registers no roles hand on.
fn check_resident(program: &Program<'_>, s: &Schedule) -> Result<()> {
    let (resident, threads) = (program.launch.resident, 32 * program.warps * program.teams / program.blocks);
    if resident > 1 && s.producer {
        let what = "several resident blocks of a kernel whose roles share out a block's registers";
        return Err(word("resident", what));
    }
    match resident.saturating_mul(threads) {
        all if resident > 1 && all > RESIDENT_THREADS => {
            let what = format!(
                "{resident} resident blocks of {threads} threads: a multiprocessor holds {RESIDENT_THREADS}"
            );
            Err(word("resident", what))
        }
        _ => Ok(()),
    }
}

/// A word of the mapping that does not go with the kernel.
pub(crate) fn word(word: &'static str, what: impl Into<String>) -> SchedError {
    SchedError::Word { word, what: what.into() }
}

/// Whether a row moves a tile to or from the shared memory of one block, or multiplies what lies there.
fn is_local(op: Opcode) -> bool {
    let copies = matches!(op, Opcode::TmaStore | Opcode::CpAsync | Opcode::Stmatrix | Opcode::Ldmatrix);
    copies || op.is_async_load() || is_product(op)
}

/// Whether the products of a loop stay in flight over an iteration: the mapping's word, else where one
/// warpgroup computes alone (measured: it reaches 88% of the tensor cores' rate when every iteration waits
/// for its own products, 99.8% when it waits for the one before; two warpgroups fill each other's gaps).
fn in_flight(program: &Program<'_>, inst: Inst, s: &mut Schedule) {
    let data = &program.func.insts[inst];
    let (Opcode::For, Attr::Loop(attr)) = (data.op, &data.attr) else { return };
    let products = program.func.blocks[data.blocks[0]].insts.iter();
    let products = products.filter(|&&i| program.func.insts[i].op == Opcode::Wgmma).count();
    let wished = attr.wait.unwrap_or(u32::from(program.warps == WARPGROUP));
    if products == 0 || wished == 0 {
        return;
    }
    match only_products(program, data.blocks[0]) {
        Ok(()) => s.in_flight[inst] = 1,
        Err(why) => s.remarks.push(format!("products of loop `{}` are not left in flight: {why}", attr.name)),
    }
}

/// Whether a loop's body is products on rings into accumulators that nothing else touches.
fn only_products(program: &Program<'_>, body: Block) -> std::result::Result<(), String> {
    let func = &program.func;
    let yielded = yields(func, body);
    for &inst in &func.blocks[body].insts {
        let d = &func.insts[inst];
        match (d.op, &d.attr) {
            (Opcode::TmaLoad | Opcode::BulkLoad | Opcode::Await | Opcode::Yield, _) => {}
            (Opcode::Wgmma, Attr::Wgmma(w)) => {
                let ring = |b: Buffer| program.buffers[b].kind == BufferKind::Ring;
                if !w.a.as_ref().is_some_and(|a| ring(a.place.buffer)) || !ring(w.b.place.buffer) {
                    return Err("an operand is computed by threads".to_owned());
                }
                let at = yielded.iter().position(|v| *v == d.results[0]);
                if at.is_none_or(|n| func.blocks[body].params.get(n + 1) != Some(&d.args[0])) {
                    return Err("an accumulator is not carried as it is".to_owned());
                }
            }
            (op, _) if op.is_pure() && d.results.iter().all(|&r| !func.ty(r).is_frag()) => {}
            (op, _) => return Err(format!("`{}` stands among them", op.row().name)),
        }
    }
    Ok(())
}

/// The buffer that a load's event fills.
pub(crate) fn buffer_of(func: &Func<'_>, event: Value) -> Option<Buffer> {
    let data = &func.insts[func.def(event)?];
    match (data.op, &data.attr) {
        (Opcode::TmaLoad | Opcode::BulkLoad, Attr::Tma(t)) => t.place.map(|p| p.buffer),
        _ => copy_place(data).map(|p| p.buffer),
    }
}

/// The loop whose body a block is.
pub(crate) fn loop_of(func: &Func<'_>, block: Block) -> Option<Inst> {
    func.loop_of(block)
}

/// The block that an instruction stands in.
pub(crate) fn block_of(func: &Func<'_>, inst: Inst) -> Option<Block> {
    func.block_of(inst)
}

/// Whether a block stands in a loop, however deep.
pub(crate) fn repeats(func: &Func<'_>, block: Block) -> bool {
    func.repeats(block)
}

/// Registers of a thread of the consumers and of the producer, and whether they are other than at entry: what that gives all
/// threads, less the producer's share, in steps of 8.
pub(crate) fn budgets(warps: u32, producer: bool, target: &Target) -> (u32, u32, bool) {
    let threads = 32 * warps + if producer { 128 } else { 0 };
    let entry = target.entry_registers(threads);
    if !producer || entry >= 232 {
        return (entry, entry, false);
    }
    let (all, low) = (entry * threads, if warps > 8 { 32 } else { 40 });
    let left = ((all - 128 * low) / (32 * warps) / 8 * 8).min(240);
    // What steps of 8 leave is the producer's; at last it is as much as the entry gives.
    let low = ((all - 32 * warps * left) / 128 / 8 * 8).min(entry);
    (left, low, left != low)
}

fn is_write(op: Opcode) -> bool {
    op.row().effect == Effect::Write
}

/// Whether a write may happen a tile later, and for the first tile not at all.
fn stores_late(op: Opcode) -> bool {
    let staged = matches!(op, Opcode::Stmatrix | Opcode::StShared | Opcode::TmaStore);
    staged || matches!(op, Opcode::StGlobal | Opcode::StGlobal16 | Opcode::StGlobal8)
}

/// Whether a row is a product on tensor cores.
pub(crate) fn is_product(op: Opcode) -> bool {
    matches!(op, Opcode::Wgmma | Opcode::MmaSync)
}

fn deferral(program: &Program<'_>, target: &Target) -> std::result::Result<Deferral, String> {
    let func = &program.func;
    let outer = func.insts.iter().find(|(_, d)| matches!(&d.attr, Attr::Loop(l) if l.persistent));
    let (outer, data) = outer.ok_or("the kernel is not persistent")?;
    let body = data.blocks[0];
    let insts = &func.blocks[body].insts;
    let is_main = |i: &Inst| {
        let d = &func.insts[*i];
        d.op == Opcode::For && func.blocks[d.blocks[0]].insts.iter().any(|&j| is_product(func.insts[j].op))
    };
    let at = insts.iter().rposition(is_main).ok_or("no loop of products inside")?;
    let inner = insts[at];
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
    if conflicts_in_global(func) {
        return Err("what is stored is read as well".to_owned());
    }
    if let Some(op) = rest.iter().map(|&i| func.insts[i].op).find(|&op| is_write(op) && !stores_late(op)) {
        return Err(format!("`{}` is not held back for a tile", op.row().name));
    }
    let invariant = |v: Value| func.constant(v).is_some() || !defined_in(func, body, v);
    if !func.insts[inner].args[..3].iter().all(|&v| invariant(v)) {
        return Err("the main loop's trip count changes from tile to tile".to_owned());
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

/// Whether a value is defined in a block or one nested in it.
pub(crate) fn defined_in(func: &Func<'_>, block: Block, v: Value) -> bool {
    func.is_defined_in(v, block)
}

/// Stores after the main loop, one group a tensor copy (or plain store), each with the free views and
/// scalars that it alone uses.
fn store_groups(func: &Func<'_>, rest: &[Inst]) -> Vec<Vec<Inst>> {
    let mut groups: Vec<Vec<Inst>> = vec![Vec::new()];
    let mut closed = false;
    for &inst in rest {
        let data = &func.insts[inst];
        let ends =
            matches!(data.op, Opcode::TmaStore | Opcode::StGlobal | Opcode::StGlobal16 | Opcode::StGlobal8);
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
    let late = free_users(func, rest, &stored);
    for g in &mut groups {
        let needed = slice_within(func, g, &late);
        let mut all: Vec<Inst> =
            rest.iter().copied().filter(|i| needed.contains(i) || g.contains(i)).collect();
        std::mem::swap(g, &mut all);
    }
    groups
}

/// Free views and scalars whose every user is late.
fn free_users(func: &Func<'_>, rest: &[Inst], stored: &FxHashSet<Inst>) -> FxHashSet<Inst> {
    let mut late = stored.clone();
    for &inst in rest.iter().rev() {
        let data = &func.insts[inst];
        let free = data.op.is_pure()
            && (data.op == Opcode::Slice || data.results.iter().all(|&r| !func.ty(r).is_frag()));
        let users_late =
            data.results.iter().all(|r| rest.iter().all(|&u| late.contains(&u) || !uses(func, u, *r)));
        if free && users_late && !data.results.is_empty() {
            late.insert(inst);
        }
    }
    late
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

/// Groups over at most [`MAX_PARTS`] parts, in order.
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

/// Values of the outer body that late instructions need: carried to the next iteration.
pub(crate) fn pending(func: &Func<'_>, d: &Deferral) -> Vec<Value> {
    let body = func.insts[d.outer].blocks[0];
    let late: FxHashSet<Inst> = d.parts.iter().flatten().copied().collect();
    let mut found = Vec::new();
    for &inst in d.parts.iter().flatten() {
        let data = &func.insts[inst];
        for &v in data.args.iter().chain(data.guard.as_ref().map(|g| &g.pred)) {
            let carried = defined_in(func, body, v)
                && func.constant(v).is_none()
                && !func.def(v).is_some_and(|i| late.contains(&i));
            if carried && !found.contains(&v) {
                found.push(v);
            }
        }
    }
    found
}

/// Instructions that follow the main loop, run early and are no free view.
fn after(func: &Func<'_>, d: &Deferral) -> Vec<Inst> {
    let insts = &func.blocks[func.insts[d.outer].blocks[0]].insts;
    let late: FxHashSet<Inst> = d.parts.iter().flatten().copied().collect();
    let rest = insts.iter().skip_while(|&&i| i != d.inner).skip(1).copied();
    rest.filter(|i| !late.contains(i) && func.insts[*i].op != Opcode::Slice).collect()
}

fn check_registers(program: &Program<'_>, d: &Deferral, target: &Target) -> std::result::Result<(), String> {
    let func = &program.func;
    let held: u32 = pending(func, d).iter().map(|&v| func.ty(v).regs()).sum();
    let main: u32 = func.insts[d.inner].results.iter().map(|&v| func.ty(v).regs()).sum();
    let (budget, ..) = budgets(program.warps * program.teams, true, target);
    // Results that are made beside the accumulators: the work of one chunk holds two of the widest.
    let made = after(func, d).into_iter().flat_map(|i| func.insts[i].results);
    let carried = pending(func, d);
    let widest = made.filter(|r| !carried.contains(r)).map(|&r| func.ty(r).regs()).max().unwrap_or(0);
    // Operands of products of warps: those of two steps.
    let fragments = 2 * operand_registers(func, func.insts[d.inner].blocks[0]);
    let needed = held + main + 2 * widest + fragments + SCALAR_REGISTERS;
    if needed > budget {
        return Err(format!(
            "{held} registers of results and {} of work beside {} of accumulators and operands and {SCALAR_REGISTERS} others exceed {budget}",
            2 * widest,
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

/// Buffers of staged results in the order in which a block's copies leave them.
pub(crate) fn staging_sites(program: &Program<'_>, block: Block) -> Vec<(Inst, Buffer)> {
    let func = &program.func;
    let mut sites: Vec<(Inst, Buffer)> = Vec::new();
    let mut open = false;
    for &inst in &func.blocks[block].insts {
        let d = &func.insts[inst];
        match touched(&d.attr, d.op).first() {
            Some(&(buffer, true)) if program.buffers[buffer].kind == BufferKind::Staging => {
                if !open {
                    sites.push((inst, buffer));
                }
                open = true;
            }
            _ if d.op == Opcode::TmaStore => open = false,
            _ => {}
        }
    }
    sites
}
