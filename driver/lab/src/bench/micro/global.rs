//! Global memory: latency of a chain of addresses that stays in L1, in L2, or in neither; bandwidth from
//! L2 and from device memory against the bytes in flight; loads whose lanes stand apart.
//!
//! ```text
//!  apart 4     ▓▓▓▓▓▓▓▓                        one line of 128 bytes, four sectors
//!  apart 32    ▓   ▓   ▓   ▓   ..              a sector for each lane, four lanes in a line
//!  apart 128   ▓               ▓   ..          a line for each lane
//! ```

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
        let reads = Reads {
            block: self.piece(),
            threads: i64::from(frame.threads().next_power_of_two()),
            thread: 16,
            words: 4,
            loads: self.loads,
            step: self.row(),
            stride: self.stride(),
            bytes: self.bytes,
        };
        reads.case(frame, name, group, reading)
    }
}

/// Where the loads of a turn are, in bytes of a ring of `bytes`, a power of two.
#[derive(Clone, Copy)]
struct Reads {
    /// From block to block, and from thread to thread of so many, a power of two; the next ones read the same.
    block: i64,
    threads: i64,
    thread: i64,
    /// Words of a thread.
    words: u8,
    loads: u32,
    /// From load to load. What the ring does not hold begins again, some words further on.
    step: i64,
    /// From turn to turn.
    stride: i64,
    bytes: i64,
}

impl Reads {
    fn case(self, frame: Frame, name: String, group: &'static str, reading: Reading) -> Case {
        let build = builder(move |bump, name| {
            frame.build(
                bump,
                name,
                |c, env| {
                    let block = c.op(Opcode::CtaidX, &[], Ty::B32);
                    let thread = c.and_imm(env.thread, self.threads - 1);
                    let (first, mine) = (c.mul_imm(block, self.block), c.mul_imm(thread, self.thread));
                    let at = c.add(first, mine);
                    vec![at, env.lane_zero]
                },
                |c, env, carried| {
                    let [at, mut sum] = [carried[0], carried[1]];
                    let one = c.imm(1);
                    let from = c.op(Opcode::MadWideS32, &[at, one, env.data], Ty::B64);
                    let loaded: Vec<Value> = (0..self.loads).map(|i| c.value(self.load(from, i))).collect();
                    for v in loaded {
                        sum = fold(c, sum, v);
                    }
                    // Nobody knows that the next turn reads the same.
                    let moved = c.add_imm(at, self.stride);
                    let moved = c.add(moved, env.lane_zero);
                    let next = c.and_imm(moved, self.bytes - 1);
                    vec![next, sum]
                },
            )
        });
        Case::new(name, group, reading, build).sass("LDG", self.loads)
    }

    fn load(self, from: Value, i: u32) -> NewInst {
        let far = i64::from(i) * self.step;
        let offset = far % self.bytes + far / self.bytes * 4 * i64::from(self.words);
        let mem = Attr::Mem { offset: offset as i32, count: self.words };
        NewInst::new(Opcode::LdGlobal, &[from], &[Ty::frag(self.words.into())]).attr(mem)
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

/// Loads of a thread that are in flight, whose lanes stand apart.
const APART_LOADS: u32 = 8;
/// Warps of a block that make them.
const APART_WARPS: u32 = 32;
/// Words of a lane, and bytes from lane to lane.
const APART: [(u8, i64); 9] =
    [(1, 4), (1, 8), (1, 16), (1, 32), (1, 64), (1, 128), (1, 512), (4, 16), (4, 128)];
/// Bytes that a block reads again and again from its L1.
const L1: i64 = 32 << 10;

/// Loads of so many words, the lanes of a warp so many bytes apart: cycles of the multiprocessor for one of a warp.
fn apart(place: &str, bytes: i64, words: u8, apart: i64) -> Case {
    let frame = Frame { warps: APART_WARPS, blocks: Blocks::Each(1), ..Frame::default() };
    // In the L1 all warps read the same, again and again.
    let same = bytes == L1;
    let row = apart * if same { 32 } else { frame.threads().into() };
    let piece = if same { 0 } else { row * i64::from(APART_LOADS) };
    let reads = Reads {
        block: piece,
        threads: if same { 32 } else { frame.threads().into() },
        thread: apart,
        words,
        loads: APART_LOADS,
        step: row,
        stride: piece * i64::from(SM90A.multiprocessors),
        bytes,
    };
    let per = f64::from(APART_LOADS * APART_WARPS);
    let name = format!("global.apart.{place}.words{words}.bytes{apart}");
    reads
        .case(frame, name, "global", Reading::Cycles { per })
        .turns([16, 64])
        .axes(&[("apart", apart as f64), ("words", words.into())])
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let mut all = vec![latency("l1", 16 << 10), latency("l2", 8 << 20), latency("memory", 256 << 20)];
    for (place, bytes) in [("memory", MEMORY), ("l2", L2)] {
        for (loads, warps) in [(1, 4), (1, 8), (1, 16), (1, 32), (2, 32), (4, 32), (8, 16), (8, 24)] {
            all.push(bandwidth(place, bytes, loads, warps));
        }
    }
    for (place, bytes) in [("l1", L1), ("l2", L2), ("memory", MEMORY / 2)] {
        for (words, distance) in APART {
            all.push(apart(place, bytes, words, distance));
        }
    }
    all
}
