//! Modulo scheduling of a loop's body: iterations overlap, so that tensor cores and threads work at once.
//!
//! ```text
//!  one iteration      S ═══════ softmax ─────────── P V ═══════        ═ tensor cores   ─ threads
//!
//!  II apart           S ═══════ softmax ───────────
//!                               P V ═══════          S ═══════ softmax ───────────
//!                                                              P V ═══════            S ..
//! ```
//!
//! Modulo scheduling has three parts:
//!
//! - `body` makes the dependence graph of one iteration, with distances in iterations.
//! - `search` finds the least initiation interval at which every instruction has a time (Rau, "Iterative Modulo
//!   Scheduling"). Resources and recurrences give the minimum. Then one interval after the other is tried.
//! - `modulo_expand` rewrites the structured program: first parts, a loop whose body holds one stage each of several
//!   iterations, last parts. The result is again a program in order, and the rest of `sched` cuts it into roles like
//!   any other (Task-Based Tensor Computations on Modern GPUs, section 4.2.5).
//!
//! The model is one warpgroup of the block. Its warps run one instruction after the other. Its products occupy the
//! tensor cores in the order of issue. Threads' work is slower while products run. Units are shared: no interval is
//! shorter than the time that all warpgroups together take of one unit. Copies are issued as many intervals ahead as
//! their latency requires, but no more than the ring has stages. A fragment that lives longer than an interval exists
//! twice, if there are enough registers; a product's result does not. No product is in flight at the end of an
//! iteration (ptxas would serialize it).
//!
//! Loops that only contain products are scheduled by their rings. The model only predicts their interval.
//!
//! An interval does not tell how the warpgroups are placed relative to each other. `block` runs the `steps` of all of
//! them beside each other, and `choose` compares the variants: with or without turns at the tensor cores, with waits
//! pinned or moved by ptxas.
//!
//! If fragments do not fit twice, `elementwise_subtiles` cuts elementwise chains, and the loop is scheduled again.

mod block;
mod body;
mod choose;
mod edges;
mod elementwise_subtiles;
mod memory;
mod modulo_expand;
mod operand_subtiles;
mod placing;
mod pressure;
mod reorder;
mod search;
mod steps;
mod under_products;

use crate::analysis::{
    Graph, SCALAR_REGISTERS, WARPGROUP, budgets, draws_tiles, global_access, most_alive, require_rows, yields,
};
use crate::error::Result;
use crate::feature::Feature;
use crate::schedule::{do_schedule_without, do_smem};
use body::{Body, Given, Limits, Resource};
use choose::{Choice, Choices, choose};
use elementwise_subtiles::{do_elementwise_subtiles, do_reduction_subtiles};
use operand_subtiles::do_operand_subtiles;
use rustc_hash::FxHashMap;
use search::Found;
use under_products::do_under_products;
use warplift_ir::Deadline;
use warplift_ir::machine::{
    Attr, Block, Buffer, BufferKind, Func, Inst, LoopSchedule, Program, Slot, Span, Value,
};
use warplift_ir::target::{Opcode, Target, Unit};

pub use modulo_expand::do_modulo_expand;

/// Registers that a rotated body needs in addition to its live fragments: scalars, and temporaries of ptxas (measured
/// on attention: with 36 it spills).
const WORK_REGISTERS: u32 = 48;

/// The same where iterations overlap with no fewer: allocation takes 13 for scalars (measured on attention), and 11 are
/// left to ptxas.
const LEAST_WORK_REGISTERS: u32 = 32;

/// Part of its expected cycles that a loop must save by that. What ptxas does with so few registers has not been measured.
const TIGHT_GAIN: f64 = 0.1;

/// The most iterations whose work a body holds. Each further one keeps another set of fragments live.
const STAGES: u32 = 4;

/// The decisions about the loops of a program.
pub struct Overlap<'a> {
    /// The program. Elementwise chains are cut in loops whose iterations overlap only because of that.
    pub program: Program<'a>,
    /// Schedules of its loops.
    pub loops: Vec<LoopSchedule>,
    /// Reasons why loops are left as they are, and places where chains are cut.
    pub remarks: Vec<String>,
}

/// Schedules the loops of a program. If a loop mixes products with threads' work and its iterations do not overlap, its
/// elementwise chains are cut to free registers. The cut is kept if the iterations then overlap and the loop is faster.
///
/// No further interval is tried after the deadline.
///
/// # Errors
/// The target lacks an instruction of the program.
pub fn do_modulo<'a>(
    mut program: Program<'a>,
    graph: &mut Graph,
    target: &Target,
    disabled: &[Feature],
    deadline: Deadline,
) -> Result<Overlap<'a>> {
    require_rows(&program.func, target)?;
    do_operand_subtiles(&mut program, graph);
    if !disabled.contains(&Feature::ElementwiseSubtiles) {
        cut_around_products(&mut program, target);
        cut_reductions(&mut program, target);
        graph.update(&mut program.func);
    }
    let (loops, remarks) = schedules(&program, graph, target, disabled, deadline);
    let mut made = Overlap { program, loops, remarks };
    if [Feature::ElementwiseSubtiles, Feature::Modulo].iter().any(|f| disabled.contains(f)) {
        return Ok(made);
    }
    let stays = |l: &&LoopSchedule| !l.pipelined && mixes(&made.program.func, l.inst);
    let stuck: Vec<Inst> = made.loops.iter().filter(stays).map(|l| l.inst).collect();
    let mut cut = Vec::new();
    for looped in stuck {
        if let Some((better, its_graph, why)) = with_slices(&made, graph, looped, target, disabled, deadline)
        {
            (made, *graph) = (better, its_graph);
            cut.push(why);
        }
    }
    made.remarks.extend(cut);
    Ok(made)
}

/// Why operands that threads compute should have no rings: their loop does not overlap with itself, so they would be stored
/// right before they are read. `None` where rings pay.
pub fn declines_operand_rings(made: &Overlap<'_>, graph: &Graph) -> Option<String> {
    let func = &made.program.func;
    let overlaps = |b: &Buffer| {
        let block = graph.accesses(func, *b).first().and_then(|a| func.block_of(a.inst));
        let looped = block.and_then(|b| func.loop_of(b));
        made.loops.iter().any(|l| l.pipelined && Some(l.inst) == looped)
    };
    let buffer = made.program.buffers_of(BufferKind::Operand).find(|b| !overlaps(b))?;
    let name = &made.program.buffers[buffer].name;
    Some(format!(
        "`{name}` would be computed in the iteration that reads it, since its loop is not overlapped with itself"
    ))
}

/// Cuts the chains that stand around loops of products, if the block's fragments do not fit at once: accumulators
/// occupy most registers until the last of them is read.
fn cut_around_products(program: &mut Program<'_>, target: &Target) {
    let (budget, ..) = budgets(program.computing_warps(), true, target);
    let func = &program.func;
    let around = |b: &Block| func.blocks[*b].insts.iter().any(|&i| is_asynchronous(func, i));
    let full = |b: &Block| most_alive(func, *b) + SCALAR_REGISTERS > budget;
    let blocks: Vec<Block> = func.blocks.keys().filter(around).filter(full).collect();
    for block in blocks {
        do_elementwise_subtiles(&mut program.func, block);
    }
}

/// Lets the reductions beside products compute their operands as they go, if the loop's fragments do not fit at once,
/// or results are held beside them. It adds no instruction.
fn cut_reductions(program: &mut Program<'_>, target: &Target) {
    let (budget, ..) = budgets(program.computing_warps(), true, target);
    let func = &program.func;
    let mut loops = Vec::new();
    func.walk(|_, inst| loops.extend((is_asynchronous(func, inst) && mixes(func, inst)).then_some(inst)));
    let bodies = loops.into_iter().map(|l| func.insts[l].blocks[0]);
    let full = |b: &Block| program.deferred || most_alive(func, *b) + SCALAR_REGISTERS > budget;
    let bodies: Vec<Block> = bodies.filter(full).collect();
    for body in bodies {
        do_reduction_subtiles(&mut program.func, body);
    }
}

/// The same with the chains of one loop cut, with its graph and a remark. `None` if the cut does not help.
fn with_slices<'a>(
    whole: &Overlap<'a>,
    graph: &Graph,
    looped: Inst,
    target: &Target,
    disabled: &[Feature],
    deadline: Deadline,
) -> Option<(Overlap<'a>, Graph, String)> {
    let mut program = whole.program.clone();
    let body = program.func.insts[looped].blocks[0];
    if !do_elementwise_subtiles(&mut program.func, body) {
        return None;
    }
    let mut graph = graph.clone();
    graph.update(&mut program.func);
    let (loops, remarks) = schedules(&program, &graph, target, disabled, deadline);
    let of = |loops: &[LoopSchedule]| loops.iter().find(|l| l.inst == looped).cloned();
    let (new, old) = (of(&loops)?, of(&whole.loops)?);
    let [cycles, before] = [new.expected(), old.expected()];
    let why = format!("loop `{}`: chains are cut, {cycles} cycles an iteration, {before} whole", new.name);
    (new.pipelined && cycles < before).then_some((Overlap { program, loops, remarks }, graph, why))
}

/// Schedules every loop with products or tensor copies. A loop whose products depend on threads' work in the same
/// iteration may be rotated. A remark tells why such a loop is left as it is.
fn schedules(
    program: &Program<'_>,
    graph: &Graph,
    target: &Target,
    disabled: &[Feature],
    deadline: Deadline,
) -> (Vec<LoopSchedule>, Vec<String>) {
    let (mut loops, mut remarks) = (Vec::new(), Vec::new());
    let func = &program.func;
    // An iteration begins early only if its counter is known early.
    let early = |inst: Inst| !draws_tiles(func, inst) && !func.insts[inst].is_conditional_loop();
    let scheduled = |inst: Inst| is_asynchronous(func, inst) && early(inst);
    func.walk(|_, inst| loops.extend(scheduled(inst).then_some(inst)));
    if loops.is_empty() {
        return (Vec::new(), remarks);
    }
    let limits = Limits { deadline, ..limits(program, graph, target, disabled) };
    let given = Given { program, graph, limits: &limits };
    let found = loops.into_iter().filter_map(|l| do_loop(given, l, disabled, &mut remarks));
    (found.collect(), remarks)
}

/// Schedules one loop. `None` if its body is not supported.
fn do_loop(
    given: Given<'_, '_>,
    inst: Inst,
    disabled: &[Feature],
    remarks: &mut Vec<String>,
) -> Option<LoopSchedule> {
    let program = given.program;
    let func = &program.func;
    let Attr::Loop(attr) = &func.insts[inst].attr else { return None };
    let has = |f: Feature| !disabled.contains(&f);
    let pipelines = pipelines(given, inst, disabled);
    let unless = |why: &String| {
        if pipelines {
            remarks.push(format!("loop `{}` is not overlapped with itself: {why}", attr.name));
        }
    };
    let body = Body::of(given, inst).inspect_err(unless).ok()?;
    let stages = if pipelines { STAGES } else { 1 };
    let schedule = |mut found: Found| {
        if !pipelines || program.deferred {
            found.keep_text_order();
        } else {
            do_under_products(&mut found);
        }
        chosen(given, inst, &body, &found, disabled)
    };
    let (found, why) = found_for(&body, stages)?;
    let mut made = schedule(found);
    if pipelines && !made.pipelined && has(Feature::TightOverlap) && !loads_globally(func, inst) {
        let whole = why.is_none().then(|| f64::from(made.expected()) * (1.0 - TIGHT_GAIN));
        let gains = |t: &LoopSchedule| t.pipelined && whole.is_none_or(|w| f64::from(t.expected()) <= w);
        let tight = tightly(&body, stages).map(|found| LoopSchedule { tight: true, ..schedule(found) });
        made = tight.filter(gains).unwrap_or(made);
    }
    if pipelines && !made.pipelined {
        remarks.push(format!("loop `{}`: {}", attr.name, stays(&made, why)));
    }
    Some(made)
}

/// A schedule that was found, with the choices that the simulated block decides.
fn chosen(
    given: Given<'_, '_>,
    inst: Inst,
    body: &Body,
    found: &Found,
    disabled: &[Feature],
) -> LoopSchedule {
    let program = given.program;
    let Attr::Loop(attr) = &program.func.insts[inst].attr else { unreachable!("only loops are scheduled") };
    let (has, mixes) = (|f: Feature| !disabled.contains(&f), mixes(&program.func, inst));
    let mma_order = if has(Feature::MmaOrder) { attr.mma_order } else { Some(false) };
    let choices = Choices { mma_order, pins: has(Feature::Pins) };
    let Choice { mma_order, pins } = if mixes { choose(body, found, &choices) } else { Choice::default() };
    let made = describe(program, given.limits.target, inst, found, &attr.name);
    let unrolls = has(Feature::Unroll) && is_mostly_threads(&program.func, &made);
    LoopSchedule { mma_order, pins, unrolls, ..made }
}

/// Whether iterations of a loop may overlap.
fn pipelines(given: Given<'_, '_>, inst: Inst, disabled: &[Feature]) -> bool {
    let (program, graph, func) = (given.program, given.graph, &given.program.func);
    // A helper's buffers must not be cut: the values would be computed iterations before they are loaded.
    let of_helper = |b: Buffer| program.buffers[b].kind == BufferKind::Helper;
    let helped = graph.accesses_inside(func, inst).iter().any(|a| of_helper(a.buffer));
    mixes(func, inst) && !helped && !graph.conflicts_in_global(func) && !disabled.contains(&Feature::Modulo)
}

/// The best schedule with at most `stages` stages. If there is none, the loop stays as it is, with the reason; register
/// allocation then decides whether it fits.
fn found_for(body: &Body, stages: u32) -> Option<(Found, Option<String>)> {
    match search::best(body, stages) {
        Ok(found) => Some((found, None)),
        Err(why) => {
            let mut found = search::schedule(&Body { registers: u32::MAX, ..body.clone() }, 1).ok()?;
            // A product that rises has its result beside that of the one before. The text's order may need fewer registers.
            if found.registers() > body.registers + WORK_REGISTERS {
                found.keep_text_order();
            }
            Some((found, Some(why)))
        }
    }
}

/// The best schedule that leaves fewer registers for other work.
fn tightly(body: &Body, stages: u32) -> Option<Found> {
    let registers = body.registers + WORK_REGISTERS - LEAST_WORK_REGISTERS;
    search::best(&Body { registers, frees_first: true, ..body.clone() }, stages).ok()
}

/// Why a loop is left as it is.
fn stays(made: &LoopSchedule, why: Option<String>) -> String {
    let least = made.resource().max(made.recurrence);
    match why.filter(|_| made.interval > least) {
        Some(why) => format!("it is not overlapped with itself: {why}"),
        None if made.interval > least => format!("one stage of {} cycles is best", made.interval),
        None => format!("one stage of {} cycles is best: no units allow less", made.interval),
    }
}

/// The limits that the block sets for its loops.
fn limits<'t>(program: &Program<'_>, graph: &Graph, target: &'t Target, disabled: &[Feature]) -> Limits<'t> {
    let (budget, ..) = budgets(program.computing_warps(), true, target);
    Limits {
        target,
        groups: (program.warps * program.teams).div_ceil(WARPGROUP),
        teams: program.teams,
        registers: budget.saturating_sub(WORK_REGISTERS),
        depths: depths(program, graph, target, disabled),
        deadline: Deadline::default(),
    }
}

/// Stages of each buffer's ring, if the program were scheduled as it is. Empty if it cannot be scheduled, which is
/// reported later.
fn depths(
    program: &Program<'_>,
    graph: &Graph,
    target: &Target,
    disabled: &[Feature],
) -> FxHashMap<Buffer, u32> {
    let Ok(mut s) = do_schedule_without(program, graph, target, disabled) else {
        return FxHashMap::default();
    };
    if do_smem(program, &mut s, target).is_err() {
        return FxHashMap::default();
    }
    s.rings.values().flat_map(|r| r.buffers.iter().map(|&b| (b, r.depth))).collect()
}

/// A schedule that was found, as data in the order of issue.
fn describe(program: &Program<'_>, target: &Target, inst: Inst, found: &Found, name: &str) -> LoopSchedule {
    let (b, ii) = (&found.body, i64::from(found.interval));
    let slots = found.order.iter().map(|&n| {
        let node = &b.nodes[n];
        let unit = match node.resource {
            Resource::Tensor => Unit::Tensor,
            _ => {
                let units = node.usage.iter().filter(|u| *u.0 != Unit::None);
                units.max_by_key(|&(&u, &c)| (c, u as u8)).map_or(Unit::None, |u| *u.0)
            }
        };
        let name =
            longest(&program.func, target, &node.insts).map_or_else(String::new, |i| label(&program.func, i));
        let span = Span { name, unit, time: found.times[n], busy: node.busy };
        Slot { insts: node.insts.clone(), stage: found.stage(n), span }
    });
    let slots: Vec<Slot> = slots.collect();
    let copies = b.copies.iter().map(|c| {
        let time = found.times[c.reader] - i64::from(c.span.busy + c.latency);
        Span { time, ..c.span.clone() }
    });
    let copies: Vec<Span> = copies.collect();
    let ahead = copies.iter().map(|c| -c.time.div_euclid(ii)).max().unwrap_or(0).max(0) as u32;
    let own = slots.iter().map(|s| s.stage + 1).max().unwrap_or(1);
    LoopSchedule {
        inst,
        name: name.to_owned(),
        groups: b.groups,
        interval: found.interval,
        taken: b.taken(),
        recurrence: found.recurrence,
        stages: ahead + own,
        pipelined: own > 1,
        tight: false,
        unrolls: false,
        mma_order: None,
        pins: None,
        slots,
        copies,
    }
}

/// Whether threads' instructions take more of a loop's time than tensor cores, copies and shared memory do. The loop
/// must not be nested in another one, and its iterations must not overlap. It may have one sum of products: several
/// sums leave ptxas no registers for copies of the body (360 bytes of spills, measured).
fn is_mostly_threads(func: &Func<'_>, l: &LoopSchedule) -> bool {
    let alone = func.blocks[func.entry].insts.contains(&l.inst) && !l.pipelined;
    let threads = |u: Unit| !matches!(u, Unit::Tensor | Unit::Tma | Unit::Lsu);
    let body = &func.blocks[func.insts[l.inst].blocks[0]].insts;
    let products = body.iter().filter(|&&i| func.insts[i].op == Opcode::Wgmma);
    let goes_on = |v: Value| func.def(v).is_some_and(|d| func.insts[d].op == Opcode::Wgmma);
    let sums = products.filter(|&&i| !goes_on(func.insts[i].args[0])).count();
    alone && sums <= 1 && l.taken.first().is_some_and(|t| threads(t.0))
}

/// The instruction that stands for a node: its product, or the instruction that takes most of its warp's time.
fn longest(func: &Func<'_>, target: &Target, insts: &[Inst]) -> Option<Inst> {
    let cycles = |&&i: &&Inst| {
        let (d, row) = (&func.insts[i], target.row(func.insts[i].op));
        let registers = d.results.iter().map(|&r| func.ty(r).regs()).max().unwrap_or(1);
        (d.op == Opcode::Wgmma, registers * u32::from(row.interval))
    };
    insts.iter().rev().max_by_key(cycles).copied()
}

/// An instruction and its place in the kernel's text.
fn label(func: &Func<'_>, inst: Inst) -> String {
    let d = &func.insts[inst];
    format!("{} {}:{}", d.op.name(), d.loc.line, d.loc.column)
}

/// Whether an instruction is a loop with products on tensor cores, or with tensor copies.
fn is_asynchronous(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    let within = |&i: &Inst| {
        let op = func.insts[i].op;
        op == Opcode::Wgmma || op.is_async_load()
    };
    d.op == Opcode::For && func.blocks[d.blocks[0]].insts.iter().any(within)
}

/// Whether threads load from global memory in a loop's body. The model counts fragments, and not the registers that such
/// loads fill one by one.
fn loads_globally(func: &Func<'_>, inst: Inst) -> bool {
    let loads = |&i: &Inst| global_access(&func.insts[i]).is_some_and(|(_, writes)| !writes);
    func.blocks[func.insts[inst].blocks[0]].insts.iter().any(loads)
}

/// Whether a loop's body contains products and also threads' work on fragments.
fn mixes(func: &Func<'_>, inst: Inst) -> bool {
    let insts = &func.blocks[func.insts[inst].blocks[0]].insts;
    let products = insts.iter().any(|&i| func.insts[i].op == Opcode::Wgmma);
    let work = |i: &Inst| {
        let d = &func.insts[*i];
        d.op.is_pure() && d.op != Opcode::Undef && d.results.iter().any(|&r| func.ty(r).is_frag())
    };
    products && insts.iter().any(work) && !yields(func, func.insts[inst].blocks[0]).is_empty()
}
