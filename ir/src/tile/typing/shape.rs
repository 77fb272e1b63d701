//! Rules of the operations that make tiles and move their elements.

use super::{Result, Types, Typing, same_shape};
use crate::tile::{Dim, MAX_RANK, Type};
use crate::types::Elem;
use smallvec::{SmallVec, smallvec};

impl Typing<'_> {
    pub(super) fn view_as(&self, to: Elem) -> Result<Type> {
        self.count(1)?;
        let from = self.args[0].elem().bits();
        let Some(shape) = self.scalar_or_tile(0)? else {
            return if from == to.bits() {
                Ok(Type::Scalar(to))
            } else {
                self.bad_operand(0, &format!("a scalar of {} bits", to.bits()))
            };
        };
        let mut dims: SmallVec<[Dim; MAX_RANK]> = shape.dims().into();
        let scaled = dims.last().and_then(|d| d.scaled(from, to.bits()));
        match (dims.last_mut(), scaled) {
            (Some(last), Some(d)) if d.tunables().next().is_some() || d.constant().is_some() => *last = d,
            _ => {
                return self.bad_operand(0, &format!("a tile whose rows are whole numbers of {to}"));
            }
        }
        self.tile(to, &dims)
    }

    pub(super) fn full(&self) -> Result<Type> {
        self.count(1)?;
        match self.want {
            Some(Type::Tile(e, s)) if self.args[0] == Type::Scalar(e) => Ok(Type::Tile(e, s)),
            Some(Type::Tile(e, _)) => self.bad_operand(0, &format!("a scalar {e}")),
            _ => self.bad_result("a tile"),
        }
    }

    pub(super) fn iota(&self, dim: u8) -> Result<Type> {
        self.count(0)?;
        match self.want {
            Some(Type::Tile(Elem::I32, s)) => {
                self.axis(dim, s.rank())?;
                Ok(Type::Tile(Elem::I32, s))
            }
            _ => self.bad_result("a tile of i32"),
        }
    }

    pub(super) fn broadcast(&self) -> Result<Type> {
        let (elem, from, to) = self.tile_to_tile()?;
        match from.common(&to) {
            Some(c) if c.same(&to) => Ok(Type::Tile(elem, to)),
            _ => self.bad_result("a shape to which its operand grows"),
        }
    }

    pub(super) fn reshape(&self) -> Result<Type> {
        let (elem, from, to) = self.tile_to_tile()?;
        if from.same_elements(&to) {
            return Ok(Type::Tile(elem, to));
        }
        self.bad_result("as many elements as its operand has")
    }

    pub(super) fn trans(&self, perm: &[u8]) -> Result<Type> {
        self.count(1)?;
        let (elem, shape) = self.tile_arg(0)?;
        let rank = shape.rank();
        let mut seen = [false; MAX_RANK];
        for &p in perm {
            self.axis(p, rank)?;
            seen[usize::from(p)] = true;
        }
        if perm.len() != rank || seen[..rank].contains(&false) {
            return self.bad_operand(0, "a tile of as many dimensions as are permuted, each once");
        }
        let dims: SmallVec<[Dim; MAX_RANK]> = perm.iter().map(|&p| shape.dims()[usize::from(p)]).collect();
        self.tile(elem, &dims)
    }

    pub(super) fn join(&self) -> Result<Type> {
        self.count(2)?;
        let (elem, shape) = self.tile_arg(0)?;
        if self.tile_arg(1)?.0 != elem || !same_shape(self.args[0], self.args[1]) {
            return self.mismatch(0, 1);
        }
        let mut dims: SmallVec<[Dim; MAX_RANK]> = shape.dims().into();
        dims.push(Dim::new(2));
        self.tile(elem, &dims)
    }

    pub(super) fn split(&self) -> Result<Types> {
        self.count(1)?;
        let (elem, shape) = self.tile_arg(0)?;
        match shape.dims() {
            [rest @ .., last] if !rest.is_empty() && last.constant() == Some(2) => {
                let half = self.tile(elem, rest)?;
                Ok(smallvec![half, half])
            }
            _ => self.bad_operand(0, "a tile of 2 or more dimensions whose last extent is 2"),
        }
    }

    pub(super) fn slice(&self, offsets: &[Dim]) -> Result<Type> {
        let (elem, from, to) = self.tile_to_tile()?;
        if from.rank() != to.rank() || offsets.len() != to.rank() {
            return self.bad_result("a tile of the operand's rank, with as many offsets");
        }
        let inside = |d: usize| {
            let numbers = (offsets[d].constant(), to.dims()[d].constant(), from.dims()[d].constant());
            match numbers {
                (Some(o), Some(t), Some(f)) => o.checked_add(t).is_some_and(|end| end <= f),
                _ => true,
            }
        };
        if (0..to.rank()).all(inside) {
            return Ok(Type::Tile(elem, to));
        }
        self.bad_result("a part of its operand")
    }

    pub(super) fn expand_dims(&self, dim: u8) -> Result<Type> {
        self.count(1)?;
        let (elem, shape) = self.tile_arg(0)?;
        self.axis(dim, shape.rank() + 1)?;
        let mut dims: SmallVec<[Dim; MAX_RANK]> = shape.dims().into();
        dims.insert(dim.into(), Dim::new(1));
        self.tile(elem, &dims)
    }
}
