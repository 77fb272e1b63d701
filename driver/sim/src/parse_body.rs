//! The body of an entry: scopes of registers, labels, statements and their operands.

use super::PtxError;
use super::ast::{Class, EntryAst, Operand, Register, Statement};
use super::cursor::{Parser, describe};
use super::lex::{Pos, Tok};
use super::literal::{literal, register_class};
use std::collections::HashMap;

/// What a scope declares: single names, and prefixes with a count (`%r<255>`).
#[derive(Default)]
struct Scope {
    names: HashMap<String, Class>,
    ranges: HashMap<String, (u32, Class)>,
    registers: HashMap<String, Register>,
}

pub(crate) struct Body {
    pub entry: EntryAst,
    scopes: Vec<Scope>,
    loc: Option<(u32, u32, u32)>,
}

impl Parser<'_> {
    pub(crate) fn body(&mut self, b: &mut Body) -> Result<(), PtxError> {
        loop {
            let pos = self.pos();
            match self.peek() {
                Tok::Punct('}') => {
                    self.next();
                    b.scopes.pop();
                    if b.scopes.is_empty() {
                        return Ok(());
                    }
                }
                Tok::Punct('{') => {
                    self.next();
                    if b.scopes.len() > 64 {
                        return Err(pos.error("blocks nested over 64 deep"));
                    }
                    b.scopes.push(Scope::default());
                }
                Tok::Punct(';') => {
                    self.next();
                }
                Tok::End => return Err(pos.error("the entry's body has no end")),
                Tok::Word(w) if w.starts_with('.') => {
                    self.next();
                    self.directive(b, w, pos)?;
                }
                Tok::Word(w) if self.ahead(1) == Tok::Punct(':') => {
                    self.at += 2;
                    self.label(b, w, pos)?;
                }
                _ => self.statement(b)?,
            }
        }
    }

    fn label(&mut self, b: &mut Body, name: &str, pos: Pos) -> Result<(), PtxError> {
        let here = b.entry.statements.len() as u32;
        match b.entry.labels.insert(name.to_owned(), here) {
            None => Ok(()),
            Some(_) => Err(pos.error(format!("label `{name}` twice"))),
        }
    }

    fn directive(&mut self, b: &mut Body, word: &str, pos: Pos) -> Result<(), PtxError> {
        match word {
            ".reg" => self.registers(b),
            ".shared" => {
                let v = self.variable(false)?;
                b.entry.shared.push(v);
                Ok(())
            }
            // The arguments of a call are memory of the thread.
            ".local" | ".param" => {
                let v = self.variable(false)?;
                b.entry.local.push(v);
                Ok(())
            }
            ".extern" if self.eat_word(".shared") => {
                let v = self.variable(true)?;
                b.entry.shared.push(v);
                Ok(())
            }
            ".loc" => self.location(b),
            ".pragma" => self.pragma(),
            _ => Err(pos.error(format!("`{word}` in a body is not simulated"))),
        }
    }

    fn location(&mut self, b: &mut Body) -> Result<(), PtxError> {
        let (file, line, column) = (self.u32()?, self.u32()?, self.u32()?);
        b.loc = Some((file, line, column));
        while self.eat(',') {
            self.word("an attribute")?;
            while matches!(self.peek(), Tok::Word(w) if w.starts_with('$')) || self.eat('+') {
                self.next();
            }
            while matches!(self.peek(), Tok::Number(_)) {
                self.next();
            }
        }
        Ok(())
    }

    fn registers(&mut self, b: &mut Body) -> Result<(), PtxError> {
        let pos = self.pos();
        let ty = self.word("a register type")?;
        let class = register_class(ty)
            .ok_or_else(|| pos.error(format!("registers of type `{ty}` are not simulated")))?;
        loop {
            let name = self.word("a register name")?.to_owned();
            let Some(scope) = b.scopes.last_mut() else {
                return Err(pos.error("register outside a body"));
            };
            if self.eat('<') {
                let n = self.u32()?;
                self.need('>')?;
                scope.ranges.insert(name, (n, class));
            } else {
                scope.names.insert(name, class);
            }
            if !self.eat(',') {
                return self.need(';');
            }
        }
    }

    fn statement(&mut self, b: &mut Body) -> Result<(), PtxError> {
        let mut guard = None;
        if self.eat('@') {
            let negated = self.eat('!');
            let pos = self.pos();
            let name = self.word("a predicate")?;
            let Some(r) = b.register(name).filter(|r| r.class == Class::Pred) else {
                return Err(pos.error(format!("`{name}` is no predicate register")));
            };
            guard = Some((r, negated));
        }
        let pos = self.pos();
        let opcode = self.word("an instruction")?.to_owned();
        let mut operands = Vec::new();
        if opcode == "call" || opcode == "call.uni" {
            operands = self.called(b)?;
        } else if !self.eat(';') {
            loop {
                operands.push(self.operand(b, 0)?);
                if self.eat(';') {
                    break;
                }
                self.need(',')?;
            }
        }
        b.entry.statements.push(Statement { pos, guard, opcode, operands, loc: b.loc });
        Ok(())
    }

    /// `(result), name, (argument, argument)` of a call, as a plain list.
    fn called(&mut self, b: &mut Body) -> Result<Vec<Operand>, PtxError> {
        let mut all = Vec::new();
        while !self.eat(';') {
            if !self.eat('(') && !self.eat(')') && !self.eat(',') {
                all.push(self.operand(b, 0)?);
            }
        }
        Ok(all)
    }

    fn operand(&mut self, b: &mut Body, depth: u32) -> Result<Operand, PtxError> {
        let pos = self.pos();
        if depth > 4 {
            return Err(pos.error("operands nested over 4 deep"));
        }
        match self.peek() {
            Tok::Punct('{') => {
                self.next();
                self.list(b, depth).map(Operand::Vector)
            }
            Tok::Punct('[') => {
                self.next();
                self.address(b, depth)
            }
            Tok::Punct('!') => {
                self.next();
                match self.operand(b, depth + 1)? {
                    Operand::Reg(r) if r.class == Class::Pred => Ok(Operand::Not(r)),
                    _ => Err(pos.error("`!` before something that is no predicate")),
                }
            }
            Tok::Punct('-') | Tok::Number(_) => self.number(),
            Tok::Word(w) => {
                self.next();
                let first = self.name(b, w)?;
                if self.eat('|') {
                    let second = self.operand(b, depth + 1)?;
                    return Ok(Operand::Pair(Box::new((first, second))));
                }
                Ok(first)
            }
            t => Err(pos.error(format!("expected an operand, found {}", describe(t)))),
        }
    }

    fn name(&mut self, b: &mut Body, w: &str) -> Result<Operand, PtxError> {
        if w == "_" {
            return Ok(Operand::Sink);
        }
        if let Some(r) = b.register(w) {
            return Ok(Operand::Reg(r));
        }
        let offset = self.offset()?;
        Ok(Operand::Name(w.to_owned(), offset))
    }

    /// `+ 16`, `- 16`, `+ -16` or nothing.
    fn offset(&mut self) -> Result<i64, PtxError> {
        let mut total = 0i64;
        loop {
            let negative = match self.peek() {
                Tok::Punct('+') => false,
                Tok::Punct('-') => true,
                _ => return Ok(total),
            };
            self.next();
            let negative = negative ^ self.eat('-');
            let v = i64::from(self.u32()?);
            total = if negative { total.wrapping_sub(v) } else { total.wrapping_add(v) };
        }
    }

    fn list(&mut self, b: &mut Body, depth: u32) -> Result<Vec<Operand>, PtxError> {
        let mut items = Vec::new();
        if self.eat('}') {
            return Ok(items);
        }
        loop {
            items.push(self.operand(b, depth + 1)?);
            if self.eat('}') {
                return Ok(items);
            }
            self.need(',')?;
        }
    }

    fn address(&mut self, b: &mut Body, depth: u32) -> Result<Operand, PtxError> {
        let base = self.operand(b, depth + 1)?;
        let (base, mut offset) = match base {
            Operand::Name(n, o) => (Operand::Name(n, 0), o),
            other => (other, 0),
        };
        offset = offset.wrapping_add(self.offset()?);
        let mut coordinates = None;
        if self.eat(',') {
            self.need('{')?;
            coordinates = Some(self.list(b, depth)?);
        }
        self.need(']')?;
        Ok(Operand::Address { base: Box::new(base), offset, coordinates })
    }

    pub(super) fn number(&mut self) -> Result<Operand, PtxError> {
        let negative = self.eat('-');
        let pos = self.pos();
        let Tok::Number(text) = self.next() else {
            return Err(pos.error("expected a number"));
        };
        let bad = || pos.error(format!("`{text}` is no number"));
        let mut value = literal(text).ok_or_else(bad)?;
        if negative {
            value = match value {
                Operand::Int(v) => Operand::Int(v.wrapping_neg()),
                Operand::F32(v) => Operand::F32(v ^ 1 << 31),
                Operand::F64(v) => Operand::F64(v ^ 1 << 63),
                Operand::Decimal(v) => Operand::Decimal(-v),
                other => other,
            };
        }
        Ok(value)
    }
}

impl Body {
    pub fn new(entry: EntryAst) -> Self {
        Self { entry, scopes: vec![Scope::default()], loc: None }
    }

    /// The register that a name means here, made on first use.
    fn register(&mut self, name: &str) -> Option<Register> {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse::<u32>().ok();
        for i in (0..self.scopes.len()).rev() {
            if let Some(r) = self.scopes[i].registers.get(name) {
                return Some(*r);
            }
            let scope = &self.scopes[i];
            let class = scope.names.get(name).copied().or_else(|| {
                let (count, class) = scope.ranges.get(stem)?;
                (number? < *count).then_some(*class)
            });
            if let Some(class) = class {
                let r = self.make(name, class);
                self.scopes[i].registers.insert(name.to_owned(), r);
                return Some(r);
            }
        }
        None
    }

    fn make(&mut self, name: &str, class: Class) -> Register {
        let (counter, names) = match class {
            Class::Pred => (&mut self.entry.predicates, &mut self.entry.predicate_names),
            Class::Bits(_) => (&mut self.entry.registers, &mut self.entry.register_names),
        };
        let id = *counter;
        *counter += 1;
        names.push(name.to_owned());
        Register { id, class }
    }
}
