//! Arrays in shared memory: a tile is stored, updated at times, and loaded again by other threads or in another order.
//!
//! ```text
//!  s = shared f16[64, 72]   store s[0, 0], x   atomic_max s[0, 0], y   z = load s[rows, 0] : f16[64, 64]
//! ```

use super::super::range::Range;
use super::{Generator, Result};
use warplift_ir::layout::{Layout, shared};
use warplift_ir::tile::{AtomicOp, Shape, Type, Value};
use warplift_ir::types::Elem;

/// The most elements of an array: two of f32 leave room for rings.
const MOST: u64 = 8192;

impl Generator<'_> {
    /// Hands a tile to other threads through an array.
    pub(super) fn through_shared(&mut self, x: Value) -> Result<()> {
        let Type::Tile(elem, s) = self.ty(x) else { return Ok(()) };
        let shape: Vec<u32> = s.dims().iter().map(|&d| self.extent(d)).collect();
        let all: u64 = shape.iter().map(|&e| u64::from(e)).product();
        if !matches!(elem.bits(), 8 | 16 | 32) || all > MOST {
            return Ok(());
        }
        let view = self.array_for(elem, &s, &shape)?;
        let zero = self.int(0)?;
        let first = vec![zero; shape.len()];
        self.b.store(view, &first, x)?;
        let updated = self.updated(view, &first, x)?;
        let loaded = match elem != Elem::Bool && self.choices.chance(1, 3) {
            true => {
                let d = self.choices.below(shape.len());
                let mut index = first;
                index[d] = self.permuted(zero, s.dims()[d])?;
                self.b.load_gather(view, &index, None, s)?
            }
            false => self.b.load(view, &first, s)?,
        };
        self.keep(loaded, updated.join(self.range(x)));
        Ok(())
    }

    /// An array that holds a tile: as large, with rows a little longer, or with a swizzle.
    fn array_for(&mut self, elem: Elem, s: &Shape, shape: &[u32]) -> Result<Value> {
        let layout = self.choices.chance(1, 3).then(|| swizzled(shape)).flatten();
        let mut extents = s.dims().iter().map(|&d| self.b.dim(d)).collect::<Result<Vec<_>>>()?;
        if let (None, Some(last), Some(&longest)) = (&layout, extents.last_mut(), shape.last())
            && self.choices.chance(1, 3)
        {
            *last = self.b.int(i64::from(longest) + self.choices.between(1, 8), Elem::I32)?;
        }
        self.b.shared(&extents, elem, layout)
    }

    /// Updates what is stored with another tile; the range of that.
    fn updated(&mut self, view: Value, first: &[Value], x: Value) -> Result<Range> {
        let ty = self.ty(x);
        let whole = matches!(ty.elem(), Elem::I32 | Elem::Uint(32)) && self.range(x).error == 0.0;
        let other = match whole && self.choices.chance(1, 2) {
            true => self.pick(|g, v| g.ty(v) == ty && g.range(v).error == 0.0),
            false => None,
        };
        let Some(other) = other else { return Ok(self.range(x)) };
        let op = self.choices.of(&[AtomicOp::Min, AtomicOp::Max]);
        self.b.atomic(op, view, first, other)?;
        Ok(self.range(other))
    }
}

/// A swizzle for a matrix whose extents are powers of two.
fn swizzled(shape: &[u32]) -> Option<Layout> {
    let &[rows, cols] = shape else { return None };
    let groups = (u64::from(cols) / 4).min(8);
    shared::mma_swizzled(rows.into(), cols.into(), 4, 1, groups).ok()
}
