//! Reductions and scans of 64-bit integers along a dimension, with words.
//!
//! ```text
//!  and, or, xor    of each word
//!  sum             pieces of the low word have sums of 32 bits: sum(low & 0xffff) + (sum(low >> 16) << 16)
//!  max             high = max(xh)     low = max(xh == high ? xl : 0)
//!  scan of others  x = op(x, x 1 before), op(x, x 2 before), op(x, x 4 before), ..    (Hillis and Steele)
//! ```

use super::{Expand, U32, Words};
use crate::tiles::{extents, with_elem};
use warplift_ir::tile::{BinOp, CmpOp, Dim, Op, ReduceOp, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Bits of a word.
const WORD: u32 = 32;

impl Expand<'_> {
    /// A reduction along a dimension.
    pub(super) fn reduce(&mut self, op: ReduceOp, d: u8, x: Value, result: Value) -> Option<()> {
        let along = Op::Reduce(op, d);
        let own = self.own_words(x);
        let words = match op {
            ReduceOp::Sum => self.sums(own, x, &along, result),
            ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => own.map(|w| self.like(&along, &[w], result)),
            ReduceOp::Min | ReduceOp::Max => self.extreme(op, d, own, x, result),
            ReduceOp::Prod => {
                let all = self.doubled(op, d, own, x)?;
                let length = extents(self.c.k, x)[usize::from(d)];
                let (index, last) =
                    (self.place(x, d), self.full((length - 1).into(), with_elem(self.c.k.ty(x), Elem::I32)));
                let is_last = self.c.compare(CmpOp::Eq, index, last);
                let zero = self.number(0, all[0]);
                let only = self.choose(is_last, all, [zero; 2]);
                only.map(|w| self.like(&Op::Reduce(ReduceOp::Or, d), &[w], result))
            }
        };
        self.packs(result, words);
        Some(())
    }

    /// A scan along a dimension.
    pub(super) fn scan(&mut self, op: ReduceOp, d: u8, x: Value, result: Value) -> Option<Words> {
        let along = Op::Scan(op, d);
        let own = self.own_words(x);
        Some(match op {
            ReduceOp::Sum => self.sums(own, x, &along, result),
            ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => own.map(|w| self.like(&along, &[w], result)),
            ReduceOp::Min | ReduceOp::Max | ReduceOp::Prod => self.doubled(op, d, own, x)?,
        })
    }

    /// Sums of a reduction or a scan: pieces of low words are so narrow that their sums fit a word.
    fn sums(&mut self, [low, high]: Words, x: Value, along: &Op, result: Value) -> Words {
        let (Op::Reduce(_, d) | Op::Scan(_, d)) = along else { return [low, high] };
        let length = extents(self.c.k, x)[usize::from(*d)].max(1);
        let bits = (WORD - (length - 1).checked_ilog2().map_or(0, |n| n + 1)).min(WORD / 2);
        let high = self.like(along, &[high], result);
        let mut total: Option<Words> = None;
        for first in (0..WORD).step_by(bits as usize) {
            let [by, mask] = [first.into(), (1_i64 << bits) - 1].map(|n| self.number(n, low));
            let piece = self.c.op(BinOp::Shr, low, by);
            let piece = self.c.op(BinOp::And, piece, mask);
            let sum = self.like(along, &[piece], result);
            let [zero, by] = [0, first.into()].map(|n| self.number(n, sum));
            let words = match total {
                None => [sum, high],
                Some(_) => self.shifted_left([sum, zero], by),
            };
            total = Some(match total {
                None => words,
                Some(total) => self.sum(total, words),
            });
        }
        total.unwrap_or([high; 2])
    }

    /// The least or the greatest: of the high words, then of the low words beside it.
    fn extreme(&mut self, op: ReduceOp, d: u8, [low, high]: Words, x: Value, result: Value) -> Words {
        let signed = self.c.k.ty(x).elem().is_signed();
        let sign = if signed { Elem::I32 } else { U32 };
        let along = Op::Reduce(op, d);
        let signs = self.c.cast(high, sign);
        let most = self.c.inst(along.clone(), &[signs], with_elem(self.c.k.ty(result), sign));
        let every = self.spread(most, d, signs);
        let beside = self.c.compare(CmpOp::Eq, signs, every);
        let least = self.number(if op == ReduceOp::Max { 0 } else { u32::MAX.into() }, low);
        let rest = self.c.select(beside, low, least);
        [self.like(&along, &[rest], result), self.c.cast(most, U32)]
    }

    /// What a reduction gave, in every element along its dimension.
    fn spread(&mut self, x: Value, d: u8, like: Value) -> Value {
        let ty = self.c.k.ty(like);
        let Type::Tile(elem, _) = self.c.k.ty(x) else { return self.c.inst(Op::Full, &[x], ty) };
        let mut dims: Vec<Dim> = extents(self.c.k, like).into_iter().map(Dim::new).collect();
        dims[usize::from(d)] = Dim::new(1);
        let Some(shape) = Shape::new(&dims) else { return x };
        let thin = self.c.inst(Op::ExpandDims(d), &[x], Type::Tile(elem, shape));
        self.c.inst(Op::Broadcast, &[thin], ty)
    }

    /// Each element's place along a dimension.
    fn place(&mut self, x: Value, d: u8) -> Value {
        let ty = with_elem(self.c.k.ty(x), Elem::I32);
        self.c.inst(Op::Iota(d), &[], ty)
    }

    /// A scan in steps that double: each element is combined with the one 1, 2, 4, .. places before it.
    fn doubled(&mut self, op: ReduceOp, d: u8, own: Words, x: Value) -> Option<Words> {
        let signed = self.c.k.ty(x).elem().is_signed();
        let combine = match op {
            ReduceOp::Min => BinOp::Min,
            ReduceOp::Max => BinOp::Max,
            _ => BinOp::Mul,
        };
        let place = self.place(x, d);
        let (length, mut words, mut step) = (extents(self.c.k, x)[usize::from(d)], own, 1_u32);
        while step < length {
            let back = self.full(step.into(), self.c.k.ty(place));
            let from = self.c.op(BinOp::Sub, place, back);
            let zero = self.full(0, self.c.k.ty(place));
            let from = self.c.op(BinOp::Max, from, zero);
            let before = words.map(|w| {
                let ty = self.c.k.ty(w);
                self.c.inst(Op::Gather(d), &[w, from], ty)
            });
            let both = self.binary(combine, before, words, signed)?;
            let reaches = self.c.compare(CmpOp::Ge, place, back);
            words = self.choose(reaches, both, words);
            step *= 2;
        }
        Some(words)
    }
}
