//! Bytes of each array that all blocks of a launch touch, each sector once.
//!
//! ```text
//!  load gw[expert, j*BN, t*BK]      each index ─► the numbers it takes over the grid, the loops and given data
//!                                   each dimension ─► intervals       the product of their lengths, rounded to sectors
//! ```
//!
//! Indices count as independent of each other, so a triangle counts as its square: the result is at most what is
//! touched and more, never more than the views span. Dimensions of the grid that choose what is read from given arrays
//! are gone through one by one.

use super::gathered::{Places, gathered, plain};
use super::value_sets::{Cover, Numbers};
use super::{Problem, extents, grid_of};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use warplift_ir::tile::{BinOp, Block, Inst, Kernel, Op, ReduceOp, Value};

/// Contents of arrays by name, as they lie in memory.
type Arrays = BTreeMap<String, Vec<u8>>;
/// Bytes of a sector, the least that device memory moves.
const SECTOR: f64 = 32.0;
/// Places of the grid that are gone through one by one at most.
const PLACES: u64 = 1024;
/// Elements of a tile of given numbers at most.
const KEPT: u64 = 1 << 15;
/// Counters of the grid; those of loops follow.
const GRID: u32 = 3;

/// A part of a view: what is covered of each dimension.
pub(super) type Part = Vec<Cover>;

/// Bytes that are read and bytes that are written, by operand.
pub fn touched(problem: &Problem, arrays: &Arrays) -> Vec<[f64; 2]> {
    let whole = |o: &super::Operand| {
        let bytes = o.bytes() as f64;
        [bytes * f64::from(u8::from(o.read)), bytes * f64::from(u8::from(o.written))]
    };
    let Some(grid) = grid_of(&problem.resolved, &problem.sizes) else {
        return problem.operands.iter().map(whole).collect();
    };
    let mut parts = FxHashMap::default();
    let gathered = gathered(problem, arrays, grid);
    let mut visit = Visit::new(problem, (arrays, &gathered), grid, &mut parts);
    visit.run();
    let chosen = visit.choosing;
    let places: u64 = (0..3).filter(|&d| chosen[d]).map(|d| grid[d]).product();
    if chosen.contains(&true) && places <= PLACES {
        parts.clear();
        for k in 0..places {
            let mut visit = Visit::new(problem, (arrays, &gathered), grid, &mut parts);
            visit.fix(chosen, k);
            visit.run();
        }
    }
    let least = |(k, operand)| {
        let whole: [f64; 2] = whole(operand);
        [0, 1].map(|way| bytes(problem, parts.get(&(k, way == 1))).min(whole[way]))
    };
    problem.operands.iter().enumerate().map(least).collect()
}

/// Parts of an operand's views that are read or written, without repetition.
pub(super) type Parts = FxHashMap<(usize, bool), BTreeSet<(Inst, Part)>>;

/// Parts that a launch may touch, whatever its arrays hold.
pub(super) fn parts(problem: &Problem, grid: [u64; 3]) -> Parts {
    let (arrays, gathered, mut parts) = Default::default();
    Visit::new(problem, (&arrays, &gathered), grid, &mut parts).run();
    parts
}

fn bytes(problem: &Problem, parts: Option<&BTreeSet<(Inst, Part)>>) -> f64 {
    parts.into_iter().flatten().map(|(view, part)| part_bytes(problem, *view, part)).sum()
}

/// Bytes of a part, whose runs of neighbours are whole sectors.
fn part_bytes(problem: &Problem, view: Inst, part: &Part) -> f64 {
    let kernel = &problem.resolved;
    let Op::View { strided, .. } = kernel.insts[view].op else { return 0.0 };
    let element = f64::from(kernel.ty(kernel.args(view)[0]).elem().bits()) / 8.0;
    let strides = extents(kernel, view, strided, &problem.sizes).map(|e| e.1).unwrap_or_default();
    let of =
        |(cover, &stride): (&Cover, &i64)| cover.elements(if stride == 1 { SECTOR / element } else { 1.0 });
    part.iter().zip(&strides).map(of).product::<f64>() * element
}

/// What an access touches: the operand, the whole view, the index along each of its dimensions, and what that covers.
struct Accessed {
    operand: usize,
    view: Inst,
    indices: Vec<Numbers>,
    part: Part,
}

/// A walk over a kernel, all blocks at once.
struct Visit<'p, 'o> {
    problem: &'p Problem,
    kernel: &'p Kernel,
    arrays: &'p Arrays,
    /// Places that tiles of indices name, in all blocks.
    gathered: &'p Places,
    grid: [u64; 3],
    /// What is known of each value; a tile of given numbers has its elements.
    known: FxHashMap<Value, Numbers>,
    tiles: FxHashMap<Value, Vec<i64>>,
    /// Dimensions of the grid that choose what is read from given arrays.
    choosing: [bool; 3],
    counters: u32,
    /// The place along the chosen dimensions.
    place: u64,
    parts: &'o mut Parts,
}

impl<'p, 'o> Visit<'p, 'o> {
    fn new(
        problem: &'p Problem,
        (arrays, gathered): (&'p Arrays, &'p Places),
        grid: [u64; 3],
        parts: &'o mut Parts,
    ) -> Self {
        let (known, tiles, choosing) = Default::default();
        let kernel = &problem.resolved;
        Self {
            problem,
            kernel,
            arrays,
            gathered,
            grid,
            known,
            tiles,
            choosing,
            counters: GRID,
            place: 0,
            parts,
        }
    }

    /// Only the blocks at the place of this number along the chosen dimensions.
    fn fix(&mut self, chosen: [bool; 3], place: u64) {
        self.place = place;
        for inst in self.kernel.insts.keys() {
            if let Op::BlockIndex(d) = self.kernel.insts[inst].op
                && chosen[usize::from(d)]
            {
                let before =
                    (0..usize::from(d)).filter(|&e| chosen[e]).map(|e| self.grid[e]).product::<u64>();
                let at = place / before.max(1) % self.grid[usize::from(d)];
                self.known.insert(self.kernel.results(inst)[0], Numbers::one(at as i64));
            }
        }
    }

    fn run(&mut self) {
        if self.grid.contains(&0) {
            return;
        }
        for param in &self.kernel.params {
            if let Some(size) = self.problem.sizes.int(&param.name) {
                self.known.insert(param.value, Numbers::one(size));
            }
        }
        self.block(self.kernel.entry);
    }

    fn block(&mut self, block: Block) {
        for &inst in &self.kernel.blocks[block].insts {
            self.inst(inst);
        }
    }

    fn number(&self, value: Value) -> Numbers {
        match self.kernel.int_const(value) {
            Some(v) => Numbers::one(v),
            None => self.known.get(&value).cloned().unwrap_or(Numbers::Any),
        }
    }

    fn set(&mut self, inst: Inst, numbers: Numbers) {
        self.known.insert(self.kernel.results(inst)[0], numbers);
    }

    /// Numbers that an operation makes. Two accesses at numbers of one origin touch the same places.
    fn make(&mut self, inst: Inst, numbers: Numbers) {
        let origin = self.origin(self.kernel.results(inst)[0]);
        self.set(inst, numbers.made_at(origin));
    }

    fn origin(&self, value: Value) -> u64 {
        self.place << 32 | u64::from(value.as_u32())
    }

    fn inst(&mut self, inst: Inst) {
        let args = self.kernel.args(inst);
        match &self.kernel.insts[inst].op {
            Op::BlockIndex(d) if !self.known.contains_key(&self.kernel.results(inst)[0]) => {
                let count = self.grid[usize::from(*d)] as i64;
                self.set(inst, Numbers::counter(u32::from(*d), 0, 1, count));
            }
            Op::GridDim(d) => self.set(inst, Numbers::one(self.grid[usize::from(*d)] as i64)),
            Op::Binary(op) => self.make(inst, self.number(args[0]).with(*op, &self.number(args[1]))),
            Op::Cast | Op::ToIndex | Op::Assume(_) => self.copy(inst, args[0]),
            Op::Broadcast | Op::ExpandDims(_) => self.set(inst, self.number(args[0])),
            Op::Select => self.select(inst),
            Op::Reduce(op, _) => self.reduce(inst, *op),
            Op::Load | Op::AsyncCopy => self.load(inst),
            Op::LoadGather { masked } => {
                let end = args.len() - usize::from(*masked);
                let result = self.kernel.results(inst)[0];
                if let Some(found) = self.access(inst, end, Some(result), &[false]) {
                    self.count(result, &found);
                }
            }
            Op::LoadRuns(dim) => _ = self.runs(inst, (*dim).into()),
            op @ (Op::StoreScatter { .. } | Op::AtomicScatter { .. }) => {
                let end = op.indices(args.len()).end;
                let ways: &[bool] = if op.atomic().is_some() { &[false, true] } else { &[true] };
                _ = self.access(inst, end, args.get(end).copied(), ways);
            }
            Op::Store => _ = self.access(inst, args.len() - 1, args.last().copied(), &[true]),
            Op::Atomic(_) => _ = self.access(inst, args.len() - 1, args.last().copied(), &[false, true]),
            Op::For => self.repeat(inst),
            Op::If => self.choose(inst),
            Op::While => self.kernel.insts[inst].blocks.iter().for_each(|&b| self.block(b)),
            _ => {}
        }
    }

    fn copy(&mut self, inst: Inst, from: Value) {
        let result = self.kernel.results(inst)[0];
        let is_int = |v: Value| self.kernel.ty(v).elem().is_int();
        if !is_int(from) || !is_int(result) {
            return;
        }
        self.known.insert(result, self.number(from));
        if let Some(tile) = self.tiles.get(&from).cloned() {
            self.tiles.insert(result, tile);
        }
    }

    fn select(&mut self, inst: Inst) {
        let args = self.kernel.args(inst);
        let both = self.number(args[1]).or(&self.number(args[2]));
        self.make(inst, both);
    }

    /// A tile of one element is that element; of more, all must be known.
    fn reduce(&mut self, inst: Inst, op: ReduceOp) {
        let of = self.kernel.args(inst)[0];
        let Some(tile) = self.tiles.get(&of) else {
            let one = self.kernel.ty(of).shape().and_then(|s| s.elements()) == Some(1);
            return if one {
                self.set(inst, self.number(of))
            };
        };
        let all = tile.iter().copied();
        let number = match op {
            ReduceOp::Sum => Some(all.sum()),
            ReduceOp::Max => all.max(),
            ReduceOp::Min => all.min(),
            _ => None,
        };
        self.set(inst, number.map_or(Numbers::Any, Numbers::one));
    }

    fn load(&mut self, inst: Inst) {
        let result = self.kernel.results(inst)[0];
        let part = self.access(inst, self.kernel.args(inst).len(), Some(result), &[false]);
        let Some(found) = part else { return };
        self.count(result, &found);
        let Accessed { view, indices, .. } = found;
        let Some(contents) = self.contents(view) else { return };
        let steps = indices.iter().filter_map(|n| match n {
            Numbers::Steps(_, steps) => Some(steps),
            _ => None,
        });
        steps.flatten().filter(|s| s.counter < GRID).for_each(|s| self.choosing[s.counter as usize] = true);
        self.read(view, result, &indices, contents);
    }

    /// Integers that are loaded are no more than the elements that they are loaded from, if nobody writes those. What a load
    /// outside of its view gives is not counted: it says that there is nothing.
    fn count(&mut self, result: Value, found: &Accessed) {
        let fixed = !self.problem.operands[found.operand].written;
        if fixed && self.kernel.ty(result).elem().is_int() {
            let elements = found.part.iter().map(|c| c.elements(1.0)).product::<f64>();
            let origin = self.origin(result);
            self.known.insert(result, Numbers::Few { count: elements as i64, origin });
        }
    }

    /// The array behind a view, if it is given.
    fn contents(&self, view: Inst) -> Option<&'p [u8]> {
        let of = self.kernel.args(view)[0];
        let name = &self.kernel.params.iter().find(|p| p.value == of)?.name;
        self.arrays.get(name).map(Vec::as_slice)
    }

    /// The elements of a load at one place, or all that a load of one element finds.
    fn read(&mut self, view: Inst, result: Value, indices: &[Numbers], contents: &[u8]) {
        let Op::View { strided, .. } = self.kernel.insts[view].op else { return };
        let Ok((bounds, strides)) = extents(self.kernel, view, strided, &self.problem.sizes) else { return };
        let (elem, shape) = (self.kernel.ty(result).elem(), self.kernel.ty(result).shape());
        let sizes = shape.and_then(|s| s.extents()).unwrap_or_default();
        let width = match (elem.is_int(), elem.bits()) {
            (true, bits @ (8 | 16 | 32 | 64)) => bits as usize / 8,
            _ => return,
        };
        let lead = indices.len() - sizes.len();
        let single = indices.iter().all(|n| n.single().is_some());
        let count: u64 = sizes.iter().map(|&n| u64::from(n)).product();
        if count > KEPT {
            return;
        }
        let mut places = vec![Some(0_i64)];
        for (d, index) in indices.iter().enumerate() {
            let Some(starts) = index.list() else { return };
            let length = d.checked_sub(lead).map_or(1, |k| i64::from(sizes[k]));
            let at = |i: i64| (0..bounds[d]).contains(&i).then(|| i * strides[d]);
            let all = starts.iter().flat_map(|&s| (0..length).map(move |k| at(s + k)));
            let all: Vec<_> = all.collect();
            places = places.iter().flat_map(|&p| all.iter().map(move |&q| Some(p? + q?))).collect();
            if places.len() as u64 > KEPT {
                return;
            }
        }
        let found = places.iter().map(|&p| p.map_or(Some(0), |p| element(contents, p, width)));
        let Some(found) = found.collect::<Option<Vec<_>>>() else { return };
        self.known.insert(result, Numbers::These(found.iter().copied().collect()));
        if single {
            self.tiles.insert(result, found);
        }
    }

    /// Notes what an access touches.
    fn access(&mut self, inst: Inst, end: usize, tile: Option<Value>, ways: &[bool]) -> Option<Accessed> {
        let args = &self.kernel.args(inst)[..end];
        let (&view, given) = args.split_first()?;
        let sizes = tile.and_then(|t| self.kernel.ty(t).shape()?.extents()).unwrap_or_default();
        // Leading extents of 1 may be missing.
        let lead = given.len().checked_sub(sizes.len())?;
        let length = |k: usize| k.checked_sub(lead).map_or(1, |k| i64::from(sizes[k]));
        // A tile of indices has one for each element.
        let along = |(k, &v): (usize, &Value)| match self.kernel.ty(v).shape() {
            None => (self.number(v), length(k)),
            Some(_) => {
                let named = self.gathered.get(&plain(self.kernel, v));
                (named.cloned().unwrap_or_else(|| self.number(v)), 1)
            }
        };
        let own = given.iter().enumerate().map(along).collect();
        self.note(view, own, ways)
    }

    /// Notes what each run of a load touches.
    fn runs(&mut self, inst: Inst, dim: usize) -> Option<()> {
        let args = self.kernel.args(inst);
        let sizes = self.kernel.ty(self.kernel.results(inst)[0]).shape()?.extents()?;
        let starts = self.kernel.insts[inst].op.run_starts(sizes.len(), args.len())?;
        let others: Vec<Value> = [&args[1..starts.start], &args[starts.end..]].concat();
        for &start in &args[starts.clone()] {
            let mut given = others.clone();
            given.insert(dim, start);
            let length = |d: usize| i64::from(sizes[d]) / if d == dim { starts.len() as i64 } else { 1 };
            let own = given.iter().enumerate().map(|(d, &v)| (self.number(v), length(d))).collect();
            self.note(args[0], own, &[false])?;
        }
        Some(())
    }

    /// Notes what indices and lengths touch.
    fn note(&mut self, view: Value, own: Vec<(Numbers, i64)>, ways: &[bool]) -> Option<Accessed> {
        let (view, indices) = whole_indices(self.kernel, view, own, &|v| (self.number(v), 1))?;
        let Op::View { strided, .. } = self.kernel.insts[view].op else { return None };
        let (bounds, _) = extents(self.kernel, view, strided, &self.problem.sizes).ok()?;
        let part: Part =
            indices.iter().zip(bounds).map(|((n, length), bound)| n.covered(*length, bound)).collect();
        let of = self.kernel.args(view)[0];
        let name = &self.kernel.params.iter().find(|p| p.value == of)?.name;
        let operand = self.problem.operands.iter().position(|o| o.name == *name)?;
        for &written in ways {
            self.parts.entry((operand, written)).or_default().insert((view, part.clone()));
        }
        Some(Accessed { operand, view, indices: indices.into_iter().map(|i| i.0).collect(), part })
    }

    fn repeat(&mut self, inst: Inst) {
        let args = self.kernel.args(inst);
        let body = self.kernel.insts[inst].blocks[0];
        let ends = |k: usize| self.number(args[k]).ends();
        let step = self.number(args[2]).single().filter(|&s| s > 0);
        let counter = match (ends(0), ends(1), step) {
            (Some((from, _)), Some((_, to)), Some(step)) if from < to => {
                self.counters += 1;
                let count = (to.saturating_sub(from).saturating_add(step - 1)) / step;
                // The first of each block, if blocks begin at different ones.
                self.number(args[0]).with(BinOp::Add, &Numbers::counter(self.counters, 0, step, count))
            }
            (Some(_), Some(_), Some(_)) => return,
            _ => Numbers::Any,
        };
        self.known.insert(self.kernel.blocks[body].params[0], counter);
        self.block(body);
    }

    fn choose(&mut self, inst: Inst) {
        let blocks = &self.kernel.insts[inst].blocks;
        let taken = self.decided(self.kernel.args(inst)[0]).map(|c| usize::from(!c));
        let blocks = taken.map_or(&blocks[..], |t| blocks.get(t).map_or(&[], std::slice::from_ref));
        blocks.iter().for_each(|&b| self.block(b));
        let yields = |b: Block| {
            let last = self.kernel.blocks[b].insts.last();
            last.map(|&i| self.kernel.args(i).iter().map(|&v| self.number(v)).collect::<Vec<_>>())
        };
        let all: Vec<_> = blocks.iter().filter_map(|&b| yields(b)).collect();
        if let Some((first, rest)) = all.split_first() {
            for (k, &result) in self.kernel.results(inst).iter().enumerate() {
                self.known.insert(result, rest.iter().fold(first[k].clone(), |all, b| all.or(&b[k])));
            }
        }
    }

    /// Whether a condition holds in every block, where it is the same in all.
    fn decided(&self, condition: Value) -> Option<bool> {
        let def = self.kernel.def(condition)?;
        let args = self.kernel.args(def);
        let single = |n: usize| self.number(args[n]).single();
        match &self.kernel.insts[def].op {
            Op::Int(v) => Some(*v != 0),
            Op::Compare(op) => Some(op.holds(&single(0)?, &single(1)?)),
            Op::Binary(BinOp::And) => Some(self.decided(args[0])? && self.decided(args[1])?),
            Op::Binary(BinOp::Or) => Some(self.decided(args[0])? || self.decided(args[1])?),
            _ => None,
        }
    }
}

/// Indices of a part of a view as those of the whole one; `fixed` gives those of dimensions that the part lacks.
pub(super) fn whole_indices<T: Clone>(
    kernel: &Kernel,
    view: Value,
    own: Vec<T>,
    fixed: &impl Fn(Value) -> T,
) -> Option<(Inst, Vec<T>)> {
    let def = kernel.def(view)?;
    let Op::SubView(kept) = &kernel.insts[def].op else { return Some((def, own)) };
    let (&above, at) = kernel.args(def).split_first()?;
    let rank = kept.len() + at.len();
    let (mut at, mut indices) = (at.iter(), Vec::with_capacity(rank));
    for d in 0..rank {
        indices.push(match kept.iter().position(|&k| usize::from(k) == d) {
            Some(k) => own.get(k)?.clone(),
            None => fixed(*at.next()?),
        });
    }
    whole_indices(kernel, above, indices, fixed)
}

/// An integer of so many bytes in an array.
fn element(contents: &[u8], place: i64, width: usize) -> Option<i64> {
    let at = usize::try_from(place).ok()?.checked_mul(width)?;
    let bytes = contents.get(at..at.checked_add(width)?)?;
    let mut number = [if bytes.last()? & 0x80 == 0 { 0 } else { 0xff }; 8];
    number[..width].copy_from_slice(bytes);
    Some(i64::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Sizes;
    use warplift_ir::tile::parse_file;

    /// Bytes read and written of each operand.
    fn of(text: &str, sizes: &str, arrays: &[(&str, &[i32])]) -> Vec<[f64; 2]> {
        let module = parse_file(text, "touched.tile").unwrap_or_else(|e| panic!("{e}"));
        let kernel = &module.kernels[0];
        let sizes = Sizes::parse(kernel, sizes).unwrap();
        let problem = Problem::new(kernel, &module.mappings[0], sizes).unwrap();
        let bytes = |v: &[i32]| v.iter().flat_map(|v| v.to_le_bytes()).collect();
        touched(&problem, &arrays.iter().map(|(name, v)| ((*name).to_owned(), bytes(v))).collect())
    }

    const EXPERTS: &str = "kernel moe(x: ptr<f16> align 16, w: ptr<f16> align 16, given: ptr<i32> align 4,
            y: ptr<f16> align 16, m: i32, n: i32 % 8, k: i32 % 8, e: i32) {
        tunable BM = 128, BN = 128, BK = 64
        grid cdiv(m, BM), cdiv(n, BN)
        gx = view x : f16[m, k]
        experts = view w : f16[e, n, k]
        gg = view given : i32[cdiv(m, BM)]
        gy = view y : f16[m, n]
        i, j = block_index
        expert = reduce_max(load gg[i] : i32[1], 0)
        gw = subview experts[expert, _, _]
        zero = full 0.0 : f32[BM, BN]
        acc = for t in 0..cdiv(k, BK) carry a = zero {
            tx = load gx[i*BM, t*BK] : f16[BM, BK]
            tw = load gw[j*BN, t*BK] : f16[BN, BK]
            b = mma a, tx, trans(tw)
            yield b
        }
        store gy[i*BM, j*BN], cast(acc, f16)
    }
    mapping moe { BM = 128, BN = 128, BK = 64 for t: pipeline 4, producers 1, consumers 2 }";

    #[test]
    fn only_the_experts_that_are_chosen_are_read() {
        let sizes = "m=2048,n=1024,k=512,e=256";
        let weights = 1024.0 * 512.0 * 2.0;
        let [x, w, given, y] = of(EXPERTS, sizes, &[])[..] else { panic!() };
        assert_eq!((x, y), ([2048.0 * 512.0 * 2.0, 0.0], [0.0, 2048.0 * 1024.0 * 2.0]));
        assert_eq!((w, given[0]), ([16.0 * weights, 0.0], 64.0), "any 16 of them may be chosen");
        let chosen: Vec<i32> = (0..16).map(|i| 31 * (i % 8)).collect();
        let found = of(EXPERTS, sizes, &[("given", &chosen)]);
        assert_eq!((found[0], found[1], found[3]), (x, [8.0 * weights, 0.0], y));
        assert_eq!(of(EXPERTS, sizes, &[("given", &[5; 16])])[1], [weights, 0.0]);
    }

    /// Rows whose numbers an array gives, as far as another one says.
    const ROWS: &str = "kernel rows(x: ptr<f32> align 16, number: ptr<i32> align 4, length: ptr<i32> align 4,
            y: ptr<f32> align 16, m: i32, rows: i32, n: i32 % 64) {
        tunable B = 64
        grid m
        gx = view x : f32[rows, n]
        gn = view number : i32[m]
        gl = view length : i32[m]
        gy = view y : f32[m]
        i = block_index
        row = reduce_max(load gn[i] : i32[1], 0)
        end = reduce_max(load gl[i] : i32[1], 0)
        zero = full 0.0 : f32[1, B]
        s = for t in 0..cdiv(end, B) carry c = zero {
            d = c + load gx[row, t*B] : f32[1, B]
            yield d
        }
        store gy[i], reduce_sum(s, 1)
    }
    mapping rows { B = 64 kernel: warps 1 }";

    #[test]
    fn lengths_are_those_of_their_rows() {
        let sizes = "m=4,rows=1000,n=6400";
        let whole = of(ROWS, sizes, &[]);
        assert_eq!(whole[0][0], 4.0 * 6400.0 * 4.0, "any four rows, of any length");
        let given: [(&str, &[i32]); 2] = [("number", &[9, 7, 7, 900]), ("length", &[64, 640, 640, 6400])];
        assert_eq!(of(ROWS, sizes, &given)[0][0], (64.0 + 640.0 + 6400.0) * 4.0, "row 7 counts once");
    }

    /// Rows by a tile of numbers: those that are named count, and none that lies outside.
    #[test]
    fn only_the_rows_that_are_gathered_are_read() {
        let text = "kernel rows(x: ptr<f16> align 16, ids: ptr<i32> align 4, y: ptr<f16> align 16, m: i32, v: i32, n: i32 % 8) {
            tunable B = 4
            grid cdiv(m, B)
            gx = view x : f16[v, n]
            gi = view ids : i32[m]
            gy = view y : f16[m, n]
            i = block_index
            store gy[i*B, 0], load gx[load gi[i*B] : i32[B], 0] : f16[B, 512]
        }
        mapping rows { B = 4 kernel: warps 1 }";
        let sizes = "m=8,v=1000,n=512";
        assert_eq!(of(text, sizes, &[])[0][0], 8.0 * 1024.0, "any eight of them");
        assert_eq!(of(text, "m=4000,v=1000,n=512", &[])[0][0], 1000.0 * 1024.0, "any of them");
        let twice = text.replace(
            "store gy[i*B, 0],",
            "near = load gi[i*B] : i32[B]\n store gy[i*B, 0], (load gx[near + 1, 0] : f16[B, 512]) +",
        );
        assert_eq!(of(&twice, sizes, &[])[0][0], 16.0 * 1024.0, "the neighbour of each of them too");
        let counted =
            text.replace("i = block_index", "i = block_index\n store gi[i*B], load gi[i*B] : i32[B]");
        assert_eq!(
            of(&counted, sizes, &[])[0][0],
            1000.0 * 1024.0,
            "numbers that are written may become any"
        );
        let found = of(text, sizes, &[("ids", &[3, 3, 900, -1, 7, 8, 9, 5000])]);
        assert_eq!((found[0][0], found[1][0], found[2][1]), (5.0 * 1024.0, 32.0, 8.0 * 1024.0));
    }

    /// Pages of four rows, by tables, as far as each block's lengths say: others may be as many as they want.
    #[test]
    fn only_the_pages_that_blocks_look_up_are_read() {
        let text = "kernel pages(x: ptr<f16> align 16, table: ptr<i32> align 4, length: ptr<i32> align 4,
                y: ptr<f16> align 16, m: i32, most: i32, pages: i32, n: i32 % 8) {
            tunable B = 8
            grid m
            gx = view x : f16[pages * 4, n]
            gt = view table : i32[m, most] fill -1
            gl = view length : i32[m]
            gy = view y : f16[m, n]
            i = block_index
            own = subview gt[i, _]
            s = for t in 0..cdiv(load gl[i] : i32, B) carry c = full 0.0 : f16[B, 512] {
                spot = (iota 0 : i32[B]) + t*B
                at = load own[spot / 4] : i32[B]
                row = select(at < 0, -1, at * 4 + spot % 4)
                yield c + load gx[row, 0] : f16[B, 512]
            }
            store gy[i, 0], slice(s, [0, 0]) : f16[1, 512]
        }
        mapping pages { B = 8 kernel: warps 1 }";
        let sizes = "m=2,most=6,pages=4000,n=512";
        let table = [7, 9, 7, 11, 2000, 2001, 3, 7, 50, 60, -1, 5];
        let given: [(&str, &[i32]); 2] = [("table", &table), ("length", &[16, 24])];
        // 7, 9, 11 of the first block; 3, 7, 50, 60, 5 of the second.
        assert_eq!(of(text, sizes, &given)[0][0], 7.0 * 4.0 * 1024.0);
        assert!(of(text, sizes, &given[1..])[0][0] > 7.0 * 4.0 * 1024.0, "any pages without a table");
    }

    /// One column of a matrix costs a sector of each row, up to the whole matrix.
    #[test]
    fn sectors_are_whole() {
        let text = "kernel column(x: ptr<f32> align 4, y: ptr<f32> align 4, m: i32, n: i32, at: i32) {
            tunable B = 32
            grid cdiv(m, B)
            gx = view x : f32[m, n]
            gy = view y : f32[m]
            i = block_index
            store gy[i*B], reduce_sum(load gx[i*B, at] : f32[B, 1], 1)
        }
        mapping column { B = 32 kernel: warps 1 }";
        let found = of(text, "m=1024,n=512,at=3", &[]);
        assert_eq!(found, [[1024.0 * 32.0, 0.0], [0.0, 4096.0]]);
        assert_eq!(of(text, "m=1024,n=2,at=1", &[])[0][0], 8192.0, "no more than there is");
    }

    /// Blocks share out the iterations of a loop; a branch that the sizes decide counts by its own side.
    #[test]
    fn loops_begin_where_their_blocks_say() {
        let text = "kernel strided(x: ptr<f32> align 16, y: ptr<f32> align 16, z: ptr<f32> align 16, n: i32, k: i32) {
            tunable B = 64
            grid 8
            gx = view x : f32[n]
            gy = view y : f32[n]
            gz = view z : f32[n]
            i = block_index
            for t in i..cdiv(n, B) step 8 {
                if k <= 4 { store gz[t*B], load gx[t*B] : f32[B] } else { store gz[t*B], load gy[t*B] : f32[B] }
            }
        }
        mapping strided { B = 64 kernel: warps 2 }";
        assert_eq!(of(text, "n=6400,k=4", &[]), [[25600.0, 0.0], [0.0, 0.0], [0.0, 25600.0]]);
        assert_eq!(of(text, "n=6400,k=5", &[]), [[0.0, 0.0], [25600.0, 0.0], [0.0, 25600.0]]);
    }
}
