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

use crate::hazards::Hazards;
use crate::liveness::Liveness;
use crate::near::Near;
use crate::normalize::Normalized;
use crate::planned::{ANY, Planned, view_of};
use crate::ranges::Ranges;
use crate::shape::{View, WebSlice};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use warplift_ir::machine::{IndexMap, Inst, InstData};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Loc;

/// Values of a web up to which all are tried, before those are looked up that are near.
const FEW: usize = 16;

/// The facts that decide conflicts.
pub(crate) struct Facts<'f, 'a> {
    pub(crate) normal: &'f Normalized<'a>,
    pub(crate) live: &'f Liveness,
    pub(crate) planned: &'f Planned,
    pub(crate) ranges: &'f Ranges,
    pub(crate) hazards: &'f Hazards,
    /// Values by the time at which they live; made where a web is large.
    pub(crate) near: OnceCell<Near>,
}

/// The webs as they grow.
pub(crate) struct Webs<'f, 'a> {
    pub(crate) facts: &'f Facts<'f, 'a>,
    /// Place of each value.
    pub(crate) place: Vec<WebSlice>,
    /// Values of each web; empty where a web was taken into another.
    pub(crate) members: Vec<Vec<u32>>,
    /// Webs that hold a fragment operand or the result of a product.
    tensor: Vec<bool>,
}

/// Builds all webs; `Err` lists products whose accumulator needs a copy first.
pub(crate) fn build<'f, 'a>(facts: &'f Facts<'f, 'a>) -> Result<Webs<'f, 'a>, Vec<Inst>> {
    let n = facts.planned.values.len();
    let place = (0..n as u32).map(WebSlice::alone).collect();
    let members = (0..n as u32).map(|i| vec![i]).collect();
    let mut webs = Webs { facts, place, members, tensor: tensor_values(facts) };
    webs.ties()?;
    webs.passed(true);
    webs.passed(false);
    webs.copies();
    webs.views();
    webs.in_place();
    Ok(webs)
}

/// Fragments that products read or write, by planner's number.
fn tensor_values(facts: &Facts<'_, '_>) -> Vec<bool> {
    let mut tensor = vec![false; facts.planned.values.len()];
    let func = &facts.normal.func;
    for data in func.insts.values().filter(|d| d.op == Opcode::Wgmma) {
        for &v in data.args.iter().chain(data.results) {
            if let Some(i) = facts.planned.get(v) {
                tensor[i] = true;
            }
        }
    }
    tensor
}

impl<'a> Webs<'_, 'a> {
    /// Whether a web holds an operand of a product. Two such webs share all their names in order or none,
    /// even at different times: ptxas takes a name for one variable of its pipeline of products, which
    /// cannot be the fifth register of one operand here and the first of another there (it then serializes
    /// them, C7511); and of accumulators that are never live together but have names of their own it keeps
    /// both, since a product reads its accumulator even where it ignores it (C7512).
    pub(crate) fn is_tensor(&self, web: u32) -> bool {
        self.tensor[web as usize]
    }

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
            .filter(|&(_, pair)| pair.is_some_and(|(acc, result)| !self.unite(acc, result, &View::Run(0))))
            .map(|(inst, _)| inst)
            .collect();
        // A product of warps may give its sum to other registers; it rather keeps them.
        let sums: Vec<(usize, usize)> = self
            .insts()
            .filter(|(_, d)| d.op == Opcode::MmaSync)
            .filter_map(|(_, d)| self.pair(d, 0))
            .collect();
        for (acc, result) in sums {
            self.unite(acc, result, &View::Run(0));
        }
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
                        self.unite(p, a, &View::Run(0));
                    }
                }
            }
        }
    }

    /// Accumulators of products that are copies of one, in peeled and rotated iterations: to ptxas a name
    /// that is one product's accumulator here and another's there is one variable of two pipelines.
    fn copies(&mut self) {
        let mut first: FxHashMap<(Loc, u16), usize> = FxHashMap::default();
        let products = self.insts().filter(|(_, d)| d.op == Opcode::Wgmma);
        let results: Vec<_> = products.filter_map(|(_, d)| Some((d.loc, self.pair(d, 0)?.1))).collect();
        for (loc, result) in results {
            let same = *first.entry((loc, self.facts.planned.regs[result])).or_insert(result);
            self.unite(same, result, &View::Run(0));
        }
    }

    fn views(&mut self) {
        let mut wanted = Vec::new();
        let regs = &self.facts.planned.regs;
        for (_, data) in self.insts() {
            match data.op {
                Opcode::Slice | Opcode::Mov => {
                    let pair = self.pair(data, 0);
                    let view = pair.and_then(|(o, r)| Some((o, r, view_of(data, regs[r])?, true)));
                    wanted.extend(view);
                }
                Opcode::Join => {
                    let mut at = 0;
                    for k in 0..data.args.len() {
                        let pair = self.pair(data, k);
                        wanted.extend(pair.map(|(part, result)| (result, part, View::Run(at), false)));
                        at += pair.map_or(1, |(part, _)| i32::from(regs[part]));
                    }
                }
                _ => {}
            }
        }
        for (outer, inner, view, free) in wanted {
            let repeats = || self.place[outer].view(&view, self.facts.planned.regs[inner]).repeats();
            if free || !repeats() {
                self.unite(outer, inner, &view);
            }
        }
    }

    /// Results over operands that die.
    fn in_place(&mut self) {
        let mut wanted = Vec::new();
        for (_, data) in self.insts() {
            let copies = matches!(data.op, Opcode::Join | Opcode::Slice | Opcode::Wgmma);
            let copies = copies || data.op == Opcode::Mov && !data.maps.is_empty();
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
            // A result on part of a listed view would be scattered for no gain.
            let (to, from) = (self.place[o].web, self.place[r].web);
            let same = self.facts.planned.regs[o] == self.facts.planned.regs[r];
            let apart = self.is_tensor(to) && self.is_tensor(from) && !same;
            if to != from && !apart && self.place[o].is_run() {
                let _ = starts.iter().any(|&s| self.unite(o, r, &View::Run(s)));
            }
        }
    }

    /// Puts `inner` on the registers of `outer` that a view names, with all that shares their webs. Whether
    /// that was possible; nothing changes if not.
    fn unite(&mut self, outer: usize, inner: usize, view: &View) -> bool {
        let n = self.facts.planned.regs[inner];
        let (old, target) = (self.place[inner].clone(), self.place[outer].view(view, n));
        if old.web == target.web {
            return old == target;
        }
        let alone = self.members[old.web as usize].len() == 1;
        let shift = old.shift_to(&target, n);
        if shift.is_none() && !alone {
            return false;
        }
        let moved = |v: u32| match shift {
            Some(by) => self.place[v as usize].shifted(target.web, by),
            None => target.clone(),
        };
        let (here, there) = (&self.members[target.web as usize], &self.members[old.web as usize]);
        let clash =
            |u: u32, v: u32| self.facts.clash((u as usize, &self.place[u as usize]), (v as usize, &moved(v)));
        let clashes = match there.len() <= here.len() {
            true => there.iter().any(|&v| self.near_in(v, target.web).any(|u| clash(u, v))),
            false => here.iter().any(|&u| self.near_in(u, old.web).any(|v| clash(u, v))),
        };
        if clashes {
            return false;
        }
        let places: Vec<WebSlice> = there.iter().map(|&v| moved(v)).collect();
        let taken = std::mem::take(&mut self.members[old.web as usize]);
        for (&v, place) in taken.iter().zip(places) {
            self.place[v as usize] = place;
        }
        self.members[target.web as usize].extend(taken);
        self.tensor[target.web as usize] |= self.tensor[old.web as usize];
        true
    }

    /// The values of a web that may meet a value: those near it, or all where these are fewer.
    fn near_in(&self, v: u32, web: u32) -> impl Iterator<Item = u32> + '_ {
        let list = self.facts.fewer(v, &self.members[web as usize]);
        list.iter().copied().filter(move |&u| self.place[u as usize].web == web)
    }
}

impl Facts<'_, '_> {
    /// The values near one, or `all`, whichever are fewer.
    pub(crate) fn fewer<'s>(&'s self, v: u32, all: &'s [u32]) -> &'s [u32] {
        if all.len() <= FEW {
            return all;
        }
        let near = self.near.get_or_init(|| Near::of(&self.ranges.of)).to(&self.ranges.of[v as usize]);
        if near.len() < all.len() { near } else { all }
    }

    /// Whether two values hold registers at the same time, whatever they contain.
    pub(crate) fn live_at_once(&self, u: usize, v: usize) -> bool {
        self.ranges.of[u].meets(&self.ranges.of[v]) || self.hazards.linked(u, v)
    }

    /// Whether two values cannot lie at these places of one web.
    fn clash(&self, u: (usize, &WebSlice), v: (usize, &WebSlice)) -> bool {
        let (nu, nv) = (self.planned.regs[u.0], self.planned.regs[v.0]);
        let ((a, b), (c, d)) = (u.1.span(nu), v.1.span(nv));
        if a >= d || c >= b {
            return false;
        }
        let meet = self.ranges.of[u.0].meets(&self.ranges.of[v.0])
            || !self.hazards.allow(self.normal, self.planned, u, v);
        meet && self.differ(u, v)
    }

    /// Whether a common register has different contents.
    fn differ(&self, u: (usize, &WebSlice), v: (usize, &WebSlice)) -> bool {
        // Looking up in a run is quick.
        let ((u, pu), (v, pv)) = if v.1.is_run() { (u, v) } else { (v, u) };
        let (cu, cv) = (self.planned.content(u), self.planned.content(v));
        cu.iter().enumerate().any(|(i, &a)| {
            let b = pv.index(pu.at(i), self.planned.regs[v]).and_then(|j| cv.get(j));
            b.is_some_and(|&b| a != b && a != ANY && b != ANY)
        })
    }
}
