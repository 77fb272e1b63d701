//! Sums over all tiles that a loop walks. For such a sum it does not matter where the tiles are cut.
//!
//! ```text
//!  carry x:  y = mma x, a, b        y = x + reduce_sum(tile, 1)        y = max(x, reduce_max(tile, 1))
//!  outside:  a and b are 0          tile is 0                          tile is -inf
//! ```

use super::{Stride, Tiling};
use warplift_ir::tile::{BinOp, Inst, Op, ReduceOp, UnOp, Value, ValueDef};

impl Tiling<'_> {
    /// Whether every value that a loop over tiles carries is such a sum. Other loops may carry anything.
    pub(super) fn accumulates(&self, holder: Inst) -> bool {
        let strided = self.starts.values().any(|s| s.stride == Stride::Loop(holder));
        !strided || self.carried(holder).all(|(x, y)| self.chain(holder, x, y).is_some())
    }

    /// Whether `term`, which is reduced along the extent, is a term of such a sum.
    pub(super) fn is_term(&self, term: Value) -> bool {
        self.kernel.insts.iter().any(|(holder, data)| {
            matches!(data.op, Op::For)
                && self.starts.values().any(|s| s.stride == Stride::Loop(holder))
                && self
                    .carried(holder)
                    .any(|(x, y)| self.chain(holder, x, y).is_some_and(|c| c.contains(&term)))
        })
    }

    fn carried(&self, holder: Inst) -> impl Iterator<Item = (Value, Value)> {
        let body = self.kernel.insts[holder].blocks[0];
        let params = self.kernel.blocks[body].params.iter().skip(1);
        params.copied().zip(self.kernel.yields(body).iter().copied())
    }

    /// The terms between a carried value and the value yielded for it. `None` if they are not all of one kind, or if
    /// this is no sum.
    fn chain(&self, holder: Inst, x: Value, y: Value) -> Option<Vec<Value>> {
        let (mut at, mut terms, mut kind) = (y, Vec::new(), None);
        while at != x {
            if self.uses(at).len() != 1 {
                return None;
            }
            let (next, term, of) = self.link(holder, at)?;
            if *kind.get_or_insert(of) != of {
                return None;
            }
            terms.push(term);
            at = next;
        }
        // Nothing else in the loop may use the sum. A value that is passed on unchanged is no sum, and may be used.
        (terms.is_empty() || self.uses(x).len() == 1).then_some(terms)
    }

    /// One step towards the carried value: the rest of the sum, the term, and the kind of reduction.
    fn link(&self, holder: Inst, at: Value) -> Option<(Value, Value, ReduceOp)> {
        let inst = self.kernel.def(at)?;
        let args = self.kernel.args(inst);
        let kind = match self.op(inst) {
            Op::Mma { .. } => {
                return self.is_whole_product(holder, inst).then_some((args[0], at, ReduceOp::Sum));
            }
            Op::Binary(BinOp::Add) => ReduceOp::Sum,
            Op::Binary(BinOp::Min) => ReduceOp::Min,
            Op::Binary(BinOp::Max) => ReduceOp::Max,
            Op::Binary(BinOp::Or) => ReduceOp::Or,
            Op::Binary(BinOp::Xor) => ReduceOp::Xor,
            _ => return None,
        };
        let [a, b] = *args.first_chunk()?;
        let of = |v| self.reduced(holder, v, kind);
        of(a).map(|term| (b, term, kind)).or_else(|| of(b).map(|term| (a, term, kind)))
    }

    /// The value, if it is a reduction along the extent, possibly with dimensions of extent 1 inserted.
    fn reduced(&self, holder: Inst, v: Value, kind: ReduceOp) -> Option<Value> {
        let inst = self.kernel.def(v).filter(|_| self.uses(v).len() == 1)?;
        let args = self.kernel.args(inst);
        match self.op(inst) {
            Op::ExpandDims(_) => self.reduced(holder, args[0], kind),
            Op::Reduce(op, d) => {
                let whole = *op == kind && self.neutral_outside(holder, args[0], usize::from(*d), kind);
                whole.then_some(v)
            }
            Op::Mma { .. } => {
                let fresh = kind == ReduceOp::Sum && self.is_zero(args[0]);
                (fresh && self.is_whole_product(holder, inst)).then_some(v)
            }
            _ => None,
        }
    }

    fn is_zero(&self, v: Value) -> bool {
        self.kernel.def(v).is_some_and(|d| match self.op(d) {
            Op::Float(x) => *x == 0.0,
            Op::Int(x) => *x == 0,
            Op::Full | Op::Broadcast => self.is_zero(self.kernel.args(d)[0]),
            _ => false,
        })
    }

    /// Whether a product sums along this loop's tiles, and elements outside the view add nothing.
    fn is_whole_product(&self, holder: Inst, mma: Inst) -> bool {
        let args = self.kernel.args(mma);
        let zero = |v, d| self.neutral_outside(holder, v, d, ReduceOp::Sum);
        zero(args[1], 1) && zero(args[2], 0)
    }

    /// Whether a tile has this extent along dimension `d`, this loop walks that dimension, and elements outside the
    /// view do not change a reduction of this kind.
    fn neutral_outside(&self, holder: Inst, v: Value, d: usize, kind: ReduceOp) -> bool {
        let ValueDef::Result(inst, _) = self.kernel.values[v].def else { return false };
        let args = self.kernel.args(inst);
        let within = |v: Value, d| self.neutral_outside(holder, v, d, kind);
        let sum = kind == ReduceOp::Sum;
        self.tiled(v, d)
            && match self.op(inst) {
                Op::Load => {
                    let start = self.starts.get(&args[d + 1]);
                    start.is_some_and(|s| s.stride == Stride::Loop(holder))
                        && self.is_neutral_fill(args[0], kind)
                }
                Op::Trans(perm) => within(args[0], usize::from(perm[d])),
                Op::ExpandDims(at) => within(args[0], if d < usize::from(*at) { d } else { d - 1 }),
                Op::Broadcast => {
                    let grown = self.dims(v).map_or(0, <[_]>::len) - self.dims(args[0]).map_or(0, <[_]>::len);
                    d >= grown && within(args[0], d - grown)
                }
                Op::Rearrange => within(args[0], d),
                Op::Cast => {
                    let float = |v: Value| self.kernel.ty(v).elem().is_float();
                    float(v) == float(args[0]) && within(args[0], d)
                }
                Op::Unary(UnOp::Neg | UnOp::Abs) => sum && within(args[0], d),
                Op::Binary(BinOp::Add | BinOp::Sub) => sum && args.iter().all(|&a| within(a, d)),
                Op::Binary(BinOp::Mul) => {
                    let along = |a: Value| self.has_extent(a);
                    sum && args.iter().any(|&a| along(a)) && args.iter().all(|&a| !along(a) || within(a, d))
                }
                _ => false,
            }
    }

    /// Whether the fill of a view does not change a reduction of this kind.
    fn is_neutral_fill(&self, view: Value, kind: ReduceOp) -> bool {
        let view = self.kernel.whole_view(view);
        let Some(Op::View { fill, .. }) = self.kernel.def(view).map(|d| self.op(d)) else { return false };
        match kind {
            ReduceOp::Sum | ReduceOp::Or | ReduceOp::Xor => *fill == 0.0,
            ReduceOp::Min => *fill == f64::INFINITY && self.kernel.ty(view).elem().is_float(),
            ReduceOp::Max => *fill == f64::NEG_INFINITY && self.kernel.ty(view).elem().is_float(),
            ReduceOp::Prod | ReduceOp::And => false,
        }
    }
}
