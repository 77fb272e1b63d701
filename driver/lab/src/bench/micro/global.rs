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

/// Loads of 16 bytes a thread: so many in flight, by so many warps of a block.
#[derive(Clone, Copy)]
struct Loads {
    loads: u32,
    warps: u32,
    blocks: Blocks,
    /// Bytes that are read, a power of two.
    bytes: i64,
}

impl Loads {
    /// Bytes that all threads of a block read by one load each.
    fn row(self) -> i64 {
        i64::from(16 * 32 * self.warps)
    }

    /// Bytes that a block reads in a turn.
    fn piece(self) -> i64 {
        self.row() * i64::from(self.loads)
    }

    /// Bytes that all blocks read in a turn. The chains of addresses of `Each` are made for a block on every
    /// multiprocessor.
    fn stride(self) -> i64 {
        let blocks = match self.blocks {
            Blocks::Count(n) => n,
            Blocks::Each(n) => n * SM90A.multiprocessors,
        };
        self.piece() * i64::from(blocks)
    }

    fn in_flight(self) -> f64 {
        self.piece() as f64
    }

    fn case(self, name: String, group: &'static str, reading: Reading) -> Case {
        let frame = Frame { warps: self.warps, blocks: self.blocks, ..Frame::default() };
        let build = builder(move |bump, name| {
            frame.build(
                bump,
                name,
                |c, env| {
                    let block = c.op(Opcode::CtaidX, &[], Ty::B32);
                    let (first, mine) = (c.mul_imm(block, self.piece()), c.mul_imm(env.thread, 16));
                    let at = c.add(first, mine);
                    vec![at, env.lane_zero]
                },
                |c, env, carried| {
                    let [at, mut sum] = [carried[0], carried[1]];
                    let one = c.imm(1);
                    let from = c.op(Opcode::MadWideS32, &[at, one, env.data], Ty::B64);
                    let load = |i: u32| {
                        let mem = Attr::Mem { offset: (i64::from(i) * self.row()) as i32, count: 4 };
                        NewInst::new(Opcode::LdGlobal, &[from], &[Ty::frag(4)]).attr(mem)
                    };
                    let loaded: Vec<Value> = (0..self.loads).map(|i| c.value(load(i))).collect();
                    for v in loaded {
                        sum = fold(c, sum, v);
                    }
                    let moved = c.add_imm(at, self.stride());
                    let next = c.and_imm(moved, self.bytes - 1);
                    vec![next, sum]
                },
            )
        });
        Case::new(name, group, reading, build).sass("LDG", self.loads)
    }
}

fn bandwidth(place: &str, bytes: i64, loads: u32, warps: u32) -> Case {
    let plan = Loads { loads, warps, blocks: Blocks::Each(1), bytes };
    let turns = ((4 << 30) / plan.stride()) as u32;
    let reading = Reading::Bandwidth { bytes: plan.piece() as f64 };
    plan.case(format!("global.bandwidth.{place}.loads{loads}.warps{warps}"), "global", reading)
        .turns([turns / 4, turns])
        .axes(&[("in_flight", plan.in_flight()), ("warps", warps.into()), ("loads", loads.into())])
}

/// What each of `blocks` multiprocessors gets from device memory.
pub fn rate(loads: u32, warps: u32, blocks: u32) -> Case {
    let plan = Loads { loads, warps, blocks: Blocks::Count(blocks), bytes: MEMORY };
    let turns = (MEMORY / plan.stride()) as u32;
    let reading = Reading::BytesPerCycle { bytes: plan.piece() as f64 };
    plan.case(format!("memory.loads{loads}.warps{warps}.blocks{blocks}"), "memory", reading)
        .turns([turns / 4, turns])
        .axes(&[("blocks", blocks.into()), ("in_flight", plan.in_flight())])
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
