//! Whether bytes equal a constant: four at a time, without a conversion.
//!
//! ```text
//!  x  = |e3|e2|e1|e0|  xor  |c|c|c|c|       0 where equal                               nothing to do for c = 0
//!  y  = (x & 0x7f7f7f7f) + 0x7f7f7f7f       bit 7 of a byte: one of its low bits is set, and no carry leaves it
//!  z  = y | x                               bit 7: the byte is not zero                 lop3; its complement for `==`
//!  mask of e2 = prmt z, 0xaaaa              bit 7 of byte 2, in all 32 bits
//! ```
//!
//! (PTX ISA, `prmt`: the top bit of a selector copies the sign of the byte.)

use super::{Low, Lower};
use crate::Result;
use crate::tiles::byte_test;
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Inst, Value};

/// The low seven bits of each byte.
const LOW_BITS: i64 = 0x7f7f_7f7f;
/// `lop3` table of `a | b`.
const OR: i64 = 0xfc;
/// `lop3` table of `!(a | b)`.
const NOR: i64 = 0x03;

impl Lower<'_, '_> {
    /// Lowers a comparison for which [`byte_test`] holds. Returns whether it is one.
    ///
    /// # Errors
    /// The layouts do not match.
    pub(super) fn tile_byte_test(&mut self, inst: Inst, result: Value) -> Result<bool> {
        let Some((arg, byte, equal)) = byte_test(self.k, inst) else { return Ok(false) };
        let fragment = self.materialize(arg, arg)?;
        let from = self.plan.layout(self.k, arg)?.clone();
        let to = self.plan.layout(self.k, result)?.clone();
        let table = self.element_table(&from, &to, <[u64]>::to_vec)?;
        let bits = self.byte_bits(fragment, byte, equal);
        let mut masks = Vec::new();
        for element in table {
            let word = self.pick(bits, vec![element / 4]);
            masks.push(self.permute(word, word, (8 + u32::from(element % 4)) * 0x1111));
        }
        let regs = masks.len() as u16;
        let r = self.at().value(NewInst::new(Opcode::Join, &masks, &[Ty::frag(regs)]));
        self.env.insert(result, Low::Reg(r));
        Ok(true)
    }

    /// Registers whose bytes' top bits say whether the bytes of `x` equal `byte`, or differ from it. All registers take a step
    /// before the next one, so none waits for itself.
    fn byte_bits(&mut self, x: machine::Value, byte: u8, equal: bool) -> machine::Value {
        let regs = self.func.ty(x).regs() as u16;
        let mut x = (x, IndexMap::EACH);
        if byte != 0 {
            let all = self.at().imm(i64::from(i32::from_ne_bytes([byte; 4])));
            x.0 = self.repeat(Opcode::Xor, Attr::None, &[x.clone(), (all, IndexMap::Whole)], regs);
        }
        let low = (self.at().imm(LOW_BITS), IndexMap::Whole);
        let seven = self.repeat(Opcode::And, Attr::None, &[x.clone(), low.clone()], regs);
        let carried = self.repeat(Opcode::AddS32, Attr::None, &[(seven, IndexMap::EACH), low], regs);
        let table = if equal { NOR } else { OR };
        self.repeat(Opcode::Lop3, Attr::Imm(table), &[(carried, IndexMap::EACH), x.clone(), x], regs)
    }
}
