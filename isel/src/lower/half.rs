//! 16-bit floats for which the table has no row: widened to f32, computed, rounded back. Selects work on the bits.
//!
//! ```text
//!  y = tanh(x : bf16)     ─►     cvt to f32 ─ tanh.approx.f32 ─ cvt.rn.bf16x2.f32
//! ```

use super::{Low, Lower};
use crate::Result;
use crate::rows::{binary_row, is_half, kind};
use warplift_ir::machine::{self, Attr, IndexMap, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, UnOp, Value};
use warplift_ir::types::Elem;

/// Selector of a byte permutation: the low halves of both operands.
pub(super) const PAIR_LOW: i64 = 0x5410;

impl Lower<'_, '_> {
    /// An operand of 16-bit floats as f32: a fragment of twice the registers, or one register for all.
    pub(super) fn widened(&mut self, v: Value, elem: Elem, regs: u16) -> Result<(machine::Value, IndexMap)> {
        match self.operand(v)? {
            (x, IndexMap::Whole) => {
                let row = if elem == Elem::F16 { Opcode::LowF16 } else { Opcode::LowBf16 };
                Ok((self.at().op(row, &[x], Ty::B32), IndexMap::Whole))
            }
            (x, IndexMap::Table(table)) => {
                let x = self.pick(x, table.into_vec());
                Ok((self.unpack(elem, x, 2 * regs), IndexMap::EACH))
            }
            (x, _) => Ok((self.unpack(elem, x, 2 * regs), IndexMap::EACH)),
        }
    }

    /// f32 registers rounded to 16-bit floats, in pairs.
    pub(super) fn narrowed(&mut self, x: machine::Value, elem: Elem, regs: u16) -> machine::Value {
        let row = if elem == Elem::F16 { Opcode::PackF16 } else { Opcode::PackBf16 };
        let side = |offset| IndexMap::Affine { scale: 2, offset };
        self.repeat(row, Attr::None, &[(x, side(1)), (x, side(0))], regs)
    }

    /// A unary operation on 16-bit floats through f32.
    pub(super) fn half_unary(
        &mut self,
        op: UnOp,
        elem: Elem,
        arg: Value,
        regs: u16,
    ) -> Result<machine::Value> {
        let x = self.widened(arg, elem, regs)?;
        let wide = self.unary_rows(op, Elem::F32, x, 2 * regs)?;
        Ok(self.narrowed(wide, elem, regs))
    }

    /// A binary operation on 16-bit floats through f32.
    pub(super) fn half_binary(
        &mut self,
        op: BinOp,
        elem: Elem,
        args: &[Value],
        regs: u16,
    ) -> Result<machine::Value> {
        let row = kind(Elem::F32, true).and_then(|kd| binary_row(op, kd));
        let Some(row) = row else { return self.refuse_tiles(elem) };
        let (x, y) = (self.widened(args[0], elem, regs)?, self.widened(args[1], elem, regs)?);
        let wide = self.repeat(row, Attr::None, &[x, y], 2 * regs);
        Ok(self.narrowed(wide, elem, regs))
    }

    /// An operand of 16-bit elements, two in each register. Scalars of floats are pairs already, integers fill a register.
    fn paired(&mut self, v: Value) -> Result<(machine::Value, IndexMap)> {
        let (x, map) = self.operand(v)?;
        if self.k.ty(v).shape().is_some() || is_half(self.k.ty(v).elem()) {
            return Ok((x, map));
        }
        let both = self.at().imm(PAIR_LOW);
        Ok((self.at().op(Opcode::Prmt, &[x, x, both], Ty::B32), map))
    }

    /// `c ? x : y` of 16-bit elements by masks: `y ⊕ ((x ⊕ y) ∧ c)`.
    pub(super) fn half_select(&mut self, args: &[Value], regs: u16) -> Result<machine::Value> {
        let (x, y) = (self.paired(args[1])?, self.paired(args[2])?);
        let (c, map) = match self.env.get(&args[0]).cloned() {
            Some(Low::Splat(c)) => (c, IndexMap::Whole),
            _ => self.operand(args[0])?,
        };
        if self.func.ty(c) == Ty::Pred {
            return Ok(self.repeat(Opcode::Selp, Attr::None, &[x, y, (c, map)], regs));
        }
        let mask = match map {
            IndexMap::Whole => (c, map),
            _ => {
                let c = match map {
                    IndexMap::Table(table) => self.pick(c, table.into_vec()),
                    _ => c,
                };
                let side = |offset| (c, IndexMap::Affine { scale: 2, offset });
                let both = self.at().imm(PAIR_LOW);
                let args = [side(0), side(1), (both, IndexMap::Whole)];
                (self.repeat(Opcode::Prmt, Attr::None, &args, regs), IndexMap::EACH)
            }
        };
        let differ = self.repeat(Opcode::Xor, Attr::None, &[x, y.clone()], regs);
        let taken = self.repeat(Opcode::And, Attr::None, &[(differ, IndexMap::EACH), mask], regs);
        Ok(self.repeat(Opcode::Xor, Attr::None, &[y, (taken, IndexMap::EACH)], regs))
    }
}
