//! Casts to 8-bit elements: integers, e4m3 and e5m2.
//!
//! ```text
//!  e4m3     (f32 e1, f32 e0)  ─► one half of a register         cvt.rn.satfinite.e4m3x2.f32, .e5m2x2
//!  i8 u8    f32  ─► s32, u32, saturated ─► at most 127, 255     cvt.rzi, min, max
//!           i32  ─► its low byte: integers wrap
//!  four bytes, or two pairs, fill a register                    prmt
//! ```
//!
//! 16-bit floats go through f32, which is exact for them. (PTX ISA, `cvt`, `prmt`.)

use super::{Low, Lower};
use crate::Result;
use crate::rows::is_half;
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Value;
use warplift_ir::types::Elem;

/// Whether this file lowers a cast.
pub(super) fn is_to_bytes(from: Elem, to: Elem) -> bool {
    let float = from == Elem::F32 || is_half(from);
    match to {
        Elem::E4M3 | Elem::E5M2 => float,
        Elem::Int(8) | Elem::Uint(8) => float || matches!(from, Elem::Int(32) | Elem::Uint(32)),
        _ => false,
    }
}

impl Lower<'_, '_> {
    /// A cast for which [`is_to_bytes`] holds.
    pub(super) fn cast_to_bytes(&mut self, result: Value, arg: Value) -> Result<()> {
        let (from, to) = (self.k.ty(arg).elem(), self.k.ty(result).elem());
        let x = self.materialize(arg, arg)?;
        let wide = match is_half(from) {
            true => self.unpack(from, x, 2 * self.func.ty(x).regs() as u16),
            false => x,
        };
        let (held, wanted) =
            (self.plan.layout(self.k, arg)?.clone(), self.plan.layout(self.k, result)?.clone());
        let table = self.element_table(&held, &wanted, <[u64]>::to_vec)?;
        let registers = match to {
            Elem::E4M3 => self.packed_floats(Opcode::PackE4m3, wide, &table),
            Elem::E5M2 => self.packed_floats(Opcode::PackE5m2, wide, &table),
            _ => {
                let words = self.saturated(from, wide, to);
                let parts = table.iter().map(|&e| self.pick(words, vec![e])).collect();
                self.pack_parts(parts, 1)
            }
        };
        let regs = registers.len() as u16;
        let r = self.at().value(NewInst::new(Opcode::Join, &registers, &[Ty::frag(regs)]));
        self.env.insert(result, Low::Reg(r));
        Ok(())
    }

    /// Pairs of 8-bit floats, two to a register.
    fn packed_floats(&mut self, op: Opcode, x: machine::Value, table: &[u16]) -> Vec<machine::Value> {
        let pair = |l: &mut Self, p: &[u16]| {
            let (low, high) = (l.pick(x, vec![p[0]]), l.pick(x, vec![p[p.len() - 1]]));
            l.single(op, Attr::None, &[high, low])
        };
        let pairs = table.chunks(2).map(|p| pair(self, p)).collect();
        self.pack_parts(pairs, 2)
    }

    /// Floats become words with saturated 8-bit integers; integers stay as they are.
    fn saturated(&mut self, from: Elem, x: machine::Value, to: Elem) -> machine::Value {
        if from.is_int() {
            return x;
        }
        let regs = self.func.ty(x).regs() as u16;
        let (cvt, bounds): (_, &[(Opcode, i64)]) = match to.is_signed() {
            true => (Opcode::S32FromF32, &[(Opcode::MinS32, 127), (Opcode::MaxS32, -128)]),
            false => (Opcode::U32FromF32, &[(Opcode::MinU32, 255)]),
        };
        let mut r = self.repeat(cvt, Attr::None, &[(x, IndexMap::EACH)], regs);
        for &(row, bound) in bounds {
            let bound = self.at().imm(bound);
            r = self.repeat(row, Attr::None, &[(r, IndexMap::EACH), (bound, IndexMap::Whole)], regs);
        }
        r
    }
}
