//! Strip-mining: tiles that are too wide for registers are processed one strip of columns at a time. Values that
//! follow from loaded elements are recomputed for every reduction and store that needs them. Threads then hold the
//! loaded elements, and one strip of everything else (rematerialization: Linear Layouts, section 4.4; here across
//! reductions instead of layouts).
//!
//! ```text
//!  h = load x                              h = load x                               held as it was loaded
//!  t = cast h                         ─►   p = cast h[0..w] + cast h[w..2w] + ..    one strip at a time
//!  s = reduce_sum t, 1                     s = reduce_sum p, 1
//!  store y, t * s * load w                 store y[0..w], cast h[0..w] * s * load w[0..w], ..
//! ```
//!
//! Staged tiles may stay in shared memory (`in_parts`); threads then hold one strip of them too. If that is not
//! enough, each thread first combines its neighbours within a strip.
//!
//! It is done only under register pressure: the least number of strips is taken at which an estimate of a thread's
//! registers fits its share of the register file, with the resident blocks that the mapping asks for.

use super::MapContext;
use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::prefetch_next_tile::loads;
use super::redundant_store_mask::conditions;
use super::sink::{Stops, TilePart, has_operands, is_view};
use super::smem_rows::{do_smem_once, do_smem_room, do_smem_rows, is_smem_row};
use crate::rows::reduced;
use crate::takes::is_long;
use crate::tiles::{extents, loads_tile, memory, program_order, written};
use crate::variant::MmaVariant;
use crate::vector::vector_elements;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::target::Target;
use warplift_ir::tile::{Block, Dim, Inst, Kernel, Mapping, Op, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Registers of a thread beside tiles: addresses, scalars, temporaries. Strip-mining starts if fewer than the first
/// number would be left, and continues until the second number is left.
const RESERVE: [u64; 2] = [20, 28];
/// Least elements of a strip per thread, so that its accesses stay wide.
const ELEMENTS: u64 = 8;
/// Limit on strips; each repeats the instructions of a chain.
const MOST: u32 = 16;

/// Cuts the work of a kernel without MMAs into strips if its tiles do not fit. Loads of the next tile that fit too
/// are marked for [`super::do_prefetch_next_tile`].
pub fn do_strip_mine(k: &mut Kernel, context: &MapContext<'_>, variant: MmaVariant) {
    let MapContext { mapping, target, .. } = *context;
    let products = k.insts.values().any(|d| matches!(d.op, Op::Mma { .. }));
    if products || !mapping.tiles.is_empty() {
        return;
    }
    let threads = 32 * u64::from(variant.team().warps());
    let [blocks, resident] = [mapping.whole.blocks, mapping.whole.resident].map(|n| u64::from(n.max(1)));
    let [all, one] = [target.registers, target.thread_registers].map(u64::from);
    let share = (all * blocks / (threads * resident)).min(one);
    let budget = RESERVE.map(|r| share.saturating_sub(r));
    let cut = Cut { mapping, target, threads };
    let mut ahead = Vec::new();
    // A tile that is drawn from a counter is known only when it is begun, so nothing of it is loaded ahead. What is equal for
    // all tiles stays with them too: a producer without copies in its loop over tiles would not draw.
    if mapping.whole.persistent && !mapping.whole.counter {
        do_smem_once(k);
        ahead = loads(k);
    }
    let twice: u64 = ahead.iter().map(|&l| registers(k, k.result(l), threads)).sum();
    if twice > 0
        && let Strips { kernel, fits: true } = cut_to(k, &cut, budget.map(|b| b.saturating_sub(twice)))
    {
        take(k, kernel);
        ahead.into_iter().for_each(|load| k.attrs[load].ahead = true);
        return;
    }
    let held = cut_to(k, &cut, budget);
    if held.fits || !do_smem_rows(k) {
        take(k, held.kernel);
    } else {
        let kernel = cut_to(k, &cut, budget).kernel;
        take(k, kernel);
    }
}

/// Puts a cut kernel in the place of the whole one.
fn take(k: &mut Kernel, cut: Option<Kernel>) {
    if let Some(cut) = cut {
        *k = cut;
    }
}

/// What cutting made of a kernel.
struct Strips {
    /// The kernel in strips; `None`: it stays whole.
    kernel: Option<Kernel>,
    /// Whether the estimated registers of a thread fit.
    fits: bool,
}

/// The threads that strips are cut for.
struct Cut<'m> {
    mapping: &'m Mapping,
    target: &'m Target,
    /// Threads that hold a tile.
    threads: u64,
}

/// Cuts until the estimated registers of a thread fit.
fn cut_to(k: &Kernel, cut: &Cut<'_>, [uncut, budget]: [u64; 2]) -> Strips {
    let threads = cut.threads;
    let whole = demand(k, threads);
    if whole <= uncut {
        return Strips { kernel: None, fits: true };
    }
    let mut least = (whole, None);
    let folds: &[bool] = if has_neighbours(k) { &[false, true] } else { &[false] };
    for (folds, count) in folds.iter().flat_map(|&f| (2..=MOST).map(move |c| (f, c))) {
        let mut tried = k.clone();
        Cutter { k: &mut tried, count, threads, folds }.cut();
        do_smem_room(&mut tried, cut.mapping, count, cut.target);
        let needed = demand(&tried, threads);
        if needed < least.0 {
            least = (needed, Some(tried));
        }
        if least.0 <= budget {
            break;
        }
    }
    let (needed, kernel) = least;
    Strips { fits: kernel.is_some() && needed <= budget, kernel }
}

/// Whether a thread's elements come in runs long enough to combine without an exchange.
fn has_neighbours(k: &Kernel) -> bool {
    let wide = |&i: &Inst| u64::from(vector_elements(k, i, k.result(i))) == ELEMENTS;
    program_order(k).iter().filter(|i| loads_tile(k, **i)).all(wide)
}

/// The greatest number of registers of a thread for live tiles, in the order of the text.
fn demand(k: &Kernel, threads: u64) -> u64 {
    let order = program_order(k);
    let mut last: FxHashMap<Value, usize> = FxHashMap::default();
    for (at, &inst) in order.iter().enumerate() {
        k.args(inst).iter().for_each(|&a| _ = last.insert(held(k, a), at));
    }
    let mut ends: FxHashMap<usize, u64> = FxHashMap::default();
    let (mut live, mut most) = (0, 0);
    for (at, &inst) in order.iter().enumerate() {
        live -= ends.remove(&at).unwrap_or(0);
        for &r in k.results(inst).iter().filter(|&&r| held(k, r) == r) {
            let Some(&end) = last.get(&r).filter(|&&end| end > at) else { continue };
            let registers = registers(k, r, threads);
            live += registers;
            *ends.entry(end).or_default() += registers;
        }
        most = most.max(live);
    }
    most
}

/// The tile that owns a value's registers.
fn held(k: &Kernel, v: Value) -> Value {
    match k.def(v) {
        Some(def) if is_view(&k.insts[def].op) => {
            k.args(def).first().filter(|&&a| !is_smem_row(k, a)).map_or(v, |&a| held(k, a))
        }
        _ => v,
    }
}

fn registers(k: &Kernel, v: Value, threads: u64) -> u64 {
    let Type::Tile(elem, shape) = k.ty(v) else { return 0 };
    let elements = if is_smem_row(k, v) { 0 } else { shape.elements().unwrap_or(0) };
    thread_registers(elem, elements, threads)
}

/// Registers of a thread for so many elements of a tile that so many threads hold.
pub(super) fn thread_registers(elem: Elem, elements: u64, threads: u64) -> u64 {
    let bits = if elem == Elem::Bool { 32 } else { u64::from(elem.bits()) };
    elements.div_ceil(threads).saturating_mul(bits).div_ceil(32)
}

struct Cutter<'k> {
    k: &'k mut Kernel,
    /// Strips of a tile.
    count: u32,
    threads: u64,
    /// Whether neighbours within a strip are combined before strips are.
    folds: bool,
}

impl Cutter<'_> {
    fn cut(&mut self) {
        for block in self.k.blocks.keys().collect::<Vec<_>>() {
            let kept = self.kept(&self.k.blocks[block].insts);
            let old = std::mem::take(&mut self.k.blocks[block].insts);
            for inst in old {
                match self.width(inst) {
                    Some(width) if matches!(self.k.insts[inst].op, Op::Store) => {
                        self.cut_store(block, inst, width, &kept);
                    }
                    Some(width) => self.cut_reduce(block, inst, width, &kept),
                    None => self.k.blocks[block].insts.push(inst),
                }
            }
        }
        do_drop_unused(self.k);
    }

    /// Columns of a strip of a stored or reduced tile, if it can be cut.
    fn width(&self, inst: Inst) -> Option<u32> {
        let k = &*self.k;
        let value = *k.args(inst).last()?;
        let all = extents(k, value);
        let (&columns, rows) = all.split_last()?;
        let along = match k.insts[inst].op {
            Op::Store => true,
            Op::Reduce(_, d) => usize::from(d) == rows.len() && k.ty(value).elem().bits() == 32,
            _ => false,
        };
        let width = columns / self.count;
        let elements = rows.iter().try_fold(u64::from(width), |n, &e| n.checked_mul(e.into()))?;
        let whole = columns.is_multiple_of(self.count) && elements.is_multiple_of(self.threads * ELEMENTS);
        // No row of the table takes parts of tiles of 64 bits.
        (along && whole && !is_long(k.ty(value).elem()) && has_operands(k, value)).then_some(width)
    }

    /// Instructions whose tiles are sliced rather than recomputed: tiles that other blocks use too, and loads that
    /// several uses need or whose array the kernel writes.
    fn kept(&self, block: &[Inst]) -> FxHashSet<Inst> {
        let k = &*self.k;
        let inside: FxHashSet<Inst> = block.iter().copied().collect();
        let written = written(k);
        let mut uses: Users = FxHashMap::default();
        for user in program_order(k) {
            for def in k.args(user).iter().filter_map(|&a| k.def(a)) {
                uses.entry(def).or_default().push(user);
            }
        }
        let alone = |load: Inst| {
            let mut ends = FxHashSet::default();
            find_ends(k, &uses, load, &mut FxHashSet::default(), &mut ends);
            ends.len() == 1 && ends.iter().all(|e| self.width(*e).is_some() && inside.contains(e))
        };
        let kept = |&i: &Inst| match k.insts[i].op {
            Op::Load if !loads_tile(k, i) => true,
            Op::Load if inside.contains(&i) => {
                k.attrs[i].in_parts
                    || !alone(i)
                    || memory(k, k.args(i)[0]).is_none_or(|p| written.contains(&p))
            }
            _ => !inside.contains(&i),
        };
        k.insts.keys().filter(kept).collect()
    }

    fn part<'a>(
        &'a mut self,
        block: Block,
        like: Inst,
        width: u32,
        n: u32,
        kept: &'a FxHashSet<Inst>,
    ) -> TilePart<'a> {
        let (extent, from) = (width * self.count, n * width);
        TilePart {
            at: Cursor::at_end(self.k, block).like(like),
            extent,
            from,
            width,
            done: FxHashMap::default(),
            stops: Stops::At(kept),
            holds: &[],
        }
    }

    /// The elements of a strip are combined with those of earlier strips, then reduced.
    fn cut_reduce(&mut self, block: Block, inst: Inst, width: u32, kept: &FxHashSet<Inst>) {
        let Op::Reduce(op, _) = self.k.insts[inst].op else { return };
        let Some(&value) = self.k.args(inst).last() else { return };
        let mut sum = self.part(block, inst, width, 0, kept).of(value, 0);
        sum = self.folded(block, inst, sum);
        for n in 1..self.count {
            let next = self.part(block, inst, width, n, kept).of(value, 0);
            let next = self.folded(block, inst, next);
            sum = Cursor::at_end(self.k, block).like(inst).op(reduced(op), sum, next);
        }
        self.k.set_args(inst, &[sum]);
        self.k.blocks[block].insts.push(inst);
    }

    /// The neighbours of a thread within a strip, combined to one element.
    fn folded(&mut self, block: Block, reduce: Inst, strip: Value) -> Value {
        let Op::Reduce(op, d) = self.k.insts[reduce].op else { return strip };
        let k = &mut *self.k;
        let Type::Tile(elem, shape) = k.ty(strip) else { return strip };
        let neighbours = Dim::new(ELEMENTS as u32);
        let Some((&columns, rows)) = shape.dims().split_last().filter(|_| self.folds) else { return strip };
        let Some(few) =
            columns.constant().filter(|c| c.is_multiple_of(ELEMENTS as u32) && *c > ELEMENTS as u32)
        else {
            return strip;
        };
        let few = Dim::new(few / ELEMENTS as u32);
        let shapes = [&[few, neighbours][..], &[few]].map(|last| Shape::new(&[rows, last].concat()));
        let [Some(apart), Some(folded)] = shapes.map(|s| s.map(|s| Type::Tile(elem, s))) else {
            return strip;
        };
        let mut c = Cursor::at_end(k, block).like(reduce);
        let apart = c.inst(Op::Reshape, &[strip], apart);
        c.inst(Op::Reduce(op, d + 1), &[apart], folded)
    }

    /// Orders the strips: the loads of the next strip come before the work on each.
    fn cut_store(&mut self, block: Block, inst: Inst, width: u32, kept: &FxHashSet<Inst>) {
        let from = self.k.blocks[block].insts.len();
        let (mut order, mut waiting) = (Vec::new(), Vec::new());
        let holds = conditions(self.k, inst);
        for n in 0..self.count {
            self.store_strip(block, inst, [width, n], kept, &holds);
            let made = self.k.blocks[block].insts.split_off(from);
            let (loads, work) = self.loads_first(made);
            order.extend(loads);
            order.append(&mut waiting);
            waiting = work;
        }
        order.append(&mut waiting);
        self.k.blocks[block].insts.extend(order);
    }

    fn store_strip(
        &mut self,
        block: Block,
        store: Inst,
        [width, n]: [u32; 2],
        kept: &FxHashSet<Inst>,
        holds: &[Value],
    ) {
        let mut args = self.k.args(store).to_vec();
        let Some(value) = args.pop() else { return };
        let mut part = TilePart { holds, ..self.part(block, store, width, n, kept) };
        let strip = part.of(value, 0);
        if let Some(column) = args.last_mut() {
            *column = part.moved(*column);
        }
        args.push(strip);
        let made = part.at.effect(Op::Store, &args);
        self.k.attrs[made] = self.k.attrs[store].clone();
    }

    /// Separates loads, with their operands, from the other instructions.
    fn loads_first(&self, insts: Vec<Inst>) -> (Vec<Inst>, Vec<Inst>) {
        let k = &*self.k;
        let mut needed = FxHashSet::default();
        for &i in insts.iter().rev() {
            if matches!(k.insts[i].op, Op::Load) || needed.contains(&i) {
                needed.insert(i);
                needed.extend(k.args(i).iter().filter_map(|&a| k.def(a)));
            }
        }
        insts.into_iter().partition(|i| needed.contains(i))
    }
}

/// Users of each instruction's results.
type Users = FxHashMap<Inst, Vec<Inst>>;

/// Instructions that depend on one, through elementwise work.
fn find_ends(k: &Kernel, users: &Users, inst: Inst, seen: &mut FxHashSet<Inst>, ends: &mut FxHashSet<Inst>) {
    for &user in users.get(&inst).into_iter().flatten() {
        if !seen.insert(user) {
            continue;
        }
        let op = &k.insts[user].op;
        match op.is_elementwise() || is_view(op) {
            true => find_ends(k, users, user, seen, ends),
            false => _ = ends.insert(user),
        }
    }
}
