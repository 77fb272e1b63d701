//! Facts of arguments, promises of numbers, scope and order of updates.
//!
//! ```text
//!  n: i32 % 8 in 1..65536     assume n % 8 in 0..=64     atomic_add v[i], x scope cta order release
//! ```

use super::ParseError;
use super::cursor::{Cursor, Result};
use super::lex::Tok;
use crate::tile::names::{ORDERS, SCOPES, find};
use crate::tile::{Assumption, Facts, MemorySync, Promise, Type};

/// Facts behind the type of an argument.
pub(super) fn facts(c: &mut Cursor<'_>, ty: Type) -> Result<Facts> {
    let mut facts = Facts::default();
    let pointer = matches!(ty, Type::Ptr(_));
    let integer = matches!(ty, Type::Scalar(e) if e.is_int());
    loop {
        if pointer && c.eat_word("align") {
            facts.align = power_of_two(c)?;
        } else if pointer && c.eat_word("may_alias") {
            facts.may_alias = true;
        } else if integer && c.eat("%") {
            facts.multiple = positive(c)?;
        } else if integer && c.eat_word("in") {
            (facts.min, facts.max) = range(c)?;
        } else {
            return Ok(facts);
        }
    }
}

/// `% 8 in 0..64` behind the value of an `assume`.
pub(super) fn promise(c: &mut Cursor<'_>) -> Result<Assumption> {
    let (mut promise, mut none) = (Assumption::default(), true);
    loop {
        if c.eat("%") {
            promise.multiple = positive(c)?;
        } else if c.eat_word("in") {
            (promise.min, promise.max) = range(c)?;
        } else if none {
            return c.expected("`% 8` or `in 0..64` behind the number");
        } else {
            return Ok(promise);
        }
        none = false;
    }
}

/// `align 16`, or what [`promise`] reads, behind an argument that a mapping assumes something of.
pub(super) fn assumed(c: &mut Cursor<'_>) -> Result<Promise> {
    match c.eat_word("align") {
        true => power_of_two(c).map(Promise::Align),
        false => promise(c).map(Promise::Number),
    }
}

fn power_of_two(c: &mut Cursor<'_>) -> Result<u64> {
    let span = c.span();
    let value = c.integer()?;
    match u64::try_from(value) {
        Ok(v) if v.is_power_of_two() => Ok(v),
        _ => Err(ParseError::at(span, format!("{value} is no power of two"))),
    }
}

/// A number of at least 1.
pub(super) fn positive(c: &mut Cursor<'_>) -> Result<i64> {
    let span = c.span();
    match c.integer()? {
        v if v > 0 => Ok(v),
        v => Err(ParseError::at(span, format!("{v} must be at least 1"))),
    }
}

/// `1..8` without its end, `1..=8` with it, `1..` without limit.
pub(super) fn range(c: &mut Cursor<'_>) -> Result<(i64, i64)> {
    let span = c.span();
    let min = c.integer()?;
    let max = if c.eat("..=") {
        c.integer()?
    } else {
        c.expect("..")?;
        match c.peek() {
            Tok::Int(_) | Tok::Punct("-") => c.integer()?.saturating_sub(1),
            _ => i64::MAX,
        }
    };
    if min <= max {
        return Ok((min, max));
    }
    let empty = format!("the range from {min} to {max} is empty");
    Err(ParseError::at(span, empty))
}

/// `scope cta order release` behind an atomic update. Neither word is reserved: a name stands behind `=` only.
pub(super) fn sync(c: &mut Cursor<'_>, name: &str, atomic: bool) -> Result<MemorySync> {
    let mut sync = MemorySync::default();
    loop {
        let word = |c: &Cursor<'_>, what: &str| c.is_word(what) && matches!(c.peek_at(1), Tok::Ident(_));
        let (scope, order) = (word(c, "scope"), word(c, "order"));
        if !scope && !order {
            return Ok(sync);
        }
        if !atomic {
            let read = "`old = atomic_add v[..], full 0 : i32[1] : i32[1] order acquire`";
            return c.error(format!("`{name}` has no scope and no order; an atomic operation has: {read}"));
        }
        c.skip();
        if scope {
            sync.scope = one_of(c, "scope", &SCOPES)?;
        } else {
            sync.order = one_of(c, "order", &ORDERS)?;
        }
    }
}

/// One of the words of a table.
fn one_of<T: Copy>(c: &mut Cursor<'_>, what: &str, table: &[(&str, T)]) -> Result<T> {
    let Tok::Ident(word) = c.peek() else { return c.expected("a word") };
    match find(table, word) {
        Some(found) => {
            c.skip();
            Ok(found)
        }
        None => {
            let all: Vec<String> = table.iter().map(|(w, _)| format!("`{w}`")).collect();
            c.error(format!("`{word}` is no {what}: {}", all.join(", ")))
        }
    }
}
