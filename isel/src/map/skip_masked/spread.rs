//! What a comparison of indices says of sums, where its sides are extremes, magnitudes, or equal.
//!
//! ```text
//!  abs(row - column) <= w   is false   where   row - column > w,  or  column - row > w
//!  column < max(row - w, 0) is true    where   row - w > column,  or  0 > column
//!  column < min(row, last)  is true    where   row > column  and  last > column
//!  a == b                   is false   where   a > b,  or  b > a
//! ```

use crate::map::elements::{element, without};
use crate::map::mask_to_branch::ordered;
use crate::map::terms::{Term, Terms};
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
}

/// Cases, and the terms of each.
type Cases = Vec<Vec<Rc<Term>>>;

/// The cases in which a comparison has a result: in each, all of these hold. None if it is not known.
pub(super) fn cases(k: &Kernel, terms: &mut Terms<'_>, inst: Inst, truth: bool) -> Vec<Vec<Difference>> {
    let (Op::Compare(cmp), &[x, y]) = (&k.insts[inst].op, k.args(inst)) else { return Vec::new() };
    let dims: Vec<usize> = (0..k.ty(k.result(inst)).shape().map_or(0, |s| s.rank())).collect();
    let mut found = Vec::new();
    for (greater, less, strict) in orders(*cmp, [x, y], truth) {
        let mut side = |v, above| Spread { k, terms: &mut *terms }.of(v, &dims, above);
        let (Some(above), Some(below)) = (side(greater, true), side(less, false)) else { return Vec::new() };
        let all = above.iter().flat_map(|a| below.iter().map(move |b| (a, b)));
        found.extend(all.map(|(a, b)| {
            let pairs = a.iter().flat_map(|g| b.iter().map(move |l| (g.clone(), l.clone())));
            pairs.map(|(greater, less)| Difference { greater, less, strict }).collect()
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
}

impl Spread<'_, '_> {
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
                both(&a, &b, |a, b| a.iter().flat_map(|x| b.iter().map(|y| x.plus(y, times))).collect())
            }
            _ => return None,
        };
        (cases.len() <= MOST && cases.iter().all(|c| c.len() <= MOST)).then_some(cases)
    }
}

/// Cases of two parts.
fn both(a: &Cases, b: &Cases, join: impl Fn(&[Rc<Term>], &[Rc<Term>]) -> Vec<Rc<Term>>) -> Cases {
    a.iter().flat_map(|a| b.iter().map(|b| join(a, b))).collect()
}
