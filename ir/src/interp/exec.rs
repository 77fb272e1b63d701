//! One program of a kernel: its blocks run from top to bottom.

mod access;

use super::arith::Undefined;
use super::compute;
use super::memory::Memory;
use super::number::Number;
use super::tile::{Extents, Tile, each_index};
use super::value::Val;
use super::{Fault, InterpError};
use crate::tile::{Assumption, Block, Dim, Inst, Kernel, MOST_INDEX, Op, Type, Value};
use crate::types::Elem;
use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Fault>;

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
