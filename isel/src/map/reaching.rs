//! Reaching stores: which store's tile a load of an array in shared memory reads.
//!
//! ```text
//!  access      a stage, and a span along each dimension      s[(t + 1) % 3, 0..64, 0..32]
//!  walk        back from the load; stores of other stages are passed
//!  a loop      its stores of 1, 2, .. iterations before: stage (t - d + 2) % 3 is stage t % 3 if d = 2
//!              the first d iterations must find in front of the loop what the loop would have stored
//! ```
//!
//! A stage's number is the remainder of an expression by the number of stages, or a constant. Two of them are the same, or are not,
//! if their difference is a constant ([`terms`](super::terms)). Where it is not, the array stays.

use super::circular_counters::{Circle, circle_of_remainder};
use super::decided_branches::is_below_end;
use super::loops::{block_of, body};
use super::terms::{Term, Terms};
use crate::facts::{at_most, is_never_negative, lies_inside};
use crate::tiles::{extents, users};
use crate::window::Window;
use rustc_hash::FxHashSet;
use std::rc::Rc;
use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Op, Type, Value};

/// The most stages of an array, and iterations of a loop that fills it in front of another.
const DEPTH: i64 = 16;

const NO_REMAINDER: &str = "an index along it is no remainder by its stages";

/// Why an array stays.
type Result<T> = std::result::Result<T, &'static str>;

/// Values that are given, and as what.
type Given = [(Value, Rc<Term>)];

/// A load or a store.
pub(super) struct Access {
    pub inst: Inst,
    stage: Stage,
    /// First index and length along each dimension of the array, within the stage.
    spans: Vec<(i64, i64)>,
    /// Dimensions along which a load begins at an index that varies, with that and the length. Their spans are all of the array.
    moved: Vec<(usize, Value, i64)>,
    /// The dimensions of the array that are those of the tile.
    kept: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Stage {
    Number(i64),
    /// The remainder of this and a number.
    Of(Value, i64),
}

/// The accesses to an array.
pub(super) struct Array {
    depth: i64,
    pub loads: Vec<Access>,
    pub stores: Vec<Access>,
}

/// What a load reads: a part of a store's tile.
#[derive(Clone)]
pub(super) struct Found {
    pub store: Inst,
    pub source: Source,
    /// Whether it is the whole tile.
    pub whole: bool,
    /// Where the part begins in the tile, and its extents.
    pub offsets: Vec<Offset>,
    pub lengths: Vec<i64>,
}

/// Where a part begins along a dimension.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Offset {
    Number(i64),
    At(Value),
}

/// Which of a store's tiles.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Source {
    /// The last one that was stored on the way to the load.
    Same,
    /// That of the iteration of a loop whose counter is less by this.
    Earlier { looped: Inst, by: i64 },
    /// That of the iteration of a loop whose counter is this before its end.
    AtEnd { looped: Inst, by: i64 },
}

impl Array {
    /// The accesses, if all of them have known spans.
    pub fn of(k: &Kernel, array: Inst) -> Result<Self> {
        let users = users(k);
        let extents: Option<Vec<i64>> = k.args(array).iter().map(|&v| k.int_const(v)).collect();
        let extents = extents.ok_or("its extents are not constant")?;
        let mut accesses = Vec::new();
        let (mut views, mut seen) = (vec![k.result(array)], 0);
        while let Some(&view) = views.get(seen) {
            seen += 1;
            for &user in users.get(&view).into_iter().flatten() {
                match k.insts[user].op {
                    Op::SubView(_) => views.push(k.result(user)),
                    Op::Load | Op::Store => accesses.push(user),
                    _ => return Err("it is not only loaded and stored"),
                }
            }
        }
        let staged = stages(k, &accesses, &extents)?;
        let depth = staged.map_or(1, |s| s.1);
        let mut all = Self { depth, loads: Vec::new(), stores: Vec::new() };
        for inst in accesses {
            let access = access(k, inst, &extents, staged)?;
            let list = if k.insts[inst].op == Op::Load { &mut all.loads } else { &mut all.stores };
            list.push(access);
        }
        if depth <= DEPTH { Ok(all) } else { Err("it has too many stages") }
    }
}

/// The dimension of the stages, their number and the step between them: that along which the index of a store varies.
fn stages(k: &Kernel, accesses: &[Inst], extents: &[i64]) -> Result<Option<(usize, i64, i64)>> {
    let mut staged = None;
    for &store in accesses.iter().filter(|&&a| k.insts[a].op == Op::Store) {
        for (d, (index, _)) in indices(k, store).into_iter().enumerate() {
            if k.int_const(index).is_none() {
                let (_, circle) = stage_of(k, index, extents[d]).ok_or(NO_REMAINDER)?;
                let found = (d, circle.length, circle.step);
                if *staged.get_or_insert(found) != found {
                    return Err("its stages differ between accesses");
                }
            }
        }
    }
    Ok(staged)
}

/// The indices and lengths of an access along the dimensions of the whole array.
fn indices(k: &Kernel, inst: Inst) -> Vec<(Value, i64)> {
    let args = k.args(inst);
    let Some(window) = Window::of(k, args[0]) else { return Vec::new() };
    let tile = if k.insts[inst].op == Op::Load { k.result(inst) } else { tile_of(k, inst) };
    let lengths = match k.ty(tile) {
        Type::Tile(..) => extents(k, tile),
        _ => vec![1; window.kept.len()],
    };
    let mut all: Vec<(usize, Value, i64)> = window.fixed.iter().map(|&(d, v)| (d, v, 1)).collect();
    let kept = window.kept.iter().zip(&args[1..]).zip(lengths);
    all.extend(kept.map(|((&d, &v), l)| (d, v, i64::from(l))));
    all.sort_by_key(|a| a.0);
    all.into_iter().map(|(_, v, l)| (v, l)).collect()
}

/// `x % depth * step` that runs through an extent, or `x * step` inside of it: `x` and the circle.
fn stage_of(k: &Kernel, index: Value, extent: i64) -> Option<(Value, Circle)> {
    if let Some((x, circle)) = circle_of_remainder(k, index) {
        return (circle.length * circle.step == extent).then_some((x, circle));
    }
    let operands = |v: Value, op: BinOp| {
        let def = k.def(v).filter(|&d| k.insts[d].op == Op::Binary(op))?;
        let &[x, by] = k.args(def) else { return None };
        Some((x, k.int_const(by)?))
    };
    let (x, step) = operands(index, BinOp::Mul).unwrap_or((index, 1));
    let inside = |depth: i64| is_never_negative(k, x) && at_most(k, x).is_some_and(|most| most < depth);
    let found = step > 0 && extent % step == 0 && inside(extent / step);
    found.then(|| (x, Circle { offset: 0, length: extent / step, step }))
}

/// An access, by its indices. `staged`: the dimension of the stages, their number and the step between them.
fn access(k: &Kernel, inst: Inst, extents: &[i64], staged: Option<(usize, i64, i64)>) -> Result<Access> {
    let window = Window::of(k, k.args(inst)[0]).ok_or("a view of it is not known")?;
    let results = usize::from(k.insts[inst].op != Op::Load);
    let loads_scalar = results == 0 && !matches!(k.ty(k.result(inst)), Type::Tile(..));
    if k.args(inst).len() != 1 + window.kept.len() + results || loads_scalar {
        return Err("an access has a mask or is of one element");
    }
    let (mut stage, mut spans, mut moved) = (Stage::Number(0), Vec::new(), Vec::new());
    for (d, (index, length)) in indices(k, inst).into_iter().enumerate() {
        let step = staged.filter(|s| s.0 == d).map(|s| s.2);
        let room = step.unwrap_or(extents[d]);
        let from = match k.int_const(index) {
            Some(c) if !(0..extents[d]).contains(&c) => return Err("an index is outside of it"),
            Some(c) => {
                stage = step.map_or(stage, |step| Stage::Number(c / step));
                c % room
            }
            None if step.is_some() => {
                let (x, circle) = stage_of(k, index, extents[d]).ok_or(NO_REMAINDER)?;
                stage = Stage::Of(x, circle.offset);
                0
            }
            None if lies_inside(k, index, length as u32, window.extent(k, d)) => {
                moved.push((d, index, length));
                spans.push((0, extents[d]));
                continue;
            }
            None => return Err("a part is not known to lie inside of it"),
        };
        if from + length > room {
            return Err("an access crosses the border of a stage");
        }
        spans.push((from, length));
    }
    Ok(Access { inst, stage, spans, moved, kept: window.kept.to_vec() })
}

/// What each load reads.
pub(super) fn reaching(k: &Kernel, written: &FxHashSet<Value>, array: &Array) -> Result<Vec<Found>> {
    let search = Search { k, written, array };
    let found: Vec<Found> = array.loads.iter().map(|l| search.resolve(l)).collect::<Result<_>>()?;
    let moved = |f: &Found| f.offsets.iter().any(|o| matches!(o, Offset::At(_)));
    if found.iter().any(|f| moved(f) && !is_loaded(k, tile_of(k, f.store))) {
        return Err("a part that varies is of a computed tile");
    }
    // A tile that several iterations read would be computed in each of them.
    let twice = |a: &Found, b: &Found| a.store == b.store && a.source != b.source && !search.follows(a, b);
    match found.iter().any(|a| found.iter().any(|b| twice(a, b))) {
        true => Err("several iterations read what one stores"),
        false => Ok(found),
    }
}

/// Whether any part of a tile can be loaded by itself.
fn is_loaded(k: &Kernel, tile: Value) -> bool {
    k.def(tile).is_some_and(|def| match k.insts[def].op {
        Op::Load => true,
        Op::Trans(_) | Op::Cast => is_loaded(k, k.args(def)[0]),
        _ => false,
    })
}

/// A place that is read: its stage's number, and spans.
struct Read<'a> {
    access: &'a Access,
    number: Rc<Term>,
}

/// How a store and a read meet.
#[derive(PartialEq)]
enum Meets {
    Whole,
    Apart,
}

struct Search<'a> {
    k: &'a Kernel,
    written: &'a FxHashSet<Value>,
    array: &'a Array,
}

impl Search<'_> {
    /// Whether one is read inside a loop and the other one behind it, as many iterations later.
    fn follows(&self, a: &Found, b: &Found) -> bool {
        match (a.source, b.source) {
            (Source::Earlier { looped, by }, Source::AtEnd { looped: l, by: end })
            | (Source::AtEnd { looped, by }, Source::Earlier { looped: l, by: end }) => {
                looped == l && by == end
            }
            _ => false,
        }
    }

    fn terms(&self, given: &Given) -> Terms<'_> {
        let mut terms = Terms::new(self.k, self.written);
        given.iter().for_each(|(v, t)| terms.give(*v, t.clone()));
        terms
    }

    fn number(&self, access: &Access, given: &Given) -> Result<Rc<Term>> {
        match access.stage {
            Stage::Number(n) => Ok(Term::int(n as i32)),
            Stage::Of(v, more) => {
                let term =
                    self.terms(given).of(v).ok_or("the number of a stage is too long an expression")?;
                Ok(term.plus(&Term::int(more as i32), 1))
            }
        }
    }

    fn store(&self, inst: Inst) -> Option<&Access> {
        self.array.stores.iter().find(|s| s.inst == inst)
    }

    /// The stores inside an instruction, in program order.
    fn stores_inside(&self, inst: Inst) -> Vec<&Access> {
        let blocks = self.k.insts[inst].blocks.iter();
        blocks.flat_map(|&b| self.k.inside(b)).filter_map(|i| self.store(i)).collect()
    }

    fn meets(&self, store: &Access, given: &Given, read: &Read<'_>) -> Result<Meets> {
        let pairs = || store.spans.iter().zip(&read.access.spans);
        if pairs().any(|(s, r)| s.0 + s.1 <= r.0 || r.0 + r.1 <= s.0) {
            return Ok(Meets::Apart);
        }
        let difference = self.number(store, given)?.plus(&read.number, -1);
        let by = (0..self.array.depth).find(|&n| {
            let rest = difference.plus(&Term::int(n as i32), -1);
            rest.constant().is_some_and(|c| i64::from(c) % self.array.depth == 0)
        });
        match by.ok_or("it is not known whether two accesses are of one stage")? {
            0 if pairs().all(|(s, r)| s.0 <= r.0 && r.0 + r.1 <= s.0 + s.1) => Ok(Meets::Whole),
            0 => Err("a load reads what several stores left"),
            _ => Ok(Meets::Apart),
        }
    }

    fn resolve(&self, load: &Access) -> Result<Found> {
        let k = self.k;
        let read = Read { access: load, number: self.number(load, &[])? };
        let (mut block, mut at) = place(k, load.inst);
        loop {
            if let Some((store, source)) = self.before(block, at, &read)? {
                return Ok(found(store, source, load));
            }
            let owner = owner(k, block).ok_or("it is read before it is stored")?;
            match k.insts[owner].op {
                Op::For => {
                    let counter = Rc::new(Term::Leaf(k.blocks[block].params[0]));
                    let of = |t: &Rc<Term>| self.number(load, &[(k.blocks[block].params[0], t.clone())]);
                    if let Some((store, by)) = self.around(owner, &counter, &read, &of)? {
                        return Ok(found(store, Source::Earlier { looped: owner, by }, load));
                    }
                }
                Op::If => {}
                _ => return Err("it is read in a loop without a counter"),
            }
            (block, at) = place(k, owner);
        }
    }

    /// The store that a read finds in a block in front of a place.
    fn before(&self, block: Block, at: usize, read: &Read<'_>) -> Result<Option<(&Access, Source)>> {
        for &inst in self.k.blocks[block].insts[..at].iter().rev() {
            if let Some(store) = self.store(inst) {
                if self.meets(store, &[], read)? == Meets::Whole {
                    return Ok(Some((store, Source::Same)));
                }
                continue;
            }
            let inside = self.stores_inside(inst);
            if inside.is_empty() {
                continue;
            }
            if self.k.insts[inst].op == Op::For && self.end_of(inst).is_some() {
                if let Some(found) = self.behind(inst, read)? {
                    return Ok(Some(found));
                }
            } else if !inside.iter().all(|s| self.meets(s, &[], read) == Ok(Meets::Apart)) {
                return Err("a branch stores what is read behind it");
            }
        }
        Ok(None)
    }

    /// Where a loop's counter ends, if it does not begin behind that.
    fn end_of(&self, looped: Inst) -> Option<Rc<Term>> {
        let [low, high, step] = [0, 1, 2].map(|n| self.k.args(looped)[n]);
        let [low, step] = [low, step].map(|v| self.k.int_const(v));
        let ascends = match self.k.int_const(high) {
            Some(high) => low <= Some(high),
            None => low == Some(0) && is_never_negative(self.k, high),
        };
        (step == Some(1) && low.is_some() && ascends).then(|| self.terms(&[]).of(high)).flatten()
    }

    /// The store of a loop that a read behind it finds.
    fn behind(&self, looped: Inst, read: &Read<'_>) -> Result<Option<(&Access, Source)>> {
        let end = self.end_of(looped).ok_or("a loop stores what is read behind it")?;
        let offset = read.number.plus(&end, -1);
        let of = |t: &Rc<Term>| Ok(offset.plus(t, 1));
        let found = self.around(looped, &end, read, &of)?;
        Ok(found.map(|(store, by)| (store, Source::AtEnd { looped, by })))
    }

    /// The store of an earlier iteration that a read finds when the counter is `now`, and how much less the counter was.
    /// `read_at`: the number that is read for another value of the counter.
    fn around(
        &self,
        looped: Inst,
        now: &Rc<Term>,
        read: &Read<'_>,
        read_at: &dyn Fn(&Rc<Term>) -> Result<Rc<Term>>,
    ) -> Result<Option<(&Access, i64)>> {
        let k = self.k;
        let stores = self.stores_inside(looped);
        let step = k
            .int_const(k.args(looped)[2])
            .filter(|&s| s > 0)
            .ok_or("the step of its loop is not constant")?;
        let counter = k.blocks[body(k, looped)].params[0];
        let low = self.terms(&[]).of(k.args(looped)[0]);
        let behind = low.and_then(|low| now.plus(&low, -1).constant()).map(i64::from);
        let most = behind.map_or(self.array.depth, |b| (b / step).min(self.array.depth));
        for d in 1..=most {
            let then = now.plus(&Term::int((d * step) as i32), -1);
            let given = [(counter, then)];
            for store in stores.iter().rev() {
                if self.meets(store, &given, read)? == Meets::Apart {
                    continue;
                }
                self.always_stores(looped, store, now, &given)?;
                if behind.is_none() {
                    self.starts(looped, store, read, (d, step), read_at)?;
                }
                return Ok(Some((store, d * step)));
            }
        }
        Ok(None)
    }

    /// Whether a store of a loop runs in each iteration that others follow, and what it stores is known by the counter.
    fn always_stores(&self, looped: Inst, store: &Access, now: &Rc<Term>, given: &Given) -> Result<()> {
        let k = self.k;
        let own = body(k, looped);
        let at = block_of(k, store.inst);
        if at != own {
            let branch = owner(k, at).filter(|&b| k.insts[b].op == Op::If && block_of(k, b) == own);
            let branch = branch.ok_or("an inner loop or branch stores what a later iteration reads")?;
            let then = k.insts[branch].blocks[0] == at;
            if !then || !self.holds(looped, k.args(branch)[0], now, given) {
                return Err("a branch may leave out what a later iteration reads");
            }
        }
        let inside = k.inside(own);
        if inside.iter().any(|&i| matches!(k.insts[i].op, Op::Assume(_))) {
            return Err("its loop makes promises");
        }
        let counter = k.blocks[own].params[0];
        let blocks = [own].into_iter().chain(inside.iter().flat_map(|&i| k.insts[i].blocks.iter().copied()));
        let params = blocks.flat_map(|b| k.blocks[b].params.iter().copied());
        let results = inside.iter().flat_map(|&i| k.results(i).iter().copied());
        let own: FxHashSet<Value> = params.chain(results).filter(|&v| v != counter).collect();
        let mut terms = self.terms(&[]);
        let known = terms.of(tile_of(k, store.inst)).is_some_and(|t| !t.names(&own));
        if known { Ok(()) } else { Err("what a later iteration reads is no function of the loop's counter") }
    }

    /// Whether a condition holds in an iteration behind which, at `now`, there is another one.
    fn holds(&self, looped: Inst, condition: Value, now: &Rc<Term>, given: &Given) -> bool {
        let k = self.k;
        let Some(def) = k.def(condition) else { return false };
        let (&[x, y], Op::Compare(cmp)) = (k.args(def), &k.insts[def].op) else { return false };
        let (x, y, more) = match cmp {
            CmpOp::Lt | CmpOp::Ne => (x, y, 0),
            CmpOp::Le => (x, y, 1),
            CmpOp::Gt => (y, x, 0),
            CmpOp::Ge => (y, x, 1),
            _ => return false,
        };
        let mut terms = self.terms(given);
        let Some(high) = terms.of(k.args(looped)[1]) else { return false };
        let beyond = high.plus(now, -1);
        // An iteration is below the end.
        let least = if beyond.constant() == Some(0) { 1 } else { 0 };
        if least == 0 && is_below_end(k, &mut terms, looped, condition, now) {
            return true;
        }
        let mut of = |v: Value| terms.of(v);
        let (Some(x), Some(y)) = (of(x), of(y)) else { return false };
        let left = y.plus(&x, -1).plus(&beyond, -1);
        left.constant().is_some_and(|c| i64::from(c) + more >= least)
    }

    /// Whether the first iterations find in front of a loop what it would have stored before.
    fn starts(
        &self,
        looped: Inst,
        store: &Access,
        read: &Read<'_>,
        (d, step): (i64, i64),
        read_at: &dyn Fn(&Rc<Term>) -> Result<Rc<Term>>,
    ) -> Result<()> {
        const OTHER: &str = "what its first iterations read is not what the loop would have stored";
        let k = self.k;
        let counter = k.blocks[body(k, looped)].params[0];
        let low = self.terms(&[]).of(k.args(looped)[0]).ok_or(OTHER)?;
        let (block, at) = place(k, looped);
        for j in 0..d {
            let now = low.plus(&Term::int((j * step) as i32), 1);
            let first = Read { access: read.access, number: read_at(&now)? };
            let then = now.plus(&Term::int((d * step) as i32), -1);
            let loop_stores = self.terms(&[(counter, then)]).of(tile_of(k, store.inst));
            let (before, source) = self.before(block, at, &first)?.ok_or(OTHER)?;
            let given = match source {
                Source::AtEnd { looped, by } => {
                    let end = self.end_of(looped).ok_or(OTHER)?;
                    vec![(k.blocks[body(k, looped)].params[0], end.plus(&Term::int(by as i32), -1))]
                }
                _ => Vec::new(),
            };
            let stored = self.terms(&given).of(tile_of(k, before.inst));
            if before.spans != store.spans || stored.is_none() || stored != loop_stores {
                return Err(OTHER);
            }
        }
        Ok(())
    }
}

fn found(store: &Access, source: Source, load: &Access) -> Found {
    let part = |d: &usize| match load.moved.iter().find(|m| m.0 == *d) {
        Some(&(_, at, length)) => (Offset::At(at), length),
        None => (Offset::Number(load.spans[*d].0 - store.spans[*d].0), load.spans[*d].1),
    };
    let (offsets, lengths) = store.kept.iter().map(part).unzip();
    Found {
        store: store.inst,
        source,
        whole: load.moved.is_empty() && load.spans == store.spans,
        offsets,
        lengths,
    }
}

/// The tile that a store stores.
pub(super) fn tile_of(k: &Kernel, store: Inst) -> Value {
    k.args(store)[k.args(store).len() - 1]
}

/// The block in which an instruction stands, and where.
fn place(k: &Kernel, inst: Inst) -> (Block, usize) {
    let block = block_of(k, inst);
    (block, k.blocks[block].insts.iter().position(|&i| i == inst).unwrap_or(0))
}

/// The instruction that a block is of.
pub(super) fn owner(k: &Kernel, block: Block) -> Option<Inst> {
    k.insts.keys().find(|&i| k.insts[i].blocks.contains(&block))
}
