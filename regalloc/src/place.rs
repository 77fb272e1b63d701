//! Registers of webs: largest first, each at the lowest aligned place where it disturbs none before it.
//!
//! Interference is exact to the register: a web may lie in the hole that a view of another leaves.

use crate::webs::Webs;
use warplift_ir::machine::{Operand, Reg, Ty};

/// Fragments are aligned to this at most; their atoms' power of two if that is less.
const MOST_ALIGN: u32 = 8;

/// First register of each web, and how many registers there are.
pub(crate) struct Layout {
    base: Vec<i32>,
    /// Registers in all.
    pub(crate) registers: u32,
}

struct Web {
    number: usize,
    low: i32,
    high: i32,
    first: u32,
}

/// Places all webs.
pub(crate) fn place(webs: &Webs<'_, '_>) -> Layout {
    let mut list: Vec<Web> = (0..webs.members.len()).filter_map(|w| describe(webs, w)).collect();
    list.sort_by_key(|w| (std::cmp::Reverse(w.high - w.low), w.first, w.number));
    let mut layout = Layout { base: vec![0; webs.members.len()], registers: 0 };
    let mut placed = Placed { values: Vec::new(), webs: vec![false; webs.members.len()] };
    let mut tensor: Vec<&Web> = Vec::new();
    let mut forbidden = Vec::new();
    for web in &list {
        forbidden.clear();
        blocked(webs, web, &placed, &layout, &mut forbidden);
        if webs.is_tensor(web.number as u32) {
            tensor.iter().for_each(|other| apart(web, other, &layout, &mut forbidden));
            tensor.push(web);
        }
        forbidden.sort_unstable();
        let base = lowest(webs, web, &forbidden);
        layout.base[web.number] = base;
        layout.registers = layout.registers.max((base + web.high).max(0) as u32);
        placed.values.extend(&webs.members[web.number]);
        placed.webs[web.number] = true;
    }
    layout
}

/// The webs that have their registers.
struct Placed {
    values: Vec<u32>,
    /// Whether a web does.
    webs: Vec<bool>,
}

fn describe(webs: &Webs<'_, '_>, number: usize) -> Option<Web> {
    let members = &webs.members[number];
    let span = |&v: &u32| webs.place[v as usize].span(webs.facts.planned.regs[v as usize]);
    let low = members.iter().map(|v| span(v).0).min()?;
    let high = members.iter().map(|v| span(v).1).max()?;
    let first = members.iter().map(|&v| webs.facts.ranges.of[v as usize].hull().0).min()?;
    Some(Web { number, low, high, first })
}

/// Open-ended intervals of bases at which a register of `web` would meet one that is taken.
fn blocked(webs: &Webs<'_, '_>, web: &Web, placed: &Placed, layout: &Layout, out: &mut Vec<(i32, i32)>) {
    let regs = &webs.facts.planned.regs;
    for &u in &webs.members[web.number] {
        let (a, b) = webs.place[u as usize].span(regs[u as usize]);
        for &v in webs.facts.fewer(u, &placed.values) {
            let place = &webs.place[v as usize];
            if placed.webs[place.web as usize] && webs.facts.live_at_once(u as usize, v as usize) {
                let (c, d) = place.span(regs[v as usize]);
                let base = layout.base[place.web as usize];
                out.push((base + c - b + 1, base + d - a));
            }
        }
    }
}

/// Bases at which two webs of products would share some names but not all in the same order.
fn apart(web: &Web, other: &Web, layout: &Layout, out: &mut Vec<(i32, i32)>) {
    let base = layout.base[other.number];
    let (from, to) = (base + other.low - web.high + 1, base + other.high - web.low);
    let same = base + other.low - web.low;
    if web.high - web.low == other.high - other.low {
        out.extend([(from, same), (same + 1, to)].into_iter().filter(|(a, b)| a < b));
    } else {
        out.push((from, to));
    }
}

/// The lowest base outside all intervals with the right alignment and no register below 0.
fn lowest(webs: &Webs<'_, '_>, web: &Web, forbidden: &[(i32, i32)]) -> i32 {
    let facts = webs.facts;
    let align = |v: u32| match facts.normal.func.ty(facts.planned.values[v as usize]) {
        Ty::Frag { atom, .. } => 1 << u32::from(atom).trailing_zeros().min(MOST_ALIGN.trailing_zeros()),
        _ => 1,
    };
    let strictest = webs.members[web.number].iter().map(|&v| (align(v), v)).max();
    let (align, offset) = strictest.map_or((1, 0), |(a, v)| (a, webs.place[v as usize].offset));
    let round = |base: i32| base + (-(base + offset)).rem_euclid(align);
    let mut base = round(-web.low);
    for &(from, to) in forbidden {
        if base >= from && base < to {
            base = round(to);
        }
    }
    base
}

impl Layout {
    /// The operand that a value is.
    pub(crate) fn operand(&self, webs: &Webs<'_, '_>, i: usize) -> Operand {
        let (place, n) = (&webs.place[i], webs.facts.planned.regs[i]);
        let at = |k: u16| (self.base[place.web as usize] + place.at(k.into())) as u16;
        let func = &webs.facts.normal.func;
        match func.ty(webs.facts.planned.values[i]) {
            Ty::Frag { .. } if place.is_run() => Operand::Fragment(at(0), n),
            Ty::Frag { .. } => Operand::Scattered((0..n).map(at).collect()),
            _ => Operand::Scalar(Reg::R(at(0))),
        }
    }
}
