//! The common part of the exact texts of both IRs: records of named fields that print and read back.
//!
//! ```text
//!  tma(map 4, rank 2, bytes 8192, place(buffer buf1, offset 0), early)
//!   │   └ field: its name, then its value     record ┘           └ a flag: its name alone, absent where false
//!   └ word of the variant
//! ```
//!
//! A value of a field is a number, a word, text in quotes, an entity such as `buf1`, a list in brackets or a record in
//! parentheses. What is absent is not written: `None`, `false`, an empty list, what is the default of a type that says
//! so. Fields stand in the order of their declaration. One list of fields makes both directions (macros [`record`] and
//! [`variants`]), so that they cannot disagree.

mod field;
pub(crate) mod graph;
mod record;

pub(crate) use field::{Field, Shown, number_of};
pub(crate) use record::{FieldReader, FieldWriter, absent_default, entity, record, variants};

use crate::tile::parse::cursor::Cursor;
use crate::tile::parse::lex::lex;
use crate::tile::{ParseError, parse};

/// An error on its way up.
pub(crate) type Result<T> = parse::cursor::Result<T>;

/// Reads the whole of a text by one rule.
pub(crate) fn read_all<T>(text: &str, rule: impl FnOnce(&mut Cursor<'_>) -> Result<T>) -> Result<T> {
    let (tokens, errors) = lex(text);
    if let Some(first) = errors.into_iter().min_by_key(|e: &ParseError| e.loc) {
        return Err(first);
    }
    let mut cursor = Cursor::new(&tokens);
    let read = rule(&mut cursor)?;
    match cursor.peek() {
        parse::lex::Tok::End => Ok(read),
        _ => cursor.expected("the end"),
    }
}
