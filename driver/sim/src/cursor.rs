//! A cursor over the tokens of PTX text, with checks for the expected ones.

use super::PtxError;
use super::ast::{EntryAst, Variable};
use super::lex::{Pos, Tok, Token};
use super::literal::integer;
use std::collections::HashMap;

/// A module as written.
#[derive(Debug, Default)]
pub(crate) struct ModuleAst {
    pub entries: Vec<EntryAst>,
    pub files: HashMap<u32, String>,
    pub target: String,
    /// Variables of module scope in `.const` and in `.global` memory.
    pub constants: Vec<Variable>,
    pub globals: Vec<Variable>,
}

/// A module that is being read, and the place in its tokens.
pub(crate) struct Parser<'a> {
    pub tokens: Vec<Token<'a>>,
    pub at: usize,
    pub module: ModuleAst,
    /// Shared variables of module scope.
    pub shared: Vec<Variable>,
}

impl<'a> Parser<'a> {
    pub(crate) fn token(&self) -> Token<'a> {
        let last = self.tokens.len() - 1;
        self.tokens[self.at.min(last)]
    }

    pub(crate) fn peek(&self) -> Tok<'a> {
        self.token().tok
    }

    pub(crate) fn ahead(&self, n: usize) -> Tok<'a> {
        self.tokens.get(self.at + n).map_or(Tok::End, |t| t.tok)
    }

    pub(crate) fn pos(&self) -> Pos {
        self.token().pos
    }

    pub(crate) fn next(&mut self) -> Tok<'a> {
        let tok = self.peek();
        self.at += 1;
        tok
    }

    pub(crate) fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Tok::Punct(c);
        self.at += usize::from(hit);
        hit
    }

    pub(crate) fn need(&mut self, c: char) -> Result<(), PtxError> {
        let pos = self.pos();
        if self.eat(c) {
            Ok(())
        } else {
            Err(pos.error(format!("expected `{c}`, found {}", describe(self.peek()))))
        }
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<&'a str, PtxError> {
        let pos = self.pos();
        match self.next() {
            Tok::Word(w) => Ok(w),
            t => Err(pos.error(format!("expected {what}, found {}", describe(t)))),
        }
    }

    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let hit = self.peek() == Tok::Word(word);
        self.at += usize::from(hit);
        hit
    }

    pub(crate) fn u32(&mut self) -> Result<u32, PtxError> {
        let pos = self.pos();
        match self.next() {
            Tok::Number(n) => match integer(n) {
                Some(v) => u32::try_from(v).map_err(|_| pos.error(format!("`{n}` is over 32 bits"))),
                None => Err(pos.error(format!("`{n}` is no integer"))),
            },
            t => Err(pos.error(format!("expected a number, found {}", describe(t)))),
        }
    }
}

pub(crate) fn describe(t: Tok<'_>) -> String {
    match t {
        Tok::Word(w) | Tok::Number(w) => format!("`{w}`"),
        Tok::Text(w) => format!("\"{w}\""),
        Tok::Punct(c) => format!("`{c}`"),
        Tok::End => "the end of the text".to_owned(),
    }
}
