//! Elements of tiles of integers as [`terms`](super::terms), in which a place along a dimension is a variable.
//!
//! ```text
//!  (iota 1 : i32[BM, BN]) + t*BN     ─►   place 1 + BN t
//! ```

use super::terms::{Term, Terms};
use std::rc::Rc;
use warplift_ir::tile::{BinOp, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;

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
        Op::Broadcast => element(k, terms, args[0], dims),
        Op::ExpandDims(d) => element(k, terms, args[0], &without(dims, d.into())),
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
        _ => None,
    }
}
