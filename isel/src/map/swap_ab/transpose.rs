//! Transposes classes of tiles: every value of a class becomes its transposition, instruction by instruction.
//!
//! ```text
//!  m = reduce_max s, 0     s transposed     ─►     m = reduce_max s', 1
//!  x = load v[i, j]        x transposed     ─►     x' = load v'[j, i]      v' = v with its dimensions exchanged
//! ```
//!
//! An instruction without a transposed form (a reshape, a load of a staged array) stays, with a transposition beside
//! it. An access to memory transposes its view instead: dimensions and strides are exchanged. Transpositions between
//! a transposed class and another one disappear.

use super::class::{Classes, exchanges, is_matrix, untransposed};
use crate::map::drop_unused::do_drop_unused;
use crate::tiles::in_shared;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Shape, Type, Value, ValueData, ValueDef, ValueList};
use warplift_ir::types::Elem;

/// Transposes the classes of these roots.
pub fn do_transpose(k: &mut Kernel, classes: &Classes, roots: &[Value]) {
    let swapped: FxHashSet<Value> =
        k.values.keys().filter(|&v| is_matrix(k, v) && roots.contains(&classes.root(v))).collect();
    let sources = k.values.keys().map(|v| (v, untransposed(k, v))).filter(|(v, s)| s.0 != *v).collect();
    let mut turn = Transpose { k, swapped, sources, views: FxHashMap::default(), out: Vec::new() };
    turn.types();
    let blocks: Vec<Block> = turn.k.blocks.keys().collect();
    for block in blocks {
        let insts = std::mem::take(&mut turn.k.blocks[block].insts);
        for inst in insts {
            turn.inst(inst);
        }
        turn.k.blocks[block].insts = std::mem::take(&mut turn.out);
    }
    turn.place_views();
    do_drop_unused(turn.k);
    forget_dead(turn.k);
}

/// Removes unused transpositions, so that they do not count as uses.
fn forget_dead(k: &mut Kernel) {
    let mut stands = FxHashSet::default();
    k.walk(|_, inst| {
        stands.insert(inst);
    });
    let dead: Vec<Inst> = k.insts.keys().filter(|i| exchanges(k, *i) && !stands.contains(i)).collect();
    for inst in dead {
        k.insts[inst].op = Op::Int(0);
        k.insts[inst].args = ValueList::new();
    }
}

struct Transpose<'k> {
    k: &'k mut Kernel,
    /// Indexed by the values of the text. New values are not transposed.
    swapped: FxHashSet<Value>,
    /// The tile behind each transposition of the text, and whether the number of transpositions is odd.
    sources: FxHashMap<Value, (Value, bool)>,
    /// Views with two dimensions exchanged, and the instructions that define them.
    views: FxHashMap<(Value, u8, u8), (Value, Vec<Inst>)>,
    /// The block being rewritten.
    out: Vec<Inst>,
}

impl Transpose<'_> {
    fn is_transposed(&self, v: Value) -> bool {
        self.swapped.contains(&v)
    }

    fn source(&self, v: Value) -> (Value, bool) {
        self.sources.get(&v).copied().unwrap_or((v, false))
    }

    fn types(&mut self) {
        for v in self.k.values.keys().collect::<Vec<_>>() {
            if self.is_transposed(v) {
                self.k.values[v].ty = exchanged(self.k.ty(v));
            }
        }
    }

    /// A tile as the text has it, or transposed.
    fn get(&mut self, v: Value, transposed: bool) -> Value {
        if !is_matrix(self.k, v) {
            return v;
        }
        let (from, odd) = self.source(v);
        if self.is_transposed(from) == (transposed ^ odd) {
            return from;
        }
        if self.is_transposed(v) == transposed {
            return v;
        }
        self.transposed(v)
    }

    fn transposed(&mut self, v: Value) -> Value {
        let ty = exchanged(self.k.ty(v));
        let loc = self.k.def(v).map(|d| self.k.insts[d].loc).unwrap_or_default();
        let inst = self.k.make_inst(swap(), &[v], &[ty], &[], loc);
        self.out.push(inst);
        self.k.result(inst)
    }

    fn inst(&mut self, inst: Inst) {
        let results = self.k.results(inst).to_vec();
        let swapped = results.iter().any(|&r| self.is_transposed(r));
        match self.k.insts[inst].op.clone() {
            Op::For | Op::While | Op::If | Op::Yield => self.out.push(inst),
            Op::Trans(_) if exchanges(self.k, inst) => self.trans(inst, swapped),
            Op::Mma { .. } => self.product(inst, swapped),
            Op::Store | Op::Atomic(_) => self.store(inst),
            Op::Reduce(op, d) => self.reduce(inst, op, d),
            op if swapped => self.transposed_form(inst, op),
            _ => self.plain(inst, false),
        }
    }

    /// An instruction whose operands all have one orientation.
    fn plain(&mut self, inst: Inst, transposed: bool) {
        let args: Vec<Value> = self.k.args(inst).to_vec();
        let args: Vec<Value> = args.into_iter().map(|v| self.get(v, transposed)).collect();
        self.with(inst, &args);
    }

    fn with(&mut self, inst: Inst, args: &[Value]) {
        self.k.set_args(inst, args);
        self.out.push(inst);
    }

    fn trans(&mut self, inst: Inst, swapped: bool) {
        // Rewritten for either orientation of the operand; its users look through it.
        let from = self.k.args(inst)[0];
        let from = self.get(from, swapped);
        self.with(inst, &[from]);
    }

    fn product(&mut self, inst: Inst, swapped: bool) {
        let &[sum, a, b] = self.k.args(inst) else { return self.out.push(inst) };
        let (left, right) = if swapped { (b, a) } else { (a, b) };
        let args = [sum, self.get(left, swapped), self.get(right, swapped)];
        self.with(inst, &args);
    }

    fn reduce(&mut self, inst: Inst, op: warplift_ir::tile::ReduceOp, d: u8) {
        let v = self.k.args(inst)[0];
        if self.is_transposed(v) {
            self.k.insts[inst].op = Op::Reduce(op, 1 - d);
            return self.plain(inst, true);
        }
        self.made_plain(inst);
    }

    fn transposed_form(&mut self, inst: Inst, op: Op) {
        let new = match op {
            Op::Iota(d) => Op::Iota(1 - d),
            Op::Scan(op, d) => Op::Scan(op, 1 - d),
            Op::Gather(d) => Op::Gather(1 - d),
            Op::ExpandDims(d) => Op::ExpandDims(1 - d),
            Op::Slice(offsets) => Op::Slice(offsets.into_iter().rev().collect()),
            Op::Broadcast => return self.broadcast(inst),
            Op::Load if self.is_plain_load(inst) => return self.load(inst),
            Op::Rearrange | Op::Full => op,
            op if op.is_elementwise() => op,
            _ => return self.made_plain(inst),
        };
        self.k.insts[inst].op = new;
        self.plain(inst, true);
    }

    /// An operand of rank 1 is along columns and must be along rows.
    fn broadcast(&mut self, inst: Inst) {
        let v = self.k.args(inst)[0];
        let Type::Tile(elem, shape) = self.k.ty(v) else { return self.out.push(inst) };
        if shape.rank() != 1 {
            return self.plain(inst, true);
        }
        let ty = Shape::new(&[shape.dims()[0], warplift_ir::tile::Dim::new(1)]);
        let Some(ty) = ty.map(|s| Type::Tile(elem, s)) else { return self.out.push(inst) };
        let loc = self.k.insts[inst].loc;
        let high = self.k.make_inst(Op::ExpandDims(1), &[v], &[ty], &[], loc);
        self.out.push(high);
        let high = self.k.result(high);
        self.with(inst, &[high]);
    }

    /// An instruction that keeps its form. Results that are needed transposed get a transposition.
    fn made_plain(&mut self, inst: Inst) {
        let results = self.k.results(inst).to_vec();
        let mut list = ValueList::new();
        let mut behind = Vec::new();
        for (n, &r) in results.iter().enumerate() {
            let fresh = if self.is_transposed(r) { self.replaced(inst, n as u32, r, &mut behind) } else { r };
            list.push(fresh, &mut self.k.pool);
        }
        self.k.insts[inst].results = list;
        self.plain(inst, false);
        self.out.append(&mut behind);
    }

    /// A new result; the old one becomes its transposition.
    fn replaced(&mut self, inst: Inst, n: u32, old: Value, behind: &mut Vec<Inst>) -> Value {
        let ty = exchanged(self.k.ty(old));
        let fresh = self.k.values.push(ValueData { ty, def: ValueDef::Result(inst, n) });
        let loc = self.k.insts[inst].loc;
        let swap = self.k.make_inst(swap(), &[fresh], &[], &[], loc);
        self.k.set_result(swap, old);
        behind.push(swap);
        fresh
    }

    /// Whether threads may read the array in any orientation.
    fn is_plain_load(&self, inst: Inst) -> bool {
        let view = self.k.whole_view(self.k.args(inst)[0]);
        self.k.def(view).is_some_and(|d| self.k.attrs[d].array.way.is_plain()) && !in_shared(self.k, inst)
    }

    fn load(&mut self, inst: Inst) {
        let mut args = self.k.args(inst).to_vec();
        args[0] = self.view(args[0], 0, 1);
        args.swap(1, 2);
        self.with(inst, &args);
    }

    fn store(&mut self, inst: Inst) {
        let mut args = self.k.args(inst).to_vec();
        let Some(&v) = args.last() else { return self.out.push(inst) };
        let last = args.len() - 1;
        let (from, odd) = self.source(v);
        // An array in shared memory has no view with its dimensions exchanged: the tile is turned.
        let turns = !in_shared(self.k, inst);
        if is_matrix(self.k, v) && self.is_transposed(from) && !odd && turns {
            args[0] = self.view(args[0], 0, 1);
            args.swap(1, 2);
            args[last] = from;
        } else {
            args[last] = self.get(v, false);
        }
        self.with(inst, &args);
    }

    /// A view with two dimensions exchanged.
    fn view(&mut self, view: Value, a: u8, b: u8) -> Value {
        if let Some((known, _)) = self.views.get(&(view, a, b)) {
            return *known;
        }
        let Some(def) = self.k.def(view) else { return view };
        let mut args = self.k.args(def).to_vec();
        let mut insts = Vec::new();
        let op = match self.k.insts[def].op.clone() {
            Op::SubView(kept) => {
                args[0] = self.view(args[0], kept[usize::from(a)], kept[usize::from(b)]);
                Op::SubView(kept)
            }
            Op::View { strided, fill } => {
                if !strided {
                    self.strides(&mut args, &mut insts);
                }
                let rank = (args.len() - 1) / 2;
                args.swap(1 + usize::from(a), 1 + usize::from(b));
                args.swap(1 + rank + usize::from(a), 1 + rank + usize::from(b));
                Op::View { strided: true, fill }
            }
            _ => return view,
        };
        let (ty, loc) = (self.k.ty(view), self.k.insts[def].loc);
        let made = self.k.make_inst(op, &args, &[ty], &[], loc);
        self.k.attrs[made] = self.k.attrs[def].clone();
        insts.push(made);
        let made = self.k.result(made);
        self.views.insert((view, a, b), (made, insts));
        made
    }

    /// The strides of a row-major view, in elements.
    fn strides(&mut self, args: &mut Vec<Value>, insts: &mut Vec<Inst>) {
        let extents = args[1..].to_vec();
        let int = |k: &mut Kernel, op: Op, args: &[Value]| {
            k.make_inst(op, args, &[Type::Scalar(Elem::I32)], &[], warplift_ir::tile::Loc::default())
        };
        let one = int(self.k, Op::Int(1), &[]);
        insts.push(one);
        let mut strides = vec![self.k.result(one)];
        for &extent in extents[1..].iter().rev() {
            let before = strides[strides.len() - 1];
            let stride = if strides.len() == 1 {
                extent
            } else {
                let product = int(self.k, Op::Binary(BinOp::Mul), &[before, extent]);
                insts.push(product);
                self.k.result(product)
            };
            strides.push(stride);
        }
        args.extend(strides.into_iter().rev());
    }

    /// New views follow directly after the views they come from.
    fn place_views(&mut self) {
        let mut made: Vec<_> = std::mem::take(&mut self.views).into_iter().collect();
        made.sort_by_key(|((view, a, b), _)| (*view, *a, *b));
        for block in self.k.blocks.keys().collect::<Vec<_>>() {
            let old = std::mem::take(&mut self.k.blocks[block].insts);
            for inst in old {
                self.k.blocks[block].insts.push(inst);
                let results = self.k.results(inst).to_vec();
                let behind = made.iter().filter(|((view, ..), _)| results.contains(view));
                self.k.blocks[block].insts.extend(behind.flat_map(|(_, (_, insts))| insts));
            }
        }
    }
}

fn swap() -> Op {
    Op::Trans([1, 0].into_iter().collect())
}

fn exchanged(ty: Type) -> Type {
    let Type::Tile(elem, shape) = ty else { return ty };
    let dims: Vec<_> = shape.dims().iter().rev().copied().collect();
    Type::Tile(elem, Shape::new(&dims).unwrap_or(shape))
}
