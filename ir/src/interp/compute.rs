//! Operations on whole tiles that touch no memory.

use super::arith::{Undefined, binary, compare, float_binary, int_binary, unary};
use super::number::{Number, cast, round, widen, wrap};
use super::tile::{Data, Extents, Tile, dot, strides};
use super::value::Val;
use crate::tile::{Op, ReduceOp};
use crate::types::Elem;
use std::rc::Rc;

type Result<T> = std::result::Result<T, Undefined>;

/// Elementwise operations: scalars stand for tiles of equal elements. `elem` is the operands' type
/// (for `select` that of the chosen ones), `result` the result's.
pub(super) fn elementwise(op: &Op, elem: Elem, result: Elem, args: &[Val]) -> Result<Val> {
    let shape = args.iter().find_map(|v| v.tile());
    let mut failed = None;
    let mut at = |i: usize| {
        let x = |n: usize| args.get(n).map_or(Number::Int(0), |v| v.number(i));
        one(op, elem, result, x).unwrap_or_else(|e| {
            failed = Some(e);
            Number::Int(0)
        })
    };
    let value = match shape {
        None => Val::Scalar(at(0)),
        Some(t) => Val::Tile(Rc::new(Tile::from_fn(result, t.extents.clone(), at))),
    };
    failed.map_or(Ok(value), Err)
}

fn one(op: &Op, elem: Elem, result: Elem, x: impl Fn(usize) -> Number) -> Result<Number> {
    Ok(match op {
        Op::Unary(op) => unary(*op, elem, x(0)),
        Op::Binary(op) => binary(*op, elem, x(0), x(1))?,
        Op::Compare(op) => Number::Int(compare(*op, elem, x(0), x(1)).into()),
        Op::Cast => cast(elem, result, x(0)),
        Op::Fma => fma(result, x(0), x(1), x(2)),
        _ if x(0).is_true() => x(1),
        _ => x(2),
    })
}

/// The product of two numbers of at most 24 bits is exact in f64; the sum is rounded there first, which
/// moves the result only where it lies within 2^-53 of half way.
fn fma(elem: Elem, x: Number, y: Number, z: Number) -> Number {
    let [x, y, z] = [x, y, z].map(|n| n.as_f64());
    Number::Float(round(elem, x.mul_add(y, z)))
}

/// `acc + a b`; see `arith` for the rounding.
pub(super) fn mma(acc: &Tile, a: &Tile, b: &Tile, negated: bool) -> Tile {
    let sign = if negated { -1.0 } else { 1.0 };
    let (n, k) = (acc.extents[1], a.extents[1]);
    let data = match (&acc.data, &a.data, &b.data) {
        (Data::Float(acc_data), Data::Float(a), Data::Float(b)) => {
            let mut sums = acc_data.clone();
            for (row, a_row) in sums.chunks_mut(n).zip(a.chunks(k)) {
                for (&x, b_row) in a_row.iter().zip(b.chunks(n)) {
                    row.iter_mut().zip(b_row).for_each(|(s, &y)| *s += sign * x * y);
                }
                row.iter_mut().for_each(|s| *s = round(acc.elem, *s));
            }
            Data::Float(sums)
        }
        (Data::Int(acc_data), Data::Int(a), Data::Int(b)) => {
            let mut sums = acc_data.clone();
            for (row, a_row) in sums.chunks_mut(n).zip(a.chunks(k)) {
                for (&x, b_row) in a_row.iter().zip(b.chunks(n)) {
                    let add = |(s, &y): (&mut i64, &i64)| *s = s.wrapping_add(x.wrapping_mul(y));
                    row.iter_mut().zip(b_row).for_each(add);
                }
                row.iter_mut().for_each(|s| *s = wrap(acc.elem, i128::from(*s)));
            }
            Data::Int(sums)
        }
        // The verifier lets no mixture come here.
        _ => acc.data.clone(),
    };
    Tile { elem: acc.elem, extents: acc.extents.clone(), data }
}

/// A running combination of elements: floats in f64, integers wrapped at each step.
struct Running {
    op: ReduceOp,
    elem: Elem,
    value: Option<Number>,
}

impl Running {
    fn add(&mut self, x: Number) {
        let step = self.op.step();
        self.value = Some(match (self.value, x) {
            (None, x) => x,
            (Some(Number::Float(v)), Number::Float(x)) => Number::Float(float_binary(step, v, x)),
            (Some(v), x) => {
                let [v, x] = [v, x].map(|n| widen(self.elem, n.as_i64()));
                // None of the steps of a reduction is undefined.
                let sum = int_binary(step, self.elem, v, x).unwrap_or(v);
                Number::Int(wrap(self.elem, sum))
            }
        });
    }

    fn rounded(&self) -> Number {
        match self.value {
            Some(Number::Float(v)) => Number::Float(round(self.elem, v)),
            Some(n) => n,
            None => Number::Int(0),
        }
    }
}

/// A reduction along a dimension, which disappears.
pub(super) fn reduce(op: ReduceOp, x: &Tile, dim: usize) -> Val {
    let mut extents = x.extents.clone();
    let count = extents.remove(dim);
    let mut kept = x.strides();
    let step = kept.remove(dim);
    let own = strides(&extents);
    let result = Tile::from_fn(x.elem, extents.clone(), |i| {
        let start = moved(i, &own, &extents, &kept);
        let mut running = Running { op, elem: x.elem, value: None };
        (0..count).for_each(|j| running.add(x.get(start + j * step)));
        running.rounded()
    });
    match extents.is_empty() {
        true => Val::Scalar(result.get(0)),
        false => Val::Tile(Rc::new(result)),
    }
}

/// The place of a row-major number under other strides.
fn moved(number: usize, own: &[usize], extents: &[usize], other: &[usize]) -> usize {
    let index = own.iter().zip(extents).map(|(&s, &e)| number / s % e);
    index.zip(other).map(|(i, &s)| i * s).sum()
}

/// An inclusive prefix along a dimension.
pub(super) fn scan(op: ReduceOp, x: &Tile, dim: usize) -> Tile {
    let (step, count) = (x.strides()[dim], x.extents[dim]);
    let mut numbers = vec![Number::Int(0); x.len()];
    let first = |i: usize| (i / step).is_multiple_of(count);
    for start in (0..x.len()).filter(|&i| first(i)) {
        let mut running = Running { op, elem: x.elem, value: None };
        for j in 0..count {
            let at = start + j * step;
            running.add(x.get(at));
            numbers[at] = running.rounded();
        }
    }
    Tile::from_fn(x.elem, x.extents.clone(), |i| numbers[i])
}

/// Elements picked along a dimension by an index tile.
pub(super) fn gather(x: &Tile, index: &Tile, dim: usize) -> Result<Tile> {
    let (own, at) = (x.strides(), index.strides());
    let mut outside = false;
    let result = x.pick(index.extents.clone(), |place| {
        let picked = index.get(dot(&at, place)).as_i64();
        let picked = usize::try_from(picked).ok().filter(|&p| p < x.extents[dim]);
        outside |= picked.is_none();
        let rest = dot(&own, place) - own[dim] * place[dim];
        rest + own[dim] * picked.unwrap_or(0)
    });
    match outside {
        true => Err(Undefined("`gather` picks an index out of range")),
        false => Ok(result),
    }
}

/// Operations that only move elements; `extents` are the result's. `None` for another operation.
pub(super) fn movement(op: &Op, x: &Tile, extents: Extents, offsets: &[usize]) -> Option<Tile> {
    let own = x.strides();
    Some(match op {
        Op::Rearrange => x.clone(),
        Op::Reshape | Op::ExpandDims(_) => Tile { elem: x.elem, extents, data: x.data.clone() },
        Op::ViewAs(elem) => x.view_as(*elem, extents),
        Op::Trans(perm) => x.pick(extents, |index| {
            let from = |(&p, &i): (&u8, &usize)| own[usize::from(p)] * i;
            perm.iter().zip(index).map(from).sum()
        }),
        Op::Broadcast => {
            let missing = extents.len() - own.len();
            x.pick(extents, |index| {
                let grown = index[missing..].iter().zip(&x.extents);
                let from = grown.map(|(&i, &e)| if e == 1 { 0 } else { i });
                from.zip(&own).map(|(i, s)| i * s).sum()
            })
        }
        Op::Slice(_) => {
            let start = dot(&own, offsets);
            x.pick(extents, |index| start + dot(&own, index))
        }
        _ => return None,
    })
}

/// Two tiles as the halves of a new last dimension.
pub(super) fn join(x: &Tile, y: &Tile) -> Tile {
    let mut extents = x.extents.clone();
    extents.push(2);
    Tile::from_fn(x.elem, extents, |i| if i % 2 == 0 { x } else { y }.get(i / 2))
}

/// One half of a last dimension of extent 2.
pub(super) fn half(x: &Tile, which: usize) -> Tile {
    let rest = x.extents[..x.extents.len() - 1].into();
    Tile::from_fn(x.elem, rest, |i| x.get(2 * i + which))
}
