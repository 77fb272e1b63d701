//! The assembler and disassemblers of the CUDA toolkit, pinned and found at run time.
//!
//! ```text
//!  --ptxas / WARPLIFT_PTXAS ─┐
//!  cache, SHA-256 matching ──┼─► Toolchain ─► ptxas: PTX -> cubin, registers, spills, warnings
//!  PATH, version matching ───┘             └► nvdisasm: cubin -> SASS, live registers
//! ```
//!
//! The versions are pinned because what ptxas decides (order, registers) differs between them, and
//! the golden files record it. Where none is found, they are fetched from the Python package index on
//! first use: they are single programs that need neither a GPU nor the rest of the toolkit. What they made is kept on
//! disk ([`Cache`]).

mod cache;
mod disassemble;
mod elf;
mod install;
mod pins;
mod ptxas;

pub use cache::{CACHE_SIZE_VARIABLE, CACHE_VARIABLE, Cache, CacheStats};
pub use disassemble::{LiveRegisters, live_registers};
pub use install::{Fetch, cache_dir, install};
pub use ptxas::{Assembled, PtxasOptions, Warning};

use pins::Pinned;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Version of ptxas that everything is tested with.
pub const PTXAS_VERSION: &str = "13.0.88";

/// The packages that hold the tools, with their versions.
pub const PACKAGES: [(&str, &str); 3] = [
    ("nvidia-cuda-nvcc", PTXAS_VERSION),
    ("nvidia-cuda-cuobjdump", "13.5.37"),
    ("nvidia-cuda-nvdisasm", "13.5.37"),
];

/// Environment variable that names ptxas; an empty one counts as not set.
pub const PTXAS_VARIABLE: &str = "WARPLIFT_PTXAS";

/// Environment variable that forbids fetching the tools, unless it is empty or `0`.
pub const OFFLINE_VARIABLE: &str = "WARPLIFT_OFFLINE";

/// Why a tool could not be found, installed or run.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Nowhere to be found.
    #[error(
        "{tool} {version} not found (looked at: {}); `warplift toolchain install` fetches it",
        looked.join(", ")
    )]
    NotFound {
        /// Program.
        tool: &'static str,
        /// Version wanted.
        version: &'static str,
        /// Where was looked, in order, with what was wrong there.
        looked: Vec<String>,
    },
    /// A path was given and there is no program there.
    #[error("{origin} names {}, which cannot be run: {why}", path.display())]
    Given {
        /// Option or variable.
        origin: &'static str,
        /// Its value.
        path: PathBuf,
        /// Message of the system.
        why: String,
    },
    /// A program could not be started.
    #[error("{program} cannot be started: {error}")]
    Start {
        /// Program.
        program: String,
        /// Message of the system.
        error: std::io::Error,
    },
    /// Nothing to fetch the tools with.
    #[error(
        "{0}: fetching ptxas needs Python 3 with pip (Debian, Ubuntu: apt install python3-pip); \
         or name a ptxas {PTXAS_VERSION} by {PTXAS_VARIABLE}"
    )]
    NoPip(String),
    /// Fetching is forbidden.
    #[error("the tools are not in the cache, and `--offline` or {OFFLINE_VARIABLE} forbids fetching them")]
    Offline,
    /// There are no packages for this machine.
    #[error(
        "there are packages of ptxas for Linux on x86_64 and aarch64 only, not for {os} on {arch}; \
         name a ptxas {PTXAS_VERSION} by {PTXAS_VARIABLE}"
    )]
    Platform {
        /// Operating system.
        os: &'static str,
        /// Processor.
        arch: &'static str,
    },
    /// A tool is not the one that is pinned.
    #[error(
        "{} is not the pinned program: its SHA-256 is {found}, pinned is {pinned}; \
         `warplift toolchain install` repairs it", path.display()
    )]
    Altered {
        /// Its file.
        path: PathBuf,
        /// SHA-256 of the file.
        found: String,
        /// SHA-256 pinned.
        pinned: String,
    },
    /// A program ended with a failure.
    #[error("{program} failed: {message}")]
    Failed {
        /// Program.
        program: String,
        /// Its status and messages.
        message: String,
    },
    /// ptxas refused the text.
    #[error("ptxas rejected the PTX:\n{log}")]
    Rejected {
        /// Its messages.
        log: String,
    },
    /// ptxas ended well and left a part of a cubin, as on a full disk.
    #[error("ptxas left {bytes} bytes that are no whole cubin; is the disk of the temporary directory full?")]
    Cut {
        /// What it left.
        bytes: u64,
    },
    /// A file operation failed.
    #[error("{what} {}: {error}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Message of the system.
        error: std::io::Error,
    },
    /// The limit of the cache of results is no number.
    #[error("{CACHE_SIZE_VARIABLE}={0}: expected a whole number of megabytes, or 0 for no cache")]
    CacheSize(String),
    /// There is no place for the cache.
    #[error("neither XDG_CACHE_HOME nor HOME is set: no place for the toolchain cache")]
    NoCache,
    /// A package lacks a program.
    #[error("package {package} holds no {tool}")]
    Incomplete {
        /// Package.
        package: String,
        /// Program.
        tool: &'static str,
    },
}

impl ToolError {
    /// Makes an error of a file operation.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { what, path, error }
    }
}

/// The tools, found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// Path of ptxas.
    pub ptxas: PathBuf,
    /// What `ptxas --version` says, `13.0.88`.
    pub version: String,
    /// Directory that may hold the disassemblers beside ptxas.
    beside: Option<PathBuf>,
    /// What the tools made before.
    cache: Option<Cache>,
}

impl Toolchain {
    /// Finds ptxas: `given` (the option `--ptxas`), else `WARPLIFT_PTXAS`, else the cache, else a
    /// ptxas of the pinned version on PATH. A path that was given may have any version; what lies in the cache must
    /// be the pinned program. Results are kept in the user's cache ([`Cache::usual`]).
    ///
    /// # Errors
    /// Nothing found, the given path is no ptxas, or the size of the user's cache is no number.
    pub fn find(given: Option<&Path>) -> Result<Self, ToolError> {
        Ok(Self::find_uncached(given)?.cached(Cache::usual()?))
    }

    /// The same tools with another cache of results, or with none.
    pub fn cached(self, cache: Option<Cache>) -> Self {
        Self { cache, ..self }
    }

    fn find_uncached(given: Option<&Path>) -> Result<Self, ToolError> {
        if let Some(path) = given {
            return Self::at("--ptxas", path);
        }
        if let Some(path) = std::env::var_os(PTXAS_VARIABLE).filter(|v| !v.is_empty()) {
            return Self::at(PTXAS_VARIABLE, Path::new(&path));
        }
        let (directory, platform) = (cache_dir().ok(), pins::platform().ok());
        let cache = directory.as_deref().zip(platform);
        let cache = cache.map(|(directory, platform)| Pinned { directory, tools: &platform.tools });
        Self::search(cache.as_ref(), std::env::var_os("PATH").as_deref())
    }

    /// As [`Toolchain::find`], but fetches the tools where nothing is found, and anew where the cache holds others
    /// than the pinned ones.
    ///
    /// # Errors
    /// The given path is no ptxas, nothing is found and fetching is forbidden, or the installation fails.
    pub fn find_or_install(given: Option<&Path>, fetch: Fetch) -> Result<Self, ToolError> {
        match Self::find(given) {
            Err(ToolError::NotFound { .. }) if fetch.allowed => {
                let installed = install(false, fetch)?.join("ptxas");
                Ok(Self::new(&installed, PTXAS_VERSION.to_owned()).cached(Cache::usual()?))
            }
            other => other,
        }
    }

    fn at(origin: &'static str, path: &Path) -> Result<Self, ToolError> {
        let wrong = |why| ToolError::Given { origin, path: path.to_owned(), why };
        let version = version_of(path).map_err(wrong)?;
        Ok(Self::new(path, version))
    }

    fn new(path: &Path, version: String) -> Self {
        let beside = path.parent().map(Path::to_owned);
        Self { ptxas: path.to_owned(), version, beside, cache: None }
    }

    /// The cache, then every directory of `path`.
    fn search(cache: Option<&Pinned<'_>>, path: Option<&OsStr>) -> Result<Self, ToolError> {
        let mut looked = Vec::new();
        if let Some(cache) = cache.filter(|c| c.directory.exists()) {
            match cache.check() {
                Ok(()) => return Ok(Self::new(&cache.directory.join("ptxas"), PTXAS_VERSION.to_owned())),
                Err(why) => looked.push(why.to_string()),
            }
        }
        for directory in path.iter().flat_map(|p| std::env::split_paths(p)) {
            let candidate = directory.join("ptxas");
            if !candidate.is_file() {
                continue;
            }
            match version_of(&candidate) {
                Ok(version) if version == PTXAS_VERSION => {
                    return Ok(Self::new(&candidate, version));
                }
                Ok(version) => looked.push(format!("{} is {version}", candidate.display())),
                Err(why) => looked.push(format!("{}: {why}", candidate.display())),
            }
        }
        looked.push("the cache and PATH".to_owned());
        let (tool, version) = ("ptxas", PTXAS_VERSION);
        Err(ToolError::NotFound { tool, version, looked })
    }

    /// A disassembler: beside ptxas, in the cache, or on PATH from a toolkit of CUDA 13.
    fn companion(&self, tool: &'static str) -> Result<PathBuf, ToolError> {
        let own = [self.beside.clone(), cache_dir().ok()];
        let own = own.into_iter().flatten().map(|d| d.join(tool));
        if let Some(found) = own.into_iter().find(|p| p.is_file()) {
            return Ok(found);
        }
        let path = PathBuf::from(tool);
        match version_of(&path) {
            Ok(version) if version.starts_with("13.") => Ok(path),
            Ok(version) => Err(not_found(tool, format!("PATH has {version}"))),
            Err(why) => Err(not_found(tool, format!("PATH: {why}"))),
        }
    }
}

fn not_found(tool: &'static str, looked: String) -> ToolError {
    ToolError::NotFound {
        tool,
        version: "13",
        looked: vec!["beside ptxas".into(), "the cache".into(), looked],
    }
}

/// The version that a tool of the toolkit reports: `V13.0.88` in its `--version`.
fn version_of(path: &Path) -> Result<String, String> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().find_map(|word| word.strip_prefix('V'));
    let digits = |v: &&str| v.starts_with(|c: char| c.is_ascii_digit());
    let version = version.filter(digits);
    version.map(str::to_owned).ok_or_else(|| "no version in its --version".to_owned())
}

/// Runs a program to its end; a failure carries its messages.
fn run(command: &mut Command) -> Result<Output, ToolError> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => {
            Err(ToolError::Failed { program, message: format!("{}\n{}", output.status, messages(&output)) })
        }
        Err(error) => Err(ToolError::Start { program, error }),
    }
}

/// Both output streams of a program, trimmed.
fn messages(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    [out.trim(), err.trim()].join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests;
