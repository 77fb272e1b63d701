//! `mma.sync` m16n8k16 from registers alone: the peak of a product of warps.

use super::{Case, Frame, Reading, builder};
use warplift_ir::machine::{Attr, MmaAttr, NewInst, Ty, Value};
use warplift_ir::target::{Opcode, SM90A};
use warplift_ir::types::Elem;

/// Tile products in a turn.
const LENGTH: u32 = 16;
/// Registers of one instruction's accumulator, A and B.
const REGISTERS: [u16; 3] = [4, 4, 2];

/// Chains of products of `m` by `n` instructions, each onto its own accumulator.
fn case(name: &str, elem: Elem, warps: u32, [m, n]: [u8; 2], kind: &str) -> Case {
    let frame = Frame { warps, ..Frame::default() };
    let (rows, columns) = (u16::from(m), u16::from(n));
    let regs = [REGISTERS[0] * rows * columns, REGISTERS[1] * rows, REGISTERS[2] * columns];
    let build = builder(move |bump, name| {
        let held = std::cell::Cell::new(None);
        frame.build(
            bump,
            name,
            |c, env| {
                let [acc, a, b] = [0, 1, 2].map(|k| {
                    let words: Vec<Value> =
                        (0..i64::from(regs[k])).map(|i| c.add_imm(env.lane_zero, i * k as i64)).collect();
                    let ty = Ty::Frag { regs: regs[k], atom: REGISTERS[k] };
                    c.value(NewInst::new(Opcode::Join, &words, &[ty]))
                });
                held.set(Some((a, b)));
                vec![acc]
            },
            |c, _, carried| {
                let mut acc = carried[0];
                let attr = MmaAttr { elem, acc: Elem::F32, m_atoms: m, n_atoms: n };
                for _ in 0..LENGTH {
                    let Some((a, b)) = held.get() else { break };
                    let ty = Ty::Frag { regs: regs[0], atom: REGISTERS[0] };
                    acc = c.value(NewInst::new(Opcode::MmaSync, &[acc, a, b], &[ty]).attr(Attr::Mma(attr)));
                }
                vec![acc]
            },
        )
    });
    let products = LENGTH * u32::from(m) * u32::from(n);
    let per = f64::from(products * warps.div_ceil(SM90A.schedulers));
    Case::new(format!("mma.{name}.{kind}"), "mma", Reading::Cycles { per }, build).sass("HMMA", products)
}

/// Latency of one, interval with eight accumulators in each of two warps of a scheduler.
pub fn cases() -> Vec<Case> {
    let types = [("m16n8k16.f16", Elem::F16), ("m16n8k16.bf16", Elem::Bf16)];
    let both = types.iter().flat_map(|&(name, elem)| {
        [case(name, elem, 1, [1, 1], "latency"), case(name, elem, 8, [2, 4], "interval")]
    });
    both.collect()
}
