//! The kernel library under small problems: grids on which every role works, rings wrap, edges are
//! ragged and a persistent program takes more than one tile.

use std::collections::BTreeMap;
use std::path::Path;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::problem::Array;

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
    case("a16e4m3", &[("m", 13), ("n", 456), ("k", 640)], 2),
    case("a16w4", &[("m", 13), ("n", 456), ("k", 1152)], 2),
    case("a16w4", &[("m", 17), ("n", 904), ("k", 128)], 2),
    case("a16w4_large", &[("m", 264), ("n", 264), ("k", 512)], 2),
    case("a16w8", &[("m", 13), ("n", 456), ("k", 640)], 2),
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

/// Sizes by name.
pub fn sizes(list: &[(&str, i64)]) -> BTreeMap<String, i64> {
    list.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
}

/// The greatest difference of arrays that the kernel writes; infinite where only one is a NaN.
pub fn difference(a: &[Array], b: &[Array]) -> f64 {
    let written = a.iter().zip(b).filter(|(x, _)| x.written);
    let pairs = written.flat_map(|(x, y)| x.values.iter().zip(&y.values));
    let off = |(x, y): (&f64, &f64)| match (x == y || (x.is_nan() && y.is_nan()), (x - y).abs()) {
        (true, _) => 0.0,
        (false, d) if d.is_nan() => f64::INFINITY,
        (false, d) => d,
    };
    pairs.map(off).fold(0.0, f64::max)
}
