//! Records, and the macros that make them of a list of fields.

use super::Result;
use super::field::Field;
use crate::tile::parse::cursor::Cursor;
use std::fmt::{self, Formatter};

/// Prints a record, field by field: in one line, or with [`Formatter::alternate`] one field a line.
pub(crate) struct FieldWriter<'w, 'f> {
    f: &'w mut Formatter<'f>,
    written: bool,
}

impl<'w, 'f> FieldWriter<'w, 'f> {
    /// Behind the opening parenthesis.
    pub fn new(f: &'w mut Formatter<'f>) -> Self {
        Self { f, written: false }
    }

    /// A field, unless it is absent.
    pub fn field<T: Field>(&mut self, name: &str, value: &T) -> fmt::Result {
        if value.is_absent() {
            return Ok(());
        }
        self.f.write_str(match (self.written, self.f.alternate()) {
            (true, false) => ", ",
            (true, true) => ",\n  ",
            (false, true) => "\n  ",
            (false, false) => "",
        })?;
        self.written = true;
        // A new format: only the outermost record takes a line for each field.
        write!(self.f, "{}", fmt::from_fn(|f| value.write_behind(name, f)))
    }
}

/// Reads a record, field by field.
pub(crate) struct FieldReader<'c, 't>(&'c mut Cursor<'t>);

impl<'c, 't> FieldReader<'c, 't> {
    /// Steps over the opening parenthesis.
    pub fn open(c: &'c mut Cursor<'t>) -> Result<Self> {
        c.expect("(")?;
        Ok(Self(c))
    }

    /// Reads a field. If the next field is another one, it gets its default.
    pub fn field<T: Field>(&mut self, name: &str) -> Result<T> {
        let c = &mut *self.0;
        if !c.eat_word(name) {
            return T::absent().map_or_else(|| c.expected(&format!("the field `{name}`")), Ok);
        }
        let value = T::read_behind(c)?;
        if !c.is(")") {
            c.expect(",")?;
        }
        Ok(value)
    }

    /// Steps over the closing parenthesis.
    pub fn close(self) -> Result<()> {
        self.0.expect(")")
    }
}

/// The default of a field that is not written, for fields marked `= default`.
macro_rules! absent_default {
    () => {};
    (default) => {
        fn absent() -> Option<Self> {
            Some(Self::default())
        }

        fn is_absent(&self) -> bool {
            *self == Self::default()
        }
    };
}
pub(crate) use absent_default;

/// Makes a struct a record of all its fields.
macro_rules! record {
    ($ty:ty $(= $absent:ident)? { $($field:ident),* $(,)? }) => {
        impl $crate::text::Field for $ty {
            const SPACED: bool = false;

            $crate::text::absent_default!($($absent)?);

            fn write(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("(")?;
                let mut fields = $crate::text::FieldWriter::new(f);
                $(fields.field(stringify!($field), &self.$field)?;)*
                f.write_str(")")
            }

            fn read(c: &mut $crate::tile::parse::cursor::Cursor<'_>) -> $crate::text::Result<Self> {
                let mut fields = $crate::text::FieldReader::open(c)?;
                let record = Self { $($field: fields.field(stringify!($field))?),* };
                fields.close()?;
                Ok(record)
            }
        }
    };
}
pub(crate) use record;

/// Makes an enum a field: each variant a word, then what it holds: nothing, a value `(inner)`, two of them, or a record `{ fields }`.
macro_rules! variants {
    ($ty:ty $(= $absent:ident)? { $($variant:ident $word:literal $(($($inner:ident),+))? $({ $($field:ident),* })?),* $(,)? }) => {
        impl $crate::text::Field for $ty {
            $crate::text::absent_default!($($absent)?);

            fn write(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant $(($($inner),+))? $({ $($field),* })? => {
                        $crate::text::variants!(@write f $word $($($inner)+)? $({ $($field),* })?)
                    })*
                }
            }

            fn read(c: &mut $crate::tile::parse::cursor::Cursor<'_>) -> $crate::text::Result<Self> {
                $(if c.eat_word($word) {
                    return $crate::text::variants!(@read c $variant $($($inner)+)? $({ $($field),* })?);
                })*
                c.expected(concat!("one of", $(" `", $word, "`"),*))
            }
        }
    };
    (@write $f:ident $word:literal) => { $f.write_str($word) };
    (@write $f:ident $word:literal $inner:ident) => { $crate::text::Field::write_behind($inner, $word, $f) };
    (@write $f:ident $word:literal $a:ident $b:ident) => {
        write!($f, "{}({}, {})", $word, $crate::text::Shown($a), $crate::text::Shown($b))
    };
    (@write $f:ident $word:literal { $($field:ident),* }) => {{
        write!($f, "{}(", $word)?;
        let mut fields = $crate::text::FieldWriter::new($f);
        $(fields.field(stringify!($field), $field)?;)*
        $f.write_str(")")
    }};
    (@read $c:ident $variant:ident) => { Ok(Self::$variant) };
    (@read $c:ident $variant:ident $inner:ident) => {
        $crate::text::Field::read_behind($c).map(Self::$variant)
    };
    (@read $c:ident $variant:ident $a:ident $b:ident) => {
        $crate::text::Field::read($c).map(|($a, $b)| Self::$variant($a, $b))
    };
    (@read $c:ident $variant:ident { $($field:ident),* }) => {{
        let mut fields = $crate::text::FieldReader::open($c)?;
        let record = Self::$variant { $($field: fields.field(stringify!($field))?),* };
        fields.close()?;
        Ok(record)
    }};
}
pub(crate) use variants;

/// Makes entities fields: their prefix and number.
macro_rules! entity {
    ($($ty:ty: $prefix:literal),* $(,)?) => {$(
        impl $crate::text::Field for $ty {
            fn write(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }

            fn read(c: &mut $crate::tile::parse::cursor::Cursor<'_>) -> $crate::text::Result<Self> {
                let number = match c.peek() {
                    $crate::tile::parse::lex::Tok::Ident(w) => $crate::text::number_of(w, $prefix),
                    _ => None,
                };
                let Some(number) = number else { return c.expected(concat!("`", $prefix, "` and a number")) };
                c.skip();
                Ok(Self::from_u32(number))
            }
        }
    )*};
}
pub(crate) use entity;
