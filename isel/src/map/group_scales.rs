//! Scales of which each iteration takes one element come in groups. No tensor copy brings elements that lie apart, and
//! threads would wait for memory in every iteration. A box of 16 bytes of each row holds the scales of several iterations: the
//! loop becomes a nest, whose outer loop brings boxes and whose inner loop selects.
//!
//! ```text
//!  for t in 0..n {                          for g in 0..n / 4 {
//!    r = load s[i, t] : f32[BM, 1]            q = load s[i, g*4] : f32[BM, 4]
//!    yield x + mma(..) * r           ─►       for t in g*4 .. g*4 + 4 {
//!  }                                            yield x + mma(..) * one of four slices of q, by t & 3
//!
//!  s = load scale[j, t] : f32        ─►     q = load scale[j, (t >> 2)*4] : f32[1, 4]      s = one of four slices of q, by t & 3
//! ```
//!
//! Bytes stay words in registers, four iterations in one: `q` is four words of 16 scales, of which the loop shifts one out.
//!
//! Scalars of the same iterations come along, and what is computed of scales alone is computed for the whole group: products, and
//! conversions of narrow ones. Of these a group is no longer than of f32, in which they end. Scales of blocks alone need no nest: in
//! each iteration the ring of the operands brings the box again, which is one row.

use super::MapContext;
use super::cursor::{Cursor, I32};
use super::persist::fresh_name;
use super::prefetch_next_tile::copy;
use super::prefetch_scales::{comes_beside_operands, is_converted, prefetch, scales};
use crate::facts::is_multiple;
use crate::feature::Ways;
use crate::takes::takes;
use crate::tensor_copies::COPY_BITS;
use crate::tiles::{Users, acquired, array, depends, extents, program_order, unit_dim, users, with_elem};
use crate::window::Window;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use warplift_ir::tile::{BinOp, Block, CmpOp, Dim, Inst, Kernel, LoopMapping, Op, Shape, Type, Value, Way};
use warplift_ir::types::Elem;

/// The bits of the scales that are computed with.
const COMPUTED_BITS: u32 = 32;
/// Bytes in a word.
const BYTES: u32 = 4;
/// Bits of a thread's registers for the scales of a load at most.
const MOST_BITS: u32 = 32 * 32;
/// Threads among which the rows and the columns of a product's tile are parted: 64 rows go to pairs of 32 groups of four.
const ROW_THREADS: u32 = 32;
const COLUMN_THREADS: u32 = 4;

/// Groups the scales of the loops of products that have a producer.
pub fn do_group_scales(k: &mut Kernel, c: &MapContext<'_>) {
    if !c.ways.smem_staging {
        return;
    }
    let produced = |l: LoopMapping| l.producers.is_some_and(|p| p > 0);
    let loops = program_order(k).into_iter().filter(|&i| k.attrs[i].looped.is_some_and(produced));
    for looped in loops.collect::<Vec<_>>() {
        let body = k.insts[looped].blocks[0];
        if let Some(group) = Group::of(k, looped, c.ways) {
            // What each group of iterations loaded anew would wait for memory.
            let users = users(k);
            let others = scales(k, &users, body, c.ways).into_iter();
            let others = others.filter(|&l| {
                let brought = comes_beside_operands(k, looped, l, c.ways)
                    || is_beside_operands(k, &users, body, l, c.ways);
                !group.takes(l) && !brought
            });
            prefetch(k, looped, others.collect());
            group.nest(k);
        }
        select_blocks(k, body, c.ways);
    }
}

/// A load of scales at `counter * step + first` along a dimension of its view.
struct Scale {
    load: Inst,
    along: usize,
    step: u32,
    first: u32,
    /// Bytes of a row, four in a word.
    packed: bool,
}

/// The scales of a group of iterations: a tile of them, in which the element of an iteration is
/// `(counter % size) * step + first` along a dimension. Of packed bytes the tile holds words.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Grouped {
    tile: Value,
    along: usize,
    step: u32,
    first: u32,
    packed: bool,
}

impl Scale {
    /// A load of a body whose neighbours a tensor copy brings.
    fn of(k: &Kernel, users: &Users, body: Block, load: Inst, ways: Ways) -> Option<Self> {
        let (view, counter) = (k.args(load)[0], k.blocks[body].params[0]);
        let window = Window::of(k, view).filter(|_| matches!(k.insts[load].op, Op::Load))?;
        let only = |w: Inst| all_loads(k, w).iter().all(|l| k.blocks[body].insts.contains(l));
        let reached = window.tensor_refused(k, ways).is_none() && acquired(k, view).is_none();
        let along = unit_dim(k, view).filter(|_| reached && only(window.whole))?;
        let packed = is_packable(k, users, body, load, along);
        if array(k, load).way != Way::Fit || !(packed || is_taken_as_tile(k, users, body, load, along)) {
            return None;
        }
        let inside: FxHashSet<Inst> = k.blocks[body].insts.iter().copied().collect();
        let mut others = (1..k.args(load).len()).filter(|&n| n != 1 + along).map(|n| k.args(load)[n]);
        let fixed = others.all(|index| !depends(k, index, counter, |d| inside.contains(&d)));
        let (step, first) = line(k, k.args(load)[1 + along], counter)?;
        let inside_step = step > 0 && (0..step).contains(&first);
        let power = u32::try_from(step).ok().filter(|s| s.is_power_of_two() && inside_step && fixed)?;
        (!packed || power == 1).then_some(Self { load, along, step: power, first: first as u32, packed })
    }

    /// Iterations whose scales come at once.
    fn size(&self) -> u32 {
        COPY_BITS / if self.packed { 8 } else { COMPUTED_BITS * self.step }
    }

    /// The bits of a scale in a register.
    fn bits(&self) -> u32 {
        if self.packed { 8 } else { COMPUTED_BITS }
    }

    /// The tile of a group of so many iterations, and what comes with it: a row of a box has 16 bytes.
    fn tiles(&self, k: &Kernel, size: u32) -> Option<[Type; 2]> {
        let ty = k.ty(k.result(self.load));
        let least = COPY_BITS / ty.elem().bits();
        let mut extents = ty.shape().and_then(|s| s.extents()).unwrap_or_else(|| smallvec![1, 1]);
        let mut of = |length: u32| {
            *extents.get_mut(self.along)? = length;
            Some(Type::Tile(ty.elem(), Shape::of(&extents)?))
        };
        Some([of(size * self.step)?, of(least.max(size * self.step))?])
    }

    /// Loads the scales of the group that begins with an iteration, out of the box that holds them.
    fn load(&self, c: &mut Cursor<'_>, mut args: Vec<Value>, start: Value, [own, whole]: [Type; 2]) -> Value {
        c.loc = c.k.insts[self.load].loc;
        let [length, all] =
            [own, whole].map(|ty| ty.shape().and_then(|s| s.extents()).map_or(1, |e| e[self.along]));
        let first = c.with(BinOp::Mul, start, self.step.into());
        args[1 + self.along] = first;
        if all > length {
            let number = c.with(BinOp::Shr, first, all.ilog2().into());
            args[1 + self.along] = c.with(BinOp::Mul, number, all.into());
        }
        let loaded = c.inst(Op::Load, &args, whole);
        if self.packed {
            let [own, whole] = [own, whole].map(|ty| words(ty, self.along));
            let loaded = c.inst(Op::ViewAs(Elem::I32), &[loaded], whole);
            let of = |c: &mut Cursor<'_>, n| part(c, loaded, (self.along, n * length / BYTES), own);
            let parts = (0..all / length).map(|n| of(c, n)).collect();
            return chosen(c, parts, first, length);
        }
        let parts = (0..all / length).map(|n| part(c, loaded, (self.along, n * length), own)).collect();
        chosen(c, parts, first, length)
    }

    /// Whether the threads can hold it.
    fn fits(&self, k: &Kernel, size: u32) -> bool {
        let shape = k.ty(k.result(self.load)).shape().and_then(|s| s.extents());
        let across = shape.map_or(1, |e| e[1 - self.along]);
        let threads = if self.along == 1 { ROW_THREADS } else { COLUMN_THREADS };
        across.div_ceil(threads) * self.bits() * self.step * size <= MOST_BITS
    }

    /// Whether it is a row of scales, not one of a block.
    fn is_row(&self, k: &Kernel) -> bool {
        let shape = k.ty(k.result(self.load)).shape().and_then(|s| s.extents());
        shape.is_some_and(|e| e[1 - self.along] > 1)
    }
}

/// Whether elements have fewer bits than what is computed with.
fn is_narrow(k: &Kernel, v: Value) -> bool {
    k.ty(v).elem().bits() < COMPUTED_BITS
}

/// Whether threads select between such elements.
fn is_selectable(k: &Kernel, v: Value) -> bool {
    takes(&Op::Select, k.ty(v).elem())
}

/// The type of a tile of bytes, seen as words along its last dimension.
fn words(ty: Type, along: usize) -> Type {
    let mut extents = ty.shape().and_then(|s| s.extents()).unwrap_or_default();
    if let Some(e) = extents.get_mut(along) {
        *e /= BYTES;
    }
    Shape::of(&extents).map_or(ty, |s| Type::Tile(Elem::I32, s))
}

/// Whether a load gives a row of bytes of which the loop only makes floats. They lie along the last dimension.
fn is_packable(k: &Kernel, users: &Users, body: Block, load: Inst, along: usize) -> bool {
    let scale = k.result(load);
    let Type::Tile(_, shape) = k.ty(scale) else { return false };
    let is_row = shape.rank() == 2 && along == 1 && shape.extents().is_some_and(|e| e[1] == 1);
    let inside = |i: &Inst| k.blocks[body].insts.contains(i);
    let converted = is_converted(k, users, scale, |e| e == Elem::F32);
    is_row && k.args(load).len() == 3 && converted && users[&scale].iter().all(inside)
}

/// The loads of an array.
fn all_loads(k: &Kernel, whole: Inst) -> Vec<Inst> {
    let of =
        |&i: &Inst| k.insts[i].op.is_read() && Window::of(k, k.args(i)[0]).is_some_and(|w| w.whole == whole);
    program_order(k).into_iter().filter(of).collect()
}

/// Whether threads select a load's elements for tiles of rank 2: it gives a row or column, or a scalar that only tiles use. All its
/// users stand in the loop itself, where they are rewritten.
fn is_taken_as_tile(k: &Kernel, users: &Users, body: Block, load: Inst, along: usize) -> bool {
    let (ty, scale) = (k.ty(k.result(load)), k.result(load));
    let inside = users.get(&scale).into_iter().flatten().all(|i| k.blocks[body].insts.contains(i));
    let fits = is_selectable(k, scale) && ty.elem().bits() <= COMPUTED_BITS;
    let selected = fits && k.args(load).len() == 3 && inside;
    // The last dimension is that of a register's elements.
    let held = !is_narrow(k, scale) || along == 1;
    match ty {
        Type::Tile(_, s) => held && selected && s.rank() == 2 && s.extents().is_some_and(|e| e[along] == 1),
        _ => held && selected && is_of_tiles(k, users, body, scale),
    }
}

/// Whether a scalar is used in a body alone, for tiles of rank 2, or for such scalars.
fn is_of_tiles(k: &Kernel, users: &Users, body: Block, v: Value) -> bool {
    users.get(&v).into_iter().flatten().all(|&i| {
        let fits = |&r: &Value| match k.ty(r).shape() {
            Some(s) => s.rank() == 2,
            None => is_narrow(k, v) && k.ty(r).elem() == Elem::F32 && is_of_tiles(k, users, body, r),
        };
        // A tile of equal scales would be a broadcast of a broadcast.
        k.insts[i].op.is_elementwise() && k.blocks[body].insts.contains(&i) && k.results(i).iter().all(fits)
    })
}

/// `(a, b)` where an index is `counter * a + b`.
pub(super) fn line(k: &Kernel, index: Value, counter: Value) -> Option<(i64, i64)> {
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
    /// The group of a loop, if rows or narrow scales are among it.
    fn of(k: &Kernel, looped: Inst, ways: Ways) -> Option<Self> {
        let body = k.insts[looped].blocks[0];
        if k.int_const(k.args(looped)[2]) != Some(1) {
            return None;
        }
        let users = users(k);
        let found = scales(k, &users, body, ways).into_iter();
        let found = found.filter_map(|l| Scale::of(k, &users, body, l, ways));
        let mut scales: Vec<Scale> = found.collect();
        // Boxes bring a whole array: none of its loads may be left.
        let taken: FxHashSet<Inst> = scales.iter().map(|s| s.load).collect();
        scales.retain(|s| {
            let window = Window::of(k, k.args(s.load)[0]);
            window.is_some_and(|w| all_loads(k, w.whole).iter().all(|l| taken.contains(l)))
        });
        let needs = |s: &Scale| s.is_row(k) || is_narrow(k, k.result(s.load));
        // Bytes alone come for more iterations than others. Scales of blocks come beside the operands then.
        let packed = scales.iter().filter(|s| needs(s)).all(|s| s.packed);
        scales.retain(|s| s.packed || !packed);
        let size = scales.iter().filter(|s| s.packed == packed).map(Scale::size).max().filter(|&s| s > 1)?;
        let makes = scales.iter().any(needs) && scales.iter().all(|s| s.fits(k, size));
        makes.then_some(Self { looped, body, scales, size })
    }

    /// Whether a load is one of the group's.
    fn takes(&self, load: Inst) -> bool {
        self.scales.iter().any(|s| s.load == load)
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
        self.compute(k, outer, &mut grouped);
        select(k, self.body, &grouped, k.blocks[self.body].params[0], FxHashMap::default());
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
            let &Scale { load, along, step, first, packed } = scale;
            let mut args = k.args(load).to_vec();
            for (_, arg) in args.iter_mut().enumerate().filter(|&(n, _)| n != 1 + along) {
                *arg = copy(k, outer, *arg, &inside, &mut known);
            }
            args[1 + along] = start;
            let Some(types) = scale.tiles(k, self.size) else { continue };
            let tile = *made.entry((args.clone(), step)).or_insert_with(|| {
                if let Some(window) = Window::of(k, args[0]) {
                    k.attrs[window.whole].array.way = Way::Staged;
                }
                scale.load(&mut Cursor::at_end(k, outer), args.clone(), start, types)
            });
            grouped.insert(k.result(load), Grouped { tile, along, step, first, packed });
        }
        grouped
    }

    /// Computes what is made of grouped scales alone for the whole group, where no other use keeps an operand alive, or it is a
    /// conversion of a narrow one.
    fn compute(&self, k: &mut Kernel, outer: Block, grouped: &mut FxHashMap<Value, Grouped>) {
        let inside: FxHashSet<Inst> = k.blocks[self.body].insts.iter().copied().collect();
        let (all, mut known) = (users(k), FxHashMap::default());
        let alone = |v: &Value| all.get(v).is_some_and(|u| u.len() == 1);
        for inst in k.blocks[self.body].insts.clone() {
            let args = k.args(inst).to_vec();
            let of = |v: &Value| grouped.get(v).copied().filter(|g| !g.packed);
            let Some(like) = args.iter().filter_map(of).max_by_key(|g| elements(k, g.tile)) else { continue };
            let fits = |v: &Value| match of(v) {
                Some(g) => (alone(v) || is_narrow(k, *v)) && g.is_beside(like),
                None => k.ty(*v).shape().is_none() && is_constant(k, *v, &inside),
            };
            if !k.insts[inst].op.is_elementwise()
                || !args.iter().all(fits)
                || !is_selectable(k, k.result(inst))
            {
                continue;
            }
            let shape = k.ty(like.tile);
            let mut operand = |k: &mut Kernel, v: Value| match grouped.get(&v) {
                Some(g) => {
                    let ty = with_elem(shape, k.ty(g.tile).elem());
                    Cursor::at_end(k, outer).like(inst).broadcast(g.tile, ty)
                }
                None => copy(k, outer, v, &inside, &mut known),
            };
            let args: Vec<Value> = args.into_iter().map(|v| operand(k, v)).collect();
            let (op, result) = (k.insts[inst].op.clone(), k.result(inst));
            let ty = with_elem(shape, k.ty(result).elem());
            let tile = Cursor::at_end(k, outer).like(inst).inst(op, &args, ty);
            grouped.insert(result, Grouped { tile, ..like });
        }
    }
}

impl Grouped {
    /// Whether the elements of an iteration have the same place in both tiles.
    fn is_beside(self, other: Self) -> bool {
        (self.along, self.step, self.first) == (other.along, other.step, other.first)
    }
}

fn elements(k: &Kernel, tile: Value) -> u32 {
    extents(k, tile).iter().product()
}

/// Whether a scalar is a constant, or made before the loop.
fn is_constant(k: &Kernel, v: Value, inside: &FxHashSet<Inst>) -> bool {
    let constant = |d: Inst| matches!(k.insts[d].op, Op::Int(_) | Op::Float(_));
    k.def(v).is_some_and(|d| !inside.contains(&d) || constant(d))
}

/// Whether a load gives the scale of a block, which a tensor copy can bring with its neighbours.
fn is_beside_operands(k: &Kernel, users: &Users, body: Block, load: Inst, ways: Ways) -> bool {
    let (view, scale) = (k.args(load)[0], k.result(load));
    let copied = Window::of(k, view).is_some_and(|w| w.tensor_refused(k, ways).is_none());
    let reached = copied && acquired(k, view).is_none() && unit_dim(k, view) == Some(1);
    reached && k.ty(scale) == Type::Scalar(Elem::F32) && is_of_tiles(k, users, body, scale)
}

/// Lets the scales of blocks of a body come with their neighbours.
fn select_blocks(k: &mut Kernel, body: Block, ways: Ways) {
    let users = users(k);
    for load in scales(k, &users, body, ways) {
        if !is_beside_operands(k, &users, body, load, ways) {
            continue;
        }
        let scale = k.result(load);
        let (mut args, size) = (k.args(load).to_vec(), COPY_BITS / COMPUTED_BITS);
        let Some(ty) = Shape::of(&[1, size]).map(|s| Type::Tile(Elem::F32, s)) else { continue };
        let index = args[2];
        // Beside the operands' loads one wait serves all.
        let (grouped, one) = Cursor::before(k, load, |c| {
            c.loc = c.k.insts[load].loc;
            let group = c.with(BinOp::Shr, index, size.ilog2().into());
            args[2] = c.with(BinOp::Mul, group, size.into());
            let tile = c.inst(Op::Load, &args, ty);
            let grouped = Grouped { tile, along: 1, step: 1, first: 0, packed: false };
            (grouped, selected(c, grouped, index))
        });
        let grouped = FxHashMap::from_iter([(scale, grouped)]);
        select(k, body, &grouped, index, FxHashMap::from_iter([(scale, one)]));
    }
}

/// Puts the scales of an iteration in the place of their loads: those that are chosen, and others where something else first uses
/// them, under its product. The low bits of a number say which.
fn select(
    k: &mut Kernel,
    body: Block,
    grouped: &FxHashMap<Value, Grouped>,
    number: Value,
    mut chosen: FxHashMap<Value, Value>,
) {
    for inst in std::mem::take(&mut k.blocks[body].insts) {
        if k.results(inst).iter().any(|r| grouped.contains_key(r)) {
            continue;
        }
        let shape = k.results(inst).first().and_then(|&r| k.ty(r).shape());
        let mut args = k.args(inst).to_vec();
        for arg in &mut args {
            let Some(&g) = grouped.get(arg) else { continue };
            let mut c = Cursor::at_end(k, body).like(inst);
            let one = *chosen.entry(*arg).or_insert_with(|| selected(&mut c, g, number));
            *arg = match (c.k.ty(*arg), shape) {
                (Type::Scalar(elem), Some(shape)) => c.broadcast(one, Type::Tile(elem, shape)),
                _ => one,
            };
        }
        k.set_args(inst, &args);
        k.blocks[body].insts.push(inst);
    }
}

/// The scales of an iteration: slices of a group's tile.
fn selected(c: &mut Cursor<'_>, g: Grouped, number: Value) -> Value {
    let (mut extents, elem) = (extents(c.k, g.tile), c.k.ty(g.tile).elem());
    if g.packed {
        return shifted(c, g, number);
    }
    let size = extents[g.along] / g.step;
    extents[g.along] = 1;
    let Some(ty) = Shape::of(&extents).map(|s| Type::Tile(elem, s)) else { return g.tile };
    let parts = (0..size).map(|n| part(c, g.tile, (g.along, n * g.step + g.first), ty)).collect();
    chosen(c, parts, number, 1)
}

/// The bytes of an iteration, as integers: its word of a group's, shifted.
fn shifted(c: &mut Cursor<'_>, g: Grouped, number: Value) -> Value {
    let mut shape = extents(c.k, g.tile);
    let size = std::mem::replace(&mut shape[g.along], 1);
    let Some(ty) = Shape::of(&shape).map(|s| Type::Tile(Elem::I32, s)) else { return g.tile };
    let parts = (0..size).map(|n| part(c, g.tile, (g.along, n), ty)).collect();
    let word = chosen(c, parts, number, BYTES);
    let byte = c.with(BinOp::And, number, i64::from(BYTES) - 1);
    let bits = c.with(BinOp::Mul, byte, 8);
    let bits = c.inst(Op::Full, &[bits], ty);
    let low = c.op(BinOp::Shr, word, bits);
    let mask = c.constant(Op::Int(0xff), ty);
    c.op(BinOp::And, low, mask)
}

/// One of several tiles: the bits of a number from one on say which.
fn chosen(c: &mut Cursor<'_>, mut parts: Vec<Value>, number: Value, unit: u32) -> Value {
    for bit in 0..parts.len().ilog2() {
        let masked = c.with(BinOp::And, number, i64::from(unit) << bit);
        let zero = c.int(0);
        let clear = c.compare(CmpOp::Eq, masked, zero);
        parts = parts.chunks(2).map(|pair| c.select(clear, pair[0], pair[1])).collect();
    }
    parts[0]
}

/// A slice from one element of a dimension on, unless it is the whole tile.
fn part(c: &mut Cursor<'_>, tile: Value, (along, from): (usize, u32), ty: Type) -> Value {
    let offsets = (0..2).map(|d| Dim::new(if d == along { from } else { 0 })).collect();
    if c.k.ty(tile) == ty { tile } else { c.inst(Op::Slice(offsets), &[tile], ty) }
}
