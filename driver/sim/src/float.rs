//! Binary float formats and their roundings, independent of the host's own.
//!
//! Every conversion and every operation of a narrow type goes through one exact path: the exact
//! result is put into an f64 by *rounding to odd* (the last bit absorbs everything below it), which
//! a second rounding to any format of at most 51 bits cannot tell from the exact value (Boldo and
//! Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
//! odd").

/// Direction of a rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Round {
    /// Nearest, ties to even: `.rn`.
    #[default]
    Even,
    /// Nearest, ties away from zero: `.rna`.
    Away,
    /// Toward zero: `.rz`.
    Zero,
    /// Toward negative infinity: `.rm`.
    Down,
    /// Toward positive infinity: `.rp`.
    Up,
}

/// A format: bits of exponent and stored mantissa, and the meaning of its top exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub exponent: u32,
    pub mantissa: u32,
    /// Whether there are infinities (else the top exponent is finite but for one NaN).
    pub infinite: bool,
    /// Position of the last mantissa bit in the container (tf32 lies in the top of a b32).
    pub shift: u32,
}

const fn format(exponent: u32, mantissa: u32, infinite: bool, shift: u32) -> Format {
    Format { exponent, mantissa, infinite, shift }
}

pub(crate) const F16: Format = format(5, 10, true, 0);
pub(crate) const BF16: Format = format(8, 7, true, 0);
pub(crate) const TF32: Format = format(8, 10, true, 13);
pub(crate) const F32: Format = format(8, 23, true, 0);
pub(crate) const F64: Format = format(11, 52, true, 0);
pub(crate) const E4M3: Format = format(4, 3, false, 0);
pub(crate) const E5M2: Format = format(5, 2, true, 0);

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Bits of the format without its container's shift.
    pub const fn width(self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    /// Largest finite magnitude, as bits.
    pub const fn max_finite(self) -> u64 {
        let top = ((1u64 << self.exponent) - 1) << self.mantissa;
        if self.infinite { top - 1 } else { (top | ((1 << self.mantissa) - 1)) - 1 }
    }

    /// The canonical NaN that Hopper's instructions return.
    pub const fn nan(self) -> u64 {
        ((1u64 << (self.exponent + self.mantissa)) - 1) << self.shift
    }

    const fn sign(self) -> u64 {
        1 << (self.exponent + self.mantissa)
    }

    /// The value of some bits; exact, since every format here fits f64.
    pub fn decode(self, bits: u64) -> f64 {
        if self == F64 {
            return f64::from_bits(bits);
        }
        if self == F32 {
            return f64::from(f32::from_bits(bits as u32));
        }
        let bits = bits >> self.shift;
        let top = (1u64 << self.exponent) - 1;
        let e = (bits >> self.mantissa) & top;
        let m = bits & ((1 << self.mantissa) - 1);
        let negative = bits & self.sign() != 0;
        let magnitude = if e == top && self.infinite {
            if m == 0 { f64::INFINITY } else { f64::NAN }
        } else if !self.infinite && e == top && m == (1 << self.mantissa) - 1 {
            f64::NAN
        } else {
            self.finite(e, m)
        };
        if negative { -magnitude } else { magnitude }
    }

    fn finite(self, e: u64, m: u64) -> f64 {
        let unit = 1 - self.bias() - self.mantissa as i32;
        if e == 0 {
            return m as f64 * power_of_two(unit);
        }
        let whole = (1u64 << self.mantissa) | m;
        whole as f64 * power_of_two(unit + e as i32 - 1)
    }

    /// The bits of `x` after rounding. Overflow gives infinity, or the largest finite value where
    /// the direction or the format says so.
    pub fn encode(self, x: f64, round: Round) -> u64 {
        if self == F64 {
            return x.to_bits();
        }
        if x.is_nan() {
            return self.nan();
        }
        let sign = if x.is_sign_negative() { self.sign() } else { 0 };
        (sign | self.magnitude(x, round)) << self.shift
    }

    fn magnitude(self, x: f64, round: Round) -> u64 {
        let negative = x.is_sign_negative();
        let a = x.abs();
        if a == 0.0 {
            return 0;
        }
        if a.is_infinite() {
            return self.overflow(Round::Even, negative);
        }
        let bits = a.to_bits();
        let (mut exp, mut man) = ((bits >> 52) as i32 - 1023, bits & ((1 << 52) - 1));
        if exp == -1023 {
            exp = -1022;
        } else {
            man |= 1 << 52;
        }
        let least = 1 - self.bias();
        // Bits to drop: the difference in mantissa, more below the normal range.
        let drop = (52 - self.mantissa as i32) + (least - exp).max(0);
        if drop > 63 {
            man = u64::from(man != 0);
        }
        let kept = round_shift(man, drop.min(63) as u32, round, negative);
        let field = (exp - least).max(0) as u64;
        let out = if exp < least { kept } else { kept + (field << self.mantissa) };
        if out > self.max_finite() {
            return self.overflow(round, negative);
        }
        out
    }

    fn overflow(self, round: Round, negative: bool) -> u64 {
        let toward_zero = match round {
            Round::Zero => true,
            Round::Down => !negative,
            Round::Up => negative,
            Round::Even | Round::Away => false,
        };
        if toward_zero {
            self.max_finite()
        } else {
            // Infinity, or the only NaN of a format without infinities.
            self.max_finite() + 1
        }
    }

    /// Like [`Self::encode`], with magnitudes over the largest finite one held there.
    pub fn encode_finite(self, x: f64, round: Round) -> u64 {
        if x.is_nan() {
            return self.nan();
        }
        let bits = self.encode(x, round);
        let magnitude = (bits >> self.shift) & (self.sign() - 1);
        if magnitude > self.max_finite() {
            let sign = (bits >> self.shift) & self.sign();
            return (sign | self.max_finite()) << self.shift;
        }
        bits
    }
}

/// `man >> drop`, rounded; `drop` up to 63.
fn round_shift(man: u64, drop: u32, round: Round, negative: bool) -> u64 {
    if drop == 0 {
        return man;
    }
    let (kept, rest, half) = (man >> drop, man & ((1 << drop) - 1), 1u64 << (drop - 1));
    let up = match round {
        Round::Even => rest > half || (rest == half && kept & 1 == 1),
        Round::Away => rest >= half,
        Round::Zero => false,
        Round::Down => negative && rest != 0,
        Round::Up => !negative && rest != 0,
    };
    kept + u64::from(up)
}

fn power_of_two(e: i32) -> f64 {
    if e >= -1022 {
        f64::from_bits(((e + 1023).clamp(0, 2046) as u64) << 52)
    } else {
        f64::from_bits(1u64 << (e + 1074).clamp(0, 51))
    }
}

/// `x`, made odd in its last place when `error` (exact minus `x`) is not zero.
fn odd(x: f64, error: f64) -> f64 {
    if error == 0.0 || !x.is_finite() || error.is_nan() || x.to_bits() & 1 == 1 {
        return x;
    }
    // The exact value lies between x and its neighbour toward the error; the neighbour is odd.
    let outward = (error > 0.0) == (x > 0.0) || x == 0.0;
    let bits = x.to_bits();
    f64::from_bits(if outward { bits + 1 } else { bits - 1 })
}

/// `a + b` rounded to odd.
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let s = a + b;
    let bb = s - a;
    odd(s, (a - (s - bb)) + (b - bb))
}

/// `a * b` rounded to odd.
pub(crate) fn mul_odd(a: f64, b: f64) -> f64 {
    let p = a * b;
    odd(p, a.mul_add(b, -p))
}

/// `a * b + c` rounded to odd, for factors whose product is exact in f64 (up to f32).
pub(crate) fn fma_odd(a: f64, b: f64, c: f64) -> f64 {
    add_odd(a * b, c)
}

/// `a / b` rounded to odd.
pub(crate) fn div_odd(a: f64, b: f64) -> f64 {
    let q = a / b;
    let rest = (-q).mul_add(b, a);
    odd(q, if b < 0.0 { -rest } else { rest })
}

/// The square root rounded to odd.
pub(crate) fn sqrt_odd(a: f64) -> f64 {
    let r = a.sqrt();
    odd(r, (-r).mul_add(r, a))
}

/// An integer as f64, rounded to odd.
pub(crate) fn int_odd(v: i128) -> f64 {
    let magnitude = v.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = (magnitude >> excess) as u64;
    let lost = magnitude & ((1u128 << excess) - 1) != 0;
    let odd = kept | u64::from(lost);
    let x = odd as f64 * power_of_two(excess as i32);
    if v < 0 { -x } else { x }
}

/// An f64 result in the direction asked for, from the nearest value and the sign of its error.
pub(crate) fn direct(x: f64, error: f64, round: Round) -> f64 {
    if error == 0.0 || !x.is_finite() {
        return x;
    }
    match round {
        Round::Even | Round::Away => x,
        Round::Up if error > 0.0 => x.next_up(),
        Round::Down if error < 0.0 => x.next_down(),
        Round::Zero if x > 0.0 && error < 0.0 => x.next_down(),
        Round::Zero if x < 0.0 && error > 0.0 => x.next_up(),
        _ => x,
    }
}

/// The integer nearest to `x` in a direction.
pub(crate) fn integral(x: f64, round: Round) -> f64 {
    match round {
        Round::Even => x.round_ties_even(),
        Round::Away => x.round(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_a_narrow_format_survives() {
        for f in [F16, BF16, E4M3, E5M2] {
            for bits in 0..1u64 << f.width() {
                let x = f.decode(bits);
                if x.is_nan() {
                    assert_eq!(f.encode(x, Round::Even), f.nan());
                } else {
                    assert_eq!(f.encode(x, Round::Even), bits, "{f:?} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(E4M3.decode(0x7e), 448.0);
        assert_eq!(E4M3.encode(464.0, Round::Even), 0x7e);
        assert_eq!(E4M3.encode(465.0, Round::Even), 0x7f);
        assert_eq!(E4M3.encode_finite(1e9, Round::Even), 0x7e);
        assert_eq!(E4M3.encode_finite(f64::NEG_INFINITY, Round::Even), 0xfe);
        assert_eq!(E5M2.decode(0x7b), 57344.0);
        assert_eq!(E5M2.encode(f64::INFINITY, Round::Even), 0x7c);
        assert_eq!(F16.encode(65520.0, Round::Even), 0x7c00);
        assert_eq!(F16.encode(65520.0, Round::Zero), 0x7bff);
        assert_eq!(TF32.encode(1.0 + 1.0 / 2048.0, Round::Away), 0x3f80_2000);
        assert_eq!(TF32.encode(1.0 + 1.0 / 2048.0, Round::Even), 0x3f80_0000);
        assert_eq!(F32.encode(1e-45, Round::Up), 1);
        assert_eq!(F32.encode(1e-300, Round::Even), 0);
    }

    #[test]
    fn f32_rounding_agrees_with_the_host() {
        let mut x = 0x1234_5678_9abc_def1u64;
        for _ in 0..20_000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let d = f64::from_bits(x);
            if !d.is_nan() {
                let mine = F32.encode(d, Round::Even) as u32;
                assert_eq!(mine, (d as f32).to_bits(), "{d:e}");
            }
            let (a, b) = (f32::from_bits(x as u32), f32::from_bits((x >> 32) as u32));
            let sum = F32.encode(add_odd(f64::from(a), f64::from(b)), Round::Even) as u32;
            if !(a + b).is_nan() {
                assert_eq!(sum, (a + b).to_bits());
            }
            let q = F32.encode(div_odd(f64::from(a), f64::from(b)), Round::Even) as u32;
            if !(a / b).is_nan() {
                assert_eq!(q, (a / b).to_bits(), "{a:e} / {b:e}");
            }
        }
    }
}
