//! Loads of one element: a uniform scalar. Every thread reads the same address, so each role can repeat the load by itself.
//!
//! ```text
//!  e = load v[i] : i32     ─►     inside = i < extent     ld.global e, [base + 4 i]   if inside, else the view's fill
//! ```

use super::indexed::Each;
use super::{Lower, View};
use crate::Result;
use crate::takes::scalar_load;
use warplift_ir::machine::{self, Attr, GlobalAccess, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst};
use warplift_ir::types::Elem;

impl Lower<'_, '_> {
    /// A load of one element.
    pub(super) fn lower_scalar_load(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let elem = k.ty(k.result(inst)).elem();
        let args = k.args(inst).to_vec();
        let view = self.view(args[0])?;
        self.limit_steps(args[0])?;
        let at = args[1..].iter().map(|&v| self.scalar(v)).collect::<Result<Vec<_>>>()?;
        let inside = self.is_inside(inst, &view, &at);
        let address = self.element_address(&view, &at, elem.bits());
        let access = self.uniform_access(inst);
        let r = self.load_element(elem, address, access, inside)?;
        let r = self.fill_scalar(elem, view.fill, r, inside)?;
        // Other threads may write other memory between the loads of two of them.
        self.func.values[r].uniform = access.footprint == GlobalAccess::FIXED;
        self.set(k.result(inst), r);
        Ok(())
    }

    /// Whether an element lies inside its view. The comparison is unsigned, so a negative index is outside too.
    fn is_inside(&mut self, inst: Inst, view: &View, at: &[machine::Value]) -> machine::Value {
        let within = self.within(inst, &Each::default());
        let mut all = None;
        for (d, (&index, &extent)) in at.iter().zip(&view.extents).enumerate() {
            if within[d] {
                continue;
            }
            let compared = NewInst::new(Opcode::SetpU32, &[index, extent], &[Ty::Pred]);
            let p = self.at().value(compared.attr(Attr::Cmp(CmpOp::Lt)));
            all = Some(match all {
                None => p,
                Some(q) => self.at().op(Opcode::AndPred, &[q, p], Ty::Pred),
            });
        }
        all.unwrap_or_else(|| self.at().imm_of(Ty::Pred, 1))
    }

    /// The guarded load of an element. A 16-bit element fills both halves of its register, a byte has zeros above it.
    fn load_element(
        &mut self,
        elem: Elem,
        address: machine::Value,
        access: GlobalAccess,
        inside: machine::Value,
    ) -> Result<machine::Value> {
        let Some((op, ty)) = scalar_load(elem) else { return self.refuse_scalars(elem) };
        let guard = self.guard(inside);
        let attr = Attr::GlobalMem { offset: 0, count: 1, access };
        let op = self.in_space(op, address)?;
        let loaded = self.at().value(NewInst::new(op, &[address], &[ty]).attr(attr).guard(guard));
        self.func.values[loaded].uniform = access.footprint == GlobalAccess::FIXED;
        if elem.bits() != 16 {
            return Ok(loaded);
        }
        // A scalar, not a fragment of one register: it stands for every register of a tile.
        let both = self.at().imm(0x1010);
        Ok(self.at().op(Opcode::Prmt, &[loaded, loaded, both], Ty::B32))
    }

    /// The view's fill outside. A guarded load gives zero there.
    fn fill_scalar(
        &mut self,
        elem: Elem,
        fill: f64,
        r: machine::Value,
        inside: machine::Value,
    ) -> Result<machine::Value> {
        let bits = match elem {
            Elem::Int(64) => fill as i64,
            Elem::Uint(64) => fill as u64 as i64,
            Elem::Int(_) => i64::from(fill as i32),
            Elem::Uint(_) => i64::from(fill as u32),
            _ => return self.fill_outside(elem, fill, r, inside, false),
        };
        if bits == 0 || self.guard(inside).is_none() {
            return Ok(r);
        }
        let ty = self.func.ty(r);
        let c = self.at().imm_of(ty, bits);
        let row = if ty == Ty::B64 { Opcode::Selp64 } else { Opcode::Selp };
        Ok(self.at().op(row, &[r, c, inside], ty))
    }
}
