//! `lower`: mapped tile IR and its plan become one structured program of machine IR.
//!
//! ```text
//!  scalars ─► registers                      scalar.rs
//!  tiles   ─► fragments, row by row           tile.rs, reduce.rs
//!  between threads ─► shuffles, scratch       exchange.rs, shared.rs, versions.rs
//!  loads, stores with plain accesses          plain.rs      coordinates of threads: coords.rs
//!  asynchronous copies of threads             cp_async.rs
//!  tensor copies, products, staged stores     tensor.rs      products of warps: mma_sync.rs
//! ```
//!
//! A fragment counts 32-bit registers: elements of 16 bits are packed in pairs, in the layout's order.
//! The program is sequential: every asynchronous event is awaited at the first use of what it brings.

mod address_range;
mod bytes;
mod cells;
mod coords;
mod cp_async;
mod defer_scale;
mod exchange;
mod fused_index_compare;
mod gather;
mod half;
mod indices;
mod iota_ranges;
mod launch;
mod mma_sync;
mod narrow;
mod order;
mod plain;
mod reduce;
mod scalar;
mod scan;
mod select;
mod shared;
mod small_floats;
mod staged;
mod store_operand;
mod tensor;
mod tile;
mod versions;
mod zero_point;

use crate::plan::Plan;
use crate::window::Window;
use crate::{IselError, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use warplift_ir::Bump;
use warplift_ir::entity::PrimaryMap;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{
    self, Attr, BufferData, Cursor, Func, IndexMap, LaunchInfo, LoopAttr, NewInst, Program, Ty,
};
use warplift_ir::manifest::{Expr, Fact, Packing, Param};
use warplift_ir::target::{Opcode, Target};
use warplift_ir::tile::{
    Block, CmpOp, Depth, Epilogue, Inst, InstData, Kernel, LoopMapping, Mapping, Op, Type, Value,
};
use warplift_ir::types::Elem;

/// What a tile-IR value became.
#[derive(Clone, Debug)]
enum Low {
    /// A scalar register, or a fragment.
    Reg(machine::Value),
    /// A tile of equal elements: one 32-bit register (16-bit elements twice in it).
    Splat(machine::Value),
    /// A tile whose register `i` is register `table[i]` of a fragment: free for whoever takes index maps.
    Picked(machine::Value, Box<[u16]>),
    /// Sums that are yet to be multiplied, by a number in rows of either half of an atom.
    Scaled(machine::Value, [f32; 2]),
    /// A view.
    View(View),
    /// A condition that is made by the select that it decides.
    Test(select::Test),
    /// A sum that is made by the conditions that it is for.
    Sum(fused_index_compare::Sum),
    /// A stage that a load has filled, of which parts are read where they are used.
    Stage(Inst),
    /// Stands in shared memory only, or is used by nothing that needs a register.
    Elsewhere,
}

/// A bounded window on global memory.
#[derive(Clone, Debug)]
struct View {
    base: machine::Value,
    extents: SmallVec<[machine::Value; 2]>,
    /// Strides in elements, or in bytes of 64 bits; the contiguous dimension has none.
    strides: SmallVec<[Option<machine::Value>; 2]>,
    fill: f64,
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
    /// Buffer of each load that stands in shared memory, and the event that fills it.
    filled: FxHashMap<Inst, (machine::Buffer, Option<machine::Value>)>,
    /// Loads of blocks around whose await is yet to come.
    kept: Vec<Inst>,
    params: Vec<Param>,
    extra_facts: Vec<Fact>,
    /// Coordinates of this thread under a layout's processor axes, by (layout, dimension).
    coords: FxHashMap<(Layout, usize), machine::Value>,
    /// Conditions that the select makes which they decide.
    tests: FxHashSet<Value>,
    /// Sums that those conditions make which they are for.
    sums: FxHashSet<Value>,
    /// Products of fields, whose constants are multiplied apart.
    zero_points: Vec<zero_point::Chain>,
    /// The products of their constants.
    zero_points_made: Vec<(zero_point::Key, machine::Value)>,
    /// Numbers along dimensions that fragments hold.
    iota_ranges: FxHashMap<machine::Value, iota_ranges::IotaRange>,
    /// Thread number, made once at entry.
    thread: Option<machine::Value>,
    /// Warp number, likewise.
    warp: Option<machine::Value>,
    staging: FxHashMap<u32, machine::Buffer>,
    persistent: bool,
    /// Teams of a block that take tiles in turn.
    teams: u32,
    /// Blocks that hold a tile together.
    blocks: u32,
    has_tma: bool,
    /// How the loops around here run.
    looped: Vec<LoopMapping>,
    /// Arguments that must be packed.
    packings: Vec<(String, Packing)>,
    /// Numbers of what plain accesses touch.
    footprints: FxHashMap<order::Footprint, u32>,
    /// Of scalars and views computed alike, the first.
    first_of: FxHashMap<Value, Value>,
}

/// Lowers a mapped kernel under its plan.
///
/// # Errors
/// Operations that no row of the table is selected for yet, by name and type.
pub fn do_lower<'a>(
    k: &Kernel,
    plan: &Plan,
    mapping: &Mapping,
    target: &Target,
    bump: &'a Bump,
) -> Result<Program<'a>> {
    indices::check_indices(k)?;
    let versions;
    let (k, plan) = match plan.uses.is_empty() && plan.made.is_empty() {
        true => (k, plan),
        false => {
            versions = versions::do_versions(k, plan);
            (&versions.0, &versions.1)
        }
    };
    let func = Func::new(bump);
    let block = func.entry;
    let first = k.blocks[k.entry].insts.first().copied();
    let (tests, sums) = select::do_tests(k);
    let mut l = Lower {
        k,
        plan,
        target,
        func,
        block,
        inst: first.ok_or_else(|| IselError::whole("the kernel's body is empty"))?,
        env: FxHashMap::default(),
        buffers: PrimaryMap::new(),
        filled: FxHashMap::default(),
        kept: Vec::new(),
        params: Vec::new(),
        extra_facts: Vec::new(),
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
        teams: mapping.whole.pingpong.max(1),
        blocks: mapping.whole.blocks.max(1),
        has_tma: false,
        looped: Vec::new(),
        packings: Vec::new(),
        footprints: FxHashMap::default(),
        first_of: FxHashMap::default(),
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

    /// A cursor at the end of the block that grows.
    fn at(&mut self) -> Cursor<'_, 'a> {
        let loc = self.k.insts[self.inst].loc;
        Cursor::new(&mut self.func, self.block, loc)
    }

    /// A cursor in the entry block, for what is computed once.
    fn at_entry(&mut self) -> Cursor<'_, 'a> {
        let entry = self.func.entry;
        let loc = self.k.insts[self.inst].loc;
        Cursor::new(&mut self.func, entry, loc)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(IselError::at(self.k, self.inst, message))
    }

    /// Refuses the instruction that is lowered, by its name in the language.
    fn unselected<T>(&self, of: impl AsRef<str>) -> Result<T> {
        let name = self.k.insts[self.inst].op.name();
        self.error(format!("`{name}`{} is not selected", of.as_ref()))
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
                        "parameter `{}` of type {} is not selected",
                        p.name,
                        other.elem()
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

    /// All instructions of a block, each preceded by the awaits of what it uses. What stays in shared memory for the whole
    /// kernel is awaited in every block that reads it, and not before; at the kernel's end, if only some ways led there.
    fn lower_block(&mut self, block: Block) -> Result<()> {
        let insts = self.k.blocks[block].insts.clone();
        let around = self.kept.clone();
        let mut pending = around.clone();
        for inst in insts {
            self.inst = inst;
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

    fn await_used(&mut self, inst: Inst, pending: &mut Vec<Inst>) -> Result<()> {
        let mut now: Vec<Inst> = pending.iter().copied().filter(|&load| self.uses(inst, load)).collect();
        let overlapped = self.looped.last().is_some_and(|l| l.wait.unwrap_or(0) > 0);
        if !overlapped && now.iter().any(|load| self.plan.staged.contains_key(load)) {
            // Threads begin with what a product needs before it: all its operands fill one stage, unless the
            // product is to run under the next iteration's beginning.
            let together = self.operands_beside(&now);
            now = pending.iter().copied().filter(|l| now.contains(l) || together.contains(l)).collect();
        }
        pending.retain(|load| !now.contains(load));
        self.await_kept(&now);
        let others = now.iter().filter(|&&load| !self.is_kept(load));
        let events: Vec<machine::Value> = others.filter_map(|l| self.filled[l].1).collect();
        if !events.is_empty() {
            self.at().push(NewInst::new(Opcode::Await, &events, &[]));
        }
        now.into_iter().try_for_each(|load| self.read_stage(load))
    }

    /// Loads that feed a product which one of these feeds, through elementwise work.
    fn operands_beside(&self, loads: &[Inst]) -> Vec<Inst> {
        let products = self.k.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma)).map(|(i, _)| i);
        let fed = products.map(|p| self.loads_behind(p));
        fed.filter(|behind| behind.iter().any(|l| loads.contains(l))).flatten().collect()
    }

    /// Loads that reach an instruction other than through a product, and those that its result meets next.
    fn loads_behind(&self, product: Inst) -> Vec<Inst> {
        let (k, mut found) = (self.k, Vec::new());
        let meets = |(_, d): &(Inst, &InstData)| matches!(d.op, Op::Binary(_) | Op::Fma | Op::Select);
        let next = k.insts.iter().filter(meets).filter(|(i, _)| k.args(*i).contains(&k.result(product)));
        let mut work: Vec<Value> =
            next.flat_map(|(i, _)| k.args(i)).chain(k.args(product)).copied().collect();
        while let Some(v) = work.pop() {
            let Some(def) = k.def(v) else { continue };
            match k.insts[def].op {
                Op::Load if !found.contains(&def) => found.push(def),
                Op::Mma | Op::Load => {}
                ref op if !op.has_effect() => work.extend(k.args(def).iter().filter(|a| is_tile(k, **a))),
                _ => {}
            }
        }
        found
    }

    /// Whether an instruction, or one inside it, is a product on this load.
    fn uses(&self, inst: Inst, load: Inst) -> bool {
        if self.plan.staged.contains_key(&load) && self.k.args(inst).contains(&self.k.result(load)) {
            return true;
        }
        if let Some(p) = self.plan.products.get(&inst) {
            return p.b.0 == load || p.a.as_ref().is_some_and(|a| a.0 == load);
        }
        if let Some(p) = self.plan.warp_products.get(&inst) {
            return p.b.0 == load || p.a.is_some_and(|a| a.0 == load);
        }
        if self.overwrites(inst, load) {
            return true;
        }
        if self.is_kept(load) {
            return false;
        }
        let nested = &self.k.insts[inst].blocks;
        nested.iter().any(|&b| self.k.blocks[b].insts.iter().any(|&i| self.uses(i, load)))
    }

    fn lower_inst(&mut self, inst: Inst) -> Result<()> {
        let tile = self.k.results(inst).iter().any(|&r| matches!(self.k.ty(r), Type::Tile(..)));
        match &self.k.insts[inst].op {
            Op::For => self.lower_for(inst),
            Op::If => self.lower_if(inst),
            Op::Yield => self.lower_yield(inst),
            Op::View { strided, fill } => self.lower_view(inst, *strided, *fill),
            Op::SubView(kept) => self.lower_sub_view(inst, kept),
            Op::Load => self.lower_load(inst),
            Op::Store => self.lower_store(inst),
            Op::Mma => self.lower_product(inst),
            Op::Atomic(op) => self.lower_atomic(inst, *op),
            Op::Reduce(op, axis) => self.lower_reduce(inst, *op, *axis),
            Op::Scan(op, axis) => self.lower_scan(inst, *op, *axis),
            Op::Gather(dim) => self.lower_gather(inst, usize::from(*dim)),
            Op::Assert(_) => self.lower_assert(inst),
            _ if tile => self.lower_tile(inst),
            _ => self.lower_scalar(inst),
        }
    }

    fn lower_view(&mut self, inst: Inst, strided: bool, fill: f64) -> Result<()> {
        let args = self.k.args(inst).to_vec();
        let rank = if strided { (args.len() - 1) / 2 } else { args.len() - 1 };
        let base = self.scalar(args[0])?;
        let extents: SmallVec<[_; 2]> =
            args[1..=rank].iter().map(|&v| self.scalar(v)).collect::<Result<_>>()?;
        let mut strides: SmallVec<[Option<machine::Value>; 2]> = SmallVec::new();
        let bits = self.k.ty(self.k.result(inst)).elem().bits();
        let window = Window::of(self.k, self.k.result(inst));
        for d in 0..rank {
            let known = window.as_ref().is_some_and(|w| w.stride_expr(self.k, d).is_some());
            strides.push(match strided {
                true if self.k.int_const(args[1 + rank + d]) == Some(1) => None,
                true if known => Some(self.scalar(args[1 + rank + d])?),
                true => {
                    let stride = self.scalar(args[1 + rank + d])?;
                    Some(self.wide_stride(&[stride], bits)?)
                }
                false if d + 1 == rank => None,
                false if !known => Some(self.wide_stride(&extents[d + 1..], bits)?),
                false => {
                    let mut s = extents[d + 1];
                    for &e in &extents[d + 2..] {
                        s = self.at().int(Opcode::MulS32, s, e);
                    }
                    Some(s)
                }
            });
        }
        self.env.insert(self.k.result(inst), Low::View(View { base, extents, strides, fill }));
        Ok(())
    }

    /// A view of fewer dimensions: the base moves; where an index is outside, so is everything.
    fn lower_sub_view(&mut self, inst: Inst, kept: &[u8]) -> Result<()> {
        let args = self.k.args(inst).to_vec();
        let whole = self.view(args[0])?;
        let mut part = View { extents: SmallVec::new(), strides: SmallVec::new(), ..whole.clone() };
        let bits = self.k.ty(args[0]).elem().bits();
        let window = Window::of(self.k, args[0]);
        let mut index = args[1..].iter();
        let mut inside: Vec<machine::Value> = Vec::new();
        for (d, (&extent, &stride)) in whole.extents.iter().zip(&whole.strides).enumerate() {
            if kept.contains(&(d as u8)) {
                part.extents.push(extent);
                part.strides.push(stride);
                continue;
            }
            let Some(&v) = index.next() else { return self.error("an index is missing") };
            let at = self.scalar(v)?;
            let step = window.as_ref().map_or(1, |w| w.stride_divisor(self.k, w.kept[d]));
            if step.wrapping_mul(i64::from(bits)) % 8 != 0 {
                let what = "an index fixed where its stride is not known to be whole bytes";
                return self.error(format!("{what}: {step} elements of {bits} bits"));
            }
            let one = self.at().imm(1);
            part.base = self.step(part.base, at, Some(stride.unwrap_or(one)), bits);
            // Unsigned: a negative index is outside too.
            let compared = NewInst::new(Opcode::SetpU32, &[at, extent], &[Ty::Pred]);
            inside.push(self.at().value(compared.attr(Attr::Cmp(CmpOp::Lt))));
        }
        let zero = self.at().imm(0);
        for extent in &mut part.extents {
            for &p in &inside {
                *extent = self.at().op(Opcode::Selp, &[*extent, zero, p], Ty::B32);
            }
        }
        self.env.insert(self.k.result(inst), Low::View(part));
        Ok(())
    }

    /// Machine type of a tile or scalar value.
    fn ty(&self, v: Value) -> Result<Ty> {
        match self.k.ty(v) {
            Type::Tile(elem, _) => Ok(Ty::frag(self.registers(elem, self.plan.layout(self.k, v)?)? as u16)),
            Type::Scalar(Elem::Bool) => Ok(Ty::Pred),
            Type::Scalar(e) if e.bits() == 64 => Ok(Ty::B64),
            Type::Ptr(_) => Ok(Ty::B64),
            Type::Scalar(e) if e.bits() == 32 || matches!(e, Elem::F16 | Elem::Bf16) => Ok(Ty::B32),
            other => self.error(format!("a value of type {} is not selected", other.elem())),
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
            32 | 8 if elem == Elem::Bool || elem.bits() == 32 => Ok(elements),
            16 if elements.is_multiple_of(2) => Ok(elements / 2),
            16 => self.error("a thread holds an odd number of 16-bit elements; give it pairs"),
            1..=8 => Ok((elements * u64::from(elem.bits())).div_ceil(32)),
            bits => self.error(format!("tiles of {elem} ({bits} bits) in registers are not selected")),
        }
    }

    fn lower_for(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let args = k.args(inst).to_vec();
        let mut machine_args: Vec<machine::Value> = Vec::new();
        for &v in &args[..3] {
            machine_args.push(self.scalar(v)?);
        }
        let mut types = Vec::new();
        for (i, &v) in args[3..].iter().enumerate() {
            types.push(self.ty(k.results(inst)[i])?);
            let init = self.materialize(v, k.results(inst)[i])?;
            machine_args.push(init);
        }
        let body = k.insts[inst].blocks[0];
        let lowered = self.func.new_block();
        let attr = self.loop_attr(inst);
        let params = k.blocks[body].params.clone();
        let counter = self.func.append_param(lowered, Ty::B32, true);
        self.set(params[0], counter);
        for (i, &ty) in types.iter().enumerate() {
            let p = self.func.append_param(lowered, ty, false);
            self.set(params[1 + i], p);
        }
        let outer = std::mem::replace(&mut self.block, lowered);
        self.looped.push(k.attrs[inst].looped.unwrap_or_default());
        self.lower_block(body)?;
        self.looped.pop();
        self.block = outer;
        self.inst = inst;
        let new = NewInst::new(Opcode::For, &machine_args, &types).attr(attr).blocks(&[lowered]);
        let made = self.at().push(new);
        for (i, &r) in k.results(inst).iter().enumerate() {
            let v = self.func.insts[made].results[i];
            let v = self.carried_scale(r, v);
            self.set(r, v);
        }
        Ok(())
    }

    fn loop_attr(&self, inst: Inst) -> Attr {
        let attrs = &self.k.attrs[inst];
        let mapping = attrs.looped.unwrap_or_default();
        let depth = match mapping.pipeline {
            Depth::Fit => None,
            Depth::Stages(n) => Some(n),
        };
        Attr::Loop(Box::new(LoopAttr {
            name: crate::tiles::loop_name(self.k, inst).unwrap_or("").to_owned(),
            depth,
            producers: mapping.producers.unwrap_or(1),
            wait: mapping.wait,
            mma_order: mapping.mma_order.map(|n| n > 0),
            persistent: attrs.persistent,
            most: crate::facts::trips(self.k, inst),
            overlapped: false,
        }))
    }

    fn lower_if(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let cond = self.scalar(k.args(inst)[0])?;
        let types = k.results(inst).iter().map(|&r| self.ty(r)).collect::<Result<Vec<_>>>()?;
        let mut blocks = Vec::new();
        for &b in &k.insts[inst].blocks {
            let lowered = self.func.new_block();
            let outer = std::mem::replace(&mut self.block, lowered);
            self.lower_block(b)?;
            self.block = outer;
            blocks.push(lowered);
        }
        self.inst = inst;
        let made = self.at().push(NewInst::new(Opcode::If, &[cond], &types).blocks(&blocks));
        for (i, &r) in k.results(inst).iter().enumerate() {
            let v = self.func.insts[made].results[i];
            self.set(r, v);
        }
        Ok(())
    }

    fn lower_yield(&mut self, inst: Inst) -> Result<()> {
        let args = self.k.args(inst).to_vec();
        let values = args.iter().map(|&v| self.materialize(v, v)).collect::<Result<Vec<_>>>()?;
        self.at().push(NewInst::new(Opcode::Yield, &values, &[]));
        Ok(())
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
            _ => self.error(format!("operand {} has no version in registers", self.named(v))),
        }
    }

    /// What is launched.
    fn finish(mut self, mapping: &Mapping) -> Result<Program<'a>> {
        let neighbours = mapping.whole.cluster.max(1);
        self.check_cluster(neighbours)?;
        let grid = self.grid(neighbours, mapping.whole.resident)?;
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
            workspace: Expr::zero(),
        };
        let (blocks, teams) = (self.blocks, self.teams);
        let (epilogue_warps, epilogue_role, helper_buffers) =
            (mapping.whole.epilogue == Epilogue::Warps, None, Vec::new());
        let (buffers, func) = (self.buffers, self.func);
        Ok(Program {
            launch,
            buffers,
            warps,
            teams,
            blocks,
            deferred,
            epilogue_warps,
            epilogue_role,
            helper_buffers,
            func,
        })
    }
}

fn is_tile(k: &Kernel, v: Value) -> bool {
    matches!(k.ty(v), Type::Tile(..))
}
