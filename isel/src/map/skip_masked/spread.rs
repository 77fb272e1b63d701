//! What a comparison of indices says of sums, where its sides are extremes, magnitudes, or equal.
//!
//! ```text
//!  abs(row - column) <= w   is false   where   row - column > w,  or  column - row > w
//!  column < max(row - w, 0) is true    where   row - w > column,  or  0 > column
//!  column < min(row, last)  is true    where   row > column  and  last > column
//!  a == b                   is false   where   a > b,  or  b > a
//!  row / c > column / c     is true    where   row - (c - 1) > column
//! ```

use crate::facts::is_never_negative;
use crate::map::elements::{element, place, without};
use crate::map::mask_to_branch::ordered;
use crate::map::terms::{Term, Terms};
use crate::tiles::constant;
use std::rc::Rc;
use warplift_ir::tile::{BinOp, CmpOp, Inst, Kernel, Op, UnOp, Value};

/// The most cases of a side, and the most sums of a case.
const MOST: usize = 4;

/// A sum that must be greater than another one, or equal where it is not strict.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub greater: Rc<Term>,
    pub less: Rc<Term>,
    pub strict: bool,
    /// Sums that extremes and magnitudes compare before more is added: what then cancels may make one of them wrap around.
    pub within: Vec<Rc<Term>>,
}

/// Cases, and the terms of each.
type Cases = Vec<Vec<Rc<Term>>>;

/// The cases in which a comparison has a result: in each, all of these hold. None if it is not known.
pub(super) fn cases(k: &Kernel, terms: &mut Terms<'_>, inst: Inst, truth: bool) -> Vec<Vec<Difference>> {
    let (Op::Compare(cmp), &[x, y]) = (&k.insts[inst].op, k.args(inst)) else { return Vec::new() };
    let dims: Vec<usize> = (0..k.ty(k.result(inst)).shape().map_or(0, |s| s.rank())).collect();
    let mut found = Vec::new();
    for (greater, less, strict) in orders(*cmp, [x, y], truth) {
        let mut spread = Spread { k, terms: &mut *terms, within: Vec::new() };
        if let Some(difference) = spread.quotients([greater, less], &dims, strict) {
            found.push(vec![difference]);
            continue;
        }
        let sides = (spread.of(greater, &dims, true), spread.of(less, &dims, false));
        let within = spread.within;
        let (Some(above), Some(below)) = sides else { return Vec::new() };
        let all = above.iter().flat_map(|a| below.iter().map(move |b| (a, b)));
        found.extend(all.map(|(a, b)| {
            let pairs = a.iter().flat_map(|g| b.iter().map(move |l| (g.clone(), l.clone())));
            pairs
                .map(|(greater, less)| Difference { greater, less, strict, within: within.clone() })
                .collect()
        }));
    }
    found
}

/// The orders of two sides of which one means the result.
fn orders(cmp: CmpOp, [x, y]: [Value; 2], truth: bool) -> Vec<(Value, Value, bool)> {
    match (cmp, truth) {
        (CmpOp::Eq, false) | (CmpOp::Ne, true) => vec![(x, y, true), (y, x, true)],
        _ => ordered(cmp, [x, y], truth).into_iter().collect(),
    }
}

struct Spread<'a, 'k> {
    k: &'a Kernel,
    terms: &'a mut Terms<'k>,
    /// See [`Difference::within`].
    within: Vec<Rc<Term>>,
}

impl Spread<'_, '_> {
    /// What makes a quotient greater than another one by the same number. Those of negative numbers are rounded up, and none
    /// are known.
    fn quotients(&mut self, [greater, less]: [Value; 2], dims: &[usize], strict: bool) -> Option<Difference> {
        let k = self.k;
        let (x, y) = (quotient(k, greater, dims)?, quotient(k, less, dims)?);
        if (x.by, x.down) != (y.by, y.down) {
            return None;
        }
        let [a, b] = [&x, &y].map(|q| element(k, self.terms, q.of, &q.dims));
        let (a, b) = (a?, b?);
        let known = x.down || [&a, &b].iter().all(|t| self.is_never_negative(t, dims));
        let more = if strict { x.by - 1 } else { 0 };
        known.then(|| Difference {
            greater: a.plus(&Term::int(more), -1),
            less: b,
            strict,
            within: Vec::new(),
        })
    }

    /// Whether a sum is of places and of other numbers that are never negative.
    fn is_never_negative(&self, term: &Rc<Term>, dims: &[usize]) -> bool {
        let natural = |f: &Rc<Term>| {
            let value = || self.terms.value_among(f, |_| true);
            dims.iter().any(|&d| place(d) == *f) || value().is_some_and(|v| is_never_negative(self.k, v))
        };
        term.products().iter().all(|(factors, &c)| c > 0 && factors.iter().all(natural))
    }

    /// The cases of an element of a tile; `above`: of what it must be greater than, not less.
    fn of(&mut self, v: Value, dims: &[usize], above: bool) -> Option<Cases> {
        let k = self.k;
        if let Some(term) = element(k, self.terms, v, dims) {
            return Some(vec![vec![term]]);
        }
        let def = k.def(v).filter(|_| k.ty(v).shape().is_some_and(|s| s.rank() == dims.len()))?;
        let args = k.args(def);
        let cases = match k.insts[def].op {
            Op::Broadcast => self.of(args[0], dims, above)?,
            Op::ExpandDims(d) => self.of(args[0], &without(dims, d.into()), above)?,
            Op::Unary(UnOp::Abs) => {
                let x = element(k, self.terms, args[0], dims)?;
                let turned = Term::int(0).plus(&x, -1);
                if above { vec![vec![x], vec![turned]] } else { vec![vec![x, turned]] }
            }
            Op::Binary(op @ (BinOp::Max | BinOp::Min)) => {
                let [a, b] = [self.of(args[0], dims, above)?, self.of(args[1], dims, above)?];
                match (op == BinOp::Max) == above {
                    true => [a, b].concat(),
                    false => both(&a, &b, |a, b| [a, b].concat()),
                }
            }
            Op::Binary(op @ (BinOp::Add | BinOp::Sub)) => {
                let times = if op == BinOp::Add { 1 } else { -1 };
                let a = self.of(args[0], dims, above)?;
                let b = self.of(args[1], dims, above == (times > 0))?;
                self.within.extend(a.iter().chain(&b).flatten().cloned());
                both(&a, &b, |a, b| a.iter().flat_map(|x| b.iter().map(|y| x.plus(y, times))).collect())
            }
            _ => return None,
        };
        (cases.len() <= MOST && cases.iter().all(|c| c.len() <= MOST)).then_some(cases)
    }
}

/// A quotient by a number, rounded down or toward zero.
struct Quotient {
    of: Value,
    dims: Vec<usize>,
    by: i32,
    down: bool,
}

/// The quotient that a tile repeats.
fn quotient(k: &Kernel, v: Value, dims: &[usize]) -> Option<Quotient> {
    let def = k.def(v)?;
    let args = k.args(def);
    let number = || constant(k, args[1]).map(|c| c as i32);
    let (by, down) = match k.insts[def].op {
        Op::Broadcast => return quotient(k, args[0], dims),
        Op::ExpandDims(d) => return quotient(k, args[0], &without(dims, d.into())),
        Op::Binary(BinOp::Div) => (number()?, false),
        Op::Binary(BinOp::Shr) => (1 << number().filter(|s| (0..31).contains(s))?, true),
        _ => return None,
    };
    (by > 0).then(|| Quotient { of: args[0], dims: dims.to_vec(), by, down })
}

/// Cases of two parts.
fn both(a: &Cases, b: &Cases, join: impl Fn(&[Rc<Term>], &[Rc<Term>]) -> Vec<Rc<Term>>) -> Cases {
    a.iter().flat_map(|a| b.iter().map(|b| join(a, b))).collect()
}
