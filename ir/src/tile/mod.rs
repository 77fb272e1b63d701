//! Tile IR says WHAT a kernel computes.
//!
//! It is SSA over scalars and tiles, with structured loops and sequential semantics of one block. A [`Mapping`] says
//! where and how the kernel runs. The data of an instruction ([`InstData`]) and its position ([`Block`]'s list) are
//! separate, as in Cranelift's data-flow graph and layout.
//!
//! ```text
//!  Kernel ─ params (facts) ─ tunables ─ grid
//!     └─ entry Block: v0, v1 ... = inst; inst holds nested Blocks (loop body, branches)
//! ```
//!
//! Views are bounded. Outside the extents, a load gives the view's fill and a store writes nothing.

mod build;
mod dims;
mod exact;
mod mapping;
mod names;
mod ops;
pub(crate) mod parse;
pub(crate) mod print;
mod promises;
mod render;
#[cfg(test)]
mod round_trip;
mod same;
mod settled;
mod suggest;
mod tunable;
mod typing;
mod verify;

pub use build::{BuildError, KernelBuilder};
pub use dims::Dim;
pub use exact::{parse_exact, print_exact};
pub use mapping::*;
pub use names::operations;
pub use ops::*;
pub use parse::{Module, ParseError, ParseErrors, parse_file};
pub use promises::Promise;
pub use render::render;
use serde::{Deserialize, Serialize};
pub use settled::{Settled, Unmet, whole_number};
pub use suggest::{did_you_mean, nearest};
pub use tunable::{Constant, ConstantData, Domain, TunableData};
pub use typing::{MAX_GRID, TypeError, Types};
pub use verify::{MAX_BLOCK_DEPTH, MAX_SLICES, MAX_TILE_ELEMENTS, VerifyError, verify, verify_mapping};

use crate::types::Elem;
use cranelift_entity::{EntityList, ListPool, PrimaryMap, SecondaryMap, entity_impl};
use smallvec::{SmallVec, smallvec};
use std::fmt;

/// A value: result of an instruction or parameter of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Inst(u32);
entity_impl!(Inst, "inst");

/// A list of instructions that ends in a `yield`: the body of the kernel, of a loop or of a branch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block(u32);
entity_impl!(Block, "block");

/// A named integer that the mapping chooses at compile time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tunable(u32);
entity_impl!(Tunable, "tunable");

/// A list of values, kept in the kernel's pool.
pub type ValueList = EntityList<Value>;

/// The greatest rank of tiles and views.
pub const MAX_RANK: usize = 5;
/// Extents and strides of other types than `i32` saturate here: a multiple of 128, as wide numbers with small divisors
/// often are.
pub const MOST_INDEX: i64 = (1 << 31) - 128;

/// The extents of a tile, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    len: u8,
    dims: [Dim; MAX_RANK],
}

impl Shape {
    /// A shape of at most [`MAX_RANK`] extents, `None` above.
    pub fn new(dims: &[Dim]) -> Option<Self> {
        let mut all = [Dim::new(1); MAX_RANK];
        all.get_mut(..dims.len())?.copy_from_slice(dims);
        Some(Self { len: dims.len() as u8, dims: all })
    }

    /// A shape of constants.
    pub fn of(extents: &[u32]) -> Option<Self> {
        let dims: SmallVec<[Dim; MAX_RANK]> = extents.iter().map(|&e| Dim::new(e)).collect();
        Self::new(&dims)
    }

    /// The extents.
    pub fn dims(&self) -> &[Dim] {
        &self.dims[..usize::from(self.len)]
    }

    /// The number of extents.
    pub fn rank(&self) -> usize {
        usize::from(self.len)
    }

    /// All extents, if no tunable is left.
    pub fn extents(&self) -> Option<SmallVec<[u32; MAX_RANK]>> {
        self.dims().iter().map(|d| d.constant()).collect()
    }

    /// The number of elements, if no tunable is left and it fits.
    pub fn elements(&self) -> Option<u64> {
        let extents = self.extents()?;
        extents.iter().try_fold(1u64, |n, &e| n.checked_mul(u64::from(e)))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.dims()).finish()
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// One number.
    Scalar(Elem),
    /// An address in global memory of elements of this type.
    Ptr(Elem),
    /// A tile of numbers, distributed over the block's threads or memory as the plan decides.
    Tile(Elem, Shape),
    /// A bounded window on global memory with this rank.
    View(Elem, u8),
}

impl Type {
    /// The element type.
    pub fn elem(self) -> Elem {
        match self {
            Self::Scalar(e) | Self::Ptr(e) | Self::Tile(e, _) | Self::View(e, _) => e,
        }
    }

    /// The shape of a tile.
    pub fn shape(self) -> Option<Shape> {
        match self {
            Self::Tile(_, s) => Some(s),
            _ => None,
        }
    }
}

/// Facts: promises of the caller about a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// A pointer is a multiple of so many bytes (a power of two).
    pub align: u64,
    /// An integer is a multiple of this.
    pub multiple: i64,
    /// Least value of an integer.
    pub min: i64,
    /// Greatest value of an integer.
    pub max: i64,
    /// A pointer's memory may overlap that of the others of which this is said. Without it, what the kernel writes through
    /// a pointer lies apart from all memory behind other pointers.
    pub may_alias: bool,
}

impl Default for Facts {
    /// No promise, except that sizes are not negative: `min` is 0.
    fn default() -> Self {
        Self { align: 1, multiple: 1, min: 0, max: i64::MAX, may_alias: false }
    }
}

/// What [`Op::Assume`] promises of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Assumption {
    /// It is a multiple of this.
    pub multiple: i64,
    /// It is not less than this.
    pub min: i64,
    /// It is not greater than this.
    pub max: i64,
}

impl Default for Assumption {
    /// No promise: unlike an argument, a number from memory may be negative.
    fn default() -> Self {
        Self { multiple: 1, min: i64::MIN, max: i64::MAX }
    }
}

impl Assumption {
    /// Whether a number is as promised.
    pub fn holds(&self, number: i128) -> bool {
        let below = self.max == i64::MAX || number <= self.max.into();
        number % i128::from(self.multiple) == 0 && number >= self.min.into() && below
    }
}

/// A parameter of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamData {
    /// Name in the signature.
    pub name: String,
    /// Its value in the entry block.
    pub value: Value,
    /// Promises.
    pub facts: Facts,
}

/// The place of an instruction in its text; line 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Loc {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// The data of an instruction.
#[derive(Clone, Debug)]
pub struct InstData {
    /// Operation and its attributes.
    pub op: Op,
    /// Operands, as [`Op`] documents them.
    pub args: ValueList,
    /// Results.
    pub results: ValueList,
    /// Nested blocks: a loop's body; the two branches of an `if`.
    pub blocks: SmallVec<[Block; 2]>,
    /// Source place.
    pub loc: Loc,
}

/// Parameters and instructions of a block, in order; the last is a [`Op::Yield`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockData {
    /// Parameters: a loop's counter and carried values.
    pub params: Vec<Value>,
    /// Instructions.
    pub insts: Vec<Inst>,
}

/// How a value is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueDef {
    /// Result number of an instruction.
    Result(Inst, u32),
    /// Parameter number of a block.
    Param(Block, u32),
}

/// A value's type and definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueData {
    /// Type.
    pub ty: Type,
    /// Definition.
    pub def: ValueDef,
}

/// A kernel in tile IR.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Name.
    pub name: String,
    /// Name of the text's file, for `.file` and messages; empty for built kernels.
    pub file: String,
    /// Place of its name in that text.
    pub loc: Loc,
    /// Parameters in order.
    pub params: Vec<ParamData>,
    /// Named numbers of the text; what uses them holds the numbers.
    pub constants: Vec<ConstantData>,
    /// Tunables.
    pub tunables: PrimaryMap<Tunable, TunableData>,
    /// Logical grid, one to three scalar values of the entry block that depend on parameters and tunables only.
    pub grid: Vec<Value>,
    /// The body.
    pub entry: Block,
    /// All instructions, in no order.
    pub insts: PrimaryMap<Inst, InstData>,
    /// All blocks, in no order.
    pub blocks: PrimaryMap<Block, BlockData>,
    /// All values.
    pub values: PrimaryMap<Value, ValueData>,
    /// Names of values that the text or the builder gave.
    pub names: SecondaryMap<Value, String>,
    /// The decisions of `map` for each instruction; default before `map`.
    pub attrs: SecondaryMap<Inst, Attrs>,
    /// Storage of all value lists.
    pub pool: ListPool<Value>,
}

/// Nested blocks for which a walk allocates nothing.
const WALK_DEPTH: usize = 8;

impl Kernel {
    /// Bytes of its tables. A value counts with one use.
    pub fn bytes(&self) -> usize {
        let inst = size_of::<InstData>() + size_of::<Attrs>();
        let value = size_of::<ValueData>() + size_of::<String>() + 2 * size_of::<Value>();
        let tables = [
            (self.insts.len(), inst),
            (self.values.len(), value),
            (self.blocks.len(), size_of::<BlockData>()),
        ];
        tables.map(|(entries, each)| entries * each).iter().sum()
    }

    /// An empty kernel: an entry block with nothing in it.
    pub fn new(name: &str) -> Self {
        let mut blocks = PrimaryMap::new();
        let entry = blocks.push(BlockData::default());
        Self {
            name: name.to_owned(),
            file: String::new(),
            loc: Loc::default(),
            params: Vec::new(),
            constants: Vec::new(),
            tunables: PrimaryMap::new(),
            grid: Vec::new(),
            entry,
            insts: PrimaryMap::new(),
            blocks,
            values: PrimaryMap::new(),
            names: SecondaryMap::new(),
            attrs: SecondaryMap::new(),
            pool: ListPool::new(),
        }
    }

    /// Operands of an instruction.
    pub fn args(&self, inst: Inst) -> &[Value] {
        self.insts[inst].args.as_slice(&self.pool)
    }

    /// Results of an instruction.
    pub fn results(&self, inst: Inst) -> &[Value] {
        self.insts[inst].results.as_slice(&self.pool)
    }

    /// The only result of an instruction that has one.
    ///
    /// # Panics
    /// If it has none: a bug of the caller.
    pub fn result(&self, inst: Inst) -> Value {
        self.results(inst)[0]
    }

    /// A value's type.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// The instruction that defines a value, if an instruction does.
    pub fn def(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            ValueDef::Param(..) => None,
        }
    }

    /// The pointer argument that stands for the memory behind one: all that may alias are one memory.
    pub fn memory_of(&self, pointer: Value) -> Value {
        let aliases: SmallVec<[Value; 4]> =
            self.params.iter().filter(|p| p.facts.may_alias).map(|p| p.value).collect();
        if aliases.contains(&pointer) { aliases[0] } else { pointer }
    }

    /// The argument whose memory a view is of; `None` for memory that the kernel makes itself.
    pub fn argument_of(&self, view: Value) -> Option<&ParamData> {
        let pointer = *self.args(self.def(self.whole_view(view))?).first()?;
        self.params.iter().find(|p| p.value == pointer)
    }

    /// The whole view behind a view; a whole view itself.
    pub fn whole_view(&self, view: Value) -> Value {
        match self.def(view) {
            Some(def) if matches!(self.insts[def].op, Op::SubView(_)) => self.whole_view(self.args(def)[0]),
            _ => view,
        }
    }

    /// Appends a parameter to a block.
    pub fn append_param(&mut self, block: Block, ty: Type) -> Value {
        let params = &mut self.blocks[block].params;
        let def = ValueDef::Param(block, params.len() as u32);
        let value = self.values.push(ValueData { ty, def });
        params.push(value);
        value
    }

    /// Makes a detached instruction.
    pub fn make_inst(
        &mut self,
        op: Op,
        args: &[Value],
        results: &[Type],
        blocks: &[Block],
        loc: Loc,
    ) -> Inst {
        let args = ValueList::from_slice(args, &mut self.pool);
        let inst =
            self.insts.push(InstData { op, args, results: ValueList::new(), blocks: blocks.into(), loc });
        results.iter().for_each(|&ty| _ = self.append_result(inst, ty));
        inst
    }

    /// Appends a result to an instruction.
    pub fn append_result(&mut self, inst: Inst, ty: Type) -> Value {
        let def = ValueDef::Result(inst, self.results(inst).len() as u32);
        let value = self.values.push(ValueData { ty, def });
        self.insts[inst].results.push(value, &mut self.pool);
        value
    }

    /// Makes an instruction and appends it to a block.
    pub fn append_inst(
        &mut self,
        block: Block,
        op: Op,
        args: &[Value],
        results: &[Type],
        blocks: &[Block],
        loc: Loc,
    ) -> Inst {
        let inst = self.make_inst(op, args, results, blocks, loc);
        self.blocks[block].insts.push(inst);
        inst
    }

    /// Replaces the operands of an instruction.
    pub fn set_args(&mut self, inst: Inst, args: &[Value]) {
        self.insts[inst].args = ValueList::from_slice(args, &mut self.pool);
    }

    /// Makes a value the only result of an instruction.
    pub fn set_result(&mut self, inst: Inst, value: Value) {
        self.insts[inst].results = ValueList::from_slice(&[value], &mut self.pool);
        self.values[value].def = ValueDef::Result(inst, 0);
    }

    /// A new result of an instruction in the place of its only one, which another instruction is to [give](Self::set_result).
    pub fn renew_result(&mut self, inst: Inst, ty: Type) -> Value {
        self.insts[inst].results = ValueList::new();
        self.append_result(inst, ty)
    }

    /// The operands of a block's `yield`, empty if it has none.
    pub fn yields(&self, block: Block) -> &[Value] {
        match self.blocks[block].insts.last() {
            Some(&i) if matches!(self.insts[i].op, Op::Yield) => self.args(i),
            _ => &[],
        }
    }

    /// Visits all instructions in program order. Nested instructions follow the one that holds them.
    pub fn walk(&self, visit: impl FnMut(Block, Inst)) {
        self.walk_block(self.entry, visit);
    }

    /// Visits the instructions of a block in program order, and those inside them.
    pub fn walk_block(&self, block: Block, mut visit: impl FnMut(Block, Inst)) {
        self.find_in_block(block, |block, inst| {
            visit(block, inst);
            false
        });
    }

    /// Whether a condition holds for an instruction of a block or for one inside it, in program order up to the first.
    fn find_in_block(&self, block: Block, mut is: impl FnMut(Block, Inst) -> bool) -> bool {
        let mut stack: SmallVec<[(Block, usize); WALK_DEPTH]> = smallvec![(block, 0)];
        while let Some((block, at)) = stack.pop() {
            let Some(&inst) = self.blocks[block].insts.get(at) else {
                continue;
            };
            stack.push((block, at + 1));
            if is(block, inst) {
                return true;
            }
            stack.extend(self.insts[inst].blocks.iter().rev().map(|&b| (b, 0)));
        }
        false
    }

    /// The instructions of a block and those inside them, in program order.
    pub fn inside(&self, block: Block) -> Vec<Inst> {
        let most = if block == self.entry { self.insts.len() } else { self.blocks[block].insts.len() };
        let mut all = Vec::with_capacity(most);
        self.walk_block(block, |_, inst| all.push(inst));
        all
    }

    /// Whether an instruction, or one inside it, satisfies a condition.
    pub fn any_inside(&self, inst: Inst, mut is: impl FnMut(Inst) -> bool) -> bool {
        is(inst) || self.insts[inst].blocks.iter().any(|&b| self.find_in_block(b, |_, inst| is(inst)))
    }

    /// Whether a value is the extent `?` of a view, with which no index is compared.
    pub fn is_unbounded(&self, value: Value) -> bool {
        self.def(value).is_some_and(|inst| matches!(self.insts[inst].op, Op::Unbounded))
    }

    /// Whether a view, or the one that it is a part of, has an extent of which nothing is known: no index along it is outside.
    pub fn is_open(&self, view: Value) -> bool {
        let whole = self.def(self.whole_view(view));
        whole.is_some_and(|v| self.args(v)[1..].iter().any(|&extent| self.is_unbounded(extent)))
    }

    /// The value of a constant scalar, looking through nothing but constants and resolved dims.
    pub fn int_const(&self, value: Value) -> Option<i64> {
        match self.insts[self.def(value)?].op {
            Op::Int(v) => Some(v),
            Op::Dim(d) => d.constant().map(i64::from),
            _ => None,
        }
    }
}
