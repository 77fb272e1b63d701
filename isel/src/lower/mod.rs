//! `lower`: turns mapped tile IR and its plan into one structured program of machine IR.
//!
//! ```text
//!  scalars, views ─► registers               scalar.rs, view.rs
//!  loops, branches; awaits                   control.rs, waits.rs
//!  tiles   ─► fragments, row by row           tile.rs, reduce.rs
//!  between threads ─► shuffles, scratch       exchange.rs, shared.rs, versions.rs
//!  loads, stores with plain accesses          plain.rs      coordinates of threads: coords.rs      indexed.rs
//!  asynchronous copies of threads             cp_async.rs
//!  prints                                     print.rs
//!  workspaces, blocks that arrive             arrive.rs
//!  tensor copies, products, staged stores     tensor.rs      products of warps: mma_sync.rs
//!  staged loads                               staged.rs      of packed arrays: packed.rs
//! ```
//!
//! A fragment is counted in 32-bit registers; 16-bit elements are packed in pairs, in the layout's order. The program
//! is sequential: every asynchronous event is awaited before the first use of its data.

mod address_range;
mod arrive;
mod byte_tests;
mod bytes;
mod cast;
mod cells;
mod control;
mod coords;
mod cp_async;
mod defer_scale;
mod exchange;
mod fetch;
mod fused_index_compare;
mod gather;
mod half;
mod halfwords;
mod indexed;
mod indices;
mod iota_ranges;
mod join;
mod launch;
mod long;
mod mma_sync;
mod narrow;
mod order;
mod packed;
mod plain;
mod plain_store;
mod print;
mod quotient;
mod ragged;
mod reduce;
mod scalar;
mod scalar_load;
mod scan;
mod select;
mod shared;
mod shared_array;
mod small_floats;
mod staged;
mod store_operand;
mod tensor;
mod tile;
mod versions;
mod view;
mod waits;
mod zero_columns;
mod zero_point;

use crate::plan::Plan;
use crate::{IselError, Result, takes};
use rustc_hash::{FxHashMap, FxHashSet};
use view::View;
use warplift_ir::Bump;
use warplift_ir::entity::PrimaryMap;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{
    self, Attr, BufferData, Cursor, Func, IndexMap, LaunchInfo, NewInst, Program, Ty,
};
use warplift_ir::manifest::{Expr, Fact, Packing, Param};
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::{Block, Epilogue, Inst, Kernel, LoopMapping, Mapping, Op, Raster, Type, Value};
use warplift_ir::types::Elem;

/// The machine form of a tile-IR value.
#[derive(Clone, Debug)]
enum Low {
    /// A scalar register, or a fragment.
    Reg(machine::Value),
    /// A tile of equal elements: one 32-bit register (a 16-bit element fills both halves).
    Splat(machine::Value),
    /// A tile whose register `i` is register `table[i]` of a fragment. Free for users that take index maps.
    Picked(machine::Value, Box<[u16]>),
    /// Unscaled accumulators, with the factor for the rows of either half of an atom.
    Scaled(machine::Value, [f32; 2]),
    /// A view.
    View(View),
    /// A condition that its select computes.
    Test(select::Test),
    /// A sum that its comparisons compute.
    Sum(fused_index_compare::Sum),
    /// A stage that a load has filled. Each use reads its part.
    Stage(Inst),
    /// Narrow elements that share registers with others of a larger tile. Only conversions read them, from there.
    PartOfWords,
    /// In shared memory only, or without a use that needs a register.
    Elsewhere,
}

/// State of lowering.
struct Lower<'k, 'a> {
    k: &'k Kernel,
    plan: &'k Plan,
    target: &'k Target,
    func: Func<'a>,
    block: machine::Block,
    inst: Inst,
    env: FxHashMap<Value, Low>,
    buffers: PrimaryMap<machine::Buffer, BufferData>,
    /// The buffer of each load in shared memory, and the event that fills it.
    filled: FxHashMap<Inst, (machine::Buffer, Option<machine::Value>)>,
    /// Loads of enclosing blocks that are not awaited yet.
    kept: Vec<Inst>,
    /// Operands of products that were awaited, and that threads have yet to read.
    unread: Vec<Inst>,
    params: Vec<Param>,
    extra_facts: Vec<Fact>,
    /// Bytes of the workspace so far.
    workspace: Expr,
    /// Coordinates of this thread, by (layout, dimension).
    coords: FxHashMap<(Layout, usize), machine::Value>,
    /// Comparisons that are folded into the select that uses them.
    tests: FxHashSet<Value>,
    /// Sums that are folded into the comparisons that use them.
    sums: FxHashSet<Value>,
    /// MMA chains on fields, whose zero points are factored out.
    zero_points: Vec<zero_point::Chain>,
    /// The MMAs of their zero points.
    zero_points_made: Vec<(zero_point::Key, machine::Value)>,
    /// Fragments that hold the numbers along a dimension.
    iota_ranges: FxHashMap<machine::Value, iota_ranges::IotaRange>,
    /// The thread number, computed once at entry.
    thread: Option<machine::Value>,
    /// The warp number, likewise.
    warp: Option<machine::Value>,
    staging: FxHashMap<u32, machine::Buffer>,
    persistent: bool,
    /// Whether the programs of a persistent kernel draw tiles from a counter.
    counter: bool,
    /// Whether they take them in an order that even waves serve: in pairs from both ends, or in bands.
    in_waves: bool,
    /// Teams of a block that alternate tiles (ping-pong).
    teams: u32,
    /// Blocks that share a tile.
    blocks: u32,
    /// Neighbours in a cluster: blocks past the end of the grid run too.
    neighbours: u32,
    /// Blocks beside each other on a multiprocessor.
    resident: u32,
    has_tma: bool,
    /// The mappings of the enclosing loops.
    looped: Vec<LoopMapping>,
    /// Arguments that must be packed.
    packings: Vec<(String, Packing)>,
    /// What tells plain accesses apart.
    known: order::Known,
}

/// Machine instructions and values for each operation of the tile IR, for which there is room from the start.
const OF_OPERATION: usize = 6;

/// Lowers a mapped kernel under its plan.
///
/// # Errors
/// An operation that no row of the opcode table implements; the message has its name and type.
pub fn do_lower<'a>(
    k: &Kernel,
    plan: &Plan,
    mapping: &Mapping,
    target: &Target,
    bump: &'a Bump,
) -> Result<Program<'a>> {
    indices::check_indices(k)?;
    let has_versions = !plan.uses.is_empty() || !plan.made.is_empty();
    let versions = has_versions.then(|| versions::do_versions(k, plan));
    let (k, plan) = versions.as_ref().map_or((k, plan), |(k, plan)| (k, plan));
    let mut func = Func::new(bump);
    func.reserve(OF_OPERATION * k.insts.len(), OF_OPERATION * k.insts.len());
    let first = k.blocks[k.entry].insts.first().copied();
    let (tests, sums) = select::do_tests(k);
    let mut l = Lower {
        k,
        plan,
        target,
        block: func.entry,
        func,
        inst: first.ok_or_else(|| IselError::whole("the kernel's body is empty"))?,
        env: FxHashMap::default(),
        buffers: PrimaryMap::new(),
        filled: FxHashMap::default(),
        kept: Vec::new(),
        unread: Vec::new(),
        params: Vec::new(),
        extra_facts: Vec::new(),
        workspace: Expr::zero(),
        coords: FxHashMap::default(),
        tests,
        sums,
        zero_points: Vec::new(),
        zero_points_made: Vec::new(),
        iota_ranges: FxHashMap::default(),
        thread: None,
        warp: None,
        staging: FxHashMap::default(),
        persistent: mapping.whole.persistent,
        counter: mapping.whole.counter,
        in_waves: !mapping.whole.counter && mapping.whole.raster != Raster::default(),
        teams: mapping.whole.pingpong.max(1),
        blocks: mapping.whole.blocks.max(1),
        neighbours: mapping.whole.cluster.max(1),
        resident: mapping.whole.resident,
        has_tma: false,
        looped: Vec::new(),
        packings: Vec::new(),
        known: order::Known::default(),
    };
    if mapping.whole.cluster <= 1 && mapping.whole.epilogue != Epilogue::Warps {
        l.zero_points = l.find_zero_points();
    }
    l.check_order()?;
    l.lower_params()?;
    l.lower_block(k.entry)?;
    l.check_rows()?;
    l.finish(mapping)
}

impl<'k, 'a> Lower<'k, 'a> {
    /// Refuses the first instruction that the target lacks.
    fn check_rows(&self) -> Result<()> {
        self.func.insts.values().try_for_each(|d| match self.target.require(d.op) {
            Ok(_) => Ok(()),
            Err(lacks) => Err(IselError::lacks(d.loc, lacks)),
        })
    }

    /// A cursor at the end of the current block.
    fn at(&mut self) -> Cursor<'_, 'a> {
        let loc = self.k.insts[self.inst].loc;
        Cursor::new(&mut self.func, self.block, loc)
    }

    /// A cursor in the entry block, for values that are computed once.
    fn at_entry(&mut self) -> Cursor<'_, 'a> {
        let entry = self.func.entry;
        let loc = self.k.insts[self.inst].loc;
        Cursor::new(&mut self.func, entry, loc)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(IselError::at(self.k, self.inst, message))
    }

    /// Refuses to continue once the arena is full.
    fn check_memory(&self) -> Result<()> {
        self.func.bump.check().or_else(|full| self.error(full.to_string()))
    }

    /// Refuses the current instruction, which the interpreter alone executes.
    fn interpreted_only<T>(&self) -> Result<T> {
        let name = self.k.insts[self.inst].op.name();
        self.error(format!("`{name}` does not compile: only the interpreter executes it"))
    }

    /// Refuses the current operation on tiles of a type.
    fn refuse_tiles<T>(&self, elem: Elem) -> Result<T> {
        self.error(takes::refusal(&self.k.insts[self.inst].op, elem))
    }

    /// Refuses the current operation on scalars of a type.
    fn refuse_scalars<T>(&self, elem: Elem) -> Result<T> {
        let name = self.k.insts[self.inst].op.name();
        let long = if elem.bits() == 64 && !elem.is_float() {
            format!(", or use tiles of one element: `reduce_sum(full x : {elem}[1] {name} y, 0)`")
        } else {
            String::new()
        };
        self.error(format!("`{name}` of {elem} scalars does not compile: `cast` to i32, u32 or f32{long}"))
    }

    /// A value's name in the text, or its number.
    fn named(&self, v: Value) -> String {
        let name = &self.k.names[v];
        if name.is_empty() { v.to_string() } else { format!("`{name}`") }
    }

    fn scalar(&self, v: Value) -> Result<machine::Value> {
        match self.env.get(&v) {
            Some(Low::Reg(r)) => Ok(*r),
            _ => self.error(format!("operand {} is no scalar in a register", self.named(v))),
        }
    }

    fn view(&self, v: Value) -> Result<View> {
        match self.env.get(&v) {
            Some(Low::View(view)) => Ok(view.clone()),
            _ => self.error(format!("operand {} is no view", self.named(v))),
        }
    }

    fn set(&mut self, v: Value, r: machine::Value) {
        self.env.insert(v, Low::Reg(r));
    }

    fn lower_params(&mut self) -> Result<()> {
        for (n, p) in self.k.params.iter().enumerate() {
            self.params.push(Param::Argument { name: p.name.clone() });
            let (op, ty) = match self.k.ty(p.value) {
                Type::Ptr(_) | Type::Scalar(Elem::Int(64) | Elem::Uint(64)) => (Opcode::LdParam64, Ty::B64),
                Type::Scalar(Elem::Int(32) | Elem::Uint(32) | Elem::F32) => (Opcode::LdParam32, Ty::B32),
                Type::Scalar(Elem::F16 | Elem::Bf16) => (Opcode::LdParam16, Ty::B32),
                other => {
                    return self.error(format!(
                        "an argument of type {} does not compile: `{}` can be a pointer, i32, u32, i64, u64, f32, f16 or bf16",
                        other.elem(),
                        p.name
                    ));
                }
            };
            let new = NewInst::new(op, &[], &[ty]).attr(Attr::Param(n as u32));
            let mut r = self.at_entry().value(new);
            if matches!(self.k.ty(p.value), Type::Ptr(_)) {
                r = self.at_entry().op(Opcode::ToGlobal, &[r], Ty::B64);
            }
            self.func.values[r].uniform = true;
            self.set(p.value, r);
        }
        Ok(())
    }

    /// Lowers all instructions of a block, each preceded by the awaits of its operands. A tile that stays in shared
    /// memory for the whole kernel is awaited in every block that reads it, and not before. It is awaited at the
    /// kernel's end if only some paths read it.
    fn lower_block(&mut self, block: Block) -> Result<()> {
        let insts = self.k.blocks[block].insts.clone();
        let around = self.kept.clone();
        let mut pending = around.clone();
        for inst in insts {
            self.inst = inst;
            self.check_memory()?;
            if block == self.k.entry && matches!(self.k.insts[inst].op, Op::Yield) {
                self.await_kept(&pending);
            }
            self.await_used(inst, &mut pending)?;
            let read = self.read_used(inst)?;
            self.kept = pending.iter().copied().filter(|&load| self.is_kept(load)).collect();
            self.lower_inst(inst)?;
            self.env.extend(read.into_iter().map(|load| (self.k.result(load), Low::Stage(load))));
            if self.filled.get(&inst).is_some_and(|f| f.1.is_some()) {
                pending.push(inst);
            }
        }
        let ended =
            self.k.blocks[block].insts.last().is_some_and(|&i| matches!(self.k.insts[i].op, Op::Yield));
        if block == self.k.entry && !ended {
            self.await_kept(&pending);
        }
        self.kept = around;
        Ok(())
    }

    fn lower_inst(&mut self, inst: Inst) -> Result<()> {
        let tile = self.k.results(inst).iter().any(|&r| matches!(self.k.ty(r), Type::Tile(..)));
        match &self.k.insts[inst].op {
            Op::For => self.lower_for(inst),
            Op::While => self.lower_while(inst),
            Op::If => self.lower_if(inst),
            Op::Yield => self.lower_yield(inst),
            Op::View { strided, fill } => self.lower_view(inst, *strided, *fill),
            Op::SubView(kept) => self.lower_sub_view(inst, kept),
            Op::Load | Op::LoadGather { .. } | Op::LoadRuns(_) => self.lower_load(inst),
            Op::Store => self.lower_store(inst),
            Op::StoreScatter { .. } => self.store_plain(inst, self.written(inst)),
            Op::Mma { .. } => self.lower_product(inst),
            Op::Atomic(op) | Op::AtomicScatter { op, .. } => self.lower_atomic(inst, *op),
            Op::Workspace => self.lower_workspace(inst),
            Op::Shared { layout } => self.lower_shared_array(inst, layout.as_deref()),
            Op::Arrive => self.lower_arrive(inst),
            Op::Reduce(op, axis) => self.lower_reduce(inst, *op, *axis),
            Op::Scan(op, axis) => self.lower_scan(inst, *op, *axis),
            Op::Join => self.lower_join(inst),
            Op::Gather(dim) => self.lower_gather(inst, usize::from(*dim)),
            Op::Assert(_) => self.lower_assert(inst),
            Op::Print(text) => self.lower_print(inst, text),
            _ if tile => self.lower_tile(inst),
            _ => self.lower_scalar(inst),
        }
    }

    /// Machine type of a tile or scalar value.
    fn ty(&self, v: Value) -> Result<Ty> {
        match self.k.ty(v) {
            Type::Tile(elem, _) => Ok(Ty::frag(self.registers(elem, self.plan.layout(self.k, v)?)? as u16)),
            Type::Scalar(Elem::Bool) => Ok(Ty::Pred),
            Type::Scalar(e) if e.bits() == 64 => Ok(Ty::B64),
            Type::Ptr(_) => Ok(Ty::B64),
            Type::Scalar(e) if e.bits() == 32 || matches!(e, Elem::F16 | Elem::Bf16) => Ok(Ty::B32),
            other => {
                let elem = other.elem();
                self.error(format!(
                    "scalars of {elem} do not compile: i32, u32, i64, u64, f32, f16, bf16 and bool do"
                ))
            }
        }
    }

    /// 32-bit registers of a fragment.
    fn registers(&self, elem: Elem, layout: &Layout) -> Result<u64> {
        let elements = layout.in_extent(Axis::Reg);
        let registers = elements * u64::from(elem.bits()) / 32;
        let most = u64::from(self.target.thread_registers);
        if registers > most {
            return self.error(format!(
                "a tile of {elem} takes {registers} registers of each thread, at most {most} are possible; \
                 a smaller tile or more warps take fewer"
            ));
        }
        match elem.bits() {
            64 => Ok(2 * elements),
            32 | 8 if elem == Elem::Bool || elem.bits() == 32 => Ok(elements),
            16 if elements.is_multiple_of(2) => Ok(elements / 2),
            16 => self.error(format!(
                "a thread holds {elements} elements of {elem}, which fill no whole registers: give the tile a layout with pairs"
            )),
            1..=8 => Ok((elements * u64::from(elem.bits())).div_ceil(32)),
            bits => self.error(format!("tiles of {elem} ({bits} bits) do not compile")),
        }
    }

    /// A value in registers: a splat is written out in the layout of `like`.
    fn materialize(&mut self, v: Value, like: Value) -> Result<machine::Value> {
        match self.env.get(&v).cloned() {
            Some(Low::Reg(r)) => Ok(r),
            Some(Low::Picked(r, table)) => Ok(self.pick(r, table.into_vec())),
            Some(Low::Scaled(sums, factors)) => Ok(self.scaled(sums, factors)),
            Some(Low::Splat(s)) => {
                let elem = self.k.ty(v).elem();
                let layout = match &self.plan.layouts[like] {
                    Some(l) => l,
                    None => self.plan.layout(self.k, v)?,
                };
                let regs = self.registers(elem, layout)?;
                let new = NewInst::new(Opcode::Mov, &[s], &[Ty::frag(regs as u16)]);
                Ok(self.at().value(new.maps([IndexMap::Whole].into_iter().collect())))
            }
            Some(Low::PartOfWords) => self.would_part(self.k.ty(v).elem()),
            _ => self.error(format!("operand {} has no version in registers", self.named(v))),
        }
    }

    /// Refuses to take elements out of the registers that they share with others.
    fn would_part<T>(&self, elem: Elem) -> Result<T> {
        self.error(format!(
            "elements of {elem} that share a register would part: `cast` to 16 or 32 bits before"
        ))
    }

    /// The launch information.
    fn finish(mut self, mapping: &Mapping) -> Result<Program<'a>> {
        let neighbours = self.neighbours;
        self.check_cluster(neighbours)?;
        let grid = self.grid()?;
        self.limit_shared_out()?;
        let cluster = neighbours * self.blocks;
        let warps = self.k.attrs[self.inst].team.warps() / self.blocks;
        let entry = self.func.entry;
        let ended = self.func.terminator(entry).is_some_and(|t| self.func.insts[t].op == Opcode::Yield);
        if !ended {
            self.at().push(NewInst::new(Opcode::Yield, &[], &[]));
        }
        let deferred = self.k.attrs.values().any(|a| a.deferred);
        let mut facts = launch::argument_facts(self.k);
        facts.append(&mut self.extra_facts);
        let launch = LaunchInfo {
            kernel: self.k.name.clone(),
            file: self.k.file.clone(),
            arguments: launch::arguments(self.k, mapping, &self.packings),
            params: self.params,
            grid,
            cluster,
            resident: mapping.whole.resident,
            pdl: mapping.whole.pdl,
            facts,
            workspace: self.workspace,
        };
        let (blocks, teams) = (self.blocks, self.teams);
        let epilogue_warps = mapping.whole.epilogue == Epilogue::Warps;
        let (buffers, func) = (self.buffers, self.func);
        Ok(Program { launch, buffers, warps, teams, blocks, deferred, epilogue_warps, func })
    }
}
