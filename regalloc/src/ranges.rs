//! When the planner's values hold their registers: segments of points.
//!
//! A value lives from its definition to its last use. Registers that a `wgmma` reads or writes are
//! held longer: until a `wgmma.wait` has completed its group, however early the value itself dies.

use crate::liveness::{Liveness, uses};
use crate::normalize::Normalized;
use crate::planned::Planned;
use rustc_hash::FxHashMap;
use warplift_ir::machine::{Attr, BlockCall, InstData};
use warplift_ir::target::Opcode;

/// Half-open segments of points, sorted, none touching.
#[derive(Clone, Debug, Default)]
pub(crate) struct Range(Vec<(u32, u32)>);

impl Range {
    /// One segment.
    #[cfg(test)]
    pub(crate) fn of(from: u32, to: u32) -> Self {
        Self(vec![(from, to)])
    }

    /// Segments come from the back of the text to its front.
    fn push_front(&mut self, from: u32, to: u32) {
        match self.0.last_mut() {
            Some(last) if last.0 <= to => {
                last.0 = last.0.min(from);
                last.1 = last.1.max(to);
            }
            _ => self.0.push((from, to)),
        }
    }

    fn normalize(&mut self) {
        self.0.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for &(from, to) in &self.0 {
            match merged.last_mut() {
                Some(last) if last.1 >= from => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        self.0 = merged;
    }

    /// Points from the first to the last one, if there are any.
    pub(crate) fn hull(&self) -> (u32, u32) {
        (self.0.first().map_or(0, |s| s.0), self.0.last().map_or(0, |s| s.1))
    }

    /// All segments.
    pub(crate) fn segments(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether some point is in both.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let ((a, b), (c, d)) = (self.hull(), other.hull());
        if a >= d || c >= b {
            return false;
        }
        let (mut i, mut j) = (0, 0);
        while let (Some(x), Some(y)) = (self.0.get(i), other.0.get(j)) {
            if x.0 < y.1 && y.0 < x.1 {
                return true;
            }
            if x.1 <= y.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        false
    }
}

/// The values in flight by planner's number, each with the number of groups committed since.
pub(crate) type Flying = FxHashMap<u32, u32>;

/// Ranges of all values, and what is in flight at the start and end of each block.
pub(crate) struct Ranges {
    /// By planner's number.
    pub(crate) of: Vec<Range>,
    /// In flight at the end of each block.
    pub(crate) flying_out: Vec<Flying>,
}

/// Whether results may take over the registers of operand `k` where that dies: the row reads it before
/// it writes, or [`crate::hazards`] decides by place.
pub(crate) fn releases_before_wait(data: &InstData<'_>, k: usize) -> bool {
    match data.op {
        Opcode::Join | Opcode::Slice => false,
        Opcode::Wgmma | Opcode::MmaSync => k == 0,
        // Zeros are written before a guarded instruction reads.
        _ if data.guard.is_some() => false,
        _ => true,
    }
}

impl Ranges {
    pub(crate) fn compute(normal: &Normalized<'_>, live: &Liveness, planned: &Planned) -> Self {
        let mut of = vec![Range::default(); planned.values.len()];
        for block in (0..live.blocks.len()).rev() {
            block_ranges(normal, live, planned, block, &mut of);
        }
        let flying_out = solve_flying(normal, live, planned);
        for block in 0..live.blocks.len() {
            hold_flying(normal, live, planned, block, &flying_out, &mut of);
        }
        of.iter_mut().for_each(Range::normalize);
        Self { of, flying_out }
    }
}

/// Ranges inside one block, backwards.
fn block_ranges(normal: &Normalized<'_>, live: &Liveness, planned: &Planned, block: usize, of: &mut [Range]) {
    let func = &normal.func;
    let id = live.blocks[block];
    let (start, end) = (2 * live.start[block], 2 * live.start[block + 1]);
    // For each live value the point where its segment ends.
    let mut ends: FxHashMap<u32, u32> = FxHashMap::default();
    for v in live.live_out[block].iter() {
        if let Some(i) = planned.get(v) {
            ends.insert(i as u32, end);
        }
    }
    for (at, &inst) in func.blocks[id].insts.iter().enumerate().rev() {
        let (point, data) = (2 * live.position(block, at), &func.insts[inst]);
        for &r in data.results {
            if let Some(i) = planned.get(r) {
                let to = ends.remove(&(i as u32)).unwrap_or(point + 2);
                of[i].push_front(point + 1, to);
            }
        }
        let held = |v| data.args.iter().enumerate().any(|(k, &a)| a == v && !releases_before_wait(data, k));
        uses(normal, inst, |v| {
            if let Some(i) = planned.get(v) {
                let to = if held(v) { point + 2 } else { point + 1 };
                let old = ends.entry(i as u32).or_insert(to);
                *old = to.max(*old);
            }
        });
    }
    for &p in &func.blocks[id].params {
        if let Some(i) = planned.get(p) {
            let to = ends.remove(&(i as u32)).unwrap_or(start + 2);
            of[i].push_front(start + 1, to);
        }
    }
    for (i, to) in ends {
        of[i as usize].push_front(start, to);
    }
}

/// Follows one instruction.
fn step(data: &InstData<'_>, planned: &Planned, flying: &mut Flying) {
    match (data.op, &data.attr) {
        (Opcode::Wgmma, _) => {
            let read = data.args.iter().skip(2).filter_map(|&a| planned.get(a));
            let written = data.results.iter().filter_map(|&r| planned.get(r));
            // The accumulator's new value takes over from the old one in the same registers.
            if let Some(old) = data.args.first().and_then(|&a| planned.get(a)) {
                flying.remove(&(old as u32));
            }
            flying.extend(read.chain(written).map(|i| (i as u32, 0)));
        }
        (Opcode::WgmmaCommit, _) => flying.values_mut().for_each(|age| *age += 1),
        (Opcode::WgmmaWait, Attr::Imm(n)) => flying.retain(|_, age| i64::from(*age) <= *n),
        _ => {}
    }
}

/// The values in flight at the end of each block. The analysis goes forward and keeps the youngest age of all paths.
fn solve_flying(normal: &Normalized<'_>, live: &Liveness, planned: &Planned) -> Vec<Flying> {
    let func = &normal.func;
    let mut out: Vec<Flying> = vec![Flying::default(); live.blocks.len()];
    if !func.insts.values().any(|i| i.op == Opcode::Wgmma) {
        return out;
    }
    let mut enter = out.clone();
    let mut todo: Vec<usize> = (0..live.blocks.len()).rev().collect();
    while let Some(block) = todo.pop() {
        let mut flying = enter[block].clone();
        let insts = &func.blocks[live.blocks[block]].insts;
        insts.iter().for_each(|&i| step(&func.insts[i], planned, &mut flying));
        for call in func.successors(live.blocks[block]) {
            let s = live.number[call.block] as usize;
            if merge(&mut enter[s], &across(normal, planned, &flying, call)) && !todo.contains(&s) {
                todo.push(s);
            }
        }
        out[block] = flying;
    }
    out
}

/// Ages above this are all the same to any wait; keeps the lattice finite.
const OLDEST: u32 = 64;

fn merge(into: &mut Flying, from: &Flying) -> bool {
    let mut changed = false;
    for (&i, &age) in from {
        let age = age.min(OLDEST);
        let old = into.entry(i).or_insert(u32::MAX);
        changed |= age < *old;
        *old = age.min(*old);
    }
    changed
}

/// In flight at the start of a block.
fn flying_in(
    normal: &Normalized<'_>,
    live: &Liveness,
    planned: &Planned,
    block: usize,
    out: &[Flying],
) -> Flying {
    let mut flying = Flying::default();
    for (pred, &p) in live.blocks.iter().enumerate() {
        for call in normal.func.successors(p).iter().filter(|c| c.block == live.blocks[block]) {
            merge(&mut flying, &across(normal, planned, &out[pred], call));
        }
    }
    flying
}

/// The values in flight after an edge. A passed value continues as the parameter that receives it.
fn across(normal: &Normalized<'_>, planned: &Planned, flying: &Flying, call: &BlockCall<'_>) -> Flying {
    let params = &normal.func.blocks[call.block].params;
    let pairs = call.args.iter().zip(params).filter_map(|(&a, &p)| planned.get(a).zip(planned.get(p)));
    let pairs: Vec<(usize, usize)> = pairs.collect();
    let mut next = Flying::default();
    for (&i, &age) in flying {
        let mut passed = pairs.iter().filter(|(a, _)| *a == i as usize).map(|(_, p)| *p as u32).peekable();
        if passed.peek().is_none() {
            next.insert(i, age);
        }
        next.extend(passed.map(|p| (p, age)));
    }
    next
}

/// Extends ranges over the points at which values are in flight.
fn hold_flying(
    normal: &Normalized<'_>,
    live: &Liveness,
    planned: &Planned,
    block: usize,
    out: &[Flying],
    of: &mut [Range],
) {
    let func = &normal.func;
    let id = live.blocks[block];
    let mut flying = flying_in(normal, live, planned, block, out);
    let mut hold = |flying: &Flying, from: u32, to: u32| {
        flying.keys().for_each(|&i| of[i as usize].0.push((from, to)));
    };
    hold(&flying, 2 * live.start[block], 2 * live.start[block] + 2);
    for (at, &inst) in func.blocks[id].insts.iter().enumerate() {
        let point = 2 * live.position(block, at);
        let before: Vec<u32> = flying.keys().copied().collect();
        step(&func.insts[inst], planned, &mut flying);
        hold(&flying, point + 1, point + 2);
        let still = before.into_iter().filter(|i| flying.contains_key(i)).map(|i| (i, 0)).collect();
        hold(&still, point, point + 1);
    }
}

/// Whether a value is in flight at the end of a block.
pub(crate) fn flies(ranges: &Ranges, block: usize, i: usize) -> bool {
    ranges.flying_out.get(block).is_some_and(|f| f.contains_key(&(i as u32)))
}

/// Whether a value is in flight before the instruction at a place in a block.
pub(crate) fn flies_before(
    normal: &Normalized<'_>,
    live: &Liveness,
    planned: &Planned,
    ranges: &Ranges,
    (block, at): (usize, usize),
    i: usize,
) -> bool {
    let mut flying = flying_in(normal, live, planned, block, &ranges.flying_out);
    let insts = &normal.func.blocks[live.blocks[block]].insts;
    insts[..at].iter().for_each(|&inst| step(&normal.func.insts[inst], planned, &mut flying));
    flying.contains_key(&(i as u32))
}
