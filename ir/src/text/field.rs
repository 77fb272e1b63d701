//! Values of fields.

use super::Result;
use crate::manifest::Expr;
use crate::tile::parse::cursor::Cursor;
use crate::tile::parse::lex::Tok;
use crate::tile::print::{FloatText, StrText};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use smallvec::{Array, SmallVec};
use std::fmt::{self, Display, Formatter, Write};

/// A value that prints and reads back.
pub(crate) trait Field: Sized {
    /// Whether a blank separates it from the word before it. A parenthesis needs none.
    const SPACED: bool = true;

    /// The value of a field that is not written; `None` if it must be written.
    fn absent() -> Option<Self> {
        None
    }

    /// Whether it has that value and is not written.
    fn is_absent(&self) -> bool {
        false
    }

    /// Prints the value.
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result;

    /// Reads it.
    fn read(c: &mut Cursor<'_>) -> Result<Self>;

    /// Prints it after a word: the name of the field or of the variant.
    fn write_behind(&self, word: &str, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{word}{}{}", if Self::SPACED { " " } else { "" }, Shown(self))
    }

    /// Reads it after the word.
    fn read_behind(c: &mut Cursor<'_>) -> Result<Self> {
        Self::read(c)
    }
}

/// Shows a field's value.
pub(crate) struct Shown<'a, T>(pub &'a T);

impl<T: Field> Display for Shown<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Field for $ty {
            fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }

            fn read(c: &mut Cursor<'_>) -> Result<Self> {
                let at = c.span();
                let value = c.integer()?;
                Self::try_from(value).map_err(|_| {
                    let message = format!("{value} does not fit {}", stringify!($ty));
                    crate::tile::ParseError::at(at, message)
                })
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 i32 i64);

impl Field for f64 {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", FloatText(*self))
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let sign = if c.eat("-") { -1.0 } else { 1.0 };
        let value = match c.peek() {
            Tok::Float(v) => *v,
            Tok::Int(v) => *v as f64,
            Tok::Ident(w) if w == "inf" => Self::INFINITY,
            Tok::Ident(w) if w == "nan" => Self::NAN,
            _ => return c.expected("a number"),
        };
        c.skip();
        Ok(value * sign)
    }
}

/// A flag: as a field, its name alone.
impl Field for bool {
    fn absent() -> Option<Self> {
        Some(false)
    }

    fn is_absent(&self) -> bool {
        !self
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        match c.word("`true` or `false`")? {
            "true" => Ok(true),
            "false" => Ok(false),
            other => c.error(format!("expected `true` or `false`, found `{other}`")),
        }
    }

    fn write_behind(&self, word: &str, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(word)
    }

    fn read_behind(_: &mut Cursor<'_>) -> Result<Self> {
        Ok(true)
    }
}

impl Field for String {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", StrText(self))
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let Tok::Str(text) = c.peek() else { return c.expected("text in quotes") };
        c.skip();
        Ok(text.clone())
    }
}

/// Types with a quoted text form of their own: expressions, layouts.
macro_rules! quoted {
    ($($ty:ty)*) => {$(
        impl Field for $ty {
            fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
                write!(f, "{}", StrText(&self.to_string()))
            }

            fn read(c: &mut Cursor<'_>) -> Result<Self> {
                let at = c.span();
                String::read(c)?.parse().map_err(|e: <$ty as std::str::FromStr>::Err| {
                    crate::tile::ParseError::at(at, e.to_string())
                })
            }
        }
    )*};
}

quoted!(Expr crate::layout::Layout);

impl<T: Field> Field for Option<T> {
    const SPACED: bool = T::SPACED;

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.as_ref().map_or(Ok(()), |v| v.write(f))
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        T::read(c).map(Some)
    }
}

impl<T: Field> Field for Box<T> {
    const SPACED: bool = T::SPACED;

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (**self).write(f)
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        T::read(c).map(Self::new)
    }
}

/// `[a, b]`
fn write_list<'v, T: Field + 'v>(
    f: &mut Formatter<'_>,
    items: impl IntoIterator<Item = &'v T>,
) -> fmt::Result {
    f.write_char('[')?;
    for (i, item) in items.into_iter().enumerate() {
        write!(f, "{}{}", if i == 0 { "" } else { ", " }, Shown(item))?;
    }
    f.write_char(']')
}

fn read_list<T: Field>(c: &mut Cursor<'_>) -> Result<Vec<T>> {
    c.expect("[")?;
    c.nested(|c| c.list("]", T::read))
}

impl<T: Field> Field for Vec<T> {
    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_list(f, self)
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        read_list(c)
    }
}

impl<A: Array<Item: Field>> Field for SmallVec<A> {
    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_list(f, self)
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        read_list(c).map(Self::from_vec)
    }
}

impl<T: Field, const N: usize> Field for [T; N] {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_list(f, self)
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let at = c.span();
        Self::try_from(read_list(c)?).map_err(|items: Vec<T>| {
            crate::tile::ParseError::at(at, format!("expected {N} items, found {}", items.len()))
        })
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    const SPACED: bool = false;

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", Shown(&self.0), Shown(&self.1))
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        c.expect("(")?;
        let first = A::read(c)?;
        c.expect(",")?;
        let pair = (first, B::read(c)?);
        c.expect(")")?;
        Ok(pair)
    }
}

/// All entities in the order of their numbers.
impl<K: EntityRef, V: Field> Field for PrimaryMap<K, V> {
    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_list(f, self.values())
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        Ok(read_list(c)?.into_iter().collect())
    }
}

/// The values of the first entities, up to the last one that is not the default's.
impl<K: EntityRef, V: Field + Clone + Default + PartialEq> Field for SecondaryMap<K, V> {
    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn is_absent(&self) -> bool {
        self.values().all(|v| *v == V::default())
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all: Vec<&V> = self.values().collect();
        let last = all.iter().rposition(|v| **v != V::default()).map_or(0, |i| i + 1);
        write_list(f, all[..last].iter().copied())
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let mut map = Self::new();
        for (i, value) in read_list(c)?.into_iter().enumerate() {
            map[K::new(i)] = value;
        }
        Ok(map)
    }
}

/// The number in a word such as `buf12`, written without a sign or leading zeros.
pub(crate) fn number_of(word: &str, prefix: &str) -> Option<u32> {
    let digits = word.strip_prefix(prefix)?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    // The greatest number is reserved: it stands for no entity.
    digits.parse().ok().filter(|&n| plain && n != u32::MAX)
}
