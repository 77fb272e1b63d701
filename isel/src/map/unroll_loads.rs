//! Loops whose trips memory decides run several iterations at once, so that their loads are in flight together.
//!
//! ```text
//!  for t in lo..hi carry s {          for u in 0..hi-lo step 8 carry s {
//!    c = load ids[t]                    c0 = load ids[lo+u]  c1 = load ids[lo+u+1]                   ..
//!    yield s + load x[c, 0]      ─►     x0 = load x[c0, 0]   x1 = load x[c1, 0] where 1 < hi-lo-u    ..
//!                                       s1 = s + x0          s2 = select(1 < hi-lo-u, s1 + x1, s1)   ..
//!                                       yield s8
//! ```
//!
//! A row of a sparse matrix, a bag of embeddings or a sequence is short, and each of its iterations waits for memory. The order of
//! sums stays as it is. Iterations past the end load nothing but scalars, and change nothing. What stores, or loads what the
//! kernel writes, runs as it is written. Loops of products have rings.

use super::cursor::Cursor;
use super::loops::{body, carried};
use crate::Ways;
use crate::operand::is_plain;
use crate::tiles::{
    WARP, WARPGROUP_THREADS, ancestors, constant, extents, in_shared, memory, program_order, with_elem,
    written,
};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, CmpOp, Inst, Kernel, Mapping, Op, Type, Value};
use warplift_ir::types::Elem;

/// Iterations at once at most, where each takes one place of a row or one row.
const TIMES: u32 = 8;
/// The same where each takes a tile of places: many rows have one, and four at once lost 37% there.
const TIMES_OF_TILES: u32 = 2;
/// Numbers between iterations of the written loop at most. A loop over 2^31 numbers and more ends at 2^31 - 1 of them: it has too many
/// iterations to come there.
const STRIDE: f64 = 65536.0;
/// Words of all iterations' loads that a thread holds at most.
const WORDS: u32 = 32;

/// Runs several iterations of loops at once, where memory decides how many there are.
pub fn do_unroll_loads(k: &mut Kernel, mapping: &Mapping, ways: Ways) {
    if !ways.unrolled_loads {
        return;
    }
    let threads = mapping.whole.warps.map_or(WARPGROUP_THREADS, |w| WARP * w);
    for looped in program_order(k).into_iter().filter(|&i| is_open_ended(k, i)).collect::<Vec<_>>() {
        let times = times(k, looped, threads);
        let stride = constant(k, k.args(looped)[2]).map_or(0.0, |step| step * f64::from(times));
        if times > 1 && (1.0..=STRIDE).contains(&stride) && is_repeatable(k, looped) {
            repeat(k, looped, times);
        }
    }
}

/// Whether it is a loop that a number from memory ends.
fn is_open_ended(k: &Kernel, looped: Inst) -> bool {
    let attrs = &k.attrs[looped];
    let fixed = |d: Inst| !k.insts[d].op.is_read();
    let read = |&v: &Value| k.def(v).is_some_and(|d| k.insts[d].op.is_read());
    matches!(k.insts[looped].op, Op::For)
        && carried(k, looped) > 0
        && !attrs.persistent
        && !attrs.looped.is_some_and(|l| l.stream_k || l.split_k.is_some())
        && k.args(looped)[..2].iter().any(|&bound| ancestors(k, bound, fixed).iter().any(read))
}

/// The iterations that run at once: as many as have registers for what they load.
fn times(k: &Kernel, looped: Inst, threads: u32) -> u32 {
    let own = &k.blocks[body(k, looped)].insts;
    let words = |&i: &Inst| {
        let elements = extents(k, k.result(i)).iter().product::<u32>().max(1);
        (elements.div_ceil(threads) * k.ty(k.result(i)).elem().bits()).div_ceil(32)
    };
    let all: u32 = own.iter().filter(|&&i| k.insts[i].op.is_read()).map(words).sum();
    let most = if takes_tiles(k, looped) { TIMES_OF_TILES } else { TIMES };
    [most, most / 2].into_iter().find(|n| n * all <= WORDS).unwrap_or(1)
}

/// Whether places in an iteration are a tile behind those of the iteration before.
fn takes_tiles(k: &Kernel, looped: Inst) -> bool {
    let block = &k.blocks[body(k, looped)];
    let scales = |i: &Inst| {
        matches!(k.insts[*i].op, Op::Binary(BinOp::Mul | BinOp::Shl)) && k.args(*i).contains(&block.params[0])
    };
    constant(k, k.args(looped)[2]) != Some(1.0) || block.insts.iter().any(scales)
}

/// Whether an iteration past the end may run: it computes what the loop carries, and loads what nothing writes.
fn is_repeatable(k: &Kernel, looped: Inst) -> bool {
    let own = &k.blocks[body(k, looped)].insts;
    let written = written(k);
    let early = early(k, looped);
    let moves = own.iter().any(|i| k.insts[*i].op.is_read() && early.contains(i));
    // What a view made in an iteration past the end spans is not known to be anything.
    let made = |d: Inst| own.contains(&d);
    let reads = |&v: &Value| k.def(v).is_some_and(|d| made(d) && k.insts[d].op.is_read());
    let fixed = |&i: &Inst| !ancestors(k, k.args(i)[0], made).iter().any(reads);
    let held = k.blocks[body(k, looped)].params[1..].iter().all(|&v| is_selectable(k.ty(v)));
    moves
        && held
        && own.iter().filter(|&&i| k.insts[i].op.is_read()).all(fixed)
        && own.iter().rev().skip(1).all(|&i| is_harmless(k, i, &written))
}

/// Whether the old value may stay by a `select`.
fn is_selectable(ty: Type) -> bool {
    let elem = ty.elem();
    let whole = if elem.is_float() { elem.bits() >= 16 } else { elem.bits() == 32 };
    !matches!(ty, Type::Tile(..)) || (whole && elem.bits() <= 32)
}

/// Whether an instruction may run once more.
fn is_harmless(k: &Kernel, inst: Inst, written: &FxHashSet<Value>) -> bool {
    let data = &k.insts[inst];
    let divides = matches!(data.op, Op::Binary(BinOp::Div | BinOp::CeilDiv | BinOp::Rem));
    let other = matches!(data.op, Op::Assume(_) | Op::Mma { .. } | Op::LoadRuns(_) | Op::AsyncCopy)
        || meets(&data.op);
    if data.op.is_read() && !other {
        let view = k.args(inst)[0];
        // A scalar has no mask: it is loaded past the end too.
        let bounded = is_tile(k, inst) || !k.is_open(view);
        return bounded
            && is_plain(k, inst)
            && !in_shared(k, inst)
            && !memory(k, view).is_none_or(|m| written.contains(&m));
    }
    let whole = divides && !k.ty(k.result(inst)).elem().is_float();
    let defined = !whole || constant(k, k.args(inst)[1]).is_some_and(|d| d != 0.0);
    defined && !other && !data.op.has_effect() && !data.op.is_allocation() && data.blocks.is_empty()
}

/// Whether threads work together on it, which takes as long past the end as before.
fn meets(op: &Op) -> bool {
    matches!(op, Op::Reduce(..) | Op::Scan(..) | Op::Gather(_))
}

fn is_tile(k: &Kernel, inst: Inst) -> bool {
    matches!(k.ty(k.result(inst)), Type::Tile(..))
}

/// The loads of a body that do not wait for the iteration before, and what they are made of.
fn early(k: &Kernel, looped: Inst) -> FxHashSet<Inst> {
    let block = &k.blocks[body(k, looped)];
    let inside: FxHashSet<Inst> = block.insts.iter().copied().collect();
    let made_of = |i: Inst| ancestors(k, k.result(i), |d| inside.contains(&d));
    let loads = block.insts.iter().filter(|&&i| k.insts[i].op.is_read());
    let free = loads.map(|&i| made_of(i)).filter(|of| block.params[1..].iter().all(|p| !of.contains(p)));
    free.flatten().filter_map(|v| k.def(v)).filter(|d| inside.contains(d)).collect()
}

/// Writes a loop with so many iterations in each of its own: their loads first, then what is made of them, one after the other.
fn repeat(k: &mut Kernel, looped: Inst, times: u32) {
    let (block, early) = (body(k, looped), early(k, looped));
    let all = std::mem::take(&mut k.blocks[block].insts);
    let Some((&end, own)) = all.split_last() else { return };
    let (loads, rest): (Vec<Inst>, Vec<Inst>) = own.iter().partition(|i| early.contains(i));
    let params = k.blocks[block].params.to_vec();
    let step = constant(k, k.args(looped)[2]).unwrap_or(1.0) as i64;
    let low = k.args(looped)[0];
    let (count, bounds) = bounds(k, looped, step * i64::from(times));
    k.set_args(looped, &bounds);
    let mut c = Cursor::at_end(k, block);
    let first = c.op(BinOp::Add, low, params[0]);
    let begin = |n| Iteration::begin(&mut c, [params[0], first, count], step * i64::from(n));
    let mut ahead: Vec<Iteration> = (0..times).map(begin).collect();
    for it in &mut ahead {
        loads.iter().for_each(|&i| it.add(&mut c, i));
    }
    let mut held = params[1..].to_vec();
    for mut it in ahead {
        it.known.extend(params[1..].iter().copied().zip(held.iter().copied()));
        rest.iter().for_each(|&i| it.add(&mut c, i));
        held = it.end(&mut c, end, &held);
    }
    c.keep(end);
    c.k.set_args(end, &held);
}

/// The numbers that a loop goes through, and its operands, where it counts these from nought: its own end may be too near the greatest integer
/// to count beyond it.
fn bounds(k: &mut Kernel, looped: Inst, stride: i64) -> (Value, Vec<Value>) {
    let mut args = k.args(looped).to_vec();
    let (low, high) = (args[0], args[1]);
    let made = Cursor::before(k, looped, |c| {
        let (none, most, stride) = (c.int(0), c.int(i64::from(i32::MAX)), c.int(stride));
        let some = c.compare(CmpOp::Gt, high, low);
        let all = c.op(BinOp::Sub, high, low);
        let wraps = c.compare(CmpOp::Lt, all, none);
        let all = c.select(wraps, most, all);
        [none, c.select(some, all, none), stride]
    });
    args[..3].copy_from_slice(&made);
    (made[1], args)
}

/// One of the iterations that run at once.
struct Iteration {
    /// Its values in the place of the body's.
    known: FxHashMap<Value, Value>,
    /// Whether it comes before the end of the loop. The first always does.
    runs: Option<Value>,
}

impl Iteration {
    /// The one so many numbers behind the first. `counter` counts from nought what `first` counts from the loop's own start.
    fn begin(c: &mut Cursor<'_>, [counter, first, count]: [Value; 3], behind: i64) -> Self {
        if behind == 0 {
            return Self { known: [(counter, first)].into_iter().collect(), runs: None };
        }
        let number = c.with(BinOp::Add, first, behind);
        let left = c.op(BinOp::Sub, count, counter);
        let distance = c.int(behind);
        let runs = c.compare(CmpOp::Gt, left, distance);
        // The first iteration keeps the body's instructions, which then name `first`.
        Self { known: [(counter, number), (first, number)].into_iter().collect(), runs: Some(runs) }
    }

    /// Appends an instruction of the body. The first iteration keeps it.
    fn add(&mut self, c: &mut Cursor<'_>, inst: Inst) {
        let args: Vec<Value> = c.k.args(inst).iter().map(|v| *self.known.get(v).unwrap_or(v)).collect();
        let Some(runs) = self.runs else {
            c.k.set_args(inst, &args);
            return c.keep(inst);
        };
        let results = c.k.results(inst).to_vec();
        let made = c.copy(inst, &args);
        self.known.extend(results.into_iter().zip(c.k.results(made).to_vec()));
        if c.k.insts[made].op.is_read() && is_tile(c.k, made) {
            mask(c, made, runs);
        }
    }

    /// What the loop carries behind it.
    fn end(&self, c: &mut Cursor<'_>, end: Inst, before: &[Value]) -> Vec<Value> {
        let yielded: Vec<Value> = c.k.args(end).iter().map(|v| *self.known.get(v).unwrap_or(v)).collect();
        let Some(runs) = self.runs else { return yielded };
        yielded.iter().zip(before).map(|(&new, &old)| c.select(runs, new, old)).collect()
    }
}

/// Lets a load of a tile bring nothing unless a condition holds.
fn mask(c: &mut Cursor<'_>, load: Inst, runs: Value) {
    let was = matches!(c.k.insts[load].op, Op::LoadGather { masked: true });
    let mut args = c.k.args(load).to_vec();
    let ty = if was { c.k.ty(args[args.len() - 1]) } else { c.k.ty(c.k.result(load)) };
    c.k.blocks[c.block].insts.pop();
    let everywhere = c.inst(Op::Full, &[runs], with_elem(ty, Elem::Bool));
    match args.last_mut().filter(|_| was) {
        Some(own) => *own = c.op(BinOp::And, *own, everywhere),
        None => args.push(everywhere),
    }
    c.k.insts[load].op = Op::LoadGather { masked: true };
    c.k.set_args(load, &args);
    c.keep(load);
}
