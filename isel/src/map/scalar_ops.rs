//! Integer arithmetic that `map` appends to a block: tile numbers, bounds, indices.
//!
//! ```text
//!  block:  ..  │  c = int 2   d = div a, c   ◄─ appended here
//! ```

use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Loc, Op, Type, Value};
use warplift_ir::types::Elem;

/// The type of every result.
pub(super) const I32: [Type; 1] = [Type::Scalar(Elem::I32)];

/// A scalar instruction at the end of a block.
pub(super) fn scalar(k: &mut Kernel, block: Block, op: Op, args: &[Value]) -> Value {
    let inst = k.append_inst(block, op, args, &I32, &[], Loc::default());
    k.result(inst)
}

/// Integer arithmetic at the end of a block.
pub(super) struct ScalarOps<'a> {
    /// The kernel.
    pub k: &'a mut Kernel,
    /// The block that is appended to.
    pub block: Block,
}

impl ScalarOps<'_> {
    /// A constant.
    pub fn int(&mut self, v: i64) -> Value {
        scalar(self.k, self.block, Op::Int(v), &[])
    }

    /// An operation on two values.
    pub fn op(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        scalar(self.k, self.block, Op::Binary(op), &[a, b])
    }

    /// An operation on a value and a constant.
    pub fn with(&mut self, op: BinOp, a: Value, b: i64) -> Value {
        let b = self.int(b);
        self.op(op, a, b)
    }

    /// `max(a - b, 0)`.
    pub fn beyond(&mut self, a: Value, b: Value) -> Value {
        let left = self.op(BinOp::Sub, a, b);
        self.with(BinOp::Max, left, 0)
    }

    /// `a < b`.
    pub fn less_than(&mut self, a: Value, b: Value) -> Value {
        let bool = [Type::Scalar(Elem::Bool)];
        let inst: Inst =
            self.k.append_inst(self.block, Op::Compare(CmpOp::Lt), &[a, b], &bool, &[], Loc::default());
        self.k.result(inst)
    }

    /// One of two values.
    pub fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        scalar(self.k, self.block, Op::Select, &[condition, yes, no])
    }
}
