//! Elementwise float instructions and conversions as scalar functions.
//!
//! Operations that the PTX ISA defines exactly are rounded once from the exact result;
//! approximations (`ex2.approx`, `rcp.approx`, ...) give the nearest value, which is inside every
//! error bound that the ISA states.

use super::float::{
    F32, F64, Format, Round, TF32, add_odd, direct, div_odd, fma_odd, int_odd, integral, mul_odd, sqrt_odd,
};
use super::inst::{LaneFn, Mods, Ty};
use super::lane_int::holds;
use super::wide::Exact;

/// Float operations, kept in [`Mods::op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Min,
    Max,
    Neg,
    Abs,
    Rcp,
    Sqrt,
    Rsqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
    Copysign,
    DivApprox,
}

/// Name, operands and operation.
const OPS: [(&str, u8, Op); 20] = [
    ("add", 2, Op::Add),
    ("sub", 2, Op::Sub),
    ("mul", 2, Op::Mul),
    ("fma", 3, Op::Fma),
    ("mad", 3, Op::Fma),
    ("div", 2, Op::Div),
    ("min", 2, Op::Min),
    ("max", 2, Op::Max),
    ("neg", 1, Op::Neg),
    ("abs", 1, Op::Abs),
    ("rcp", 1, Op::Rcp),
    ("sqrt", 1, Op::Sqrt),
    ("rsqrt", 1, Op::Rsqrt),
    ("ex2", 1, Op::Ex2),
    ("lg2", 1, Op::Lg2),
    ("sin", 1, Op::Sin),
    ("cos", 1, Op::Cos),
    ("tanh", 1, Op::Tanh),
    ("copysign", 2, Op::Copysign),
    ("div.approx", 2, Op::DivApprox),
];

/// Operations by code.
const CODES: [Op; 19] = [
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Fma,
    Op::Div,
    Op::Min,
    Op::Max,
    Op::Neg,
    Op::Abs,
    Op::Rcp,
    Op::Sqrt,
    Op::Rsqrt,
    Op::Ex2,
    Op::Lg2,
    Op::Sin,
    Op::Cos,
    Op::Tanh,
    Op::Copysign,
    Op::DivApprox,
];

/// Operands, function and code of a float instruction.
pub(crate) fn find(name: &str, m: &Mods) -> Option<(u8, LaneFn, u32)> {
    let (_, n, op) = OPS.iter().find(|(s, ..)| *s == name)?;
    let plain = !m.ftz && !m.sat && !m.relu && m.round == Round::Even;
    let f: LaneFn = match (m.ty, op) {
        (Ty::F(f), Op::Add) if f == F32 && plain => add_f32,
        (Ty::F(f), Op::Sub) if f == F32 && plain => sub_f32,
        (Ty::F(f), Op::Mul) if f == F32 && plain => mul_f32,
        (Ty::F(f), _) if f == F64 => wide,
        (Ty::F(_), _) => scalar,
        (Ty::F2(_), _) => packed,
        _ => return None,
    };
    Some((*n, f, *op as u32))
}

fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn back(x: f32) -> u64 {
    if x.is_nan() {
        return F32.nan();
    }
    u64::from(x.to_bits())
}

fn add_f32(x: &[u64; 4], _: &Mods) -> u64 {
    back(float(x[0]) + float(x[1]))
}

fn sub_f32(x: &[u64; 4], _: &Mods) -> u64 {
    back(float(x[0]) - float(x[1]))
}

fn mul_f32(x: &[u64; 4], _: &Mods) -> u64 {
    back(float(x[0]) * float(x[1]))
}

fn scalar(x: &[u64; 4], m: &Mods) -> u64 {
    match m.ty {
        Ty::F(f) => element(x, m, f),
        _ => 0,
    }
}

fn packed(x: &[u64; 4], m: &Mods) -> u64 {
    let Ty::F2(f) = m.ty else { return 0 };
    let w = f.width();
    let half = |i: u32| {
        let part = x.map(|v| v >> (w * i) & ((1 << w) - 1));
        element(&part, m, f) << (w * i)
    };
    half(0) | half(1)
}

fn flush(x: f64, f: Format, m: &Mods) -> f64 {
    let least = f.decode(1 << f.mantissa << f.shift);
    if m.ftz && x.abs() < least {
        return 0.0f64.copysign(x);
    }
    x
}

fn op_of(m: &Mods) -> Op {
    CODES.get(m.op as usize).copied().unwrap_or(Op::Add)
}

/// One operation in one format below f64.
fn element(x: &[u64; 4], m: &Mods, f: Format) -> u64 {
    let op = op_of(m);
    let sign = 1u64 << (f.width() - 1);
    match op {
        // A NaN becomes the canonical one, as in every other operation.
        Op::Neg if !m.ftz && !f.decode(x[0]).is_nan() => return x[0] ^ sign,
        Op::Abs if !m.ftz && !f.decode(x[0]).is_nan() => return x[0] & (sign - 1),
        Op::Copysign => return (x[1] & (sign - 1)) | (x[0] & sign),
        _ => {}
    }
    let v = |i: usize| flush(f.decode(x[i]), f, m);
    let operands = [v(0), v(1), v(2)];
    let r = compute(op, operands, m.nan);
    finish(cancelled(op, operands, r, m.round), m, f)
}

/// The exact result, rounded to odd, or the nearest f64 of an approximation.
fn compute(op: Op, [a, b, c]: [f64; 3], nan: bool) -> f64 {
    match op {
        Op::Add => add_odd(a, b),
        Op::Sub => add_odd(a, -b),
        Op::Mul => mul_odd(a, b),
        Op::Fma => fma_odd(a, b, c),
        Op::Div => div_odd(a, b),
        Op::Min => extreme(a, b, nan, true),
        Op::Max => extreme(a, b, nan, false),
        Op::Neg => -a,
        Op::Abs => a.abs(),
        Op::Rcp => div_odd(1.0, a),
        Op::Sqrt => sqrt_odd(a),
        Op::Rsqrt => 1.0 / a.sqrt(),
        Op::Ex2 => a.exp2(),
        Op::Lg2 => a.log2(),
        Op::Sin => a.sin(),
        Op::Cos => a.cos(),
        Op::Tanh => a.tanh(),
        Op::Copysign => b.copysign(a),
        // Times a reciprocal that is zero for great divisors (PTX ISA, "Floating point instructions: div").
        Op::DivApprox if b.is_finite() && b.abs() > 126f64.exp2() => a * 0f64.copysign(b),
        Op::DivApprox => div_odd(a, b),
    }
}

/// A sum of opposite terms that is exactly zero is -0 when rounding down, else +0 (IEEE 754, 6.3).
fn cancelled(op: Op, [a, b, c]: [f64; 3], r: f64, round: Round) -> f64 {
    let negative = |x: f64| x.is_sign_negative();
    let opposite = match op {
        Op::Add => negative(a) != negative(b),
        Op::Sub => negative(a) == negative(b),
        Op::Fma => (negative(a) != negative(b)) != negative(c),
        _ => false,
    };
    match round {
        _ if r != 0.0 || !opposite => r,
        Round::Down => -0.0,
        _ => 0.0,
    }
}

/// Minimum or maximum: a NaN loses unless `.NaN`; -0 is less than +0.
fn extreme(a: f64, b: f64, nan: bool, least: bool) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => return f64::NAN,
        (true, _) | (_, true) if nan => return f64::NAN,
        (true, false) => return b,
        (false, true) => return a,
        _ => {}
    }
    let a_first = a < b || (a == b && a.is_sign_negative());
    if a_first == least { a } else { b }
}

fn finish(r: f64, m: &Mods, f: Format) -> u64 {
    if m.relu && r <= 0.0 {
        return 0;
    }
    let r = match m.sat {
        true if r.is_nan() => 0.0,
        true => r.clamp(0.0, 1.0) + 0.0,
        false => r,
    };
    let bits = f.encode(r, m.round);
    if !m.ftz {
        return bits;
    }
    let flushed = flush(f.decode(bits), f, m);
    f.encode(flushed, Round::Even)
}

/// f64: finite results are exact until they are rounded; the others, and zeros, are the host's.
fn wide(x: &[u64; 4], m: &Mods) -> u64 {
    let operands = [0, 1, 2].map(|i| f64::from_bits(x[i]));
    let op = op_of(m);
    if let Some(exact) = exact(op, operands).filter(|e| !e.is_zero()) {
        return exact.round(m.round).to_bits();
    }
    let [a, b, c] = operands;
    let r = match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Fma => a.mul_add(b, c),
        Op::Div => a / b,
        Op::Rcp => a.recip(),
        Op::Sqrt => {
            let s = a.sqrt();
            direct(s, (-s).mul_add(s, a), m.round)
        }
        op => compute(op, operands, m.nan),
    };
    let r = cancelled(op, operands, r, m.round);
    if r.is_nan() { 0x7fff_ffff_ffff_ffff } else { r.to_bits() }
}

/// The exact result of finite operands; `None` where there is none, or no operation to round.
fn exact(op: Op, operands: [f64; 3]) -> Option<Exact> {
    if !operands.iter().all(|v| v.is_finite()) {
        return None;
    }
    let [a, b, c] = operands.map(Exact::new);
    match op {
        Op::Add => Some(a.add(b)),
        Op::Sub => Some(a.add(Exact::new(-operands[1]))),
        Op::Mul => Some(a.mul(b)),
        Op::Fma => Some(a.mul(b).add(c)),
        Op::Div if !b.is_zero() => Some(a.div(b)),
        Op::Rcp if !a.is_zero() => Some(Exact::new(1.0).div(a)),
        _ => None,
    }
}

/// `setp` and `set` on floats; `ty` is the type compared.
pub(crate) fn compare(x: &[u64; 4], m: &Mods) -> u64 {
    let Ty::F(f) = m.ty else { return 0 };
    let (a, b) = (flush(f.decode(x[0]), f, m), flush(f.decode(x[1]), f, m));
    u64::from(holds(m.op, a.partial_cmp(&b)))
}

/// `testp`: 0 finite, 1 infinite, 2 number, 3 not a number, 4 normal, 5 subnormal.
pub(crate) fn testp(x: &[u64; 4], m: &Mods) -> u64 {
    let Ty::F(f) = m.ty else { return 0 };
    let v = f.decode(x[0]);
    let least = f.decode(1 << f.mantissa << f.shift);
    u64::from(match m.op {
        0 => v.is_finite(),
        1 => v.is_infinite(),
        2 => !v.is_nan(),
        3 => v.is_nan(),
        // Zeros count as normal.
        4 => v.is_finite() && (v == 0.0 || v.abs() >= least),
        _ => v != 0.0 && v.abs() < least,
    })
}

/// `cvt` between two scalar types.
pub(crate) fn convert(x: &[u64; 4], m: &Mods) -> u64 {
    match (m.from, m.ty) {
        (Ty::F(s), Ty::F(d)) => float_to_float(x[0], s, d, m),
        (Ty::F(s), d) => float_to_int(flush(s.decode(x[0]), s, m), s, d, m),
        (s, Ty::F(d)) => finish_int(int_value(x[0], s), d, m),
        (s, d) => int_to_int(int_value(x[0], s), d, m.sat),
    }
}

fn float_to_float(bits: u64, s: Format, d: Format, m: &Mods) -> u64 {
    if d == TF32 && m.round == Round::Away && s.decode(bits).is_nan() {
        // `.rna` lets the upper 19 bits through: a payload that lies below them is lost.
        return bits & 0xffff_e000;
    }
    // `.ftz` is about f32 alone.
    let single = |f: Format| m.ftz && f == F32;
    let mut v = s.decode(bits);
    if single(s) {
        v = flush(v, s, m);
    }
    if m.integral {
        v = integral(v, m.round);
    }
    if m.relu && (v < 0.0 || (v == 0.0 && v.is_sign_negative())) {
        v = 0.0;
    }
    if m.sat {
        v = if v.is_nan() { 0.0 } else { v.clamp(0.0, 1.0) + 0.0 };
    }
    let out = if m.wide { d.encode_finite(v, m.round) } else { d.encode(v, m.round) };
    if single(d) { d.encode(flush(d.decode(out), d, m), Round::Even) } else { out }
}

/// A NaN gives 0, or the upper bit alone where one of the types has 64 bits (PTX ISA, `cvt`).
fn float_to_int(v: f64, s: Format, d: Ty, m: &Mods) -> u64 {
    let bits = d.bits();
    if v.is_nan() {
        return if s == F64 || bits == 64 { int_value(1 << (bits - 1), d) as u64 } else { 0 };
    }
    let v = integral(v, m.round);
    let (lo, hi) = int_range(d, bits);
    // Casts from float clamp in Rust, first to i128 and then to the type.
    let whole = (v as i128).clamp(lo, hi);
    int_value(whole as u64, d) as u64
}

fn int_range(d: Ty, bits: u32) -> (i128, i128) {
    if d.signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn low_mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

fn int_value(bits: u64, ty: Ty) -> i128 {
    let n = ty.bits();
    let v = bits & low_mask(n);
    if ty.signed() && v >> (n - 1) & 1 == 1 { i128::from(v) - (1 << n) } else { i128::from(v) }
}

fn finish_int(v: i128, d: Format, m: &Mods) -> u64 {
    let mut x = if d == F64 {
        let near = v as f64;
        let error = (v - near as i128).signum() as f64;
        direct(near, error, m.round)
    } else {
        int_odd(v)
    };
    if m.sat {
        x = x.clamp(0.0, 1.0);
    }
    d.encode(x, m.round)
}

/// The result keeps its sign over 64 bits: a signed result goes extended into a wider register.
fn int_to_int(v: i128, d: Ty, sat: bool) -> u64 {
    let (lo, hi) = int_range(d, d.bits());
    let v = if sat { v.clamp(lo, hi) } else { v };
    int_value(v as u64, d) as u64
}

/// `cvt` of two sources into a pair: the first goes into the upper half.
pub(crate) fn convert_pack(x: &[u64; 4], m: &Mods) -> u64 {
    let (Ty::F(s), Ty::F2(d)) = (m.from, m.ty) else {
        return 0;
    };
    let one = |v: u64| float_to_float(v, s, d, m);
    one(x[0]) << d.width() | one(x[1])
}

/// `cvt` of a pair into a pair.
pub(crate) fn convert_pair(x: &[u64; 4], m: &Mods) -> u64 {
    let (Ty::F2(s), Ty::F2(d)) = (m.from, m.ty) else {
        return 0;
    };
    let part = |i: u32| {
        let v = x[0] >> (s.width() * i) & low_mask(s.width());
        float_to_float(v, s, d, m) << (d.width() * i)
    };
    part(0) | part(1)
}

/// `cvt.pack.sat`: two integers to a pair, joined to a third operand's low bits.
pub(crate) fn convert_ints(x: &[u64; 4], m: &Mods) -> u64 {
    let one = |v: u64| int_to_int(int_value(v, m.from), m.ty, true) & low_mask(m.ty.bits());
    let bits = m.ty.bits();
    let pair = one(x[0]) << bits | one(x[1]);
    if m.op == 1 {
        return low_mask(32) & ((x[2] << (2 * bits)) | pair);
    }
    pair
}
