//! Ends of loops that were pipelined by hand: what follows the last iteration is an iteration more.
//!
//! ```text
//!  x, a = for t in l..n carry x = z, a = f(l - 1) { y = g(t, x, a)  yield y, f(t) }     ─►  a follows the loop as f(max(l, n) - 1)
//!
//!  x = for t in l..n carry x = z { yield g(t, x) }     r = g(max(l, n), x)     ─►  r = for t in l..max(l, n) + 1 carry x = z ..
//! ```
//!
//! `reroll` finds the first with its own question. The second is answered here: each carried value has a value behind the loop
//! that is its next one, and nothing else behind the loop reads what the loop gives.

use super::cursor::Cursor;
use super::loops::{block_of, body};
use super::persist::rename;
use super::prefetch_next_tile::copy;
use super::terms::{Term, Terms};
use crate::tiles::users;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use warplift_ir::tile::{BinOp, Inst, Kernel, Value};

/// Makes carried value `n` again behind its loop: that of the last iteration.
pub(super) fn compute_behind(k: &mut Kernel, looped: Inst, n: usize) {
    let own = body(k, looped);
    let (next, counter) = (k.yields(own)[n], k.blocks[own].params[0]);
    let inside: FxHashSet<Inst> = k.blocks[own].insts.iter().copied().collect();
    let (result, [low, high, step]) = (k.results(looped)[n], [0, 1, 2].map(|n| k.args(looped)[n]));
    let made = Cursor::behind(k, looped, |c| {
        let end = c.op(BinOp::Max, high, low);
        let last = c.op(BinOp::Sub, end, step);
        let mut known: FxHashMap<Value, Value> = [(counter, last)].into_iter().collect();
        copy(c.k, c.block, next, &inside, &mut known)
    });
    rename(k, &[(result, made)]);
}

/// Lets a loop run an iteration more where what follows it is one. Returns whether it does.
pub(super) fn take_in_end(k: &mut Kernel, written: &FxHashSet<Value>, looped: Inst) -> bool {
    let found = [Ends::AtHigh, Ends::AtLeastLow].into_iter().find_map(|ends| {
        let last = last_iteration(k, written, looped, ends)?;
        Some((ends, last))
    });
    let Some((ends, last)) = found else { return false };
    // Readers of the last iteration read the loop. Its own instructions are dead.
    let renamed: Vec<(Value, Value)> = last.into_iter().zip(k.results(looped).to_vec()).collect();
    rename(k, &renamed);
    let [low, high, step] = [0, 1, 2].map(|n| k.args(looped)[n]);
    let [low, more] = Cursor::before(k, looped, |c| {
        let [low, high] = match ends {
            Ends::AtHigh => [c.op(BinOp::Min, low, high), high],
            Ends::AtLeastLow => [low, c.op(BinOp::Max, high, low)],
        };
        [low, c.op(BinOp::Add, high, step)]
    });
    let args = [&[low, more], &k.args(looped)[2..]].concat();
    k.set_args(looped, &args);
    true
}

/// The counter that what follows a loop goes on with. They differ where the loop has no iteration.
#[derive(Clone, Copy)]
enum Ends {
    /// The loop's end, even if it is below its start.
    AtHigh,
    /// The loop's end, or its start.
    AtLeastLow,
}

/// The values behind a loop that an iteration more would give, one for each carried value.
fn last_iteration(k: &Kernel, written: &FxHashSet<Value>, looped: Inst, ends: Ends) -> Option<Vec<Value>> {
    let (own, insts) = (body(k, looped), &k.blocks[block_of(k, looped)].insts);
    let behind = &insts[insts.iter().position(|&i| i == looped)? + 1..];
    let [low, high] = [0, 1].map(|n| k.args(looped)[n]);
    let (mut of_behind, mut of_body) = (Terms::new(k, written), Terms::new(k, written));
    let counter = match ends {
        Ends::AtHigh => of_behind.of(high)?,
        Ends::AtLeastLow => of_behind.max(high, low)?,
    };
    of_body.give(k.blocks[own].params[0], counter);
    for (&param, &result) in k.blocks[own].params[1..].iter().zip(k.results(looped)) {
        of_body.give(param, Rc::new(Term::Leaf(result)));
    }
    let results: FxHashSet<Value> = k.results(looped).iter().copied().collect();
    let next = k.yields(own).iter().map(|&next| of_body.of(next).filter(|t| t.names(&results)));
    let next: Vec<Rc<Term>> = next.collect::<Option<_>>()?;
    let found = next.iter().map(|term| {
        let gives = |v: &&Value| of_behind.of(**v).as_ref() == Some(term);
        behind.iter().flat_map(|&i| k.results(i)).find(gives).copied()
    });
    let found: Vec<Value> = found.collect::<Option<_>>()?;
    (!found.is_empty() && reads_alone(k, behind, &results, &found)).then_some(found)
}

/// Whether nothing but the last iteration reads what a loop gives.
fn reads_alone(k: &Kernel, behind: &[Inst], results: &FxHashSet<Value>, last: &[Value]) -> bool {
    let users = users(k);
    let mut open: Vec<Value> = results.iter().copied().collect();
    let mut seen: FxHashSet<Value> = results.clone();
    while let Some(v) = open.pop() {
        for &user in users.get(&v).into_iter().flatten() {
            let given = k.results(user);
            if !behind.contains(&user) || given.len() != 1 || k.insts[user].op.has_effect() {
                return false;
            }
            if !last.contains(&given[0]) && seen.insert(given[0]) {
                open.push(given[0]);
            }
        }
    }
    // What the last iteration computes on the way goes with it: only that led here.
    true
}
