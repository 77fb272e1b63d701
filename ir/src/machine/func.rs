//! A function of machine IR and its builder.
//!
//! Operand lists live in the arena of the compile. They are written once and freed together.
//!
//! ```text
//!  b0:                       block_of(i1) = b0
//!    i1  for 0, n, 1         holder(b1) = i1     loop_of(b1) = i1
//!      b1(t):
//!        i2  x = add t, 1    users(t) = i2
//! ```
//!
//! A function knows the block of each instruction, the instruction that holds each nested block, and the users of each
//! value. The editing methods keep these tables true, and the verifiers check them. They also note which instructions
//! they edit, for an analysis that follows the function ([`Func::follow_edits`]).

use super::*;
use crate::Bump;
use crate::target::Opcode;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::smallvec;
use std::cell::OnceCell;
use std::ops::Deref;

/// How a value is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueDef {
    /// Result number of an instruction.
    Result(Inst, u32),
    /// Parameter number of a block.
    Param(Block, u32),
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueData {
    /// Type.
    pub ty: Ty,
    /// Definition.
    pub def: ValueDef,
    /// Equal in all threads of a warp.
    pub uniform: bool,
}

/// Parameters and instructions of a block, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockData {
    /// Parameters.
    pub params: Vec<Value>,
    /// Instructions; the last one ends the block.
    pub insts: InstList,
}

/// The instructions of a block, readable as a slice. Only the methods of [`Func`] change them, because they keep its
/// tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstList(pub(super) Vec<Inst>);

impl Deref for InstList {
    type Target = [Inst];

    fn deref(&self) -> &[Inst] {
        &self.0
    }
}

impl<'l> IntoIterator for &'l InstList {
    type Item = &'l Inst;
    type IntoIter = std::slice::Iter<'l, Inst>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl IntoIterator for InstList {
    type Item = Inst;
    type IntoIter = std::vec::IntoIter<Inst>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The instructions that name each value, in the order of their numbers; each once.
pub(super) type Users = SecondaryMap<Value, SmallVec<[Inst; 4]>>;

/// A function: the block's whole program (structured) or one role of it (scheduled).
#[derive(Clone)]
pub struct Func<'a> {
    /// Arena of this compile.
    pub bump: &'a Bump,
    /// The first block.
    pub entry: Block,
    /// All instructions.
    pub insts: PrimaryMap<Inst, InstData<'a>>,
    /// All blocks.
    pub blocks: PrimaryMap<Block, BlockData>,
    /// All values.
    pub values: PrimaryMap<Value, ValueData>,
    /// Order of the blocks in the text (scheduled form).
    pub order: Vec<Block>,
    /// Names of values, for dumps.
    pub names: SecondaryMap<Value, Option<&'a str>>,
    /// The block of each instruction.
    pub(super) home: SecondaryMap<Inst, PackedOption<Block>>,
    /// The instruction that holds each nested block.
    pub(super) holder: SecondaryMap<Block, PackedOption<Inst>>,
    /// The users of each value. They are computed on the first request and kept from then on.
    pub(super) users: OnceCell<Users>,
    /// The instructions that were edited since somebody looked, if somebody follows the edits.
    pub(super) edits: Option<Vec<Inst>>,
}

/// Two functions are equal if they have the same entities under the same numbers. The arena does not matter, and the
/// tables follow from the entities.
impl PartialEq for Func<'_> {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            bump: _,
            entry,
            insts,
            blocks,
            values,
            order,
            names,
            home: _,
            holder: _,
            users: _,
            edits: _,
        } = self;
        *entry == other.entry
            && *insts == other.insts
            && *blocks == other.blocks
            && *values == other.values
            && *order == other.order
            && *names == other.names
    }
}

/// Nested blocks for which a walk allocates once.
const WALK_DEPTH: usize = 8;

impl<'a> Func<'a> {
    /// A function with an empty entry block.
    pub fn new(bump: &'a Bump) -> Self {
        let mut func = Self {
            bump,
            entry: Block::from_u32(0),
            insts: PrimaryMap::new(),
            blocks: PrimaryMap::new(),
            values: PrimaryMap::new(),
            order: Vec::new(),
            names: SecondaryMap::new(),
            home: SecondaryMap::new(),
            holder: SecondaryMap::new(),
            users: OnceCell::new(),
            edits: None,
        };
        func.entry = func.new_block();
        func.order.push(func.entry);
        func
    }

    /// A function with an empty entry block in the arena of another, and room for as many entities.
    pub fn as_large_as(other: &Self) -> Self {
        let mut func = Self::new(other.bump);
        func.reserve(other.insts.len(), other.values.len());
        func
    }

    /// Makes room for so many more instructions and values.
    pub fn reserve(&mut self, insts: usize, values: usize) {
        self.insts.reserve(insts);
        self.values.reserve(values);
        self.home.resize(self.insts.len() + insts);
    }

    /// A detached block.
    pub fn new_block(&mut self) -> Block {
        self.blocks.push(BlockData { params: Vec::new(), insts: InstList(Vec::new()) })
    }

    /// Appends a parameter to a block.
    pub fn append_param(&mut self, block: Block, ty: Ty, uniform: bool) -> Value {
        let number = self.blocks[block].params.len() as u32;
        let value = self.values.push(ValueData { ty, def: ValueDef::Param(block, number), uniform });
        self.blocks[block].params.push(value);
        value
    }

    /// A copy of a list in the arena.
    pub fn list(&self, values: &[Value]) -> &'a [Value] {
        self.bump.alloc_slice_copy(values)
    }

    /// Makes an instruction at the end of a block.
    pub fn push(&mut self, block: Block, new: NewInst) -> Inst {
        let args = self.list(&new.args);
        let uniform = self.is_uniform(&new);
        let inst = self.insts.push(InstData {
            op: new.op,
            attr: new.attr,
            args,
            results: &[],
            maps: new.maps,
            guard: new.guard,
            blocks: new.blocks,
            targets: SmallVec::new(),
            loc: new.loc,
        });
        let values = &mut self.values;
        let results =
            self.bump.alloc_slice_fill_iter(new.results.iter().enumerate().map(|(i, &ty)| {
                values.push(ValueData { ty, def: ValueDef::Result(inst, i as u32), uniform })
            }));
        self.insts[inst].results = results;
        self.bump.charge(size_of::<InstData<'_>>() + results.len() * size_of::<ValueData>());
        self.blocks[block].insts.0.push(inst);
        self.home[inst] = block.into();
        for i in 0..self.insts[inst].blocks.len() {
            self.holder[self.insts[inst].blocks[i]] = inst.into();
        }
        self.note_uses(inst);
        self.note_edit(inst);
        inst
    }

    /// A pure instruction with uniform operands has uniform results, unless it reads the thread number.
    fn is_uniform(&self, new: &NewInst) -> bool {
        match new.op {
            Opcode::Tid | Opcode::Laneid | Opcode::Elect => false,
            Opcode::Uniform | Opcode::TeamIndex | Opcode::For | Opcode::If => true,
            op => op.is_pure() && new.args.iter().all(|&v| self.values[v].uniform),
        }
    }

    /// The only result of an instruction that has one.
    ///
    /// # Panics
    /// If it has none: a bug of the caller.
    pub fn result(&self, inst: Inst) -> Value {
        self.insts[inst].results[0]
    }

    /// A value's type.
    pub fn ty(&self, value: Value) -> Ty {
        self.values[value].ty
    }

    /// The instruction that defines a value, if one does.
    pub fn def(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            ValueDef::Param(..) => None,
        }
    }

    /// The value's constant, if it is one.
    pub fn constant(&self, value: Value) -> Option<i64> {
        let data = &self.insts[self.def(value)?];
        match (data.op, &data.attr) {
            (Opcode::Const, Attr::Imm(v)) => Some(*v),
            _ => None,
        }
    }

    /// Whether an instruction is a `mov` of a fragment. It is a view: allocation gives the result its operand's registers,
    /// so nothing is issued.
    pub fn is_view(&self, inst: &InstData<'_>) -> bool {
        inst.op == Opcode::Mov && inst.args.iter().any(|&v| self.ty(v).is_frag())
    }

    /// The last instruction of a block.
    pub fn terminator(&self, block: Block) -> Option<Inst> {
        self.blocks[block].insts.last().copied()
    }

    /// The targets of a block's terminator; none for structured blocks.
    pub fn successors(&self, block: Block) -> &[BlockCall<'a>] {
        self.terminator(block).map_or(&[], |i| &self.insts[i].targets)
    }

    /// Visits all instructions in program order. Nested instructions follow the one that holds them.
    pub fn walk(&self, mut visit: impl FnMut(Block, Inst)) {
        let mut stack = Vec::with_capacity(WALK_DEPTH);
        stack.push((self.entry, 0usize));
        while let Some((block, at)) = stack.pop() {
            let Some(&inst) = self.blocks[block].insts.get(at) else { continue };
            stack.push((block, at + 1));
            visit(block, inst);
            stack.extend(self.insts[inst].blocks.iter().rev().map(|&b| (b, 0)));
        }
    }
}

/// A new instruction for [`Func::push`].
#[derive(Clone)]
pub struct NewInst {
    /// Row.
    pub op: Opcode,
    /// Attributes.
    pub attr: Attr,
    /// Operands.
    pub args: SmallVec<[Value; 4]>,
    /// Types of the results.
    pub results: SmallVec<[Ty; 2]>,
    /// Index maps of a repeated row.
    pub maps: SmallVec<[IndexMap; 3]>,
    /// Guard.
    pub guard: Option<Guard>,
    /// Nested blocks.
    pub blocks: SmallVec<[Block; 2]>,
    /// Source place.
    pub loc: Loc,
}

impl NewInst {
    /// A row with operands and result types.
    pub fn new(op: Opcode, args: &[Value], results: &[Ty]) -> Self {
        Self {
            op,
            attr: Attr::None,
            args: SmallVec::from_slice(args),
            results: SmallVec::from_slice(results),
            maps: smallvec![],
            guard: None,
            blocks: smallvec![],
            loc: Loc::default(),
        }
    }

    /// With attributes.
    pub fn attr(self, attr: Attr) -> Self {
        Self { attr, ..self }
    }

    /// With a source place.
    pub fn loc(self, loc: Loc) -> Self {
        Self { loc, ..self }
    }

    /// Repeated, with an index map for each operand.
    pub fn maps(self, maps: SmallVec<[IndexMap; 3]>) -> Self {
        Self { maps, ..self }
    }

    /// Guarded.
    pub fn guard(self, guard: Option<Guard>) -> Self {
        Self { guard, ..self }
    }

    /// With nested blocks.
    pub fn blocks(self, blocks: &[Block]) -> Self {
        Self { blocks: blocks.into(), ..self }
    }
}

/// Builds instructions at the end of one block. It has methods for the common rows and folds constants.
pub struct Cursor<'f, 'a> {
    /// The function.
    pub func: &'f mut Func<'a>,
    /// The block that grows.
    pub block: Block,
    /// Source place of the new instructions.
    pub loc: Loc,
}

impl<'f, 'a> Cursor<'f, 'a> {
    /// At the end of a block.
    pub fn new(func: &'f mut Func<'a>, block: Block, loc: Loc) -> Self {
        Self { func, block, loc }
    }

    /// Any instruction.
    pub fn push(&mut self, new: NewInst) -> Inst {
        let loc = self.loc;
        self.func.push(self.block, new.loc(loc))
    }

    /// An instruction with one result.
    pub fn value(&mut self, new: NewInst) -> Value {
        let inst = self.push(new);
        self.func.result(inst)
    }

    /// A plain row with one result.
    pub fn op(&mut self, op: Opcode, args: &[Value], ty: Ty) -> Value {
        self.value(NewInst::new(op, args, &[ty]))
    }

    /// A 32-bit constant.
    pub fn imm(&mut self, v: i64) -> Value {
        self.value(NewInst::new(Opcode::Const, &[], &[Ty::B32]).attr(Attr::Imm(v)))
    }

    /// A constant of any scalar type.
    pub fn imm_of(&mut self, ty: Ty, v: i64) -> Value {
        self.value(NewInst::new(Opcode::Const, &[], &[ty]).attr(Attr::Imm(v)))
    }

    /// A 32-bit row of two operands. It is folded if both operands are constants or one is neutral.
    pub fn int(&mut self, op: Opcode, a: Value, b: Value) -> Value {
        let (ca, cb) = (self.func.constant(a), self.func.constant(b));
        if let Some(v) = ca.zip(cb).and_then(|(x, y)| fold(op, x as i32, y as i32)) {
            return self.imm(i64::from(v));
        }
        match (op, ca, cb) {
            (
                Opcode::AddS32
                | Opcode::SubS32
                | Opcode::Or
                | Opcode::Xor
                | Opcode::Shl
                | Opcode::ShrU32
                | Opcode::ShrS32,
                _,
                Some(0),
            )
            | (Opcode::MulS32 | Opcode::DivS32 | Opcode::DivU32, _, Some(1)) => a,
            (Opcode::AddS32 | Opcode::Or | Opcode::Xor, Some(0), _) | (Opcode::MulS32, Some(1), _) => b,
            (Opcode::MulS32 | Opcode::And, _, Some(0)) => b,
            (Opcode::MulS32 | Opcode::And, Some(0), _) => a,
            // ptxas treats constant divisors like variables.
            (Opcode::DivU32, _, Some(c)) if c > 1 && (c as u64).is_power_of_two() => {
                let shift = self.imm(c.ilog2().into());
                self.int(Opcode::ShrU32, a, shift)
            }
            (Opcode::RemU32, _, Some(c)) if c > 0 && (c as u64).is_power_of_two() => {
                let mask = self.imm(c - 1);
                self.int(Opcode::And, a, mask)
            }
            _ => self.op(op, &[a, b], Ty::B32),
        }
    }

    /// `a + b`.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.int(Opcode::AddS32, a, b)
    }

    /// `a + constant`.
    pub fn add_imm(&mut self, a: Value, v: i64) -> Value {
        let b = self.imm(v);
        self.add(a, b)
    }

    /// `a * constant`.
    pub fn mul_imm(&mut self, a: Value, v: i64) -> Value {
        let b = self.imm(v);
        self.int(Opcode::MulS32, a, b)
    }

    /// `a & constant`.
    pub fn and_imm(&mut self, a: Value, v: i64) -> Value {
        let b = self.imm(v);
        self.int(Opcode::And, a, b)
    }

    /// A comparison of signed 32-bit values.
    pub fn compare(&mut self, cmp: crate::tile::CmpOp, a: Value, b: Value) -> Value {
        self.value(NewInst::new(Opcode::SetpS32, &[a, b], &[Ty::Pred]).attr(Attr::Cmp(cmp)))
    }
}

/// The result of a 32-bit row on constants, if the row can be folded.
pub fn fold(op: Opcode, x: i32, y: i32) -> Option<i32> {
    Some(match op {
        Opcode::AddS32 => x.wrapping_add(y),
        Opcode::SubS32 => x.wrapping_sub(y),
        Opcode::MulS32 => x.wrapping_mul(y),
        Opcode::DivS32 => x.checked_div(y)?,
        Opcode::RemS32 => x.checked_rem(y)?,
        Opcode::DivU32 => (x as u32).checked_div(y as u32)? as i32,
        Opcode::RemU32 => (x as u32).checked_rem(y as u32)? as i32,
        Opcode::MulHiS32 => ((i64::from(x) * i64::from(y)) >> 32) as i32,
        Opcode::MulHiU32 => ((u64::from(x as u32) * u64::from(y as u32)) >> 32) as i32,
        Opcode::MinS32 => x.min(y),
        Opcode::MaxS32 => x.max(y),
        Opcode::And => x & y,
        Opcode::Or => x | y,
        Opcode::Xor => x ^ y,
        Opcode::Shl => x.checked_shl(y as u32).unwrap_or(0),
        Opcode::ShrU32 => (x as u32).checked_shr(y as u32).unwrap_or(0) as i32,
        Opcode::ShrS32 => x.wrapping_shr((y as u32).min(31)),
        _ => return None,
    })
}
