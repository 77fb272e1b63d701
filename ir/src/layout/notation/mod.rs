//! Notations: every layout as text, in the papers' own languages.
//!
//! ```text
//!   full text      (reg: 2:1@d1 2:8@d0, lane: 4:2@d1 8:1@d0) -> (d0: 16, d1: 8)      every layout
//!   CuTe           ((2,2),8):((1,8),16),  Sw<3,3,3> o (64,64):(64,1)                  memory
//!   thread-value   ((4,8),(2,2)):((32,1),(16,8)) over a 16 x 8 tile, by columns       fragments
//!   Tilus          local(2, 1).spatial(8, 4).local(1, 2)                              fragments without swizzle
//!   unified        shape [4, 2] mode_shape [4, 2] spatial_modes [0] local_modes [1]   the same
//!   Axe            (8,2,4,2):(4@lane,1@warp,1@lane,1@reg) + [2:4@warp] + 5@warp       places of a tensor
//!                  (2,32,2):(2@reg,1@lane,1@reg) over 16x8                            fragments
//! ```
//!
//! All parse and print, and the printed form is canonical: equal layouts print alike.

mod axe;
pub mod cute;
pub mod expr;
mod text;
pub mod thread_value;
pub mod tilus;

pub use axe::parse_axe;
pub use text::parse_layout;

use super::LayoutError;

/// Deepest nesting of parentheses and operations.
const DEPTH: u32 = 64;

/// A place in the text that is read.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Cursor<'a> {
    /// The beginning of a text.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0, depth: 0 }
    }

    /// The rest of the text without leading blanks.
    pub fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    /// Whether the text goes on with the token, which is then consumed.
    pub fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Consumes the token or fails.
    pub fn expect(&mut self, token: &'static str) -> Result<(), LayoutError> {
        if self.eat(token) { Ok(()) } else { Err(self.error(token)) }
    }

    /// The error that something else was expected here.
    pub fn error(&mut self, expected: &'static str) -> LayoutError {
        let found = self.rest().chars().take(20).collect();
        LayoutError::Parse { at: self.at, expected, found }
    }

    /// The longest prefix of characters that fit; may be empty.
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A natural number.
    pub fn number(&mut self) -> Result<u64, LayoutError> {
        let mut probe = self.clone();
        match probe.take(|c| c.is_ascii_digit()).parse() {
            Ok(n) => {
                *self = probe;
                Ok(n)
            }
            Err(_) => Err(self.error("a number")),
        }
    }

    /// A number with an optional sign.
    pub fn integer(&mut self) -> Result<i64, LayoutError> {
        let negative = self.eat("-");
        let n = i64::try_from(self.number()?).map_err(|_| self.error("a number below 2^63"))?;
        Ok(if negative { -n } else { n })
    }

    /// Letters, digits, underscores.
    pub fn word(&mut self) -> Result<&'a str, LayoutError> {
        match self.take(|c| c.is_ascii_alphanumeric() || c == '_') {
            "" => Err(self.error("a name")),
            word => Ok(word),
        }
    }

    /// Fails unless the text is over.
    pub fn end(&mut self) -> Result<(), LayoutError> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("the end")) }
    }

    /// Enters a nested form; refuses too many.
    pub fn deeper(&mut self) -> Result<(), LayoutError> {
        self.depth += 1;
        if self.depth > DEPTH { Err(self.error("fewer parentheses")) } else { Ok(()) }
    }

    /// Items between parentheses, separated by commas; a comma may trail.
    pub fn list<T>(
        &mut self,
        open: &'static str,
        close: &'static str,
        item: impl Fn(&mut Cursor<'a>) -> Result<T, LayoutError>,
    ) -> Result<Vec<T>, LayoutError> {
        self.expect(open)?;
        self.deeper()?;
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self)?);
            if !self.eat(",") {
                self.expect(close)?;
                break;
            }
        }
        self.depth -= 1;
        Ok(items)
    }
}

/// Items joined by a separator.
pub(crate) fn joined<T: std::fmt::Display>(items: impl IntoIterator<Item = T>, by: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    texts.join(by)
}
