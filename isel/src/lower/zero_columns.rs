//! Zero points of rows are subtracted with the offset that their integers have too: one subtraction for both.
//!
//! ```text
//!  q - z   =   (1024 + q) - (1024 + z)     the offset of q's field is made part of z, once for each row
//!
//!  q  lop3  q | 0x6400 or q | 0x5400       z  prmt, lop3   z | 0x6400 or z | 0x5400     q - z  sub.f16x2
//! ```
//!
//! Both sums are exact, and so is their difference: integers of up to 8 bits. The fields of z lie where they lie; a further
//! subtraction changes their offset where it differs from that of q's fields. A half of bf16 holds 128 + z for 7 bits only.

use super::narrow::{BYTE_BIAS, Elements, Half, Source, Subtrahend, is_narrow, whole};
use super::{Low, Lower};
use crate::Result;
use crate::tiles::extents;
use rustc_hash::FxHashMap;
use warplift_ir::machine;
use warplift_ir::tile::{Dim, Op, Value};
use warplift_ir::types::Elem;

/// Most bits of an integer that a bf16 holds together with the offset of a field.
const BF16_BITS: u32 = 7;
/// Whole numbers up to this one are exact in bf16.
const BF16_WHOLE: u32 = 256;

/// Whether a bf16 holds integers of both types with the offset of their fields, and a subtrahend with the offset of the other's field:
/// fields of signed integers begin at half their range.
fn fits_bf16(of: Elem, zero: Elem) -> bool {
    let half = |e: Elem| 1 << (e.bits() - 1);
    let greatest = if matches!(zero, Elem::Int(_)) { half(zero) - 1 } else { 2 * half(zero) - 1 };
    let field = 1 << BF16_BITS;
    let offset = field + if matches!(of, Elem::Int(_)) { half(of) } else { 0 };
    of.bits().max(zero.bits()) <= BF16_BITS && offset + greatest <= BF16_WHOLE
}

impl Lower<'_, '_> {
    /// The integers of a pair, with offsets.
    pub(super) fn zero_pair(&mut self, less: &mut Subtrahend, offsets: [f64; 2]) -> Result<machine::Value> {
        let Subtrahend::Elements(e) = less else { return self.error("constants have no elements") };
        let pair = &e.table[2 * e.pair..];
        let pair = [pair[0], pair[usize::from(pair.len() > 1)]];
        let key = (pair, offsets.map(f64::to_bits));
        if let Some(&made) = e.made.get(&key) {
            return Ok(made);
        }
        let mut offset = Subtrahend::Constants(offsets.map(|o| -o));
        let made = self.half_pair(&mut e.source, pair[0], pair[1], &mut offset)?;
        e.made.insert(key, made);
        Ok(made)
    }

    /// `cast(x, f16) - c` or `cast(x, f16) - cast(z, f16)` (or bf16) for narrow integers `x` and `z` and a constant `c`. The
    /// subtraction of the conversion takes both, if that is exact. Returns the operand of the cast and what is subtracted.
    ///
    /// # Errors
    /// The integers have no version in registers.
    pub(super) fn fused_subtrahend(
        &mut self,
        result: Value,
        args: &[Value],
    ) -> Result<Option<(Value, Subtrahend)>> {
        let Some(from) = self.cast_integers(args[0]) else { return Ok(None) };
        if let Some(c) = self.fused_constant(from, args) {
            return Ok(Some((from, Subtrahend::Constants([c; 2]))));
        }
        let (to, elem) = (Half::of(self.k.ty(result).elem()), self.k.ty(from).elem());
        let Some((zero, place)) = self.integers_of(args[1]) else { return Ok(None) };
        if to.elem == Elem::Bf16 && !fits_bf16(elem, self.k.ty(zero).elem()) {
            return Ok(None);
        }
        let Ok(table) =
            self.narrow_elements(result, zero, |at| place.iter().zip(at).map(Place::of).collect())
        else {
            return Ok(None);
        };
        let whole = whole(self.k, zero).0;
        let fragment = self.materialize(whole, whole)?;
        let source = Source::new(fragment, self.k.ty(zero).elem(), to);
        let elements = Elements { source, table, pair: 0, made: FxHashMap::default() };
        Ok(Some((from, Subtrahend::Elements(Box::new(elements)))))
    }

    /// The narrow integers in registers that a tile of halves is a conversion of.
    fn cast_integers(&self, v: Value) -> Option<Value> {
        let cast = self.k.def(v)?;
        let from = *self.k.args(cast).first()?;
        let elem = self.k.ty(from).elem();
        let held = !matches!(self.env.get(&from), Some(Low::Stage(_)));
        let fits = held && matches!(self.k.insts[cast].op, Op::Cast) && is_narrow(elem) && elem.is_int();
        fits.then_some(from)
    }

    /// A constant that is subtracted from narrow integers, if that is exact with the offset of a conversion.
    fn fused_constant(&self, from: Value, args: &[Value]) -> Option<f64> {
        let elem = self.k.ty(from).elem();
        let Some(Low::Splat(c) | Low::Reg(c)) = self.env.get(&args[1]) else { return None };
        let bits = self.func.constant(*c)? as u32 as u16;
        let to = Half::of(self.k.ty(args[0]).elem());
        let (c, most) = match (to.elem, elem.bits()) {
            (Elem::Bf16, 8) => (half::bf16::from_bits(bits).to_f64(), BYTE_BIAS),
            (Elem::Bf16, _) => (half::bf16::from_bits(bits).to_f64(), to.base(0)),
            _ => (half::f16::from_bits(bits).to_f64(), to.base(0)),
        };
        (c.fract() == 0.0 && f64::from(1u32 << elem.bits()) + c.abs() <= most).then_some(c)
    }

    /// The narrow integers that a tile is a conversion of, and where each of its elements stands among them.
    fn integers_of(&self, v: Value) -> Option<(Value, Vec<Place>)> {
        let mut place = vec![Place { alone: false, offset: 0 }; extents(self.k, v).len()];
        let mut v = v;
        while self.cast_integers(v).is_none() {
            let def = self.k.def(v)?;
            let from = *self.k.args(def).first()?;
            let of = extents(self.k, from);
            if of.len() != place.len() {
                return None;
            }
            match &self.k.insts[def].op {
                Op::Broadcast => place.iter_mut().zip(&of).filter(|p| *p.1 == 1).for_each(|p| p.0.repeat()),
                Op::Slice(offsets) => place.iter_mut().zip(offsets).for_each(|(p, o)| p.shift(o)),
                _ => return None,
            }
            v = from;
        }
        Some((self.cast_integers(v)?, place))
    }
}

/// The place of an element along one dimension, by the one of a result.
#[derive(Clone)]
struct Place {
    /// All elements of the result are one.
    alone: bool,
    offset: u64,
}

impl Place {
    fn repeat(&mut self) {
        *self = Self { alone: true, offset: 0 };
    }

    fn shift(&mut self, by: &Dim) {
        self.offset += u64::from(by.constant().unwrap_or(0));
    }

    fn of((place, at): (&Self, &u64)) -> u64 {
        place.offset + if place.alone { 0 } else { *at }
    }
}
