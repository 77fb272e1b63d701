//! How many registers are live at each point, and what takes them.
//!
//! - Fragments count register by register ([`crate::pieces`]).
//! - Scalars of 32 bits count 1, those of 64 bits 2.
//! - Predicates beyond those of the chip, less one, count 1 each, since the assembler then keeps them in registers.
//! - Scalars that are equal in all threads of a warp live in the warp's uniform registers: only those beyond these count.
//! - Descriptors of products count nothing ([`crate::descriptors`]).
//! - The assembler's stack pointer counts 1.

use crate::error::{Heaviest, Heavy};
use crate::liveness::{Liveness, occupies, uses};
use crate::normalize::Normalized;
use crate::pieces::walk;
use crate::planned::Planned;
use crate::ranges::Ranges;
use crate::table::per_value;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::{Func, Inst, Ty, Value};
use warplift_ir::target::Target;

/// How many of the largest values errors name.
const NAMED: usize = 6;

/// The assembler keeps a stack pointer in every thread, `R1`.
const STACK_POINTER: u32 = 1;

/// Live scalars at a point.
#[derive(Clone, Copy, Default)]
struct Count {
    words: u32,
    longs: u32,
    preds: u32,
    /// 32-bit registers of uniform scalars, counted among `words` and `longs` too.
    uniform: u32,
    /// Those of them that hold no register.
    free: u32,
}

impl Count {
    fn change(&mut self, func: &Func<'_>, v: Value, free: bool, by: impl Fn(u32, u32) -> u32) {
        let ty = func.ty(v);
        let slot = self.of(ty);
        *slot = by(*slot, 1);
        if func.values[v].uniform {
            self.uniform = by(self.uniform, ty.regs());
        }
        if free {
            self.free = by(self.free, ty.regs());
        }
    }

    /// Registers of a thread.
    fn registers(self, target: &Target) -> u32 {
        let (held, uniform) = (self.words + 2 * self.longs - self.free, self.uniform - self.free);
        // The assembler keeps one predicate for itself.
        STACK_POINTER + held - uniform.min(target.uniform_registers)
            + self.preds.saturating_sub(target.predicates - 1)
    }

    fn of(&mut self, ty: Ty) -> &mut u32 {
        match ty {
            Ty::B64 => &mut self.longs,
            Ty::Pred => &mut self.preds,
            _ => &mut self.words,
        }
    }
}

/// Scalars live at each point.
pub(crate) struct LiveScalars(Vec<Count>);

/// The scalars live at a point, and how many of each class.
struct Now<'s, 'a> {
    normal: &'s Normalized<'a>,
    planned: &'s Planned,
    values: Vec<Value>,
    /// One more than a value's place among them.
    place: SecondaryMap<Value, u32>,
    count: Count,
}

impl Now<'_, '_> {
    fn add(&mut self, v: Value) {
        if self.place[v] == 0 && self.planned.get(v).is_none() {
            self.values.push(v);
            self.place[v] = self.values.len() as u32;
            self.change(v, |a, b| a + b);
        }
    }

    fn remove(&mut self, v: Value) {
        if let Some(at) = std::mem::take(&mut self.place[v]).checked_sub(1) {
            self.values.swap_remove(at as usize);
            if let Some(&moved) = self.values.get(at as usize) {
                self.place[moved] = at + 1;
            }
            self.change(v, |a, b| a - b);
        }
    }

    fn clear(&mut self) {
        while let Some(&v) = self.values.last() {
            self.remove(v);
        }
    }

    fn change(&mut self, v: Value, by: impl Fn(u32, u32) -> u32) {
        self.count.change(&self.normal.func, v, self.planned.descriptors.free(v), by);
    }
}

/// Visits, from the last point to the first, every point with the scalars live there.
fn scan(normal: &Normalized<'_>, live: &Liveness, planned: &Planned, mut visit: impl FnMut(usize, &Now)) {
    let func = &normal.func;
    let place = per_value(func);
    let mut now = Now { normal, planned, values: Vec::new(), place, count: Count::default() };
    for block in (0..live.blocks.len()).rev() {
        live.live_out[block].iter().for_each(|v| now.add(v));
        let insts = &func.blocks[live.blocks[block]].insts;
        for (at, &inst) in insts.iter().enumerate().rev() {
            let point = 2 * live.position(block, at) as usize;
            let results = func.insts[inst].results;
            results.iter().filter(|&&r| occupies(normal, r)).for_each(|&r| now.add(r));
            visit(point + 1, &now);
            results.iter().for_each(|&r| now.remove(r));
            uses(normal, inst, |v| now.add(v));
            visit(point, &now);
        }
        visit(2 * live.start[block] as usize + 1, &now);
        now.clear();
    }
}

impl LiveScalars {
    pub(crate) fn count(normal: &Normalized<'_>, live: &Liveness, planned: &Planned) -> Self {
        let points = 2 * live.start.last().copied().unwrap_or(0) as usize;
        let mut counts = vec![Count::default(); points];
        scan(normal, live, planned, |point, now| counts[point] = now.count);
        Self(counts)
    }

    /// Most 64-bit scalars that are live at once, descriptors among them.
    pub(crate) fn most_longs(&self) -> u32 {
        self.0.iter().map(|c| c.longs).max().unwrap_or(0)
    }

    /// Most 32-bit scalars that are live at once, and where.
    pub(crate) fn most_words(&self) -> (u32, usize) {
        let most = self.0.iter().enumerate().max_by_key(|(i, c)| (c.words, std::cmp::Reverse(*i)));
        most.map_or((0, 0), |(i, c)| (c.words, i))
    }
}

/// The `n` 32-bit scalars at a point that live longest.
pub(crate) fn longest(
    normal: &Normalized<'_>,
    live: &Liveness,
    planned: &Planned,
    point: usize,
    n: usize,
) -> Vec<Value> {
    let mut length: SecondaryMap<Value, u32> = SecondaryMap::with_capacity(normal.func.values.len());
    let mut there = Vec::new();
    scan(normal, live, planned, |p, now| {
        now.values.iter().for_each(|&v| length[v] += 1);
        if p == point {
            there.clone_from(&now.values);
        }
    });
    there.retain(|&v| normal.func.ty(v) == Ty::B32);
    there.sort_by_key(|&v| (std::cmp::Reverse(length[v]), v));
    there.truncate(n);
    there
}

/// The highest pressure and its point.
pub(crate) struct Peak {
    pub(crate) registers: u32,
    point: usize,
}

/// Walks over all blocks: registers of the planner's values, and scalars beside them. `early`: whether the assembler runs
/// instructions early to free registers.
pub(crate) fn peak(
    normal: &Normalized<'_>,
    live: &Liveness,
    planned: &Planned,
    ranges: &Ranges,
    scalars: &LiveScalars,
    early: bool,
    target: &Target,
) -> Peak {
    let mut peak = Peak { registers: 0, point: 0 };
    walk(normal, live, planned, ranges, early, |point, fragments| {
        let now = fragments + scalars.0[point].registers(target);
        if now > peak.registers {
            peak = Peak { registers: now, point };
        }
    });
    peak
}

impl Peak {
    /// The instruction at the peak.
    pub(crate) fn inst(&self, func: &Func<'_>, live: &Liveness) -> Option<Inst> {
        let position = (self.point / 2) as u32;
        let block = live.start.partition_point(|&s| s <= position).checked_sub(1)?;
        let insts = &func.blocks[*live.blocks.get(block)?].insts;
        let at = (position - live.start[block]).saturating_sub(1) as usize;
        insts.get(at).copied()
    }

    /// The largest values there.
    pub(crate) fn heaviest(
        &self,
        normal: &Normalized<'_>,
        live: &Liveness,
        planned: &Planned,
        ranges: &Ranges,
    ) -> Heaviest {
        let point = self.point as u32;
        let held = |i: &usize| ranges.of[*i].segments().iter().any(|s| s.0 <= point && point < s.1);
        let mut values: Vec<Value> =
            (0..planned.values.len()).filter(held).map(|i| planned.values[i]).collect();
        scan(normal, live, planned, |p, now| {
            if p == self.point {
                values.extend(now.values.iter().filter(|&&v| !planned.descriptors.free(v)));
            }
        });
        let func = &normal.func;
        values.sort_by_key(|&v| (std::cmp::Reverse(func.ty(v).regs()), v));
        values.truncate(NAMED);
        let loc = |v: Value| func.def(v).map(|i| func.insts[i].loc).unwrap_or_default();
        let heavy = |&v: &Value| Heavy {
            name: name(func, v),
            ty: func.ty(v),
            registers: func.ty(v).regs(),
            loc: loc(v),
        };
        Heaviest(values.iter().map(heavy).collect())
    }
}

/// Name of a value in messages.
pub(crate) fn name(func: &Func<'_>, v: Value) -> String {
    func.names[v].map_or_else(|| v.to_string(), |n| format!("{n} ({v})"))
}
