//! Quotients and remainders of 64-bit integers, with words.
//!
//! ```text
//!  y >= 2^32    (x / 2) / (upper word of y, shifted up)     at most 1 too much       one division of 64 bits by 32
//!  y <  2^32    x1 / y in the upper word, then (x1 % y, x0) / y                       the same one
//! ```
//!
//! A quotient by a power of two is a shift; a negative dividend is first moved by what is rounded toward zero.
//!
//! A division of 64 bits by 32 makes two digits of 16 bits, each by a division of words whose result is at most 2 too much
//! (Knuth, "The Art of Computer Programming" 2, algorithm D; Warren, "Hacker's Delight", `divlu` and `udivdi3`).

use super::{Expand, Words};
use warplift_ir::tile::{BinOp, CmpOp, UnOp, Value};

/// Bits of a digit.
const DIGIT: i64 = 16;

impl Expand<'_> {
    /// The quotient, rounded toward zero, and the remainder, which has the sign of the dividend.
    pub(super) fn quotient(&mut self, x: Words, y: Words, signed: bool) -> (Words, Words) {
        if !signed {
            return self.unsigned_quotient(x, y);
        }
        let [(a, x_negative), (b, y_negative)] = [x, y].map(|v| self.magnitude(v));
        let (quotient, rest) = self.unsigned_quotient(a, b);
        let differ = self.c.op(BinOp::Xor, x_negative, y_negative);
        let zero = self.number(0, x[0]);
        let [minus, minus_rest] = [quotient, rest].map(|v| self.difference([zero; 2], v));
        (self.choose(differ, minus, quotient), self.choose(x_negative, minus_rest, rest))
    }

    /// The quotient, rounded up: `(x - 1) / y + 1` of positive numbers, `(x + y - 1) / y` by a negative one. That of a negative
    /// dividend is rounded toward zero, which is up.
    pub(super) fn rounded_up(&mut self, x: Words, y: Words, signed: bool) -> Words {
        let [zero, one] = [0, 1].map(|n| self.number(n, x[0]));
        let [some, up] = [x, y].map(|v| self.compare(CmpOp::Gt, v, [zero; 2], signed));
        let less = self.difference(x, [one, zero]);
        let moved = self.sum(less, y);
        let moved = self.choose(up, less, moved);
        let dividend = self.choose(some, moved, x);
        let whole = self.quotient(dividend, y, signed).0;
        let next = self.sum(whole, [one, zero]);
        let both = self.c.op(BinOp::And, some, up);
        self.choose(both, next, whole)
    }

    /// The quotient by a power of two, or the remainder.
    pub(super) fn by_power_of_two(&mut self, op: BinOp, x: Words, power: u32, signed: bool) -> Words {
        let below = (1i64 << power) - 1;
        let below = [below, below >> 32].map(|n| self.number(i64::from(n as u32), x[0]));
        let bits = self.number(31, x[0]);
        let moved = if signed {
            let sign = self.arithmetic_shift(x[1], bits);
            let by = below.map(|w| self.c.op(BinOp::And, w, sign));
            self.sum(x, by)
        } else {
            x
        };
        if op == BinOp::Div {
            let by = self.number(i64::from(power), x[0]);
            return self.shifted_right(moved, by, signed);
        }
        let rest = below.map(|w| self.unary(UnOp::Not, w));
        let whole = [0, 1].map(|n| self.c.op(BinOp::And, moved[n], rest[n]));
        self.difference(x, whole)
    }

    /// A number without its sign, and whether it is negative.
    fn magnitude(&mut self, x: Words) -> (Words, Value) {
        let zero = self.number(0, x[0]);
        let negative = self.compare(CmpOp::Lt, x, [zero; 2], true);
        let minus = self.difference([zero; 2], x);
        (self.choose(negative, minus, x), negative)
    }

    fn unsigned_quotient(&mut self, x: Words, y: Words) -> (Words, Words) {
        let [zero, one, last] = [0, 1, 31].map(|n| self.number(n, x[0]));
        let long = self.c.compare(CmpOp::Ne, y[1], zero);
        // The first word of the divisor, with a one in front, and what follows it.
        let (first, second) = (self.c.select(long, y[1], y[0]), self.c.select(long, y[0], zero));
        let shift = self.zeros(first);
        let divisor = self.upper([second, first], shift);
        let low = self.c.op(BinOp::Max, y[0], one);
        let (above, rest) = (self.c.op(BinOp::Div, x[1], low), self.c.op(BinOp::Rem, x[1], low));
        let short = self.shifted_left([x[0], rest], shift);
        let half = self.shifted_right(x, one, false);
        let dividend = self.choose(long, half, short);
        let found = self.two_digits(dividend, divisor);
        // Of a long divisor the quotient was shifted up and the dividend halved; less one it is right or one too few.
        let back = self.c.op(BinOp::Sub, last, shift);
        let estimate = self.c.op(BinOp::Shr, found, back);
        let some = self.c.compare(CmpOp::Ne, estimate, zero);
        let less = self.c.op(BinOp::Sub, estimate, one);
        let estimate = self.c.select(some, less, estimate);
        let quotient = self.choose(long, [estimate, zero], [found, above]);
        self.settled(x, y, quotient)
    }

    /// A quotient that is right or one too few, made right, and the remainder.
    fn settled(&mut self, x: Words, y: Words, quotient: Words) -> (Words, Words) {
        let whole = self.product(quotient, y);
        let rest = self.difference(x, whole);
        let more = self.compare(CmpOp::Ge, rest, y, false);
        let [zero, one] = [0, 1].map(|n| self.number(n, x[0]));
        let (next, less) = (self.sum(quotient, [one, zero]), self.difference(rest, y));
        (self.choose(more, next, quotient), self.choose(more, less, rest))
    }

    /// The upper word of a number shifted up by less than a word.
    fn upper(&mut self, x: Words, by: Value) -> Value {
        self.shifted_left(x, by)[1]
    }

    /// Zeros in front of the first one of a word; 31 of 0.
    fn zeros(&mut self, x: Value) -> Value {
        let (mut x, mut count) = (x, self.number(0, x));
        for bits in [16, 8, 4, 2, 1] {
            let [by, least] = [bits, 1 << (32 - bits)].map(|n| self.number(n, x));
            let small = self.c.compare(CmpOp::Lt, x, least);
            let (shifted, more) = (self.c.op(BinOp::Shl, x, by), self.c.op(BinOp::Add, count, by));
            (x, count) = (self.c.select(small, shifted, x), self.c.select(small, more, count));
        }
        count
    }

    /// The quotient of two words by one that begins with a one and exceeds the upper word.
    fn two_digits(&mut self, x: Words, y: Value) -> Value {
        let [digit, mask] = [DIGIT, 0xffff].map(|n| self.number(n, y));
        let halves = [self.c.op(BinOp::Shr, y, digit), self.c.op(BinOp::And, y, mask)];
        let next = [self.c.op(BinOp::Shr, x[0], digit), self.c.op(BinOp::And, x[0], mask)];
        let high = self.digit(x[1], next[0], halves);
        let rest = self.less_digit(x[1], next[0], high, y);
        let low = self.digit(rest, next[1], halves);
        let high = self.c.op(BinOp::Shl, high, digit);
        self.c.op(BinOp::Add, high, low)
    }

    /// One digit: the estimate by the upper half of the divisor is at most 2 too much.
    fn digit(&mut self, x: Value, next: Value, [upper, lower]: [Value; 2]) -> Value {
        let (mut digit, mut rest) = (self.c.op(BinOp::Div, x, upper), self.c.op(BinOp::Rem, x, upper));
        let [bits, one, all] = [DIGIT, 1, 1 << DIGIT].map(|n| self.number(n, x));
        for _ in 0..2 {
            let product = self.c.op(BinOp::Mul, digit, lower);
            let left = self.c.op(BinOp::Shl, rest, bits);
            let left = self.c.op(BinOp::Or, left, next);
            let [long, more] = [(digit, all, CmpOp::Ge), (product, left, CmpOp::Gt)]
                .map(|(x, y, cmp)| self.c.compare(cmp, x, y));
            let any = self.c.op(BinOp::Or, long, more);
            let open = self.c.compare(CmpOp::Lt, rest, all);
            let wrong = self.c.op(BinOp::And, any, open);
            let (less, wider) = (self.c.op(BinOp::Sub, digit, one), self.c.op(BinOp::Add, rest, upper));
            (digit, rest) = (self.c.select(wrong, less, digit), self.c.select(wrong, wider, rest));
        }
        digit
    }

    /// What a digit leaves of the dividend, with its next digit. It fits a word.
    fn less_digit(&mut self, x: Value, next: Value, digit: Value, y: Value) -> Value {
        let bits = self.number(DIGIT, x);
        let moved = self.c.op(BinOp::Shl, x, bits);
        let moved = self.c.op(BinOp::Or, moved, next);
        let product = self.c.op(BinOp::Mul, digit, y);
        self.c.op(BinOp::Sub, moved, product)
    }
}
