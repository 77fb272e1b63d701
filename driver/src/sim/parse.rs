//! PTX text to statements: directives, declarations, scopes, operands.
//!
//! Registers are resolved here, since braces open scopes (inline assembly of other compilers uses
//! them); opcodes stay text until [`super::decode`].

use super::PtxError;
use super::ast::{Class, EntryAst, Operand, Param, Register, Statement, Variable};
use super::lex::{Pos, Tok, Token, tokens};
use super::literal::{integer, literal, register_class, type_bytes};
use std::collections::HashMap;

/// A module as written.
#[derive(Debug, Default)]
pub(crate) struct ModuleAst {
    pub entries: Vec<EntryAst>,
    pub files: HashMap<u32, String>,
    pub target: String,
}

/// Reads a whole PTX module.
pub(crate) fn module(text: &str) -> Result<ModuleAst, PtxError> {
    let mut p = Parser { tokens: tokens(text)?, at: 0, module: ModuleAst::default(), shared: Vec::new() };
    while p.peek() != Tok::End {
        p.top_level()?;
    }
    Ok(p.module)
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    module: ModuleAst,
    /// Shared variables of module scope.
    shared: Vec<Variable>,
}

/// What a scope declares: single names, and prefixes with a count (`%r<255>`).
#[derive(Default)]
struct Scope {
    names: HashMap<String, Class>,
    ranges: HashMap<String, (u32, Class)>,
    registers: HashMap<String, Register>,
}

struct Body {
    entry: EntryAst,
    scopes: Vec<Scope>,
    loc: Option<(u32, u32, u32)>,
}

impl<'a> Parser<'a> {
    fn token(&self) -> Token<'a> {
        let last = self.tokens.len() - 1;
        self.tokens[self.at.min(last)]
    }

    fn peek(&self) -> Tok<'a> {
        self.token().tok
    }

    fn ahead(&self, n: usize) -> Tok<'a> {
        self.tokens.get(self.at + n).map_or(Tok::End, |t| t.tok)
    }

    fn pos(&self) -> Pos {
        self.token().pos
    }

    fn next(&mut self) -> Tok<'a> {
        let tok = self.peek();
        self.at += 1;
        tok
    }

    fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Tok::Punct(c);
        self.at += usize::from(hit);
        hit
    }

    fn need(&mut self, c: char) -> Result<(), PtxError> {
        let pos = self.pos();
        if self.eat(c) {
            Ok(())
        } else {
            Err(pos.error(format!("expected `{c}`, found {}", describe(self.peek()))))
        }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, PtxError> {
        let pos = self.pos();
        match self.next() {
            Tok::Word(w) => Ok(w),
            t => Err(pos.error(format!("expected {what}, found {}", describe(t)))),
        }
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let hit = self.peek() == Tok::Word(word);
        self.at += usize::from(hit);
        hit
    }

    fn u32(&mut self) -> Result<u32, PtxError> {
        let pos = self.pos();
        match self.next() {
            Tok::Number(n) => match integer(n) {
                Some(v) => u32::try_from(v).map_err(|_| pos.error(format!("`{n}` is over 32 bits"))),
                None => Err(pos.error(format!("`{n}` is no integer"))),
            },
            t => Err(pos.error(format!("expected a number, found {}", describe(t)))),
        }
    }

    fn up_to_three(&mut self) -> Result<[u32; 3], PtxError> {
        let mut out = [self.u32()?, 1, 1];
        for slot in &mut out[1..] {
            if !self.eat(',') {
                break;
            }
            *slot = self.u32()?;
        }
        Ok(out)
    }

    fn top_level(&mut self) -> Result<(), PtxError> {
        let pos = self.pos();
        match self.next() {
            Tok::Word(".version" | ".address_size") => {
                self.next();
                Ok(())
            }
            Tok::Word(".target") => self.target(),
            Tok::Word(".visible" | ".weak") => Ok(()),
            Tok::Word(".extern") => self.external(pos),
            Tok::Word(".entry") => self.entry(pos),
            Tok::Word(".shared") => {
                let v = self.variable(false)?;
                self.shared.push(v);
                Ok(())
            }
            Tok::Word(".file") => self.file(),
            Tok::Word(".section") => self.section(),
            Tok::Word(".pragma") => self.pragma(),
            Tok::Punct(';') => Ok(()),
            t => Err(pos.error(format!("{} at module scope is not simulated", describe(t)))),
        }
    }

    fn target(&mut self) -> Result<(), PtxError> {
        self.module.target = self.word("a target")?.to_owned();
        while self.eat(',') {
            self.word("a target")?;
        }
        Ok(())
    }

    fn external(&mut self, pos: Pos) -> Result<(), PtxError> {
        if !self.eat_word(".shared") {
            return Err(pos.error("only `.extern .shared` is simulated"));
        }
        let v = self.variable(true)?;
        self.shared.push(v);
        Ok(())
    }

    fn file(&mut self) -> Result<(), PtxError> {
        let n = self.u32()?;
        let pos = self.pos();
        let Tok::Text(name) = self.next() else {
            return Err(pos.error("expected a file name"));
        };
        self.module.files.insert(n, name.to_owned());
        while self.eat(',') {
            self.u32()?;
        }
        Ok(())
    }

    /// Debug sections are skipped whole.
    fn section(&mut self) -> Result<(), PtxError> {
        let pos = self.pos();
        while self.peek() != Tok::Punct('}') {
            if self.next() == Tok::End {
                return Err(pos.error("section without an end"));
            }
        }
        self.need('}')
    }

    fn pragma(&mut self) -> Result<(), PtxError> {
        let pos = self.pos();
        let Tok::Text(_) = self.next() else {
            return Err(pos.error("expected the text of the pragma"));
        };
        self.need(';')
    }

    /// `.align 16 .b8 name[64];` after the space.
    fn variable(&mut self, external: bool) -> Result<Variable, PtxError> {
        let pos = self.pos();
        let align = self.alignment()?;
        let ty = self.word("a type")?;
        let size = type_bytes(ty).ok_or_else(|| pos.error(format!("`{ty}` is no type")))?;
        let name = self.word("a name")?.to_owned();
        let mut count = Some(1u32);
        while self.eat('[') {
            if self.eat(']') {
                count = None;
                continue;
            }
            let n = self.u32()?;
            count = count.and_then(|c| c.checked_mul(n));
            self.need(']')?;
        }
        if self.peek() == Tok::Punct('=') {
            return Err(self.pos().error("an initialised variable is not simulated"));
        }
        self.need(';')?;
        let bytes = count.and_then(|c| c.checked_mul(size));
        if bytes.is_none() && !external {
            return Err(pos.error(format!("`{name}` has no size")));
        }
        Ok(Variable { name, align: align.unwrap_or(size).max(1), bytes })
    }

    fn alignment(&mut self) -> Result<Option<u32>, PtxError> {
        if !self.eat_word(".align") {
            return Ok(None);
        }
        let pos = self.pos();
        let n = self.u32()?;
        if !n.is_power_of_two() {
            return Err(pos.error(format!("alignment {n} is no power of two")));
        }
        Ok(Some(n))
    }

    fn entry(&mut self, pos: Pos) -> Result<(), PtxError> {
        let mut entry = EntryAst {
            name: self.word("a name")?.to_owned(),
            pos,
            shared: self.shared.clone(),
            ..EntryAst::default()
        };
        if self.eat('(') {
            self.params(&mut entry)?;
        }
        self.entry_directives(&mut entry)?;
        let mut body = Body { entry, scopes: vec![Scope::default()], loc: None };
        self.need('{')?;
        self.body(&mut body)?;
        self.module.entries.push(body.entry);
        Ok(())
    }

    fn params(&mut self, entry: &mut EntryAst) -> Result<(), PtxError> {
        if self.eat(')') {
            return Ok(());
        }
        let mut end = 0u32;
        loop {
            let param = self.param(end)?;
            end = param.offset + param.bytes;
            entry.params.push(param);
            if self.eat(')') {
                return Ok(());
            }
            self.need(',')?;
        }
    }

    fn param(&mut self, end: u32) -> Result<Param, PtxError> {
        let pos = self.pos();
        if !self.eat_word(".param") {
            return Err(pos.error("expected `.param`"));
        }
        let mut align = self.alignment()?;
        let ty = self.word("a type")?;
        let size = type_bytes(ty).ok_or_else(|| pos.error(format!("`{ty}` is no type")))?;
        if self.eat_word(".ptr") {
            while matches!(self.peek(), Tok::Word(".global" | ".shared" | ".const" | ".local")) {
                self.next();
            }
            self.alignment()?;
        }
        align = align.or(self.alignment()?);
        let name = self.word("a name")?.to_owned();
        let mut count = 1;
        if self.eat('[') {
            count = self.u32()?;
            self.need(']')?;
        }
        let align = align.unwrap_or(size);
        let offset = end.checked_next_multiple_of(align);
        let bytes = size.checked_mul(count).filter(|b| *b <= 1 << 16);
        match (offset, bytes) {
            (Some(offset), Some(bytes)) if offset <= 1 << 16 => Ok(Param { name, offset, bytes }),
            _ => Err(pos.error("parameters of over 65536 bytes")),
        }
    }

    fn entry_directives(&mut self, entry: &mut EntryAst) -> Result<(), PtxError> {
        loop {
            let pos = self.pos();
            match self.peek() {
                Tok::Punct('{') => return Ok(()),
                Tok::Word(w) => {
                    self.next();
                    match w {
                        ".reqntid" => entry.reqntid = Some(self.up_to_three()?),
                        ".maxntid" => entry.maxntid = Some(self.up_to_three()?),
                        ".reqnctapercluster" => entry.cluster = Some(self.up_to_three()?),
                        ".maxnreg" => entry.maxnreg = Some(self.u32()?),
                        ".minnctapersm" | ".maxnctapersm" | ".maxclusterrank" => {
                            self.u32()?;
                        }
                        ".explicitcluster" | ".blocksareclusters" => {}
                        ".pragma" => self.pragma()?,
                        _ => return Err(pos.error(format!("`{w}` on an entry is not simulated"))),
                    }
                }
                t => return Err(pos.error(format!("expected `{{`, found {}", describe(t)))),
            }
        }
    }

    fn body(&mut self, b: &mut Body) -> Result<(), PtxError> {
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
            ".local" => {
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
        if !self.eat(';') {
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

    fn number(&mut self) -> Result<Operand, PtxError> {
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

fn describe(t: Tok<'_>) -> String {
    match t {
        Tok::Word(w) | Tok::Number(w) => format!("`{w}`"),
        Tok::Text(w) => format!("\"{w}\""),
        Tok::Punct(c) => format!("`{c}`"),
        Tok::End => "the end of the text".to_owned(),
    }
}
