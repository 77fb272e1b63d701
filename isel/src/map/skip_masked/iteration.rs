//! An iteration of a loop under the assumption that comparisons of its masks have one result for the whole tile. It runs on
//! what is known of values, and tells whether all carried values stay as they are.
//!
//! ```text
//!  column + t*BN <= row is false     masked = -inf     m1 = max(m0, -inf) = m0     p = exp2(-inf - m1) = 0
//!                                    alpha = exp2(m0 - m1) = 1     l1 = l0 * alpha + sum(p) = l0
//! ```
//!
//! What the iteration loads and multiplies is taken to be finite, see "Masks" in the language.

use super::known::{Known, Sum};
use super::least::is_at_least;
use super::level::Far;
use crate::tiles::constant;
use rustc_hash::FxHashMap;
use std::f64::consts::{LN_2, LOG2_E};
use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Op, ReduceOp, Type, UnOp, Value, ValueDef};
use warplift_ir::types::Elem;

/// How deep definitions before the loop are followed.
const DEPTH: u32 = 32;

/// What an atom of a sum is.
pub(super) enum Atom {
    /// Each element of a value.
    Value(Value),
    /// Another atom, repeated or turned by an operation of this text.
    Shaped(usize, String),
    /// Two to the power of a sum.
    Power(Sum),
    /// A large negative number of a mask, which is taken to be far below the maxima.
    Mask(f64),
}

/// An iteration.
pub(super) struct Iteration<'k> {
    pub k: &'k Kernel,
    pub body: Block,
    pub atoms: Vec<Atom>,
    known: FxHashMap<Value, Known>,
    /// Rows may be in either of two states: reductions must give the same in both.
    other: Option<FxHashMap<Value, Known>>,
    /// Scalars before the loop that must be greater than zero.
    pub positive: Vec<Value>,
    /// What must hold of maxima, if large negative numbers are masks.
    pub far: Option<Vec<Far>>,
    depth: u32,
}

impl<'k> Iteration<'k> {
    /// An iteration in which these comparisons have these results.
    pub fn new(k: &'k Kernel, body: Block, held: &[(Value, bool)]) -> Self {
        let known = held.iter().map(|&(v, truth)| (v, Known::Truth(truth))).collect();
        Self { k, body, atoms: Vec::new(), known, other: None, positive: Vec::new(), far: None, depth: 0 }
    }

    /// Requires reductions to give what they give in another state.
    pub fn beside(mut self, other: Self) -> Self {
        self.positive = other.positive;
        self.other = Some(other.known);
        self
    }

    /// Whether it leaves its carried values as they are: finite, or where the loop starts them.
    pub fn changes_nothing(&mut self, starts: Option<&[Value]>) -> bool {
        let params = self.k.blocks[self.body].params[1..].to_vec();
        self.run_from(starts);
        let yields = self.k.yields(self.body).to_vec();
        params.iter().zip(yields).all(|(p, y)| self.of(*p).equals(&self.of(y)))
    }

    /// Runs it on carried values that are finite, or where the loop starts them.
    pub fn run_from(&mut self, starts: Option<&[Value]>) {
        for (n, param) in self.k.blocks[self.body].params[1..].iter().copied().enumerate() {
            let start = starts.map_or(Known::Nothing, |s| self.of(s[n]));
            let state = if matches!(start, Known::Nothing) { self.fresh(param) } else { start };
            self.known.insert(param, state);
        }
        self.run(self.body);
    }

    /// Scalars that must be greater than zero for it.
    pub fn into_positive(self) -> Vec<Value> {
        self.positive
    }

    fn run(&mut self, block: Block) {
        for &inst in &self.k.blocks[block].insts {
            self.step(inst);
        }
    }

    /// Finds the results of an instruction.
    fn step(&mut self, inst: Inst) {
        if let Op::If = self.k.insts[inst].op {
            return self.branch(inst);
        }
        for &result in self.k.results(inst) {
            if !self.known.contains_key(&result) {
                let found = self.result(inst, result);
                self.known.insert(result, found);
            }
        }
    }

    fn branch(&mut self, inst: Inst) {
        let sides = self.k.insts[inst].blocks.clone();
        sides.iter().for_each(|&side| self.run(side));
        let condition = self.of(self.k.args(inst)[0]);
        for (n, &result) in self.k.results(inst).iter().enumerate() {
            let [yes, no] = [0, 1].map(|s| self.of(self.k.yields(sides[s])[n]));
            let one = self.choice(&condition, yes, no, result);
            self.known.insert(result, one);
        }
    }

    /// What is known of a value.
    pub fn of(&mut self, v: Value) -> Known {
        if let Some(known) = self.known.get(&v) {
            return known.clone();
        }
        let found = match (constant(self.k, v), self.k.values[v].def) {
            (Some(c), _) if self.k.ty(v).elem().is_float() => self.number(c),
            (_, ValueDef::Result(inst, 0)) if self.depth < DEPTH && self.is_elementwise(inst) => {
                self.depth += 1;
                let found = self.result(inst, v);
                self.depth -= 1;
                found
            }
            _ => self.fresh(v),
        };
        self.known.insert(v, found.clone());
        found
    }

    /// A number of the text.
    fn number(&mut self, c: f64) -> Known {
        match c {
            f64::NEG_INFINITY => Known::Infinite(true),
            _ if self.is_mask(c) => {
                Known::Finite(self.atom(|a| matches!(a, Atom::Mask(n) if *n == c), Atom::Mask(c)))
            }
            _ => Known::number(c),
        }
    }

    fn is_elementwise(&self, inst: Inst) -> bool {
        matches!(
            self.k.insts[inst].op,
            Op::Unary(_) | Op::Binary(_) | Op::Fma | Op::Cast | Op::Full | Op::Broadcast | Op::ExpandDims(_)
        )
    }

    /// A value that is finite and otherwise unknown.
    fn fresh(&mut self, v: Value) -> Known {
        let ty = self.k.ty(v);
        match ty {
            Type::Scalar(e) | Type::Tile(e, _) if e.is_float() => {
                Known::Finite(self.atom(|a| matches!(a, Atom::Value(w) if *w == v), Atom::Value(v)))
            }
            _ => Known::Nothing,
        }
    }

    fn atom(&mut self, is: impl Fn(&Atom) -> bool, new: Atom) -> Sum {
        let at = self.atoms.iter().position(is).unwrap_or_else(|| {
            self.atoms.push(new);
            self.atoms.len() - 1
        });
        Sum::atom(at)
    }

    fn result(&mut self, inst: Inst, result: Value) -> Known {
        let k = self.k;
        let args: Vec<Known> = match k.insts[inst].op {
            Op::For | Op::While | Op::Load | Op::LoadGather { .. } | Op::Gather(_) => Vec::new(),
            _ => k.args(inst).iter().map(|&a| self.of(a)).collect(),
        };
        match (&k.insts[inst].op, &args[..]) {
            (Op::Float(c), _) => self.number(*c),
            (Op::Full, [x]) => x.clone(),
            (Op::Unary(UnOp::Likely | UnOp::Unlikely), [x]) => x.clone(),
            (Op::Unary(op), [x]) => self.unary(*op, x, result),
            (Op::Binary(op), [x, y]) => self.binary(*op, x, y, result),
            (Op::Fma, [x, y, z]) => self.product(x, y, result).plus(z, 1.0),
            (Op::Compare(cmp), [x, y]) => compared(*cmp, x, y),
            (Op::Select, [c, x, y]) => self.choice(c, x.clone(), y.clone(), result),
            (Op::Cast, [x]) => self.cast(x, k.args(inst)[0], result),
            (Op::Mma { .. }, [x, a, b]) if a.is_zero() || b.is_zero() => x.clone(),
            (Op::Mma { .. }, [x, Known::Finite(_), Known::Finite(_)]) if self.far.is_some() => {
                x.plus(&self.fresh(result), 1.0)
            }
            (Op::Reduce(op, _), [x]) => self.reduced(*op, x, k.args(inst)[0], result),
            (op @ (Op::Broadcast | Op::Reshape | Op::Trans(_) | Op::ExpandDims(_)), [x]) => {
                self.shaped(x, format!("{op:?} {:?}", k.ty(result)), k.args(inst)[0])
            }
            (Op::Rearrange, [x]) => x.clone(),
            (_, args) if args.iter().any(|a| matches!(a, Known::Infinite(_) | Known::Nothing)) => {
                self.unknown(&args.iter().collect::<Vec<_>>(), inst, result)
            }
            _ => self.fresh(result),
        }
    }

    /// A result of operands of which some may not be finite: integers may be anything.
    fn unknown(&mut self, args: &[&Known], inst: Inst, result: Value) -> Known {
        let float = |(v, a): (&Value, &&Known)| {
            self.k.ty(*v).elem().is_float() && matches!(a, Known::Infinite(_) | Known::Nothing)
        };
        let odd = self.k.args(inst).iter().zip(args).any(float);
        if odd { Known::Nothing } else { self.fresh(result) }
    }

    fn unary(&mut self, op: UnOp, x: &Known, result: Value) -> Known {
        let sum = match (op, x) {
            (UnOp::Not, Known::Truth(t)) => return Known::Truth(!t),
            (UnOp::Neg, Known::Infinite(negative)) => return Known::Infinite(!negative),
            (UnOp::Exp | UnOp::Exp2, Known::Infinite(true)) => return Known::number(0.0),
            (_, Known::Finite(sum)) => sum,
            _ => return Known::Nothing,
        };
        match op {
            UnOp::Neg => Known::Finite(Sum::default().plus(sum, -1.0)),
            UnOp::Exp2 => self.power(sum.clone()),
            UnOp::Exp => self.power(Sum::default().plus(sum, LOG2_E)),
            UnOp::Log2 => self.logarithm(sum, 1.0, result),
            UnOp::Log => self.logarithm(sum, LN_2, result),
            UnOp::Rcp | UnOp::Rsqrt if sum.is_zero() => Known::Nothing,
            UnOp::Rcp if sum.as_number().is_some() => Known::number(1.0 / sum.as_number().unwrap_or(1.0)),
            _ => self.fresh(result),
        }
    }

    fn power(&mut self, of: Sum) -> Known {
        match of.as_number() {
            None if self.is_far(&of) => Known::number(0.0),
            Some(c) => Known::number(c.exp2()),
            None => {
                let same = |a: &Atom| matches!(a, Atom::Power(p) if p.plus(&of, -1.0).is_zero());
                Known::Finite(self.atom(same, Atom::Power(of.clone())))
            }
        }
    }

    /// The logarithm to the base two, times a number.
    fn logarithm(&mut self, of: &Sum, times: f64, result: Value) -> Known {
        if let Some(c) = of.as_number() {
            return if c > 0.0 { Known::number(c.log2() * times) } else { Known::Nothing };
        }
        let power = of.product().filter(|&(atoms, c)| atoms.len() == 1 && c == 1.0);
        match power.map(|(atoms, _)| &self.atoms[atoms[0]]) {
            Some(Atom::Power(p)) => Known::Finite(Sum::default().plus(p, times)),
            _ => self.fresh(result),
        }
    }

    fn binary(&mut self, op: BinOp, x: &Known, y: &Known, result: Value) -> Known {
        match (op, x, y) {
            (BinOp::Add, ..) => x.plus(y, 1.0),
            (BinOp::Sub, ..) => x.plus(y, -1.0),
            (BinOp::Mul, ..) => self.product(x, y, result),
            (BinOp::Div, Known::Infinite(_), Known::Finite(by)) => match by.as_number() {
                Some(c) if c != 0.0 => self.product(x, &Known::number(1.0 / c), result),
                _ => self.signed(x, by),
            },
            (BinOp::Div, Known::Finite(_), Known::Finite(by)) if by.is_zero() => Known::Nothing,
            (BinOp::Div, Known::Finite(x), Known::Finite(by)) => match (by.as_number(), x.divided(by)) {
                (Some(c), _) => Known::Finite(Sum::default().plus(x, 1.0 / c)),
                (_, Some(rest)) => Known::Finite(rest),
                _ => self.fresh(result),
            },
            (BinOp::And, Known::Truth(false), _) | (BinOp::And, _, Known::Truth(false)) => {
                Known::Truth(false)
            }
            (BinOp::Or, Known::Truth(true), _) | (BinOp::Or, _, Known::Truth(true)) => Known::Truth(true),
            (BinOp::And, Known::Truth(true), other) | (BinOp::And, other, Known::Truth(true)) => {
                other.clone()
            }
            (BinOp::Or, Known::Truth(false), other) | (BinOp::Or, other, Known::Truth(false)) => {
                other.clone()
            }
            (BinOp::Max | BinOp::Min, ..) => self.extreme(op == BinOp::Max, x, y, result),
            (_, Known::Finite(_), Known::Finite(_)) => self.fresh(result),
            _ => Known::Nothing,
        }
    }

    fn extreme(&mut self, greatest: bool, x: &Known, y: &Known, result: Value) -> Known {
        let least = |v: &Known| matches!(v, Known::Infinite(negative) if *negative == greatest);
        match (x, y) {
            (_, y) if least(y) && !matches!(x, Known::Nothing) => x.clone(),
            (x, _) if least(x) && !matches!(y, Known::Nothing) => y.clone(),
            (x, y) if x.equals(y) => x.clone(),
            (Known::Finite(a), Known::Finite(b)) if greatest && self.is_above(a, b) => x.clone(),
            (Known::Finite(a), Known::Finite(b)) if greatest && self.is_above(b, a) => y.clone(),
            (Known::Finite(_), Known::Finite(_)) => match (x.as_number(), y.as_number()) {
                (Some(a), Some(b)) => Known::number(if greatest { a.max(b) } else { a.min(b) }),
                (None, Some(b)) if greatest && self.is_at_least(x, b) => x.clone(),
                (Some(a), None) if greatest && self.is_at_least(y, a) => y.clone(),
                _ => self.fresh(result),
            },
            _ => Known::Nothing,
        }
    }

    /// Whether all elements of a value are certainly at least a number.
    fn is_at_least(&self, x: &Known, number: f64) -> bool {
        let Known::Finite(sum) = x else { return false };
        let one = sum.product().filter(|&(atoms, c)| atoms.len() == 1 && c == 1.0);
        let atom = one.map(|(atoms, _)| &self.atoms[atoms[0]]);
        matches!(atom, Some(&Atom::Value(v)) if is_at_least(self.k, v, number))
    }

    fn product(&mut self, x: &Known, y: &Known, result: Value) -> Known {
        match (x, y) {
            (Known::Finite(a), Known::Finite(b)) => match a.times(b) {
                Some(sum) => Known::Finite(sum),
                None => self.fresh(result),
            },
            (Known::Infinite(_), Known::Finite(by)) => self.signed(x, by),
            (Known::Finite(by), Known::Infinite(_)) => self.signed(y, by),
            (Known::Infinite(a), Known::Infinite(b)) => Known::Infinite(a != b),
            _ => Known::Nothing,
        }
    }

    /// Infinity times a product of scalars, which must be positive.
    fn signed(&mut self, x: &Known, by: &Sum) -> Known {
        let (Known::Infinite(negative), Some((atoms, c))) = (x, by.product()) else { return Known::Nothing };
        let Some(scalars) = self.scalars(atoms) else { return Known::Nothing };
        self.must_be_positive(&scalars);
        Known::Infinite(*negative != (c < 0.0))
    }

    /// The scalars before the loop that these atoms are.
    pub fn scalars(&self, atoms: &[usize]) -> Option<Vec<Value>> {
        let scalar = |&a: &usize| match self.atoms[a] {
            Atom::Value(v) if self.k.ty(v) == Type::Scalar(Elem::F32) && self.is_outside(v) => Some(v),
            _ => None,
        };
        let mut all: Vec<Value> = atoms.iter().map(scalar).collect::<Option<_>>()?;
        all.sort_unstable();
        Some(all)
    }

    pub fn must_be_positive(&mut self, scalars: &[Value]) {
        for &v in scalars {
            if !self.positive.contains(&v) {
                self.positive.push(v);
            }
        }
    }

    /// Whether a value is made before the loop.
    fn is_outside(&self, v: Value) -> bool {
        match self.k.values[v].def {
            ValueDef::Param(block, _) => block != self.body,
            ValueDef::Result(inst, _) => !self.k.inside(self.body).contains(&inst),
        }
    }

    fn choice(&mut self, condition: &Known, x: Known, y: Known, result: Value) -> Known {
        match (condition, x, y) {
            (Known::Truth(true), x, _) => x,
            (Known::Truth(false), _, y) => y,
            (_, x, y) if x.equals(&y) => x,
            (_, Known::Finite(_), Known::Finite(_)) => self.fresh(result),
            _ => Known::Nothing,
        }
    }

    fn cast(&mut self, x: &Known, arg: Value, result: Value) -> Known {
        let [from, to] = [arg, result].map(|v| self.k.ty(v).elem());
        match x {
            Known::Truth(t) if to.is_float() => Known::number(f64::from(*t)),
            _ if !from.is_float() => self.fresh(result),
            _ if !to.is_float() => Known::Nothing,
            // Zeros, ones and infinities are numbers of every float that has infinities.
            Known::Infinite(_) if to.bits() >= 16 => x.clone(),
            Known::Finite(sum) if from == to || matches!(sum.as_number(), Some(0.0 | 1.0)) => x.clone(),
            Known::Finite(_) => self.fresh(result),
            _ => Known::Nothing,
        }
    }

    fn reduced(&mut self, op: ReduceOp, x: &Known, arg: Value, result: Value) -> Known {
        let alike = self.other.as_ref().is_none_or(|o| o.get(&arg).is_some_and(|o| o.equals(x)));
        match (op, x) {
            (ReduceOp::Max | ReduceOp::Min, x) if alike && (x.is_constant() || self.is_level(x)) => x.clone(),
            (ReduceOp::Sum, x) if alike && x.is_zero() => x.clone(),
            (_, Known::Finite(_)) => self.fresh(result),
            _ => Known::Nothing,
        }
    }

    /// What is known of a tile that repeats or turns another one.
    fn shaped(&mut self, x: &Known, how: String, arg: Value) -> Known {
        match x {
            Known::Finite(sum) if sum.as_number().is_none() && self.k.ty(arg).shape().is_some() => {
                Known::Finite(sum.renamed(|a| self.shape_atom(a, &how)))
            }
            _ => x.clone(),
        }
    }

    /// An atom, repeated or turned. Scalars are the same everywhere.
    fn shape_atom(&mut self, a: usize, how: &str) -> usize {
        let is_scalar = matches!(self.atoms[a], Atom::Value(v) if self.k.ty(v).shape().is_none());
        if is_scalar || matches!(self.atoms[a], Atom::Mask(_)) {
            return a;
        }
        let is = |other: &Atom| matches!(other, Atom::Shaped(b, h) if *b == a && h == how);
        self.atom(is, Atom::Shaped(a, how.to_owned())).product().map_or(a, |(atoms, _)| atoms[0])
    }
}

/// A comparison of floats of which one may be infinite.
fn compared(cmp: CmpOp, x: &Known, y: &Known) -> Known {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (x, y) {
        (Known::Infinite(a), Known::Infinite(b)) => b.cmp(a),
        (Known::Infinite(negative), Known::Finite(_)) => {
            if *negative {
                Less
            } else {
                Greater
            }
        }
        (Known::Finite(_), Known::Infinite(negative)) => {
            if *negative {
                Greater
            } else {
                Less
            }
        }
        _ if x.equals(y) => Equal,
        _ => match (x.as_number(), y.as_number()) {
            (Some(a), Some(b)) if a < b => Less,
            (Some(_), Some(_)) => Greater,
            _ => return Known::Nothing,
        },
    };
    Known::Truth(match cmp {
        CmpOp::Eq => order == Equal,
        CmpOp::Ne => order != Equal,
        CmpOp::Lt => order == Less,
        CmpOp::Le => order != Greater,
        CmpOp::Gt => order == Greater,
        CmpOp::Ge => order != Less,
    })
}
