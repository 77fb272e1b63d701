//! Iota ranges: comparisons of the numbers along a dimension with a bound. A thread holds runs of consecutive
//! numbers. If the bound is a multiple of the length of a run, all numbers of a run are on one side, and one
//! comparison decides them.
//!
//! ```text
//!  iota of a thread     8 9 10 11 12 13 14 15   520 521 ..         < n, a multiple of 8
//!  compared             8                       520                2 comparisons instead of 16
//! ```

use super::coords::{axis_weight, register_coord};
use super::{Low, Lower};
use crate::Result;
use crate::facts::{divisor, gcd};
use crate::tiles::equal_elements;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{self, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, CmpOp, Op, Value};

/// From this constant on, sums may wrap around and are no longer in order.
const FAR: i64 = 1 << 30;

/// The numbers of a fragment: the offset of each register from the thread's first number.
#[derive(Clone, Debug)]
pub(super) struct IotaRange {
    /// The thread's first number.
    base: machine::Value,
    parts: Vec<(i64, machine::Value)>,
    /// A divisor of every thread's first number.
    multiple: i64,
}

/// Which register of an operand each element reads.
type Operand = (machine::Value, IndexMap);

impl Lower<'_, '_> {
    /// The numbers along a dimension of a tile: one register for each number of a thread, and the register that each
    /// element reads.
    pub(super) fn iota_ranges(
        &mut self,
        layout: &Layout,
        dim: usize,
    ) -> Result<(machine::Value, Box<[u16]>)> {
        let base = self.thread_coord(layout, dim)?;
        let all: Vec<u64> =
            (0..layout.in_extent(Axis::Reg)).map(|r| register_coord(layout, r)[dim]).collect();
        let mut few = all.clone();
        few.sort_unstable();
        few.dedup();
        let parts = few.iter().map(|&offset| (offset as i64, self.moved_copy(base, offset as i64))).collect();
        let threads = layout.ins().iter().filter(|(axis, _)| axis_weight(layout, *axis).is_some());
        let steps = threads.flat_map(|(axis, _)| layout.basis(*axis)).map(|b| b.out[dim] as i64);
        let r = self.joined(IotaRange { base, parts, multiple: steps.fold(0, gcd) });
        Ok((r, all.iter().map(|o| few.partition_point(|f| f < o) as u16).collect()))
    }

    fn moved_copy(&mut self, base: machine::Value, by: i64) -> machine::Value {
        match by {
            0 => self.at().op(Opcode::Mov, &[base], Ty::B32),
            _ => self.at().add_imm(base, by),
        }
    }

    fn joined(&mut self, iota_ranges: IotaRange) -> machine::Value {
        let parts: Vec<machine::Value> = iota_ranges.parts.iter().map(|p| p.1).collect();
        let regs = parts.len() as u16;
        let r = self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)]));
        self.iota_ranges.insert(r, iota_ranges);
        r
    }

    /// Adds a constant to numbers.
    pub(super) fn iota_ranges_moved(&mut self, x: machine::Value, by: Value) -> Option<machine::Value> {
        let by = self.k.int_const(equal_elements(self.k, by)?).filter(|by| by.abs() < FAR)?;
        let IotaRange { base, parts, multiple } = self.iota_ranges.get(&x)?.clone();
        if parts.iter().any(|p| (p.0 + by).abs() >= FAR) {
            return None;
        }
        let parts = parts.into_iter().map(|(o, v)| (o + by, self.moved_copy(v, by))).collect();
        Some(self.joined(IotaRange { base, parts, multiple }))
    }

    /// A sum or difference with the numbers of a dimension: the scalar part is added once, and each number that the
    /// thread then has is made once. Numbers that differ along two dimensions may still be few: `row - column` has 34
    /// where 2 rows meet 32 columns.
    ///
    /// ```text
    ///  (row + i) - (column + j)     base = (row0 + i) - (column0 + j)     base, base - 1, base + 8, base + 7, ..
    /// ```
    pub(super) fn iota_sum(&mut self, result: Value, op: BinOp, args: &[Value]) -> Result<bool> {
        let (row, sign) = match op {
            BinOp::Add => (Opcode::AddS32, 1),
            BinOp::Sub => (Opcode::SubS32, -1),
            _ => return Ok(false),
        };
        let [Some(x), Some(y)] = [args[0], args[1]].map(|v| self.side(v)) else { return Ok(false) };
        let regs = usize::from(self.result_regs(result)?);
        let all: Vec<i64> = (0..regs).map(|r| x.offset(r) + sign * y.offset(r)).collect();
        let mut few = all.clone();
        few.sort_unstable();
        few.dedup();
        // Where no number is one of several registers, only a scalar part is worth adding first, and only to numbers that are made
        // for this sum: others are kept, and compared or added to as they are.
        let saves = match [&x, &y].map(|side| side.offsets.is_empty()) {
            [true, true] => false,
            [false, false] => few.len() < regs,
            _ => few.len() < regs || regs > 1 && self.are_cast(result),
        };
        if !saves || few.iter().any(|o| o.abs() >= FAR) {
            return Ok(false);
        }
        let base = self.at().op(row, &[x.base, y.base], Ty::B32);
        let parts = few.iter().map(|&o| (o, self.moved_copy(base, o))).collect();
        // The sum may wrap around, so its numbers are not grouped.
        let r = self.joined(IotaRange { base, parts, multiple: 1 });
        let table = all.iter().map(|o| few.partition_point(|f| f < o) as u16).collect();
        self.env.insert(result, Low::Picked(r, table));
        Ok(true)
    }

    /// Whether numbers are only converted to others.
    fn are_cast(&self, v: Value) -> bool {
        let mut users = self.k.insts.iter().filter(|(i, _)| self.k.args(*i).contains(&v));
        users.all(|(_, d)| matches!(d.op, Op::Cast))
    }

    /// An operand as a number of the thread with an offset for each register; `None` for other tiles.
    fn side(&self, v: Value) -> Option<Side> {
        match self.env.get(&v).cloned() {
            Some(Low::Splat(r) | Low::Reg(r)) if !self.func.ty(r).is_frag() => {
                Some(Side { base: r, offsets: Vec::new() })
            }
            Some(Low::Picked(x, table)) => self.iota_ranges.get(&x).map(|range| {
                let offsets = table.iter().map(|&t| range.parts[usize::from(t)].0).collect();
                Side { base: range.base, offsets }
            }),
            _ => None,
        }
    }

    /// Numbers for a comparison with a bound: those that are known to be on the same side become one.
    pub(super) fn compared(&mut self, cmp: CmpOp, x: Operand, bound: Value) -> Operand {
        self.grouped(cmp, &x, bound).unwrap_or(x)
    }

    fn grouped(&mut self, cmp: CmpOp, (x, map): &Operand, bound: Value) -> Option<Operand> {
        let IndexMap::Table(table) = map else { return None };
        let IotaRange { base, parts, multiple } = self.iota_ranges.get(x)?.clone();
        // `c < n` equals `floor(c) < n` if `n` is such a floor; this is not true of `c <= n`.
        let bound = equal_elements(self.k, bound).filter(|_| matches!(cmp, CmpOp::Lt | CmpOp::Ge))?;
        let step = gcd(multiple, divisor(self.k, bound));
        let floor = |offset: i64| if step > 1 { offset - offset.rem_euclid(step) } else { offset };
        let known = |offset: i64| parts.iter().find(|p| p.0 == offset).map(|p| p.1);
        let mut few: Vec<(i64, machine::Value)> = Vec::new();
        let mut of_part = Vec::new();
        for &(offset, _) in &parts {
            let first = floor(offset);
            let at = few.iter().position(|f| f.0 == first);
            of_part.push(at.unwrap_or(few.len()) as u16);
            if at.is_none() {
                few.push((first, known(first)?));
            }
        }
        (few.len() < parts.len()).then(|| {
            let table = table.iter().map(|&t| of_part[usize::from(t)]).collect();
            (self.joined(IotaRange { base, parts: few, multiple }), IndexMap::Table(table))
        })
    }
}

/// An operand of a sum: one number, or a number with an offset for each register.
struct Side {
    base: machine::Value,
    offsets: Vec<i64>,
}

impl Side {
    fn offset(&self, register: usize) -> i64 {
        self.offsets.get(register).copied().unwrap_or(0)
    }
}
