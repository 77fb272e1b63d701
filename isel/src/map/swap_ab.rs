//! Swap A and B: a kernel's text does not fix the orientation of an MMA, because `D = A B` is `D^T = B^T A^T`.
//!
//! ```text
//!  s = mma z, k, trans(q)              s' = mma z', q, trans(k)        s'[i, j] = s[j, i]
//!  p = exp2(s - max over 0)     ─►     p' = exp2(s' - max over 1)
//!  o = mma a, trans(v), p              o' = mma a', trans(p'), v ..
//! ```
//!
//! `wgmma` reads its right operand from shared memory and its left one also from registers. It spreads rows over
//! warps and columns over registers. So a computed operand belongs on the left, and reductions belong along columns.
//! Tiles that must have the same orientation form a class ([`class`]). A class with accumulators may be transposed as
//! a whole, with every instruction in between ([`transpose`]). All choices are compared by cost; the text's own
//! orientation wins ties.

mod class;
mod transpose;

use super::mma_variant::consumers;
use crate::boxes::is_box;
use crate::tiles::has_products;
use class::Classes;
pub(super) use class::tied;
use warplift_ir::tile::{Inst, InstData, Kernel, Mapping, Op, Products, Value};

/// Limit on the classes that are tried: `n` classes are `2^n` choices.
const MOST: usize = 6;
/// The warpgroups cannot share the rows: impossible.
const UNEVEN: u32 = 500;
/// An accumulator that must be transposed to become an operand, or to be computed with.
const EXCHANGED: u32 = 100;
/// A computed operand on the right: it goes through shared memory.
const COMPUTED_RIGHT: u32 = 90;
/// A reduction over rows beside an MMA.
const ACROSS_WARPS: u32 = 50;
/// A result that is stored transposed.
const STORED: u32 = 10;

/// Transposes MMAs if that is cheaper for the instructions of the mapping. Otherwise the kernel does not change.
pub fn do_swap_ab(k: &mut Kernel, mapping: &Mapping) {
    let groups = consumers(mapping);
    let products: Vec<Inst> =
        k.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma { .. })).map(|(i, _)| i).collect();
    let classes = Classes::of(k);
    let mut of_sums: Vec<Value> = products.iter().map(|&i| classes.root(k.result(i))).collect();
    of_sums.sort_unstable();
    of_sums.dedup();
    if mapping.whole.products == Products::MmaSync || of_sums.is_empty() || of_sums.len() > MOST {
        return;
    }
    let exchanged: Vec<Inst> = k.insts.keys().filter(|&i| is_computed_with(k, &classes, i)).collect();
    let weigh = |choice: usize| {
        let swapped: Vec<Value> =
            of_sums.iter().enumerate().filter(|(n, _)| choice >> n & 1 == 1).map(|(_, &v)| v).collect();
        let weighing = Weighing {
            k,
            classes: &classes,
            of_sums: &of_sums,
            swapped: &swapped,
            exchanged: &exchanged,
            groups,
        };
        let cost = weighing.cost();
        (cost, choice, swapped)
    };
    let best = (0..1usize << of_sums.len()).map(weigh).min();
    if let Some((_, choice, swapped)) = best
        && choice > 0
    {
        transpose::do_transpose(k, &classes, &swapped);
    }
}

/// Whether a transposition of a tile costs an exchange. Products and stores look through it. Elementwise work takes a tile as it
/// lies, unless the result is reduced beside a product or becomes an operand: these have an orientation of their own.
fn is_computed_with(k: &Kernel, classes: &Classes, inst: Inst) -> bool {
    let looks_through = |op: &Op| matches!(op, Op::Mma { .. } | Op::Store | Op::Atomic(_));
    let uses = |d: &InstData, v: Value| d.args.as_slice(&k.pool).contains(&v);
    if !class::exchanges(k, inst)
        || !k.insts.values().any(|d| !looks_through(&d.op) && uses(d, k.result(inst)))
    {
        return false;
    }
    let class = classes.root(k.result(inst));
    let mut oriented = false;
    k.walk(|block, other| {
        oriented |= match (&k.insts[other].op, k.args(other)) {
            (Op::Reduce(..), &[v]) => classes.root(v) == class && has_products(k, block),
            (Op::Mma { .. }, &[_, a, b]) => {
                [a, b].iter().any(|&v| classes.root(class::untransposed(k, v).0) == class)
            }
            _ => false,
        };
    });
    oriented
}

/// One choice of classes to transpose.
struct Weighing<'a> {
    k: &'a Kernel,
    classes: &'a Classes,
    /// Classes with accumulators.
    of_sums: &'a [Value],
    swapped: &'a [Value],
    /// Transpositions of tiles that are computed with.
    exchanged: &'a [Inst],
    groups: Option<u32>,
}

impl Weighing<'_> {
    fn cost(&self) -> u32 {
        if self.swapped.iter().any(|&v| self.classes.is_pinned(v)) {
            return u32::MAX;
        }
        let mut cost = self.swapped.len() as u32;
        self.k.walk(|block, inst| {
            cost += match self.k.insts[inst].op {
                Op::Mma { .. } => self.product(inst),
                Op::Reduce(_, d) if has_products(self.k, block) => self.reduction(inst, d),
                Op::Store | Op::Atomic(_) => self.store(inst),
                Op::Trans(_) if self.exchanged.contains(&inst) => self.transposition(inst),
                _ => 0,
            };
        });
        cost
    }

    fn is_transposed(&self, v: Value) -> bool {
        self.swapped.contains(&self.classes.root(v))
    }

    fn has_sums(&self, v: Value) -> bool {
        self.of_sums.contains(&self.classes.root(v))
    }

    /// The tile behind transpositions, and whether its orientation differs from what `swapped` asks for.
    fn source(&self, v: Value, swapped: bool) -> (Value, bool) {
        let (from, odd) = class::untransposed(self.k, v);
        (from, self.is_transposed(from) != (swapped ^ odd))
    }

    fn product(&self, inst: Inst) -> u32 {
        let &[sum, a, b] = self.k.args(inst) else { return 0 };
        let swapped = self.is_transposed(sum);
        let (left, right) = if swapped { (b, a) } else { (a, b) };
        let (from, exchanged) = self.source(left, swapped);
        let computed = if self.is_loaded(right) { 0 } else { COMPUTED_RIGHT };
        let exchanged = if exchanged && self.has_sums(from) { EXCHANGED } else { 0 };
        computed + exchanged + self.rows(sum, swapped)
    }

    /// Whether warpgroups can share the rows of an accumulator.
    fn rows(&self, sum: Value, swapped: bool) -> u32 {
        let extents = self.k.ty(sum).shape().and_then(|s| s.extents());
        let rows = extents.and_then(|e| e.get(usize::from(swapped)).copied());
        match (self.groups, rows) {
            (Some(groups), Some(rows)) if groups > 0 && !rows.is_multiple_of(groups.saturating_mul(64)) => {
                UNEVEN
            }
            _ => 0,
        }
    }

    fn is_loaded(&self, v: Value) -> bool {
        let Some(def) = self.k.def(v) else { return false };
        match self.k.insts[def].op {
            Op::Load => true,
            Op::Trans(_) | Op::Slice(_) => self.is_loaded(self.k.args(def)[0]),
            Op::Reshape => is_box(self.k, def),
            _ => false,
        }
    }

    fn reduction(&self, inst: Inst, d: u8) -> u32 {
        let v = self.k.args(inst)[0];
        let over_rows = (d == 0) != self.is_transposed(v);
        if over_rows && self.has_sums(v) { ACROSS_WARPS } else { 0 }
    }

    /// A transposition disappears where one of its two sides is transposed.
    fn transposition(&self, inst: Inst) -> u32 {
        let from = self.k.args(inst)[0];
        let stays = self.is_transposed(from) == self.is_transposed(self.k.result(inst));
        if stays && self.has_sums(from) { EXCHANGED } else { 0 }
    }

    fn store(&self, inst: Inst) -> u32 {
        let Some(&v) = self.k.args(inst).last() else { return 0 };
        let (from, exchanged) = self.source(v, false);
        if exchanged && self.has_sums(from) { STORED } else { 0 }
    }
}
