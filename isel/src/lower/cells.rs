//! Elements of 1, 2 and 4 bits, each in a byte of its own and back: what moves between threads is addressed by bytes.
//!
//! ```text
//!  b = 4   . . . . e3 e2 e1 e0      4 b neighbouring bits
//!          . . e3 e2 . . e1 e0      (x | x << 16-2b) & two fields of 2 b bits
//!          . e3 . e2 . e1 . e0      (x | x << 8-b)   & four fields of b bits
//! ```

use super::Lower;
use warplift_ir::machine::{self, Attr, NewInst, Ty};
use warplift_ir::target::Opcode;

/// `lop3` table of `(a | b) & c`.
const OR_AND: i64 = 0xa8;
/// Bits of a register.
const REGISTER: u32 = 32;

/// Ones in the low `bits` of each of `fields` equal parts of a register.
fn ones(fields: u32, bits: u32) -> u32 {
    let one = u32::MAX >> (REGISTER - bits);
    (0..fields).fold(0, |mask, f| mask | one << (f * REGISTER / fields))
}

impl Lower<'_, '_> {
    /// Registers of four bytes from elements of `bits` bits, the first in the lowest byte; zeros above each.
    pub(super) fn widen_to_bytes(&mut self, x: machine::Value, bits: u32, elements: u32) -> machine::Value {
        let spread = |lower: &mut Self, first: u32| {
            let at = first * bits;
            let register = lower.pick(x, vec![(at / REGISTER) as u16]);
            let low = lower.shifted(Opcode::ShrU32, register, at % REGISTER);
            let mask = lower.at().imm(ones(1, 4 * bits).into());
            let low = lower.single(Opcode::And, Attr::None, &[low, mask]);
            let halves = lower.folded(Opcode::Shl, low, 16 - 2 * bits, ones(2, 2 * bits));
            lower.folded(Opcode::Shl, halves, 8 - bits, ones(4, bits))
        };
        let parts: Vec<machine::Value> = (0..elements).step_by(4).map(|e| spread(self, e)).collect();
        self.side_by_registers(&parts)
    }

    /// Elements of `bits` bits from registers of four bytes each.
    pub(super) fn narrow_from_bytes(
        &mut self,
        x: machine::Value,
        bits: u32,
        elements: u32,
    ) -> machine::Value {
        let mut parts = Vec::new();
        let packed = REGISTER / bits;
        for first in (0..elements).step_by(packed as usize) {
            let mut all: Option<machine::Value> = None;
            for at in (first..elements.min(first + packed)).step_by(4) {
                let bytes = self.pick(x, vec![(at / 4) as u16]);
                let halves = self.folded(Opcode::ShrU32, bytes, 8 - bits, ones(2, 2 * bits));
                let low = self.folded(Opcode::ShrU32, halves, 16 - 2 * bits, ones(1, 4 * bits));
                let high = self.shifted(Opcode::Shl, low, (at - first) * bits);
                all = Some(match all {
                    Some(all) => self.single(Opcode::Or, Attr::None, &[all, high]),
                    None => high,
                });
            }
            parts.extend(all);
        }
        self.side_by_registers(&parts)
    }

    /// `x` shifted by a constant.
    fn shifted(&mut self, op: Opcode, x: machine::Value, by: u32) -> machine::Value {
        if by == 0 {
            return x;
        }
        let by = self.at().imm(by.into());
        self.single(op, Attr::None, &[x, by])
    }

    /// `(x | x shifted) & mask`.
    fn folded(&mut self, op: Opcode, x: machine::Value, by: u32, mask: u32) -> machine::Value {
        let moved = self.shifted(op, x, by);
        let mask = self.at().imm(i64::from(mask as i32));
        self.single(Opcode::Lop3, Attr::Imm(OR_AND), &[x, moved, mask])
    }

    /// Registers side by side.
    fn side_by_registers(&mut self, parts: &[machine::Value]) -> machine::Value {
        self.at().value(NewInst::new(Opcode::Join, parts, &[Ty::frag(parts.len() as u16)]))
    }
}
