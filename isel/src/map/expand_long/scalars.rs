//! Operations of 64-bit scalars that no row computes: quotients, logic, shifts.
//!
//! ```text
//!  q = v / w     ─►   words of v and w, their quotient by words, joined again
//!  q = v / w     ─►   cast(cast(v, u32) / cast(w, u32), i64)            where both are known to be less than 2^32
//! ```

use super::{Expand, U32};
use crate::facts::{at_most, is_never_negative};
use crate::takes::is_long;
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, Type, UnOp, Value};

/// The shift that takes the upper word: `lower` has it.
const WORD: i64 = 32;

/// Whether an instruction computes a 64-bit scalar, and no row does.
pub(super) fn has_no_row(k: &Kernel, inst: Inst) -> bool {
    let long = matches!(k.results(inst), &[r] if matches!(k.ty(r), Type::Scalar(e) if is_long(e)));
    long && match k.insts[inst].op {
        Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max) => false,
        Op::Binary(BinOp::Shr) => k.int_const(k.args(inst)[1]) != Some(WORD),
        Op::Binary(_) => true,
        Op::Unary(op) => matches!(op, UnOp::Neg | UnOp::Abs | UnOp::Not),
        _ => false,
    }
}

impl Expand<'_> {
    /// A quotient or remainder of scalars that fit a word.
    pub(super) fn narrow_quotient(&mut self, inst: Inst) -> Option<()> {
        let k = &self.c.k;
        let op = k.insts[inst].op.clone();
        let (args, result) = (k.args(inst).to_vec(), *k.results(inst).first()?);
        let divides = matches!(op, Op::Binary(BinOp::Div | BinOp::Rem));
        let scalar = matches!(k.ty(result), Type::Scalar(e) if is_long(e));
        let fits = |&v: &Value| {
            let most = at_most(k, v).is_some_and(|most| most <= i64::from(u32::MAX));
            let word = k
                .def(v)
                .is_some_and(|d| matches!(k.insts[d].op, Op::Cast) && k.ty(k.args(d)[0]).elem().bits() <= 32);
            is_never_negative(k, v) && (most || word)
        };
        if !divides || !scalar || !args.iter().all(fits) {
            return None;
        }
        let words: Vec<Value> = args.iter().map(|&v| self.c.cast(v, U32)).collect();
        let found = self.c.inst(op, &words, Type::Scalar(U32));
        self.c.define(result, Op::Cast, &[found]);
        Some(())
    }

    /// The exponent of a constant that is a power of two, in every element.
    pub(super) fn power_of_two(&self, v: Value) -> Option<u32> {
        let k = &self.c.k;
        let full = k.def(v).filter(|&d| matches!(k.insts[d].op, Op::Full));
        let n = k.int_const(full.map_or(v, |d| k.args(d)[0]))?;
        (n > 0 && n & (n - 1) == 0).then(|| n.trailing_zeros())
    }
}
