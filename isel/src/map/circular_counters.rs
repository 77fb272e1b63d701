//! Numbers that a loop carries around a circle, as stages of a ring are, become remainders of its counter.
//!
//! ```text
//!  for t in 0..n carry s = 0 { .. s ..  yield select(s + 1 == 3, 0, s + 1) }     ─►     for t in 0..n { .. t % 3 .. }
//!                              yield 1 - s,  s ^ 1,  (s + 1) % 2, ..             ─►                    .. t % 2 ..
//! ```
//!
//! What is yielded is computed for the number that the loop starts with, then for what that gives, until the start comes back. It
//! does not matter how it is written.

use super::cursor::Cursor;
use super::loops::{body, carried};
use super::persist::rename;
use super::reroll::drop_carried;
use crate::facts::is_never_negative;
use warplift_ir::tile::{BinOp, CmpOp, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// The longest circle.
const LONGEST: usize = 16;
/// The most operations of what is yielded.
const FUEL: u32 = 64;

/// A number: `(counter + offset) % length * step`.
#[derive(Clone, Copy)]
pub(super) struct Circle {
    pub offset: i64,
    pub length: i64,
    pub step: i64,
}

/// Derives the numbers that a loop carries around circles. Returns whether there are any.
pub(super) fn derive_circles(k: &mut Kernel, looped: Inst) -> bool {
    let mut any = false;
    while let Some((n, circle)) = (0..carried(k, looped)).find_map(|n| Some((n, circle(k, looped, n)?))) {
        derive(k, looped, n, circle);
        any = true;
    }
    any
}

/// The circle that carried number `n` runs in, one place on in each iteration.
fn circle(k: &Kernel, looped: Inst, n: usize) -> Option<Circle> {
    let own = body(k, looped);
    let [low, step, start] = [0, 2, 3 + n].map(|a| k.int_const(k.args(looped)[a]));
    let (low, start) = (low.filter(|&l| l >= 0 && step == Some(1))?, start?);
    let (param, next) = (k.blocks[own].params[1 + n], *k.yields(own).get(n)?);
    if [param, k.blocks[own].params[0]].iter().any(|&v| k.ty(v) != Type::Scalar(Elem::I32)) {
        return None;
    }
    let mut places = vec![start];
    loop {
        let at = evaluate(k, next, (param, *places.last()?), &mut { FUEL })?;
        if at == start {
            break;
        }
        places.push(at);
        if places.len() > LONGEST {
            return None;
        }
    }
    let found = Circle::of(&places)?;
    Some(Circle { offset: (found.offset - low).rem_euclid(found.length), ..found })
}

/// A number that is a function of a remainder alone, and walks around a circle with it: what the remainder is of, and the circle.
pub(super) fn circle_of_remainder(k: &Kernel, v: Value) -> Option<(Value, Circle)> {
    let mut found = Vec::new();
    remainders_in(k, v, &mut { FUEL }, &mut found);
    found.into_iter().find_map(|(rest, x, length)| {
        let places = (0..length).map(|r| evaluate(k, v, (rest, r), &mut { FUEL }));
        let circle = Circle::of(&places.collect::<Option<Vec<i64>>>()?)?;
        Some((x, circle))
    })
}

/// The remainders by constants among what a number is computed of, the innermost first: each one, what it is of, and its divisor.
fn remainders_in(k: &Kernel, v: Value, fuel: &mut u32, found: &mut Vec<(Value, Value, i64)>) {
    let Some(left) = fuel.checked_sub(1) else { return };
    *fuel = left;
    let Some(def) = k.def(v) else { return };
    let args = k.args(def);
    if !matches!(k.insts[def].op, Op::Binary(_) | Op::Select | Op::Compare(_)) {
        return;
    }
    args.iter().for_each(|&a| remainders_in(k, a, fuel, found));
    let by = args.get(1).and_then(|&by| k.int_const(by));
    let length = match (&k.insts[def].op, by) {
        (Op::Binary(BinOp::Rem), Some(by)) if is_never_negative(k, args[0]) => by,
        (Op::Binary(BinOp::And), Some(by)) if by > 0 && (by as u64 + 1).is_power_of_two() => by + 1,
        _ => return,
    };
    if (2..=LONGEST as i64).contains(&length) {
        found.push((v, args[0], length));
    }
}

/// A number computed of constants and one value, which is given. `None` if it wraps or takes anything else.
fn evaluate(k: &Kernel, v: Value, given: (Value, i64), fuel: &mut u32) -> Option<i64> {
    *fuel = fuel.checked_sub(1)?;
    if v == given.0 {
        return Some(given.1);
    }
    if let Some(c) = k.int_const(v) {
        return Some(c);
    }
    let def = k.def(v)?;
    let args = k.args(def);
    let mut of = |n: usize| evaluate(k, *args.get(n)?, given, fuel);
    let number = match k.insts[def].op {
        Op::Select => return if of(0)? != 0 { of(1) } else { of(2) },
        Op::Binary(op) => {
            let (x, y) = (of(0)?, of(1)?);
            match op {
                BinOp::Add => x.checked_add(y)?,
                BinOp::Sub => x.checked_sub(y)?,
                BinOp::Mul => x.checked_mul(y)?,
                BinOp::Rem if x >= 0 && y > 0 => x % y,
                BinOp::And => x & y,
                BinOp::Xor => x ^ y,
                _ => return None,
            }
        }
        Op::Compare(cmp) => i64::from(holds(cmp, of(0)?, of(1)?)),
        _ => return None,
    };
    i32::try_from(number).ok().map(i64::from)
}

fn holds(cmp: CmpOp, x: i64, y: i64) -> bool {
    match cmp {
        CmpOp::Eq => x == y,
        CmpOp::Ne => x != y,
        CmpOp::Lt => x < y,
        CmpOp::Le => x <= y,
        CmpOp::Gt => x > y,
        CmpOp::Ge => x >= y,
    }
}

/// Computes carried number `n` from the counter, and behind the loop from its bounds.
fn derive(k: &mut Kernel, looped: Inst, n: usize, circle: Circle) {
    let own = body(k, looped);
    let (counter, param) = (k.blocks[own].params[0], k.blocks[own].params[1 + n]);
    let inside = Cursor::at_start(k, own, |c| circle.at(c, counter));
    let ([low, high], result) = ([0, 1].map(|a| k.args(looped)[a]), k.results(looped)[n]);
    let end = Cursor::behind(k, looped, |c| {
        let end = c.op(BinOp::Max, high, low);
        circle.at(c, end)
    });
    rename(k, &[(param, inside), (result, end)]);
    drop_carried(k, looped, n);
}

impl Circle {
    /// The circle with these places, one after the other from counter 0 on.
    fn of(places: &[i64]) -> Option<Self> {
        let length = places.len() as i64;
        let step = *places.iter().filter(|&&p| p > 0).min()?;
        let offset = places[0] / step;
        let is = |(i, &p): (usize, &i64)| p == (offset + i as i64) % length * step;
        places.iter().enumerate().all(is).then_some(Self { offset, length, step })
    }

    fn at(self, s: &mut Cursor<'_>, counter: Value) -> Value {
        let moved = if self.offset == 0 { counter } else { s.with(BinOp::Add, counter, self.offset) };
        let place = s.with(BinOp::Rem, moved, self.length);
        if self.step == 1 { place } else { s.with(BinOp::Mul, place, self.step) }
    }
}
