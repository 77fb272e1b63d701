//! Exchange between threads: conversions between register layouts, and reductions across the warps of a block through
//! a scratch buffer.
//!
//! ```text
//!  shuffle     selects by lane bits ─ rounds of shfl.idx ─ selects by lane bits
//!  shared      store ─ (block meets) ─ load
//!  reduction   one partial result a warp ─► scratch ─ (block meets) ─ every thread combines what it needs
//! ```
//!
//! `sched` places the block barriers: it knows what was written and read since the last one.

use super::shared::SharedAccess;
use super::{Low, Lower};
use crate::Result;
use crate::plan::{cell_bits, choose};
use crate::tiles::{above_lanes, layout_error};
use std::ops::Range;
use warplift_ir::layout::convert::{Cells, Conversion, LaneMap, Shuffle, pass_through};
use warplift_ir::layout::swizzle::{Method, optimal_swizzle};
use warplift_ir::layout::{Axis, Basis, Builder, Layout, Step};
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Value};
use warplift_ir::types::Elem;

/// Partial results of at most this many warps are read at once: the widest access.
const AT_ONCE: u64 = 4;
/// Registers of partial results that are read at once.
const REGISTERS_AT_ONCE: u64 = 32;
/// From this number on, lanes share the partial results. Fewer are two or three wide reads.
const PARTS_BY_LANES: u64 = 16;

/// The axis that names the warp of a partial result.
pub(super) const PART: Axis = Axis::Dim(u8::MAX);

impl Lower<'_, '_> {
    /// A tile in another layout.
    pub(super) fn lower_rearrange(&mut self, inst: Inst, result: Value, arg: Value) -> Result<()> {
        if let Some(tile) = self.plan.shared.get(&inst) {
            self.env.insert(result, Low::Elsewhere);
            return self.lower_computed_fill(inst, tile);
        }
        if matches!(self.env.get(&arg), Some(Low::Splat(_))) {
            return self.alias(result, arg);
        }
        let from = self.plan.layout(self.k, arg)?.clone();
        let to = self.plan.layout(self.k, result)?.clone();
        let x = self.materialize(arg, arg)?;
        let elem = self.k.ty(arg).elem();
        let r = self.convert(x, elem, &from, &to)?;
        self.set(result, r);
        Ok(())
    }

    /// A fragment in another layout.
    pub(super) fn convert(
        &mut self,
        x: machine::Value,
        elem: Elem,
        from: &Layout,
        to: &Layout,
    ) -> Result<machine::Value> {
        match choose(self.k, self.inst, from, to, elem, self.plan.ways, self.plan.meeting_cycles)? {
            Conversion::Registers { source } => {
                let table: Vec<u16> = source.iter().map(|&r| r as u16).collect();
                self.pick_elements(x, elem, &table)
            }
            Conversion::Shuffle(plan) => Ok(self.shuffle(x, elem, to, &plan)),
            Conversion::Shared(pass) => {
                let error = layout_error(self.k, self.inst);
                let write = from.then(&pass.memory).map_err(&error)?;
                let read = to.then(&pass.memory).map_err(&error)?;
                let elements = pass.memory.out_extent(Axis::Mem);
                let buffer = self.scratch("exchange".to_owned(), elements, elem);
                let owner = self.owner(from);
                let write = self.shared_access(&write, buffer, elem, true)?;
                let read = self.shared_access(&read, buffer, elem, false)?;
                self.store_fragment(x, elem, &write, owner)?;
                self.load_fragment(elem, &read)
            }
            Conversion::Cells(cells, _) => self.convert_cells(x, elem, &cells),
        }
    }

    /// A fragment of elements below a byte, moved as cells.
    fn convert_cells(&mut self, x: machine::Value, elem: Elem, cells: &Cells) -> Result<machine::Value> {
        let cell = Elem::Uint(cells.bits as u8);
        if !cells.widened {
            return self.convert(x, cell, &cells.from, &cells.to);
        }
        let bytes = self.widen_to_bytes(x, elem.bits(), cells.from.in_extent(Axis::Reg) as u32);
        let moved = self.convert(bytes, cell, &cells.from, &cells.to)?;
        Ok(self.narrow_from_bytes(moved, elem.bits(), cells.to.in_extent(Axis::Reg) as u32))
    }

    /// Rounds of shuffles of whole registers. The lane's bits decide by exclusive or which register a lane sends and
    /// where it puts the received one. That takes one select per bit and register, before and after the rounds.
    fn shuffle(&mut self, x: machine::Value, elem: Elem, to: &Layout, plan: &Shuffle) -> machine::Value {
        let packed = 32 / cell_bits(elem);
        let Some(first) = plan.rounds.first() else { return x };
        let sources = (self.func.ty(x).regs() as u16).into();
        let sent = self.by_lane(x, &first.send, packed, sources);
        let moved = self.lane_value(&first.from);
        let targets = to.in_extent(Axis::Reg) / packed;
        let mut parts: Vec<Option<machine::Value>> = vec![None; targets as usize];
        for round in &plan.rounds {
            let base = self.at_entry().imm(round.from.base as i64);
            let lane = self.at_entry().int(Opcode::Xor, moved, base);
            let register = ((round.send.base + round.repeat.0) / packed) as u16;
            let args = [(sent, IndexMap::Table([register].into())), (lane, IndexMap::Whole)];
            let got = self.repeat(Opcode::ShflIdx, Attr::None, &args, 1);
            parts[((round.receive.base + round.repeat.1) / packed) as usize] = Some(got);
        }
        for &(register, of) in &plan.copies {
            parts[(register / packed) as usize] = parts[(of / packed) as usize];
        }
        let parts: Vec<machine::Value> = parts.into_iter().flatten().collect();
        let all = self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(targets as u16)]));
        self.by_lane(all, &first.receive, packed, targets)
    }

    /// Register `r` becomes register `r ⊕ columns of the lane's bits`.
    fn by_lane(&mut self, mut x: machine::Value, map: &LaneMap, packed: u64, regs: u64) -> machine::Value {
        let lane = self.at_entry().op(Opcode::Laneid, &[], Ty::B32);
        for (bit, &column) in map.columns.iter().enumerate().filter(|(_, c)| **c != 0) {
            let own = self.at_entry().and_imm(lane, 1 << bit);
            let zero = self.at_entry().imm(0);
            let set = self.at_entry().compare(CmpOp::Ne, own, zero);
            let other = (0..regs).map(|r| (r ^ (column / packed)) as u16).collect();
            let args = [(x, IndexMap::Table(other)), (x, IndexMap::EACH), (set, IndexMap::Whole)];
            x = self.repeat(Opcode::Selp, Attr::None, &args, regs as u16);
        }
        x
    }

    /// The exclusive-or term of the lane's bits.
    fn lane_value(&mut self, map: &LaneMap) -> machine::Value {
        let lane = self.at_entry().op(Opcode::Laneid, &[], Ty::B32);
        let mut sum = self.at_entry().imm(0);
        for (bit, &column) in map.columns.iter().enumerate().filter(|(_, c)| **c != 0) {
            let by = self.at_entry().imm(bit as i64);
            let own = self.at_entry().int(Opcode::ShrU32, lane, by);
            let own = self.at_entry().and_imm(own, 1);
            let own = self.at_entry().mul_imm(own, column as i64);
            sum = self.at_entry().int(Opcode::Xor, sum, own);
        }
        sum
    }

    /// Combines partial results of warps. `x` holds this warp's result in the registers of `to` (`None`: the one
    /// register of a scalar), for a reduction of `from` along `axis`.
    pub(super) fn across_warps(
        &mut self,
        row: Opcode,
        x: machine::Value,
        from: &Layout,
        to: Option<&Layout>,
        axis: usize,
    ) -> Result<machine::Value> {
        let parts = parts_along(from, axis);
        if parts == 1 {
            return Ok(x);
        }
        let error = layout_error(self.k, self.inst);
        let partial = partial_results(from, to, axis, parts).map_err(&error)?;
        let lanes = lanes_of_parts(from, to, parts);
        let wanted = wanted_parts(from, to, [parts, lanes]).map_err(&error)?;
        let read = self.store_parts("partial", x, &partial, &wanted)?;
        let regs = to.map_or(1, |t| t.in_extent(Axis::Reg));
        let mut sum: Option<machine::Value> = None;
        for some in at_once(&read, parts / lanes, regs) {
            let columns = self.load_parts(&read, parts / lanes, some, regs)?;
            sum = Some(self.combine(row, running(sum).chain(columns), regs as u16));
        }
        let all = sum.unwrap_or(x);
        Ok(self.across_lanes(row, all, (0..lanes.ilog2()).map(|bit| 1 << bit)))
    }

    /// Writes what each warp has, `partial`, to a scratch buffer; how threads read back what they want, `wanted`. Both
    /// go to `(results.., part)`.
    pub(super) fn store_parts(
        &mut self,
        name: &str,
        x: machine::Value,
        partial: &Layout,
        wanted: &Layout,
    ) -> Result<SharedAccess> {
        let error = layout_error(self.k, self.inst);
        let memory = part_memory(partial, wanted, self.plan.ways.swizzles).map_err(&error)?;
        let write = partial.then(&memory).map_err(&error)?;
        let read = wanted.then(&memory).map_err(&error)?;
        let buffer = self.scratch(name.to_owned(), memory.out_extent(Axis::Mem), Elem::F32);
        let owner = self.owner(&write);
        let write = self.shared_access(&write, buffer, Elem::F32, true)?;
        let read = self.shared_access(&read, buffer, Elem::F32, false)?;
        self.store_fragment(x, Elem::F32, &write, owner)?;
        Ok(read)
    }

    /// Some of a thread's `parts` parts of `regs` results: the results of each part. Register `p + parts * r` of the
    /// access is part `p` of result `r`.
    pub(super) fn load_parts(
        &mut self,
        read: &SharedAccess,
        parts: u64,
        some: Range<u64>,
        regs: u64,
    ) -> Result<Vec<(machine::Value, IndexMap)>> {
        let of = |r: u64| some.clone().map(move |p| (p + parts * r) as u16);
        let wanted: Vec<u16> = (0..regs).flat_map(of).collect();
        let all = self.load_some(Elem::F32, read, &wanted)?;
        let count = some.end - some.start;
        let column = |p: u64| IndexMap::Table((0..regs).map(|r| (p + count * r) as u16).collect());
        Ok((0..count).map(|p| (all, column(p))).collect())
    }
}

/// What was combined so far, as the first of what is to be combined.
pub(super) fn running(so_far: Option<machine::Value>) -> impl Iterator<Item = (machine::Value, IndexMap)> {
    so_far.map(|s| (s, IndexMap::EACH)).into_iter()
}

/// The parts of `regs` results that a thread reads at once: those of one vector, and more while there are few registers.
pub(super) fn at_once(read: &SharedAccess, parts: u64, regs: u64) -> impl Iterator<Item = Range<u64>> {
    let few = (REGISTERS_AT_ONCE / regs).clamp(1, AT_ONCE);
    let step = read.vector_below(parts).max(few);
    (0..parts).step_by(step as usize).map(move |first| first..parts.min(first + step))
}

/// The warps that hold different parts of one reduction result.
pub(super) fn parts_along(layout: &Layout, axis: usize) -> u64 {
    let axes = layout.ins().iter().filter(|a| above_lanes(a.0));
    axes.flat_map(|a| layout.basis(a.0)).filter(|b| b.out[axis] != 0).map(|b| b.extent).product()
}

type Made = std::result::Result<Layout, warplift_ir::layout::LayoutError>;

/// `(reg, lane, warp..)` to `(results.., part)` after the reduction inside warps; registers are those of `to`.
fn partial_results(from: &Layout, to: Option<&Layout>, axis: usize, parts: u64) -> Made {
    let mut outs: Vec<(Axis, u64)> = to.map_or(Vec::new(), |t| t.outs().to_vec());
    outs.push((PART, parts));
    let mut b = Builder::new(&outs);
    if let Some(to) = to {
        b = copy_digits(b, to, Axis::Reg, |out| out.iter().copied().chain([0]).collect());
    }
    let mut weight = 1;
    for &(a, _) in from.ins().iter().filter(|a| a.0 != Axis::Reg) {
        b = b.axis(a);
        for d in from.basis(a) {
            let kept = d.out.iter().enumerate().filter(|(o, _)| *o != axis && to.is_some()).map(|(_, &c)| c);
            let along = d.out[axis] != 0 && above_lanes(a);
            let column: Vec<u64> = kept.chain([if along { weight } else { 0 }]).collect();
            b = digit(b, a, &d, &column);
            weight *= if along { d.extent } else { 1 };
        }
    }
    b.build()
}

fn digit(b: Builder, axis: Axis, d: &Basis, column: &[u64]) -> Builder {
    match d.step {
        Step::Xor => b.xor(axis, column),
        Step::Add => b.add(axis, d.extent, column),
    }
}

/// The digits of an axis with new columns.
fn copy_digits(mut b: Builder, layout: &Layout, axis: Axis, column: impl Fn(&[u64]) -> Vec<u64>) -> Builder {
    b = b.axis(axis);
    for d in layout.basis(axis) {
        b = digit(b, axis, &d, &column(&d.out));
    }
    b
}

/// The number of lanes that read different parts and combine them by shuffles. It needs two things: all lanes of a
/// warp want the same results, and one read per lane and a few shuffles cost less than every lane reading all parts.
fn lanes_of_parts(from: &Layout, to: Option<&Layout>, parts: u64) -> u64 {
    let equal = to.is_none_or(|t| t.basis(Axis::Lane).iter().all(|b| b.out.iter().all(|&o| o == 0)));
    let whole = parts >= PARTS_BY_LANES && parts.is_power_of_two();
    if equal && whole { parts.min(from.in_extent(Axis::Lane)) } else { 1 }
}

/// `(part and reg, lane, warp..)` to `(results.., part)`: the elements that each thread reads back; `lanes` lanes
/// read different parts.
fn wanted_parts(from: &Layout, to: Option<&Layout>, [parts, lanes]: [u64; 2]) -> Made {
    let mut outs: Vec<(Axis, u64)> = to.map_or(Vec::new(), |t| t.outs().to_vec());
    let results = outs.len();
    let along = |step: u64| (0..=results).map(|n| if n == results { step } else { 0 }).collect::<Vec<u64>>();
    outs.push((PART, parts));
    let mut b = Builder::new(&outs).add(Axis::Reg, parts / lanes, &along(lanes));
    let by_lanes = |b: Builder, extent: u64| {
        b.add(Axis::Lane, lanes, &along(1)).add(Axis::Lane, extent / lanes, &along(0))
    };
    match to {
        Some(to) => {
            for &(a, extent) in to.ins() {
                b = match (a, lanes) {
                    (Axis::Lane, 2..) => by_lanes(b, extent),
                    _ => copy_digits(b, to, a, |out| out.iter().copied().chain([0]).collect()),
                };
            }
        }
        None => {
            for &(a, extent) in from.ins().iter().filter(|a| a.0 != Axis::Reg) {
                let spread = a == Axis::Lane && lanes > 1;
                b = if spread { by_lanes(b, extent) } else { b.add(a, extent, &along(0)) };
            }
        }
    }
    b.build()
}

/// `(results.., part)` to memory: the order, or the swizzle, through which a warp writes its partial results and reads
/// what it wants with the fewest wavefronts. Plain orders come first, because a swizzle takes more address registers.
pub(super) fn part_memory(partial: &Layout, wanted: &Layout, swizzles: bool) -> Made {
    let outs = partial.outs().to_vec();
    let part_first = [&outs[outs.len() - 1..], &outs[..outs.len() - 1]].concat();
    let swizzled = || optimal_swizzle((partial, Method::Vector), (wanted, Method::Vector), 32).ok();
    let others = [dense(&outs, &part_first)?].into_iter().chain(swizzles.then(swizzled).flatten());
    let mut best = pass_through(dense(&outs, &outs)?, partial, wanted, 32)?;
    for memory in others {
        let other = pass_through(memory, partial, wanted, 32)?;
        if other.cost() < best.cost() {
            best = other;
        }
    }
    Ok(best.memory)
}

/// `outs` to memory without gaps, the last axis of `order` fastest.
fn dense(outs: &[(Axis, u64)], order: &[(Axis, u64)]) -> Made {
    let stride = |axis: Axis| order.iter().rev().take_while(|o| o.0 != axis).map(|o| o.1).product::<u64>();
    let size = order.iter().map(|o| o.1).product();
    let memory = Builder::new(&[(Axis::Mem, size)]);
    outs.iter().fold(memory, |b, &(axis, extent)| b.add(axis, extent, &[stride(axis)])).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::blocked;
    use warplift_ir::layout::fragment::row_slice;
    use warplift_ir::layout::swizzle::cost;

    /// Wavefronts of the write and of the read of partial results of a tile whose rows are added up, and how many
    /// there are at least: every lane moves its registers once.
    fn wavefronts(rows: u32, columns: u32, vector: u32, warps: u32) -> [(u64, u64); 2] {
        let from = blocked(&[rows, columns], 1, vector, warps).unwrap();
        let to = row_slice(&from, 0).unwrap();
        let parts = parts_along(&from, 0);
        let partial = partial_results(&from, Some(&to), 0, parts).unwrap();
        let wanted = wanted_parts(&from, Some(&to), [parts, 1]).unwrap();
        let memory = part_memory(&partial, &wanted, true).unwrap();
        let of = |l: &Layout| cost(&l.then(&memory).unwrap(), 32).unwrap().wavefronts;
        let regs = to.in_extent(Axis::Reg);
        [(of(&partial), regs), (of(&wanted), regs * parts)]
    }

    #[test]
    fn columns_meet_without_conflicts() {
        for warps in [2, 4, 8, 16] {
            for (columns, vector) in [(32, 1), (64, 2), (64, 8), (128, 4), (128, 8), (256, 8), (512, 8)] {
                for (moved, least) in wavefronts(64, columns, vector, warps) {
                    assert!(
                        moved <= least,
                        "{columns} columns, {vector} a thread, {warps} warps: {moved} > {least}"
                    );
                }
            }
        }
    }

    #[test]
    fn columns_that_no_swizzle_takes_meet_with_few() {
        for (columns, vector) in [(96, 1), (192, 2), (192, 8)] {
            for (moved, least) in wavefronts(64, columns, vector, 4) {
                assert!(moved <= 2 * least, "{columns} columns, {vector} a thread: {moved} > 2 * {least}");
            }
        }
    }
}
