//! The functions of a text.
//!
//! ```text
//!  fn twice(t) { .. }   fn parts(t, by) { .. }     ─►   twice, parts: a kernel behind them may call both
//! ```

use super::ParseError;
use super::ast::FunctionText;
use crate::tile::names::is_reserved;

/// Scopes that are open at a function's own statements: they are none of the kernel's, which may have tunables.
pub(super) const FUNCTION_SCOPES: usize = 2;

/// The functions of a text so far.
#[derive(Default)]
pub(super) struct Functions(Vec<FunctionText>);

impl Functions {
    /// Adds a function; the mistake if its name is taken, or two parameters have one name.
    pub fn add(&mut self, text: FunctionText) -> Option<ParseError> {
        let name = &text.name;
        if self.has(&name.text) || is_reserved(&name.text) {
            return Some(ParseError::at(name.span, format!("there is a function `{}` already", name.text)));
        }
        let twice =
            text.params.iter().enumerate().find(|(n, p)| text.params[..*n].iter().any(|q| q.text == p.text));
        if let Some((_, p)) = twice {
            return Some(ParseError::at(p.span, format!("there is a parameter `{}` already", p.text)));
        }
        self.0.push(text);
        None
    }

    /// Whether a word names a function.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The names of all functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|f| f.name.text.as_str())
    }

    /// The function of this name.
    pub fn find(&self, name: &str) -> Option<&FunctionText> {
        self.0.iter().find(|f| f.name.text == name)
    }
}
