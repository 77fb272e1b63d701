//! Barriers and fences: the cost of synchronization, hand-over and ordering.
//!
//! ```text
//!  bar.sync        w warps meet, again and again
//!  named hand-over two warpgroups in turn: arrive at the other's barrier, sync on the own one
//!  mbarrier        one warp arrives and waits for the phase; two warps hand over by a pair of mbarriers
//! ```

use super::{Case, Frame, Reading, builder};
use warplift_ir::machine::{Attr, Cursor, NewInst, Ty, Value};
use warplift_ir::target::{Opcode, SM90A};

/// Repetitions in a turn.
const LENGTH: u32 = 32;
/// `SYNCS` of an arrival and a wait: ptxas makes one of the arrival, and of the wait a first try and a loop.
const SYNCS: u32 = 3;

fn plain(c: &mut Cursor<'_, '_>, op: Opcode, attr: Attr) {
    c.push(NewInst::new(op, &[], &[]).attr(attr));
}

/// A case whose body repeats something that takes no values.
fn repeated(
    name: String,
    frame: Frame,
    sass: &'static str,
    once: impl for<'f, 'a> Fn(&mut Cursor<'f, 'a>) + Send + Sync + 'static,
) -> Case {
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |_, env| vec![env.lane_zero],
            |c, _, carried| {
                (0..LENGTH).for_each(|_| once(c));
                carried.to_vec()
            },
        )
    });
    let count = if sass.is_empty() { 0 } else { LENGTH };
    Case::new(name, "sync", Reading::Cycles { per: LENGTH.into() }, build).sass(sass, count)
}

fn meeting(warps: u32) -> Case {
    let frame = Frame { warps, ..Frame::default() };
    let attr = Attr::Imm2(1, i64::from(32 * warps));
    repeated(format!("sync.bar.sync.warps{warps}"), frame, "BAR", move |c| {
        plain(c, Opcode::BarSync, attr.clone());
    })
    .axes(&[("warps", warps.into())])
}

/// Fences and similar rows, by one warp (or a warpgroup, if the row requires it).
fn ordering(name: &str, op: Opcode, attr: Attr, warps: u32) -> Case {
    let frame = Frame { warps, ..Frame::default() };
    let sass = SM90A.row(op).sass;
    let sass = sass.split('.').next().unwrap_or(sass);
    repeated(format!("sync.{name}"), frame, sass, move |c| plain(c, op, attr.clone()))
}

fn cluster(size: u32) -> Case {
    let frame = Frame { warps: 4, blocks: super::Blocks::Count(size), cluster: size, ..Frame::default() };
    repeated(format!("sync.barrier.cluster{size}"), frame, "", |c| {
        plain(c, Opcode::ClusterArrive, Attr::None);
        plain(c, Opcode::ClusterWait, Attr::None);
    })
    .axes(&[("cluster", size.into())])
}

/// Two warpgroups in turn. Group `g` waits at barrier `1 + g` and then lets the other one go: a turn holds
/// two hand-overs.
fn named_hand_over() -> Case {
    let frame = Frame { warps: 8, ..Frame::default() };
    let build = builder(move |bump, name| {
        let mine = std::cell::Cell::new(None);
        frame.build(
            bump,
            name,
            |c, env| {
                let two = c.imm(2);
                let group = c.int(Opcode::ShrU32, env.warp, two);
                let zero = c.imm(0);
                let first = c.compare(warplift_ir::tile::CmpOp::Eq, group, zero);
                mine.set(Some(first));
                // The first group may begin: the second one arrives at its barrier.
                arrive(c, first, true, 1);
                vec![env.lane_zero]
            },
            |c, _, carried| {
                for _ in 0..LENGTH {
                    let Some(first) = mine.get() else { break };
                    sync(c, first, false, 1);
                    arrive(c, first, false, 2);
                    sync(c, first, true, 2);
                    arrive(c, first, true, 1);
                }
                carried.to_vec()
            },
        )
    });
    Case::new("sync.bar.hand_over", "sync", Reading::Cycles { per: f64::from(2 * LENGTH) }, build)
}

fn guarded(c: &mut Cursor<'_, '_>, op: Opcode, pred: Value, negated: bool, id: i64) {
    let guard = warplift_ir::machine::Guard { pred, negated };
    c.push(NewInst::new(op, &[], &[]).attr(Attr::Imm2(id, 256)).guard(Some(guard)));
}

fn sync(c: &mut Cursor<'_, '_>, pred: Value, negated: bool, id: i64) {
    guarded(c, Opcode::BarSync, pred, negated, id);
}

fn arrive(c: &mut Cursor<'_, '_>, pred: Value, negated: bool, id: i64) {
    guarded(c, Opcode::BarArrive, pred, negated, id);
}

/// One warp, all lanes: arrive, then wait for the phase that this ends.
fn round_trip() -> Case {
    let frame = Frame { barriers: vec![32], ..Frame::default() };
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |_, env| vec![env.zero],
            |c, env, carried| {
                let mut phase = carried[0];
                for _ in 0..LENGTH {
                    let mem = Attr::Mem { offset: 0, count: 1 };
                    c.push(NewInst::new(Opcode::MbarArrive, &[env.barriers], &[]).attr(mem.clone()));
                    c.push(NewInst::new(Opcode::MbarWait, &[env.barriers, phase], &[]).attr(mem));
                    let one = c.imm(1);
                    phase = c.op(Opcode::Xor, &[phase, one], Ty::B32);
                }
                vec![phase]
            },
        )
    });
    Case::new("sync.mbarrier.round_trip", "sync", Reading::Cycles { per: LENGTH.into() }, build)
        .sass("SYNCS", SYNCS * LENGTH)
}

/// Two warps that wait for each other: each arrives at its own barrier and waits at the other's.
fn mbarrier_hand_over() -> Case {
    let frame = Frame { warps: 2, barriers: vec![32, 32], ..Frame::default() };
    let build = builder(move |bump, name| {
        let places = std::cell::Cell::new(None);
        frame.build(
            bump,
            name,
            |c, env| {
                let eight = c.imm(8);
                let own = c.int(Opcode::MulS32, env.warp, eight);
                let other = c.op(Opcode::Xor, &[own, eight], Ty::B32);
                let (to, from) = (c.add(env.barriers, own), c.add(env.barriers, other));
                places.set(Some((to, from)));
                vec![env.zero]
            },
            |c, _, carried| {
                let mut phase = carried[0];
                for _ in 0..LENGTH {
                    let Some((to, from)) = places.get() else { break };
                    let mem = Attr::Mem { offset: 0, count: 1 };
                    c.push(NewInst::new(Opcode::MbarArrive, &[to], &[]).attr(mem.clone()));
                    c.push(NewInst::new(Opcode::MbarWait, &[from, phase], &[]).attr(mem));
                    let one = c.imm(1);
                    phase = c.op(Opcode::Xor, &[phase, one], Ty::B32);
                }
                vec![phase]
            },
        )
    });
    Case::new("sync.mbarrier.exchange", "sync", Reading::Cycles { per: LENGTH.into() }, build)
        .sass("SYNCS", SYNCS * LENGTH)
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let mut all: Vec<Case> = [1, 2, 4, 8, 16].map(meeting).into();
    all.push(named_hand_over());
    all.push(round_trip());
    all.push(mbarrier_hand_over());
    all.extend([2, 4].map(cluster));
    all.push(ordering("fence.proxy.async", Opcode::FenceProxyAsync, Attr::None, 1));
    all.push(ordering("wgmma.fence", Opcode::WgmmaFence, Attr::None, 4));
    all.push(ordering("bar.warp.sync", Opcode::BarWarpSync, Attr::None, 1));
    all
}
