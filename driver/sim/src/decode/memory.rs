//! Loads, stores, atomics and the synchronous matrix moves.

use super::super::ast::{Class, Operand, Register};
use super::super::inst::{
    Atom, AtomOp, Inst, Load, MemoryOrder, Mods, Scope, Space, Src, Store, Strength, Ty,
};
use super::super::lane_int;
use super::{Decoder, Res};

pub(super) fn decode(d: &mut Decoder<'_>, name: &str) -> Res<Option<Inst>> {
    Ok(Some(match name {
        "ld" | "ldu" => load(d)?,
        "st" => store(d)?,
        "atom" => atomic(d, true)?,
        "red" if !d.has("async") => atomic(d, false)?,
        "ldmatrix" => ldmatrix(d)?,
        "stmatrix" => stmatrix(d)?,
        "movmatrix" => movmatrix(d)?,
        "prefetch" if d.has("tensormap") => prefetch_tensor(d)?,
        "prefetch" | "prefetchu" | "discard" | "applypriority" => return hint(d),
        "createpolicy" => policy(d)?,
        _ => return Ok(None),
    }))
}

fn space(d: &mut Decoder<'_>) -> Space {
    d.choice(&[
        ("global", Space::Global),
        ("shared", Space::Shared),
        ("shared::cta", Space::Shared),
        ("shared::cluster", Space::SharedCluster),
        ("param", Space::Param),
        ("param::entry", Space::Param),
        ("local", Space::Local),
        ("const", Space::Const),
    ])
    .unwrap_or(Space::Generic)
}

fn strength(d: &mut Decoder<'_>) -> (Strength, MemoryOrder) {
    let words = ["volatile", "relaxed", "acquire", "release", "mmio"];
    let word = words.into_iter().find(|w| d.take(w));
    // PTX ISA, "ld.volatile": as relaxed with the scope of the system.
    let far = matches!(word, Some("volatile" | "mmio"));
    let scope = if far { Scope::Gpu } else { Scope::Cta }.max(scope(d).unwrap_or_default());
    let sync = MemoryOrder { acquire: word == Some("acquire"), release: word == Some("release"), scope };
    (if word.is_some() { Strength::Strong } else { Strength::Weak }, sync)
}

/// Takes the scope, if there is one.
pub(super) fn scope(d: &mut Decoder<'_>) -> Option<Scope> {
    d.choice(&[("cta", Scope::Cta), ("cluster", Scope::Cluster), ("gpu", Scope::Gpu), ("sys", Scope::Gpu)])
}

fn cache_words(d: &mut Decoder<'_>) -> bool {
    d.ignore(&["ca", "cg", "cs", "cv", "lu", "wb", "wt", "weak"]);
    d.ignore_prefix("L1::");
    let hint = d.take("L2::cache_hint");
    d.ignore_prefix("L2::");
    hint
}

fn elements(d: &mut Decoder<'_>) -> usize {
    d.choice(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1)
}

fn load(d: &mut Decoder<'_>) -> Res<Inst> {
    let (strength, sync) = strength(d);
    let space = space(d);
    let read_only = d.take("nc");
    let hint = cache_words(d);
    let n = elements(d);
    let ty = d.ty()?;
    let list = d.one_or_list()?;
    let dsts = list.iter().map(|o| d.dst_or_sink(o)).collect::<Res<Vec<_>>>()?;
    vector_fits(d, ty, n, dsts.len())?;
    registers_hold(d, ty, list)?;
    let addr = d.addr()?;
    if hint {
        d.src()?;
    }
    Ok(Inst::Load(Box::new(Load { space, ty, d: dsts, addr, strength, sync, read_only })))
}

fn vector_fits(d: &Decoder<'_>, ty: Ty, n: usize, given: usize) -> Res<()> {
    if given != n {
        return d.error(format!("`{}` moves {n} elements, not {given}", d.opcode()));
    }
    if ty.bytes() as usize * n > 16 {
        return d.error(format!("`{}` moves over 16 bytes", d.opcode()));
    }
    Ok(())
}

/// Registers may be wider than what is moved, and not narrower (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
fn registers_hold(d: &Decoder<'_>, ty: Ty, list: &[Operand]) -> Res<()> {
    for o in list {
        if let Operand::Reg(Register { class: Class::Bits(bits), .. }) = o
            && u32::from(*bits) < ty.bits()
        {
            return d.error(format!("`{}` moves {} bits, the register has {bits}", d.opcode(), ty.bits()));
        }
    }
    Ok(())
}

fn store(d: &mut Decoder<'_>) -> Res<Inst> {
    if d.has("async") || d.has("bulk") {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    }
    let (strength, sync) = strength(d);
    let space = space(d);
    let hint = cache_words(d);
    let n = elements(d);
    let ty = d.ty()?;
    // An argument of a call.
    let space = if space == Space::Param && d.at_local() { Space::Local } else { space };
    let addr = d.addr()?;
    let list = d.one_or_list()?;
    let s = d.srcs(list, ty)?;
    vector_fits(d, ty, n, s.len())?;
    registers_hold(d, ty, list)?;
    if hint {
        d.src()?;
    }
    if matches!(space, Space::Param | Space::Const) {
        return d.error("parameters and constants cannot be stored to");
    }
    Ok(Inst::Store(Box::new(Store { space, ty, s, addr, strength, sync })))
}

pub(super) const ATOM_OPS: [(&str, AtomOp); 10] = [
    ("add", AtomOp::Add),
    ("min", AtomOp::Min),
    ("max", AtomOp::Max),
    ("inc", AtomOp::Inc),
    ("dec", AtomOp::Dec),
    ("and", AtomOp::And),
    ("or", AtomOp::Or),
    ("xor", AtomOp::Xor),
    ("exch", AtomOp::Exch),
    ("cas", AtomOp::Cas),
];

fn atomic(d: &mut Decoder<'_>, returns: bool) -> Res<Inst> {
    let both = d.take("acq_rel");
    let (acquire, release) = (d.take("acquire") || both, d.take("release") || both);
    d.ignore(&["relaxed", "noftz"]);
    // Without a scope it is the GPU's.
    let sync = MemoryOrder { acquire, release, scope: scope(d).unwrap_or(Scope::Gpu) };
    let space = space(d);
    let hint = cache_words(d);
    let Some(op) = d.choice(&ATOM_OPS) else {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    };
    let n = elements(d);
    let ty = d.ty()?;
    let dst = if returns {
        let o = d.operand()?;
        d.dst_or_sink(o)?
    } else {
        None
    };
    if n > 1 {
        return vector_red(d, sync, (space, op, ty), n, returns);
    }
    let addr = d.addr()?;
    let mut s = [d.src_as(ty)?, Src::Imm(0)];
    if op == AtomOp::Cas {
        s[1] = d.src_as(ty)?;
    }
    if hint {
        d.src()?;
    }
    let whole = matches!(ty, Ty::U(32 | 64) | Ty::S(32 | 64) | Ty::B(16 | 32 | 64));
    let float = matches!(ty, Ty::F(_) | Ty::F2(_));
    let ok = match op {
        AtomOp::Add | AtomOp::Min | AtomOp::Max => whole || float,
        _ => whole,
    };
    if !ok {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    }
    Ok(Inst::Atom(Box::new(Atom { sync, space, op, ty, d: dst, addr, s, more: Vec::new() })))
}

/// Sums of neighbours, one by one atomic (PTX ISA, "red", vector forms).
fn vector_red(
    d: &mut Decoder<'_>,
    sync: MemoryOrder,
    (space, op, ty): (Space, AtomOp, Ty),
    n: usize,
    returns: bool,
) -> Res<Inst> {
    let addr = d.addr()?;
    let list = d.one_or_list()?;
    let mut more = d.srcs(list, ty)?;
    vector_fits(d, ty, n, more.len())?;
    let word = ty.bits() == 32 && matches!(ty, Ty::F(_) | Ty::F2(_));
    if returns || op != AtomOp::Add || !word || space == Space::Shared {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    }
    let s = [more.remove(0), Src::Imm(0)];
    Ok(Inst::Atom(Box::new(Atom { sync, space, op, ty, d: None, addr, s, more })))
}

fn matrix_words(d: &mut Decoder<'_>) -> Res<(usize, bool)> {
    d.ignore(&["sync", "aligned"]);
    let n = d.choice(&[("x1", 1), ("x2", 2), ("x4", 4)]);
    let trans = d.take("trans");
    d.ignore(&["shared", "shared::cta"]);
    match n {
        Some(n) if d.take("m8n8") && d.take("b16") => Ok((n, trans)),
        _ => d.error(format!("`{}` is not simulated", d.opcode())),
    }
}

fn ldmatrix(d: &mut Decoder<'_>) -> Res<Inst> {
    let (n, trans) = matrix_words(d)?;
    let list = d.one_or_list()?;
    let dsts = d.dsts(list)?;
    count(d, n, dsts.len())?;
    Ok(Inst::LdMatrix { d: dsts, addr: d.addr()?, trans })
}

fn stmatrix(d: &mut Decoder<'_>) -> Res<Inst> {
    let (n, trans) = matrix_words(d)?;
    let addr = d.addr()?;
    let list = d.one_or_list()?;
    let s = d.srcs(list, Ty::B(32))?;
    count(d, n, s.len())?;
    Ok(Inst::StMatrix { s, addr, trans })
}

fn count(d: &Decoder<'_>, n: usize, given: usize) -> Res<()> {
    if n == given {
        return Ok(());
    }
    d.error(format!("`{}` has {n} matrices, not {given}", d.opcode()))
}

fn movmatrix(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ignore(&["sync", "aligned", "m8n8", "trans", "b16"]);
    Ok(Inst::MovMatrix { d: d.dst()?, s: d.src()? })
}

fn prefetch_tensor(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ignore(&["tensormap", "param", "const"]);
    Ok(Inst::PrefetchTensor { map: d.addr()? })
}

fn hint(d: &mut Decoder<'_>) -> Res<Option<Inst>> {
    space(d);
    d.ignore(&["L1", "L2"]);
    cache_words(d);
    d.addr()?;
    while d.left() > 0 {
        d.operand()?;
    }
    Ok(Some(Inst::Nop))
}

/// A cache policy is an opaque number.
fn policy(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ignore(&["fractional", "range", "global", "cvt", "b64"]);
    d.ignore_prefix("L2");
    let dst = d.dst()?;
    while d.left() > 0 {
        d.operand()?;
    }
    Ok(Inst::Lane {
        f: lane_int::copy,
        m: Mods { ty: Ty::B(64), ..Mods::default() },
        d: dst,
        s: [Src::Imm(0); 4],
        n: 1,
    })
}
