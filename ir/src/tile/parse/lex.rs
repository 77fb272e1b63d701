//! The lexer turns text into tokens. Line breaks are blanks. `#` starts a comment that ends with its line.

use super::ParseError;
use crate::tile::Loc;

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    /// A word.
    Ident(String),
    /// A whole number without sign.
    Int(u64),
    /// A number with a fraction or exponent.
    Float(f64),
    /// Text in quotes, escapes resolved.
    Str(String),
    /// An operator or bracket of [`PUNCTUATION`].
    Punct(&'static str),
    /// The end of the text.
    End,
}

/// A stretch of text in one line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Span {
    /// Its start.
    pub loc: Loc,
    /// Characters.
    pub len: u32,
}

impl Span {
    /// From the start of this to the end of another, as far as they stand in one line.
    pub fn to(self, end: Self) -> Self {
        let last = end.loc.column.saturating_add(end.len);
        if end.loc.line != self.loc.line || last < self.loc.column {
            return self;
        }
        Self { loc: self.loc, len: last - self.loc.column }
    }
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    /// Its kind.
    pub tok: Tok,
    /// Its place.
    pub span: Span,
}

/// All operators and brackets; one that starts with another stands before it.
const PUNCTUATION: [&str; 33] = [
    "..=", "..", "==", "!=", "<=", ">=", "<<", ">>", "(", ")", "[", "]", "{", "}", ",", ":", "=", "+", "-",
    "*", "/", "%", "&", "|", "^", "<", ">", "!", "@", ";", ".", "~", "?",
];

/// Fewer bytes than a token takes in most texts, blanks included.
const BYTES_OF_TOKEN: usize = 3;

struct Lexer<'a> {
    rest: &'a str,
    loc: Loc,
    tokens: Vec<Token>,
    errors: Vec<ParseError>,
}

/// All tokens, the last one [`Tok::End`], and what could not be read.
pub(crate) fn lex(text: &str) -> (Vec<Token>, Vec<ParseError>) {
    let tokens = Vec::with_capacity(text.len() / BYTES_OF_TOKEN);
    let mut lexer = Lexer { rest: text, loc: Loc { line: 1, column: 1 }, tokens, errors: Vec::new() };
    while lexer.skip_blanks() {
        lexer.token();
    }
    lexer.push(Tok::End, 0);
    (lexer.tokens, lexer.errors)
}

impl Lexer<'_> {
    /// Moves over blanks and comments; false at the end of the text.
    fn skip_blanks(&mut self) -> bool {
        while let Some(c) = self.rest.chars().next() {
            match c {
                '#' => {
                    let line = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.skip(line);
                }
                c if c.is_whitespace() => self.skip(c.len_utf8()),
                _ => return true,
            }
        }
        false
    }

    /// Moves over so many bytes.
    fn skip(&mut self, bytes: usize) {
        let (over, rest) = self.rest.split_at(bytes);
        for c in over.chars() {
            if c == '\n' {
                self.loc.line = self.loc.line.saturating_add(1);
                self.loc.column = 1;
            } else {
                self.loc.column = self.loc.column.saturating_add(1);
            }
        }
        self.rest = rest;
    }

    /// A token of so many bytes, none of them a line break.
    fn push(&mut self, tok: Tok, bytes: usize) {
        let loc = self.loc;
        self.skip(bytes);
        let len = self.loc.column.saturating_sub(loc.column);
        let span = Span { loc, len };
        self.tokens.push(Token { tok, span });
    }

    fn error(&mut self, bytes: usize, message: String) {
        let loc = self.loc;
        self.skip(bytes);
        let len = self.loc.column.saturating_sub(loc.column);
        self.errors.push(ParseError { loc, len, message });
    }

    fn token(&mut self) {
        if self.rest.starts_with("//") {
            let line = self.rest.find('\n').unwrap_or(self.rest.len());
            return self.error(line, "a comment starts with `#`, not with `//`".to_owned());
        }
        let first = self.rest.chars().next().unwrap_or(' ');
        if first == '"' {
            return self.string();
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        let word = span_of(self.rest, |c| c.is_ascii_alphanumeric() || c == '_');
        if word > 0 {
            return self.push(Tok::Ident(self.rest[..word].to_owned()), word);
        }
        match PUNCTUATION.iter().find(|p| self.rest.starts_with(**p)) {
            Some(p) => self.push(Tok::Punct(p), p.len()),
            None => self.error(first.len_utf8(), format!("unexpected character {first:?}")),
        }
    }

    fn number(&mut self) {
        let len = number_len(self.rest);
        let text = &self.rest[..len];
        let tok = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(Tok::Int),
            None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok().map(Tok::Int),
            None => text.parse().ok().map(Tok::Float),
        };
        match tok {
            Some(tok) => self.push(tok, len),
            None => self.error(len, format!("`{text}` is no number that fits 64 bits")),
        }
    }

    fn string(&mut self) {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return self.push(Tok::Str(text), at + 1),
                '\n' => return self.error(at, "a string must end in its line".to_owned()),
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, c @ ('"' | '\\'))) => text.push(c),
                    _ => return self.error(at, "unknown escape in string".to_owned()),
                },
                c => text.push(c),
            }
        }
        self.error(self.rest.len(), "a string must end in its line".to_owned());
    }
}

/// Bytes of the longest prefix of such characters.
fn span_of(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}

/// Bytes of the number at the start: digits, `.digits`, exponent; letters stuck to it belong to it,
/// to be reported with it. In `0..4` the dots do not.
fn number_len(text: &str) -> usize {
    let digits = |s: &str| span_of(s, |c| c.is_ascii_digit());
    let mut len = digits(text);
    if text[len..].starts_with('.') && digits(&text[len + 1..]) > 0 {
        len += 1 + digits(&text[len + 1..]);
    }
    if let Some(exponent) = text[len..].strip_prefix('e') {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        if digits(&exponent[sign..]) > 0 {
            len += 1 + sign + digits(&exponent[sign..]);
        }
    }
    len + span_of(&text[len..], |c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toks(text: &str) -> Vec<Tok> {
        lex(text).0.into_iter().map(|t| t.tok).collect()
    }

    #[test]
    fn ranges_are_no_fractions() {
        let zero_to = [Tok::Int(0), Tok::Punct(".."), Tok::Ident("n".into()), Tok::End];
        assert_eq!(toks("0..n # all"), zero_to);
        assert_eq!(toks("1.5e-3")[0], Tok::Float(1.5e-3));
        assert_eq!(toks("0xff")[0], Tok::Int(255));
    }

    #[test]
    fn places_count_characters() {
        let (tokens, errors) = lex("a\n  \"\u{e4}\\n\" b 12x $");
        assert_eq!(tokens[1].tok, Tok::Str("\u{e4}\n".to_owned()));
        assert_eq!(tokens[2].span.loc, Loc { line: 2, column: 9 });
        assert_eq!(errors.len(), 2);
        assert_eq!(errors[0].len, 3);
    }
}
