//! Reading. Each method is a rule of the grammar (`docs/machine-ir.md`).

use super::draft::{Draft, InstPart, Mentions, Parts, ValuePart};
use super::{Def, MAX_NESTED, Prefixes};
use crate::text::{Field, Result, number_of};
use crate::tile::Loc;
use crate::tile::parse::cursor::Cursor;
use crate::tile::parse::lex::Tok;

/// How an IR reads its own parts.
pub(crate) trait Grammar {
    /// How numbers are written.
    const PREFIXES: Prefixes;
    /// Type of a value.
    type Type: Field;
    /// The part before the results.
    type Guard;
    /// An operation.
    type Operation;

    /// Reads the part before the results.
    fn guard(&self, c: &mut Cursor<'_>, mentions: &mut dyn Mentions) -> Result<Self::Guard>;
    /// Reads an operation, up to its place or nested blocks.
    fn operation(
        &self,
        c: &mut Cursor<'_>,
        guard: Self::Guard,
        mentions: &mut dyn Mentions,
    ) -> Result<Self::Operation>;
}

/// `func b0 { .. }`
pub(crate) fn parse<G: Grammar>(c: &mut Cursor<'_>, grammar: &G) -> Result<Parts<G::Type, G::Operation>> {
    let mut parser = Parser { c, grammar, draft: Draft::new(G::PREFIXES), next: 0 };
    let (entry, order) = parser.func()?;
    parser.draft.finish(entry, order)
}

struct Parser<'c, 't, G: Grammar> {
    c: &'c mut Cursor<'t>,
    grammar: &'c G,
    draft: Draft<G::Type, G::Operation>,
    /// The number of the next instruction without a written number.
    next: u32,
}

/// The number of the next token, if it is an entity of this prefix.
pub(crate) fn next_number(c: &Cursor<'_>, prefix: &str) -> Option<u32> {
    match c.peek() {
        Tok::Ident(w) => number_of(w, prefix),
        _ => None,
    }
}

impl<G: Grammar> Parser<'_, '_, G> {
    /// `func b0 { blocks [detached ..] }`
    fn func(&mut self) -> Result<(u32, Vec<u32>)> {
        self.c.expect_word("func")?;
        let entry = self.block_name()?;
        self.c.expect("{")?;
        let order = self.bodies()?;
        if self.c.eat_word("detached") {
            self.detached()?;
        }
        self.c.expect("}")?;
        Ok((entry, order))
    }

    /// Instructions of no block, blocks of no order, values defined elsewhere.
    fn detached(&mut self) -> Result<()> {
        while !self.c.is("}") {
            if self.is_next(G::PREFIXES.block) {
                self.body()?;
            } else if self.c.eat_word("value") {
                self.moved()?;
            } else {
                self.inst()?;
            }
        }
        Ok(())
    }

    /// `r9: b32 = i4.0`
    fn moved(&mut self) -> Result<()> {
        let (value, span) = (self.number(G::PREFIXES.value)?, self.c.last_span());
        let (name, ty) = self.declaration()?;
        self.c.expect("=")?;
        let of_inst = self.is_next(G::PREFIXES.inst);
        let of = if of_inst { self.number(G::PREFIXES.inst)? } else { self.block_name()? };
        if of_inst {
            self.draft.inst(of, self.c.last_span());
        }
        self.c.expect(".")?;
        let at = u32::read(self.c)?;
        let def = if of_inst { Def::Result(of, at) } else { Def::Param(of, at) };
        self.draft.define_value(value, ValuePart { ty, def, name }, span)?;
        self.line_end()
    }

    fn is_next(&self, prefix: &str) -> bool {
        next_number(self.c, prefix).is_some()
    }

    /// An entity's number.
    fn number(&mut self, prefix: &str) -> Result<u32> {
        let Some(number) = next_number(self.c, prefix) else {
            return self.c.expected(&format!("`{prefix}` and a number"));
        };
        self.c.skip();
        Ok(number)
    }

    /// A block that must stand somewhere.
    fn block_name(&mut self) -> Result<u32> {
        let block = self.number(G::PREFIXES.block)?;
        self.draft.block(block, self.c.last_span());
        Ok(block)
    }

    /// Blocks, as long as there are any.
    fn bodies(&mut self) -> Result<Vec<u32>> {
        let mut blocks = Vec::new();
        while self.is_next(G::PREFIXES.block) {
            blocks.push(self.body()?);
        }
        Ok(blocks)
    }

    /// `b3(r0: b32):` and its instructions, or `b3` alone where it stands elsewhere.
    fn body(&mut self) -> Result<u32> {
        let (block, span) = (self.block_name()?, self.c.last_span());
        if self.c.at_line_end() || self.c.is("}") {
            return Ok(block);
        }
        self.c.expect("(")?;
        let mut params = Vec::new();
        while !self.c.eat(")") {
            params.push(self.defined(Def::Param(block, params.len() as u32))?);
            if !self.c.is(")") {
                self.c.expect(",")?;
            }
        }
        self.c.expect(":")?;
        self.line_end()?;
        let mut insts = Vec::new();
        while !self.c.is("}") && !self.is_next(G::PREFIXES.block) && !self.ends_blocks() {
            insts.push(self.inst()?);
        }
        self.draft.define_block(block, params, insts, span)?;
        Ok(block)
    }

    fn ends_blocks(&self) -> bool {
        *self.c.peek() == Tok::End || self.c.is_word("detached") || self.c.is_word("value")
    }

    /// `r5 "name": uniform b32`, or `r5` alone where its definition is elsewhere.
    fn defined(&mut self, def: Def) -> Result<u32> {
        let (value, span) = (self.number(G::PREFIXES.value)?, self.c.last_span());
        self.draft.value(value, span);
        if self.c.is(":") || matches!(self.c.peek(), Tok::Str(_)) {
            let (name, ty) = self.declaration()?;
            self.draft.define_value(value, ValuePart { ty, def, name }, span)?;
        }
        Ok(value)
    }

    /// `"name": uniform b32`
    fn declaration(&mut self) -> Result<(Option<String>, G::Type)> {
        let named = matches!(self.c.peek(), Tok::Str(_));
        let name = if named { Some(String::read(self.c)?) } else { None };
        self.c.expect(":")?;
        Ok((name, G::Type::read(self.c)?))
    }

    /// An instruction, or `i7` alone where it stands elsewhere.
    fn inst(&mut self) -> Result<u32> {
        let span = self.c.span();
        let mut number = self.next;
        if self.is_next(G::PREFIXES.inst) {
            number = self.number(G::PREFIXES.inst)?;
            if !self.c.eat(":") {
                self.draft.inst(number, span);
                self.line_end()?;
                return Ok(number);
            }
        }
        self.next = number.saturating_add(1);
        let guard = self.grammar.guard(self.c, &mut self.draft)?;
        let results = self.results(number)?;
        let operation = self.grammar.operation(self.c, guard, &mut self.draft)?;
        let (loc, blocks) = (self.loc()?, self.nested()?);
        self.line_end()?;
        self.draft.define_inst(number, InstPart { operation, results, blocks, loc }, span)?;
        Ok(number)
    }

    /// `r1: b32, r2: event =`
    fn results(&mut self, inst: u32) -> Result<Vec<u32>> {
        let mut results = Vec::new();
        while self.is_next(G::PREFIXES.value) {
            results.push(self.defined(Def::Result(inst, results.len() as u32))?);
            if !self.c.eat(",") {
                break;
            }
        }
        if !results.is_empty() {
            self.c.expect("=")?;
        }
        Ok(results)
    }

    /// `at 12:5`
    fn loc(&mut self) -> Result<Loc> {
        if !self.c.eat_word("at") {
            return Ok(Loc::default());
        }
        let line = u32::read(self.c)?;
        self.c.expect(":")?;
        Ok(Loc { line, column: u32::read(self.c)? })
    }

    /// `{ blocks }`
    fn nested(&mut self) -> Result<Vec<u32>> {
        if !self.c.is("{") {
            return Ok(Vec::new());
        }
        if self.c.depth >= MAX_NESTED {
            return self.c.error(format!("blocks are nested deeper than {MAX_NESTED} levels"));
        }
        self.c.skip();
        self.c.depth += 1;
        let blocks = self.bodies()?;
        self.c.depth -= 1;
        self.c.expect("}")?;
        Ok(blocks)
    }

    fn line_end(&mut self) -> Result<()> {
        if self.c.at_line_end() || self.c.is("}") { Ok(()) } else { self.c.expected("the end of the line") }
    }
}
