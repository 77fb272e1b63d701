//! Memory order inside a block: tells `sched` which plain accesses to order, and refuses tensor copies and
//! asynchronous copies that would have to be ordered with stores.
//!
//! ```text
//!  store x[i], a   load x[i]          plain, one footprint: each thread reads what it wrote     ordered by the program
//!  store x[i], a   tensor copy of x   another proxy                                             refused
//! ```

use super::Lower;
use super::coords::axis_weight;
use crate::Result;
use crate::facts::{is_multiple, number};
use crate::plan::StorePlan;
use crate::plan::order::Nests;
use crate::tiles::{accessed, extents, memory, written};
use crate::window::Window;
use rustc_hash::FxHashMap;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::GlobalAccess;
use warplift_ir::tile::{AtomicOp, BinOp, Block, Inst, Op, Type, Value, ValueDef};

/// The greatest distance between indices that counts: two of them differ by less than half of all numbers.
const FARTHEST: i64 = 1 << 30;

/// Nested operations of an index that are looked through.
const INDEX_DEPTH: u32 = 6;

/// A footprint decides which thread touches which element: view, indices and layout. Indices that differ by whole
/// tiles count as one, because such tiles share no element. Atomic updates of one kind whose results nobody takes
/// need no order among each other; others have the footprint of a store. An access of one thread has no layout. One by
/// tiles of indices has a footprint of its own: the data decides what its threads touch. So has one of a view whose rows
/// overlap. A masked access has the footprint of the whole one: a mask leaves elements out, and gives none to another thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Footprint {
    Atomic(AtomicOp),
    Tile(Value, Vec<Index>, Option<Box<Layout>>),
    Scattered(Inst),
}

/// The footprints and arrays of a kernel.
#[derive(Default)]
pub(super) struct Known {
    /// Numbers of the footprints of plain accesses.
    pub footprints: FxHashMap<Footprint, u32>,
    /// Numbers of the arrays in shared memory, by their views.
    pub shared_arrays: FxHashMap<Value, u32>,
    /// For scalars and views that are computed twice, the first one.
    pub first_of: FxHashMap<Value, Value>,
    /// The loops around an access, except that over tiles.
    pub around: FxHashMap<Inst, Vec<Inst>>,
}

/// An index, and its constant distance from it modulo the tile.
type Index = (Value, i64);

impl Lower<'_, '_> {
    /// The memory of an access, by the place of its pointer argument, and its footprint.
    pub(super) fn global_access(&mut self, inst: Inst, layout: &Layout) -> GlobalAccess {
        let (k, op) = (self.k, &self.k.insts[inst].op);
        let pointer = self.pointer_number(inst);
        let footprint = match op {
            Op::Atomic(op) | Op::AtomicScatter { op, old: false, .. } => Footprint::Atomic(*op),
            _ if self.gathers(inst) || !self.is_injective(inst) => Footprint::Scattered(inst),
            Op::Load | Op::LoadGather { .. } if is_repeated(layout) => {
                return GlobalAccess { pointer, footprint: GlobalAccess::SHARED };
            }
            _ => {
                let operands = k.args(inst);
                self.footprint(&operands[..op.indices(operands.len()).end], layout)
            }
        };
        let moves = || matches!(footprint, Footprint::Tile(..)) && self.moves_within_tile(inst);
        let scattered = matches!(footprint, Footprint::Scattered(_)) || moves();
        let next = self.known.footprints.len() as u32 + 1;
        let next = if scattered { next | GlobalAccess::SCATTERED } else { next };
        GlobalAccess { pointer, footprint: *self.known.footprints.entry(footprint).or_insert(next) }
    }

    /// Whether an access has tiles of indices.
    fn gathers(&self, inst: Inst) -> bool {
        let (k, args) = (self.k, self.k.args(inst));
        let at = k.insts[inst].op.indices(args.len());
        args[at].iter().any(|&v| matches!(k.ty(v), Type::Tile(..)))
    }

    /// Whether what an access reaches at different places of its view are different elements of memory.
    fn is_injective(&self, inst: Inst) -> bool {
        Window::of(self.k, self.k.args(inst)[0]).is_none_or(|w| w.is_injective(self.k))
    }

    /// The access of one thread for its block. It has an own footprint: every other access is of another thread.
    pub(super) fn single_access(&mut self, inst: Inst) -> GlobalAccess {
        let index = |&v: &Value| (v, 0);
        let at = self.k.args(inst);
        let footprint = Footprint::Tile(at[0], at[1..].iter().map(index).collect(), None);
        let next = self.known.footprints.len() as u32 + 1;
        GlobalAccess {
            pointer: self.pointer_number(inst),
            footprint: *self.known.footprints.entry(footprint).or_insert(next),
        }
    }

    /// The memory of a load that every thread makes at the same place.
    pub(super) fn uniform_access(&self, inst: Inst) -> GlobalAccess {
        let fixed = self.memory(inst).is_some_and(|m| !written(self.k).contains(&m));
        let footprint = if fixed { GlobalAccess::FIXED } else { GlobalAccess::SHARED };
        GlobalAccess { pointer: self.pointer_number(inst), footprint }
    }

    /// The number of the array behind an access; the workspace has the number behind the last argument.
    fn pointer_number(&self, inst: Inst) -> u32 {
        let pointer = self.memory(inst);
        if let Some(&number) = pointer.and_then(|p| self.known.shared_arrays.get(&p)) {
            return GlobalAccess::IN_BLOCK | number;
        }
        let params = &self.k.params;
        params.iter().position(|p| Some(p.value) == pointer).unwrap_or(params.len()) as u32
    }

    /// The footprint of a tile with this layout at the indices of a view.
    fn footprint(&self, at: &[Value], layout: &Layout) -> Footprint {
        let indices = at[1..].iter().enumerate().map(|(d, &v)| {
            let (base, offset) = self.moved(v);
            (self.first(base), offset.rem_euclid(layout.out_extent(Axis::Dim(d as u8)) as i64))
        });
        Footprint::Tile(self.first(at[0]), indices.collect(), Some(Box::new(layout.clone())))
    }

    /// Whether an index changes in a loop around an access by less than a tile, so that another iteration touches the same
    /// elements by other threads.
    fn moves_within_tile(&self, inst: Inst) -> bool {
        let (k, args) = (self.k, self.k.args(inst));
        let Some(around) = self.known.around.get(&inst) else { return false };
        let shape = extents(k, accessed(k, inst));
        let moves = |(d, &v): (usize, &Value)| {
            let tile = shape.get(d).copied().unwrap_or(1);
            around.iter().any(|&l| !self.moves_by(v, tile.into(), l, INDEX_DEPTH))
        };
        // A part of the view at another place keeps each element with its thread; other extents do not.
        let spans = Window::of(k, args[0]).map_or(&args[..1], |w| k.args(w.whole));
        let view = spans.iter().any(|&v| around.iter().any(|&l| self.varies(v, l)));
        view || args[k.insts[inst].op.indices(args.len())].iter().enumerate().any(moves)
    }

    /// Whether an index changes in a loop by multiples of a tile only: each of its summands is one, or stays as it is.
    fn moves_by(&self, v: Value, tile: i64, looped: Inst, depth: u32) -> bool {
        let k = self.k;
        if is_multiple(k, v, tile) || self.stays(v, looped, depth) {
            return true;
        }
        let sum = k.def(v).filter(|d| matches!(k.insts[*d].op, Op::Binary(BinOp::Add | BinOp::Sub)));
        let deeper = |sum: Inst| k.args(sum).iter().all(|&x| self.moves_by(x, tile, looped, depth - 1));
        depth > 0 && sum.is_some_and(deeper)
    }

    /// Whether a scalar is the same in all iterations of a loop.
    fn stays(&self, v: Value, looped: Inst, depth: u32) -> bool {
        let k = self.k;
        if number(k, v).is_some() || !self.varies(v, looped) {
            return true;
        }
        let plain = |d: &Inst| {
            let data = &k.insts[*d];
            data.blocks.is_empty() && !data.op.has_effect() && !data.op.is_read() && !data.op.is_allocation()
        };
        let all_stay = |d: Inst| k.args(d).iter().all(|&x| self.stays(x, looped, depth - 1));
        depth > 0 && k.def(v).filter(plain).is_some_and(all_stay)
    }

    /// Whether a value is made inside a loop. What is equal in all iterations may be, too.
    fn varies(&self, v: Value, looped: Inst) -> bool {
        let k = self.k;
        let makes = |i: Inst| match k.values[v].def {
            ValueDef::Result(def, _) => i == def && i != looped,
            ValueDef::Param(block, _) => k.insts[i].blocks.contains(&block),
        };
        k.int_const(v).is_none() && k.any_inside(looped, makes)
    }

    /// An index as another index plus a constant: what a text and its chunks add are one distance. Indices wrap around, so
    /// a distance stays far from where two of them would meet again.
    fn moved(&self, index: Value) -> (Value, i64) {
        let (k, mut base, mut distance) = (self.k, index, 0i64);
        loop {
            let sum = k.def(base).filter(|d| matches!(k.insts[*d].op, Op::Binary(BinOp::Add)));
            let Some(&[x, y]) = sum.map(|sum| k.args(sum)) else { return (base, distance) };
            let Some((rest, c)) = [(x, y), (y, x)].iter().find_map(|&(rest, c)| Some((rest, number(k, c)?)))
            else {
                return (base, distance);
            };
            let Some(sum) = distance.checked_add(c).filter(|sum| sum.abs() <= FARTHEST) else {
                return (base, distance);
            };
            (base, distance) = (rest, sum);
        }
    }

    /// The first value that is computed like this one.
    fn first(&self, v: Value) -> Value {
        self.known.first_of.get(&v).copied().unwrap_or(v)
    }

    fn spelled(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|v| self.first(*v)).collect()
    }

    /// Finds scalars and views that are computed twice.
    fn find_first(&mut self, block: Block, known: &mut FxHashMap<(String, Vec<Value>), Value>) {
        let k = self.k;
        for &inst in &k.blocks[block].insts {
            let d = &k.insts[inst];
            if let &[v] = k.results(inst)
                && d.blocks.is_empty()
                && !d.op.has_effect()
                && !d.op.is_read()
                && !d.op.is_allocation()
                && !matches!(k.ty(v), Type::Tile(..))
            {
                let key = (format!("{:?} {:?}", d.op, k.ty(v)), self.spelled(k.args(inst)));
                let first = *known.entry(key).or_insert(v);
                self.known.first_of.insert(v, first);
            }
            for &b in &d.blocks {
                self.find_first(b, known);
            }
        }
    }

    /// The memory behind an instruction's view.
    fn memory(&self, inst: Inst) -> Option<Value> {
        memory(self.k, *self.k.args(inst).first()?)
    }

    fn is_write(&self, inst: Inst) -> bool {
        self.k.insts[inst].op.is_write()
    }

    /// Whether an instruction writes to the memory that an asynchronous load reads.
    pub(super) fn overwrites(&self, inst: Inst, load: Inst) -> bool {
        self.is_write(inst) && self.memory(inst) == self.memory(load)
    }

    /// Finds what is computed twice. Refuses copies that would have to wait for a store of the same block, and loads
    /// that would have to wait for copies.
    pub(super) fn check_order(&mut self) -> Result<()> {
        self.find_first(self.k.entry, &mut FxHashMap::default());
        let (mut order, nests) = (Vec::new(), Nests::of(self.k));
        self.accesses(self.k.entry, &mut Vec::new(), &mut order);
        self.known.around = order.iter().filter(|o| !o.1.is_empty()).cloned().collect();
        for (n, (store, around)) in order.iter().enumerate().filter(|(_, (i, _))| self.is_write(*i)) {
            let bulk = matches!(self.plan.stores.get(store), Some(StorePlan::Bulk(_)));
            let follows = |(at, (load, other)): (usize, &(Inst, Vec<Inst>))| {
                let copied = self.plan.shared.get(load).is_some_and(|t| t.fill.by_copies());
                let loaded = copied || self.plan.staged.contains_key(load);
                // A distance is that of one iteration: what is apart in it may meet in the next.
                let repeated = around.iter().any(|l| other.contains(l));
                let meets =
                    |load| self.overwrites(*store, load) && (repeated || !self.are_apart(*store, load));
                // Of two sides of a branch a tile takes one, unless a loop comes back to it.
                let again = repeated || (at > n && !nests.exclude(*store, *load));
                (again && (bulk || loaded) && !self.is_write(*load) && meets(*load)).then_some(*load)
            };
            if let Some(load) = order.iter().enumerate().find_map(follows) {
                self.inst = load;
                let what = "a load of what this block stores, where one of the two is an asynchronous copy,";
                return self.error(format!("{what} is not ordered"));
            }
        }
        Ok(())
    }

    /// Whether a store and a load of one view touch different elements, each run once: along a dimension, one begins a
    /// constant behind the other that is at least as long as the other's extent.
    fn are_apart(&self, store: Inst, load: Inst) -> bool {
        let k = self.k;
        if !matches!((&k.insts[store].op, &k.insts[load].op), (Op::Store | Op::Atomic(_), Op::Load)) {
            return false;
        }
        let (to, [value]) = k.args(store).split_at(k.args(store).len() - 1) else { return false };
        let from = k.args(load);
        let extents = [*value, k.result(load)].map(|v| k.ty(v).shape().and_then(|s| s.extents()));
        let [Some(written), Some(read)] = extents else { return false };
        let along = to[1..].iter().zip(&from[1..]).zip(written.iter().zip(&read));
        let apart = |((&to, &from), (&written, &read)): ((&Value, &Value), (&u32, &u32))| {
            let ((to, at), (from, start)) = (self.moved(to), self.moved(from));
            let known = self.first(to) == self.first(from);
            known && (at + i64::from(written) <= start || start + i64::from(read) <= at)
        };
        let whole = to.len() == from.len() && written.len() == read.len();
        whole && self.first(to[0]) == self.first(from[0]) && along.into_iter().any(apart)
    }

    /// Loads and writes in program order, each with the loops around it inside a tile.
    fn accesses(&self, block: Block, around: &mut Vec<Inst>, out: &mut Vec<(Inst, Vec<Inst>)>) {
        for &inst in &self.k.blocks[block].insts {
            let op = &self.k.insts[inst].op;
            if op.is_read() || self.is_write(inst) {
                out.push((inst, around.clone()));
            }
            let repeats = matches!(op, Op::For | Op::While) && !self.k.attrs[inst].persistent;
            around.extend(repeats.then_some(inst));
            for &b in &self.k.insts[inst].blocks {
                self.accesses(b, around, out);
            }
            if repeats {
                around.pop();
            }
        }
    }
}

/// Whether several threads hold the same element.
fn is_repeated(layout: &Layout) -> bool {
    let axes = layout.ins().iter().filter(|(axis, _)| axis_weight(layout, *axis).is_some());
    axes.into_iter().any(|&(axis, _)| layout.free_mask(axis) != 0 || !layout.replicated(axis).is_empty())
}
