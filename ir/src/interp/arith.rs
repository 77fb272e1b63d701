//! Arithmetic on numbers.
//!
//! Rounding, by operation: `+ - * /`, `sqrt` and casts are correctly rounded to the element type, to nearest even. The
//! functions `exp exp2 log log2 rsqrt rcp sin cos tanh erf` are computed in f64 and rounded once. `mma`, `reduce` and
//! `scan` sum (and multiply) floats in f64 in index order and round each result once: nearer to the true sum than any
//! machine's order. `min` and `max` take -0 as less than +0. A result that is no number is [`super::NAN`], as PTX has
//! it. Integers wrap; shifts of the type's width or more give 0, or the sign.

use super::number::{Number, round, widen, wrap};
use crate::tile::{BinOp, CmpOp, UnOp};
use crate::types::Elem;

/// Undefined behaviour of the IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("undefined: {0}")]
pub struct Undefined(pub &'static str);

pub(super) fn unary(op: UnOp, elem: Elem, x: Number) -> Number {
    match x {
        Number::Float(v) => Number::Float(round(elem, float_unary(op, v))),
        Number::Int(v) => {
            let v = widen(elem, v);
            let result = match op {
                UnOp::Neg => -v,
                UnOp::Abs => v.abs(),
                UnOp::Likely | UnOp::Unlikely => v,
                _ if elem == Elem::Bool => 1 - v,
                _ => !v,
            };
            Number::Int(wrap(elem, result))
        }
    }
}

fn float_unary(op: UnOp, x: f64) -> f64 {
    match op {
        UnOp::Neg => -x,
        UnOp::Abs => x.abs(),
        UnOp::Exp => x.exp(),
        UnOp::Exp2 => x.exp2(),
        UnOp::Log => x.ln(),
        UnOp::Log2 => x.log2(),
        UnOp::Sqrt => x.sqrt(),
        UnOp::Rsqrt => 1.0 / x.sqrt(),
        UnOp::Rcp => 1.0 / x,
        UnOp::Sin => x.sin(),
        UnOp::Cos => x.cos(),
        UnOp::Tanh => x.tanh(),
        UnOp::Erf => erf(x),
        // The verifier lets no float come here.
        UnOp::Not | UnOp::Likely | UnOp::Unlikely => f64::NAN,
    }
}

/// The error function, by a series whose terms have one sign, so that no digits cancel (Abramowitz and Stegun, Handbook
/// of Mathematical Functions, 7.1.6).
fn erf(x: f64) -> f64 {
    // From here on it is 1 in f64.
    const ONE: f64 = 6.0;
    if x.is_nan() || x.abs() >= ONE {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum) = (x, x);
    for n in 1.. {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        if term.abs() <= sum.abs() * f64::EPSILON / 4.0 {
            break;
        }
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

pub(super) fn binary(op: BinOp, elem: Elem, x: Number, y: Number) -> Result<Number, Undefined> {
    match (x, y) {
        (Number::Float(x), Number::Float(y)) => Ok(Number::Float(round(elem, float_binary(op, x, y)))),
        _ => {
            let [x, y] = [x, y].map(|n| widen(elem, n.as_i64()));
            int_binary(op, elem, x, y).map(|v| Number::Int(wrap(elem, v)))
        }
    }
}

/// Not yet rounded to the element type.
pub(super) fn float_binary(op: BinOp, x: f64, y: f64) -> f64 {
    match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::Div => x / y,
        BinOp::Min => extreme(x, y, true),
        BinOp::Max => extreme(x, y, false),
        // The verifier lets no float come here.
        _ => f64::NAN,
    }
}

/// A NaN gives the other operand; -0 is less than +0 (PTX ISA, `min` and `max`).
fn extreme(x: f64, y: f64, least: bool) -> f64 {
    match (x.is_nan(), y.is_nan()) {
        (true, _) => y,
        (_, true) => x,
        _ if (x.total_cmp(&y).is_lt()) == least => x,
        _ => y,
    }
}

/// Not yet wrapped to the element type.
pub(super) fn int_binary(op: BinOp, elem: Elem, x: i128, y: i128) -> Result<i128, Undefined> {
    let divides = matches!(op, BinOp::Div | BinOp::CeilDiv | BinOp::Rem);
    if divides && y == 0 {
        return Err(Undefined("an integer is divided by zero"));
    }
    let shift = y.clamp(0, 64) as u32;
    let beyond = !(0..i128::from(elem.bits())).contains(&y);
    Ok(match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x.wrapping_mul(y),
        // Of unsigned numbers the product may take all of 128 bits.
        BinOp::MulHi if !elem.is_signed() => ((x as u128).wrapping_mul(y as u128) >> elem.bits()) as i128,
        BinOp::MulHi => (x * y) >> elem.bits(),
        BinOp::Div => x / y,
        // For a negative quotient, rounding toward zero rounds up.
        BinOp::CeilDiv if x > 0 => (x + y - 1) / y,
        BinOp::CeilDiv => x / y,
        BinOp::Rem => x % y,
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::And => x & y,
        BinOp::Or => x | y,
        BinOp::Xor => x ^ y,
        BinOp::Shl if beyond => 0,
        BinOp::Shl => x << shift,
        BinOp::Shr if beyond && x < 0 => -1,
        BinOp::Shr if beyond => 0,
        BinOp::Shr => x >> shift,
    })
}

pub(super) fn compare(op: CmpOp, elem: Elem, x: Number, y: Number) -> bool {
    match (x, y) {
        (Number::Float(x), Number::Float(y)) => op.holds(&x, &y),
        _ => {
            let [x, y] = [x, y].map(|n| widen(elem, n.as_i64()));
            op.holds(&x, &y)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(op: BinOp, elem: Elem, x: i64, y: i64) -> Result<i64, Undefined> {
        binary(op, elem, Number::Int(x), Number::Int(y)).map(Number::as_i64)
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(int(BinOp::Add, Elem::Int(8), 127, 1), Ok(-128));
        assert_eq!(int(BinOp::Mul, Elem::Uint(64), -1, -1), Ok(1));
        assert_eq!(int(BinOp::Div, Elem::Uint(64), -1, 2), Ok(i64::MAX));
        assert_eq!(int(BinOp::Div, Elem::Int(64), i64::MIN, -1), Ok(i64::MIN));
        assert_eq!(int(BinOp::CeilDiv, Elem::I32, 7, 4), Ok(2));
        assert_eq!(int(BinOp::Rem, Elem::I32, -7, 4), Ok(-3));
        assert_eq!(int(BinOp::Shr, Elem::Int(4), -8, 9), Ok(-1));
        assert_eq!(int(BinOp::MulHi, Elem::I32, i32::MIN.into(), i32::MIN.into()), Ok(1 << 30));
        assert_eq!(int(BinOp::MulHi, Elem::I32, -1, 1), Ok(-1));
        assert_eq!(
            int(BinOp::MulHi, Elem::Uint(32), u32::MAX.into(), u32::MAX.into()),
            Ok(i64::from(-2i32 as u32))
        );
        assert_eq!(int(BinOp::MulHi, Elem::Int(64), i64::MIN, i64::MIN), Ok(1 << 62));
        assert_eq!(int(BinOp::MulHi, Elem::Uint(64), -1, -1), Ok(-2));
        assert!(int(BinOp::Rem, Elem::I32, 1, 0).is_err());
    }

    #[test]
    fn floats_round_once() {
        let sum = binary(BinOp::Add, Elem::F16, Number::Float(2048.0), Number::Float(1.0));
        assert_eq!(sum, Ok(Number::Float(2048.0)));
        let max = binary(BinOp::Max, Elem::F32, Number::Float(f64::NAN), Number::Float(1.0));
        assert_eq!(max, Ok(Number::Float(1.0)));
        for (x, y) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(float_binary(BinOp::Max, x, y).is_sign_positive(), "max({x}, {y})");
            assert!(float_binary(BinOp::Min, x, y).is_sign_negative(), "min({x}, {y})");
        }
        assert!(compare(CmpOp::Ne, Elem::F32, Number::Float(f64::NAN), Number::Float(1.0)));
        assert!(!compare(CmpOp::Le, Elem::F32, Number::Float(f64::NAN), Number::Float(1.0)));
        assert_eq!(unary(UnOp::Not, Elem::Bool, Number::Int(1)), Number::Int(0));
        assert_eq!(unary(UnOp::Not, Elem::Uint(4), Number::Int(5)), Number::Int(10));
    }
}
