//! Values as expressions without names, so that equal ones are found wherever and however they are written.
//!
//! ```text
//!  (blocks - 1 - t) * BN - BN     ─►   -BN t + BN blocks - 2 BN       i32 arithmetic wraps: sums of products are unique
//!  load k[first, 0]               ─►   load(k, first, 0)              if nothing writes k
//! ```

use crate::tiles::memory;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::rc::Rc;
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, Type, UnOp, Value};
use warplift_ir::types::Elem;

/// The most instructions that one question visits.
const FUEL: u32 = 4096;
/// The most products of a sum, and factors of a product.
const TERMS: usize = 32;
const FACTORS: usize = 4;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Term {
    /// A value as it is.
    Leaf(Value),
    /// Products of these factors by their coefficients.
    Sum(BTreeMap<Vec<Rc<Term>>, i32>),
    /// An operation and its result's type, of these operands.
    Node(String, Vec<Rc<Term>>),
}

impl Term {
    /// The products that it is the sum of.
    pub fn products(self: &Rc<Self>) -> BTreeMap<Vec<Rc<Self>>, i32> {
        match &**self {
            Self::Sum(all) => all.clone(),
            _ => [(vec![self.clone()], 1)].into_iter().collect(),
        }
    }

    /// A sum; one product of one factor is that factor.
    fn sum(mut all: BTreeMap<Vec<Rc<Self>>, i32>) -> Rc<Self> {
        all.retain(|_, c| *c != 0);
        match all.first_key_value() {
            Some((factors, 1)) if all.len() == 1 && factors.len() == 1 => factors[0].clone(),
            _ => Rc::new(Self::Sum(all)),
        }
    }

    /// A number.
    pub fn int(c: i32) -> Rc<Self> {
        Self::sum([(Vec::new(), c)].into_iter().collect())
    }

    /// The number that it is, if it is one.
    pub fn constant(&self) -> Option<i32> {
        match self {
            Self::Sum(all) if all.is_empty() => Some(0),
            Self::Sum(all) if all.len() == 1 => all.get([].as_slice()).copied(),
            _ => None,
        }
    }

    /// The sum of two, the second one times a number.
    pub fn plus(self: &Rc<Self>, other: &Rc<Self>, times: i32) -> Rc<Self> {
        let mut all = self.products();
        for (factors, c) in other.products() {
            let sum = all.entry(factors).or_default();
            *sum = sum.wrapping_add(c.wrapping_mul(times));
        }
        Self::sum(all)
    }

    /// The product; `None` if it is too long.
    pub fn times(self: &Rc<Self>, other: &Rc<Self>) -> Option<Rc<Self>> {
        let (xs, ys) = (self.products(), other.products());
        let mut all: BTreeMap<Vec<Rc<Self>>, i32> = BTreeMap::new();
        for ((a, c), (b, d)) in xs.iter().flat_map(|x| ys.iter().map(move |y| (x, y))) {
            let mut factors = [a.as_slice(), b].concat();
            factors.sort();
            let sum = all.entry(factors).or_default();
            *sum = sum.wrapping_add(c.wrapping_mul(*d));
        }
        let fits = all.len() <= TERMS && all.keys().all(|f| f.len() <= FACTORS);
        fits.then(|| Self::sum(all))
    }

    /// Whether it names one of these values.
    pub fn names(&self, values: &FxHashSet<Value>) -> bool {
        match self {
            Self::Leaf(v) => values.contains(v),
            Self::Sum(all) => all.keys().flatten().any(|t| t.names(values)),
            Self::Node(_, args) => args.iter().any(|t| t.names(values)),
        }
    }

    /// Makes this pattern a term by giving its variables values. `false` if that is impossible.
    pub fn unify(
        self: &Rc<Self>,
        with: &Rc<Self>,
        variables: &FxHashSet<Value>,
        given: &mut FxHashMap<Value, Rc<Self>>,
    ) -> bool {
        match (&**self, &**with) {
            (Self::Leaf(v), _) if variables.contains(v) => {
                given.entry(*v).or_insert_with(|| with.clone()) == with
            }
            (Self::Node(op, xs), Self::Node(other, ys)) => {
                op == other
                    && xs.len() == ys.len()
                    && xs.iter().zip(ys).all(|(x, y)| x.unify(y, variables, given))
            }
            _ => self == with,
        }
    }
}

/// The terms of a kernel's values, some of which are given.
pub(crate) struct Terms<'k> {
    k: &'k Kernel,
    /// Memory that the kernel writes: loads of it are values of their own.
    written: &'k FxHashSet<Value>,
    known: FxHashMap<Value, Rc<Term>>,
    fuel: u32,
}

impl<'k> Terms<'k> {
    pub fn new(k: &'k Kernel, written: &'k FxHashSet<Value>) -> Self {
        Self { k, written, known: FxHashMap::default(), fuel: FUEL }
    }

    /// Lets a value be a term.
    pub fn give(&mut self, v: Value, term: Rc<Term>) {
        self.known.insert(v, term);
    }

    /// The value that was found to have a term.
    pub fn value(&self, term: &Rc<Term>) -> Option<Value> {
        if let Term::Leaf(v) = **term {
            return Some(v);
        }
        self.known.iter().filter(|(_, t)| *t == term).map(|(&v, _)| v).min()
    }

    /// The least of these values that was found to have a term.
    pub fn value_among(&self, term: &Rc<Term>, is: impl Fn(Value) -> bool) -> Option<Value> {
        let leaf = match **term {
            Term::Leaf(v) => Some(v),
            _ => None,
        };
        let known = self.known.iter().filter(|(_, t)| *t == term).map(|(&v, _)| v);
        known.chain(leaf).filter(|&v| is(v)).min()
    }

    /// A value's term; `None` if it is too long.
    pub fn of(&mut self, v: Value) -> Option<Rc<Term>> {
        if let Some(known) = self.known.get(&v) {
            return Some(known.clone());
        }
        self.fuel = self.fuel.checked_sub(1)?;
        let term = match self.k.def(v).filter(|&d| self.is_pure(d)) {
            Some(def) => self.defined(v, def)?,
            None => Rc::new(Term::Leaf(v)),
        };
        self.known.insert(v, term.clone());
        Some(term)
    }

    /// The greater of two scalars.
    pub fn max(&mut self, x: Value, y: Value) -> Option<Rc<Term>> {
        let mut args = vec![self.of(x)?, self.of(y)?];
        args.sort();
        Some(Rc::new(Term::Node(node(&Op::Binary(BinOp::Max), self.k.ty(x)), args)))
    }

    fn is_pure(&self, def: Inst) -> bool {
        let data = &self.k.insts[def];
        let reads = || memory(self.k, self.k.args(def)[0]).is_some_and(|m| !self.written.contains(&m));
        let plain = data.blocks.is_empty() && !data.op.has_effect() && self.k.results(def).len() == 1;
        plain && (!data.op.is_read() || reads()) && !data.op.is_allocation()
    }

    fn defined(&mut self, v: Value, def: Inst) -> Option<Rc<Term>> {
        let args: Vec<Rc<Term>> = self.k.args(def).iter().map(|&a| self.of(a)).collect::<Option<_>>()?;
        let (op, ty) = (&self.k.insts[def].op, self.k.ty(v));
        if ty == Type::Scalar(Elem::I32) {
            match (op, &args[..]) {
                (Op::Binary(BinOp::Add), [x, y]) => return Some(x.plus(y, 1)),
                (Op::Binary(BinOp::Sub), [x, y]) => return Some(x.plus(y, -1)),
                (Op::Binary(BinOp::Mul), [x, y]) => return x.times(y),
                (Op::Unary(UnOp::Neg), [x]) => return Some(Term::sum(BTreeMap::new()).plus(x, -1)),
                _ => {}
            }
            if let Some(c) = self.k.int_const(v) {
                return Some(Term::int(c as i32));
            }
        }
        let mut args = args;
        if commutes(op) {
            args.sort();
        }
        Some(Rc::new(Term::Node(node(op, ty), args)))
    }
}

/// The name of an operation with its result's type.
fn node(op: &Op, ty: Type) -> String {
    format!("{op:?} {ty:?}")
}

/// Whether the operands of an operation may be exchanged.
fn commutes(op: &Op) -> bool {
    use BinOp::{Add, And, Max, Min, Mul, Or, Xor};
    matches!(op, Op::Binary(Add | Mul | Min | Max | And | Or | Xor))
}
