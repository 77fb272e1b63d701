//! Partial sums: what a loop only adds up stays each thread's part, and the threads that share it meet once, behind
//! the loop.
//!
//! ```text
//!  for carry s = 0                                 for carry s = 0
//!    s' = s * f + reduce(x)                          s' = s * f + registers of reduce(x)
//!         registers ─ lanes ─ warps           ─►   s: registers
//!                                                  lanes ─ warps, once
//! ```
//!
//! A carried tile is such a sum if it starts as zeros and everything between it and what the loop yields is linear:
//! sums of partial values, and products of one with a factor that all threads of a row have. Nothing else may read a
//! partial value. Extrema need no start: the running one may be in every thread. Where the threads meet in every iteration
//! for another reduction, the sum stays beside it.

use super::types::Plan;
use crate::tiles::{Users, above_lanes, users};
use rustc_hash::FxHashSet;
use warplift_ir::layout::{Axis, Basis, Layout};
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, ReduceOp, Type, Value};

/// Finds the sums of all loops.
pub(super) fn do_partial_sums(k: &Kernel, order: &[Inst], plan: &mut Plan) {
    if !plan.ways.partial_sums {
        return;
    }
    let users = users(k);
    for &inst in order.iter().filter(|&&i| matches!(k.insts[i].op, Op::For)) {
        let sums = sums(k, &users, inst, plan);
        if !meets_anyway(k, inst, &sums, plan) {
            plan.partial.extend(sums);
        }
    }
}

/// The sums of a loop, each with its reductions.
fn sums(k: &Kernel, users: &Users, looped: Inst, plan: &Plan) -> Vec<(Value, Vec<Inst>)> {
    let of = |n: usize| Sum::new(k, users, looped, n).and_then(|s| s.reductions(plan));
    let results = k.results(looped).iter().enumerate();
    results.filter_map(|(n, &result)| Some((result, of(n)?))).collect()
}

/// Whether the threads meet in every iteration for another reduction of the loop. A sum beside it costs little there, and
/// the work behind it keeps its place: attention without its row sum's shuffles took 0 to 2% longer with heads of 128,
/// and 5 to 10% with heads of 64 (H200, 2026-11-24).
fn meets_anyway(k: &Kernel, looped: Inst, sums: &[(Value, Vec<Inst>)], plan: &Plan) -> bool {
    let leaves = |inst: &Inst| sums.iter().any(|(_, reductions)| reductions.contains(inst));
    let meets = |&&inst: &&Inst| {
        matches!(k.insts[inst].op, Op::Reduce(..)) && sharing(k, inst, plan).is_none_or(|s| !s.is_empty())
    };
    k.blocks[k.insts[looped].blocks[0]].insts.iter().filter(meets).any(|inst| !leaves(inst))
}

/// A carried tile that is only added up, or only compared.
struct Sum<'k> {
    k: &'k Kernel,
    op: ReduceOp,
    carried: Value,
    /// The values between the carried one and the yielded one.
    parts: Vec<Value>,
    /// The instructions that may read them: those that define them, and the loop's yield.
    readers: FxHashSet<Inst>,
}

impl<'k> Sum<'k> {
    /// Carried value `n` of a loop, if it is such a sum.
    fn new(k: &'k Kernel, users: &Users, inst: Inst, n: usize) -> Option<Self> {
        let body = &k.blocks[k.insts[inst].blocks[0]];
        let (carried, last) = (body.params[1 + n], *body.insts.last()?);
        let (start, yielded) = (k.args(inst)[3 + n], *k.args(last).get(n)?);
        let op = operation(k, yielded, carried)?;
        let idempotent = matches!(op, ReduceOp::Min | ReduceOp::Max);
        if !matches!(k.ty(carried), Type::Tile(..)) || !(idempotent || is_zero(k, start)) {
            return None;
        }
        let mut sum = Self { k, op, carried, parts: vec![carried], readers: FxHashSet::from_iter([last]) };
        let inside = |v: Value| k.def(v).is_some_and(|d| body.insts.contains(&d));
        let linear = sum.collect(yielded, &inside) && yielded != carried;
        let own = |v: &Value| users.get(v).is_none_or(|all| all.iter().all(|u| sum.readers.contains(u)));
        let once = k.args(last).iter().filter(|&a| sum.parts.contains(a)).count() == 1;
        (linear && once && sum.parts.iter().all(own)).then_some(sum)
    }

    /// Notes the parts of a value; `false` if it is not a sum of partial values.
    fn collect(&mut self, v: Value, inside: &impl Fn(Value) -> bool) -> bool {
        if self.parts.contains(&v) {
            return true;
        }
        let Some(def) = self.k.def(v).filter(|_| inside(v)) else { return false };
        self.parts.push(v);
        self.readers.insert(def);
        let args = self.k.args(def);
        let sums = self.op == ReduceOp::Sum;
        match self.k.insts[def].op {
            Op::Reduce(op, _) => op == self.op,
            Op::Binary(BinOp::Add) if sums => self.collect(args[0], inside) && self.collect(args[1], inside),
            Op::Binary(BinOp::Mul) if sums => self.scaled([args[0], args[1]], inside),
            Op::Fma if sums => self.scaled([args[0], args[1]], inside) && self.collect(args[2], inside),
            Op::Binary(op) if extremum(op) == Some(self.op) => {
                self.collect(args[0], inside) && self.collect(args[1], inside)
            }
            _ => false,
        }
    }

    /// A partial value times a factor.
    fn scaled(&mut self, [a, b]: [Value; 2], inside: &impl Fn(Value) -> bool) -> bool {
        match [self.leads_here(a), self.leads_here(b)] {
            [true, false] => self.collect(a, inside),
            [false, true] => self.collect(b, inside),
            _ => false,
        }
    }

    /// Whether a value is the carried one or a reduction, or computed of one by sums and products.
    fn leads_here(&self, v: Value) -> bool {
        leads_to(self.k, v, self.carried, self.op)
    }

    /// The reductions among the parts, if the plan gives all parts one layout, and threads share results.
    fn reductions(&self, plan: &Plan) -> Option<Vec<Inst>> {
        let k = self.k;
        let layout = plan.layouts[self.carried].as_ref()?;
        let one = |v: &Value| plan.layouts[*v].as_ref() == Some(layout) && !plan.made.contains_key(v);
        let defs: Vec<Inst> =
            self.parts.iter().filter_map(|&v| k.def(v)).filter(|d| self.readers.contains(d)).collect();
        let reduces = |d: &Inst| matches!(k.insts[*d].op, Op::Reduce(..));
        let own = |d: &Inst| reduces(d) || (0..k.args(*d).len()).all(|n| !plan.uses.contains_key(&(*d, n)));
        if !self.parts.iter().all(one) || !defs.iter().all(own) {
            return None;
        }
        let reductions: Vec<Inst> = defs.into_iter().filter(reduces).collect();
        let mut shared = reductions.iter().map(|&r| sharing(k, r, plan));
        let first = shared.next()??;
        (!first.is_empty() && shared.all(|s| s.as_ref() == Some(&first))).then_some(reductions)
    }
}

/// Whether a value is the carried one or a reduction, or computed of one by sums and products.
fn leads_to(k: &Kernel, v: Value, carried: Value, op: ReduceOp) -> bool {
    let Some(def) = k.def(v) else { return v == carried };
    match k.insts[def].op {
        Op::Reduce(own, _) => own == op,
        Op::Binary(BinOp::Add | BinOp::Mul) | Op::Fma => {
            k.args(def).iter().any(|&a| leads_to(k, a, carried, op))
        }
        _ => false,
    }
}

/// What the chain of a yielded value does: the operation of the first reduction found.
fn operation(k: &Kernel, yielded: Value, carried: Value) -> Option<ReduceOp> {
    let def = k.def(yielded)?;
    match k.insts[def].op {
        Op::Reduce(op @ (ReduceOp::Sum | ReduceOp::Min | ReduceOp::Max), _) => Some(op),
        Op::Binary(BinOp::Add | BinOp::Mul) | Op::Fma => Some(ReduceOp::Sum),
        Op::Binary(op) => extremum(op),
        _ => None,
    }
    .filter(|_| yielded != carried)
}

fn extremum(op: BinOp) -> Option<ReduceOp> {
    match op {
        BinOp::Min => Some(ReduceOp::Min),
        BinOp::Max => Some(ReduceOp::Max),
        _ => None,
    }
}

/// Whether a tile consists of zeros.
fn is_zero(k: &Kernel, v: Value) -> bool {
    let Some(def) = k.def(v) else { return false };
    match k.insts[def].op {
        Op::Full | Op::Broadcast => is_zero(k, k.args(def)[0]),
        Op::Int(n) => n == 0,
        Op::Float(x) => x.to_bits() == 0,
        _ => false,
    }
}

/// The digits of lanes and warps along the reduced dimension: the threads that share a result.
fn sharing(k: &Kernel, reduction: Inst, plan: &Plan) -> Option<Vec<(Axis, Basis)>> {
    let Op::Reduce(_, axis) = k.insts[reduction].op else { return None };
    let from: &Layout = plan.uses.get(&(reduction, 0)).or(plan.layouts[k.args(reduction)[0]].as_ref())?;
    let threads = from.ins().iter().map(|a| a.0).filter(|&a| a == Axis::Lane || above_lanes(a));
    let digits = threads.flat_map(|a| from.basis(a).into_iter().map(move |b| (a, b)));
    Some(digits.filter(|(_, b)| b.out[usize::from(axis)] != 0).collect())
}
