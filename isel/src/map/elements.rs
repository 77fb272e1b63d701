//! Elements of tiles of integers as [`terms`](super::terms), in which a place along a dimension is a variable.
//!
//! ```text
//!  (iota 1 : i32[BM, BN]) + t*BN     ─►   place 1 + BN t
//! ```

use super::terms::{Term, Terms};
use std::rc::Rc;
use warplift_ir::tile::{BinOp, Dim, Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

/// No dimension of the other tile.
const NOWHERE: usize = usize::MAX;

/// The place of an element along a dimension of a tile.
pub(super) fn place(d: usize) -> Rc<Term> {
    Rc::new(Term::Node(format!("place {d}"), Vec::new()))
}

/// The other dimensions.
pub(super) fn without(dims: &[usize], at: usize) -> Vec<usize> {
    dims.iter().enumerate().filter(|&(d, _)| d != at).map(|(_, &dim)| dim).collect()
}

/// An element of a tile of integers, whose dimensions are these of another tile. Of a scalar: its term.
pub(super) fn element(k: &Kernel, terms: &mut Terms<'_>, v: Value, dims: &[usize]) -> Option<Rc<Term>> {
    match k.ty(v) {
        Type::Scalar(Elem::I32) => return terms.of(v),
        Type::Tile(Elem::I32, shape) if shape.rank() == dims.len() => {}
        _ => return None,
    }
    let def = k.def(v)?;
    let args = k.args(def);
    match k.insts[def].op {
        Op::Full => terms.of(args[0]),
        Op::Iota(d) if k.ty(v).shape()?.dims()[usize::from(d)].is_one() => Some(Term::int(0)),
        Op::Iota(d) => Some(place(dims[usize::from(d)])),
        Op::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul)) => {
            let x = element(k, terms, args[0], dims)?;
            let y = element(k, terms, args[1], dims)?;
            match op {
                BinOp::Add => Some(x.plus(&y, 1)),
                BinOp::Sub => Some(x.plus(&y, -1)),
                _ => x.times(&y),
            }
        }
        _ => element(k, terms, args[0], &operand_dims(k, def, dims)?),
    }
}

/// Of an instruction that only repeats or renames elements: the dimensions of another tile that its operand's are, of those
/// that its own are.
pub(super) fn operand_dims(k: &Kernel, def: Inst, dims: &[usize]) -> Option<Vec<usize>> {
    let own = k.ty(k.result(def)).shape()?;
    match k.insts[def].op {
        Op::Broadcast => Some(dims.to_vec()),
        Op::ExpandDims(d) => Some(without(dims, d.into())),
        Op::Reshape => {
            let of = k.ty(k.args(def)[0]).shape()?;
            let mut long = own.dims().iter().zip(dims).filter(|(extent, _)| !extent.is_one());
            let mut dim = |extent: &Dim| match extent.is_one() {
                // There is one place along it.
                true => Some(NOWHERE),
                false => long.next().filter(|(other, _)| *other == extent).map(|(_, &d)| d),
            };
            let found = of.dims().iter().map(&mut dim).collect::<Option<_>>();
            found.filter(|_| long.next().is_none())
        }
        _ => None,
    }
}
