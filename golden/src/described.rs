//! Kernels on data that a text describes, such as `ids=zipf:1.2:0..50`: compiled, simulated under several orders of events
//! without hazard, and compared with the interpreter.

use crate::given::{made, parsed};
use crate::orders::{ORDERS, right};
use warplift::Compiled;
use warplift::ir::tile::{Kernel, Mapping};
use warplift_lab::validate::{Data, Given, Problem, Reference, Sizes, Style, Validation};

/// A text, compiled.
///
/// # Panics
/// It does not compile.
pub fn compiled(text: &str) -> (Kernel, Mapping, Compiled) {
    let (kernel, mapping) = parsed(text);
    let made = made(&kernel, &mapping);
    (kernel, mapping, made)
}

/// A problem whose arrays are given by text, as on the command line (`--data`).
///
/// # Panics
/// The sizes or the data do not fit the kernel.
pub fn reference<'k>(
    kernel: &'k Kernel,
    mapping: &Mapping,
    sizes: &[(&str, i64)],
    data: &[&str],
) -> Reference<'k> {
    let sizes = Sizes::of(kernel, sizes).unwrap_or_else(|e| panic!("{e}"));
    let given = Given::parse(data.iter().copied()).unwrap_or_else(|e| panic!("{e}"));
    let problem = Problem::new(kernel, mapping, sizes.clone()).unwrap_or_else(|e| panic!("{e}"));
    let data = Data::given(&problem.operands, &given, Style::Integers, 7).unwrap_or_else(|e| panic!("{e}"));
    let validation = Validation::new(kernel, mapping, sizes);
    validation.and_then(|v| Reference::of(v, data)).unwrap_or_else(|e| panic!("{e}"))
}

/// Compiles a text and checks it on each of the data (`""`: random arrays); the PTX.
///
/// # Panics
/// It does not compile, a run is not right, or there are no data to run it on.
pub fn check(text: &str, sizes: &[(&str, i64)], data: &[&str]) -> String {
    assert!(!data.is_empty(), "no data to run the kernel on");
    let (kernel, mapping, made) = compiled(text);
    for given in data {
        let given: Vec<&str> = given.split_whitespace().collect();
        let problem = reference(&kernel, &mapping, sizes, &given);
        right(&problem, &made, &ORDERS, (2, 0.0), &format!("{given:?}"));
    }
    made.ptx
}
