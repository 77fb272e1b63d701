//! The tensor memory accelerator: boxes of 16-bit elements between the L2 and shared memory, by rows,
//! swizzle and copies in flight, one block or all of them; multicast in a cluster of two.
//!
//! ```text
//!  latency      expect, load, wait, and again
//!  throughput   a ring of stages: wait for stage s, expect, load into it; one elected lane of one warp
//! ```

use super::frame::{Blocks, Env, FIRST_MAP};
use super::{Case, Frame, Reading, builder};
use warplift_ir::machine::{Attr, CacheHint, Cursor, Guard, NewInst, TmaAttr, Ty, Value};
use warplift_ir::manifest::{Expr, TensorMap};
use warplift_ir::target::Opcode;

/// Bytes from row to row, and rows. A block stays in its rows and goes along them, as a product goes along
/// K; loads share rows so that all of them stay in the L2.
const PITCH: i64 = 2048;
const ROWS: i64 = 64 << 10;
const LOADED_ROWS: i64 = 4 << 10;
/// Copies in a turn.
const LENGTH: u32 = 16;

/// A box and its form in shared memory.
#[derive(Clone, Copy)]
struct Shape {
    /// Rows that one copy brings.
    rows: u32,
    /// Bytes of a row.
    inner: u32,
    /// Swizzle span in bytes.
    swizzle: u32,
    /// Blocks that receive it.
    multicast: u32,
}

impl Shape {
    fn bytes(self) -> u32 {
        self.rows * self.inner
    }

    /// Bytes that arrive at a block for one stage: each of the cluster brings a part.
    fn stage(self) -> u32 {
        self.bytes() * self.multicast
    }

    fn map(self) -> TensorMap {
        TensorMap {
            base: "data".into(),
            offset: Expr::zero(),
            element: "f16".into(),
            dims: vec![Expr::Const(PITCH / 2), Expr::Const(ROWS)],
            strides: vec![Expr::Const(PITCH)],
            box_dims: vec![self.inner / 2, self.rows],
            swizzle: self.swizzle,
            l2_promotion: 256,
        }
    }

    fn attr(self) -> Attr {
        let multicast = if self.multicast > 1 { (1 << self.multicast) - 1 } else { 0 };
        Attr::Tma(TmaAttr {
            map: FIRST_MAP,
            rank: 2,
            bytes: self.bytes(),
            place: None,
            multicast,
            hint: CacheHint::Normal,
            before_wait: false,
        })
    }

    fn name(self) -> String {
        let multicast =
            if self.multicast > 1 { format!(".multicast{}", self.multicast) } else { String::new() };
        format!("rows{}.inner{}.swizzle{}{multicast}", self.rows, self.inner, self.swizzle)
    }

    fn frame(self, stages: u32, blocks: Blocks) -> Frame {
        Frame {
            warps: 1,
            blocks,
            cluster: self.multicast,
            shared: stages * self.stage().next_multiple_of(1024),
            maps: vec![self.map()],
            barriers: vec![1; stages as usize],
        }
    }
}

/// Values of the loop: the next column, and the parity to wait for.
#[derive(Clone, Copy)]
struct State {
    column: Value,
    phase: Value,
}

/// A ring of stages as one warp sees it.
struct Copies {
    shape: Shape,
    elected: Value,
    /// First row of this block.
    row: Value,
    /// This block's place in its cluster.
    rank: Option<Value>,
}

impl Copies {
    fn new(c: &mut Cursor<'_, '_>, shape: Shape, rows: i64) -> Self {
        let rank = (shape.multicast > 1).then(|| c.op(Opcode::ClusterRank, &[], Ty::B32));
        let elected = c.value(NewInst::new(Opcode::Elect, &[], &[Ty::Pred]));
        let block = c.op(Opcode::CtaidX, &[], Ty::B32);
        let first = c.mul_imm(block, shape.rows.into());
        let row = c.and_imm(first, rows - 1);
        Self { shape, elected, row, rank }
    }

    fn guard(&self) -> Option<Guard> {
        Some(Guard { pred: self.elected, negated: false })
    }

    fn mem(stage: u32) -> Attr {
        Attr::Mem { offset: 8 * stage as i32, count: 1 }
    }

    /// Expects a stage's bytes and loads this block's part of it.
    fn load(&self, c: &mut Cursor<'_, '_>, env: &Env, state: &mut State, stage: u32) {
        let barrier = c.add_imm(env.barriers, 8 * i64::from(stage));
        let expect = NewInst::new(Opcode::MbarExpectTx, &[barrier], &[]);
        c.push(expect.attr(Attr::Imm(self.shape.stage().into())).guard(self.guard()));
        let mut place = self.place(c, env, stage);
        if let Some(rank) = self.rank {
            let part = c.mul_imm(rank, self.shape.bytes().into());
            place = c.add(place, part);
        }
        let load = NewInst::new(Opcode::TmaLoad, &[place, barrier, state.column, self.row], &[]);
        c.push(load.attr(self.shape.attr()).guard(self.guard()));
        self.advance(c, state);
    }

    fn place(&self, c: &mut Cursor<'_, '_>, env: &Env, stage: u32) -> Value {
        c.add_imm(env.shared, i64::from(stage * self.shape.stage().next_multiple_of(1024)))
    }

    fn advance(&self, c: &mut Cursor<'_, '_>, state: &mut State) {
        let moved = c.add_imm(state.column, i64::from(self.shape.inner / 2));
        state.column = c.and_imm(moved, PITCH / 2 - 1);
    }

    fn wait(&self, c: &mut Cursor<'_, '_>, env: &Env, state: &State, stage: u32) {
        let wait = NewInst::new(Opcode::MbarWait, &[env.barriers, state.phase], &[]);
        c.push(wait.attr(Self::mem(stage)));
    }

    fn store(&self, c: &mut Cursor<'_, '_>, env: &Env, state: &mut State, stage: u32) {
        let place = self.place(c, env, stage);
        let store = NewInst::new(Opcode::TmaStore, &[place, state.column, self.row], &[]);
        c.push(store.attr(self.shape.attr()).guard(self.guard()));
        c.push(NewInst::new(Opcode::BulkCommit, &[], &[]).guard(self.guard()));
        self.advance(c, state);
    }

    fn flip(c: &mut Cursor<'_, '_>, state: &mut State) {
        let one = c.imm(1);
        state.phase = c.op(Opcode::Xor, &[state.phase, one], Ty::B32);
    }
}

fn scope(blocks: Blocks) -> &'static str {
    if blocks == Blocks::Each(1) { "all" } else { "one" }
}

/// Loads; `stages` in flight. With one stage the figure is the latency of a load.
fn loads(shape: Shape, stages: u32, blocks: Blocks, reading: Reading) -> Case {
    let frame = shape.frame(stages, blocks);
    let build = builder(move |bump, name| {
        let held = std::cell::OnceCell::new();
        frame.build_to_end(
            bump,
            name,
            |c, env| {
                let copies = Copies::new(c, shape, LOADED_ROWS);
                let mut state = State { column: env.zero, phase: env.zero };
                c.push(NewInst::new(Opcode::BarSync, &[], &[]).attr(Attr::Imm2(0, 32)));
                (0..stages).for_each(|s| copies.load(c, env, &mut state, s));
                let _ = held.set(copies);
                vec![state.column, state.phase]
            },
            |c, env, carried| {
                let Some(copies) = held.get() else { return carried.to_vec() };
                let mut state = State { column: carried[0], phase: carried[1] };
                for i in 0..LENGTH {
                    let stage = i % stages;
                    copies.wait(c, env, &state, stage);
                    copies.load(c, env, &mut state, stage);
                    if stage + 1 == stages {
                        Copies::flip(c, &mut state);
                    }
                }
                vec![state.column, state.phase]
            },
            |c, env, carried| {
                let Some(copies) = held.get() else { return };
                let state = State { column: carried[0], phase: carried[1] };
                (0..stages).for_each(|s| copies.wait(c, env, &state, s));
                if shape.multicast > 1 {
                    // The other block may still send to this one.
                    c.push(NewInst::new(Opcode::ClusterArrive, &[], &[]));
                    c.push(NewInst::new(Opcode::ClusterWait, &[], &[]));
                }
            },
        )
    });
    let kind = if matches!(reading, Reading::Cycles { .. }) {
        "latency".to_owned()
    } else {
        format!("stages{stages}.{}", scope(blocks))
    };
    Case::new(format!("tma.load.{}.{kind}", shape.name()), "tma", reading, build)
        .axes(&axes(shape, stages))
        .sass("UTMALDG", LENGTH)
}

fn axes(shape: Shape, stages: u32) -> [(&'static str, f64); 5] {
    [
        ("bytes", shape.stage().into()),
        ("rows", shape.rows.into()),
        ("inner", shape.inner.into()),
        ("swizzle", shape.swizzle.into()),
        ("in_flight", f64::from(stages * shape.stage())),
    ]
}

/// Stores; `stages` groups in flight, waited for until they are read, or until they are done.
fn stores(shape: Shape, stages: u32, blocks: Blocks, done: bool, reading: Reading) -> Case {
    let frame = shape.frame(stages, blocks);
    let build = builder(move |bump, name| {
        let held = std::cell::OnceCell::new();
        frame.build_to_end(
            bump,
            name,
            |c, env| {
                let _ = held.set(Copies::new(c, shape, ROWS));
                vec![env.zero, env.zero]
            },
            |c, env, carried| {
                let Some(copies) = held.get() else { return carried.to_vec() };
                let mut state = State { column: carried[0], phase: carried[1] };
                let op = if done { Opcode::BulkWait } else { Opcode::BulkWaitRead };
                for i in 0..LENGTH {
                    copies.store(c, env, &mut state, i % stages);
                    let wait = NewInst::new(op, &[], &[]).attr(Attr::Imm(i64::from(stages) - 1));
                    c.push(wait.guard(copies.guard()));
                }
                vec![state.column, state.phase]
            },
            |c, _, _| {
                let Some(copies) = held.get() else { return };
                let wait = NewInst::new(Opcode::BulkWait, &[], &[]).attr(Attr::Imm(0));
                c.push(wait.guard(copies.guard()));
            },
        )
    });
    let kind = match (reading, done) {
        (Reading::Cycles { .. }, true) => "latency.done".to_owned(),
        (Reading::Cycles { .. }, false) => "latency.read".to_owned(),
        _ => format!("stages{stages}.{}", scope(blocks)),
    };
    Case::new(format!("tma.store.{}.{kind}", shape.name()), "tma", reading, build)
        .axes(&axes(shape, stages))
        .sass("UTMASTG", LENGTH)
}

const fn shape(rows: u32, inner: u32, swizzle: u32) -> Shape {
    Shape { rows, inner, swizzle, multicast: 1 }
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let latency = Reading::Cycles { per: LENGTH.into() };
    let rate = |s: Shape| Reading::BytesPerCycle { bytes: f64::from(LENGTH * s.stage()) };
    let (one, all) = (Blocks::Count(1), Blocks::Each(1));
    let mut list = Vec::new();
    for s in [shape(8, 128, 128), shape(64, 128, 128), shape(128, 128, 128), shape(256, 128, 128)] {
        list.push(loads(s, 1, one, latency));
        list.push(stores(s, 1, one, false, latency));
        list.push(stores(s, 1, one, true, latency));
        for blocks in [one, all] {
            let stages = [2, 4, 8].into_iter().filter(|n| n * s.stage() <= 200 << 10);
            for n in stages {
                list.push(loads(s, n, blocks, rate(s)));
                list.push(stores(s, n, blocks, false, rate(s)));
            }
        }
    }
    for s in [shape(64, 128, 0), shape(128, 64, 64), shape(256, 32, 32), shape(256, 32, 0), shape(16, 512, 0)]
    {
        list.push(loads(s, 1, one, latency));
        list.push(loads(s, 8, one, rate(s)));
        list.push(loads(s, 8, all, rate(s)));
    }
    let pair = Shape { multicast: 2, ..shape(64, 128, 128) };
    list.push(loads(pair, 1, Blocks::Count(2), latency));
    for n in [4, 8] {
        list.push(loads(pair, n, all, rate(pair)));
    }
    list
}
