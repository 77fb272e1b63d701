//! Masks that say again what a view's extents say: an access is bounded by itself.
//!
//! ```text
//!  x : f16[m, k]     load x[i*BM, t*BK] where t*BK + iota < k     ─►     load x[i*BM, t*BK]     a tensor copy may bring it
//!                    select(iota < k - t*BK, load x[..], 0)       ─►     load x[..]             outside is 0 anyway
//!                    load x[..] where iota < k - t*BK & c         ─►     load x[..] where c
//! ```
//!
//! A condition is implied if it holds for every element inside the view. Where rows are gathered by a tile of one dimension,
//! masks stay. It compares the element's own index with the extent.
//! Both are compared as [`terms`](super::terms) of an element, in which `iota` is the element's place.

use super::elements::{element, operand_dims, place};
use super::persist::rename;
use super::terms::{Term, Terms};
use crate::facts::is_never_negative;
use crate::tiles::{constant, program_order, written};
use crate::window::{Window, is_zero};
use rustc_hash::FxHashSet;
use std::rc::Rc;
use warplift_ir::tile::{BinOp, CmpOp, Inst, Kernel, MemorySync, Op, Type, Value};

/// What is left of a mask.
enum Rest {
    Nothing,
    Mask(Value),
}

/// Drops implied masks of accesses, and selections between what is inside a view and its fill. Tunables may be open.
pub fn drop_implied_masks(k: &mut Kernel) {
    let written = written(k);
    let order = program_order(k);
    let masked: Vec<(Inst, Rest)> = order.iter().filter_map(|&i| Some((i, rest(k, &written, i)?))).collect();
    let filled: Vec<(Inst, Value)> =
        order.iter().filter_map(|&i| Some((i, filled(k, &written, i)?))).collect();
    for (inst, rest) in masked {
        unmask(k, inst, rest);
    }
    let renamed: Vec<(Value, Value)> = filled.into_iter().map(|(i, whole)| (k.result(i), whole)).collect();
    rename(k, &renamed);
}

/// What is left of an access's mask; `None` if it stays.
fn rest(k: &Kernel, written: &FxHashSet<Value>, inst: Inst) -> Option<Rest> {
    if !k.insts[inst].op.is_masked() {
        return None;
    }
    let mask = *k.args(inst).last()?;
    let mut access = Access::of(k, written, inst)?;
    if access.implies(mask, &access.whole()) {
        return Some(Rest::Nothing);
    }
    let both = k.def(mask).filter(|&d| matches!(k.insts[d].op, Op::Binary(BinOp::And)))?;
    let [a, b] = *k.args(both) else { return None };
    let all = access.whole();
    let left = [(a, b), (b, a)].into_iter().find(|(one, _)| access.implies(*one, &all))?.1;
    Some(Rest::Mask(left))
}

/// The loaded tile that a selection gives, whatever its condition.
fn filled(k: &Kernel, written: &FxHashSet<Value>, inst: Inst) -> Option<Value> {
    let (Op::Select, &[condition, tile, other]) = (&k.insts[inst].op, k.args(inst)) else { return None };
    let through = |v: Value| match k.def(v).map(|d| (&k.insts[d].op, d)) {
        Some((Op::Cast, d)) => k.args(d)[0],
        _ => v,
    };
    let load = k.def(through(tile)).filter(|&d| matches!(k.insts[d].op, Op::Load))?;
    let view = k.def(k.whole_view(k.args(load)[0]))?;
    let fill = matches!(k.insts[view].op, Op::View { fill, .. } if is_zero(fill));
    let zero = constant(k, other).is_some_and(|c| c.to_bits() == 0);
    let mut access = Access::of(k, written, load)?;
    let all = access.whole();
    (fill && zero && access.implies(condition, &all)).then_some(tile)
}

/// An access to a view, by its elements.
struct Access<'k> {
    k: &'k Kernel,
    terms: Terms<'k>,
    /// For each dimension the index of an element, the first one's, and the view's extent.
    index: Vec<Rc<Term>>,
    first: Vec<Option<Value>>,
    extent: Vec<Rc<Term>>,
    /// Whether nothing is known of the extent: no index is outside, also no negative one.
    open: Vec<bool>,
}

impl<'k> Access<'k> {
    fn of(k: &'k Kernel, written: &'k FxHashSet<Value>, inst: Inst) -> Option<Self> {
        let args = k.args(inst);
        let window = Window::of(k, args[0])?;
        let rank = window.kept.len();
        let indices = args.get(1..=rank)?;
        let mut access = Self {
            k,
            terms: Terms::new(k, written),
            index: Vec::new(),
            first: Vec::new(),
            extent: Vec::new(),
            open: Vec::new(),
        };
        let all: Vec<usize> = (0..rank).collect();
        for (d, &index) in indices.iter().enumerate() {
            let is_tile = matches!(k.ty(index), Type::Tile(..));
            let at = access.element(index, &all)?;
            access.index.push(if is_tile { at } else { at.plus(&place(d), 1) });
            access.first.push((!is_tile).then_some(index));
            let extent = window.extent(k, window.kept[d]);
            access.open.push(k.is_unbounded(extent));
            access.extent.push(access.terms.of(extent)?);
        }
        Some(access)
    }

    /// The dimensions of the accessed tile.
    fn whole(&self) -> Vec<usize> {
        (0..self.index.len()).collect()
    }

    /// Whether a condition holds for every element inside the view. `dims`: the dimensions of the accessed tile that the
    /// condition's are.
    fn implies(&mut self, condition: Value, dims: &[usize]) -> bool {
        let Some(def) = self.k.def(condition) else { return false };
        let args = self.k.args(def);
        match self.k.insts[def].op {
            Op::Binary(BinOp::And) => args.iter().all(|&a| self.implies(a, dims)),
            Op::Full => self.k.int_const(args[0]).is_some_and(|c| c != 0),
            Op::Compare(CmpOp::Lt) => self.is_below(args[0], args[1], dims),
            Op::Compare(CmpOp::Gt) => self.is_below(args[1], args[0], dims),
            Op::Compare(CmpOp::Ge) => self.is_not_negative(args[0], args[1], dims),
            Op::Compare(CmpOp::Le) => self.is_not_negative(args[1], args[0], dims),
            _ => operand_dims(self.k, def, dims).is_some_and(|dims| self.implies(args[0], &dims)),
        }
    }

    /// Whether `x < y` only says that an index is below its extent. Sums wrap around, and those of elements inside do not.
    fn is_below(&mut self, x: Value, y: Value, dims: &[usize]) -> bool {
        let Some((x, y)) = self.element(x, dims).zip(self.element(y, dims)) else { return false };
        (0..self.index.len()).any(|d| {
            let whole = x == self.index[d] && y == self.extent[d];
            let from_first =
                || x == place(d) && y == self.extent[d].plus(&self.index[d], -1).plus(&place(d), 1);
            whole || self.first[d].is_some_and(|v| is_never_negative(self.k, v)) && from_first()
        })
    }

    /// Whether `x >= y` only says that an index is not negative.
    fn is_not_negative(&mut self, x: Value, y: Value, dims: &[usize]) -> bool {
        let Some((x, y)) = self.element(x, dims).zip(self.element(y, dims)) else { return false };
        let says = |d: usize| self.index[d] == x && !self.open[d];
        (0..self.index.len()).any(says) && y == Term::int(0)
    }

    /// An element of a tile of integers, whose dimensions are these of the accessed one.
    fn element(&mut self, v: Value, dims: &[usize]) -> Option<Rc<Term>> {
        element(self.k, &mut self.terms, v, dims)
    }
}

/// Takes an access's mask away, or puts what is left of it in its place.
fn unmask(k: &mut Kernel, inst: Inst, rest: Rest) {
    let mut args = k.args(inst).to_vec();
    args.pop();
    match rest {
        Rest::Mask(left) => args.push(left),
        Rest::Nothing => k.insts[inst].op = unmasked(k, inst, &args),
    }
    k.set_args(inst, &args);
}

/// The access without a mask: a plain one where no index is a tile.
pub(super) fn unmasked(k: &Kernel, inst: Inst, args: &[Value]) -> Op {
    let op = &k.insts[inst].op;
    let stored = usize::from(!op.is_read());
    let plain = args[1..args.len() - stored].iter().all(|&v| matches!(k.ty(v), Type::Scalar(_)));
    match *op {
        Op::LoadGather { .. } if plain => Op::Load,
        Op::LoadGather { .. } => Op::LoadGather { masked: false },
        Op::StoreScatter { .. } if plain => Op::Store,
        Op::StoreScatter { .. } => Op::StoreScatter { masked: false },
        Op::AtomicScatter { op, old: false, sync, .. } if plain && sync == MemorySync::default() => {
            Op::Atomic(op)
        }
        Op::AtomicScatter { op, old, sync, .. } => Op::AtomicScatter { op, old, masked: false, sync },
        ref other => other.clone(),
    }
}
