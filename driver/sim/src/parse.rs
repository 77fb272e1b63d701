//! PTX text to statements: directives, declarations, scopes, operands.
//!
//! Registers are resolved here, since braces open scopes (inline assembly of other compilers uses
//! them); opcodes stay text until [`super::decode`].

use super::PtxError;
use super::ast::{EntryAst, Param, Variable};
use super::cursor::{ModuleAst, Parser, describe};
use super::lex::{Pos, Tok, tokens};
use super::literal::type_bytes;
use super::parse_body::Body;

/// Reads a whole PTX module.
pub(crate) fn module(text: &str) -> Result<ModuleAst, PtxError> {
    let mut p = Parser { tokens: tokens(text)?, at: 0, module: ModuleAst::default(), shared: Vec::new() };
    while p.peek() != Tok::End {
        p.top_level()?;
    }
    Ok(p.module)
}

impl<'a> Parser<'a> {
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
            Tok::Word(".const") => {
                let v = self.initialised()?;
                self.module.constants.push(v);
                Ok(())
            }
            Tok::Word(".global") => {
                let v = self.initialised()?;
                self.module.globals.push(v);
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
        if self.eat_word(".func") {
            return self.function(pos);
        }
        if !self.eat_word(".shared") {
            return Err(pos.error("only `.extern .shared` and `vprintf` are simulated"));
        }
        let v = self.variable(true)?;
        self.shared.push(v);
        Ok(())
    }

    /// The declaration of the only function that is simulated.
    fn function(&mut self, pos: Pos) -> Result<(), PtxError> {
        let mut known = false;
        while !self.eat(';') {
            known |= self.peek() == Tok::Word("vprintf");
            if self.next() == Tok::End {
                return Err(pos.error("declaration without an end"));
            }
        }
        if known { Ok(()) } else { Err(pos.error("only `vprintf` is simulated among functions")) }
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

    pub(crate) fn pragma(&mut self) -> Result<(), PtxError> {
        let pos = self.pos();
        let Tok::Text(_) = self.next() else {
            return Err(pos.error("expected the text of the pragma"));
        };
        self.need(';')
    }

    /// `.align 16 .b8 name[64];` after the space.
    pub(crate) fn variable(&mut self, external: bool) -> Result<Variable, PtxError> {
        let (variable, _, pos) = self.declared()?;
        if self.peek() == Tok::Punct('=') {
            return Err(self.pos().error("an initialised variable of this memory is not simulated"));
        }
        self.need(';')?;
        match variable.bytes {
            None if !external => Err(pos.error(format!("`{}` has no size", variable.name))),
            _ => Ok(variable),
        }
    }

    /// A variable up to its extents, its type, and where it begins.
    pub(crate) fn declared(&mut self) -> Result<(Variable, &'a str, Pos), PtxError> {
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
        let bytes = count.and_then(|c| c.checked_mul(size));
        Ok((Variable { name, align: align.unwrap_or(size).max(1), bytes, init: Vec::new() }, ty, pos))
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
        let mut body = Body::new(entry);
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
}
