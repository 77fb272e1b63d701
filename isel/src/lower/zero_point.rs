//! Zero points are factored out of the MMA: a left operand is fields less a constant. The fields are multiplied as
//! they are in their registers, and the constant is multiplied by an MMA of its own.
//!
//! ```text
//!  sum over k of (q - z) x   =   2^24 ( sum of (2^-24 q) x   +   sum of (-2^-24 z) x )
//!                                            │                          └ the same in every row: no warp has its own
//!                                            └ the bits of q in a half: one mask, and no difference
//! ```
//!
//! An integer in the low bits of an f16 is a subnormal number. Tensor cores multiply it exactly, and f32 accumulates
//! it as exactly as any other number. A field at a higher bit is larger by that power of two, the same for all rows
//! of one half of an atom. The power of two is applied where it costs the least (`defer_scale`).
//!
//! If `z` differs between rows, the second MMA sums `x` alone, and each row multiplies that sum by its own `z`.
//!
//! The constant's MMA is an `mma.sync`: its accumulators have the register layout of `wgmma`. It pays only if the
//! schedule finds that it is identical in every warp (`sched::dedup_mma`). If not, the kernel is compiled again
//! without this optimization (Tilus, section 7; correcting zero points by sums is common in integer kernels).

use super::Lower;
use super::narrow::{Half, bit_offset, is_narrow, offset};
use crate::Result;
use crate::operand::{WARP_ATOM, loaded};
use crate::plan::{Fill, SharedTile};
use crate::tiles::constant;
use crate::tiles::extents;
use std::ops::Range;
use warplift_ir::machine::{self, Attr, IndexMap, MmaAttr, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, Value};
use warplift_ir::types::Elem;

/// The least power of two of an f16.
const LEAST: i32 = -24;
/// Limit on the zero point, so that halves hold the difference.
const MOST_LESS: f64 = 768.0;
/// Limit on the columns of an MMA. With 32 columns, loading the handed-over sums costs as much as it saves
/// (measured).
const MOST_COLUMNS: u32 = 16;
/// Limit on the bits of an integer: kernels with wider ones are bound by memory.
const MOST_BITS: u32 = 4;
/// Least depth of an MMA. A hand-over costs each thread two loads, a wait, and accumulators that do not start at zero
/// (measured: 3% less time with 64, 8 to 13% more with 32).
const LEAST_DEPTH: u32 = 64;
/// The same where each row has a zero point of its own: a conversion subtracts it as well (`zero_columns`; by prediction 7% more
/// time with 64, 5% less with 128).
const LEAST_DEPTH_OF_ROWS: u32 = 128;
/// Registers of one k-step of a left operand's atom: rows of its upper half, of its lower half, and both again.
const A_REGISTERS: u16 = 4;

/// The zero point: what is subtracted from the integers.
#[derive(Clone, Copy, PartialEq)]
enum ZeroPoint {
    /// The same everywhere.
    Constant(f64),
    /// Halves, one for each row: the tile of one column.
    Rows(Value),
}

/// The key of a constant's MMA: block, constants, the factor of its sums, and loads with the steps of their depth.
pub(super) type Key = (machine::Block, [u16; 2], Option<u32>, Vec<(Inst, Range<u32>)>);

/// A chain: MMAs one after the other into the same accumulators, which start at zero, with left operands of this
/// kind.
#[derive(Clone)]
pub(super) struct Chain {
    products: Vec<Inst>,
    /// For each MMA: the operand, and its integers.
    operands: Vec<(Value, Value)>,
    zero_point: ZeroPoint,
    /// The bit offset of fields, in rows of an atom's upper half and of its lower half.
    bit_offset: [u32; 2],
}

impl Chain {
    /// The factor that the accumulators lack, in rows of each half of an atom.
    pub(super) fn powers(&self) -> [f32; 2] {
        self.bit_offset.map(|r| 2f32.powi(-LEAST - r as i32))
    }

    /// The last MMA of the chain.
    pub(super) fn last(&self) -> Inst {
        self.products[self.products.len() - 1]
    }

    /// Whether there is no zero point.
    fn is_whole(&self, offset: f64) -> bool {
        matches!(self.zero_point, ZeroPoint::Constant(c) if c + offset == 0.0)
    }

    /// A constant in units of the fields of either half; `None` if an f16 does not hold it.
    fn units(&self, constant: f64) -> Option<[u16; 2]> {
        let exact = |r: u32| {
            let v = constant * 2f64.powi(LEAST + r as i32);
            let half = half::f16::from_f64(v);
            (half.to_f64() == v).then_some(half.to_bits())
        };
        Some([exact(self.bit_offset[0])?, exact(self.bit_offset[1])?])
    }

    /// What the second MMA multiplies by, and the factor that its sums lack: none, or the constant that an f16 does not
    /// hold.
    fn constants(&self, elem: Elem) -> Option<([u16; 2], Option<f64>)> {
        let ZeroPoint::Constant(c) = self.zero_point else { return Some((self.units(-1.0)?, None)) };
        let factor = -(offset(elem) + c);
        match self.units(factor) {
            Some(units) => Some((units, None)),
            None => Some((self.units(1.0)?, Some(factor))),
        }
    }
}

impl Lower<'_, '_> {
    /// All chains of the kernel.
    pub(super) fn find_zero_points(&self) -> Vec<Chain> {
        let k = self.k;
        if !self.plan.ways.zero_point
            || self.teams > 1
            || self.blocks > 1
            || k.attrs.values().any(|a| a.deferred)
        {
            return Vec::new();
        }
        let begins = |&p: &Inst| {
            matches!(k.insts[p].op, Op::Mma { negated: false }) && constant(k, k.args(p)[0]) == Some(0.0)
        };
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

    /// The load of a chain's integers. If two MMAs use the same fields, ptxas computes these once and keeps them live
    /// from one MMA to the other; then it serializes both for lack of registers (measured).
    fn fields_of(&self, chain: &Chain) -> Option<Inst> {
        loaded(self.k, chain.operands[0].1).map(|l| l.load)
    }

    /// The chain that starts with an MMA, if there is one.
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
        let least = match zero_point {
            ZeroPoint::Constant(_) => LEAST_DEPTH,
            ZeroPoint::Rows(_) => LEAST_DEPTH_OF_ROWS,
        };
        if depth < least {
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

    /// The MMA that continues the accumulators of another one, if nothing else reads them.
    fn next_product(&self, body: Block, product: Inst) -> Option<Inst> {
        let (k, sums) = (self.k, self.k.result(product));
        let mut users = k.insts.keys().filter(|&i| k.args(i).contains(&sums));
        let next = users.next().filter(|_| users.next().is_none())?;
        let goes_on = matches!(k.insts[next].op, Op::Mma { negated: false }) && k.args(next)[0] == sums;
        (goes_on && k.blocks[body].insts.contains(&next)).then_some(next)
    }

    /// Whether tensor copies load an MMA's right operand in the same block, once for each iteration, and before the
    /// first MMA of its chain.
    fn is_brought(&self, body: Block, first: Inst, product: Inst) -> bool {
        let Some(right) = loaded(self.k, self.k.args(product)[2]) else { return false };
        // Matrices are read in pairs, which a narrower last slab need not hold.
        let whole =
            |t: &SharedTile| t.inner_extent(&extents(self.k, self.k.result(right.load))) == t.extents[1];
        let copied = self.plan.shared.get(&right.load).is_some_and(|t| t.fill == Fill::Tma && whole(t));
        let mut before = self.k.blocks[body].insts.iter().take_while(|&&i| i != first);
        copied && before.any(|&i| i == right.load)
    }

    /// The integers behind a left operand of this kind, and their zero point.
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
        if let ZeroPoint::Constant(c) = zero_point
            && !is_exact(elem, c)
        {
            return None;
        }
        let held = loaded(k, from).is_none_or(|l| !k.attrs[l.load].in_parts);
        let narrow = is_narrow(elem) && elem.is_int() && elem.bits() <= MOST_BITS;
        (held && narrow).then_some((from, zero_point))
    }

    /// The bit offset of an operand's fields. Registers alternate between rows of an atom's upper half and of its
    /// lower half. `None` if the offsets do not follow this pattern.
    fn bit_offset_by_half(&self, to: Value, from: Value) -> Option<[u32; 2]> {
        let table = self.narrow_table(to, from).ok()?;
        let elem = self.k.ty(from).elem();
        let pairs = table
            .chunks_exact(2)
            .map(|p| bit_offset(elem, Half::of(Elem::F16), [p[0], p[1]], self.plan.ways.halfwords, true));
        let each: Vec<u32> = pairs.map(|[p, q]| (p == q).then_some(p)).collect::<Option<_>>()?;
        let halves = [*each.first()?, *each.get(1)?];
        each.chunks(2).all(|c| c == halves).then_some(halves)
    }

    /// Lowers an operand of a chain to plain fields. Returns whether it was one.
    pub(super) fn tile_zero_point(&mut self, result: Value) -> Result<bool> {
        let operands = self.zero_points.iter().flat_map(|c| &c.operands);
        let Some(&(_, from)) = operands.into_iter().find(|o| o.0 == result) else { return Ok(false) };
        let r = self.bare_fields(result, from)?;
        self.set(result, r);
        Ok(true)
    }

    /// The accumulators that the first MMA of a chain starts with: the same for every atom of rows, or scaled by the
    /// zero point of each row.
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

    /// The constant's MMA for one atom of rows. Chains with the same factors share the first one's.
    fn zero_point_sum(&mut self, chain: &Chain) -> Result<machine::Value> {
        let k = self.k;
        // The key under which it was found.
        let (constants, factor) = chain.constants(k.ty(chain.operands[0].1).elem()).unwrap_or_default();
        let rights = chain.products.iter().map(|&p| self.right_matrices(p)).collect::<Result<Vec<_>>>()?;
        let loads = chain.products.iter().filter_map(|&p| Some(loaded(k, k.args(p)[2])?.load));
        let bits = factor.map(|f| (f as f32).to_bits());
        let key =
            (self.block, constants, bits, loads.zip(rights.iter().map(|r| r.1.clone())).collect::<Vec<_>>());
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
        // Each step's operand is read during the MMA of the step before.
        let mut ready: Option<machine::Value> = None;
        let steps = rights.iter().flat_map(|(m, steps)| steps.clone().map(move |s| (m, s)));
        for next in steps.map(Some).chain([None]) {
            let next = next.map(|(m, step)| self.right_fragment(m, step));
            if let Some(right) = std::mem::replace(&mut ready, next) {
                let new = NewInst::new(Opcode::MmaSync, &[sums, left, right], &[ty]).attr(Attr::Mma(attr));
                sums = self.at().value(new);
            }
        }
        if let Some(bits) = bits {
            let by = self.at_entry().imm(i64::from(bits as i32));
            let args = [(sums, IndexMap::EACH), (by, IndexMap::Whole)];
            sums = self.repeat(Opcode::MulF32, Attr::None, &args, n as u16 / 2);
        }
        self.zero_points_made.push((key, sums));
        Ok(sums)
    }

    /// How much the masked fields exceed the left operand in each row, for both halves of every atom. The sums that it multiplies
    /// are negative.
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
        if offset == 0.0 {
            return Ok(wide);
        }
        let more = self.at_entry().imm(i64::from((offset as f32).to_bits()));
        let args = [(wide, IndexMap::EACH), (more, IndexMap::Whole)];
        Ok(self.repeat(Opcode::AddF32, Attr::None, &args, regs))
    }

    /// An atom whose rows hold two constants along the whole depth, computed once at entry.
    fn constant_fragment(&mut self, halves: [u16; 2]) -> machine::Value {
        let words =
            halves.map(|h| self.at_entry().imm(i64::from((u32::from(h) << 16 | u32::from(h)) as i32)));
        let all = [words[0], words[1], words[0], words[1]];
        self.at_entry().value(NewInst::new(Opcode::Join, &all, &[Ty::frag(4)]))
    }
}

/// Whether the differences of all integers of a type and a constant are halves, so the text's is not rounded.
fn is_exact(elem: Elem, constant: f64) -> bool {
    // A half holds no more bits than these.
    if elem.bits() > half::f16::MANTISSA_DIGITS {
        return false;
    }
    let least = -(offset(elem) as i32);
    (least..least + (1 << elem.bits())).all(|q| {
        let difference = f64::from(q) - constant;
        half::f16::from_f64(difference).to_f64() == difference
    })
}

/// The zero point of an operand: a constant, or halves of which each row has one. Those must be integers whose
/// difference from the fields is exact in halves.
fn zero_point_of(k: &Kernel, v: Value) -> Option<ZeroPoint> {
    if let Some(c) = constant(k, v) {
        return (c.abs() <= MOST_LESS).then_some(ZeroPoint::Constant(c));
    }
    let column = k.ty(v).shape().and_then(|s| s.extents()).is_some_and(|e| e.len() == 2 && e[1] == 1);
    let def = k.def(v)?;
    let from = k.args(def).first().map(|&a| k.ty(a).elem());
    match k.insts[def].op {
        Op::Cast if column && from.is_some_and(|e| e.is_int() && e.bits() <= 8) => Some(ZeroPoint::Rows(v)),
        Op::Broadcast => zero_point_of(k, k.args(def)[0]),
        // A slice along the depth has all rows.
        Op::Slice(_) if extents(k, v)[0] == extents(k, k.args(def)[0])[0] => zero_point_of(k, k.args(def)[0]),
        _ => None,
    }
}

/// The half of an atom that an accumulator register belongs to: two columns of the upper half, then two of the lower.
pub(super) fn half_of(register: u16) -> u16 {
    register / 2 % 2
}
