//! Kernels on given arrays: texts are compiled, simulated under many orders of events, and compared with the interpreter.

use crate::orders::{MANY_ORDERS, right};
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_file};
use warplift::{Compiled, Options, compile};
use warplift_lab::validate::{Data, Reference, Sizes, Style, Validation};

/// Contents of an array.
pub enum Given<'a> {
    /// Integers.
    I32(&'a [i32]),
    /// Wide integers.
    I64(&'a [i64]),
    /// The bits of halves.
    F16(&'a [u16]),
    /// Bytes as they are.
    Bytes(&'a [u8]),
}

impl Given<'_> {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::I32(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::I64(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::F16(v) => v.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::Bytes(v) => v.to_vec(),
        }
    }
}

/// The kernel and the mapping of a text.
///
/// # Panics
/// It is no text.
pub fn parsed(text: &str) -> (Kernel, Mapping) {
    let mut module = parse_file(text, "k.tile").unwrap_or_else(|e| panic!("{e}\n{text}"));
    (module.kernels.remove(0), module.mappings.remove(0))
}

/// Compiles a kernel.
///
/// # Panics
/// It does not compile.
pub fn made(kernel: &Kernel, mapping: &Mapping) -> Compiled {
    let options = Options { verify: true, ..Options::default() };
    compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

/// Whether a role copies.
pub fn has_producer(made: &Compiled) -> bool {
    made.manifest.roles.iter().any(|r| r.name == "producer")
}

/// Runs a text on given arrays under all orders.
///
/// # Panics
/// It does not compile, or a run is not right.
pub fn check(text: &str, sizes: &[(&str, i64)], given: &[(&str, Given<'_>)]) -> Compiled {
    let (kernel, mapping) = parsed(text);
    let compiled = made(&kernel, &mapping);
    let problem = problem(&kernel, &mapping, sizes, given);
    right(&problem, &compiled, &MANY_ORDERS, (2, 0.0), &format!("{} {sizes:?}", kernel.name));
    compiled
}

/// A problem whose arrays of these names have these contents.
///
/// # Panics
/// The sizes or the contents do not fit the kernel.
pub fn problem<'a>(
    kernel: &'a Kernel,
    mapping: &Mapping,
    sizes: &[(&str, i64)],
    given: &[(&str, Given<'_>)],
) -> Reference<'a> {
    let sizes = Sizes::of(kernel, sizes).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let validation =
        Validation::new(kernel, mapping, sizes).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let mut data = Data::new(&validation.operands, Style::Integers, 7);
    for (name, contents) in given {
        let at = validation.operands.iter().position(|o| o.name == *name);
        let at = at.unwrap_or_else(|| panic!("{}: no array {name}", kernel.name));
        let bytes = contents.bytes();
        assert_eq!(bytes.len(), data.buffers[at].len(), "{name}");
        data.buffers[at] = bytes;
    }
    Reference::of(validation, data).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}
