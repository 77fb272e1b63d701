//! A trial runs one kernel on one set of sizes and compares the results with a reference.
//!
//! ```text
//!  kernel, sizes ─► operands (extents of the views) ─► data: normal, or small integers
//!                                                        │
//!              ┌───────────── Executor (GPU, ...) ◄──────┤
//!              ▼                                         ▼
//!            found ──────────────► judge ◄── f64 product, where the kernel is a plain product;
//!                                    │       else the tile IR's interpreter, all blocks or some
//!                                    ▼
//!                                 Verdict
//! ```
//!
//! If every run must leave the same bytes, one [`Reference`] serves many runs.
//!
//! Nothing here knows a kernel by name. Operands follow from views, and a product is found by its shape in the IR.
//! Outputs are poisoned first, and the memory behind them is checked.

mod blocks;
mod data;
mod device;
mod given;
mod judge;
mod measure;
mod npy;
mod product;
mod reference;
mod rounding;
mod simulated;
mod usual;
mod work;

pub use data::{Data, Style};
pub use device::GpuExecutor;
pub use given::{Contents, Given};
pub use judge::{Verdict, exact_on_integers};
pub use product::{PlainProduct, plain_product};
pub use reference::{Difference, Reference, agree};
pub use simulated::{Observer, SimExecutor};
pub use warplift::problem::{Operand, Problem, ProblemError, Scalar, Sizes};
pub use work::work;

use crate::bench::GemmProblem;
use crate::reference::Array;
use std::borrow::Cow;
use warplift::cuda::{CudaError, LaunchError};
use warplift::packing::{PackingError, as_wanted};
use warplift_ir::interp::{self, InterpError, Order};
use warplift_ir::manifest::Manifest;
use warplift_ir::tile::{Kernel, Mapping};
use warplift_sim::{HazardKind, PtxError, SimError};

/// An argument by value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input<'a> {
    /// Contents of a buffer before the launch.
    Buffer(&'a [u8]),
    /// Bytes of a buffer that is only written: poisoned before the launch.
    Output(usize),
    /// A scalar.
    Scalar(Scalar),
}

/// The value of an integer argument among the inputs of a launch.
pub(crate) fn integer(manifest: &Manifest, inputs: &[Input<'_>], name: &str) -> Option<i64> {
    let at = manifest.arguments.iter().position(|a| a.name == name)?;
    match inputs.get(at) {
        Some(Input::Scalar(Scalar::Int(v))) => Some(*v),
        _ => None,
    }
}

/// A device or simulator that runs compiled kernels.
pub trait Executor {
    /// Its name, for messages.
    fn name(&self) -> String;

    /// Bytes of all arrays of a launch at most.
    fn most_bytes(&self) -> u64 {
        MAX_BYTES
    }

    /// Runs a kernel once and returns the buffers' contents in order.
    ///
    /// # Errors
    /// A refused or failed launch, a write behind a buffer's end.
    fn execute(&self, inputs: &[Input<'_>]) -> Result<Vec<Vec<u8>>, ValidationError>;
}

/// Full f64 products from elsewhere: sums of a b and of a^2 b^2 for every element.
pub type ProductSource<'a> = dyn Fn(&GemmProblem, &Array, &Array) -> Option<(Vec<f64>, Vec<f64>)> + 'a;

/// Why a trial could not be made or did not end.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    /// Sizes, operands or tunables that do not fit the kernel.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// An array cannot be packed as the kernel requires.
    #[error(transparent)]
    Packing(#[from] PackingError),
    /// The launch was refused.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A failed driver call.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// Blocks write the same elements.
    #[error(
        "several blocks write the same elements, so the result depends on their order and cannot be judged; other data \
         may avoid it, as in `--data INDEX=perm`"
    )]
    Order,
    /// The kernel did not end.
    #[error("the kernel did not end within {0} s: a deadlock")]
    Hang(u64),
    /// The kernel wrote behind a buffer.
    #[error("the kernel wrote behind the end of `{0}`")]
    Overrun(String),
    /// The kernel itself is wrong: the interpreter refuses it.
    #[error("interpreter: {0}")]
    Meaning(#[from] InterpError),
    /// PTX that the simulator does not know.
    #[error("simulator: {0}")]
    Text(#[from] PtxError),
    /// A simulated run that found a hazard or an error.
    #[error(transparent)]
    Simulation(#[from] SimError),
}

impl ValidationError {
    /// Whether the kernel, and not its caller, is at fault.
    pub fn is_wrong_result(&self) -> bool {
        matches!(self, Self::Hang(_) | Self::Overrun(_) | Self::Text(_) | Self::Simulation(_))
    }

    /// Whether blocks of a simulated run raced in global memory.
    fn is_global_race(&self) -> bool {
        matches!(self, Self::Simulation(SimError::Hazard(h)) if h.kind == HazardKind::GlobalRace)
    }
}

/// One kernel on one set of sizes.
#[derive(Clone, Debug)]
pub struct Validation<'a> {
    /// As written.
    pub kernel: &'a Kernel,
    /// Without tunables, as the interpreter runs it.
    resolved: Kernel,
    /// Scalar arguments.
    pub sizes: Sizes,
    /// Pointer arguments.
    pub operands: Vec<Operand>,
    /// The matrix product, if the kernel is nothing else.
    pub product: Option<PlainProduct>,
    /// Contents of arrays that are not drawn as usual.
    given: Given,
}

/// Limit on the bytes of a trial's arrays. Host memory holds them and a reference of the same size.
const MAX_BYTES: u64 = 1 << 33;
/// Instructions of the interpreter in another order of blocks, after which some of them wait for others.
const REVERSE_STEPS: u64 = 1 << 26;

fn check_bytes(operands: &[Operand], executor: &dyn Executor) -> Result<(), ValidationError> {
    let most = executor.most_bytes();
    let mut all = 0_u64;
    for operand in operands {
        all = all.saturating_add(operand.bytes());
        if all > most {
            return Err(ProblemError::Sizes(format!(
                "`{}` takes {} bytes: all arrays together take at most {most} on the {}; give smaller sizes",
                operand.name,
                operand.bytes(),
                executor.name()
            ))
            .into());
        }
    }
    Ok(())
}

impl<'a> Validation<'a> {
    /// Computes the operands.
    ///
    /// # Errors
    /// Sizes that the kernel lacks, extents that are unknown or too large.
    pub fn new(kernel: &'a Kernel, mapping: &Mapping, sizes: Sizes) -> Result<Self, ValidationError> {
        Ok(Self::of(kernel, Problem::new(kernel, mapping, sizes)?))
    }

    /// The same, also where extents of views come from memory. [`Self::check`] takes them from the data.
    ///
    /// # Errors
    /// Sizes that the kernel lacks, extents that are negative or too large.
    pub fn open(kernel: &'a Kernel, mapping: &Mapping, sizes: Sizes) -> Result<Self, ValidationError> {
        Ok(Self::of(kernel, Problem::open(kernel, mapping, sizes)?))
    }

    fn of(kernel: &'a Kernel, Problem { resolved, sizes, operands }: Problem) -> Self {
        let product = plain_product(&resolved, &sizes);
        let given = Given::default().completed(usual::usual(&resolved));
        Self { kernel, resolved, sizes, operands, product, given }
    }

    /// The same with contents of arrays that the user gives.
    ///
    /// # Errors
    /// A name that is no array that the kernel reads.
    pub fn with_data(self, given: Given) -> Result<Self, ValidationError> {
        given.check(&self.operands)?;
        let given = given.completed(usual::usual(&self.resolved));
        Ok(Self { given, ..self })
    }

    /// The styles in which the results can be judged.
    pub fn styles(&self) -> Vec<Style> {
        let exact = exact_on_integers(self.kernel)
            && self.given.keeps_exact(&self.operands, i64::from(data::MAX_INTEGER));
        [Style::Normal].into_iter().chain(exact.then_some(Style::Integers)).collect()
    }

    /// Random data in which arrays that are only written hold a number instead of poison. Elements that the kernel
    /// leaves unchanged are then compared too.
    pub fn data_over(&mut self, style: Style, seed: u64, before: f64) -> Data {
        let mut data = Data::new(&self.operands, style, seed);
        for (operand, buffer) in self.operands.iter_mut().zip(&mut data.buffers).filter(|(o, _)| !o.read) {
            operand.read = true;
            *buffer = data::filled(operand, before);
        }
        data
    }

    /// The arguments in the order of the signature; `data` holds the buffers.
    pub fn inputs<'d>(&self, data: &'d Data) -> Vec<Input<'d>> {
        let mut buffers = data.buffers.iter().zip(&self.operands);
        let input = |(bytes, operand): (&'d Vec<u8>, &Operand)| match operand.read {
            true => Input::Buffer(bytes.as_slice()),
            false => Input::Output(bytes.len()),
        };
        let each = self.kernel.params.iter().filter_map(|p| match self.sizes.get(&p.name) {
            Some(scalar) => Some(Input::Scalar(scalar)),
            None => buffers.next().map(input),
        });
        each.collect()
    }

    /// Packs the buffers that the manifest declares as packed.
    ///
    /// # Errors
    /// A buffer is too small, or an extent has no value.
    pub fn pack(&self, manifest: &Manifest, data: &mut Data) -> Result<(), ValidationError> {
        let value = |name: &str| self.sizes.int(name);
        for (operand, buffer) in self.operands.iter().zip(&mut data.buffers) {
            if let Cow::Owned(packed) = as_wanted(manifest, &operand.name, buffer, &value)? {
                *buffer = packed;
            }
        }
        Ok(())
    }

    /// Runs the kernel on random data and compares.
    ///
    /// # Errors
    /// The run fails; a wrong result is a [`Verdict`].
    pub fn check(
        &self,
        executor: &dyn Executor,
        style: Style,
        seed: u64,
        products: Option<&ProductSource<'_>>,
    ) -> Result<Verdict, ValidationError> {
        if self.operands.iter().any(|o| o.from_memory.is_some()) {
            let operands = self.measured(style, seed, executor.most_bytes())?;
            return Self { operands, ..self.clone() }.check(executor, style, seed, products);
        }
        check_bytes(&self.operands, executor)?;
        let data = Data::given(&self.operands, &self.given, style, seed)?;
        let found = match executor.execute(&self.inputs(&data)) {
            Err(e) if e.is_global_race() && self.writes_twice(&data)? => return Err(ValidationError::Order),
            found => found?,
        };
        let verdict = self.judge(&data, &found, style, seed, products)?;
        if !verdict.passed() && self.depends_on_order(&data, style, seed, REVERSE_STEPS)? {
            return Err(ValidationError::Order);
        }
        Ok(verdict)
    }

    /// Whether by the kernel's own text two blocks write the same element of memory.
    fn writes_twice(&self, data: &Data) -> Result<bool, ValidationError> {
        let whole = blocks::runs_whole(&self.resolved, &self.sizes);
        Ok(whole && !self.blocks_are_apart(data)?)
    }

    /// Whether no two blocks write the same element of memory, by the interpreter.
    pub(crate) fn blocks_are_apart(&self, data: &Data) -> Result<bool, ValidationError> {
        let (mut memory, _, args) = blocks::prepared(&self.resolved, &self.sizes, &self.operands, data);
        memory.log = Some(Box::default());
        interp::run(&self.resolved, &args, &mut memory, &interp::Options::default())?;
        Ok(memory.log.is_none_or(|log| log.conflict.is_none()))
    }

    /// Whether the interpreter itself is judged wrong when it runs the blocks in the other order, in so many instructions.
    fn depends_on_order(
        &self,
        data: &Data,
        style: Style,
        seed: u64,
        steps: u64,
    ) -> Result<bool, ValidationError> {
        if self.product.is_some() || !blocks::runs_whole(&self.resolved, &self.sizes) {
            return Ok(false);
        }
        let (mut memory, ids, args) = blocks::prepared(&self.resolved, &self.sizes, &self.operands, data);
        let options = interp::Options { order: Order::Reverse, steps, ..interp::Options::default() };
        match interp::run(&self.resolved, &args, &mut memory, &options) {
            // Blocks that wait for those before them do not end in this order.
            Err(stopped) if stopped.fault == interp::Fault::Steps => return Ok(false),
            ran => ran?,
        };
        let found: Vec<Vec<u8>> = ids.iter().map(|&id| memory.bytes(id).to_vec()).collect();
        Ok(!self.judge(data, &found, style, seed, None)?.passed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::tile::parse_file;

    /// Blocks that hand a number on: in the other order the first that runs waits for one that has not begun.
    const CHAIN: &str = "kernel chain(flag: ptr<i32>, y: ptr<i32>, m: i32) {
        grid m
        gf = view flag : i32[m]
        gy = view y : i32[m]
        i = block_index
        one = full 1 : i32[1]
        w = while carry d = 0 {
            seen = atomic_max gf[i - 1], full 0 : i32[1] : i32[1] order acquire
            yield (reduce_max(seen, 0) == 0) & (i > 0), d
        }
        store gy[i], one
        atomic_max gf[i], one order release
    }
    mapping chain { kernel: warps 1 }";

    #[test]
    fn blocks_that_wait_for_others_have_one_order() {
        let module = parse_file(CHAIN, "chain.tile").unwrap();
        let sizes = Sizes::of(&module.kernels[0], &[("m", 3)]).unwrap();
        let validation = Validation::new(&module.kernels[0], &module.mappings[0], sizes).unwrap();
        let given = Given::parse(["flag=zeros"]).unwrap();
        let data = Data::given(&validation.operands, &given, Style::Integers, 1).unwrap();
        assert!(!validation.depends_on_order(&data, Style::Integers, 1, 1 << 20).unwrap());
    }
}
