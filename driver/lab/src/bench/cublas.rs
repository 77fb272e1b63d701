//! cuBLASLt as a contender, loaded at run time.
//!
//! It works on column-major matrices. A row-major matrix is the column-major one of its transpose,
//! so the row-major product C = A B is asked for as C^T = B^T A^T:
//!
//! ```text
//!  memory of B, n x k column-major ──┐                         (k x n, transposed, if B is
//!                                    ├─► C^T, n x m            stored as n x k rows)
//!  memory of A, k x m column-major ──┘
//! ```
//!
//! The bar for our kernels is the library's first heuristic result, because frameworks run it. The best of the first
//! [`ALGORITHMS`] is recorded beside it.

use super::contender::{BenchError, Contender};
use super::cublas_library::{Api, CublasError, Handle, Heuristic, open_library};
use super::measure::quick;
use crate::reference::Element;
use serde::{Deserialize, Serialize};
use std::ffi::c_void;
use std::path::Path;
use std::ptr::{from_ref, null_mut};
use std::sync::Arc;
use warplift::cuda::{Buffer, CudaError, Device, Stream};

/// Workspace that the library may use.
pub const WORKSPACE_BYTES: usize = 64 << 20;

/// Heuristic results asked for.
pub const ALGORITHMS: usize = 16;

/// A matrix product on row-major memory: C (m x n) = A (m x k) B (k x n).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GemmProblem {
    /// Rows of A and C.
    pub m: u64,
    /// Columns of B and C.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// A is stored as k rows of m.
    pub a_transposed: bool,
    /// B is stored as n rows of k.
    pub b_transposed: bool,
    /// Type of A and B.
    pub input: Element,
    /// Type of C. Accumulation is in f32, in f64 for f64.
    pub output: Element,
}

impl std::fmt::Display for GemmProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = |transposed| if transposed { 'T' } else { 'N' };
        let (a, b) = (letter(self.a_transposed), letter(self.b_transposed));
        let (m, n, k) = (self.m, self.n, self.k);
        let (input, output) = (self.input.name(), self.output.name());
        write!(f, "gemm {a}{b} {m}x{n}x{k}, {input} to {output}")
    }
}

/// A column-major matrix of the library: rows, columns, leading dimension.
type Shape = (u64, u64, i64);

impl GemmProblem {
    /// Operations.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes of A, B and C.
    pub fn bytes(&self) -> [u64; 3] {
        let (input, output) = (self.input.bytes() as u64, self.output.bytes() as u64);
        [self.m * self.k * input, self.k * self.n * input, self.m * self.n * output]
    }

    /// The library's first and second operand and result, and whether it transposes the operands.
    fn column_major(&self) -> ([Shape; 3], [bool; 2]) {
        let shape = |rows: u64, cols: u64| (rows, cols, rows as i64);
        let turn = |transposed: bool, rows, cols| match transposed {
            true => shape(cols, rows),
            false => shape(rows, cols),
        };
        let first = turn(self.b_transposed, self.n, self.k);
        let second = turn(self.a_transposed, self.k, self.m);
        let operations = [self.b_transposed, self.a_transposed];
        ([first, second, shape(self.n, self.m)], operations)
    }
}

/// The library with a handle on the current device.
pub struct CublasLt {
    api: Api,
    handle: Handle,
    device: Device,
    origin: String,
}

// SAFETY: a cuBLASLt handle may be used from any thread.
unsafe impl Send for CublasLt {}
// SAFETY: as above; cuBLASLt handles are documented as safe for concurrent use.
unsafe impl Sync for CublasLt {}

/// Calls the library and checks the status. Pointers must be valid for the call.
macro_rules! lt {
    ($api:expr, $function:ident ( $($arg:expr),* $(,)? )) => {{
        let api: &Api = &$api;
        // SAFETY: the declaration matches cublasLt.h; the pointers are live locals, or handles and
        // device memory kept alive by the wrapper that makes the call.
        match unsafe { (api.$function)($($arg),*) } {
            0 => Ok(()),
            status => Err(CublasError::Call { function: stringify!($function), status }),
        }
    }};
}

impl CublasLt {
    /// Finds and opens the library: `given` (a file or a directory), else the environment variable
    /// `WARPLIFT_CUBLAS`, else the loader's path, else the Python packages that PyTorch brings.
    ///
    /// # Errors
    /// Not found, or it cannot be initialised.
    pub fn load(device: &Device, given: Option<&Path>) -> Result<Arc<Self>, BenchError> {
        let (library, origin) = open_library(given).map_err(CublasError::Missing)?;
        let api = Api::load(library).map_err(CublasError::Symbol)?;
        device.make_current()?;
        let mut handle: Handle = null_mut();
        lt!(api, cublasLtCreate(&mut handle))?;
        Ok(Arc::new(Self {
            api,
            handle,
            device: device.clone(),
            origin: origin.to_string_lossy().into_owned(),
        }))
    }

    /// Version, `13.1.0`, and the file it was opened as.
    pub fn version(&self) -> String {
        let part = |property: u32| {
            let mut value = 0;
            let _ = lt!(self.api, cublasLtGetProperty(property, &mut value));
            value
        };
        format!("{}.{}.{} ({})", part(0), part(1), part(2), self.origin)
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            let _ = lt!(self.api, cublasLtDestroy(self.handle));
        }
    }
}

/// Buffers of one rotation.
#[derive(Clone)]
pub struct Operands {
    /// A.
    pub a: Arc<Buffer>,
    /// B.
    pub b: Arc<Buffer>,
    /// C.
    pub c: Arc<Buffer>,
}

/// `cudaDataType_t`.
fn data_type(element: Element) -> u32 {
    match element {
        Element::F32 => 0,
        Element::F64 => 1,
        Element::F16 => 2,
        Element::Bf16 => 14,
    }
}

/// Descriptors of one product; destroyed when dropped.
struct Descriptors {
    library: Arc<CublasLt>,
    operation: Handle,
    layouts: [Handle; 3],
}

// SAFETY: descriptors are plain host data that is not changed after it is made.
unsafe impl Send for Descriptors {}
// SAFETY: as above.
unsafe impl Sync for Descriptors {}

impl Descriptors {
    fn new(library: &Arc<CublasLt>, problem: &GemmProblem) -> Result<Self, CublasError> {
        let api = &library.api;
        let (compute, scale) = match problem.output {
            Element::F64 => (70u32, 1u32),
            _ => (68, 0),
        };
        // It is made first: if a later step fails, its drop destroys the existing descriptors.
        let mut made = Self { library: library.clone(), operation: null_mut(), layouts: [null_mut(); 3] };
        lt!(api, cublasLtMatmulDescCreate(&mut made.operation, compute, scale))?;
        let (shapes, transposed) = problem.column_major();
        const TRANSPOSE_FIRST: u32 = 3;
        for (attribute, transposed) in (TRANSPOSE_FIRST..).zip(transposed) {
            let value = u32::from(transposed);
            let pointer = from_ref(&value).cast();
            lt!(api, cublasLtMatmulDescSetAttribute(made.operation, attribute, pointer, 4))?;
        }
        let types = [problem.input, problem.input, problem.output].map(data_type);
        for ((layout, (rows, cols, ld)), ty) in made.layouts.iter_mut().zip(shapes).zip(types) {
            lt!(api, cublasLtMatrixLayoutCreate(layout, ty, rows, cols, ld))?;
        }
        Ok(made)
    }

    /// The library's proposals, best first.
    fn heuristics(&self, count: usize) -> Result<Vec<Heuristic>, CublasError> {
        let api = &self.library.api;
        const MAX_WORKSPACE_BYTES: u32 = 1;
        let mut preference: Handle = null_mut();
        lt!(api, cublasLtMatmulPreferenceCreate(&mut preference))?;
        let bytes = WORKSPACE_BYTES as u64;
        let pointer = from_ref(&bytes).cast();
        let set = lt!(api, cublasLtMatmulPreferenceSetAttribute(preference, MAX_WORKSPACE_BYTES, pointer, 8));
        let mut results = vec![Heuristic::NONE; count];
        let mut found = 0;
        let [a, b, c] = self.layouts;
        let (handle, operation, room) = (self.library.handle, self.operation, count as i32);
        let asked = set.and_then(|()| {
            let list = results.as_mut_ptr();
            lt!(
                api,
                cublasLtMatmulAlgoGetHeuristic(
                    handle, operation, a, b, c, c, preference, room, list, &mut found
                )
            )
        });
        let _ = lt!(api, cublasLtMatmulPreferenceDestroy(preference));
        const NOT_SUPPORTED: u32 = 15;
        match asked {
            Err(CublasError::Call { status: NOT_SUPPORTED, .. }) => Ok(Vec::new()),
            other => other.map(|()| {
                results.truncate(usize::try_from(found).unwrap_or(0));
                results.retain(|r| r.status == 0);
                results
            }),
        }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let api = &self.library.api;
        for layout in self.layouts.into_iter().filter(|l| !l.is_null()) {
            let _ = lt!(api, cublasLtMatrixLayoutDestroy(layout));
        }
        if !self.operation.is_null() {
            let _ = lt!(api, cublasLtMatmulDescDestroy(self.operation));
        }
    }
}

/// A product by cuBLASLt with one of its algorithms.
pub struct CublasGemm {
    name: String,
    descriptors: Arc<Descriptors>,
    heuristic: Heuristic,
    workspace: Arc<Buffer>,
    sets: Vec<Operands>,
    double: bool,
}

impl CublasGemm {
    /// The library's first `count` proposals, best first; at least one. All share one workspace.
    ///
    /// # Errors
    /// No algorithm, a failed call, or a buffer that is too small.
    pub fn proposals(
        library: &Arc<CublasLt>,
        problem: &GemmProblem,
        sets: &[Operands],
        count: usize,
    ) -> Result<Vec<Self>, BenchError> {
        library.device.make_current()?;
        for set in sets {
            check_sizes(problem, set)?;
        }
        let descriptors = Arc::new(Descriptors::new(library, problem)?);
        let heuristics = descriptors.heuristics(count)?;
        if heuristics.is_empty() {
            return Err(CublasError::NoAlgorithm(problem.to_string()).into());
        }
        let workspace = Arc::new(Buffer::new(&library.device, WORKSPACE_BYTES as u64)?);
        let each = heuristics.into_iter().enumerate().map(|(i, heuristic)| Self {
            name: if i == 0 { "cublas".into() } else { format!("cublas #{}", i + 1) },
            descriptors: descriptors.clone(),
            heuristic,
            workspace: workspace.clone(),
            sets: sets.to_vec(),
            double: problem.output == Element::F64,
        });
        Ok(each.collect())
    }

    /// The library's first proposal, which is the bar.
    ///
    /// # Errors
    /// As [`CublasGemm::proposals`].
    pub fn new(
        library: &Arc<CublasLt>,
        problem: &GemmProblem,
        sets: &[Operands],
    ) -> Result<Self, BenchError> {
        let first = Self::proposals(library, problem, sets, 1)?.into_iter().next();
        first.ok_or_else(|| CublasError::NoAlgorithm(problem.to_string()).into())
    }

    /// Renames it.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

/// Refuses operands shorter than the problem: the library would read past them.
fn check_sizes(problem: &GemmProblem, set: &Operands) -> Result<(), CudaError> {
    for (bytes, buffer) in problem.bytes().into_iter().zip([&set.a, &set.b, &set.c]) {
        if buffer.len() < bytes {
            let capacity = buffer.len();
            return Err(CudaError::CopyBounds { offset: 0, bytes, capacity });
        }
    }
    Ok(())
}

impl Contender for CublasGemm {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&self, stream: &Stream, rotation: usize) -> Result<(), BenchError> {
        let at = rotation.checked_rem(self.sets.len());
        let set = at.map(|at| &self.sets[at]);
        let set = set.ok_or_else(|| BenchError::NoTime(self.name.clone()))?;
        let d = &self.descriptors;
        stream.device().make_current()?;
        let (one32, zero32, one64, zero64) = (1f32, 0f32, 1f64, 0f64);
        let (alpha, beta): (*const c_void, *const c_void) = match self.double {
            true => (from_ref(&one64).cast(), from_ref(&zero64).cast()),
            false => (from_ref(&one32).cast(), from_ref(&zero32).cast()),
        };
        let address = |buffer: &Buffer| buffer.address() as *mut c_void;
        let (a, b, c) = (address(&set.a), address(&set.b), address(&set.c));
        let (handle, operation, [first, second, result]) = (d.library.handle, d.operation, d.layouts);
        let (algorithm, scratch) = (self.heuristic.algorithm.as_ptr(), address(&self.workspace));
        let queue = stream.raw().cast();
        // The library's first operand is B: see the module's head.
        lt!(
            d.library.api,
            cublasLtMatmul(
                handle,
                operation,
                alpha,
                b,
                first,
                a,
                second,
                beta,
                c,
                result,
                c,
                result,
                algorithm,
                scratch,
                WORKSPACE_BYTES,
                queue
            )
        )?;
        Ok(())
    }
}

/// The fastest of the library's first [`ALGORITHMS`] proposals in a quick look, with its rank
/// from 1.
///
/// # Errors
/// As [`CublasGemm::proposals`]; proposals that fail to run are passed over unless all do.
pub fn best_of(
    library: &Arc<CublasLt>,
    problem: &GemmProblem,
    sets: &[Operands],
) -> Result<(CublasGemm, usize), BenchError> {
    let mut best: Option<(f64, CublasGemm, usize)> = None;
    let mut failure = None;
    let proposals = CublasGemm::proposals(library, problem, sets, ALGORITHMS)?;
    for (rank, proposal) in proposals.into_iter().enumerate() {
        match quick(&library.device, &proposal) {
            Ok(time) if best.as_ref().is_none_or(|(least, ..)| time < *least) => {
                best = Some((time, proposal, rank + 1));
            }
            Ok(_) => {}
            Err(error) => failure = Some(error),
        }
    }
    match (best, failure) {
        (Some((_, gemm, rank)), _) => Ok((gemm.named(format!("cublas best (#{rank})")), rank)),
        (None, Some(error)) => Err(error),
        (None, None) => Err(CublasError::NoAlgorithm(problem.to_string()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_major_products_become_column_major_ones() {
        let problem = |a_transposed, b_transposed| GemmProblem {
            m: 3,
            n: 5,
            k: 7,
            a_transposed,
            b_transposed,
            input: Element::F16,
            output: Element::F32,
        };
        for (at, bt, first, second) in [
            (false, false, (5, 7, 5), (7, 3, 7)),
            (false, true, (7, 5, 7), (7, 3, 7)),
            (true, false, (5, 7, 5), (3, 7, 3)),
            (true, true, (7, 5, 7), (3, 7, 3)),
        ] {
            let (shapes, turned) = problem(at, bt).column_major();
            assert_eq!(shapes, [first, second, (5, 3, 5)]);
            assert_eq!(turned, [bt, at]);
            // The shapes of the library's product fit: n x k by k x m.
            let seen = |(r, c, _): Shape, t: bool| if t { (c, r) } else { (r, c) };
            assert_eq!(seen(first, bt), (5, 7));
            assert_eq!(seen(second, at), (7, 3));
        }
        assert_eq!(problem(false, true).bytes(), [42, 70, 60]);
        assert_eq!(problem(false, true).to_string(), "gemm NT 3x5x7, f16 to f32");
    }
}
