//! Fused index comparison: a sum of a row number and a column number that only decides selects is never stored. The
//! select adds it where it compares.
//!
//! ```text
//!  d = (row + i) - column             row + i: 2 registers, column: 32, d: 64 that are never held
//!  s' = select(d < 100, s, low)  ─►   s' = select_diff.s32 s, low, row + i, column, 100 Lt
//! ```
//!
//! Integers wrap, so a third summand may be added to whichever of the two has its shape.

use super::{Low, Lower};
use crate::Result;
use warplift_ir::machine::{self, Attr, IndexMap};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{BinOp, Value};

/// The register of an operand that each element reads.
type Operand = (machine::Value, IndexMap);

/// From this size in registers, a fragment should not exist twice.
const MANY: u32 = 16;

/// A sum of two numbers, or their difference.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub first: Operand,
    pub second: Operand,
    pub negative: bool,
}

impl Sum {
    /// The same sum with another first summand.
    fn with(self, first: Operand) -> Self {
        Self { first, ..self }
    }
}

impl Lower<'_, '_> {
    /// Defers a sum to its comparison. Returns whether it did.
    pub(super) fn tile_sum(&mut self, result: Value, op: BinOp, args: &[Value]) -> Result<bool> {
        if !self.sums.contains(&result) {
            return Ok(false);
        }
        let sum = match (self.sum(args[0]), self.sum(args[1])) {
            (Some(_), Some(_)) => None,
            (Some(sum), None) => self.operand(args[1]).map(|y| self.joins(sum, op, y))?,
            (None, Some(sum)) => self.operand(args[0]).map(|x| self.joined_to(x, op, sum))?,
            (None, None) => {
                let [first, second] = [self.operand(args[0])?, self.operand(args[1])?];
                let distinct = first.1 != second.1
                    && match (&first.1, &second.1) {
                        (IndexMap::Table(_), IndexMap::Table(_)) => true,
                        // Summands that other uses keep alive would need registers beside these.
                        (IndexMap::Whole, IndexMap::Table(_)) => self.is_shared(args[1], &second),
                        (IndexMap::Table(_), IndexMap::Whole) => self.is_shared(args[0], &first),
                        _ => false,
                    };
                distinct.then_some(Sum { first, second, negative: op == BinOp::Sub })
            }
        };
        let deferred = sum.is_some();
        self.env.extend(sum.map(|s| (result, Low::Sum(s))));
        Ok(deferred)
    }

    pub(super) fn sum(&self, v: Value) -> Option<Sum> {
        match self.env.get(&v) {
            Some(Low::Sum(sum)) => Some(sum.clone()),
            _ => None,
        }
    }

    /// Whether other uses keep a fragment alive, so that a second one beside it would cost registers.
    fn is_shared(&self, v: Value, x: &Operand) -> bool {
        let uses = self.k.insts.keys().filter(|&i| self.k.args(i).contains(&v));
        self.func.ty(x.0).regs() >= MANY && uses.count() > 1
    }

    /// `sum op y`, applied to the first or to the second summand.
    fn joins(&mut self, sum: Sum, op: BinOp, y: Operand) -> Option<Sum> {
        if let Some(first) = self.fold_in(row(op == BinOp::Sub), &sum.first, &y) {
            return Some(sum.with(first));
        }
        let negative = sum.negative != (op == BinOp::Sub);
        let second = self.fold_in(row(negative), &sum.second, &y)?;
        Some(Sum { second, ..sum })
    }

    /// `x op sum`.
    fn joined_to(&mut self, x: Operand, op: BinOp, sum: Sum) -> Option<Sum> {
        if op == BinOp::Add {
            return self.joins(sum, op, x);
        }
        let first = self.fold_in(row(true), &x, &sum.first)?;
        Some(Sum { first, second: sum.second, negative: !sum.negative })
    }

    /// An operation on operands with the same broadcast: once for each distinct register.
    fn fold_in(&mut self, op: Opcode, x: &Operand, y: &Operand) -> Option<Operand> {
        let table = super::tile::broadcast_like(&[x.clone(), y.clone()])?;
        let regs = table.iter().max().map_or(0, |m| m + 1);
        let own = |a: &Operand| (a.0, if a.1 == IndexMap::Whole { IndexMap::Whole } else { IndexMap::EACH });
        let r = self.repeat(op, Attr::None, &[own(x), own(y)], regs);
        Some((r, IndexMap::Table(table)))
    }

    /// All elements of a sum, for a use that needs it in registers.
    pub(super) fn whole_sum(&mut self, v: Value, sum: Sum) -> Result<machine::Value> {
        let regs = self.result_regs(v)?;
        Ok(self.repeat(row(sum.negative), Attr::None, &[sum.first, sum.second], regs))
    }
}

/// The row that adds or subtracts.
fn row(negative: bool) -> Opcode {
    if negative { Opcode::SubS32 } else { Opcode::AddS32 }
}
