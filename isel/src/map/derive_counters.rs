//! Numbers that a loop carries only to count up become functions of its counter. So a column that was written as a sum is
//! known to be a multiple of what is added, and copies run ahead to where they are not held up by what is carried.
//!
//! ```text
//!  for t in lo..hi step s carry x, i = a {          for t in lo..hi step s carry x {
//!    .. i ..                                  ─►      .. a + (t - lo) / s * d ..
//!    yield y, i + d                                   yield y
//!  }                                                }
//! ```
//!
//! A tile of indices that counts up so is its start plus such a number; [`plain_indices`](super::plain_indices) finds rows then.
//! Numbers that run around a circle: [`circular_counters`](super::circular_counters).
//!
//! Sums and products of i32 wrap alike in both forms; a quotient is made only of numbers that do not wrap (induction variables: Aho, Lam, Sethi and Ullman, "Compilers", section 9.1.8).

use super::circular_counters::derive_circles;
use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use super::loops::{body, carried};
use super::persist::rename;
use super::reroll::drop_carried;
use crate::facts::is_never_negative;
use crate::tiles::program_order;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// Rewrites the numbers of all loops.
pub fn do_derive_counters(k: &mut Kernel) {
    let whole = |ty| ty == Type::Scalar(Elem::I32);
    let mut changed = false;
    for looped in loops(k) {
        changed |= derive_all(k, looped, whole);
        changed |= derive_circles(k, looped);
    }
    if changed {
        do_drop_unused(k);
    }
}

/// Rewrites the tiles of indices of all loops.
pub(super) fn derive_tiles(k: &mut Kernel) {
    let indices = |ty| matches!(ty, Type::Tile(Elem::I32 | U32, _));
    for looped in loops(k) {
        derive_all(k, looped, indices);
    }
}

fn loops(k: &Kernel) -> Vec<Inst> {
    program_order(k).into_iter().filter(|&i| matches!(k.insts[i].op, Op::For)).collect()
}

/// Rewrites what a loop carries of some types; whether there was any.
fn derive_all(k: &mut Kernel, looped: Inst, takes: impl Fn(Type) -> bool) -> bool {
    let mut changed = false;
    while let Some((n, by)) = (0..carried(k, looped)).find_map(|n| Some((n, added(k, looped, n, &takes)?))) {
        derive(k, looped, n, &by);
        changed = true;
    }
    changed
}

/// Indices without a sign.
const U32: Elem = Elem::Uint(32);

/// What an iteration adds.
struct Added {
    op: BinOp,
    by: Value,
}

/// What every iteration adds to carried number `n`, or to each element, if it does nothing else to it.
fn added(k: &Kernel, looped: Inst, n: usize, takes: impl Fn(Type) -> bool) -> Option<Added> {
    let body = body(k, looped);
    let (param, next) = (k.blocks[body].params[1 + n], *k.yields(body).get(n)?);
    let def = k.def(next).filter(|d| k.blocks[body].insts.contains(d))?;
    if !takes(k.ty(param)) || k.ty(k.blocks[body].params[0]) != Type::Scalar(Elem::I32) {
        return None;
    }
    let args = k.args(def);
    let (op, by) = match k.insts[def].op {
        Op::Binary(BinOp::Add) if args[0] == param => (BinOp::Add, args[1]),
        Op::Binary(BinOp::Add) if args[1] == param => (BinOp::Add, args[0]),
        Op::Binary(BinOp::Sub) if args[0] == param => (BinOp::Sub, args[1]),
        _ => return None,
    };
    let full = k.def(by).filter(|&d| matches!(k.insts[d].op, Op::Full));
    let by = full.map_or(by, |d| k.args(d)[0]);
    let scalar = matches!(k.ty(by), Type::Scalar(_));
    let stays = scalar && (k.int_const(by).is_some() || !defined_in(k, body).contains(&by));
    (stays && is_exact(k, looped, n, by)).then_some(Added { op, by })
}

/// Whether no quotient is made of numbers that may wrap: sums and products are right modulo 2^32, quotients are not.
fn is_exact(k: &Kernel, looped: Inst, n: usize, by: Value) -> bool {
    let (low, step) = (k.args(looped)[0], k.args(looped)[2]);
    let whole = match [by, step].map(|v| k.int_const(v)) {
        [_, Some(1)] => return true,
        [Some(by), Some(step)] if step > 0 => by % step == 0 || is_never_negative(k, low),
        [None, Some(step)] if step > 0 => is_never_negative(k, low),
        _ => by == step,
    };
    let result = k.results(looped)[n];
    whole && !k.insts.keys().any(|i| k.args(i).contains(&result))
}

/// All values that a block and those inside it define.
fn defined_in(k: &Kernel, block: Block) -> FxHashSet<Value> {
    let mut found: FxHashSet<Value> = k.blocks[block].params.iter().copied().collect();
    for &inst in &k.blocks[block].insts {
        found.extend(k.results(inst));
        for &inner in &k.insts[inst].blocks {
            found.extend(defined_in(k, inner));
        }
    }
    found
}

/// Computes carried number `n` from the counter, and behind the loop from its bounds.
fn derive(k: &mut Kernel, looped: Inst, n: usize, added: &Added) {
    let inside = body(k, looped);
    let [low, high, step, start] = [0, 1, 2, 3 + n].map(|a| k.args(looped)[a]);
    let (counter, param) = (k.blocks[inside].params[0], k.blocks[inside].params[1 + n]);
    let own = Cursor::at_start(k, inside, |c| moved(c, [start, low, counter, step], added));
    let result = k.results(looped)[n];
    let end = Cursor::behind(k, looped, |c| {
        // It is read only where the counter goes on by one.
        let end = c.op(BinOp::Max, high, low);
        moved(c, [start, low, end, step], added)
    });
    rename(k, &[(param, own), (result, end)]);
    drop_carried(k, looped, n);
}

/// The start with what the iterations from `low` to this value of the counter add.
fn moved(s: &mut Cursor<'_>, [start, low, counter, step]: [Value; 4], added: &Added) -> Value {
    // Numbers without a sign are moved by such.
    let elem = s.k.ty(added.by).elem();
    let passed = match s.k.int_const(low) {
        Some(0) => counter,
        _ => s.op(BinOp::Sub, counter, low),
    };
    let all = match [added.by, step].map(|v| s.k.int_const(v)) {
        _ if added.by == step => passed,
        [Some(by), Some(step)] if by % step == 0 => {
            let passed = s.cast(passed, elem);
            s.with(BinOp::Mul, passed, by / step)
        }
        [by, step_known] => {
            let trips = if step_known == Some(1) { passed } else { s.op(BinOp::Div, passed, step) };
            let trips = s.cast(trips, elem);
            match by {
                Some(by) => s.with(BinOp::Mul, trips, by),
                None => s.op(BinOp::Mul, trips, added.by),
            }
        }
    };
    match (s.k.int_const(start), added.op) {
        (Some(0), BinOp::Add) => all,
        (_, op) => s.op(op, start, all),
    }
}
