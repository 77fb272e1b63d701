//! Recovery after a mistake. It finds the start of the next statement or item, the names that the wrong one would have
//! defined, and unclosed braces. One run therefore shows all mistakes of a text.

use super::ParseError;
use super::ast::Name;
use super::cursor::{Cursor, Misplaced};
use super::lex::{Span, Tok};
use crate::tile::names::is_reserved;

/// Words that start a statement. Other statements start with the names that they give.
const STATEMENTS: [&str; 19] = [
    "const",
    "tunable",
    "grid",
    "yield",
    "for",
    "while",
    "if",
    "store",
    "assert",
    "assume",
    "print",
    "atomic_add",
    "atomic_min",
    "atomic_max",
    "atomic_exchange",
    "atomic_cas",
    "async_copy",
    "async_commit",
    "async_wait",
];

/// Words that start an item of a mapping, beside tunables.
const ITEMS: [&str; 5] = ["for", "array", "tile", "assume", "kernel"];

impl Cursor<'_> {
    /// Whether a kernel, a mapping or a function starts here, at the start of a line.
    pub fn at_top(&self) -> bool {
        let starts = ["kernel", "mapping", "fn"].iter().any(|w| self.is_word(w));
        starts && self.span().loc.column == 1 && matches!(self.peek_at(1), Tok::Ident(_))
    }

    /// Steps to the next kernel or mapping, past the one here.
    pub fn recover(&mut self) {
        while *self.peek() != Tok::End && !self.at_top() {
            self.skip();
        }
    }

    /// Whether names and `=` stand here: the start of a binding.
    pub fn is_binding(&self) -> bool {
        let mut at = 0;
        while let Tok::Ident(_) = self.peek_at(at) {
            match self.peek_at(at + 1) {
                Tok::Punct("=") => return true,
                Tok::Punct(",") => at += 2,
                _ => return false,
            }
        }
        false
    }

    /// Whether the next token is the first of its line.
    fn starts_line(&self) -> bool {
        self.span().loc.line != self.last_span().loc.line
    }

    fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|w| self.is_word(w))
    }

    /// Steps to the end of a wrong statement: before the next one, which starts a line, before the brace that ends the
    /// block, or before one that opens a block, which belongs to the statement (true).
    pub fn skip_statement(&mut self) -> bool {
        loop {
            let next = self.starts_line() && (self.is_binding() || self.is_one_of(&STATEMENTS));
            if *self.peek() == Tok::End || self.is("}") || self.at_top() || next {
                return false;
            }
            if self.is("{") && !matches!(self.peek_at(1), Tok::Int(_)) {
                return true;
            }
            self.skip();
        }
    }

    /// The names that a wrong statement between two places in the tokens would have given.
    pub fn names_between(&self, start: usize, end: usize) -> Vec<Name> {
        let tokens = self.between(start, end);
        let word = |i: usize| match &tokens.get(i)?.tok {
            Tok::Ident(w) if !is_reserved(w) => Some(Name { text: w.clone(), span: tokens[i].span }),
            _ => None,
        };
        let is = |i: usize, p: &str| tokens.get(i).is_some_and(|t| matches!(t.tok, Tok::Punct(q) if q == p));
        let constants =
            tokens.first().is_some_and(|t| matches!(&t.tok, Tok::Ident(w) if w == "tunable" || w == "const"));
        if constants {
            let defined = |i: &usize| is(i + 1, "=") || tokens.len() == i + 1;
            return (1..tokens.len()).filter(defined).filter_map(word).collect();
        }
        let ends = (0..tokens.len()).step_by(2).find(|&i| word(i).is_none() || !is(i + 1, ","));
        match ends {
            Some(last) if is(last + 1, "=") => (0..=last).step_by(2).filter_map(word).collect(),
            _ => Vec::new(),
        }
    }

    /// Steps past a wrong parameter: before a comma or the end of the list.
    pub fn skip_param(&mut self) {
        while !self.is(",") && !self.is(")") && !self.is("{") && *self.peek() != Tok::End && !self.at_top() {
            self.skip();
        }
    }

    /// Steps past a wrong word of a mapping: before a comma, the next item or the end.
    pub fn skip_word(&mut self) {
        while !self.is(",") && !self.at_mapping_item() {
            self.skip();
        }
    }

    /// Steps past a wrong item of a mapping.
    pub fn skip_item(&mut self) {
        while !self.at_mapping_item() {
            self.skip();
        }
    }

    /// Whether an item of a mapping starts here, or its end.
    fn at_mapping_item(&self) -> bool {
        let tunable = matches!(self.peek(), Tok::Ident(_)) && matches!(self.peek_at(1), Tok::Punct("="));
        let item = self.is_one_of(&ITEMS) && !matches!(self.peek_at(1), Tok::Punct(","));
        tunable || item || self.is("}") || self.at_top() || *self.peek() == Tok::End
    }

    /// Steps over the `}` of a block that was opened here. Where the text ends before it, that is reported.
    pub fn close(&mut self, open: Span) {
        if !self.is("}") {
            return self.unclosed(open);
        }
        let (close, first) = (self.span().loc, self.indent_of(open));
        let misplaced = self.starts_line() && close.line != open.loc.line && close.column != first;
        if misplaced && self.misplaced.is_none() {
            self.misplaced = Some(Misplaced { open, close: close.line });
        }
        self.skip();
    }

    /// The column of the first token in the line of a token.
    fn indent_of(&self, of: Span) -> u32 {
        let line = self.before().rev().skip_while(|t| t.span.loc.line > of.loc.line);
        let columns = line.take_while(|t| t.span.loc.line == of.loc.line).map(|t| t.span.loc.column);
        columns.last().unwrap_or(of.loc.column)
    }

    /// Reports a brace that nothing closes, once: the one whose block ends under another's.
    fn unclosed(&mut self, open: Span) {
        if self.is_unclosed {
            return;
        }
        self.is_unclosed = true;
        let (open, why) = match self.misplaced {
            Some(m) => (m.open, format!("the `}}` of line {} stands where another block's would", m.close)),
            None if *self.peek() == Tok::End => (open, "the text ends before its `}`".to_owned()),
            None => (open, format!("line {} starts before its `}}`", self.span().loc.line)),
        };
        self.report(ParseError::at(open, format!("this `{{` is not closed: {why}")));
    }
}
