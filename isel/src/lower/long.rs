//! Tiles of 64-bit integers: what frameworks hand over as indices. They are loaded, stored, converted to and from 32
//! bits, and made indices. Arithmetic is written with words before (`map/expand_long.rs`), which are taken and joined here.
//!
//! ```text
//!  ids : i64[N]     registers  low 0, high 0, low 1, high 1, ..
//!  cast(ids, i32)   low 0, low 1, ..
//!  ids >> 32        high 0, sign 0, ..        ids << 32        0, low 0, ..
//!  to_index(ids)    low | (high != 0 ? -1 : 0) | (low >> 31): what i32 does not hold as an index is -1
//! ```

use super::Lower;
use crate::Result;
use crate::takes::is_long;
use crate::tiles::constant;
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, CmpOp, Value};
use warplift_ir::types::Elem;

/// Bits of a word.
const WORD: f64 = 32.0;

/// The low or high registers of a fragment of 64-bit elements.
fn halves(high: bool) -> IndexMap {
    IndexMap::Affine { scale: 2, offset: high.into() }
}

impl Lower<'_, '_> {
    /// 64-bit integers as indices.
    pub(super) fn lower_to_index(&mut self, result: Value, arg: Value) -> Result<()> {
        let x = self.materialize(arg, result)?;
        let regs = self.result_regs(result)?;
        let (zero, sign) = (self.at().imm(0), self.at().imm(31));
        let high = [(x, halves(true)), (zero, IndexMap::Whole)];
        let large = self.repeat(Opcode::SetS32, Attr::Cmp(CmpOp::Ne), &high, regs);
        let low = [(x, halves(false)), (sign, IndexMap::Whole)];
        let negative = self.repeat(Opcode::ShrS32, Attr::None, &low, regs);
        let low = [(x, halves(false)), (large, IndexMap::EACH)];
        let some = self.repeat(Opcode::Or, Attr::None, &low, regs);
        let both = [(some, IndexMap::EACH), (negative, IndexMap::EACH)];
        let r = self.repeat(Opcode::Or, Attr::None, &both, regs);
        self.set(result, r);
        Ok(())
    }

    /// 64-bit integers to 32 bits or between signs, and 32 bits to 64.
    pub(super) fn cast_long(&mut self, result: Value, arg: Value) -> Result<()> {
        let (from, to) = (self.k.ty(arg).elem(), self.k.ty(result).elem());
        let x = self.materialize(arg, result)?;
        let regs = self.result_regs(result)?;
        let r = match (from, to) {
            (Elem::Int(64) | Elem::Uint(64), Elem::Int(32) | Elem::Uint(32)) => {
                self.repeat(Opcode::Mov, Attr::None, &[(x, halves(false))], regs)
            }
            (Elem::Int(64) | Elem::Uint(64), Elem::Int(64) | Elem::Uint(64)) => x,
            (Elem::Int(32), _) => {
                let sign = self.at().imm(31);
                let each = [(x, IndexMap::EACH), (sign, IndexMap::Whole)];
                let high = self.repeat(Opcode::ShrS32, Attr::None, &each, regs / 2);
                self.interleaved(x, high)
            }
            (Elem::Uint(32), _) => {
                let zero = self.at().imm(0);
                let high = self.repeat(Opcode::Mov, Attr::None, &[(zero, IndexMap::Whole)], regs / 2);
                self.interleaved(x, high)
            }
            (long, other) if is_long(long) => return self.refuse_tiles(other),
            (other, _) => return self.refuse_tiles(other),
        };
        self.set(result, r);
        Ok(())
    }

    /// Words shifted by a word, and the bits of two tiles.
    pub(super) fn long_binary(&mut self, result: Value, op: BinOp, args: &[Value]) -> Result<()> {
        let elem = self.k.ty(result).elem();
        let x = self.materialize(args[0], result)?;
        let regs = self.result_regs(result)?;
        let zero = self.at().imm(0);
        let zeros = [(zero, IndexMap::Whole)];
        let r = match (op, constant(self.k, args[1])) {
            (BinOp::Or, _) => {
                let y = self.materialize(args[1], result)?;
                self.repeat(Opcode::Or, Attr::None, &[(x, IndexMap::EACH), (y, IndexMap::EACH)], regs)
            }
            (BinOp::Shl, Some(WORD)) => {
                let low = self.repeat(Opcode::Mov, Attr::None, &zeros, regs / 2);
                let high = self.repeat(Opcode::Mov, Attr::None, &[(x, halves(false))], regs / 2);
                self.interleaved(low, high)
            }
            (BinOp::Shr, Some(WORD)) => {
                let low = self.repeat(Opcode::Mov, Attr::None, &[(x, halves(true))], regs / 2);
                let sign = self.at().imm(31);
                let high = match elem.is_signed() {
                    true => {
                        let each = [(low, IndexMap::EACH), (sign, IndexMap::Whole)];
                        self.repeat(Opcode::ShrS32, Attr::None, &each, regs / 2)
                    }
                    false => self.repeat(Opcode::Mov, Attr::None, &zeros, regs / 2),
                };
                self.interleaved(low, high)
            }
            _ => return self.refuse_tiles(elem),
        };
        self.set(result, r);
        Ok(())
    }

    /// The elements of two fragments in turn.
    pub(super) fn interleaved(&mut self, low: machine::Value, high: machine::Value) -> machine::Value {
        let n = self.func.ty(low).regs() as u16;
        let parts: Vec<_> =
            (0..n).flat_map(|r| [self.pick(low, vec![r]), self.pick(high, vec![r])]).collect();
        self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(2 * n)]))
    }
}
