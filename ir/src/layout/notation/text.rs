//! The full text form, which expresses every layout.
//!
//! ```text
//!   (reg: 2:1@d1 3:8@d1, lane: 4:2@d1 8:1@d0, warpgroup: 1) -> (d0: 64, d1: 24)
//!         extent:column, fastest first          ^65@m is a bit whose column is exclusive-or-ed
//!   column = 0, or coordinate@axis joined by +
//! ```

use super::{Cursor, joined};
use crate::layout::{Axis, Builder, Layout, LayoutError, Step};
use serde::{Deserialize, Serialize};
use std::fmt;

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = |&(axis, _): &(Axis, u64)| format!("{axis}: {}", self.digits_text(axis));
        let output = |(axis, extent): &(Axis, u64)| format!("{axis}: {extent}");
        let ins = joined(self.ins().iter().map(input), ", ");
        write!(f, "({ins}) -> ({})", joined(self.outs().iter().map(output), ", "))
    }
}

impl Layout {
    /// The digits of one input axis, whose exclusive-or bits have a mark only where they meet others.
    fn digits_text(&self, axis: Axis) -> String {
        let index = self.ins().iter().position(|a| a.0 == axis);
        let runs = self.open().into_iter().filter(|r| Some(r.axis as usize) == index);
        let digit = |run: crate::layout::canonical::Run| match run.swizzles() {
            true => format!("^{}", self.column_text(&run.xor)),
            false => format!("{}:{}", run.extent, self.column_text(&run.add)),
        };
        let text = joined(runs.map(digit), " ");
        if text.is_empty() { "1".into() } else { text }
    }

    /// A column.
    fn column_text(&self, column: &[u64]) -> String {
        let coordinates = self.outs().iter().zip(column).filter(|(_, c)| **c != 0);
        let text = joined(coordinates.map(|((axis, _), c)| format!("{c}@{axis}")), "+");
        if text.is_empty() { "0".into() } else { text }
    }
}

/// Reads the full text form.
pub fn parse_layout(text: &str) -> Result<Layout, LayoutError> {
    let mut cursor = Cursor::new(text);
    let layout = layout(&mut cursor)?;
    cursor.end()?;
    Ok(layout)
}

impl std::str::FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Layout, LayoutError> {
        parse_layout(text)
    }
}

/// As text: the form is canonical, so that it reads back to an equal layout.
impl Serialize for Layout {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        parse_layout(&String::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

/// A digit as read.
struct Digit {
    extent: u64,
    step: Step,
    column: Vec<(Axis, u64)>,
}

/// A layout in full text form.
pub(super) fn layout(cursor: &mut Cursor<'_>) -> Result<Layout, LayoutError> {
    let ins = cursor.list("(", ")", |c| Ok((named(c)?, digits(c)?)))?;
    cursor.expect("->")?;
    let outs = cursor.list("(", ")", |c| Ok((named(c)?, c.number()?)))?;
    let mut builder = Builder::new(&outs);
    for (axis, digits) in ins {
        builder = builder.axis(axis);
        for digit in digits {
            let unknown = digit.column.iter().find(|c| !outs.iter().any(|o| o.0 == c.0));
            if let Some(&(axis, _)) = unknown {
                return Err(LayoutError::MissingAxis(axis));
            }
            let at = |o: &(Axis, u64)| {
                digit.column.iter().filter(|c| c.0 == o.0).fold(0u64, |s, c| s.saturating_add(c.1))
            };
            let column: Vec<u64> = outs.iter().map(at).collect();
            builder = match digit.step {
                Step::Xor => builder.xor(axis, &column),
                Step::Add => builder.add(axis, digit.extent, &column),
            };
        }
    }
    builder.build()
}

/// `axis:`
fn named(cursor: &mut Cursor<'_>) -> Result<Axis, LayoutError> {
    let axis = Axis::parse(cursor.word()?)?;
    cursor.expect(":")?;
    Ok(axis)
}

/// Digits up to the next comma or parenthesis.
fn digits(cursor: &mut Cursor<'_>) -> Result<Vec<Digit>, LayoutError> {
    let mut digits = Vec::new();
    while !cursor.rest().starts_with([',', ')']) {
        if cursor.eat("^") {
            digits.push(Digit { extent: 2, step: Step::Xor, column: column(cursor)? });
            continue;
        }
        let extent = cursor.number()?;
        let column = if cursor.eat(":") { column(cursor)? } else { Vec::new() };
        digits.push(Digit { extent, step: Step::Add, column });
    }
    Ok(digits)
}

/// `0`, or `n@axis` joined by `+`.
fn column(cursor: &mut Cursor<'_>) -> Result<Vec<(Axis, u64)>, LayoutError> {
    let mut column = Vec::new();
    loop {
        let stride = cursor.number()?;
        if stride == 0 && !cursor.rest().starts_with('@') {
            return Ok(column);
        }
        cursor.expect("@")?;
        column.push((Axis::parse(cursor.word()?)?, stride));
        if !cursor.eat("+") {
            return Ok(column);
        }
    }
}
