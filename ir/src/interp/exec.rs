//! One program of a kernel: its blocks run from top to bottom.

use super::arith::Undefined;
use super::compute;
use super::memory::{BufferId, Memory};
use super::number::{Number, cast};
use super::tile::{Extents, Tile, each_index};
use super::value::{UNBOUNDED, Val, View};
use super::{Fault, InterpError};
use crate::tile::{Assumption, AtomicOp, Block, Dim, Inst, Kernel, MOST_INDEX, Op, Type, Value};
use crate::types::Elem;
use cranelift_entity::{EntityRef, SecondaryMap};
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Fault>;

/// Bits of a workspace at most: 2 GiB.
const MAX_WORKSPACE: i64 = 1 << 34;
/// Bits of an array in shared memory at most: 1 MiB, more than any target has.
const MAX_SHARED: i64 = 1 << 23;

/// Where a program stands among the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GridPosition {
    pub block: [i64; 3],
    pub grid: [i64; 3],
    pub program: i64,
    pub programs: i64,
}

/// A program that runs.
pub(super) struct Program<'a> {
    pub kernel: &'a Kernel,
    pub memory: &'a mut Memory,
    pub place: GridPosition,
    /// Instructions that may still run.
    pub steps: &'a mut u64,
    values: SecondaryMap<Value, Option<Val>>,
}

impl<'a> Program<'a> {
    pub fn new(
        kernel: &'a Kernel,
        memory: &'a mut Memory,
        args: &[Val],
        place: GridPosition,
        steps: &'a mut u64,
    ) -> Self {
        let mut values = SecondaryMap::new();
        for (p, v) in kernel.params.iter().zip(args) {
            values[p.value] = Some(v.clone());
        }
        Self { kernel, memory, place, steps, values }
    }

    /// Gives a value its content, or takes it.
    pub fn put(&mut self, value: Value, content: Option<Val>) {
        self.values[value] = content;
    }

    /// The content of a value, if it has one.
    pub fn peek(&self, value: Value) -> Option<&Val> {
        self.values[value].as_ref()
    }

    /// Runs one instruction without blocks, whose operands are there. `None` if it fails.
    pub fn operate(&mut self, inst: Inst) -> Option<()> {
        let results = self.operation(inst).ok()?;
        self.set(self.kernel.results(inst), results);
        Some(())
    }

    /// Runs the whole kernel.
    pub fn run(&mut self) -> std::result::Result<(), InterpError> {
        self.block(self.kernel.entry).map(drop)
    }

    /// Runs these instructions of the entry block; gives the numbers of some of its values.
    pub fn scalars(
        &mut self,
        insts: &[Inst],
        values: &[Value],
    ) -> std::result::Result<Vec<i64>, InterpError> {
        insts.iter().try_for_each(|&i| self.step(i))?;
        let number = |&v: &Value| self.int(v).map_err(|f| f.at(Default::default()));
        values.iter().map(number).collect()
    }

    /// Runs a block; gives what it yields.
    fn block(&mut self, block: Block) -> std::result::Result<Vec<Val>, InterpError> {
        let kernel = self.kernel;
        for &inst in &kernel.blocks[block].insts {
            self.step(inst)?;
        }
        let yields = kernel.yields(block).iter();
        yields.map(|&v| self.get(v).map_err(|f| f.at(Default::default()))).collect()
    }

    fn step(&mut self, inst: Inst) -> std::result::Result<(), InterpError> {
        let loc = self.kernel.insts[inst].loc;
        *self.steps = self.steps.saturating_sub(1);
        if *self.steps == 0 {
            return Err(Fault::Steps.at(loc));
        }
        let results = match self.kernel.insts[inst].op {
            Op::For => self.plural(inst)?,
            Op::While => self.repeated(inst)?,
            Op::If => {
                let condition = self.args(inst).map_err(|f| f.at(loc))?;
                let first = condition.first().is_some_and(|c| c.number(0).is_true());
                let branch = self.kernel.insts[inst].blocks[usize::from(!first)];
                self.block(branch)?
            }
            _ => self.operation(inst).map_err(|f| f.at(loc))?,
        };
        self.set(self.kernel.results(inst), results);
        Ok(())
    }

    fn set(&mut self, values: &[Value], to: impl IntoIterator<Item = Val>) {
        for (&v, val) in values.iter().zip(to) {
            self.values[v] = Some(val);
        }
    }

    fn plural(&mut self, inst: Inst) -> std::result::Result<Vec<Val>, InterpError> {
        let kernel = self.kernel;
        let loc = kernel.insts[inst].loc;
        let args = self.args(inst).map_err(|f| f.at(loc))?;
        let range = [0, 1, 2].map(|i| args[i].number(0).as_i64());
        let [mut at, end, step] = range;
        if step < 1 {
            return Err(Fault::from(Undefined("a loop's step is not positive")).at(loc));
        }
        let body = kernel.insts[inst].blocks[0];
        let mut carried = args[3..].to_vec();
        while at < end {
            let counter = Val::Scalar(Number::Int(at));
            let params = std::iter::once(counter).chain(carried);
            self.set(&kernel.blocks[body].params, params);
            carried = self.block(body)?;
            let Some(next) = at.checked_add(step) else {
                break;
            };
            at = next;
        }
        Ok(carried)
    }

    fn repeated(&mut self, inst: Inst) -> std::result::Result<Vec<Val>, InterpError> {
        let kernel = self.kernel;
        let loc = kernel.insts[inst].loc;
        let body = kernel.insts[inst].blocks[0];
        let mut carried = self.args(inst).map_err(|f| f.at(loc))?.into_vec();
        loop {
            self.set(&kernel.blocks[body].params, carried);
            let mut yields = self.block(body)?;
            let again = yields.remove(0).number(0).is_true();
            carried = yields;
            if !again {
                return Ok(carried);
            }
        }
    }

    fn get(&self, value: Value) -> Result<Val> {
        let found = self.values[value].clone();
        found.ok_or_else(|| Fault::Invalid(format!("{value} has no value yet")))
    }

    fn int(&self, value: Value) -> Result<i64> {
        self.get(value).map(|v| v.number(0).as_i64())
    }

    fn args(&self, inst: Inst) -> Result<SmallVec<[Val; 8]>> {
        self.kernel.args(inst).iter().map(|&v| self.get(v)).collect()
    }

    fn tile(&self, inst: Inst, operand: usize) -> Result<Rc<Tile>> {
        let args = self.kernel.args(inst);
        match args.get(operand).map(|&v| self.get(v)).transpose()? {
            Some(Val::Tile(t)) => Ok(t),
            _ => Err(Fault::Invalid("an operand is no tile".to_owned())),
        }
    }

    /// An extent with the tunables' values.
    fn dim(&self, dim: Dim) -> Result<usize> {
        let extent = dim.resolve(|t| self.kernel.tunables[t].default);
        let whole = extent.map(|e| e as usize);
        whole.ok_or_else(|| Fault::Invalid("an extent is no whole number".to_owned()))
    }

    fn extents(&self, ty: Type) -> Result<Extents> {
        let shape = ty.shape();
        let dims = shape.iter().flat_map(|s| s.dims());
        dims.map(|&d| self.dim(d)).collect()
    }

    /// An instruction without blocks; its results.
    fn operation(&mut self, inst: Inst) -> Result<Vec<Val>> {
        let kernel = self.kernel;
        let op = &kernel.insts[inst].op;
        match op {
            _ if op.is_write() && !matches!(op, Op::Arrive) => {
                let old = self.write(inst)?;
                let gives = matches!(op, Op::AtomicScatter { old: true, .. });
                Ok(if gives { vec![Val::Tile(Rc::new(old))] } else { Vec::new() })
            }
            Op::AsyncCommit | Op::AsyncWait(_) | Op::Yield => Ok(Vec::new()),
            Op::Print(text) => self.print(inst, text).map(|()| Vec::new()),
            Op::Assert(text) => match self.int(kernel.args(inst)[0])? {
                0 if text.is_empty() => Err(Fault::Assert(kernel.condition_text(kernel.args(inst)[0]))),
                0 => Err(Fault::Assert(text.clone())),
                _ => Ok(Vec::new()),
            },
            Op::Split => {
                let x = self.tile(inst, 0)?;
                let half = |which| Val::Tile(Rc::new(compute::half(&x, which)));
                Ok(vec![half(0), half(1)])
            }
            _ => self.single(inst, op).map(|v| vec![v]),
        }
    }

    fn single(&mut self, inst: Inst, op: &Op) -> Result<Val> {
        let kernel = self.kernel;
        let ty = kernel.ty(kernel.result(inst));
        let elem = ty.elem();
        match op {
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Fma | Op::Cast => {
                let args = self.args(inst)?;
                let of = usize::from(matches!(op, Op::Select));
                let own = kernel.ty(kernel.args(inst)[of]).elem();
                Ok(compute::elementwise(op, own, elem, &args)?)
            }
            Op::Assume(promise) => self.assume(inst, promise),
            Op::Workspace => self.workspace(inst, elem),
            Op::Shared { .. } => self.shared(inst, elem),
            Op::Arrive => self.arrive(inst),
            Op::View { strided, fill } => self.view(inst, *strided, *fill),
            Op::SubView(kept) => self.sub_view(inst, kept),
            Op::ViewAs(_) if ty.shape().is_none() => self.scalar_bits(inst, elem),
            Op::Load if ty.shape().is_none() => self.scalar_load(inst, elem),
            _ => match self.number(op, ty.elem())? {
                Some(n) => Ok(Val::Scalar(n)),
                None => self.tile_op(inst, op, ty),
            },
        }
    }

    /// The same number, if it is as promised.
    fn assume(&self, inst: Inst, promise: &Assumption) -> Result<Val> {
        let arg = self.kernel.args(inst)[0];
        let value = self.get(arg)?;
        let number = match (self.kernel.ty(arg).elem(), value.number(0).as_i64()) {
            (Elem::Uint(64), number) => (number as u64).into(),
            (_, number) => i128::from(number),
        };
        match promise.holds(number) {
            true => Ok(value),
            false => Err(Fault::Assume(format!("{number} is not{promise}"))),
        }
    }

    /// Scalars without operands.
    fn number(&self, op: &Op, elem: Elem) -> Result<Option<Number>> {
        let place = &self.place;
        let along = |all: &[i64; 3], d: u8| all.get(usize::from(d)).copied().unwrap_or(0);
        let int = match op {
            // A NaN in the text is a copy of that NaN.
            Op::Float(v) if v.is_nan() => return Ok(Some(Number::Float(*v))),
            Op::Float(v) => return Ok(Some(Number::Float(super::round(elem, *v)))),
            Op::Int(v) => *v,
            Op::Dim(d) => self.dim(*d)? as i64,
            Op::BlockIndex(d) => along(&place.block, *d),
            Op::GridDim(d) => along(&place.grid, *d),
            Op::ProgramId => place.program,
            Op::ProgramCount => place.programs,
            Op::Unbounded => MOST_INDEX,
            _ => return Ok(None),
        };
        Ok(Some(Number::Int(int)))
    }

    fn scalar_bits(&self, inst: Inst, to: Elem) -> Result<Val> {
        let from = self.kernel.args(inst)[0];
        let elem = self.kernel.ty(from).elem();
        let number = self.get(from)?.number(0);
        let one = Tile::from_fn(elem, smallvec![1], |_| number);
        Ok(Val::Scalar(one.view_as(to, smallvec![1]).get(0)))
    }

    fn tile_op(&mut self, inst: Inst, op: &Op, ty: Type) -> Result<Val> {
        let extents = self.extents(ty)?;
        let x = |i| self.tile(inst, i);
        let tile = match op {
            Op::Full => {
                let value = self.get(self.kernel.args(inst)[0])?.number(0);
                Tile::from_fn(ty.elem(), extents, |_| value)
            }
            Op::ToIndex => to_index(&*x(0)?),
            Op::Iota(d) => iota(extents, usize::from(*d)),
            Op::Load | Op::AsyncCopy | Op::LoadGather { .. } | Op::LoadRuns(_) => {
                self.load(inst, ty.elem(), extents)?
            }
            Op::Mma { negated } => compute::mma(&*x(0)?, &*x(1)?, &*x(2)?, *negated),
            Op::Reduce(op, d) => return Ok(compute::reduce(*op, &*x(0)?, (*d).into())),
            Op::Scan(op, d) => compute::scan(*op, &*x(0)?, (*d).into()),
            Op::Gather(d) => compute::gather(&*x(0)?, &*x(1)?, (*d).into())?,
            Op::Join => compute::join(&*x(0)?, &*x(1)?),
            _ => self.movement(&*x(0)?, op, extents)?,
        };
        Ok(Val::Tile(Rc::new(tile)))
    }

    fn movement(&self, x: &Tile, op: &Op, extents: Extents) -> Result<Tile> {
        let mut offsets = Extents::new();
        if let Op::Slice(all) = op {
            offsets = all.iter().map(|&d| self.dim(d)).collect::<Result<_>>()?;
            let mut parts = offsets.iter().zip(&extents).zip(&x.extents);
            if parts.any(|((o, e), whole)| o + e > *whole) {
                return Err(Undefined("a slice reaches beyond its tile").into());
            }
        }
        let moved = compute::movement(op, x, extents, &offsets);
        moved.ok_or_else(|| Fault::Invalid(format!("`{}` is not known", op.name())))
    }

    /// A line of the scalars, then one for each element of each tile.
    fn print(&mut self, inst: Inst, text: &str) -> Result<()> {
        let values = self.args(inst)?;
        let scalars: Vec<&Val> = values.iter().filter(|v| v.tile().is_none()).collect();
        if !scalars.is_empty() || values.is_empty() {
            let all = scalars.iter().map(|v| format!(" {}", number_text(v.number(0))));
            self.memory.printed.push(text.to_owned() + &all.collect::<String>());
        }
        for tile in values.iter().filter_map(Val::tile) {
            let mut at = 0;
            each_index(&tile.extents, |index| {
                let line = format!("{text}{index:?} {}", number_text(tile.get(at)));
                self.memory.printed.push(line);
                at += 1;
            });
        }
        Ok(())
    }
}

fn number_text(n: Number) -> String {
    match n {
        Number::Float(v) => v.to_string(),
        Number::Int(v) => v.to_string(),
    }
}

/// Indices that are negative, or that i32 does not hold, become -1.
fn to_index(x: &Tile) -> Tile {
    let index = |i| u32::try_from(x.get(i).as_i64()).ok().and_then(|v| i32::try_from(v).ok()).unwrap_or(-1);
    Tile::from_fn(Elem::I32, x.extents.clone(), |i| Number::Int(index(i).into()))
}

fn iota(extents: Extents, dim: usize) -> Tile {
    let mut index = Vec::with_capacity(extents.iter().product());
    each_index(&extents, |i| index.push(i[dim] as i64));
    Tile::from_fn(Elem::I32, extents, |i| Number::Int(index[i]))
}

/// Views, loads and stores.
impl Program<'_> {
    fn view(&mut self, inst: Inst, strided: bool, fill: f64) -> Result<Val> {
        let args = self.args(inst)?;
        let Some(Val::Ptr(buffer, offset)) = args.first().cloned() else {
            return Err(Fault::Invalid("a view of no pointer".to_owned()));
        };
        let types = self.kernel.args(inst)[1..].iter().map(|&v| self.kernel.ty(v));
        let numbers: SmallVec<[i64; 5]> =
            args[1..].iter().zip(types).map(|(v, ty)| saturated(ty, v.number(0).as_i64())).collect();
        let rank = numbers.len() / (1 + usize::from(strided));
        let extent = |d: usize| match self.kernel.is_unbounded(self.kernel.args(inst)[1 + d]) {
            true => UNBOUNDED,
            false => numbers[d],
        };
        let extents: SmallVec<[i64; 5]> = (0..rank).map(extent).collect();
        let strides = match strided {
            true => numbers[rank..].into(),
            false => row_major(&extents)?,
        };
        let last: i128 =
            extents.iter().zip(&strides).map(|(&e, &s)| i128::from(e - 1) * i128::from(s.max(0))).sum();
        // An unbounded view reaches as far as its accesses do.
        let open = extents.contains(&UNBOUNDED);
        if !open && extents.iter().all(|&e| e > 0) {
            let width = self.kernel.ty(self.kernel.result(inst)).elem().bits();
            self.memory.reach(buffer, i128::from(offset) * 8 + (last + 1) * i128::from(width));
        }
        Ok(Val::View(Rc::new(View { buffer, offset, first: 0, extents, strides, fill, open })))
    }

    /// The array of a workspace: one for all blocks, and for the next launch on this memory.
    fn workspace(&mut self, inst: Inst, elem: Elem) -> Result<Val> {
        let mut bits = i64::from(elem.bits());
        for extent in self.args(inst)? {
            let more = bits.checked_mul(extent.number(0).as_i64().max(0));
            bits = more.filter(|&n| n <= MAX_WORKSPACE).ok_or(Undefined("a workspace is too large"))?;
        }
        let bytes = (bits as usize).div_ceil(8);
        let name = format!("{}'s workspace {}", self.kernel.name, inst.index());
        Ok(Val::Ptr(self.memory.kept(&name, bytes), 0))
    }

    /// An array of the block, whose content is not defined. The layout changes nothing that a program can see.
    fn shared(&mut self, inst: Inst, elem: Elem) -> Result<Val> {
        let extents: SmallVec<[i64; 5]> =
            self.args(inst)?.iter().map(|v| v.number(0).as_i64().clamp(0, MAX_SHARED)).collect();
        let strides = row_major(&extents)?;
        let bits = extents.iter().try_fold(i64::from(elem.bits()), |n, &e| n.checked_mul(e));
        let bits = bits.filter(|&n| n <= MAX_SHARED).ok_or(Undefined("a shared array is too large"))?;
        let name = format!("{}'s shared array {}", self.kernel.name, inst.index());
        let buffer = self.memory.undefined(&name, (bits as usize).div_ceil(8));
        Ok(Val::View(Rc::new(View { buffer, offset: 0, first: 0, extents, strides, fill: 0.0, open: false })))
    }

    /// Counts this block at an element; whether it is the last one.
    fn arrive(&mut self, inst: Inst) -> Result<Val> {
        let access = self.access(inst)?;
        let rank = access.indices.len();
        let all = self.int(self.kernel.args(inst)[1 + rank])?;
        let elem = Elem::Uint(32);
        let Some(bit) = access.place(elem, 0, &vec![0; rank]) else {
            return Ok(Val::Scalar(Number::Int(0)));
        };
        let view = access.view;
        reach(self.memory, &view, bit, elem);
        if let Some(log) = &mut self.memory.log {
            log.write((view.buffer, bit), true);
        }
        let before = self.memory.read(view.buffer, bit, elem)?.as_i64();
        let last = before + 1 >= all;
        let after = if last { 0 } else { before + 1 };
        self.memory.write(view.buffer, bit, elem, Number::Int(after))?;
        Ok(Val::Scalar(Number::Int(last.into())))
    }

    fn sub_view(&self, inst: Inst, kept: &[u8]) -> Result<Val> {
        let args = self.args(inst)?;
        let Some(Val::View(view)) = args.first() else {
            return Err(Fault::Invalid("a part of no view".to_owned()));
        };
        let mut part = View { extents: SmallVec::new(), strides: SmallVec::new(), ..(**view).clone() };
        let mut fixed = args[1..].iter().map(|v| v.number(0).as_i64());
        let mut outside = false;
        for (d, (&extent, &stride)) in view.extents.iter().zip(&view.strides).enumerate() {
            if kept.contains(&(d as u8)) {
                part.extents.push(extent);
                part.strides.push(stride);
                continue;
            }
            let index = fixed.next().unwrap_or(0);
            outside |= view.is_outside(d, index.into());
            part.first += i128::from(index) * i128::from(stride);
        }
        if outside {
            part.extents.iter_mut().for_each(|e| *e = 0);
        }
        Ok(Val::View(Rc::new(part)))
    }

    /// The view and indices of an access.
    fn access(&self, inst: Inst) -> Result<Access> {
        let args = self.kernel.args(inst);
        let Val::View(view) = self.get(args[0])? else {
            return Err(Fault::Invalid("an access to no view".to_owned()));
        };
        let indices = args[1..=view.extents.len()].iter().map(|&v| self.get(v)).collect::<Result<_>>()?;
        let masked = self.kernel.insts[inst].op.is_masked();
        let mask = masked.then(|| self.tile(inst, args.len() - 1)).transpose()?;
        Ok(Access { view, indices, mask })
    }

    /// The same of runs: each element has an index of its own along their dimension.
    fn access_of_runs(&self, inst: Inst, dim: usize, extents: &Extents) -> Result<Access> {
        let args = self.kernel.args(inst);
        let Val::View(view) = self.get(args[0])? else {
            return Err(Fault::Invalid("an access to no view".to_owned()));
        };
        let op = &self.kernel.insts[inst].op;
        let starts = op.run_starts(view.extents.len(), args.len()).unwrap_or_default();
        let first = |n: usize| Ok(self.get(args[n])?.number(0).as_i64());
        let firsts = starts.clone().map(first).collect::<Result<Vec<i64>>>()?;
        if firsts.is_empty() || !extents[dim].is_multiple_of(firsts.len()) {
            return Err(Undefined("the parts of a load are not equal").into());
        }
        let part = extents[dim] / firsts.len();
        let mut all = Vec::new();
        each_index(extents, |at| all.push(firsts[at[dim] / part].saturating_add((at[dim] % part) as i64)));
        let own = Tile::from_fn(Elem::Int(64), extents.clone(), |i| Number::Int(all[i]));
        let mut indices: SmallVec<[Val; 5]> = (1..starts.start)
            .chain(starts.end..args.len())
            .map(|n| self.get(args[n]))
            .collect::<Result<_>>()?;
        indices.insert(dim, Val::Tile(Rc::new(own)));
        Ok(Access { view, indices, mask: None })
    }

    /// One element: a tile that has an extent of 1 along every dimension.
    fn scalar_load(&mut self, inst: Inst, elem: Elem) -> Result<Val> {
        let rank = self.kernel.args(inst).len() - 1;
        Ok(Val::Scalar(self.load(inst, elem, smallvec![1; rank])?.get(0)))
    }

    fn load(&mut self, inst: Inst, elem: Elem, extents: Extents) -> Result<Tile> {
        let access = match self.kernel.insts[inst].op {
            Op::LoadRuns(dim) => self.access_of_runs(inst, dim.into(), &extents)?,
            _ => self.access(inst)?,
        };
        let fill = cast(Elem::F64, elem, Number::Float(access.view.fill));
        let mut numbers = Vec::with_capacity(extents.iter().product());
        let mut failed = None;
        each_index(&extents, |index| {
            let number = match access.place(elem, numbers.len(), index) {
                None => Ok(fill),
                Some(bit) => {
                    reach(self.memory, &access.view, bit, elem);
                    read(self.memory, access.view.buffer, bit, elem)
                }
            };
            numbers.push(number.unwrap_or_else(|e| {
                failed = Some(e);
                fill
            }));
        });
        match failed {
            Some(e) => Err(e),
            None => Ok(Tile::from_fn(elem, extents, |i| numbers[i])),
        }
    }

    /// Writes or updates; what an update found there, 0 where there is none.
    fn write(&mut self, inst: Inst) -> Result<Tile> {
        let access = self.access(inst)?;
        let op = &self.kernel.insts[inst].op;
        let written = op.written_operand(self.kernel.args(inst).len());
        let tile = self.tile(inst, written.unwrap_or(0))?;
        let expected = op.expected_operand(self.kernel.args(inst).len());
        let expected = expected.map(|n| self.tile(inst, n)).transpose()?;
        let zero = cast(Elem::I32, tile.elem, Number::Int(0));
        let mut old = Vec::with_capacity(tile.len());
        let mut failed = None;
        each_index(&tile.extents, |index| {
            let at = old.len();
            let place = access.place(tile.elem, at, index).filter(|_| failed.is_none());
            let expected = expected.as_ref().map(|t| t.get(at));
            let value = (tile.get(at), expected);
            let found = place.map(|bit| update(self.memory, op, &access.view, tile.elem, bit, value));
            old.push(found.unwrap_or(Ok(zero)).unwrap_or_else(|e| {
                failed = Some(e);
                zero
            }));
        });
        match failed {
            Some(e) => Err(e),
            None => Ok(Tile::from_fn(tile.elem, tile.extents.clone(), |i| old[i])),
        }
    }
}

/// The view, the indices and the mask of an access.
struct Access {
    view: Rc<View>,
    /// By dimension: the first element's, or one for each element.
    indices: SmallVec<[Val; 5]>,
    mask: Option<Rc<Tile>>,
}

impl Access {
    /// The first bit of element number `at`, which stands at this index in its tile; `None` outside the view and
    /// where the mask is false.
    fn place(&self, elem: Elem, at: usize, index: &[usize]) -> Option<i128> {
        if self.mask.as_ref().is_some_and(|m| !m.get(at).is_true()) {
            return None;
        }
        let along = |(d, own): (usize, &Val)| match own {
            Val::Tile(all) => i128::from(all.get(at).as_i64()),
            first => i128::from(first.number(0).as_i64()) + index[d] as i128,
        };
        let indices: SmallVec<[i128; 5]> = self.indices.iter().enumerate().map(along).collect();
        place(&self.view, elem, &indices)
    }
}

fn update(
    memory: &mut Memory,
    op: &Op,
    view: &View,
    elem: Elem,
    bit: i128,
    (new, expected): (Number, Option<Number>),
) -> Result<Number> {
    reach(memory, view, bit, elem);
    if let Some(log) = &mut memory.log {
        let at = (view.buffer, bit);
        let atomic = op.atomic();
        log.write(at, atomic.is_some());
        if let (Some(AtomicOp::Add), Number::Float(value)) = (atomic, new) {
            log.add(at, value);
        }
    }
    let (old, value) = match op.atomic() {
        Some(op) => {
            let old = read(memory, view.buffer, bit, elem)?;
            let changes = expected.is_none_or(|e| e == old);
            (old, if changes { super::atomic(op, elem, old, new) } else { old })
        }
        None => (new, new),
    };
    memory.write(view.buffer, bit, elem, value)?;
    Ok(old)
}

/// An access of an unbounded view says how far the view reaches.
fn reach(memory: &mut Memory, view: &View, bit: i128, elem: Elem) {
    if view.open {
        memory.reach(view.buffer, bit + i128::from(elem.bits()));
    }
}

/// The element at a bit, if it is defined.
fn read(memory: &Memory, buffer: BufferId, bit: i128, elem: Elem) -> Result<Number> {
    let number = memory.read(buffer, bit, elem)?;
    match memory.is_defined(buffer, bit, elem) {
        true => Ok(number),
        false => Err(Undefined("an element of a shared array is read before it is stored").into()),
    }
}

/// An extent or stride of a view. Wide ones saturate.
fn saturated(ty: Type, number: i64) -> i64 {
    match ty {
        Type::Scalar(Elem::Int(32)) => number,
        _ => number.clamp(i32::MIN.into(), MOST_INDEX),
    }
}

fn row_major(extents: &[i64]) -> Result<SmallVec<[i64; 5]>> {
    let mut step = 1i64;
    let mut strides: SmallVec<[i64; 5]> = extents.into();
    for (stride, &extent) in strides.iter_mut().zip(extents).rev() {
        *stride = step;
        if extent == UNBOUNDED {
            continue;
        }
        step = step.checked_mul(extent.max(0)).ok_or(Undefined("a view is too large"))?;
    }
    Ok(strides)
}

/// The first bit of an element, from the buffer's start; `None` outside the view.
fn place(view: &View, elem: Elem, index: &[i128]) -> Option<i128> {
    let mut at = 0i128;
    for (d, &i) in index.iter().enumerate() {
        if view.is_outside(d, i) {
            return None;
        }
        at += i * i128::from(view.strides[d]);
    }
    Some(i128::from(view.offset) * 8 + (view.first + at) * i128::from(elem.bits()))
}
