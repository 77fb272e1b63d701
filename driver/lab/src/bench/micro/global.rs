//! Global memory: latency of a chain of addresses that stays in L1, in L2, or in neither; bandwidth from
//! L2 and from device memory against the bytes in flight.

use super::frame::{Blocks, fold, part};
use super::{Case, Contents, Frame, Reading, builder};
use warplift_ir::machine::{Attr, NewInst, Ty, Value};
use warplift_ir::target::{Opcode, SM90A};

/// Loads in a turn of a chain.
const LENGTH: u32 = 32;
/// Bytes that are read for the bandwidth of device memory, and of the L2.
const MEMORY: i64 = 1 << 30;
const L2: i64 = 16 << 20;

fn latency(name: &str, span: u64) -> Case {
    let build = builder(|bump, name| {
        Frame::default().build(
            bump,
            name,
            |_, env| vec![env.data],
            |c, _, carried| {
                let mut at = carried[0];
                for _ in 0..LENGTH {
                    let mem = Attr::Mem { offset: 0, count: 2 };
                    let pair = c.value(NewInst::new(Opcode::LdGlobal, &[at], &[Ty::frag(2)]).attr(mem));
                    let (low, high) = (part(c, pair, 0), part(c, pair, 1));
                    at = c.op(Opcode::Pack64, &[low, high], Ty::B64);
                }
                vec![at]
            },
        )
    });
    Case::new(format!("global.latency.{name}"), "global", Reading::Cycles { per: LENGTH.into() }, build)
        .turns([4, 100])
        .sass("LDG", LENGTH)
        .axes(&[("bytes", span as f64)])
        .contents(Contents::Chain(span))
}

/// `loads` loads of 16 bytes a thread in flight, `warps` warps on each multiprocessor, over `bytes`. A turn
/// reads one piece of each block: 16 bytes by all threads for each load.
fn bandwidth(place: &str, bytes: i64, loads: u32, warps: u32) -> Case {
    let frame = Frame { warps, blocks: Blocks::Each(1), ..Frame::default() };
    let row = i64::from(16 * 32 * warps);
    let piece = row * i64::from(loads);
    // The chains of addresses are made for a block on every multiprocessor.
    let stride = piece * i64::from(SM90A.multiprocessors);
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |c, env| {
                let block = c.op(Opcode::CtaidX, &[], Ty::B32);
                let (first, mine) = (c.mul_imm(block, piece), c.mul_imm(env.thread, 16));
                let at = c.add(first, mine);
                vec![at, env.lane_zero]
            },
            |c, env, carried| {
                let [at, mut sum] = [carried[0], carried[1]];
                let one = c.imm(1);
                let from = c.op(Opcode::MadWideS32, &[at, one, env.data], Ty::B64);
                let load = |i: u32| {
                    let mem = Attr::Mem { offset: (i64::from(i) * row) as i32, count: 4 };
                    NewInst::new(Opcode::LdGlobal, &[from], &[Ty::frag(4)]).attr(mem)
                };
                let loaded: Vec<Value> = (0..loads).map(|i| c.value(load(i))).collect();
                for v in loaded {
                    sum = fold(c, sum, v);
                }
                let moved = c.add_imm(at, stride);
                let next = c.and_imm(moved, bytes - 1);
                vec![next, sum]
            },
        )
    });
    let turns = ((4 << 30) / stride) as u32;
    let in_flight = f64::from(16 * 32 * warps * loads);
    Case::new(
        format!("global.bandwidth.{place}.loads{loads}.warps{warps}"),
        "global",
        Reading::Bandwidth { bytes: piece as f64 },
        build,
    )
    .turns([turns / 4, turns])
    .axes(&[("in_flight", in_flight), ("warps", warps.into()), ("loads", loads.into())])
    .sass("LDG", loads)
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let mut all = vec![latency("l1", 16 << 10), latency("l2", 8 << 20), latency("memory", 256 << 20)];
    for (place, bytes) in [("memory", MEMORY), ("l2", L2)] {
        for (loads, warps) in [(1, 4), (1, 8), (1, 16), (1, 32), (2, 32), (4, 32), (8, 16), (8, 24)] {
            all.push(bandwidth(place, bytes, loads, warps));
        }
    }
    all
}
