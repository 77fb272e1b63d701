//! A part of a result computed on its own: a slice sinks through elementwise work and into loads, so that
//! an epilogue of several operands holds one chunk of each at a time.
//!
//! ```text
//!  slice(relu(acc + bias) + residual)  ─►  relu(slice(acc) + load bias[..]) + load residual[..]
//! ```

use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, Block, Dim, Inst, Kernel, Loc, Op, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Elements `from .. from + width` of tiles along a dimension of `extent`. That dimension is counted from
/// the last one back, since operands of lower rank are broadcast along the first ones.
pub struct TilePart<'k> {
    /// The kernel.
    pub k: &'k mut Kernel,
    /// Block that the narrow instructions go to.
    pub block: Block,
    /// The whole dimension.
    pub extent: u32,
    /// First element.
    pub from: u32,
    /// Elements wanted.
    pub width: u32,
    /// Source place.
    pub loc: Loc,
    /// What was narrowed already, by dimension.
    pub done: FxHashMap<(Value, usize), Value>,
    /// Where the slice sinks no further.
    pub stops: Stops<'k>,
    /// Conditions that hold for every element that is used.
    pub holds: &'k [Value],
}

/// What is sliced rather than made again for the wanted part alone.
#[derive(Clone, Copy)]
pub enum Stops<'a> {
    /// Nothing that could be made again.
    Nowhere,
    /// Loads.
    Loads,
    /// Certain instructions.
    At(&'a FxHashSet<Inst>),
}

impl Stops<'_> {
    fn at(self, k: &Kernel, inst: Inst) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Loads => matches!(k.insts[inst].op, Op::Load),
            Self::At(kept) => kept.contains(&inst),
        }
    }
}

/// Whether a value is made of more than its accumulator: loads or broadcasts under elementwise work.
pub fn has_operands(k: &Kernel, v: Value) -> bool {
    let Some(def) = k.def(v) else { return false };
    match k.insts[def].op {
        Op::Load | Op::Broadcast => true,
        _ if keeps_places(&k.insts[def].op) => k.args(def).iter().any(|&a| has_operands(k, a)),
        _ => false,
    }
}

/// Whether an element of the result needs no other of the operands than those at its place.
fn keeps_places(op: &Op) -> bool {
    op.is_elementwise() || matches!(op, Op::Rearrange)
}

impl TilePart<'_> {
    /// The wanted part of a tile; what has no such dimension (scalars, single columns) stays.
    pub fn of(&mut self, v: Value, back: usize) -> Value {
        let Type::Tile(elem, shape) = self.k.ty(v) else { return v };
        let Some(narrow) = self.narrow(shape, back) else { return v };
        if let Some(&known) = self.done.get(&(v, back)) {
            return known;
        }
        let ty = Type::Tile(elem, narrow);
        let rebuild = self.k.def(v).and_then(|def| self.rebuild(def, ty, back));
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

    fn push(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let inst = self.k.append_inst(self.block, op, args, &[ty], &[], self.loc);
        self.k.result(inst)
    }

    /// The same instruction on the wanted part alone, if it can be written so.
    fn rebuild(&mut self, def: Inst, ty: Type, back: usize) -> Option<Value> {
        let op = self.k.insts[def].op.clone();
        let mut args = self.k.args(def).to_vec();
        let rank = ty.shape()?.rank();
        if self.stops.at(self.k, def) {
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
            Op::Select if self.holds.contains(&args[0]) && matches!(self.k.ty(args[1]), Type::Tile(..)) => {
                return Some(self.of(args[1], back));
            }
            Op::ExpandDims(d) if usize::from(d) + 1 + back != rank => {
                // Behind the dimension that is cut, the operand has one dimension less.
                let back = if usize::from(d) + 1 + back > rank { back - 1 } else { back };
                args = args.iter().map(|&a| self.of(a, back)).collect();
            }
            _ if keeps_places(&op) => args = args.iter().map(|&a| self.of(a, back)).collect(),
            _ => return None,
        }
        Some(self.push(op, &args, ty))
    }

    /// An index of the whole as one of the part.
    pub fn moved(&mut self, index: Value) -> Value {
        let i32 = Type::Scalar(Elem::I32);
        let offset = self.push(Op::Int(self.from.into()), &[], i32);
        self.push(Op::Binary(BinOp::Add), &[index, offset], i32)
    }

    /// The numbers along a dimension, from where the part begins.
    fn plural(&mut self, d: u8, ty: Type) -> Value {
        let numbers = self.push(Op::Iota(d), &[], ty);
        let scalar = Type::Scalar(ty.elem());
        let from = self.push(Op::Int(self.from.into()), &[], scalar);
        let from = self.push(Op::Full, &[from], ty);
        self.push(Op::Binary(BinOp::Add), &[numbers, from], ty)
    }

    /// The wanted part of a tile as a view of it.
    pub fn slice_of(&mut self, v: Value, back: usize) -> Value {
        let Type::Tile(elem, shape) = self.k.ty(v) else { return v };
        match self.narrow(shape, back) {
            Some(narrow) => self.slice(v, Type::Tile(elem, narrow), back),
            None => v,
        }
    }

    fn slice(&mut self, v: Value, ty: Type, back: usize) -> Value {
        let rank = ty.shape().map_or(1, |s| s.rank());
        let offset = |d: usize| if d + 1 + back == rank { self.from } else { 0 };
        let offsets = (0..rank).map(|d| Dim::new(offset(d))).collect();
        self.push(Op::Slice(offsets), &[v], ty)
    }
}

/// Whether a tile is another view of its operand's elements.
pub fn is_view(op: &Op) -> bool {
    matches!(op, Op::Slice(_) | Op::ExpandDims(_) | Op::Broadcast | Op::Reshape | Op::Trans(_))
}

/// Drops instructions whose results nobody reads and that have no effect.
pub fn do_dead(k: &mut Kernel) {
    loop {
        let mut used: FxHashSet<Value> = k.grid.iter().copied().collect();
        k.walk(|_, inst| used.extend(k.args(inst)));
        let dead = |i: &Inst| {
            let data = &k.insts[*i];
            let kept = data.op.has_effect() || !data.blocks.is_empty() || matches!(data.op, Op::Yield);
            !kept && !k.results(*i).iter().any(|r| used.contains(r))
        };
        let lists: Vec<(Block, Vec<Inst>)> = k
            .blocks
            .iter()
            .map(|(b, d)| (b, d.insts.iter().copied().filter(|i| !dead(i)).collect()))
            .collect();
        let mut changed = false;
        for (block, insts) in lists {
            changed |= insts.len() != k.blocks[block].insts.len();
            k.blocks[block].insts = insts;
        }
        if !changed {
            return;
        }
    }
}
