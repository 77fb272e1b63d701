//! Control flow, barriers and exchanges between the lanes of a warp.

use super::super::ast::Operand;
use super::super::inst::{AtomOp, BarMode, Bool, FenceKind, Inst, Scope, ShflMode, Src, Ty, VoteMode};
use super::{Decoder, Res, memory};

pub(super) fn decode(d: &mut Decoder<'_>, name: &str) -> Res<Option<Inst>> {
    Ok(Some(match name {
        "bra" => bra(d)?,
        "exit" | "ret" => {
            d.take("uni");
            Inst::Exit
        }
        "trap" => Inst::Trap,
        "assume" => assume(d)?,
        "call" => call(d)?,
        "bar" | "barrier" => bar(d, name)?,
        "fence" | "membar" => fence(d, name)?,
        "elect" => elect(d)?,
        "shfl" => shfl(d)?,
        "vote" => vote(d)?,
        "match" => matching(d)?,
        "redux" => redux(d)?,
        "activemask" => activemask(d)?,
        "setmaxnreg" => setmaxnreg(d)?,
        "griddepcontrol" => {
            d.ignore(&["launch_dependents"]);
            if d.take("wait") { Inst::GridWait } else { Inst::Nop }
        }
        "nanosleep" => {
            d.ty()?;
            d.src()?;
            Inst::Nop
        }
        "pmevent" => {
            d.take("mask");
            d.immediate()?;
            Inst::Nop
        }
        _ => return Ok(None),
    }))
}

/// A call of `vprintf`: its arguments are local variables that hold addresses.
fn call(d: &mut Decoder<'_>) -> Res<Inst> {
    d.take("uni");
    let [Operand::Name(..), Operand::Name(function, 0), Operand::Name(text, 0), Operand::Name(values, 0)] =
        [d.operand()?, d.operand()?, d.operand()?, d.operand()?]
    else {
        return d.error("a call of anything but `vprintf` is not simulated");
    };
    match (function.as_str(), d.local(text), d.local(values)) {
        ("vprintf", Some(text), Some(values)) => Ok(Inst::Print { text, values }),
        _ => d.error("a call of anything but `vprintf` is not simulated"),
    }
}

/// `assume.s32 x, multiple, min, max`: not of PTX, but of a comment that `emit` writes.
fn assume(d: &mut Decoder<'_>) -> Res<Inst> {
    let ty = d.ty()?;
    let s = d.src()?;
    let multiple = d.immediate()?;
    match i64::try_from(multiple) {
        Ok(multiple) if multiple > 0 => {
            Ok(Inst::Assume { s, ty, multiple, min: d.immediate()? as i64, max: d.immediate()? as i64 })
        }
        _ => d.error(format!("{multiple} is no multiple")),
    }
}

fn bra(d: &mut Decoder<'_>) -> Res<Inst> {
    let uniform = d.take("uni");
    Ok(Inst::Bra { target: d.label()?, uniform })
}

fn bar(d: &mut Decoder<'_>, name: &str) -> Res<Inst> {
    if d.take("cluster") {
        return cluster_barrier(d);
    }
    d.take("cta");
    if d.take("warp") {
        d.take("sync");
        return Ok(Inst::WarpSync { mask: d.src()? });
    }
    let aligned = d.take("aligned") || name == "bar";
    if d.take("red") {
        return bar_red(d, aligned);
    }
    let mode = match d.choice(&[("sync", BarMode::Sync), ("arrive", BarMode::Arrive)]) {
        Some(m) => m,
        None => return d.error(format!("`{}` is not simulated", d.opcode())),
    };
    let id = d.src_as(Ty::B(32))?;
    let count = if d.left() > 0 { Some(d.src_as(Ty::B(32))?) } else { None };
    if mode == BarMode::Arrive && count.is_none() {
        return d.error("`bar.arrive` needs a thread count");
    }
    Ok(Inst::Bar { id, count, mode, aligned, d: None, p: None, dp: None })
}

fn bar_red(d: &mut Decoder<'_>, aligned: bool) -> Res<Inst> {
    let modes = [("popc", BarMode::Popc), ("and", BarMode::And), ("or", BarMode::Or)];
    let Some(mode) = d.choice(&modes) else {
        return d.error("`bar.red` needs `.popc`, `.and` or `.or`");
    };
    d.ty()?;
    let (mut dst, mut dp) = (None, None);
    if mode == BarMode::Popc {
        dst = Some(d.dst()?);
    } else {
        dp = d.pred_dst()?;
    }
    let id = d.src_as(Ty::B(32))?;
    let count = if d.left() > 1 { Some(d.src_as(Ty::B(32))?) } else { None };
    let p = Some(d.boolean()?);
    Ok(Inst::Bar { id, count, mode, aligned, d: dst, p, dp })
}

fn cluster_barrier(d: &mut Decoder<'_>) -> Res<Inst> {
    let aligned = d.take("aligned");
    if d.take("arrive") {
        let relaxed = d.take("relaxed");
        d.take("release");
        return Ok(Inst::ClusterArrive { relaxed, aligned });
    }
    if !d.take("wait") {
        return d.error("`barrier.cluster` needs `.arrive` or `.wait`");
    }
    d.take("acquire");
    Ok(Inst::ClusterWait { aligned })
}

fn fence(d: &mut Decoder<'_>, name: &str) -> Res<Inst> {
    if name == "membar" && !d.has("proxy") {
        let scope = d.choice(&[("cta", Scope::Cta), ("gl", Scope::Gpu), ("sys", Scope::Gpu)]);
        return Ok(Inst::Fence(FenceKind::Memory(scope.unwrap_or(Scope::Gpu))));
    }
    if d.take("mbarrier_init") {
        d.ignore(&["release", "cluster"]);
        return Ok(Inst::Fence(FenceKind::MbarrierInit));
    }
    if d.take("proxy") {
        return proxy_fence(d);
    }
    d.ignore(&["sc", "acq_rel", "acquire", "release"]);
    d.ignore_prefix("sync_restrict");
    Ok(Inst::Fence(FenceKind::Memory(memory::scope(d).unwrap_or_default())))
}

fn proxy_fence(d: &mut Decoder<'_>) -> Res<Inst> {
    if d.take("async") {
        let narrow = d.choice(&[("global", false), ("shared::cta", true), ("shared::cluster", true)]);
        let shared = narrow.unwrap_or(true);
        let kind = if shared { FenceKind::ProxyAsync } else { FenceKind::Other };
        return Ok(Inst::Fence(kind));
    }
    let words = ["alias", "tensormap::generic", "release", "acquire", "cta", "cluster", "gpu", "sys"];
    if d.has("async::generic") {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    }
    d.ignore(&words);
    while d.left() > 0 {
        d.operand()?;
    }
    Ok(Inst::Fence(FenceKind::Other))
}

/// The result of `d|p`, either of which may be the sink.
fn elect(d: &mut Decoder<'_>) -> Res<Inst> {
    d.take("sync");
    let Operand::Pair(p) = d.operand()? else {
        return d.error("`elect.sync` needs `d|p`");
    };
    Ok(Inst::Elect { d: d.dst_or_sink(&p.0)?, p: d.pred_dst_of(&p.1)?, mask: d.src_as(Ty::B(32))? })
}

fn shfl(d: &mut Decoder<'_>) -> Res<Inst> {
    let mode = d.choice(&[
        ("up", ShflMode::Up),
        ("down", ShflMode::Down),
        ("bfly", ShflMode::Bfly),
        ("idx", ShflMode::Idx),
    ]);
    let (Some(mode), true) = (mode, d.take("sync")) else {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    };
    d.ty()?;
    let (dst, p) = match d.operand()? {
        Operand::Pair(p) => (d.dst_of(&p.0)?, d.pred_dst_of(&p.1)?),
        o => (d.dst_of(o)?, None),
    };
    Ok(Inst::Shfl {
        mode,
        d: dst,
        p,
        a: d.src_as(Ty::B(32))?,
        b: d.src_as(Ty::B(32))?,
        c: d.src_as(Ty::B(32))?,
        mask: d.src_as(Ty::B(32))?,
    })
}

fn vote(d: &mut Decoder<'_>) -> Res<Inst> {
    let mode = d.choice(&[
        ("all", VoteMode::All),
        ("any", VoteMode::Any),
        ("uni", VoteMode::Uni),
        ("ballot", VoteMode::Ballot),
    ]);
    let (Some(mode), true) = (mode, d.take("sync")) else {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    };
    d.ty()?;
    let (mut dst, mut p) = (None, None);
    if mode == VoteMode::Ballot {
        dst = Some(d.dst()?);
    } else {
        p = d.pred_dst()?;
    }
    Ok(Inst::Vote { mode, d: dst, p, a: d.boolean()?, mask: d.src_as(Ty::B(32))? })
}

fn matching(d: &mut Decoder<'_>) -> Res<Inst> {
    let all = d.choice(&[("any", false), ("all", true)]);
    let (Some(all), true) = (all, d.take("sync")) else {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    };
    let ty = d.ty()?;
    let (dst, p) = match d.operand()? {
        Operand::Pair(p) => (d.dst_of(&p.0)?, d.pred_dst_of(&p.1)?),
        o => (d.dst_of(o)?, None),
    };
    Ok(Inst::Match { all, d: dst, p, a: d.src_as(ty)?, mask: d.src_as(Ty::B(32))? })
}

fn redux(d: &mut Decoder<'_>) -> Res<Inst> {
    let op = d.choice(&[
        ("add", AtomOp::Add),
        ("min", AtomOp::Min),
        ("max", AtomOp::Max),
        ("and", AtomOp::And),
        ("or", AtomOp::Or),
        ("xor", AtomOp::Xor),
    ]);
    let (Some(op), true) = (op, d.take("sync")) else {
        return d.error(format!("`{}` is not simulated", d.opcode()));
    };
    let signed = match d.ty()? {
        Ty::S(32) => true,
        Ty::U(32) | Ty::B(32) => false,
        _ => return d.error(format!("`{}` is not simulated", d.opcode())),
    };
    Ok(Inst::Redux { op, signed, d: d.dst()?, a: d.src_as(Ty::B(32))?, mask: d.src_as(Ty::B(32))? })
}

fn activemask(d: &mut Decoder<'_>) -> Res<Inst> {
    d.ty()?;
    Ok(Inst::Vote {
        mode: VoteMode::Ballot,
        d: Some(d.dst()?),
        p: None,
        a: Bool::Const(true),
        mask: Src::Special(super::Special::ActiveMask),
    })
}

fn setmaxnreg(d: &mut Decoder<'_>) -> Res<Inst> {
    let Some(inc) = d.choice(&[("inc", true), ("dec", false)]) else {
        return d.error("`setmaxnreg` needs `.inc` or `.dec`");
    };
    d.ignore(&["sync", "aligned", "u32"]);
    let count = d.immediate()?;
    if !(24..=256).contains(&count) || count % 8 != 0 {
        return d.error(format!("`setmaxnreg` {count}: the count is a multiple of 8 from 24 to 256"));
    }
    Ok(Inst::SetMaxNReg { inc, count: count as u32 })
}
