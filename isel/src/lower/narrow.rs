//! Narrow elements: elements of up to 8 bits in registers, and their conversion to halves.
//!
//! They are packed in the order of their layout's register axis: element `i` of `b` bits stands at bit
//! `i * b` of the fragment. Two of them become one register of halves:
//!
//! ```text
//!  u4   q: ....|e4|..|..|..|e0   (q & 0x000f000f) | 0x64006400   = 1024 + e     lop3, sub.f16x2
//!       16 bits apart            (q & 0x00f000f0) | 0x54005400   =   64 + e     (one nibble higher)
//!       elsewhere                bytes brought 16 bits apart by prmt first
//!  u1 u2                         likewise, by as many places as the mantissa has
//!  u8                            bytes e0 0x64 e1 0x64           = 1024 + e     prmt, sub.f16x2
//!  e4m3                          cvt.rn.f16x2.e4m3x2
//!  e5m2                          bytes 0 e0 0 e1                                prmt
//!  other widths                  as in `halfwords`, and small floats as in `small_floats`
//! ```
//!
//! The exponents 0x6400 and 0x5400 hold an integer in the low bits of the mantissa. The subtraction that removes the
//! offset also removes a constant zero point; both are exact. Zero points of rows get the same offset (`zero_columns`).
//! For bf16 the exponent is 0x4300 (128), with a mantissa of 7 bits; bytes go through f32 there (0x4b000000, 2^23). The
//! sign bit of a signed integer is flipped on the way
//! (`lop3` with exclusive or), which adds half its range. The target layout may order a thread's elements differently
//! from the source: the layouts give the place of each one. (Tilus, section 7: low-precision types; the numbers: PTX
//! ISA, `lop3`, `prmt`, `cvt`.)

use super::Lower;
use crate::Result;
use crate::plan::crosses_words;
use rustc_hash::FxHashMap;
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{Dim, Kernel, Op, Value};
use warplift_ir::types::Elem;

/// f32 bits of 2^23: an integer below 2^23 in the low bits adds itself.
const WORD_2_23: u32 = 0x4b00_0000;
/// `lop3` table of `(a & b) | c`.
pub(super) const AND_OR: i64 = 0xea;
/// `lop3` table of `(a & b) ^ c`.
const AND_XOR: i64 = 0x6a;
/// Largest zero point that f32 subtracts exactly from a byte, with a wide margin.
pub(super) const BYTE_BIAS: f64 = 65536.0;

/// The kind of halves that elements become.
#[derive(Clone, Copy)]
pub(super) struct Half {
    pub elem: Elem,
    /// Bits of the mantissa.
    pub mantissa: u32,
    sub: Opcode,
}

impl Half {
    pub(super) fn of(elem: Elem) -> Self {
        match elem {
            Elem::Bf16 => Self { elem, mantissa: 7, sub: Opcode::SubBf16x2 },
            _ => Self { elem: Elem::F16, mantissa: 10, sub: Opcode::SubF16x2 },
        }
    }

    pub fn bits(self, v: f64) -> u32 {
        u32::from(match self.elem {
            Elem::Bf16 => half::bf16::from_f64(v).to_bits(),
            _ => half::f16::from_f64(v).to_bits(),
        })
    }

    /// The number whose mantissa holds an integer that is `bit_offset` bits up.
    pub fn base(self, bit_offset: u32) -> f64 {
        f64::from(1u32 << (self.mantissa - bit_offset))
    }

    /// Whether fields of this width and packing become these halves directly, without the other kind in between.
    fn takes(self, elem: Elem) -> bool {
        let small = matches!(elem, Elem::Mini { exponent: 1..=4, .. }) && elem != Elem::E4M3;
        self.elem == Elem::F16 || elem.is_int() || small
    }

    /// The bit to which a field at bit `bit` of a halfword is moved, so that the mantissa holds it: shifts down are
    /// multiples of the number of places that it has.
    pub fn window(self, bit: u32, bits: u32) -> u32 {
        bit % (self.mantissa - bits + 1)
    }

    /// The bit of a field at bit `p` of each half after the register was shifted down, by 8 bits at most where that is
    /// enough. Fields that are only masked alternate between two bits, for the rows of either half of an atom: those of a
    /// half are all larger by the same power of two.
    fn place(self, p: u32, bits: u32, masked_only: bool) -> u32 {
        if masked_only {
            return p % (2 * bits);
        }
        let fits = |shift: &u32| p >= *shift && p - shift + bits <= self.mantissa;
        p - [0, 8].into_iter().find(fits).unwrap_or(p)
    }
}

/// What is subtracted from integers that become halves.
pub(super) enum Subtrahend {
    /// The same from all integers in low halves of registers, and from those in high halves.
    Constants([f64; 2]),
    /// An integer from each.
    Elements(Box<Elements>),
}

/// Integers that are subtracted, each from one of a tile.
pub(super) struct Elements {
    pub source: Source,
    /// For each element of the tile.
    pub table: Vec<u16>,
    /// The pair of elements of the tile that is converted.
    pub pair: usize,
    /// Halves that were made, by elements and offsets.
    pub made: FxHashMap<([u16; 2], [u64; 2]), machine::Value>,
}

impl Default for Subtrahend {
    fn default() -> Self {
        Self::Constants([0.0; 2])
    }
}

impl Subtrahend {
    /// Goes on with a pair of elements of the tile.
    pub fn turn_to(&mut self, pair: usize) {
        if let Self::Elements(e) = self {
            e.pair = pair;
        }
    }

    /// The constant that is subtracted from both halves, if it is one.
    pub fn constant(&self) -> Option<f64> {
        if let Self::Constants([low, high]) = *self { Some(low).filter(|_| low == high) } else { None }
    }

    /// All that is subtracted from fields with these offsets, if that is constant.
    pub fn offset(&self, offsets: [f64; 2]) -> Option<[f64; 2]> {
        let Self::Constants(c) = self else { return None };
        Some([offsets[0] + c[0], offsets[1] + c[1]])
    }
}

/// A fragment of narrow elements. Two are read at a time.
pub(super) struct Source {
    fragment: machine::Value,
    pub elem: Elem,
    pub to: Half,
    /// Whether fields are only masked: their zero point is factored out (`zero_point.rs`).
    pub masked_only: bool,
    /// Registers after a whole-register operation, by `(register, operation)`.
    changed: FxHashMap<(u16, Change), machine::Value>,
    /// Pairs of halfwords in one register, shifted down by so many bits.
    pub halfwords: FxHashMap<([u16; 2], i32), machine::Value>,
    /// Registers with two bytes, by registers and bytes.
    separated: FxHashMap<([u16; 2], u32), machine::Value>,
    /// Constants.
    constants: FxHashMap<u32, machine::Value>,
}

/// An operation on a whole register before its elements are extracted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Change {
    Shifted(u8),
    SignFlipped,
    /// The low or the high four bits of each byte as the upper byte of a half: a small float, whose factor is lacking.
    UpperBytes {
        high: bool,
    },
}

/// The offset of a field: field less integer.
pub(super) fn offset(elem: Elem) -> f64 {
    if elem.is_signed() { f64::from(1u32 << (elem.bits() - 1)) } else { 0.0 }
}

/// The bit at which each field of a pair is masked, from the low end of its half. `halfwords`: whether pairs are taken from two
/// halfwords; `masked_only`: whether they stay fields.
pub(super) fn bit_offset(
    elem: Elem,
    to: Half,
    pair: [u16; 2],
    halfwords: bool,
    masked_only: bool,
) -> [u32; 2] {
    let bits = elem.bits();
    let [p, q] = pair.map(|e| u32::from(e) * bits);
    let separate = [p % 8, q % 8];
    match 16 % bits {
        0 if q == p + 16 && p / 32 == q / 32 => [to.place(p % 32, bits, masked_only); 2],
        0 if separate.iter().all(|r| r + bits <= to.mantissa) => separate,
        _ if halfwords && p % 16 == q % 16 => [to.window(p % 16, bits); 2],
        _ => [0; 2],
    }
}

/// The tile in whose registers narrow elements lie, and where they begin in it: parts of a tile share registers where its
/// elements cross words.
pub(super) fn whole(k: &Kernel, v: Value) -> (Value, Vec<u64>) {
    let def = k.def(v).filter(|_| crosses_words(k.ty(v).elem().bits()));
    let Some((Op::Slice(offsets), args)) = def.map(|d| (&k.insts[d].op, k.args(d))) else {
        return (v, vec![0; k.ty(v).shape().map_or(0, |s| s.dims().len())]);
    };
    let (of, from) = whole(k, args[0]);
    let at = |(o, f): (&Dim, u64)| f + u64::from(o.constant().unwrap_or(0));
    (of, offsets.iter().zip(from).map(at).collect())
}

/// Whether an element type is packed several to a register and converted here.
pub(super) fn is_narrow(elem: Elem) -> bool {
    elem.bits() <= 8 && elem != Elem::Bool
}

/// A cast of tiles that no instruction does.
pub(super) fn no_cast(from: Elem, to: Elem) -> String {
    format!(
        "a cast of tiles from {from} to {to} does not compile: go through f32 or i32, or see the table of casts"
    )
}

impl Source {
    pub fn new(fragment: machine::Value, elem: Elem, to: Half) -> Self {
        let (changed, halfwords, separated, constants) = Default::default();
        Self { fragment, elem, to, masked_only: false, changed, halfwords, separated, constants }
    }

    /// The bit of an element in the fragment.
    pub fn bit(&self, element: u16) -> u32 {
        u32::from(element) * self.elem.bits()
    }

    pub fn word(&self, element: u16) -> u16 {
        (self.bit(element) / 32) as u16
    }

    /// Bit inside its register.
    pub fn at(&self, element: u16) -> u32 {
        self.bit(element) % 32
    }
}

impl Lower<'_, '_> {
    /// A tile of narrow elements as a tile of f16 or bf16, less constants or the elements of a column, pair by pair.
    ///
    /// # Errors
    /// The element type has no conversion.
    pub(super) fn narrow_to_half(
        &mut self,
        result: Value,
        arg: Value,
        kind: Elem,
        less: Subtrahend,
    ) -> Result<machine::Value> {
        self.narrow_pairs(result, arg, kind, Some(less))
    }

    /// A tile of integers below 8 bits as fields in the low bits of halves. Such a half is the integer times the
    /// least half, 2^-24, or more if the field is higher ([`bit_offset`]). Fields of signed integers are larger by
    /// half their range.
    ///
    /// # Errors
    /// The layouts do not match.
    pub(super) fn bare_fields(&mut self, result: Value, arg: Value) -> Result<machine::Value> {
        self.narrow_pairs(result, arg, Elem::F16, None)
    }

    fn narrow_pairs(
        &mut self,
        result: Value,
        arg: Value,
        kind: Elem,
        less: Option<Subtrahend>,
    ) -> Result<machine::Value> {
        let elem = self.k.ty(arg).elem();
        let direct = Half::of(kind).takes(elem);
        let half = Half::of(if direct { kind } else { Elem::F16 });
        let table = self.narrow_table(result, arg)?;
        let whole = whole(self.k, arg).0;
        let fragment = self.materialize(whole, whole)?;
        let mut source = Source::new(fragment, elem, half);
        source.masked_only = less.is_none();
        let mut less = less.unwrap_or_default();
        let mut parts = Vec::new();
        for pair in table.chunks(2) {
            // An element without a partner is paired with itself.
            let (low, high) = (pair[0], pair[pair.len() - 1]);
            less.turn_to(parts.len());
            parts.push(self.half_pair(&mut source, low, high, &mut less)?);
        }
        let regs = parts.len() as u16;
        let r = self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)]));
        Ok(if direct { r } else { self.repack(Elem::F16, r, kind, regs) })
    }

    /// The element of a narrow tile, or of the tile in whose registers it lies, that each element of another tile is.
    pub(super) fn narrow_table(&self, to: Value, narrow: Value) -> Result<Vec<u16>> {
        self.narrow_elements(to, narrow, <[u64]>::to_vec)
    }

    /// The same, where the place of an element in the narrow tile follows from that in the other one.
    pub(super) fn narrow_elements(
        &self,
        to: Value,
        narrow: Value,
        place: impl Fn(&[u64]) -> Vec<u64>,
    ) -> Result<Vec<u16>> {
        let (whole, from) = whole(self.k, narrow);
        let [a, b] = [whole, to].map(|v| self.plan.layout(self.k, v));
        self.element_table(a?, b?, |at| place(at).iter().zip(&from).map(|(a, f)| a + f).collect())
    }

    /// A tile of narrow integers as one of words.
    ///
    /// # Errors
    /// The layouts do not match.
    pub(super) fn narrow_to_word(&mut self, result: Value, arg: Value) -> Result<machine::Value> {
        let elem = self.k.ty(arg).elem();
        let table = self.narrow_table(result, arg)?;
        let whole = whole(self.k, arg).0;
        let fragment = self.materialize(whole, whole)?;
        let mut source = Source::new(fragment, elem, Half::of(Elem::F16));
        let parts: Vec<machine::Value> = table.iter().map(|&e| self.word_of(&mut source, e)).collect();
        let regs = parts.len() as u16;
        Ok(self.at().value(NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs)])))
    }

    /// An element as a word, its sign extended.
    fn word_of(&mut self, s: &mut Source, element: u16) -> machine::Value {
        let bits = s.elem.bits();
        let x = self.field(s, element);
        if !s.elem.is_signed() {
            let mask = self.constant(s, (1 << bits) - 1);
            return self.single(Opcode::And, Attr::None, &[x, mask]);
        }
        let by = self.constant(s, 32 - bits);
        let up = self.single(Opcode::Shl, Attr::None, &[x, by]);
        self.single(Opcode::ShrS32, Attr::None, &[up, by])
    }

    /// Two elements as halves of one register.
    pub(super) fn half_pair(
        &mut self,
        s: &mut Source,
        low: u16,
        high: u16,
        less: &mut Subtrahend,
    ) -> Result<machine::Value> {
        match s.elem {
            Elem::Uint(1 | 2 | 4) | Elem::Int(1 | 2 | 4) => self.apart_by_half(s, low, high, less),
            Elem::Uint(8) | Elem::Int(8) if s.to.elem == Elem::Bf16 => match less.constant() {
                Some(c) => Ok(self.wide_bytes(s, low, high, c)),
                None => self.error("bytes as bf16 are less one constant only"),
            },
            Elem::Uint(8) | Elem::Int(8) => self.bytes(s, low, high, less),
            Elem::Uint(1..=7) | Elem::Int(1..=7) => self.fields(s, low, high, less),
            Elem::E4M3 => Ok(self.e4m3(s, low, high)),
            Elem::E5M2 => Ok(self.e5m2(s, low, high)),
            Elem::Mini { exponent: 1..=4, mantissa } => {
                Ok(self.small_floats(s, [low, high], mantissa.into()))
            }
            other => self.error(no_cast(other, s.to.elem)),
        }
    }

    pub(super) fn register(&mut self, s: &Source, register: u16) -> machine::Value {
        self.pick(s.fragment, vec![register])
    }

    pub(super) fn constant(&mut self, s: &mut Source, bits: u32) -> machine::Value {
        *s.constants.entry(bits).or_insert_with(|| self.at().imm(i64::from(bits as i32)))
    }

    /// One register of a row; operands are single registers.
    pub(super) fn single(&mut self, op: Opcode, attr: Attr, args: &[machine::Value]) -> machine::Value {
        let args: Vec<(machine::Value, IndexMap)> = args
            .iter()
            .map(|&v| (v, if self.func.ty(v).is_frag() { IndexMap::EACH } else { IndexMap::Whole }))
            .collect();
        self.repeat(op, attr, &args, 1)
    }

    /// Bytes of two registers: selector `0x....` counts the second's from 4.
    pub(super) fn permute(&mut self, a: machine::Value, b: machine::Value, selector: u32) -> machine::Value {
        let selector = self.at().imm(selector.into());
        self.single(Opcode::Prmt, Attr::None, &[a, b, selector])
    }

    pub(super) fn changed(&mut self, s: &mut Source, register: u16, change: Change) -> machine::Value {
        if let Some(&v) = s.changed.get(&(register, change)) {
            return v;
        }
        let x = self.register(s, register);
        let v = match change {
            Change::Shifted(by) => {
                let by = self.constant(s, by.into());
                self.single(Opcode::ShrU32, Attr::None, &[x, by])
            }
            Change::SignFlipped => {
                let bits = self.constant(s, 0x8080_8080);
                self.single(Opcode::Xor, Attr::None, &[x, bits])
            }
            Change::UpperBytes { high } => self.upper_bytes(s, x, high),
        };
        s.changed.insert((register, change), v);
        v
    }

    /// `x - offsets - less`, the offset of each half on its own.
    fn without_offsets(
        &mut self,
        s: &mut Source,
        x: machine::Value,
        offsets: [f64; 2],
        less: &mut Subtrahend,
    ) -> Result<machine::Value> {
        let offset = match less.offset(offsets) {
            Some([0.0, 0.0]) => return Ok(x),
            Some([low, high]) => self.constant(s, s.to.bits(low) | s.to.bits(high) << 16),
            None => self.zero_pair(less, offsets)?,
        };
        Ok(self.single(s.to.sub, Attr::None, &[x, offset]))
    }

    /// Masks two fields at given bits of their halves and converts them to halves.
    fn biased(
        &mut self,
        s: &mut Source,
        x: machine::Value,
        bit_offset: [u32; 2],
        bits: u32,
        less: &mut Subtrahend,
    ) -> Result<machine::Value> {
        let field = (1u32 << bits) - 1;
        let mask = self.constant(s, field << bit_offset[0] | (field << bit_offset[1]) << 16);
        self.offset_fields(s, bit_offset, less, |l, _, table, with| match with {
            Some(with) => l.single(Opcode::Lop3, Attr::Imm(table), &[x, mask, with]),
            None => l.single(Opcode::And, Attr::None, &[x, mask]),
        })
    }

    /// Fields at given bits of their halves as halves. `masked` masks them and adds a constant with a table of `lop3`.
    pub(super) fn offset_fields(
        &mut self,
        s: &mut Source,
        bit_offset: [u32; 2],
        less: &mut Subtrahend,
        masked: impl FnOnce(&mut Self, &mut Source, i64, Option<machine::Value>) -> machine::Value,
    ) -> Result<machine::Value> {
        let (signed, to) = (s.elem.is_signed(), s.to);
        let sign = if signed { 1u32 << (s.elem.bits() - 1) } else { 0 };
        let table = if signed { AND_XOR } else { AND_OR };
        let word = |f: &dyn Fn(u32) -> u32| f(bit_offset[0]) | f(bit_offset[1]) << 16;
        if s.masked_only {
            let flipped = signed.then(|| self.constant(s, word(&|r| sign << r)));
            return Ok(masked(self, s, table, flipped));
        }
        let magic = self.constant(s, word(&|r| to.bits(to.base(r)) | sign << r));
        let biased = masked(self, s, table, Some(magic));
        self.without_offsets(s, biased, bit_offset.map(|r| f64::from(sign) + to.base(r)), less)
    }

    /// Fields whose width divides 16: if two are 16 bits apart, one mask extracts both.
    fn apart_by_half(
        &mut self,
        s: &mut Source,
        low: u16,
        high: u16,
        less: &mut Subtrahend,
    ) -> Result<machine::Value> {
        let (p, q, bits) = (s.at(low), s.at(high), s.elem.bits());
        let up = bit_offset(s.elem, s.to, [low, high], self.plan.ways.halfwords, s.masked_only);
        if s.word(low) == s.word(high) && q == p + 16 {
            let x = match p - up[0] {
                0 => self.register(s, s.word(low)),
                by => self.changed(s, s.word(low), Change::Shifted(by as u8)),
            };
            return self.biased(s, x, up, bits, less);
        }
        if up != [p % 8, q % 8] {
            return self.fields(s, low, high, less);
        }
        let x = self.separate(s, low, high);
        self.biased(s, x, up, bits, less)
    }

    /// The bytes of two elements, the lower in byte 0 and the other in byte 2.
    fn separate(&mut self, s: &mut Source, low: u16, high: u16) -> machine::Value {
        let (p, q) = (s.at(low) / 8, s.at(high) / 8);
        let (words, selector) = ([low, high].map(|e| s.word(e)), p | p << 4 | (4 + q) << 8 | (4 + q) << 12);
        if let Some(&made) = s.separated.get(&(words, selector)) {
            return made;
        }
        let [a, b] = words.map(|w| self.register(s, w));
        let made = self.permute(a, b, selector);
        s.separated.insert((words, selector), made);
        made
    }

    fn bytes(
        &mut self,
        s: &mut Source,
        low: u16,
        high: u16,
        less: &mut Subtrahend,
    ) -> Result<machine::Value> {
        let signed = s.elem.is_signed();
        let word = |l: &mut Self, s: &mut Source, element: u16| match signed {
            true => l.changed(s, s.word(element), Change::SignFlipped),
            false => l.register(s, s.word(element)),
        };
        let (mut x, mut p, mut q) = (word(self, s, low), s.at(low) / 8, s.at(high) / 8);
        if s.word(low) != s.word(high) {
            let other = word(self, s, high);
            x = self.permute(x, other, p | (4 + q) << 4);
            (p, q) = (0, 1);
        }
        let magic = self.constant(s, s.to.bits(s.to.base(0)) >> 8);
        let x = self.permute(x, magic, p | 4 << 4 | q << 8 | 4 << 12);
        self.without_offsets(s, x, [s.to.base(0) + offset(s.elem); 2], less)
    }

    /// Bytes that a half cannot hold with an offset: each becomes an f32, and both are rounded together.
    fn wide_bytes(&mut self, s: &mut Source, low: u16, high: u16, bias: f64) -> machine::Value {
        let signed = s.elem.is_signed();
        let magic = self.constant(s, WORD_2_23);
        let offset = f64::from(f32::from_bits(WORD_2_23)) + bias + if signed { 128.0 } else { 0.0 };
        let offset = self.constant(s, (offset as f32).to_bits());
        let [low, high] = [low, high].map(|element| {
            let word = match signed {
                true => self.changed(s, s.word(element), Change::SignFlipped),
                false => self.register(s, s.word(element)),
            };
            let x = self.permute(word, magic, (s.at(element) / 8) | 0x7650);
            self.single(Opcode::SubF32, Attr::None, &[x, offset])
        });
        self.single(Opcode::PackBf16, Attr::None, &[high, low])
    }

    /// An element in the low bits of a register; the bits above are undefined.
    pub(super) fn field(&mut self, s: &mut Source, element: u16) -> machine::Value {
        let (word, at) = (s.word(element), s.at(element));
        if at + s.elem.bits() <= 32 {
            return match at {
                0 => self.register(s, word),
                _ => self.changed(s, word, Change::Shifted(at as u8)),
            };
        }
        let (low, high) = (self.register(s, word), self.register(s, word + 1));
        let by = self.constant(s, at);
        self.single(Opcode::FunnelR, Attr::None, &[low, high, by])
    }

    fn e4m3(&mut self, s: &mut Source, low: u16, high: u16) -> machine::Value {
        let (p, q) = (s.at(low), s.at(high));
        let together = s.word(low) == s.word(high) && q == p + 8 && p % 16 == 0;
        let x = match together {
            true => self.register(s, s.word(low)),
            false => {
                let (a, b) = (self.register(s, s.word(low)), self.register(s, s.word(high)));
                self.permute(a, b, (p / 8) | ((4 + q / 8) << 4))
            }
        };
        let op = if together && p == 16 { Opcode::HighE4m3 } else { Opcode::LowE4m3 };
        self.single(op, Attr::None, &[x])
    }

    /// The upper byte of an f16 is an e5m2.
    fn e5m2(&mut self, s: &mut Source, low: u16, high: u16) -> machine::Value {
        let [low, high] = [low, high].map(|element| (self.register(s, s.word(element)), s.at(element) / 8));
        self.below_bytes(s, low, high)
    }

    /// Halves whose upper bytes are given, each by register and number, and whose lower bytes are zero.
    pub(super) fn below_bytes(
        &mut self,
        s: &mut Source,
        (mut x, mut p): (machine::Value, u32),
        (other, mut q): (machine::Value, u32),
    ) -> machine::Value {
        if x != other {
            x = self.permute(x, other, p | (4 + q) << 4);
            (p, q) = (0, 1);
        }
        let zero = self.constant(s, 0);
        self.permute(x, zero, 4 | p << 4 | 4 << 8 | q << 12)
    }
}
