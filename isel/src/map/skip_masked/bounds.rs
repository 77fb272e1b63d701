//! The bounds of a shorter loop, as scalars in front of it.
//!
//! ```text
//!  BN t + r > 0  from  t = cdiv(max(1 - r, 0), BN)  on       high = min(high, select(likely(sure), that, high))
//!  r - BN t > 0  before  t = cdiv(max(r, 0), BN)             low = max(low, select(likely(sure), that, low))
//!
//!  sure: no index wraps around, factors of scores are positive, rows see something
//! ```

use super::Skip;
use super::edge::{Edge, Side};
use crate::facts::is_never_negative;
use crate::map::cursor::Cursor;
use warplift_ir::tile::{BinOp, CmpOp, Dim, Inst, Kernel, Op, Type, UnOp, Value};
use warplift_ir::types::Elem;

const WIDE: Type = Type::Scalar(Elem::Int(64));
const TRUTH: Type = Type::Scalar(Elem::Bool);

/// Lets a loop leave iterations out.
pub(super) fn shorten(k: &mut Kernel, looped: Inst, skip: &Skip) {
    let mut args = k.args(looped).to_vec();
    let (n, nearer) = match skip.side {
        Side::Front => (0, BinOp::Max),
        Side::Back => (1, BinOp::Min),
    };
    args[n] = Cursor::before(k, looped, |c| {
        let mut front = Front { c, low: args[0], high: args[1] };
        let (sure, bound) = (front.sure(skip), front.bound(skip));
        let bound = c.select(sure, bound, args[n]);
        let new = c.op(nearer, args[n], bound);
        if skip.side == Side::Back || c.k.int_const(args[2]) == Some(1) {
            return new;
        }
        // Counters are whole steps from the first one on.
        let beyond = c.op(BinOp::Sub, new, args[0]);
        let steps = c.op(BinOp::Div, beyond, args[2]);
        let whole = c.op(BinOp::Mul, steps, args[2]);
        c.op(BinOp::Add, args[0], whole)
    });
    k.set_args(looped, &args);
}

/// In front of a loop with these bounds.
struct Front<'c, 'k> {
    c: &'c mut Cursor<'k>,
    low: Value,
    high: Value,
}

impl Front<'_, '_> {
    /// The first iteration that is left out, or the first that is not.
    fn bound(&mut self, skip: &Skip) -> Value {
        let (extreme, sign) = match skip.side {
            Side::Back => (BinOp::Max, -1),
            Side::Front => (BinOp::Min, 1),
        };
        let all: Vec<Value> = skip.edges.iter().map(|e| self.first(e, sign)).collect();
        all.into_iter().reduce(|a, b| self.c.op(extreme, a, b)).unwrap_or(self.high)
    }

    /// `cdiv(max(1 - r, 0), step)` or `cdiv(max(r, 0), step)`.
    fn first(&mut self, edge: &Edge, sign: i64) -> Value {
        let s = &mut *self.c;
        let mut total = None;
        let mut terms: Vec<(Value, i64)> = Vec::new();
        for (factors, c) in &edge.products {
            terms.extend(product(s, factors).map(|v| (v, c * sign)));
        }
        for &(dim, c) in &edge.extents {
            let extent = match dim.constant() {
                Some(n) => s.int(n.into()),
                None => s.index(Op::Dim(dim), &[]),
            };
            terms.push((extent, c * sign));
        }
        // What is added comes first.
        terms.sort_by_key(|&(_, c)| c < 0);
        for (v, c) in terms {
            let v = if c.abs() == 1 { v } else { s.with(BinOp::Mul, v, c.abs()) };
            total = Some(match (total, c > 0) {
                (None, true) => v,
                (None, false) => {
                    let zero = s.int(0);
                    s.op(BinOp::Sub, zero, v)
                }
                (Some(t), true) => s.op(BinOp::Add, t, v),
                (Some(t), false) => s.op(BinOp::Sub, t, v),
            });
        }
        let offset = edge.offset * sign + i64::from(sign < 0);
        let total = match total {
            None => s.int(offset),
            Some(t) if offset == 0 => t,
            Some(t) if offset < 0 => s.with(BinOp::Sub, t, -offset),
            Some(t) => s.with(BinOp::Add, t, offset),
        };
        let some = s.with(BinOp::Max, total, 0);
        let (factors, c) = &edge.step;
        let by = product(s, factors);
        let by = match (by, *c) {
            (None, c) => s.int(c),
            (Some(v), 1) => v,
            (Some(v), c) => s.with(BinOp::Mul, v, c),
        };
        if s.k.int_const(by) == Some(1) { some } else { s.op(BinOp::CeilDiv, some, by) }
    }

    /// Whether the iterations may be left out.
    fn sure(&mut self, skip: &Skip) -> Value {
        let mut all: Vec<Value> = skip.narrow.iter().chain(&skip.seen).map(|e| self.is_narrow(e)).collect();
        for edge in &skip.seen {
            let sum = self.at_start(edge);
            let zero = self.c.inst(Op::Int(0), &[], WIDE);
            all.push(self.c.inst(Op::Compare(CmpOp::Gt), &[sum, zero], TRUTH));
        }
        for &v in &skip.positive {
            let ty = self.c.k.ty(v);
            let least = self.c.inst(Op::Float(0.0), &[], ty);
            all.push(self.c.inst(Op::Compare(CmpOp::Gt), &[v, least], TRUTH));
        }
        let both = all.into_iter().reduce(|a, b| self.c.inst(Op::Binary(BinOp::And), &[a, b], TRUTH));
        let both = both.unwrap_or_else(|| self.c.inst(Op::Int(1), &[], TRUTH));
        self.c.inst(Op::Unary(UnOp::Likely), &[both], TRUTH)
    }

    /// Whether the parts of a comparison add up to less than 2^31 in each iteration, whatever their signs.
    fn is_narrow(&mut self, edge: &Edge) -> Value {
        let high = self.high;
        let mut total = self.c.inst(Op::Int(edge.offset.abs() + edge.reach + 1), &[], WIDE);
        let counter = (edge.step.0.iter().copied().chain([high]).collect(), edge.step.1);
        for (factors, c) in edge.products.iter().chain([&counter]) {
            let product = self.wide_product(factors, c.abs(), true);
            total = self.c.inst(Op::Binary(BinOp::Add), &[total, product], WIDE);
        }
        for &(dim, c) in &edge.extents {
            let product = self.wide_extent(dim, c.abs());
            total = self.c.inst(Op::Binary(BinOp::Add), &[total, product], WIDE);
        }
        let most = self.c.inst(Op::Int(i32::MAX.into()), &[], WIDE);
        self.c.inst(Op::Compare(CmpOp::Le), &[total, most], TRUTH)
    }

    /// The sum in the loop's first iteration.
    fn at_start(&mut self, edge: &Edge) -> Value {
        let sign = if edge.side == Side::Back { 1 } else { -1 };
        let mut total = self.c.inst(Op::Int(edge.offset), &[], WIDE);
        let counter = (edge.step.0.iter().copied().chain([self.low]).collect(), edge.step.1 * sign);
        for (factors, c) in edge.products.iter().chain([&counter]) {
            let product = self.wide_product(factors, *c, false);
            total = self.c.inst(Op::Binary(BinOp::Add), &[total, product], WIDE);
        }
        for &(dim, c) in &edge.extents {
            let product = self.wide_extent(dim, c);
            total = self.c.inst(Op::Binary(BinOp::Add), &[total, product], WIDE);
        }
        total
    }

    fn wide_extent(&mut self, dim: Dim, c: i64) -> Value {
        if let Some(n) = dim.constant() {
            return self.c.inst(Op::Int(i64::from(n) * c), &[], WIDE);
        }
        let extent = self.c.inst(Op::Dim(dim), &[], Type::Scalar(Elem::I32));
        self.wide_product(&[extent], c, false)
    }

    /// A product of scalars; `sizes`: of what they are without their signs.
    fn wide_product(&mut self, factors: &[Value], c: i64, sizes: bool) -> Value {
        let mut product = self.c.inst(Op::Int(c), &[], WIDE);
        for &v in factors {
            let mut wide = self.c.inst(Op::Cast, &[v], WIDE);
            if sizes && !is_never_negative(self.c.k, v) {
                let zero = self.c.inst(Op::Int(0), &[], WIDE);
                let negative = self.c.inst(Op::Binary(BinOp::Sub), &[zero, wide], WIDE);
                let below = self.c.inst(Op::Compare(CmpOp::Lt), &[wide, zero], TRUTH);
                wide = self.c.inst(Op::Select, &[below, negative, wide], WIDE);
            }
            product = self.c.inst(Op::Binary(BinOp::Mul), &[product, wide], WIDE);
        }
        product
    }
}

/// A product of scalars, extents last.
fn product(s: &mut Cursor<'_>, factors: &[Value]) -> Option<Value> {
    let is_extent = |v: &Value| s.k.def(*v).is_some_and(|d| matches!(s.k.insts[d].op, Op::Dim(_)));
    let (extents, others): (Vec<Value>, Vec<Value>) = factors.iter().partition(|v| is_extent(v));
    others.into_iter().chain(extents).reduce(|a, b| s.op(BinOp::Mul, a, b))
}
