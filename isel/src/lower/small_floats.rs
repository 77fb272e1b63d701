//! Small floats: floats of fewer than 8 bits become halves.
//!
//! ```text
//!  f6e3m2   ..........seeemm    <<10 and a mask   s.............. (bit 15)
//!                               << 8 and a mask   ...eeemm........ (exponent and mantissa end where a half's do)
//!           as a half it is the number over 2^12: the biases differ by 15 - 3
//!  product with 2^12: exact, subnormals of the narrow type are subnormals of the half
//! ```
//!
//! The exponent has at most 4 bits, so every number is exact as a half. (Tilus, section 7.)

use super::Lower;
use super::narrow::Source;
use crate::Result;
use warplift_ir::machine::{self, Attr};
use warplift_ir::target::Opcode;

/// Mantissa bits of a half, and its exponent's bias.
const HALF: (u32, i32) = (10, 15);
/// `lop3` table of `(a & b) | c`.
const AND_OR: i64 = 0xea;

impl Lower<'_, '_> {
    /// Converts two elements, each in the low bits of a half, to halves.
    pub(super) fn small_float_pair(
        &mut self,
        s: &mut Source,
        x: machine::Value,
        [exponent, mantissa]: [u32; 2],
    ) -> Result<machine::Value> {
        let bits = 1 + exponent + mantissa;
        let sign = self.field_at(s, x, 16 - bits, 0x8000, None);
        let magnitude = (1u32 << (bits - 1)) - 1;
        let up = HALF.0 - mantissa;
        let number = self.field_at(s, x, up, magnitude << up, Some(sign));
        let bias = (1 << (exponent - 1)) - 1;
        let factor = u32::from(half::f16::from_f64(2f64.powi(HALF.1 - bias)).to_bits());
        let factor = self.constant(s, factor | factor << 16);
        Ok(self.single(Opcode::MulF16x2, Attr::None, &[number, factor]))
    }

    /// Both halves shifted up and masked, with other bits added.
    fn field_at(
        &mut self,
        s: &mut Source,
        x: machine::Value,
        up: u32,
        mask: u32,
        with: Option<machine::Value>,
    ) -> machine::Value {
        let by = self.constant(s, up);
        let moved = self.single(Opcode::Shl, Attr::None, &[x, by]);
        let mask = self.constant(s, mask | mask << 16);
        match with {
            Some(other) => self.single(Opcode::Lop3, Attr::Imm(AND_OR), &[moved, mask, other]),
            None => self.single(Opcode::And, Attr::None, &[moved, mask]),
        }
    }
}
