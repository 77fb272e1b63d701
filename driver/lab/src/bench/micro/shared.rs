//! Shared memory: plain accesses by width and bank conflicts, `ldmatrix`, `stmatrix`.
//!
//! A warp's access takes as many turns of the memory as the fullest bank has words: 32 banks of 4 bytes.
//! The stride between lanes chooses the conflicts; addresses stay inside 32 KiB.

use super::frame::{Env, part};
use super::{Case, Frame, Reading, builder};
use warplift_ir::machine::{Attr, Cursor, NewInst, Ty, Value};
use warplift_ir::target::Opcode;

/// Accesses in a turn.
const LENGTH: u32 = 32;
const WARPS: u32 = 16;
/// Bytes that the accesses of all lanes stay inside.
const BYTES: u32 = 32 << 10;

/// Words from a lane's address to the next one's where banks collide so many times over.
const CONFLICTS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// What moves, and how wide.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    Load(u8),
    Store(u8),
    LoadMatrix(u8, bool),
    StoreMatrix(u8, bool),
}

impl Access {
    fn name(self) -> String {
        let trans = |t: bool| if t { ".trans" } else { "" };
        match self {
            Self::Load(n) => format!("ld.v{n}"),
            Self::Store(n) => format!("st.v{n}"),
            Self::LoadMatrix(n, t) => format!("ldmatrix.x{n}{}", trans(t)),
            Self::StoreMatrix(n, t) => format!("stmatrix.x{n}{}", trans(t)),
        }
    }

    fn sass(self) -> &'static str {
        match self {
            Self::Load(_) => "LDS",
            Self::Store(_) => "STS",
            Self::LoadMatrix(..) => "LDSM",
            Self::StoreMatrix(..) => "STSM",
        }
    }

    fn registers(self) -> u8 {
        match self {
            Self::Load(n) | Self::Store(n) | Self::LoadMatrix(n, _) | Self::StoreMatrix(n, _) => n,
        }
    }

    fn loads(self) -> bool {
        matches!(self, Self::Load(_) | Self::LoadMatrix(..))
    }

    /// Bytes from a lane to the next without conflicts: its own width, or a matrix row.
    fn pitch(self) -> u32 {
        match self {
            Self::Load(n) | Self::Store(n) => 4 * u32::from(n),
            Self::LoadMatrix(..) | Self::StoreMatrix(..) => 16,
        }
    }

    fn access(self, address: Value, offset: i32, value: Value) -> NewInst {
        let count = self.registers();
        let results = [Ty::frag(count.into())];
        let mem = Attr::Mem { offset, count };
        let matrix = |trans| Attr::Matrix { count, trans, offset, buffer: None };
        match self {
            Self::Load(_) => NewInst::new(Opcode::LdShared, &[address], &results).attr(mem),
            Self::LoadMatrix(_, t) => NewInst::new(Opcode::Ldmatrix, &[address], &results).attr(matrix(t)),
            Self::Store(_) => NewInst::new(Opcode::StShared, &[address, value], &[]).attr(mem),
            Self::StoreMatrix(_, t) => NewInst::new(Opcode::Stmatrix, &[address, value], &[]).attr(matrix(t)),
        }
    }
}

/// The address of this lane: `stride` words from lane to lane, all inside [`BYTES`].
fn address(c: &mut Cursor<'_, '_>, env: &Env, stride: u32) -> Value {
    let lane = c.and_imm(env.thread, 31);
    let offset = c.mul_imm(lane, i64::from(4 * stride));
    let own = c.and_imm(offset, i64::from(BYTES / 2 - 1));
    c.add(env.shared, own)
}

fn quad(c: &mut Cursor<'_, '_>, env: &Env, n: u8) -> Value {
    let words: Vec<Value> = (0..n).map(|i| c.add_imm(env.thread, i.into())).collect();
    c.value(NewInst::new(Opcode::Join, &words, &[Ty::frag(n.into())]))
}

/// Independent accesses of sixteen warps at other offsets; what is loaded decides the next turn's address.
fn interval(access: Access, stride: u32, conflicts: u32) -> Case {
    let frame = Frame { warps: WARPS, shared: BYTES, ..Frame::default() };
    let build = builder(move |bump, name| {
        let n = access.registers();
        frame.build(
            bump,
            name,
            |c, env| {
                let at = address(c, env, stride);
                if access.loads() { vec![at, env.lane_zero] } else { vec![at, quad(c, env, n)] }
            },
            |c, env, carried| {
                let [at, mut value] = [carried[0], carried[1]];
                for i in 0..LENGTH {
                    let offset = (i * 512) as i32;
                    let made = c.push(access.access(at, offset, value));
                    if access.loads() {
                        let loaded = c.func.result(made);
                        value = super::frame::fold(c, value, loaded);
                    }
                }
                let moved = if access.loads() {
                    c.op(Opcode::And, &[value, env.zero], Ty::B32)
                } else {
                    env.lane_zero
                };
                let at = c.op(Opcode::AddS32, &[at, moved], Ty::B32);
                vec![at, value]
            },
        )
    });
    let name = format!("shared.{}.conflict{conflicts}.interval", access.name());
    let per = f64::from(LENGTH * WARPS);
    let bytes = f64::from(access.registers()) * 128.0;
    Case::new(name, "shared", Reading::Cycles { per }, build)
        .axes(&[("conflict", conflicts.into()), ("bytes", bytes)])
        .sass(access.sass(), LENGTH)
}

/// A chain: the loaded word, zero, is added to the address. The addition is subtracted.
fn latency(access: Access) -> Case {
    let frame = Frame { shared: BYTES, ..Frame::default() };
    let build = builder(move |bump, name| {
        frame.build(
            bump,
            name,
            |c, env| {
                // Zeros over all that is read.
                let zero = c.imm(0);
                let at = address(c, env, access.pitch() / 4);
                for i in 0..u32::from(access.registers()).max(4) {
                    let new = NewInst::new(Opcode::StShared, &[at, zero], &[]);
                    c.push(new.attr(Attr::Mem { offset: 4 * i as i32, count: 1 }));
                }
                c.push(NewInst::new(Opcode::BarWarpSync, &[], &[]));
                vec![at, env.lane_zero]
            },
            |c, _, carried| {
                let [mut at, mut rest] = [carried[0], carried[1]];
                for _ in 0..LENGTH {
                    let made = c.push(access.access(at, 0, at));
                    let loaded = c.func.result(made);
                    let first = part(c, loaded, 0);
                    for i in 1..access.registers() {
                        let other = part(c, loaded, i.into());
                        rest = c.op(Opcode::Xor, &[rest, other], Ty::B32);
                    }
                    at = c.op(Opcode::AddS32, &[at, first], Ty::B32);
                }
                vec![at, rest]
            },
        )
    });
    let name = format!("shared.{}.latency", access.name());
    Case::new(name, "shared", Reading::Cycles { per: LENGTH.into() }, build)
        .less(vec!["row.add.s32.latency".into()])
        .sass(access.sass(), LENGTH)
}

/// All accesses: latency, interval, and interval against conflicts.
pub fn cases() -> Vec<Case> {
    let widths = [1, 2, 4];
    let plain = widths.iter().flat_map(|&n| [Access::Load(n), Access::Store(n)]);
    let matrices = widths.iter().flat_map(|&n| {
        [false, true].into_iter().flat_map(move |t| [Access::LoadMatrix(n, t), Access::StoreMatrix(n, t)])
    });
    let mut all = Vec::new();
    for access in plain.chain(matrices) {
        if access.loads() {
            all.push(latency(access));
        }
        all.push(interval(access, access.pitch() / 4, 1));
    }
    for access in [Access::Load(1), Access::Store(1)] {
        all.extend(CONFLICTS[1..].iter().map(|&way| interval(access, way, way)));
    }
    all
}
