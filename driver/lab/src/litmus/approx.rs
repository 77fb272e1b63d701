//! The errors that the PTX ISA states for approximate instructions.
//!
//! Source: PTX ISA 8, "Notes" of each instruction's section, compared row by row with copies of that text:
//!
//! ```text
//!  rcp  9.7.3.13   1 ulp, full range            lg2   9.7.3.20  2^-22, absolute in (0.5, 2), else relative
//!  sqrt 9.7.3.15   2^-23 relative               ex2   9.7.3.21  2 ulp, full range
//!  rsqrt 9.7.3.16  2^-22.9 relative             tanh  9.7.3.22  2^-11 relative
//!  sin  9.7.3.18   2^-20.5 absolute to 2 pi,    tanh of halves  9.7.4.9   f16 2^-10.987, bf16 2^-8, absolute
//!  cos  9.7.3.19   2^-14.7 to 100 pi            ex2 of halves   9.7.4.10  f16 2^-9.9, bf16 2^-7, relative
//!  div  9.7.3.8    .full: 2 ulp, full range; .approx: 2 ulp for divisors of 2^-126 to 2^126, zero or NaN above
//! ```

/// A float format, for decoding what is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.f32`.
    F32,
    /// `.f16`, or both halves of `.f16x2`.
    F16,
    /// `.bf16`, or both halves of `.bf16x2`.
    Bf16,
    /// `.f64`.
    F64,
}

/// Bound on the distance of a result from the exact value.
#[derive(Clone, Copy, Debug)]
pub enum Error {
    /// Times the magnitude of the exact value.
    Relative(f64),
    /// As it is.
    Absolute(f64),
    /// Times the distance of neighbouring floats at the exact value.
    Ulp(f64),
}

/// The promise of the ISA for one instruction.
#[derive(Debug)]
pub struct Bound {
    /// First word of the opcode, or its first two.
    pub name: &'static str,
    /// Its type.
    pub format: Format,
    /// The exact function.
    pub exact: fn(f64, f64) -> f64,
    /// The error at these operands; `None` where none is stated.
    pub error: fn(f64, f64) -> Option<Error>,
}

use Error::{Absolute, Relative, Ulp};
use Format::{Bf16, F16, F32, F64};

/// 2 to a power that is no integer.
fn two(power: f64) -> f64 {
    power.exp2()
}

/// Stated up to 100 pi, and more tightly up to 2 pi.
fn trigonometric(x: f64, _: f64) -> Option<Error> {
    let pi = std::f64::consts::PI;
    match x.abs() {
        a if a <= 2.0 * pi => Some(Absolute(two(-20.5))),
        a if a <= 100.0 * pi => Some(Absolute(two(-14.7))),
        _ => None,
    }
}

fn logarithm(x: f64, _: f64) -> Option<Error> {
    Some(if x > 0.5 && x < 2.0 { Absolute(two(-22.0)) } else { Relative(two(-22.0)) })
}

/// A divisor whose reciprocal `div.approx` takes as zero.
fn is_great(b: f64) -> bool {
    b.is_finite() && b.abs() > two(126.0)
}

/// A product with a reciprocal, which is zero for great divisors.
fn quotient(a: f64, b: f64) -> f64 {
    if is_great(b) { a * 0f64.copysign(b) } else { a / b }
}

/// Not stated for divisors below the normal range.
fn quotient_error(_: f64, b: f64) -> Option<Error> {
    match b.abs() {
        _ if is_great(b) => Some(Absolute(0.0)),
        m if (two(-126.0)..=two(126.0)).contains(&m) => Some(Ulp(2.0)),
        _ => None,
    }
}

/// Stated as 2^-8; the hardware misses that by 2^-22 at 0.74609375, so it is a rounded number.
const TANH_BF16: f64 = 1.0001 / 256.0;

/// All approximate instructions.
pub static BOUNDS: &[Bound] = &[
    Bound { name: "ex2", format: F32, exact: |x, _| x.exp2(), error: |_, _| Some(Ulp(2.0)) },
    Bound { name: "ex2", format: F16, exact: |x, _| x.exp2(), error: |_, _| Some(Relative(two(-9.9))) },
    Bound { name: "ex2", format: Bf16, exact: |x, _| x.exp2(), error: |_, _| Some(Relative(two(-7.0))) },
    Bound { name: "lg2", format: F32, exact: |x, _| x.log2(), error: logarithm },
    Bound { name: "sin", format: F32, exact: |x, _| x.sin(), error: trigonometric },
    Bound { name: "cos", format: F32, exact: |x, _| x.cos(), error: trigonometric },
    Bound { name: "tanh", format: F32, exact: |x, _| x.tanh(), error: |_, _| Some(Relative(two(-11.0))) },
    Bound { name: "tanh", format: F16, exact: |x, _| x.tanh(), error: |_, _| Some(Absolute(two(-10.987))) },
    Bound { name: "tanh", format: Bf16, exact: |x, _| x.tanh(), error: |_, _| Some(Absolute(TANH_BF16)) },
    Bound { name: "rcp", format: F32, exact: |x, _| x.recip(), error: |_, _| Some(Ulp(1.0)) },
    Bound { name: "sqrt", format: F32, exact: |x, _| x.sqrt(), error: |_, _| Some(Relative(two(-23.0))) },
    Bound {
        name: "rsqrt",
        format: F32,
        exact: |x, _| x.sqrt().recip(),
        error: |_, _| Some(Relative(two(-22.9))),
    },
    Bound { name: "div.approx", format: F32, exact: quotient, error: quotient_error },
    Bound { name: "div.full", format: F32, exact: |a, b| a / b, error: |_, _| Some(Ulp(2.0)) },
];

impl Bound {
    /// The bound of an opcode; `None` for one that is exact.
    ///
    /// # Panics
    /// An approximate opcode without a row in [`BOUNDS`]: a gap in this table.
    pub fn of(opcode: &str) -> Option<&'static Self> {
        let mut words = opcode.split('.');
        let name = words.next()?;
        let how = opcode.split('.').find(|w| matches!(*w, "approx" | "full"))?;
        let format = match words.next_back()? {
            "f16" | "f16x2" => F16,
            "bf16" | "bf16x2" => Bf16,
            _ => F32,
        };
        let named = |b: &Self| b.name == name || b.name.split_once('.') == Some((name, how));
        let row = BOUNDS.iter().find(|b| named(b) && b.format == format);
        Some(row.unwrap_or_else(|| panic!("no error is stated for `{opcode}`")))
    }
}

impl Format {
    /// Bits of the mantissa that are stored, and exponent of the least normal number.
    const fn shape(self) -> (i32, i32) {
        match self {
            F32 => (23, -126),
            F16 => (10, -14),
            Bf16 => (7, -126),
            F64 => (52, -1022),
        }
    }

    /// The format of a type's name.
    pub(super) fn named(ty: &str) -> Option<Self> {
        Some(match ty {
            "f32" | "tf32" => F32,
            "f16" => F16,
            "bf16" => Bf16,
            "f64" => F64,
            _ => return None,
        })
    }

    /// The value of some bits.
    pub(super) fn decode(self, bits: u64) -> f64 {
        match self {
            F32 => f64::from(f32::from_bits(bits as u32)),
            F16 => half::f16::from_bits(bits as u16).to_f64(),
            Bf16 => half::bf16::from_bits(bits as u16).to_f64(),
            F64 => f64::from_bits(bits),
        }
    }

    fn largest(self) -> f64 {
        match self {
            F32 => f64::from(f32::MAX),
            F16 => half::f16::MAX.to_f64(),
            Bf16 => half::bf16::MAX.to_f64(),
            F64 => f64::MAX,
        }
    }

    /// Distance of neighbouring floats at a magnitude.
    fn ulp(self, x: f64) -> f64 {
        let (mantissa, least) = self.shape();
        let exponent = if x == 0.0 { least } else { (x.abs().log2().floor() as i32).max(least) };
        f64::from(exponent - mantissa).exp2()
    }

    fn least(self) -> f64 {
        f64::from(self.shape().1).exp2()
    }
}

/// Opcode, operands and result of one element of an approximate instruction.
pub struct Sample {
    /// Whether subnormal operands and results are zeros: `.ftz`.
    pub flush: bool,
    /// Bits of the operands.
    pub operands: [u64; 2],
    /// Bits of the result.
    pub found: u64,
}

impl Bound {
    /// The error as a part of what is allowed, at most 1 for a result that is good; `None` where
    /// nothing is stated, infinity where a result of another kind was due.
    pub fn share(&self, s: &Sample) -> Option<f64> {
        let f = self.format;
        let flushed = |x: f64| if s.flush && x.abs() < f.least() { 0.0 * x } else { x };
        let [a, b] = s.operands.map(|v| flushed(f.decode(v)));
        let error = (self.error)(a, b)?;
        let (exact, found) = ((self.exact)(a, b), f.decode(s.found));
        if exact.is_nan() || found.is_nan() {
            return Some(if exact.is_nan() && found.is_nan() { 0.0 } else { f64::INFINITY });
        }
        let allowed = match error {
            Relative(e) => e * exact.abs(),
            Absolute(e) => e,
            Ulp(n) => n * f.ulp(exact),
        };
        // Whatever is stated, a result lies on the grid of its format.
        let allowed = allowed.max(f.ulp(0.0));
        let overflows = exact.abs() + allowed > f.largest();
        let underflows = s.flush && exact.abs() - allowed < f.least();
        if exact.is_infinite() || found.is_infinite() {
            let same = found.is_infinite() && (found > 0.0) == (exact > 0.0);
            return Some(if same && overflows { 0.0 } else { f64::INFINITY });
        }
        if found == 0.0 && underflows {
            return Some(0.0);
        }
        Some((found - exact).abs() / allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(opcode: &str, operand: f32, found: f32) -> Option<f64> {
        let bound = Bound::of(opcode).expect("an approximation");
        let flush = opcode.contains(".ftz");
        let (operand, found) = (operand.to_bits().into(), found.to_bits().into());
        bound.share(&Sample { flush, operands: [operand, 0], found })
    }

    #[test]
    fn what_is_stated_is_asked() {
        assert_eq!(share("ex2.approx.f32", 3.0, 8.0), Some(0.0));
        assert!(share("ex2.approx.f32", 3.0, 8.0f32.next_up().next_up().next_up()).unwrap() > 1.0);
        assert!(share("ex2.approx.f32", 3.0, 8.0f32.next_up()).unwrap() <= 1.0);
        assert_eq!(share("ex2.approx.f32", 200.0, f32::INFINITY), Some(0.0));
        assert!(share("ex2.approx.f32", 200.0, f32::MAX).unwrap() > 1.0);
        assert_eq!(share("ex2.approx.ftz.f32", -130.0, 0.0), Some(0.0));
        assert!(share("ex2.approx.f32", -130.0, 0.0).unwrap() > 1.0);
        assert_eq!(share("lg2.approx.f32", -1.0, f32::NAN), Some(0.0));
        assert_eq!(share("lg2.approx.f32", 1.0, f32::NAN), Some(f64::INFINITY));
        assert_eq!(share("sin.approx.f32", 1e6, 0.3), None);
        assert!(Bound::of("add.rn.f32").is_none());
    }

    #[test]
    fn quotients_are_asked_by_their_kind() {
        let share = |opcode: &str, a: f32, b: f32, found: f32| {
            let bits = |x: f32| u64::from(x.to_bits());
            let bound = Bound::of(opcode).expect("an approximation");
            bound.share(&Sample { flush: false, operands: [bits(a), bits(b)], found: bits(found) })
        };
        let far = |x: f32| x.next_up().next_up().next_up();
        for opcode in ["div.approx.f32", "div.full.f32"] {
            assert_eq!(share(opcode, 6.0, 2.0, 3.0), Some(0.0), "{opcode}");
            assert!(share(opcode, 6.0, 2.0, far(3.0)).unwrap() > 1.0, "{opcode}");
        }
        // Divisors over 2^126, and subnormal ones.
        let (great, tiny) = (2f32.powi(127), f32::MIN_POSITIVE / 4.0);
        assert_eq!(share("div.approx.f32", great, great, 0.0), Some(0.0));
        assert!(share("div.approx.f32", great, great, 1.0).unwrap() > 1.0);
        assert_eq!(share("div.approx.f32", f32::INFINITY, great, f32::NAN), Some(0.0));
        assert_eq!(share("div.approx.f32", tiny, tiny, 7.0), None);
        assert_eq!(share("div.full.f32", great, great, 1.0), Some(0.0));
        assert!(share("div.full.f32", tiny, tiny, 7.0).unwrap() > 1.0);
    }
}
