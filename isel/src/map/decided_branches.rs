//! Branches in a loop that its counter decides, or that decide nothing.
//!
//! ```text
//!  for t in 0..n carry x = z { y = if t == 0 { g(0, z) } else { g(t, x) } }     ─►  for t in 0..n carry x = z { y = g(t, x) }
//!  for t in 0..n carry x = z { y = select(t == 0, z, x) }                       ─►  y = x
//!  for t in 0..cdiv(n, B) { if t*B < n { .. } else { .. } }                     ─►  the first side: it is below in each
//!  if c { f(t) } else { f(t) }                                                  ─►  f(t)
//! ```
//!
//! In the first iteration the counter is where the loop starts, and carried values are what it starts with. Where both sides are
//! then the same [`terms`](super::terms), the branch was peeled by hand, and its usual side is right in every iteration.

use super::persist::rename;
use super::terms::{Term, Terms};
use crate::facts::is_never_negative;
use crate::tiles::{equal_elements, program_order, written};
use rustc_hash::FxHashSet;
use std::rc::Rc;
use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Op, Value};

/// Puts the side that is always right in the place of such branches and selects. Returns whether there were any. Tunables may
/// be open.
pub fn inline_decided_branches(k: &mut Kernel) -> bool {
    let written = written(k);
    let mut any = false;
    for looped in program_order(k) {
        if !matches!(k.insts[looped].op, Op::For) {
            continue;
        }
        let body = k.insts[looped].blocks[0];
        for inst in k.blocks[body].insts.clone() {
            if let Some(side) = decided(k, &written, looped, inst) {
                inline(k, body, inst, side);
                any = true;
            } else if let Some(value) = selected(k, &written, looped, inst) {
                rename(k, &[(k.result(inst), value)]);
                any = true;
            }
        }
    }
    any
}

/// The side that may stand for a branch in a loop's body.
fn decided(k: &Kernel, written: &FxHashSet<Value>, looped: Inst, branch: Inst) -> Option<Block> {
    let &[then, other] = &k.insts[branch].blocks[..] else { return None };
    if !matches!(k.insts[branch].op, Op::If) {
        return None;
    }
    let now = Rc::new(Term::Leaf(k.blocks[k.insts[looped].blocks[0]].params[0]));
    if is_below_end(k, &mut Terms::new(k, written), looped, k.args(branch)[0], &now) {
        return Some(then);
    }
    // A promise may hold on one side alone.
    let bound = |op: &Op| op.has_effect() || matches!(op, Op::Assume(_) | Op::While);
    let effect = k.any_inside(branch, |i| bound(&k.insts[i].op));
    let given = [then, other].map(|side| k.yields(side).to_vec());
    if effect {
        return None;
    }
    if is_same(&mut Terms::new(k, written), &given) {
        return Some(other);
    }
    let usual = if is_first(k, looped, k.args(branch)[0])? { other } else { then };
    is_same_at_first(k, written, looped, &given).then_some(usual)
}

/// The operand that may stand for a select of a scalar condition in a loop's body.
fn selected(k: &Kernel, written: &FxHashSet<Value>, looped: Inst, select: Inst) -> Option<Value> {
    let (Op::Select, &[condition, yes, no]) = (&k.insts[select].op, k.args(select)) else { return None };
    let scalar = equal_elements(k, condition)?;
    let usual = if is_first(k, looped, scalar)? { no } else { yes };
    let typed = k.ty(usual) == k.ty(k.result(select));
    (typed && is_same_at_first(k, written, looped, &[vec![yes], vec![no]])).then_some(usual)
}

/// Whether a condition holds in a loop's first iteration alone (`true`), or in all others (`false`).
fn is_first(k: &Kernel, looped: Inst, condition: Value) -> Option<bool> {
    let def = k.def(condition)?;
    let (counter, low) = (k.blocks[k.insts[looped].blocks[0]].params[0], k.args(looped)[0]);
    let is_low = |v: Value| v == low || k.int_const(v).is_some_and(|c| k.int_const(low) == Some(c));
    let &[x, y] = k.args(def) else { return None };
    let (ahead, behind) = (x == counter && is_low(y), y == counter && is_low(x));
    match k.insts[def].op {
        Op::Compare(CmpOp::Eq) if ahead || behind => Some(true),
        Op::Compare(CmpOp::Ne) if ahead || behind => Some(false),
        Op::Compare(CmpOp::Gt) if ahead => Some(false),
        Op::Compare(CmpOp::Lt) if behind => Some(false),
        _ => None,
    }
}

/// Whether both sides give the same in a loop's first iteration.
fn is_same_at_first(k: &Kernel, written: &FxHashSet<Value>, looped: Inst, given: &[Vec<Value>; 2]) -> bool {
    let mut terms = Terms::new(k, written);
    let (args, params) = (k.args(looped), &k.blocks[k.insts[looped].blocks[0]].params);
    for (&param, &start) in params.iter().zip([&args[..1], &args[3..]].concat().iter()) {
        let Some(start) = terms.of(start) else { return false };
        terms.give(param, start);
    }
    is_same(&mut terms, given)
}

/// Whether both sides give the same.
fn is_same(terms: &mut Terms<'_>, [then, other]: &[Vec<Value>; 2]) -> bool {
    then.iter().zip(other).all(|(&a, &b)| terms.of(a).is_some_and(|a| terms.of(b) == Some(a)))
}

/// Whether a condition says no more than that the counter of `0..cdiv(n, B)`, which is `now` at that time, is below its end:
/// `t * B < n`, or less on the left.
pub(super) fn is_below_end(
    k: &Kernel,
    terms: &mut Terms<'_>,
    looped: Inst,
    condition: Value,
    now: &Rc<Term>,
) -> bool {
    let args = k.args(looped);
    let Some((less, count)) = k.def(condition).zip(k.def(args[1])) else { return false };
    let is = matches!(k.insts[less].op, Op::Compare(CmpOp::Lt))
        && matches!(k.insts[count].op, Op::Binary(BinOp::CeilDiv))
        && is_never_negative(k, args[0]);
    let (&[x, y], &[n, by]) = (k.args(less), k.args(count)) else { return false };
    // A quotient of two negative numbers is positive.
    let positive = is_never_negative(k, n) && is_never_negative(k, by);
    let mut equal = |a: Value, b: Value| terms.of(a).zip(terms.of(b)).is_some_and(|(a, b)| a == b);
    is && positive && equal(y, n) && {
        let most = terms.of(by).and_then(|by| now.times(&by));
        let left = terms.of(x).zip(most).and_then(|(x, most)| most.plus(&x, -1).constant());
        left.is_some_and(|left| left >= 0)
    }
}

/// Puts the instructions of a side in the place of its branch.
fn inline(k: &mut Kernel, body: Block, branch: Inst, side: Block) {
    let mut insts = std::mem::take(&mut k.blocks[side].insts);
    let given = insts.pop().map_or(Vec::new(), |end| k.args(end).to_vec());
    let results: Vec<(Value, Value)> = k.results(branch).iter().copied().zip(given).collect();
    let list = &mut k.blocks[body].insts;
    let at = list.iter().position(|&i| i == branch).expect("the branch stands in the body");
    list.splice(at..=at, insts);
    rename(k, &results);
}
