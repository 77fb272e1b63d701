//! Whether a tunable only cuts the problem into tiles. Then every value of it gives the same results, up to the order
//! of float sums. A tunable that is not proved here may take only values of a domain that the text gives.
//!
//! ```text
//!  grid cdiv(m, BM)   for t in 0..cdiv(k, BK)   for u in 0..k step BU          STRIDES
//!  i * BM             t * BK                    u                              STARTS: all that is done with i, t, u
//!  load v[i*BM, t*BK] : f16[BM, BK]             v is m by k                    exactly the tiles that lie side by side
//!  x + reduce_sum(tile, 1), mma x, a, b         carried by the same loop       sums of all tiles (reductions.rs)
//! ```
//!
//! Any other use of the tunable, of a counter or of a start refutes the proof.

mod reductions;

use rustc_hash::FxHashMap;
use warplift_ir::tile::{BinOp, Dim, Inst, Kernel, Op, Tunable, Type, Value};
use warplift_isel::facts::launch_expr;

/// Steps of arithmetic that are compared, such as those of `i * BM + 1`.
const ALIKE: u32 = 4;

/// Whether a tunable provably only cuts the problem into tiles.
pub(super) fn tiles(kernel: &Kernel, tunable: Tunable) -> bool {
    let mut uses: FxHashMap<Value, Vec<(Inst, usize)>> = FxHashMap::default();
    kernel.walk(|_, inst| {
        kernel.args(inst).iter().enumerate().for_each(|(n, &v)| uses.entry(v).or_default().push((inst, n)));
    });
    let mut tiling =
        Tiling { kernel, extent: Dim::tunable(tunable), tunable, uses, starts: FxHashMap::default() };
    tiling.strides().is_some()
        && tiling.starts_only_place()
        && tiling.all_instructions()
        && tiling.updates_in_place()
}

/// The extent of a view along a dimension.
pub(super) fn extent_of(kernel: &Kernel, view: Value, d: usize) -> Option<Value> {
    let def = kernel.def(view)?;
    match &kernel.insts[def].op {
        Op::View { .. } => kernel.args(def).get(d + 1).copied(),
        Op::SubView(kept) => extent_of(kernel, kernel.args(def)[0], usize::from(*kept.get(d)?)),
        _ => None,
    }
}

/// The counter that steps from tile to tile.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stride {
    /// Blocks along this dimension of the grid.
    Grid(usize),
    /// Iterations of a loop.
    Loop(Inst),
}

struct Tiling<'k> {
    kernel: &'k Kernel,
    tunable: Tunable,
    /// The tunable as an extent.
    extent: Dim,
    uses: FxHashMap<Value, Vec<(Inst, usize)>>,
    /// First elements of tiles.
    starts: FxHashMap<Value, Start>,
}

/// The first element of a tile.
#[derive(Clone, Copy, Debug)]
struct Start {
    stride: Stride,
    /// The extent that the stride walks.
    walked: Value,
}

/// The way from the values of the tunable to starts. `None` if a value leads anywhere else.
impl Tiling<'_> {
    /// The instructions that use a value, each with the operand's number.
    fn uses(&self, v: Value) -> &[(Inst, usize)] {
        self.uses.get(&v).map_or(&[], Vec::as_slice)
    }

    fn op(&self, inst: Inst) -> &Op {
        &self.kernel.insts[inst].op
    }

    /// Finds all starts.
    fn strides(&mut self) -> Option<()> {
        let kernel = self.kernel;
        let scaled = |op: &Op| matches!(op, Op::Dim(d) if d.mentions(self.tunable));
        let mut widths = Vec::new();
        kernel.walk(|_, inst| widths.extend(scaled(self.op(inst)).then(|| kernel.result(inst))));
        let whole = |v: &Value| kernel.def(*v).is_some_and(|d| *self.op(d) == Op::Dim(self.extent));
        // So many blocks as the tunable says each do something.
        if !widths.iter().all(whole) || widths.iter().any(|w| kernel.grid.contains(w)) {
            return None;
        }
        let mut products = Vec::new();
        for &width in &widths {
            for (inst, operand) in self.uses(width).to_vec() {
                match (self.op(inst), operand) {
                    (Op::Binary(BinOp::CeilDiv), 1) => self.count(inst, &widths)?,
                    (Op::Binary(BinOp::Mul), _) => products.push(kernel.result(inst)),
                    (Op::For, 2) => self.stepped(inst)?,
                    (Op::Compare(_) | Op::Binary(_), _) if self.only_asserted(kernel.result(inst)) => {}
                    _ => return None,
                }
            }
        }
        let known = |v: &Value| self.starts.contains_key(v) || self.only_asserted(*v);
        (products.iter().all(known) && self.is_one_walk()).then_some(())
    }

    /// Whether all starts belong to one walk. Then elements at the same place of two tiles have the same index. With
    /// two walks the tunable would decide which elements meet.
    fn is_one_walk(&self) -> bool {
        let mut strides = self.starts.values().map(|s| s.stride);
        let first = strides.next();
        strides.all(|s| Some(s) == first)
    }

    /// Whether a value is used only in asserts that tunables decide.
    fn only_asserted(&self, v: Value) -> bool {
        let (kernel, decided) =
            (self.kernel, self.kernel.settled(|t| self.kernel.tunables[t].default).asserts);
        self.uses(v).iter().all(|&(inst, _)| match self.op(inst) {
            Op::Assert(_) => decided.contains(&inst),
            Op::Binary(_) | Op::Compare(_) => self.only_asserted(kernel.result(inst)),
            _ => false,
        })
    }

    /// `cdiv(extent, BM)`: an extent of the grid, the end of loops from 0, or both.
    fn count(&mut self, inst: Inst, widths: &[Value]) -> Option<()> {
        let kernel = self.kernel;
        let (walked, count) = (kernel.args(inst)[0], kernel.result(inst));
        for d in (0..kernel.grid.len()).filter(|&d| kernel.grid[d] == count) {
            for (index, data) in kernel.insts.iter() {
                match data.op {
                    Op::BlockIndex(of) if usize::from(of) == d => {
                        self.multiplied(kernel.result(index), Stride::Grid(d), walked, widths)?;
                    }
                    Op::GridDim(of) if usize::from(of) == d => return None,
                    _ => {}
                }
            }
        }
        for (holder, operand) in self.uses(count).to_vec() {
            let args = kernel.args(holder);
            let plain = matches!(self.op(holder), Op::For)
                && operand == 1
                && kernel.int_const(args[0]) == Some(0)
                && kernel.int_const(args[2]) == Some(1);
            if !plain {
                return None;
            }
            self.multiplied(self.counter(holder)?, Stride::Loop(holder), walked, widths)?;
        }
        Some(())
    }

    /// `for u in 0..extent step BU`: the counter is a start.
    fn stepped(&mut self, holder: Inst) -> Option<()> {
        let args = self.kernel.args(holder);
        let (from, walked) = (self.kernel.int_const(args[0])?, args[1]);
        self.starts.insert(self.counter(holder)?, Start { stride: Stride::Loop(holder), walked });
        (from == 0).then_some(())
    }

    fn counter(&self, holder: Inst) -> Option<Value> {
        let body = *self.kernel.insts[holder].blocks.first()?;
        self.kernel.blocks[body].params.first().copied()
    }

    /// The only use of a counter is `counter * BM`.
    fn multiplied(&mut self, counter: Value, stride: Stride, walked: Value, widths: &[Value]) -> Option<()> {
        for &(inst, _) in &self.uses(counter).to_vec() {
            let by_width = self.kernel.args(inst).iter().any(|a| widths.contains(a));
            if !matches!(self.op(inst), Op::Binary(BinOp::Mul)) || !by_width {
                return None;
            }
            self.starts.insert(self.kernel.result(inst), Start { stride, walked });
        }
        Some(())
    }
}

/// The uses of starts.
impl Tiling<'_> {
    /// Whether starts are only indices of tiles that lie side by side, or make coordinates with `iota`.
    fn starts_only_place(&self) -> bool {
        self.starts.keys().all(|&start| {
            self.uses(start).iter().all(|&(inst, operand)| match self.op(inst) {
                Op::Load
                | Op::AsyncCopy
                | Op::Store
                | Op::Atomic(_)
                | Op::LoadGather { .. }
                | Op::LoadRuns(_) => {
                    let Some(d) = operand.checked_sub(1) else { return false };
                    self.accessed(inst).is_some_and(|dims| dims.get(d) == Some(&self.extent))
                }
                Op::Binary(BinOp::Add) => {
                    let other = self.kernel.args(inst)[1 - operand];
                    self.is_iota(other)
                }
                _ => false,
            })
        })
    }

    /// Extents of the tile that an access moves.
    fn accessed(&self, inst: Inst) -> Option<&[Dim]> {
        let value = match self.op(inst) {
            Op::Load | Op::AsyncCopy | Op::LoadGather { .. } | Op::LoadRuns(_) => self.kernel.result(inst),
            _ => *self.kernel.args(inst).last()?,
        };
        self.dims(value)
    }

    /// Extents of a tile, in lowest terms, as the text gives them.
    fn dims(&self, v: Value) -> Option<&[Dim]> {
        match &self.kernel.values[v].ty {
            Type::Tile(_, shape) => Some(shape.dims()),
            _ => None,
        }
    }

    fn tiled(&self, v: Value, d: usize) -> bool {
        self.dims(v).and_then(|dims| dims.get(d)) == Some(&self.extent)
    }

    /// An index along a dimension of this extent, perhaps broadcast.
    fn is_iota(&self, v: Value) -> bool {
        self.kernel.def(v).is_some_and(|d| match self.op(d) {
            Op::Iota(along) => self.tiled(v, usize::from(*along)),
            Op::Broadcast | Op::ExpandDims(_) => self.is_iota(self.kernel.args(d)[0]),
            _ => false,
        })
    }
}

/// The uses of tiles of this extent.
impl Tiling<'_> {
    fn all_instructions(&self) -> bool {
        let mut all = true;
        self.kernel.walk(|_, inst| all = all && self.instruction(inst));
        all
    }

    fn instruction(&self, inst: Inst) -> bool {
        let kernel = self.kernel;
        let (args, results) = (kernel.args(inst), kernel.results(inst));
        let whole = |v: &Value| {
            let dims = self.dims(*v).unwrap_or_default();
            dims.iter().all(|d| !d.mentions(self.tunable) || *d == self.extent)
        };
        results.iter().all(whole)
            && match self.op(inst) {
                Op::Load | Op::AsyncCopy | Op::Store | Op::LoadGather { .. } | Op::LoadRuns(_) => {
                    self.side_by_side(inst)
                }
                // An element past the end has an index too.
                Op::StoreScatter { .. } | Op::AtomicScatter { .. } => {
                    !args.iter().any(|&v| self.has_extent(v))
                }
                // One more block or iteration would update once more.
                Op::Atomic(_) => self.side_by_side(inst) && args.last().is_some_and(|&v| self.has_extent(v)),
                Op::Iota(d) => !self.tiled(results[0], usize::from(*d)) || self.makes_coordinates(results[0]),
                Op::Scan(_, d) | Op::Gather(d) => !self.tiled(args[0], usize::from(*d)),
                Op::Reduce(_, d) => !self.tiled(args[0], usize::from(*d)) || self.is_term(results[0]),
                Op::Mma { .. } => !self.tiled(args[1], 1) || self.is_term(results[0]),
                Op::Reshape => self.keeps_place(args[0], results[0]),
                Op::Slice(offsets) => {
                    offsets.iter().all(|d| !d.mentions(self.tunable))
                        && offsets.iter().enumerate().all(|(d, offset)| {
                            !self.tiled(args[0], d)
                                || offset.constant() == Some(0) && self.tiled(results[0], d)
                        })
                }
                Op::ViewAs(_) => !self.has_extent(args[0]) || self.dims(args[0]) == self.dims(results[0]),
                Op::Print(_) => !args.iter().any(|&v| self.has_extent(v)),
                Op::For => self.accumulates(inst),
                Op::While => !self.starts.values().any(|s| s.stride == Stride::Loop(inst)),
                _ => true,
            }
    }

    /// Whether every array that is both read and written is read where it is written. Then the order of tiles does not
    /// matter.
    fn updates_in_place(&self) -> bool {
        let mut accesses: FxHashMap<Value, (bool, bool, Vec<&[Value]>)> = FxHashMap::default();
        self.kernel.walk(|_, inst| {
            let args = self.kernel.args(inst);
            let (reads, writes) = match self.op(inst) {
                Op::Load | Op::AsyncCopy | Op::LoadGather { .. } | Op::LoadRuns(_) => (true, false),
                Op::Store | Op::StoreScatter { .. } => (false, true),
                _ => return,
            };
            let array = self.kernel.def(self.kernel.whole_view(args[0])).map(|v| self.kernel.args(v)[0]);
            let Some(array) = array else { return };
            let of = accesses.entry(array).or_default();
            (of.0, of.1) = (of.0 | reads, of.1 | writes);
            of.2.push(&args[..args.len() - usize::from(writes)]);
        });
        let alike = |pair: &[&[Value]]| pair[0].iter().zip(pair[1]).all(|(&a, &b)| self.same_place(a, b));
        accesses.values().all(|(read, written, at)| !(*read && *written) || at.windows(2).all(alike))
    }

    fn has_extent(&self, v: Value) -> bool {
        self.dims(v).is_some_and(|dims| dims.contains(&self.extent))
    }

    /// Whether an access has a start along each dimension of this extent, and the start's walk ends where the view
    /// ends, or an index of its own for each element.
    fn side_by_side(&self, inst: Inst) -> bool {
        let args = self.kernel.args(inst);
        self.accessed(inst).unwrap_or_default().iter().enumerate().all(|(d, dim)| {
            *dim != self.extent
                || self.dims(args[d + 1]).is_some()
                || self.starts.get(&args[d + 1]).is_some_and(|start| {
                    extent_of(self.kernel, args[0], d).is_some_and(|extent| self.same(extent, start.walked))
                })
        })
    }

    /// Whether two indices, or two views, are equal.
    fn same_place(&self, a: Value, b: Value) -> bool {
        match (self.starts.get(&a), self.starts.get(&b)) {
            (Some(a), Some(b)) => a.stride == b.stride,
            _ => self.same(a, b),
        }
    }

    fn same(&self, a: Value, b: Value) -> bool {
        let expr = |v| launch_expr(self.kernel, v);
        a == b || expr(a).is_some() && expr(a) == expr(b) || self.is_made_alike(a, b, ALIKE)
    }

    /// Whether two scalars are made in the same way of the same, in so many steps.
    fn is_made_alike(&self, a: Value, b: Value, steps: u32) -> bool {
        if a == b || steps == 0 {
            return a == b;
        }
        let Some((x, y)) = self.kernel.def(a).zip(self.kernel.def(b)) else { return false };
        let made = matches!(self.op(x), Op::Binary(_) | Op::Dim(_) | Op::Int(_)) && self.op(x) == self.op(y);
        let both = self.kernel.args(x).iter().zip(self.kernel.args(y));
        made && both.into_iter().all(|(&a, &b)| self.is_made_alike(a, b, steps - 1))
    }

    /// Whether an index along the extent is only ever added to a start.
    fn makes_coordinates(&self, index: Value) -> bool {
        self.uses(index).iter().all(|&(inst, operand)| match self.op(inst) {
            Op::Broadcast | Op::ExpandDims(_) => self.makes_coordinates(self.kernel.result(inst)),
            Op::Binary(BinOp::Add) => self.starts.contains_key(&self.kernel.args(inst)[1 - operand]),
            _ => false,
        })
    }

    /// Whether a reshape leaves the dimensions of this extent in place: the dimensions before each one are the same.
    fn keeps_place(&self, from: Value, to: Value) -> bool {
        let before = |v: Value| {
            let dims = self.dims(v).unwrap_or_default().iter().filter(|d| !d.is_one()).copied();
            let dims: Vec<Dim> = dims.collect();
            let last = dims.iter().rposition(|d| *d == self.extent);
            dims[..last.map_or(0, |at| at + 1)].to_vec()
        };
        before(from) == before(to)
    }
}

#[cfg(test)]
mod tests;
