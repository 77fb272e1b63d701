//! Casts of tiles: whole registers, halves of registers that are unpacked and packed, and elements that are narrower.
//!
//! ```text
//!  cast(x : f16[..], f32)     x: a b │ c d     ─►     low a │ high b │ low c │ high d
//! ```

use super::bytes::is_to_bytes;
use super::half::PAIR_LOW;
use super::narrow::Subtrahend;
use super::{Low, Lower};
use crate::Result;
use crate::rows::{float_bits, is_half};
use crate::takes::is_long;
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::Value;
use warplift_ir::types::Elem;

impl Lower<'_, '_> {
    /// A conversion of a tile's elements.
    pub(super) fn tile_cast(&mut self, result: Value, arg: Value) -> Result<()> {
        let (from, to) = (self.k.ty(arg).elem(), self.k.ty(result).elem());
        if from == to {
            return self.alias(result, arg);
        }
        if let (Some(Low::Splat(s)), true) = (self.env.get(&arg).cloned(), from == Elem::F32)
            && let Some(bits) =
                self.func.constant(s).and_then(|b| float_bits(to, f32::from_bits(b as u32).into()))
        {
            let c = self.at().imm(bits);
            self.env.insert(result, Low::Splat(c));
            return Ok(());
        }
        if is_long(from) || is_long(to) {
            return self.cast_long(result, arg);
        }
        if self.tile_zero_point(result)? {
            return Ok(());
        }
        if super::narrow::is_narrow(from) && matches!(to, Elem::F16 | Elem::Bf16 | Elem::F32) {
            let r = self.narrow_to_float(result, arg, to)?;
            self.set(result, r);
            return Ok(());
        }
        if super::narrow::is_narrow(from) && from.is_int() && matches!(to, Elem::Int(32)) {
            let r = self.narrow_to_word(result, arg)?;
            self.set(result, r);
            return Ok(());
        }
        if is_to_bytes(from, to) {
            return self.cast_to_bytes(result, arg);
        }
        let whole = |e: Elem| e.bits() == 32 && e != Elem::Tf32;
        if whole(from) && whole(to) && matches!(self.env.get(&arg), Some(Low::Picked(..))) {
            return self.of_each(result, arg, |l, (x, map), regs| {
                let x = match map {
                    IndexMap::Table(table) => l.pick(x, table.into_vec()),
                    _ => x,
                };
                l.cast_registers(from, to, x, regs)
            });
        }
        let x = self.materialize(arg, result)?;
        let regs = self.result_regs(result)?;
        let r = self.cast_registers(from, to, x, regs)?;
        self.set(result, r);
        Ok(())
    }

    /// Narrow elements become halves of the type, or halves of f16 that are widened to f32.
    fn narrow_to_float(&mut self, result: Value, arg: Value, to: Elem) -> Result<machine::Value> {
        if to != Elem::F32 {
            return self.narrow_to_half(result, arg, to, Subtrahend::default());
        }
        let half = self.narrow_to_half(result, arg, Elem::F16, Subtrahend::default())?;
        let wide = self.unpack(Elem::F16, half, 2 * self.func.ty(half).regs() as u16);
        Ok(self.pick(wide, (0..self.result_regs(result)?).collect()))
    }

    /// Converts elements of 16 and 32 bits, register by register; `regs` is the number of registers of the result.
    fn cast_registers(
        &mut self,
        from: Elem,
        to: Elem,
        x: machine::Value,
        regs: u16,
    ) -> Result<machine::Value> {
        Ok(match (from, to) {
            (Elem::F32, Elem::F16 | Elem::Bf16) => self.narrowed(x, to, regs),
            (Elem::F16 | Elem::Bf16, Elem::F32) => self.unpack(from, x, regs),
            (Elem::Int(32), Elem::F32) => {
                self.repeat(Opcode::F32FromS32, Attr::None, &[(x, IndexMap::EACH)], regs)
            }
            (Elem::Uint(32), Elem::F32) => {
                self.repeat(Opcode::F32FromU32, Attr::None, &[(x, IndexMap::EACH)], regs)
            }
            (Elem::F32 | Elem::F16 | Elem::Bf16, Elem::Int(32) | Elem::Uint(32)) => {
                let row = if to.is_signed() { Opcode::S32FromF32 } else { Opcode::U32FromF32 };
                let wide = if is_half(from) { self.unpack(from, x, regs) } else { x };
                self.repeat(row, Attr::None, &[(wide, IndexMap::EACH)], regs)
            }
            // Integers that f32 rounds are out of the range of f16.
            (Elem::Int(32) | Elem::Uint(32), Elem::F16) => {
                let row = if from.is_signed() { Opcode::F32FromS32 } else { Opcode::F32FromU32 };
                let wide = self.repeat(row, Attr::None, &[(x, IndexMap::EACH)], 2 * regs);
                self.narrowed(wide, to, regs)
            }
            (Elem::Int(32), Elem::Uint(32)) | (Elem::Uint(32), Elem::Int(32)) => x,
            (Elem::F16, Elem::Bf16) | (Elem::Bf16, Elem::F16) => self.repack(from, x, to, regs),
            _ => return self.error(super::narrow::no_cast(from, to)),
        })
    }

    /// Converts 16-bit floats of one type to the other, through f32.
    pub(super) fn repack(&mut self, from: Elem, x: machine::Value, to: Elem, regs: u16) -> machine::Value {
        let wide = self.unpack(from, x, regs * 2);
        self.narrowed(wide, to, regs)
    }

    /// Halves of each register, widened and interleaved.
    pub(super) fn unpack(&mut self, from: Elem, x: machine::Value, regs: u16) -> machine::Value {
        let (low, high) = match from {
            Elem::F16 => (Opcode::LowF16, Opcode::HighF16),
            _ => (Opcode::LowBf16, Opcode::HighBf16),
        };
        if let Some(halves) = self.put_together(x, regs) {
            return self.repeat(low, Attr::None, &[(halves, IndexMap::EACH)], regs);
        }
        let low = self.repeat(low, Attr::None, &[(x, IndexMap::EACH)], regs / 2);
        let high = self.repeat(high, Attr::None, &[(x, IndexMap::EACH)], regs / 2);
        self.interleave(&[low, high], regs)
    }

    /// The low halves of pairs that were just packed, each in a register of its own.
    fn put_together(&mut self, pairs: machine::Value, regs: u16) -> Option<machine::Value> {
        let def = |f: &machine::Func<'_>, v| f.def(v).map(|i| (f.insts[i].op, f.insts[i].args.to_vec()));
        let parts = match def(&self.func, pairs)? {
            (Opcode::Join, parts) => parts,
            _ => vec![pairs],
        };
        let mut halves = Vec::new();
        for part in parts {
            let (op, args) = def(&self.func, part)?;
            let &[first, second, selector] = &args[..] else { return None };
            let low = op == Opcode::Prmt && self.func.constant(selector) == Some(PAIR_LOW);
            let scalar = [first, second].iter().all(|&v| self.func.ty(v) == Ty::B32);
            halves.extend((low && scalar).then_some([first, second])?);
        }
        let all = |s: &mut Self| s.at().value(NewInst::new(Opcode::Join, &halves, &[Ty::frag(regs)]));
        (halves.len() == usize::from(regs)).then(|| all(self))
    }

    /// Register `i` of the result is register `i / parts` of part `i % parts`.
    pub(super) fn interleave(&mut self, parts: &[machine::Value], regs: u16) -> machine::Value {
        let joined: u16 = parts.iter().map(|&p| self.func.ty(p).regs() as u16).sum();
        let all = self.at().value(NewInst::new(Opcode::Join, parts, &[Ty::frag(joined)]));
        let n = parts.len() as u16;
        let table = (0..regs).map(|i| i % n * (regs / n) + i / n).collect();
        self.pick(all, table)
    }
}
