//! Scans: prefixes along a dimension. The digits of the dimension's coordinate are processed from the fastest to the
//! slowest, whether registers, lanes or warps hold them.
//!
//! ```text
//!  position = registers (a thread's neighbours) · lanes · warps · registers (what is left)
//!             serial prefix, total ─► shuffles ─► exchange ─► serial over blocks
//!  result[position] = prefix inside the thread  +  offset of the thread's block
//! ```
//!
//! A block covers the digits so far. Its offset is the total of the blocks before it.

use super::Lower;
use super::coords::register_coord;
use super::exchange::{PART, at_once, running};
use crate::Result;
use crate::rows::{binary_row, float_bits, kind};
use crate::tiles::layout_error;
use rustc_hash::FxHashMap;
use warplift_ir::layout::{Axis, Basis, Builder, Layout};
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, ReduceOp};
use warplift_ir::types::Elem;

/// A digit of the coordinate, by who holds it.
struct Level {
    axis: Axis,
    digit: Basis,
}

/// Blocks so far.
struct Blocks {
    row: Opcode,
    /// Register of a neutral element.
    neutral: machine::Value,
    /// Totals of blocks, `count` registers.
    totals: machine::Value,
    count: u16,
    /// Offsets by group of neighbours in a thread.
    offsets: Option<machine::Value>,
    /// Which total belongs to each group.
    total_of: Vec<u16>,
}

impl Blocks {
    fn groups(&self) -> u16 {
        self.total_of.len() as u16
    }
}

impl Lower<'_, '_> {
    /// An inclusive prefix along a dimension.
    pub(super) fn lower_scan(&mut self, inst: Inst, op: ReduceOp, axis: u8) -> Result<()> {
        let k = self.k;
        let (arg, result) = (k.args(inst)[0], k.result(inst));
        let elem = k.ty(arg).elem();
        let row = kind(elem, true).and_then(|kd| binary_row(crate::rows::reduced(op), kd));
        let neutral = neutral(op, elem).filter(|_| elem.bits() == 32);
        let (Some(row), Some(neutral)) = (row, neutral) else {
            return self.refuse_tiles(elem);
        };
        let layout = self.plan.layout(k, result)?.clone();
        let x = self.materialize(arg, arg)?;
        let levels = self.levels(&layout, axis.into())?;
        let near = levels.iter().take_while(|l| l.axis == Axis::Reg).count();
        let (order, parts) = self.neighbours(row, x, &layout, axis.into(), &levels[..near]);
        let neutral = self.at_entry().imm(neutral);
        let groups = order.len() as u16;
        let totals = parts[parts.len() - 1];
        let total_of = (0..groups).collect();
        let mut b = Blocks { row, neutral, totals, count: groups, offsets: None, total_of };
        let mut rest = &levels[near..];
        while let Some(level) = rest.first() {
            let mut done = 1;
            match level.axis {
                Axis::Reg => self.over_registers(&mut b, &order, &layout, &level.digit, axis.into()),
                Axis::Lane => self.over_lanes(&mut b, &level.digit),
                _ => {
                    done = rest.iter().take_while(|l| above_lanes(l.axis)).count();
                    self.over_warps(&mut b, &layout, &rest[..done], axis.into())?;
                }
            }
            rest = &rest[done..];
        }
        let r = self.offset_all(&b, &parts, &order, &layout);
        self.set(result, r);
        Ok(())
    }

    /// The digits along a dimension, the fastest first. They must cover all of it.
    fn levels(&self, layout: &Layout, axis: usize) -> Result<Vec<Level>> {
        let of = |a: Axis| layout.basis(a).into_iter().map(move |digit| Level { axis: a, digit });
        let mut levels: Vec<Level> =
            layout.ins().iter().flat_map(|a| of(a.0)).filter(|l| l.digit.out[axis] != 0).collect();
        levels.sort_by_key(|l| l.digit.out[axis]);
        let mut covered = 1;
        for l in &levels {
            let alone = l.digit.out.iter().filter(|&&o| o != 0).count() == 1;
            let pair = l.axis != Axis::Lane || (l.digit.extent == 2 && l.digit.weight.is_power_of_two());
            if l.digit.out[axis] != covered || !alone || !pair {
                return self.error(format!(
                    "no scan along dimension {axis} of the layout `{layout}`: its threads do not stand in order there; give \
                     the tile another `layout`"
                ));
            }
            covered *= l.digit.extent;
        }
        Ok(levels)
    }

    /// Prefixes over a thread's neighbours: the first register of each group, and a fragment of all groups for
    /// each position.
    fn neighbours(
        &mut self,
        row: Opcode,
        x: machine::Value,
        layout: &Layout,
        axis: usize,
        near: &[Level],
    ) -> (Vec<Vec<u16>>, Vec<machine::Value>) {
        let size: u64 = near.iter().map(|l| l.digit.extent).product();
        let mut groups: Vec<(Vec<u64>, Vec<u16>)> = Vec::new();
        let mut at_key: FxHashMap<Vec<u64>, usize> = FxHashMap::default();
        for r in 0..layout.in_extent(Axis::Reg) {
            let mut at = register_coord(layout, r);
            let position = at[axis] % size;
            at[axis] -= position;
            let g = *at_key.entry(at.clone()).or_insert_with(|| {
                groups.push((at, vec![0; size as usize]));
                groups.len() - 1
            });
            groups[g].1[position as usize] = r as u16;
        }
        let count = groups.len() as u16;
        let column = |p: usize| IndexMap::Table(groups.iter().map(|g| g.1[p]).collect());
        let mut parts = vec![self.repeat(Opcode::Mov, Attr::None, &[(x, column(0))], count)];
        for p in 1..size as usize {
            let args = [(parts[p - 1], IndexMap::EACH), (x, column(p))];
            parts.push(self.repeat(row, Attr::None, &args, count));
        }
        (groups.into_iter().map(|g| g.1).collect(), parts)
    }

    /// Joins two neighbouring blocks in lanes.
    fn over_lanes(&mut self, b: &mut Blocks, digit: &Basis) {
        let lane = self.at_entry().op(Opcode::Laneid, &[], Ty::B32);
        let own = self.at_entry().and_imm(lane, digit.weight as i64);
        let zero = self.at_entry().imm(0);
        let upper = self.at_entry().compare(CmpOp::Ne, own, zero);
        let other = self.repeat(
            Opcode::ShflBfly,
            Attr::Imm(digit.weight as i64),
            &[(b.totals, IndexMap::EACH)],
            b.count,
        );
        let args = [(other, IndexMap::EACH), (b.neutral, IndexMap::Whole), (upper, IndexMap::Whole)];
        let before = self.repeat(Opcode::Selp, Attr::None, &args, b.count);
        self.add_offsets(b, before);
        let both = [(b.totals, IndexMap::EACH), (other, IndexMap::EACH)];
        b.totals = self.repeat(b.row, Attr::None, &both, b.count);
    }

    /// Adds the total of the preceding blocks to every group's offset.
    fn add_offsets(&mut self, b: &mut Blocks, before: machine::Value) {
        let map = IndexMap::Table(b.total_of.clone().into());
        b.offsets = Some(match b.offsets {
            None => self.pick(before, b.total_of.clone()),
            Some(o) => self.repeat(b.row, Attr::None, &[(o, IndexMap::EACH), (before, map)], b.groups()),
        });
    }

    /// Joins the blocks that one thread holds.
    fn over_registers(
        &mut self,
        b: &mut Blocks,
        order: &[Vec<u16>],
        layout: &Layout,
        digit: &Basis,
        axis: usize,
    ) {
        let value = |r: u16| u64::from(r) / digit.weight % digit.extent;
        let base = |r: u16| {
            let mut at = register_coord(layout, r.into());
            at[axis] /= digit.out[axis] * digit.extent;
            at
        };
        let mut merged: Vec<_> = Vec::new();
        let mut total_at: FxHashMap<(usize, u64), u16> = FxHashMap::default();
        let mut of_group = Vec::new();
        for (g, registers) in order.iter().enumerate() {
            let key = base(registers[0]);
            let m = merged.iter().position(|k| *k == key).unwrap_or_else(|| {
                merged.push(key);
                merged.len() - 1
            });
            total_at.insert((m, value(registers[0])), b.total_of[g]);
            of_group.push((m as u16, value(registers[0])));
        }
        let count = merged.len() as u16;
        let column = |v: u64| IndexMap::Table((0..merged.len()).map(|m| total_at[&(m, v)]).collect());
        let whole = [(b.neutral, IndexMap::Whole)];
        let mut before = vec![self.repeat(Opcode::Mov, Attr::None, &whole, count)];
        let mut sum = self.repeat(Opcode::Mov, Attr::None, &[(b.totals, column(0))], count);
        for v in 1..digit.extent {
            before.push(sum);
            let args = [(sum, IndexMap::EACH), (b.totals, column(v))];
            sum = self.repeat(b.row, Attr::None, &args, count);
        }
        let regs = before.len() as u16 * count;
        let all = self.at().value(NewInst::new(Opcode::Join, &before, &[Ty::frag(regs)]));
        b.total_of = of_group.iter().map(|&(m, v)| v as u16 * count + m).collect();
        self.add_offsets(b, all);
        b.total_of = of_group.iter().map(|g| g.0).collect();
        (b.totals, b.count) = (sum, count);
    }

    /// Joins blocks of several warps: totals go through a scratch buffer. A thread reads them part by part: it adds up
    /// those of the parts before its own, and all.
    fn over_warps(&mut self, b: &mut Blocks, layout: &Layout, levels: &[Level], axis: usize) -> Result<()> {
        let parts: u64 = levels.iter().map(|l| l.digit.extent).product();
        let count = u64::from(b.count);
        let error = layout_error(self.k, self.inst);
        let [own, partial, wanted] = part_layouts(layout, count, parts, axis).map_err(&error)?;
        let read = self.store_parts("totals", b.totals, &partial, &wanted)?;
        let own = self.thread_coord(&own, 0)?;
        let (mut before, mut total) = (None, None);
        for some in at_once(&read, parts, count) {
            let columns = self.load_parts(&read, parts, some.clone(), count)?;
            let mut earlier = Vec::new();
            // No part is behind the last.
            for (p, column) in some.zip(&columns).filter(|(p, _)| p + 1 < parts) {
                earlier.push((self.behind(b, column.clone(), own, p), IndexMap::EACH));
            }
            before = Some(self.combine(b.row, running(before).chain(earlier), b.count));
            total = Some(self.combine(b.row, running(total).chain(columns), b.count));
        }
        if let Some(before) = before {
            self.add_offsets(b, before);
        }
        b.totals = total.unwrap_or(b.totals);
        Ok(())
    }

    /// Totals of a part in the threads whose own part is behind it; elsewhere neutral.
    fn behind(
        &mut self,
        b: &Blocks,
        totals: (machine::Value, IndexMap),
        own: machine::Value,
        part: u64,
    ) -> machine::Value {
        let part = self.at_entry().imm(part as i64);
        let behind = self.at_entry().compare(CmpOp::Gt, own, part);
        let args = [totals, (b.neutral, IndexMap::Whole), (behind, IndexMap::Whole)];
        self.repeat(Opcode::Selp, Attr::None, &args, b.count)
    }

    /// Adds each group's offset to the prefixes inside threads, in the order of the layout's registers.
    fn offset_all(
        &mut self,
        b: &Blocks,
        parts: &[machine::Value],
        order: &[Vec<u16>],
        layout: &Layout,
    ) -> machine::Value {
        let groups = b.groups();
        let moved: Vec<machine::Value> = match b.offsets {
            None => parts.to_vec(),
            Some(o) => {
                let args = |p| [(o, IndexMap::EACH), (p, IndexMap::EACH)];
                parts.iter().map(|&p| self.repeat(b.row, Attr::None, &args(p), groups)).collect()
            }
        };
        let regs = moved.len() as u16 * groups;
        let all = self.at().value(NewInst::new(Opcode::Join, &moved, &[Ty::frag(regs)]));
        let mut made: FxHashMap<Vec<u64>, u16> = FxHashMap::default();
        for (g, registers) in order.iter().enumerate() {
            for (p, &r) in registers.iter().enumerate() {
                made.insert(register_coord(layout, r.into()), p as u16 * groups + g as u16);
            }
        }
        // A register that repeats another's element takes its prefix.
        let table = (0..layout.in_extent(Axis::Reg)).map(|r| made[&register_coord(layout, r)]).collect();
        self.pick(all, table)
    }
}

fn above_lanes(axis: Axis) -> bool {
    !matches!(axis, Axis::Reg | Axis::Lane)
}

type Made = std::result::Result<[Layout; 3], warplift_ir::layout::LayoutError>;

/// `(lane, warp..)` to the number of this warp's part; and to `(others, total, part)` of [`Lower::store_parts`]: a
/// warp's `(total, lane, warp..)`, and `(part and total, lane, warp..)` that a thread reads. The others are threads
/// beside each other in other dimensions.
fn part_layouts(layout: &Layout, totals: u64, parts: u64, axis: usize) -> Made {
    let apart = |a: Axis, d: &Basis| d.out[axis] == 0 && d.out.iter().any(|&o| o != 0) && a != Axis::Reg;
    let others = layout.ins().iter().flat_map(|a| layout.basis(a.0).into_iter().map(move |d| (a.0, d)));
    let spread: u64 = others.filter(|(a, d)| apart(*a, d)).map(|(_, d)| d.extent).product();
    let outs = [(Axis::Dim(0), spread), (Axis::Dim(1), totals), (PART, parts)];
    let mut own = Builder::new(&[(PART, parts)]);
    let mut partial = Builder::new(&outs).add(Axis::Reg, totals, &[0, 1, 0]);
    let mut wanted = Builder::new(&outs).add(Axis::Reg, parts, &[0, 0, 1]).add(Axis::Reg, totals, &[0, 1, 0]);
    let (mut stride, mut part) = (1, 1);
    for &(a, _) in layout.ins().iter().filter(|a| a.0 != Axis::Reg) {
        (own, partial, wanted) = (own.axis(a), partial.axis(a), wanted.axis(a));
        for d in layout.basis(a) {
            let along = d.out[axis] != 0 && above_lanes(a);
            let beside = if apart(a, &d) { stride } else { 0 };
            let number = if along { part } else { 0 };
            own = own.add(a, d.extent, &[number]);
            partial = partial.add(a, d.extent, &[beside, 0, number]);
            wanted = wanted.add(a, d.extent, &[beside, 0, 0]);
            stride *= if apart(a, &d) { d.extent } else { 1 };
            part *= if along { d.extent } else { 1 };
        }
    }
    Ok([own.build()?, partial.build()?, wanted.build()?])
}

/// Bits of the neutral element.
fn neutral(op: ReduceOp, elem: Elem) -> Option<i64> {
    let float = |v: f64| float_bits(elem, v);
    match (op, elem) {
        (ReduceOp::Sum, Elem::F32) => float(0.0),
        (ReduceOp::Prod, Elem::F32) => float(1.0),
        (ReduceOp::Min, Elem::F32) => float(f64::INFINITY),
        (ReduceOp::Max, Elem::F32) => float(f64::NEG_INFINITY),
        (ReduceOp::Sum | ReduceOp::Or | ReduceOp::Xor, Elem::Int(32) | Elem::Uint(32)) => Some(0),
        (ReduceOp::Prod, Elem::Int(32) | Elem::Uint(32)) => Some(1),
        (ReduceOp::And, Elem::Int(32) | Elem::Uint(32)) | (ReduceOp::Min, Elem::Uint(32)) => Some(-1),
        (ReduceOp::Min, Elem::Int(32)) => Some(i32::MAX.into()),
        (ReduceOp::Max, Elem::Int(32)) => Some(i32::MIN.into()),
        (ReduceOp::Max, Elem::Uint(32)) => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::exchange::part_memory;
    use crate::plan::blocked;
    use warplift_ir::layout::swizzle::cost;

    #[test]
    fn totals_pass_without_conflicts() {
        for warps in [2, 4, 8, 16] {
            for (columns, vector) in [(4, 4), (16, 4), (64, 2), (128, 4)] {
                let layout = blocked(&[256, columns], 1, vector, warps).unwrap();
                let along = |d: &Basis| d.out[0] != 0;
                let parts: u64 =
                    layout.basis(Axis::Warp).into_iter().filter(along).map(|d| d.extent).product();
                for totals in [4, 8, 32] {
                    let [_, partial, wanted] = part_layouts(&layout, totals, parts, 0).unwrap();
                    let memory = part_memory(&partial, &wanted, true).unwrap();
                    let of = |l: &Layout| cost(&l.then(&memory).unwrap(), 32).unwrap().wavefronts;
                    let moved = (of(&partial), of(&wanted));
                    let what = format!("{columns} columns, {totals} totals, {warps} warps: {moved:?}");
                    assert!(moved.0 <= totals && moved.1 <= totals * parts, "{what}");
                }
            }
        }
    }
}
