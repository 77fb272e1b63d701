//! A position in the tokens, and the basic steps of every grammar rule.

use super::ParseError;
use super::ast::Name;
use super::lex::{Span, Tok, Token};
use crate::tile::MAX_BLOCK_DEPTH;
use crate::tile::names::is_reserved;
use crate::tile::suggest::did_you_mean;

/// The result of a step; an error propagates up.
pub(crate) type Result<T> = std::result::Result<T, ParseError>;

/// A block whose `}` stands at the indentation of another block.
#[derive(Clone, Copy)]
pub(super) struct Misplaced {
    /// Its `{`.
    pub open: Span,
    /// The line of its `}`.
    pub close: u32,
}

/// A place in the tokens.
pub(crate) struct Cursor<'a> {
    tokens: &'a [Token],
    at: usize,
    /// Blocks and brackets that are open, against endless nesting.
    pub depth: u32,
    /// Mistakes after which parsing continued.
    pub errors: Vec<ParseError>,
    /// The first block whose `}` does not stand where its indentation says.
    pub(super) misplaced: Option<Misplaced>,
    /// Whether a block that is not closed was reported.
    pub(super) is_unclosed: bool,
}

/// Levels of nesting that text may have: of blocks, and of expressions in one another. Enough for the
/// deepest kernel that the builder makes.
pub(crate) const MAX_DEPTH: u32 = MAX_BLOCK_DEPTH + 32;

impl<'a> Cursor<'a> {
    /// At the first token; the last one must be [`Tok::End`].
    pub fn new(tokens: &'a [Token]) -> Self {
        Self { tokens, at: 0, depth: 0, errors: Vec::new(), misplaced: None, is_unclosed: false }
    }

    /// Records a mistake. Parsing continues.
    pub fn report(&mut self, error: ParseError) {
        self.errors.push(error);
    }

    /// The place in the tokens, for [`Self::between`].
    pub fn at(&self) -> usize {
        self.at
    }

    /// The tokens between two places.
    pub fn between(&self, start: usize, end: usize) -> &'a [Token] {
        self.tokens.get(start..end).unwrap_or_default()
    }

    /// The consumed tokens.
    pub fn before(&self) -> impl DoubleEndedIterator<Item = &'a Token> {
        self.tokens[..self.at.min(self.tokens.len())].iter()
    }

    /// The token so many places ahead, the last one past the end.
    fn ahead(&self, by: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + by).or(self.tokens.last())
    }

    /// The kind of the next token.
    pub fn peek(&self) -> &'a Tok {
        self.peek_at(0)
    }

    /// The kind of the token so many places ahead.
    pub fn peek_at(&self, by: usize) -> &'a Tok {
        self.ahead(by).map_or(&Tok::End, |t| &t.tok)
    }

    /// The place of the next token.
    pub fn span(&self) -> Span {
        self.ahead(0).map_or(Span::default(), |t| t.span)
    }

    /// The place of the last token.
    pub fn last_span(&self) -> Span {
        let last = self.at.checked_sub(1).and_then(|i| self.tokens.get(i));
        last.map_or(Span::default(), |t| t.span)
    }

    /// Whether the last token ends its line.
    pub fn at_line_end(&self) -> bool {
        *self.peek() == Tok::End || self.span().loc.line != self.last_span().loc.line
    }

    /// Steps over a token.
    pub fn skip(&mut self) {
        if self.at < self.tokens.len() {
            self.at += 1;
        }
    }

    /// Whether the next token is this punctuation.
    pub fn is(&self, punct: &str) -> bool {
        matches!(self.peek(), Tok::Punct(p) if *p == punct)
    }

    /// Whether the next token is this word.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Tok::Ident(w) if w == word)
    }

    /// Steps over this punctuation if it is next.
    pub fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        if found {
            self.skip();
        }
        found
    }

    /// Steps over this word if it is next.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.skip();
        }
        found
    }

    /// An error at the next token.
    pub fn error<T>(&self, message: String) -> Result<T> {
        Err(ParseError::at(self.span(), message))
    }

    /// An error with the expected and the found token.
    pub fn expected<T>(&self, what: &str) -> Result<T> {
        self.error(format!("expected {what}, found {}", self.found()))
    }

    /// The next token in words.
    fn found(&self) -> String {
        match self.peek() {
            Tok::Ident(w) => format!("`{w}`"),
            Tok::Int(v) => format!("`{v}`"),
            Tok::Float(v) => format!("`{v:?}`"),
            Tok::Str(_) => "a string".to_owned(),
            Tok::Punct(p) => format!("`{p}`"),
            Tok::End => "the end".to_owned(),
        }
    }

    /// The same, where one of some words was expected: the nearest is named.
    pub fn expected_word<T>(&self, known: &[&str]) -> Result<T> {
        let quoted: Vec<String> = known.iter().map(|w| format!("`{w}`")).collect();
        let (last, others) = quoted.split_last().map_or(("", &[][..]), |(l, o)| (l.as_str(), o));
        let meant = match self.peek() {
            Tok::Ident(word) => did_you_mean(word, known.iter().copied()),
            _ => String::new(),
        };
        self.error(format!("expected {} or {last}, found {}{meant}", others.join(", "), self.found()))
    }

    /// Steps over this punctuation.
    pub fn expect(&mut self, punct: &str) -> Result<()> {
        if self.eat(punct) {
            return Ok(());
        }
        self.expected(&format!("`{punct}`"))
    }

    /// Steps over this word.
    pub fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) {
            return Ok(());
        }
        self.expected(&format!("`{word}`"))
    }

    /// A word.
    pub fn word(&mut self, what: &str) -> Result<&'a str> {
        match self.peek() {
            Tok::Ident(w) => {
                self.skip();
                Ok(w)
            }
            _ => self.expected(what),
        }
    }

    /// A word that may name something.
    pub fn name(&mut self, what: &str) -> Result<Name> {
        let span = self.span();
        match self.peek() {
            Tok::Ident(w) if is_reserved(w) => {
                self.error(format!("`{w}` is reserved and cannot name {what}"))
            }
            _ => self.word(what).map(|w| Name { text: w.to_owned(), span }),
        }
    }

    /// A whole number with an optional sign that fits i64.
    pub fn integer(&mut self) -> Result<i64> {
        let negative = self.eat("-");
        let Tok::Int(value) = *self.peek() else {
            return self.expected("an integer");
        };
        let value = i128::from(value) * if negative { -1 } else { 1 };
        match i64::try_from(value) {
            Ok(v) => {
                self.skip();
                Ok(v)
            }
            Err(_) => self.error(format!("{value} does not fit 64 bits")),
        }
    }

    /// A whole number without sign that fits u32.
    pub fn count(&mut self) -> Result<u32> {
        match *self.peek() {
            Tok::Int(v) => match u32::try_from(v) {
                Ok(v) => {
                    self.skip();
                    Ok(v)
                }
                Err(_) => self.error(format!("{v} does not fit 32 bits")),
            },
            _ => self.expected("a number"),
        }
    }

    /// Items with commas between them, until the closing bracket, which is stepped over.
    pub fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self)?);
            if !self.is(close) && !self.eat(",") {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
        Ok(items)
    }

    /// One item or more with commas between them.
    pub fn comma_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// One level deeper, or an error at the limit.
    pub fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return self.error(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }
}
