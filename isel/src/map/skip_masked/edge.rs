//! When a comparison of indices has one result for a whole tile, as a sum of products of scalars.
//!
//! ```text
//!  column + t*BN <= row + i*BM     false everywhere:   BN t - BM i - (BM - 1) > 0     from some t on: the back of the loop
//!  column + t*BN > row + i*BM - w  false everywhere:   BM i - w - BN t - (BN - 1) >= 0     before some t: the front
//! ```

use super::spread::{self, Difference};
use crate::facts::is_never_negative;
use crate::map::elements::place;
use crate::map::loops::body;
use crate::map::terms::{Term, Terms};
use crate::tiles::constant;
use rustc_hash::FxHashSet;
use std::rc::Rc;
use warplift_ir::tile::{BinOp, Dim, Inst, Kernel, Op, ReduceOp, Type, UnOp, Value, ValueDef};

/// Which iterations of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The first ones.
    Front,
    /// The last ones.
    Back,
}

/// The sum that is greater than zero where a comparison has one result: products of scalars, extents, and a number.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub side: Side,
    /// The factors of the counter, and their coefficient, which is positive.
    pub step: (Vec<Value>, i64),
    pub products: Vec<(Vec<Value>, i64)>,
    pub extents: Vec<(Dim, i64)>,
    pub offset: i64,
    /// The most that places along dimensions add to a side of the comparison.
    pub reach: i64,
}

/// Iterations in which a comparison has one result: all of the sums are greater than zero.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub side: Side,
    pub edges: Vec<Edge>,
    /// Sums whose parts must not wrap around: those of all cases.
    pub narrow: Vec<Edge>,
}

/// A loop whose comparisons are asked.
pub(super) struct Asked<'k> {
    k: &'k Kernel,
    looped: Inst,
    terms: Terms<'k>,
    inside: FxHashSet<Inst>,
}

impl<'k> Asked<'k> {
    pub fn new(k: &'k Kernel, written: &'k FxHashSet<Value>, looped: Inst) -> Self {
        let inside = k.inside(body(k, looped)).into_iter().collect();
        let mut terms = Terms::new(k, written);
        // The body may compute its bounds again.
        k.args(looped)[..2].iter().for_each(|&bound| drop(terms.of(bound)));
        Self { k, looped, terms, inside }
    }

    fn counter(&self) -> Value {
        self.k.blocks[body(self.k, self.looped)].params[0]
    }

    /// Where a comparison of tiles has a result for all elements: in each of these cases, which may be of several sums.
    pub fn cases(&mut self, inst: Inst, truth: bool) -> Vec<Case> {
        let (low, step) = (self.k.args(self.looped)[0], self.k.args(self.looped)[2]);
        let upwards = self.k.int_const(step).is_some_and(|s| s > 0) || self.is_extent(step);
        if !upwards || !is_never_negative(self.k, low) {
            return Vec::new();
        }
        let spread = spread::cases(self.k, &mut self.terms, inst, truth);
        let cases: Option<Vec<Vec<Edge>>> =
            spread.iter().map(|all| all.iter().map(|s| self.sum(inst, s, &|_, c| c < 0)).collect()).collect();
        let within: Option<Vec<Edge>> =
            spread.iter().flatten().flat_map(|s| &s.within).map(|t| self.within(inst, t)).collect();
        let (Some(cases), Some(within)) = (cases, within) else { return Vec::new() };
        let narrow: Vec<Edge> = cases.iter().flatten().cloned().chain(within).collect();
        let one_side = |edges: &Vec<Edge>| edges.iter().all(|e| e.side == edges[0].side && !self.is_vain(e));
        let kept = cases.iter().filter(|edges| !edges.is_empty() && one_side(edges));
        kept.map(|edges| Case { side: edges[0].side, edges: edges.clone(), narrow: narrow.clone() }).collect()
    }

    /// Whether it certainly never holds: the loop ends where the mask does, or nothing in the sum is positive.
    fn is_vain(&self, edge: &Edge) -> bool {
        let k = self.k;
        let high = k.args(self.looped)[1];
        let count = k.def(high).filter(|&d| k.insts[d].op == Op::Binary(BinOp::CeilDiv));
        let of = |by: i64| count.map(|d| k.args(d)).filter(|args| k.int_const(args[1]) == Some(by));
        let end = if edge.step.1 == 1 { Some(high) } else { of(edge.step.1).map(|args| args[0]) };
        let is = |n: usize, v: Option<Value>, c: i64| {
            edge.products.get(n).is_some_and(|(f, d)| f.len() == 1 && Some(f[0]) == v && *d == c)
        };
        let plain = edge.step.0.is_empty() && edge.extents.is_empty();
        let (products, by) = (edge.products.len(), edge.step.1);
        match edge.side {
            Side::Back => plain && products == 1 && edge.offset <= 1 && is(0, end, -1),
            // `(cdiv(n, B) - 1 - t) * B` is below `n`.
            Side::Front if plain && products == 2 && edge.offset <= 1 - by => {
                [(0, 1), (1, 0)].iter().any(|&(a, b)| is(a, Some(high), by) && is(b, end, -1))
            }
            Side::Front => {
                let some = |(f, c): &(Vec<Value>, i64)| *c > 0 || !f.iter().all(|&v| is_never_negative(k, v));
                edge.offset <= 0 && !edge.products.iter().any(some) && edge.extents.iter().all(|e| e.1 < 0)
            }
        }
    }

    /// A sum that is a part of a comparison, of which only the size matters.
    fn within(&mut self, inst: Inst, sum: &Rc<Term>) -> Option<Edge> {
        let of = Difference { greater: sum.clone(), less: Term::int(0), strict: true, within: Vec::new() };
        self.parts(inst, &of, &|_, _| false)
    }

    /// The sum that says so, if it depends on the counter. `last`: whether the last place along a dimension is taken, by the
    /// coefficient of the place.
    fn sum(&mut self, inst: Inst, of: &Difference, last: &dyn Fn(usize, i64) -> bool) -> Option<Edge> {
        self.parts(inst, of, last).filter(|edge| edge.step.1 != 0)
    }

    /// The parts of a sum; `last` as of [`Self::sum`].
    fn parts(&mut self, inst: Inst, of: &Difference, last: &dyn Fn(usize, i64) -> bool) -> Option<Edge> {
        let k = self.k;
        let extents = k.ty(k.result(inst)).shape().map_or(Vec::new(), |s| s.dims().to_vec());
        let places: Vec<Rc<Term>> = (0..extents.len()).map(place).collect();
        if share_products(&of.greater, &of.less) {
            return None;
        }
        let sum = of.greater.plus(&of.less, -1).plus(&Term::int(i32::from(!of.strict)), 1);
        let counter = Rc::new(Term::Leaf(self.counter()));
        // Numbers of both sides may cancel each other, and make each of them wrap around.
        let number = |t: &Rc<Term>| t.products().get([].as_slice()).map_or(0, |&c| i64::from(c).abs());
        let mut edge = Edge {
            side: Side::Front,
            step: (Vec::new(), 0),
            products: Vec::new(),
            extents: Vec::new(),
            offset: 0,
            reach: number(&of.greater) + number(&of.less),
        };
        for (factors, c) in sum.products() {
            let c = i64::from(c);
            if !self.fits(&factors, c) {
                return None;
            }
            if let Some(d) = places.iter().position(|p| factors.contains(p)) {
                if factors.len() > 1 {
                    return None;
                }
                edge.reach += extents[d].constant().map_or(0, |n| c.abs() * i64::from(n));
                match extents[d].constant() {
                    _ if !last(d, c) => {}
                    Some(n) => edge.offset += c * (i64::from(n) - 1),
                    None => {
                        edge.extents.push((extents[d], c));
                        edge.offset -= c;
                    }
                }
            } else if factors.contains(&counter) {
                let others: Vec<Value> = self.values(factors.iter().filter(|&f| *f != counter))?;
                let once = others.len() + 1 == factors.len() && edge.step.1 == 0;
                if !once || !others.iter().all(|&v| self.is_extent(v)) {
                    return None;
                }
                edge.side = if c > 0 { Side::Back } else { Side::Front };
                edge.step = (others, c.abs());
            } else if factors.is_empty() {
                edge.offset += c;
            } else {
                edge.products.push((self.values(factors.iter())?, c));
            }
        }
        Some(edge)
    }

    /// Whether a product fits 64 bits, as far as it is of indices: of one size, and extents.
    fn fits(&self, factors: &[Rc<Term>], c: i64) -> bool {
        let is_extent = |f: &Rc<Term>| self.terms.value_among(f, |_| true).is_some_and(|v| self.is_extent(v));
        factors.iter().filter(|f| !is_extent(f)).count() <= 1 && c.abs() <= 1 << 20
    }

    /// Values before the loop that have these terms.
    fn values<'t>(&self, terms: impl Iterator<Item = &'t Rc<Term>>) -> Option<Vec<Value>> {
        let outside = |v: Value| match self.k.values[v].def {
            ValueDef::Result(inst, _) => !self.inside.contains(&inst),
            ValueDef::Param(block, _) => {
                !self.k.insts[self.looped].blocks.contains(&block)
                    && !self.inside.iter().any(|&i| self.k.insts[i].blocks.contains(&block))
            }
        };
        terms.map(|t| self.terms.value_among(t, outside)).collect()
    }

    fn is_extent(&self, v: Value) -> bool {
        self.k.def(v).is_some_and(|d| matches!(self.k.insts[d].op, Op::Dim(_)))
    }

    /// What says that each row has an element in the first iteration that no mask removes. The rows are those of the maxima
    /// that start at -inf.
    pub fn seen(&mut self) -> Option<Vec<Edge>> {
        let k = self.k;
        let own = body(k, self.looped);
        let mut all = Vec::new();
        for (n, &start) in k.args(self.looped)[3..].iter().enumerate() {
            if constant(k, start) != Some(f64::NEG_INFINITY) {
                continue;
            }
            let greatest = k.def(k.yields(own)[n])?;
            let (Op::Binary(BinOp::Max), &[a, b]) = (&k.insts[greatest].op, k.args(greatest)) else {
                return None;
            };
            let carried = k.blocks[own].params[1 + n];
            let reduce = k.def(if a == carried { b } else { a }).filter(|_| a == carried || b == carried)?;
            let Op::Reduce(ReduceOp::Max, dim) = k.insts[reduce].op else { return None };
            let mut conditions = Vec::new();
            self.conditions(k.args(reduce)[0], &mut conditions)?;
            all.extend(self.seen_by(&conditions, dim.into())?);
        }
        Some(all)
    }

    /// The conditions under which an element of a tile is not -inf.
    fn conditions(&self, v: Value, found: &mut Vec<(Value, bool)>) -> Option<()> {
        let k = self.k;
        let Some(def) = k.def(v).filter(|d| self.inside.contains(d)) else { return Some(()) };
        if !matches!(k.ty(v), Type::Tile(..)) {
            return Some(());
        }
        let args = k.args(def);
        let is_low = |v: Value| constant(k, v) == Some(f64::NEG_INFINITY);
        match k.insts[def].op {
            Op::Select if is_low(args[2]) => {
                found.push((args[0], true));
                self.conditions(args[1], found)
            }
            Op::Select if is_low(args[1]) => {
                found.push((args[0], false));
                self.conditions(args[2], found)
            }
            Op::Mma { .. } | Op::Load | Op::Full => Some(()),
            Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul)
            | Op::Fma
            | Op::Unary(UnOp::Tanh | UnOp::Neg) => args.iter().try_for_each(|&a| self.conditions(a, found)),
            Op::Cast | Op::Broadcast if k.ty(args[0]).elem().is_float() => self.conditions(args[0], found),
            Op::Cast | Op::Broadcast | Op::For => Some(()),
            _ => None,
        }
    }

    /// What says that all conditions hold in the first column, or in the last one, whatever the row.
    fn seen_by(&mut self, conditions: &[(Value, bool)], column: usize) -> Option<Vec<Edge>> {
        [false, true].into_iter().find_map(|end| {
            let mut all = Vec::new();
            let holds = conditions
                .iter()
                .try_for_each(|&(c, wanted)| self.holds_at(c, wanted, (column, end), &mut all));
            holds.map(|()| all)
        })
    }

    /// What says that a condition holds in the first or last column. The sums are those of the loop's start.
    fn holds_at(&mut self, v: Value, wanted: bool, at: (usize, bool), found: &mut Vec<Edge>) -> Option<()> {
        let k = self.k;
        let def = k.def(v)?;
        let args = k.args(def);
        match (&k.insts[def].op, wanted) {
            (Op::Binary(BinOp::And), true) | (Op::Binary(BinOp::Or), false) => {
                args.iter().try_for_each(|&a| self.holds_at(a, wanted, at, found))
            }
            (Op::Unary(UnOp::Not), _) => self.holds_at(args[0], !wanted, at, found),
            (Op::Compare(_), _) => {
                let (column, end) = at;
                let wrong = std::cell::Cell::new(false);
                let cases = spread::cases(k, &mut self.terms, def, wanted);
                let [[difference]] = &cases.iter().map(|c| &c[..]).collect::<Vec<_>>()[..] else {
                    return None;
                };
                let edge = self.sum(def, difference, &|d, c| {
                    wrong.set(wrong.get() || d == column && (c > 0) != end);
                    if d == column { end } else { c < 0 }
                });
                found.push(edge.filter(|_| !wrong.get())?);
                Some(())
            }
            _ => None,
        }
    }
}

/// Whether both sides of a comparison add the same: it is not in their difference, and may make each of them wrap around.
fn share_products(x: &Rc<Term>, y: &Rc<Term>) -> bool {
    let (x, y) = (x.products(), y.products());
    x.keys().any(|factors| !factors.is_empty() && y.contains_key(factors))
}
