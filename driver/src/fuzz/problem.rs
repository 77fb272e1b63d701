//! A concrete problem for a kernel: sizes for its integers, arrays for its pointers.
//!
//! The arrays follow from the kernel itself: a pointer's extent is what its views span.

use crate::packing::{PackingError, as_wanted};
use crate::sim;
use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::StandardNormal;
use std::collections::BTreeMap;
use warplift_ir::interp;
use warplift_ir::manifest::Manifest;
use warplift_ir::tile::{Kernel, Mapping, Op, Type, Value};
use warplift_ir::types::Elem;
use warplift_isel::facts::launch_expr;
use warplift_isel::map::do_tunables;

/// Numbers to fill inputs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Standard normal.
    Normal,
    /// Whole numbers of -3 to 3: sums of a few thousand products are exact in f32.
    Small,
}

/// An array behind a pointer argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Argument.
    pub name: String,
    /// Element type.
    pub elem: Elem,
    /// Values in storage order, already rounded to the element type.
    pub values: Vec<f64>,
    /// Whether the kernel writes it.
    pub written: bool,
    /// Whether the kernel reads it.
    pub read: bool,
}

/// A kernel's arguments, made up.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Integer arguments.
    pub sizes: BTreeMap<String, i64>,
    /// Float arguments.
    pub floats: BTreeMap<String, f64>,
    /// Pointer arguments, in order.
    pub arrays: Vec<Array>,
}

/// Why a problem cannot be made or run.
#[derive(Debug, thiserror::Error)]
pub enum ProblemError {
    /// An integer argument has no size.
    #[error("no size is given for `{0}`")]
    Size(String),
    /// A pointer's extent does not follow from its views.
    #[error("the extent of `{0}` does not follow from its views")]
    Extent(String),
    /// The interpreter stopped.
    #[error("interpreter: {0}")]
    Interpreter(String),
    /// The simulator stopped.
    #[error("simulator: {0}")]
    Simulator(#[from] sim::SimError),
    /// An array cannot be packed as the kernel wants it.
    #[error(transparent)]
    Packing(#[from] PackingError),
    /// The simulator does not know the text.
    #[error("simulator: {0}")]
    Text(#[from] sim::PtxError),
}

impl Problem {
    /// Arrays of random numbers for these sizes.
    ///
    /// # Errors
    /// A size is missing, or an array's extent does not follow from the views.
    pub fn new(
        k: &Kernel,
        sizes: &BTreeMap<String, i64>,
        data: Data,
        seed: u64,
    ) -> Result<Self, ProblemError> {
        // Extents may name tunables: their defaults, which the interpreter runs with, count.
        let resolved = do_tunables(k, &Mapping::default());
        let k = &resolved.map_err(|e| ProblemError::Extent(e.to_string()))?;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut p = Self { sizes: BTreeMap::new(), floats: BTreeMap::new(), arrays: Vec::new() };
        for param in &k.params {
            match k.ty(param.value) {
                Type::Ptr(elem) => {
                    let count = extent(k, param.value, sizes)
                        .ok_or_else(|| ProblemError::Extent(param.name.clone()))?;
                    let values = (0..count).map(|_| draw_element(elem, data, &mut rng)).collect();
                    let written = is_used(k, param.value, |op| matches!(op, Op::Store | Op::Atomic(_)));
                    let read = is_used(k, param.value, |op| !matches!(op, Op::Store));
                    p.arrays.push(Array { name: param.name.clone(), elem, values, written, read });
                }
                Type::Scalar(e) if e.is_float() => {
                    p.floats.insert(param.name.clone(), interp::round(e, draw(data, &mut rng)));
                }
                _ => {
                    let size =
                        sizes.get(&param.name).ok_or_else(|| ProblemError::Size(param.name.clone()))?;
                    p.sizes.insert(param.name.clone(), *size);
                }
            }
        }
        Ok(p)
    }

    /// The arrays after the kernel ran in the reference interpreter.
    ///
    /// # Errors
    /// What stopped it.
    pub fn interpret(&self, k: &Kernel) -> Result<Vec<Array>, ProblemError> {
        self.interpret_with(k, &interp::Options::default())
    }

    /// As [`Self::interpret`], in another order of blocks or with more programs.
    ///
    /// # Errors
    /// What stopped it.
    pub fn interpret_with(&self, k: &Kernel, options: &interp::Options) -> Result<Vec<Array>, ProblemError> {
        let mut memory = interp::Memory::new();
        let mut ids = Vec::new();
        for a in &self.arrays {
            ids.push(memory.add_values(&a.name, a.elem, &a.values));
        }
        let mut pointers = ids.iter();
        let args: Vec<interp::Arg> = k
            .params
            .iter()
            .map(|p| match (self.sizes.get(&p.name), self.floats.get(&p.name)) {
                (Some(&v), _) => interp::Arg::Int(v),
                (_, Some(&v)) => interp::Arg::Float(v),
                _ => pointers.next().map_or(interp::Arg::Int(0), |&id| interp::Arg::Ptr(id, 0)),
            })
            .collect();
        interp::run(k, &args, &mut memory, options).map_err(|e| ProblemError::Interpreter(e.to_string()))?;
        let read =
            |(a, id): (&Array, &interp::BufferId)| Array { values: memory.values(*id, a.elem), ..a.clone() };
        Ok(self.arrays.iter().zip(&ids).map(read).collect())
    }

    /// The arrays after the PTX ran in the simulator, arrays that are only written poisoned first.
    ///
    /// # Errors
    /// A hazard, a fault, or text that it does not know.
    pub fn simulate(
        &self,
        ptx: &str,
        manifest: &Manifest,
        options: &sim::Options,
        sm_count: u32,
    ) -> Result<(Vec<Array>, sim::Report), ProblemError> {
        let module = sim::parse(ptx)?;
        let mut memory = sim::Memory::new();
        let mut args: Vec<(&str, sim::Arg)> = Vec::new();
        let mut ids = Vec::new();
        for a in &self.arrays {
            let bytes = to_bytes(a);
            let id = match a.read {
                true => {
                    let value = |name: &str| self.sizes.get(name).copied();
                    memory.alloc(&a.name, as_wanted(manifest, &a.name, &bytes, &value)?.into_owned())
                }
                false => memory.alloc_poisoned(&a.name, bytes.len()),
            };
            ids.push(id);
            args.push((&a.name, sim::Arg::Pointer(id, 0)));
        }
        args.extend(self.sizes.iter().map(|(n, &v)| (n.as_str(), sim::Arg::Int(v))));
        args.extend(self.floats.iter().map(|(n, &v)| (n.as_str(), sim::Arg::Float(v))));
        let launch = sim::launch_from_manifest(&module, manifest, &args, &mut memory, sm_count)?;
        let report = sim::run(&launch, &mut memory, options)?;
        let read = |(a, id): (&Array, &sim::BufferId)| Array {
            values: from_bytes(a.elem, memory.bytes(*id)),
            ..a.clone()
        };
        Ok((self.arrays.iter().zip(&ids).map(read).collect(), report))
    }
}

/// Integers of 8 bits and fewer take all their values.
fn draw_element(elem: Elem, data: Data, rng: &mut StdRng) -> f64 {
    match elem {
        Elem::Uint(b @ 1..=8) => f64::from(rng.random_range(0..1u32 << b)),
        Elem::Int(b @ 1..=8) => f64::from(rng.random_range(-(1i32 << (b - 1))..1i32 << (b - 1))),
        _ => interp::round(elem, draw(data, rng)),
    }
}

fn draw(data: Data, rng: &mut StdRng) -> f64 {
    match data {
        Data::Normal => rng.sample(StandardNormal),
        Data::Small => f64::from(rng.random_range(-3i32..=3)),
    }
}

fn views(k: &Kernel, pointer: Value) -> impl Iterator<Item = Value> + '_ {
    let of = move |(i, d): &(warplift_ir::tile::Inst, &warplift_ir::tile::InstData)| {
        matches!(d.op, Op::View { .. }) && k.args(*i)[0] == pointer
    };
    k.insts.iter().filter(of).map(|(i, _)| k.result(i))
}

/// Whether an instruction of that kind works on a view of the pointer.
fn is_used(k: &Kernel, pointer: Value, kind: impl Fn(&Op) -> bool) -> bool {
    let views: Vec<Value> = views(k, pointer).collect();
    k.insts
        .iter()
        .any(|(i, d)| kind(&d.op) && k.args(i).first().is_some_and(|&v| views.contains(&k.whole_view(v))))
}

/// An array as it lies in memory.
fn to_bytes(a: &Array) -> Vec<u8> {
    let mut memory = interp::Memory::new();
    let id = memory.add_values(&a.name, a.elem, &a.values);
    memory.bytes(id).to_vec()
}

fn from_bytes(elem: Elem, bytes: &[u8]) -> Vec<f64> {
    let mut memory = interp::Memory::new();
    let id = memory.add("", bytes.to_vec());
    memory.values(id, elem)
}

/// Elements that a pointer's views span.
fn extent(k: &Kernel, pointer: Value, sizes: &BTreeMap<String, i64>) -> Option<usize> {
    let value = |v: Value| launch_expr(k, v)?.eval(&|n| sizes.get(n).copied()).ok();
    let mut most = None;
    for view in views(k, pointer) {
        let def = k.def(view)?;
        let Op::View { strided, .. } = k.insts[def].op else { continue };
        let args = k.args(def);
        let rank = if strided { (args.len() - 1) / 2 } else { args.len() - 1 };
        let extents: Vec<i64> = args[1..=rank].iter().map(|&v| value(v)).collect::<Option<_>>()?;
        let count = match strided {
            false => extents.iter().try_fold(1i64, |n, &e| n.checked_mul(e))?,
            true => {
                let strides: Vec<i64> = args[1 + rank..].iter().map(|&v| value(v)).collect::<Option<_>>()?;
                let last: i64 = extents.iter().zip(&strides).map(|(e, s)| (e - 1).max(0) * s).sum();
                if extents.contains(&0) { 0 } else { last + 1 }
            }
        };
        most = most.max(usize::try_from(count).ok());
    }
    most
}
