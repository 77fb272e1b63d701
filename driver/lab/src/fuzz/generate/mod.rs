//! Random kernels that are right by construction.
//!
//! ```text
//!  sizes, facts ─ axes ─ views ─► loads ─┬─ operations ─┬─► stores, each block its own part ─► mapping
//!                                        └─ loops, ifs ─┘
//!                                        └─ products ───┘
//! ```
//!
//! A block's tile lies along AXES: one or two of the grid and, within loops, the depth. Operations take any
//! value in sight; one whose result would be too large or too uncertain ([`Range`]) is not made, so that most
//! results can be compared exactly. Each block stores to a part of its own: blocks run in any order.
//!
//! A kernel is TAME (mostly operations that are selected today) or WILD (all operations and types).

mod control;
mod mapping;
mod memory;
mod operation;
mod product;
mod row;
mod scalars;
mod shared;
mod update;

use super::range::{Operands, Range, transfer};
use super::{Case, Choices};
use memory::{Axis, Input};
use rand::{RngCore, SeedableRng, rngs::StdRng};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use warplift_ir::target::SM90A;
use warplift_ir::tile::{
    Assumption, BinOp, BuildError, Dim, Facts, Kernel, KernelBuilder, Mapping, Op, Promise, Shape, Tunable,
    Type, Value, verify, verify_mapping,
};
use warplift_ir::types::Elem;

/// Bytes that a seed stands for: more than any kernel takes.
const SEED_BYTES: usize = 2048;
/// Limit on the magnitude of a result. Sums of a few such values stay exact in f32.
const MAX_MAGNITUDE: f64 = 60000.0;
/// The name of every generated kernel.
const NAME: &str = "fuzzed";

type Result<T> = std::result::Result<T, BuildError>;

/// The case that these bytes mean.
///
/// # Panics
/// If the kernel does not pass the verifier: a bug of the generator.
pub fn generate(bytes: &[u8]) -> Case {
    let mut choices = Choices::new(bytes);
    let (sms, data) = (choices.between(1, 4) as u32, choices.below(1000) as u64);
    let loads_scalars = data % 4 == 3;
    let made = Generator::new(choices).and_then(|g| Generator { loads_scalars, ..g }.run());
    let (mut kernel, sizes, mut mapping) =
        made.unwrap_or_else(|e| panic!("the generator obeys the builder: {e}"));
    if data % 5 == 2 {
        assume_facts(&mut kernel, &mut mapping);
    }
    let case = Case { note: String::new(), sizes, sms, data, kernel, mapping };
    let sound = verify(&case.kernel).and_then(|()| verify_mapping(&case.kernel, &case.mapping, &SM90A));
    assert!(sound.is_ok(), "generated kernels are right by construction: {sound:?}\n{case}");
    case
}

/// Has the mapping assume what the text says of addresses and multiples: the text says nothing of them any more.
fn assume_facts(kernel: &mut Kernel, mapping: &mut Mapping) {
    for param in &mut kernel.params {
        let Facts { align, multiple, .. } = param.facts;
        let number = || Promise::Number(Assumption { multiple, ..Assumption::default() });
        let aligned = (align > 1).then_some(Promise::Align(align));
        let promise = aligned.or_else(|| (multiple > 1).then(number));
        mapping.promises.extend(promise.map(|promise| (param.name.clone(), promise)));
        param.facts = Facts { align: 1, multiple: 1, ..param.facts };
    }
}

/// As [`generate`], from bytes that follow from a seed.
///
/// # Panics
/// As [`generate`].
pub fn generate_from_seed(seed: u64) -> Case {
    let mut bytes = vec![0; SEED_BYTES];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    generate(&bytes)
}

struct Generator<'b> {
    choices: Choices<'b>,
    b: KernelBuilder,
    /// The known facts about the generated values.
    known: FxHashMap<Value, Range>,
    /// Scalars and tiles that an operation may take where they are in sight.
    values: Vec<Value>,
    sizes: BTreeMap<String, i64>,
    /// The mapping's values.
    tunables: Vec<(Tunable, String, i64)>,
    /// The grid's axes.
    axes: Vec<Axis>,
    /// The axis that a loop walks.
    depth: Option<Axis>,
    inputs: Vec<Input>,
    /// Counters of loops.
    loops: Vec<String>,
    pointers: usize,
    /// Consumer warpgroups of a kernel with products.
    groups: Option<u32>,
    /// Arrays that the mapping packs.
    packed: Vec<String>,
    /// Whether the kernel reads rows twice, for `epilogue warps`.
    rows: bool,
    /// Whether addresses and sizes are such that tensor copies bring every tile.
    regular: bool,
    wild: bool,
    /// Whether the kernel loads scalars.
    loads_scalars: bool,
    /// A loaded scalar that is added to indices of loads.
    offset: Option<Value>,
}

impl<'b> Generator<'b> {
    fn new(mut choices: Choices<'b>) -> Result<Self> {
        let wild = choices.chance(1, 5);
        Ok(Self {
            choices,
            b: KernelBuilder::new(NAME)?,
            known: FxHashMap::default(),
            values: Vec::new(),
            sizes: BTreeMap::new(),
            tunables: Vec::new(),
            axes: Vec::new(),
            depth: None,
            inputs: Vec::new(),
            loops: Vec::new(),
            pointers: 0,
            groups: None,
            packed: Vec::new(),
            rows: false,
            regular: false,
            wild,
            loads_scalars: false,
            offset: None,
        })
    }

    #[allow(clippy::type_complexity, reason = "the parts of a case")]
    fn run(mut self) -> Result<(Kernel, BTreeMap<String, i64>, Mapping)> {
        match self.choices.weighted(&[(6, 0), (4, 1), (1, 2)]) {
            0 => self.plain_kernel()?,
            1 => self.product_kernel()?,
            _ => self.row_kernel()?,
        }
        let mapping = self.mapping();
        Ok((self.b.finish()?, self.sizes, mapping))
    }

    /// A kernel without products: loads, operations, loops, branches, stores.
    fn plain_kernel(&mut self) -> Result<()> {
        let narrow = self.choices.chance(1, 8);
        self.regular = narrow;
        let rank = 1 + self.choices.below(2);
        let extents: &[u32] = match (rank, self.wild) {
            (1, false) => &[64, 128, 256, 32, 16, 512],
            (1, true) => &[64, 8, 24, 100, 96, 7, 1, 384],
            (_, false) => &[16, 32, 8, 64, 4],
            (_, true) => &[16, 32, 12, 48, 3, 1, 64],
        };
        for d in 0..rank {
            let extent = self.choices.of(extents);
            self.grid_axis(["m", "n"][d], extent)?;
        }
        self.finish_grid()?;
        if self.choices.chance(1, 2) {
            let extent = self.choices.of(extents);
            self.depth_axis(extent)?;
        }
        self.scalars()?;
        for _ in 0..=self.choices.below(3) {
            self.input(None)?;
        }
        if narrow {
            self.narrow_input()?;
        }
        self.load_inputs(None)?;
        self.statements(0, 6)?;
        self.stores(3)
    }

    /// Statements: operations, and now and then a loop or a branch.
    fn statements(&mut self, depth: u32, most: usize) -> Result<()> {
        for _ in 0..self.choices.below(most + 1) {
            match self.choices.below(8) {
                0 if depth < 2 => self.looped(depth)?,
                1 if depth < 2 => self.branch(depth)?,
                _ => self.operation()?,
            }
        }
        Ok(())
    }

    /// A scalar argument or two.
    fn scalars(&mut self) -> Result<()> {
        if self.choices.chance(1, 3) {
            let alpha = self.b.param("alpha", Type::Scalar(Elem::F32), Facts::default())?;
            self.keep(alpha, Range::whole(-super::range::DATA, super::range::DATA));
        }
        if self.choices.chance(1, 4) {
            let value = self.choices.between(0, 9);
            self.sizes.insert("p".to_owned(), value);
            let p = self.b.param("p", Type::Scalar(Elem::I32), Facts { max: 9, ..Facts::default() })?;
            self.keep(p, Range::whole(value as f64, value as f64));
        }
        Ok(())
    }

    fn keep(&mut self, v: Value, range: Range) {
        self.known.insert(v, range);
        self.values.push(v);
    }

    fn range(&self, v: Value) -> Range {
        self.known.get(&v).copied().unwrap_or(Range::whole(-1024.0, 1024.0))
    }

    fn ty(&self, v: Value) -> Type {
        self.b.kernel().ty(v)
    }

    /// An i32 constant that operations do not see.
    fn int(&mut self, v: i64) -> Result<Value> {
        self.b.int(v, Elem::I32)
    }

    /// A dimension's extent under the mapping's tunables.
    fn extent(&self, dim: Dim) -> u32 {
        let value = |t: Tunable| self.tunables.iter().find(|(of, ..)| *of == t).map_or(1, |t| t.2);
        dim.resolve(value).unwrap_or(1)
    }

    /// Makes an operation if the builder takes it and its result is neither too large nor too uncertain.
    fn apply(&mut self, op: Op, args: &[Value], want: Option<Type>) -> Option<Value> {
        let ranges: Vec<Range> = args.iter().map(|&a| self.range(a)).collect();
        let from = args.last().map(|&a| self.ty(a).elem());
        let elem = match (&op, want) {
            (Op::Compare(_), _) => Elem::Bool,
            (Op::Iota(_), _) => Elem::I32,
            (Op::ViewAs(e), _) => *e,
            (_, Some(want)) => want.elem(),
            _ => args.get(usize::from(op == Op::Select)).map(|&a| self.ty(a).elem())?,
        };
        let terms = self.terms(&op, args);
        let range = match op {
            Op::Iota(_) => Range::whole(0.0, 4096.0),
            _ => transfer(&Operands { op: &op, elem, from: from.unwrap_or(elem), args: &ranges, terms }),
        };
        let sure = range.error <= 0.02 * (1.0 + range.magnitude()) && range.magnitude() <= MAX_MAGNITUDE;
        if !sure && elem.is_float() || range.error.is_infinite() {
            return None;
        }
        let inst = self.b.inst(op, args, want).ok()?;
        let results = self.b.results(inst).to_vec();
        for &v in &results {
            self.keep(v, range);
        }
        results.first().copied()
    }

    fn terms(&self, op: &Op, args: &[Value]) -> u32 {
        let of = |v: Value, d: usize| {
            self.ty(v).shape().and_then(|s| s.dims().get(d).copied()).map_or(1, |d| self.extent(d))
        };
        match op {
            Op::Reduce(_, d) | Op::Scan(_, d) => args.first().map_or(1, |&v| of(v, (*d).into())),
            Op::Mma { .. } => args.get(1).map_or(1, |&v| of(v, 1)),
            _ => 1,
        }
    }

    /// A value in sight that fits; newer ones more often.
    fn pick(&mut self, fits: impl Fn(&Self, Value) -> bool) -> Option<Value> {
        let seen: Vec<Value> =
            self.values.iter().copied().filter(|&v| self.b.visible(v) && fits(self, v)).collect();
        if seen.is_empty() {
            return None;
        }
        let newest = if self.choices.chance(1, 3) { seen.len() } else { seen.len().min(4) };
        Some(seen[seen.len() - 1 - self.choices.below(newest)])
    }

    fn pick_tile(&mut self) -> Option<Value> {
        self.pick(|g, v| g.ty(v).shape().is_some())
    }

    /// A constant scalar of a type, small and whole.
    fn constant(&mut self, elem: Elem) -> Result<Value> {
        let v = self.choices.of(&[1i64, 2, 0, 3, 5]);
        let v = if elem.is_signed() && self.choices.chance(1, 4) { -v } else { v };
        let v = if elem == Elem::Bool || is_narrow(elem) { v & 1 } else { v };
        self.number(v, elem)
    }

    /// A constant scalar of this value, which fits the type.
    fn number(&mut self, v: i64, elem: Elem) -> Result<Value> {
        let made = match elem.is_float() {
            true => self.b.float(v as f64, elem)?,
            false => self.b.int(v, elem)?,
        };
        self.known.insert(made, Range::whole(v as f64, v as f64));
        Ok(made)
    }

    /// A constant of any scalar or tile type.
    fn constant_of(&mut self, ty: Type) -> Result<Value> {
        let scalar = self.constant(ty.elem())?;
        let Some(shape) = ty.shape() else { return Ok(scalar) };
        let range = self.range(scalar);
        let tile = self.b.full(scalar, shape)?;
        self.keep(tile, range);
        Ok(tile)
    }

    /// `x op y` of i32 scalars that operations do not see.
    fn index(&mut self, op: BinOp, x: Value, y: Value) -> Result<Value> {
        self.b.binary(op, x, y)
    }
}

/// Whether only 0 and 1 fit a type whatever its sign.
fn is_narrow(elem: Elem) -> bool {
    !elem.is_float() && elem.bits() < 4
}

/// A shape of these extents, all of which some tile has.
fn shape(dims: &[Dim]) -> Option<Shape> {
    Shape::new(dims)
}
