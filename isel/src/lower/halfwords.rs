//! Halfwords: two fields of any width at the same bit of two halfwords, wherever these stand in the fragment.
//!
//! ```text
//!  u3, 32 elements in 3 words = 6 halfwords; element 16 + i stands 48 bits behind element i
//!
//!   h0 |5|.4.|.3.|.2.|.1.|.0.|    h3 the same of 16 ..     prmt: h3 h0   one register of both
//!   h1 |10|..|.8.|.7.|.6.|.5 |    h4                       fields 0 1 2 as they are: lop3
//!   h2 |15.|14.|13.|12.|11.|10|   h5                       fields 3 4 (and the end of 5) after one shift by 8: lop3
//!                                                          the rest of 5 from h4 h1 shifted up: another lop3
//! ```
//!
//! A field that a half's mantissa holds needs no shift of its own: the magic number has an exponent for each place
//! (`narrow.rs`). Shifts are multiples of the places that a mantissa has for a field, so fields share them. The plan
//! orders packed elements so that halfwords of a pair face each other (`register_order`). Other pairs are brought
//! together field by field.

use super::Lower;
use super::narrow::{Source, Subtrahend};
use crate::Result;
use warplift_ir::machine::{self, Attr};
use warplift_ir::target::Opcode;

/// Bits of a halfword.
const HALFWORD: u32 = 16;

/// Two halfwords.
#[derive(Clone, Copy)]
pub(super) enum Halfwords {
    /// Those with these numbers in the fragment.
    At([u16; 2]),
    /// The halves of a register.
    Register(machine::Value),
}

/// Two fields that begin at the same bit of their halfwords, and may end in the next ones.
#[derive(Clone, Copy)]
pub(super) struct Facing {
    halfwords: Halfwords,
    /// The bit at which they begin.
    pub bit: u32,
}

impl Lower<'_, '_> {
    /// Two elements that face each other. If they do not, they are brought to the low bits of a register's halves.
    pub(super) fn facing(&mut self, s: &mut Source, [low, high]: [u16; 2]) -> Facing {
        let [p, q] = [s.bit(low), s.bit(high)];
        if self.plan.ways.halfwords && p % HALFWORD == q % HALFWORD {
            let halfwords = Halfwords::At([p, q].map(|bit| (bit / HALFWORD) as u16));
            return Facing { halfwords, bit: p % HALFWORD };
        }
        let (a, b) = (self.field(s, low), self.field(s, high));
        Facing { halfwords: Halfwords::Register(self.permute(a, b, 0x5410)), bit: 0 }
    }

    /// Integers as halves.
    pub(super) fn fields(
        &mut self,
        s: &mut Source,
        low: u16,
        high: u16,
        less: &mut Subtrahend,
    ) -> Result<machine::Value> {
        let (pair, bits) = (self.facing(s, [low, high]), s.elem.bits());
        let to = s.to.window(pair.bit, bits);
        self.offset_fields(s, [to; 2], less, |l, s, table, with| {
            l.moved_bits(s, pair, [0, bits, to], table, with)
        })
    }

    /// Bits of both fields moved to bit `to` of the halves of a register: `count` of them from number `from` on. With
    /// another register, the two are combined by a table of `lop3`; the last operand is the other register.
    pub(super) fn moved_bits(
        &mut self,
        s: &mut Source,
        pair: Facing,
        [from, count, to]: [u32; 3],
        table: i64,
        with: Option<machine::Value>,
    ) -> machine::Value {
        let bit = pair.bit + from;
        let (next, bit) = ((bit / HALFWORD) as u16, bit % HALFWORD);
        let here = count.min(HALFWORD - bit);
        let made = {
            let x = self.halfwords(s, pair.halfwords, next, bit as i32 - to as i32);
            self.masked_bits(s, x, [here, to], table, with)
        };
        if here == count {
            return made;
        }
        let to = to + here;
        let rest = self.halfwords(s, pair.halfwords, next + 1, -(to as i32));
        self.masked_bits(s, rest, [count - here, to], table, Some(made))
    }

    /// `count` bits of both halves from bit `at` on, combined with another register.
    fn masked_bits(
        &mut self,
        s: &mut Source,
        x: machine::Value,
        [count, at]: [u32; 2],
        table: i64,
        with: Option<machine::Value>,
    ) -> machine::Value {
        let ones = ((1u32 << count) - 1) << at;
        let mask = self.constant(s, ones | ones << HALFWORD);
        match with {
            Some(with) => self.single(Opcode::Lop3, Attr::Imm(table), &[x, mask, with]),
            None => self.single(Opcode::And, Attr::None, &[x, mask]),
        }
    }

    /// Both halfwords `next` behind the given ones, in one register that is shifted down, or up if `down` is negative.
    fn halfwords(&mut self, s: &mut Source, of: Halfwords, next: u16, down: i32) -> machine::Value {
        let at = match of {
            Halfwords::At(at) => at.map(|h| h + next),
            Halfwords::Register(x) => return self.shift(s, x, down),
        };
        if let Some(&v) = s.halfwords.get(&(at, down)) {
            return v;
        }
        let x = match s.halfwords.get(&(at, 0)) {
            Some(&x) => x,
            None => self.together(s, at),
        };
        let v = self.shift(s, x, down);
        s.halfwords.extend([((at, 0), x), ((at, down), v)]);
        v
    }

    fn shift(&mut self, s: &mut Source, x: machine::Value, down: i32) -> machine::Value {
        let by = self.constant(s, down.unsigned_abs());
        match down {
            0 => x,
            1.. => self.single(Opcode::ShrU32, Attr::None, &[x, by]),
            _ => self.single(Opcode::Shl, Attr::None, &[x, by]),
        }
    }

    /// Two halfwords in one register.
    fn together(&mut self, s: &Source, [low, high]: [u16; 2]) -> machine::Value {
        let (a, b) = (self.register(s, low / 2), self.register(s, high / 2));
        let bytes = |halfword: u16| if halfword.is_multiple_of(2) { 0x10 } else { 0x32 };
        match low.is_multiple_of(2) && high == low + 1 {
            true => a,
            false => self.permute(a, b, bytes(low) | (bytes(high) + 0x44) << 8),
        }
    }
}
