//! Finding and loading libcublasLt.

use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use warplift::cuda::library::{Library, LibraryMissing, functions, open};

/// Environment variable that names the library, or the directory it is in.
pub const CUBLAS_VARIABLE: &str = "WARPLIFT_CUBLAS";

/// A failure of the library, or of finding it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CublasError {
    /// Not to be found.
    #[error("{0}; name it with --cublas or {CUBLAS_VARIABLE}")]
    Missing(#[from] LibraryMissing),
    /// A function is missing.
    #[error("libcublasLt has no function `{0}`")]
    Symbol(&'static str),
    /// A call failed.
    #[error("{function} failed with status {status}{}", status_name(*status))]
    Call {
        /// Function.
        function: &'static str,
        /// `cublasStatus_t`.
        status: u32,
    },
    /// The library has no algorithm for this product.
    #[error("cuBLASLt has no algorithm for {0}")]
    NoAlgorithm(String),
}

/// ` (NAME)` of a `cublasStatus_t`, where it is known.
fn status_name(status: u32) -> &'static str {
    match status {
        1 => " (CUBLAS_STATUS_NOT_INITIALIZED)",
        3 => " (CUBLAS_STATUS_ALLOC_FAILED)",
        7 => " (CUBLAS_STATUS_INVALID_VALUE)",
        8 => " (CUBLAS_STATUS_ARCH_MISMATCH)",
        13 => " (CUBLAS_STATUS_EXECUTION_FAILED)",
        14 => " (CUBLAS_STATUS_INTERNAL_ERROR)",
        15 => " (CUBLAS_STATUS_NOT_SUPPORTED)",
        _ => "",
    }
}

/// Names of the library, newest first.
const NAMES: [&str; 2] = ["libcublasLt.so.13", "libcublasLt.so.12"];

/// An opaque handle of the library.
pub(super) type Handle = *mut c_void;

/// `cublasLtMatmulAlgo_t` within `cublasLtMatmulHeuristicResult_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Heuristic {
    pub algorithm: [u64; 8],
    pub workspace: usize,
    pub status: u32,
    pub waves: f32,
    pub reserved: [i32; 4],
}

impl Heuristic {
    pub const NONE: Self = Self { algorithm: [0; 8], workspace: 0, status: 1, waves: 0.0, reserved: [0; 4] };
}

functions! {
    /// Entry points of cuBLASLt (cuBLAS Library, chapter "Using the cuBLASLt API").
    Api {
        cublasLtCreate(*mut Handle);
        cublasLtDestroy(Handle);
        cublasLtGetProperty(u32, *mut i32);
        cublasLtMatmulDescCreate(*mut Handle, u32, u32);
        cublasLtMatmulDescDestroy(Handle);
        cublasLtMatmulDescSetAttribute(Handle, u32, *const c_void, usize);
        cublasLtMatrixLayoutCreate(*mut Handle, u32, u64, u64, i64);
        cublasLtMatrixLayoutDestroy(Handle);
        cublasLtMatmulPreferenceCreate(*mut Handle);
        cublasLtMatmulPreferenceDestroy(Handle);
        cublasLtMatmulPreferenceSetAttribute(Handle, u32, *const c_void, usize);
        cublasLtMatmulAlgoGetHeuristic(
            Handle, Handle, Handle, Handle, Handle, Handle, Handle, i32, *mut Heuristic, *mut i32,
        );
        cublasLtMatmul(
            Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle,
            *const c_void, *const c_void, Handle, *mut c_void, Handle, *const u64, *mut c_void,
            usize, *mut c_void,
        );
    }
}

/// Opens the library: `given` (the option `--cublas`, a file or a directory), else
/// `WARPLIFT_CUBLAS`, else the loader's path, else the one that came with PyTorch.
pub(super) fn open_library(given: Option<&Path>) -> Result<(Library, OsString), LibraryMissing> {
    let named = given.map(Path::to_owned);
    let named = named.or_else(|| std::env::var_os(CUBLAS_VARIABLE).map(PathBuf::from));
    if let Some(path) = named {
        return open("the cuBLASLt that was named", at(&path));
    }
    match open("libcublasLt", NAMES.map(OsString::from)) {
        Ok(found) => Ok(found),
        Err(first) => open_from_python(first),
    }
}

/// The file itself, or the library's names in a directory.
fn at(path: &Path) -> Vec<OsString> {
    if path.is_dir() {
        return NAMES.iter().map(|name| path.join(name).into()).collect();
    }
    vec![path.into()]
}

fn open_from_python(first: LibraryMissing) -> Result<(Library, OsString), LibraryMissing> {
    let directories = python_directories();
    let candidates = directories.iter().flat_map(|directory| at(directory));
    open("libcublasLt", candidates).map_err(|mut missing| {
        missing.tried.splice(0..0, first.tried);
        if directories.is_empty() {
            missing.tried.push(("python3's nvidia packages".into(), "none installed".into()));
        }
        missing
    })
}

/// Prints where NVIDIA's Python packages are, without importing any.
const FINDER: &str = "import importlib.util as u; s = u.find_spec('nvidia'); \
    print(*(s.submodule_search_locations if s else []), sep='\\n')";

/// Directories of NVIDIA's Python packages that may hold the library.
fn python_directories() -> Vec<PathBuf> {
    let output = Command::new("python3").args(["-c", FINDER]).stdin(Stdio::null()).output();
    let text = output.map(|o| o.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let roots = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let inside = |root: &str| ["cu13/lib", "cublas/lib", "cu12/lib"].map(|d| Path::new(root).join(d));
    roots.flat_map(inside).filter(|d| d.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_candidate() {
        let missing = open_library(Some(Path::new("/no/such/libcublasLt.so"))).err();
        let tried = missing.map(|m| m.tried.len());
        assert_eq!(tried, Some(1));
        let root = std::env::temp_dir();
        let in_directory = at(&root);
        assert_eq!(in_directory.len(), 2);
        assert!(in_directory[0].to_string_lossy().ends_with("libcublasLt.so.13"));
    }

    #[test]
    fn the_layout_is_that_of_the_header() {
        assert_eq!(size_of::<Heuristic>(), 96);
    }
}
