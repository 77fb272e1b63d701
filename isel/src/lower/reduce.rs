//! Reductions: over the registers of a thread, then over the lanes that share a result (butterfly shuffles), then
//! over the warps that do. The result has a sliced layout (Linear Layouts, section 4.4).
//!
//! ```text
//!  registers r0 r1 r2 r3 ─► r      lanes: shfl.bfly 1, 2 ─► r      warps: scratch buffer ─► r
//!                                  a warp of integers: redux
//! ```

use super::Lower;
use super::coords::register_coord;
use crate::Result;
use crate::rows::{binary_row, kind, reduced, redux};
use rustc_hash::FxHashMap;
use warplift_ir::layout::{Axis, Basis, Layout};
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Op, ReduceOp, Type, Value};
use warplift_ir::types::Elem;

/// Chains of a reduction over registers.
const CHAINS: usize = 2;

impl Lower<'_, '_> {
    /// A reduction along one dimension.
    pub(super) fn lower_reduce(&mut self, inst: Inst, op: ReduceOp, axis: u8) -> Result<()> {
        let k = self.k;
        let (arg, result) = (k.args(inst)[0], k.result(inst));
        let elem = k.ty(arg).elem();
        let row = kind(elem, true)
            .and_then(|kd| binary_row(reduced(op), kd))
            .filter(|_| elem.bits() == 32 || elem == Elem::Bool);
        let Some(row) = row else { return self.refuse_tiles(elem) };
        let from = self.plan.layout(k, arg)?.clone();
        let tile = matches!(k.ty(result), Type::Tile(..));
        let to = tile.then(|| self.plan.layout(k, result).cloned()).transpose()?;
        let axis = usize::from(axis);
        let x = self.materialize(arg, arg)?;
        self.check_threads(&from, axis)?;
        let mut r = self.reduce_registers(row, x, &from, to.as_ref(), axis)?;
        if !self.plan.is_partial(inst) {
            r = self.across_threads(row, r, &from, to.as_ref(), axis)?;
        }
        if !tile {
            let first = [IndexMap::EACH].into_iter().collect();
            r = self.at().value(NewInst::new(Opcode::Mov, &[r], &[Ty::B32]).maps(first));
            if elem == Elem::Bool {
                let zero = self.at().imm(0);
                r = self.at().compare(CmpOp::Ne, r, zero);
            }
        }
        self.set(result, r);
        Ok(())
    }

    /// The result of a loop that is carried as each thread's part: the threads of a row meet.
    pub(super) fn whole_carried(&mut self, result: Value, parts: machine::Value) -> Result<machine::Value> {
        let (k, plan) = (self.k, self.plan);
        let Some(&reduction) = plan.partial.get(&result).and_then(|all| all.first()) else {
            return Ok(parts);
        };
        let Op::Reduce(op, axis) = k.insts[reduction].op else { return Ok(parts) };
        let elem = k.ty(result).elem();
        let Some(row) = kind(elem, true).and_then(|kd| binary_row(reduced(op), kd)) else {
            return self.refuse_tiles(elem);
        };
        let from = plan.layout(k, k.args(reduction)[0])?;
        self.across_threads(row, parts, from, plan.layouts[result].as_ref(), usize::from(axis))
    }

    /// Reduces over the lanes and warps that share results.
    fn across_threads(
        &mut self,
        row: Opcode,
        parts: machine::Value,
        from: &Layout,
        to: Option<&Layout>,
        axis: usize,
    ) -> Result<machine::Value> {
        let r = self.across_lanes(row, parts, lanes_along(from, axis).into_iter());
        self.across_warps(row, r, from, to, axis)
    }

    /// Reduces over lanes whose numbers differ in these bits. All of them get the result.
    pub(super) fn across_lanes(
        &mut self,
        row: Opcode,
        mut r: machine::Value,
        bits: impl Iterator<Item = u64>,
    ) -> machine::Value {
        let bits: Vec<u64> = bits.collect();
        if let Some((redux, turned)) = redux(row).filter(|_| is_warp(&bits)) {
            return self.across_warp(redux, r, turned);
        }
        for bit in bits {
            let regs = self.func.ty(r).regs() as u16;
            let other = self.repeat(Opcode::ShflBfly, Attr::Imm(bit as i64), &[(r, IndexMap::EACH)], regs);
            r = self.repeat(row, Attr::None, &[(r, IndexMap::EACH), (other, IndexMap::EACH)], regs);
        }
        r
    }

    /// Reduces over all lanes of a warp by one instruction, of words in which some bits are turned.
    fn across_warp(&mut self, redux: Opcode, r: machine::Value, turned: i64) -> machine::Value {
        let regs = self.func.ty(r).regs() as u16;
        let turn = |l: &mut Self, r| match turned {
            0 => r,
            _ => {
                let bits = l.at().imm(turned);
                l.repeat(Opcode::Xor, Attr::None, &[(r, IndexMap::EACH), (bits, IndexMap::Whole)], regs)
            }
        };
        let own = turn(self, r);
        let all = self.repeat(redux, Attr::None, &[(own, IndexMap::EACH)], regs);
        turn(self, all)
    }

    /// Along the dimension, threads must hold different elements of one result, or the same ones. A layout that the
    /// mapping pins may violate this.
    fn check_threads(&self, from: &Layout, axis: usize) -> Result<()> {
        for &(a, _) in from.ins().iter().filter(|a| a.0 != Axis::Reg) {
            let along: Vec<Basis> = from.basis(a).into_iter().filter(|b| b.out[axis] != 0).collect();
            let beside = |b: &Basis| b.out.iter().enumerate().any(|(d, &o)| d != axis && o != 0);
            let twice = from.replicated(a).iter().any(|b| b.out[axis] != 0);
            let pair = |b: &Basis| b.extent == 2 && b.weight.is_power_of_two();
            if twice || along.iter().any(beside) || (a == Axis::Lane && !along.iter().all(pair)) {
                return self.error(format!(
                    "no reduction along dimension {axis} of the layout `{from}`: threads hold elements twice, or more than one \
                     dimension in one step; give the tile another `layout`"
                ));
            }
        }
        Ok(())
    }

    /// Reduces over the registers of one result, one row for all results at once. A repeated element counts once.
    fn reduce_registers(
        &mut self,
        row: Opcode,
        x: machine::Value,
        from: &Layout,
        to: Option<&Layout>,
        axis: usize,
    ) -> Result<machine::Value> {
        let mut groups: FxHashMap<Vec<u64>, Vec<u16>> = FxHashMap::default();
        let repeated = from.replicated(Axis::Reg);
        let first = |r: &u64| repeated.iter().all(|b| (r / b.weight).is_multiple_of(b.extent));
        for r in (0..from.in_extent(Axis::Reg)).filter(first) {
            let mut at = register_coord(from, r);
            at.remove(axis);
            groups.entry(at).or_default().push(r as u16);
        }
        let wanted: Vec<Vec<u64>> = match to {
            Some(to) => (0..to.in_extent(Axis::Reg)).map(|r| register_coord(to, r)).collect(),
            None => vec![Vec::new()],
        };
        let results: Option<Vec<&Vec<u16>>> = wanted.iter().map(|at| groups.get(at)).collect();
        let depth = groups.values().next().map_or(0, |g| g.len());
        let results = results.filter(|all| depth > 0 && all.iter().all(|g| g.len() == depth));
        let Some(results) = results else {
            return self.error(format!("a reduction of `{from}` along dimension {axis}: its threads do not hold what the result's threads want"));
        };
        let column = |c: usize| IndexMap::Table(results.iter().map(|g| g[c]).collect());
        Ok(self.combine(row, (0..depth).map(|c| (x, column(c))), wanted.len() as u16))
    }

    /// Combines operands in two chains: enough to hide the latency of one another, with few partial results.
    pub(super) fn combine(
        &mut self,
        row: Opcode,
        parts: impl Iterator<Item = (machine::Value, IndexMap)>,
        regs: u16,
    ) -> machine::Value {
        let mut chains: Vec<(machine::Value, IndexMap)> = Vec::new();
        for (c, next) in parts.enumerate() {
            match chains.len() {
                CHAINS => {
                    let sum = self.repeat(row, Attr::None, &[chains[c % CHAINS].clone(), next], regs);
                    chains[c % CHAINS] = (sum, IndexMap::EACH);
                }
                _ => chains.push(next),
            }
        }
        let (v, map) = match &chains[..] {
            [a, b] => (self.repeat(row, Attr::None, &[a.clone(), b.clone()], regs), IndexMap::EACH),
            _ => chains.swap_remove(0),
        };
        match map {
            IndexMap::Table(t) => self.pick(v, t.to_vec()),
            _ => v,
        }
    }
}

/// Whether lanes whose numbers differ in these bits are all of a warp.
fn is_warp(bits: &[u64]) -> bool {
    bits.len() == 5 && bits.iter().sum::<u64>() == 31
}

/// Lane bits that move along the dimension.
fn lanes_along(layout: &Layout, axis: usize) -> Vec<u64> {
    layout.basis(Axis::Lane).iter().filter(|b| b.out[axis] != 0).map(|b| b.weight).collect()
}
