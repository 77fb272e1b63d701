//! Warplift is a code generation backend for NVIDIA Hopper. A frontend gives it a kernel as SSA over tiles and gets PTX
//! and a launch manifest.
//!
//! ```text
//!  text or KernelBuilder ─► Kernel ─┐
//!  text or enumerate ─────► Mapping ┴─ compile ─► PTX, manifest ─ toolchain ─► cubin ─ cuda ─► launch
//! ```
//!
//! # A kernel from a frontend
//!
//! ```
//! use warplift::prelude::*;
//!
//! /// y = alpha x + y over n elements.
//! fn axpy() -> Result<Kernel, BuildError> {
//!     let mut b = KernelBuilder::new("axpy")?;
//!     let aligned = Facts { align: 16, ..Facts::default() };
//!     let alpha = b.param("alpha", Type::Scalar(Elem::F32), Facts::default())?;
//!     let x = b.param("x", Type::Ptr(Elem::F32), aligned)?;
//!     let y = b.param("y", Type::Ptr(Elem::F32), aligned)?;
//!     let n = b.param("n", Type::Scalar(Elem::I32), Facts::default())?;
//!     let tile = Shape::of(&[1024]).expect("rank 1");
//!     let extent = b.int(1024, Elem::I32)?;
//!     let blocks = b.binary(BinOp::CeilDiv, n, extent)?;
//!     b.set_grid(&[blocks])?;
//!     let (gx, gy) = (b.view(x, &[n], None, 0.0)?, b.view(y, &[n], None, 0.0)?);
//!     let block = b.block_index(0)?;
//!     let at = b.binary(BinOp::Mul, block, extent)?;
//!     let (tx, ty) = (b.load(gx, &[at], tile)?, b.load(gy, &[at], tile)?);
//!     let scaled = b.binary(BinOp::Mul, tx, alpha)?;
//!     let sum = b.binary(BinOp::Add, scaled, ty)?;
//!     b.store(gy, &[at], sum)?;
//!     b.finish()
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel = axpy()?;
//! let mapping = Mapping { kernel: "axpy".into(), ..Mapping::default() };
//! let compiled = compile(&kernel, &mapping, &SM90A, &Options::default())?;
//! assert!(compiled.ptx.contains(".entry axpy"));
//! assert_eq!(compiled.manifest.arguments.len(), 4);
//!
//! // What it means, on the CPU.
//! let mut memory = interp::Memory::new();
//! let x = memory.add_values("x", Elem::F32, &[1.0, 2.0, 3.0]);
//! let y = memory.add_values("y", Elem::F32, &[10.0, 20.0, 30.0]);
//! let args = [interp::Arg::Float(0.5), interp::Arg::Ptr(x, 0), interp::Arg::Ptr(y, 0), interp::Arg::Int(3)];
//! interp::run(&kernel, &args, &mut memory, &interp::Options::default())?;
//! assert_eq!(memory.values(y, Elem::F32), [10.5, 21.0, 31.5]);
//! # Ok(())
//! # }
//! ```
//!
//! # A kernel from text
//!
//! ```
//! use warplift::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "kernel double(x: ptr<f32> align 16, n: i32) {
//!     tunable B = 512
//!     grid cdiv(n, B)
//!     g = view x : f32[n]
//!     i = block_index
//!     t = load g[i * B] : f32[B]
//!     store g[i * B], t + t
//! }
//! mapping double { B = 2048 kernel: warps 8 }";
//! let module = parse_file(text, "double.tile")?;
//! let kernel = module.kernel("double").ok_or("no such kernel")?;
//! let mapping = module.mapping("double").ok_or("no such mapping")?;
//! let compiled = compile(kernel, mapping, &SM90A, &Options { verify: true, ..Options::default() })?;
//! assert_eq!(compiled.manifest.block, 256);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `bundle`: one file of several mappings, chosen by size (`warplift::bundle`).
//! - `cuda`: devices, buffers and launches, by the driver found at run time (`warplift::cuda`).
//! - `toolchain`: the pinned ptxas and disassemblers (`warplift::toolchain`).
//! - `sim`: the PTX simulator (`warplift::sim`).
//!
//! All are on by default. Without them, the compiler remains: text and builder, mappings, prediction, PTX, manifest.
//!
//! # Launching
//!
#![cfg_attr(all(feature = "cuda", feature = "toolchain"), doc = "```no_run")]
#![cfg_attr(not(all(feature = "cuda", feature = "toolchain")), doc = "```ignore")]
//! use warplift::prelude::*;
//!
//! # fn example(compiled: Compiled) -> Result<(), Box<dyn std::error::Error>> {
//! let made = Toolchain::find_or_install(None, Fetch::default())?.ptxas(&compiled.ptx, &PtxasOptions::default())?;
//! let device = Device::open(0)?;
//! let kernel = LoadedKernel::load(&device, &made.cubin, compiled.manifest)?;
//! let x = Buffer::from_bytes(&device, &[0; 4096])?;
//! let stream = Stream::new(&device)?;
//! // Arguments in the order of the signature; facts, types and sizes are checked.
//! kernel.launch(&[(&x).into(), 1024.into()], &stream)?;
//! stream.synchronize()?;
//! # Ok(())
//! # }
//! ```

pub mod allocation;
pub mod attempts;
#[cfg(feature = "bundle")]
pub mod bundle;
pub mod chart;
pub mod context;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod enumerate;
pub mod error;
pub mod explain;
pub mod features;
pub mod kernels;
pub mod options;
pub mod packing;
pub mod passes;
mod pipeline;
pub mod predict;
pub mod problem;
pub mod state;
#[cfg(feature = "toolchain")]
pub mod toolchain;
pub mod tuning;

/// The examples of the README.
#[cfg(all(doctest, feature = "cuda", feature = "toolchain"))]
#[doc = include_str!("../../README.md")]
struct Readme;

pub use attempts::Attempt;
pub use context::{Compiled, Context, ResumeError, compile};
pub use error::CompileError;
pub use explain::Explained;
pub use features::Feature;
pub use options::{Limits, Observer, Options};
pub use warplift_ir as ir;
pub use warplift_isel as isel;
#[cfg(feature = "sim")]
pub use warplift_sim as sim;

/// Everything that a frontend needs, in one import.
pub mod prelude {
    #[cfg(feature = "bundle")]
    pub use crate::bundle::{Bundle, SizeClass};
    #[cfg(feature = "cuda")]
    pub use crate::cuda::{
        Arg, Buffer, Device, Event, Graph, Kernel as LoadedKernel, LaunchError, Prepared, Stream,
    };
    pub use crate::enumerate::{Chosen, Search, best, choose, mappings, usual_sizes};
    #[cfg(feature = "toolchain")]
    pub use crate::toolchain::{Fetch, PtxasOptions, Toolchain};
    pub use crate::{CompileError, Compiled, Context, Limits, Options, compile};
    pub use warplift_ir::interp;
    pub use warplift_ir::manifest::Manifest;
    pub use warplift_ir::target::{H100, SM90A, Target};
    pub use warplift_ir::tile::{
        AtomicOp, BinOp, BuildError, CmpOp, Depth, Dim, Epilogue, Facts, Item, Kernel, KernelBuilder,
        KernelMapping, LoopMapping, Mapping, Module, Origin, ParseError, ParseErrors, Places, Raster,
        ReduceOp, Remark, Shape, Type, UnOp, Value, VerifyError, parse_file, render, verify, verify_mapping,
    };
    pub use warplift_ir::types::Elem;
}
