//! Left operands of products that are fields less a constant: the fields are multiplied as they stand in their registers, and
//! the constant apart from them.
//!
//! ```text
//!  sum over k of (q - z) x   =   2^24 ( sum of (2^-24 q) x   +   sum of (-2^-24 z) x )
//!                                            │                          └ the same in every row: no warp has its own
//!                                            └ the bits of q in a half: one mask, and no difference
//! ```
//!
//! An integer in the low bits of an f16 is a subnormal number, which tensor cores multiply exactly, and f32 sums exactly as far
//! as it sums at all; a field that stands higher is so much more, rows of one half of an atom alike. The power of two goes
//! where it costs least (`defer_scale`).
//!
//! Where `z` is not the same in all rows, sums of `x` alone take its place, and each row multiplies them by its own.
//!
//! The product of what is constant is one of `mma.sync`, whose sums lie in registers as those of `wgmma` do. It is worth its
//! cycles only if the schedule finds that all warps make the same (`sched::alike`); where it does not, all is compiled again
//! without this (Tilus, section 7; that sums correct zero points is common in integer kernels.)

use super::Lower;
use super::narrow::{Half, bit_offset, is_narrow, offset};
use crate::Result;
use crate::operand::{WARP_ATOM, loaded};
use crate::plan::Fill;
use crate::tiles::constant;
use crate::tiles::extents;
use std::ops::Range;
use warplift_ir::machine::{self, Attr, IndexMap, MmaAttr, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Value};
use warplift_ir::types::Elem;

/// The least power of two of an f16.
const LEAST: i32 = -24;
/// What operands are less than integers of so few bits at most, so that halves hold the difference.
const MOST_LESS: f64 = 768.0;
/// Columns of a product at most: with 32, to load what is handed on costs what it spares (measured).
const MOST_COLUMNS: u32 = 16;
/// Bits of an integer at most: kernels with wider ones wait for memory.
const MOST_BITS: u32 = 4;
/// Depth of a product at least: what is handed on costs each thread two loads, a wait and sums that do not begin at zero
/// (measured: 3% less time with 64, 8 to 13% more with 32).
const LEAST_DEPTH: u32 = 64;
/// Registers of a step of a left operand's atom: rows of its upper half, of its lower half, and both again.
const A_REGISTERS: u16 = 4;

/// What operands are less than the integers they come from.
#[derive(Clone, Copy, PartialEq)]
enum ZeroPoint {
    /// The same everywhere.
    Constant(f64),
    /// Halves, one for each row: the tile of one column.
    Rows(Value),
}

/// By what a constant's product is known: block, constants, and loads with the steps of their depth.
pub(super) type Key = (machine::Block, [u16; 2], Vec<(Inst, Range<u32>)>);

/// Products one after the other into the same sums, that begin at zero, with left operands of this kind.
#[derive(Clone)]
pub(super) struct Chain {
    products: Vec<Inst>,
    /// Of each product: the operand, and the integers that it comes from.
    operands: Vec<(Value, Value)>,
    zero_point: ZeroPoint,
    /// How high fields stand: in rows of an atom's upper half, and in those of its lower half.
    bit_offset: [u32; 2],
}

impl Chain {
    /// What the sums are to be multiplied by, in rows of each half of an atom.
    pub(super) fn powers(&self) -> [f32; 2] {
        self.bit_offset.map(|r| 2f32.powi(-LEAST - r as i32))
    }

    /// The product that leaves all sums.
    pub(super) fn last(&self) -> Inst {
        self.products[self.products.len() - 1]
    }

    /// Whether fields are all that there is.
    fn is_whole(&self, offset: f64) -> bool {
        matches!(self.zero_point, ZeroPoint::Constant(c) if c + offset == 0.0)
    }

    /// What is multiplied apart, in units of the fields of either half; `None` where an f16 is not exact.
    fn constants(&self, elem: Elem) -> Option<[u16; 2]> {
        let factor = match self.zero_point {
            ZeroPoint::Constant(c) => -(offset(elem) + c),
            ZeroPoint::Rows(_) => 1.0,
        };
        let exact = |r: u32| {
            let v = factor * 2f64.powi(LEAST + r as i32);
            let half = half::f16::from_f64(v);
            (half.to_f64() == v).then_some(half.to_bits())
        };
        Some([exact(self.bit_offset[0])?, exact(self.bit_offset[1])?])
    }
}

impl Lower<'_, '_> {
    /// All such chains of the kernel.
    pub(super) fn find_zero_points(&self) -> Vec<Chain> {
        let k = self.k;
        if !self.plan.ways.zero_point
            || self.teams > 1
            || self.blocks > 1
            || k.attrs.values().any(|a| a.deferred)
        {
            return Vec::new();
        }
        let begins = |&p: &Inst| matches!(k.insts[p].op, Op::Mma) && constant(k, k.args(p)[0]) == Some(0.0);
        let loops = k.insts.keys().filter(|&i| k.attrs[i].looped.is_some_and(|l| l.producers != Some(0)));
        let bodies = loops.flat_map(|i| k.insts[i].blocks.iter().copied());
        let firsts =
            bodies.flat_map(|b| k.blocks[b].insts.iter().copied().filter(begins).map(move |p| (b, p)));
        let chains: Vec<Chain> = firsts.filter_map(|(body, first)| self.chain_from(body, first)).collect();
        let among = |load: Inst| chains.iter().filter(|c| self.fields_of(c) == Some(load)).count();
        let shares = |c: &Chain| self.fields_of(c).is_some_and(|load| among(load) > 1);
        let shared: Vec<bool> = chains.iter().map(shares).collect();
        chains.into_iter().zip(shared).filter(|c| !c.1).map(|c| c.0).collect()
    }

    /// The load of a chain's integers. Of two products of the same fields ptxas makes these once, and holds them all from one to
    /// the other: it serialises both for want of registers (measured).
    fn fields_of(&self, chain: &Chain) -> Option<Inst> {
        loaded(self.k, chain.operands[0].1).map(|l| l.load)
    }

    /// The chain that begins with a product, if it is one.
    fn chain_from(&self, body: Block, first: Inst) -> Option<Chain> {
        let k = self.k;
        let mut products = vec![first];
        while let Some(next) = self.next_product(body, *products.last()?) {
            products.push(next);
        }
        let found = products.iter().map(|&p| self.integers(p).filter(|_| self.is_brought(body, first, p)));
        let found: Vec<(Value, ZeroPoint)> = found.collect::<Option<_>>()?;
        let (elem, zero_point) = (k.ty(found[0].0).elem(), found[0].1);
        if found.iter().any(|f| (k.ty(f.0).elem(), f.1) != (elem, zero_point)) {
            return None;
        }
        let depth: u32 = products.iter().map(|p| WARP_ATOM[2] * self.plan.products[p].k_steps).sum();
        if depth < LEAST_DEPTH {
            return None;
        }
        let operands: Vec<(Value, Value)> =
            products.iter().zip(&found).map(|(&p, f)| (k.args(p)[1], f.0)).collect();
        let mut all = operands.iter().map(|&(to, from)| self.bit_offset_by_half(to, from));
        let bit_offset = all.next()??;
        let chain = all.all(|r| r == Some(bit_offset)).then_some(Chain {
            products,
            operands,
            zero_point,
            bit_offset,
        })?;
        chain.constants(elem).map(|_| chain)
    }

    /// The product that goes on with the sums of another, if nothing else reads them.
    fn next_product(&self, body: Block, product: Inst) -> Option<Inst> {
        let (k, sums) = (self.k, self.k.result(product));
        let mut users = k.insts.keys().filter(|&i| k.args(i).contains(&sums));
        let next = users.next().filter(|_| users.next().is_none())?;
        let goes_on = matches!(k.insts[next].op, Op::Mma) && k.args(next)[0] == sums;
        (goes_on && k.blocks[body].insts.contains(&next)).then_some(next)
    }

    /// Whether tensor copies bring a product's right operand in the same block, anew for each iteration, and before the first
    /// product of its chain.
    fn is_brought(&self, body: Block, first: Inst, product: Inst) -> bool {
        let Some(right) = loaded(self.k, self.k.args(product)[2]) else { return false };
        let copied = self.plan.shared.get(&right.load).is_some_and(|t| t.fill == Fill::Tma);
        let mut before = self.k.blocks[body].insts.iter().take_while(|&&i| i != first);
        copied && before.any(|&i| i == right.load)
    }

    /// The integers behind the left operand of a product of this kind, and what is taken from them.
    fn integers(&self, product: Inst) -> Option<(Value, ZeroPoint)> {
        let k = self.k;
        let p = self.plan.products.get(&product)?;
        let fits = p.a.is_none() && p.n_atoms == 1 && p.n <= MOST_COLUMNS;
        let operand = k.args(product)[1];
        let once = k.insts.keys().filter(|&i| k.args(i).contains(&operand)).count() == 1;
        if !fits || !once || k.ty(operand).elem() != Elem::F16 || self.plan.uses.contains_key(&(product, 1)) {
            return None;
        }
        let def = k.def(operand)?;
        let (cast, zero_point) = match k.insts[def].op {
            Op::Binary(BinOp::Sub) => (k.def(k.args(def)[0])?, zero_point_of(k, k.args(def)[1])?),
            _ => (def, ZeroPoint::Constant(0.0)),
        };
        let from = *k.args(cast).first().filter(|_| matches!(k.insts[cast].op, Op::Cast))?;
        let elem = k.ty(from).elem();
        let held = loaded(k, from).is_none_or(|l| !k.attrs[l.load].in_parts);
        let narrow = is_narrow(elem) && elem.is_int() && elem.bits() <= MOST_BITS;
        (held && narrow).then_some((from, zero_point))
    }

    /// How high the fields of an operand stand, in registers of rows of an atom's upper half and of its lower half, which
    /// take turns; `None` where that is not all.
    fn bit_offset_by_half(&self, to: Value, from: Value) -> Option<[u32; 2]> {
        let [a, b] = [from, to].map(|v| self.plan.layouts[v].as_ref());
        let table = self.element_table(a?, b?, <[u64]>::to_vec).ok()?;
        let elem = self.k.ty(from).elem();
        let pairs = table.chunks_exact(2).map(|p| bit_offset(elem, Half::of(Elem::F16), [p[0], p[1]]));
        let each: Vec<u32> = pairs.map(|[p, q]| (p == q).then_some(p)).collect::<Option<_>>()?;
        let halves = [*each.first()?, *each.get(1)?];
        each.chunks(2).all(|c| c == halves).then_some(halves)
    }

    /// An operand of a chain, as fields alone; whether it was one.
    pub(super) fn tile_zero_point(&mut self, result: Value) -> Result<bool> {
        let operands = self.zero_points.iter().flat_map(|c| &c.operands);
        let Some(&(_, from)) = operands.into_iter().find(|o| o.0 == result) else { return Ok(false) };
        let r = self.bare_fields(result, from)?;
        self.set(result, r);
        Ok(true)
    }

    /// The sums that a product begins with, if it is the first of a chain: the same for every atom of rows, or times what each
    /// row is less.
    pub(super) fn begin_zero_point(&mut self, inst: Inst) -> Result<Option<machine::Value>> {
        let Some(chain) = self.zero_points.iter().find(|c| c.products[0] == inst).cloned() else {
            return Ok(None);
        };
        if chain.is_whole(offset(self.k.ty(chain.operands[0].1).elem())) {
            return Ok(None);
        }
        let sums = self.zero_point_sum(&chain)?;
        let one = self.func.ty(sums).regs() as u16;
        let regs = one * self.plan.products[&inst].m_atoms as u16;
        let table: Vec<u16> = (0..regs).map(|r| r % one).collect();
        if let ZeroPoint::Constant(_) = chain.zero_point {
            return Ok(Some(self.pick(sums, table)));
        }
        let rows = self.rows_of(inst, offset(self.k.ty(chain.operands[0].1).elem()))?;
        let each = (0..regs).map(|r| r / one * 2 + half_of(r)).collect();
        let args = [(sums, IndexMap::Table(table.into())), (rows, IndexMap::Table(each))];
        Ok(Some(self.repeat(Opcode::MulF32, Attr::None, &args, regs)))
    }

    /// The constant's product for one atom of rows; of chains that multiply the same by the same, the first one's.
    fn zero_point_sum(&mut self, chain: &Chain) -> Result<machine::Value> {
        let k = self.k;
        // What it was found by.
        let constants = chain.constants(k.ty(chain.operands[0].1).elem()).unwrap_or_default();
        let rights = chain.products.iter().map(|&p| self.right_matrices(p)).collect::<Result<Vec<_>>>()?;
        let loads = chain.products.iter().filter_map(|&p| Some(loaded(k, k.args(p)[2])?.load));
        let key = (self.block, constants, loads.zip(rights.iter().map(|r| r.1.clone())).collect::<Vec<_>>());
        if let Some(made) = self.zero_points_made.iter().find(|m| m.0 == key) {
            return Ok(made.1);
        }
        let n = self.plan.products[&chain.products[0]].n;
        let (ty, n_atoms) = (Ty::frag(n as u16 / 2), (n / WARP_ATOM[1]) as u8);
        let attr = MmaAttr { elem: Elem::F16, acc: Elem::F32, m_atoms: 1, n_atoms };
        let left = self.constant_fragment(constants);
        let zero = self.at_entry().imm(0);
        let new = NewInst::new(Opcode::Mov, &[zero], &[ty]).maps([IndexMap::Whole].into_iter().collect());
        let mut sums = self.at().value(new);
        // Each step's operand is read under the product of the one before.
        let mut ready: Option<machine::Value> = None;
        let steps = rights.iter().flat_map(|(m, steps)| steps.clone().map(move |s| (m, s)));
        for next in steps.map(Some).chain([None]) {
            let next = next.map(|(m, step)| self.fragment(m, step));
            if let Some(right) = std::mem::replace(&mut ready, next) {
                let new = NewInst::new(Opcode::MmaSync, &[sums, left, right], &[ty]).attr(Attr::Mma(attr));
                sums = self.at().value(new);
            }
        }
        self.zero_points_made.push((key, sums));
        Ok(sums)
    }

    /// The negative of what each row of a product's left operand is less than its fields, for both halves of every atom.
    fn rows_of(&mut self, product: Inst, offset: f64) -> Result<machine::Value> {
        let (k, p) = (self.k, &self.plan.products[&product]);
        let atom = p.k_steps as u16 * A_REGISTERS;
        let firsts: Vec<u16> = (0..p.m_atoms as u16).flat_map(|a| [a * atom, a * atom + 1]).collect();
        let zero_point = k.def(k.args(product)[1]).map_or(k.args(product)[1], |def| k.args(def)[1]);
        let (x, map) = self.operand(zero_point)?;
        let table: Vec<u16> = match &map {
            IndexMap::Table(t) => firsts.iter().map(|&r| t[usize::from(r)]).collect(),
            IndexMap::Whole => firsts.iter().map(|_| 0).collect(),
            _ => firsts,
        };
        let regs = table.len() as u16;
        let wide = self.repeat(Opcode::LowF16, Attr::None, &[(x, IndexMap::Table(table.into()))], regs);
        let from = self.at_entry().imm(i64::from((-offset as f32).to_bits()));
        let args = [(from, IndexMap::Whole), (wide, IndexMap::EACH)];
        Ok(self.repeat(Opcode::SubF32, Attr::None, &args, regs))
    }

    /// An atom's rows of two constants, along the whole depth: made once at entry.
    fn constant_fragment(&mut self, halves: [u16; 2]) -> machine::Value {
        let words =
            halves.map(|h| self.at_entry().imm(i64::from((u32::from(h) << 16 | u32::from(h)) as i32)));
        let all = [words[0], words[1], words[0], words[1]];
        self.at_entry().value(NewInst::new(Opcode::Join, &all, &[Ty::frag(4)]))
    }
}

/// What is taken from an operand: a constant, or halves of which a row has only one. Whole numbers whose differences from the
/// integers halves hold: others would be rounded.
fn zero_point_of(k: &Kernel, v: Value) -> Option<ZeroPoint> {
    if let Some(c) = constant(k, v) {
        return (c.fract() == 0.0 && c.abs() <= MOST_LESS).then_some(ZeroPoint::Constant(c));
    }
    let column = k.ty(v).shape().and_then(|s| s.extents()).is_some_and(|e| e.len() == 2 && e[1] == 1);
    let def = k.def(v)?;
    let from = k.args(def).first().map(|&a| k.ty(a).elem());
    match k.insts[def].op {
        Op::Cast if column && from.is_some_and(|e| e.is_int() && e.bits() <= 8) => Some(ZeroPoint::Rows(v)),
        Op::Broadcast => zero_point_of(k, k.args(def)[0]),
        // A part of the depth has all rows.
        Op::Slice(_) if extents(k, v)[0] == extents(k, k.args(def)[0])[0] => zero_point_of(k, k.args(def)[0]),
        _ => None,
    }
}

/// The half of an atom whose rows a register of its sums is of: two columns, then the same below.
pub(super) fn half_of(register: u16) -> u16 {
    register / 2 % 2
}
