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
use crate::facts::is_never_negative;
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
        use Arg::{Dividend, Step};
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
        let sum = self.push(Opcode::AddS32, half, Step(0));
        self.with(Opcode::ShrU32, sum, i64::from(shift) - 1)
    }

    /// A quotient of signed numbers by `d` of 2 to 2^31, rounded toward zero.
    fn signed(&mut self, d: u64) -> Arg {
        use Arg::Dividend;
        if d.is_power_of_two() {
            let sign = self.with(Opcode::ShrS32, Dividend, 31);
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
        let negative = self.with(Opcode::ShrU32, Dividend, 31);
        self.push(Opcode::AddS32, floor, negative)
    }
}

/// The multiplier of numbers below 2^`bits`, of 33 bits at most, and by how much its high product is shifted.
fn multiplier(d: u64, bits: u32) -> (u64, u32) {
    let exact = |s: &u32| {
        let power = 1u128 << (32 + s);
        let m = power / u128::from(d) + 1;
        (m * u128::from(d) - power) << bits <= power
    };
    let shift = (0..32).find(exact).unwrap_or(32);
    (((1u128 << (32 + shift)) / u128::from(d)) as u64 + 1, shift)
}

/// The low 32 bits, as registers hold them.
fn word(m: u64) -> i64 {
    i64::from(m as u32 as i32)
}

/// The steps of a quotient or remainder by a constant; `None` for other rows, for 0 and for the least number. A dividend
/// may be known to be from 0 to below 2^31.
fn steps(row: Opcode, by: i64, natural: bool) -> Option<Steps> {
    let signed = matches!(row, Opcode::DivS32 | Opcode::RemS32);
    let by = if signed { i64::from(by as i32) } else { i64::from(by as u32) };
    let d = by.unsigned_abs();
    let bits = if signed || natural { 31 } else { 32 };
    if d < 2 || d >= 1 << bits {
        return None;
    }
    let mut steps = Steps::default();
    let quotient = match signed && !natural {
        true => steps.signed(d),
        false => steps.unsigned(d, bits),
    };
    match row {
        Opcode::DivS32 | Opcode::DivU32 if by > 0 => {}
        Opcode::DivS32 => _ = steps.push(Opcode::SubS32, Arg::Constant(0), quotient),
        // The remainder takes the dividend's sign.
        Opcode::RemS32 | Opcode::RemU32 if d.is_power_of_two() && (natural || !signed) => {
            steps = Steps::default();
            steps.push(Opcode::And, Arg::Dividend, Arg::Constant(d as i64 - 1));
        }
        Opcode::RemS32 | Opcode::RemU32 => {
            let whole = steps.push(Opcode::MulS32, quotient, Arg::Constant(word(d)));
            steps.push(Opcode::SubS32, Arg::Dividend, whole);
        }
        _ => return None,
    }
    Some(steps)
}

impl Lower<'_, '_> {
    /// A row of scalars; a quotient or a remainder by a constant in steps. A dividend may be known to be from 0 to below 2^31.
    /// Blocks of a cluster that share a quotient are found by its division.
    pub(super) fn quotient(
        &mut self,
        row: Opcode,
        x: machine::Value,
        y: machine::Value,
        natural: bool,
    ) -> machine::Value {
        let by = self.func.constant(y).filter(|by| self.blocks == 1 || by % self.blocks as i64 != 0);
        let of = |l: &mut Self, op, a, b| l.at().int(op, a, b);
        match by.and_then(|by| steps(row, by, natural)) {
            Some(steps) => self.taken(&steps, x, |l, c| l.at().imm(c), of),
            None => self.at().int(row, x, y),
        }
    }

    /// A quotient or a remainder of a tile by a constant; false if it is none.
    pub(super) fn tile_quotient(&mut self, result: Value, row: Opcode, args: &[Value]) -> Result<bool> {
        let by = equal_elements(self.k, args[1]).and_then(|by| self.k.int_const(by));
        let natural = is_never_negative(self.k, args[0]);
        let Some(steps) = by.and_then(|by| steps(row, by, natural)) else {
            return Ok(false);
        };
        self.of_each(result, args[0], |l, x, regs| {
            let constant = |l: &mut Self, c| (l.at().imm(c), IndexMap::Whole);
            let of = |l: &mut Self, op, a, b| (l.repeat(op, Attr::None, &[a, b], regs), IndexMap::EACH);
            Ok(l.taken(&steps, x, constant, of).0)
        })?;
        Ok(true)
    }

    /// The last step's result, each step made by `row`.
    fn taken<T: Clone>(
        &mut self,
        steps: &Steps,
        dividend: T,
        constant: impl Fn(&mut Self, i64) -> T,
        row: impl Fn(&mut Self, Opcode, T, T) -> T,
    ) -> T {
        let mut made: Vec<T> = Vec::with_capacity(steps.0.len());
        for &(op, a, b) in &steps.0 {
            let [a, b] = [a, b].map(|arg| match arg {
                Arg::Dividend => dividend.clone(),
                Arg::Step(n) => made[n].clone(),
                Arg::Constant(c) => constant(self, c),
            });
            made.push(row(self, op, a, b));
        }
        made.pop().expect("there is a step")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use warplift_ir::machine::fold;

    fn run(steps: &Steps, x: i32) -> i32 {
        let mut made = Vec::new();
        for &(op, a, b) in &steps.0 {
            let [a, b] = [a, b].map(|arg| match arg {
                Arg::Dividend => x,
                Arg::Step(n) => made[n],
                Arg::Constant(c) => c as i32,
            });
            made.push(fold(op, a, b).expect("every row folds"));
        }
        *made.last().expect("there is a step")
    }

    /// Every form of division of `x` by `d`, with a constant.
    fn check(x: i32, d: i32) {
        use Opcode::{DivS32, DivU32, RemS32, RemU32};
        for row in [DivS32, RemS32, DivU32, RemU32] {
            for natural in [false, true] {
                if let Some(steps) = steps(row, d.into(), natural)
                    && (x >= 0 || !natural)
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
            let of = |row, natural| steps(row, d, natural).map_or(9, |s| s.0.len());
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
