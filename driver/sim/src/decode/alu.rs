//! Elementwise instructions.

use super::super::ast::{Class, Operand, Register};
use super::super::inst::{BoolOp, Inst, LaneFn, Mods, PredSrc, Src, Ty};
use super::super::{lane_float, lane_int};
use super::{Decoder, Res};

/// Base of the generic window that holds shared memory.
use super::super::space::{GENERIC_CONST, GENERIC_LOCAL, GENERIC_PARAM, GENERIC_SHARED};

const NONE: Src = Src::Imm(0);

pub(super) fn decode(d: &mut Decoder<'_>, name: &str) -> Res<Option<Inst>> {
    Ok(Some(match name {
        "mov" => mov(d)?,
        "cvt" => cvt(d)?,
        "cvta" => cvta(d)?,
        "setp" => setp(d)?,
        "set" => set(d)?,
        "selp" => selp(d)?,
        "slct" => slct(d)?,
        "testp" => testp(d)?,
        "lop3" => lop3(d)?,
        "prmt" => prmt(d)?,
        "shf" => shf(d)?,
        "dp4a" => dp4a(d)?,
        "mapa" => mapa(d)?,
        "getctarank" => getctarank(d)?,
        "isspacep" => return d.error("`isspacep` is not simulated"),
        "and" | "or" | "xor" | "not" if d.has("pred") => pred_logic(d, name)?,
        "add" | "sub" | "addc" | "subc" | "mad" | "madc" if d.has("cc") || name.ends_with('c') => {
            carry(d, name)?
        }
        _ => return elementwise(d, name),
    }))
}

/// An elementwise instruction from its function and operand types.
fn lanes(d: &mut Decoder<'_>, f: LaneFn, m: Mods, types: &[Ty]) -> Res<Inst> {
    let dst = d.dst()?;
    let mut s = [NONE; 4];
    for (slot, ty) in s.iter_mut().zip(types) {
        *slot = d.src_as(*ty)?;
    }
    Ok(Inst::Lane { f, m, d: dst, s, n: types.len() as u8 })
}

fn elementwise(d: &mut Decoder<'_>, name: &str) -> Res<Option<Inst>> {
    let round = d.round();
    let mut m = Mods {
        round: round.unwrap_or_default(),
        ftz: d.take("ftz"),
        sat: d.take("sat"),
        relu: d.take("relu"),
        nan: d.take("NaN"),
        ..Mods::default()
    };
    let name = if name == "div" && d.take("approx") { "div.approx" } else { name };
    d.ignore(&["approx", "full", "noftz"]);
    if d.take("xorsign") || d.has("abs") && (name == "min" || name == "max") {
        return d.error("`.xorsign.abs` is not simulated");
    }
    let half = d.choice(&[("lo", ".lo"), ("hi", ".hi"), ("wide", ".wide")]);
    if d.take("shiftamt") {
        m.op = 1;
    }
    let ty = d.ty()?;
    m.ty = ty;
    m.wide = name == "mad24";
    let full = format!("{name}{}", half.unwrap_or(""));
    let int = if half.is_some() && name.ends_with("24") {
        m.op = u32::from(half == Some(".hi"));
        lane_int::find(name, ty)
    } else {
        lane_int::find(&full, ty)
    };
    if let Some((n, f)) = int {
        return lanes(d, f, m, &vec![int_operand(ty); usize::from(n)]).map(Some);
    }
    if half.is_some() {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    }
    match lane_float::find(name, &m) {
        Some((n, f, op)) => {
            m.op = op;
            lanes(d, f, m, &vec![ty; usize::from(n)]).map(Some)
        }
        None => Ok(None),
    }
}

fn int_operand(ty: Ty) -> Ty {
    match ty {
        Ty::U(b) | Ty::S(b) | Ty::B(b) => Ty::B(b),
        other => other,
    }
}

fn mov(d: &mut Decoder<'_>) -> Res<Inst> {
    let ty = d.ty()?;
    if ty == Ty::Pred {
        let dst = pred_result(d)?;
        let s = d.boolean()?;
        return Ok(Inst::PredMov { d: dst, s, neg: false });
    }
    if let Some(Operand::Vector(parts)) = d.peek() {
        d.operand()?;
        let dsts = parts.iter().map(|o| d.dst_or_sink(o)).collect::<Res<Vec<_>>>()?;
        let bits = part_bits(d, ty, parts.len())?;
        return Ok(Inst::Unpack { d: dsts, s: d.src()?, bits });
    }
    let dst = d.dst()?;
    if let Some(Operand::Vector(parts)) = d.peek() {
        d.operand()?;
        let bits = part_bits(d, ty, parts.len())?;
        let parts = d.srcs(parts, Ty::B(64))?;
        return Ok(Inst::Pack { d: dst, parts, bits });
    }
    let m = Mods { ty, ..Mods::default() };
    let s = [d.src_as(ty)?, NONE, NONE, NONE];
    Ok(Inst::Lane { f: lane_int::copy, m, d: dst, s, n: 1 })
}

fn part_bits(d: &Decoder<'_>, ty: Ty, parts: usize) -> Res<u32> {
    match (ty.bits(), parts) {
        (bits, n @ (2 | 4)) if bits / n as u32 >= 8 => Ok(bits / n as u32),
        _ => d.error("`mov` splits b16, b32 or b64 into 2 or 4"),
    }
}

fn pred_result(d: &mut Decoder<'_>) -> Res<u32> {
    match d.pred_dst()? {
        Some(p) => Ok(p),
        None => d.error("the result cannot be `_`"),
    }
}

fn pred_logic(d: &mut Decoder<'_>, name: &str) -> Res<Inst> {
    d.take("pred");
    let dst = pred_result(d)?;
    let a = d.boolean()?;
    let op = match name {
        "not" => {
            return Ok(Inst::PredMov { d: dst, s: a, neg: true });
        }
        "and" => BoolOp::And,
        "or" => BoolOp::Or,
        _ => BoolOp::Xor,
    };
    let b = d.boolean()?;
    Ok(Inst::PredOp { d: dst, op, a, b })
}

/// Comparison codes: less 1, equal 2, greater 4, unordered 8.
const COMPARISONS: [(&str, u32); 18] = [
    ("eq", 2),
    ("ne", 5),
    ("lt", 1),
    ("le", 3),
    ("gt", 4),
    ("ge", 6),
    ("lo", 1),
    ("ls", 3),
    ("hi", 4),
    ("hs", 6),
    ("equ", 10),
    ("neu", 13),
    ("ltu", 9),
    ("leu", 11),
    ("gtu", 12),
    ("geu", 14),
    ("num", 7),
    ("nan", 8),
];

fn comparison(d: &mut Decoder<'_>) -> Res<(Mods, LaneFn, Option<BoolOp>)> {
    let Some(op) = d.choice(&COMPARISONS) else {
        return d.error(format!("`{}` names no comparison", d.opcode()));
    };
    let combine = bool_op(d);
    let mut m = Mods { op, ftz: d.take("ftz"), ..Mods::default() };
    m.from = if d.words.first().is_some_and(|w| w.0 == "set") { d.ty()? } else { Ty::Pred };
    m.ty = d.ty()?;
    let f = match m.ty {
        Ty::F(_) => lane_float::compare as LaneFn,
        ty => match lane_int::compare_fn(ty) {
            Some(f) => f,
            None => return d.error(format!("`{}` compares no such type", d.opcode())),
        },
    };
    Ok((m, f, combine))
}

fn bool_op(d: &mut Decoder<'_>) -> Option<BoolOp> {
    d.choice(&[("and", BoolOp::And), ("or", BoolOp::Or), ("xor", BoolOp::Xor)])
}

fn setp(d: &mut Decoder<'_>) -> Res<Inst> {
    let (m, f, combine) = comparison(d)?;
    let dst = match d.operand()? {
        Operand::Pair(p) => [d.pred_dst_of(&p.0)?, d.pred_dst_of(&p.1)?],
        o => [d.pred_dst_of(o)?, None],
    };
    let s = [d.src_as(m.ty)?, d.src_as(m.ty)?];
    let combine = match combine {
        Some(op) => Some((op, d.boolean()?)),
        None => None,
    };
    Ok(Inst::SetP { f, m, d: dst, s, combine })
}

/// `set` without a boolean: all ones or 1.0.
fn set(d: &mut Decoder<'_>) -> Res<Inst> {
    let (m, _, combine) = comparison(d)?;
    if combine.is_some() {
        return d.error("`set` with a boolean operand is not simulated");
    }
    let f = match m.ty {
        Ty::F(_) => set_float,
        Ty::S(32) => set_s32,
        Ty::U(32) | Ty::B(32) => set_u32 as LaneFn,
        _ => return d.error("`set` of this type is not simulated"),
    };
    lanes(d, f, m, &[m.ty, m.ty])
}

fn set_value(hit: u64, m: &Mods) -> u64 {
    match (hit, m.from) {
        (0, _) => 0,
        (_, Ty::F(_)) => u64::from(1f32.to_bits()),
        _ => 0xffff_ffff,
    }
}

fn set_float(x: &[u64; 4], m: &Mods) -> u64 {
    set_value(lane_float::compare(x, m), m)
}

fn set_s32(x: &[u64; 4], m: &Mods) -> u64 {
    let order = (x[0] as i32).cmp(&(x[1] as i32));
    set_value(u64::from(lane_int::holds(m.op, Some(order))), m)
}

fn set_u32(x: &[u64; 4], m: &Mods) -> u64 {
    let order = (x[0] as u32).cmp(&(x[1] as u32));
    set_value(u64::from(lane_int::holds(m.op, Some(order))), m)
}

fn selp(d: &mut Decoder<'_>) -> Res<Inst> {
    let m = Mods { ty: d.ty()?, ..Mods::default() };
    let dst = d.dst()?;
    let (a, b) = (d.src_as(m.ty)?, d.src_as(m.ty)?);
    let p = match d.operand()? {
        Operand::Reg(Register { id, class: Class::Pred }) => Src::Pred(PredSrc { id: *id, neg: false }),
        Operand::Not(r) => Src::Pred(PredSrc { id: r.id, neg: true }),
        Operand::Int(v) => Src::Imm(*v),
        _ => return d.error("`selp` needs a predicate"),
    };
    Ok(Inst::Lane { f: lane_int::select, m, d: dst, s: [a, b, p, NONE], n: 3 })
}

fn slct(d: &mut Decoder<'_>) -> Res<Inst> {
    d.take("ftz");
    let m = Mods { ty: d.ty()?, ..Mods::default() };
    let (f, by): (LaneFn, Ty) = match d.ty()? {
        ty @ Ty::S(32) => (lane_int::slct_s32, ty),
        ty @ Ty::F(_) => (lane_int::slct_f32, ty),
        _ => return d.error("`slct` selects by s32 or f32"),
    };
    lanes(d, f, m, &[m.ty, m.ty, by])
}

fn testp(d: &mut Decoder<'_>) -> Res<Inst> {
    let op = d.choice(&[
        ("finite", 0),
        ("infinite", 1),
        ("number", 2),
        ("notanumber", 3),
        ("normal", 4),
        ("subnormal", 5),
    ]);
    let Some(op) = op else {
        return d.error("`testp` names no property");
    };
    let m = Mods { op, ty: d.ty()?, ..Mods::default() };
    let dst = [d.pred_dst()?, None];
    let s = [d.src_as(m.ty)?, NONE];
    Ok(Inst::SetP { f: lane_float::testp, m, d: dst, s, combine: None })
}

fn lop3(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ty()?;
    lanes(d, lane_int::lop3, Mods::default(), &[Ty::B(32); 4])
}

fn prmt(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ty()?;
    let modes = [("f4e", 1), ("b4e", 2), ("rc8", 3), ("ecl", 4), ("ecr", 5), ("rc16", 6)];
    let m = Mods { op: d.choice(&modes).unwrap_or(0), ..Mods::default() };
    lanes(d, lane_int::prmt, m, &[Ty::B(32); 3])
}

fn shf(d: &mut Decoder<'_>) -> Res<Inst> {
    let (Some(right), Some(clamp)) =
        (d.choice(&[("l", 0), ("r", 1)]), d.choice(&[("wrap", 0), ("clamp", 2)]))
    else {
        return d.error("`shf` needs `.l` or `.r`, and `.wrap` or `.clamp`");
    };
    d.ty()?;
    let m = Mods { op: right | clamp, ..Mods::default() };
    lanes(d, lane_int::shf, m, &[Ty::B(32); 3])
}

fn dp4a(d: &mut Decoder<'_>) -> Res<Inst> {
    let (a, b) = (d.ty()?, d.ty()?);
    let m = Mods { op: u32::from(a.signed()) | u32::from(b.signed()) << 1, ..Mods::default() };
    lanes(d, lane_int::dp4a, m, &[Ty::B(32); 3])
}

fn mapa(d: &mut Decoder<'_>) -> Res<Inst> {
    d.take("shared::cluster");
    let m = Mods { ty: d.ty()?, ..Mods::default() };
    lanes(d, lane_int::mapa, m, &[Ty::B(64), Ty::B(32)])
}

fn getctarank(d: &mut Decoder<'_>) -> Res<Inst> {
    d.take("shared::cluster");
    d.ty()?;
    lanes(d, lane_int::ctarank, Mods::default(), &[Ty::B(64)])
}

/// `cvta` moves an address between a space's window and the generic one: a constant is added or
/// taken away.
fn cvta(d: &mut Decoder<'_>) -> Res<Inst> {
    let to = d.take("to");
    let space = d.choice(&[
        ("global", 0),
        ("shared", GENERIC_SHARED),
        ("shared::cta", GENERIC_SHARED),
        ("shared::cluster", GENERIC_SHARED),
        ("param", GENERIC_PARAM),
        ("local", GENERIC_LOCAL),
        ("const", GENERIC_CONST),
    ]);
    let Some(base) = space else {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    };
    let m = Mods { ty: d.ty()?, ..Mods::default() };
    let dst = d.dst()?;
    let base = if to { base.wrapping_neg() } else { base };
    let s = [d.src()?, Src::Imm(base), NONE, NONE];
    Ok(Inst::Lane { f: |x, _| x[0].wrapping_add(x[1]), m, d: dst, s, n: 2 })
}

type CarryFn = fn([u64; 3], bool, u32) -> (u64, bool);

fn carry(d: &mut Decoder<'_>, name: &str) -> Res<Inst> {
    let write = d.take("cc");
    let read = name.ends_with('c');
    let high = d.choice(&[("lo", false), ("hi", true)]);
    let ty = d.ty()?;
    let (f, n): (CarryFn, usize) = match (name.trim_end_matches('c'), high) {
        ("add", None) => (add_carry, 2),
        ("sub", None) if read => (sub_next, 2),
        ("sub", None) => (sub_first, 2),
        ("mad", Some(false)) => (mad_carry_lo, 3),
        ("mad", Some(true)) => (mad_carry_hi, 3),
        _ => return d.error(format!("`{}` is not simulated", d.opcode())),
    };
    let dst = d.dst()?;
    let mut s = [NONE; 3];
    for slot in &mut s[..n] {
        *slot = d.src_as(int_operand(ty))?;
    }
    Ok(Inst::Carry { f, bits: ty.bits(), d: dst, s, read, write })
}

fn low(v: u128, bits: u32) -> u128 {
    v & ((1 << bits) - 1)
}

fn split(v: u128, bits: u32) -> (u64, bool) {
    (low(v, bits) as u64, v >> bits & 1 == 1)
}

fn add_carry(x: [u64; 3], c: bool, bits: u32) -> (u64, bool) {
    let [a, b, _] = x.map(|v| low(u128::from(v), bits));
    split(a + b + u128::from(c), bits)
}

/// `a - b` is `a + !b + 1` with the carry of that sum, as ptxas makes it: the flag says that nothing was borrowed,
/// also to an `addc` behind it (ptxas 13.0: `IADD3 R7, P0, R0, -R5, RZ`, then `IMAD.X .., P0`).
fn sub_first(x: [u64; 3], _: bool, bits: u32) -> (u64, bool) {
    sub_next(x, true, bits)
}

fn sub_next(x: [u64; 3], c: bool, bits: u32) -> (u64, bool) {
    let [a, b, _] = x.map(|v| low(u128::from(v), bits));
    split(a + low(!b, bits) + u128::from(c), bits)
}

fn mad_carry_lo(x: [u64; 3], c: bool, bits: u32) -> (u64, bool) {
    let [a, b, e] = x.map(|v| low(u128::from(v), bits));
    split(low(a * b, bits) + e + u128::from(c), bits)
}

fn mad_carry_hi(x: [u64; 3], c: bool, bits: u32) -> (u64, bool) {
    let [a, b, e] = x.map(|v| low(u128::from(v), bits));
    split(((a * b) >> bits) + e + u128::from(c), bits)
}

/// The target type comes first, the source's last.
fn cvt(d: &mut Decoder<'_>) -> Res<Inst> {
    if d.take("pack") {
        return cvt_pack(d);
    }
    let integral = d.choice(&[
        ("rni", super::Round::Even),
        ("rzi", super::Round::Zero),
        ("rmi", super::Round::Down),
        ("rpi", super::Round::Up),
    ]);
    let round = d.round();
    let mut m = Mods {
        integral: integral.is_some(),
        round: integral.or(round).unwrap_or_default(),
        ftz: d.take("ftz"),
        relu: d.take("relu"),
        ..Mods::default()
    };
    let finite = d.take("satfinite");
    m.sat = d.take("sat");
    m.ty = d.ty()?;
    m.from = d.ty()?;
    m.wide = finite;
    if !exists(&m, round) {
        return d.error(format!("`{}` is no conversion: a pair has other roundings", d.opcode()));
    }
    match (m.ty, m.from) {
        (Ty::F2(_), Ty::F(_)) => lanes(d, lane_float::convert_pack, m, &[m.from, m.from]),
        (Ty::F2(_), Ty::F2(_)) => lanes(d, lane_float::convert_pair, m, &[Ty::B(32)]),
        (Ty::F2(_), _) | (_, Ty::F2(_)) | (Ty::Pred, _) | (_, Ty::Pred) => {
            d.error(format!("`{}` is not simulated", d.opcode()))
        }
        (_, from) => lanes(d, lane_float::convert, m, &[from]),
    }
}

/// Whether a conversion to a pair is one: to halves to the nearest even or toward zero, to and from 8 bits to the
/// nearest even, saturating to finite values.
fn exists(m: &Mods, round: Option<super::Round>) -> bool {
    let nearest = round == Some(super::Round::Even);
    match (m.ty, m.from) {
        (Ty::F2(to), Ty::F(_) | Ty::F2(_)) if to.width() == 8 => nearest && m.wide,
        (Ty::F2(_), Ty::F(_)) => nearest || round == Some(super::Round::Zero),
        (Ty::F2(_), Ty::F2(_)) => nearest,
        _ => true,
    }
}

fn cvt_pack(d: &mut Decoder<'_>) -> Res<Inst> {
    d.take("sat");
    let (ty, from) = (d.ty()?, d.ty()?);
    let joined = d.ty_option().is_some();
    let m = Mods { ty, from, op: u32::from(joined), ..Mods::default() };
    let types = [from, from, Ty::B(32)];
    let n = if joined { 3 } else { 2 };
    lanes(d, lane_float::convert_ints, m, &types[..n])
}
