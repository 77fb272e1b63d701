//! Two tiles beside each other, in a last dimension of extent 2.
//!
//! ```text
//!  the last dimension in registers          z = x0 y0 x1 y1 ..                      the registers of both in another order
//!  the last dimension in lanes or warps     z = select(this thread's place, y, x)   both hold the elements of either place
//! ```

use super::coords::register_coord;
use super::{Low, Lower};
use crate::Result;
use crate::plan::cell_bits;
use crate::takes;
use warplift_ir::layout::Axis;
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Value};

impl Lower<'_, '_> {
    /// `join(x, y)`.
    pub(super) fn lower_join(&mut self, inst: Inst) -> Result<()> {
        let (k, result) = (self.k, self.k.result(inst));
        let elem = k.ty(result).elem();
        if !takes::takes(&k.insts[inst].op, elem) {
            return self.refuse_tiles(elem);
        }
        let to = self.plan.layout(k, result)?.clone();
        let last = to.outs().len() - 1;
        let [x, y] = [0, 1].map(|n| self.joined_part(k.args(inst)[n], result));
        let ([x, y], [from_x, from_y]) = {
            let ((x, a), (y, b)) = (x?, y?);
            ([x, y], [a, b])
        };
        let moves =
            |&(axis, _): &(Axis, u64)| axis != Axis::Reg && to.basis(axis).iter().any(|d| d.out[last] != 0);
        if to.ins().iter().any(moves) {
            let [x, y] = [self.pick_elements(x, elem, &from_x)?, self.pick_elements(y, elem, &from_y)?];
            let place = self.thread_coord(&to, last)?;
            let zero = self.at_entry().imm(0);
            let first = self.at_entry().compare(CmpOp::Eq, place, zero);
            let regs = self.func.ty(x).regs() as u16;
            let args = [(x, IndexMap::EACH), (y, IndexMap::EACH), (first, IndexMap::Whole)];
            let r = self.repeat(Opcode::Selp, Attr::None, &args, regs);
            self.set(result, r);
            return Ok(());
        }
        let [of_x, of_y] = [x, y].map(|v| self.func.ty(v).regs() as u16);
        let both = self.at().value(NewInst::new(Opcode::Join, &[x, y], &[Ty::frag(of_x + of_y)]));
        let behind = of_x * (32 / cell_bits(elem)).max(1) as u16;
        let pick = |r: usize| match register_coord(&to, r as u64)[last] {
            0 => from_x[r],
            _ => behind + from_y[r],
        };
        let table: Vec<u16> = (0..from_x.len()).map(pick).collect();
        let r = self.pick_elements(both, elem, &table)?;
        self.set(result, r);
        Ok(())
    }

    /// An operand's registers, and its element for each of the result's.
    fn joined_part(&mut self, v: Value, result: Value) -> Result<(machine::Value, Vec<u16>)> {
        let to = self.plan.layout(self.k, result)?.clone();
        if let Some(Low::Splat(s)) = self.env.get(&v).cloned() {
            let new = NewInst::new(Opcode::Mov, &[s], &[Ty::frag(1)]);
            let one = self.at().value(new.maps([IndexMap::Whole].into_iter().collect()));
            return Ok((one, vec![0; to.in_extent(Axis::Reg) as usize]));
        }
        let from = self.plan.layout(self.k, v)?.clone();
        let table = self.element_table(&from, &to, |at| at[..at.len() - 1].to_vec())?;
        Ok((self.materialize(v, v)?, table))
    }
}
