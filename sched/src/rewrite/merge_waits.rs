//! Two waits that follow each other become one: their loads fill one ring, which needs one wait and one release.
//!
//! ```text
//!  s = load w          s = load w
//!  await s             h = load b
//!  .. read s ..  ─►    await s, h
//!  h = load b          .. read s ..
//!  await h             .. read h ..
//!  .. read h ..
//! ```
//!
//! Only pure instructions, reads and loads may stand between the waits. The second load moves up, with the scalars that
//! it needs.
//!
//! Both stages are then released together, and the work between the waits starts once both have arrived. A cost
//! decides:
//!
//! - saved: a wait, a fence and a release. If the computing threads issue the copies, the latency of a load that would
//!   have been issued after the first wait is saved too.
//! - lost: the first stage stays occupied during the work between the waits. If copies are issued ahead, a ring of `n`
//!   stages is filled once in `n` iterations: the loss is at most an `n`th of that work, and nothing if copies or work
//!   take longer anyway. If nobody copies ahead, the work waits for the second copy.
//!
//! A tile that another loop reads again keeps its ring, because its stages end in that loop. In a cluster, tiles that
//! threads read keep their ring, because they are not multicast.

use crate::analysis::{
    BARRIER, Copying, Graph, MOST_STAGES, buffer_of, copying, require_rows, touched, unit_cycles,
};
use crate::error::Result;
use crate::feature::Feature;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Block, Buffer, Func, Inst, InstData, Program, Value};
use warplift_ir::target::{Effect, Opcode, Target};

/// Merges the waits of every block if that pays.
///
/// # Errors
/// The target lacks an instruction of the program.
pub fn do_merge_waits<'a>(
    mut program: Program<'a>,
    graph: &mut Graph,
    target: &Target,
    disabled: &[Feature],
) -> Result<Program<'a>> {
    let loads = |d: &InstData<'_>| d.op.is_async_load();
    if program.func.insts.values().filter(|d| loads(d)).nth(1).is_none() {
        return Ok(program);
    }
    require_rows(&program.func, target)?;
    let produced = matches!(copying(&program, graph), Copying::Producer { .. });
    let ahead = produced && !disabled.contains(&Feature::WarpSpecialization);
    for block in program.func.blocks.keys().collect::<Vec<_>>() {
        let cost = Cost::of(&program, block, target, ahead);
        while let Some(pair) =
            pairs(&program, graph, block).into_iter().find(|p| cost.pays(&program, graph, p))
        {
            merge(&mut program.func, block, &pair);
            graph.update(&mut program.func);
        }
    }
    Ok(program)
}

/// Two successive waits for tensor copies, without an effect between them.
struct Pair {
    first: Inst,
    second: Inst,
    /// The instructions between the waits that do not move up.
    between: Vec<Inst>,
    /// Loads for the second wait that stand behind the first wait, and the scalars that they need.
    moved: Vec<Inst>,
}

/// The pairs of a block, in order.
fn pairs(program: &Program<'_>, graph: &Graph, block: Block) -> Vec<Pair> {
    let func = &program.func;
    let insts = &func.blocks[block].insts;
    let (mut found, mut last) = (Vec::new(), None);
    for (at, &inst) in insts.iter().enumerate() {
        let d = &func.insts[inst];
        match d.op {
            Opcode::Await if is_own(func, graph, block, inst) => {
                found.extend(last.and_then(|l: usize| Pair::of(func, &insts[l..=at])));
                last = Some(at);
            }
            _ if d.op.is_async_load() || matches!(d.op.effect(), Effect::Pure | Effect::Read) => {}
            _ => last = None,
        }
    }
    found
}

/// Whether an await waits for tensor copies of its own block, and nothing else waits for their tiles.
fn is_own(func: &Func<'_>, graph: &Graph, block: Block, inst: Inst) -> bool {
    let own = |e| {
        let here = func
            .def(e)
            .is_some_and(|def| func.block_of(def) == Some(block) && func.insts[def].op.is_async_load());
        let alone = |b: Buffer| {
            let loads = graph.accesses(func, b).iter().filter(|a| a.writes).map(|a| &func.insts[a.inst]);
            let users = loads.filter(|d| d.op.is_async_load()).flat_map(|d| func.users(d.results[0]));
            let mut waits = users.filter(|&i| func.insts[i].op == Opcode::Await);
            waits.next().is_some_and(|first| waits.all(|other| other == first))
        };
        here && buffer_of(func, e).is_some_and(alone)
    };
    func.insts[inst].args.iter().all(|&e| own(e))
}

impl Pair {
    /// The pair formed by the first and the last of these instructions, if the loads of the second wait can move up.
    fn of(func: &Func<'_>, insts: &[Inst]) -> Option<Self> {
        let [first, between @ .., second] = insts else { return None };
        let moved = movable(func, between, *second)?;
        let between: Vec<Inst> = between.iter().copied().filter(|i| !moved.contains(i)).collect();
        let pair = Self { first: *first, second: *second, between, moved };
        let filled = pair.buffers(func)[1].clone();
        let touches =
            |&i: &Inst| touched(&func.insts[i].attr, func.insts[i].op).iter().any(|t| filled.contains(&t.0));
        (!pair.between.iter().any(touches)).then_some(pair)
    }

    /// The buffers of each wait.
    fn buffers(&self, func: &Func<'_>) -> [Vec<Buffer>; 2] {
        [self.first, self.second]
            .map(|wait| func.insts[wait].args.iter().filter_map(|&e| buffer_of(func, e)).collect())
    }
}

/// The loads among `insts` that `wait` waits for, with the instructions that they need. `None` if they need more than
/// scalars.
fn movable(func: &Func<'_>, insts: &[Inst], wait: Inst) -> Option<Vec<Inst>> {
    let mut needed: FxHashSet<Value> = func.insts[wait].args.iter().copied().collect();
    let mut moved = Vec::new();
    for &inst in insts.iter().rev() {
        let d = &func.insts[inst];
        if !d.results.iter().any(|r| needed.contains(r)) {
            continue;
        }
        let scalars = d.op.is_pure() && d.results.iter().all(|&r| !func.ty(r).is_frag());
        if !scalars && !d.op.is_async_load() {
            return None;
        }
        needed.extend(func.named(inst));
        moved.push(inst);
    }
    moved.reverse();
    Some(moved)
}

/// Replaces both waits by one, at the place of the first.
fn merge(func: &mut Func<'_>, block: Block, pair: &Pair) {
    let all = [pair.first, pair.second].map(|i| func.insts[i].args).concat();
    pair.moved.iter().chain([&pair.second]).for_each(|&i| func.remove(i));
    func.set_args(pair.first, &all);
    func.set_args(pair.second, &[]);
    let at = func.blocks[block].insts.iter().position(|&i| i == pair.first).unwrap_or_default();
    pair.moved.iter().enumerate().for_each(|(n, &i)| func.insert(block, at + n, i));
}

/// The cost of merging in a block.
struct Cost<'t> {
    target: &'t Target,
    /// Warps that share a scheduler.
    warps: u32,
    /// The ring of the block's loads, if they are issued ahead.
    ring: Option<Ahead>,
    cluster: bool,
}

/// A ring that is filled ahead of its readers.
struct Ahead {
    /// Number of stages.
    stages: u32,
    /// Cycles by which one fill in this many iterations exceeds the iteration's other work.
    exposed: u32,
}

impl Ahead {
    /// The ring, if all loads of a loop's body were one ring.
    fn of(program: &Program<'_>, (block, looped): (Block, Inst), target: &Target, warps: u32) -> Self {
        let (func, rates) = (&program.func, &target.rates);
        let insts = &func.blocks[block].insts;
        let copies = insts.iter().map(|&i| copy_cycles(func, target, i)).sum::<u32>() * program.teams;
        let work = insts.iter().map(|&i| unit_cycles(func, target, i)).sum::<u32>() * warps;
        let stages = stages(program, block, looped, target);
        let latency = rates.copy_latency as u32 + 2 * u32::from(target.row(Opcode::MbarWait).latency);
        Self { stages, exposed: ((latency + copies + work) / stages).saturating_sub(copies.max(work)) }
    }
}

impl<'t> Cost<'t> {
    fn of(program: &Program<'_>, block: Block, target: &'t Target, ahead: bool) -> Self {
        let looped = program.func.loop_of(block).filter(|_| ahead);
        let warps = program.computing_warps().div_ceil(target.schedulers);
        let ring = looped.map(|l| Ahead::of(program, (block, l), target, warps));
        Self { target, warps, ring, cluster: program.launch.cluster > 1 }
    }

    /// Whether merging saves more than it loses, in cycles of an iteration.
    fn pays(&self, program: &Program<'_>, graph: &Graph, pair: &Pair) -> bool {
        let func = &program.func;
        let buffers = pair.buffers(func);
        let [first, second] = buffers.each_ref().map(|b| graph.is_read_by_threads(func, b));
        if self.cluster && first != second {
            return false;
        }
        let latency = |op: Opcode| u32::from(self.target.row(op).latency);
        let handover: u32 =
            [Opcode::MbarWait, Opcode::FenceProxyAsync, Opcode::MbarArrive].map(latency).iter().sum();
        let work = pair.between.iter().map(|&i| unit_cycles(func, self.target, i)).sum::<u32>() * self.warps;
        if let Some(ring) = &self.ring {
            return ring.exposed.min(work / ring.stages) < handover;
        }
        let loads = func.insts[pair.second].args.iter().filter_map(|&e| func.def(e));
        let copy: u32 = loads.map(|i| copy_cycles(func, self.target, i)).sum();
        let behind = pair.moved.iter().any(|&i| func.insts[i].op.is_async_load());
        let serial = if behind { self.target.rates.copy_latency as u32 } else { 0 };
        work.min(copy) < handover + serial
    }
}

/// Cycles that the bytes of a tensor load take.
fn copy_cycles(func: &Func<'_>, target: &Target, inst: Inst) -> u32 {
    match &func.insts[inst].attr {
        Attr::Tma(t) => (f64::from(t.bytes) / target.rates.copy_bytes_per_cycle) as u32,
        _ => 0,
    }
}

/// Stages that fit in shared memory if all loads of a loop's body form one ring, or the number that the mapping asks
/// for.
fn stages(program: &Program<'_>, block: Block, looped: Inst, target: &Target) -> u32 {
    let func = &program.func;
    let Attr::Loop(attr) = &func.insts[looped].attr else { return 1 };
    let loads = func.blocks[block].insts.iter().map(|&i| &func.insts[i]).filter(|d| d.op.is_async_load());
    let loaded: FxHashSet<Buffer> = loads.flat_map(|d| touched(&d.attr, d.op)).map(|t| t.0).collect();
    let bytes = |of_loop: bool| -> u32 {
        let some = program.buffers.iter().filter(|(b, _)| loaded.contains(b) == of_loop);
        some.map(|(_, d)| d.stride() + 2 * BARRIER).sum()
    };
    let all = target.shared_of_resident(program.launch.resident) / program.teams;
    let room = all.saturating_sub(bytes(false)) / bytes(true).max(1);
    attr.depth.unwrap_or(room).clamp(1, MOST_STAGES)
}
