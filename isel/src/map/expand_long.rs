//! Arithmetic of 64-bit integers in tiles, written with words of 32 bits: no register of a fragment is wider. Scalars have
//! registers of 64 bits and rows for most operations; the others are written with words too (`scalars`).
//!
//! ```text
//!  x + y     ─►   low = xl + yl     carry = low < xl     high = xh + yh + carry      x + y = high << 32 | low
//!  x < y     ─►   xh < yh | (xh == yh & xl < yl)          only the high words have a sign
//!  trans(x)  ─►   trans(xl), trans(xh)                    what moves elements moves both words
//!  x / y     ─►   128 bits are not needed: `quotient`    sums, extremes along a dimension: `along`
//! ```
//!
//! The low word is `cast(x, u32)`, the high one `cast(x >> 32, u32)`. These, and `high << 32 | low`, are all that `lower` knows of
//! such tiles ([`long`](crate::lower), beside loads, stores and conversions). Words that were just made are not taken apart
//! again. (Expansion of integers that no register holds, as in the type legalization of other compilers.)

mod along;
mod quotient;
mod scalars;

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use crate::takes::is_long;
use crate::tiles::with_elem;
use rustc_hash::FxHashMap;
use warplift_ir::tile::{BinOp, CmpOp, Inst, Kernel, Op, Type, UnOp, Value};
use warplift_ir::types::Elem;

/// A word, and a scalar of two.
const U32: Elem = Elem::Uint(32);
const LONG: Type = Type::Scalar(Elem::I64);

/// The low and the high word of each element.
type Words = [Value; 2];

/// Writes arithmetic of 64-bit tiles, and of scalars without rows, with 32-bit ones. What it has no form for stays, and is
/// refused later.
pub fn do_expand_long(k: &mut Kernel) {
    let long = |k: &Kernel, v: Value| matches!(k.ty(v), Type::Tile(e, _) if is_long(e));
    let tiles = |k: &Kernel, i: Inst| k.args(i).iter().chain(k.results(i)).any(|&v| long(k, v));
    let computes = |k: &Kernel, i: Inst| tiles(k, i) || scalars::has_no_row(k, i);
    if !k.insts.keys().any(|i| computes(k, i)) {
        return;
    }
    let mut words = FxHashMap::default();
    Cursor::rewrite(k, |c, inst| {
        let computes = computes(c.k, inst);
        let mut e = Expand { c, words: &mut words };
        if !computes || e.expand(inst).is_none() {
            e.c.keep(inst);
        }
    });
    do_drop_unused(k);
}

/// Appends to a block.
struct Expand<'k> {
    c: Cursor<'k>,
    /// Words of values that were made of words.
    words: &'k mut FxHashMap<Value, Words>,
}

impl Expand<'_> {
    /// Writes an instruction with words; `None` if there is no form for it.
    fn expand(&mut self, inst: Inst) -> Option<()> {
        let args = self.c.k.args(inst).to_vec();
        let results = self.c.k.results(inst).to_vec();
        if self.narrow_quotient(inst).is_some() {
            return Some(());
        }
        match (self.c.k.insts[inst].op.clone(), &results[..]) {
            (Op::Compare(cmp), &[result]) => self.compared(cmp, &args, result),
            (Op::Reduce(op, d), &[result]) => self.reduce(op, d, args[0], result),
            (Op::Split, &[one, other]) => self.split(args[0], [one, other]),
            (op, &[result]) => {
                let words = self.elements(&op, &args, result)?;
                self.packs(result, words);
                Some(())
            }
            _ => None,
        }
    }

    /// The words of a result with one element for each element.
    fn elements(&mut self, op: &Op, args: &[Value], result: Value) -> Option<Words> {
        let ty = self.c.k.ty(result);
        if !is_long(ty.elem()) {
            return None;
        }
        Some(match op {
            Op::Binary(op) => {
                let [x, y] = [self.words(args[0], ty), self.words(args[1], ty)];
                let signed = ty.elem().is_signed();
                match self.power_of_two(args[1]) {
                    Some(power) if matches!(op, BinOp::Div | BinOp::Rem) => {
                        self.by_power_of_two(*op, x, power, signed)
                    }
                    _ => self.binary(*op, x, y, signed)?,
                }
            }
            Op::Full => self.scalar_words(args[0], with_elem(ty, U32)),
            Op::Unary(UnOp::Not) => self.words(args[0], ty).map(|w| self.unary(UnOp::Not, w)),
            Op::Unary(UnOp::Neg) => self.negated(args[0], ty),
            Op::Unary(UnOp::Abs) if !ty.elem().is_signed() => self.words(args[0], ty),
            Op::Unary(UnOp::Abs) => {
                let (own, negated) = (self.words(args[0], ty), self.negated(args[0], ty));
                let zero = self.number(0, own[0]);
                let negative = self.compare(CmpOp::Lt, own, [zero; 2], true);
                self.choose(negative, negated, own)
            }
            Op::Select => {
                let [x, y] = [self.words(args[1], ty), self.words(args[2], ty)];
                self.choose(args[0], x, y)
            }
            Op::Trans(_) | Op::Broadcast | Op::ExpandDims(_) | Op::Reshape | Op::Slice(_) | Op::Rearrange => {
                self.own_words(args[0]).map(|w| self.like(op, &[w], result))
            }
            Op::Gather(_) => self.own_words(args[0]).map(|w| self.like(op, &[w, args[1]], result)),
            Op::Scan(op, d) => self.scan(*op, *d, args[0], result)?,
            Op::Join => {
                let [x, y] = [self.own_words(args[0]), self.own_words(args[1])];
                [0, 1].map(|n| self.like(op, &[x[n], y[n]], result))
            }
            _ => return None,
        })
    }

    fn compared(&mut self, cmp: CmpOp, args: &[Value], result: Value) -> Option<()> {
        let (ty, signed) = (self.c.k.ty(result), self.c.k.ty(args[0]).elem().is_signed());
        let [x, y] = [self.words(args[0], ty), self.words(args[1], ty)];
        let holds = self.compare(cmp, x, y, signed);
        self.becomes(result, holds)
    }

    fn split(&mut self, x: Value, results: [Value; 2]) -> Option<()> {
        let types = [with_elem(self.c.k.ty(results[0]), U32); 2];
        let [low, high] = self.own_words(x).map(|w| {
            let Cursor { k, block, loc } = &mut self.c;
            let made = k.append_inst(*block, Op::Split, &[w], &types, &[], *loc);
            k.results(made).to_vec()
        });
        results.into_iter().enumerate().for_each(|(n, r)| self.packs(r, [low[n], high[n]]));
        Some(())
    }

    fn binary(&mut self, op: BinOp, x: Words, y: Words, signed: bool) -> Option<Words> {
        Some(match op {
            BinOp::Add => self.sum(x, y),
            BinOp::Sub => self.difference(x, y),
            BinOp::Mul => self.product(x, y),
            BinOp::MulHi => self.high_product(x, y, signed),
            BinOp::And | BinOp::Or | BinOp::Xor => [0, 1].map(|n| self.c.op(op, x[n], y[n])),
            BinOp::Min | BinOp::Max => {
                let cmp = if op == BinOp::Min { CmpOp::Lt } else { CmpOp::Gt };
                let first = self.compare(cmp, x, y, signed);
                self.choose(first, x, y)
            }
            BinOp::Shl => {
                let n = self.amount(y);
                self.shifted_left(x, n)
            }
            BinOp::Shr => {
                let n = self.amount(y);
                self.shifted_right(x, n, signed)
            }
            BinOp::Div => self.quotient(x, y, signed).0,
            BinOp::Rem => self.quotient(x, y, signed).1,
            // Only scalars have it.
            BinOp::CeilDiv if self.c.k.ty(x[0]).shape().is_some() => return None,
            BinOp::CeilDiv => self.rounded_up(x, y, signed),
        })
    }

    fn sum(&mut self, x: Words, y: Words) -> Words {
        let low = self.c.op(BinOp::Add, x[0], y[0]);
        let carry = self.below(low, x[0]);
        let high = self.c.op(BinOp::Add, x[1], y[1]);
        [low, self.c.op(BinOp::Add, high, carry)]
    }

    fn difference(&mut self, x: Words, y: Words) -> Words {
        let low = self.c.op(BinOp::Sub, x[0], y[0]);
        let borrow = self.below(x[0], y[0]);
        let high = self.c.op(BinOp::Sub, x[1], y[1]);
        [low, self.c.op(BinOp::Sub, high, borrow)]
    }

    /// The product of two words, in two.
    fn whole_product(&mut self, x: Value, y: Value) -> Words {
        [self.c.op(BinOp::Mul, x, y), self.c.op(BinOp::MulHi, x, y)]
    }

    fn product(&mut self, x: Words, y: Words) -> Words {
        let [low, high] = self.whole_product(x[0], y[0]);
        let [a, b] = [(x[0], y[1]), (x[1], y[0])].map(|(x, y)| self.c.op(BinOp::Mul, x, y));
        let both = self.c.op(BinOp::Add, a, b);
        [low, self.c.op(BinOp::Add, high, both)]
    }

    /// The upper half of 128 bits: of words without signs, less the other factor for each negative one.
    fn high_product(&mut self, x: Words, y: Words, signed: bool) -> Words {
        let zero = self.number(0, x[0]);
        let carried = self.c.op(BinOp::MulHi, x[0], y[0]);
        let [a, b] = [(x[0], y[1]), (x[1], y[0])].map(|(x, y)| self.whole_product(x, y));
        let middle = self.sum([a[0], zero], [b[0], zero]);
        let middle = self.sum(middle, [carried, zero]);
        let top = self.whole_product(x[1], y[1]);
        let top = [a[1], b[1], middle[1]].into_iter().fold(top, |top, w| self.sum(top, [w, zero]));
        if !signed {
            return top;
        }
        [(x, y), (y, x)].into_iter().fold(top, |top, (of, other)| {
            let negative = self.compare(CmpOp::Lt, of, [zero; 2], true);
            let less = self.choose(negative, other, [zero; 2]);
            self.difference(top, less)
        })
    }

    fn negated(&mut self, x: Value, shape: Type) -> Words {
        let x = self.words(x, shape);
        let zero = self.number(0, x[0]);
        self.difference([zero; 2], x)
    }

    /// The number of bits to shift by in one word: 64 where it is more than a word holds.
    fn amount(&mut self, y: Words) -> Value {
        let [zero, most] = [0, 64].map(|n| self.number(n, y[0]));
        let large = self.c.compare(CmpOp::Ne, y[1], zero);
        self.c.select(large, most, y[0])
    }

    /// Words shifted by more than they have are 0, so that of `32 - n` and `n - 32` bits one gives nothing.
    fn shifted_left(&mut self, x: Words, n: Value) -> Words {
        let (from_low, beyond) = self.across(n);
        let parts = [(BinOp::Shl, x[1], n), (BinOp::Shr, x[0], from_low), (BinOp::Shl, x[0], beyond)];
        [self.c.op(BinOp::Shl, x[0], n), self.any_bits(parts)]
    }

    fn shifted_right(&mut self, x: Words, n: Value, signed: bool) -> Words {
        let (from_high, beyond) = self.across(n);
        let parts = [(BinOp::Shr, x[0], n), (BinOp::Shl, x[1], from_high)];
        if !signed {
            let low = self.any_bits([parts[0], parts[1], (BinOp::Shr, x[1], beyond)]);
            return [low, self.c.op(BinOp::Shr, x[1], n)];
        }
        // Of a signed word the sign is left.
        let near = self.any_bits(parts);
        let far = self.arithmetic_shift(x[1], beyond);
        let word = self.number(32, n);
        let is_near = self.c.compare(CmpOp::Lt, n, word);
        [self.c.select(is_near, near, far), self.arithmetic_shift(x[1], n)]
    }

    /// `32 - n` and `n - 32`.
    fn across(&mut self, n: Value) -> (Value, Value) {
        let word = self.number(32, n);
        (self.c.op(BinOp::Sub, word, n), self.c.op(BinOp::Sub, n, word))
    }

    fn any_bits<const N: usize>(&mut self, parts: [(BinOp, Value, Value); N]) -> Value {
        let parts = parts.map(|(op, x, n)| self.c.op(op, x, n));
        parts[1..].iter().fold(parts[0], |all, &part| self.c.op(BinOp::Or, all, part))
    }

    fn arithmetic_shift(&mut self, x: Value, n: Value) -> Value {
        let [x, n] = [x, n].map(|v| self.c.cast(v, Elem::I32));
        let shifted = self.c.op(BinOp::Shr, x, n);
        self.c.cast(shifted, U32)
    }

    fn compare(&mut self, cmp: CmpOp, x: Words, y: Words, signed: bool) -> Value {
        let (cmp, x, y) = match cmp {
            CmpOp::Gt => (CmpOp::Lt, y, x),
            CmpOp::Ge => (CmpOp::Le, y, x),
            other => (other, x, y),
        };
        let low = self.c.compare(cmp, x[0], y[0]);
        match cmp {
            CmpOp::Eq | CmpOp::Ne => {
                let high = self.c.compare(cmp, x[1], y[1]);
                self.c.op(if cmp == CmpOp::Eq { BinOp::And } else { BinOp::Or }, low, high)
            }
            _ => {
                let sign = if signed { Elem::I32 } else { U32 };
                let [a, b] = [x[1], y[1]].map(|w| self.c.cast(w, sign));
                let less = self.c.compare(CmpOp::Lt, a, b);
                let equal = self.c.compare(CmpOp::Eq, x[1], y[1]);
                let low = self.c.op(BinOp::And, equal, low);
                self.c.op(BinOp::Or, less, low)
            }
        }
    }

    /// The words of a tile, or of a scalar as a tile of this shape.
    fn words(&mut self, v: Value, shape: Type) -> Words {
        let ty = with_elem(shape, U32);
        if let Some(&known) = self.words.get(&v).filter(|_| matches!(self.c.k.ty(v), Type::Tile(..))) {
            return known;
        }
        let full = self.c.k.def(v).filter(|&d| matches!(self.c.k.insts[d].op, Op::Full));
        match (self.c.k.ty(v), full) {
            (Type::Scalar(_), _) => self.scalar_words(v, ty),
            (_, Some(full)) => self.scalar_words(self.c.k.args(full)[0], ty),
            _ => self.taken_apart(v),
        }
    }

    fn own_words(&mut self, v: Value) -> Words {
        self.words(v, self.c.k.ty(v))
    }

    /// The words of a scalar, as tiles of this shape, or as scalars.
    fn scalar_words(&mut self, v: Value, ty: Type) -> Words {
        if let Some(&known) = self.words.get(&v) {
            return known.map(|w| self.everywhere(w, ty));
        }
        if let Some(c) = self.c.k.int_const(v) {
            return [c, c >> 32].map(|c| self.full(i64::from(c as u32), ty));
        }
        let parts = match self.widened(v) {
            Some(parts) => parts,
            None => self.parts_of_scalar(v),
        };
        parts.map(|w| {
            let w = self.c.cast(w, U32);
            self.everywhere(w, ty)
        })
    }

    /// A scalar in every element of a tile, or itself.
    fn everywhere(&mut self, w: Value, ty: Type) -> Value {
        if ty.shape().is_some() { self.c.inst(Op::Full, &[w], ty) } else { w }
    }

    /// The number of 32 bits that a scalar was, and the word of its sign.
    fn widened(&mut self, v: Value) -> Option<[Value; 2]> {
        let cast = self.c.k.def(v).filter(|&d| matches!(self.c.k.insts[d].op, Op::Cast))?;
        let from = self.c.k.args(cast)[0];
        let sign = match self.c.k.ty(from) {
            Type::Scalar(Elem::Int(32)) => {
                let bits = self.c.inst(Op::Int(31), &[], Type::Scalar(Elem::I32));
                self.c.inst(Op::Binary(BinOp::Shr), &[from, bits], Type::Scalar(Elem::I32))
            }
            Type::Scalar(U32) => self.c.inst(Op::Int(0), &[], Type::Scalar(U32)),
            _ => return None,
        };
        Some([from, sign])
    }

    /// The words of a scalar that is no cast: loaded, computed, or an argument.
    fn parts_of_scalar(&mut self, v: Value) -> [Value; 2] {
        let ty = self.c.k.ty(v);
        let word = self.c.inst(Op::Int(32), &[], ty);
        [v, self.c.inst(Op::Binary(BinOp::Shr), &[v, word], ty)]
    }

    fn taken_apart(&mut self, v: Value) -> Words {
        let ty = self.c.k.ty(v);
        let word = self.full(32, ty);
        let above = self.c.inst(Op::Binary(BinOp::Shr), &[v, word], ty);
        [self.c.cast(v, U32), self.c.cast(above, U32)]
    }

    /// Lets an old result be made of these words.
    fn packs(&mut self, result: Value, words: Words) {
        self.words.insert(result, words);
        let ty = self.c.k.ty(result);
        if let Type::Scalar(elem) = ty {
            return self.packs_scalar(result, elem, words);
        }
        let [low, high] = words.map(|w| self.c.inst(Op::Cast, &[w], ty));
        let word = self.full(32, ty);
        let above = self.c.inst(Op::Binary(BinOp::Shl), &[high, word], ty);
        self.c.define(result, Op::Binary(BinOp::Or), &[above, low]);
    }

    /// A scalar has sums and products.
    fn packs_scalar(&mut self, result: Value, elem: Elem, words: Words) {
        let [low, high] = words.map(|w| self.c.inst(Op::Cast, &[w], LONG));
        let word = self.c.inst(Op::Int(1 << 32), &[], LONG);
        let above = self.c.inst(Op::Binary(BinOp::Mul), &[high, word], LONG);
        if elem.is_signed() {
            return self.c.define(result, Op::Binary(BinOp::Add), &[above, low]);
        }
        let both = self.c.inst(Op::Binary(BinOp::Add), &[above, low], LONG);
        self.c.define(result, Op::Cast, &[both]);
    }

    /// Lets an old result be what was made last.
    fn becomes(&mut self, result: Value, made: Value) -> Option<()> {
        let def = self.c.k.def(made)?;
        self.c.k.set_result(def, result);
        Some(())
    }

    /// The operation on words, with a result of the old one's shape.
    fn like(&mut self, op: &Op, args: &[Value], result: Value) -> Value {
        let ty = with_elem(self.c.k.ty(result), U32);
        self.c.inst(op.clone(), args, ty)
    }

    fn unary(&mut self, op: UnOp, x: Value) -> Value {
        let ty = self.c.k.ty(x);
        self.c.inst(Op::Unary(op), &[x], ty)
    }

    fn choose(&mut self, condition: Value, x: Words, y: Words) -> Words {
        [0, 1].map(|n| self.c.select(condition, x[n], y[n]))
    }

    /// 1 where `x < y`, else 0.
    fn below(&mut self, x: Value, y: Value) -> Value {
        let (less, [one, zero]) = (self.c.compare(CmpOp::Lt, x, y), [1, 0].map(|n| self.number(n, x)));
        self.c.select(less, one, zero)
    }

    /// A word in every element of a tile of the same shape.
    fn number(&mut self, n: i64, like: Value) -> Value {
        self.full(n, with_elem(self.c.k.ty(like), U32))
    }

    fn full(&mut self, n: i64, ty: Type) -> Value {
        self.c.constant(Op::Int(n), ty)
    }
}
