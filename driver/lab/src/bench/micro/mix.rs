//! Two kinds of instructions in turn: whether the units of a scheduler work beside each other, or its issue is the limit.
//!
//! ```text
//!  alone      x x x x          the intervals of `rows`
//!  in turn    x y x y          the larger interval where units overlap, the sum where they do not
//! ```

use super::{Case, Frame, Reading, builder};
use warplift_ir::machine::{Ty, Value};
use warplift_ir::target::{Opcode, SM90A};

/// Pairs in a turn.
const LENGTH: u32 = 64;
/// Independent streams of a thread.
const STREAMS: usize = 4;
/// Warps, sixteen of them four to a scheduler.
const WARPS: u32 = 16;

fn pair(first: Opcode, second: Opcode) -> Case {
    let frame = Frame { warps: WARPS, ..Frame::default() };
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |c, env| (0..2 * STREAMS as i64).map(|k| c.add_imm(env.thread, k)).collect(),
            |c, _, carried| {
                let mut x = carried.to_vec();
                for k in 0..LENGTH as usize {
                    for (op, at) in [(first, 0), (second, STREAMS)] {
                        let (own, next) = (at + k % STREAMS, at + (k + 1) % STREAMS);
                        let args: Vec<Value> = match op.args().len() {
                            1 => vec![x[own]],
                            2 => vec![x[own], x[next]],
                            _ => vec![x[own], x[next], x[own]],
                        };
                        x[own] = c.op(op, &args, Ty::B32);
                    }
                }
                x
            },
        )
    });
    let per = f64::from(LENGTH * WARPS / SM90A.schedulers);
    let name = format!("mix.{}.{}", first.name(), second.name());
    Case::new(name, "mix", Reading::Cycles { per }, build)
}

/// Left shifts by a number after another kind, each of the result of the other: the assembler may shift in the unit of products.
fn shifted(first: Opcode) -> Case {
    let frame = Frame { warps: WARPS, ..Frame::default() };
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |c, env| (0..=STREAMS as i64).map(|k| c.add_imm(env.thread, k)).collect(),
            |c, _, carried| {
                let (mut x, by, three) = (carried.to_vec(), carried[STREAMS], c.imm(3));
                for k in 0..LENGTH as usize {
                    let own = k % STREAMS;
                    let args = [x[own], by, by];
                    let mixed = c.op(first, &args[..first.args().len()], Ty::B32);
                    x[own] = c.int(Opcode::Shl, mixed, three);
                }
                x
            },
        )
    });
    let per = f64::from(LENGTH * WARPS / SM90A.schedulers);
    Case::new(format!("mix.{}.shl.3", first.name()), "mix", Reading::Cycles { per }, build)
}

/// All of it.
pub fn cases() -> Vec<Case> {
    use Opcode::{
        AddF16x2, Ex2F32, F32FromS32, FmaF32, LowE4m3, LowF16, MaxF32, PackBf16, Prmt, S32FromF32, Xor,
    };
    let pairs = [
        (Xor, FmaF32),
        (Xor, AddF16x2),
        (Xor, Ex2F32),
        (Xor, Prmt),
        (Prmt, AddF16x2),
        (FmaF32, AddF16x2),
        (FmaF32, Ex2F32),
        (S32FromF32, Ex2F32),
    ];
    // Which unit has conversions and comparisons: the one beside which they take as long as both of them.
    let placed = [PackBf16, LowF16, LowE4m3, F32FromS32, MaxF32];
    let beside = placed.into_iter().flat_map(|op| [Prmt, FmaF32, Ex2F32].map(|other| (op, other)));
    let shifts = [Xor, Prmt, FmaF32, AddF16x2].map(shifted);
    pairs.into_iter().chain(beside).map(|(first, second)| pair(first, second)).chain(shifts).collect()
}
