//! Small floats: floats of fewer than 8 bits become halves.
//!
//! ```text
//!  f6e3m2   ..........seeemm    moved and masked          s.............. (bit 15)
//!                               moved and masked          ...eeemm........ (exponent and mantissa end where a half's do)
//!           as a half it is the number over 2^12: the biases differ by 15 - 3
//!  product with 2^12: exact, subnormals of the narrow type are subnormals of the half
//!
//!  f4e2m1   seemseem (a byte)   bits of four elements at a time   s...eem.   the upper byte of an f16     prmt
//! ```
//!
//! The exponent has at most 4 bits, so every number is exact as a half, of f16 and of bf16. (Tilus, section 7.)

use super::Lower;
use super::narrow::{AND_OR, Change, Half, Source};
use warplift_ir::machine::{self, Attr};
use warplift_ir::target::Opcode;
use warplift_ir::types::Elem;

/// Mantissa bits of an f16's upper byte.
const UPPER_MANTISSA: u32 = 2;
/// One in each byte.
const BYTES: u32 = 0x0101_0101;

impl Half {
    /// The bias of the exponent, and the row that multiplies.
    fn of_product(self) -> (i32, Opcode) {
        match self.elem {
            Elem::Bf16 => (127, Opcode::MulBf16x2),
            _ => (15, Opcode::MulF16x2),
        }
    }
}

/// Mantissa bits of a small float.
fn mantissa(elem: Elem) -> u32 {
    if let Elem::Mini { mantissa, .. } = elem { mantissa.into() } else { 0 }
}

impl Lower<'_, '_> {
    /// Two elements as halves.
    pub(super) fn small_floats(&mut self, s: &mut Source, pair: [u16; 2], mantissa: u32) -> machine::Value {
        let bits = s.elem.bits();
        let number = match (s.to.elem, bits) {
            (Elem::F16, 4) => self.by_bytes(s, pair),
            _ => {
                let pair = self.facing(s, pair);
                let sign = self.moved_bits(s, pair, [bits - 1, 1, 15], AND_OR, None);
                self.moved_bits(s, pair, [0, bits - 1, s.to.mantissa - mantissa], AND_OR, Some(sign))
            }
        };
        let (bias, row) = s.to.of_product();
        let own = (1 << (bits - 2 - mantissa)) - 1;
        let factor = s.to.bits(2f64.powi(bias - own));
        let factor = self.constant(s, factor | factor << 16);
        self.single(row, Attr::None, &[number, factor])
    }

    /// Two elements of four bits as halves that lack the factor.
    fn by_bytes(&mut self, s: &mut Source, pair: [u16; 2]) -> machine::Value {
        let [low, high] = pair.map(|element| {
            let high = s.at(element) % 8 >= 4;
            (self.changed(s, s.word(element), Change::UpperBytes { high }), s.at(element) / 8)
        });
        self.below_bytes(s, low, high)
    }

    /// Four elements of a register, those in the low or in the high bits of its bytes: each the upper byte of an f16.
    pub(super) fn upper_bytes(&mut self, s: &mut Source, x: machine::Value, high: bool) -> machine::Value {
        let up = UPPER_MANTISSA - mantissa(s.elem);
        let (sign_up, down) = if high { (0, 4 - up) } else { (4, 0) };
        let sign = match sign_up {
            0 => x,
            up => {
                let by = self.constant(s, up);
                self.single(Opcode::Shl, Attr::None, &[x, by])
            }
        };
        let by = self.constant(s, if high { down } else { up });
        let number = match (high, up) {
            (true, _) => self.single(Opcode::ShrU32, Attr::None, &[x, by]),
            (false, 0) => x,
            (false, _) => self.single(Opcode::Shl, Attr::None, &[x, by]),
        };
        let [signs, numbers] = [0x80 * BYTES, (7 << up) * BYTES].map(|mask| self.constant(s, mask));
        let sign = self.single(Opcode::And, Attr::None, &[sign, signs]);
        self.single(Opcode::Lop3, Attr::Imm(AND_OR), &[number, numbers, sign])
    }
}
