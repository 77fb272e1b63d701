//! Reductions: over the registers of a thread, then over the lanes that hold the same result
//! (butterfly shuffles; Linear Layouts, section 4.4: what is left is a sliced layout).

use super::coords::register_coord;
use super::scalar::{binary_row, kind};
use super::{Low, Lower};
use crate::Result;
use rustc_hash::FxHashMap;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{self, Attr, IndexMap};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, Inst, ReduceOp, Type};

/// Chains of a reduction over registers.
const CHAINS: usize = 2;

fn binary(op: ReduceOp) -> BinOp {
    match op {
        ReduceOp::Sum => BinOp::Add,
        ReduceOp::Prod => BinOp::Mul,
        ReduceOp::Min => BinOp::Min,
        ReduceOp::Max => BinOp::Max,
        ReduceOp::And => BinOp::And,
        ReduceOp::Or => BinOp::Or,
        ReduceOp::Xor => BinOp::Xor,
    }
}

impl Lower<'_, '_> {
    /// A reduction along one dimension.
    pub(super) fn lower_reduce(&mut self, inst: Inst, op: ReduceOp, axis: u8) -> Result<()> {
        let k = self.k;
        let (arg, result) = (k.args(inst)[0], k.result(inst));
        let elem = k.ty(arg).elem();
        let row = kind(elem, true).and_then(|kd| binary_row(binary(op), kd)).filter(|_| elem.bits() == 32);
        let Some(row) = row else { return self.error(format!("{op:?} of tiles of {elem} is not selected")) };
        if !matches!(k.ty(result), Type::Tile(..)) {
            return self
                .error("a reduction of a rank-1 tile to a scalar crosses warps; that is not selected");
        }
        if matches!(self.env.get(&arg), Some(Low::Splat(_)) | None) {
            return self.error("a reduction of a constant tile is not selected");
        }
        let from = self.plan.layout(k, arg)?.clone();
        let to = self.plan.layout(k, result)?.clone();
        self.check_warps(&from, usize::from(axis))?;
        let x = self.materialize(arg, arg)?;
        let mut r = self.reduce_registers(row, x, &from, &to, usize::from(axis));
        for lane in lanes_along(&from, usize::from(axis)) {
            let regs = self.func.ty(r).regs() as u16;
            let other = self.repeat(Opcode::ShflBfly, Attr::Imm(lane as i64), &[(r, IndexMap::EACH)], regs);
            r = self.repeat(row, Attr::None, &[(r, IndexMap::EACH), (other, IndexMap::EACH)], regs);
        }
        self.set(result, r);
        Ok(())
    }

    fn check_warps(&self, from: &Layout, axis: usize) -> Result<()> {
        let crosses = |a: Axis| from.basis(a).iter().any(|b| b.out[axis] != 0);
        if crosses(Axis::Warp) || crosses(Axis::Warpgroup) {
            return self.error("a reduction along a dimension that is spread over warps is not selected");
        }
        Ok(())
    }

    /// Two chains over the registers that fall together, one row for all results at once: enough to hide
    /// the latency of one another, few partial results to hold.
    fn reduce_registers(
        &mut self,
        row: Opcode,
        x: machine::Value,
        from: &Layout,
        to: &Layout,
        axis: usize,
    ) -> machine::Value {
        let mut groups: FxHashMap<Vec<u64>, Vec<u16>> = FxHashMap::default();
        for r in 0..from.in_extent(Axis::Reg) {
            let mut at = register_coord(from, r);
            at.remove(axis);
            groups.entry(at).or_default().push(r as u16);
        }
        let results: Vec<&Vec<u16>> =
            (0..to.in_extent(Axis::Reg)).filter_map(|r| groups.get(&register_coord(to, r))).collect();
        let depth = results.first().map_or(0, |g| g.len());
        let regs = results.len() as u16;
        let column = |c: usize| IndexMap::Table(results.iter().map(|g| g[c]).collect());
        let mut chains: Vec<(machine::Value, IndexMap)> = Vec::new();
        for c in 0..depth {
            let next = (x, column(c));
            match chains.len() {
                CHAINS => {
                    let sum = self.repeat(row, Attr::None, &[chains[c % CHAINS].clone(), next], regs);
                    chains[c % CHAINS] = (sum, IndexMap::EACH);
                }
                _ => chains.push(next),
            }
        }
        let joined = match &chains[..] {
            [a, b] => Some((self.repeat(row, Attr::None, &[a.clone(), b.clone()], regs), IndexMap::EACH)),
            _ => chains.pop(),
        };
        match joined {
            Some((v, IndexMap::Table(t))) => self.pick(v, t.to_vec()),
            Some((v, _)) => v,
            None => x,
        }
    }
}

/// Lane bits that move along the dimension.
fn lanes_along(layout: &Layout, axis: usize) -> Vec<u64> {
    layout.basis(Axis::Lane).iter().filter(|b| b.out[axis] != 0).map(|b| b.weight).collect()
}
