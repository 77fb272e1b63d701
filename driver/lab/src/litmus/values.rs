//! Operands that find mistakes: every pair of the ends of a type's ranges, then random ones.

use warplift_sim::random::Random;

/// Threads of a kernel that applies an instruction to operands: each has its own.
pub(super) const THREADS: usize = 1024;

/// Integers of any width: ends of ranges, signs, shift counts, single bits.
const INTEGERS: [u64; 24] = [
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    1 << 63,
    u64::MAX,
    0x0123_4567_89ab_cdef,
    0xaaaa_5555_f0f0_8181,
];

/// Zeros, ones, ends of the normal and subnormal numbers, infinities, NaNs, ties of every narrower
/// format, ends of the integers, range ends of e4m3, e5m2 and f16.
const F32: [u32; 30] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbfc0_0000,
    0x3dcc_cccd,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xff80_0001,
    0x477f_e000,
    0x477f_f000,
    0x43e0_0000,
    0x43e8_0000,
    0x4760_0000,
    0x4770_0000,
    0x4020_0000,
    0xc060_0000,
    0x3f00_0000,
    0x3380_0000,
    0x3f80_1000,
    0x3f80_8000,
    0xbf81_8000,
    0x4f00_0000,
    0xcf00_0000,
    0x5f80_0000,
];

const F16: [u16; 20] = [
    0, 0x8000, 0x3c00, 0xbe00, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfc01,
    0x3555, 0x4100, 0xc300, 0x5f00, 0x3801, 0x1400, 0xd800,
];

const BF16: [u16; 20] = [
    0, 0x8000, 0x3f80, 0xbfc0, 0x0001, 0x807f, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xff81,
    0x3eab, 0x4020, 0xc060, 0x43e0, 0x3f81, 0x3380, 0xcf00,
];

const F64: [u64; 22] = [
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbff8_0000_0000_0000,
    0x3fb9_9999_9999_999a,
    1,
    0x800f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff0_0000_0000_0001,
    0x47ef_ffff_e000_0000,
    0x47ef_ffff_f000_0000,
    0x3680_0000_0000_0000,
    0x3810_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0xc1e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x3ff0_0000_1000_0000,
];

/// What an operand's bits are read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    Integer,
    F32,
    F16,
    Bf16,
    F64,
    /// Every pair of codes of an 8-bit float.
    Bytes,
}

impl Domain {
    /// From the last type that an opcode names: its source's.
    pub fn of(opcode: &str) -> Self {
        match opcode.rsplit('.').next().unwrap_or("") {
            "f32" | "tf32" => Self::F32,
            "f16" | "f16x2" => Self::F16,
            "bf16" | "bf16x2" => Self::Bf16,
            "f64" => Self::F64,
            "e4m3x2" | "e5m2x2" => Self::Bytes,
            _ => Self::Integer,
        }
    }

    fn special(self, i: usize) -> Option<u64> {
        let pair = |list: &[u16]| {
            let at = |k: usize| u64::from(list[k % list.len()]);
            (i < list.len()).then(|| at(i) | at(i * 7 + 3) << 16)
        };
        match self {
            Self::Integer => INTEGERS.get(i).copied(),
            Self::F32 => F32.get(i).map(|v| u64::from(*v)),
            Self::F16 => pair(&F16),
            Self::Bf16 => pair(&BF16),
            Self::F64 => F64.get(i).copied(),
            Self::Bytes => None,
        }
    }

    fn specials(self) -> usize {
        (0..).take_while(|i| self.special(*i).is_some()).count()
    }

    /// Random: raw bits, or a float of a usual size.
    fn random(self, r: &mut Random) -> u64 {
        let (raw, usual) = (r.next(), !r.below(4).eq(&0));
        let near = |bits: u64, mantissa: u32, bias: u64, spread: u64| {
            let exponent = bias - spread / 2 + (bits >> 40) % spread;
            let low = (1 << mantissa) - 1;
            bits & low | exponent << mantissa
        };
        match self {
            Self::F32 if usual => near(raw, 23, 127, 24) | (raw >> 63) << 31,
            Self::F16 if usual => {
                let one = |b: u64| near(b, 10, 15, 14) | (b >> 63) << 15;
                one(raw) | one(raw.rotate_left(21)) << 16
            }
            Self::Bf16 if usual => {
                let one = |b: u64| near(b, 7, 127, 16) | (b >> 63) << 15;
                one(raw) | one(raw.rotate_left(21)) << 16
            }
            Self::F64 if usual => near(raw, 52, 1023, 40) | raw & 1 << 63,
            Self::Integer if usual => raw >> (raw & 63),
            _ => raw,
        }
    }

    /// One value a thread for operand number `operand`.
    pub fn values(self, operand: usize, seed: u64) -> Vec<u64> {
        let s = self.specials();
        let mut random = Random::new(seed.wrapping_add(operand as u64 * 977));
        let pairs = (s * s).min(THREADS * 3 / 4);
        let at = |i: usize| match operand {
            0 => i % s,
            1 => i / s,
            _ => (i * 7 + i / 3) % s,
        };
        let mut one = |i: usize| match self {
            Self::Bytes if operand == 0 => (i & 0xff | ((i * 37 + i / 256) & 0xff) << 8) as u64,
            _ if i < pairs => self.special(at(i)).unwrap_or(0),
            _ => self.random(&mut random),
        };
        (0..THREADS).map(&mut one).collect()
    }
}
