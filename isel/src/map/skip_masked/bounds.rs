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
use crate::map::loops::block_of;
use warplift_ir::tile::{BinOp, Block, CmpOp, Dim, Inst, Kernel, Loc, Op, Type, UnOp, Value, ValueList};
use warplift_ir::types::Elem;

const WIDE: Type = Type::Scalar(Elem::Int(64));
const TRUTH: Type = Type::Scalar(Elem::Bool);

/// Lets a loop leave iterations out.
pub(super) fn shorten(k: &mut Kernel, looped: Inst, skip: &Skip) {
    let block = block_of(k, looped);
    let at = k.blocks[block].insts.iter().position(|&i| i == looped).unwrap_or(0);
    let behind = k.blocks[block].insts.split_off(at);
    let mut args = k.args(looped).to_vec();
    let mut front = Front { k, block, low: args[0], high: args[1] };
    let sure = front.sure(skip);
    let bound = front.bound(skip);
    let (n, nearer) = match skip.side {
        Side::Front => (0, BinOp::Max),
        Side::Back => (1, BinOp::Min),
    };
    let mut s = Cursor::at_end(front.k, block);
    let bound = s.select(sure, bound, args[n]);
    let mut new = s.op(nearer, args[n], bound);
    if skip.side == Side::Front && s.k.int_const(args[2]) != Some(1) {
        // Counters are whole steps from the first one on.
        let beyond = s.op(BinOp::Sub, new, args[0]);
        let steps = s.op(BinOp::Div, beyond, args[2]);
        let whole = s.op(BinOp::Mul, steps, args[2]);
        new = s.op(BinOp::Add, args[0], whole);
    }
    args[n] = new;
    k.insts[looped].args = ValueList::from_slice(&args, &mut k.pool);
    k.blocks[block].insts.extend(behind);
}

/// The end of a block, in front of a loop with these bounds.
struct Front<'k> {
    k: &'k mut Kernel,
    block: Block,
    low: Value,
    high: Value,
}

impl Front<'_> {
    fn push(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let inst = self.k.append_inst(self.block, op, args, &[ty], &[], Loc::default());
        self.k.result(inst)
    }

    /// The first iteration that is left out, or the first that is not.
    fn bound(&mut self, skip: &Skip) -> Value {
        let (extreme, sign) = match skip.side {
            Side::Back => (BinOp::Max, -1),
            Side::Front => (BinOp::Min, 1),
        };
        let all: Vec<Value> = skip.edges.iter().map(|e| self.first(e, sign)).collect();
        let mut s = Cursor::at_end(self.k, self.block);
        all.into_iter().reduce(|a, b| s.op(extreme, a, b)).unwrap_or(self.high)
    }

    /// `cdiv(max(1 - r, 0), step)` or `cdiv(max(r, 0), step)`.
    fn first(&mut self, edge: &Edge, sign: i64) -> Value {
        let mut s = Cursor::at_end(self.k, self.block);
        let mut total = None;
        let mut terms: Vec<(Value, i64)> = Vec::new();
        for (factors, c) in &edge.products {
            terms.extend(product(&mut s, factors).map(|v| (v, c * sign)));
        }
        for &(dim, c) in &edge.extents {
            let extent = match dim.constant() {
                Some(n) => s.int(n.into()),
                None => Cursor::at_end(s.k, s.block).index(Op::Dim(dim), &[]),
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
        let by = product(&mut s, factors);
        let by = match (by, *c) {
            (None, c) => s.int(c),
            (Some(v), 1) => v,
            (Some(v), c) => s.with(BinOp::Mul, v, c),
        };
        if s.k.int_const(by) == Some(1) { some } else { s.op(BinOp::CeilDiv, some, by) }
    }

    /// Whether the iterations may be left out.
    fn sure(&mut self, skip: &Skip) -> Value {
        let mut all: Vec<Value> = skip.edges.iter().chain(&skip.seen).map(|e| self.is_narrow(e)).collect();
        for edge in &skip.seen {
            let sum = self.at_start(edge);
            let zero = self.push(Op::Int(0), &[], WIDE);
            all.push(self.push(Op::Compare(CmpOp::Gt), &[sum, zero], TRUTH));
        }
        for &v in &skip.positive {
            let ty = self.k.ty(v);
            let least = self.push(Op::Float(0.0), &[], ty);
            all.push(self.push(Op::Compare(CmpOp::Gt), &[v, least], TRUTH));
        }
        let both = all.into_iter().reduce(|a, b| self.push(Op::Binary(BinOp::And), &[a, b], TRUTH));
        let both = both.unwrap_or_else(|| self.push(Op::Int(1), &[], TRUTH));
        self.push(Op::Unary(UnOp::Likely), &[both], TRUTH)
    }

    /// Whether the parts of a comparison add up to less than 2^31 in each iteration, whatever their signs.
    fn is_narrow(&mut self, edge: &Edge) -> Value {
        let high = self.high;
        let mut total = self.push(Op::Int(edge.offset.abs() + edge.reach + 1), &[], WIDE);
        let counter = (edge.step.0.iter().copied().chain([high]).collect(), edge.step.1);
        for (factors, c) in edge.products.iter().chain([&counter]) {
            let product = self.wide_product(factors, c.abs(), true);
            total = self.push(Op::Binary(BinOp::Add), &[total, product], WIDE);
        }
        for &(dim, c) in &edge.extents {
            let product = self.wide_extent(dim, c.abs());
            total = self.push(Op::Binary(BinOp::Add), &[total, product], WIDE);
        }
        let most = self.push(Op::Int(i32::MAX.into()), &[], WIDE);
        self.push(Op::Compare(CmpOp::Le), &[total, most], TRUTH)
    }

    /// The sum in the loop's first iteration.
    fn at_start(&mut self, edge: &Edge) -> Value {
        let sign = if edge.side == Side::Back { 1 } else { -1 };
        let mut total = self.push(Op::Int(edge.offset), &[], WIDE);
        let counter = (edge.step.0.iter().copied().chain([self.low]).collect(), edge.step.1 * sign);
        for (factors, c) in edge.products.iter().chain([&counter]) {
            let product = self.wide_product(factors, *c, false);
            total = self.push(Op::Binary(BinOp::Add), &[total, product], WIDE);
        }
        for &(dim, c) in &edge.extents {
            let product = self.wide_extent(dim, c);
            total = self.push(Op::Binary(BinOp::Add), &[total, product], WIDE);
        }
        total
    }

    fn wide_extent(&mut self, dim: Dim, c: i64) -> Value {
        if let Some(n) = dim.constant() {
            return self.push(Op::Int(i64::from(n) * c), &[], WIDE);
        }
        let extent = self.push(Op::Dim(dim), &[], Type::Scalar(Elem::I32));
        self.wide_product(&[extent], c, false)
    }

    /// A product of scalars; `sizes`: of what they are without their signs.
    fn wide_product(&mut self, factors: &[Value], c: i64, sizes: bool) -> Value {
        let mut product = self.push(Op::Int(c), &[], WIDE);
        for &v in factors {
            let mut wide = self.push(Op::Cast, &[v], WIDE);
            if sizes && !is_never_negative(self.k, v) {
                let zero = self.push(Op::Int(0), &[], WIDE);
                let negative = self.push(Op::Binary(BinOp::Sub), &[zero, wide], WIDE);
                let below = self.push(Op::Compare(CmpOp::Lt), &[wide, zero], TRUTH);
                wide = self.push(Op::Select, &[below, negative, wide], WIDE);
            }
            product = self.push(Op::Binary(BinOp::Mul), &[product, wide], WIDE);
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
