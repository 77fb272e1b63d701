//! Elementwise integer, bit and logic instructions as scalar functions.

use super::inst::{LaneFn, Mods, Ty};

/// A machine integer that bits are read as.
pub(crate) trait Word: Copy + Ord {
    const BITS: u32;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn wide(self) -> i128;
    fn narrow(v: i128) -> Self;
    fn max_value() -> i128;
    fn min_value() -> i128;
}

macro_rules! word {
    ($($t:ty),*) => { $(
        impl Word for $t {
            const BITS: u32 = <$t>::BITS;
            fn of(bits: u64) -> Self { bits as $t }
            fn bits(self) -> u64 { self as u64 & (u64::MAX >> (64 - <$t>::BITS)) }
            fn wide(self) -> i128 { i128::from(self) }
            fn narrow(v: i128) -> Self { v as $t }
            fn max_value() -> i128 { i128::from(<$t>::MAX) }
            fn min_value() -> i128 { i128::from(<$t>::MIN) }
        }
    )* };
}
word!(u8, i8, u16, i16, u32, i32, u64, i64);

/// The function of the width and sign of a type.
macro_rules! by_type {
    ($ty:expr, $f:ident) => {
        match $ty {
            Ty::U(16) | Ty::B(16) => Some($f::<u16> as LaneFn),
            Ty::S(16) => Some($f::<i16> as LaneFn),
            Ty::U(32) | Ty::B(32) => Some($f::<u32> as LaneFn),
            Ty::S(32) => Some($f::<i32> as LaneFn),
            Ty::U(64) | Ty::B(64) => Some($f::<u64> as LaneFn),
            Ty::S(64) => Some($f::<i64> as LaneFn),
            _ => None,
        }
    };
}

fn clamp<T: Word>(v: i128, m: &Mods) -> u64 {
    let v = if m.sat { v.clamp(T::min_value(), T::max_value()) } else { v };
    T::narrow(v).bits()
}

fn add<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    clamp::<T>(T::of(x[0]).wide() + T::of(x[1]).wide(), m)
}

fn sub<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    clamp::<T>(T::of(x[0]).wide() - T::of(x[1]).wide(), m)
}

fn mul_lo<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    T::of(x[0].wrapping_mul(x[1])).bits()
}

fn product<T: Word>(x: &[u64; 4]) -> i128 {
    T::of(x[0]).wide().wrapping_mul(T::of(x[1]).wide())
}

/// `wrapping_mul` of two u64 can pass i128; the high half is right all the same modulo 2^128.
fn mul_hi<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    T::narrow(product::<T>(x) >> T::BITS).bits()
}

fn mul_wide<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    mask(product::<T>(x) as u64, 2 * T::BITS)
}

fn mad_lo<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    T::of(x[0].wrapping_mul(x[1]).wrapping_add(x[2])).bits()
}

fn mad_hi<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    let high = T::narrow(product::<T>(x) >> T::BITS).wide();
    clamp::<T>(high + T::of(x[2]).wide(), m)
}

fn mad_wide<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    mask((product::<T>(x) as u64).wrapping_add(x[2]), 2 * T::BITS)
}

/// Division by zero gives all ones, as the hardware's sequence does.
fn div<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    let (a, b) = (T::of(x[0]).wide(), T::of(x[1]).wide());
    if b == 0 {
        return T::narrow(-1).bits();
    }
    T::narrow(a / b).bits()
}

fn rem<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    let (a, b) = (T::of(x[0]).wide(), T::of(x[1]).wide());
    if b == 0 {
        return T::of(x[0]).bits();
    }
    T::narrow(a % b).bits()
}

fn min<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    relu::<T>(T::of(x[0]).min(T::of(x[1])), m)
}

fn max<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    relu::<T>(T::of(x[0]).max(T::of(x[1])), m)
}

fn relu<T: Word>(v: T, m: &Mods) -> u64 {
    if m.relu { v.max(T::of(0)).bits() } else { v.bits() }
}

fn neg<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    T::narrow(-T::of(x[0]).wide()).bits()
}

fn abs<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    T::narrow(T::of(x[0]).wide().abs()).bits()
}

fn sad<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    let d = (T::of(x[0]).wide() - T::of(x[1]).wide()).abs();
    T::narrow(d + T::of(x[2]).wide()).bits()
}

fn shl<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    let n = x[1] as u32;
    if n >= T::BITS { 0 } else { mask(x[0] << n, T::BITS) }
}

fn shr<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    let n = (x[1] as u32).min(T::BITS);
    T::narrow(T::of(x[0]).wide() >> n).bits()
}

fn popc<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    u64::from(T::of(x[0]).bits().count_ones())
}

fn clz<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    u64::from(T::of(x[0]).bits().leading_zeros() - (64 - T::BITS))
}

fn brev<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    T::of(x[0]).bits().reverse_bits() >> (64 - T::BITS)
}

/// Position of the first bit that differs from the sign; `op` 1 asks for the shift instead.
fn bfind<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    let v = T::of(x[0]).wide();
    let magnitude = if v < 0 { !v } else { v } as u64;
    if magnitude == 0 {
        return 0xffff_ffff;
    }
    let position = 63 - magnitude.leading_zeros();
    u64::from(if m.op == 1 { T::BITS - 1 - position } else { position })
}

fn bfe<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    let (pos, len) = ((x[1] & 0xff) as u32, (x[2] & 0xff) as u32);
    let value = T::of(x[0]);
    if len == 0 {
        return 0;
    }
    let bits = value.bits();
    let at = |i: u32| if i < T::BITS { bits >> i & 1 } else { 0 };
    let fill = if m.ty.signed() { at((pos.saturating_add(len) - 1).min(T::BITS - 1)) } else { 0 };
    (0..T::BITS).fold(0, |out, i| {
        let source = pos + i;
        let bit = if i < len && source < T::BITS { at(source) } else { fill };
        out | bit << i
    })
}

fn bfi<T: Word>(x: &[u64; 4], _: &Mods) -> u64 {
    let (a, b) = (T::of(x[0]).bits(), T::of(x[1]).bits());
    let (pos, len) = ((x[2] & 0xff) as u32, (x[3] & 0xff) as u32);
    if pos >= T::BITS || len == 0 {
        return b;
    }
    let field = mask(u64::MAX, len.min(64)) << pos;
    mask((b & !field) | ((a << pos) & field), T::BITS)
}

fn bmsk(x: &[u64; 4], _: &Mods) -> u64 {
    let (pos, len) = (x[0] as u32, x[1] as u32);
    if pos >= 32 {
        return 0;
    }
    mask(mask(u64::MAX, len.min(32)) << pos, 32)
}

fn mask(v: u64, bits: u32) -> u64 {
    if bits >= 64 { v } else { v & ((1 << bits) - 1) }
}

fn and(x: &[u64; 4], m: &Mods) -> u64 {
    mask(x[0] & x[1], m.ty.bits())
}

fn or(x: &[u64; 4], m: &Mods) -> u64 {
    mask(x[0] | x[1], m.ty.bits())
}

fn xor(x: &[u64; 4], m: &Mods) -> u64 {
    mask(x[0] ^ x[1], m.ty.bits())
}

fn not(x: &[u64; 4], m: &Mods) -> u64 {
    mask(!x[0], m.ty.bits())
}

fn cnot(x: &[u64; 4], m: &Mods) -> u64 {
    u64::from(mask(x[0], m.ty.bits()) == 0)
}

/// `mov`, and everything that hands bits through.
pub(crate) fn copy(x: &[u64; 4], m: &Mods) -> u64 {
    mask(x[0], m.ty.bits())
}

/// `selp`: the third operand is the predicate.
pub(crate) fn select(x: &[u64; 4], m: &Mods) -> u64 {
    mask(if x[2] != 0 { x[0] } else { x[1] }, m.ty.bits())
}

/// `slct`: by the sign of the third operand.
pub(crate) fn slct_s32(x: &[u64; 4], m: &Mods) -> u64 {
    mask(if x[2] as i32 >= 0 { x[0] } else { x[1] }, m.ty.bits())
}

/// `slct` by a float, where -0 counts as not negative and a NaN as negative.
pub(crate) fn slct_f32(x: &[u64; 4], m: &Mods) -> u64 {
    mask(if f32::from_bits(x[2] as u32) >= 0.0 { x[0] } else { x[1] }, m.ty.bits())
}

/// Bitwise function of three inputs; the fourth operand is its truth table.
pub(crate) fn lop3(x: &[u64; 4], _: &Mods) -> u64 {
    let out = (0..8).filter(|i| x[3] >> i & 1 == 1).fold(0, |out, i| {
        let pick = |v: u64, bit: u32| if i >> bit & 1 == 1 { v } else { !v };
        out | (pick(x[0], 2) & pick(x[1], 1) & pick(x[2], 0))
    });
    mask(out, 32)
}

/// `prmt` in its modes: 0 default, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16.
pub(crate) fn prmt(x: &[u64; 4], m: &Mods) -> u64 {
    let all = (x[1] & 0xffff_ffff) << 32 | (x[0] & 0xffff_ffff);
    let c = x[2];
    let s = (c & 3) as u32;
    (0..4u32).fold(0, |out, i| {
        let (index, sign) = match m.op {
            0 => ((c >> (4 * i) & 7) as u32, c >> (4 * i + 3) & 1 == 1),
            1 => (s + i, false),
            2 => ((s + 8 - i) & 7, false),
            3 => (s, false),
            4 => (s.max(i), false),
            5 => (s.min(i), false),
            _ => (2 * (s & 1) + (i & 1), false),
        };
        let byte = all >> (8 * index) & 0xff;
        let byte = match sign {
            true if byte & 0x80 != 0 => 0xff,
            true => 0,
            false => byte,
        };
        out | byte << (8 * i)
    })
}

/// Funnel shift; `op` bit 0 shifts right, bit 1 clamps the amount instead of wrapping it.
pub(crate) fn shf(x: &[u64; 4], m: &Mods) -> u64 {
    let all = (x[1] & 0xffff_ffff) << 32 | (x[0] & 0xffff_ffff);
    let n = if m.op & 2 != 0 { (x[2] as u32).min(32) } else { x[2] as u32 & 31 };
    if m.op & 1 == 1 { mask(all >> n, 32) } else { (all << n) >> 32 & 0xffff_ffff }
}

/// Dot product of four bytes; `op` bit 0: a signed, bit 1: b signed.
pub(crate) fn dp4a(x: &[u64; 4], m: &Mods) -> u64 {
    let byte = |v: u64, i: u32, signed: bool| {
        let b = (v >> (8 * i)) as u8;
        if signed { i64::from(b as i8) } else { i64::from(b) }
    };
    let sum = (0..4).fold(0i64, |s, i| s + byte(x[0], i, m.op & 1 != 0) * byte(x[1], i, m.op & 2 != 0));
    mask((sum as u64).wrapping_add(x[2]), 32)
}

/// 24-bit products: `op` 0 takes the low 32 bits of the 48, 1 the high 32.
fn mul24<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    let cut = |v: u64| {
        if m.ty.signed() { i128::from((v as i32) << 8 >> 8) } else { i128::from(v & 0xff_ffff) }
    };
    let p = cut(x[0]) * cut(x[1]);
    let p = if m.op == 1 { p >> 16 } else { p };
    mask((p as u64).wrapping_add(if m.wide { x[2] } else { 0 }), T::BITS)
}

fn compare<T: Word>(x: &[u64; 4], m: &Mods) -> u64 {
    let order = T::of(x[0]).cmp(&T::of(x[1]));
    u64::from(holds(m.op, Some(order)))
}

/// Comparison codes: bits 0 to 2 for less, equal, greater, bit 3 for unordered.
pub(crate) fn holds(code: u32, order: Option<std::cmp::Ordering>) -> bool {
    let bit = order.map_or(3, |o| (o as i8 + 1) as u32);
    code >> bit & 1 == 1
}

/// The function of an integer comparison.
pub(crate) fn compare_fn(ty: Ty) -> Option<LaneFn> {
    by_type!(ty, compare)
}

/// `mapa`: the same offset in the window of another block of the cluster.
pub(crate) fn mapa(x: &[u64; 4], _: &Mods) -> u64 {
    (x[0] & !0xff00_0000) | (x[1] & 0xff) << 24
}

/// `getctarank`.
pub(crate) fn ctarank(x: &[u64; 4], _: &Mods) -> u64 {
    x[0] >> 24 & 0xff
}

/// The elementwise integer instructions: name, operands, function by type. `mul` and `mad` are
/// listed under their modifier.
pub(crate) fn find(name: &str, ty: Ty) -> Option<(u8, LaneFn)> {
    let (n, f) = match name {
        "add" => (2, by_type!(ty, add)),
        "sub" => (2, by_type!(ty, sub)),
        "mul.lo" => (2, by_type!(ty, mul_lo)),
        "mul.hi" => (2, by_type!(ty, mul_hi)),
        "mul.wide" => (2, by_type!(ty, mul_wide)),
        "mad.lo" => (3, by_type!(ty, mad_lo)),
        "mad.hi" => (3, by_type!(ty, mad_hi)),
        "mad.wide" => (3, by_type!(ty, mad_wide)),
        "div" => (2, by_type!(ty, div)),
        "rem" => (2, by_type!(ty, rem)),
        "min" => (2, by_type!(ty, min)),
        "max" => (2, by_type!(ty, max)),
        "neg" => (1, by_type!(ty, neg)),
        "abs" => (1, by_type!(ty, abs)),
        "sad" => (3, by_type!(ty, sad)),
        "shl" => (2, by_type!(ty, shl)),
        "shr" => (2, by_type!(ty, shr)),
        "popc" => (1, by_type!(ty, popc)),
        "clz" => (1, by_type!(ty, clz)),
        "brev" => (1, by_type!(ty, brev)),
        "bfind" => (1, by_type!(ty, bfind)),
        "bfe" => (3, by_type!(ty, bfe)),
        "bfi" => (4, by_type!(ty, bfi)),
        "mul24" => (2, by_type!(ty, mul24)),
        "mad24" => (3, by_type!(ty, mul24)),
        "bmsk" => (2, Some(bmsk as LaneFn)),
        "and" => (2, Some(and as LaneFn)),
        "or" => (2, Some(or as LaneFn)),
        "xor" => (2, Some(xor as LaneFn)),
        "not" => (1, Some(not as LaneFn)),
        "cnot" => (1, Some(cnot as LaneFn)),
        _ => return None,
    };
    Some((n, f?))
}
