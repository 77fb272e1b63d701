//! Masks of a large negative number: they leave nothing where each row has a maximum far above the number, so that its powers
//! are zero. Only the loop itself finds the maxima. So it runs without the last iterations, and the first ones (`rescaled`), that
//! the mask leaves nothing of. Behind it, where some maximum is too near to the number, the whole loop runs again as it is
//! written.
//!
//! ```text
//!  for t in 0..n carry m0, l0 {            m, l = for t in 0..min(n, cdiv(i*BM + BM, BN)) ..
//!      s = select(seen, x, -1e9)     ─►    m, l = if unlikely(!(m * c - -1e9 * c > 160)) { for t in 0..n .. } else { m, l }
//!      p = exp2((s - m1) * c)
//! ```
//!
//! A power of less than -150 is zero in f32. A difference of two numbers is taken only where the greater one is above half of the
//! mask's number: there what it is rounded by is a small part of the difference.

use super::Skip;
use super::bounds::shorten;
use super::iteration::{Atom, Iteration};
use super::known::{Known, Sum};
use super::level::{Far, Level};
use crate::map::cursor::Cursor;
use crate::map::loops::{body, copy};
use rustc_hash::FxHashMap;
use warplift_ir::tile::{BinOp, CmpOp, Inst, Kernel, Op, ReduceOp, Shape, Type, UnOp, Value, ValueDef};
use warplift_ir::types::Elem;

/// The greatest number that is taken for a mask's.
const GREATEST: f64 = -1.0e3;
/// Powers of two of less are zero in f32, also where the exponent is rounded.
const ZERO: f64 = 160.0;
/// The part of the mask's number above which a maximum must be.
const PART: f64 = 0.5;
const TRUTH: Type = Type::Scalar(Elem::Bool);

impl Iteration<'_> {
    /// Takes large negative numbers for masks that maxima are far above.
    pub fn with_far_masks(mut self) -> Self {
        self.far = Some(Vec::new());
        self
    }

    /// What must hold of maxima for what the iteration told.
    pub fn take_far(&mut self) -> Vec<Far> {
        self.far.take().unwrap_or_default()
    }

    /// Whether a number may be a mask's.
    pub fn is_mask(&self, c: f64) -> bool {
        self.far.is_some() && c.is_finite() && c <= GREATEST
    }

    /// Whether each element of a value is a mask's number, times scalars.
    pub fn is_level(&self, x: &Known) -> bool {
        matches!(x, Known::Finite(sum) if self.level(sum).is_some())
    }

    /// Whether the first of two values is a maximum that the loop carries, and the second the level of a mask. The maximum must be
    /// greater then.
    pub fn is_above(&mut self, x: &Sum, y: &Sum) -> bool {
        let (Some((maximum, plain)), Some(mask)) = (self.maximum(x, 1.0), self.level(y)) else {
            return false;
        };
        let plain = plain.number == 1.0 && plain.scalars.is_empty();
        plain && self.requires(Far { mask, maximum, factor: None })
    }

    /// Whether an exponent is the difference of a mask's level and a maximum that the loop carries: the power is zero where they
    /// are far from each other.
    pub fn is_far(&mut self, exponent: &Sum) -> bool {
        let (of_mask, rest) = exponent.parted(|a| matches!(self.atoms[a], Atom::Mask(_)));
        let (Some(mask), Some((maximum, factor))) = (self.level(&of_mask), self.maximum(&rest, -1.0)) else {
            return false;
        };
        self.must_be_positive(&factor.scalars);
        factor.number > 0.0 && self.requires(Far { mask, maximum, factor: Some(factor) })
    }

    fn requires(&mut self, far: Far) -> bool {
        let Some(all) = &mut self.far else { return false };
        if !all.contains(&far) {
            all.push(far);
        }
        true
    }

    /// The level of a mask that a sum is.
    fn level(&self, sum: &Sum) -> Option<Level> {
        let (atoms, c) = sum.product()?;
        let (masks, others): (Vec<usize>, Vec<usize>) =
            atoms.iter().partition(|&&a| matches!(self.atoms[a], Atom::Mask(_)));
        let [Atom::Mask(number)] = masks.iter().map(|&a| &self.atoms[a]).collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Level { number: c * number, scalars: self.scalars(&others)? })
    }

    /// The maximum that a sum is, times a sign, and its factor.
    pub fn maximum(&self, sum: &Sum, sign: f64) -> Option<(Value, Level)> {
        let (atoms, c) = sum.product()?;
        let (carried, others): (Vec<usize>, Vec<usize>) =
            atoms.iter().partition(|&&a| self.carried(a).is_some());
        let [one] = carried[..] else { return None };
        Some((self.carried(one)?, Level { number: c * sign, scalars: self.scalars(&others)? }))
    }

    /// The tile of maxima that an atom repeats: a loop's parameter that only grows.
    pub fn carried(&self, atom: usize) -> Option<Value> {
        match self.atoms[atom] {
            Atom::Shaped(of, _) => self.carried(of),
            Atom::Value(v) => Some(v).filter(|&v| self.is_maximum(v)),
            _ => None,
        }
    }

    pub fn is_maximum(&self, v: Value) -> bool {
        let ValueDef::Param(block, n) = self.k.values[v].def else { return false };
        let tile = matches!(self.k.ty(v), Type::Tile(Elem::F32, _));
        let yielded = || (n as usize).checked_sub(1).and_then(|n| self.k.yields(block).get(n).copied());
        block == self.body && tile && yielded().is_some_and(|y| grows(self.k, v, y))
    }
}

/// Whether a value is the greatest of others, of which `v` is one.
fn grows(k: &Kernel, v: Value, value: Value) -> bool {
    let greatest = k.def(value).filter(|&d| matches!(k.insts[d].op, Op::Binary(BinOp::Max)));
    greatest.is_some_and(|d| k.args(d).iter().any(|&a| a == v || grows(k, v, a)))
}

/// Shortens a loop where maxima turn out to be far above the numbers of its masks.
pub(super) fn shorten_if_far(k: &mut Kernel, looped: Inst, skips: &[Skip]) {
    // What is made from here on takes the loop's own results.
    let before: Vec<Inst> = k.insts.keys().collect();
    let results = k.results(looped).to_vec();
    let types: Vec<Type> = results.iter().map(|&r| k.ty(r)).collect();
    let [again, once] = [(); 2].map(|()| k.blocks.push(Default::default()));
    let mut known = FxHashMap::default();
    copy(k, &[looped], again, &mut known);
    let repeated: Vec<Value> = results.iter().map(|r| known[r]).collect();
    skips.iter().for_each(|skip| shorten(k, looped, skip));
    let mut far: Vec<Far> = Vec::new();
    far.extend(skips.iter().flat_map(|s| &s.far).cloned());
    let chosen = Cursor::behind(k, looped, |c| {
        c.loc = c.k.insts[looped].loc;
        let near = is_near(c, looped, &far);
        for (block, values) in [(again, &repeated), (once, &results)] {
            c.k.append_inst(block, Op::Yield, values, &[], &[], c.loc);
        }
        c.k.append_inst(c.block, Op::If, &[near], &types, &[again, once], c.loc)
    });
    let renamed: FxHashMap<Value, Value> = results.into_iter().zip(k.results(chosen).to_vec()).collect();
    for inst in before {
        let args: Vec<Value> = k.args(inst).iter().map(|a| *renamed.get(a).unwrap_or(a)).collect();
        k.set_args(inst, &args);
    }
}

/// Whether some maximum is not far enough above a mask's number.
fn is_near(c: &mut Cursor<'_>, looped: Inst, far: &[Far]) -> Value {
    let mut least: FxHashMap<Value, Value> = FxHashMap::default();
    for f in far {
        least.entry(f.maximum).or_insert_with(|| least_of(c, looped, f.maximum));
    }
    let all: Vec<Value> = far.iter().map(|f| is_far(c, least[&f.maximum], f)).collect();
    let far = all.into_iter().reduce(|a, b| c.inst(Op::Binary(BinOp::And), &[a, b], TRUTH));
    let far = far.unwrap_or_else(|| c.inst(Op::Int(0), &[], TRUTH));
    let near = c.inst(Op::Unary(UnOp::Not), &[far], TRUTH);
    c.inst(Op::Unary(UnOp::Unlikely), &[near], TRUTH)
}

/// The least of a loop's maxima.
fn least_of(c: &mut Cursor<'_>, looped: Inst, maximum: Value) -> Value {
    let own = body(c.k, looped);
    let n = c.k.blocks[own].params.iter().position(|&p| p == maximum).unwrap_or(1);
    let mut least = c.k.results(looped)[n - 1];
    while let Some(shape) = c.k.ty(least).shape() {
        let rest = Shape::new(&shape.dims()[1..]).filter(|s| s.rank() > 0);
        let ty = rest.map_or(Type::Scalar(Elem::F32), |s| Type::Tile(Elem::F32, s));
        least = c.inst(Op::Reduce(ReduceOp::Min, 0), &[least], ty);
    }
    least
}

/// Whether the least of some maxima is as it must be.
fn is_far(c: &mut Cursor<'_>, least: Value, far: &Far) -> Value {
    let mask = level(c, &far.mask);
    let Some(factor) = &far.factor else { return c.compare(CmpOp::Gt, least, mask) };
    let factor = level(c, factor);
    let greater = c.op(BinOp::Mul, least, factor);
    let difference = c.op(BinOp::Sub, greater, mask);
    let [zero, part] = [ZERO, PART].map(|x| c.float(Elem::F32, x));
    let half = c.op(BinOp::Mul, mask, part);
    let (wide, above) = (c.compare(CmpOp::Gt, difference, zero), c.compare(CmpOp::Gt, greater, half));
    c.inst(Op::Binary(BinOp::And), &[wide, above], TRUTH)
}

fn level(c: &mut Cursor<'_>, level: &Level) -> Value {
    let number = c.float(Elem::F32, level.number);
    level.scalars.iter().fold(number, |product, &v| c.op(BinOp::Mul, product, v))
}
