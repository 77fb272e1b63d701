//! The builder, with which frontends write kernels. It resembles Cranelift's `FunctionBuilder`: one method for each
//! operation, results typed by the rules of the IR, and typed errors for misuse.
//!
//! ```
//! use warplift_ir::tile::{KernelBuilder, Shape, Type, Facts, BinOp};
//! use warplift_ir::types::Elem;
//!
//! # fn main() -> Result<(), warplift_ir::tile::BuildError> {
//! let mut b = KernelBuilder::new("double")?;
//! let x = b.param("x", Type::Ptr(Elem::F32), Facts::default())?;
//! let n = b.param("n", Type::Scalar(Elem::I32), Facts::default())?;
//! let block = b.int(256, Elem::I32)?;
//! let grid = b.binary(BinOp::CeilDiv, n, block)?;
//! b.set_grid(&[grid])?;
//! let view = b.view(x, &[n], None, 0.0)?;
//! let i = b.block_index(0)?;
//! let at = b.binary(BinOp::Mul, i, block)?;
//! let tile = b.load(view, &[at], Shape::of(&[256]).unwrap())?;
//! let twice = b.binary(BinOp::Add, tile, tile)?;
//! b.store(view, &[at], twice)?;
//! let kernel = b.finish()?;
//! assert_eq!(kernel.grid.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Loops and branches are opened and closed. `begin_for` returns the counter and the carried values. `end` takes the
//! yielded values of the body and returns the loop's results.

mod access;
mod blocks;

use super::names::{is_ident, is_reserved};
use super::typing::{Types, Typing};
use super::*;
use crate::layout::Layout;
use cranelift_entity::EntityRef;
use smallvec::smallvec;

/// A misuse of the builder.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// Operation and operands do not fit.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A value of another kernel, or of a block that is closed.
    #[error("{0} is not visible here")]
    Scope(Value),
    /// A name that is no identifier, reserved, or taken.
    #[error("`{0}` cannot be a name: it is no identifier, reserved, or taken")]
    Name(String),
    /// A tunable that can have no value, or not its default.
    #[error("{0}")]
    Domain(String),
    /// The yielded values do not have the types that the loop or branch needs.
    #[error("`{op}` must yield {expected}, found {found}")]
    Yield {
        /// The operation that holds the block.
        op: &'static str,
        /// Types it needs.
        expected: String,
        /// Types yielded.
        found: String,
    },
    /// `begin_else` outside a branch's first block, `end` without a block to end, `finish` within one.
    #[error("{0} does not belong here")]
    Structure(&'static str),
    /// Blocks nested too deep.
    #[error("blocks are nested deeper than {0} levels")]
    Depth(u32),
    /// An invalid grid. A grid is one to three i32 scalars of the entry block.
    #[error("a grid has 1 to 3 i32 extents, computed before any loop")]
    Grid,
}

type Result<T> = std::result::Result<T, BuildError>;

/// The owner of an open block.
#[derive(Debug)]
struct Frame {
    op: Op,
    args: Vec<Value>,
    blocks: SmallVec<[Block; 2]>,
    /// Types that the block must yield; of the second branch, those of the first.
    yields: Option<Vec<Type>>,
    loc: Loc,
}

/// Builds a [`Kernel`]; see the module documentation.
#[derive(Debug)]
pub struct KernelBuilder {
    kernel: Kernel,
    open: Vec<Frame>,
    /// The block in which each value is defined.
    home: SecondaryMap<Value, Option<Block>>,
    /// Scope and order of the next atomic update.
    sync: MemorySync,
    loc: Loc,
}

impl KernelBuilder {
    /// Starts a kernel.
    pub fn new(name: &str) -> Result<Self> {
        if !is_ident(name) {
            return Err(BuildError::Name(name.to_owned()));
        }
        Ok(Self {
            kernel: Kernel::new(name),
            open: Vec::new(),
            home: SecondaryMap::new(),
            sync: MemorySync::default(),
            loc: Loc::default(),
        })
    }

    /// The kernel so far.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Sets the source place of the instructions that follow.
    pub fn set_loc(&mut self, loc: Loc) {
        self.loc = loc;
    }

    /// Names the text's file, and the place of the kernel's name there.
    pub fn set_file(&mut self, file: &str, loc: Loc) {
        file.clone_into(&mut self.kernel.file);
        self.kernel.loc = loc;
    }

    /// Gives a value a name, for printing and for the mapping (a loop goes by its counter's).
    pub fn set_name(&mut self, value: Value, name: &str) {
        name.clone_into(&mut self.kernel.names[value]);
    }

    /// Sets the attributes of an instruction, as `map` does.
    pub fn set_attrs(&mut self, inst: Inst, attrs: Attrs) {
        self.kernel.attrs[inst] = attrs;
    }

    /// Adds a parameter, a scalar or a pointer.
    pub fn param(&mut self, name: &str, ty: Type, facts: Facts) -> Result<Value> {
        self.new_name(name)?;
        let entry = self.kernel.entry;
        let value = self.kernel.append_param(entry, ty);
        self.home[value] = Some(entry);
        self.set_name(value, name);
        let name = name.to_owned();
        self.kernel.params.push(ParamData { name, value, facts });
        Ok(value)
    }

    /// Adds a tunable that may have any value.
    pub fn tunable(&mut self, name: &str, default: i64) -> Result<Tunable> {
        self.new_name(name)?;
        let (name, domain) = (name.to_owned(), Domain::Any);
        Ok(self.kernel.tunables.push(TunableData { name, default, domain }))
    }

    /// Adds a tunable that may have some values only.
    pub fn tunable_in(&mut self, name: &str, default: i64, domain: Domain) -> Result<Tunable> {
        self.new_name(name)?;
        let tunable = TunableData { name: name.to_owned(), default, domain };
        match tunable.fault() {
            Some(fault) => Err(BuildError::Domain(fault)),
            None => Ok(self.kernel.tunables.push(tunable)),
        }
    }

    /// Names a number of what is computed, for printing; its uses are the number itself.
    pub fn constant(&mut self, name: &str, value: Constant) -> Result<()> {
        self.new_name(name)?;
        self.kernel.constants.push(ConstantData { name: name.to_owned(), value });
        Ok(())
    }

    /// Sets the logical grid: one to three i32 scalars of the entry block.
    pub fn set_grid(&mut self, extents: &[Value]) -> Result<()> {
        let legal =
            |v: &Value| self.visible(*v) && self.home[*v] == Some(self.kernel.entry) && self.is_i32(*v);
        if !(1..=MAX_GRID).contains(&extents.len()) || !extents.iter().all(legal) {
            return Err(BuildError::Grid);
        }
        self.kernel.grid = extents.to_vec();
        Ok(())
    }

    /// Ends the kernel.
    pub fn finish(mut self) -> Result<Kernel> {
        if !self.open.is_empty() {
            return Err(BuildError::Structure("finish within an open block"));
        }
        self.inst(Op::Yield, &[], None)?;
        Ok(self.kernel)
    }

    fn new_name(&self, name: &str) -> Result<()> {
        let taken = self.kernel.params.iter().any(|p| p.name == name)
            || self.kernel.constants.iter().any(|c| c.name == name)
            || self.kernel.tunables.values().any(|t| t.name == name);
        if is_ident(name) && !is_reserved(name) && !taken {
            return Ok(());
        }
        Err(BuildError::Name(name.to_owned()))
    }

    fn is_i32(&self, value: Value) -> bool {
        self.kernel.ty(value) == Type::Scalar(Elem::I32)
    }

    fn block(&self) -> Block {
        self.open.last().and_then(|f| f.blocks.last().copied()).unwrap_or(self.kernel.entry)
    }

    /// Whether a value may be used now.
    pub fn visible(&self, value: Value) -> bool {
        value.index() < self.kernel.values.len()
            && self.home[value].is_some_and(|home| {
                home == self.kernel.entry || self.open.iter().any(|f| f.blocks.last() == Some(&home))
            })
    }

    fn all_visible(&self, values: &[Value]) -> Result<()> {
        match values.iter().find(|v| !self.visible(**v)) {
            Some(&v) => Err(BuildError::Scope(v)),
            None => Ok(()),
        }
    }

    fn types(&self, values: &[Value]) -> SmallVec<[Type; 8]> {
        values.iter().map(|&v| self.kernel.ty(v)).collect()
    }

    /// Appends any operation without blocks. `want` is the requested result type. Operations whose operands do not
    /// determine it need it: constants, `cast`, `full`, `iota`, `broadcast`, `reshape`, `slice`, `view`, `load`,
    /// `async_copy`, `workspace`.
    pub fn inst(&mut self, op: Op, args: &[Value], want: Option<Type>) -> Result<Inst> {
        self.all_visible(args)?;
        let types = self.types(args);
        let results = Typing { tunables: &self.kernel.tunables, op: &op, args: &types, want }.infer()?;
        Ok(self.append(op, args, &results, &[], self.loc))
    }

    fn append(&mut self, op: Op, args: &[Value], results: &[Type], blocks: &[Block], loc: Loc) -> Inst {
        let block = self.block();
        let inst = self.kernel.append_inst(block, op, args, results, blocks, loc);
        for &value in self.kernel.results(inst) {
            self.home[value] = Some(block);
        }
        inst
    }

    fn value(&mut self, op: Op, args: &[Value], want: Option<Type>) -> Result<Value> {
        let inst = self.inst(op, args, want)?;
        Ok(self.kernel.result(inst))
    }
}

/// One method for each operation; operands and results as [`Op`] says.
impl KernelBuilder {
    /// An integer or truth constant.
    pub fn int(&mut self, value: i64, elem: Elem) -> Result<Value> {
        self.value(Op::Int(value), &[], Some(Type::Scalar(elem)))
    }

    /// A float constant.
    pub fn float(&mut self, value: f64, elem: Elem) -> Result<Value> {
        self.value(Op::Float(value), &[], Some(Type::Scalar(elem)))
    }

    /// An extent as an i32.
    pub fn dim(&mut self, dim: Dim) -> Result<Value> {
        self.value(Op::Dim(dim), &[], None)
    }

    /// The block's index along a grid dimension.
    pub fn block_index(&mut self, dim: u8) -> Result<Value> {
        self.value(Op::BlockIndex(dim), &[], None)
    }

    /// The grid's extent along a dimension.
    pub fn grid_dim(&mut self, dim: u8) -> Result<Value> {
        self.value(Op::GridDim(dim), &[], None)
    }

    /// Element by element, one operand.
    pub fn unary(&mut self, op: UnOp, x: Value) -> Result<Value> {
        self.value(Op::Unary(op), &[x], None)
    }

    /// Element by element, two operands.
    pub fn binary(&mut self, op: BinOp, x: Value, y: Value) -> Result<Value> {
        self.value(Op::Binary(op), &[x, y], None)
    }

    /// Comparison, element by element.
    pub fn compare(&mut self, op: CmpOp, x: Value, y: Value) -> Result<Value> {
        self.value(Op::Compare(op), &[x, y], None)
    }

    /// `c ? x : y`.
    pub fn select(&mut self, c: Value, x: Value, y: Value) -> Result<Value> {
        self.value(Op::Select, &[c, x, y], None)
    }

    /// `x * y + z` of floats, rounded once.
    pub fn fma(&mut self, x: Value, y: Value, z: Value) -> Result<Value> {
        self.value(Op::Fma, &[x, y, z], None)
    }

    /// Conversion to another element type.
    pub fn cast(&mut self, x: Value, elem: Elem) -> Result<Value> {
        self.value(Op::Cast, &[x], Some(Type::Scalar(elem)))
    }

    /// The same bits as another element type.
    pub fn view_as(&mut self, x: Value, elem: Elem) -> Result<Value> {
        self.value(Op::ViewAs(elem), &[x], None)
    }

    /// A tile of equal elements.
    pub fn full(&mut self, x: Value, shape: Shape) -> Result<Value> {
        self.with_shape(Op::Full, &[x], shape)
    }

    /// A tile of i32 with the index along a dimension.
    pub fn iota(&mut self, dim: u8, shape: Shape) -> Result<Value> {
        self.value(Op::Iota(dim), &[], Some(Type::Tile(Elem::I32, shape)))
    }

    /// Extents of 1 and missing leading ones grow.
    pub fn broadcast(&mut self, x: Value, shape: Shape) -> Result<Value> {
        self.with_shape(Op::Broadcast, &[x], shape)
    }

    /// The same elements in row-major order.
    pub fn reshape(&mut self, x: Value, shape: Shape) -> Result<Value> {
        self.with_shape(Op::Reshape, &[x], shape)
    }

    /// Dimensions permuted.
    pub fn trans(&mut self, x: Value, perm: &[u8]) -> Result<Value> {
        self.value(Op::Trans(perm.into()), &[x], None)
    }

    /// A new last dimension of extent 2.
    pub fn join(&mut self, x: Value, y: Value) -> Result<Value> {
        self.value(Op::Join, &[x, y], None)
    }

    /// The halves of a last dimension of extent 2.
    pub fn split(&mut self, x: Value) -> Result<(Value, Value)> {
        let inst = self.inst(Op::Split, &[x], None)?;
        let halves = self.kernel.results(inst);
        Ok((halves[0], halves[1]))
    }

    /// A part that starts at these offsets.
    pub fn slice(&mut self, x: Value, offsets: &[Dim], shape: Shape) -> Result<Value> {
        self.with_shape(Op::Slice(offsets.into()), &[x], shape)
    }

    /// The same elements in any layout.
    pub fn rearrange(&mut self, x: Value) -> Result<Value> {
        self.value(Op::Rearrange, &[x], None)
    }

    /// An extra dimension of extent 1.
    pub fn expand_dims(&mut self, x: Value, dim: u8) -> Result<Value> {
        self.value(Op::ExpandDims(dim), &[x], None)
    }

    /// The extent of a view's dimension whose end the kernel does not know: no access is compared with it, and one that
    /// leaves the array is an error that only the interpreter and the simulator report. No stride may depend on it.
    pub fn unbounded(&mut self) -> Result<Value> {
        self.value(Op::Unbounded, &[], None)
    }

    /// A view of global memory. Strides are in elements; without strides it is row-major.
    pub fn view(
        &mut self,
        ptr: Value,
        extents: &[Value],
        strides: Option<&[Value]>,
        fill: f64,
    ) -> Result<Value> {
        self.all_visible(&[ptr])?;
        let rank = u8::try_from(extents.len()).unwrap_or(u8::MAX);
        let want = Type::View(self.kernel.ty(ptr).elem(), rank);
        let mut args = vec![ptr];
        args.extend(extents);
        args.extend(strides.unwrap_or_default());
        let strided = strides.is_some();
        self.value(Op::View { strided, fill }, &args, Some(want))
    }

    /// A view of the dimensions without an index.
    pub fn sub_view(&mut self, view: Value, index: &[Option<Value>]) -> Result<Value> {
        let kept = (0u8..).zip(index).filter(|(_, i)| i.is_none()).map(|(d, _)| d).collect();
        let fixed: Vec<Value> = index.iter().copied().flatten().collect();
        self.value(Op::SubView(kept), &joined(view, &fixed, &[]), None)
    }

    /// The tile of a view whose first element has these indices.
    pub fn load(&mut self, view: Value, index: &[Value], shape: Shape) -> Result<Value> {
        self.with_shape(Op::Load, &joined(view, index, &[]), shape)
    }

    /// The tile of which equal parts along a dimension begin at indices of their own, which stand in the place of that
    /// dimension's; see [`Op::LoadRuns`].
    pub fn load_runs(&mut self, view: Value, dim: u8, index: &[Value], shape: Shape) -> Result<Value> {
        self.with_shape(Op::LoadRuns(dim), &joined(view, index, &[]), shape)
    }

    /// The element of a view that has these indices, as a scalar.
    pub fn load_scalar(&mut self, view: Value, index: &[Value]) -> Result<Value> {
        self.all_visible(&[view])?;
        let want = Type::Scalar(self.kernel.ty(view).elem());
        self.value(Op::Load, &joined(view, index, &[]), Some(want))
    }

    /// Starts a load; see [`Op::AsyncCopy`].
    pub fn async_copy(&mut self, view: Value, index: &[Value], shape: Shape) -> Result<Value> {
        self.with_shape(Op::AsyncCopy, &joined(view, index, &[]), shape)
    }

    /// Writes a tile, or a scalar to one element.
    pub fn store(&mut self, view: Value, index: &[Value], x: Value) -> Result<()> {
        self.scatter(Op::Store, view, index, &[x], None).map(drop)
    }

    /// An array of so many elements, the product of the extents, that no argument holds.
    pub fn workspace(&mut self, extents: &[Value], elem: Elem) -> Result<Value> {
        self.value(Op::Workspace, extents, Some(Type::Ptr(elem)))
    }

    /// A view of an array of constant extents in the block's shared memory; see [`Op::Shared`].
    pub fn shared(&mut self, extents: &[Value], elem: Elem, layout: Option<Layout>) -> Result<Value> {
        let rank = u8::try_from(extents.len()).unwrap_or(u8::MAX);
        self.value(Op::Shared { layout: layout.map(Box::new) }, extents, Some(Type::View(elem, rank)))
    }

    /// Whether this block is the last of `n` to arrive at an element.
    pub fn arrive(&mut self, view: Value, index: &[Value], n: Value) -> Result<Value> {
        self.value(Op::Arrive, &joined(view, index, &[n]), None)
    }

    /// `acc + a b`.
    pub fn mma(&mut self, acc: Value, a: Value, b: Value) -> Result<Value> {
        self.value(Op::Mma { negated: false }, &[acc, a, b], None)
    }

    /// Reduction along a dimension.
    pub fn reduce(&mut self, op: ReduceOp, x: Value, dim: u8) -> Result<Value> {
        self.value(Op::Reduce(op, dim), &[x], None)
    }

    /// The index of the first greatest ([`ReduceOp::Max`]) or least ([`ReduceOp::Min`]) element along a dimension, i32.
    /// NaNs do not count; where nothing else stands, it is `i32::MAX`.
    pub fn arg_reduce(&mut self, op: ReduceOp, x: Value, dim: u8) -> Result<Value> {
        let inst = self.arg_reduce_inst(op, x, dim)?;
        Ok(self.kernel.result(inst))
    }

    pub(crate) fn arg_reduce_inst(&mut self, op: ReduceOp, x: Value, dim: u8) -> Result<Inst> {
        let mut best = self.reduce(op, x, dim)?;
        let shape = self.kernel.ty(x).shape();
        if let (Some(shape), Type::Tile(..)) = (shape, self.kernel.ty(best)) {
            let column = self.expand_dims(best, dim)?;
            best = self.broadcast(column, shape)?;
        }
        let found = self.compare(CmpOp::Eq, x, best)?;
        let want = shape.map(|s| Type::Tile(Elem::I32, s));
        let index = self.value(Op::Iota(dim), &[], want)?;
        let none = self.int(i32::MAX.into(), Elem::I32)?;
        let candidates = self.select(found, index, none)?;
        self.inst(Op::Reduce(ReduceOp::Min, dim), &[candidates], None)
    }

    /// Inclusive prefix along a dimension.
    pub fn scan(&mut self, op: ReduceOp, x: Value, dim: u8) -> Result<Value> {
        self.value(Op::Scan(op, dim), &[x], None)
    }

    /// Elements picked along a dimension.
    pub fn gather(&mut self, x: Value, index: Value, dim: u8) -> Result<Value> {
        self.value(Op::Gather(dim), &[x, index], None)
    }

    /// Closes a group of asynchronous copies.
    pub fn async_commit(&mut self) -> Result<()> {
        self.inst(Op::AsyncCommit, &[], None).map(drop)
    }

    /// Waits until at most so many groups are unfinished.
    pub fn async_wait(&mut self, left: u32) -> Result<()> {
        self.inst(Op::AsyncWait(left), &[], None).map(drop)
    }

    /// Prints values.
    pub fn print(&mut self, text: &str, values: &[Value]) -> Result<()> {
        self.inst(Op::Print(text.to_owned()), values, None).map(drop)
    }

    /// The same integer, of which something is promised.
    pub fn assume(&mut self, x: Value, promise: Assumption) -> Result<Value> {
        self.value(Op::Assume(promise), &[x], None)
    }

    /// Stops the kernel with a message if false.
    pub fn assert(&mut self, condition: Value, text: &str) -> Result<()> {
        self.inst(Op::Assert(text.to_owned()), &[condition], None).map(drop)
    }

    /// A requested tile with the element type of the first operand.
    fn with_shape(&mut self, op: Op, args: &[Value], shape: Shape) -> Result<Value> {
        self.all_visible(args)?;
        let elem = self.kernel.ty(args[0]).elem();
        self.value(op, args, Some(Type::Tile(elem, shape)))
    }
}

fn joined(first: Value, middle: &[Value], last: &[Value]) -> SmallVec<[Value; 8]> {
    let mut all: SmallVec<[Value; 8]> = smallvec![first];
    all.extend_from_slice(middle);
    all.extend_from_slice(last);
    all
}

#[cfg(test)]
mod tests;
