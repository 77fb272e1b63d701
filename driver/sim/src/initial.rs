//! Variables of module scope in constant and global memory, with the numbers that they begin with.

use super::PtxError;
use super::ast::{Operand, Variable};
use super::cursor::{Parser, describe};
use super::lex::Tok;
use super::literal::type_bytes;
use std::collections::HashMap;

/// Bytes of constant memory of a module (CUDA C++ Programming Guide, compute capability 9.0), and of the global
/// variables that are simulated.
const CONSTANT: usize = 1 << 16;
const GLOBAL: usize = 1 << 24;

/// Variables laid out one after the other, and their bytes at the start.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub offsets: HashMap<String, u32>,
    pub bytes: Vec<u8>,
}

impl Image {
    /// Lays out the constants and the global variables of a module.
    pub fn of_module(constants: Vec<Variable>, globals: Vec<Variable>) -> Result<[Self; 2], PtxError> {
        let too_long = |what: &str, limit: usize| PtxError {
            line: 1,
            column: 1,
            what: format!("{what} variables of the module over {limit} bytes"),
        };
        let constants = Self::new(constants, CONSTANT).ok_or_else(|| too_long("constant", CONSTANT))?;
        let globals = Self::new(globals, GLOBAL).ok_or_else(|| too_long("global", GLOBAL))?;
        Ok([constants, globals])
    }

    fn new(variables: Vec<Variable>, limit: usize) -> Option<Self> {
        let mut image = Self::default();
        for v in variables {
            let at = image.bytes.len().checked_next_multiple_of(v.align as usize)?;
            let end = at.checked_add(v.bytes? as usize).filter(|end| *end <= limit)?;
            image.bytes.resize(end, 0);
            image.bytes[at..at + v.init.len()].copy_from_slice(&v.init);
            image.offsets.insert(v.name, at as u32);
        }
        Some(image)
    }
}

impl Parser<'_> {
    /// `.align 4 .b8 name[4] = {1, 2, 3, 4};` after the space.
    pub(super) fn initialised(&mut self) -> Result<Variable, PtxError> {
        let (mut variable, ty, pos) = self.declared()?;
        let Some(bytes) = variable.bytes else {
            return Err(pos.error(format!("`{}` has no size", variable.name)));
        };
        if self.eat('=') {
            self.values(ty, &mut variable.init)?;
        }
        self.need(';')?;
        if variable.init.len() > bytes as usize {
            return Err(pos.error(format!("`{}` begins with more than its {bytes} bytes", variable.name)));
        }
        Ok(variable)
    }

    fn values(&mut self, ty: &str, out: &mut Vec<u8>) -> Result<(), PtxError> {
        if !self.eat('{') {
            return self.value(ty, out);
        }
        while !self.eat('}') {
            self.value(ty, out)?;
            if self.peek() != Tok::Punct('}') {
                self.need(',')?;
            }
        }
        Ok(())
    }

    fn value(&mut self, ty: &str, out: &mut Vec<u8>) -> Result<(), PtxError> {
        let pos = self.pos();
        if !matches!(self.peek(), Tok::Number(_) | Tok::Punct('-')) {
            let found = describe(self.peek());
            return Err(pos.error(format!("{found} as an initial value is not simulated, numbers are")));
        }
        let bits = match (self.number()?, ty) {
            (Operand::Int(v), _) => v,
            (Operand::F32(v), ".f32" | ".b32") => v.into(),
            (Operand::F64(v), ".f64" | ".b64") => v,
            (Operand::F64(v), ".f32") => u64::from((f64::from_bits(v) as f32).to_bits()),
            (Operand::Decimal(v), ".f32") => u64::from((v as f32).to_bits()),
            (Operand::Decimal(v), ".f64") => v.to_bits(),
            _ => return Err(pos.error(format!("no value of `{ty}`"))),
        };
        let size = type_bytes(ty).unwrap_or(1) as usize;
        out.extend_from_slice(&bits.to_le_bytes()[..size]);
        Ok(())
    }
}
