//! What one block does, by its place in the grid and by given data: branches and trips that follow from block indices, arguments
//! and the contents of arrays.
//!
//! ```text
//!  if j*BN <= i*BM { for t in 0..cdiv(k, BK) .. }        place (3, 5): nothing        place (5, 3): cdiv(k, BK) products
//!  for t in 0..i + 1 ..                                  place (3, _): 4 trips
//! ```

use super::block_numbers::{Data, VISITS_WITH_DATA};
use super::{BlockNumbers, Blocks, Sizes};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use warplift_ir::tile::{Block, Inst, Kernel, Op, Value};

/// Contents of arrays by name, as they lie in memory.
type Arrays = BTreeMap<String, Vec<u8>>;

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

/// What is asked of a launch: a cost of each of its instructions.
pub struct Costed<'k, C> {
    /// The kernel, without tunables.
    pub kernel: &'k Kernel,
    /// Its scalar arguments.
    pub sizes: &'k Sizes,
    /// Contents of arrays.
    pub arrays: &'k Arrays,
    /// Its blocks.
    pub blocks: Blocks,
    /// What an instruction costs where it runs once; `None` if that depends on counters that are not known.
    pub cost: C,
    /// Values that the cost looks at, beside branches and bounds.
    pub looks_at: &'k [Value],
    /// What unknown branches and trips count: nothing, or they make everything unknown.
    pub least: bool,
}

impl<C: Fn(&mut BlockNumbers<'_>, Inst) -> Option<f64>> Costed<'_, C> {
    /// The cost of all instructions that each block runs. `None` if it depends on more than places, arguments and given
    /// data, or on more blocks and trips than can be gone through.
    pub fn by_block(&self) -> Option<BlockWork> {
        self.by_block_within(VISITS_WITH_DATA)
    }

    /// The same, if data are given by looking at so many instructions at most.
    pub(super) fn by_block_within(&self, most: u32) -> Option<BlockWork> {
        let grid = self.blocks.grid;
        if grid.contains(&0) {
            return Some(BlockWork::Same(0.0));
        }
        let controls = self.kernel.insts.keys().flat_map(|inst| controls_of(self.kernel, inst));
        let mut data =
            Data::new(self.kernel, self.arrays, controls.chain(self.looks_at).copied().collect(), most);
        let numbers = BlockNumbers::new(self.kernel, self.sizes, self.blocks, &mut data);
        let (closed, done, straight) = Default::default();
        let fixed = self.looks_at.is_empty();
        let mut placed =
            Placed { numbers, cost: &self.cost, least: self.least, fixed, straight, closed, done };
        if !fixed {
            placed.closed = self.kernel.insts.keys().map(|inst| (inst, false)).collect();
        }
        let dims = deciding_dims(self.kernel, self.looks_at);
        if dims == [false; 3] {
            return placed.at([0; 3], self.blocks.teams).map(BlockWork::Same);
        }
        let blocks = self.blocks.count().filter(|&n| n <= BLOCKS)?;
        let place = |n: u64| [n % grid[0], n / grid[0] % grid[1], n / (grid[0] * grid[1])];
        // Blocks that differ along other dimensions do the same work.
        let deciding = |n: u64| [0, 1, 2].map(|d| if dims[d] { place(n)[d] as i64 } else { 0 });
        let mut found: FxHashMap<[i64; 3], f64> = FxHashMap::default();
        let each = (0..blocks).map(deciding).map(|place| match found.entry(place) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(new) => placed.at(place, self.blocks.teams).map(|work| *new.insert(work)),
        });
        each.collect::<Option<_>>().map(BlockWork::Each)
    }
}

/// Whether a branch or the bounds of a loop may follow from block indices, so that blocks do unequal work.
pub fn depends_on_place(kernel: &Kernel) -> bool {
    deciding_dims(kernel, &[]) != [false; 3]
}

/// The dimensions of the grid from whose block indices a branch, the bounds of a loop or another value may follow.
fn deciding_dims(kernel: &Kernel, others: &[Value]) -> [bool; 3] {
    let controls = kernel.insts.keys().flat_map(|inst| controls_of(kernel, inst)).copied();
    let controls = controls.filter(|&v| !is_found(kernel, v)).chain(others.iter().copied());
    let mut dims = [false; 3];
    for inst in behind(kernel, controls.collect()) {
        match kernel.insts[inst].op {
            Op::BlockIndex(d) => dims[usize::from(d)] = true,
            Op::ProgramId => dims[0] = true,
            _ => {}
        }
    }
    dims
}

/// The condition of a branch, the bounds of a loop.
pub(super) fn controls_of(kernel: &Kernel, inst: Inst) -> &[Value] {
    match kernel.insts[inst].op {
        Op::If => &kernel.args(inst)[..1],
        Op::For => &kernel.args(inst)[..3],
        Op::While => kernel.insts[inst].blocks.first().map_or(&[], |&b| &kernel.yields(b)[..1]),
        _ => &[],
    }
}

/// Whether a value follows from products: blocks find it, and no place tells it.
fn is_found(kernel: &Kernel, v: Value) -> bool {
    behind(kernel, vec![v]).into_iter().any(|inst| matches!(kernel.insts[inst].op, Op::Mma { .. }))
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

/// Whether branches and bounds inside a loop follow from its counter, constants and sizes alone.
fn is_closed(kernel: &Kernel, inst: Inst) -> bool {
    let mut own: FxHashSet<Value> = kernel.params.iter().map(|p| p.value).collect();
    let mut controls = Vec::new();
    let mut blocks: Vec<Block> = kernel.insts[inst].blocks.to_vec();
    while let Some(block) = blocks.pop() {
        own.extend(kernel.blocks[block].params.first());
        for &inside in &kernel.blocks[block].insts {
            controls.extend(controls_of(kernel, inside));
            blocks.extend(&kernel.insts[inside].blocks);
        }
    }
    let fixed = |op: &Op| op.is_elementwise() || matches!(op, Op::Int(_) | Op::Dim(_) | Op::Assume(_));
    let inside = behind(kernel, controls.clone());
    let values = inside.iter().flat_map(|&i| kernel.args(i)).chain(&controls);
    values.into_iter().all(|&v| kernel.def(v).is_some() || own.contains(&v))
        && inside.iter().all(|&i| fixed(&kernel.insts[i].op))
}

/// A loop by its bounds and step.
type Trips = (Inst, [i64; 3]);

/// What the instructions of a block cost that are no branches or loops, and those that are.
type Straight = (f64, Vec<Inst>);

/// A block at a place.
struct Placed<'k, C> {
    numbers: BlockNumbers<'k>,
    cost: &'k C,
    least: bool,
    /// Whether costs look at no values, and then of blocks what all but branches and loops cost, and these.
    fixed: bool,
    straight: FxHashMap<Block, Rc<Straight>>,
    /// Loops whose work follows from nothing but their trips, and that work.
    closed: FxHashMap<Inst, bool>,
    done: FxHashMap<Trips, f64>,
}

impl<C: Fn(&mut BlockNumbers<'_>, Inst) -> Option<f64>> Placed<'_, C> {
    /// The cost of the block at a place; `None` if it is not known within the budget.
    fn at(&mut self, place: [i64; 3], teams: u64) -> Option<f64> {
        let mut sum = 0.0;
        for team in 0..teams {
            self.numbers.stand(place, team);
            sum += self.block(self.numbers.kernel.entry).filter(|_| !self.numbers.is_over())?;
        }
        Some(sum)
    }

    fn block(&mut self, block: Block) -> Option<f64> {
        let kernel = self.numbers.kernel;
        if !self.fixed {
            return kernel.blocks[block]
                .insts
                .iter()
                .try_fold(0.0, |sum, &inst| Some(sum + self.inst(inst)?));
        }
        let straight = match self.straight.get(&block) {
            Some(known) => known.clone(),
            None => self.straight_of(block)?,
        };
        straight.1.iter().try_fold(straight.0, |sum, &inst| Some(sum + self.inst(inst)?))
    }

    /// The same parts of every place's block.
    fn straight_of(&mut self, block: Block) -> Option<Rc<Straight>> {
        let kernel = self.numbers.kernel;
        let insts = kernel.blocks[block].insts.iter().copied();
        let (nested, own): (Vec<Inst>, Vec<Inst>) = insts.partition(|&i| !kernel.insts[i].blocks.is_empty());
        let cost = own.into_iter().try_fold(0.0, |sum, inst| Some(sum + self.inst(inst)?))?;
        let found = Rc::new((cost, nested));
        self.straight.insert(block, found.clone());
        Some(found)
    }

    fn inst(&mut self, inst: Inst) -> Option<f64> {
        self.numbers.look()?;
        let own = (self.cost)(&mut self.numbers, inst).or(self.least.then_some(0.0))?;
        let inside = match self.numbers.kernel.insts[inst].op {
            Op::For => self.looped(inst),
            Op::If => self.branch(inst),
            Op::While => self.repeated(inst),
            _ => return Some(own),
        };
        Some(own + inside.or(self.least.then_some(0.0))?)
    }

    fn branch(&mut self, inst: Inst) -> Option<f64> {
        let kernel = self.numbers.kernel;
        let blocks = &kernel.insts[inst].blocks;
        let Some(taken) = self.numbers.number(kernel.args(inst)[0]) else {
            // Where both sides do the same it does not matter.
            let each = [0, 1].map(|k| blocks.get(k).map_or(Some(0.0), |&b| self.block(b)));
            return each[0].filter(|_| each[0] == each[1]);
        };
        blocks.get(usize::from(taken == 0)).map_or(Some(0.0), |&b| self.block(b))
    }

    /// A loop that ends by a condition, whose trips all do the same.
    fn repeated(&mut self, inst: Inst) -> Option<f64> {
        let each = self.block(self.numbers.kernel.insts[inst].blocks[0])?;
        Some(self.numbers.trips(inst)? as f64 * each)
    }

    fn looped(&mut self, inst: Inst) -> Option<f64> {
        let kernel = self.numbers.kernel;
        let [low, high, step] = [0, 1, 2].map(|n| self.numbers.number(kernel.args(inst)[n]));
        let (low, high, step) = (low?, high?, step.filter(|&s| s > 0)?);
        let trips = (high.saturating_sub(low).max(0) as u64).div_ceil(step as u64) as i64;
        let body = kernel.insts[inst].blocks[0];
        let least = std::mem::replace(&mut self.least, false);
        let each = self.block(body);
        self.least = least;
        if let Some(each) = each {
            return Some(trips as f64 * each);
        }
        let known = (inst, [low, high, step]);
        if let Some(&work) = self.done.get(&known) {
            return Some(work);
        }
        let sum = self.trip_by_trip(body, (low, trips, step));
        if *self.closed.entry(inst).or_insert_with(|| is_closed(kernel, inst)) {
            sum.map(|work| self.done.insert(known, work));
        }
        sum
    }

    /// Trips that differ.
    fn trip_by_trip(&mut self, body: Block, (low, trips, step): (i64, i64, i64)) -> Option<f64> {
        let counter = self.numbers.kernel.blocks[body].params[0];
        let mut sum = Some(0.0);
        for trip in 0..trips {
            self.numbers.count(counter, Some(low + trip * step));
            sum = sum.and_then(|sum| Some(sum + self.block(body)?));
            if sum.is_none() || self.numbers.is_over() {
                break;
            }
        }
        self.numbers.count(counter, None);
        sum.filter(|_| !self.numbers.is_over())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::grid_of;
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
        let blocks = Blocks::of(grid_of(&kernel, &sizes)?);
        let cost = |numbers: &mut BlockNumbers<'_>, inst| Some(cost(numbers.kernel, inst));
        let (kernel, sizes, arrays) = (&kernel, &sizes, &Arrays::new());
        Costed { kernel, sizes, arrays, blocks, cost, looks_at: &[], least }.by_block()
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
            found("for t in 0..99999 { if t > i { y = mma z, x, x } }"),
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

    #[test]
    fn what_products_decide_says_nothing_of_places() {
        for (high, depends) in [("3", false), ("i", true)] {
            let text = format!(
                "kernel k(a: ptr<f16>, n: i32) {{ grid 4 ga = view a : f16[256, 64] i = block_index
                x = load ga[i*64, 0] : f16[64, 64] z = full 0.0 : f32[64, 64] y = mma z, x, x
                if reduce_max(reduce_max(y, 1), 0) > 0.0 {{ w = mma z, x, x }} for t in 0..{high} {{ v = mma z, x, x }} }}"
            );
            let kernel = parse_file(&text, "").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
            assert_eq!(depends_on_place(&kernel), depends, "{high}");
        }
    }

    /// The same with `p` given.
    fn products_with(body: &str, held: &[i32]) -> Option<BlockWork> {
        let text = format!(
            "kernel k(a: ptr<f16>, p: ptr<i32>, n: i32) {{ grid 4 ga = view a : f16[64, 64] gn = view p : i32[n] i = block_index
            x = load ga[0, 0] : f16[64, 64] z = full 0.0 : f32[64, 64] {body} }}"
        );
        let kernel = parse_file(&text, "").unwrap_or_else(|e| panic!("{e:?}")).kernels.remove(0);
        let sizes = Sizes::parse(&kernel, "n=8").unwrap();
        let bytes = held.iter().flat_map(|v| v.to_le_bytes()).collect();
        let arrays = Arrays::from([("p".to_owned(), bytes)]);
        let cost = |numbers: &mut BlockNumbers<'_>, i: Inst| {
            Some(f64::from(u8::from(matches!(numbers.kernel.insts[i].op, Op::Mma { .. }))))
        };
        let (kernel, sizes, arrays, blocks) = (&kernel, &sizes, &arrays, Blocks::of([4, 1, 1]));
        Costed { kernel, sizes, arrays, blocks, cost, looks_at: &[], least: false }.by_block()
    }

    #[test]
    fn given_arrays_say_trips_and_branches() {
        let of = |body| products_with(body, &[3, 0, 9, 1, 1, 2, 5, -4]);
        let each = |work: &[f64]| Some(BlockWork::Each(work.to_vec()));
        let trips = "c = load gn[i] : i32 for t in 0..c { y = mma z, x, x }";
        assert_eq!(of(trips), each(&[3.0, 0.0, 9.0, 1.0]));
        let masked = "c = load gn[i] : i32 for t in 0..c { if t == 0 { y = mma z, x, x } }";
        assert_eq!(of(masked), each(&[1.0, 0.0, 1.0, 1.0]), "trips that differ, the same in every block");
        let outer = "for u in 0..3 { for t in 0..2 { if u > t { y = mma z, x, x } } } for v in 0..load gn[i] : i32 { w = mma z, x, x }";
        assert_eq!(
            of(outer),
            each(&[6.0, 3.0, 12.0, 4.0]),
            "the inner loop is not the same in each trip of the outer one"
        );
        let widest = "c = reduce_max(load gn[i*2] : i32[2], 0) for t in 0..c { y = mma z, x, x }";
        assert_eq!(of(widest), each(&[3.0, 9.0, 2.0, 5.0]));
        let branch = "c = load gn[i] : i32 if c > 1 { y = mma z, x, x }";
        assert_eq!(of(branch), each(&[1.0, 0.0, 1.0, 0.0]));
        let until = "u = while carry t = 0 { y = mma z, x, x yield t + 1 < load gn[i] : i32, t + 1 }";
        assert_eq!(of(until), each(&[3.0, 1.0, 9.0, 1.0]));
    }
}
