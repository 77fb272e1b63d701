//! PTX text to tokens, each with its place.
//!
//! An opcode with all its modifiers (`cp.async.bulk.tensor.2d.shared::cluster.global`) is one word,
//! and so is a directive (`.reg`), a register (`%r1`) and a special register (`%tid.x`). A comment that begins with
//! `//sim ` holds a statement for the simulator alone: [`SIMULATED`].

use super::PtxError;

/// What stands before a statement in a comment: `//sim assume.s32 %r1, 8, 0, 64;`.
const SIMULATED: &str = "//sim ";

/// A place in the text, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pos {
    pub line: u32,
    pub column: u32,
}

impl Pos {
    /// An error at this place.
    pub fn error(self, what: impl Into<String>) -> PtxError {
        PtxError { line: self.line, column: self.column, what: what.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tok<'a> {
    Word(&'a str),
    Number(&'a str),
    Text(&'a str),
    Punct(char),
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub tok: Tok<'a>,
    pub pos: Pos,
    /// Bytes of the text.
    pub span: (usize, usize),
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

/// All tokens of a PTX text, closed by [`Tok::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, PtxError> {
    let mut lexer = Lexer { text, at: 0, line: 1, line_start: 0 };
    let mut out = Vec::new();
    loop {
        lexer.blank()?;
        let (pos, start) = (lexer.pos(), lexer.at);
        let tok = lexer.token()?;
        let span = (start, lexer.at);
        out.push(Token { tok, pos, span });
        if tok == Tok::End {
            return Ok(out);
        }
    }
}

impl<'a> Lexer<'a> {
    fn pos(&self) -> Pos {
        Pos { line: self.line, column: u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX) }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn newline(&mut self) {
        self.line += 1;
        self.line_start = self.at + 1;
    }

    fn blank(&mut self) -> Result<(), PtxError> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => {
                    self.newline();
                    self.at += 1;
                }
                (b' ' | b'\t' | b'\r', _) => self.at += 1,
                (b'/', b'/') if self.text[self.at..].starts_with(SIMULATED) => self.at += SIMULATED.len(),
                (b'/', b'/') => {
                    while !matches!(self.byte(0), b'\n' | 0) {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => self.block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn block_comment(&mut self) -> Result<(), PtxError> {
        let start = self.pos();
        self.at += 2;
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'*', b'/') => {
                    self.at += 2;
                    return Ok(());
                }
                (0, _) if self.at >= self.text.len() => {
                    return Err(start.error("comment without an end"));
                }
                (b'\n', _) => {
                    self.newline();
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }

    fn token(&mut self) -> Result<Tok<'a>, PtxError> {
        let start = self.at;
        match self.byte(0) {
            0 if self.at >= self.text.len() => Ok(Tok::End),
            b'"' => self.string(),
            b'0'..=b'9' => {
                self.number();
                Ok(Tok::Number(&self.text[start..self.at]))
            }
            b if word_byte(b) => {
                self.word();
                Ok(Tok::Word(&self.text[start..self.at]))
            }
            b @ (b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>' | b',' | b';' | b':' | b'@' | b'!'
            | b'|' | b'+' | b'-' | b'=' | b'~' | b'*') => {
                self.at += 1;
                Ok(Tok::Punct(char::from(b)))
            }
            _ => Err(self.pos().error("a character that PTX does not have")),
        }
    }

    fn string(&mut self) -> Result<Tok<'a>, PtxError> {
        let start = self.pos();
        self.at += 1;
        let from = self.at;
        while !matches!(self.byte(0), b'"' | b'\n' | 0) {
            self.at += 1;
        }
        if self.byte(0) != b'"' {
            return Err(start.error("string without an end"));
        }
        self.at += 1;
        Ok(Tok::Text(&self.text[from..self.at - 1]))
    }

    fn number(&mut self) {
        let hex = self.byte(0) == b'0' && matches!(self.byte(1), b'x' | b'X' | b'f' | b'F' | b'd' | b'D');
        loop {
            match self.byte(0) {
                b'+' | b'-' if !hex && self.exponent() => self.at += 1,
                b if b.is_ascii_alphanumeric() || b == b'.' => self.at += 1,
                _ => return,
            }
        }
    }

    /// Whether the byte before is the `e` of a decimal float.
    fn exponent(&self) -> bool {
        matches!(self.text.as_bytes().get(self.at.wrapping_sub(1)), Some(b'e' | b'E'))
            && self.byte(1).is_ascii_digit()
    }

    fn word(&mut self) {
        loop {
            if word_byte(self.byte(0)) {
                self.at += 1;
            } else if self.byte(0) == b':' && self.byte(1) == b':' && word_byte(self.byte(2)) {
                self.at += 2;
            } else {
                return;
            }
        }
    }
}

fn word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'%' | b'.')
}
