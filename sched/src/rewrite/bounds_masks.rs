//! Bounds masks are decided once for a tile: most tiles lie inside their array, and need no mask.
//!
//! ```text
//!  for t ..                                   rows = i*128 <u m and i*128 + 127 <u m      same in every iteration
//!    p0 = row      <u m and col <u k          for t ..
//!    p1 = row + 16 <u m and col <u k    ─►      whole = rows and t*32 <u k and t*32 + 31 <u k
//!    @p0 x0 = load ..                           x0, x1 = if whole { load ..  load .. }
//!    @p1 x1 = load ..                                    else { p0 = ..  p1 = ..  @p0 load ..  @p1 load .. }
//! ```
//!
//! A run of masked accesses becomes a branch that all threads take alike. One arm holds the accesses without masks, the
//! other one holds them as they were, with the arithmetic of the masks. Whether a whole tile is inside follows from
//! what threads share of the indices ([`crate::analysis::Bound`]). A part of the decision that does not change in a
//! loop is made before the loop.
//!
//! A cost decides: the instructions that the masks take, in cycles of the warps of a scheduler, against the comparisons
//! that stay in place and the latency of the branch. Where another unit than the integer one takes longest, masks cost
//! nothing, and the branch would only keep ptxas from moving loads.

use crate::analysis::{
    Bound, Graph, Invariance, Remaking, ThreadInvariance, bounds_of, global_access, is_tile_loop,
    require_rows, unit_cycles,
};
use crate::error::Result;
use crate::feature::Feature;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use warplift_ir::machine::{Attr, Block, Cursor, Func, Guard, IndexMap, Inst, NewInst, Program, Ty, Value};
use warplift_ir::target::{Opcode, Row, Target, Unit};
use warplift_ir::tile::{CmpOp, Loc};

/// Decides masks once for a tile, where that pays.
///
/// # Errors
/// The target lacks an instruction of the program, or the arena is full.
pub fn do_bounds_masks<'a>(
    mut program: Program<'a>,
    graph: &mut Graph,
    target: &Target,
    disabled: &[Feature],
) -> Result<Program<'a>> {
    let func = &program.func;
    let mut masked = graph.global_accesses(func).iter().filter(|g| func.insts[g.inst].guard.is_some());
    if disabled.contains(&Feature::BoundsMasks) || masked.next().is_none() {
        return Ok(program);
    }
    require_rows(func, target)?;
    // Most programs are not bound by integer work: they need no analysis.
    let mut blocks =
        graph.global_accesses(func).iter().filter_map(|g| func.block_of(g.inst)).collect::<Vec<_>>();
    blocks.dedup();
    if !blocks.into_iter().any(|b| is_integer_bound(&program, target, b)) {
        return Ok(program);
    }
    let runs = runs(&program, graph, target);
    for run in &runs {
        run.branch(&mut program.func);
        program.func.bump.check()?;
    }
    graph.update(&mut program.func);
    Ok(program)
}

/// The runs whose masks are worth a branch.
fn runs(program: &Program<'_>, graph: &Graph, target: &Target) -> Vec<Run> {
    let func = &program.func;
    let threads = ThreadInvariance::of(func, graph);
    let invariance = Invariance::of(func, graph);
    let mut runs = Vec::new();
    // The arms without masks may take a quarter of the instruction cache together.
    let mut room = target.cached_instructions() / 4;
    for (block, d) in func.blocks.iter() {
        // A deferred epilogue moves single stores, so its loop keeps them.
        let defers = program.deferred && func.loop_of(block).is_some_and(|l| is_tile_loop(func, l));
        if defers || is_around_loops(func, block) || !func.is_within(block, func.entry) {
            continue;
        }
        let parts = d.insts.split(|&i| !may_stand_in_arm(func, i));
        let found: Vec<Run> =
            parts.filter_map(|part| Run::of(func, &threads, &invariance, (block, part), target)).collect();
        // Loads of a later run would wait for the branch of an earlier one, and what depends on its loads.
        if found.iter().filter(|r| r.loads(func)).count() > 1 {
            continue;
        }
        for run in found {
            let length = run.kept.len() as u32;
            if length <= room && run.pays(program, target) {
                room -= length;
                runs.push(run);
            }
        }
    }
    runs
}

/// Whether the innermost loop around a block, or the function, holds further loops. The time is spent in those: what
/// stands beside them is executed once for all their iterations, and a second arm of it would cost more code than it saves time.
fn is_around_loops(func: &Func<'_>, block: Block) -> bool {
    let body = func.around(block).find(|&b| func.loop_of(b).is_some()).unwrap_or(func.entry);
    func.blocks.keys().any(|b| b != body && func.loop_of(b).is_some() && func.is_within(b, body))
}

/// Whether an instruction may stand between masked accesses: plain accesses and pure instructions may.
fn may_stand_in_arm(func: &Func<'_>, inst: Inst) -> bool {
    let d = &func.insts[inst];
    let plain = global_access(d).is_some() && d.results.iter().all(|&r| func.ty(r) != Ty::Event);
    d.blocks.is_empty() && (plain || d.op.is_pure())
}

/// A decision: `terms + low <u extent` and `terms + high <u extent`.
struct Decision {
    bound: Bound,
    /// The loop before which it is made; `None`: before the accesses.
    before: Option<Inst>,
}

/// Masked accesses of a block, without an effect of another kind between them.
struct Run {
    block: Block,
    /// Instructions that move into the arms, in order.
    moved: Vec<Inst>,
    /// Those that the arm without masks needs too.
    kept: FxHashSet<Inst>,
    /// Predicates that hold if the tile is inside.
    decided: FxHashSet<Value>,
    decisions: Vec<Decision>,
}

impl Run {
    /// The run of a part of a block. What it decides is known before it: a bound of what its own loads bring is left
    /// to its masks.
    fn of(
        func: &Func<'_>,
        threads: &ThreadInvariance<'_, '_>,
        invariance: &Invariance<'_>,
        (block, part): (Block, &[Inst]),
        target: &Target,
    ) -> Option<Self> {
        let masked = || part.iter().map(|&i| &func.insts[i]).filter(|d| global_access(d).is_some());
        let accesses =
            masked().filter_map(|d| Some((d.guard?.pred, bounds_of(func, threads, d.guard, target)?)));
        let mut accesses: Vec<(Value, Vec<Bound>)> = accesses.collect();
        loop {
            let run = Self::deciding(func, invariance, (block, part), &accesses)?;
            let own = |v: &Value| func.def(*v).is_some_and(|def| run.moved.contains(&def));
            let before = accesses.len();
            accesses.retain(|(_, bounds)| !bounds.iter().any(|b| b.values().any(|v| own(&v))));
            if accesses.len() == before {
                return Some(run);
            }
        }
    }

    /// The run of a part of a block that decides the masks of these accesses.
    fn deciding(
        func: &Func<'_>,
        invariance: &Invariance<'_>,
        (block, part): (Block, &[Inst]),
        accesses: &[(Value, Vec<Bound>)],
    ) -> Option<Self> {
        let decided: FxHashSet<Value> = accesses.iter().map(|a| a.0).collect();
        let mut bounds: Vec<Bound> = Vec::new();
        accesses.iter().flat_map(|a| &a.1).for_each(|b| widen(&mut bounds, b.clone()));
        let decides = |&i: &Inst| {
            let makes_pred = func.insts[i].results.iter().any(|&r| func.ty(r) == Ty::Pred);
            !makes_pred && func.named(i).any(|v| decided.contains(&v))
        };
        let (first, last) = (part.iter().position(decides)?, part.iter().rposition(decides)?);
        let decisions: Vec<Decision> =
            bounds.into_iter().map(|b| Decision::of(func, invariance, block, b)).collect();
        let moved = moved(func, &part[..=last], first, &decisions);
        let mut run = Self { block, moved, kept: FxHashSet::default(), decided, decisions };
        run.kept = run.kept(func);
        Some(run)
    }

    /// The instructions that are needed where all decided predicates hold.
    fn kept(&self, func: &Func<'_>) -> FxHashSet<Inst> {
        let own: FxHashSet<Inst> = self.moved.iter().copied().collect();
        let mut kept = FxHashSet::default();
        let mut read: FxHashSet<Value> = FxHashSet::default();
        for &inst in self.moved.iter().rev() {
            let d = &func.insts[inst];
            let leaves = |&r: &Value| read.contains(&r) || func.users(r).any(|u| !own.contains(&u));
            if !d.op.stays() && !d.results.iter().any(leaves) {
                continue;
            }
            match self.passed_on(func, inst) {
                Some(x) => {
                    read.insert(x);
                }
                None => {
                    read.extend(d.args.iter().copied());
                    read.extend(d.guard.map(|g| g.pred).filter(|p| !self.decided.contains(p)));
                    kept.insert(inst);
                }
            }
        }
        kept
    }

    /// The operand that a select passes on where all decided predicates hold.
    fn passed_on(&self, func: &Func<'_>, inst: Inst) -> Option<Value> {
        let d = &func.insts[inst];
        let &[x, _, p] = d.args else { return None };
        let same = func.ty(x) == func.ty(d.results[0]);
        let each = d.maps.first().is_none_or(|m| *m == IndexMap::EACH);
        (d.op == Opcode::Selp && same && each && self.decided.contains(&p)).then_some(x)
    }

    /// Whether it holds loads.
    fn loads(&self, func: &Func<'_>) -> bool {
        self.moved.iter().any(|&i| global_access(&func.insts[i]).is_some_and(|(_, writes)| !writes))
    }

    /// Whether the branch saves more cycles than it costs.
    fn pays(&self, program: &Program<'_>, target: &Target) -> bool {
        let func = &program.func;
        // Outside of loops nothing overlaps a decision that the first loads wait for.
        let delays = self.loads(func) && !func.repeats(self.block);
        if delays || !is_integer_bound(program, target, self.block) {
            return false;
        }
        let warps = program.computing_warps().div_ceil(target.schedulers);
        let removed = self.moved.iter().filter(|i| !self.kept.contains(i));
        let saved: u32 = removed.map(|&i| unit_cycles(func, target, i)).sum();
        let here = 2 * self.decisions.iter().filter(|d| d.before.is_none()).count() as u32;
        let all = |ops: &[Opcode], of: fn(&Row) -> u16| {
            ops.iter().map(|&op| u32::from(of(target.row(op)))).sum::<u32>()
        };
        // Both ends of a bound are compared.
        let (compare, branch) =
            ([Opcode::AddS32, Opcode::SetpU32, Opcode::AndPred], [Opcode::BrIf, Opcode::Br]);
        let issued = here * all(&compare, |r| r.interval) + all(&branch, |r| r.interval);
        let latency = if here > 0 { all(&compare, |r| r.latency) } else { 0 };
        saved * warps > issued * warps + latency
    }

    /// Moves the run into the arms of a branch.
    fn branch(&self, func: &mut Func<'_>) {
        let Some(&last) = self.moved.last() else { return };
        let loc = func.insts[last].loc;
        let conds = self.decide_before_loops(func);
        let [whole, edge] = [func.new_block(), func.new_block()];
        let own: FxHashSet<Inst> = self.moved.iter().copied().collect();
        let leaving = self.leaving(func, &own);
        let inside = self.unmasked(func, whole);
        let at =
            func.blocks[self.block].insts.iter().position(|&i| i == last).unwrap_or_default() + 1 - own.len();
        func.retain(self.block, |_, i| !own.contains(&i));
        self.moved.iter().for_each(|&i| func.append(edge, i));
        let passed: Vec<Value> = leaving.iter().map(|&v| resolve(&inside, v)).collect();
        func.push(whole, NewInst::new(Opcode::Yield, &passed, &[]).loc(loc));
        func.push(edge, NewInst::new(Opcode::Yield, &leaving, &[]).loc(loc));
        let types: Vec<Ty> = leaving.iter().map(|&v| func.ty(v)).collect();
        let branch = func.insert_at(self.block, at, |func| {
            let here = self.decisions.iter().filter(|d| d.before.is_none());
            let mut all = conds;
            for d in here {
                all = d.decide(func, (self.block, loc), all, &mut |_, v| v);
            }
            let cond = all.unwrap_or_else(|| Cursor::new(func, self.block, loc).imm_of(Ty::Pred, 1));
            func.push(self.block, NewInst::new(Opcode::If, &[cond], &types).blocks(&[whole, edge]).loc(loc))
        });
        self.replace(func, &leaving, branch);
    }

    /// Values that instructions outside of the run read.
    fn leaving(&self, func: &Func<'_>, own: &FxHashSet<Inst>) -> Vec<Value> {
        let results = self.moved.iter().flat_map(|&i| func.insts[i].results);
        results.copied().filter(|&r| func.users(r).any(|u| !own.contains(&u))).collect()
    }

    /// Makes the results of the branch those that instructions behind it read.
    fn replace(&self, func: &mut Func<'_>, leaving: &[Value], branch: Inst) {
        let results = func.insts[branch].results;
        let ends: Vec<Inst> = func.insts[branch].blocks.iter().filter_map(|&b| func.terminator(b)).collect();
        for (&old, &new) in leaving.iter().zip(results) {
            func.values[new].uniform = func.values[old].uniform;
            for user in func.users(old).collect::<Vec<_>>() {
                if !self.moved.contains(&user) && !ends.contains(&user) {
                    func.rename(user, |v| if v == old { new } else { v });
                }
            }
        }
    }

    /// Copies the run without masks to the end of a block. Returns the copies of its values.
    fn unmasked(&self, func: &mut Func<'_>, to: Block) -> FxHashMap<Value, Value> {
        let mut made: FxHashMap<Value, Value> = FxHashMap::default();
        for &inst in &self.moved {
            if let Some(x) = self.passed_on(func, inst) {
                made.insert(func.result(inst), resolve(&made, x));
                continue;
            }
            if !self.kept.contains(&inst) {
                continue;
            }
            let guard = func.insts[inst].guard.filter(|g| !self.decided.contains(&g.pred));
            let copy = copied(func, inst, (to, guard), |v| resolve(&made, v));
            made.extend(
                func.insts[inst].results.iter().copied().zip(func.insts[copy].results.iter().copied()),
            );
        }
        made
    }

    /// Makes the decisions that do not change in a loop before it. Returns their conjunction.
    fn decide_before_loops(&self, func: &mut Func<'_>) -> Option<Value> {
        let mut all = None;
        // From the outermost loop inwards: an inner place sees what an outer one made.
        let mut hoisted: Vec<&Decision> = self.decisions.iter().filter(|d| d.before.is_some()).collect();
        let depth = |func: &Func<'_>, d: &Decision| {
            d.before.and_then(|l| func.block_of(l)).map_or(0, |b| func.around(b).count())
        };
        hoisted.sort_by_key(|d| depth(func, d));
        for d in hoisted {
            let Some((looped, block)) = d.before.and_then(|l| Some((l, func.block_of(l)?))) else { continue };
            let body = func.insts[looped].blocks[0];
            let loc = func.insts[looped].loc;
            let at = func.blocks[block].insts.iter().position(|&i| i == looped).unwrap_or_default();
            let mut known = FxHashMap::default();
            all = Some(func.insert_at(block, at, |func| {
                let decided = d.decide(func, (block, loc), all, &mut |func, v| {
                    remade(func, (block, body), v, &mut known)
                });
                decided.expect("a decision gives a predicate")
            }));
        }
        all
    }
}

impl Decision {
    fn of(func: &Func<'_>, invariance: &Invariance<'_>, block: Block, bound: Bound) -> Self {
        let mut before = None;
        for body in func.around(block) {
            let Some(looped) = func.loop_of(body) else { continue };
            let mut outside = Remaking::outside(func, body, None);
            if !bound.values().all(|v| invariance.is_invariant(func, v, looped) && outside.value(v)) {
                break;
            }
            before = Some(looped);
        }
        Self { bound, before }
    }

    /// Compares both ends with the extent. `all` holds the decisions before it.
    fn decide<'a>(
        &self,
        func: &mut Func<'a>,
        (block, loc): (Block, Loc),
        all: Option<Value>,
        value: &mut impl FnMut(&mut Func<'a>, Value) -> Value,
    ) -> Option<Value> {
        let index = &self.bound.index;
        let terms: SmallVec<[Value; 2]> = index.terms.iter().map(|&v| value(func, v)).collect();
        let extent = value(func, self.bound.extent);
        let mut c = Cursor::new(func, block, loc);
        let common = terms.into_iter().reduce(|a, b| c.add(a, b));
        // Without a term the lower end is below the extent if the upper one is.
        let low = common.map(|_| index.low);
        low.into_iter().chain([index.high]).fold(all, |all, end| {
            let at = match common {
                Some(v) => c.add_imm(v, end),
                None => c.imm(end),
            };
            let less = NewInst::new(Opcode::SetpU32, &[at, extent], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Lt));
            let less = c.value(less);
            Some(all.map_or(less, |all| c.op(Opcode::AndPred, &[all, less], Ty::Pred)))
        })
    }
}

/// Whether the integer unit takes longer than any other one in a block, nested blocks left out, and longer than
/// twice the latency of a load. A block that waits for its loads hides the masks.
fn is_integer_bound(program: &Program<'_>, target: &Target, block: Block) -> bool {
    let func = &program.func;
    let warps = program.computing_warps();
    let mut taken: FxHashMap<Unit, f64> = FxHashMap::default();
    for &inst in &func.blocks[block].insts {
        let d = &func.insts[inst];
        let (unit, cycles) = match (global_access(d), &d.attr) {
            (Some(_), _) => (
                Unit::Tma,
                sectors(func, inst, target) * f64::from(warps) / target.rates.cache_bytes_per_cycle,
            ),
            (_, Attr::Wgmma(w)) => (Unit::Tensor, w.cycles(&target.rates) * f64::from(program.teams)),
            _ => {
                let each = f64::from(unit_cycles(func, target, inst));
                (target.row(d.op).unit, each * f64::from(warps.div_ceil(target.schedulers)))
            }
        };
        *taken.entry(unit).or_default() += cycles;
    }
    let alu = taken.remove(&Unit::Alu).unwrap_or_default();
    // Below that, predictions of the file tests with a branch were up to 2% longer, because loads begin later.
    taken.insert(Unit::None, f64::from(2 * target.row(Opcode::LdGlobal).latency));
    taken.into_values().all(|other| other < alu)
}

/// Bytes that a warp's plain access requests, in whole sectors. Accesses beside each other share sectors, but each of
/// them requests them.
fn sectors(func: &Func<'_>, inst: Inst, target: &Target) -> f64 {
    let sector = target.sector_bytes;
    let of = |i: Inst| match (func.insts[i].op, &func.insts[i].attr) {
        (Opcode::LdGlobal8 | Opcode::StGlobal8, Attr::GlobalMem { offset, .. }) => Some((*offset, 1)),
        (Opcode::LdGlobal16 | Opcode::StGlobal16, Attr::GlobalMem { offset, .. }) => Some((*offset, 2)),
        (_, Attr::GlobalMem { offset, count, .. }) => Some((*offset, 4 * u32::from(*count))),
        _ => None,
    };
    let Some((at, own)) = of(inst) else { return 0.0 };
    let beside = func.users(func.insts[inst].args[0]).filter_map(of);
    let run: u32 = beside.filter(|other| other.0.abs_diff(at) < sector).map(|other| other.1).sum();
    f64::from(32 * run.min(sector).max(own))
}

/// Adds a bound. Bounds of the same terms become one, which spans both.
fn widen(bounds: &mut Vec<Bound>, new: Bound) {
    let same = |b: &&mut Bound| b.extent == new.extent && b.index.terms == new.index.terms;
    match bounds.iter_mut().find(same) {
        Some(b) => {
            b.index.low = b.index.low.min(new.index.low);
            b.index.high = b.index.high.max(new.index.high);
        }
        None => bounds.push(new),
    }
}

/// The instructions of a part that move into the arms. `first` is the first one that a decided predicate masks, the
/// last one ends the part.
///
/// All accesses from there on move, everything that depends on what they read, and pure instructions that only those
/// read. The others stay before the branch.
fn moved(func: &Func<'_>, part: &[Inst], first: usize, decisions: &[Decision]) -> Vec<Inst> {
    let stay: FxHashSet<Value> = decisions.iter().flat_map(|d| d.bound.values()).collect();
    let mut moved: FxHashSet<Inst> = FxHashSet::default();
    for &inst in &part[first..] {
        let depends = func.named(inst).filter_map(|v| func.def(v)).any(|def| moved.contains(&def));
        if depends || global_access(&func.insts[inst]).is_some() {
            moved.insert(inst);
        }
    }
    for &inst in part.iter().rev() {
        let results = func.insts[inst].results;
        let mut users = results.iter().flat_map(|&r| func.users(r)).peekable();
        let own = users.peek().is_some() && users.all(|u| moved.contains(&u));
        if own && !results.iter().any(|r| stay.contains(r)) {
            moved.insert(inst);
        }
    }
    part.iter().copied().filter(|i| moved.contains(i)).collect()
}

/// Follows copies of values.
fn resolve(made: &FxHashMap<Value, Value>, v: Value) -> Value {
    made.get(&v).copied().unwrap_or(v)
}

/// Copies an instruction to the end of a block, with another guard.
fn copied(
    func: &mut Func<'_>,
    inst: Inst,
    (to, guard): (Block, Option<Guard>),
    value: impl Fn(Value) -> Value,
) -> Inst {
    let d = func.insts[inst].clone();
    let args: Vec<Value> = d.args.iter().map(|&v| value(v)).collect();
    let types: Vec<Ty> = d.results.iter().map(|&r| func.ty(r)).collect();
    let guard = guard.map(|g| Guard { pred: value(g.pred), ..g });
    func.push(to, NewInst::new(d.op, &args, &types).attr(d.attr).maps(d.maps).guard(guard).loc(d.loc))
}

/// Computes a value of a loop's body again at the end of a block before the loop.
fn remade(
    func: &mut Func<'_>,
    (to, body): (Block, Block),
    v: Value,
    known: &mut FxHashMap<Value, Value>,
) -> Value {
    if let Some(&made) = known.get(&v) {
        return made;
    }
    let Some(def) = func.def(v).filter(|_| func.is_defined_in(v, body)) else { return v };
    let args = func.insts[def].args;
    let args: FxHashMap<Value, Value> =
        args.iter().map(|&a| (a, remade(func, (to, body), a, known))).collect();
    let made = copied(func, def, (to, None), |a| args[&a]);
    let made = func.result(made);
    known.insert(v, made);
    made
}
