//! Numbers that one block of a launch computes: bounds, conditions and indices, by its place and by given data.
//!
//! ```text
//!  i*BM, t + 1, cdiv(k, BK)         sizes, places and counters of loops     here, at once
//!  load ends[i], reduce_max(..)     the contents of given arrays            the interpreter, what is asked for alone
//! ```

use super::{Sizes, behind};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use warplift_ir::entity::SecondaryMap;
use warplift_ir::interp::{Demand, Memory, Standing};
use warplift_ir::tile::{Inst, Kernel, Op, Value, whole_number};
use warplift_isel::facts::expected;

/// Contents of arrays by name, as they lie in memory.
type Arrays = BTreeMap<String, Vec<u8>>;

/// Instructions that are looked at, in all blocks together: some milliseconds.
const VISITS: u32 = 1 << 17;
/// The same where data are given.
pub(super) const VISITS_WITH_DATA: u32 = 1 << 22;

/// The blocks of a launch, and how programs of a persistent kernel lie in them.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Along each dimension.
    pub grid: [u64; 3],
    /// Blocks that share a tile.
    pub cluster: u64,
    /// Programs beside each other in a block.
    pub teams: u64,
}

impl Blocks {
    /// A grid whose blocks have a tile each.
    pub fn of(grid: [u64; 3]) -> Self {
        Self { grid, cluster: 1, teams: 1 }
    }

    /// All of them, if they can be counted.
    pub fn count(&self) -> Option<u64> {
        self.grid.iter().try_fold(1_u64, |all, &n| all.checked_mul(n))
    }
}

/// The contents of arrays in memory, and instructions that the interpreter may look at.
pub(super) struct Data {
    memory: Memory,
    steps: u64,
    given: bool,
}

impl Data {
    /// Of the arrays that these values come from, as far as they are given.
    pub fn new(kernel: &Kernel, arrays: &Arrays, values: Vec<Value>, most: u32) -> Self {
        let (mut memory, mut given) = (Memory::new(), false);
        if !arrays.is_empty() {
            let views =
                behind(kernel, values).into_iter().filter(|&i| matches!(kernel.insts[i].op, Op::View { .. }));
            let names: BTreeSet<&str> =
                views.filter_map(|v| Some(kernel.argument_of(kernel.result(v))?.name.as_str())).collect();
            for (name, bytes) in names.iter().filter_map(|&name| arrays.get_key_value(name)) {
                memory.add(name, bytes.clone());
                given = true;
            }
        }
        Self { memory, steps: most.into(), given }
    }
}

/// Numbers of the block at a place, with given data.
pub fn numbers_at(
    kernel: &Kernel,
    (sizes, arrays): (&Sizes, &Arrays),
    blocks: Blocks,
    place: [i64; 3],
    values: &[Value],
) -> Vec<Option<i64>> {
    let mut data = Data::new(kernel, arrays, values.to_vec(), VISITS_WITH_DATA);
    let mut numbers = BlockNumbers::new(kernel, sizes, blocks, &mut data);
    numbers.stand(place, 0);
    values.iter().map(|&v| numbers.number(v)).collect()
}

/// What was found of values in this round: a number, or that there is none. A new round forgets all at once.
struct Derived {
    round: u32,
    found: SecondaryMap<Value, (u32, Option<i64>)>,
}

impl Derived {
    fn new() -> Self {
        Self { round: 1, found: SecondaryMap::new() }
    }

    fn get(&self, value: Value) -> Option<Option<i64>> {
        let (round, number) = self.found[value];
        (round == self.round).then_some(number)
    }

    fn insert(&mut self, value: Value, number: Option<i64>) {
        self.found[value] = (self.round, number);
    }

    fn forget(&mut self, value: Value) {
        self.found[value].0 = 0;
    }

    fn forget_all(&mut self) {
        self.round += 1;
    }
}

/// Numbers of the block at a place.
pub struct BlockNumbers<'k> {
    /// The kernel.
    pub kernel: &'k Kernel,
    blocks: Blocks,
    at: Standing,
    /// Numbers of arguments, and of the loops that are gone through.
    known: SecondaryMap<Value, Option<i64>>,
    /// What follows from these.
    derived: Derived,
    /// Values that follow from a counter.
    follow: FxHashMap<Value, FxHashSet<Value>>,
    data: Option<Demand<'k>>,
    /// Instructions that may still be looked at.
    budget: u32,
}

impl<'k> BlockNumbers<'k> {
    pub(super) fn new(kernel: &'k Kernel, sizes: &Sizes, blocks: Blocks, data: &'k mut Data) -> Self {
        let mut known = SecondaryMap::new();
        kernel.params.iter().for_each(|p| known[p.value] = sizes.int(&p.name));
        let (derived, follow) = (Derived::new(), FxHashMap::default());
        let Data { memory, steps, given } = data;
        let budget = if *given { *steps as u32 } else { VISITS };
        let data = given.then(|| Demand::new(kernel, memory, |name| sizes.int(name), steps));
        Self { kernel, blocks, at: Standing::default(), known, derived, follow, data, budget }
    }

    /// Goes to the block at a place, and of its programs to the one of this number.
    pub(super) fn stand(&mut self, place: [i64; 3], team: u64) {
        let Blocks { grid, cluster, teams } = self.blocks;
        let shared = |[x, y, z]: [i64; 3]| [x / cluster as i64, y, z];
        let (block, grid) = (shared(place), shared(grid.map(|n| n as i64)));
        let (program, programs) = (block[0] * teams as i64 + team as i64, grid[0] * teams as i64);
        self.at = Standing { block, grid, program, programs };
        self.derived.forget_all();
        if let Some(data) = &mut self.data {
            data.stand(self.at);
        }
    }

    /// Sets the counter of a loop, or takes its number.
    pub(super) fn count(&mut self, counter: Value, number: Option<i64>) {
        self.known[counter] = number;
        let follows = self.follow.entry(counter).or_insert_with(|| followers(self.kernel, counter));
        follows.iter().for_each(|&value| self.derived.forget(value));
        if let Some(data) = &mut self.data {
            data.forget_these(follows);
            data.set(counter, number);
        }
    }

    /// Whether more may be looked at; an instruction was.
    pub(super) fn look(&mut self) -> Option<()> {
        self.budget = self.budget.checked_sub(1)?;
        Some(())
    }

    /// Whether nothing more may be looked at.
    pub(super) fn is_over(&self) -> bool {
        self.budget == 0
    }

    /// A whole number, if places, arguments and given data alone are behind it.
    pub fn number(&mut self, value: Value) -> Option<i64> {
        if let Some(number) = self.known[value] {
            return Some(number);
        }
        if let Some(found) = self.derived.get(value) {
            return found;
        }
        let number = self.derive(value);
        self.derived.insert(value, number);
        number
    }

    /// The numbers of a tile, if they are known.
    pub fn tile(&mut self, value: Value) -> Option<Vec<i64>> {
        self.data.as_mut()?.tile(value)
    }

    /// The trips of a loop that ends by a condition.
    pub(super) fn trips(&mut self, inst: Inst) -> Option<i64> {
        self.data.as_mut()?.trips(inst)
    }

    fn derive(&mut self, value: Value) -> Option<i64> {
        self.look()?;
        let inst = self.kernel.def(value)?;
        match self.kernel.insts[inst].op {
            Op::BlockIndex(d) => Some(self.at.block[usize::from(d)]),
            Op::GridDim(d) => Some(self.at.grid[usize::from(d)]),
            Op::ProgramId => Some(self.at.program),
            Op::ProgramCount => Some(self.at.programs),
            Op::Dim(d) => d.constant().map(i64::from),
            Op::Select if self.number(self.kernel.args(inst)[0]).is_none() => {
                // What nothing decides is as the text expects it.
                let usual = expected(self.kernel, value);
                if usual == value { self.data.as_mut()?.number(value) } else { self.number(usual) }
            }
            ref op if op.is_elementwise() || matches!(op, Op::Int(_) | Op::Assume(_)) => {
                let args = self.kernel.args(inst).iter().map(|&v| self.number(v));
                let args: Option<SmallVec<[i64; 4]>> = args.collect();
                whole_number(op, &args?).or_else(|| self.data.as_mut()?.number(value))
            }
            _ => self.data.as_mut()?.number(value),
        }
    }
}

/// All values that a counter may change.
fn followers(kernel: &Kernel, counter: Value) -> FxHashSet<Value> {
    let mut found = FxHashSet::from_iter([counter]);
    let mut before = 0;
    while found.len() > before {
        before = found.len();
        kernel.walk(|_, inst| add_followers(kernel, inst, &mut found));
    }
    found
}

/// Adds what an instruction gives of operands that are among the found ones; a loop or a branch also of what it yields.
fn add_followers(kernel: &Kernel, inst: Inst, found: &mut FxHashSet<Value>) {
    let blocks = &kernel.insts[inst].blocks;
    let own = kernel.args(inst).iter().any(|v| found.contains(v));
    let yielded = blocks.iter().filter_map(|&b| kernel.blocks[b].insts.last());
    if !own && !yielded.flat_map(|&last| kernel.args(last)).any(|v| found.contains(v)) {
        return;
    }
    // What is yielded is no counter of the loop.
    let carried = usize::from(!own && matches!(kernel.insts[inst].op, Op::For));
    let params = blocks.iter().flat_map(|&b| kernel.blocks[b].params.iter().skip(carried));
    found.extend(kernel.results(inst).iter().chain(params).copied());
}
