//! The text of instructions in blocks, which both IRs share: numbers, nesting, and what passes have left behind.
//!
//! ```text
//!  func b0 {                             entry
//!  b0(r0 "n": uniform b32):              a block of the order: parameters
//!    r1: b32 = add.s32 r0, r0 at 3:7     results, the IR's own operation, place
//!    i7: for .. {                        a number where it is not the next one
//!      b1(..):                           nested
//!    }
//!  detached                              what stands in no block any more, but is there for who visits by number
//!    value r9: b32 = i4.0
//!  }
//! ```
//!
//! An IR says what is there ([`Shape`]) and how an operation prints; it reads one ([`Grammar`]) and makes itself of the
//! [`Parts`]. Whatever is met twice stands in full once and by its number later, so that any state prints.

mod draft;
mod parse;
mod print;

pub(crate) use draft::{Mentions, Parts};
pub(crate) use parse::{Grammar, next_number, parse};
pub(crate) use print::{Shape, print};

use cranelift_entity::EntityRef;

/// Levels of blocks in blocks that a text may have.
pub(crate) const MAX_NESTED: u32 = 64;

/// Kinds of entities and how their numbers are written.
#[derive(Clone, Copy)]
pub(crate) struct Prefixes {
    /// Of values.
    pub value: &'static str,
    /// Of instructions.
    pub inst: &'static str,
    /// Of blocks.
    pub block: &'static str,
}

/// Where a value is defined, by numbers.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Def {
    /// Result of an instruction.
    Result(u32, u32),
    /// Parameter of a block.
    Param(u32, u32),
}

/// The numbers of entities.
pub(crate) fn numbers<K: EntityRef>(entities: &[K]) -> Vec<u32> {
    entities.iter().map(|e| e.index() as u32).collect()
}

/// The entities of numbers.
pub(crate) fn entities<K: EntityRef, C: FromIterator<K>>(numbers: &[u32]) -> C {
    numbers.iter().map(|&n| K::new(n as usize)).collect()
}
