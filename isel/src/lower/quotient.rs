//! Quotients and remainders by a constant, without a division: ptxas expands each `div` and `rem` to about 15
//! instructions around a reciprocal, even by a power of two.
//!
//! ```text
//!  x / 8, x >= 0      x >> 3
//!  x / 8              (x + ((x >> 31) >>> 29)) >> 3
//!  x / 12, unsigned   mulhi(x, 0xAAAAAAAB) >> 3          m = 2^35 / 12, rounded up
//!  x % 12             x - (x / 12) 12
//! ```
//!
//! `m = floor(2^(32+s) / d) + 1` is too large by less than 1 of 2^(32+s) / d, and the floor of `x m / 2^(32+s)` is the
//! quotient while `x` times that error stays below 1/d (Granlund and Montgomery, "Division by Invariant Integers using
//! Multiplication", theorems 4.2 and 5.1).

use super::Lower;
use crate::Result;
use crate::tiles::equal_elements;
use smallvec::SmallVec;
use warplift_ir::machine::{self, Attr, IndexMap};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Value;

/// What a step reads.
#[derive(Clone, Copy, Debug)]
enum Arg {
    /// The dividend.
    Dividend,
    /// The result of the step of that number.
    Step(usize),
    Constant(i64),
}

/// Rows of two operands; the last one's result is the quotient or the remainder.
#[derive(Debug, Default)]
struct Steps(SmallVec<[(Opcode, Arg, Arg); 6]>);

impl Steps {
    fn push(&mut self, op: Opcode, a: Arg, b: Arg) -> Arg {
        self.0.push((op, a, b));
        Arg::Step(self.0.len() - 1)
    }

    /// The same with a constant, which is neutral if 0.
    fn with(&mut self, op: Opcode, a: Arg, by: i64) -> Arg {
        if by == 0 { a } else { self.push(op, a, Arg::Constant(by)) }
    }

    /// A quotient of numbers from 0 to below 2^`bits`, by `d` of at least 2 and below 2^`bits`.
    fn unsigned(&mut self, d: u64, bits: u32) -> Arg {
        use Arg::Dividend;
        if d.is_power_of_two() {
            return self.with(Opcode::ShrU32, Dividend, d.ilog2().into());
        }
        let (m, shift) = multiplier(d, bits);
        let high = self.push(Opcode::MulHiU32, Dividend, Arg::Constant(word(m)));
        if m < 1 << 32 {
            return self.with(Opcode::ShrU32, high, shift.into());
        }
        // The sum of `x` and what was multiplied may take 33 bits: it is halved first.
        let rest = self.push(Opcode::SubS32, Dividend, high);
        let half = self.push(Opcode::ShrU32, rest, Arg::Constant(1));
        let sum = self.push(Opcode::AddS32, half, high);
        self.with(Opcode::ShrU32, sum, i64::from(shift) - 1)
    }

    /// A quotient of signed numbers by `d` of 2 to below 2^31, rounded toward zero.
    fn signed(&mut self, d: u64) -> Arg {
        use Arg::Dividend;
        if d.is_power_of_two() {
            let sign = self.push(Opcode::ShrS32, Dividend, Arg::Constant(31));
            let below = self.with(Opcode::ShrU32, sign, 32 - i64::from(d.ilog2()));
            let sum = self.push(Opcode::AddS32, Dividend, below);
            return self.with(Opcode::ShrS32, sum, d.ilog2().into());
        }
        let (m, shift) = multiplier(d, 31);
        let mut high = self.push(Opcode::MulHiS32, Dividend, Arg::Constant(word(m)));
        if m >= 1 << 31 {
            high = self.push(Opcode::AddS32, high, Dividend);
        }
        let floor = self.with(Opcode::ShrS32, high, shift.into());
        let negative = self.push(Opcode::ShrU32, Dividend, Arg::Constant(31));
        self.push(Opcode::AddS32, floor, negative)
    }

    /// The last step's result, where `constant` and `row` make values in `l`.
    fn made<L, T: Clone>(
        &self,
        l: &mut L,
        dividend: T,
        constant: impl Fn(&mut L, i64) -> T,
        row: impl Fn(&mut L, Opcode, [T; 2]) -> T,
    ) -> T {
        let mut made: Vec<T> = Vec::with_capacity(self.0.len());
        for &(op, a, b) in &self.0 {
            let args = [a, b].map(|arg| match arg {
                Arg::Dividend => dividend.clone(),
                Arg::Step(n) => made[n].clone(),
                Arg::Constant(c) => constant(l, c),
            });
            made.push(row(l, op, args));
        }
        made.pop().expect("there is a step")
    }
}

/// The multiplier of numbers below 2^`bits`, of 33 bits at most, and by how much its high product is shifted.
fn multiplier(d: u64, bits: u32) -> (u64, u32) {
    let exact = |s: u32| {
        let power = 1u128 << (32 + s);
        let m = power / u128::from(d) + 1;
        ((m * u128::from(d) - power) << bits <= power).then_some((m as u64, s))
    };
    (0..=32).find_map(exact).expect("a shift of 32 is enough for 32 bits")
}

/// The low 32 bits, as registers hold them.
fn word(m: u64) -> i64 {
    i64::from(m as u32 as i32)
}

/// Whether a row divides signed numbers.
pub(super) fn is_signed_division(row: Opcode) -> bool {
    matches!(row, Opcode::DivS32 | Opcode::RemS32)
}

/// The steps of a quotient or remainder by a constant; `None` for other rows, for divisors of 0, 1 and -1, and for those of
/// 2^31 and beyond where dividends end before. A dividend may be known to be from 0 to below 2^31.
fn steps(row: Opcode, by: i64, below_half: bool) -> Option<Steps> {
    let signed = is_signed_division(row);
    let rest = matches!(row, Opcode::RemS32 | Opcode::RemU32);
    if !signed && !rest && row != Opcode::DivU32 {
        return None;
    }
    let by = if signed { i64::from(by as i32) } else { i64::from(by as u32) };
    let d = by.unsigned_abs();
    let bits = if signed || below_half { 31 } else { 32 };
    if d < 2 || d >= 1 << bits {
        return None;
    }
    let (mut steps, positive) = (Steps::default(), below_half || !signed);
    if rest && positive && d.is_power_of_two() {
        steps.with(Opcode::And, Arg::Dividend, d as i64 - 1);
        return Some(steps);
    }
    let quotient = if positive { steps.unsigned(d, bits) } else { steps.signed(d) };
    if rest {
        // It takes the dividend's sign, whatever the divisor's.
        let whole = steps.push(Opcode::MulS32, quotient, Arg::Constant(word(d)));
        steps.push(Opcode::SubS32, Arg::Dividend, whole);
    } else if by < 0 {
        steps.push(Opcode::SubS32, Arg::Constant(0), quotient);
    }
    Some(steps)
}

impl Lower<'_, '_> {
    /// A row of scalars; a quotient or a remainder by a constant in steps. A dividend may be known to be from 0 to below 2^31.
    pub(super) fn quotient(
        &mut self,
        row: Opcode,
        x: machine::Value,
        y: machine::Value,
        below_half: bool,
    ) -> machine::Value {
        let by = self.func.constant(y).filter(|_| self.plan.ways.quotients);
        let found = by.and_then(|by| steps(row, by, below_half));
        let of = |l: &mut Self, op, [a, b]: [machine::Value; 2]| l.at().int(op, a, b);
        match found.filter(|found| found.0.len() == 1 || !self.may_share(row, by)) {
            Some(steps) => steps.made(self, x, |l, c| l.at().imm(c), of),
            None => self.at().int(row, x, y),
        }
    }

    /// Whether the blocks of a cluster may share this quotient. Scheduling finds that by the division, or by a shift
    /// (`analysis::cluster`), and multicasts what is loaded there.
    fn may_share(&self, row: Opcode, by: Option<i64>) -> bool {
        let whole = by.is_some_and(|by| by % self.blocks as i64 == 0);
        self.blocks > 1 && whole && matches!(row, Opcode::DivS32 | Opcode::DivU32)
    }

    /// A quotient or a remainder of a tile by a constant; false if it is none.
    pub(super) fn tile_quotient(&mut self, result: Value, row: Opcode, args: &[Value]) -> Result<bool> {
        let by = equal_elements(self.k, args[1]).and_then(|by| self.k.int_const(by));
        let Some(by) = by.filter(|_| self.plan.ways.quotients) else { return Ok(false) };
        // Integers wrap, and a tile may hold any: nothing bounds its elements.
        let Some(steps) = steps(row, by, false) else { return Ok(false) };
        self.of_each(result, args[0], |l, x, regs| {
            let constant = |l: &mut Self, c| (l.at().imm(c), IndexMap::Whole);
            let of = |l: &mut Self, op, args: [_; 2]| (l.repeat(op, Attr::None, &args, regs), IndexMap::EACH);
            Ok(steps.made(l, x, constant, of).0)
        })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use warplift_ir::machine::fold;

    fn run(steps: &Steps, x: i32) -> i32 {
        let row = |(): &mut (), op, [a, b]: [i32; 2]| fold(op, a, b).expect("every row folds");
        steps.made(&mut (), x, |(), c| c as i32, row)
    }

    /// Every form of division of `x` by `d`, with a constant.
    fn check(x: i32, d: i32) {
        use Opcode::{DivS32, DivU32, RemS32, RemU32};
        for row in [DivS32, RemS32, DivU32, RemU32] {
            for below_half in [false, true] {
                if let Some(steps) = steps(row, d.into(), below_half)
                    && (x >= 0 || !below_half)
                {
                    assert_eq!(Some(run(&steps, x)), fold(row, x, d), "{row:?} of {x} by {d}, {steps:?}");
                }
            }
        }
    }

    #[test]
    fn small_divisors_and_the_ends_of_the_range() {
        let ends = [i32::MIN, i32::MIN + 1, -1, 0, 1, i32::MAX - 1, i32::MAX];
        for d in (-1030..1030).chain([i32::MAX, i32::MAX - 1, i32::MIN + 1, i32::MIN, 1 << 30, 641, 65537]) {
            let near = |x: i32| (-2..=2).map(move |by| x.wrapping_add(by));
            let multiples = ends.iter().filter_map(|x| x.checked_div(d).map(|q| q.wrapping_mul(d)));
            for x in ends.into_iter().chain(multiples).flat_map(near) {
                check(x, d);
            }
        }
    }

    #[test]
    fn quotients_take_few_rows() {
        for d in 2..4096 {
            let of = |row, below_half| steps(row, d, below_half).map_or(9, |s| s.0.len());
            assert!(of(Opcode::DivS32, true) <= 2, "{d}");
            assert!(of(Opcode::DivS32, false) <= 5, "{d}");
            assert!(of(Opcode::DivU32, false) <= 5, "{d}");
        }
    }

    proptest! {
        #[test]
        fn quotients_are_exact(x: i32, d: i32) {
            check(x, d);
        }
    }
}
