//! The reference interpreter defines the meaning of a kernel, without a GPU.
//!
//! It executes whole tiles sequentially: one block after the other in any order, each from top to bottom. It runs
//! kernels before and after `map`. Arithmetic is rounded correctly to the element type; sums of products are computed
//! in f64 and rounded once. Asynchronous copies happen at once. The modules for arithmetic and numbers have the
//! details.
//!
//! ```
//! use warplift_ir::interp::{Arg, Memory, Options, run};
//! use warplift_ir::{tile::parse_file, types::Elem};
//!
//! let text = "kernel twice(x: ptr<f32>, n: i32) {
//!     grid cdiv(n, 2)
//!     g = view x : f32[n]
//!     i = block_index
//!     t = load g[i * 2] : f32[2]
//!     store g[i * 2], t + t
//! }";
//! let kernel = parse_file(text, "").unwrap().kernels.remove(0);
//! let mut memory = Memory::new();
//! let x = memory.add_values("x", Elem::F32, &[1.0, 2.0, 3.0]);
//! run(&kernel, &[Arg::Ptr(x, 0), Arg::Int(3)], &mut memory, &Options::default()).unwrap();
//! assert_eq!(memory.values(x, Elem::F32), [2.0, 4.0, 6.0]);
//! ```

mod arith;
mod compute;
mod demand;
mod exec;
mod log;
mod memory;
mod number;
mod tile;
mod value;

pub use arith::Undefined;
pub use demand::{Demand, Standing};
pub use log::{Additions, Log};
pub use memory::{BufferId, Memory, OutOfBounds};
pub use number::{NAN, Number, cast, from_bits, round, to_bits, widen, wrap};

use crate::tile::{AtomicOp, BinOp, Kernel, Loc, Op, ParamData, Type, Value, verify};
use crate::types::Elem;
use exec::{GridPosition, Program};
use rustc_hash::FxHashSet;
use value::Val;

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A buffer and an offset in bytes.
    Ptr(BufferId, u64),
    /// An integer or truth value.
    Int(i64),
    /// A float.
    Float(f64),
}

/// The order in which blocks (or programs) run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The last grid dimension fastest.
    #[default]
    Forward,
    /// The last grid dimension slowest.
    Reverse,
    /// Shuffled, by a seed.
    Shuffled(u64),
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Values of tunables; the others have their defaults.
    pub tunables: Vec<(String, i64)>,
    /// Programs of a kernel that `map` made persistent.
    pub programs: u32,
    /// Order of blocks.
    pub order: Order,
    /// Limit on the executed instructions, against endless loops.
    pub steps: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { tunables: Vec::new(), programs: 1, order: Order::Forward, steps: 1 << 32 }
    }
}

/// Why a kernel stopped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}:{}: {fault}", loc.line, loc.column)]
pub struct InterpError {
    /// The instruction's place; line 0 for the kernel as a whole.
    pub loc: Loc,
    /// The fault.
    pub fault: Fault,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The kernel does not pass the verifier.
    #[error("{0}")]
    Invalid(String),
    /// An argument that does not fit the signature or breaks one of its facts.
    #[error("{0}")]
    Argument(String),
    /// Memory outside a buffer.
    #[error("out of bounds: {0}")]
    OutOfBounds(#[from] OutOfBounds),
    /// What the IR leaves undefined.
    #[error(transparent)]
    Undefined(#[from] Undefined),
    /// A failed `assert`.
    #[error("assertion failed: {0}")]
    Assert(String),
    /// A number that is not as an `assume` promises.
    #[error("assumption broken: {0}")]
    Assume(String),
    /// [`Options::steps`] ran out.
    #[error("more instructions than the options allow")]
    Steps,
}

impl Fault {
    fn at(self, loc: Loc) -> InterpError {
        InterpError { loc, fault: self }
    }
}

type Result<T> = std::result::Result<T, InterpError>;

/// The greatest number of blocks that run.
const MAX_BLOCKS: i64 = 1 << 24;

/// Runs a kernel on a memory.
///
/// # Errors
/// A kernel that the verifier refuses, arguments that break its facts, memory out of bounds, undefined
/// behaviour, a failed assertion. The memory then has all writes up to the fault.
pub fn run(kernel: &Kernel, args: &[Arg], memory: &mut Memory, options: &Options) -> Result<()> {
    let kernel = with_tunables(kernel, options)?;
    let args = arguments(&kernel, args)?;
    let mut steps = options.steps;
    let grid = grid(&kernel, memory, &args, &mut steps)?;
    let uses = |op: fn(&Op) -> bool| {
        let mut found = false;
        kernel.walk(|_, i| found |= op(&kernel.insts[i].op));
        found
    };
    let programs = uses(|op| matches!(op, Op::ProgramId | Op::ProgramCount));
    let persistent = programs && !uses(|op| matches!(op, Op::BlockIndex(_)));
    let count = match persistent {
        true => i64::from(options.programs),
        false => blocks(&grid)?,
    };
    for program in ordered(count, options.order) {
        let place = GridPosition {
            block: if persistent { [0; 3] } else { block_of(program, &grid) },
            grid,
            program,
            programs: count,
        };
        if let Some(log) = &mut memory.log {
            log.block = program;
        }
        Program::new(&kernel, memory, &args, place, &mut steps).run()?;
    }
    Ok(())
}

/// A verified copy of the kernel whose tunables have the values to run with.
fn with_tunables(kernel: &Kernel, options: &Options) -> Result<Kernel> {
    let mut kernel = kernel.clone();
    for (name, value) in &options.tunables {
        match kernel.tunables.values_mut().find(|t| t.name == *name) {
            Some(t) => t.default = *value,
            None => {
                let constant = kernel.constants.iter().any(|c| c.name == *name);
                let message = match constant {
                    true => format!("`{name}` is a constant of kernel `{}`", kernel.name),
                    false => format!("kernel `{}` has no tunable `{name}`", kernel.name),
                };
                return Err(Fault::Argument(message).at(Loc::default()));
            }
        }
    }
    match verify(&kernel) {
        Ok(()) => Ok(kernel),
        Err(errors) => {
            let first = errors.into_iter().next();
            let (loc, message) = first.map_or_else(Default::default, |e| (e.loc, e.message));
            Err(Fault::Invalid(message).at(loc))
        }
    }
}

fn arguments(kernel: &Kernel, args: &[Arg]) -> Result<Vec<Val>> {
    let wrong = |message: String| Fault::Argument(message).at(Loc::default());
    if args.len() != kernel.params.len() {
        let (takes, found) = (kernel.params.len(), args.len());
        return Err(wrong(format!("`{}` takes {takes} arguments, found {found}", kernel.name)));
    }
    let each = kernel.params.iter().zip(args);
    each.map(|(p, a)| argument(p, kernel.ty(p.value), *a).map_err(wrong)).collect()
}

/// The value of an argument, or the fact that it breaks.
fn argument(p: &ParamData, ty: Type, arg: Arg) -> std::result::Result<Val, String> {
    let f = p.facts;
    let value = match (ty, arg) {
        (Type::Ptr(_), Arg::Ptr(buffer, offset)) => {
            if !offset.is_multiple_of(f.align) {
                return Err(format!("`{}` must be aligned to {} bytes", p.name, f.align));
            }
            Val::Ptr(buffer, offset)
        }
        (Type::Scalar(e), Arg::Int(v)) if !e.is_float() => {
            if e.is_int() && (v % f.multiple != 0 || !(f.min..=f.max).contains(&v)) {
                return Err(format!("`{}` is {v}, must be {}", p.name, fact_text(p)));
            }
            if wrap(e, i128::from(v)) != v {
                return Err(format!("`{}` is {v}, does not fit {e}", p.name));
            }
            Val::Scalar(Number::Int(v))
        }
        (Type::Scalar(e), Arg::Float(v)) if e.is_float() => Val::Scalar(Number::Float(round(e, v))),
        _ => return Err(format!("`{}` does not take {arg:?}", p.name)),
    };
    Ok(value)
}

fn fact_text(p: &ParamData) -> String {
    let f = p.facts;
    let range = if f.min == 0 { "; a range says otherwise: `in LO..HI`" } else { "" };
    format!("a multiple of {} from {} to {}{range}", f.multiple, f.min, f.max)
}

/// The grid's extents: the entry block's instructions that they depend on, run alone.
fn grid(kernel: &Kernel, memory: &mut Memory, args: &[Val], steps: &mut u64) -> Result<[i64; 3]> {
    let mut needed: FxHashSet<Value> = kernel.grid.iter().copied().collect();
    let mut insts = Vec::new();
    for &inst in kernel.blocks[kernel.entry].insts.iter().rev() {
        if kernel.results(inst).iter().any(|r| needed.contains(r)) {
            insts.push(inst);
            needed.extend(kernel.args(inst));
        }
    }
    insts.reverse();
    let mut program = Program::new(kernel, memory, args, GridPosition::default(), steps);
    let extents = program.scalars(&insts, &kernel.grid)?;
    let mut grid = [1; 3];
    grid.iter_mut().zip(extents).for_each(|(g, e)| *g = e);
    Ok(grid)
}

fn blocks(grid: &[i64; 3]) -> Result<i64> {
    let count = grid.iter().try_fold(1i64, |n, &g| n.checked_mul(g.max(-1)));
    match count {
        Some(n) if grid.iter().all(|&g| g >= 0) && n <= MAX_BLOCKS => Ok(n),
        _ => {
            let message = format!("a grid of {grid:?} is negative or above {MAX_BLOCKS} blocks");
            Err(Fault::Argument(message).at(Loc::default()))
        }
    }
}

fn block_of(number: i64, grid: &[i64; 3]) -> [i64; 3] {
    let [_, y, z] = *grid;
    [number / (y * z), number / z % y, number % z]
}

fn ordered(count: i64, order: Order) -> Vec<i64> {
    let mut all: Vec<i64> = (0..count).collect();
    match order {
        Order::Forward => {}
        Order::Reverse => all.reverse(),
        Order::Shuffled(seed) => {
            let mut state = seed;
            for i in (1..all.len()).rev() {
                all.swap(i, (next_random(&mut state) % (i as u64 + 1)) as usize);
            }
        }
    }
    all
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, figure 13).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The new value of an atomic update.
fn atomic(op: AtomicOp, elem: Elem, old: Number, new: Number) -> Number {
    if let (AtomicOp::Min | AtomicOp::Max, Number::Float(x), Number::Float(y)) = (op, old, new) {
        let less = y.total_cmp(&x).is_lt();
        return if !y.is_nan() && less == (op == AtomicOp::Min) { new } else { old };
    }
    let op = match op {
        AtomicOp::Add => BinOp::Add,
        AtomicOp::Min => BinOp::Min,
        AtomicOp::Max => BinOp::Max,
        AtomicOp::Exchange | AtomicOp::CompareAndSwap => return new,
    };
    // None of these is undefined.
    arith::binary(op, elem, old, new).unwrap_or(new)
}

#[cfg(test)]
mod tests;
