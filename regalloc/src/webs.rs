//! Webs: values that share one run of registers.
//!
//! ```text
//!  b1(x):                 x, y, z: one web at offset 0   an accumulator keeps its name over the loop
//!    y = wgmma x ...      tie
//!    z = mul y, 2         in place
//!    s = slice z, 4       s: same web, offset 4          free view
//!    br b1(z)             coalesced
//! ```
//!
//! Webs grow greedily, the most valuable union first: ties of `wgmma`, values carried by loops, values
//! passed forward, slices and joins, results that may take over a dying operand. Two values may share a
//! register if they are never live together, or if that register holds the same content in both.

use crate::hazards::{Hazards, Place};
use crate::liveness::Liveness;
use crate::normalize::Normalized;
use crate::planned::{ANY, Planned, slice_of};
use crate::ranges::Ranges;
use warplift_ir::machine::{IndexMap, Inst, InstData};
use warplift_ir::target::Opcode;

/// What conflicts are decided from.
pub(crate) struct Facts<'f, 'a> {
    pub(crate) normal: &'f Normalized<'a>,
    pub(crate) live: &'f Liveness,
    pub(crate) planned: &'f Planned,
    pub(crate) ranges: &'f Ranges,
    pub(crate) hazards: &'f Hazards,
}

/// The webs as they grow.
pub(crate) struct Webs<'f, 'a> {
    pub(crate) facts: &'f Facts<'f, 'a>,
    /// Place of each value.
    pub(crate) place: Vec<Place>,
    /// Values of each web; empty where a web was taken into another.
    pub(crate) members: Vec<Vec<u32>>,
}

/// Builds all webs; `Err` lists products whose accumulator needs a copy first.
pub(crate) fn build<'f, 'a>(facts: &'f Facts<'f, 'a>) -> Result<Webs<'f, 'a>, Vec<Inst>> {
    let n = facts.planned.values.len();
    let place = (0..n as u32).map(|web| Place { web, offset: 0, stride: 1 }).collect();
    let members = (0..n as u32).map(|i| vec![i]).collect();
    let mut webs = Webs { facts, place, members };
    webs.ties()?;
    webs.passed(true);
    webs.passed(false);
    webs.views();
    webs.in_place();
    Ok(webs)
}

impl<'a> Webs<'_, 'a> {
    fn insts(&self) -> impl Iterator<Item = (Inst, &'_ InstData<'a>)> + use<'_, 'a> {
        let func = &self.facts.normal.func;
        func.order.iter().flat_map(|&b| &func.blocks[b].insts).map(|&i| (i, &func.insts[i]))
    }

    /// Planner's numbers of an instruction's operand and result.
    fn pair(&self, data: &InstData<'a>, k: usize) -> Option<(usize, usize)> {
        let get = |v| self.facts.planned.get(v);
        Some((get(*data.args.get(k)?)?, get(*data.results.first()?)?))
    }

    fn ties(&mut self) -> Result<(), Vec<Inst>> {
        let products: Vec<(Inst, Option<(usize, usize)>)> =
            self.insts().filter(|(_, d)| d.op == Opcode::Wgmma).map(|(i, d)| (i, self.pair(d, 0))).collect();
        let failed: Vec<Inst> = products
            .into_iter()
            .filter(|&(_, pair)| pair.is_some_and(|(acc, result)| !self.unite(acc, result, 0, 1)))
            .map(|(inst, _)| inst)
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// Values passed to block parameters: over back edges, or over the others.
    fn passed(&mut self, back: bool) {
        let live = self.facts.live;
        for (from, &block) in live.blocks.iter().enumerate() {
            let func = &self.facts.normal.func;
            for call in func.successors(block) {
                if (live.number[call.block] as usize <= from) != back {
                    continue;
                }
                for (&arg, &param) in call.args.iter().zip(&func.blocks[call.block].params) {
                    let get = |v| self.facts.planned.get(v);
                    if let Some((a, p)) = get(arg).zip(get(param)) {
                        self.unite(p, a, 0, 1);
                    }
                }
            }
        }
    }

    fn views(&mut self) {
        let mut wanted = Vec::new();
        for (_, data) in self.insts() {
            match data.op {
                Opcode::Slice => {
                    let view = self.pair(data, 0).zip(slice_of(data));
                    wanted.extend(view.map(|((s, r), (start, stride))| (s, r, start, stride)));
                }
                Opcode::Join => {
                    let mut at = 0;
                    for k in 0..data.args.len() {
                        let pair = self.pair(data, k);
                        wanted.extend(pair.map(|(part, result)| (result, part, at, 1)));
                        at += pair.map_or(1, |(part, _)| self.facts.planned.regs[part]);
                    }
                }
                _ => {}
            }
        }
        for (outer, inner, start, stride) in wanted {
            self.unite(outer, inner, start.into(), stride.into());
        }
    }

    /// Results over operands that die.
    fn in_place(&mut self) {
        let mut wanted = Vec::new();
        for (_, data) in self.insts() {
            let copies = matches!(data.op, Opcode::Join | Opcode::Slice | Opcode::Wgmma);
            for k in (0..data.args.len()).filter(|_| !copies) {
                let Some((o, r)) = self.pair(data, k) else { continue };
                let upper = i32::from(self.facts.planned.regs[o]) - i32::from(self.facts.planned.regs[r]);
                let start = match data.maps.get(k) {
                    Some(IndexMap::Affine { offset, .. }) => i32::from(*offset),
                    _ => 0,
                };
                wanted.push((o, r, [start, 0, upper]));
            }
        }
        for (o, r, starts) in wanted {
            if self.place[o].web != self.place[r].web {
                let _ = starts.iter().any(|&s| self.unite(o, r, s, 1));
            }
        }
    }

    /// Puts register 0 of `inner` on register `start` of `outer`, the next ones `stride` further, with all
    /// that shares their webs. Whether that was possible; nothing changes if not.
    fn unite(&mut self, outer: usize, inner: usize, start: i32, stride: i32) -> bool {
        let (po, pi) = (self.place[outer], self.place[inner]);
        let target = Place { web: po.web, offset: po.offset + po.stride * start, stride: po.stride * stride };
        if po.web == pi.web {
            return pi == target;
        }
        let alone = self.members[pi.web as usize].len() == 1;
        if pi.stride != target.stride && !alone {
            return false;
        }
        let moved = |p: Place| match alone {
            true => target,
            false => Place { web: target.web, offset: p.offset + target.offset - pi.offset, ..p },
        };
        let (here, there) = (&self.members[po.web as usize], &self.members[pi.web as usize]);
        let clash = there.iter().any(|&v| {
            let v = v as usize;
            let place = moved(self.place[v]);
            here.iter().any(|&u| self.facts.clash((u as usize, self.place[u as usize]), (v, place)))
        });
        if clash {
            return false;
        }
        let taken = std::mem::take(&mut self.members[pi.web as usize]);
        for &v in &taken {
            self.place[v as usize] = moved(self.place[v as usize]);
        }
        self.members[po.web as usize].extend(taken);
        true
    }
}

impl Facts<'_, '_> {
    /// Whether two values hold registers at the same time, whatever they contain.
    pub(crate) fn together(&self, u: usize, v: usize) -> bool {
        self.ranges.of[u].meets(&self.ranges.of[v]) || self.hazards.linked(u, v)
    }

    /// Whether two values cannot lie at these places of one web.
    fn clash(&self, u: (usize, Place), v: (usize, Place)) -> bool {
        let (nu, nv) = (self.planned.regs[u.0], self.planned.regs[v.0]);
        let ((a, b), (c, d)) = (u.1.span(nu), v.1.span(nv));
        if a >= d || c >= b {
            return false;
        }
        if self.ranges.of[u.0].meets(&self.ranges.of[v.0]) {
            return self.differ(u, v);
        }
        !self.hazards.allow(self.normal, self.planned, u, v)
    }

    /// Whether a common register has different contents.
    fn differ(&self, (u, pu): (usize, Place), (v, pv): (usize, Place)) -> bool {
        let (cu, cv) = (self.planned.content(u), self.planned.content(v));
        cu.iter().enumerate().any(|(i, &a)| {
            let b = pv.index(pu.at(i), self.planned.regs[v]).and_then(|j| cv.get(j));
            b.is_some_and(|&b| a != b && a != ANY && b != ANY)
        })
    }
}
