//! Rows of scales of which each iteration takes one element come in groups. No tensor copy brings elements that lie apart,
//! and threads would wait for memory in every iteration. A box of 16 bytes of each row holds the scales of several
//! iterations: the loop becomes a nest, whose outer loop brings boxes and whose inner loop selects.
//!
//! ```text
//!  for t in 0..n {                          for g in 0..n / 4 {
//!    r = load s[i, t] : f32[BM, 1]            q = load s[i, g*4] : f32[BM, 4]
//!    yield x + mma(..) * r           ─►       for t in g*4 .. g*4 + 4 {
//!  }                                            yield x + mma(..) * one of four slices of q, by t & 3
//! ```
//!
//! Scalars of the same iterations come along, and products of scales are computed for the whole group.

use super::MapContext;
use super::cursor::{Cursor, I32};
use super::persist::fresh_name;
use super::prefetch_next_tile::copy;
use super::prefetch_scales::{depends, scales};
use crate::facts::is_multiple;
use crate::feature::Ways;
use crate::tiles::{acquired, array, extents, program_order, unit_dim, users};
use crate::window::Window;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use warplift_ir::tile::{BinOp, Block, CmpOp, Dim, Inst, Kernel, LoopMapping, Op, Shape, Type, Value, Way};
use warplift_ir::types::Elem;

/// The least bits of a row of a box.
const LEAST_COPY_BITS: u32 = 128;
/// Bits of a thread's registers for the scales of a load at most.
const MOST_BITS: u32 = 32 * 32;
/// Threads among which the rows and the columns of a product's tile are parted: 64 rows go to pairs of 32 groups of four.
const ROW_THREADS: u32 = 32;
const COLUMN_THREADS: u32 = 4;

/// Makes nests of the loops of products that have a producer and rows of scales.
pub fn do_group_scales(k: &mut Kernel, c: &MapContext<'_>) {
    if !c.ways.smem_staging {
        return;
    }
    let produced = |l: LoopMapping| l.producers.is_some_and(|p| p > 0);
    let loops = program_order(k).into_iter().filter(|&i| k.attrs[i].looped.is_some_and(produced));
    for looped in loops.collect::<Vec<_>>() {
        if let Some(group) = Group::of(k, looped, c.ways) {
            group.nest(k);
        }
    }
}

/// A load of scales at `counter * step + first` along a dimension of its view.
struct Scale {
    load: Inst,
    along: usize,
    step: u32,
    first: u32,
}

/// The scales of a group of iterations: a tile of them, in which the element of an iteration is
/// `(counter % size) * step + first` along a dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Grouped {
    tile: Value,
    along: usize,
    step: u32,
    first: u32,
}

impl Scale {
    /// A load of a body whose neighbours a tensor copy brings.
    fn of(k: &Kernel, body: Block, load: Inst, ways: Ways) -> Option<Self> {
        let (view, counter) = (k.args(load)[0], k.blocks[body].params[0]);
        let window = Window::of(k, view)?;
        let only = |w: Inst| all_loads(k, w).iter().all(|l| k.blocks[body].insts.contains(l));
        let reached = window.tensor_refused(k, ways).is_none() && acquired(k, view).is_none();
        let along = unit_dim(k, view).filter(|_| reached && only(window.whole))?;
        if array(k, load).way != Way::Fit || !is_taken_as_tile(k, body, load, along) {
            return None;
        }
        let inside: FxHashSet<Inst> = k.blocks[body].insts.iter().copied().collect();
        let mut others = (1..k.args(load).len()).filter(|&n| n != 1 + along).map(|n| k.args(load)[n]);
        let fixed = others.all(|index| !depends(k, index, counter, &inside));
        let (step, first) = line(k, k.args(load)[1 + along], counter)?;
        let inside_step = step > 0 && (0..step).contains(&first);
        let power = u32::try_from(step).ok().filter(|s| s.is_power_of_two() && inside_step && fixed)?;
        Some(Self { load, along, step: power, first: first as u32 })
    }

    /// Iterations whose scales come at once.
    fn size(&self, k: &Kernel) -> u32 {
        LEAST_COPY_BITS / (k.ty(k.result(self.load)).elem().bits() * self.step).max(1)
    }

    /// The tile of a group of so many iterations.
    fn tile(&self, k: &Kernel, size: u32) -> Option<Type> {
        let ty = k.ty(k.result(self.load));
        let mut extents = ty.shape().and_then(|s| s.extents()).unwrap_or_else(|| smallvec![1, 1]);
        *extents.get_mut(self.along)? = size * self.step;
        Some(Type::Tile(ty.elem(), Shape::of(&extents)?))
    }

    /// Whether the threads can hold it.
    fn fits(&self, k: &Kernel, size: u32) -> bool {
        let ty = self.tile(k, size);
        let across = ty.and_then(|ty| ty.shape()?.extents()?.get(1 - self.along).copied()).unwrap_or(1);
        let threads = if self.along == 1 { ROW_THREADS } else { COLUMN_THREADS };
        let bits = k.ty(k.result(self.load)).elem().bits() * self.step * size;
        across.div_ceil(threads) * bits <= MOST_BITS
    }
}

/// The loads of an array.
fn all_loads(k: &Kernel, whole: Inst) -> Vec<Inst> {
    let of =
        |&i: &Inst| k.insts[i].op.is_read() && Window::of(k, k.args(i)[0]).is_some_and(|w| w.whole == whole);
    program_order(k).into_iter().filter(of).collect()
}

/// Whether threads select a load's elements for tiles of rank 2: it gives a row or column, or a scalar that only tiles use. All its
/// users stand in the loop itself, where they are rewritten.
fn is_taken_as_tile(k: &Kernel, body: Block, load: Inst, along: usize) -> bool {
    let (ty, scale) = (k.ty(k.result(load)), k.result(load));
    let rank = k.args(load).len() - 1;
    let used = program_order(k).into_iter().filter(|&i| k.args(i).contains(&scale)).collect::<Vec<_>>();
    // A box holds eight halves, and seven selections take longer than the wait for a plain load.
    let selected =
        ty.elem().bits() == 32 && rank == 2 && used.iter().all(|i| k.blocks[body].insts.contains(i));
    match ty {
        Type::Tile(_, s) => selected && s.rank() == 2 && s.extents().is_some_and(|e| e[along] == 1),
        _ => {
            selected
                && used.iter().all(|&i| {
                    let fits = |&r: &Value| k.ty(r).shape().is_some_and(|s| s.rank() == 2);
                    k.insts[i].op.is_elementwise() && k.results(i).iter().all(fits)
                })
        }
    }
}

/// `(a, b)` where an index is `counter * a + b`.
fn line(k: &Kernel, index: Value, counter: Value) -> Option<(i64, i64)> {
    if index == counter {
        return Some((1, 0));
    }
    if let Some(n) = k.int_const(index) {
        return Some((0, n));
    }
    let def = k.def(index)?;
    let Op::Binary(op) = k.insts[def].op else { return None };
    let [(a, b), (c, d)] = [line(k, k.args(def)[0], counter)?, line(k, k.args(def)[1], counter)?];
    match op {
        BinOp::Add => Some((a.checked_add(c)?, b.checked_add(d)?)),
        BinOp::Mul if c == 0 => Some((a.checked_mul(d)?, b.checked_mul(d)?)),
        BinOp::Mul if a == 0 => Some((c.checked_mul(b)?, d.checked_mul(b)?)),
        BinOp::Div if c == 0 && d > 0 && a % d == 0 && b % d == 0 => Some((a / d, b / d)),
        _ => None,
    }
}

/// The scales of a loop that come together.
struct Group {
    looped: Inst,
    body: Block,
    scales: Vec<Scale>,
    /// Iterations of a group, a power of two.
    size: u32,
}

impl Group {
    /// The group of a loop, if a row of scales is among it.
    fn of(k: &Kernel, looped: Inst, ways: Ways) -> Option<Self> {
        let body = k.insts[looped].blocks[0];
        if k.int_const(k.args(looped)[2]) != Some(1) {
            return None;
        }
        let found = scales(k, body).into_iter().filter_map(|l| Scale::of(k, body, l, ways));
        let mut scales: Vec<Scale> = found.collect();
        // Boxes bring a whole array: none of its loads may be left.
        let taken: FxHashSet<Inst> = scales.iter().map(|s| s.load).collect();
        scales.retain(|s| {
            let window = Window::of(k, k.args(s.load)[0]);
            window.is_some_and(|w| all_loads(k, w.whole).iter().all(|l| taken.contains(l)))
        });
        let size = scales.iter().map(|s| s.size(k)).max().filter(|&s| s > 1)?;
        let row = |s: &Scale| matches!(k.ty(k.result(s.load)), Type::Tile(_, t) if t.extents().is_some_and(|e| e[1 - s.along] > 1));
        let makes = scales.iter().any(row) && scales.iter().all(|s| s.fits(k, size));
        makes.then_some(Self { looped, body, scales, size })
    }

    /// Makes the nest: the loop becomes the outer one, and its body that of a new one.
    fn nest(&self, k: &mut Kernel) {
        let loc = k.insts[self.looped].loc;
        let types: Vec<Type> = k.results(self.looped).iter().map(|&r| k.ty(r)).collect();
        let outer = k.blocks.push(Default::default());
        let group = k.append_param(outer, I32);
        k.names[group] = fresh_name(k, "group");
        let held: Vec<Value> = types.iter().map(|&ty| k.append_param(outer, ty)).collect();
        let (bounds, start) = self.bounds(k, outer, group);
        let mut grouped = self.boxes(k, outer, start);
        self.multiply(k, outer, &mut grouped);
        self.select(k, &grouped);
        let args = [&bounds[..], &held].concat();
        let inner = k.append_inst(outer, Op::For, &args, &types, &[self.body], loc);
        k.attrs[inner] = std::mem::take(&mut k.attrs[self.looped]);
        k.attrs[self.looped].looped = Some(LoopMapping::default());
        let results = k.results(inner).to_vec();
        k.append_inst(outer, Op::Yield, &results, &[], &[], loc);
        k.insts[self.looped].blocks = smallvec![outer];
        self.count_groups(k);
    }

    /// Start, end and step of the iterations of a group, and the first that it may have.
    fn bounds(&self, k: &mut Kernel, outer: Block, group: Value) -> ([Value; 3], Value) {
        let [low, high] = [k.args(self.looped)[0], k.args(self.looped)[1]];
        let whole = [low, high].map(|bound| is_multiple(k, bound, self.size.into()));
        let mut s = Cursor::at_end(k, outer);
        let start = s.with(BinOp::Mul, group, self.size.into());
        let left = if whole[1] {
            s.int(self.size.into())
        } else {
            let left = s.op(BinOp::Sub, high, start);
            s.with(BinOp::Min, left, self.size.into())
        };
        let end = s.op(BinOp::Add, start, left);
        let from = if whole[0] { start } else { s.op(BinOp::Max, start, low) };
        ([from, end, s.int(1)], start)
    }

    /// The outer loop counts groups.
    fn count_groups(&self, k: &mut Kernel) {
        let mut args = k.args(self.looped).to_vec();
        Cursor::before(k, self.looped, |c| {
            args[0] = c.with(BinOp::Shr, args[0], self.size.ilog2().into());
            args[1] = c.with(BinOp::CeilDiv, args[1], self.size.into());
        });
        k.set_args(self.looped, &args);
    }

    /// Loads the boxes of a group whose first iteration is given. By the values of the scales.
    fn boxes(&self, k: &mut Kernel, outer: Block, start: Value) -> FxHashMap<Value, Grouped> {
        let inside: FxHashSet<Inst> = k.blocks[self.body].insts.iter().copied().collect();
        let (mut known, mut made) = (FxHashMap::default(), FxHashMap::default());
        let mut grouped = FxHashMap::default();
        for scale in &self.scales {
            let &Scale { load, along, step, first } = scale;
            let mut args = k.args(load).to_vec();
            for (_, arg) in args.iter_mut().enumerate().filter(|&(n, _)| n != 1 + along) {
                *arg = copy(k, outer, *arg, &inside, &mut known);
            }
            args[1 + along] = start;
            let Some(ty) = scale.tile(k, self.size) else { continue };
            let loc = k.insts[load].loc;
            let tile = *made.entry((args.clone(), step)).or_insert_with(|| {
                args[1 + along] = Cursor::at_end(k, outer).with(BinOp::Mul, start, step.into());
                let made = k.append_inst(outer, Op::Load, &args, &[ty], &[], loc);
                if let Some(window) = Window::of(k, args[0]) {
                    k.attrs[window.whole].array.way = Way::Staged;
                }
                k.result(made)
            });
            grouped.insert(k.result(load), Grouped { tile, along, step, first });
        }
        grouped
    }

    /// Computes products of grouped scales for the whole group, where no other use keeps a factor alive.
    fn multiply(&self, k: &mut Kernel, outer: Block, grouped: &mut FxHashMap<Value, Grouped>) {
        let all = users(k);
        let alone = |v: &Value| all.get(v).is_some_and(|u| u.len() == 1);
        for inst in k.blocks[self.body].insts.clone() {
            let &[x, y] = k.args(inst) else { continue };
            if !matches!(k.insts[inst].op, Op::Binary(BinOp::Mul)) || !alone(&x) || !alone(&y) {
                continue;
            }
            let (Some(&a), Some(&b)) = (grouped.get(&x), grouped.get(&y)) else { continue };
            let Some(ty) = wider(k, a, b) else { continue };
            let mut c = Cursor::at_end(k, outer).like(inst);
            let [x, y] = [a, b].map(|g| c.broadcast(g.tile, ty));
            let tile = c.op(BinOp::Mul, x, y);
            grouped.insert(k.result(inst), Grouped { tile, ..a });
        }
    }

    /// Selects the scales of an iteration where something else first uses them: under its product.
    fn select(&self, k: &mut Kernel, grouped: &FxHashMap<Value, Grouped>) {
        let counter = k.blocks[self.body].params[0];
        let mut chosen: FxHashMap<Value, Value> = FxHashMap::default();
        for inst in std::mem::take(&mut k.blocks[self.body].insts) {
            if k.results(inst).iter().any(|r| grouped.contains_key(r)) {
                continue;
            }
            let shape = k.results(inst).first().and_then(|&r| k.ty(r).shape());
            let mut args = k.args(inst).to_vec();
            for arg in &mut args {
                let Some(&g) = grouped.get(arg) else { continue };
                let mut c = Cursor::at_end(k, self.body).like(inst);
                let one = *chosen.entry(*arg).or_insert_with(|| selected(&mut c, g, counter, self.size));
                *arg = match (c.k.ty(*arg), shape) {
                    (Type::Scalar(elem), Some(shape)) => c.broadcast(one, Type::Tile(elem, shape)),
                    _ => one,
                };
            }
            k.set_args(inst, &args);
            k.blocks[self.body].insts.push(inst);
        }
    }
}

/// The type of a product of grouped scales of f32: that of the wider one.
fn wider(k: &Kernel, a: Grouped, b: Grouped) -> Option<Type> {
    let alike = (a.along, a.step, a.first) == (b.along, b.step, b.first);
    let size = |g: Grouped| k.ty(g.tile).shape().and_then(|s| s.extents()).map(|e| e.iter().product::<u32>());
    let wide = if size(a) >= size(b) { a } else { b };
    let floats = [a, b].iter().all(|g| k.ty(g.tile).elem() == Elem::F32);
    (alike && floats).then(|| k.ty(wide.tile))
}

/// The scales of an iteration: slices of a group's tile, of which the bits of the counter select.
fn selected(c: &mut Cursor<'_>, g: Grouped, counter: Value, size: u32) -> Value {
    let mut parts: Vec<Value> = (0..size).map(|n| part(c, g.tile, g.along, n * g.step + g.first)).collect();
    for bit in 0..size.ilog2() {
        let masked = c.with(BinOp::And, counter, 1 << bit);
        let zero = c.int(0);
        let clear = c.compare(CmpOp::Eq, masked, zero);
        parts = parts.chunks(2).map(|pair| c.select(clear, pair[0], pair[1])).collect();
    }
    parts[0]
}

/// One slice.
fn part(c: &mut Cursor<'_>, tile: Value, along: usize, at: u32) -> Value {
    let mut extents = extents(c.k, tile);
    extents[along] = 1;
    let offsets = (0..2).map(|d| Dim::new(if d == along { at } else { 0 })).collect();
    match Shape::of(&extents) {
        Some(shape) => c.inst(Op::Slice(offsets), &[tile], Type::Tile(c.k.ty(tile).elem(), shape)),
        None => tile,
    }
}
