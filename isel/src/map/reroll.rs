//! Loops that were pipelined, peeled or split by hand become plain again. The scheduler then overlaps their iterations by
//! itself, with rings, registers and barriers in mind.
//!
//! ```text
//!  loads ahead         x = f(0)  for t in 0..n carry a = x { .. a ..  yield f(t + 1) }     ─►  for t in 0..n { a = f(t) .. a .. }
//!  first one peeled    y = g(0, z)  for t in 1..n carry x = y { yield g(t, x) }            ─►  for t in 0..max(n, 1) carry x = z ..
//!  first one a branch  `decided_branches`
//!  last one peeled     `peeled_end`
//!  split               for t in 0..h carry ..  for t in h..n carry ..                      ─►  for t in 0..max(h, n) carry ..
//! ```
//!
//! Equality is that of [`terms`](super::terms). A carried load that moves back an iteration reads the same: nothing
//! writes its memory.

use super::cursor::Cursor;
use super::decided_branches::inline_decided_branches;
use super::drop_unused::do_drop_unused;
use super::loops::{block_of, body, carried, is_loop_of_products};
use super::peeled_end::{compute_behind, take_in_end};
use super::persist::rename;
use super::prefetch_next_tile::copy;
use super::terms::{Term, Terms};
use crate::facts::is_never_negative;
use crate::tiles::{program_order, written};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use warplift_ir::tile::{BinOp, Inst, Kernel, Value, ValueDef, ValueList};

/// Rewrites the loops of products.
pub fn do_reroll(k: &mut Kernel) {
    let mut changed = inline_decided_branches(k);
    let loops: Vec<Inst> = program_order(k).into_iter().filter(|&i| is_loop_of_products(k, i)).collect();
    let written = written(k);
    for &looped in &loops {
        while let Some(n) = (0..carried(k, looped))
            .find(|&n| is_ahead(k, &written, looped, n) && !is_used(k, k.results(looped)[n]))
        {
            put_back(k, looped, n);
            changed = true;
        }
        changed |= with_end(k, &written, looped);
        if let Some(starts) = peeled(k, &written, looped) {
            begin_earlier(k, looped, &starts);
            changed = true;
        }
    }
    // The second of a pair stays, and may be joined by the next one.
    for pair in loops.windows(2) {
        if continues(k, &written, pair[0], pair[1]) {
            join(k, pair[0], pair[1]);
            changed = true;
        }
    }
    if changed {
        do_drop_unused(k);
    }
}

/// The terms of what a loop yields in the iteration before its first one.
fn before_first<'k>(k: &'k Kernel, written: &'k FxHashSet<Value>, looped: Inst) -> Option<Terms<'k>> {
    let mut terms = Terms::new(k, written);
    let (low, step) = (k.args(looped)[0], k.args(looped)[2]);
    let before = terms.of(low)?.plus(&terms.of(step)?, -1);
    let mut terms = Terms::new(k, written);
    terms.give(k.blocks[body(k, looped)].params[0], before);
    Some(terms)
}

/// Lets a loop run an iteration more where what follows it is one, which may read what was computed ahead. Returns whether it
/// does.
fn with_end(k: &mut Kernel, written: &FxHashSet<Value>, looped: Inst) -> bool {
    let plain = |i: &Inst| k.insts[*i].blocks.is_empty() && !k.insts[*i].op.has_effect();
    let counts = k.int_const(k.args(looped)[2]) == Some(1);
    if !counts || !k.blocks[body(k, looped)].insts.iter().all(plain) {
        return false;
    }
    let ahead = |k: &Kernel| (0..carried(k, looped)).find(|&n| is_ahead(k, written, looped, n));
    if ahead(k).is_none() {
        return take_in_end(k, written, looped);
    }
    let mut tried = k.clone();
    while let Some(n) = ahead(&tried) {
        compute_behind(&mut tried, looped, n);
        put_back(&mut tried, looped, n);
    }
    let taken = take_in_end(&mut tried, written, looped);
    if taken {
        *k = tried;
    }
    taken
}

/// Whether a carried value is a function of the counter that was computed an iteration ahead.
fn is_ahead(k: &Kernel, written: &FxHashSet<Value>, looped: Inst, n: usize) -> bool {
    let body = body(k, looped);
    let moves = |terms: &mut Terms<'_>| {
        let before = terms.of(*k.yields(body).get(n)?)?;
        let start = Terms::new(k, written).of(k.args(looped)[3 + n])?;
        let carried: FxHashSet<Value> = k.blocks[body].params.iter().copied().collect();
        Some(before == start && !before.names(&carried))
    };
    let next = k.yields(body)[n];
    let uses =
        |v: Value| program_order(k).into_iter().flat_map(|i| k.args(i).to_vec()).filter(|&a| a == v).count();
    // What this iteration reads too would be computed twice.
    let alone = k.def(next).is_some_and(|d| k.blocks[body].insts.contains(&d)) && uses(next) == 1;
    alone && before_first(k, written, looped).and_then(|mut t| moves(&mut t)).unwrap_or(false)
}

fn is_used(k: &Kernel, v: Value) -> bool {
    program_order(k).into_iter().any(|i| k.args(i).contains(&v))
}

/// Computes carried value `n` in its own iteration.
fn put_back(k: &mut Kernel, looped: Inst, n: usize) {
    let body = body(k, looped);
    let (counter, step) = (k.blocks[body].params[0], k.args(looped)[2]);
    let (next, param) = (k.yields(body)[n], k.blocks[body].params[1 + n]);
    let inside: FxHashSet<Inst> = k.blocks[body].insts.iter().copied().collect();
    let own = Cursor::at_start(k, body, |c| {
        let before = c.op(BinOp::Sub, counter, step);
        let mut known: FxHashMap<Value, Value> = [(counter, before)].into_iter().collect();
        copy(c.k, body, next, &inside, &mut known)
    });
    rename(k, &[(param, own)]);
    drop_carried(k, looped, n);
}

/// Takes carried value `n`, which nothing reads, from a loop.
pub(super) fn drop_carried(k: &mut Kernel, looped: Inst, n: usize) {
    let body = body(k, looped);
    let end = k.blocks[body].insts.last().copied();
    for (inst, at) in [(Some(looped), 3 + n), (end, n)] {
        let Some(inst) = inst else { continue };
        let mut args = k.args(inst).to_vec();
        args.remove(at);
        k.set_args(inst, &args);
    }
    k.blocks[body].params.remove(1 + n);
    for (at, &param) in k.blocks[body].params.clone().iter().enumerate() {
        k.values[param].def = ValueDef::Param(body, at as u32);
    }
    let mut results = k.results(looped).to_vec();
    results.remove(n);
    k.insts[looped].results = ValueList::from_slice(&results, &mut k.pool);
    for (at, result) in results.into_iter().enumerate() {
        k.values[result].def = ValueDef::Result(looped, at as u32);
    }
}

/// The values with which an iteration before the first one gives what the loop starts with, if there are such.
fn peeled(k: &Kernel, written: &FxHashSet<Value>, looped: Inst) -> Option<Vec<Value>> {
    let body = body(k, looped);
    let params = &k.blocks[body].params[1..];
    let variables: FxHashSet<Value> = params.iter().copied().collect();
    let mut of_start = Terms::new(k, written);
    let mut of_body = before_first(k, written, looped)?;
    let mut given: FxHashMap<Value, Rc<Term>> = FxHashMap::default();
    for (&start, &next) in k.args(looped)[3..].iter().zip(k.yields(body)) {
        let (start, next) = (of_start.of(start)?, of_body.of(next)?);
        // A value that is only handed on says nothing.
        if matches!(*next, Term::Leaf(_)) || !next.unify(&start, &variables, &mut given) {
            return None;
        }
    }
    let plain = |i: &Inst| k.insts[*i].blocks.is_empty() && !k.insts[*i].op.has_effect();
    let starts = params.iter().map(|p| of_start.value(given.get(p)?));
    let starts: Option<Vec<Value>> = starts.collect();
    starts.filter(|s| !s.is_empty() && k.blocks[body].insts.iter().all(plain))
}

/// Lets a loop begin an iteration earlier, with these values. That iteration runs in any case, as it did before the loop.
fn begin_earlier(k: &mut Kernel, looped: Inst, starts: &[Value]) {
    let [low, high, step] = [0, 1, 2].map(|n| k.args(looped)[n]);
    let [before, least] = Cursor::before(k, looped, |c| {
        let before = match [low, step].map(|v| c.k.int_const(v)) {
            [Some(low), Some(step)] => c.int(low - step),
            _ => c.op(BinOp::Sub, low, step),
        };
        [before, c.op(BinOp::Max, high, low)]
    });
    let args: Vec<Value> = [before, least, step].into_iter().chain(starts.iter().copied()).collect();
    k.set_args(looped, &args);
}

/// Whether a loop does the same as the one before, from where that one ends.
fn continues(k: &Kernel, written: &FxHashSet<Value>, first: Inst, second: Inst) -> bool {
    let mut terms = Terms::new(k, written);
    let mut same = |a: Value, b: Value| terms.of(a).is_some_and(|t| terms.of(b) == Some(t));
    let (a, b) = (k.args(first), k.args(second));
    let one = [a[2], b[2]].iter().all(|&s| k.int_const(s) == Some(1));
    let follows = same(a[1], b[0]) && a.len() == b.len() && k.results(first) == &b[3..];
    let ascends = k.int_const(a[0]) == Some(0) && is_never_negative(k, a[1]);
    let words = k.attrs[first].looped == k.attrs[second].looped;
    let own = |v: &Value| program_order(k).iter().filter(|&&i| k.args(i).contains(v)).count() == 1;
    let plain = |l: Inst| {
        let alone = |i: &Inst| k.insts[*i].blocks.is_empty() && !k.insts[*i].op.has_effect();
        k.blocks[body(k, l)].insts.iter().all(alone)
    };
    let beside = block_of(k, first) == block_of(k, second);
    one && follows
        && ascends
        && words
        && beside
        && k.results(first).iter().all(own)
        && [first, second].into_iter().all(plain)
        && same_bodies(k, written, first, second)
}

fn same_bodies(k: &Kernel, written: &FxHashSet<Value>, first: Inst, second: Inst) -> bool {
    let [one, other] = [first, second].map(|l| body(k, l));
    let (mut a, mut b) = (Terms::new(k, written), Terms::new(k, written));
    for (&x, &y) in k.blocks[one].params.iter().zip(&k.blocks[other].params) {
        let leaf = Rc::new(Term::Leaf(x));
        a.give(x, leaf.clone());
        b.give(y, leaf);
    }
    let mut yields = k.yields(one).iter().zip(k.yields(other));
    yields.all(|(&x, &y)| a.of(x).is_some_and(|t| b.of(y) == Some(t)))
}

/// Lets the second loop run from the start of the first.
fn join(k: &mut Kernel, first: Inst, second: Inst) {
    let block = block_of(k, second);
    let (from, middle, end) = (k.args(first)[0], k.args(first)[1], k.args(second)[1]);
    let most = Cursor::before(k, second, |c| c.op(BinOp::Max, middle, end));
    let mut args = k.args(first).to_vec();
    args[..2].copy_from_slice(&[from, most]);
    k.set_args(second, &args);
    k.blocks[block].insts.retain(|&i| i != first);
}
