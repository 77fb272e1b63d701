//! Element types: what one number is. Sub-byte elements are packed with no gaps.

use std::fmt;

/// The type of one element of a tile, view or scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Elem {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// 19 significant bits of a binary32 container (8 exponent, 10 mantissa bits).
    Tf32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// A float of 3 to 8 bits: `f<1+e+m>e<e>m<m>`, as e4m3 or e2m1.
    Mini {
        /// Exponent bits.
        exponent: u8,
        /// Mantissa bits.
        mantissa: u8,
    },
    /// Signed integer of 1 to 64 bits.
    Int(u8),
    /// Unsigned integer of 1 to 64 bits.
    Uint(u8),
    /// Truth value.
    Bool,
}

impl Elem {
    /// 32-bit signed integer, the type of indices and sizes.
    pub const I32: Self = Self::Int(32);
    /// 64-bit signed integer.
    pub const I64: Self = Self::Int(64);
    /// Floats of 8 bits: to 448, one NaN and no infinity.
    pub const E4M3: Self = Self::Mini { exponent: 4, mantissa: 3 };
    /// Floats of 8 bits: the upper byte of an f16.
    pub const E5M2: Self = Self::Mini { exponent: 5, mantissa: 2 };

    /// Bits that one element occupies in memory; a [`Elem::Bool`] occupies 8.
    pub fn bits(self) -> u32 {
        match self {
            Self::F64 => 64,
            Self::F32 | Self::Tf32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::Mini { exponent, mantissa } => 1 + u32::from(exponent) + u32::from(mantissa),
            Self::Int(b) | Self::Uint(b) => u32::from(b),
            Self::Bool => 8,
        }
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        !matches!(self, Self::Int(_) | Self::Uint(_) | Self::Bool)
    }

    /// Whether this is an integer type ([`Elem::Bool`] is none).
    pub fn is_int(self) -> bool {
        matches!(self, Self::Int(_) | Self::Uint(_))
    }

    /// Whether arithmetic on it is signed (floats are).
    pub fn is_signed(self) -> bool {
        self.is_float() || matches!(self, Self::Int(_))
    }

    /// Reads the name that [`fmt::Display`] prints: `f16`, `f8e4m3`, `u4`, `bool`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "f64" => Self::F64,
            "f32" => Self::F32,
            "tf32" => Self::Tf32,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "bool" => Self::Bool,
            _ => return Self::from_sized_name(name),
        })
    }

    fn from_sized_name(name: &str) -> Option<Self> {
        let number = |s: &str| s.parse::<u8>().ok().filter(|_| !s.starts_with(['+', '0']));
        let width = |s: &str| number(s).filter(|b| (1..=64).contains(b));
        if let Some(b) = name.strip_prefix('i') {
            return width(b).map(Self::Int);
        }
        if let Some(b) = name.strip_prefix('u') {
            return width(b).map(Self::Uint);
        }
        let (bits, rest) = name.strip_prefix('f')?.split_once('e')?;
        let (e, m) = rest.split_once('m')?;
        let m = if m == "0" { 0 } else { number(m)? };
        let (bits, e) = (number(bits)?, number(e)?);
        let fits = (3..=8).contains(&bits) && u32::from(bits) == 1 + u32::from(e) + u32::from(m);
        fits.then_some(Self::Mini { exponent: e, mantissa: m })
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F64 => f.write_str("f64"),
            Self::F32 => f.write_str("f32"),
            Self::Tf32 => f.write_str("tf32"),
            Self::F16 => f.write_str("f16"),
            Self::Bf16 => f.write_str("bf16"),
            Self::Mini { exponent, mantissa } => {
                write!(f, "f{}e{exponent}m{mantissa}", self.bits())
            }
            Self::Int(b) => write!(f, "i{b}"),
            Self::Uint(b) => write!(f, "u{b}"),
            Self::Bool => f.write_str("bool"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        let mini = |exponent, mantissa| Elem::Mini { exponent, mantissa };
        for e in [
            Elem::F64,
            Elem::Tf32,
            Elem::Bf16,
            Elem::Int(4),
            Elem::Uint(64),
            Elem::Bool,
            mini(4, 3),
            mini(2, 0),
        ] {
            assert_eq!(Elem::from_name(&e.to_string()), Some(e));
        }
        for bad in ["f8", "f9e4m4", "f8e4m4", "i0", "i65", "u+1", "i07", "x", ""] {
            assert_eq!(Elem::from_name(bad), None, "{bad}");
        }
    }
}
