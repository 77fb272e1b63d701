//! Where a pass appends instructions: the end of a block, for the sake of a place in the text.
//!
//! ```text
//!  block:  ..  │  c = int 2   d = div a, c   ◄─ the cursor
//! ```
//!
//! A pass that rewrites instructions [empties](Cursor::rewrite) each block and appends what it held again, with what it makes
//! before and behind each. One that adds something at one place cuts the block there: [`Cursor::before`], [`Cursor::behind`],
//! [`Cursor::at_start`]. (Cranelift's `FuncCursor` and `InstBuilder` in one.)

use super::loops::block_of;
use crate::tiles::with_elem;
use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Loc, Op, Type, Value};
use warplift_ir::types::Elem;

/// The type of an index.
pub(super) const I32: Type = Type::Scalar(Elem::I32);

/// The end of a block. Its methods append to it.
pub(super) struct Cursor<'k> {
    /// The kernel.
    pub k: &'k mut Kernel,
    /// The block that is appended to.
    pub block: Block,
    /// The place in the text that the instructions come from.
    pub loc: Loc,
}

impl<'k> Cursor<'k> {
    /// At the end of a block, for no place of the text.
    pub fn at_end(k: &'k mut Kernel, block: Block) -> Self {
        Self { k, block, loc: Loc::default() }
    }

    /// For the sake of an instruction.
    pub fn like(mut self, inst: Inst) -> Self {
        self.loc = self.k.insts[inst].loc;
        self
    }

    /// Visits the instructions of all blocks, with a cursor that stands where each is to be [put back](Cursor::keep).
    pub fn rewrite(k: &mut Kernel, mut visit: impl FnMut(Cursor<'_>, Inst)) {
        for block in k.blocks.keys().collect::<Vec<_>>() {
            for inst in std::mem::take(&mut k.blocks[block].insts) {
                visit(Cursor::at_end(k, block).like(inst), inst);
            }
        }
    }

    /// Appends before the first instruction of a block.
    pub fn at_start<R>(k: &mut Kernel, block: Block, append: impl FnOnce(&mut Cursor<'_>) -> R) -> R {
        Cursor::inside(k, block, 0, append)
    }

    /// Appends right before an instruction.
    pub fn before<R>(k: &mut Kernel, inst: Inst, append: impl FnOnce(&mut Cursor<'_>) -> R) -> R {
        let (block, at) = place(k, inst);
        Cursor::inside(k, block, at, append)
    }

    /// Appends right behind an instruction.
    pub fn behind<R>(k: &mut Kernel, inst: Inst, append: impl FnOnce(&mut Cursor<'_>) -> R) -> R {
        let (block, at) = place(k, inst);
        Cursor::inside(k, block, at + 1, append)
    }

    fn inside<R>(k: &mut Kernel, block: Block, at: usize, append: impl FnOnce(&mut Cursor<'_>) -> R) -> R {
        let rest = k.blocks[block].insts.split_off(at);
        let made = append(&mut Cursor::at_end(k, block));
        k.blocks[block].insts.extend(rest);
        made
    }

    /// Appends an instruction that is there already.
    pub fn keep(&mut self, inst: Inst) {
        self.k.blocks[self.block].insts.push(inst);
    }

    /// An instruction with one result.
    pub fn inst(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let made = self.k.append_inst(self.block, op, args, &[ty], &[], self.loc);
        self.k.result(made)
    }

    /// An instruction without results.
    pub fn effect(&mut self, op: Op, args: &[Value]) -> Inst {
        self.k.append_inst(self.block, op, args, &[], &[], self.loc)
    }

    /// The same instruction with other operands. Its blocks are not copied.
    pub fn copy(&mut self, inst: Inst, args: &[Value]) -> Inst {
        let k = &mut *self.k;
        let types: Vec<Type> = k.results(inst).iter().map(|&r| k.ty(r)).collect();
        let made = k.append_inst(self.block, k.insts[inst].op.clone(), args, &types, &[], k.insts[inst].loc);
        k.attrs[made] = k.attrs[inst].clone();
        made
    }

    /// An instruction whose result is a value that is there already.
    pub fn define(&mut self, result: Value, op: Op, args: &[Value]) {
        let made = self.effect(op, args);
        self.k.set_result(made, result);
    }

    /// An instruction whose result is an index.
    pub fn index(&mut self, op: Op, args: &[Value]) -> Value {
        self.inst(op, args, I32)
    }

    /// A constant index.
    pub fn int(&mut self, n: i64) -> Value {
        self.index(Op::Int(n), &[])
    }

    /// A constant float.
    pub fn float(&mut self, elem: Elem, x: f64) -> Value {
        self.inst(Op::Float(x), &[], Type::Scalar(elem))
    }

    /// A constant, in every element of a tile.
    pub fn constant(&mut self, op: Op, ty: Type) -> Value {
        let scalar = self.inst(op, &[], Type::Scalar(ty.elem()));
        if ty.shape().is_some() { self.inst(Op::Full, &[scalar], ty) } else { scalar }
    }

    /// An operation on two values, of which one may be a scalar.
    pub fn op(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        let ty = self.wider(a, b);
        self.inst(Op::Binary(op), &[a, b], ty)
    }

    /// An operation on a value and a constant.
    pub fn with(&mut self, op: BinOp, a: Value, n: i64) -> Value {
        let n = self.inst(Op::Int(n), &[], Type::Scalar(self.k.ty(a).elem()));
        self.op(op, a, n)
    }

    /// `max(a - b, 0)`.
    pub fn beyond(&mut self, a: Value, b: Value) -> Value {
        let left = self.op(BinOp::Sub, a, b);
        self.with(BinOp::Max, left, 0)
    }

    /// A comparison.
    pub fn compare(&mut self, cmp: CmpOp, a: Value, b: Value) -> Value {
        let ty = with_elem(self.wider(a, b), Elem::Bool);
        self.inst(Op::Compare(cmp), &[a, b], ty)
    }

    /// One of two values of a type.
    pub fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        let ty = self.wider(yes, no);
        self.inst(Op::Select, &[condition, yes, no], ty)
    }

    /// A conversion, unless the elements have the type.
    pub fn cast(&mut self, v: Value, to: Elem) -> Value {
        let ty = self.k.ty(v);
        if ty.elem() == to { v } else { self.inst(Op::Cast, &[v], with_elem(ty, to)) }
    }

    /// A tile repeated to a type, unless it has it.
    pub fn broadcast(&mut self, v: Value, ty: Type) -> Value {
        if self.k.ty(v) == ty { v } else { self.inst(Op::Broadcast, &[v], ty) }
    }

    /// The type of an elementwise result.
    pub fn wider(&self, a: Value, b: Value) -> Type {
        let of = if self.k.ty(a).shape().is_some() { a } else { b };
        self.k.ty(of)
    }
}

/// The block of an instruction, and its place there.
fn place(k: &Kernel, inst: Inst) -> (Block, usize) {
    let block = block_of(k, inst);
    (block, k.blocks[block].insts.iter().position(|&i| i == inst).unwrap_or(0))
}
