//! Equality of kernels: the same instructions over the same values. Numbers may differ.

use super::dims::Tunables;
use super::typing::same_type;
use super::*;

impl Kernel {
    /// Whether two kernels are the same program: signature, constants, tunables, grid, instructions with their
    /// operands, types and attributes (but those of a `yield`, which mean nothing), block by block. Numbers of entities, names of values and
    /// source places may differ; extents are compared in lowest terms, floats by their bits.
    pub fn same_as(&self, other: &Self) -> bool {
        let params = |k: &Self| -> Vec<_> {
            let param = |p: &ParamData| (p.name.clone(), k.ty(p.value), p.facts);
            k.params.iter().map(param).collect()
        };
        let tunables = |t: &Tunables| t.values().cloned().collect::<Vec<_>>();
        let mut pairs = Pairs { left: self, right: other, to: SecondaryMap::new() };
        self.name == other.name
            && params(self) == params(other)
            && self.constants == other.constants
            && tunables(&self.tunables) == tunables(&other.tunables)
            && pairs.block(self.entry, other.entry)
            && pairs.values(&self.grid, &other.grid)
    }
}

/// The value of the right kernel for each value of the left one.
struct Pairs<'a> {
    left: &'a Kernel,
    right: &'a Kernel,
    to: SecondaryMap<Value, Option<Value>>,
}

impl Pairs<'_> {
    fn block(&mut self, left: Block, right: Block) -> bool {
        let (l, r) = (&self.left.blocks[left], &self.right.blocks[right]);
        self.define(&l.params, &r.params)
            && l.insts.len() == r.insts.len()
            && l.insts.iter().zip(&r.insts).all(|(&a, &b)| self.inst(a, b))
    }

    fn inst(&mut self, a: Inst, b: Inst) -> bool {
        let (left, right) = (&self.left.insts[a], &self.right.insts[b]);
        same_op(&left.op, &right.op)
            && (matches!(left.op, Op::Yield) || self.left.attrs[a] == self.right.attrs[b])
            && self.values(self.left.args(a), self.right.args(b))
            && left.blocks.len() == right.blocks.len()
            && left.blocks.iter().zip(&right.blocks).all(|(&x, &y)| self.block(x, y))
            && self.define(self.left.results(a), self.right.results(b))
    }

    fn define(&mut self, left: &[Value], right: &[Value]) -> bool {
        left.len() == right.len()
            && left.iter().zip(right).all(|(&a, &b)| {
                self.to[a] = Some(b);
                same_type(self.left.ty(a), self.right.ty(b))
            })
    }

    fn values(&self, left: &[Value], right: &[Value]) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(&a, &b)| self.to[a] == Some(b))
    }
}

fn same_op(a: &Op, b: &Op) -> bool {
    let same_float = |x: &f64, y: &f64| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    match (a, b) {
        (Op::Float(x), Op::Float(y)) => same_float(x, y),
        (Op::Dim(x), Op::Dim(y)) => x.same(*y),
        (Op::Slice(x), Op::Slice(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.same(*y)),
        (Op::View { strided, fill }, Op::View { strided: other_strided, fill: other }) => {
            strided == other_strided && same_float(fill, other)
        }
        _ => a == b,
    }
}
