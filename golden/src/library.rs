//! The kernel library under small problems: grids on which every role works, rings wrap, edges are
//! ragged and a persistent program takes more than one tile.

use std::path::Path;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::trial::{Reference, Sizes, Style, Trial, TrialError};

/// A kernel of the library by its file, sizes, and multiprocessors of the device imagined.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// File name without its ending.
    pub name: &'static str,
    /// Integer arguments.
    pub sizes: &'static [(&'static str, i64)],
    /// Multiprocessors.
    pub sms: u32,
}

const fn case(name: &'static str, sizes: &'static [(&'static str, i64)], sms: u32) -> Case {
    Case { name, sizes, sms }
}

/// The cases.
pub const CASES: &[Case] = &[
    case("gemm", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm", &[("m", 129), ("n", 264), ("k", 136)], 1),
    case("gemm_bf16", &[("m", 136), ("n", 264), ("k", 328)], 3),
    case("gemm_f32out", &[("m", 136), ("n", 264), ("k", 136)], 2),
    case("gemm_nn", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm_nn", &[("m", 136), ("n", 264), ("k", 136)], 1),
    case("gemm_tn", &[("m", 136), ("n", 264), ("k", 327)], 2),
    case("gemm_tt", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("gemm_tt", &[("m", 136), ("n", 264), ("k", 136)], 1),
    case("gemm_any", &[("m", 65), ("n", 67), ("k", 69)], 2),
    case("gemm_any", &[("m", 1), ("n", 8), ("k", 0)], 2),
    case("gemm_dual", &[("m", 136), ("n", 136), ("k", 264)], 1),
    case("gemm_two_outputs", &[("m", 136), ("n", 136), ("k", 264)], 1),
    case("gemm_chain", &[("m", 136), ("n", 128), ("k", 136), ("p", 72)], 2),
    case("gemm_bias_relu_residual", &[("m", 136), ("n", 264), ("k", 328)], 2),
    case("axpy", &[("n", 2001)], 2),
    case("row_max", &[("m", 33), ("n", 516)], 2),
    case("row_sum", &[("m", 33), ("n", 516)], 2),
];

/// A kernel of the library with its mapping.
///
/// # Panics
/// If there is none of that name, or it does not parse: then the library is broken.
pub fn load(name: &str) -> (Kernel, Mapping) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../driver/kernels/{name}.tile"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let module = parse_file(&text, name).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    (module.kernels[0].clone(), module.mappings[0].clone())
}

/// A kernel on sizes, with data and what the interpreter makes of them.
///
/// # Panics
/// If the sizes are not the kernel's or it has no meaning: then the test is wrong.
pub fn reference<'a>(
    kernel: &'a Kernel,
    mapping: &Mapping,
    sizes: &[(&str, i64)],
    seed: u64,
) -> Reference<'a> {
    let wrong = |e: TrialError| -> ! { panic!("{} {sizes:?}: {e}", kernel.name) };
    let sizes = Sizes::of(kernel, sizes).unwrap_or_else(|e| wrong(e));
    let trial = Trial::new(kernel, mapping, sizes).unwrap_or_else(|e| wrong(e));
    trial.reference(Style::Integers, seed).unwrap_or_else(|e| wrong(e))
}
