//! Columns of a result computed on their own: a slice sinks through elementwise work and into loads, so that
//! an epilogue of several operands holds one chunk of each at a time.
//!
//! ```text
//!  slice(relu(acc + bias) + residual)  ─►  relu(slice(acc) + load bias[..]) + load residual[..]
//! ```

use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::tile::{BinOp, Block, Dim, Inst, Kernel, Loc, Op, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Columns `from .. from + width` of tiles with `columns` columns.
pub struct Columns<'k> {
    /// The kernel.
    pub k: &'k mut Kernel,
    /// Block that the narrow instructions go to.
    pub block: Block,
    /// All columns.
    pub columns: u32,
    /// First column.
    pub from: u32,
    /// Columns wanted.
    pub width: u32,
    /// Source place.
    pub loc: Loc,
    /// What was narrowed already.
    pub done: FxHashMap<Value, Value>,
    /// Whether loads are made again for the wanted columns alone; else their tiles are sliced.
    pub loads: bool,
}

/// Whether a value is made of more than its accumulator: loads or broadcasts under elementwise work.
pub fn has_operands(k: &Kernel, v: Value) -> bool {
    let Some(def) = k.def(v) else { return false };
    match k.insts[def].op {
        Op::Load | Op::Broadcast => true,
        _ if is_elementwise(&k.insts[def].op) => k.args(def).iter().any(|&a| has_operands(k, a)),
        _ => false,
    }
}

fn is_elementwise(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Fma | Op::Cast | Op::Rearrange
    )
}

impl Columns<'_> {
    /// The wanted columns of a tile; what has no such columns (scalars, single columns) stays.
    pub fn of(&mut self, v: Value) -> Value {
        let Type::Tile(elem, shape) = self.k.ty(v) else { return v };
        let Some(narrow) = self.narrow(shape) else { return v };
        if let Some(&known) = self.done.get(&v) {
            return known;
        }
        let ty = Type::Tile(elem, narrow);
        let made = self.k.def(v).and_then(|def| self.again(def, ty)).unwrap_or_else(|| self.slice(v, ty));
        self.done.insert(v, made);
        made
    }

    fn narrow(&self, shape: Shape) -> Option<Shape> {
        let (&last, rest) = shape.dims().split_last()?;
        let dims: Vec<Dim> = rest.iter().copied().chain([Dim::new(self.width)]).collect();
        (last.constant() == Some(self.columns)).then(|| Shape::new(&dims)).flatten()
    }

    fn push(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let inst = self.k.append_inst(self.block, op, args, &[ty], &[], self.loc);
        self.k.result(inst)
    }

    /// The same instruction on the wanted columns alone, if it can be written so.
    fn again(&mut self, def: Inst, ty: Type) -> Option<Value> {
        let op = self.k.insts[def].op.clone();
        let mut args = self.k.args(def).to_vec();
        match op {
            Op::Load if self.loads => {
                let i32 = Type::Scalar(Elem::I32);
                let offset = self.push(Op::Int(self.from.into()), &[], i32);
                let column = args.pop()?;
                args.push(self.push(Op::Binary(BinOp::Add), &[column, offset], i32));
            }
            Op::Full => {}
            Op::Broadcast => args = args.iter().map(|&a| self.of(a)).collect(),
            Op::ExpandDims(d) if usize::from(d) + 1 < ty.shape()?.rank() => {
                args = args.iter().map(|&a| self.of(a)).collect();
            }
            _ if is_elementwise(&op) => args = args.iter().map(|&a| self.of(a)).collect(),
            _ => return None,
        }
        Some(self.push(op, &args, ty))
    }

    /// The wanted columns of a tile as a view of it.
    pub fn slice_of(&mut self, v: Value) -> Value {
        let Type::Tile(elem, shape) = self.k.ty(v) else { return v };
        match self.narrow(shape) {
            Some(narrow) => self.slice(v, Type::Tile(elem, narrow)),
            None => v,
        }
    }

    fn slice(&mut self, v: Value, ty: Type) -> Value {
        let rank = ty.shape().map_or(1, |s| s.rank());
        let zeros = std::iter::repeat_n(Dim::new(0), rank - 1);
        let offsets = zeros.chain([Dim::new(self.from)]).collect();
        self.push(Op::Slice(offsets), &[v], ty)
    }
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
