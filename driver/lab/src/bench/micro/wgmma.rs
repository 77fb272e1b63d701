//! `wgmma` by shape, types, the place of A, and the warpgroups that take turns. One warpgroup feeds all four tensor cores.
//!
//! Latency: one product, committed and waited for, in a chain through its accumulator. Interval: groups of
//! sixteen products with one group in flight, so that waiting is hidden.
//!
//! ```text
//!  warpgroup 0   ■■ wait    ■■ wait       turns: each warpgroup commits a short group and waits for the one before;
//!  warpgroup 1      ■■ wait    ■■ wait    the cycles are those from product to product, of all warpgroups
//! ```

use super::{Case, Frame, Reading, builder};
use warplift_ir::entity::EntityRef;
use warplift_ir::machine::{Attr, Buffer, Cursor, NewInst, Place, SharedOperand, Ty, Value, WgmmaAttr};
use warplift_ir::target::Opcode;
use warplift_ir::types::Elem;

/// Operand and accumulator types, by name.
const TYPES: &[(&str, Elem, Elem)] = &[
    ("f16", Elem::F16, Elem::F32),
    ("bf16", Elem::Bf16, Elem::F32),
    ("f16.f16", Elem::F16, Elem::F16),
    ("tf32", Elem::Tf32, Elem::F32),
    ("e4m3", Elem::E4M3, Elem::F32),
    ("s8", Elem::Int(8), Elem::Int(32)),
];
/// Columns that are measured of every type.
const COLUMNS: [u16; 12] = [8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256];
/// Products of a group.
const GROUP: u8 = 16;
/// Groups in a turn where the interval is measured; products where the latency is.
const GROUPS: u32 = 2;
const CHAIN: u32 = 8;
/// Bytes of A (64 rows of 128), then of B (256 rows): one span of K, swizzled.
const A_BYTES: u32 = 64 * 128;
/// Bytes of both operands.
pub const BYTES: u32 = A_BYTES + 256 * 128;

/// One shape.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Its name in those of cases.
    pub name: &'static str,
    /// Elements of the operands.
    pub elem: Elem,
    /// Elements of the accumulator.
    pub acc: Elem,
    /// Columns.
    pub n: u16,
    /// Whether A is in shared memory or in registers.
    pub shared_a: bool,
}

impl Shape {
    /// Registers of an accumulator.
    pub fn regs(self) -> u16 {
        (u32::from(self.n) * self.acc.bits() / 64) as u16
    }

    fn operand(self, offset: u32, steps: u8) -> SharedOperand {
        SharedOperand {
            place: Place { buffer: Buffer::new(0), offset },
            warpgroup_stride: 0,
            atom_stride: 0,
            steps: (0..u32::from(steps)).map(|k| k % 4 * 32).collect(),
            leading: 16,
            stride: 1024,
            swizzle: 128,
            mn_major: false,
        }
    }

    fn attr(self, steps: u8) -> Attr {
        Attr::Wgmma(Box::new(WgmmaAttr {
            n: self.n,
            elem: self.elem,
            right: self.elem,
            acc: self.acc,
            m_atoms: 1,
            n_atoms: 1,
            k_steps: steps,
            negated: false,
            a: self.shared_a.then(|| self.operand(0, steps)),
            b: self.operand(A_BYTES, steps),
        }))
    }
}

/// Descriptors of the first four steps of an operand (PTX ISA, "Matrix Descriptor Format").
fn descriptors(c: &mut Cursor<'_, '_>, base: Value, offset: u32) -> [Value; 4] {
    let at = c.add_imm(base, offset.into());
    let inside = c.and_imm(at, 0x3_ffff);
    let four = c.imm(4);
    let low = c.int(Opcode::ShrU32, inside, four);
    let leading = c.imm(1 << 16);
    let low = c.int(Opcode::Or, low, leading);
    let high = c.imm(i64::from((64u32 | 1 << 30).cast_signed()));
    [0, 1, 2, 3].map(|k| {
        let low = c.add_imm(low, 2 * k);
        c.op(Opcode::Pack64, &[low, high], Ty::B64)
    })
}

/// The operands of the products.
#[derive(Clone, Copy)]
pub struct Operands {
    a: [Value; 4],
    b: [Value; 4],
    /// The A fragment of so many steps, where A is in registers.
    fragment: Value,
}

/// Operands of so many steps, from `base` on.
pub fn operands(c: &mut Cursor<'_, '_>, base: Value, thread: Value, steps: u8) -> Operands {
    let words: Vec<Value> = (0..4 * i64::from(steps)).map(|i| c.add_imm(thread, i)).collect();
    let regs = words.len() as u16;
    let fragment = c.value(NewInst::new(Opcode::Join, &words, &[Ty::Frag { regs, atom: 4 }]));
    Operands { a: descriptors(c, base, 0), b: descriptors(c, base, A_BYTES), fragment }
}

/// Fence, products, commit.
pub fn group(c: &mut Cursor<'_, '_>, shape: Shape, o: &Operands, acc: Value, steps: u8) -> Value {
    let on = c.imm_of(Ty::Pred, 1);
    let mut args = vec![acc, on];
    let cycle = |d: [Value; 4]| d.into_iter().cycle().take(steps.into());
    if shape.shared_a {
        args.extend(cycle(o.a));
    } else {
        args.push(o.fragment);
    }
    args.extend(cycle(o.b));
    c.push(NewInst::new(Opcode::WgmmaFence, &[], &[]));
    let new = NewInst::new(Opcode::Wgmma, &args, &[Ty::frag(shape.regs())]).attr(shape.attr(steps));
    let acc = c.value(new);
    c.push(NewInst::new(Opcode::WgmmaCommit, &[], &[]));
    acc
}

/// Waits until so many groups are left.
pub fn wait(c: &mut Cursor<'_, '_>, left: i64) {
    c.push(NewInst::new(Opcode::WgmmaWait, &[], &[]).attr(Attr::Imm(left)));
}

/// What each of some warpgroups does in a turn.
#[derive(Clone, Copy)]
struct Turn {
    warpgroups: u32,
    /// Products of a group.
    steps: u8,
    /// Groups.
    repeats: u32,
    /// Each is waited for down to so many groups.
    left: i64,
    /// What each thread executes behind a group, and how often.
    beside: Option<(Opcode, u32)>,
}

/// Instructions of four streams in turn, which the assembler can neither merge nor drop.
fn work(c: &mut Cursor<'_, '_>, op: Opcode, times: u32, streams: &mut [Value]) {
    for k in 0..times as usize {
        let (x, y) = (streams[k % 4], streams[(k + 1) % 4]);
        let args = [x, y, x];
        streams[k % 4] = c.op(op, &args[..op.args().len()], Ty::B32);
    }
}

/// Many products, whose waits are hidden, and one at a time.
const STREAM: Turn = Turn { warpgroups: 1, steps: GROUP, repeats: GROUPS, left: 1, beside: None };
const SINGLE: Turn = Turn { warpgroups: 1, steps: 1, repeats: CHAIN, left: 0, beside: None };

fn case(shape: Shape, kind: &str, turn: Turn) -> Case {
    let Turn { warpgroups, steps, repeats, left, beside } = turn;
    let frame = Frame { warps: 4 * warpgroups, shared: BYTES, ..Frame::default() };
    let build = builder(move |bump, name| {
        let held = std::cell::Cell::new(None);
        frame.build_to_end(
            bump,
            name,
            |c, env| {
                held.set(Some(operands(c, env.shared, env.thread, steps)));
                let regs = shape.regs();
                let words: Vec<Value> = (0..i64::from(regs)).map(|_| c.imm(0)).collect();
                let acc = c.value(NewInst::new(Opcode::Join, &words, &[Ty::frag(regs)]));
                let streams = [0, 1, 2, 3].map(|k| c.add_imm(env.thread, k));
                if beside.is_some() { [vec![acc], streams.to_vec()].concat() } else { vec![acc] }
            },
            |c, _, carried| {
                let (mut acc, mut streams) = (carried[0], carried[1..].to_vec());
                for _ in 0..repeats {
                    let Some(o) = held.get() else { break };
                    acc = group(c, shape, &o, acc, steps);
                    if let Some((op, times)) = beside {
                        work(c, op, times, &mut streams);
                    }
                    wait(c, left);
                }
                [vec![acc], streams].concat()
            },
            // Without it, ptxas waits in the loop before the accumulator is read after the loop.
            |c, _, _| wait(c, 0),
        )
    });
    let from = if shape.shared_a { "ss" } else { "rs" };
    let name = format!("wgmma.{}.{from}.n{}.{kind}", shape.name, shape.n);
    let products = repeats * u32::from(steps);
    let sass = match shape.elem {
        Elem::Mini { .. } => "QGMMA",
        Elem::Int(_) => "IGMMA",
        _ => "HGMMA",
    };
    let per = f64::from(products * warpgroups);
    Case::new(name, "wgmma", Reading::Cycles { per }, build)
        .axes(&[("n", shape.n.into()), ("registers", f64::from(u8::from(!shape.shared_a)))])
        .sass(sass, products)
}

/// Columns of the accumulators of all warpgroups of a multiprocessor together, at most, and registers of a thread of each.
const ALL_COLUMNS: u32 = 512;
const REGISTERS: u32 = 400;

/// Columns, and warpgroups that fill the tensor cores with groups of four products.
const BESIDE: [(u16, u32); 6] = [(8, 7), (16, 7), (32, 7), (64, 4), (128, 3), (256, 2)];
/// What threads execute for each product.
const WORK: [(Opcode, &[u32]); 3] =
    [(Opcode::Prmt, &[4, 8, 16, 32]), (Opcode::FmaF32, &[8, 16, 32, 64]), (Opcode::Ex2F32, &[4, 8])];

/// Short groups beside other instructions, as weights are converted and as scores are scaled.
fn beside() -> Vec<Case> {
    let mut all = Vec::new();
    for (shared_a, (n, warpgroups)) in [false, true].into_iter().flat_map(|a| BESIDE.map(|b| (a, b))) {
        for (op, times) in WORK.iter().flat_map(|&(op, times)| times.iter().map(move |&t| (op, t))) {
            let shape = Shape { name: "f16", elem: Elem::F16, acc: Elem::F32, n, shared_a };
            let steps = if n < 256 { 4 } else { 2 };
            let work = Some((op, times * u32::from(steps)));
            let turn = Turn { warpgroups, steps, repeats: 4, left: 1, beside: work };
            let kind = format!("beside.{}.{times}", op.name());
            let made = case(shape, &kind, turn);
            let axes = [("n", n.into()), ("warpgroups", warpgroups.into()), ("steps", steps.into())];
            let name = made.name.replacen("wgmma", "turns", 1);
            all.push(Case { name, group: "turns", ..made }.axes(&axes));
        }
    }
    all
}

/// Short groups of several warpgroups.
fn turns() -> Vec<Case> {
    let mut all = Vec::new();
    for (shared_a, warpgroups) in [(false, [1, 2, 3, 4, 7].as_slice()), (true, &[2, 4])] {
        for (&warpgroups, n) in warpgroups.iter().flat_map(|w| [8, 16, 32, 64, 128, 256].map(|n| (w, n))) {
            if warpgroups * u32::from(n) > ALL_COLUMNS {
                continue;
            }
            for steps in [1, 2, 4, 8] {
                // Registers of the accumulator and of A.
                if warpgroups * (u32::from(n) / 2 + 4 * u32::from(steps)) > REGISTERS {
                    continue;
                }
                let shape = Shape { name: "f16", elem: Elem::F16, acc: Elem::F32, n, shared_a };
                let repeats = u32::from(2 * GROUP / steps);
                let turn = Turn { warpgroups, steps, repeats, left: 1, beside: None };
                let axes = [("n", n.into()), ("warpgroups", warpgroups.into()), ("steps", steps.into())];
                let made = case(shape, &format!("warpgroups{warpgroups}.steps{steps}"), turn);
                let name = made.name.replacen("wgmma", "turns", 1);
                all.push(Case { name, group: "turns", ..made }.axes(&axes));
            }
        }
    }
    all
}

/// All shapes, both sources of A.
pub fn cases() -> Vec<Case> {
    let mut all = turns();
    all.extend(beside());
    for &(name, elem, acc) in TYPES {
        for n in COLUMNS {
            // Integer products have fewer shapes (PTX ISA, "Matrix Shape").
            if matches!(elem, Elem::Int(_)) && n > 32 && n % 16 != 0 {
                continue;
            }
            for shared_a in [true, false] {
                let shape = Shape { name, elem, acc, n, shared_a };
                all.push(case(shape, "interval", STREAM));
                if n.is_power_of_two() {
                    all.push(case(shape, "latency", SINGLE));
                }
            }
        }
    }
    all
}
