//! f64 arithmetic in every rounding, from exact results.
//!
//! A finite number is a mantissa of 126 bits with its top bit set, the last of which absorbs
//! whatever lies below it (rounding to odd), times a power of two. Products of f64 fit in 106 bits, so
//! that what a sum loses is always far below the 53 bits that the rounding looks at.

use super::float::Round;

/// Position of a mantissa's top bit.
const TOP: u32 = 125;

/// `man * 2^exp`, `man` zero or with its top bit at [`TOP`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    negative: bool,
    man: u128,
    exp: i32,
}

/// A shift to the right whose last bit keeps what is lost.
fn sticky(man: u128, by: u32) -> u128 {
    match by {
        0 => man,
        1..=127 => man >> by | u128::from(man & ((1 << by) - 1) != 0),
        _ => u128::from(man != 0),
    }
}

impl Exact {
    /// A finite f64.
    pub fn new(x: f64) -> Self {
        let (bits, field) = (x.to_bits(), x.to_bits() >> 52 & 0x7ff);
        let man = bits & ((1 << 52) - 1) | u64::from(field != 0) << 52;
        Self { negative: x.is_sign_negative(), man: man.into(), exp: field.max(1) as i32 - 1075 }.normal()
    }

    fn normal(self) -> Self {
        if self.man == 0 {
            return self;
        }
        let up = self.man.leading_zeros() as i32 - (127 - TOP as i32);
        let man = if up >= 0 { self.man << up } else { sticky(self.man, up.unsigned_abs()) };
        Self { man, exp: self.exp - up, ..self }
    }

    /// The product; exact for mantissas of f64.
    pub fn mul(self, other: Self) -> Self {
        // 53 bits each are left above this.
        let low = TOP - 52;
        let man = (self.man >> low) * (other.man >> low);
        let exp = self.exp + other.exp + 2 * low as i32;
        Self { negative: self.negative != other.negative, man, exp }.normal()
    }

    /// The sum.
    pub fn add(self, other: Self) -> Self {
        let (big, small) = match (self.man, other.man) {
            (_, 0) => return self,
            (0, _) => return other,
            _ if (self.exp, self.man) >= (other.exp, other.man) => (self, other),
            _ => (other, self),
        };
        let aligned = sticky(small.man, big.exp.abs_diff(small.exp));
        let same = big.negative == small.negative;
        let man = if same { big.man + aligned } else { big.man - aligned };
        Self { man, ..big }.normal()
    }

    /// The quotient by a number that is not zero.
    pub fn div(self, other: Self) -> Self {
        let divisor = other.man >> (TOP - 52);
        let (quotient, rest) = (self.man / divisor, self.man % divisor);
        // 72 bits of quotient and what is left.
        let man = quotient << 8 | u128::from(rest != 0);
        let exp = self.exp - other.exp - (TOP - 52) as i32 - 8;
        Self { negative: self.negative != other.negative, man, exp }.normal()
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.man == 0
    }

    /// The f64 in a direction; a zero is positive.
    pub fn round(self, round: Round) -> f64 {
        if self.is_zero() {
            return 0.0;
        }
        // Exponent of the last place that is kept: that of a normal number, or of the subnormals.
        let last = (self.exp + TOP as i32 - 52).max(-1074);
        let drop = (last - self.exp) as u32;
        let man = sticky(self.man, drop.saturating_sub(2));
        let (kept, rest) = (man >> 2, man & 3);
        let up = match round {
            Round::Even => rest > 2 || (rest == 2 && kept & 1 == 1),
            Round::Away => rest >= 2,
            Round::Zero => false,
            Round::Down => self.negative && rest != 0,
            Round::Up => !self.negative && rest != 0,
        };
        let kept = (kept + u128::from(up)) as u64;
        // A carry out of the mantissa raises the exponent field by itself.
        let field = u64::try_from(last + 1074).unwrap_or(0);
        let magnitude = kept + (field << 52);
        let most = f64::MAX.to_bits();
        let held = match round {
            Round::Zero => true,
            Round::Down => !self.negative,
            Round::Up => self.negative,
            Round::Even | Round::Away => false,
        };
        let bits = if magnitude <= most { magnitude } else { most + u64::from(!held) };
        f64::from_bits(bits | u64::from(self.negative) << 63)
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    /// Every value that the host's own rounding gives.
    #[test]
    fn nearest_is_the_hosts() {
        let mut random = Random::new(3);
        let mut next = || {
            let bits = random.next();
            let near = f64::from_bits(bits);
            let edge = f64::from_bits(bits & 0x800f_ffff_ffff_ffff | (bits >> 40 & 3) << 52);
            [near, edge, (bits % 1000) as f64 - 500.0][random.below(3)]
        };
        for _ in 0..100_000 {
            let [a, b, c] = [next(), next(), next()];
            if ![a, b, c].iter().all(|x| x.is_finite() && *x != 0.0) {
                continue;
            }
            let [x, y, z] = [a, b, c].map(Exact::new);
            assert_eq!(x.mul(y).round(Round::Even), a * b, "{a:e} * {b:e}");
            assert_eq!(x.add(y).round(Round::Even), a + b, "{a:e} + {b:e}");
            assert_eq!(x.div(y).round(Round::Even), a / b, "{a:e} / {b:e}");
            assert_eq!(x.mul(y).add(z).round(Round::Even), a.mul_add(b, c), "{a:e} * {b:e} + {c:e}");
        }
    }

    #[test]
    fn directions_bracket_the_nearest() {
        let third = Exact::new(1.0).div(Exact::new(3.0));
        let (down, up) = (third.round(Round::Down), third.round(Round::Up));
        assert_eq!(down.next_up(), up);
        assert_eq!(third.round(Round::Zero), down);
        let huge = Exact::new(f64::MAX).mul(Exact::new(-2.0));
        assert_eq!(huge.round(Round::Zero), -f64::MAX);
        assert_eq!(huge.round(Round::Down), f64::NEG_INFINITY);
        let tiny = Exact::new(f64::from_bits(1)).mul(Exact::new(0.25));
        assert_eq!((tiny.round(Round::Up).to_bits(), tiny.round(Round::Even).to_bits()), (1, 0));
    }
}
