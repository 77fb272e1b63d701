//! The exact text of a kernel. It reads back to the same kernel, with every attribute and the same numbers of values,
//! instructions and blocks, including detached ones. Dumps between two passes use it. People write the language of
//! [`super::parse_file`], whose sugar and names cannot carry numbers.
//!
//! ```text
//!  kernel(
//!    name "double",
//!    params [(name "x", value v0, facts(align 16, multiple 1, min 0, max 9223372036854775807))],
//!    grid [v1])
//!  func block0 {
//!  block0(v0 "x": ptr<f32>):
//!    v1: i32 = int 64 at 2:10
//!    v2: f32[128] = load v3, v1 @(team warps 4) at 4:9
//!    ..
//!  }
//! ```
//!
//! Blocks, numbers and detached entities are written as in machine IR (`docs/machine-ir.md`). An operation is a word
//! with its fields, then its operands. `@(..)` holds its attributes.

mod ops;
mod parse;
mod print;

use super::{Kernel, Op, ParseError};
use crate::text::read_all;
use std::fmt::{Display, from_fn};

/// Shows a kernel exactly, for [`parse_exact`].
pub fn print_exact(kernel: &Kernel) -> impl Display + '_ {
    from_fn(|f| print::kernel(kernel, f))
}

/// Reads a kernel as [`print_exact`] shows it. It verifies nothing: [`super::verify`] does.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse_exact(text: &str) -> Result<Kernel, ParseError> {
    read_all(text, parse::kernel)
}

/// Equality of entities, numbers, names and places. [`Kernel::same_as`] compares only the programs.
impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        let Self { name, file, loc, params, constants, tunables, grid, entry, .. } = self;
        let Self { insts, blocks, values, names, attrs, pool: _, .. } = self;
        let same_inst = |(i, l): (super::Inst, &super::InstData)| {
            let r = &other.insts[i];
            same_op(&l.op, &r.op)
                && l.blocks == r.blocks
                && l.loc == r.loc
                && self.args(i) == other.args(i)
                && self.results(i) == other.results(i)
        };
        *name == other.name
            && *file == other.file
            && *loc == other.loc
            && *params == other.params
            && *constants == other.constants
            && *tunables == other.tunables
            && *grid == other.grid
            && *entry == other.entry
            && insts.len() == other.insts.len()
            && insts.iter().all(same_inst)
            && *blocks == other.blocks
            && *values == other.values
            && *names == other.names
            && *attrs == other.attrs
    }
}

/// Floats by their bits: a NaN is the same as itself.
fn same_op(a: &Op, b: &Op) -> bool {
    match (a, b) {
        (Op::Float(x), Op::Float(y)) => x.to_bits() == y.to_bits(),
        (Op::View { strided: s, fill: x }, Op::View { strided: t, fill: y }) => {
            s == t && x.to_bits() == y.to_bits()
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests;
