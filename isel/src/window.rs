//! A window: a view resolved to the whole view behind it, with the dimensions that it keeps and those that it fixes.
//!
//! ```text
//!  view q : f16[b, s, h, d] ── subview q[batch, _, head, _] ─►  kept 1, 3   fixed 0 at batch, 2 at head
//! ```

use crate::facts::{divisor, is_multiple, launch_bounds, launch_expr};
use crate::feature::Ways;
use smallvec::SmallVec;
use warplift_ir::manifest::{Expr, ExprOp};
use warplift_ir::tile::{Inst, Kernel, Op, Value};

/// Dimensions of a tensor map at most.
const MAX_RANK: usize = 5;

/// Whether loads outside a view give zeros as copies and guarded loads do: not the negative one.
pub fn is_zero(fill: f64) -> bool {
    fill.to_bits() == 0
}

/// A view resolved to its argument.
#[derive(Clone, Debug)]
pub struct Window {
    /// The `view` instruction, or the `shared` one.
    pub whole: Inst,
    /// Dimensions of the whole view that are kept, in order.
    pub kept: SmallVec<[usize; 5]>,
    /// The other dimensions and their indices.
    pub fixed: SmallVec<[(usize, Value); 5]>,
}

impl Window {
    /// The window of a view; `None` if nothing that makes views defines it.
    pub fn of(k: &Kernel, view: Value) -> Option<Self> {
        let def = k.def(view)?;
        match &k.insts[def].op {
            Op::View { .. } | Op::Shared { .. } => {
                let (kept, fixed) = ((0..rank(k, def)).collect(), SmallVec::new());
                Some(Self { whole: def, kept, fixed })
            }
            Op::SubView(kept) => {
                let mut w = Self::of(k, k.args(def)[0])?;
                let mut index = k.args(def)[1..].iter();
                let old = std::mem::take(&mut w.kept);
                for (d, &whole) in old.iter().enumerate() {
                    match kept.contains(&(d as u8)) {
                        true => w.kept.push(whole),
                        false => w.fixed.push((whole, *index.next()?)),
                    }
                }
                Some(w)
            }
            _ => None,
        }
    }

    /// The value that stands for the memory: the pointer argument, or the whole view of an array in shared memory.
    pub fn pointer(&self, k: &Kernel) -> Value {
        if self.is_shared(k) { k.result(self.whole) } else { k.args(self.whole)[0] }
    }

    /// Whether it is of an array in shared memory.
    pub fn is_shared(&self, k: &Kernel) -> bool {
        matches!(k.insts[self.whole].op, Op::Shared { .. })
    }

    /// Extents, and strides behind them.
    fn numbers<'k>(&self, k: &'k Kernel) -> &'k [Value] {
        let args = k.args(self.whole);
        if self.is_shared(k) { args } else { &args[1..] }
    }

    /// The value of a load outside the view.
    pub fn fill(&self, k: &Kernel) -> f64 {
        match k.insts[self.whole].op {
            Op::View { fill, .. } => fill,
            _ => 0.0,
        }
    }

    /// Dimensions of the whole view.
    pub fn rank(&self) -> usize {
        self.kept.len() + self.fixed.len()
    }

    /// Extent of a dimension of the whole view.
    pub fn extent(&self, k: &Kernel, whole: usize) -> Value {
        self.numbers(k)[whole]
    }

    /// The kept dimension whose stride is known to be 1.
    pub fn unit(&self, k: &Kernel) -> Option<usize> {
        self.kept
            .iter()
            .rposition(|&d| self.steps(k, d).is_some_and(|s| s.iter().all(|&v| k.int_const(v) == Some(1))))
    }

    /// The factors of a stride in elements.
    fn steps<'k>(&self, k: &'k Kernel, whole: usize) -> Option<&'k [Value]> {
        let (numbers, rank) = (self.numbers(k), rank(k, self.whole));
        let strided = matches!(k.insts[self.whole].op, Op::View { strided: true, .. });
        Some(if strided { &numbers[rank + whole..1 + rank + whole] } else { &numbers[1 + whole..] })
    }

    /// Whether different places are different elements of memory. Strides that arguments give are taken to reach past what smaller
    /// ones span (docs/language.md); of those that are numbers it is proven.
    pub fn is_injective(&self, k: &Kernel) -> bool {
        if !matches!(k.insts[self.whole].op, Op::View { strided: true, .. }) {
            return true;
        }
        let number = |d: usize| self.steps(k, d).and_then(|s| k.int_const(*s.first()?));
        let mut known: SmallVec<[(i64, Option<i64>); 5]> = (0..self.rank())
            .filter(|&d| !self.is_single(k, d))
            .filter_map(|d| Some((number(d)?, k.int_const(self.extent(k, d)))))
            .collect();
        known.sort_unstable_by_key(|&(stride, extent)| (stride, extent.is_none()));
        let mut spanned = Some(1);
        known.into_iter().all(|(stride, extent)| {
            let past = stride > 0 && spanned.is_some_and(|n| stride >= n);
            spanned = extent.and_then(|n| n.checked_mul(stride));
            past
        })
    }

    /// A number that is known to divide the stride.
    pub fn stride_divisor(&self, k: &Kernel, whole: usize) -> i64 {
        self.steps(k, whole).map_or(1, |s| s.iter().fold(1, |n: i64, &v| n.saturating_mul(divisor(k, v))))
    }

    /// Whether the stride is known to be a multiple of `n`.
    fn stride_is_multiple(&self, k: &Kernel, whole: usize, n: i64) -> bool {
        self.steps(k, whole).is_some_and(|s| s.iter().any(|&v| is_multiple(k, v, n)))
            || self.stride_divisor(k, whole) % n == 0
    }

    /// The stride as a launch expression.
    pub fn stride_expr(&self, k: &Kernel, whole: usize) -> Option<Expr> {
        let mut factors = self.steps(k, whole)?.iter().map(|&v| launch_expr(k, v));
        let first = factors.next()??;
        factors.try_fold(first, |all, f| Some(Expr::op(ExprOp::Mul, all, f?)))
    }

    /// Whether a dimension has one element, so that its stride moves nothing that is inside the view.
    pub fn is_single(&self, k: &Kernel, whole: usize) -> bool {
        k.int_const(self.extent(k, whole)) == Some(1)
    }

    /// The stride that a tensor map has for a dimension: that of the view, or for a single element the next multiple of 16
    /// bytes.
    pub fn map_stride(&self, k: &Kernel, whole: usize) -> Option<Expr> {
        let stride = self.stride_expr(k, whole)?;
        if !self.is_single(k, whole) {
            return Some(stride);
        }
        let elements = Expr::Const(128 / i64::from(k.ty(k.result(self.whole)).elem().bits()));
        let stride = Expr::op(ExprOp::Max, stride, Expr::Const(1));
        Some(Expr::op(ExprOp::Mul, Expr::op(ExprOp::CeilDiv, stride, elements.clone()), elements))
    }

    /// Dimensions of the whole view that a tensor map lists after the contiguous one.
    pub fn outer(&self, k: &Kernel) -> Option<SmallVec<[usize; 5]>> {
        let unit = self.kept[self.unit(k)?];
        let kept = self.kept.iter().rev().copied().filter(|&d| d != unit);
        Some(kept.chain(self.fixed.iter().map(|f| f.0)).collect())
    }

    /// The kept dimension whose extent comes from memory, if there is one.
    pub fn ragged(&self, k: &Kernel) -> Option<usize> {
        self.kept.iter().copied().find(|&d| launch_expr(k, self.extent(k, d)).is_none())
    }

    /// Why tensor copies (TMA) cannot reach the view; `None` if the facts allow them.
    pub fn tensor_refused(&self, k: &Kernel, ways: Ways) -> Option<String> {
        let fill = self.fill(k);
        let rank = self.kept.len();
        (rank != 2)
            .then(|| format!("a view of rank {rank}"))
            .or_else(|| (!is_zero(fill)).then(|| format!("fill {fill}")))
            .or_else(|| self.rows_refused(k, ways))
    }

    /// The same for a box of more than two dimensions.
    pub fn boxes_refused(&self, k: &Kernel) -> Option<String> {
        let (rank, fill) = (self.kept.len(), self.fill(k));
        let (last, ragged) = (self.unit(k) == Some(rank.saturating_sub(1)), self.ragged(k).is_some());
        (self.rank() > MAX_RANK)
            .then(|| format!("a view of rank {}", self.rank()))
            .or_else(|| (!is_zero(fill)).then(|| format!("fill {fill}")))
            .or_else(|| (!last).then(|| "its last dimension is not known to have stride 1".to_owned()))
            .or_else(|| ragged.then(|| "its extents are not known at launch".to_owned()))
            .or_else(|| self.strides_refused(k, Ways::without(&[])))
    }

    /// The same for copies of rows, or of parts of a row. The caller handles the elements outside the view.
    pub fn rows_refused(&self, k: &Kernel, ways: Ways) -> Option<String> {
        match self.kept.len() {
            1 | 2 => self.strides_refused(k, ways),
            rank => Some(format!("a view of rank {rank}")),
        }
    }

    /// Why a tensor map cannot describe the view's memory.
    fn strides_refused(&self, k: &Kernel, ways: Ways) -> Option<String> {
        if self.is_shared(k) {
            return Some("it lies in shared memory".to_owned());
        }
        let Some(outer) = self.outer(k) else { return Some("no dimension has stride 1".to_owned()) };
        let bits = i64::from(k.ty(k.result(self.whole)).elem().bits());
        if !is_multiple(k, self.pointer(k), 16) {
            return Some("the pointer is not known to be a multiple of 16 bytes".to_owned());
        }
        let whole = |&d: &usize| self.is_single(k, d) || self.stride_is_multiple(k, d, 128 / bits);
        if !outer.iter().all(whole) {
            let elements = 128 / bits;
            return Some(format!(
                "the stride is not known to be a multiple of 16 bytes ({elements} elements)"
            ));
        }
        let strides = outer.iter().all(|&d| self.stride_expr(k, d).is_some());
        if !strides {
            return Some("its strides are not known at launch".to_owned());
        }
        self.extents_refused(k, ways).map(str::to_owned)
    }

    /// The same for its extents. One may come from memory: its tensor map has two dimensions for it (see
    /// `lower/ragged.rs`).
    fn extents_refused(&self, k: &Kernel, ways: Ways) -> Option<&'static str> {
        let unknown = |&d: &usize| launch_expr(k, self.extent(k, d)).is_none();
        let all = self.kept.iter().copied().chain(self.fixed.iter().map(|f| f.0));
        let unknown: SmallVec<[usize; 5]> = all.filter(unknown).collect();
        let &[ragged] = &unknown[..] else {
            return (!unknown.is_empty()).then_some("several of its extents are not known at launch");
        };
        if !ways.ragged_copies || !self.kept.contains(&ragged) {
            return Some("its extents are not known at launch");
        }
        if self.unit(k).is_some_and(|u| self.kept[u] == ragged) {
            return Some("the extent of its contiguous dimension comes from memory");
        }
        if launch_bounds(k, self.extent(k, ragged)).is_none() {
            return Some(
                "no number that is known at launch bounds the extent that comes from memory, as in `min(count, rows)`",
            );
        }
        (self.rank() >= MAX_RANK)
            .then_some("an extent that comes from memory makes its tensor map six-dimensional")
    }
}

fn rank(k: &Kernel, view: Inst) -> usize {
    let args = k.args(view).len();
    match k.insts[view].op {
        Op::View { strided: true, .. } => (args - 1) / 2,
        Op::Shared { .. } => args,
        _ => args - 1,
    }
}
