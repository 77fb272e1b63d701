//! Operands as text: registers, literals, lists of registers, addresses.

use crate::EmitError;
use crate::role::{Site, Writer};
use std::fmt::Write as _;
use warplift_ir::machine::{Attr, Operand, Reg, Ty, Value};

/// The register at a place in a fragment.
pub(crate) fn register(operand: &Operand, at: usize) -> Option<u16> {
    match operand {
        Operand::Fragment(first, n) => (at < usize::from(*n)).then(|| first + at as u16),
        Operand::Scattered(list) => list.get(at).copied(),
        Operand::Scalar(Reg::R(n)) => (at == 0).then_some(*n),
        _ => None,
    }
}

/// How many registers an operand lists.
pub(crate) fn registers(operand: &Operand) -> usize {
    match operand {
        Operand::Fragment(_, n) => usize::from(*n),
        Operand::Scattered(list) => list.len(),
        Operand::Scalar(_) => 1,
        Operand::Literal(_) | Operand::None => 0,
    }
}

impl<'a> Writer<'_, 'a> {
    pub(crate) fn missing(&self, site: Site<'_, 'a>, operand: usize, register: usize) -> EmitError {
        let row = site.data.op.name();
        EmitError::Register { role: self.name.to_owned(), inst: site.inst, row, operand, register }
    }

    pub(crate) fn attribute(&self, site: Site<'_, 'a>, needs: &'static str) -> EmitError {
        let row = site.data.op.name();
        EmitError::Attribute { role: self.name.to_owned(), inst: site.inst, row, needs }
    }

    /// The value at a place among operands, results and the guard.
    fn value(&self, site: Site<'_, 'a>, k: usize) -> Option<Value> {
        let (args, results) = (site.data.args, site.data.results);
        let guard = site.data.guard.map(|g| g.pred);
        args.iter().chain(results).copied().chain(guard).nth(k)
    }

    /// Register `at` of operand `k`, or its literal; `float`: the instruction reads it as f32.
    pub(crate) fn operand(
        &mut self,
        site: Site<'_, 'a>,
        k: usize,
        at: usize,
        float: bool,
    ) -> Result<(), EmitError> {
        let ty = self.value(site, k).map_or(Ty::B32, |v| self.func.ty(v));
        let _ = match site.operands.get(k) {
            Some(Operand::Literal(v)) => {
                self.literal(*v, ty, float);
                Ok(())
            }
            Some(Operand::Scalar(Reg::D(n))) => write!(self.out, "%d{n}"),
            Some(Operand::Scalar(Reg::Pred(n))) => write!(self.out, "%p{n}"),
            Some(Operand::Scalar(Reg::R(n))) if ty == Ty::B16 => write!(self.out, "%h{n}"),
            Some(operand) => {
                let n = register(operand, at).ok_or_else(|| self.missing(site, k, at))?;
                write!(self.out, "%r{n}")
            }
            None => return Err(self.missing(site, k, at)),
        };
        Ok(())
    }

    pub(crate) fn literal(&mut self, v: i64, ty: Ty, float: bool) {
        let _ = match ty {
            _ if float => write!(self.out, "0f{:08X}", v as u32),
            Ty::B64 if v.unsigned_abs() > 1 << 32 => write!(self.out, "0x{v:016x}"),
            Ty::B64 => write!(self.out, "{v}"),
            Ty::Pred => write!(self.out, "{}", -i64::from(v != 0)),
            Ty::B16 => write!(self.out, "{}", v as i16),
            _ => write!(self.out, "{}", v as i32),
        };
    }

    /// `{%r0, %r1}`: `n` registers of an operand from `first`.
    pub(crate) fn list(
        &mut self,
        site: Site<'_, 'a>,
        k: usize,
        first: usize,
        n: usize,
    ) -> Result<(), EmitError> {
        self.out.push('{');
        for i in 0..n {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.operand(site, k, first + i, false)?;
        }
        self.out.push('}');
        Ok(())
    }

    /// The guard before an instruction.
    pub(crate) fn guard(&mut self, site: Site<'_, 'a>) -> Result<(), EmitError> {
        let Some(guard) = site.data.guard else { return Ok(()) };
        self.out.push_str(if guard.negated { "@!" } else { "@" });
        self.operand(site, site.guard(), 0, false)?;
        self.out.push(' ');
        Ok(())
    }

    /// `[address+offset]`.
    pub(crate) fn address(&mut self, site: Site<'_, 'a>, k: usize, offset: i32) -> Result<(), EmitError> {
        self.out.push('[');
        self.operand(site, k, 0, false)?;
        self.offset(offset);
        self.out.push(']');
        Ok(())
    }

    pub(crate) fn offset(&mut self, offset: i32) {
        if offset != 0 {
            let _ = write!(self.out, "+{offset}");
        }
    }

    /// The byte offset of a memory access.
    pub(crate) fn memory_offset(&self, site: Site<'_, 'a>) -> i32 {
        match site.data.attr {
            Attr::Mem { offset, .. } | Attr::Sync { offset, .. } => offset,
            _ => 0,
        }
    }
}
