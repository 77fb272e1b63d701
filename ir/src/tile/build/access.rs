//! Accesses by tiles of indices and under masks. What is smaller than the accessed tile grows to its shape:
//!
//! ```text
//!  load v[rows, j] : f16[M, N]     rows: i32[M] ─► expand_dims ─► i32[M, 1] ─► broadcast ─► i32[M, N]
//!  old = atomic_add v[i, j], x     x: f32 ─► full ─► f32[1, 1] ─► atomic_add ─► f32[1, 1] ─► old: f32
//!  store v[at], x                  at: i32[B], x: f32 ─► full ─► f32[B]
//!  load v[at] : f16[M, N]          v: f16[n], at: i32[M, N] ─► i32[M*N] ─► load ─► f16[M*N] ─► f16[M, N]
//! ```

use super::{AtomicOp, Dim, Elem, Inst, KernelBuilder, MemorySync, Op, Result, Shape, Type, Value, joined};
use crate::tile::{MAX_RANK, ReduceOp};
use std::mem::take;

impl KernelBuilder {
    /// i64 indices as those of i32; see [`Op::ToIndex`].
    pub fn to_index(&mut self, x: Value) -> Result<Value> {
        self.value(Op::ToIndex, &[x], None)
    }

    /// Loads each element by its own indices. An index is a scalar, as in [`KernelBuilder::load`], a tile of one
    /// dimension (an index for each place along the dimension in whose stead it stands), or a tile that broadcasts to
    /// the shape. Where the mask is false, the result has the view's fill.
    pub fn load_gather(
        &mut self,
        view: Value,
        index: &[Value],
        mask: Option<Value>,
        shape: Shape,
    ) -> Result<Value> {
        let inst = self.gather_inst(view, index, mask, shape)?;
        Ok(self.kernel.result(inst))
    }

    pub(crate) fn gather_inst(
        &mut self,
        view: Value,
        index: &[Value],
        mask: Option<Value>,
        shape: Shape,
    ) -> Result<Inst> {
        self.all_visible(&[view])?;
        let mask = self.grown_mask(mask, shape)?;
        let elem = self.kernel.ty(view).elem();
        let op = Op::LoadGather { masked: mask.is_some() };
        if let Some(flat) = self.flat_shape(view, index, shape) {
            let index = self.flat_places(index, shape, flat)?;
            let mask = self.all_flat(mask.as_slice(), flat)?;
            let made = self.inst(op, &joined(view, &index, &mask), Some(Type::Tile(elem, flat)))?;
            return self.inst(Op::Reshape, &[self.kernel.result(made)], Some(Type::Tile(elem, shape)));
        }
        let index = self.grown(index, shape)?;
        self.inst(op, &joined(view, &index, mask.as_slice()), Some(Type::Tile(elem, shape)))
    }

    /// The shape of all elements in a row, where each has a place of its own in a view of another rank: indices are scalars and tiles of
    /// the accessed shape.
    fn flat_shape(&self, view: Value, index: &[Value], shape: Shape) -> Option<Shape> {
        let (first, rest) = shape.dims().split_first()?;
        let Type::View(_, rank) = self.kernel.ty(view) else { return None };
        let rank = usize::from(rank).min(MAX_RANK);
        let mut tiles = index.iter().filter_map(|&v| self.kernel.ty(v).shape()).peekable();
        let apart = rank != shape.rank() && index.len() == rank;
        let own = apart && tiles.peek().is_some() && tiles.all(|t| t.rank() == shape.rank());
        let all = || rest.iter().try_fold(*first, |all, d| all.times(*d));
        let mut dims = [Dim::new(1); MAX_RANK];
        dims[0] = own.then(all).flatten()?;
        Shape::new(&dims[..rank])
    }

    /// Indices of all elements in a row.
    fn flat_places(&mut self, index: &[Value], shape: Shape, flat: Shape) -> Result<Vec<Value>> {
        let whole = |b: &mut Self, v: Value| match b.kernel.ty(v) {
            Type::Scalar(_) => b.with_shape(Op::Full, &[v], shape),
            _ => Ok(v),
        };
        let index = index.iter().map(|&v| whole(self, v)).collect::<Result<Vec<_>>>()?;
        let index = self.grown(&index, shape)?;
        self.all_flat(&index, flat)
    }

    fn all_flat(&mut self, tiles: &[Value], flat: Shape) -> Result<Vec<Value>> {
        tiles.iter().map(|&v| self.with_shape(Op::Reshape, &[v], flat)).collect()
    }

    /// Stores each element by its own indices where the mask is true; see [`KernelBuilder::load_gather`].
    pub fn store_scatter(
        &mut self,
        view: Value,
        index: &[Value],
        x: Value,
        mask: Option<Value>,
    ) -> Result<()> {
        let op = Op::StoreScatter { masked: mask.is_some() };
        self.scatter(op, view, index, &[x], mask).map(drop)
    }

    /// Updates each element by its own indices where the mask is true; see [`KernelBuilder::load_gather`].
    pub fn atomic_scatter(
        &mut self,
        op: AtomicOp,
        view: Value,
        index: &[Value],
        x: Value,
        mask: Option<Value>,
    ) -> Result<()> {
        let op = Op::AtomicScatter { op, old: false, masked: mask.is_some(), sync: take(&mut self.sync) };
        self.scatter(op, view, index, &[x], mask).map(drop)
    }

    /// The same; returns what the elements were before. Of one element that a scalar updates it returns a scalar.
    pub fn atomic_old(
        &mut self,
        op: AtomicOp,
        view: Value,
        index: &[Value],
        x: Value,
        mask: Option<Value>,
    ) -> Result<Value> {
        let op = Op::AtomicScatter { op, old: true, masked: mask.is_some(), sync: take(&mut self.sync) };
        let inst = self.scatter(op, view, index, &[x], mask)?;
        Ok(self.kernel.result(inst))
    }

    /// Where an element is what is expected, puts a new one there, atomically; returns what the elements were before. Indices
    /// and mask: see [`KernelBuilder::load_gather`].
    pub fn atomic_cas(
        &mut self,
        view: Value,
        index: &[Value],
        [expected, new]: [Value; 2],
        mask: Option<Value>,
    ) -> Result<Value> {
        let (masked, sync) = (mask.is_some(), take(&mut self.sync));
        let op = Op::AtomicScatter { op: AtomicOp::CompareAndSwap, old: true, masked, sync };
        let inst = self.scatter(op, view, index, &[expected, new], mask)?;
        Ok(self.kernel.result(inst))
    }

    /// Updates elements atomically; by a scalar one element, whose indices are scalars.
    pub fn atomic(&mut self, op: AtomicOp, view: Value, index: &[Value], x: Value) -> Result<()> {
        let sync = take(&mut self.sync);
        let op = match sync == MemorySync::default() {
            true => Op::Atomic(op),
            false => Op::AtomicScatter { op, old: false, masked: false, sync },
        };
        self.scatter(op, view, index, &[x], None).map(drop)
    }

    /// The next atomic update has this scope and order.
    pub fn sync(&mut self, sync: MemorySync) -> &mut Self {
        self.sync = sync;
        self
    }

    /// The shape of what scalars are written to, by indices and a mask: one element, unless tiles are among these.
    fn written_by_scalars(
        &self,
        view: Value,
        index: &[Value],
        given: &[Value],
        mask: Option<Value>,
    ) -> Option<Shape> {
        let scalar = |&v: &Value| matches!(self.kernel.ty(v), Type::Scalar(_));
        let Type::View(_, rank) = self.kernel.ty(view) else { return None };
        let rank = usize::from(rank).min(MAX_RANK);
        if !given.iter().all(scalar) {
            return None;
        }
        let shape_of = |(d, &v): (usize, &Value)| match self.kernel.ty(v).shape() {
            Some(own) if own.rank() == 1 && d < rank => {
                let mut dims = [Dim::new(1); MAX_RANK];
                dims[d] = own.dims()[0];
                Shape::new(&dims[..rank])
            }
            other => other,
        };
        let places = index.iter().enumerate().filter_map(shape_of);
        let masks = mask.and_then(|m| self.kernel.ty(m).shape());
        places.chain(masks).try_fold(Shape::of(&[1; MAX_RANK][..rank])?, |all, one| all.common(&one))
    }

    /// Scalars written to each element of a shape. What was there in one element is a scalar too.
    fn scatter_scalars(
        &mut self,
        op: Op,
        access: (Value, &[Value]),
        given: &[Value],
        mask: Option<Value>,
        shape: Shape,
    ) -> Result<Inst> {
        let (view, index) = access;
        let tile = |v: &Value| self.with_shape(Op::Full, &[*v], shape);
        let tiles = given.iter().map(tile).collect::<Result<Vec<_>>>()?;
        let scalars = index.iter().chain(&mask).all(|&v| self.kernel.ty(v).shape().is_none());
        let returns = matches!(op, Op::AtomicScatter { old: true, .. });
        let made = self.scatter(op, view, index, &tiles, mask)?;
        if returns && scalars { self.only_element(made) } else { Ok(made) }
    }

    /// The element of a tile of one.
    fn only_element(&mut self, tile: Inst) -> Result<Inst> {
        let tile = self.kernel.result(tile);
        let (elem, flat) = (self.kernel.ty(tile).elem(), Shape::of(&[1]).expect("one dimension"));
        let flat = self.value(Op::Reshape, &[tile], Some(Type::Tile(elem, flat)))?;
        self.inst(Op::Reduce(ReduceOp::Sum, 0), &[flat], None)
    }

    /// `given`: the operands that have the accessed shape, the last of which is written. Scalars are written to each element that
    /// the indices name.
    pub(crate) fn scatter(
        &mut self,
        op: Op,
        view: Value,
        index: &[Value],
        given: &[Value],
        mask: Option<Value>,
    ) -> Result<Inst> {
        self.all_visible(given)?;
        if let Some(shape) = self.written_by_scalars(view, index, given, mask) {
            return self.scatter_scalars(op, (view, index), given, mask, shape);
        }
        let Some(shape) = given.last().and_then(|&x| self.kernel.ty(x).shape()) else {
            return self.inst(op, &joined(view, index, given), None);
        };
        let mask = self.grown_mask(mask, shape)?;
        let rest: Vec<Value> = given.iter().copied().chain(mask).collect();
        let Some(flat) = self.flat_shape(view, index, shape) else {
            let index = self.grown(index, shape)?;
            return self.inst(op, &joined(view, &index, &rest), None);
        };
        let [index, rest] = [self.flat_places(index, shape, flat)?, self.all_flat(&rest, flat)?];
        let made = self.inst(op, &joined(view, &index, &rest), None)?;
        match self.kernel.results(made) {
            &[old] => {
                let elem = self.kernel.ty(old).elem();
                self.inst(Op::Reshape, &[old], Some(Type::Tile(elem, shape)))
            }
            _ => Ok(made),
        }
    }

    /// Indices of an access of this shape: tiles grow, scalars stay.
    fn grown(&mut self, index: &[Value], shape: Shape) -> Result<Vec<Value>> {
        self.all_visible(index)?;
        index.iter().enumerate().map(|(d, &v)| self.grown_index(v, d, shape)).collect()
    }

    fn grown_index(&mut self, index: Value, dim: usize, shape: Shape) -> Result<Value> {
        let index = match self.kernel.ty(index) {
            Type::Tile(Elem::Int(64), _) => self.to_index(index)?,
            _ => index,
        };
        let own = self.kernel.ty(index).shape();
        let along = own.filter(|s| s.rank() == 1 && shape.rank() > 1);
        if along.zip(shape.dims().get(dim)).is_none_or(|(s, d)| !s.dims()[0].same(*d)) {
            return self.grown_to(index, shape);
        }
        let others = (0..shape.rank()).filter(|&d| d != dim);
        let column = others.into_iter().try_fold(index, |v, d| self.expand_dims(v, d as u8))?;
        self.grown_to(column, shape)
    }

    fn grown_mask(&mut self, mask: Option<Value>, shape: Shape) -> Result<Option<Value>> {
        let Some(mask) = mask else { return Ok(None) };
        self.all_visible(&[mask])?;
        match self.kernel.ty(mask) {
            Type::Scalar(_) => self.with_shape(Op::Full, &[mask], shape).map(Some),
            _ => self.grown_to(mask, shape).map(Some),
        }
    }

    /// A tile that broadcasts to the shape in that shape; anything else as it is, for the rules to refuse.
    fn grown_to(&mut self, v: Value, shape: Shape) -> Result<Value> {
        match self.kernel.ty(v).shape() {
            Some(own) if !own.same(&shape) && own.common(&shape).is_some_and(|s| s.same(&shape)) => {
                self.broadcast(v, shape)
            }
            _ => Ok(v),
        }
    }
}
