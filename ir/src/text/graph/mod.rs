//! The text of instructions in blocks, common to both IRs: numbers, nesting, and detached entities.
//!
//! ```text
//!  func b0 {                             entry
//!  b0(r0 "n": uniform b32):              a block of the order: parameters
//!    r1: b32 = add.s32 r0, r0 at 3:7     results, the IR's own operation, place
//!    i7: for .. {                        a number where it is not the next one
//!      b1(..):                           nested
//!    }
//!  detached                              entities outside all blocks, kept for passes that visit by number
//!    value r9: b32 = i4.0
//!  }
//! ```
//!
//! To print, an IR lists its entities and prints its operations ([`Shape`]). To read, it parses operations
//! ([`Grammar`]) and builds itself from the [`Parts`]. An entity is written in full once and by its number from then
//! on, so every state can be printed.

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
