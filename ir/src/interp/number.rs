//! Numbers of every element type, and their bits in memory.
//!
//! A float of any type is kept as an f64, which holds all of them exactly (products and sums of two
//! floats of up to 24 significant bits too, so that rounding the f64 result once is the correctly
//! rounded result). An integer is kept as the i64 of its value; a u64 as its 64 bits.
//!
//! | type | exponent, mantissa | all-ones exponent |
//! |---|---|---|
//! | f32, tf32, f16, bf16, f8e5m2 | IEEE | infinity and NaN |
//! | f8e4m3 | 4, 3 | numbers; all ones is the only NaN, 448 the greatest number |
//! | other floats of 3 to 8 bits | as named | numbers; neither infinity nor NaN |
//!
//! Conversions to f8e5m2 saturate, as those to types without infinity do: its infinities are loaded only.
//!
//! A NaN of a type whose exponent of ones means NaN keeps its sign and payload: its mantissa stands at the top of the
//! f64's, and copies never convert it. What rounds makes the NaN of PTX, [`NAN`], which is all ones in every type.
//!
//! (OCP 8-bit Floating Point Specification, section 5; OCP Microscaling Formats, section 5.3.) tf32
//! stands in the upper 19 bits of 32; the lower 13 are ignored when read and zero when written.

use crate::types::Elem;

/// What arithmetic gives where it gives no number: the canonical NaN of PTX, positive with a mantissa of ones.
pub const NAN: f64 = f64::from_bits(0x7fff_ffff_ffff_ffff);

/// The greatest finite number of f8e5m2.
const E5M2_MAX: f64 = 57344.0;

/// A number of some element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of a float type.
    Float(f64),
    /// Of an integer type, or a truth value (0 or 1).
    Int(i64),
}

impl Number {
    /// The value as a float; 64-bit integers are rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Float(v) => v,
            Self::Int(v) => v as f64,
        }
    }

    /// The value as an integer; floats are rounded toward zero and saturate.
    pub fn as_i64(self) -> i64 {
        match self {
            Self::Float(v) => v as i64,
            Self::Int(v) => v,
        }
    }

    /// Whether it is not zero.
    pub fn is_true(self) -> bool {
        match self {
            Self::Float(v) => v != 0.0,
            Self::Int(v) => v != 0,
        }
    }
}

/// The meaning of the largest codes of a float type.
#[derive(Clone, Copy, PartialEq)]
enum Specials {
    /// An exponent of ones is infinity or NaN.
    Ieee,
    /// The code of ones is NaN.
    OneNan,
    /// All codes are numbers.
    None,
}

#[derive(Clone, Copy)]
struct Format {
    exponent: i32,
    mantissa: i32,
    specials: Specials,
}

/// The format of a float type but f64.
fn format(elem: Elem) -> Format {
    let (exponent, mantissa, specials) = match elem {
        Elem::F16 => (5, 10, Specials::Ieee),
        Elem::Bf16 => (8, 7, Specials::Ieee),
        Elem::Tf32 => (8, 10, Specials::Ieee),
        Elem::Mini { exponent, mantissa } => {
            let specials = match (exponent, mantissa) {
                (5, 2) => Specials::Ieee,
                (4, 3) => Specials::OneNan,
                _ => Specials::None,
            };
            (exponent.into(), mantissa.into(), specials)
        }
        _ => (8, 23, Specials::Ieee),
    };
    Format { exponent, mantissa, specials }
}

fn pow2(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

/// The exponent of a positive number: `floor(log2(x))`, -1023 for subnormals.
fn exponent_of(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Exponent of the least normal number and of subnormals.
    fn least(self) -> i32 {
        1 - self.bias()
    }

    /// The greatest finite number.
    fn max(self) -> f64 {
        let ieee = i32::from(self.specials == Specials::Ieee);
        let lost = 1 + i32::from(self.specials == Specials::OneNan);
        let exponent = (1 << self.exponent) - 1 - ieee - self.bias();
        (2.0 - f64::from(lost) * pow2(-self.mantissa)) * pow2(exponent)
    }

    /// The distance of neighbours around a positive number.
    fn quantum(self, x: f64) -> f64 {
        pow2(exponent_of(x).max(self.least()) - self.mantissa)
    }

    /// To nearest, ties to even. Too large numbers become infinity, or the greatest number where
    /// there is none; so does NaN where there is none.
    fn round(self, x: f64) -> f64 {
        if x.is_nan() {
            return match self.specials {
                Specials::None => self.max(),
                _ => NAN,
            };
        }
        let quantum = self.quantum(x.abs());
        let rounded = (x.abs() / quantum).round_ties_even() * quantum;
        let finite = match self.specials {
            Specials::Ieee if rounded > self.max() => f64::INFINITY,
            _ => rounded.min(self.max()),
        };
        finite.copysign(x)
    }

    /// The code of a number that is one of the format's.
    fn encode(self, x: f64) -> u64 {
        let sign = u64::from(x.is_sign_negative()) << (self.exponent + self.mantissa);
        let ones = (1u64 << self.exponent) - 1;
        let a = x.abs();
        let magnitude = if a.is_nan() {
            match self.specials {
                Specials::Ieee => (ones << self.mantissa) | self.payload(x),
                _ => (1 << (self.exponent + self.mantissa)) - 1,
            }
        } else if a.is_infinite() {
            ones << self.mantissa
        } else {
            let steps = (a / self.quantum(a)) as u64;
            let normal = steps >> self.mantissa != 0;
            let field = (exponent_of(a) + self.bias()) as u64;
            let base = if normal { (field - 1) << self.mantissa } else { 0 };
            base + steps
        };
        sign | magnitude
    }

    /// The mantissa of a NaN; ones where none of its bits stand at the top.
    fn payload(self, nan: f64) -> u64 {
        let kept = (nan.to_bits() & ((1 << 52) - 1)) >> (52 - self.mantissa);
        if kept == 0 { (1 << self.mantissa) - 1 } else { kept }
    }

    /// A NaN with this mantissa.
    fn nan(self, mantissa: u64) -> f64 {
        f64::from_bits(0x7ff << 52 | mantissa << (52 - self.mantissa))
    }

    fn decode(self, bits: u64) -> f64 {
        let mantissa = bits & ((1 << self.mantissa) - 1);
        let ones = (1u64 << self.exponent) - 1;
        let field = (bits >> self.mantissa) & ones;
        let negative = bits >> (self.exponent + self.mantissa) & 1 == 1;
        let all_ones = field == ones;
        let a = match self.specials {
            Specials::Ieee if all_ones && mantissa == 0 => f64::INFINITY,
            Specials::Ieee if all_ones => self.nan(mantissa),
            Specials::OneNan if all_ones && mantissa == (1 << self.mantissa) - 1 => NAN,
            _ if field == 0 => mantissa as f64 * pow2(self.least() - self.mantissa),
            _ => {
                let significand = (mantissa + (1 << self.mantissa)) as f64;
                significand * pow2(field as i32 - self.bias() - self.mantissa)
            }
        };
        if negative { -a } else { a }
    }
}

/// The nearest number of a float type, ties to even; see the module documentation for overflow and NaN.
pub fn round(elem: Elem, x: f64) -> f64 {
    match elem {
        Elem::F64 | Elem::F32 if x.is_nan() => NAN,
        Elem::F64 => x,
        Elem::F32 => f64::from(x as f32),
        _ => format(elem).round(x),
    }
}

/// What a conversion makes of a number: to f8e5m2 it saturates, though the type has infinities.
fn converted(elem: Elem, x: f64) -> f64 {
    match (elem, round(elem, x)) {
        (Elem::E5M2, rounded) if !rounded.is_nan() => rounded.clamp(-E5M2_MAX, E5M2_MAX),
        (_, rounded) => rounded,
    }
}

/// The integer's value in the type's range, by dropping high bits; a bool is 0 or 1.
pub fn wrap(elem: Elem, x: i128) -> i64 {
    let shift = 64 - elem.bits();
    match elem {
        Elem::Bool => i64::from(x != 0),
        Elem::Uint(_) => (((x as u64) << shift) >> shift) as i64,
        _ => ((x as i64) << shift) >> shift,
    }
}

/// The integer's mathematical value.
pub fn widen(elem: Elem, x: i64) -> i128 {
    match elem {
        Elem::Uint(_) => i128::from(x as u64),
        _ => i128::from(x),
    }
}

/// The bits of a number of this type, the lower [`Elem::bits`] of the result. Floats are rounded.
pub fn to_bits(elem: Elem, number: Number) -> u64 {
    // A NaN is not rounded: it keeps its payload.
    let rounded =
        |x: f64| if x.is_nan() && format(elem).specials != Specials::None { x } else { round(elem, x) };
    let bits = match elem {
        Elem::F64 => number.as_f64().to_bits(),
        Elem::F32 if !number.as_f64().is_nan() => u64::from((number.as_f64() as f32).to_bits()),
        Elem::Tf32 => format(elem).encode(rounded(number.as_f64())) << 13,
        e if e.is_float() => format(e).encode(rounded(number.as_f64())),
        _ => number.as_i64() as u64,
    };
    bits & (u64::MAX >> (64 - elem.bits()))
}

/// The number that these bits are.
pub fn from_bits(elem: Elem, bits: u64) -> Number {
    match elem {
        Elem::F64 => Number::Float(f64::from_bits(bits)),
        Elem::F32 if !f32::from_bits(bits as u32).is_nan() => {
            Number::Float(f32::from_bits(bits as u32).into())
        }
        Elem::Tf32 => Number::Float(format(elem).decode(bits >> 13)),
        e if e.is_float() => Number::Float(format(e).decode(bits)),
        Elem::Bool => Number::Int(i64::from(bits & 0xff != 0)),
        _ => Number::Int(wrap(elem, i128::from(bits as i64))),
    }
}

/// Conversion as [`crate::tile::Op::Cast`] says: floats to nearest even; floats to integers toward zero,
/// saturating, NaN to 0; integers wrap; anything to bool asks whether it is not zero.
pub fn cast(from: Elem, to: Elem, x: Number) -> Number {
    match x {
        _ if to == Elem::Bool => Number::Int(x.is_true().into()),
        Number::Float(v) if to.is_float() => Number::Float(converted(to, v)),
        Number::Float(v) => Number::Int(saturate(to, v)),
        Number::Int(v) if to == Elem::F64 => Number::Float(widen(from, v) as f64),
        Number::Int(v) if to.is_float() => Number::Float(converted(to, to_odd(widen(from, v)))),
        Number::Int(v) => Number::Int(wrap(to, widen(from, v))),
    }
}

fn saturate(to: Elem, x: f64) -> i64 {
    let bits = to.bits();
    let (least, most) = match to {
        Elem::Uint(_) => (0, (1i128 << bits) - 1),
        _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    };
    wrap(to, (x as i128).clamp(least, most))
}

/// An f64 that rounds to narrower floats as the integer does: inexact ones get an odd last bit.
fn to_odd(x: i128) -> f64 {
    let a = x.unsigned_abs();
    let shift = (128 - a.leading_zeros()).saturating_sub(53);
    let kept = a >> shift;
    let odd = kept | u128::from(kept << shift != a);
    let value = odd as f64 * pow2(shift as i32);
    if x < 0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back() {
        for (e, m) in [(2, 0), (2, 1), (3, 2), (2, 3), (4, 3), (5, 2), (3, 4), (1, 2), (7, 0)] {
            let elem = Elem::Mini { exponent: e, mantissa: m };
            for bits in 0..1u64 << elem.bits() {
                assert_eq!(to_bits(elem, from_bits(elem, bits)), bits, "{elem} {bits:#x}");
            }
        }
    }

    #[test]
    fn nans_keep_their_payloads_until_they_are_rounded() {
        for bits in 0..=u16::MAX {
            for elem in [Elem::F16, Elem::Bf16] {
                assert_eq!(to_bits(elem, from_bits(elem, bits.into())), u64::from(bits), "{elem} {bits:#x}");
            }
        }
        for bits in [0x7f80_0001, 0xffc1_2345, 0x7fff_ffff, 0xff80_0000, 0x8000_0000, 0x7f80_0100] {
            assert_eq!(to_bits(Elem::F32, from_bits(Elem::F32, bits)), bits, "{bits:#x}");
        }
        let quiet = 0x7ff8_0000_1234_5678;
        assert_eq!(to_bits(Elem::F64, from_bits(Elem::F64, quiet)), quiet);
        for (elem, canonical) in [(Elem::F32, 0x7fff_ffff), (Elem::F16, 0x7fff), (Elem::Bf16, 0x7fff)] {
            assert_eq!(to_bits(elem, Number::Float(round(elem, -f64::NAN))), canonical, "{elem}");
        }
    }

    #[test]
    fn f16_agrees_with_half() {
        for bits in 0..=u16::MAX {
            let (ours, half) = (from_bits(Elem::F16, bits.into()), half::f16::from_bits(bits));
            let bf = from_bits(Elem::Bf16, bits.into());
            assert!(ours == Number::Float(half.to_f64()) || half.is_nan());
            assert!(bf == Number::Float(half::bf16::from_bits(bits).to_f64()) || bf.as_f64().is_nan());
        }
        let mut x = 1u32;
        for _ in 0..200_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let f = f32::from_bits(x);
            if f.is_nan() {
                continue;
            }
            let ours = to_bits(Elem::F16, Number::Float(f.into()));
            assert_eq!(ours, u64::from(half::f16::from_f32(f).to_bits()), "{f}");
            let ours = to_bits(Elem::Bf16, Number::Float(f.into()));
            assert_eq!(ours, u64::from(half::bf16::from_f32(f).to_bits()), "{f}");
        }
    }

    #[test]
    fn f8_agrees_with_float8() {
        for bits in 0..=u8::MAX {
            let a = float8::F8E4M3::from_bits(bits).to_f64();
            let b = float8::F8E5M2::from_bits(bits).to_f64();
            let ours = |e| from_bits(e, bits.into()).as_f64();
            assert!(ours(Elem::E4M3) == a || a.is_nan() && ours(Elem::E4M3).is_nan(), "{bits:#x}");
            assert!(ours(Elem::E5M2) == b || b.is_nan() && ours(Elem::E5M2).is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn large_numbers_saturate_or_overflow() {
        assert_eq!(round(Elem::E4M3, 1e9), 448.0);
        assert_eq!(round(Elem::E4M3, -449.0), -448.0);
        assert_eq!(round(Elem::E5M2, 1e9), f64::INFINITY);
        assert_eq!(converted(Elem::E5M2, 1e9), 57344.0);
        assert_eq!(converted(Elem::E5M2, f64::NEG_INFINITY), -57344.0);
        assert!(converted(Elem::E5M2, f64::NAN).is_nan());
        assert_eq!(round(Elem::F16, 65520.0), f64::INFINITY);
        assert_eq!(round(Elem::F16, 65519.0), 65504.0);
        let e2m1 = Elem::Mini { exponent: 2, mantissa: 1 };
        assert_eq!(round(e2m1, f64::NEG_INFINITY), -6.0);
        assert_eq!(round(e2m1, f64::NAN), 6.0);
        assert!(round(Elem::E4M3, f64::NAN).is_nan());
    }

    #[test]
    fn casts_follow_their_rules() {
        let int = |f: Elem, t: Elem, v: i64| cast(f, t, Number::Int(v));
        assert_eq!(int(Elem::Int(32), Elem::Int(8), 200), Number::Int(-56));
        assert_eq!(int(Elem::Int(8), Elem::Uint(4), -1), Number::Int(15));
        assert_eq!(int(Elem::Uint(64), Elem::F32, -1), Number::Float(18446744073709551616.0));
        // 2^60 + 2^36 + 1 lies just above the middle of two f32.
        let tie = (1i64 << 60) + (1 << 36) + 1;
        assert_eq!(int(Elem::I64, Elem::F32, tie), Number::Float((tie as f32).into()));
        let float = |t: Elem, v: f64| cast(Elem::F32, t, Number::Float(v));
        assert_eq!(float(Elem::Int(8), -1e9), Number::Int(-128));
        assert_eq!(float(Elem::Uint(8), -1.5), Number::Int(0));
        assert_eq!(float(Elem::Uint(64), 1e30), Number::Int(-1));
        assert_eq!(float(Elem::Int(32), f64::NAN), Number::Int(0));
    }
}
