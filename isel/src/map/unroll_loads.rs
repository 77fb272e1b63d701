//! Loops whose trips memory decides run several iterations at once, so that their loads are in flight together.
//!
//! ```text
//!  for t in lo..hi carry s {          for t in lo..hi step 8 carry s {
//!    c = load ids[t]                    c0 = load ids[t]     c1 = load ids[t + 1]                  ..
//!    yield s + load x[c, 0]      ─►     x0 = load x[c0, 0]   x1 = load x[c1, 0] where 1 < hi - t   ..
//!                                       s1 = s + x0          s2 = select(1 < hi - t, s1 + x1, s1)  ..
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
        if times > 1 && is_repeatable(k, looped) {
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
    let step = constant(k, k.args(looped)[2]).is_some_and(|s| s > 0.0);
    let moves = own.iter().any(|i| k.insts[*i].op.is_read() && early.contains(i));
    step && moves && own.iter().rev().skip(1).all(|&i| is_harmless(k, i, &written))
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
    let mut c = Cursor::at_end(k, block);
    let mut ahead: Vec<Iteration> =
        (0..times).map(|n| Iteration::begin(&mut c, (params[0], looped), step * i64::from(n))).collect();
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
    let stride = Cursor::before(k, looped, |c| c.int(step * i64::from(times)));
    let mut args = k.args(looped).to_vec();
    args[2] = stride;
    k.set_args(looped, &args);
}

/// One of the iterations that run at once.
struct Iteration {
    /// Its values in the place of the body's.
    known: FxHashMap<Value, Value>,
    /// Whether it comes before the end of the loop. The first always does.
    runs: Option<Value>,
}

impl Iteration {
    /// The one so many numbers behind the loop's counter. Ends that are 2^31 numbers away are never come to.
    fn begin(c: &mut Cursor<'_>, (counter, looped): (Value, Inst), behind: i64) -> Self {
        if behind == 0 {
            return Self { known: FxHashMap::default(), runs: None };
        }
        let number = c.with(BinOp::Add, counter, behind);
        let high = c.k.args(looped)[1];
        let left = c.op(BinOp::Sub, high, counter);
        let distance = c.int(behind);
        let runs = c.compare(CmpOp::Gt, left, distance);
        Self { known: [(counter, number)].into_iter().collect(), runs: Some(runs) }
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
