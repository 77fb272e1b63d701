//! Thread coordinates: the processor axes of a layout as arithmetic on the thread number.
//!
//! ```text
//!  thread 37 = warp 1, lane 5      row = warp * 16 + lane / 4      column = lane % 4 * 2
//! ```
//!
//! A coordinate under a register layout is the sum of a thread part and a register part, because the columns of a
//! distributed layout share no bit (Linear Layouts, definition 4.8).

use super::Lower;
use crate::Result;
use warplift_ir::layout::{Axis, Layout, Step};
use warplift_ir::machine::{self, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// Coordinates of a register's element for thread 0.
pub(super) fn register_coord(layout: &Layout, register: u64) -> Vec<u64> {
    let at: Vec<u64> = layout.ins().iter().map(|a| if a.0 == Axis::Reg { register } else { 0 }).collect();
    layout.apply(&at).to_vec()
}

/// A digit of the thread number, `thread / weight % extent`, and the coordinate of one step of it.
#[derive(Clone, Copy)]
struct Digit {
    weight: u64,
    extent: u64,
    value: u64,
    xor: bool,
}

/// The weight of each processor axis, in threads.
pub(super) fn axis_weight(layout: &Layout, axis: Axis) -> Option<u64> {
    let warps = layout.in_extent(Axis::Warp);
    match axis {
        Axis::Lane => Some(1),
        Axis::Warp => Some(32),
        Axis::Warpgroup => Some(32 * warps),
        _ => None,
    }
}

/// A register's part of an output: an exclusive-or term and a sum term.
pub(super) fn register_parts(layout: &Layout, register: u64, out: usize) -> (u64, u64) {
    let mut parts = (0, 0);
    for b in layout.basis(Axis::Reg) {
        let value = register / b.weight % b.extent;
        match b.step {
            Step::Xor => parts.0 ^= value * b.out[out],
            Step::Add => parts.1 += value * b.out[out],
        }
    }
    parts
}

/// The digits of the processor axes that move along an output, each with its weight.
fn digits(layout: &Layout, out: usize, weight: impl Fn(Axis) -> Option<u64>) -> Vec<Digit> {
    let mut digits = Vec::new();
    for &(axis, _) in layout.ins() {
        let Some(weight) = weight(axis) else { continue };
        for b in layout.basis(axis).iter().filter(|b| b.out[out] != 0) {
            let xor = matches!(b.step, Step::Xor);
            digits.push(Digit { weight: weight * b.weight, extent: b.extent, value: b.out[out], xor });
        }
    }
    digits
}

/// Masks of bits, each with the shift (to the left where it is positive) by which they move.
pub(super) type Shifts = Vec<(i32, u64)>;

/// Adds a bit, which moves to all the bits of a number. Bits that move by the same shift go under one mask.
pub(super) fn add_shifts(shifts: &mut Shifts, bit: u64, to: u64) {
    for place in (0..63).filter(|place| to >> place & 1 == 1) {
        let shift = place - bit.trailing_zeros() as i32;
        match shifts.iter_mut().find(|s| s.0 == shift) {
            Some(s) => s.1 |= bit,
            None => shifts.push((shift, bit)),
        }
    }
}

/// A thread's part of an output: an exclusive-or term, a sum term, and the bits that the first may set.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadParts {
    pub xor: Option<machine::Value>,
    pub add: Option<machine::Value>,
    pub mask: u64,
}

impl Lower<'_, '_> {
    /// Both parts of this thread's coordinate along an output, computed once at entry.
    pub(super) fn thread_parts(&mut self, layout: &Layout, out: usize) -> Result<ThreadParts> {
        let thread = self.thread();
        let (xors, adds): (Vec<Digit>, Vec<Digit>) =
            digits(layout, out, |axis| axis_weight(layout, axis)).into_iter().partition(|d| d.xor);
        let mask = xors.iter().fold(0, |m, d| m | d.value);
        let mut part = |digits: Vec<Digit>| match digits.is_empty() {
            true => Ok(None),
            false => self.sum_digits(thread, digits).map(Some),
        };
        Ok(ThreadParts { xor: part(xors)?, add: part(adds)?, mask })
    }

    /// The thread's number among the computing threads.
    pub(super) fn thread(&mut self) -> machine::Value {
        match self.thread {
            Some(t) => t,
            None => {
                let mut t = self.at_entry().op(Opcode::Tid, &[], Ty::B32);
                if self.teams > 1 {
                    let warps = self.k.attrs[self.inst].team.warps();
                    let threads = self.at_entry().imm(i64::from(32 * warps));
                    t = self.at_entry().int(Opcode::RemU32, t, threads);
                }
                if self.blocks > 1 {
                    // Warps are counted from the first block on, then in the next one.
                    let own = self.k.attrs[self.inst].team.warps() / self.blocks;
                    let rank = self.at_entry().op(Opcode::ClusterRank, &[], Ty::B32);
                    let first = self.at_entry().mul_imm(rank, i64::from(32 * own));
                    t = self.at_entry().add(first, t);
                }
                self.thread = Some(t);
                t
            }
        }
    }

    /// This thread's coordinate along an output of a layout with processor axes, computed once at entry.
    pub(super) fn thread_coord(&mut self, layout: &Layout, out: usize) -> Result<machine::Value> {
        let key = (layout.clone(), out);
        if let Some(&v) = self.coords.get(&key) {
            return Ok(v);
        }
        let thread = self.thread();
        let digits = digits(layout, out, |axis| axis_weight(layout, axis));
        let v = self.sum_digits(thread, digits)?;
        self.coords.insert(key, v);
        Ok(v)
    }

    /// The warp's number, uniform.
    pub(super) fn warp(&mut self) -> machine::Value {
        if let Some(w) = self.warp {
            return w;
        }
        let thread = self.thread();
        let five = self.at_entry().imm(5);
        let w = self.at_entry().int(Opcode::ShrU32, thread, five);
        let w = self.at_entry().op(Opcode::Uniform, &[w], Ty::B32);
        self.warp = Some(w);
        w
    }

    /// This warp's coordinate along an output of a layout: that of its lane 0.
    pub(super) fn warp_coord(&mut self, layout: &Layout, out: usize) -> Result<machine::Value> {
        let warp = self.warp();
        let digits = digits(layout, out, |axis| {
            axis_weight(layout, axis).filter(|_| axis != Axis::Lane).map(|w| w / 32)
        });
        self.sum_digits(warp, digits)
    }

    /// Groups bits that move by the same shift under one mask, then adds or xors the groups.
    fn sum_digits(&mut self, thread: machine::Value, digits: Vec<Digit>) -> Result<machine::Value> {
        let mut seen = 0u64;
        let mut overlaps = false;
        for d in &digits {
            overlaps |= seen & d.value != 0;
            seen |= d.value;
        }
        // Columns of a swizzle share bits, so nothing may carry.
        let plus = if overlaps && digits.iter().all(|d| d.xor) { Opcode::Xor } else { Opcode::AddS32 };
        let mut groups: Shifts = Vec::new();
        let mut total: Option<machine::Value> = None;
        let join = |l: &mut Self, total: Option<machine::Value>, part, op| match total {
            None => part,
            Some(t) => l.at_entry().int(op, t, part),
        };
        for d in &digits {
            if d.extent == 2 && d.weight.is_power_of_two() && (d.xor || !overlaps) {
                add_shifts(&mut groups, d.weight, d.value);
            } else {
                let w = self.at_entry().imm(d.weight as i64);
                let q = self.at_entry().int(Opcode::DivU32, thread, w);
                let e = self.at_entry().imm(d.extent as i64);
                let r = self.at_entry().int(Opcode::RemU32, q, e);
                let part = self.at_entry().mul_imm(r, d.value as i64);
                total = Some(join(self, total, part, plus));
            }
        }
        let mut bits: Option<machine::Value> = None;
        for (shift, mask) in groups {
            let part = self.at_entry().and_imm(thread, mask as i64);
            let by = self.at_entry().imm(i64::from(shift.abs()));
            let part = self.at_entry().int(if shift < 0 { Opcode::ShrU32 } else { Opcode::Shl }, part, by);
            bits = Some(join(self, bits, part, Opcode::Xor));
        }
        Ok(match (total, bits) {
            (Some(t), Some(b)) => self.at_entry().int(plus, t, b),
            (Some(v), None) | (None, Some(v)) => v,
            (None, None) => self.at_entry().imm(0),
        })
    }

    /// Whether this thread stores the elements that several threads hold: a predicate, or `None` if every element is
    /// held once.
    pub(super) fn owner(&mut self, layout: &Layout) -> Option<machine::Value> {
        let mut mask = 0u64;
        let mut odd = Vec::new();
        for &(axis, _) in layout.ins() {
            if let Some(weight) = axis_weight(layout, axis) {
                let free = layout.free_mask(axis);
                mask |= free * weight;
                let digits = layout.replicated(axis).into_iter().filter(|b| b.weight & free != b.weight);
                odd.extend(digits.map(|b| (b.weight * weight, b.extent)));
            }
        }
        let mut owner = (mask != 0).then(|| {
            let thread = self.thread();
            let free = self.at_entry().and_imm(thread, mask as i64);
            let zero = self.at_entry().imm(0);
            self.at_entry().compare(CmpOp::Eq, free, zero)
        });
        for (weight, extent) in odd {
            let digit = self.thread_digit(weight, extent);
            let zero = self.at_entry().imm(0);
            let first = self.at_entry().compare(CmpOp::Eq, digit, zero);
            owner = Some(match owner {
                Some(o) => self.at_entry().op(Opcode::AndPred, &[o, first], Ty::Pred),
                None => first,
            });
        }
        owner
    }

    /// A digit of the thread's number.
    fn thread_digit(&mut self, weight: u64, extent: u64) -> machine::Value {
        let thread = self.thread();
        let w = self.at_entry().imm(weight as i64);
        let q = self.at_entry().int(Opcode::DivU32, thread, w);
        let e = self.at_entry().imm(extent as i64);
        self.at_entry().int(Opcode::RemU32, q, e)
    }
}
