//! Products that go on along their depth become one. Texts that multiply step by step, as the instructions do, then load whole
//! tiles, and the product is cut into steps where its instruction is known.
//!
//! ```text
//!  y = for h in 0..4 carry z = x { yield mma z, load a[i, c + h*16] : f16[64, 16], .. }     ─►  y = mma x, load a[i, c] : f16[64, 64], ..
//!
//!  z = mma x, load a[i, c] : f16[64, 32], ..
//!  y = mma z, load a[i, c + 32] : f16[64, 32], ..                                           ─►  y = mma x, load a[i, c] : f16[64, 64], ..
//! ```
//!
//! A loop that the mapping names stays. Loads are bounded element by element, so a wide load is all of its parts. The order of a float sum changes.

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::loops::{block_of, body, carried};
use super::persist::rename;
use super::prefetch_next_tile::copy;
use super::terms::{Term, Terms};
use crate::tiles::{Users, memory, program_order, users, written};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use warplift_ir::tile::{Dim, Inst, Kernel, LoopMapping, Op, Shape, Type, Value};
use warplift_ir::types::Elem;

/// The deepest product that is made.
const DEEPEST: u32 = 256;

/// Joins loops of products and chains of them. Returns whether there are any.
pub fn do_join_depths(k: &mut Kernel) -> bool {
    let mut any = false;
    while let Some(joined) = first(k) {
        joined.apply(k);
        do_drop_unused(k);
        any = true;
    }
    any
}

/// Products that become one.
struct Joined {
    /// What starts: a loop, or the first of two products.
    start: Inst,
    /// The product whose operands are widened.
    product: Inst,
    /// The last of two products.
    last: Option<Inst>,
    operands: Vec<Operand>,
    depth: Dim,
}

fn first(k: &Kernel) -> Option<Joined> {
    let (users, written) = (users(k), written(k));
    let order = program_order(k);
    let looped =
        |&i: &Inst| matches!(k.insts[i].op, Op::For).then(|| of_loop(k, &users, &written, i)).flatten();
    let chained = |&i: &Inst| of_chain(k, &users, &written, i);
    order.iter().find_map(looped).or_else(|| order.iter().find_map(chained))
}

/// An operand as it is loaded: the values from the product to its load, with the dimension of the depth in each.
struct Operand {
    tiles: Vec<(Value, usize)>,
    load: Inst,
}

impl Operand {
    /// Operand `side` of a product, if nothing else uses its tiles.
    fn of(k: &Kernel, users: &Users, product: Inst, side: usize) -> Option<Self> {
        let (mut v, mut dim) = (k.args(product)[side], 2 - side);
        let mut tiles = Vec::new();
        loop {
            let def = k.def(v).filter(|_| users.get(&v).is_some_and(|u| u.len() == 1))?;
            tiles.push((v, dim));
            match &k.insts[def].op {
                Op::Trans(perm) if perm.len() == 2 => (v, dim) = (k.args(def)[0], usize::from(perm[dim])),
                Op::Cast => v = k.args(def)[0],
                Op::Load if dims(k, v).len() == 2 => return Some(Self { tiles, load: def }),
                _ => return None,
            }
        }
    }

    fn depth(&self, k: &Kernel) -> Option<u32> {
        let &(tile, dim) = self.tiles.last()?;
        dims(k, tile).get(dim)?.constant()
    }

    /// The view and indices of the load as terms, that of the depth last.
    fn place(&self, k: &Kernel, mut terms: Terms<'_>) -> Option<Vec<Rc<Term>>> {
        let dim = self.tiles.last()?.1;
        let mut args: Vec<Value> = k.args(self.load).to_vec();
        let depth = args.remove(1 + dim);
        args.push(depth);
        args.into_iter().map(|v| terms.of(v)).collect()
    }

    /// The operations between the load and the product, with their types but for the depth.
    fn shape(&self, k: &Kernel) -> Vec<(String, Elem, Vec<Dim>)> {
        let named = |&(v, dim): &(Value, usize)| {
            let mut rest = dims(k, v);
            rest.remove(dim);
            Some((format!("{:?}", k.insts[k.def(v)?].op), k.ty(v).elem(), rest))
        };
        self.tiles.iter().filter_map(named).collect()
    }
}

fn dims(k: &Kernel, v: Value) -> Vec<Dim> {
    k.ty(v).shape().map_or_else(Vec::new, |s| s.dims().to_vec())
}

/// Whether one place follows another one along the depth.
fn follows(first: &[Rc<Term>], second: &[Rc<Term>], depth: u32) -> bool {
    let (Some((a, same)), Some((b, other))) = (first.split_last(), second.split_last()) else { return false };
    same == other && b.plus(a, -1).constant() == i32::try_from(depth).ok()
}

/// A loop that only adds up products of neighbouring parts.
fn of_loop(k: &Kernel, users: &Users, written: &FxHashSet<Value>, looped: Inst) -> Option<Joined> {
    let own = body(k, looped);
    let step = k.int_const(k.args(looped)[2]).filter(|&s| s > 0)?;
    let trips = trips(k, looped).filter(|t| t.constant() != Some(1))?;
    let (&[counter, sum], &[next]) = (&k.blocks[own].params[..], k.yields(own)) else { return None };
    let product = k.def(next).filter(|&p| is_product(k, p) && k.args(p)[0] == sum)?;
    let plain = |&i: &Inst| {
        let op = &k.insts[i].op;
        k.insts[i].blocks.is_empty() && !op.has_effect() && !matches!(op, Op::Assume(_))
    };
    let alone = [sum, next].iter().all(|v| users.get(v).is_some_and(|u| u.len() == 1));
    let named = k.attrs[looped].looped.as_ref().is_some_and(|l| *l != LoopMapping::default());
    if named || carried(k, looped) != 1 || !alone || !k.blocks[own].insts.iter().all(plain) {
        return None;
    }
    let (mut depth, mut operands) = (None, Vec::new());
    for side in [1, 2] {
        let operand = Operand::of(k, users, product, side)?;
        let width = operand.depth(k)?;
        let at = |more: i64| {
            let mut terms = Terms::new(k, written);
            terms.give(counter, Rc::new(Term::Leaf(counter)).plus(&Term::int(more as i32), 1));
            operand.place(k, terms)
        };
        let inside: FxHashSet<Value> =
            k.blocks[own].insts.iter().flat_map(|&i| k.results(i)).copied().collect();
        let (first, second) = (at(0)?, at(step)?);
        if first.iter().any(|t| t.names(&inside)) || !follows(&first, &second, width) {
            return None;
        }
        depth = Some(width);
        operands.push(operand);
    }
    let depth = trips.times(Dim::new(depth?)).filter(is_small)?;
    Some(Joined { start: looped, product, last: None, operands, depth })
}

/// Two products, one after the other into the same sums.
fn of_chain(k: &Kernel, users: &Users, written: &FxHashSet<Value>, last: Inst) -> Option<Joined> {
    if !is_product(k, last) {
        return None;
    }
    let sum = k.args(last)[0];
    let product = k.def(sum).filter(|&p| is_product(k, p) && k.insts[p].op == k.insts[last].op)?;
    let block = block_of(k, last);
    if users.get(&sum)?.len() != 1 || block_of(k, product) != block {
        return None;
    }
    // What is loaded in front of a loop stays there.
    let beside = |o: &Operand| k.blocks[block].insts.contains(&o.load);
    let (mut depth, mut operands) = (0, Vec::new());
    for side in [1, 2] {
        let [a, b] = [product, last].map(|p| Operand::of(k, users, p, side));
        let (a, b) = (a?, b?);
        let width = a.depth(k)?;
        // A store between the loads may write what the second one reads.
        let read = memory(k, k.args(b.load)[0]).filter(|m| !written.contains(m));
        let [first, second] = [&a, &b].map(|o| o.place(k, Terms::new(k, written)));
        let beside = beside(&a) && beside(&b);
        if !beside || read.is_none() || a.shape(k) != b.shape(k) || !follows(&first?, &second?, width) {
            return None;
        }
        depth = width + b.depth(k)?;
        operands.push(a);
    }
    let depth = Some(Dim::new(depth)).filter(is_small)?;
    Some(Joined { start: product, product, last: Some(last), operands, depth })
}

fn is_small(depth: &Dim) -> bool {
    depth.constant().is_none_or(|d| d <= DEEPEST)
}

/// The iterations of a loop, which may be a tunable's.
fn trips(k: &Kernel, looped: Inst) -> Option<Dim> {
    let &[low, high, step, ..] = k.args(looped) else { return None };
    if let [Some(low), Some(high), Some(step)] = [low, high, step].map(|v| k.int_const(v)) {
        return u32::try_from((high - low + step - 1) / step).ok().filter(|&t| t > 0).map(Dim::new);
    }
    let from_zero = k.int_const(low) == Some(0) && k.int_const(step) == Some(1);
    match k.insts[k.def(high)?].op {
        Op::Dim(trips) if from_zero => Some(trips),
        _ => None,
    }
}

fn is_product(k: &Kernel, inst: Inst) -> bool {
    matches!(k.insts[inst].op, Op::Mma { .. }) && k.attrs[inst].layout.is_none()
}

impl Joined {
    fn apply(&self, k: &mut Kernel) {
        let (mut known, mut inside, mut sum) =
            (FxHashMap::default(), FxHashSet::default(), k.args(self.product)[0]);
        if self.last.is_none() {
            let own = body(k, self.start);
            known.insert(k.blocks[own].params[0], k.args(self.start)[0]);
            inside.extend(k.blocks[own].insts.iter().copied());
            sum = k.args(self.start)[3];
        }
        let (block, result) = (block_of(k, self.start), k.result(self.last.unwrap_or(self.start)));
        let made = Cursor::before(k, self.start, |c| {
            let mut args = vec![sum];
            for operand in &self.operands {
                inside.extend(operand.tiles.iter().filter_map(|t| c.k.def(t.0)));
                let wide = copy(c.k, c.block, operand.tiles[0].0, &inside, &mut known);
                for (v, dim) in &operand.tiles {
                    widen(c.k, *known.get(v).unwrap_or(&wide), *dim, self.depth);
                }
                args.push(wide);
            }
            let made = c.copy(self.product, &args);
            c.k.result(made)
        });
        k.blocks[block].insts.retain(|&i| i != self.start && Some(i) != self.last);
        rename(k, &[(result, made)]);
    }
}

/// Gives a tile another extent along a dimension.
fn widen(k: &mut Kernel, v: Value, dim: usize, extent: Dim) {
    let Type::Tile(elem, shape) = k.ty(v) else { return };
    let mut dims = shape.dims().to_vec();
    dims[dim] = extent;
    if let Some(shape) = Shape::new(&dims) {
        k.values[v].ty = Type::Tile(elem, shape);
    }
}
