//! The typing rules of operands and results. Builder, parser and verifier use them.
//!
//! A rule gets the operation and its operands' types. If the operands do not determine the result (`load`, `full`,
//! `cast`, ...), it also gets the requested type. It returns the types of the results.

mod access;
mod shape;

use super::dims::{Tunables, TypeText};
use super::{Assumption, BinOp, Dim, MAX_RANK, Op, ReduceOp, Shape, Type, UnOp};
use crate::types::Elem;
use smallvec::{SmallVec, smallvec};

/// Types of an instruction's results.
pub type Types = SmallVec<[Type; 2]>;

/// What an operand is to an operation of so many, in the words and numbers of a text.
fn role(op: &Op, index: usize, operands: usize) -> String {
    if !op.is_read() && !op.is_write() {
        return format!("operand {}", index + 1);
    }
    match index {
        0 => "the view".to_owned(),
        _ if op.indices(operands).contains(&index) => format!("index {index}"),
        _ if op.expected_operand(operands) == Some(index) => "the expected value".to_owned(),
        _ if op.written_operand(operands) == Some(index) => "the value".to_owned(),
        _ => "the mask".to_owned(),
    }
}

/// Greatest number of grid dimensions.
pub const MAX_GRID: usize = 3;

/// An operation and operands that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// Wrong number of operands.
    #[error("`{op}` takes {expected} operands, found {found}")]
    Count {
        /// Operation.
        op: &'static str,
        /// Number it takes.
        expected: usize,
        /// Number it was given.
        found: usize,
    },
    /// Wrong number of indices of a view.
    #[error("`{op}` of a view of {rank} dimensions takes {rank} indices, found {found}")]
    Indices {
        /// Operation.
        op: &'static str,
        /// Dimensions of the view.
        rank: usize,
        /// Number of indices.
        found: usize,
    },
    /// A tile whose elements are not those of its view.
    #[error("the view holds {view}, the tile is {tile}: write `cast(.., {view})`")]
    Stored {
        /// Elements of the view.
        view: Elem,
        /// Type of the tile.
        tile: String,
    },
    /// Operands of different element types.
    #[error("`{op}` of {left} and {right}: `cast` one of them")]
    Elements {
        /// Operation.
        op: &'static str,
        /// Type of one.
        left: String,
        /// Type of the other.
        right: String,
    },
    /// An operand of the wrong type.
    #[error("{role} of `{op}` must be {expected}, found {found}")]
    Operand {
        /// Operation.
        op: &'static str,
        /// What the operand is to it, as the text has it: `index 2`.
        role: String,
        /// The required type.
        expected: String,
        /// Its type.
        found: String,
    },
    /// Operands whose types do not go together.
    #[error("operands of `{op}` do not match: {left} and {right}")]
    Mismatch {
        /// Operation.
        op: &'static str,
        /// Type of one.
        left: String,
        /// Type of the other.
        right: String,
    },
    /// A result type that the operation cannot give, or a missing one.
    #[error("`{op}` must give {expected}, not {found}")]
    Result {
        /// Operation.
        op: &'static str,
        /// The possible types.
        expected: String,
        /// The requested type.
        found: String,
    },
    /// An attribute out of range.
    #[error("`{op}`: {what} is {value}, must be {least} to {most}")]
    Attribute {
        /// Operation.
        op: &'static str,
        /// Attribute.
        what: &'static str,
        /// Its value.
        value: i64,
        /// Least legal value.
        least: i64,
        /// Greatest legal value.
        most: i64,
    },
}

type Result<T> = std::result::Result<T, TypeError>;

/// The rules, for a kernel with these tunables (they are named in messages).
pub(crate) struct Typing<'a> {
    pub tunables: &'a Tunables,
    pub op: &'a Op,
    pub args: &'a [Type],
    pub want: Option<Type>,
}

impl Typing<'_> {
    /// The types of the results. Loops and branches are checked where their blocks are known.
    pub fn infer(&self) -> Result<Types> {
        match self.op {
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Fma => self.elementwise(),
            Op::Store | Op::Atomic(_) | Op::StoreScatter { .. } | Op::AtomicScatter { .. } => self.store(),
            Op::Split => self.split(),
            Op::AsyncCommit | Op::AsyncWait(_) => self.count(0).map(|()| smallvec![]),
            Op::Assert(_) => self.assert(),
            Op::Print(_) => self.print(),
            Op::Yield | Op::For | Op::While | Op::If => Ok(smallvec![]),
            _ => Ok(smallvec![self.single()?]),
        }
    }

    /// Rules of operations with one result.
    fn single(&self) -> Result<Type> {
        match self.op {
            Op::Int(_) => self.constant(|e| !e.is_float(), "an integer or bool scalar"),
            Op::Float(_) => self.constant(Elem::is_float, "a float scalar"),
            Op::Dim(_) | Op::ProgramId | Op::ProgramCount | Op::Unbounded => self.index_scalar(),
            Op::BlockIndex(d) | Op::GridDim(d) => self
                .attribute("the dimension", (*d).into(), 0, MAX_GRID as i64 - 1)
                .and_then(|()| self.index_scalar()),
            Op::Cast => self.cast(),
            Op::ToIndex => self.to_index(),
            Op::ViewAs(e) => self.view_as(*e),
            Op::Full => self.full(),
            Op::Iota(d) => self.iota(*d),
            Op::Broadcast => self.broadcast(),
            Op::Reshape => self.reshape(),
            Op::Trans(perm) => self.trans(perm),
            Op::Join => self.join(),
            Op::Slice(offsets) => self.slice(offsets),
            Op::Rearrange => self.count(1).and_then(|()| self.same_as_tile(0)),
            Op::ExpandDims(d) => self.expand_dims(*d),
            Op::View { strided, .. } => self.view(*strided),
            Op::SubView(kept) => self.sub_view(kept),
            Op::Load | Op::AsyncCopy => self.load(),
            Op::Workspace => self.workspace(),
            Op::Shared { .. } => self.shared(),
            Op::Assume(promise) => self.assume(promise),
            Op::Arrive => self.arrive(),
            Op::LoadGather { masked } => self.load_gather(*masked),
            Op::LoadRuns(dim) => self.load_runs((*dim).into()),
            Op::Mma { .. } => self.mma(),
            Op::Reduce(op, d) => self.reduce(*op, *d),
            Op::Scan(op, d) => self.scan(*op, *d),
            _ => self.gather(),
        }
    }

    fn constant(&self, legal: impl Fn(Elem) -> bool, expected: &str) -> Result<Type> {
        self.count(0)?;
        match self.want {
            Some(Type::Scalar(e)) if legal(e) => Ok(Type::Scalar(e)),
            _ => self.bad_result(expected),
        }
    }

    fn index_scalar(&self) -> Result<Type> {
        self.count(0)?;
        Ok(Type::Scalar(Elem::I32))
    }

    fn elementwise(&self) -> Result<Types> {
        let count = match self.op {
            Op::Unary(_) => 1,
            Op::Select | Op::Fma => 3,
            _ => 2,
        };
        self.count(count)?;
        let shape = self.elementwise_shape()?;
        let first = usize::from(matches!(self.op, Op::Select));
        let elem = self.args[first].elem();
        self.elementwise_elems(first)?;
        let result = match self.op {
            Op::Compare(_) => Elem::Bool,
            _ => elem,
        };
        Ok(smallvec![shape.map_or(Type::Scalar(result), |s| Type::Tile(result, s))])
    }

    /// The one shape of all operands that are tiles.
    fn elementwise_shape(&self) -> Result<Option<Shape>> {
        let mut first: Option<usize> = None;
        for i in 0..self.args.len() {
            if self.scalar_or_tile(i)?.is_none() {
                continue;
            }
            match first {
                Some(f) if !same_shape(self.args[f], self.args[i]) => return self.mismatch(f, i),
                _ => first = first.or(Some(i)),
            }
        }
        Ok(first.and_then(|f| self.args[f].shape()))
    }

    fn elementwise_elems(&self, first: usize) -> Result<()> {
        if matches!(self.op, Op::Select) && self.args[0].elem() != Elem::Bool {
            return self.bad_operand(0, "bool");
        }
        let elem = self.args[first].elem();
        for i in first + 1..self.args.len() {
            if self.args[i].elem() != elem {
                let [left, right] = [first, i].map(|n| self.text(self.args[n]));
                return Err(TypeError::Elements { op: self.op.name(), left, right });
            }
        }
        let (legal, expected) = match self.op {
            Op::Unary(op) => unary_takes(*op, elem),
            Op::Binary(op) => binary_takes(*op, elem),
            Op::Fma => (elem.is_float(), "floats"),
            _ => (true, ""),
        };
        if legal { Ok(()) } else { self.bad_operand(first, expected) }
    }

    fn cast(&self) -> Result<Type> {
        self.count(1)?;
        let shape = self.scalar_or_tile(0)?;
        let elem = match self.want {
            Some(w) => w.elem(),
            None => return self.bad_result("a type"),
        };
        Ok(shape.map_or(Type::Scalar(elem), |s| Type::Tile(elem, s)))
    }

    fn view(&self, strided: bool) -> Result<Type> {
        let Some(Type::View(elem, rank)) = self.want else {
            return self.bad_result("a view");
        };
        self.attribute("the rank", rank.into(), 1, MAX_RANK as i64)?;
        self.count(1 + usize::from(rank) * (1 + usize::from(strided)))?;
        // A truth value is a byte.
        let bytes = elem == Elem::Uint(8) && self.args[0] == Type::Ptr(Elem::Bool);
        if self.args[0] != Type::Ptr(elem) && !bytes {
            return self.bad_operand(0, &format!("ptr<{elem}>"));
        }
        (1..self.args.len()).try_for_each(|i| self.index_arg(i))?;
        Ok(Type::View(elem, rank))
    }

    fn sub_view(&self, kept: &[u8]) -> Result<Type> {
        let Some(&Type::View(elem, rank)) = self.args.first() else {
            return self.bad_operand(0, "a view");
        };
        self.attribute("the number of dimensions kept", kept.len() as i64, 1, rank.into())?;
        for (i, &d) in kept.iter().enumerate() {
            let least = if i == 0 { 0 } else { i64::from(kept[i - 1]) + 1 };
            self.attribute("a dimension kept", d.into(), least, i64::from(rank) - 1)?;
        }
        self.count(1 + usize::from(rank) - kept.len())?;
        (1..self.args.len()).try_for_each(|i| self.index_arg(i))?;
        Ok(Type::View(elem, kept.len() as u8))
    }

    fn workspace(&self) -> Result<Type> {
        self.attribute("the number of extents", self.args.len() as i64, 1, MAX_RANK as i64)?;
        (0..self.args.len()).try_for_each(|i| self.index_arg(i))?;
        match self.want {
            Some(Type::Ptr(elem)) => Ok(Type::Ptr(elem)),
            _ => self.bad_result("a pointer"),
        }
    }

    fn shared(&self) -> Result<Type> {
        let Some(Type::View(elem, rank)) = self.want else {
            return self.bad_result("a view");
        };
        self.attribute("the rank", rank.into(), 1, MAX_RANK as i64)?;
        self.count(rank.into())?;
        (0..self.args.len()).try_for_each(|i| self.index_arg(i))?;
        Ok(Type::View(elem, rank))
    }

    fn assume(&self, promise: &Assumption) -> Result<Type> {
        self.count(1)?;
        self.attribute("the multiple", promise.multiple, 1, i64::MAX)?;
        self.attribute("the greatest number", promise.max, promise.min, i64::MAX)?;
        match self.args[0] {
            Type::Scalar(e) if e.is_int() => Ok(self.args[0]),
            _ => self.bad_operand(0, "an integer scalar"),
        }
    }

    fn mma(&self) -> Result<Type> {
        self.count(3)?;
        for i in 0..3 {
            if self.tile_arg(i)?.1.rank() != 2 {
                return self.bad_operand(i, "a tile of 2 dimensions");
            }
        }
        let dim = |i: usize, d: usize| self.args[i].shape().map(|s| s.dims()[d].reduced());
        for (i, d, j, e) in [(0, 0, 1, 0), (1, 1, 2, 0), (0, 1, 2, 1)] {
            if dim(i, d) != dim(j, e) {
                return self.mismatch(i, j);
            }
        }
        let [acc, a, b] = [0, 1, 2].map(|i| self.args[i].elem());
        if !a.is_float() && matches!(self.op, Op::Mma { negated: true }) {
            return self.bad_operand(1, "a tile of floats to subtract its product");
        }
        if mma_takes(acc, a, b) {
            return Ok(self.args[0]);
        }
        self.bad_operand(0, &format!("a wide enough accumulator for {a} times {b}"))
    }

    fn reduce(&self, op: ReduceOp, dim: u8) -> Result<Type> {
        let (elem, shape) = self.reduced_arg(op, dim)?;
        let mut dims: SmallVec<[Dim; MAX_RANK]> = shape.dims().into();
        dims.remove(dim.into());
        if dims.is_empty() {
            return Ok(Type::Scalar(elem));
        }
        self.tile(elem, &dims)
    }

    fn scan(&self, op: ReduceOp, dim: u8) -> Result<Type> {
        let (elem, shape) = self.reduced_arg(op, dim)?;
        Ok(Type::Tile(elem, shape))
    }

    fn reduced_arg(&self, op: ReduceOp, dim: u8) -> Result<(Elem, Shape)> {
        self.count(1)?;
        let (elem, shape) = self.tile_arg(0)?;
        self.axis(dim, shape.rank())?;
        let (legal, expected) = binary_takes(op.step(), elem);
        if legal {
            return Ok((elem, shape));
        }
        self.bad_operand(0, expected)
    }

    fn gather(&self) -> Result<Type> {
        self.count(2)?;
        let Op::Gather(dim) = self.op else {
            return self.bad_result("nothing");
        };
        let (elem, from) = self.tile_arg(0)?;
        let (index, to) = self.tile_arg(1)?;
        self.axis(*dim, from.rank())?;
        if !index.is_int() {
            return self.bad_operand(1, "a tile of integers");
        }
        let others = |d: &usize| *d != usize::from(*dim);
        let same = |d: usize| from.dims()[d].same(to.dims()[d]);
        if from.rank() != to.rank() || !(0..from.rank()).filter(others).all(same) {
            return self.mismatch(0, 1);
        }
        Ok(Type::Tile(elem, to))
    }

    fn assert(&self) -> Result<Types> {
        self.count(1)?;
        match self.args[0] {
            Type::Scalar(Elem::Bool) => Ok(smallvec![]),
            _ => self.bad_operand(0, "a bool scalar"),
        }
    }

    fn print(&self) -> Result<Types> {
        (0..self.args.len()).try_for_each(|i| self.scalar_or_tile(i).map(drop))?;
        Ok(smallvec![])
    }

    // The parts of the rules.

    fn text(&self, ty: Type) -> String {
        TypeText(self.tunables, ty).to_string()
    }

    fn count(&self, expected: usize) -> Result<()> {
        if self.args.len() == expected {
            return Ok(());
        }
        Err(TypeError::Count { op: self.op.name(), expected, found: self.args.len() })
    }

    fn attribute(&self, what: &'static str, value: i64, least: i64, most: i64) -> Result<()> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(TypeError::Attribute { op: self.op.name(), what, value, least, most })
    }

    fn axis(&self, dim: u8, rank: usize) -> Result<()> {
        self.attribute("the dimension", dim.into(), 0, rank as i64 - 1)
    }

    fn tile(&self, elem: Elem, dims: &[Dim]) -> Result<Type> {
        self.attribute("the rank", dims.len() as i64, 1, MAX_RANK as i64)?;
        match Shape::new(dims) {
            Some(s) => Ok(Type::Tile(elem, s)),
            None => self.bad_result("a tile"),
        }
    }

    fn bad_operand<T>(&self, index: usize, expected: &str) -> Result<T> {
        Err(TypeError::Operand {
            op: self.op.name(),
            role: role(self.op, index, self.args.len()),
            expected: expected.to_owned(),
            found: self.text(self.args[index]),
        })
    }

    fn mismatch<T>(&self, left: usize, right: usize) -> Result<T> {
        Err(TypeError::Mismatch {
            op: self.op.name(),
            left: self.text(self.args[left]),
            right: self.text(self.args[right]),
        })
    }

    fn bad_result<T>(&self, expected: &str) -> Result<T> {
        Err(TypeError::Result {
            op: self.op.name(),
            expected: expected.to_owned(),
            found: self.want.map_or("nothing".to_owned(), |t| self.text(t)),
        })
    }

    fn scalar_or_tile(&self, index: usize) -> Result<Option<Shape>> {
        match self.args[index] {
            Type::Scalar(_) => Ok(None),
            Type::Tile(_, s) => Ok(Some(s)),
            _ => self.bad_operand(index, "a scalar or a tile"),
        }
    }

    fn tile_arg(&self, index: usize) -> Result<(Elem, Shape)> {
        match self.args[index] {
            Type::Tile(e, s) => Ok((e, s)),
            _ => self.bad_operand(index, "a tile"),
        }
    }

    fn same_as_tile(&self, index: usize) -> Result<Type> {
        self.tile_arg(index).map(|(e, s)| Type::Tile(e, s))
    }

    fn index_arg(&self, index: usize) -> Result<()> {
        match self.args[index] {
            Type::Scalar(Elem::Int(32 | 64) | Elem::Uint(32)) => Ok(()),
            _ => self.bad_operand(index, "an i32, u32 or i64 scalar"),
        }
    }

    /// One tile operand, and a wanted tile of the same elements.
    fn tile_to_tile(&self) -> Result<(Elem, Shape, Shape)> {
        self.count(1)?;
        let (elem, from) = self.tile_arg(0)?;
        match self.want {
            Some(Type::Tile(e, to)) if e == elem => Ok((elem, from, to)),
            _ => self.bad_result(&format!("a tile of {elem}")),
        }
    }
}

impl ReduceOp {
    /// The operation of two operands that it repeats.
    pub fn step(self) -> BinOp {
        match self {
            Self::Sum => BinOp::Add,
            Self::Prod => BinOp::Mul,
            Self::Min => BinOp::Min,
            Self::Max => BinOp::Max,
            Self::And => BinOp::And,
            Self::Or => BinOp::Or,
            Self::Xor => BinOp::Xor,
        }
    }
}

/// Whether two types are the same when extents are reduced.
pub(crate) fn same_type(a: Type, b: Type) -> bool {
    match (a, b) {
        (Type::Tile(x, _), Type::Tile(y, _)) => x == y && same_shape(a, b),
        _ => a == b,
    }
}

fn same_shape(a: Type, b: Type) -> bool {
    match (a.shape(), b.shape()) {
        (Some(a), Some(b)) => a.same(&b),
        _ => false,
    }
}

/// Whether an operation takes the element type, and the types that it takes.
fn unary_takes(op: UnOp, elem: Elem) -> (bool, &'static str) {
    match op {
        UnOp::Neg | UnOp::Abs => (elem.is_float() || elem.is_int(), "of integers or floats"),
        UnOp::Not => (!elem.is_float(), "of integers or bool"),
        UnOp::Likely | UnOp::Unlikely => (elem == Elem::Bool, "of bool"),
        _ => (elem.is_float(), "of floats"),
    }
}

/// As [`unary_takes`].
fn binary_takes(op: BinOp, elem: Elem) -> (bool, &'static str) {
    match op {
        BinOp::And | BinOp::Or | BinOp::Xor => (!elem.is_float(), "of integers or bool"),
        BinOp::CeilDiv | BinOp::Rem | BinOp::Shl | BinOp::Shr | BinOp::MulHi => {
            (elem.is_int(), "of integers")
        }
        _ => (elem != Elem::Bool, "of integers or floats"),
    }
}

/// Integers sum in i32 or wider, floats in f16 or wider.
fn mma_takes(acc: Elem, a: Elem, b: Elem) -> bool {
    let ints = acc.is_int() && acc.is_signed() && a.is_int() && b.is_int();
    let floats = acc.is_float() && a.is_float() && b.is_float();
    let wide = acc.bits() >= a.bits().max(b.bits());
    wide && ((ints && acc.bits() >= 32) || (floats && acc.bits() >= 16))
}

/// The counter's type of a `for` with these operands (`lo, hi, step, init..`).
pub(crate) fn for_counter(tunables: &Tunables, args: &[Type]) -> Result<Type> {
    let rule = Typing { tunables, op: &Op::For, args, want: None };
    if args.len() < 3 {
        rule.count(3)?;
    }
    for i in 0..3 {
        rule.index_arg(i)?;
        if args[i] != args[0] {
            return rule.mismatch(0, i);
        }
    }
    Ok(args[0])
}

/// Checks the operand of an `if`.
pub(crate) fn if_condition(tunables: &Tunables, args: &[Type]) -> Result<()> {
    let op = &Op::If;
    let rule = Typing { tunables, op, args, want: None };
    rule.assert().map(drop)
}

/// Types as the text form lists them.
pub(crate) fn list_text(tunables: &Tunables, types: &[Type]) -> String {
    if types.is_empty() {
        return "nothing".to_owned();
    }
    let all: Vec<String> = types.iter().map(|&t| TypeText(tunables, t).to_string()).collect();
    all.join(", ")
}
