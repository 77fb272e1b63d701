//! Sums of rows are carried, not tiles that are summed up behind the loop: a thread holds a number for each of its rows, and the
//! registers of a tile stay free.
//!
//! ```text
//!  s = for .. carry x = 0 : [M, K] { yield x + v }               s = for .. carry x = 0 : [M] { yield x + reduce_sum(v, 1) }
//!  reduce_sum(s, 1)                                     ─►       s
//!
//!  .. carry x = 0 : [M, K] { yield x * expand_dims(f, 1) + v }   .. carry x = 0 : [M] { yield x * f + reduce_sum(v, 1) }
//! ```
//!
//! The order of the sum changes, and nothing else: factors are equal along the dimension that is summed. Only loops of products are
//! rewritten; others have registers to spare, and threads would meet in every iteration.

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::loops::{block_of, body, carried, is_loop_of_products};
use super::persist::rename;
use crate::tiles::{constant, equal_elements, program_order, users, with_elem};
use rustc_hash::FxHashMap;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, ReduceOp, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Rewrites the loops of products.
pub fn do_reduce_carried(k: &mut Kernel) {
    let loops: Vec<Inst> = program_order(k).into_iter().filter(|&i| is_loop_of_products(k, i)).collect();
    let mut changed = false;
    for looped in loops {
        for n in 0..carried(k, looped) {
            if let Some(sum) = Sum::of(k, looped, n) {
                sum.narrow(k, looped, n);
                changed = true;
            }
        }
    }
    if changed {
        do_drop_unused(k);
    }
}

/// A carried tile that is only summed up.
struct Sum {
    /// What the loop adds to it, from the last step to the first.
    steps: Vec<Step>,
    /// The dimension that is summed behind the loop, and the sums.
    dim: u8,
    sums: Vec<Value>,
    /// The type of a sum.
    ty: Type,
}

/// A step from the carried tile to the next one.
#[derive(Clone, Copy)]
enum Step {
    /// A tile is added.
    Add(Value),
    /// The product of two tiles is added.
    AddProduct(Value, Value),
    /// The tile is multiplied with a factor that is equal along the dimension.
    Scale(Value),
}

impl Sum {
    /// Carried value `n` of a loop, if it is such a sum.
    fn of(k: &Kernel, looped: Inst, n: usize) -> Option<Self> {
        let (own, users) = (body(k, looped), users(k));
        let (param, result) = (k.blocks[own].params[1 + n], k.results(looped)[n]);
        let readers = users.get(&result)?;
        let reduced = |i: Inst| match k.insts[i].op {
            Op::Reduce(ReduceOp::Sum, dim) => Some(dim),
            _ => None,
        };
        let dim = reduced(*readers.first()?)?;
        let sums: Vec<Value> =
            readers.iter().filter(|&&i| reduced(i) == Some(dim)).map(|&i| k.result(i)).collect();
        let ty = k.ty(*sums.first()?);
        let whole = sums.len() == readers.len() && k.ty(param).elem() == Elem::F32;
        if !whole || constant(k, k.args(looped)[3 + n]) != Some(0.0) || ty.shape().is_none() {
            return None;
        }
        let (mut steps, mut at) = (Vec::new(), *k.yields(own).get(n)?);
        while at != param {
            let alone = users.get(&at).is_some_and(|u| u.len() == 1);
            let (step, before) = step(k, own, at, param).filter(|_| alone)?;
            steps.push(step);
            at = before;
        }
        let whole = k.ty(param);
        let narrows = |s: &Step| match *s {
            Step::Scale(f) => factor(k, f, dim).is_some(),
            Step::Add(v) => k.ty(v) == whole,
            Step::AddProduct(x, y) => k.ty(x) == whole && k.ty(y) == whole,
        };
        let narrow = steps.iter().all(narrows);
        let used = users.get(&param).is_some_and(|u| u.len() == 1);
        (used && narrow && !steps.is_empty()).then_some(Self { steps, dim, sums, ty })
    }

    /// Lets the loop carry the sum.
    fn narrow(self, k: &mut Kernel, looped: Inst, n: usize) {
        let (own, loc) = (body(k, looped), k.insts[looped].loc);
        let start = Cursor::before(k, looped, |c| {
            c.loc = loc;
            c.constant(Op::Float(0.0), self.ty)
        });
        replace(k, looped, 3 + n, start);
        let (param, result) = (k.blocks[own].params[1 + n], k.results(looped)[n]);
        (k.values[param].ty, k.values[result].ty) = (self.ty, self.ty);
        // The sums take the place of the tile.
        let Some(last) = k.def(k.yields(own)[n]) else { return };
        let sum = Cursor::before(k, last, |c| {
            c.loc = loc;
            self.steps.iter().rev().fold(param, |sum, &step| self.stepped(c, sum, step))
        });
        if let Some(&end) = k.blocks[own].insts.last() {
            replace(k, end, n, sum);
        }
        let renamed: Vec<(Value, Value)> = self.sums.iter().map(|&s| (s, result)).collect();
        rename(k, &renamed);
        self.sums.iter().filter_map(|&s| k.def(s)).collect::<Vec<_>>().into_iter().for_each(|i| remove(k, i));
    }

    /// The sum of rows after a step.
    fn stepped(&self, c: &mut Cursor<'_>, sum: Value, step: Step) -> Value {
        let reduced = |c: &mut Cursor<'_>, v| c.inst(Op::Reduce(ReduceOp::Sum, self.dim), &[v], self.ty);
        let (op, with) = match step {
            Step::Scale(f) => (BinOp::Mul, self.of_rows(c, f)),
            Step::Add(v) => (BinOp::Add, reduced(c, v)),
            Step::AddProduct(x, y) => {
                let product = c.op(BinOp::Mul, x, y);
                (BinOp::Add, reduced(c, product))
            }
        };
        c.inst(Op::Binary(op), &[sum, with], self.ty)
    }

    /// A factor with the dimensions of the sum.
    fn of_rows(&self, c: &mut Cursor<'_>, f: Value) -> Value {
        match factor(c.k, f, self.dim) {
            Some(Factor::Same(same)) => same,
            Some(Factor::Row(row)) => c.inst(Op::Reshape, &[row], with_elem(self.ty, c.k.ty(row).elem())),
            _ => f,
        }
    }
}

/// A factor that is equal along a dimension.
enum Factor {
    /// A scalar, or a tile without the dimension.
    Same(Value),
    /// A tile in which the dimension has one element.
    Row(Value),
}

fn factor(k: &Kernel, f: Value, dim: u8) -> Option<Factor> {
    if let Some(scalar) = equal_elements(k, f) {
        return Some(Factor::Same(scalar));
    }
    let repeat = k.def(f).filter(|&d| matches!(k.insts[d].op, Op::Broadcast))?;
    let row = k.args(repeat)[0];
    let (shape, whole) = (k.ty(row).shape()?, k.ty(f).shape()?);
    let others = |s: Shape| {
        let dims = s.dims().iter().enumerate().filter(|&(d, _)| d != usize::from(dim));
        dims.map(|(_, &d)| d).collect::<Vec<_>>()
    };
    let fits = shape.rank() == whole.rank()
        && shape.dims()[usize::from(dim)].is_one()
        && others(shape) == others(whole);
    fits.then(|| match k.def(row) {
        Some(d) if k.insts[d].op == Op::ExpandDims(dim) => Factor::Same(k.args(d)[0]),
        _ => Factor::Row(row),
    })
}

/// The last step to a value, and the value before it.
fn step(k: &Kernel, own: Block, v: Value, param: Value) -> Option<(Step, Value)> {
    let def = k.def(v).filter(|d| k.blocks[own].insts.contains(d))?;
    let leads = |v: Value| leads_to(k, own, v, param, &mut FxHashMap::default());
    match (&k.insts[def].op, k.args(def)) {
        (Op::Binary(BinOp::Add), &[x, y]) if leads(x) != leads(y) => {
            Some(if leads(x) { (Step::Add(y), x) } else { (Step::Add(x), y) })
        }
        (Op::Binary(BinOp::Mul), &[x, y]) if leads(x) != leads(y) => {
            Some(if leads(x) { (Step::Scale(y), x) } else { (Step::Scale(x), y) })
        }
        (Op::Fma, &[x, y, z]) if !leads(x) && !leads(y) && leads(z) => Some((Step::AddProduct(x, y), z)),
        _ => None,
    }
}

/// Whether a value depends on another one of its iteration.
fn leads_to(k: &Kernel, own: Block, v: Value, from: Value, known: &mut FxHashMap<Value, bool>) -> bool {
    if v == from {
        return true;
    }
    if let Some(&known) = known.get(&v) {
        return known;
    }
    let inside = k.def(v).filter(|d| k.blocks[own].insts.contains(d));
    // A branch may read it inside.
    let read = |d: Inst| {
        let nested = k.insts[d].blocks.iter().flat_map(|&b| k.inside(b));
        nested.chain([d]).flat_map(|i| k.args(i)).copied().collect::<Vec<Value>>()
    };
    let leads = inside.is_some_and(|d| read(d).into_iter().any(|a| leads_to(k, own, a, from, known)));
    known.insert(v, leads);
    leads
}

fn replace(k: &mut Kernel, inst: Inst, at: usize, with: Value) {
    let mut args = k.args(inst).to_vec();
    args[at] = with;
    k.set_args(inst, &args);
}

fn remove(k: &mut Kernel, inst: Inst) {
    let block = block_of(k, inst);
    k.blocks[block].insts.retain(|&i| i != inst);
}
