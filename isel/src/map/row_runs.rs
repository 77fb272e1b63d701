//! Operands of products whose rows are given by a tile of indices, but follow each other in runs: each run is a box of a
//! tensor copy, so the producer copies them.
//!
//! ```text
//!  spot = (iota 0 : i32[128]) + start                 s0 = load table[start / 16] : i32 * 16
//!  rows = (load table[spot / 16]) * 16 + spot % 16     s1 = load table[(start + 16) / 16] : i32 * 16   ..
//!  tk = load k[rows, 0] : f16[128, 64]           ─►    tk = load k[[s0, s1, .., s7], 0] : f16[128, 64]
//! ```
//!
//! Along aligned runs of the rows an index is the same, or it grows by one, or it is outside of every view. These rules
//! follow arithmetic; the longest run that they prove is taken. The first index of each run is computed by scalars, also
//! where it comes from memory, if the kernel does not write that memory. So a producer can find it by itself. Pages of a
//! cache, blocks of a sparse matrix and bands of a ragged one become boxes in this way.

use super::cursor::Cursor;
use super::drop_unused::do_drop_unused;
use crate::boxes::{MOST_EXTENT, only_products};
use crate::facts::{is_multiple, is_never_negative};
use crate::feature::Ways;
use crate::takes::scalar_load;
use crate::tensor_copies::load_refused;
use crate::tiles::{array, equal_elements, extents, memory, written};
use crate::window::Window;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use warplift_ir::tile::{BinOp, Block, CmpOp, Inst, Kernel, Op, Type, Value, Way};
use warplift_ir::types::Elem;

/// Rows of a run at least: those that a swizzle repeats after.
const LEAST: u32 = 8;
/// Runs of a tile at most: each is a tensor copy for every slab, and takes a scalar.
const MOST: u32 = 32;
/// Instructions of an index that are looked at.
const FUEL: u32 = 256;
/// A row that every box leaves outside.
const OUTSIDE: i64 = -(MOST_EXTENT as i64);

/// Loads rows in runs by their first indices.
pub fn do_row_runs(k: &mut Kernel, ways: Ways) {
    let written = written(k);
    let mut found: FxHashMap<Inst, Runs> = FxHashMap::default();
    for block in k.blocks.keys() {
        let loads = k.blocks[block].insts.iter();
        let runs = loads.filter_map(|&i| Some((i, Runs::of(k, i, ways, &written)?)));
        found.extend(runs.filter(|_| is_reached_alone(k, block)));
    }
    if found.is_empty() {
        return;
    }
    for block in k.blocks.keys().collect::<Vec<_>>() {
        let mut known = FxHashMap::default();
        for inst in std::mem::take(&mut k.blocks[block].insts) {
            if let Some(runs) = found.get(&inst) {
                let c = Cursor::at_end(k, block).like(inst);
                Scalars { c, known: &mut known }.load_by(inst, runs);
            }
            k.blocks[block].insts.push(inst);
        }
    }
    do_drop_unused(k);
}

/// Whether a single thread can find out by itself whether, and how often, a block runs: what loops and branches around it
/// depend on is no result of a tile. Otherwise the threads that compute copy too, and rows are best gathered.
pub(super) fn is_reached_alone(k: &Kernel, block: Block) -> bool {
    let Some((holder, data)) = k.insts.iter().find(|(_, d)| d.blocks.contains(&block)) else { return true };
    let around = || k.blocks.iter().find(|(_, b)| b.insts.contains(&holder)).map(|(b, _)| b);
    let decides = match data.op {
        Op::For => &k.args(holder)[..3],
        Op::If => &k.args(holder)[..1],
        _ => return false,
    };
    let mut seen = FxHashSet::default();
    decides.iter().all(|&v| is_known_alone(k, v, &mut seen))
        && around().is_some_and(|b| is_reached_alone(k, b))
}

/// Whether a scalar is made of scalars alone.
fn is_known_alone(k: &Kernel, v: Value, seen: &mut FxHashSet<Value>) -> bool {
    if !seen.insert(v) {
        return true;
    }
    let Some(def) = k.def(v) else { return true };
    let nested = !k.insts[def].blocks.is_empty();
    k.ty(v).shape().is_none() && !nested && k.args(def).iter().all(|&a| is_known_alone(k, a, seen))
}

/// How an index changes along an aligned run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// It is the same.
    Constant,
    /// It grows by one from a multiple of the run's length (`true`), or from any number.
    Step(bool),
    /// The same, or all of a run are one negative number.
    StepOrOutside,
}

/// The rows of a load: their indices, the dimension along which they stand, and the length of a run.
struct Runs {
    rows: Value,
    dim: usize,
    length: u32,
    count: u32,
}

impl Runs {
    /// The runs of a load whose rows tensor copies can bring.
    fn of(k: &Kernel, load: Inst, ways: Ways, written: &FxHashSet<Value>) -> Option<Self> {
        let args = k.args(load);
        if !matches!(k.insts[load].op, Op::LoadGather { masked: false }) || !only_products(k, k.result(load))
        {
            return None;
        }
        let tiles = (1..args.len()).filter(|&n| k.ty(args[n]).shape().is_some());
        let [n] = tiles.collect::<SmallVec<[usize; 2]>>()[..] else { return None };
        let (dim, shape) = (n - 1, extents(k, k.result(load)));
        let window = Window::of(k, args[0])?;
        let copied = shape.len() == 2
            && window.unit(k) == Some(1 - dim)
            && window.ragged(k).is_none()
            && array(k, load).way != Way::Plain
            && load_refused(k, load, ways).is_none();
        let rows = rows_of(k, args[n], dim).filter(|&r| copied && k.ty(r).elem() == Elem::I32)?;
        let mut lengths =
            std::iter::successors(Some(MOST_EXTENT), |l| Some(l / 2)).take_while(|&l| l >= LEAST);
        let found = lengths.find(|&l| {
            if !shape[dim].is_multiple_of(l) || shape[dim] / l > MOST {
                return false;
            }
            let mut index = Index { k, written, length: l.into(), fuel: FUEL };
            matches!(index.form(rows, Some(0)), Some(Form::Step(_) | Form::StepOrOutside))
        });
        found.map(|length| Self { rows, dim, length, count: shape[dim] / length })
    }
}

/// The tile of one dimension of which a tile of indices has one in every column.
fn rows_of(k: &Kernel, index: Value, dim: usize) -> Option<Value> {
    let def = k.def(index)?;
    match k.insts[def].op {
        Op::Broadcast => {
            let from = k.args(def)[0];
            let column = extents(k, from).get(1 - dim) == Some(&1);
            column.then(|| rows_of(k, from, dim))?
        }
        Op::ExpandDims(_) | Op::Reshape if extents(k, k.args(def)[0]).len() == 1 => Some(k.args(def)[0]),
        _ => None,
    }
}

/// What is known of the indices of rows.
struct Index<'k> {
    k: &'k Kernel,
    written: &'k FxHashSet<Value>,
    length: i64,
    fuel: u32,
}

impl Index<'_> {
    /// How a value changes along a run of a dimension, or where no dimension of it moves.
    fn form(&mut self, v: Value, moving: Option<usize>) -> Option<Form> {
        self.fuel = self.fuel.checked_sub(1)?;
        let k = self.k;
        let Some(shape) = k.ty(v).shape() else { return Some(Form::Constant) };
        let def = k.def(v)?;
        let args = k.args(def);
        match k.insts[def].op {
            Op::Full => Some(Form::Constant),
            Op::Iota(d) if moving == Some(d.into()) => Some(Form::Step(true)),
            Op::Iota(_) => Some(Form::Constant),
            Op::ExpandDims(at) => self.form(args[0], moved_in(moving, at.into())),
            Op::Broadcast => {
                let own = extents(k, args[0]);
                self.form(args[0], moving.filter(|&m| own[m] > 1))
            }
            Op::Reshape if shape.rank() == 1 => {
                let own = extents(k, args[0]);
                let inner = i64::from(*own.last()?);
                (moving.is_none() || inner % self.length == 0)
                    .then(|| self.form(args[0], moving.map(|_| own.len() - 1)))?
            }
            Op::Binary(op) => self.binary(op, [args[0], args[1]], moving),
            Op::Select => self.select([args[0], args[1], args[2]], moving),
            Op::Compare(_) => self.all_constant(args, moving),
            Op::Cast | Op::ToIndex if k.ty(args[0]).elem().is_int() => self.all_constant(args, moving),
            Op::Load | Op::LoadGather { masked: false } => self.loaded(def, moving),
            _ => None,
        }
    }

    fn all_constant(&mut self, args: &[Value], moving: Option<usize>) -> Option<Form> {
        args.iter().all(|&v| self.form(v, moving) == Some(Form::Constant)).then_some(Form::Constant)
    }

    /// What is loaded is the same if its place is, and nothing writes it.
    fn loaded(&mut self, load: Inst, moving: Option<usize>) -> Option<Form> {
        let (k, args) = (self.k, self.k.args(load));
        let shape = extents(k, k.result(load));
        let scalars = (0..shape.len()).filter(|&d| k.ty(args[1 + d]).shape().is_none());
        let still = scalars.into_iter().all(|d| moving != Some(d));
        let fixed = !memory(k, args[0]).is_some_and(|m| self.written.contains(&m));
        let elem = k.ty(k.result(load)).elem();
        (still && fixed && elem.is_int() && scalar_load(elem).is_some())
            .then(|| self.all_constant(&args[1..], moving))?
    }

    fn binary(&mut self, op: BinOp, [a, b]: [Value; 2], moving: Option<usize>) -> Option<Form> {
        let (x, y) = (self.form(a, moving)?, self.form(b, moving)?);
        match (op, x, y) {
            (_, Form::Constant, Form::Constant) => Some(Form::Constant),
            (BinOp::Add | BinOp::Sub, Form::Step(aligned), Form::Constant) => {
                Some(Form::Step(aligned && self.is_multiple(b)))
            }
            (BinOp::Add, Form::Constant, Form::Step(aligned)) => {
                Some(Form::Step(aligned && self.is_multiple(a)))
            }
            (BinOp::Div, Form::Step(true), Form::Constant) if self.divides(a, b) => Some(Form::Constant),
            (BinOp::Rem, Form::Step(true), Form::Constant) if self.divides(a, b) => Some(Form::Step(true)),
            _ => None,
        }
    }

    /// Whether runs of `a` do not cross a multiple of `b`.
    fn divides(&self, a: Value, b: Value) -> bool {
        self.is_multiple(b) && self.is_never_negative(a) && self.is_never_negative(b)
    }

    fn select(&mut self, [c, a, b]: [Value; 3], moving: Option<usize>) -> Option<Form> {
        let forms = [c, a, b].map(|v| self.form(v, moving));
        let outside =
            |v: Value| equal_elements(self.k, v).and_then(|s| self.k.int_const(s)).is_some_and(|n| n < 0);
        match forms {
            [Some(Form::Constant), Some(Form::Constant), Some(Form::Constant)] => Some(Form::Constant),
            [Some(Form::Constant), Some(Form::Step(x)), Some(Form::Step(y))] => Some(Form::Step(x && y)),
            [Some(Form::Constant), Some(Form::Constant), Some(Form::Step(_))] if outside(a) => {
                Some(Form::StepOrOutside)
            }
            [Some(Form::Constant), Some(Form::Step(_)), Some(Form::Constant)] if outside(b) => {
                Some(Form::StepOrOutside)
            }
            _ => None,
        }
    }

    /// Whether the elements of a tile are certainly multiples of a run.
    fn is_multiple(&self, v: Value) -> bool {
        let k = self.k;
        if k.ty(v).shape().is_none() {
            return is_multiple(k, v, self.length);
        }
        let Some(def) = k.def(v) else { return false };
        let mut args = k.args(def).iter();
        match k.insts[def].op {
            Op::Full | Op::Broadcast | Op::ExpandDims(_) | Op::Reshape => args.all(|&a| self.is_multiple(a)),
            Op::Binary(BinOp::Add | BinOp::Sub) => args.all(|&a| self.is_multiple(a)),
            Op::Binary(BinOp::Mul) => args.any(|&a| self.is_multiple(a)),
            _ => false,
        }
    }

    fn is_never_negative(&self, v: Value) -> bool {
        let k = self.k;
        if k.ty(v).shape().is_none() {
            return is_never_negative(k, v);
        }
        let Some(def) = k.def(v) else { return false };
        match k.insts[def].op {
            Op::Iota(_) => true,
            Op::Full | Op::Broadcast | Op::ExpandDims(_) | Op::Reshape => {
                self.is_never_negative(k.args(def)[0])
            }
            Op::Binary(BinOp::Add | BinOp::Mul | BinOp::Div | BinOp::Rem | BinOp::Min) => {
                k.args(def).iter().all(|&a| self.is_never_negative(a))
            }
            _ => false,
        }
    }
}

/// A dimension behind `expand_dims`, seen before it.
fn moved_in(moving: Option<usize>, at: usize) -> Option<usize> {
    moving.filter(|&m| m != at).map(|m| if m > at { m - 1 } else { m })
}

/// Appends scalars to a block that compute single elements of tiles.
struct Scalars<'k> {
    c: Cursor<'k>,
    /// Elements that are there already.
    known: &'k mut FxHashMap<(Value, Place), Value>,
}

/// An index along each dimension of a tile.
type Place = SmallVec<[i64; 4]>;

/// The place in its operand of an element of a tile that only changes shape.
fn place_before(k: &Kernel, def: Inst, at: &Place) -> Option<Place> {
    let own = || extents(k, k.args(def)[0]);
    match k.insts[def].op {
        Op::ExpandDims(d) => {
            let mut at = at.clone();
            at.remove(d.into());
            Some(at)
        }
        Op::Broadcast => Some(at.iter().zip(own()).map(|(&i, e)| if e == 1 { 0 } else { i }).collect()),
        Op::Reshape => {
            let (mut flat, own) = (at[0], own());
            let mut at: Place = own.iter().map(|_| 0).collect();
            for (index, &extent) in at.iter_mut().zip(&own).rev() {
                (*index, flat) = (flat % i64::from(extent), flat / i64::from(extent));
            }
            Some(at)
        }
        _ => None,
    }
}

impl Scalars<'_> {
    /// Gives a load the first indices of its runs.
    fn load_by(&mut self, load: Inst, runs: &Runs) {
        let starts = (0..runs.count).map(|n| i64::from(n * runs.length));
        let starts: Option<Vec<Value>> =
            starts.map(|at| self.first(runs.rows, Place::from_iter([at]))).collect();
        let Some(starts) = starts else { return };
        let k = &mut *self.c.k;
        let args = k.args(load);
        let all = [&args[..1 + runs.dim], &starts[..], &args[2 + runs.dim..]].concat();
        k.set_args(load, &all);
        k.insts[load].op = if runs.count == 1 { Op::Load } else { Op::LoadRuns(runs.dim as u8) };
    }

    /// The first index of a run; a negative number that stands for all of a run is one that no row of it reaches.
    fn first(&mut self, v: Value, at: Place) -> Option<Value> {
        let k = &*self.c.k;
        let def = k.def(v)?;
        let args: SmallVec<[Value; 3]> = k.args(def).iter().copied().collect();
        match k.insts[def].op {
            Op::Select => {
                let choice = self.element(args[0], at.clone())?;
                let [yes, no] = [1, 2].map(|n| self.first(args[n], at.clone()));
                Some(self.c.select(choice, yes?, no?))
            }
            _ if let Some(before) = place_before(k, def, &at) => self.first(args[0], before),
            _ => {
                let negative = equal_elements(k, v).and_then(|s| k.int_const(s)).filter(|n| *n < 0);
                match negative {
                    Some(n) => Some(self.c.int(n.min(OUTSIDE))),
                    None => self.element(v, at),
                }
            }
        }
    }

    fn element(&mut self, v: Value, at: Place) -> Option<Value> {
        if self.c.k.ty(v).shape().is_none() {
            return Some(v);
        }
        if let Some(&known) = self.known.get(&(v, at.clone())) {
            return Some(known);
        }
        let made = self.computed(v, &at)?;
        self.known.insert((v, at), made);
        Some(made)
    }

    fn computed(&mut self, v: Value, at: &Place) -> Option<Value> {
        let k = &*self.c.k;
        let (def, elem) = (k.def(v)?, k.ty(v).elem());
        let args: SmallVec<[Value; 4]> = k.args(def).iter().copied().collect();
        let op = k.insts[def].op.clone();
        match op {
            Op::Full => Some(args[0]),
            Op::Iota(d) => Some(self.c.int(at[usize::from(d)])),
            _ if let Some(before) = place_before(k, def, at) => self.element(args[0], before),
            Op::Load | Op::LoadGather { .. } => self.loaded(&args, at, elem),
            Op::ToIndex => {
                let wide = self.element(args[0], at.clone())?;
                Some(self.narrowed(wide))
            }
            op => {
                let all = args.iter().map(|&a| self.element(a, at.clone())).collect::<Option<Vec<_>>>()?;
                Some(self.c.inst(op, &all, Type::Scalar(elem)))
            }
        }
    }

    /// The element of a loaded tile: its index is the first one and its place, or that of a tile of indices.
    fn loaded(&mut self, args: &[Value], at: &Place, elem: Elem) -> Option<Value> {
        let mut all = vec![args[0]];
        for (&index, &place) in args[1..].iter().zip(at) {
            let tile = self.c.k.ty(index).shape().is_some();
            let index = self.element(index, at.clone())?;
            all.push(if tile || place == 0 { index } else { self.c.with(BinOp::Add, index, place) });
        }
        Some(self.c.inst(Op::Load, &all, Type::Scalar(elem)))
    }

    /// An index of 64 bits as `to_index` has it.
    fn narrowed(&mut self, wide: Value) -> Value {
        let c = &mut self.c;
        let (ty, narrow) = (c.k.ty(wide), c.cast(wide, Elem::I32));
        let outside = c.int(-1);
        [(CmpOp::Gt, i64::from(i32::MAX)), (CmpOp::Lt, 0)].into_iter().fold(narrow, |v, (beyond, limit)| {
            let limit = c.constant(Op::Int(limit), ty);
            let is_beyond = c.compare(beyond, wide, limit);
            c.select(is_beyond, outside, v)
        })
    }
}
