//! Machine IR as text. The text reads back to the same function, with the same numbers of values, instructions and
//! blocks. This holds for detached ones too, because passes visit entities by number.
//!
//! ```text
//!  Func ─ print ─► text ─ lex ─► tokens ─ parse ─► parts, by number ─► Func
//!           └── text::graph: blocks, nesting, numbers ──┘
//!           └── attr: attributes as records ────────────┘
//! ```
//!
//! The grammar and an example stand in `docs/machine-ir.md`. Any text gives a function or a [`ParseError`], never a
//! panic. It takes memory in proportion to its length. Reading does not verify: [`super::verify_structured`] and
//! [`super::verify_scheduled`] do.

mod attr;
mod level;
mod parse;
mod print;

pub use crate::tile::ParseError;

use super::{Func, Program, Scheduled};
use crate::Bump;
use crate::text::read_all;

/// Reads a function as its `Display` prints it.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse_func<'a>(text: &str, bump: &'a Bump) -> Result<Func<'a>, ParseError> {
    read_all(text, |c| parse::func(c, bump))
}

/// Reads a program as its `Display` prints it.
///
/// # Errors
/// The first mistake, with its place; a buffer that is named but not there.
pub fn parse_program<'a>(text: &str, bump: &'a Bump) -> Result<Program<'a>, ParseError> {
    read_all(text, |c| level::program(c, bump))
}

/// Reads a scheduled program as its `Display` prints it.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse_scheduled<'a>(text: &str, bump: &'a Bump) -> Result<Scheduled<'a>, ParseError> {
    read_all(text, |c| level::scheduled(c, bump))
}

#[cfg(test)]
mod tests;
