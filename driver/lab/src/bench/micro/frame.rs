//! The kernel around a measured body.
//!
//! ```text
//!  entry:  seeds, barrier of the block, t0 = clock64
//!  loop:   body, n times                       carried values make it one dependent program
//!  exit:   t1 = clock64, store t0 and t1 of the warp, store the carried values so that nothing is dead
//! ```
//!
//! The same kernel runs with two values of `n`. The difference of the cycles contains no start, no end and no reading
//! of the clock. The kernel is scheduled machine IR. The usual stages allocate its registers and write its text.

use warplift_emit::{Allocations, Output};
use warplift_ir::Bump;
use warplift_ir::machine::{
    Attr, Cursor, Func, Guard, LaunchInfo, NewInst, Role, Scheduled, SharedMap, Ty, Value, verify_scheduled,
};
use warplift_ir::manifest::{Argument, Expr, Param, TensorMap};
use warplift_ir::target::{Opcode, SM90A};
use warplift_ir::tile::{CmpOp, Loc};

/// Bytes of `out` before the threads' results: start and end of each warp, 8 bytes.
pub const CLOCKS: u64 = 1 << 20;
/// Parameters of every measuring kernel; tensor maps follow them.
const OUT: u32 = 0;
const DATA: u32 = 1;
const TURNS: u32 = 2;
const ZERO: u32 = 3;
/// Number of the first tensor map among the parameters.
pub const FIRST_MAP: u32 = 4;

/// How many blocks are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// So many.
    Count(u32),
    /// So many on each multiprocessor.
    Each(u32),
}

/// A measuring kernel without its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Warps of a block.
    pub warps: u32,
    /// Blocks.
    pub blocks: Blocks,
    /// Blocks of a cluster.
    pub cluster: u32,
    /// Bytes of shared memory after the barriers, from [`Frame::FIRST`] on.
    pub shared: u32,
    /// Tensor maps over `data`.
    pub maps: Vec<TensorMap>,
    /// Arrivals that each mbarrier expects; the barriers lie at the start of shared memory.
    pub barriers: Vec<u32>,
    /// It may begin while the launch before still runs, and waits for that one before its loop.
    pub pdl: bool,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            warps: 1,
            blocks: Blocks::Count(1),
            cluster: 1,
            shared: 0,
            maps: Vec::new(),
            barriers: Vec::new(),
            pdl: false,
        }
    }
}

/// Values that every body may use.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    /// Number of the thread in its block.
    pub thread: Value,
    /// Number of the warp in its block, uniform.
    pub warp: Value,
    /// Address of the data, b64.
    pub data: Value,
    /// First address of shared memory after the barriers.
    pub shared: Value,
    /// Address of the first barrier.
    pub barriers: Value,
    /// A zero unknown to ptxas, equal in all threads.
    pub zero: Value,
    /// The same, but not known to be equal in all threads.
    pub lane_zero: Value,
}

/// A frame cannot be filled: the row under test does not fit its surroundings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the measuring kernel `{name}` is not built: {why}")]
pub struct FrameError {
    /// Kernel.
    pub name: String,
    /// The stage's words.
    pub why: String,
}

impl Frame {
    /// First byte of shared memory that a body may use.
    pub const FIRST: u32 = 1024;

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        32 * self.warps
    }

    fn launch(&self, name: &str) -> LaunchInfo {
        let argument = |name: &str, ty: &str, written| Argument {
            name: name.into(),
            ty: ty.into(),
            written,
            before_wait: false,
            packing: None,
        };
        let arguments = vec![
            argument("out", "ptr<u32>", true),
            argument("data", "ptr<u32>", true),
            argument("turns", "i32", false),
            argument("zero", "i32", false),
        ];
        let given = arguments.iter().map(|a| Param::Argument { name: a.name.clone() });
        let maps = self.maps.iter().cloned().map(Param::TensorMap);
        let params = given.chain(maps).collect();
        let blocks = match self.blocks {
            Blocks::Count(n) => Expr::Const(n.into()),
            Blocks::Each(n) => {
                let whole = Expr::op(
                    warplift_ir::manifest::ExprOp::Div,
                    Expr::var("sm_count"),
                    Expr::Const(self.cluster.into()),
                );
                Expr::op(warplift_ir::manifest::ExprOp::Mul, whole, Expr::Const((n * self.cluster).into()))
            }
        };
        LaunchInfo {
            kernel: name.replace(['.', '-'], "_"),
            file: String::new(),
            arguments,
            params,
            grid: [blocks, Expr::Const(1), Expr::Const(1)],
            cluster: self.cluster,
            resident: 1,
            pdl: self.pdl,
            facts: Vec::new(),
            workspace: Expr::zero(),
        }
    }

    /// The kernel whose loop body is `body`; `seeds` gives the values that the loop carries first.
    pub fn build<'a>(
        &self,
        bump: &'a Bump,
        name: &str,
        seeds: impl FnOnce(&mut Cursor<'_, 'a>, &Env) -> Vec<Value>,
        body: impl FnOnce(&mut Cursor<'_, 'a>, &Env, &[Value]) -> Vec<Value>,
    ) -> Scheduled<'a> {
        self.build_to_end(bump, name, seeds, body, |_, _, _| {})
    }

    /// The same, and `end` after the loop and its clock, from what the loop carried last.
    pub fn build_to_end<'a>(
        &self,
        bump: &'a Bump,
        name: &str,
        seeds: impl FnOnce(&mut Cursor<'_, 'a>, &Env) -> Vec<Value>,
        body: impl FnOnce(&mut Cursor<'_, 'a>, &Env, &[Value]) -> Vec<Value>,
        end: impl FnOnce(&mut Cursor<'_, 'a>, &Env, &[Value]),
    ) -> Scheduled<'a> {
        let func = self.function(bump, seeds, body, end);
        let registers = SM90A.entry_registers(self.threads());
        let shared = Self::FIRST + self.shared;
        Scheduled {
            launch: self.launch(name),
            threads: self.threads(),
            shared: SharedMap { bytes: shared, ..SharedMap::default() },
            setup: self.setup(bump),
            roles: vec![Role { name: "all", first_warp: 0, warps: self.warps, copiers: 0, registers, func }],
        }
    }

    /// One thread initialises the barriers; then all of the cluster, or of the block, meet.
    fn setup<'a>(&self, bump: &'a Bump) -> Func<'a> {
        let mut func = Func::new(bump);
        let entry = func.entry;
        let mut c = Cursor::new(&mut func, entry, Loc::default());
        if self.pdl {
            c.push(NewInst::new(Opcode::GriddepLaunch, &[], &[]));
        }
        if !self.barriers.is_empty() {
            let (thread, zero) = (c.op(Opcode::Tid, &[], Ty::B32), c.imm(0));
            let pred = c.compare(CmpOp::Eq, thread, zero);
            let guard = Some(Guard { pred, negated: false });
            let base = c.op(Opcode::SharedBase, &[], Ty::B32);
            for (i, &count) in self.barriers.iter().enumerate() {
                let at = c.add_imm(base, 8 * i as i64);
                let new = NewInst::new(Opcode::MbarInit, &[at], &[]).attr(Attr::Imm(count.into()));
                c.push(new.guard(guard));
            }
            c.push(NewInst::new(Opcode::FenceMbarInit, &[], &[]).guard(guard));
        }
        if self.cluster > 1 {
            c.push(NewInst::new(Opcode::ClusterArrive, &[], &[]));
            c.push(NewInst::new(Opcode::ClusterWait, &[], &[]));
        }
        c.push(NewInst::new(Opcode::Ret, &[], &[]));
        func
    }

    fn function<'a>(
        &self,
        bump: &'a Bump,
        seeds: impl FnOnce(&mut Cursor<'_, 'a>, &Env) -> Vec<Value>,
        body: impl FnOnce(&mut Cursor<'_, 'a>, &Env, &[Value]) -> Vec<Value>,
        finish: impl FnOnce(&mut Cursor<'_, 'a>, &Env, &[Value]),
    ) -> Func<'a> {
        let mut func = Func::new(bump);
        let (entry, turn, exit) = (func.entry, func.new_block(), func.new_block());
        func.order.extend([turn, exit]);
        let mut c = Cursor::new(&mut func, entry, Loc::default());
        let (env, out, turns) = environment(&mut c);
        let first = seeds(&mut c, &env);
        let zero = c.imm(0);
        if self.pdl {
            c.push(NewInst::new(Opcode::GriddepWait, &[], &[]));
        }
        c.push(NewInst::new(Opcode::BarSync, &[], &[]).attr(Attr::Imm2(0, self.threads().into())));
        let start = clock(&mut c);
        let enter = c.push(NewInst::new(Opcode::Br, &[], &[]));

        let types: Vec<Ty> = first.iter().map(|&v| c.func.ty(v)).collect();
        let count = c.func.append_param(turn, Ty::B32, true);
        let carried: Vec<Value> = types.iter().map(|&ty| c.func.append_param(turn, ty, false)).collect();
        c.block = turn;
        let next = body(&mut c, &env, &carried);
        let after = c.add_imm(count, 1);
        let more = c.compare(CmpOp::Lt, after, turns);
        let again = c.push(NewInst::new(Opcode::BrIf, &[more], &[]));

        c.block = exit;
        let end = clock(&mut c);
        finish(&mut c, &env, &next);
        store_results(&mut c, &env, self.warps, out, [start, end], &next);
        c.push(NewInst::new(Opcode::Ret, &[], &[]));
        let entering: Vec<Value> = std::iter::once(zero).chain(first).collect();
        let staying: Vec<Value> = std::iter::once(after).chain(next).collect();
        func.add_target(enter, turn, &entering);
        func.add_target(again, turn, &staying);
        func.add_target(again, exit, &[]);
        func
    }
}

fn clock(c: &mut Cursor<'_, '_>) -> Value {
    let now = c.op(Opcode::Clock64, &[], Ty::B64);
    c.op(Opcode::Narrow64, &[now], Ty::B32)
}

fn environment(c: &mut Cursor<'_, '_>) -> (Env, Value, Value) {
    let pointer = |c: &mut Cursor<'_, '_>, n: u32| {
        let generic = c.value(NewInst::new(Opcode::LdParam64, &[], &[Ty::B64]).attr(Attr::Param(n)));
        c.op(Opcode::ToGlobal, &[generic], Ty::B64)
    };
    let word = |c: &mut Cursor<'_, '_>, n: u32| {
        c.value(NewInst::new(Opcode::LdParam32, &[], &[Ty::B32]).attr(Attr::Param(n)))
    };
    let (out, data) = (pointer(c, OUT), pointer(c, DATA));
    let (turns, zero) = (word(c, TURNS), word(c, ZERO));
    let thread = c.op(Opcode::Tid, &[], Ty::B32);
    let lane_zero = c.op(Opcode::And, &[thread, zero], Ty::B32);
    let five = c.imm(5);
    let warp = c.int(Opcode::ShrU32, thread, five);
    let warp = c.op(Opcode::Uniform, &[warp], Ty::B32);
    let barriers = c.op(Opcode::SharedBase, &[], Ty::B32);
    let shared = c.add_imm(barriers, Frame::FIRST.into());
    (Env { thread, warp, data, shared, barriers, zero, lane_zero }, out, turns)
}

/// Start and end of each warp, then one word a thread that depends on everything carried.
fn store_results(
    c: &mut Cursor<'_, '_>,
    env: &Env,
    warps: u32,
    out: Value,
    clocks: [Value; 2],
    carried: &[Value],
) {
    let block = c.op(Opcode::CtaidX, &[], Ty::B32);
    let (first, eight) = (c.mul_imm(block, warps.into()), c.imm(8));
    let warp = c.add(first, env.warp);
    let at = c.op(Opcode::MadWideS32, &[warp, eight, out], Ty::B64);
    for (i, &v) in clocks.iter().enumerate() {
        let mem = Attr::Mem { offset: 4 * i as i32, count: 1 };
        c.push(NewInst::new(Opcode::StGlobal, &[at, v], &[]).attr(mem));
    }
    let sum = carried.iter().fold(env.lane_zero, |sum, &v| fold(c, sum, v));
    let (first, four) = (c.mul_imm(block, (32 * warps).into()), c.imm(4));
    let thread = c.add(first, env.thread);
    let at = c.op(Opcode::MadWideS32, &[thread, four, out], Ty::B64);
    let mem = Attr::Mem { offset: CLOCKS as i32, count: 1 };
    c.push(NewInst::new(Opcode::StGlobal, &[at, sum], &[]).attr(mem));
}

/// Mixes all bits of a value into `sum`.
pub fn fold(c: &mut Cursor<'_, '_>, sum: Value, v: Value) -> Value {
    let word = match c.func.ty(v) {
        Ty::Pred => {
            let (one, zero) = (c.imm(1), c.imm(0));
            c.op(Opcode::Selp, &[one, zero, v], Ty::B32)
        }
        // A comparison needs both halves.
        Ty::B64 => {
            let bound = c.imm_of(Ty::B64, 1 << 40);
            let less = NewInst::new(Opcode::SetpS64, &[v, bound], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Lt));
            let less = c.value(less);
            return fold(c, sum, less);
        }
        Ty::Frag { regs, .. } => {
            return (0..regs).fold(sum, |sum, i| {
                let part = part(c, v, i);
                c.op(Opcode::Xor, &[sum, part], Ty::B32)
            });
        }
        _ => v,
    };
    c.op(Opcode::Xor, &[sum, word], Ty::B32)
}

/// Register `i` of a fragment.
pub fn part(c: &mut Cursor<'_, '_>, fragment: Value, i: u16) -> Value {
    c.value(NewInst::new(Opcode::Slice, &[fragment], &[Ty::B32]).attr(Attr::Imm(i.into())))
}

/// Verifies, allocates and writes a measuring kernel.
///
/// # Errors
/// A stage refuses the kernel.
pub fn finish(name: &str, mut program: Scheduled<'_>) -> Result<Output, FrameError> {
    let failed = |why: String| FrameError { name: name.to_owned(), why };
    for func in std::iter::once(&program.setup).chain(program.roles.iter().map(|r| &r.func)) {
        verify_scheduled(func)
            .map_err(|e| failed(e.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
    }
    let allocs: Allocations =
        warplift::allocation::allocate(&mut program, &SM90A).map_err(|e| failed(e.to_string()))?;
    warplift_emit::emit(&program, &allocs, &SM90A).map_err(|e| failed(e.to_string()))
}
