//! Canonical arithmetic: texts that compute the same by other operations become one, the one that costs least.
//!
//! ```text
//!  exp((s - m) * c)             ─►   exp2(fma(s, c', -(m * c')))     c' = c log2(e); rows and scalars are multiplied first
//!  (p * s) * row                ─►   p * (row * s)                   what many elements share is multiplied first
//!  x * y + z                    ─►   fma(x, y, z)                    in f32, as ptxas contracts it
//!  x / l : a row's l            ─►   x * f * rcp(l * f)              a reciprocal a row; f keeps it in range
//!  x * rcp(y)                   ─►   x / y                           a quotient need not be rounded, a reciprocal is
//!  cast(cast(q, i32) - 8, f16)  ─►   cast(q, f16) - 8.0              where floats hold all these integers
//!  cast(max(x, 0.0), f16)       ─►   max(cast(x, f16), 0.0)          where the narrow type has the bound
//!  select(x > 0.0, x, x * 0.1)  ─►   max(x, x * 0.1)
//!  cast(q : u8, i32) != 3       ─►   q != 3                          where q is compared with what a byte holds
//!  x + select(c, 0, y)          ─►   select(c, x, x + y)             a mask may then go under a branch
//!  reduce_max(x * 0.5, 1)       ─►   reduce_max(x, 1) * 0.5          what is left of the factor goes to the exponent
//!  fma(mma(0, q, b), row, x)    ─►   mma(x, q * row, b)          few columns, where halves hold the products
//!  mma x, a, trans(-b)          ─►   mma x, -a, trans(b)             an MMA has a sign, its operands stay as loaded
//! ```
//!
//! Kernels without products stay as they are: memory bounds them, and ptxas contracts their sums.
//!
//! Rounding: a product that is only added to is not rounded, and factors in an exponent are multiplied first. The rest is
//! exact, or within the bounds of [`UnOp`](warplift_ir::tile::UnOp) and [`BinOp`](warplift_ir::tile::BinOp).

mod bounds;
mod byte_tests;
mod contraction;
mod exponents;
mod extremes;
mod factors;
mod integers;
mod quotients;
mod scales;
mod selects;
mod signs;

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use crate::tiles::users;
use rustc_hash::FxHashMap;
use std::ops::{Deref, DerefMut};
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, UnOp, Value};
use warplift_ir::types::Elem;

/// A rule: what an instruction becomes, its operands being made before it.
type Rule = fn(&mut Rewrite<'_>, Inst) -> Option<(Op, Vec<Value>)>;

/// A rule, or what asks several.
type Any<'r> = dyn Fn(&mut Rewrite<'_>, Inst) -> Option<(Op, Vec<Value>)> + 'r;

/// The rules, in order. Each is tried on the result of those before.
const RULES: &[Rule] = &[
    exponents::rule,
    quotients::rule,
    quotients::reciprocals,
    integers::rule,
    byte_tests::rule,
    selects::of_constants,
    selects::identity,
    factors::rule,
    bounds::rule,
    signs::rule,
    contraction::rule,
    scales::rule,
];

/// Rewrites all blocks of a kernel with products.
pub fn do_canonicalize(k: &mut Kernel) {
    if !k.insts.values().any(|d| matches!(d.op, Op::Mma { .. })) {
        return;
    }
    let users = users(k);
    let early = |r: &mut Rewrite<'_>, inst: Inst| {
        extremes::chosen(r, inst, &users)
            .or_else(|| extremes::in_parts(r, inst))
            .or_else(|| extremes::reduced(r, inst))
            .or_else(|| extremes::of_powers(r, inst))
            .or_else(|| extremes::sloped(r, inst))
    };
    let mut changed = sweep(k, &[&early]);
    if changed {
        do_drop_unused(k);
    }
    let rules: Vec<&Any<'_>> = RULES.iter().map(|rule| rule as _).collect();
    changed |= sweep(k, &rules);
    // What was dead in the text is still checked.
    if changed {
        bounds::join_conversions(k);
        do_drop_unused(k);
    }
}

/// Tries rules on each instruction of a kernel, in order. Returns whether there was one for any.
fn sweep(k: &mut Kernel, rules: &[&Any<'_>]) -> bool {
    let mut uses: FxHashMap<Value, u32> = FxHashMap::default();
    k.walk(|_, inst| k.args(inst).iter().for_each(|&v| *uses.entry(v).or_default() += 1));
    let mut changed = false;
    Cursor::rewrite(k, |cursor, inst| {
        let mut rewrite = Rewrite { cursor, uses: &uses };
        for rule in rules {
            if let Some((op, args)) = rule(&mut rewrite, inst) {
                changed = true;
                rewrite.k.insts[inst].op = op;
                rewrite.k.set_args(inst, &args);
            }
        }
        rewrite.keep(inst);
    });
    changed
}

/// A cursor that knows how often each value is used.
struct Rewrite<'k> {
    cursor: Cursor<'k>,
    /// How often each value is used in the text.
    uses: &'k FxHashMap<Value, u32>,
}

impl<'k> Deref for Rewrite<'k> {
    type Target = Cursor<'k>;

    fn deref(&self) -> &Cursor<'k> {
        &self.cursor
    }
}

impl<'k> DerefMut for Rewrite<'k> {
    fn deref_mut(&mut self) -> &mut Cursor<'k> {
        &mut self.cursor
    }
}

impl Rewrite<'_> {
    /// The product of two scalars; of two constants a constant.
    fn product(&mut self, x: Value, y: Value) -> Value {
        match [self.maker(x), self.maker(y)] {
            [Some((Op::Float(a), _)), Some((Op::Float(b), _))] => self.float(Elem::F32, a * b),
            _ => self.op(BinOp::Mul, x, y),
        }
    }

    /// The operation of a value and its operands, if only one instruction uses it.
    fn once(&self, v: Value) -> Option<(Op, Vec<Value>)> {
        self.maker(v).filter(|_| self.uses.get(&v) == Some(&1))
    }

    /// Whether a value is made in this block, not before a loop.
    fn is_here(&self, v: Value) -> bool {
        self.k.def(v).is_some_and(|d| self.k.blocks[self.block].insts.contains(&d))
    }

    /// The operation of a value and its operands.
    fn maker(&self, v: Value) -> Option<(Op, Vec<Value>)> {
        let def = self.k.def(v)?;
        // A tile whose layout is pinned stays.
        let free = self.k.attrs[def].layout.is_none();
        free.then(|| (self.k.insts[def].op.clone(), self.k.args(def).to_vec()))
    }

    /// The tile of fewer elements that a tile repeats.
    fn row(&self, v: Value) -> Option<Value> {
        match self.maker(v)? {
            (Op::Broadcast, args) => Some(args[0]),
            _ => None,
        }
    }

    /// A tile of rows, or a scalar, with each element changed: `f` is applied before it is repeated.
    fn of_row(&mut self, v: Value, f: &mut dyn FnMut(&mut Self, Value) -> Value) -> Value {
        let ty = self.k.ty(v);
        match self.maker(v) {
            Some((op @ (Op::Broadcast | Op::ExpandDims(_) | Op::Full), args)) => {
                let inner = self.of_row(args[0], f);
                self.inst(op, &[inner], ty)
            }
            _ => f(self, v),
        }
    }

    /// The negative. Rows, scalars and constants are negated before they are repeated.
    fn negative(&mut self, v: Value) -> Value {
        self.of_row(v, &mut |s, v| {
            let ty = s.k.ty(v);
            match s.maker(v) {
                Some((Op::Unary(UnOp::Neg), args)) => args[0],
                Some((Op::Float(x), _)) => s.inst(Op::Float(-x), &[], ty),
                _ => s.inst(Op::Unary(UnOp::Neg), &[v], ty),
            }
        })
    }
}
