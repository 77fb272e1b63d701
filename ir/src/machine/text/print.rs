//! Printing of functions: the part of the grammar that only machine IR has.

use super::parse::{Declared, PREFIXES};
use crate::machine::*;
use crate::text::graph::{Def, Prefixes, Shape, numbers, print};
use crate::text::{Field, Shown};
use cranelift_entity::EntityRef;
use std::fmt::{self, Display, Formatter};

impl Display for Ty {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pred => f.write_str("pred"),
            Self::B16 => f.write_str("b16"),
            Self::B32 => f.write_str("b32"),
            Self::B64 => f.write_str("b64"),
            Self::Frag { regs, atom } if regs == atom => write!(f, "frag<{regs}>"),
            Self::Frag { regs, atom } => write!(f, "frag<{regs}/{atom}>"),
            Self::Event => f.write_str("event"),
        }
    }
}

impl Display for Func<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        print(self, f)
    }
}

impl<'a> Func<'a> {
    fn value_data(&self, value: u32) -> &ValueData {
        &self.values[Value::from_u32(value)]
    }

    fn inst_data(&self, inst: u32) -> &InstData<'a> {
        &self.insts[Inst::from_u32(inst)]
    }
}

impl Shape for Func<'_> {
    const PREFIXES: Prefixes = PREFIXES;

    fn counts(&self) -> [u32; 3] {
        [self.values.len(), self.insts.len(), self.blocks.len()].map(|n| n as u32)
    }

    fn roots(&self) -> (u32, Vec<u32>) {
        (self.entry.as_u32(), numbers(&self.order))
    }

    fn block(&self, block: u32) -> (Vec<u32>, Vec<u32>) {
        let data = &self.blocks[Block::from_u32(block)];
        (numbers(&data.params), numbers(&data.insts))
    }

    fn inst(&self, inst: u32) -> (Vec<u32>, Vec<u32>) {
        let data = self.inst_data(inst);
        (numbers(data.results), numbers(&data.blocks))
    }

    fn def(&self, value: u32) -> Def {
        match self.value_data(value).def {
            ValueDef::Result(inst, at) => Def::Result(inst.as_u32(), at),
            ValueDef::Param(block, at) => Def::Param(block.as_u32(), at),
        }
    }

    fn name(&self, value: u32) -> Option<&str> {
        self.names[Value::new(value as usize)]
    }

    fn loc(&self, inst: u32) -> Loc {
        self.inst_data(inst).loc
    }

    /// `uniform b32`
    fn write_type(&self, value: u32, f: &mut Formatter<'_>) -> fmt::Result {
        let data = self.value_data(value);
        Declared { ty: data.ty, uniform: data.uniform }.write(f)
    }

    /// `@!r7 `
    fn write_guard(&self, inst: u32, f: &mut Formatter<'_>) -> fmt::Result {
        let guard = self.inst_data(inst).guard;
        guard.map_or(Ok(()), |g| write!(f, "@{}{} ", if g.negated { "!" } else { "" }, g.pred))
    }

    /// Row, operands, attribute, index maps, targets.
    fn write_operation(&self, inst: u32, f: &mut Formatter<'_>) -> fmt::Result {
        let data = self.inst_data(inst);
        f.write_str(data.op.name())?;
        let attr = (data.attr != Attr::None).then(|| AttrText(&data.attr).to_string());
        list(f, " ", data.args.iter().map(ToString::to_string).chain(attr))?;
        if !data.maps.is_empty() {
            write!(f, " {}", Shown(&data.maps))?;
        }
        let calls = data.targets.iter().map(|t| {
            let args: Vec<String> = t.args.iter().map(ToString::to_string).collect();
            format!("{}({})", t.block, args.join(", "))
        });
        list(f, " to ", calls)
    }
}

/// A word and items separated by commas; nothing if there are no items.
fn list(f: &mut Formatter<'_>, word: &str, items: impl Iterator<Item = String>) -> fmt::Result {
    for (i, item) in items.enumerate() {
        write!(f, "{}{item}", if i == 0 { word } else { ", " })?;
    }
    Ok(())
}

/// An attribute. Immediates and comparisons stand as they are; others are a word and a record.
struct AttrText<'a>(&'a Attr);

impl Display for AttrText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Attr::Imm(v) => write!(f, "{v}"),
            Attr::Imm2(a, b) => write!(f, "{a}, {b}"),
            Attr::Cmp(c) => c.write(f),
            other => other.write(f),
        }
    }
}
