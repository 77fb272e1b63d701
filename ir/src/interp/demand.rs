//! Single numbers of a kernel, on demand: what a bound, a condition or an index is in one block, and nothing else of it.
//!
//! ```text
//!  blocks = cdiv(load lengths[b], 64)       asked for `blocks`: b ─► the load ─► cdiv
//!  acc = for t in 0..blocks ..              nobody asks for `acc`: no tile is loaded, no product is made
//! ```
//!
//! Numbers come from scalar arguments, from where the block stands, and from arrays whose contents are given. What needs
//! another array, a product, or what blocks write has no number. Of a loop only what is asked for is carried.

use super::exec::{GridPosition, Program};
use super::memory::Memory;
use super::number::Number;
use super::value::Val;
use crate::tile::{Inst, Kernel, Op, Type, Value};
use rustc_hash::FxHashSet;

/// Elements of a tile that cost as much as an instruction.
const ELEMENTS: usize = 8;

/// Where a block stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Its place in the grid.
    pub block: [i64; 3],
    /// The grid.
    pub grid: [i64; 3],
    /// The number of the program, of a kernel that `map` made persistent.
    pub program: i64,
    /// The number of programs.
    pub programs: i64,
}

/// Numbers of one kernel, of one block after the other.
pub struct Demand<'a> {
    program: Program<'a>,
    /// Values that were found, in order.
    found: Vec<Value>,
    /// Values that have no number here.
    failed: FxHashSet<Value>,
}

impl<'a> Demand<'a> {
    /// Of a kernel without tunables. Its pointers name buffers of the memory; those that have none are not known. `sizes`
    /// gives integer arguments by name, and `steps` is how many instructions may be looked at.
    pub fn new(
        kernel: &'a Kernel,
        memory: &'a mut Memory,
        sizes: impl Fn(&str) -> Option<i64>,
        steps: &'a mut u64,
    ) -> Self {
        let given = |name: &str, ty| match ty {
            Type::Ptr(_) => memory.find(name).map(|buffer| Val::Ptr(buffer, 0)),
            _ => sizes(name).map(|n| Val::Scalar(Number::Int(n))),
        };
        let args: Vec<(Value, Val)> = kernel
            .params
            .iter()
            .filter_map(|p| Some((p.value, given(&p.name, kernel.ty(p.value))?)))
            .collect();
        let mut program = Program::new(kernel, memory, &[], GridPosition::default(), steps);
        args.into_iter().for_each(|(v, val)| program.put(v, Some(val)));
        Self { program, found: Vec::new(), failed: FxHashSet::default() }
    }

    /// Goes to another block.
    pub fn stand(&mut self, at: Standing) {
        let Standing { block, grid, program, programs } = at;
        self.forget_all();
        self.program.place = GridPosition { block, grid, program, programs };
    }

    /// Sets a loop's counter, or takes its number.
    pub fn set(&mut self, value: Value, number: Option<i64>) {
        self.program.put(value, number.map(|n| Val::Scalar(Number::Int(n))));
    }

    /// Forgets what was found in this block of these values: a counter that they follow from changes.
    pub fn forget_these(&mut self, values: &FxHashSet<Value>) {
        let (gone, kept) = std::mem::take(&mut self.found).into_iter().partition(|v| values.contains(v));
        self.found = kept;
        let gone: Vec<Value> = gone;
        gone.into_iter().for_each(|value| self.program.put(value, None));
        self.failed.retain(|value| !values.contains(value));
    }

    /// Forgets what was found in this block.
    fn forget_all(&mut self) {
        self.forget(0);
    }

    /// Forgets what was found since so many were.
    fn forget(&mut self, since: usize) {
        for value in self.found.drain(since..) {
            self.program.put(value, None);
        }
        self.failed.clear();
    }

    /// The number of an integer or a truth value.
    pub fn number(&mut self, value: Value) -> Option<i64> {
        self.demand(value)?;
        match self.program.peek(value)? {
            Val::Scalar(Number::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// The numbers of a tile of integers or truth values.
    pub fn tile(&mut self, value: Value) -> Option<Vec<i64>> {
        self.demand(value)?;
        let tile = self.program.peek(value)?.tile()?;
        (!tile.elem.is_float()).then(|| (0..tile.len()).map(|i| tile.get(i).as_i64()).collect())
    }

    /// Finds a value, if it has one.
    fn demand(&mut self, value: Value) -> Option<()> {
        if self.program.peek(value).is_some() {
            return Some(());
        }
        if self.failed.contains(&value) {
            return None;
        }
        let found = self.find(value);
        if found.is_none() {
            self.failed.insert(value);
        }
        found
    }

    fn find(&mut self, value: Value) -> Option<()> {
        let inst = self.program.kernel.def(value)?;
        *self.program.steps = self.program.steps.checked_sub(1).filter(|&left| left > 0)?;
        match self.program.kernel.insts[inst].op {
            Op::If => self.branch(inst, value),
            Op::For => {
                let found = self.counted(inst, value);
                self.leave(inst);
                found
            }
            Op::While => {
                let found = self.repeated(inst, Some(value)).map(|_| ());
                self.leave(inst);
                found
            }
            ref op if op.is_write() || matches!(op, Op::Mma { .. } | Op::Workspace | Op::Shared { .. }) => {
                None
            }
            _ => {
                let kernel = self.program.kernel;
                kernel.args(inst).iter().try_for_each(|&arg| self.demand(arg))?;
                self.program.operate(inst)?;
                kernel.results(inst).iter().for_each(|&r| self.note(r));
                Some(())
            }
        }
    }

    /// A value was found.
    fn note(&mut self, value: Value) {
        self.found.push(value);
        let elements = self.program.peek(value).and_then(Val::tile).map_or(0, |t| t.len());
        *self.program.steps = self.program.steps.saturating_sub((elements / ELEMENTS) as u64).max(1);
    }

    /// The result of an instruction that this is, by number.
    fn position(&self, inst: Inst, value: Value) -> Option<usize> {
        self.program.kernel.results(inst).iter().position(|&r| r == value)
    }

    fn give(&mut self, value: Value, val: Val) -> Option<()> {
        self.program.put(value, Some(val));
        self.note(value);
        Some(())
    }

    fn branch(&mut self, inst: Inst, value: Value) -> Option<()> {
        let kernel = self.program.kernel;
        let taken = self.number(kernel.args(inst)[0])?;
        let block = *kernel.insts[inst].blocks.get(usize::from(taken == 0))?;
        let yielded = *kernel.yields(block).get(self.position(inst, value)?)?;
        self.demand(yielded)?;
        let val = self.program.peek(yielded)?.clone();
        self.give(value, val)
    }

    fn counted(&mut self, inst: Inst, value: Value) -> Option<()> {
        let kernel = self.program.kernel;
        let (args, body) = (kernel.args(inst), kernel.insts[inst].blocks[0]);
        let wanted = self.position(inst, value)?;
        let (counter, params) = kernel.blocks[body].params.split_first()?;
        let yields = kernel.yields(body);
        let carried = needed(kernel, params, yields, vec![wanted]);
        let mut vals = self.all(carried.iter().map(|&k| args[3 + k]))?;
        let [mut at, end, step] = [self.number(args[0])?, self.number(args[1])?, self.number(args[2])?];
        while at < end && step > 0 {
            self.set(*counter, Some(at));
            vals =
                self.trip(carried.iter().map(|&k| params[k]).zip(vals), carried.iter().map(|&k| yields[k]))?;
            at = at.checked_add(step)?;
        }
        let at = carried.iter().position(|&k| k == wanted)?;
        self.give(value, vals.swap_remove(at))
    }

    /// The trips of a loop that ends by a condition.
    pub fn trips(&mut self, inst: Inst) -> Option<i64> {
        let found = self.repeated(inst, None);
        self.leave(inst);
        found
    }

    /// Runs a loop that ends by a condition, for one of its results or for its trips alone.
    fn repeated(&mut self, inst: Inst, value: Option<Value>) -> Option<i64> {
        let kernel = self.program.kernel;
        let (args, body) = (kernel.args(inst), kernel.insts[inst].blocks[0]);
        let wanted = value.map(|v| self.position(inst, v));
        let params = &kernel.blocks[body].params;
        let (&again, yields) = kernel.yields(body).split_first()?;
        let decides = behind(kernel, params, again);
        let carried = needed(kernel, params, yields, wanted.flatten().into_iter().chain(decides).collect());
        let mut vals = self.all(carried.iter().map(|&k| args[k]))?;
        let mut trips = 0;
        loop {
            trips += 1;
            let given = carried.iter().map(|&k| params[k]).zip(vals);
            let asked = carried.iter().map(|&k| yields[k]).chain([again]);
            vals = self.trip(given, asked)?;
            if !vals.pop()?.number(0).is_true() {
                break;
            }
        }
        if let Some(value) = value {
            let at = carried.iter().position(|&k| Some(k) == wanted.flatten())?;
            self.give(value, vals.swap_remove(at))?;
        }
        Some(trips)
    }

    /// Behind a loop its parameters have no numbers.
    fn leave(&mut self, inst: Inst) {
        let kernel = self.program.kernel;
        let params = kernel.insts[inst].blocks.iter().flat_map(|&b| &kernel.blocks[b].params);
        params.for_each(|&param| self.program.put(param, None));
    }

    /// One trip of a loop: what it is given, and what is asked of it.
    fn trip(
        &mut self,
        given: impl Iterator<Item = (Value, Val)>,
        asked: impl Iterator<Item = Value>,
    ) -> Option<Vec<Val>> {
        *self.program.steps = self.program.steps.checked_sub(1).filter(|&left| left > 0)?;
        given.for_each(|(param, val)| self.program.put(param, Some(val)));
        let before = self.found.len();
        let vals = self.all(asked);
        self.forget(before);
        vals
    }

    fn all(&mut self, values: impl Iterator<Item = Value>) -> Option<Vec<Val>> {
        let each = values.map(|v| {
            self.demand(v)?;
            self.program.peek(v).cloned()
        });
        each.collect()
    }
}

/// The numbers of a loop's parameters that a value depends on.
fn behind(kernel: &Kernel, params: &[Value], value: Value) -> Vec<usize> {
    let (mut left, mut seen, mut found) = (vec![value], FxHashSet::default(), Vec::new());
    while let Some(v) = left.pop() {
        if !seen.insert(v) {
            continue;
        }
        found.extend(params.iter().position(|&p| p == v));
        let Some(def) = kernel.def(v) else { continue };
        left.extend(kernel.args(def));
        left.extend(kernel.insts[def].blocks.iter().flat_map(|&b| kernel.yields(b)));
    }
    found
}

/// What a loop must carry for these of its results: they, and what the next trip needs for them.
fn needed(kernel: &Kernel, params: &[Value], yields: &[Value], mut wanted: Vec<usize>) -> Vec<usize> {
    let mut all: Vec<usize> = Vec::new();
    while let Some(k) = wanted.pop() {
        if k < yields.len() && !all.contains(&k) {
            all.push(k);
            wanted.extend(behind(kernel, params, yields[k]));
        }
    }
    all
}
