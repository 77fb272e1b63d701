//! Attributes of instructions as text.
//!
//! One or two immediates and a comparison stand as they are. Every other attribute is a word and a record.

use crate::machine::*;
use crate::text::{Field, Result, entity, record, variants};
use crate::tile::CmpOp;
use crate::tile::parse::cursor::Cursor;
use crate::tile::parse::lex::Tok;
use crate::types::Elem;
use std::fmt::{self, Formatter};

entity!(Value: "r", Inst: "i", Block: "b", Buffer: "buf", Ring: "ring");

variants!(CmpOp { Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge" });
variants!(CacheHint = default { Normal "normal", First "first", Last "last" });

record!(Place { buffer, offset });
record!(GlobalAccess { pointer, footprint });
record!(SharedOperand { place, warpgroup_stride, atom_stride, steps, leading, stride, swizzle, mn_major });
record!(WgmmaAttr { n, elem, right, acc, m_atoms, n_atoms, k_steps, negated, a, b });
record!(MmaAttr { elem, acc, m_atoms, n_atoms });
record!(TmaAttr { map, rank, bytes, place, multicast, hint, before_wait });
record!(CopyAttr { bytes, source, place, offset });
record!(LoopAttr {
    name,
    depth,
    producers,
    wait,
    mma_order,
    persistent,
    counter,
    most,
    overlapped,
    conditional
});

impl Field for Elem {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let elem = match c.peek() {
            Tok::Ident(w) => Self::from_name(w),
            _ => None,
        };
        let Some(elem) = elem else { return c.expected("an element type") };
        c.skip();
        Ok(elem)
    }
}

impl Field for IndexMap {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::Affine { scale: 1, offset: 0 } => f.write_str("each"),
            Self::Affine { scale, offset } => write!(f, "{scale} * i + {offset}"),
            Self::Table(t) => t.to_vec().write(f),
        }
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        if c.is("[") {
            return Ok(Self::Table(Vec::read(c)?.into()));
        }
        if c.eat_word("whole") {
            return Ok(Self::Whole);
        }
        if c.eat_word("each") {
            return Ok(Self::EACH);
        }
        let scale = u16::read(c)?;
        c.expect("*")?;
        c.expect_word("i")?;
        c.expect("+")?;
        Ok(Self::Affine { scale, offset: u16::read(c)? })
    }
}

// Immediates and comparisons have words too; `print` omits them.
variants!(Attr {
    None "none",
    Imm "imm" (value),
    Imm2 "imm2" (a, b),
    Cmp "cmp" (cmp),
    Param "param" (number),
    Mem "mem" { offset, count },
    GlobalMem "global" { offset, count, access },
    Sync "sync" { offset, count, access, sync },
    Place "place" (place),
    PlaceMem "access" { place, count },
    Wgmma "wgmma" (attr),
    Mma "mma" (attr),
    Tma "tma" (attr),
    Copy "copy" (attr),
    Matrix "matrix" { count, trans, offset, buffer },
    Assume "assume" { promise, signed },
    Print "print" (text),
    Loop "loop" (attr),
});
