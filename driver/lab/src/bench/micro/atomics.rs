//! Updates of global and shared memory: what they cost by how many lanes and blocks meet at an address.
//!
//! ```text
//!  lane    every lane of every block its own word        no two meet
//!  line    lane l of every block word l of one line      blocks meet, lanes do not
//!  word    all lanes of all blocks one word              everybody meets
//!  random  each lane a word, far from the others'        lanes seldom meet, each in a sector of its own
//!  shared  lanes of 8 warps in shared memory             each its own bank, several in a bank, several at a word
//!  chain   one lane, each update after the answer to the one before: latency
//! ```

use super::frame::{Blocks, Env, Frame};
use super::{Case, Reading, builder};
use warplift_ir::machine::{Attr, Cursor, NewInst, Ty, Value};
use warplift_ir::target::{Opcode, SM90A};

/// Updates in a turn.
const LENGTH: u32 = 16;
/// Bytes between the words of blocks that do not meet.
const APART: i64 = 4096;

/// Warps that update at random, enough to keep updates under way.
const RANDOM_WARPS: u32 = 8;
/// A linear congruential generator of 32 bits (Knuth, "The Art of Computer Programming", 3.3.4), and what tells threads apart.
const FACTOR: i64 = 1_664_525;
const STEP: i64 = 1_013_904_223;
const SEED: i64 = -1_640_531_535;

/// Who meets at an address.
#[derive(Clone, Copy)]
enum Meets {
    Nobody,
    Blocks,
    Everybody,
}

impl Meets {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "lane",
            Self::Blocks => "line",
            Self::Everybody => "word",
        }
    }

    /// The address of each lane.
    fn address(self, c: &mut Cursor<'_, '_>, env: &Env) -> Value {
        let own = match self {
            Self::Everybody => env.lane_zero,
            Self::Blocks => c.mul_imm(env.thread, 4),
            Self::Nobody => {
                let block = c.op(Opcode::CtaidX, &[], Ty::B32);
                let (first, lane) = (c.mul_imm(block, APART), c.mul_imm(env.thread, 4));
                c.add(first, lane)
            }
        };
        let one = c.imm(1);
        c.op(Opcode::MadWideS32, &[own, one, env.data], Ty::B64)
    }
}

fn update(op: Opcode, at: Value, with: Value, returns: bool) -> NewInst {
    let results: &[Ty] = if returns { &[Ty::B32] } else { &[] };
    NewInst::new(op, &[at, with], results).attr(Attr::Mem { offset: 0, count: 1 })
}

/// Updates at an address, one after the other; what a turn carries on: the address, and all answers mixed with `sum`.
fn updates(c: &mut Cursor<'_, '_>, op: Opcode, (at, with): (Value, Value), mut sum: Value) -> Vec<Value> {
    let returns = !op.results().is_empty();
    for _ in 0..LENGTH {
        let new = update(op, at, with, returns);
        if returns {
            let before = c.value(new);
            sum = c.op(Opcode::Xor, &[sum, before], Ty::B32);
        } else {
            c.push(new);
        }
    }
    vec![at, sum]
}

/// One warp of each block updates again and again, without waiting for answers.
fn stream(op: Opcode, meets: Meets, blocks: u32) -> Case {
    let frame = Frame { blocks: Blocks::Count(blocks), ..Frame::default() };
    let returns = matches!(op, Opcode::AtomAddU32);
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |c, env| vec![meets.address(c, env), env.lane_zero],
            |c, _, carried| {
                let one = c.imm(1);
                updates(c, op, (carried[0], one), carried[1])
            },
        )
    });
    let name = format!("atomics.{}.{}.blocks{blocks}", op.name(), meets.name());
    // The assembler writes `RED` of the global space so; updates that answer have several names.
    let sass = if returns { ("", 0) } else { ("REDG", LENGTH) };
    Case::new(name, "atomics", Reading::Cycles { per: LENGTH.into() }, build)
        .turns([16, 256])
        .sass(sass.0, sass.1)
        .axes(&[("blocks", blocks.into())])
}

/// Each lane of 8 warps of each block updates words anywhere among so many KB, the next one by a step of a generator.
fn random(op: Opcode, kilobytes: u32, blocks: u32) -> Case {
    let frame = Frame { warps: RANDOM_WARPS, blocks: Blocks::Count(blocks), ..Frame::default() };
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |c, _| {
                let (block, thread) = (c.op(Opcode::CtaidX, &[], Ty::B32), c.op(Opcode::Tid, &[], Ty::B32));
                let first = c.mul_imm(block, 1 << 10);
                let own = c.add(first, thread);
                vec![c.mul_imm(own, SEED)]
            },
            |c, env, carried| {
                let mut state = carried[0];
                let (one, four) = (c.imm(1), c.imm(4));
                // 256 words for each KB: so many high bits.
                let unused = c.imm(24 - i64::from(kilobytes.trailing_zeros()));
                for _ in 0..LENGTH {
                    let stepped = c.mul_imm(state, FACTOR);
                    state = c.add_imm(stepped, STEP);
                    let word = c.int(Opcode::ShrU32, state, unused);
                    let at = c.op(Opcode::MadWideS32, &[word, four, env.data], Ty::B64);
                    c.push(update(op, at, one, false));
                }
                vec![state]
            },
        )
    });
    let name = format!("atomics.{}.random{kilobytes}k.blocks{blocks}", op.name());
    Case::new(name, "atomics", Reading::Cycles { per: (LENGTH * RANDOM_WARPS).into() }, build)
        .turns([16, 64])
        .sass("REDG", LENGTH)
        .axes(&[("blocks", blocks.into())])
}

/// Each update waits for the answer to the one before; the word stays zero.
fn chain() -> Case {
    let build = builder(|bump, name| {
        Frame::default().build(
            bump,
            name,
            |c, env| vec![Meets::Nobody.address(c, env), env.lane_zero],
            |c, _, carried| {
                let [at, mut last] = [carried[0], carried[1]];
                for _ in 0..LENGTH {
                    last = c.value(update(Opcode::AtomAddU32, at, last, true));
                }
                vec![at, last]
            },
        )
    });
    Case::new("atomics.atom.add.u32.latency", "atomics", Reading::Cycles { per: LENGTH.into() }, build)
        .turns([4, 100])
}

/// Which lanes of a warp update what in shared memory.
#[derive(Clone, Copy)]
enum Lanes {
    /// Lane l the word l: each its own bank.
    Own,
    /// So many lanes a word, the same in all warps.
    Together(u32),
    /// Lanes this many words apart: so many in a bank.
    Bank(u32),
}

impl Lanes {
    fn name(self) -> String {
        match self {
            Self::Own => "lane".to_owned(),
            Self::Together(n) => format!("word{n}"),
            Self::Bank(n) => format!("bank{n}"),
        }
    }

    /// The address of each lane.
    fn address(self, c: &mut Cursor<'_, '_>, env: &Env) -> Value {
        let lane = c.and_imm(env.thread, 31);
        let word = match self {
            Self::Own => lane,
            Self::Together(n) => {
                let by = c.imm(i64::from(n.trailing_zeros()));
                c.int(Opcode::ShrU32, lane, by)
            }
            Self::Bank(n) => c.mul_imm(lane, n.into()),
        };
        let at = c.mul_imm(word, 4);
        c.add(env.shared, at)
    }
}

/// Bytes of shared memory that the lanes of `Lanes::Bank(32)` reach.
const SHARED_BYTES: u32 = 4096;
/// Warps that update shared memory, enough to fill its pipe.
const SHARED_WARPS: u32 = 8;

/// Warps of a block update shared memory again and again.
fn shared(op: Opcode, meets: Lanes) -> Case {
    let frame = Frame { warps: SHARED_WARPS, shared: SHARED_BYTES, ..Frame::default() };
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |c, env| vec![meets.address(c, env), env.thread],
            |c, _, carried| updates(c, op, (carried[0], carried[1]), carried[1]),
        )
    });
    let name = format!("atomics.{}.{}", op.name(), meets.name());
    Case::new(name, "atomics", Reading::Cycles { per: (LENGTH * SHARED_WARPS).into() }, build)
        .turns([16, 256])
}

/// Updates of shared memory: each lane alone, several in a bank, several at a word.
fn shared_cases() -> impl Iterator<Item = Case> {
    let ops = [Opcode::RedSharedAddS32, Opcode::RedSharedMaxS32, Opcode::RedSharedAddF32];
    let meets = [
        Lanes::Own,
        Lanes::Bank(2),
        Lanes::Bank(8),
        Lanes::Together(2),
        Lanes::Together(8),
        Lanes::Together(32),
    ];
    ops.into_iter().flat_map(move |op| meets.map(|meets| shared(op, meets)))
}

/// All of it. The word is updated by 0 in the chain, which comes first: its data are zeros.
pub fn cases() -> Vec<Case> {
    let mut list = vec![chain()];
    for op in [Opcode::RedGlobalAddF32, Opcode::RedGlobalAddS32, Opcode::AtomAddU32] {
        for meets in [Meets::Nobody, Meets::Blocks, Meets::Everybody] {
            list.extend([1, 8, SM90A.multiprocessors].map(|blocks| stream(op, meets, blocks)));
        }
    }
    for kilobytes in [64, 256, 64 << 10] {
        let blocks = [1, 8, SM90A.multiprocessors];
        list.extend(blocks.map(|blocks| random(Opcode::RedGlobalAddS32, kilobytes, blocks)));
    }
    list.extend(shared_cases());
    list
}
