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
//! `body` makes the dependence graph of one iteration, with distances in iterations; `search` finds the
//! least initiation interval at which every instruction has a time (Rau, "Iterative Modulo Scheduling":
//! resources and recurrences give the minimum, then one interval after the other is tried); `modulo_expand`
//! rewrites the structured program: first parts, a loop whose body holds a stage each of several iterations, last
//! parts. What comes out is again a program in order, which the rest of `sched` cuts into roles as any
//! other (Task-Based Tensor Computations on Modern GPUs, section 4.2.5).
//!
//! The model is one warpgroup among all of the block. Its warps do one thing after the other; its products
//! occupy the tensor cores in the order of issue; threads' work is slower while products run. Units are shared:
//! no interval is less than what all warpgroups take of one. Copies are issued as many intervals ahead as their
//! latency asks for, and no more than the ring has stages. Fragments that live longer than an interval are there
//! twice, where registers suffice; a product's result is not. Nothing is in flight where an iteration ends
//! (ptxas would serialize it).
//!
//! Loops of products alone are scheduled by their rings; the model only tells their interval.
//!
//! An interval says nothing of how warpgroups come to stand to each other. `block` runs the `steps` of all of them
//! beside each other, and `choose` compares: with turns at the tensor cores or without, waits pinned or moved by ptxas.
//!
//! Where fragments do not fit twice, `elementwise_subtiles` cuts elementwise chains, and all is done again.

mod block;
mod body;
mod choose;
mod edges;
mod elementwise_subtiles;
mod modulo_expand;
mod search;
mod steps;

use crate::analysis::{Graph, WARPGROUP, budgets, conflicts_in_global, require_rows, yields};
use crate::error::Result;
use crate::feature::Feature;
use crate::schedule::{do_smem, schedule_with};
use body::{Body, Given, Limits, Resource};
use choose::{Choice, Choices, choose};
use elementwise_subtiles::do_elementwise_subtiles;
use rustc_hash::FxHashMap;
use search::Found;
use warplift_ir::Deadline;
use warplift_ir::machine::{Attr, Buffer, BufferKind, Func, Inst, LoopSchedule, Program, Slot, Span, Value};
use warplift_ir::target::{Opcode, Target, Unit};

pub use modulo_expand::do_modulo_expand;

/// Registers that a rotated body needs beside the fragments that live by the schedule: scalars, and what
/// ptxas holds on the way (measured on attention: with 36 it spills).
const WORK_REGISTERS: u32 = 48;

/// Iterations at most of which a body holds work: each one more keeps another set of fragments alive.
const STAGES: u32 = 4;

/// What was decided for the loops of a program.
pub struct Overlap<'a> {
    /// The program, elementwise chains cut in loops that are overlapped with themselves only so.
    pub program: Program<'a>,
    /// Schedules of its loops.
    pub loops: Vec<LoopSchedule>,
    /// Why loops are left as they are, and where chains are cut.
    pub remarks: Vec<String>,
}

/// Schedules the loops of a program. Where one that mixes products and work of threads is not overlapped with itself, its
/// elementwise chains are cut, which leaves registers, if it is overlapped and faster then.
///
/// Behind the deadline no further interval is tried.
///
/// # Errors
/// The target lacks an instruction of the program.
pub fn do_modulo<'a>(
    program: Program<'a>,
    target: &Target,
    disabled: &[Feature],
    deadline: Deadline,
) -> Result<Overlap<'a>> {
    require_rows(&program.func, target)?;
    let (loops, remarks) = schedules(&program, target, disabled, deadline);
    let mut made = Overlap { program, loops, remarks };
    if [Feature::ElementwiseSubtiles, Feature::Modulo].iter().any(|f| disabled.contains(f)) {
        return Ok(made);
    }
    let stays = |l: &&LoopSchedule| !l.pipelined && mixes(&made.program.func, l.inst);
    let stuck: Vec<Inst> = made.loops.iter().filter(stays).map(|l| l.inst).collect();
    let mut cut = Vec::new();
    for looped in stuck {
        if let Some((better, why)) = with_slices(&made, looped, target, disabled, deadline) {
            made = better;
            cut.push(why);
        }
    }
    made.remarks.extend(cut);
    Ok(made)
}

/// The same with the chains of one loop cut, and a remark, if that lets it be overlapped.
fn with_slices<'a>(
    whole: &Overlap<'a>,
    looped: Inst,
    target: &Target,
    disabled: &[Feature],
    deadline: Deadline,
) -> Option<(Overlap<'a>, String)> {
    let mut program = whole.program.clone();
    if !do_elementwise_subtiles(&mut program.func, looped) {
        return None;
    }
    let (loops, remarks) = schedules(&program, target, disabled, deadline);
    let of = |loops: &[LoopSchedule]| loops.iter().find(|l| l.inst == looped).cloned();
    let (new, old) = (of(&loops)?, of(&whole.loops)?);
    let [cycles, before] = [new.expected(), old.expected()];
    let why = format!("loop `{}`: chains are cut, {cycles} cycles an iteration, {before} whole", new.name);
    (new.pipelined && cycles < before).then_some((Overlap { program, loops, remarks }, why))
}

/// Schedules every loop with products or tensor copies. One whose products depend on threads' work in the same
/// iteration may be rotated; the reasons why one of these is left as it is come as remarks.
fn schedules(
    program: &Program<'_>,
    target: &Target,
    disabled: &[Feature],
    deadline: Deadline,
) -> (Vec<LoopSchedule>, Vec<String>) {
    let (mut loops, mut remarks) = (Vec::new(), Vec::new());
    let func = &program.func;
    func.walk(|_, inst| loops.extend(is_asynchronous(func, inst).then_some(inst)));
    if loops.is_empty() {
        return (Vec::new(), remarks);
    }
    let graph = Graph::of(func);
    let limits = Limits { deadline, ..limits(program, &graph, target, disabled) };
    let given = Given { program, graph: &graph, limits: &limits };
    let found = loops.into_iter().filter_map(|l| do_loop(given, l, disabled, &mut remarks));
    (found.collect(), remarks)
}

/// Schedules one loop; none where its body cannot be one.
fn do_loop(
    given: Given<'_, '_>,
    inst: Inst,
    disabled: &[Feature],
    remarks: &mut Vec<String>,
) -> Option<LoopSchedule> {
    let program = given.program;
    let func = &program.func;
    let Attr::Loop(attr) = &func.insts[inst].attr else { return None };
    let (has, mixes) = (|f: Feature| !disabled.contains(&f), mixes(func, inst));
    // What a helper hands on is not cut: it would be made iterations before it is loaded.
    let of_helper = |b: Buffer| program.buffers[b].kind == BufferKind::Helper;
    let helped = given.graph.accesses_inside(func, inst).iter().any(|a| of_helper(a.buffer));
    let pipelines = mixes && !helped && !conflicts_in_global(func) && has(Feature::Modulo);
    let unless = |why: &String| {
        if pipelines {
            remarks.push(format!("loop `{}` is not overlapped with itself: {why}", attr.name));
        }
    };
    let body = Body::of(given, inst).inspect_err(unless).ok()?;
    let (s, why) = found_for(&body, if pipelines { STAGES } else { 1 })?;
    let mma_order = if has(Feature::MmaOrder) { attr.mma_order } else { Some(false) };
    let choices = Choices { mma_order, pins: has(Feature::Pins) };
    let Choice { mma_order, pins } = if mixes { choose(&body, &s, &choices) } else { Choice::default() };
    let made = describe(program, given.limits.target, inst, &s, &attr.name);
    let unrolls = has(Feature::Unroll) && is_mostly_threads(func, &made);
    let made = LoopSchedule { mma_order, pins, unrolls, ..made };
    if pipelines && !made.pipelined {
        remarks.push(format!("loop `{}`: {}", attr.name, stays(&made, why)));
    }
    Some(made)
}

/// The best schedule of so many stages at most; else the loop as it stands, and why: allocation decides about
/// registers then.
fn found_for(body: &Body, stages: u32) -> Option<(Found, Option<String>)> {
    match search::best(body, stages) {
        Ok(s) => Some((s, None)),
        Err(why) => {
            let s = search::schedule(&Body { registers: u32::MAX, ..body.clone() }, 1).ok()?;
            Some((s, Some(why)))
        }
    }
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

/// What the block gives its loops.
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

/// Stages of the ring of each buffer: as the program would have them as it stands. None where it cannot be
/// scheduled, which is told later.
fn depths(
    program: &Program<'_>,
    graph: &Graph,
    target: &Target,
    disabled: &[Feature],
) -> FxHashMap<Buffer, u32> {
    let Ok(mut s) = schedule_with(program, graph, target, disabled) else { return FxHashMap::default() };
    if do_smem(program, &mut s, target).is_err() {
        return FxHashMap::default();
    }
    s.rings.values().flat_map(|r| r.buffers.iter().map(|&b| (b, r.depth))).collect()
}

/// A found schedule as data, in the order of issue.
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
        unrolls: false,
        mma_order: None,
        pins: None,
        slots,
        copies,
    }
}

/// Whether threads' instructions take more of a loop than tensor cores, copies and shared memory do: of a loop which no other
/// repeats, and which is not overlapped with itself. Sums of several products leave ptxas no registers for bodies side by side
/// (360 bytes of spills, measured).
fn is_mostly_threads(func: &Func<'_>, l: &LoopSchedule) -> bool {
    let alone = func.blocks[func.entry].insts.contains(&l.inst) && !l.pipelined;
    let threads = |u: Unit| !matches!(u, Unit::Tensor | Unit::Tma | Unit::Lsu);
    let body = &func.blocks[func.insts[l.inst].blocks[0]].insts;
    let products = body.iter().filter(|&&i| func.insts[i].op == Opcode::Wgmma);
    let goes_on = |v: Value| func.def(v).is_some_and(|d| func.insts[d].op == Opcode::Wgmma);
    let sums = products.filter(|&&i| !goes_on(func.insts[i].args[0])).count();
    alone && sums <= 1 && l.taken.first().is_some_and(|t| threads(t.0))
}

/// The instruction by which a node goes: its product, or the one that takes its warp longest.
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

/// Whether an instruction is a loop whose body multiplies on tensor cores or is fed by tensor copies.
fn is_asynchronous(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    let within = |&i: &Inst| {
        let op = func.insts[i].op;
        op == Opcode::Wgmma || op.is_async_load()
    };
    d.op == Opcode::For && func.blocks[d.blocks[0]].insts.iter().any(within)
}

/// Whether a loop's body holds products and work of threads on fragments.
fn mixes(func: &Func<'_>, inst: Inst) -> bool {
    let insts = &func.blocks[func.insts[inst].blocks[0]].insts;
    let products = insts.iter().any(|&i| func.insts[i].op == Opcode::Wgmma);
    let work = |i: &Inst| {
        let d = &func.insts[*i];
        d.op.is_pure() && d.op != Opcode::Undef && d.results.iter().any(|&r| func.ty(r).is_frag())
    };
    products && insts.iter().any(work) && !yields(func, func.insts[inst].blocks[0]).is_empty()
}
