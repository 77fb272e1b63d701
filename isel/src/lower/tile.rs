//! Tiles in registers: an elementwise operation is one row, repeated over the fragment.
//!
//! ```text
//!  y = x + b     ─►     y : frag[32] = add.f32 [x[i], b[i / 2]]      one instruction, an index map for each operand
//! ```

use super::{Low, Lower};
use crate::Result;
use crate::plan::crosses_words;
use crate::rows::{binary_row, fma_row, is_half, kind, natural, unary_row};
use crate::takes;
use crate::takes::is_long;
use smallvec::SmallVec;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, Op, Type, UnOp, Value};
use warplift_ir::types::Elem;

/// The index map that all fragments among the operands share.
pub(super) fn broadcast_like(args: &[(machine::Value, IndexMap)]) -> Option<Box<[u16]>> {
    let mut tables = args.iter().filter(|a| a.1 != IndexMap::Whole).map(|a| match &a.1 {
        IndexMap::Table(t) => Some(t),
        _ => None,
    });
    let first = tables.next()??;
    tables.all(|t| t == Some(first)).then(|| first.clone())
}

impl Lower<'_, '_> {
    /// An operand of an elementwise row: a fragment register by register, or one register for all.
    pub(super) fn operand(&mut self, v: Value) -> Result<(machine::Value, IndexMap)> {
        match self.env.get(&v).cloned() {
            Some(Low::Splat(r)) => Ok((r, IndexMap::Whole)),
            Some(Low::Sum(sum)) => Ok((self.whole_sum(v, sum)?, IndexMap::EACH)),
            Some(Low::Picked(r, table)) => Ok((r, IndexMap::Table(table))),
            Some(Low::Scaled(sums, factors)) => Ok((self.scaled(sums, factors), IndexMap::EACH)),
            Some(Low::Reg(r)) if self.func.ty(r).is_frag() => Ok((r, IndexMap::EACH)),
            Some(Low::Reg(r)) => Ok((self.masked(r), IndexMap::Whole)),
            _ => self.error(format!("operand {v} has no version in registers")),
        }
    }

    /// A row repeated over a fragment of so many registers.
    pub(super) fn repeat(
        &mut self,
        op: Opcode,
        attr: Attr,
        args: &[(machine::Value, IndexMap)],
        regs: u16,
    ) -> machine::Value {
        let values: SmallVec<[machine::Value; 3]> = args.iter().map(|a| a.0).collect();
        let maps = args.iter().map(|a| a.1.clone()).collect();
        self.at().value(NewInst::new(op, &values, &[Ty::frag(regs)]).attr(attr).maps(maps))
    }

    /// An elementwise row: once for each distinct register, if all operands have the same broadcast.
    pub(super) fn elementwise(
        &mut self,
        result: Value,
        op: Opcode,
        attr: Attr,
        args: &[(machine::Value, IndexMap)],
    ) -> Result<()> {
        let regs = self.result_regs(result)?;
        let Some(table) = broadcast_like(args) else {
            let r = self.repeat(op, attr, args, regs);
            self.set(result, r);
            return Ok(());
        };
        let own = |a: &(machine::Value, IndexMap)| match a.1 {
            IndexMap::Whole => a.clone(),
            _ => (a.0, IndexMap::EACH),
        };
        let narrow: Vec<(machine::Value, IndexMap)> = args.iter().map(own).collect();
        let sizes = narrow.iter().filter(|a| a.1 != IndexMap::Whole).map(|a| self.func.ty(a.0).regs());
        let sizes: Vec<u32> = sizes.collect();
        let few = sizes.iter().all(|&s| s == sizes[0] && s < u32::from(regs));
        if !few {
            let r = self.repeat(op, attr, args, regs);
            self.set(result, r);
            return Ok(());
        }
        let r = self.repeat(op, attr, &narrow, sizes[0] as u16);
        self.env.insert(result, Low::Picked(r, table));
        Ok(())
    }

    pub(super) fn result_regs(&self, v: Value) -> Result<u16> {
        Ok(self.ty(v)?.regs() as u16)
    }

    /// An instruction whose result is a tile in registers.
    pub(super) fn lower_tile(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let result = k.results(inst)[0];
        let args = k.args(inst).to_vec();
        match &k.insts[inst].op {
            Op::Full => {
                let r = self.splat(args[0])?;
                let r = self.side_by_side(self.k.ty(result).elem(), r)?;
                self.env.insert(result, Low::Splat(r));
                Ok(())
            }
            Op::Binary(op) => self.tile_binary(result, *op, &args),
            Op::Unary(op) => self.tile_unary(result, *op, args[0]),
            Op::Compare(_) if self.tile_byte_test(inst, result)? => Ok(()),
            Op::Compare(cmp) => self.tile_compare(result, *cmp, &args),
            Op::Select => self.tile_select(result, &args),
            Op::Fma => self.tile_fma(result, &args),
            Op::Cast => self.tile_cast(result, args[0]),
            Op::ToIndex => self.lower_to_index(result, args[0]),
            Op::Rearrange => self.lower_rearrange(inst, result, args[0]),
            Op::Slice(offsets) if self.in_registers(args[0]) => {
                let from: Vec<u64> = offsets.iter().map(|d| d.constant().unwrap_or(0).into()).collect();
                if let Some(&Low::Stage(load)) = self.env.get(&args[0]) {
                    return self.read_part_of(load, result, &from);
                }
                self.tile_view(result, args[0], |at| at.iter().zip(&from).map(|(a, f)| a + f).collect())
            }
            Op::Trans(perm) if self.in_registers(args[0]) => {
                let perm = perm.clone();
                self.tile_view(result, args[0], |at| {
                    (0..at.len() as u8).map(|d| at[perm.iter().position(|&p| p == d).unwrap_or(0)]).collect()
                })
            }
            Op::Reshape if self.in_registers(args[0]) => self.alias(result, args[0]),
            Op::Trans(_) | Op::Slice(_) | Op::Reshape => {
                self.env.insert(result, Low::Elsewhere);
                Ok(())
            }
            Op::ExpandDims(d) => {
                let d = usize::from(*d);
                self.tile_view(result, args[0], |at| {
                    at.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, &a)| a).collect()
                })
            }
            Op::ViewAs(_) if [args[0], result].iter().any(|&v| k.ty(v).elem() == Elem::Bool) => {
                self.refuse_tiles(Elem::Bool)
            }
            Op::ViewAs(to) if to.bits() == k.ty(args[0]).elem().bits() => self.alias(result, args[0]),
            Op::ViewAs(_) => self.tile_bits(result, args[0]),
            Op::Broadcast => self.tile_broadcast(result, args[0]),
            Op::Iota(d) => self.tile_iota(result, usize::from(*d)),
            // Those that compile have become slices.
            Op::Split => self.refuse_tiles(k.ty(result).elem()),
            _ => self.interpreted_only(),
        }
    }

    fn in_registers(&self, v: Value) -> bool {
        !matches!(self.env.get(&v), Some(Low::Elsewhere) | None)
    }

    pub(super) fn alias(&mut self, result: Value, arg: Value) -> Result<()> {
        match self.env.get(&arg).cloned() {
            Some(low) => {
                self.env.insert(result, low);
                Ok(())
            }
            None => self.error(format!("operand {arg} has no version in registers")),
        }
    }

    fn tile_binary(&mut self, result: Value, op: warplift_ir::tile::BinOp, args: &[Value]) -> Result<()> {
        if is_long(self.k.ty(result).elem()) {
            return self.long_binary(result, op, args);
        }
        if self.tile_test(result, op, args)? || self.tile_sum(result, op, args)? {
            return Ok(());
        }
        if let (warplift_ir::tile::BinOp::Add, Some(Low::Picked(x, table))) =
            (op, self.env.get(&args[0]).cloned())
            && let Some(moved) = self.iota_ranges_moved(x, args[1])
        {
            self.env.insert(result, Low::Picked(moved, table));
            return Ok(());
        }
        if self.iota_sum(result, op, args)? {
            return Ok(());
        }
        if self.tile_zero_point(result)? {
            return Ok(());
        }
        let elem = self.k.ty(result).elem();
        if op == warplift_ir::tile::BinOp::Sub
            && is_half(elem)
            && let Some((narrow, less)) = self.fused_subtrahend(result, args)?
        {
            let r = self.narrow_to_half(result, narrow, elem, less)?;
            self.set(result, r);
            return Ok(());
        }
        match kind(elem, true).and_then(|kd| binary_row(op, kd)) {
            Some(row) => {
                let (x, y) = (self.operand(args[0])?, self.operand(args[1])?);
                match self.tile_quotient(result, row, args)? {
                    true => Ok(()),
                    false => self.elementwise(result, row, Attr::None, &[x, y]),
                }
            }
            None if is_half(elem) => {
                let regs = self.result_regs(result)?;
                let r = self.half_binary(op, elem, args, regs)?;
                self.set(result, r);
                Ok(())
            }
            None => self.refuse_tiles(elem),
        }
    }

    fn tile_unary(&mut self, result: Value, op: UnOp, arg: Value) -> Result<()> {
        let elem = self.k.ty(result).elem();
        let packed = kind(elem, true).is_some_and(|kd| unary_row(op, kd).is_some());
        if is_half(elem) && !packed {
            let regs = self.result_regs(result)?;
            let r = self.half_unary(op, elem, arg, regs)?;
            self.set(result, r);
            return Ok(());
        }
        self.of_each(result, arg, |l, x, regs| l.unary_rows(op, elem, x, regs))
    }

    /// A function of each register of an operand, once for each that is distinct.
    pub(super) fn of_each(
        &mut self,
        result: Value,
        arg: Value,
        f: impl FnOnce(&mut Self, (machine::Value, IndexMap), u16) -> Result<machine::Value>,
    ) -> Result<()> {
        let (regs, (x, map)) = (self.result_regs(result)?, self.operand(arg)?);
        let few = self.func.ty(x).regs() as u16;
        match map {
            IndexMap::Table(table) if few < regs => {
                let r = f(self, (x, IndexMap::EACH), few)?;
                self.env.insert(result, Low::Picked(r, table));
            }
            map => {
                let r = f(self, (x, map), regs)?;
                self.set(result, r);
            }
        }
        Ok(())
    }

    /// The row of a unary operation, with the factor that makes a natural function of one to base two.
    pub(super) fn unary_rows(
        &mut self,
        op: UnOp,
        elem: Elem,
        mut x: (machine::Value, IndexMap),
        regs: u16,
    ) -> Result<machine::Value> {
        let (base, factor) = match natural(op) {
            Some((base, factor, before)) => (base, Some((factor, before))),
            None => (op, None),
        };
        let Some(row) = kind(elem, true).and_then(|kd| unary_row(base, kd)) else {
            return self.refuse_tiles(elem);
        };
        let scale = |l: &mut Self, x: (machine::Value, IndexMap), f: f32| {
            let c = l.at().imm(i64::from(f.to_bits()));
            (l.repeat(Opcode::MulF32, Attr::None, &[x, (c, IndexMap::Whole)], regs), IndexMap::EACH)
        };
        if let Some((f, true)) = factor {
            x = scale(self, x, f);
        }
        let mut r = (self.repeat(row, Attr::None, &[x], regs), IndexMap::EACH);
        if let Some((f, false)) = factor {
            r = scale(self, r, f);
        }
        Ok(r.0)
    }

    fn tile_fma(&mut self, result: Value, args: &[Value]) -> Result<()> {
        let elem = self.k.ty(result).elem();
        let Some(row) = kind(elem, true).and_then(fma_row) else {
            return self.refuse_tiles(elem);
        };
        let [x, y] = self.factors(args[0], args[1])?;
        let z = self.operand(args[2])?;
        self.elementwise(result, row, Attr::None, &[x, y, z])
    }

    /// A register filled with an element; a 16-bit element fills both halves.
    fn side_by_side(&mut self, elem: Elem, r: machine::Value) -> Result<machine::Value> {
        let bits = elem.bits();
        if bits >= 32 || is_half(elem) || elem == Elem::Bool {
            return Ok(r);
        }
        if 32 % bits != 0 {
            return self.error(format!(
                "`full` of {elem} ({bits} bits) does not compile: 32 is no multiple of its bits"
            ));
        }
        let ones = u32::MAX >> (32 - bits);
        let one = self.at().and_imm(r, ones.into());
        Ok(self.at().mul_imm(one, i64::from((u32::MAX / ones) as i32)))
    }

    /// Registers of a fragment in another order.
    pub(super) fn pick(&mut self, x: machine::Value, table: Vec<u16>) -> machine::Value {
        let same = table.iter().enumerate().all(|(i, &t)| usize::from(t) == i);
        if same && table.len() == self.func.ty(x).regs() as usize {
            return x;
        }
        let ty = Ty::frag(table.len() as u16);
        let run = table.windows(2).all(|w| w[1] == w[0] + 1);
        match table.first() {
            // A run is a free view; any other order takes moves.
            Some(&first) if run => {
                let new = NewInst::new(Opcode::Slice, &[x], &[ty]).attr(Attr::Imm(first.into()));
                self.at().value(new)
            }
            _ => {
                let maps = [IndexMap::Table(table.into())].into_iter().collect();
                self.at().value(NewInst::new(Opcode::Mov, &[x], &[ty]).maps(maps))
            }
        }
    }

    /// A tile whose element at `at` is the operand's element at `source(at)`: the registers in another order.
    fn tile_view(&mut self, result: Value, arg: Value, source: impl Fn(&[u64]) -> Vec<u64>) -> Result<()> {
        if let Some(Low::Splat(s)) = self.env.get(&arg).cloned() {
            self.env.insert(result, Low::Splat(s));
            return Ok(());
        }
        let from = self.plan.layout(self.k, arg)?.clone();
        let to = self.plan.layout(self.k, result)?.clone();
        let table = self.element_table(&from, &to, source)?;
        let elem = self.k.ty(result).elem();
        let Some(mut table) = register_table(elem, &table) else {
            if crosses_words(elem.bits()) {
                self.env.insert(result, Low::PartOfWords);
                return Ok(());
            }
            let r = self.pick_halves(elem, arg, &table)?;
            self.env.insert(result, r);
            return Ok(());
        };
        let x = match self.env.get(&arg).cloned() {
            Some(Low::Picked(r, inner)) => {
                table.iter_mut().for_each(|t| *t = inner[usize::from(*t)]);
                r
            }
            _ => self.materialize(arg, arg)?,
        };
        // A run is a free view as it is.
        if table.windows(2).all(|w| w[1] == w[0] + 1) {
            let r = self.pick(x, table);
            self.set(result, r);
        } else {
            self.env.insert(result, Low::Picked(x, table.into()));
        }
        Ok(())
    }

    /// For each register element of `to`, the register element of `from` that holds its source. The same thread must
    /// hold both.
    pub(super) fn element_table(
        &self,
        from: &Layout,
        to: &Layout,
        source: impl Fn(&[u64]) -> Vec<u64>,
    ) -> Result<Vec<u16>> {
        let mut zero: SmallVec<[u64; 4]> = from.ins().iter().map(|_| 0).collect();
        let mut held = rustc_hash::FxHashMap::default();
        let reg = from.ins().iter().position(|a| a.0 == Axis::Reg);
        for r in (0..from.in_extent(Axis::Reg)).rev() {
            if let Some(p) = reg {
                zero[p] = r;
            }
            held.insert(from.apply(&zero).to_vec(), r as u16);
        }
        let mut at: SmallVec<[u64; 4]> = to.ins().iter().map(|_| 0).collect();
        let reg = to.ins().iter().position(|a| a.0 == Axis::Reg);
        let mut table = Vec::new();
        for r in 0..to.in_extent(Axis::Reg) {
            if let Some(p) = reg {
                at[p] = r;
            }
            match held.get(&source(&to.apply(&at))) {
                Some(&r) => table.push(r),
                None => {
                    return self.error(
                        "elements of this tile would move between threads: put `rearrange` before, or store and load it",
                    );
                }
            }
        }
        Ok(table)
    }

    /// Packs new pairs of halves from their sources; equal pairs (a broadcast) are packed once.
    fn pick_halves(&mut self, elem: Elem, arg: Value, table: &[u16]) -> Result<Low> {
        if elem.bits() == 8 {
            let x = self.materialize(arg, arg)?;
            return Ok(Low::Reg(self.pick_elements(x, elem, table)?));
        }
        if !takes::takes(&self.k.insts[self.inst].op, elem) {
            return self.refuse_tiles(elem);
        }
        if elem.bits() != 16 || !table.len().is_multiple_of(2) {
            return self.would_part(elem);
        }
        let x = self.materialize(arg, arg)?;
        let mut made: Vec<(&[u16], machine::Value)> = Vec::new();
        let mut order = Vec::new();
        for pair in table.chunks(2) {
            let known = made.iter().position(|(p, _)| *p == pair);
            order.push(known.unwrap_or(made.len()) as u16);
            if known.is_none() {
                let (a, b) = (self.pick(x, vec![pair[0] / 2]), self.pick(x, vec![pair[1] / 2]));
                let half = |e: u16| if e.is_multiple_of(2) { 0x10 } else { 0x32 };
                let selector = half(pair[0]) | (half(pair[1]) + 0x44) << 8;
                made.push((pair, self.permute(a, b, selector)));
            }
        }
        let parts: Vec<machine::Value> = made.iter().map(|m| m.1).collect();
        let regs = parts.len() as u16;
        let all = self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)]));
        Ok(Low::Picked(all, order.into()))
    }

    /// The same registers as elements of another type.
    fn tile_bits(&mut self, result: Value, arg: Value) -> Result<()> {
        if !self.in_registers(arg) {
            return self.error("bits of a tile that is in no registers");
        }
        let x = self.materialize(arg, arg)?;
        let regs = self.result_regs(result)?;
        if self.func.ty(x).regs() == u32::from(regs) {
            self.set(result, x);
            return Ok(());
        }
        // One of the tiles holds elements more than once, so that each register is full.
        let Some(table) = self.bits_table(result, arg)?.filter(|table| table.len() == usize::from(regs))
        else {
            return self.error(
                "the bits of a tile of which a thread holds parts of registers: take a larger tile or fewer warps",
            );
        };
        let r = self.pick(x, table);
        self.set(result, r);
        Ok(())
    }

    /// For each register of a tile, the one of `arg`, of narrower elements, that has the same bits; `None` where none has.
    fn bits_table(&self, result: Value, arg: Value) -> Result<Option<Vec<u16>>> {
        let [from, to] = [arg, result].map(|v| u64::from(self.k.ty(v).elem().bits().min(32)));
        let (held, wanted) = (self.plan.layout(self.k, arg)?, self.plan.layout(self.k, result)?);
        let wide = to / from.min(to);
        let parts = (0..wide).map(|n| {
            self.element_table(held, wanted, |at| {
                let (last, rest) = at.split_last().expect("a tile has a dimension");
                [rest, &[last * wide + n]].concat()
            })
        });
        let parts: Vec<Vec<u16>> = parts.collect::<Result<_>>()?;
        let in_order: Vec<u16> = (0..parts[0].len()).flat_map(|e| parts.iter().map(move |t| t[e])).collect();
        let whole = (32 / from) as u16;
        let full = in_order.chunks_exact(usize::from(whole));
        let same = |w: &[u16]| w[0].is_multiple_of(whole) && w.windows(2).all(|p| p[1] == p[0] + 1);
        Ok((from < to && full.clone().all(same)).then(|| full.map(|w| w[0] / whole).collect()))
    }

    fn tile_broadcast(&mut self, result: Value, arg: Value) -> Result<()> {
        if matches!(self.k.ty(arg), Type::Scalar(_)) {
            let r = self.splat(arg)?;
            self.env.insert(result, Low::Splat(r));
            return Ok(());
        }
        let small: Vec<u64> = match self.k.ty(arg).shape().and_then(|s| s.extents()) {
            Some(e) => e.iter().map(|&x| u64::from(x)).collect(),
            None => return self.error("broadcast of a tile without extents"),
        };
        self.tile_view(result, arg, |at| {
            let at = &at[at.len() - small.len()..];
            at.iter().zip(&small).map(|(&a, &s)| if s == 1 { 0 } else { a }).collect()
        })
    }

    fn tile_iota(&mut self, result: Value, dim: usize) -> Result<()> {
        let layout = self.plan.layout(self.k, result)?.clone();
        let (r, table) = self.iota_ranges(&layout, dim)?;
        self.env.insert(result, Low::Picked(r, table));
        Ok(())
    }
}

/// A table of elements as a table of registers; `None` if elements of one register would be separated. For widths
/// that do not divide 32, that is the least run of elements that fills whole registers.
fn register_table(elem: Elem, table: &[u16]) -> Option<Vec<u16>> {
    let bits = if elem == Elem::Bool { 32 } else { elem.bits().min(32) };
    let n = (32 >> bits.trailing_zeros().min(5)) as usize;
    let registers = (n * bits as usize / 32) as u16;
    // The last register of bytes or halves may be partly full.
    let enough = |w: &[u16]| w.len() == n || registers == 1;
    let whole = |w: &[u16]| {
        enough(w) && usize::from(w[0]).is_multiple_of(n) && w.windows(2).all(|p| p[1] == p[0] + 1)
    };
    let first = |w: &[u16]| w[0] / n as u16 * registers;
    table
        .chunks(n)
        .all(whole)
        .then(|| table.chunks(n).flat_map(|w| (0..registers).map(move |r| first(w) + r)).collect())
}
