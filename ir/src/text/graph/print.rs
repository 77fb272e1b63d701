//! Printing.

use super::{Def, Prefixes};
use crate::tile::Loc;
use crate::tile::print::StrText;
use cranelift_entity::{EntitySet, entity_impl};
use std::fmt::{self, Formatter, Write};

/// The printer's questions to an IR. Entities are identified by number.
pub(crate) trait Shape {
    /// How numbers are written.
    const PREFIXES: Prefixes;

    /// How many values, instructions and blocks there are.
    fn counts(&self) -> [u32; 3];
    /// Where the text begins, and the blocks that stand in it by themselves.
    fn roots(&self) -> (u32, Vec<u32>);
    /// Parameters and instructions of a block.
    fn block(&self, block: u32) -> (Vec<u32>, Vec<u32>);
    /// Results and nested blocks of an instruction.
    fn inst(&self, inst: u32) -> (Vec<u32>, Vec<u32>);
    /// Where a value is defined.
    fn def(&self, value: u32) -> Def;
    /// A value's name, if it has one.
    fn name(&self, value: u32) -> Option<&str>;
    /// Place in the source.
    fn loc(&self, inst: u32) -> Loc;
    /// Prints a value's type.
    fn write_type(&self, value: u32, f: &mut Formatter<'_>) -> fmt::Result;
    /// Prints the part before the results.
    fn write_guard(&self, inst: u32, f: &mut Formatter<'_>) -> fmt::Result;
    /// Prints the operation: all of an instruction but guard, results, place and nested blocks.
    fn write_operation(&self, inst: u32, f: &mut Formatter<'_>) -> fmt::Result;
}

/// `func b0 { .. }`
pub(crate) fn print<S: Shape>(shape: &S, f: &mut Formatter<'_>) -> fmt::Result {
    let printer = Printer { shape, blocks: EntitySet::new(), insts: EntitySet::new(), next: 0, f };
    printer.func()
}

/// A number of any kind, for sets.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Number(u32);
entity_impl!(Number);

struct Printer<'p, 'f, S> {
    shape: &'p S,
    /// Blocks printed so far.
    blocks: EntitySet<Number>,
    /// Instructions printed so far.
    insts: EntitySet<Number>,
    /// The number of the next instruction without a written number.
    next: u32,
    f: &'p mut Formatter<'f>,
}

impl<S: Shape> Printer<'_, '_, S> {
    fn func(mut self) -> fmt::Result {
        let (entry, order) = self.shape.roots();
        writeln!(self.f, "func {}{entry} {{", S::PREFIXES.block)?;
        order.into_iter().try_for_each(|b| self.block(b, 0))?;
        self.detached()?;
        self.f.write_str("}\n")
    }

    /// Entities outside the ordered blocks and the blocks nested in them.
    fn detached(&mut self) -> fmt::Result {
        let [values, insts, blocks] = self.shape.counts();
        let mut standing = EntitySet::<Number>::new();
        for inst in (0..blocks).flat_map(|b| self.shape.block(b).1) {
            standing.insert(Number(inst));
        }
        let loose: Vec<u32> = (0..insts).filter(|&i| !standing.contains(Number(i))).collect();
        let moved: Vec<u32> = (0..values).filter(|&v| !self.is_in_place(v)).collect();
        let all_seen = (0..blocks).all(|b| self.blocks.contains(Number(b)));
        if all_seen && loose.is_empty() && moved.is_empty() {
            return Ok(());
        }
        self.f.write_str("detached\n")?;
        loose.into_iter().try_for_each(|i| self.inst(i, 1))?;
        for block in 0..blocks {
            // One of them may hold another.
            if !self.blocks.contains(Number(block)) {
                self.block(block, 0)?;
            }
        }
        moved.into_iter().try_for_each(|v| self.moved(v))
    }

    /// Whether a value stands at its definition.
    fn is_in_place(&self, value: u32) -> bool {
        let [_, insts, blocks] = self.shape.counts();
        let (list, at) = match self.shape.def(value) {
            Def::Result(inst, at) if inst < insts => (self.shape.inst(inst).0, at),
            Def::Param(block, at) if block < blocks => (self.shape.block(block).0, at),
            _ => return false,
        };
        list.get(at as usize) == Some(&value)
    }

    /// `value r9: b32 = i4.0`
    fn moved(&mut self, value: u32) -> fmt::Result {
        self.f.write_str("  value ")?;
        self.declared(value)?;
        match self.shape.def(value) {
            Def::Result(inst, at) => writeln!(self.f, " = {}{inst}.{at}", S::PREFIXES.inst),
            Def::Param(block, at) => writeln!(self.f, " = {}{block}.{at}", S::PREFIXES.block),
        }
    }

    /// `r9 "name": uniform b32`
    fn declared(&mut self, value: u32) -> fmt::Result {
        write!(self.f, "{}{value}", S::PREFIXES.value)?;
        if let Some(name) = self.shape.name(value) {
            write!(self.f, " {}", StrText(name))?;
        }
        self.f.write_str(": ")?;
        self.shape.write_type(value, self.f)
    }

    /// Parameters or results, by number alone where the definition of one is elsewhere.
    fn defined(&mut self, values: &[u32], here: impl Fn(u32) -> Def) -> fmt::Result {
        for (at, &value) in (0..).zip(values) {
            self.f.write_str(if at == 0 { "" } else { ", " })?;
            if self.shape.def(value) == here(at) {
                self.declared(value)?;
            } else {
                write!(self.f, "{}{value}", S::PREFIXES.value)?;
            }
        }
        Ok(())
    }

    fn margin(&mut self, depth: usize) -> fmt::Result {
        write!(self.f, "{:1$}", "", depth * 2)
    }

    fn block(&mut self, block: u32, depth: usize) -> fmt::Result {
        self.margin(depth)?;
        write!(self.f, "{}{block}", S::PREFIXES.block)?;
        if !self.blocks.insert(Number(block)) {
            return self.f.write_char('\n');
        }
        let (params, insts) = self.shape.block(block);
        self.f.write_char('(')?;
        self.defined(&params, |at| Def::Param(block, at))?;
        self.f.write_str("):\n")?;
        insts.into_iter().try_for_each(|i| self.inst(i, depth + 1))
    }

    fn inst(&mut self, inst: u32, depth: usize) -> fmt::Result {
        self.margin(depth)?;
        if !self.insts.insert(Number(inst)) {
            return writeln!(self.f, "{}{inst}", S::PREFIXES.inst);
        }
        if inst != self.next {
            write!(self.f, "{}{inst}: ", S::PREFIXES.inst)?;
        }
        self.next = inst + 1;
        let (results, blocks) = self.shape.inst(inst);
        self.shape.write_guard(inst, self.f)?;
        self.defined(&results, |at| Def::Result(inst, at))?;
        self.f.write_str(if results.is_empty() { "" } else { " = " })?;
        self.shape.write_operation(inst, self.f)?;
        let loc = self.shape.loc(inst);
        if loc != Loc::default() {
            write!(self.f, " at {}:{}", loc.line, loc.column)?;
        }
        self.nested(&blocks, depth)
    }

    fn nested(&mut self, blocks: &[u32], depth: usize) -> fmt::Result {
        if blocks.is_empty() {
            return self.f.write_char('\n');
        }
        self.f.write_str(" {\n")?;
        blocks.iter().try_for_each(|&b| self.block(b, depth + 1))?;
        self.margin(depth)?;
        self.f.write_str("}\n")
    }
}
