//! Atomic updates whose results do not depend on the order of blocks.
//!
//! ```text
//!  each element its own      add, min, max, exchange, cas; what they found is stored too
//!  all blocks at one place   add, min, max of integers, which are the same in every order; by tiles and by scalars
//! ```

use super::super::range::Range;
use super::{Generator, Result};
use warplift_ir::tile::{AtomicOp, BinOp, MemoryOrder, MemoryScope, MemorySync, Op, Shape, Type, Value};
use warplift_ir::types::Elem;

/// Updates that give the same in every order.
const ANY_ORDER: [AtomicOp; 3] = [AtomicOp::Add, AtomicOp::Min, AtomicOp::Max];
/// Elements that blocks share.
const SHARED: i64 = 8;

impl Generator<'_> {
    /// Whether a tile is updated with, not stored.
    pub(super) fn updates(&mut self, v: Value) -> bool {
        let whole = matches!(self.ty(v).elem(), Elem::I32 | Elem::Uint(32));
        whole && self.range(v).error == 0.0 && self.choices.chance(1, 6)
    }

    /// Scope and order of the next update, of all blocks or of elements that one thread has.
    fn synced(&mut self, own: bool, old: bool) {
        let scopes: &[MemoryScope] = match own {
            true => &[MemoryScope::Cta, MemoryScope::Cluster, MemoryScope::Gpu, MemoryScope::Sys],
            false => &[MemoryScope::Gpu, MemoryScope::Sys],
        };
        let orders: &[MemoryOrder] = match old {
            true => &[MemoryOrder::Relaxed, MemoryOrder::Acquire, MemoryOrder::Release, MemoryOrder::AcqRel],
            false => &[MemoryOrder::Relaxed, MemoryOrder::Release],
        };
        if self.choices.chance(1, 2) {
            let sync = MemorySync { scope: self.choices.of(scopes), order: self.choices.of(orders) };
            self.b.sync(sync);
        }
    }

    /// Updates elements that are this block's own. What was there may be stored.
    pub(super) fn update_own(&mut self, view: Value, index: &[Value], v: Value) -> Result<()> {
        if self.choices.chance(1, 3) {
            let op = self.choices.of(&ANY_ORDER);
            self.synced(true, false);
            return self.b.atomic(op, view, index, v);
        }
        let mut given = vec![v];
        let op = match self.choices.below(5) {
            0 => AtomicOp::Exchange,
            1 => {
                let ty = self.ty(v);
                let expected = self.pick(|g, w| g.ty(w) == ty && g.range(w).error == 0.0);
                given.insert(0, expected.unwrap_or(v));
                AtomicOp::CompareAndSwap
            }
            _ => self.choices.of(&ANY_ORDER),
        };
        self.synced(true, true);
        let old = match given[..] {
            [expected, new] => self.b.atomic_cas(view, index, [expected, new], None)?,
            _ => self.b.atomic_old(op, view, index, v, None)?,
        };
        let most = 2f64.powi(32);
        self.known.insert(old, Range::whole(-most, most));
        self.store(old)
    }

    /// Updates one element, or none, with a scalar from every block.
    pub(super) fn update_by_scalar(&mut self, v: Value) -> Result<()> {
        let ptr = self.pointer(self.ty(v).elem())?;
        let all = self.int(SHARED)?;
        let view = self.b.view(ptr, &[all], None, 0.0)?;
        let at = self.choices.of(&[0, 3, SHARED, -1]);
        let at = self.int(at)?;
        let op = self.choices.of(&ANY_ORDER);
        self.synced(false, false);
        self.b.atomic(op, view, &[at], v)
    }

    /// Updates a few elements with all of a tile's, from every block.
    pub(super) fn update_shared(&mut self, flat: Value) -> Result<()> {
        let ptr = self.pointer(self.ty(flat).elem())?;
        let all = self.int(SHARED)?;
        let view = self.b.view(ptr, &[all], None, 0.0)?;
        let op = self.choices.of(&ANY_ORDER);
        let Some(flat_shape) = self.ty(flat).shape() else { return Ok(()) };
        let iota = self.b.inst(Op::Iota(0), &[], Some(Type::Tile(Elem::I32, flat_shape)))?;
        let iota = self.b.results(iota)[0];
        let mask = self.int(SHARED - 1)?;
        let place = self.b.binary(BinOp::And, iota, mask)?;
        let mask = match self.choices.chance(1, 3) {
            true => self.pick(|g, m| {
                g.ty(m).elem() == Elem::Bool && g.ty(m).shape() == Some(flat_shape) && g.range(m).error == 0.0
            }),
            false => None,
        };
        self.synced(false, false);
        self.b.atomic_scatter(op, view, &[place], flat, mask)
    }

    /// A tile as one of one dimension, if an extent can say how long.
    pub(super) fn flat(&mut self, v: Value) -> Option<Value> {
        let Type::Tile(elem, shape) = self.ty(v) else { return None };
        let (first, rest) = shape.dims().split_first()?;
        if rest.is_empty() {
            return Some(v);
        }
        let all = rest.iter().try_fold(*first, |all, d| all.times(*d))?;
        let made = self.b.inst(Op::Reshape, &[v], Some(Type::Tile(elem, Shape::new(&[all])?)));
        made.ok().map(|inst| self.b.results(inst)[0])
    }
}
