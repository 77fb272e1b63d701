//! Rules of accesses to views: loads, stores and atomic updates, by scalar indices, by tiles of indices, under masks.
//!
//! ```text
//!  load v[i, j] : f16[M, N]               i, j scalars: the first element
//!  load v[rows, j] : f16[M, N] where c    rows: i32[M, N], an index of each element; c: bool[M, N]
//!  load v[[a, b], j] : f16[M, N]          a, b scalars: the first row of each half
//! ```

use super::{Result, TypeError, Types, Typing, same_shape};
use crate::tile::{AtomicOp, MemorySync, Op, Type};
use crate::types::Elem;
use smallvec::smallvec;

impl Typing<'_> {
    /// The view and its indices; `after` operands follow them, the first of which, or the result, is `tile`.
    fn access(&self, after: usize, tile: Option<Type>) -> Result<(Elem, usize)> {
        let Some(&Type::View(elem, rank)) = self.args.first() else {
            return match self.args.first() {
                Some(_) => self.bad_operand(0, "a view"),
                None => self.count(1 + after).map(|()| (Elem::Bool, 0)),
            };
        };
        let rank = usize::from(rank);
        let found = self.args.len().saturating_sub(1 + after);
        if found != rank {
            return Err(TypeError::Indices { op: self.op.name(), rank, found });
        }
        let gathers =
            matches!(self.op, Op::LoadGather { .. } | Op::StoreScatter { .. } | Op::AtomicScatter { .. });
        (1..=rank).try_for_each(|i| match (self.args[i], tile) {
            (Type::Tile(..), Some(tile)) if gathers => self.index_tile(i, tile),
            _ => self.index_arg(i),
        })?;
        // Scalar indices without a mask are those of the plain operation, which the text writes alike.
        let usual = self.op.sync() == MemorySync::default();
        let plain = gathers
            && usual
            && !self.op.is_masked()
            && !matches!(self.op, Op::AtomicScatter { old: true, .. });
        if plain && !self.args[1..=rank].iter().any(|t| t.shape().is_some()) {
            return self.bad_operand(1, "a tile of indices, as there is no mask");
        }
        Ok((elem, rank))
    }

    /// An index of each element: an integer tile of the accessed tile's shape.
    fn index_tile(&self, index: usize, tile: Type) -> Result<()> {
        let (elem, _) = self.tile_arg(index)?;
        if !matches!(elem, Elem::Int(32) | Elem::Uint(32)) {
            return self.bad_operand(index, "a tile of i32 or u32, or `to_index` of one of i64");
        }
        self.shaped(index, tile)
    }

    /// Indices of 64 bits as those of 32.
    pub(super) fn to_index(&self) -> Result<Type> {
        self.count(1)?;
        match self.args[0] {
            Type::Tile(Elem::Int(64), shape) => Ok(Type::Tile(Elem::I32, shape)),
            _ => self.bad_operand(0, "a tile of i64"),
        }
    }

    fn shaped(&self, index: usize, tile: Type) -> Result<()> {
        let (elem, _) = self.tile_arg(index)?;
        if same_shape(self.args[index], tile) {
            return Ok(());
        }
        let shaped = tile.shape().map(|s| self.text(Type::Tile(elem, s)));
        self.bad_operand(index, &shaped.unwrap_or_else(|| "a tile".to_owned()))
    }

    /// The mask, if there is one: a truth value for each element.
    fn mask(&self, tile: Type) -> Result<()> {
        let last = self.args.len() - 1;
        match self.args[last] {
            _ if !self.op.is_masked() => Ok(()),
            Type::Tile(Elem::Bool, _) => self.shaped(last, tile),
            _ => self.bad_operand(last, "a bool tile"),
        }
    }

    /// `load` by scalar indices.
    pub(super) fn load(&self) -> Result<Type> {
        self.load_by(0)
    }

    /// `load` by tiles of indices, or under a mask.
    pub(super) fn load_gather(&self, masked: bool) -> Result<Type> {
        let tile = self.load_by(usize::from(masked))?;
        self.mask(tile).map(|()| tile)
    }

    /// `load` of runs along a dimension, each from an index of its own.
    pub(super) fn load_runs(&self, dim: usize) -> Result<Type> {
        let Some(&Type::View(elem, rank)) = self.args.first() else { return self.bad_operand(0, "a view") };
        let (rank, op) = (usize::from(rank), self.op.name());
        let starts = self.op.run_starts(rank, self.args.len()).filter(|s| dim < rank && !s.is_empty());
        let Some(starts) = starts else {
            return Err(TypeError::Indices { op, rank, found: self.args.len().saturating_sub(1) });
        };
        (1..self.args.len()).try_for_each(|i| self.index_arg(i))?;
        let Some(Type::Tile(e, s)) = self.want.filter(|w| w.shape().is_some_and(|s| s.rank() == rank)) else {
            return self.bad_result(&tile_of(rank, elem));
        };
        let divides = |extent: u32| (extent as usize).is_multiple_of(starts.len());
        match s.dims()[dim].constant().is_none_or(divides) && e == elem {
            true => Ok(Type::Tile(e, s)),
            false => self.bad_result(&format!(
                "{}, of which dimension {dim} has {} equal parts",
                tile_of(rank, elem),
                starts.len()
            )),
        }
    }

    fn load_by(&self, after: usize) -> Result<Type> {
        let (elem, rank) = self.access(after, self.want)?;
        match self.want {
            Some(Type::Tile(e, s)) if e == elem && s.rank() == rank => Ok(Type::Tile(e, s)),
            Some(Type::Scalar(e)) if e == elem && matches!(self.op, Op::Load) => Ok(Type::Scalar(e)),
            _ if matches!(self.op, Op::Load) => {
                self.bad_result(&format!("{}, or a scalar of {elem}", tile_of(rank, elem)))
            }
            _ => self.bad_result(&tile_of(rank, elem)),
        }
    }

    /// `arrive` at an element of a view.
    pub(super) fn arrive(&self) -> Result<Type> {
        let (elem, rank) = self.access(1, None)?;
        if elem != Elem::Uint(32) {
            return self.bad_operand(0, "a view of u32");
        }
        match self.args[rank + 1] {
            Type::Scalar(Elem::I32) => Ok(Type::Scalar(Elem::Bool)),
            _ => self.bad_operand(rank + 1, "an i32 scalar"),
        }
    }

    /// Stores and atomic updates.
    pub(super) fn store(&self) -> Result<Types> {
        let old = matches!(self.op, Op::AtomicScatter { old: true, .. });
        let swaps = self.op.atomic() == Some(AtomicOp::CompareAndSwap);
        if swaps && !old {
            return self.bad_result("what it found: `old = atomic_cas v[..], expected, new : type`");
        }
        if !old && self.op.sync().order.acquires() {
            return self.bad_result("what it found, to acquire by it: `old = ..`");
        }
        let written = self.op.written_operand(self.args.len());
        let tile = written.and_then(|x| self.args.get(x)).copied();
        let behind = 1 + usize::from(swaps) + usize::from(self.op.is_masked());
        let (elem, rank) = self.access(behind, tile)?;
        let x = rank + 1 + usize::from(swaps);
        match self.args[x] {
            Type::Tile(e, s) if e == elem && s.rank() == rank => {
                if swaps {
                    self.expected(x - 1, self.args[x])?;
                }
                self.mask(self.args[x])?;
                Ok(if old { smallvec![self.args[x]] } else { smallvec![] })
            }
            Type::Tile(e, s) if e != elem && s.rank() == rank => {
                Err(TypeError::Stored { view: elem, tile: self.text(self.args[x]) })
            }
            Type::Scalar(_) => {
                let full = format!("a tile: `full x : {elem}[{}]`", vec!["1"; rank].join(", "));
                self.bad_operand(x, &full)
            }
            _ => self.bad_operand(x, &tile_of(rank, elem)),
        }
    }

    /// What a compare-and-swap expects: an element for each that is written, of a width that instructions compare.
    fn expected(&self, operand: usize, tile: Type) -> Result<()> {
        if !tile.elem().is_int() && !matches!(tile.elem(), Elem::F32 | Elem::F16 | Elem::Bf16) {
            return self.bad_operand(operand, "a tile of integers, f32, f16 or bf16");
        }
        match self.args[operand].elem() == tile.elem() {
            true => self.shaped(operand, tile),
            false => self.bad_operand(operand, &self.text(tile)),
        }
    }
}

/// The tiles of a view with this rank.
fn tile_of(rank: usize, elem: Elem) -> String {
    format!("a tile of {elem} with {rank} dimension{}", if rank == 1 { "" } else { "s" })
}
