//! `split_k n`: the iterations of a loop that only adds up are shared out among `n` blocks of each tile. `stream_k`: they
//! are shared out among the programs of a persistent kernel, and only some tiles are cut. [`work_items`](super::work_items)
//! says who does what.
//!
//! ```text
//!  acc = for t in 0..hi carry x = 0 { yield x + .. }      block s of n: for t in its part of 0..hi
//!  store c, f(acc)                                   ─►   store w[.., s], acc ─ last = arrive flags[..], n
//!                                                         if last { store c, f(w[.., 0] + w[.., 1] + ..) }
//! ```
//!
//! The grid's new last dimension is that of slices, or of items; of three dimensions the last two become one
//! ([`fold_grid`](super::fold_grid)). Parts stand side by side in a workspace, and the last
//! block to arrive adds them in a fixed order: the sum does not depend on which block that is. With `stream_k` all this is
//! under a branch, and a tile that is not cut goes on from the loop. No block waits for
//! another, so any number of them may run at once. (Stream-K, Osama et al. 2023, section 3, calls the addition a fix-up;
//! CUTLASS, `include/cutlass/barrier.h`, has the order of memory.)

use super::MapContext;
use super::cursor::{Cursor, I32};
use super::fold_grid::do_fold_grid;
use super::loops::copy;
use super::mma_variant::consumers;
use super::work_items::{MAX_PARTS, Places, WorkItem, section_of_tile, slice_of_tile};
use crate::facts::launch_expr;
use crate::tiles::{constant, extents, loop_name, shared_trips};
use crate::{IselError, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{
    ArrayMapping, BinOp, Block, Epilogue, Inst, Item, Kernel, LoopMapping, Mapping, Op, Raster, Shape, Type,
    Value, Way,
};
use warplift_ir::types::Elem;

/// Up to so many parts are added one behind the other in the text. A loop adds more parts, so many in each trip.
const UNROLLED: u32 = 8;
/// Registers of a thread for parts that wait for memory together at most, and those that it needs beside them.
const HELD: u32 = 96;
const BESIDE: u32 = 44;
/// Threads of a block that do not compute.
const PRODUCER: u32 = 128;
/// Columns of a tile of which the threads hold parts at once.
const WIDE: u32 = 64;
/// Threads that compute, where the mapping names none.
const THREADS: u32 = 128;
/// The greatest rank of a tile of sums: its views have three dimensions more.
const MAX_SUM_RANK: usize = 2;

/// Shares out the loop of which the mapping says so.
///
/// # Errors
/// A loop that does more than add up, or a kernel that has work before the loop that only one block may do.
pub fn do_split_k(k: &mut Kernel, c: &MapContext<'_>) -> Result<()> {
    if let Some(inst) = shared_trips(k) {
        return Err(IselError::at(k, inst, "`trips` is an attribute that `stream_k` writes: leave it out"));
    }
    let form = |l: &LoopMapping| l.split_k.map(Form::Slices).or(l.stream_k.then_some(Form::Stream));
    let mut said = c.mapping.loops.iter().enumerate().filter_map(|(n, l)| Some((n, l, form(&l.1)?)));
    let Some((n, (name, looped), form)) = said.next() else { return Ok(()) };
    let (word, words) = form.words();
    let refuse = |why: &str| {
        let message = format!("loop `{name}`: `{words}`: {why}");
        Err(IselError::said(c.mapping, Item::Loop(n), word, message))
    };
    if said.next().is_some() {
        return refuse("another loop is shared out too");
    }
    if looped.split_k.is_some() && looped.stream_k {
        return refuse("`stream_k` shares it out too: use one of the two");
    }
    let looped = match check(k, c.mapping, name, form) {
        Ok(looped) => looped,
        Err(why) => return refuse(&why),
    };
    let known = |&bound: &Value| launch_expr(k, bound).is_some();
    if form == Form::Stream && !k.args(looped)[..2].iter().all(known) {
        return refuse(
            "its iterations are not known at launch: of sums, products, quotients, minima and maxima they are",
        );
    }
    let threads = threads(c.mapping);
    let registers = (c.target.registers / (threads + PRODUCER)).min(c.target.thread_registers);
    Split { form, looped, threads, registers, looks: k.insts[looped].loc }.rewrite(k);
    Ok(())
}

/// Who shares out a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `split_k`: so many blocks of each tile.
    Slices(u32),
    /// `stream_k`: the programs of a persistent kernel.
    Stream,
}

impl Form {
    /// Its word, and all that the mapping says.
    fn words(self) -> (&'static str, String) {
        match self {
            Self::Slices(slices) => ("split_k", format!("split_k {slices}")),
            Self::Stream => ("stream_k", "stream_k".to_owned()),
        }
    }
}

/// Whether `split_k` can share out a loop of a kernel, by the name of its counter.
pub fn can_split_k(k: &Kernel, name: &str) -> bool {
    check(k, &Mapping::default(), name, Form::Slices(2)).is_ok()
}

/// Whether `stream_k` can.
pub fn can_stream_k(k: &Kernel, name: &str) -> bool {
    let mut mapping = Mapping::default();
    mapping.whole.persistent = true;
    check(k, &mapping, name, Form::Stream).is_ok()
}

/// Threads of a block that compute.
fn threads(mapping: &Mapping) -> u32 {
    let groups = consumers(mapping).map(|groups| 128 * groups);
    groups.or(mapping.whole.warps.map(|warps| 32 * warps)).unwrap_or(THREADS)
}

/// The loop, or why it cannot be shared out.
fn check(k: &Kernel, mapping: &Mapping, name: &str, form: Form) -> std::result::Result<Inst, String> {
    let top = &k.blocks[k.entry].insts;
    let Some(at) = top.iter().position(|&i| loop_name(k, i) == Some(name)) else {
        return Err("it stands inside another loop or branch".to_owned());
    };
    check_words(mapping, form)?;
    if form == Form::Stream && k.args(top[at])[..2].iter().any(|&bound| !is_of_arguments(k, bound)) {
        return Err("its iterations depend on more than integer arguments: tiles may differ".to_owned());
    }
    let (before, behind) = (&top[..at], &top[at + 1..]);
    let has = |i: Inst, is: fn(&Op) -> bool| k.any_inside(i, |i| is(&k.insts[i].op));
    if before.iter().any(|&i| has(i, |op| op.has_effect() && !matches!(op, Op::Assert(_)))) {
        return Err("every slice would do what stands before it, which has an effect".to_owned());
    }
    let way = |i: Inst| k.def(k.whole_view(k.args(i)[0])).map_or(Way::Fit, |view| k.attrs[view].array.way);
    let copied = |i: Inst| matches!(k.insts[i].op, Op::Load) && matches!(way(i), Way::Staged | Way::Packed);
    if behind.iter().any(|&i| has(i, |op| matches!(op, Op::Mma { .. } | Op::While))) {
        return Err("behind it stand products or copies, which one block cannot begin alone".to_owned());
    }
    if behind.iter().any(|&i| k.any_inside(i, copied)) {
        return Err(
            "an array that is read behind it is `staged` or `packed`: the last block loads it plainly"
                .to_owned(),
        );
    }
    only_adds(k, top[at]).map(|()| top[at])
}

/// Whether a scalar depends on arguments and tunables alone.
fn is_of_arguments(k: &Kernel, v: Value) -> bool {
    let (mut seen, mut todo) = (FxHashSet::default(), vec![v]);
    while let Some(v) = todo.pop() {
        let is = match k.def(v).map(|def| (&k.insts[def].op, def)) {
            None => k.params.iter().any(|p| p.value == v),
            Some((Op::Int(_) | Op::Dim(_), _)) => true,
            Some((Op::Binary(_) | Op::Cast, def)) => {
                todo.extend(k.args(def).iter().filter(|&&a| seen.insert(a)));
                true
            }
            Some(_) => false,
        };
        if !is {
            return false;
        }
    }
    true
}

/// Checks that the other words of a mapping go with it.
fn check_words(mapping: &Mapping, form: Form) -> std::result::Result<(), String> {
    let w = mapping.whole;
    let stream = form == Form::Stream;
    let why = match w {
        _ if w.blocks > 1 => format!("`blocks {}` hold a tile together", w.blocks),
        _ if w.pingpong > 1 => format!("`pingpong {}`: teams take whole tiles in turn", w.pingpong),
        _ if w.epilogue == Epilogue::Warps => {
            "`epilogue warps` end every tile, and here only the last block of a tile has an end".to_owned()
        }
        _ if stream && !w.persistent => {
            "only a `persistent` kernel has programs that go on to the next tile".to_owned()
        }
        _ if stream && w.cluster > 1 => {
            format!("`cluster {}`: its blocks work on neighbours in step", w.cluster)
        }
        _ if stream && w.counter => {
            "`raster counter`: a program gets its iterations before it starts, and draws none".to_owned()
        }
        _ if stream && w.raster == Raster::Paired => {
            "`raster paired` gives each program whole tiles of its own".to_owned()
        }
        _ => return Ok(()),
    };
    Err(why)
}

/// Checks that a loop only adds up: each carried tile starts at zero, and an iteration adds to it.
fn only_adds(k: &Kernel, looped: Inst) -> std::result::Result<(), String> {
    let (args, body) = (k.args(looped), k.insts[looped].blocks[0]);
    if k.int_const(args[2]) != Some(1) {
        return Err("its step is not 1".to_owned());
    }
    if k.any_inside(looped, |i| k.insts[i].op.has_effect()) {
        return Err("it does more than add up: an instruction in it has an effect".to_owned());
    }
    if args.len() == 3 {
        return Err("it carries no sum".to_owned());
    }
    let params = &k.blocks[body].params[1..];
    for ((&init, &sum), &next) in args[3..].iter().zip(params).zip(k.yields(body)) {
        let named = |v: Value| match k.names[v].as_str() {
            "" => v.to_string(),
            name => format!("`{name}`"),
        };
        // Not at -0: sums of parts that begin at +0 are never -0.
        if constant(k, init).is_none_or(|zero| zero.to_bits() != 0) {
            return Err(format!("{} does not start at zero", named(sum)));
        }
        let rank = k.ty(sum).shape().map_or(0, |s| s.rank());
        if !(1..=MAX_SUM_RANK).contains(&rank) {
            return Err(format!("{} is no tile of one or two dimensions", named(sum)));
        }
        if !is_added_to(k, body, next, sum) {
            return Err(format!("it does more than add to {}", named(sum)));
        }
    }
    Ok(())
}

/// Whether `next` is `sum` plus terms that do not depend on it.
fn is_added_to(k: &Kernel, body: Block, next: Value, sum: Value) -> bool {
    let all = k.inside(body);
    let uses = |v: Value| all.iter().map(|&i| k.args(i).iter().filter(|&&a| a == v).count()).sum::<usize>();
    let mut at = next;
    while uses(at) == 1 {
        if at == sum {
            return true;
        }
        let Some(def) = k.def(at).filter(|d| k.blocks[body].insts.contains(d)) else { return false };
        let args = k.args(def);
        at = match k.insts[def].op {
            Op::Mma { .. } => args[0],
            Op::Fma => args[2],
            Op::Binary(BinOp::Add) => args[usize::from(!leads_to(k, args[0], sum))],
            _ => return false,
        };
    }
    false
}

/// Whether a value is the sum, or something is added to it there.
fn leads_to(k: &Kernel, v: Value, sum: Value) -> bool {
    let (mut open, mut seen) = (vec![v], FxHashSet::default());
    while let Some(v) = open.pop() {
        if v == sum {
            return true;
        }
        let Some(def) = k.def(v).filter(|_| seen.insert(v)) else { continue };
        let args = k.args(def);
        match k.insts[def].op {
            Op::Mma { .. } => open.push(args[0]),
            Op::Fma => open.push(args[2]),
            Op::Binary(BinOp::Add) => open.extend(args),
            _ => {}
        }
    }
    false
}

/// A loop that is shared out.
struct Split {
    form: Form,
    looped: Inst,
    /// Threads that compute, and registers of each.
    threads: u32,
    registers: u32,
    looks: warplift_ir::tile::Loc,
}

/// The parts of one sum.
struct Parts {
    places: Places,
    /// The view of the workspace.
    view: Value,
    sum: Value,
}

impl Split {
    fn rewrite(&self, k: &mut Kernel) {
        do_fold_grid(k);
        let entry = k.entry;
        let mut old = std::mem::take(&mut k.blocks[entry].insts);
        let at = old.iter().position(|&i| i == self.looped).unwrap_or(0);
        let behind = old.split_off(at + 1);
        old.pop();
        k.blocks[entry].insts = old;
        let item = self.share_out(k);
        k.blocks[entry].insts.push(self.looped);
        let sums = k.results(self.looped).to_vec();
        let views: Vec<Value> = sums.iter().map(|&sum| parts_array(k, &item.slots, sum)).collect();
        let counters = array(k, Elem::Uint(32), &item.counters);
        let parts = |(&sum, &view): (&Value, &Value)| Parts { places: item.places, view, sum };
        let parts: Vec<Parts> = sums.iter().zip(&views).map(parts).collect();
        let (outside, ending, end) = divide(k, behind, &sums);
        k.blocks[entry].insts.extend(outside);
        match item.is_cut {
            None => self.finish(k, entry, &item, &parts, counters, ending),
            Some(is_cut) => {
                let [cut, whole] = [(); 2].map(|()| k.blocks.push(Default::default()));
                let copies = k.blocks.push(Default::default());
                copy(k, &ending, copies, &mut FxHashMap::default());
                let copies = std::mem::take(&mut k.blocks[copies].insts);
                self.finish(k, cut, &item, &parts, counters, copies);
                k.blocks[whole].insts = ending;
                self.branch(k, entry, is_cut, [cut, whole]);
            }
        }
        k.blocks[entry].insts.extend(end);
    }

    /// Gives the loop the iterations of a work item, and the grid the dimension of items.
    fn share_out(&self, k: &mut Kernel) -> WorkItem {
        let entry = k.entry;
        let [low, high] = [k.args(self.looped)[0], k.args(self.looped)[1]];
        let mut s = Cursor::at_end(k, entry);
        // Facts follow a loop that starts at zero: its number of iterations is no difference.
        let trips = if s.k.int_const(low) == Some(0) { high } else { s.op(BinOp::Sub, high, low) };
        let items = Op::BlockIndex(k.grid.len() as u8);
        let number = Cursor::at_end(k, entry).index(items, &[]);
        let item = match self.form {
            Form::Slices(slices) => {
                let all = Cursor::at_end(k, entry).int(slices.into());
                let item = slice_of_tile(k, trips, number, (all, slices));
                k.grid.push(all);
                item
            }
            Form::Stream => {
                let trips = Cursor::at_end(k, entry).with(BinOp::Max, trips, 0);
                k.def(trips).into_iter().for_each(|trips| k.attrs[trips].trips = true);
                let item = section_of_tile(k, trips, number);
                let one = Cursor::at_end(k, entry).int(1);
                k.grid.push(one);
                item
            }
        };
        let mut s = Cursor::at_end(k, entry);
        let from = s.op(BinOp::Add, low, item.first);
        let to = s.op(BinOp::Add, low, item.end);
        // The loop's old end is a bound that the launch knows.
        let to = s.op(BinOp::Min, to, high);
        let mut args = k.insts[self.looped].args;
        args.as_mut_slice(&mut k.pool)[..2].copy_from_slice(&[from, to]);
        k.insts[self.looped].args = args;
        item
    }

    /// Stores the own parts, and puts the rest of the kernel under the condition that this block is the last one.
    fn finish(
        &self,
        k: &mut Kernel,
        block: Block,
        item: &WorkItem,
        parts: &[Parts],
        counters: Value,
        ending: Vec<Inst>,
    ) {
        let zero = Cursor::at_end(k, block).int(0);
        for Parts { view, sum, .. } in parts {
            let own = part(k, block, *view, &item.own, rank(k, *sum));
            let args: Vec<Value> = [own].into_iter().chain(vec![zero; rank(k, *sum)]).chain([*sum]).collect();
            let store = self.at_end(k, block).effect(Op::Store, &args);
            k.attrs[store].by_threads = true;
        }
        let args: Vec<Value> =
            [counters].into_iter().chain(item.counter.iter().copied()).chain([item.parts]).collect();
        let last = self.at_end(k, block).inst(Op::Arrive, &args, Type::Scalar(Elem::Bool));
        let [then, other] = [(); 2].map(|()| k.blocks.push(Default::default()));
        let totals: Vec<(Value, Value)> = parts.iter().map(|p| (p.sum, self.total(k, then, p))).collect();
        k.blocks[then].insts.extend(ending);
        rename_in(k, then, &totals);
        self.branch(k, block, last, [then, other]);
    }

    /// A branch without results at the end of a block.
    fn branch(&self, k: &mut Kernel, block: Block, condition: Value, sides: [Block; 2]) {
        sides.into_iter().for_each(|b| _ = self.at_end(k, b).effect(Op::Yield, &[]));
        k.append_inst(block, Op::If, &[condition], &[], &sides, self.looks);
    }

    /// The sum of all parts, in an order that depends on their number alone: first those that no whole trip of a loop
    /// takes, then trip after trip.
    fn total(&self, k: &mut Kernel, block: Block, parts: &Parts) -> Value {
        let single = |k: &mut Kernel, n: u32| Cursor::at_end(k, block).int(n.into());
        let most = match self.form {
            Form::Slices(slices) => slices,
            Form::Stream => MAX_PARTS,
        };
        if most <= UNROLLED {
            let all: Vec<Value> = (0..most).map(|n| single(k, n)).collect();
            return self.added(k, block, parts, &all, WIDE);
        }
        let rest: Vec<Value> = (0..most % UNROLLED).map(|n| single(k, n)).collect();
        let first = match rest.is_empty() {
            true => self.zero(k, block, k.ty(parts.sum)),
            false => self.added(k, block, parts, &rest, u32::MAX),
        };
        self.added_by_loop(k, block, parts, first, most)
    }

    /// The sum of some parts, of which a thread holds columns up to `wide` at once.
    fn added(&self, k: &mut Kernel, block: Block, parts: &Parts, numbers: &[Value], wide: u32) -> Value {
        let all: Vec<Value> = numbers.iter().map(|&n| self.load(k, block, parts, n)).collect();
        // A sum nested to the right names all its loads before the first addition, so they wait for memory together.
        let nested = |k: &mut Kernel, some: &[Value]| {
            some.iter().rev().copied().reduce(|so_far, next| self.add(k, block, next, so_far))
        };
        let together = self.together(k, parts.sum, wide);
        let groups = all.chunks(together).filter_map(|some| nested(k, some)).collect::<Vec<_>>();
        groups.into_iter().reduce(|so_far, next| self.add(k, block, so_far, next)).unwrap_or(parts.sum)
    }

    /// Adds the last parts, a multiple of [`UNROLLED`], to a sum.
    fn added_by_loop(&self, k: &mut Kernel, block: Block, parts: &Parts, first: Value, all: u32) -> Value {
        let ty = k.ty(parts.sum);
        let body = k.blocks.push(Default::default());
        let trip = k.append_param(body, I32);
        let so_far = k.append_param(body, ty);
        let mut s = Cursor::at_end(k, body);
        let start = s.with(BinOp::Mul, trip, UNROLLED.into());
        let from = all % UNROLLED;
        let numbers: Vec<Value> =
            (from..from + UNROLLED).map(|n| s.with(BinOp::Add, start, n.into())).collect();
        let next = self.added(k, body, parts, &numbers, u32::MAX);
        let next = self.add(k, body, so_far, next);
        self.at_end(k, body).effect(Op::Yield, &[next]);
        let [low, high, step] = [0, all / UNROLLED, 1].map(|v| Cursor::at_end(k, block).int(v.into()));
        let looped = k.append_inst(block, Op::For, &[low, high, step, first], &[ty], &[body], self.looks);
        k.attrs[looped].looped = Some(LoopMapping::default());
        k.result(looped)
    }

    /// Parts that are loaded before the first is added, so that a thread holds about [`HELD`] registers of them, and no
    /// more than it has: of a wide tile [`chunk`](super::chunk) makes pieces, except where a loop carries the sum.
    fn together(&self, k: &Kernel, sum: Value, wide: u32) -> usize {
        let registers = |wide: u32| {
            let all = extents(k, sum);
            let columns = all.last().map_or(1, |&e| e.min(wide));
            let rows: u32 = all.iter().rev().skip(1).product();
            rows * columns / self.threads
        };
        let carried = if wide == u32::MAX { registers(wide) } else { 0 };
        let free = self.registers.saturating_sub(BESIDE + carried);
        (HELD.min(free) / registers(wide).max(1)).max(2) as usize
    }

    /// Appends for the sake of the loop.
    fn at_end<'k>(&self, k: &'k mut Kernel, block: Block) -> Cursor<'k> {
        Cursor { k, block, loc: self.looks }
    }

    fn zero(&self, k: &mut Kernel, block: Block, ty: Type) -> Value {
        let op = if ty.elem().is_float() { Op::Float(0.0) } else { Op::Int(0) };
        self.at_end(k, block).constant(op, ty)
    }

    fn load(&self, k: &mut Kernel, block: Block, parts: &Parts, n: Value) -> Value {
        let rank = rank(k, parts.sum);
        let place = parts.places.of(k, block, n);
        let view = part(k, block, parts.view, &place, rank);
        let zero = Cursor::at_end(k, block).int(0);
        let args: Vec<Value> = [view].into_iter().chain(vec![zero; rank]).collect();
        let ty = k.ty(parts.sum);
        self.at_end(k, block).inst(Op::Load, &args, ty)
    }

    fn add(&self, k: &mut Kernel, block: Block, x: Value, y: Value) -> Value {
        self.at_end(k, block).op(BinOp::Add, x, y)
    }
}

fn rank(k: &Kernel, tile: Value) -> usize {
    k.ty(tile).shape().map_or(0, |s: Shape| s.rank())
}

/// A view of a new workspace with these extents, in the entry block.
fn array(k: &mut Kernel, elem: Elem, extents: &[Value]) -> Value {
    let entry = k.entry;
    let mut c = Cursor::at_end(k, entry);
    let memory = c.inst(Op::Workspace, extents, Type::Ptr(elem));
    let args: Vec<Value> = [memory].into_iter().chain(extents.iter().copied()).collect();
    c.inst(Op::View { strided: false, fill: 0.0 }, &args, Type::View(elem, extents.len() as u8))
}

/// The parts of a sum: a view of the workspace, with these extents before those of a part.
fn parts_array(k: &mut Kernel, slots: &[Value], sum: Value) -> Value {
    let entry = k.entry;
    let own: Vec<u32> = extents(k, sum);
    let own = own.into_iter().map(|e| Cursor::at_end(k, entry).int(e.into())).collect::<Vec<_>>();
    let view = array(k, k.ty(sum).elem(), &[slots, &own].concat());
    let def = k.def(view);
    def.into_iter()
        .for_each(|d| k.attrs[d].array = ArrayMapping { way: Way::Plain, ..ArrayMapping::default() });
    view
}

/// One part of a tile's sum.
fn part(k: &mut Kernel, block: Block, parts: Value, place: &[Value], rank: usize) -> Value {
    let first = place.len() as u8;
    let kept = (first..first + rank as u8).collect();
    let args = [&[parts], place].concat();
    let ty = Type::View(k.ty(parts).elem(), rank as u8);
    Cursor::at_end(k, block).inst(Op::SubView(kept), &args, ty)
}

/// Divides what stands behind the loop: what needs no sum and has no effect, what only the last block does, and the
/// kernel's end.
fn divide(k: &Kernel, behind: Vec<Inst>, sums: &[Value]) -> (Vec<Inst>, Vec<Inst>, Option<Inst>) {
    let mut inner: FxHashSet<Value> = sums.iter().copied().collect();
    let (mut outside, mut ending, mut end) = (Vec::new(), Vec::new(), None);
    for inst in behind {
        let op = &k.insts[inst].op;
        let scalars = k.results(inst).iter().all(|&r| !matches!(k.ty(r), Type::Tile(..)));
        let free = matches!(op, Op::Assert(_))
            || !op.has_effect() && !op.is_read() && scalars && k.insts[inst].blocks.is_empty();
        if matches!(op, Op::Yield) {
            end = Some(inst);
        } else if free && !k.args(inst).iter().any(|a| inner.contains(a)) {
            outside.push(inst);
        } else {
            inner.extend(k.results(inst));
            ending.push(inst);
        }
    }
    (outside, ending, end)
}

/// Replaces values in a block and in those inside it.
fn rename_in(k: &mut Kernel, block: Block, renamed: &[(Value, Value)]) {
    for inst in k.inside(block) {
        let mut list = k.insts[inst].args;
        for arg in list.as_mut_slice(&mut k.pool) {
            if let Some((_, to)) = renamed.iter().find(|(from, _)| from == arg) {
                *arg = *to;
            }
        }
        k.insts[inst].args = list;
    }
}
