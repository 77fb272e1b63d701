//! Printing.

use crate::text::graph::{Def, Prefixes, Shape, numbers, print};
use crate::text::{Field, FieldWriter, Shown};
use crate::tile::{Attrs, Block, Inst, Kernel, Loc, Value, ValueDef};
use std::fmt::{self, Formatter};

/// How entities are written.
pub(super) const PREFIXES: Prefixes = Prefixes { value: "v", inst: "inst", block: "block" };

/// The whole kernel.
pub(super) fn kernel(k: &Kernel, f: &mut Formatter<'_>) -> fmt::Result {
    let header = fmt::from_fn(|f| {
        let mut fields = FieldWriter::new(f);
        fields.field("name", &k.name)?;
        fields.field("file", &k.file)?;
        fields.field("loc", &k.loc)?;
        fields.field("params", &k.params)?;
        fields.field("constants", &k.constants)?;
        fields.field("tunables", &k.tunables)?;
        fields.field("grid", &k.grid)
    });
    writeln!(f, "kernel({header:#})")?;
    print(k, f)
}

impl Shape for Kernel {
    const PREFIXES: Prefixes = PREFIXES;

    fn counts(&self) -> [u32; 3] {
        [self.values.len(), self.insts.len(), self.blocks.len()].map(|n| n as u32)
    }

    fn roots(&self) -> (u32, Vec<u32>) {
        (self.entry.as_u32(), vec![self.entry.as_u32()])
    }

    fn block(&self, block: u32) -> (Vec<u32>, Vec<u32>) {
        let data = &self.blocks[Block::from_u32(block)];
        (numbers(&data.params), numbers(&data.insts))
    }

    fn inst(&self, inst: u32) -> (Vec<u32>, Vec<u32>) {
        let inst = Inst::from_u32(inst);
        (numbers(self.results(inst)), numbers(&self.insts[inst].blocks))
    }

    fn def(&self, value: u32) -> Def {
        match self.values[Value::from_u32(value)].def {
            ValueDef::Result(inst, at) => Def::Result(inst.as_u32(), at),
            ValueDef::Param(block, at) => Def::Param(block.as_u32(), at),
        }
    }

    fn name(&self, value: u32) -> Option<&str> {
        Some(self.names[Value::from_u32(value)].as_str()).filter(|n| !n.is_empty())
    }

    fn loc(&self, inst: u32) -> Loc {
        self.insts[Inst::from_u32(inst)].loc
    }

    fn write_type(&self, value: u32, f: &mut Formatter<'_>) -> fmt::Result {
        self.ty(Value::from_u32(value)).write(f)
    }

    fn write_guard(&self, _: u32, _: &mut Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// The operation, its operands, its attributes.
    fn write_operation(&self, inst: u32, f: &mut Formatter<'_>) -> fmt::Result {
        let inst = Inst::from_u32(inst);
        self.insts[inst].op.write(f)?;
        for (i, v) in self.args(inst).iter().enumerate() {
            write!(f, "{}{v}", if i == 0 { " " } else { ", " })?;
        }
        match &self.attrs[inst] {
            attrs if *attrs == Attrs::default() => Ok(()),
            attrs => write!(f, " @{}", Shown(attrs)),
        }
    }
}
