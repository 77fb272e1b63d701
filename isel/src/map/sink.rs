//! Slice sinking: a slice moves up through elementwise work and into loads. An epilogue with several operands then
//! holds one chunk of each at a time.
//!
//! ```text
//!  slice(relu(acc + bias) + residual)  ─►  relu(slice(acc) + load bias[..]) + load residual[..]
//! ```

use super::cursor::Cursor;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, Dim, Inst, Kernel, Op, Shape, Type, Value};

/// The slice `from .. from + width` along a dimension of `extent`. The dimension is counted from the last one back,
/// because operands of lower rank are broadcast along the first ones.
pub struct TilePart<'k> {
    /// Where narrow instructions are appended.
    pub at: Cursor<'k>,
    /// Extent of the whole dimension.
    pub extent: u32,
    /// First element.
    pub from: u32,
    /// Elements of the slice.
    pub width: u32,
    /// Tiles that are already narrowed, by dimension.
    pub done: FxHashMap<(Value, usize), Value>,
    /// Where the slice stops sinking.
    pub stops: Stops<'k>,
    /// Conditions that are true for every used element.
    pub holds: &'k [Value],
}

/// The tiles that are sliced as a whole; all others are recomputed for the slice alone.
#[derive(Clone, Copy)]
pub enum Stops<'a> {
    /// Only tiles that cannot be recomputed.
    Nowhere,
    /// Loads.
    Loads,
    /// Only tiles that cannot be recomputed, and products can: of the rows of their left operands. What is recomputed keeps
    /// its place in the text and what the mapping says of it.
    ThroughProducts,
    /// Certain instructions.
    At(&'a FxHashSet<Inst>),
}

impl Stops<'_> {
    fn at(self, k: &Kernel, inst: Inst) -> bool {
        match self {
            Self::Nowhere | Self::ThroughProducts => false,
            Self::Loads => matches!(k.insts[inst].op, Op::Load),
            Self::At(kept) => kept.contains(&inst),
        }
    }
}

/// Whether a value has loads or broadcasts under its elementwise work, beside the accumulator.
pub fn has_operands(k: &Kernel, v: Value) -> bool {
    let Some(def) = k.def(v).filter(|_| matches!(k.ty(v), Type::Tile(..))) else { return false };
    match k.insts[def].op {
        Op::Load | Op::Broadcast => true,
        _ if keeps_places(&k.insts[def].op) => k.args(def).iter().any(|&a| has_operands(k, a)),
        _ => false,
    }
}

/// Whether a value is an accumulator, a reduction or a constant tile, or converted from one: nothing else is computed.
pub fn is_converted(k: &Kernel, v: Value) -> bool {
    let Some(def) = k.def(v) else { return true };
    match k.insts[def].op {
        Op::Cast => is_converted(k, k.args(def)[0]),
        Op::Load | Op::Broadcast => false,
        ref op => !keeps_places(op),
    }
}

/// Whether each result element depends only on the operand elements at the same place.
fn keeps_places(op: &Op) -> bool {
    op.is_elementwise() || matches!(op, Op::Rearrange)
}

impl TilePart<'_> {
    /// The slice of a tile. A value without the dimension (scalar, single column) stays as it is.
    pub fn of(&mut self, v: Value, back: usize) -> Value {
        let Type::Tile(elem, shape) = self.at.k.ty(v) else { return v };
        let Some(narrow) = self.narrow(shape, back) else { return v };
        if let Some(&known) = self.done.get(&(v, back)) {
            return known;
        }
        let ty = Type::Tile(elem, narrow);
        let rebuild = self.at.k.def(v).and_then(|def| self.rebuild(def, ty, back));
        let made = rebuild.unwrap_or_else(|| self.slice(v, ty, back));
        self.done.insert((v, back), made);
        made
    }

    fn narrow(&self, shape: Shape, back: usize) -> Option<Shape> {
        let mut dims = shape.dims().to_vec();
        let dim = dims.iter_mut().rev().nth(back)?;
        if dim.constant() != Some(self.extent) {
            return None;
        }
        *dim = Dim::new(self.width);
        Shape::new(&dims)
    }

    /// The same instruction on the slice alone, if that is possible.
    fn rebuild(&mut self, def: Inst, ty: Type, back: usize) -> Option<Value> {
        let op = self.at.k.insts[def].op.clone();
        let mut args = self.at.k.args(def).to_vec();
        let rank = ty.shape()?.rank();
        if self.stops.at(self.at.k, def) {
            return None;
        }
        match op {
            Op::Load => {
                let at = args.len() - 1 - back;
                args[at] = self.moved(args[at]);
            }
            Op::Iota(d) if usize::from(d) + 1 + back == rank => return Some(self.plural(d, ty)),
            Op::Iota(_) => {}
            Op::Full => {}
            Op::Broadcast => args = args.iter().map(|&a| self.of(a, back)).collect(),
            Op::Select
                if self.holds.contains(&args[0]) && matches!(self.at.k.ty(args[1]), Type::Tile(..)) =>
            {
                return Some(self.of(args[1], back));
            }
            Op::ExpandDims(d) if usize::from(d) + 1 + back != rank => {
                // After the sliced dimension, the operand has one dimension less.
                let back = if usize::from(d) + 1 + back > rank { back - 1 } else { back };
                args = args.iter().map(|&a| self.of(a, back)).collect();
            }
            Op::Mma { .. } if self.narrows_products() && back == 1 => {
                args[..2].iter_mut().for_each(|a| *a = self.of(*a, back));
            }
            Op::Trans(ref perm) if self.narrows_products() => {
                args[0] = self.of(args[0], rank - 1 - usize::from(perm[rank - 1 - back]));
            }
            _ if keeps_places(&op) => args = args.iter().map(|&a| self.of(a, back)).collect(),
            _ => return None,
        }
        if !self.narrows_products() {
            return Some(self.at.inst(op, &args, ty));
        }
        let made = self.at.copy(def, &args);
        let result = self.at.k.result(made);
        self.at.k.values[result].ty = ty;
        Some(result)
    }

    fn narrows_products(&self) -> bool {
        matches!(self.stops, Stops::ThroughProducts)
    }

    /// The store of the slice, by one of the whole tile, which is this operand of it.
    pub fn store(&mut self, whole: Inst, value: usize) {
        let mut args = self.at.k.args(whole).to_vec();
        args[value] = self.of(args[value], 1);
        args[value - 2] = self.moved(args[value - 2]);
        self.at.copy(whole, &args);
    }

    /// The index of the slice, from an index of the whole.
    pub fn moved(&mut self, index: Value) -> Value {
        self.at.with(BinOp::Add, index, self.from.into())
    }

    /// The numbers along a dimension, from the start of the slice.
    fn plural(&mut self, d: u8, ty: Type) -> Value {
        let numbers = self.at.inst(Op::Iota(d), &[], ty);
        self.at.with(BinOp::Add, numbers, self.from.into())
    }

    fn slice(&mut self, v: Value, ty: Type, back: usize) -> Value {
        let rank = ty.shape().map_or(1, |s| s.rank());
        let offset = |d: usize| if d + 1 + back == rank { self.from } else { 0 };
        let offsets = (0..rank).map(|d| Dim::new(offset(d))).collect();
        self.at.inst(Op::Slice(offsets), &[v], ty)
    }
}

/// Whether a tile only views its operand's elements.
pub fn is_view(op: &Op) -> bool {
    matches!(op, Op::Slice(_) | Op::ExpandDims(_) | Op::Broadcast | Op::Reshape | Op::Trans(_))
}
