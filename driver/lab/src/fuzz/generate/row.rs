//! Kernels that read rows twice: once for a sum or a greatest element, and again with it. Under `epilogue warps` the second
//! loop is for warps of its own.
//!
//! ```text
//!  for t { carried = carried + reduce(load x[i, t]) }     consumers
//!  for u { store y[i, u], load x[i, u] op carried }       epilogue warps
//! ```

use super::super::range::Range;
use super::memory::Along;
use super::{Generator, Result, shape};
use warplift_ir::tile::{BinOp, Op, ReduceOp, Type, UnOp, Value};
use warplift_ir::types::Elem;

/// Sums of a row, as far as the generator cares. The check computes its bound from the finished kernel.
const SUM: f64 = 1024.0;

impl Generator<'_> {
    /// Both loops over the same rows.
    pub(super) fn row_kernel(&mut self) -> Result<()> {
        (self.rows, self.regular) = (true, true);
        let (rows, columns) = (self.choices.of(&[1, 2, 4]), self.choices.of(&[256, 512, 128, 1024]));
        self.grid_axis("m", rows)?;
        self.finish_grid()?;
        self.depth_axis(columns)?;
        self.scalars()?;
        let elem = self.choices.of(&[Elem::F16, Elem::F32, Elem::Bf16]);
        self.input(Some((vec![Along::Grid(0), Along::Depth], elem)))?;
        if self.choices.chance(1, 3) {
            self.input(Some((vec![Along::Depth], elem)))?;
        }
        let sums = self.first_loop()?;
        self.values.clear();
        for &sum in &sums {
            self.keep(sum, Range { whole: false, ..Range::whole(-SUM, SUM) });
        }
        self.statements(2, 2)?;
        self.second_loop(&sums)
    }

    /// A loop over the depth; its counter times the width of a tile.
    fn row_loop(&mut self, init: &[Value]) -> Result<(Vec<Value>, Option<Value>)> {
        let Some(axis) = self.depth else { return Ok((Vec::new(), None)) };
        let (low, step) = (self.int(0)?, self.int(1)?);
        let (counter, carried) = self.b.begin_for(low, axis.tiles, step, init)?;
        self.enter(counter, &carried, init);
        let width = self.b.dim(axis.extent)?;
        let start = self.index(BinOp::Mul, counter, width)?;
        Ok((carried, Some(start)))
    }

    /// The row's tile in f32.
    fn row_tile(&mut self, start: Option<Value>) -> Result<Option<Value>> {
        let Some(x) = self.load(0, start)? else { return Ok(None) };
        let Type::Tile(elem, shape) = self.ty(x) else { return Ok(None) };
        Ok(match elem {
            Elem::F32 => Some(x),
            _ => self.apply(Op::Cast, &[x], Some(Type::Tile(Elem::F32, shape))),
        })
    }

    /// One or two results of a row.
    fn first_loop(&mut self) -> Result<Vec<Value>> {
        let Some(column) = shape(&[self.axes[0].extent]) else { return Ok(Vec::new()) };
        let ops: Vec<ReduceOp> = (0..self.choices.weighted(&[(2, 1), (1, 2)]))
            .map(|_| self.choices.of(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]))
            .collect();
        let zero = self.b.float(0.0, Elem::F32)?;
        let init = ops.iter().map(|_| self.b.full(zero, column)).collect::<Result<Vec<Value>>>()?;
        init.iter().for_each(|&v| {
            self.known.insert(v, Range::whole(0.0, 0.0));
        });
        let (carried, start) = self.row_loop(&init)?;
        let Some(mut x) = self.row_tile(start)? else { return Ok(Vec::new()) };
        if self.choices.chance(1, 2) {
            x = self.apply(Op::Unary(UnOp::Abs), &[x], None).unwrap_or(x);
        }
        let mut next = Vec::new();
        for (&c, &op) in carried.iter().zip(&ops) {
            let join = match op {
                ReduceOp::Max => BinOp::Max,
                ReduceOp::Min => BinOp::Min,
                _ => BinOp::Add,
            };
            let r = self.apply(Op::Reduce(op, 1), &[x], None);
            next.push(r.and_then(|r| self.apply(Op::Binary(join), &[c, r], None)).unwrap_or(c));
        }
        let made = self.b.end(&next)?;
        Ok(self.b.results(made).to_vec())
    }

    /// The row again, with a result of the first loop, to memory.
    fn second_loop(&mut self, sums: &[Value]) -> Result<()> {
        let column = shape(&[self.axes[0].extent]).map(|s| Type::Tile(Elem::F32, s));
        let fits = |g: &Self, v: Value| Some(g.ty(v)) == column;
        let Some(part) = self.pick(fits).or(sums.first().copied()) else { return Ok(()) };
        let (_, start) = self.row_loop(&[])?;
        self.row_values(part, start)?;
        self.b.end(&[]).map(drop)
    }

    fn row_values(&mut self, part: Value, start: Option<Value>) -> Result<()> {
        let (Some(axis), Some(start)) = (self.depth, start) else { return Ok(()) };
        let Some(x) = self.row_tile(Some(start))? else { return Ok(()) };
        let Type::Tile(elem, whole) = self.ty(x) else { return Ok(()) };
        let mut parts = vec![self.apply(Op::ExpandDims(1), &[part], None)];
        if self.inputs.len() > 1 {
            let other = self.load(1, Some(start))?;
            let other = other.and_then(|v| self.apply(Op::ExpandDims(0), &[v], None));
            parts.push(other.and_then(|v| match self.ty(v) {
                Type::Tile(e, s) if e != elem => self.apply(Op::Cast, &[v], Some(Type::Tile(elem, s))),
                _ => Some(v),
            }));
        }
        let mut y = x;
        for v in parts.into_iter().flatten() {
            let op = self.choices.of(&[BinOp::Add, BinOp::Sub, BinOp::Max, BinOp::Mul]);
            let v = self.apply(Op::Broadcast, &[v], Some(Type::Tile(elem, whole)));
            y = v.and_then(|v| self.apply(Op::Binary(op), &[y, v], None)).unwrap_or(y);
        }
        let to = self.choices.of(&[Elem::F32, Elem::F16]);
        if to != elem {
            y = self.apply(Op::Cast, &[y], Some(Type::Tile(to, whole))).unwrap_or(y);
        }
        let ptr = self.pointer(self.ty(y).elem())?;
        let rows = self.axes[0];
        let view = self.view(ptr, &[(rows.size, rows.value), (axis.size, axis.value)], 0.0)?;
        let Some(first) = rows.start else { return Ok(()) };
        self.b.store(view, &[first, start], y)
    }
}
