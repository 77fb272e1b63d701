//! Asynchronous copies, mbarriers and the tensor cores.

use super::super::ast::Operand;
use super::super::float::{F16, F32, F64};
use super::super::inst::{
    Acc, Addr, Arrive, BulkFrom, BulkLoad, BulkStore, BulkTo, Elem, Inst, Mma, Scope, Src, TensorOperand, Ty,
    Wait, Wgmma, WgmmaA,
};
use super::{Decoder, Res, format_of, memory};

pub(super) fn decode(d: &mut Decoder<'_>, name: &str) -> Res<Option<Inst>> {
    Ok(Some(match name {
        "cp" if d.take("reduce") => {
            d.take("async");
            bulk(d, true)?
        }
        "cp" if d.take("async") => copy(d)?,
        "mbarrier" => mbarrier(d)?,
        "wgmma" => wgmma_family(d)?,
        "mma" => mma(d)?,
        _ => return Ok(None),
    }))
}

fn copy(d: &mut Decoder<'_>) -> Res<Inst> {
    if d.take("bulk") {
        if d.take("commit_group") {
            return Ok(Inst::BulkCommit);
        }
        if d.take("wait_group") {
            let read = d.take("read");
            let pending = d.immediate()? as u32;
            return Ok(Inst::BulkWait { pending, read });
        }
        return bulk(d, false);
    }
    if d.take("commit_group") {
        return Ok(Inst::CpAsyncCommit);
    }
    if d.take("wait_group") {
        let pending = Some(d.immediate()? as u32);
        return Ok(Inst::CpAsyncWait { pending });
    }
    if d.take("wait_all") {
        return Ok(Inst::CpAsyncWait { pending: None });
    }
    if d.take("mbarrier") {
        d.ignore(&["arrive", "shared", "shared::cta", "b64"]);
        let noinc = d.take("noinc");
        let addr = d.addr()?;
        return Ok(Inst::CpAsyncArrive { addr, noinc });
    }
    cp_async(d)
}

fn cp_async(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ignore(&["ca", "cg", "shared", "shared::cta", "global"]);
    let hint = d.take("L2::cache_hint");
    d.ignore_prefix("L2::");
    let (dst, src) = (d.addr()?, d.addr()?);
    let bytes = d.immediate()? as u32;
    if !matches!(bytes, 4 | 8 | 16) {
        return d.error("`cp.async` copies 4, 8 or 16 bytes");
    }
    let (mut src_bytes, mut ignore) = (None, None);
    if d.left() > usize::from(hint) {
        let is_pred = matches!(d.peek(), Some(Operand::Reg(r)) if r.class == super::Class::Pred)
            || matches!(d.peek(), Some(Operand::Not(_)));
        if is_pred {
            ignore = Some(d.boolean()?);
        } else {
            src_bytes = Some(d.src_as(Ty::B(32))?);
        }
    }
    if hint {
        d.src()?;
    }
    Ok(Inst::CpAsync { dst, src, bytes, src_bytes, ignore })
}

/// The five directions of a bulk copy, told apart by the order of the two spaces.
fn bulk(d: &mut Decoder<'_>, reduce: bool) -> Res<Inst> {
    d.take("bulk");
    let tensor = d.take("tensor");
    let prefetch = d.take("prefetch");
    let tensor = tensor || d.take("tensor");
    let rank = d.choice(&[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)]);
    if d.has("im2col") {
        return d.error("im2col is not simulated");
    }
    d.ignore(&["tile", "L2", "bulk_group"]);
    d.ignore_prefix("mbarrier::complete_tx");
    d.ignore_prefix("L2::cache_hint");
    let hint = d.words.iter().any(|w| w.0 == "L2::cache_hint");
    if prefetch {
        return bulk_prefetch(d);
    }
    let spaces: Vec<_> =
        d.words.iter().map(|w| w.0).filter(|w| w.starts_with("shared") || *w == "global").collect();
    let (to, from) = match spaces[..] {
        [to, from] => (to, from),
        _ => return d.error(format!("`{}` names no two spaces", d.opcode())),
    };
    d.ignore(&["global", "shared::cta", "shared::cluster", "shared"]);
    let inst = if to == "global" {
        bulk_store(d, tensor, rank, reduce)?
    } else if reduce {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    } else {
        bulk_load(d, tensor, rank, from)?
    };
    if hint {
        d.src()?;
    }
    Ok(inst)
}

fn bulk_prefetch(d: &mut Decoder<'_>) -> Res<Inst> {
    d.take("global");
    while d.left() > 0 {
        d.operand()?;
    }
    Ok(Inst::Nop)
}

fn tensor_operand(d: &mut Decoder<'_>, rank: Option<usize>) -> Res<TensorOperand> {
    let Operand::Address { base, offset, coordinates: Some(c) } = d.operand()? else {
        return d.error("a tensor copy needs `[map, {coordinates}]`");
    };
    if rank != Some(c.len()) {
        return d.error(format!("{} coordinates do not fit `{}`", c.len(), d.opcode()));
    }
    Ok(TensorOperand {
        map: Addr { base: d.src_of(base, Ty::B(64))?, offset: *offset },
        coordinates: d.srcs(c, Ty::B(32))?,
    })
}

fn bulk_load(d: &mut Decoder<'_>, tensor: bool, rank: Option<usize>, from: &str) -> Res<Inst> {
    let multicast = d.take("multicast::cluster");
    let dst = d.addr()?;
    let from = if tensor {
        BulkFrom::Tensor(tensor_operand(d, rank)?)
    } else {
        let (addr, bytes) = (d.addr()?, d.src_as(Ty::B(32))?);
        match from {
            "global" => BulkFrom::Global { addr, bytes },
            _ => BulkFrom::Shared { addr, bytes },
        }
    };
    let mbar = d.addr()?;
    let multicast = if multicast { Some(d.src_as(Ty::B(16))?) } else { None };
    Ok(Inst::BulkLoad(Box::new(BulkLoad { dst, from, mbar, multicast })))
}

fn bulk_store(d: &mut Decoder<'_>, tensor: bool, rank: Option<usize>, reduce: bool) -> Res<Inst> {
    let mut operation = None;
    if reduce {
        let Some(op) = d.choice(&memory::ATOM_OPS) else {
            return d.error(format!("`{}` names no operation", d.opcode()));
        };
        d.take("noftz");
        operation = Some((op, if tensor { None } else { Some(d.ty()?) }));
    }
    let (src, to) = if tensor {
        let to = BulkTo::Tensor(tensor_operand(d, rank)?);
        (d.addr()?, to)
    } else {
        let addr = d.addr()?;
        let src = d.addr()?;
        let bytes = d.src_as(Ty::B(32))?;
        (src, BulkTo::Global { addr, bytes })
    };
    Ok(Inst::BulkStore(Box::new(BulkStore { src, to, reduce: operation })))
}

fn mbarrier(d: &mut Decoder<'_>) -> Res<Inst> {
    if d.take("init") {
        plain_shared(d);
        let addr = d.addr()?;
        let count = d.src_as(Ty::B(32))?;
        return Ok(Inst::MbarInit { addr, count });
    }
    if d.take("inval") {
        plain_shared(d);
        return Ok(Inst::MbarInval { addr: d.addr()? });
    }
    if d.has("try_wait") || d.has("test_wait") {
        return wait(d);
    }
    if d.has("arrive") || d.has("arrive_drop") {
        return arrive(d);
    }
    let Some(complete) = d.choice(&[("expect_tx", false), ("complete_tx", true)]) else {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    };
    d.ignore(&["relaxed", "cta", "cluster"]);
    d.ignore(&["shared::cluster"]);
    plain_shared(d);
    Ok(Inst::MbarExpect { addr: d.addr()?, bytes: d.src_as(Ty::B(32))?, complete })
}

fn plain_shared(d: &mut Decoder<'_>) {
    d.ignore(&["shared", "shared::cta", "b64"]);
}

fn wait(d: &mut Decoder<'_>) -> Res<Inst> {
    let blocking = d.choice(&[("try_wait", true), ("test_wait", false)]) == Some(true);
    let parity = d.take("parity");
    let relaxed = d.take("relaxed");
    d.take("acquire");
    let wide = memory::scope(d).is_some_and(|s| s != Scope::Cta);
    plain_shared(d);
    let p = d.pred_dst()?;
    let addr = d.addr()?;
    let phase = d.src()?;
    if d.left() > 0 {
        d.src()?;
    }
    Ok(Inst::MbarWait(Box::new(Wait { addr, phase, parity, blocking, wide, relaxed, d: p })))
}

fn arrive(d: &mut Decoder<'_>) -> Res<Inst> {
    let drop = d.take("arrive_drop");
    d.take("arrive");
    let expects = d.take("expect_tx");
    let relaxed = d.take("relaxed");
    d.take("release");
    let wide = memory::scope(d).is_some_and(|s| s != Scope::Cta);
    let cluster = d.take("shared::cluster");
    plain_shared(d);
    let mut state = None;
    if !matches!(d.peek(), Some(Operand::Address { .. })) {
        let o = d.operand()?;
        state = d.dst_or_sink(o)?;
    }
    if cluster && state.is_some() {
        return d.error("an arrive on the cluster's memory returns no state");
    }
    let addr = d.addr()?;
    let mut expect = None;
    let mut count = Src::Imm(1);
    if expects {
        expect = Some(d.src_as(Ty::B(32))?);
    } else if d.left() > 0 {
        count = d.src_as(Ty::B(32))?;
    }
    Ok(Inst::MbarArrive(Box::new(Arrive { addr, cluster, expect, count, state, wide, relaxed, drop })))
}

fn wgmma_family(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ignore(&["sync", "aligned"]);
    if d.take("fence") {
        return Ok(Inst::WgmmaFence);
    }
    if d.take("commit_group") {
        return Ok(Inst::WgmmaCommit);
    }
    if d.take("wait_group") {
        let n = d.immediate()?;
        if n > 7 {
            return d.error("`wgmma.wait_group` waits down to 0 to 7 groups");
        }
        return Ok(Inst::WgmmaWait(n as u32));
    }
    if !d.take("mma_async") {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    }
    wgmma(d)
}

/// Takes `m64n256k16` and gives its numbers.
fn shape(d: &mut Decoder<'_>) -> Res<(u32, u32, u32)> {
    for i in 0..d.words.len() {
        if let Some(s) = shape_of(d.words[i].0) {
            d.words[i].1 = true;
            return Ok(s);
        }
    }
    d.error(format!("`{}` names no shape", d.opcode()))
}

fn shape_of(word: &str) -> Option<(u32, u32, u32)> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

/// Takes the next type of a matrix instruction by position.
fn matrix_type<'a>(d: &mut Decoder<'a>) -> Option<&'a str> {
    let w = d.words.iter_mut().find(|w| !w.1 && (elem(w.0).is_some() || acc(w.0).is_some()))?;
    w.1 = true;
    Some(w.0)
}

fn elem(word: &str) -> Option<Elem> {
    Some(match word {
        "s8" => Elem::S8,
        "u8" => Elem::U8,
        "s4" => Elem::S4,
        "u4" => Elem::U4,
        "b1" => Elem::B1,
        "f32" => return None,
        _ => Elem::Float(format_of(word)?),
    })
}

fn acc(word: &str) -> Option<Acc> {
    Some(match word {
        "f32" => Acc::F32,
        "f16" => Acc::F16,
        "f64" => Acc::F64,
        "s32" => Acc::S32,
        _ => return None,
    })
}

fn wgmma(d: &mut Decoder<'_>) -> Res<Inst> {
    let satfinite = d.take("satfinite");
    let (m, n, k) = shape(d)?;
    let types = (matrix_type(d), matrix_type(d), matrix_type(d));
    let (Some(acc), Some(a), Some(b)) =
        (types.0.and_then(acc), types.1.and_then(elem), types.2.and_then(elem))
    else {
        return d.error(format!("`{}` names no types", d.opcode()));
    };
    if m != 64 || k * a.bits() != 256 || a.bits() != b.bits() || a.bits() < 8 || !n_ok(n, a) {
        return d.error(format!("`{}` has no such shape", d.opcode()));
    }
    let list = d.vector()?;
    let regs: Vec<_> = d.dsts(list)?.iter().map(|r| r.reg).collect();
    let want = if acc == Acc::F16 { n / 4 } else { n / 2 };
    if regs.len() != want as usize {
        return d.error(format!("the accumulator has {want} registers, not {}", regs.len()));
    }
    let a_from = match d.operand()? {
        Operand::Vector(v) => {
            let regs: Vec<_> = d.dsts(v)?.iter().map(|r| r.reg).collect();
            match <[u32; 4]>::try_from(regs) {
                Ok(r) => WgmmaA::Registers(r),
                Err(_) => return d.error("A in registers has 4 of them"),
            }
        }
        o => WgmmaA::Descriptor(d.src_of(o, Ty::B(64))?),
    };
    let b_desc = d.src()?;
    let scale_d = if d.left() > 0 { d.boolean()? } else { super::Bool::Const(true) };
    let float = matches!(a, Elem::Float(_));
    let mut negate = (false, false);
    if float && d.left() > 0 {
        negate = (sign(d)?, sign(d)?);
    }
    let in_registers = matches!(a_from, WgmmaA::Registers(_));
    let mut transpose = (false, false);
    if a.bits() == 16 && d.left() > 0 {
        if !in_registers {
            transpose.0 = d.immediate()? != 0;
        }
        transpose.1 = d.immediate()? != 0;
    }
    Ok(Inst::Wgmma(Box::new(Wgmma {
        n,
        k,
        acc,
        a,
        b,
        d: regs,
        a_from,
        b_desc,
        scale_d,
        negate,
        transpose,
        satfinite,
    })))
}

/// Columns that wgmma has for a type (PTX ISA, asynchronous warpgroup level matrix shape).
fn n_ok(n: u32, a: Elem) -> bool {
    match a {
        Elem::S8 | Elem::U8 => {
            matches!(n, 8 | 16 | 24 | 32) || (n.is_multiple_of(16) && (48..=256).contains(&n))
        }
        _ => n.is_multiple_of(8) && (8..=256).contains(&n),
    }
}

/// An immediate 1 or -1; true for -1.
fn sign(d: &mut Decoder<'_>) -> Res<bool> {
    match d.immediate()? as i64 {
        1 => Ok(false),
        -1 => Ok(true),
        v => d.error(format!("the scale of an operand is 1 or -1, not {v}")),
    }
}

/// Element bits and `k` of the `mma.sync` shapes of m16n8 that are simulated.
const MMA_K: [(u32, &[u32]); 3] = [(16, &[8, 16]), (32, &[4, 8]), (8, &[16, 32])];

fn mma(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ignore(&["sync", "aligned", "row", "col"]);
    let satfinite = d.take("satfinite");
    let (m, n, k) = shape(d)?;
    let types = [matrix_type(d), matrix_type(d), matrix_type(d), matrix_type(d)];
    let [Some(dt), Some(at), Some(bt), Some(ct)] = types else {
        return d.error(format!("`{}` names no types", d.opcode()));
    };
    let (Some(acc_d), Some(acc_c)) = (acc(dt), acc(ct)) else {
        return d.error(format!("`{}` has no such accumulator", d.opcode()));
    };
    let (Some(a), Some(b)) = (mma_elem(at), mma_elem(bt)) else {
        return d.error(format!("`{}` has no such operands", d.opcode()));
    };
    let shape = MMA_K.iter().any(|(bits, ks)| *bits == a.bits() && ks.contains(&k));
    if m != 16 || n != 8 || !shape || acc_d != acc_c || a == Elem::Float(F64) {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    }
    let lists = [d.one_or_list()?, d.one_or_list()?, d.one_or_list()?, d.one_or_list()?];
    let dsts = d.dsts(lists[0])?;
    let (ra, rb, rc) =
        (d.srcs(lists[1], Ty::B(32))?, d.srcs(lists[2], Ty::B(32))?, d.srcs(lists[3], Ty::F(F32))?);
    let c_regs = if acc_d == Acc::F16 { 2 } else { 4 };
    let a_regs = (16 * k * a.bits() / 1024) as usize;
    let wanted = [c_regs, a_regs, a_regs / 2, c_regs];
    if [dsts.len(), ra.len(), rb.len(), rc.len()] != wanted {
        return d.error(format!("`{}` wants {wanted:?} registers", d.opcode()));
    }
    Ok(Inst::Mma(Box::new(Mma { k, acc: acc_d, a, b, d: dsts, ra, rb, rc, satfinite })))
}

fn mma_elem(word: &str) -> Option<Elem> {
    match elem(word)? {
        Elem::Float(f) if f == F16 || f.width() < 32 => Some(Elem::Float(f)),
        Elem::Float(_) => None,
        other => Some(other),
    }
}
