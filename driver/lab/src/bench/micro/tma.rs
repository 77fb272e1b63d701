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
use warplift_ir::target::{Opcode, SM90A};
use warplift_ir::tile::CmpOp;

/// Rows of the array.
const ROWS: i64 = 64 << 10;
/// Blocks among which those that share stand far from each other.
const SPREAD: u32 = 128;
/// Copies in a turn.
pub const LENGTH: u32 = 16;

/// Where the bytes come from. A block goes along its rows, as a product goes along K.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// It stays in its rows, and blocks share rows, so that all of them stay in the L2.
    Cache,
    /// It goes on to rows that nobody has read.
    Memory,
}

impl Ground {
    /// Bytes of the array in device memory.
    pub const BYTES: i64 = Self::Memory.pitch() * ROWS;

    /// Bytes from row to row.
    const fn pitch(self) -> i64 {
        match self {
            Self::Cache => 2048,
            Self::Memory => 16 << 10,
        }
    }

    /// Rows that are loaded.
    const fn rows(self) -> i64 {
        match self {
            Self::Cache => 4 << 10,
            Self::Memory => ROWS,
        }
    }
}

/// A box and its form in shared memory.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Rows that one copy brings.
    pub rows: u32,
    /// Bytes of a row.
    pub inner: u32,
    /// Swizzle span in bytes.
    pub swizzle: u32,
    /// Blocks that receive it.
    pub multicast: u32,
    /// Where its bytes come from.
    pub ground: Ground,
    /// Blocks that load the same rows.
    pub sharers: u32,
    /// Those blocks stand as far from each other as they can, not next to each other.
    pub spread: bool,
    /// Bytes from a line's start to the first byte of its rows.
    pub offset: u32,
    /// Bytes that rows are further apart than the ground's, so that their starts lie anywhere in a line.
    pub skew: u32,
    /// Boxes of a stage, for which one barrier stands.
    pub boxes: u32,
    /// Each stage's column is read from memory first, as a page's number is: a word that nobody has read.
    pub listed: bool,
    /// Rows of each box that lie outside the array, which has no others then.
    pub outside: u32,
}

impl Shape {
    fn bytes(self) -> u32 {
        self.rows * self.inner
    }

    /// Bytes that arrive at a block for one stage: each of the cluster brings a part.
    pub fn stage(self) -> u32 {
        self.bytes() * self.boxes * self.multicast
    }

    fn array_rows(self) -> i64 {
        if self.outside > 0 { i64::from(self.rows - self.outside) } else { ROWS }
    }

    /// The map of its loads.
    pub fn map(self) -> TensorMap {
        TensorMap {
            base: "data".into(),
            offset: Expr::Const(self.offset.into()),
            element: "f16".into(),
            dims: vec![Expr::Const(self.ground.pitch() / 2), Expr::Const(self.array_rows())],
            strides: vec![Expr::Const(self.ground.pitch() + i64::from(self.skew))],
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
        let far = if self.spread { ".spread" } else { "" };
        let sharers = if self.sharers > 1 { format!(".sharers{}{far}", self.sharers) } else { String::new() };
        let offset = if self.offset > 0 { format!(".offset{}", self.offset) } else { String::new() };
        let skew = if self.skew > 0 { format!(".skew{}", self.skew) } else { String::new() };
        let (Self { rows, inner, swizzle, .. }, stage) = (self, self.stage_name());
        let outside = if self.outside > 0 { format!(".outside{}", self.outside) } else { String::new() };
        format!("rows{rows}.inner{inner}.swizzle{swizzle}{stage}{sharers}{offset}{skew}{outside}")
    }

    /// What is unusual about a stage.
    pub fn stage_name(self) -> String {
        let boxes = if self.boxes > 1 { format!(".boxes{}", self.boxes) } else { String::new() };
        let multicast =
            if self.multicast > 1 { format!(".multicast{}", self.multicast) } else { String::new() };
        multicast + &boxes + if self.listed { ".listed" } else { "" }
    }

    fn frame(self, stages: u32, blocks: Blocks) -> Frame {
        Frame {
            warps: 1,
            blocks,
            cluster: self.multicast,
            shared: stages * self.stage().next_multiple_of(1024),
            maps: vec![self.map()],
            barriers: vec![1; stages as usize],
            pdl: false,
        }
    }
}

/// Values of the loop: the next column, the parity to wait for, and the first row.
#[derive(Clone, Copy)]
pub struct State {
    column: Value,
    phase: Value,
    row: Value,
}

impl State {
    /// The values, as a loop carries them.
    pub fn carried(self) -> Vec<Value> {
        vec![self.column, self.phase, self.row]
    }

    /// From what a loop carries.
    pub fn of(carried: &[Value]) -> Self {
        Self { column: carried[0], phase: carried[1], row: carried[2] }
    }
}

/// A ring of stages as one warp sees it.
pub struct Copies {
    shape: Shape,
    elected: Value,
    /// First row of this block.
    first: Value,
    /// This block's place in its cluster.
    rank: Option<Value>,
}

impl Copies {
    /// Copies of one warp, or of the elected lane of another one.
    pub fn new(c: &mut Cursor<'_, '_>, shape: Shape, rows: i64, warp: Option<Value>) -> Self {
        let rank = (shape.multicast > 1).then(|| c.op(Opcode::ClusterRank, &[], Ty::B32));
        let lane = c.value(NewInst::new(Opcode::Elect, &[], &[Ty::Pred]));
        let elected = warp.map_or(lane, |w| c.op(Opcode::AndPred, &[lane, w], Ty::Pred));
        let block = c.op(Opcode::CtaidX, &[], Ty::B32);
        let row = if shape.spread {
            c.and_imm(block, i64::from(SPREAD / shape.sharers) - 1)
        } else {
            let sharers = c.imm(shape.sharers.trailing_zeros().into());
            c.int(Opcode::ShrU32, block, sharers)
        };
        let own = c.mul_imm(row, shape.rows.into());
        let first = c.and_imm(own, rows - 1);
        Self { shape, elected, first, rank }
    }

    /// Before a ring of so many stages is filled. That ends at the first column, so that rows end where turns do.
    pub fn begin(&self, c: &mut Cursor<'_, '_>, env: &Env, stages: u32) -> State {
        let filled = stages * self.shape.boxes * self.shape.inner / 2;
        let columns = self.shape.ground.pitch() / 2 - i64::from(filled);
        let column =
            if self.shape.ground == Ground::Memory { c.add_imm(env.zero, columns) } else { env.zero };
        State { column, phase: env.zero, row: self.first }
    }

    fn guard(&self) -> Option<Guard> {
        Some(Guard { pred: self.elected, negated: false })
    }

    fn mem(stage: u32) -> Attr {
        Attr::Mem { offset: 8 * stage as i32, count: 1 }
    }

    /// Reads from memory where the next stage is: zero is added to its column. The word is far from what is copied now.
    fn look_up(&self, c: &mut Cursor<'_, '_>, env: &Env, state: &mut State) {
        if !self.shape.listed {
            return;
        }
        let (pitch, two) = (c.imm(self.shape.ground.pitch()), c.imm(2));
        let row = c.op(Opcode::MulS32, &[state.row, pitch], Ty::B32);
        let at = c.op(Opcode::MadS32, &[state.column, two, row], Ty::B32);
        let half = c.imm(Ground::BYTES / 2);
        let (far, one) = (c.int(Opcode::Xor, at, half), c.imm(1));
        let word = c.op(Opcode::MadWideS32, &[far, one, env.data], Ty::B64);
        let load = NewInst::new(Opcode::LdGlobal, &[word], &[Ty::B32]);
        let found = c.value(load.attr(Attr::Mem { offset: 0, count: 1 }));
        state.column = c.add(state.column, found);
    }

    /// Expects a stage's bytes and loads this block's part of it.
    pub fn load(&self, c: &mut Cursor<'_, '_>, env: &Env, state: &mut State, stage: u32) {
        let barrier = c.add_imm(env.barriers, 8 * i64::from(stage));
        let expect = NewInst::new(Opcode::MbarExpectTx, &[barrier], &[]);
        c.push(expect.attr(Attr::Imm(self.shape.stage().into())).guard(self.guard()));
        let mut place = self.place(c, env, stage);
        if let Some(rank) = self.rank {
            let part = c.mul_imm(rank, (self.shape.boxes * self.shape.bytes()).into());
            place = c.add(place, part);
        }
        for k in 0..self.shape.boxes {
            let at = c.add_imm(place, i64::from(k * self.shape.bytes()));
            let load = NewInst::new(Opcode::TmaLoad, &[at, barrier, state.column, state.row], &[]);
            c.push(load.attr(self.shape.attr()).guard(self.guard()));
            self.advance(c, state);
        }
    }

    fn place(&self, c: &mut Cursor<'_, '_>, env: &Env, stage: u32) -> Value {
        c.add_imm(env.shared, i64::from(stage * self.shape.stage().next_multiple_of(1024)))
    }

    fn advance(&self, c: &mut Cursor<'_, '_>, state: &mut State) {
        let moved = c.add_imm(state.column, i64::from(self.shape.inner / 2));
        state.column = c.and_imm(moved, self.shape.ground.pitch() / 2 - 1);
    }

    /// After a whole row, `blocks` boxes further down where nobody has read.
    fn descend(&self, c: &mut Cursor<'_, '_>, env: &Env, state: &mut State, blocks: u32) {
        if self.shape.ground == Ground::Memory {
            let moved = c.add_imm(state.row, i64::from(blocks * self.shape.rows));
            let next = c.and_imm(moved, ROWS - 1);
            let over = c.compare(CmpOp::Eq, state.column, env.zero);
            state.row = c.op(Opcode::Selp, &[next, state.row, over], Ty::B32);
        }
    }

    /// Waits until a stage has arrived.
    pub fn wait(&self, c: &mut Cursor<'_, '_>, env: &Env, state: &State, stage: u32) {
        let wait = NewInst::new(Opcode::MbarWait, &[env.barriers, state.phase], &[]);
        c.push(wait.attr(Self::mem(stage)));
    }

    fn store(&self, c: &mut Cursor<'_, '_>, env: &Env, state: &mut State, stage: u32) {
        let place = self.place(c, env, stage);
        let store = NewInst::new(Opcode::TmaStore, &[place, state.column, state.row], &[]);
        c.push(store.attr(self.shape.attr()).guard(self.guard()));
        c.push(NewInst::new(Opcode::BulkCommit, &[], &[]).guard(self.guard()));
        self.advance(c, state);
    }

    /// The parity of the next turn round the ring.
    pub fn flip(c: &mut Cursor<'_, '_>, state: &mut State) {
        let one = c.imm(1);
        state.phase = c.op(Opcode::Xor, &[state.phase, one], Ty::B32);
    }
}

fn scope(blocks: Blocks) -> &'static str {
    if blocks == Blocks::Each(1) { "all" } else { "one" }
}

/// How many they are on the device of the table.
fn count(blocks: Blocks) -> u32 {
    match blocks {
        Blocks::Count(n) => n,
        Blocks::Each(n) => n * SM90A.multiprocessors,
    }
}

/// Loads; `stages` in flight. With one stage the figure is the latency of a load.
pub fn loads(shape: Shape, stages: u32, blocks: Blocks, reading: Reading) -> Case {
    let frame = shape.frame(stages, blocks);
    let build = builder(move |bump, name| {
        let held = std::cell::OnceCell::new();
        frame.build_to_end(
            bump,
            name,
            |c, env| {
                let copies = Copies::new(c, shape, shape.ground.rows(), None);
                let mut state = copies.begin(c, env, stages);
                c.push(NewInst::new(Opcode::BarSync, &[], &[]).attr(Attr::Imm2(0, 32)));
                (0..stages).for_each(|s| copies.load(c, env, &mut state, s));
                let _ = held.set(copies);
                state.carried()
            },
            |c, env, carried| {
                let Some(copies) = held.get() else { return carried.to_vec() };
                let mut state = State::of(carried);
                for i in 0..LENGTH {
                    let stage = i % stages;
                    copies.look_up(c, env, &mut state);
                    copies.wait(c, env, &state, stage);
                    copies.load(c, env, &mut state, stage);
                    if stage + 1 == stages {
                        Copies::flip(c, &mut state);
                    }
                }
                copies.descend(c, env, &mut state, count(blocks));
                state.carried()
            },
            |c, env, carried| {
                let Some(copies) = held.get() else { return };
                let state = State::of(carried);
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
        .sass("UTMALDG", LENGTH * shape.boxes)
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
                let copies = Copies::new(c, shape, ROWS, None);
                let state = copies.begin(c, env, stages);
                let _ = held.set(copies);
                state.carried()
            },
            |c, env, carried| {
                let Some(copies) = held.get() else { return carried.to_vec() };
                let mut state = State::of(carried);
                let op = if done { Opcode::BulkWait } else { Opcode::BulkWaitRead };
                for i in 0..LENGTH {
                    copies.store(c, env, &mut state, i % stages);
                    let wait = NewInst::new(op, &[], &[]).attr(Attr::Imm(i64::from(stages) - 1));
                    c.push(wait.guard(copies.guard()));
                }
                state.carried()
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

/// Rows that stay in the L2.
pub const fn shape(rows: u32, inner: u32, swizzle: u32) -> Shape {
    Shape {
        rows,
        inner,
        swizzle,
        multicast: 1,
        ground: Ground::Cache,
        sharers: 1,
        spread: false,
        offset: 0,
        skew: 0,
        boxes: 1,
        listed: false,
        outside: 0,
    }
}

/// Boxes of which a part lies outside the array, and the same rows without such a part; all blocks load them.
fn outside() -> impl Iterator<Item = Shape> {
    let shapes = [(shape(128, 128, 128), [0, 32, 64, 127]), (shape(128, 64, 64), [0, 32, 64, 127])];
    let whole = [(shape(128, 128, 0), [0, 32, 64, 127]), (shape(16, 128, 128), [0, 4, 8, 15])];
    let all = shapes.into_iter().chain(whole);
    all.flat_map(|(s, rows)| rows.map(|outside| Shape { outside, sharers: 256, ..s }))
}

/// Small boxes of which several make a stage of 8 or 16 KB, as pages and gathered rows do.
pub fn small_boxes() -> impl Iterator<Item = Shape> {
    [(8, 8), (16, 8), (32, 4), (64, 2)]
        .into_iter()
        .map(|(rows, boxes)| Shape { boxes, ..shape(rows, 128, 128) })
}

/// Boxes that neighbours load too, and boxes like one of them that blocks far apart load.
fn sharing(like: Shape) -> impl Iterator<Item = Case> {
    let shapes = [like, shape(128, 64, 64), shape(256, 32, 32), Shape { offset: 32, ..like }];
    let near = shapes.into_iter().flat_map(|s| [2, 4, 8, 16].map(|sharers| (Shape { sharers, ..s }, 8)));
    let far = [2, 4, 8, 16, 32].map(|sharers| Shape { sharers, spread: true, ..like });
    let far = far.into_iter().flat_map(|s| [2, 8].map(|stages| (s, stages)));
    near.chain(far).map(|(s, stages)| loads(s, stages, Blocks::Each(1), rate(s)))
}

/// The bytes of a turn.
fn rate(shape: Shape) -> Reading {
    Reading::BytesPerCycle { bytes: f64::from(LENGTH * shape.stage()) }
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let latency = Reading::Cycles { per: LENGTH.into() };
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
    let base = shape(128, 128, 128);
    for s in [32, 64, 96].map(|offset| Shape { offset, ..base }) {
        list.extend([one, all].map(|blocks| loads(s, 8, blocks, rate(s))));
    }
    list.extend(sharing(base));
    for s in [16, 32, 64, 96].map(|skew| Shape { skew, ..base }) {
        list.extend([one, all].map(|blocks| loads(s, 8, blocks, rate(s))));
        list.extend([4, 16].map(|sharers| loads(Shape { sharers, ..s }, 8, all, rate(s))));
    }
    list.extend(outside().flat_map(|s| [one, all].map(|blocks| loads(s, 4, blocks, rate(s)))));
    list.extend(small_boxes().flat_map(|s| [one, all].map(|blocks| loads(s, 4, blocks, rate(s)))));
    list
}
