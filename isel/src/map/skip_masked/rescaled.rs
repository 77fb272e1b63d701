//! Loops that carry maxima and sums which every iteration scales by how much its maximum has grown: what an iteration adds counts
//! in the end by the last maximum, whatever the maxima before were.
//!
//! ```text
//!  l = l0 * 2^(K m0 - K m1) + sum of powers       acc = acc0 * 2^(K m0 - K m1) + powers x values
//!
//!  an element of the level N counts 2^(K N - K m) behind the loop, also one of the first iterations, when m0 was N
//! ```
//!
//! So iterations in front, of which a mask's number is all that is left, may go where the last maxima are far above it.

use super::iteration::{Atom, Iteration};
use super::known::{Known, Sum};
use super::level::{Far, Level};
use crate::tiles::depends;
use rustc_hash::FxHashSet;
use warplift_ir::tile::UnOp::{Exp, Exp2};
use warplift_ir::tile::{Inst, Op, ReduceOp, Value};

impl Iteration<'_> {
    /// Whether all that the loop carries are maxima and sums that are scaled so, with the factor of the exponents by which
    /// masks are far.
    pub fn rescales(mut self, far: &[Far]) -> bool {
        let params = self.k.blocks[self.body].params[1..].to_vec();
        self.run_from(None);
        let yields = self.k.yields(self.body).to_vec();
        params.into_iter().zip(yields).all(|(param, next)| {
            self.is_maximum(param)
                || self.scaled(param, next).is_some_and(|factor| far.iter().all(|f| f.has(&factor)))
        })
    }

    /// The factor K of a value that is a parameter times the power of a maximum's growth, and sums.
    fn scaled(&mut self, param: Value, next: Value) -> Option<Level> {
        let Known::Finite(sum) = self.of(next) else { return None };
        let (old, new) = sum.parted(|a| self.is_of(a, param));
        let factor = match old.product()? {
            (&[a, b], 1.0) => self.growth(if self.is_of(a, param) { b } else { a })?,
            _ => return None,
        };
        new.products().all(|(atoms, _)| matches!(atoms, &[a] if self.is_summed(a))).then_some(factor)
    }

    fn is_of(&self, atom: usize, v: Value) -> bool {
        matches!(self.atoms[atom], Atom::Value(w) if w == v)
    }

    /// The factor of an atom that is two to the power of it times a maximum before the iteration less the one behind it.
    fn growth(&self, atom: usize) -> Option<Level> {
        match &self.atoms[atom] {
            Atom::Shaped(of, _) => self.growth(*of),
            Atom::Power(exponent) => self.difference(exponent),
            _ => None,
        }
    }

    fn difference(&self, exponent: &Sum) -> Option<Level> {
        let (before, behind) = exponent.parted(|a| self.carried(a).is_some());
        let (maximum, factor) = self.maximum(&before, 1.0)?;
        let (atoms, c) = behind.product()?;
        let n = self.k.blocks[self.body].params[1..].iter().position(|&p| p == maximum)?;
        let grown = self.k.yields(self.body)[n];
        let (new, others): (Vec<usize>, Vec<usize>) =
            atoms.iter().partition(|&&a| self.root(a) == Some(grown));
        let other = Level { number: -c, scalars: self.scalars(&others)? };
        (new.len() == 1 && factor.is(&other)).then_some(factor)
    }

    /// The value that an atom repeats.
    fn root(&self, atom: usize) -> Option<Value> {
        match self.atoms[atom] {
            Atom::Shaped(of, _) => self.root(of),
            Atom::Value(v) => Some(v),
            _ => None,
        }
    }

    /// Whether an atom is a sum of powers, or a product of them.
    fn is_summed(&self, atom: usize) -> bool {
        let Some(def) = self.root(atom).and_then(|v| self.k.def(v)) else { return false };
        let args = self.k.args(def);
        match self.k.insts[def].op {
            Op::Reduce(ReduceOp::Sum, _) => self.is_power(args[0]),
            Op::Mma { .. } => self.is_power(args[1]) || self.is_power(args[2]),
            _ => false,
        }
    }

    /// Whether a value is a power relative to a maximum of this iteration, in another type or order. Any other one may be large
    /// enough to count behind the loop.
    fn is_power(&self, v: Value) -> bool {
        let Some(def) = self.k.def(v) else { return false };
        let op = &self.k.insts[def].op;
        let moves = matches!(op, Op::Cast | Op::Trans(_) | Op::Reshape | Op::Rearrange);
        let of = self.k.args(def)[0];
        matches!(op, Op::Unary(Exp | Exp2)) && self.holds_a_maximum(of) || moves && self.is_power(of)
    }

    /// Whether a value follows from a maximum as this iteration leaves it.
    fn holds_a_maximum(&self, v: Value) -> bool {
        let inside: FxHashSet<Inst> = self.k.blocks[self.body].insts.iter().copied().collect();
        let params = self.k.blocks[self.body].params[1..].iter().zip(self.k.yields(self.body));
        let mut maxima = params.filter(|&(&param, _)| self.is_maximum(param));
        maxima.any(|(_, &next)| depends(self.k, v, next, |d| inside.contains(&d)))
    }
}
