//! The structured program with scheduled loops rewritten: a body holds work of several iterations.
//!
//! ```text
//!  for t in lo..hi { early (t); late (t) }
//!
//!  if lo < hi {
//!      early (lo)
//!      for t in lo+step..hi { early (t) and late (t - step), in the schedule's order }
//!      late (last)
//!  }
//! ```
//!
//! Values of the early part that the late part needs are carried. A carried value of the old loop is carried at the
//! place of its definition in the early part, or of its use in the late part. A branch on `t == lo` is decided: it is
//! taken in the first part, and not taken in the loop.
//!
//! A loop of several stages is rewritten in this way once for every stage after the first. The first time, everything
//! after stage 0 is late. The second time, everything after stage 1 of the new loop is late, and so on.
//!
//! ```text
//!  0 1 2   ─►   if .. { 0;  for { 0 1' 2' };  1' 2' }
//!          ─►   if .. { 0;  if .. { 0 1';  for { 0 1' 2" };  2" };  1' 2' }       ' an iteration before, " two
//! ```
//!
//! So each number of iterations, however small, has its own path. A value that lives over several iterations is handed
//! from one carried value to the next. A body that is still to be rewritten keeps later stages behind earlier ones: no
//! edge of the schedule leads back within an iteration.

use super::body::{free, on_first};
use super::reorder::do_reorder;
use crate::analysis::{Graph, yields};
use crate::error::Result;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{
    Attr, Block, Cursor, Func, Guard, Inst, LoopAttr, LoopSchedule, NewInst, Program, Ty, Value,
};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Loc};

/// Rewrites the scheduled loops of a program, and marks the loops whose warpgroups take turns. The rewritten function
/// is a new one with numbers of its own, so it gets a new graph. Without a loop to rewrite both stay.
///
/// # Errors
/// The copies of the bodies need more memory than the arena may hold.
pub fn do_modulo_expand<'a>(
    mut program: Program<'a>,
    graph: &mut Graph,
    schedules: &[LoopSchedule],
) -> Result<Program<'a>> {
    for s in schedules {
        if let (Attr::Loop(l), Some(mma_order)) = (&mut program.func.insts[s.inst].attr, s.mma_order) {
            l.mma_order = Some(mma_order.taken);
        }
    }
    let reordered = do_reorder(&mut program.func, schedules);
    let mut cuts: Vec<Cut> = schedules.iter().filter(|s| s.extra_stages() > 0).map(Cut::of).collect();
    if cuts.is_empty() && !reordered {
        return Ok(program);
    }
    while !cuts.is_empty() {
        (program.func, cuts) = cut(&program.func, &cuts);
        // A full arena ends a cut early: what it made must not be used.
        program.func.bump.check()?;
    }
    *graph = Graph::of(&mut program.func);
    Ok(program)
}

/// Cuts the bodies of some loops in two. Returns the cuts that are to be made next.
fn cut<'a>(old: &Func<'a>, cuts: &[Cut]) -> (Func<'a>, Vec<Cut>) {
    let new = Func::as_large_as(old);
    let (block, env, next) = (new.entry, Map::default(), Vec::new());
    let cuts = cuts.iter().map(|c| (c.inst, c)).collect();
    let mut r = ModuloExpand { old, new, block, loc: Loc::default(), env, cuts, now: None, next };
    r.insts_of(old.entry, None);
    (r.new, r.next)
}

/// A loop to be rewritten, with its body cut in two.
#[derive(Clone, Debug)]
struct Cut {
    inst: Inst,
    /// Segments in the order of the new body.
    segments: Vec<Segment>,
    /// A segment is late if its stage is at least this one.
    from_stage: u32,
}

/// Instructions that are placed together.
#[derive(Clone, Debug)]
struct Segment {
    insts: Vec<Inst>,
    stage: u32,
    /// Instructions to be pinned in the last body.
    pinned: Vec<Inst>,
}

impl Cut {
    fn of(schedule: &LoopSchedule) -> Self {
        let first = schedule.slots.iter().map(|s| s.stage).min().unwrap_or(0);
        let waits = schedule.pins.as_ref().map_or(&[][..], |p| &p.waits);
        let segments = schedule.slots.iter().map(|s| {
            let pinned = s.insts.iter().copied().filter(|i| waits.contains(i)).collect();
            Segment { insts: s.insts.clone(), stage: s.stage - first, pinned }
        });
        Self { inst: schedule.inst, segments: segments.collect(), from_stage: 1 }
    }

    /// Whether the new body is the last one.
    fn is_last(&self) -> bool {
        self.segments.iter().all(|p| p.stage <= self.from_stage)
    }

    /// Segments in the order of the body. Segments that are to be rewritten further stand behind the rest.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.segments.len()).collect();
        order.sort_by_key(|&n| self.segments[n].stage.max(self.from_stage));
        order
    }

    /// 0 for an early segment, 1 for a late one.
    fn side(&self, segment: usize) -> usize {
        usize::from(self.segments[segment].stage >= self.from_stage)
    }
}

/// New values by old values.
type Map = FxHashMap<Value, Value>;

/// The loop that is being rewritten.
struct Now {
    inst: Inst,
    free: FxHashSet<Inst>,
    params: Vec<Value>,
    yields: Vec<Value>,
    /// The stage in which each value is defined. Parameters and invariants of the loop have none.
    stage: FxHashMap<Value, usize>,
    /// Values of the iteration in each stage.
    maps: [Map; 2],
    /// The value of `t == lo` in stage 0.
    first: bool,
}

impl Now {
    /// The stage that defines the next value of parameter `i`.
    fn source(&self, i: usize) -> usize {
        self.stage.get(&self.yields[i]).copied().unwrap_or(0)
    }
}

struct ModuloExpand<'p, 'a> {
    old: &'p Func<'a>,
    new: Func<'a>,
    block: Block,
    loc: Loc,
    env: Map,
    cuts: FxHashMap<Inst, &'p Cut>,
    now: Option<Now>,
    /// Loops that are to be rewritten further.
    next: Vec<Cut>,
}

/// Values that the rotated loop carries in addition to its counter.
enum Carried {
    /// The counter of the iteration before.
    Counter,
    /// A parameter of the old loop, in the stage after its definition.
    Param(usize),
    /// The same parameter, one iteration older.
    Older(usize),
    /// A value that stage 0 defines and stage 1 reads.
    Value(Value),
}

impl<'a> ModuloExpand<'_, 'a> {
    fn at(&mut self) -> Cursor<'_, 'a> {
        Cursor::new(&mut self.new, self.block, self.loc)
    }

    /// The new value of an old value, as a stage of the current loop sees it.
    fn value(&mut self, v: Value, stage: Option<usize>) -> Value {
        let (Some(s), Some(now)) = (stage, &self.now) else { return self.outer(v) };
        if let Some(&known) = now.maps[s].get(&v) {
            return known;
        }
        if let Some(i) = now.params.iter().skip(1).position(|&p| p == v).filter(|_| s == 0)
            && let Some(&made) = now.maps[1].get(&now.yields[i])
        {
            return made;
        }
        match self.old.def(v).filter(|d| now.free.contains(d)) {
            Some(def) => {
                self.copy(def, stage);
                self.now.as_ref().map_or(v, |n| n.maps[s][&v])
            }
            None => self.outer(v),
        }
    }

    fn outer(&self, v: Value) -> Value {
        // The old program was verified, so every use follows its definition.
        *self.env.get(&v).unwrap_or_else(|| panic!("{v} has no value in the rotated program"))
    }

    fn set(&mut self, v: Value, new: Value, stage: Option<usize>) {
        self.new.values[new].uniform = self.old.values[v].uniform;
        self.new.names[new] = self.old.names[v];
        match (stage, &mut self.now) {
            (Some(s), Some(now)) => now.maps[s].insert(v, new),
            _ => self.env.insert(v, new),
        };
    }

    /// Copies all instructions of an old block to the end of the new one. It stops if the arena is full.
    fn insts_of(&mut self, block: Block, stage: Option<usize>) {
        for &inst in &self.old.blocks[block].insts {
            if self.new.bump.check().is_err() {
                return;
            }
            match self.cuts.get(&inst).copied().filter(|_| stage.is_none()) {
                Some(cut) => self.modulo_expand(inst, cut),
                None => self.copy(inst, stage),
            }
        }
    }

    fn copy(&mut self, inst: Inst, stage: Option<usize>) {
        let d = self.old.insts[inst].clone();
        if self.decided(inst, stage) {
            return;
        }
        self.prepare(inst, stage);
        let args: Vec<Value> = d.args.iter().map(|&v| self.value(v, stage)).collect();
        let guard = d.guard.map(|g| Guard { pred: self.value(g.pred, stage), ..g });
        let blocks: Vec<Block> = d.blocks.iter().map(|&b| self.copy_block(b, stage)).collect();
        self.loc = d.loc;
        let types: Vec<Ty> = d.results.iter().map(|&r| self.old.ty(r)).collect();
        let new = NewInst::new(d.op, &args, &types).attr(d.attr).maps(d.maps).guard(guard).blocks(&blocks);
        let made = self.at().push(new);
        for (i, &r) in d.results.iter().enumerate() {
            let v = self.new.insts[made].results[i];
            self.set(r, v, stage);
        }
    }

    fn copy_block(&mut self, block: Block, stage: Option<usize>) -> Block {
        let copy = self.new.new_block();
        let outer = std::mem::replace(&mut self.block, copy);
        for &p in &self.old.blocks[block].params {
            let v = self.new.append_param(copy, self.old.ty(p), self.old.values[p].uniform);
            self.set(p, v, stage);
        }
        self.insts_of(block, stage);
        self.block = outer;
        copy
    }

    /// Computes values of the counter that nested blocks of an instruction need. They are computed before the
    /// instruction, not inside it.
    fn prepare(&mut self, inst: Inst, stage: Option<usize>) {
        for &b in &self.old.insts[inst].blocks {
            for &i in &self.old.blocks[b].insts {
                for &v in self.old.insts[i].args {
                    let free = |n: &Now| self.old.def(v).is_some_and(|d| n.free.contains(&d));
                    if stage.is_some() && self.now.as_ref().is_some_and(free) {
                        self.value(v, stage);
                    }
                }
                self.prepare(i, stage);
            }
        }
    }

    /// Copies only the block that runs, for a branch on the first iteration in stage 0. Returns whether this is such a
    /// branch.
    fn decided(&mut self, inst: Inst, stage: Option<usize>) -> bool {
        let d = &self.old.insts[inst];
        let Some(now) = self.now.as_ref().filter(|n| stage == Some(0) && on_first(self.old, n.inst, inst))
        else {
            return false;
        };
        let Some(&block) = d.blocks.get(usize::from(!now.first)) else { return d.results.is_empty() };
        let insts = &self.old.blocks[block].insts;
        insts[..insts.len() - 1].iter().for_each(|&i| self.copy(i, stage));
        for (&r, &y) in d.results.iter().zip(yields(self.old, block)) {
            let v = self.value(y, stage);
            self.set(r, v, stage);
        }
        true
    }

    fn modulo_expand(&mut self, inst: Inst, cut: &Cut) {
        let d = self.old.insts[inst].clone();
        let args: Vec<Value> = d.args.iter().map(|&v| self.value(v, None)).collect();
        self.now = Some(self.begin(inst, cut));
        self.loc = d.loc;
        let some = self.at().compare(CmpOp::Lt, args[0], args[1]);
        let [then, other] = [self.new.new_block(), self.new.new_block()];
        let outer = std::mem::replace(&mut self.block, then);
        let results = self.iterations(&args, cut, &d.attr);
        self.at().push(NewInst::new(Opcode::Yield, &results, &[]));
        self.block = other;
        self.at().push(NewInst::new(Opcode::Yield, &args[3..], &[]));
        self.block = outer;
        self.now = None;
        let types: Vec<Ty> = d.results.iter().map(|&r| self.old.ty(r)).collect();
        let made = self.at().push(NewInst::new(Opcode::If, &[some], &types).blocks(&[then, other]));
        for (i, &r) in d.results.iter().enumerate() {
            let v = self.new.insts[made].results[i];
            self.set(r, v, None);
        }
    }

    fn begin(&self, inst: Inst, cut: &Cut) -> Now {
        let body = self.old.insts[inst].blocks[0];
        let mut stage = FxHashMap::default();
        for (n, segment) in cut.segments.iter().enumerate() {
            let results = segment.insts.iter().flat_map(|&i| self.old.insts[i].results);
            stage.extend(results.map(|&r| (r, cut.side(n))));
        }
        Now {
            free: free(self.old, body),
            params: self.old.blocks[body].params.clone(),
            yields: yields(self.old, body).to_vec(),
            inst,
            stage,
            maps: [Map::default(), Map::default()],
            first: true,
        }
    }

    /// Emits first part, loop and last part into the current block. Returns the values of the old results.
    fn iterations(&mut self, args: &[Value], cut: &Cut, attr: &Attr) -> Vec<Value> {
        let [low, high, step] = [args[0], args[1], args[2]];
        let inits = &args[3..];
        self.start(0, low, inits);
        self.side(cut, 0);
        let carried = self.carried(cut);
        let given: Vec<Value> = carried.iter().map(|c| self.given(c, low, inits)).collect();
        let next = self.at().add(low, step);
        let passed = self.looped(&[&[next, high, step][..], &given].concat(), cut, &carried, attr);
        self.restart();
        let mut last = low;
        for (c, &v) in carried.iter().zip(&passed) {
            match c {
                Carried::Counter => last = v,
                _ => self.take(c, v, 1),
            }
        }
        let counter = self.now().params[0];
        self.set(counter, last, Some(1));
        self.side(cut, 1);
        let sources: Vec<usize> = (0..inits.len()).map(|i| self.now().source(i)).collect();
        let mut results = Vec::new();
        for (i, source) in sources.into_iter().enumerate() {
            let made = carried.iter().zip(&passed).find(|(c, _)| matches!(c, Carried::Param(n) if *n == i));
            let y = self.now().yields[i];
            results.push(match (source, made) {
                (0, Some((_, &v))) => v,
                _ => self.value(y, Some(1)),
            });
        }
        results
    }

    fn now(&mut self) -> &mut Now {
        // `modulo_expand` sets it around all calls.
        self.now.as_mut().unwrap_or_else(|| panic!("no loop is rewritten"))
    }

    fn restart(&mut self) {
        self.now().maps = [Map::default(), Map::default()];
    }

    /// Sets the counter and the parameters of a stage's iteration.
    fn start(&mut self, stage: usize, counter: Value, params: &[Value]) {
        let old = self.now().params.clone();
        self.set(old[0], counter, Some(stage));
        self.new.values[counter].uniform = true;
        for (&p, &v) in old[1..].iter().zip(params) {
            self.now().maps[stage].insert(p, v);
        }
    }

    /// Emits the instructions of one side, in the body's order.
    fn side(&mut self, cut: &Cut, side: usize) {
        for n in cut.order().into_iter().filter(|&n| cut.side(n) == side) {
            self.segment(cut, n);
        }
    }

    /// Emits a segment at the end of the current block. Returns the new segment.
    fn segment(&mut self, cut: &Cut, n: usize) -> Segment {
        let (segment, from) = (&cut.segments[n], self.new.blocks[self.block].insts.len());
        let mut pinned = Vec::new();
        for &i in &segment.insts {
            self.copy(i, Some(cut.side(n)));
            let last = self.new.blocks[self.block].insts.last().copied();
            pinned.extend(last.filter(|_| segment.pinned.contains(&i)));
        }
        Segment { insts: self.new.blocks[self.block].insts[from..].to_vec(), stage: segment.stage, pinned }
    }

    /// Emits all segments, in the body's order. Returns the next cut, if the body is to be rewritten further.
    fn body(&mut self, cut: &Cut) -> Option<Cut> {
        let mut made: Vec<Option<Segment>> = vec![None; cut.segments.len()];
        for n in cut.order() {
            if cut.is_last() && !cut.segments[n].pinned.is_empty() {
                self.at().push(NewInst::new(Opcode::Pmevent, &[], &[]).attr(Attr::Imm(0)));
            }
            made[n] = Some(self.segment(cut, n));
        }
        let segments = made.into_iter().flatten().collect();
        (!cut.is_last()).then_some(Cut { inst: cut.inst, segments, from_stage: cut.from_stage + 1 })
    }

    /// Values that an instruction and its nested blocks read.
    fn reads(&self, inst: Inst, found: &mut FxHashSet<Value>) {
        let d = &self.old.insts[inst];
        found.extend(d.args.iter().chain(d.guard.as_ref().map(|g| &g.pred)));
        for &b in &d.blocks {
            self.old.blocks[b].insts.iter().for_each(|&i| self.reads(i, found));
        }
    }

    fn carried(&mut self, cut: &Cut) -> Vec<Carried> {
        let mut from_stage = FxHashSet::default();
        for (_, segment) in cut.segments.iter().enumerate().filter(|p| cut.side(p.0) == 1) {
            segment.insts.iter().for_each(|&i| self.reads(i, &mut from_stage));
        }
        let now = self.now();
        let mut all = vec![Carried::Counter];
        for i in 0..now.yields.len() {
            let used = from_stage.contains(&now.params[1 + i]);
            match now.source(i) {
                0 => {
                    all.push(Carried::Param(i));
                    all.extend(used.then_some(Carried::Older(i)));
                }
                _ => all.extend(used.then_some(Carried::Param(i))),
            }
        }
        let mut values: Vec<Value> =
            from_stage.into_iter().filter(|v| now.stage.get(v) == Some(&0)).collect();
        values.sort();
        let event = |v: &Value| self.old.ty(*v) == Ty::Event;
        values.retain(|v| !event(v));
        all.extend(values.into_iter().map(Carried::Value));
        all
    }

    /// The value of a carried value at the loop's entry.
    fn given(&mut self, c: &Carried, low: Value, inits: &[Value]) -> Value {
        match *c {
            Carried::Counter => low,
            Carried::Older(i) => inits[i],
            Carried::Param(i) if self.now().source(i) == 1 => inits[i],
            Carried::Param(i) => {
                let y = self.now().yields[i];
                self.value(y, Some(0))
            }
            Carried::Value(v) => self.value(v, Some(0)),
        }
    }

    /// Makes a carried value known to its stage: parameters of stage 0 to stage 0, everything else to stage 1 in the
    /// loop and after it.
    fn take(&mut self, c: &Carried, v: Value, stage: usize) {
        let now = self.now();
        match *c {
            Carried::Counter => {}
            Carried::Older(i) => {
                let p = now.params[1 + i];
                now.maps[1].insert(p, v);
            }
            Carried::Param(i) if now.source(i) == 1 => {
                let p = now.params[1 + i];
                now.maps[1].insert(p, v);
            }
            Carried::Param(i) => {
                let p = now.params[1 + i];
                if stage == 0 {
                    now.maps[0].insert(p, v);
                }
            }
            Carried::Value(old) => {
                now.maps[1].insert(old, v);
            }
        }
    }

    /// Emits the loop itself. Returns the values that it passed last.
    fn looped(&mut self, args: &[Value], cut: &Cut, carried: &[Carried], attr: &Attr) -> Vec<Value> {
        let types: Vec<Ty> = args[3..].iter().map(|&v| self.new.ty(v)).collect();
        let body = self.new.new_block();
        let outer = std::mem::replace(&mut self.block, body);
        self.restart();
        self.now().first = false;
        let counter = self.new.append_param(body, Ty::B32, true);
        let params: Vec<Value> = args[3..]
            .iter()
            .map(|&v| self.new.append_param(body, self.new.ty(v), self.new.values[v].uniform))
            .collect();
        let old = self.now().params[0];
        self.set(old, counter, Some(0));
        for (c, &p) in carried.iter().zip(&params) {
            match c {
                Carried::Counter => self.set(old, p, Some(1)),
                _ => self.take(c, p, 0),
            }
        }
        let further = self.body(cut);
        let mut next = Vec::new();
        for c in carried {
            next.push(self.passed(c, counter, carried, &params));
        }
        self.at().push(NewInst::new(Opcode::Yield, &next, &[]));
        self.block = outer;
        let attr = match attr {
            Attr::Loop(l) => Attr::Loop(Box::new(LoopAttr { overlapped: true, ..(**l).clone() })),
            other => other.clone(),
        };
        let made = self.at().push(NewInst::new(Opcode::For, args, &types).attr(attr).blocks(&[body]));
        self.next.extend(further.map(|c| self.further(c, made, body)));
        self.new.insts[made].results.to_vec()
    }

    /// The next cut of the new loop. Instructions that are recomputed wherever they are needed belong to no segment.
    fn further(&self, cut: Cut, made: Inst, body: Block) -> Cut {
        let free = free(&self.new, body);
        let keep =
            |p: Segment| Segment { insts: p.insts.into_iter().filter(|i| !free.contains(i)).collect(), ..p };
        Cut { inst: made, segments: cut.segments.into_iter().map(keep).collect(), from_stage: cut.from_stage }
    }

    /// The value that the body passes on for a carried value.
    fn passed(&mut self, c: &Carried, counter: Value, carried: &[Carried], params: &[Value]) -> Value {
        match *c {
            Carried::Counter => counter,
            Carried::Param(i) => {
                let (y, stage) = (self.now().yields[i], self.now().source(i));
                self.value(y, Some(stage))
            }
            Carried::Older(i) => {
                let at = carried.iter().position(|c| matches!(c, Carried::Param(n) if *n == i));
                params[at.unwrap_or(0)]
            }
            Carried::Value(v) => self.value(v, Some(0)),
        }
    }
}
