//! What one block does, by its place in the grid: branches and trips that follow from block indices and arguments.
//!
//! ```text
//!  if j*BN <= i*BM { for t in 0..cdiv(k, BK) .. }        place (3, 5): nothing        place (5, 3): cdiv(k, BK) products
//!  for t in 0..i + 1 ..                                  place (3, _): 4 trips
//! ```

use super::{Sizes, grid_of};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::hash_map::Entry;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Value, whole_number};

/// Instructions that are looked at, in all blocks together: some milliseconds.
const VISITS: u32 = 1 << 17;

/// Blocks that are looked at one by one.
const BLOCKS: u64 = 1 << 16;

/// What the blocks of a launch cost.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockWork {
    /// Each the same.
    Same(f64),
    /// Block after block, the first dimension of the grid fastest.
    Each(Vec<f64>),
}

impl BlockWork {
    /// Of so many blocks together.
    pub fn sum(&self, blocks: f64) -> f64 {
        match self {
            Self::Same(each) => each * blocks,
            Self::Each(all) => all.iter().sum(),
        }
    }
}

/// A block at a place.
struct Placed<'k, C> {
    kernel: &'k Kernel,
    grid: [u64; 3],
    place: [i64; 3],
    /// Numbers of arguments, and of the loops that are gone through.
    known: FxHashMap<Value, i64>,
    /// What follows from these.
    derived: FxHashMap<Value, Option<i64>>,
    cost: &'k C,
    /// What unknown branches and trips count: nothing, or they make everything unknown.
    least: bool,
    /// Instructions that may still be looked at.
    budget: u32,
}

/// The cost of all instructions that each block runs. `None` if it depends on more than places and arguments, or on more
/// blocks and trips than can be gone through. `least`: what is unknown counts nothing.
pub fn work_by_block<C: Fn(&Kernel, Inst) -> f64>(
    kernel: &Kernel,
    sizes: &Sizes,
    cost: &C,
    least: bool,
) -> Option<BlockWork> {
    let grid = grid_of(kernel, sizes)?;
    if grid.contains(&0) {
        return Some(BlockWork::Same(0.0));
    }
    let given = kernel.params.iter().filter_map(|p| Some((p.value, sizes.int(&p.name)?)));
    let (known, derived) = (given.collect(), FxHashMap::default());
    let mut placed = Placed { kernel, grid, place: [0; 3], known, derived, cost, least, budget: VISITS };
    let dims = deciding_dims(kernel);
    if dims == [false; 3] {
        return placed.at([0; 3]).map(BlockWork::Same);
    }
    let blocks = grid.iter().try_fold(1_u64, |all, &n| all.checked_mul(n)).filter(|&n| n <= BLOCKS)?;
    let place = |n: u64| [n % grid[0], n / grid[0] % grid[1], n / (grid[0] * grid[1])];
    // Blocks that differ along other dimensions do the same work.
    let deciding = |n: u64| [0, 1, 2].map(|d| if dims[d] { place(n)[d] as i64 } else { 0 });
    let mut found: FxHashMap<[i64; 3], f64> = FxHashMap::default();
    let each = (0..blocks).map(deciding).map(|place| match found.entry(place) {
        Entry::Occupied(known) => Some(*known.get()),
        Entry::Vacant(new) => placed.at(place).map(|work| *new.insert(work)),
    });
    each.collect::<Option<_>>().map(BlockWork::Each)
}

/// Whether a branch or the bounds of a loop may follow from block indices, so that blocks do unequal work.
pub fn depends_on_place(kernel: &Kernel) -> bool {
    deciding_dims(kernel) != [false; 3]
}

/// The dimensions of the grid from whose block indices a branch or the bounds of a loop may follow.
fn deciding_dims(kernel: &Kernel) -> [bool; 3] {
    let controls = kernel.insts.iter().flat_map(|(inst, data)| match data.op {
        Op::If => &kernel.args(inst)[..1],
        Op::For => &kernel.args(inst)[..3],
        _ => &[],
    });
    let mut dims = [false; 3];
    for inst in behind(kernel, controls.copied().collect()) {
        if let Op::BlockIndex(d) = kernel.insts[inst].op {
            dims[usize::from(d)] = true;
        }
    }
    dims
}

/// All instructions that the values `left` depend on; of branches and loops those that give their results too. What a loop
/// carries depends on what it starts with.
pub fn behind(kernel: &Kernel, mut left: Vec<Value>) -> Vec<Inst> {
    let mut seen: FxHashSet<Value> = left.iter().copied().collect();
    let mut found = Vec::new();
    while let Some(v) = left.pop() {
        let Some(def) = kernel.def(v) else { continue };
        found.push(def);
        let given = kernel.insts[def].blocks.iter().filter_map(|&b| kernel.blocks[b].insts.last());
        let all = given.chain([&def]).flat_map(|&i| kernel.args(i));
        left.extend(all.copied().filter(|&a| seen.insert(a)));
    }
    found
}

impl<C: Fn(&Kernel, Inst) -> f64> Placed<'_, C> {
    /// The cost of the block at a place; `None` if it is not known within the budget.
    fn at(&mut self, place: [i64; 3]) -> Option<f64> {
        self.place = place;
        self.derived.clear();
        self.block(self.kernel.entry).filter(|_| self.budget > 0)
    }

    fn block(&mut self, block: Block) -> Option<f64> {
        let kernel = self.kernel;
        kernel.blocks[block].insts.iter().try_fold(0.0, |sum, &inst| Some(sum + self.inst(inst)?))
    }

    fn inst(&mut self, inst: Inst) -> Option<f64> {
        self.budget = self.budget.checked_sub(1)?;
        let own = (self.cost)(self.kernel, inst);
        let inside = match self.kernel.insts[inst].op {
            Op::For => self.looped(inst),
            Op::If => self.branch(inst),
            Op::While => None,
            _ => return Some(own),
        };
        Some(own + inside.or(self.least.then_some(0.0))?)
    }

    fn branch(&mut self, inst: Inst) -> Option<f64> {
        let taken = self.number(self.kernel.args(inst)[0])?;
        let block = self.kernel.insts[inst].blocks.get(usize::from(taken == 0));
        block.map_or(Some(0.0), |&b| self.block(b))
    }

    fn looped(&mut self, inst: Inst) -> Option<f64> {
        let [low, high, step] = [0, 1, 2].map(|n| self.number(self.kernel.args(inst)[n]));
        let (low, high, step) = (low?, high?, step.filter(|&s| s > 0)?);
        let trips = (high.saturating_sub(low).max(0) as u64).div_ceil(step as u64) as i64;
        let body = self.kernel.insts[inst].blocks[0];
        let least = std::mem::replace(&mut self.least, false);
        let each = self.block(body);
        self.least = least;
        if let Some(each) = each {
            return Some(trips as f64 * each);
        }
        let counter = self.kernel.blocks[body].params[0];
        let mut sum = Some(0.0);
        for trip in 0..trips {
            self.known.insert(counter, low + trip * step);
            self.derived.clear();
            sum = sum.and_then(|sum| Some(sum + self.block(body)?));
            if sum.is_none() || self.budget == 0 {
                break;
            }
        }
        self.known.remove(&counter);
        self.derived.clear();
        sum.filter(|_| self.budget > 0)
    }

    /// A whole number, if places and arguments alone are behind it.
    fn number(&mut self, value: Value) -> Option<i64> {
        if let Some(&number) = self.known.get(&value) {
            return Some(number);
        }
        if let Some(&number) = self.derived.get(&value) {
            return number;
        }
        let number = self.derive(value);
        self.derived.insert(value, number);
        number
    }

    fn derive(&mut self, value: Value) -> Option<i64> {
        self.budget = self.budget.checked_sub(1)?;
        let inst = self.kernel.def(value)?;
        match self.kernel.insts[inst].op {
            Op::BlockIndex(d) => Some(self.place[usize::from(d)]),
            Op::GridDim(d) => Some(self.grid[usize::from(d)] as i64),
            Op::Dim(d) => d.constant().map(i64::from),
            ref op if op.is_elementwise() || matches!(op, Op::Int(_) | Op::Assume(_)) => {
                let args: Option<Vec<i64>> = self.kernel.args(inst).iter().map(|&v| self.number(v)).collect();
                whole_number(op, &args?)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::tile::parse_file;

    /// Products that each block of a grid of two by three makes.
    fn products(body: &str, least: bool) -> Option<BlockWork> {
        let text = format!(
            "kernel k(a: ptr<f16>, p: ptr<i32>, n: i32) {{ grid 2, 3 ga = view a : f16[64, 64] gn = view p : i32[n] i, j = block_index
            x = load ga[0, 0] : f16[64, 64] z = full 0.0 : f32[64, 64] {body} }}"
        );
        products_of(&text, least)
    }

    fn products_of(text: &str, least: bool) -> Option<BlockWork> {
        let kernel = parse_file(text, "").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
        let sizes = Sizes::parse(&kernel, "n=7").unwrap();
        let cost = |k: &Kernel, i: Inst| f64::from(u8::from(matches!(k.insts[i].op, Op::Mma { .. })));
        work_by_block(&kernel, &sizes, &cost, least)
    }

    #[test]
    fn branches_and_trips_follow_from_places() {
        let found = |body| products(body, false);
        let each = |work: &[f64]| Some(BlockWork::Each(work.to_vec()));
        assert_eq!(found("y = mma z, x, x"), Some(BlockWork::Same(1.0)));
        assert_eq!(found("if i >= j { y = mma z, x, x }"), each(&[1.0, 1.0, 0.0, 1.0, 0.0, 0.0]));
        assert_eq!(found("for t in i..n step 3 { y = mma z, x, x }"), each(&[3.0, 2.0].repeat(3)));
        let nested = "for t in 0..j { for u in 0..t + 1 { y = mma z, x, x } }";
        assert_eq!(found(nested), each(&[0.0, 0.0, 1.0, 1.0, 3.0, 3.0]));
        assert_eq!(
            found("for t in 0..9999 { if t > i { y = mma z, x, x } }"),
            None,
            "too many to go through"
        );
    }

    #[test]
    fn what_comes_from_memory_is_unknown_or_counts_nothing() {
        let body = "y = mma z, x, x c = load gn[i] : i32 if c > 0 { y1 = mma z, x, x }";
        assert_eq!(products(body, false), None);
        assert_eq!(products(body, true), Some(BlockWork::Each(vec![1.0; 6])));
    }

    /// Heads of a batch do what their places along the rows say: 64,000 blocks are four.
    #[test]
    fn blocks_along_dimensions_that_decide_nothing_are_alike() {
        let text = "kernel k(a: ptr<f16>, n: i32) { grid 4, 16000 ga = view a : f16[64, 64] i, j = block_index
            x = load ga[j, 0] : f16[64, 64] z = full 0.0 : f32[64, 64] for t in 0..i + 1 { y = mma z, x, x } }";
        let found = products_of(text, false);
        assert_eq!(found, Some(BlockWork::Each([1.0, 2.0, 3.0, 4.0].repeat(16000))));
    }
}
