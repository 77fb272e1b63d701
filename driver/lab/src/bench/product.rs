//! The f64 reference of a large product, on the GPU.
//!
//! cuBLASLt multiplies in f64. Every element of a product can then be checked, while the CPU checks samples. The bound
//! needs sums of squared products. They are a second product, of the squared factors.

use super::contender::{BenchError, Contender};
use super::cublas::{CublasGemm, CublasLt, GemmProblem, Operands};
use crate::reference::{Array, Element};
use std::sync::Arc;
use warplift::cuda::{Buffer, CudaError, Device, Stream};

/// Sums of a b and of a^2 b^2 for every element of the product, row-major.
///
/// `a` and `b` lie in memory as `problem` says; its element types are not used.
///
/// # Errors
/// Too little memory, or a failed call.
pub fn product_on_device(
    library: &Arc<CublasLt>,
    device: &Device,
    problem: &GemmProblem,
    a: &Array,
    b: &Array,
) -> Result<(Vec<f64>, Vec<f64>), BenchError> {
    let problem = GemmProblem { input: Element::F64, output: Element::F64, ..*problem };
    let (mut a, mut b) = (a.to_f64(), b.to_f64());
    let sums = multiply(library, device, &problem, &a, &b)?;
    a.iter_mut().chain(&mut b).for_each(|v| *v *= *v);
    let squares = multiply(library, device, &problem, &a, &b)?;
    Ok((sums, squares))
}

fn multiply(
    library: &Arc<CublasLt>,
    device: &Device,
    problem: &GemmProblem,
    a: &[f64],
    b: &[f64],
) -> Result<Vec<f64>, BenchError> {
    let [_, _, bytes] = problem.bytes();
    let set =
        Operands { a: upload(device, a)?, b: upload(device, b)?, c: Arc::new(Buffer::new(device, bytes)?) };
    let stream = Stream::new(device)?;
    set.c.fill(0xff, &stream)?;
    CublasGemm::new(library, problem, std::slice::from_ref(&set))?.enqueue(&stream, 0)?;
    stream.synchronize()?;
    Ok(Array::from_bytes(Element::F64, set.c.to_vec()?).to_f64())
}

fn upload(device: &Device, values: &[f64]) -> Result<Arc<Buffer>, CudaError> {
    let array = Array::from_f64(Element::F64, values);
    Buffer::from_bytes(device, array.bytes()).map(Arc::new)
}
