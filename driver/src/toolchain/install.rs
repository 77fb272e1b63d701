//! Fetching the pinned tools from the Python package index into the cache.
//!
//! ```text
//!  pip download ─► wheels ─ zipfile ─► programs ─ SHA-256 ─► rename to warplift/toolchain/VERSION
//! ```
//!
//! pip downloads the wheels (it knows mirrors, proxies and platforms) and Python's zipfile unpacks
//! them. Everything happens in a directory beside the final one, which is renamed into place at the
//! end: an interrupted installation leaves nothing that looks finished, and the next one removes what
//! it left. A lock file keeps tests that run at the same time from fetching twice.

use super::pins::{Pinned, Platform, platform};
use super::{OFFLINE_VARIABLE, PACKAGES, PTXAS_VERSION, ToolError, run};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether tools may be fetched, and who is told before they are.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// Whether they may.
    pub allowed: bool,
    /// Gets a line that says what is fetched, how large it is, and where it goes.
    pub tell: fn(&str),
}

impl Default for Fetch {
    /// Allowed unless `WARPLIFT_OFFLINE` is set; the line goes to standard error, past a test's capture.
    fn default() -> Self {
        let set = std::env::var_os(OFFLINE_VARIABLE).filter(|v| !v.is_empty() && v != "0");
        let tell = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
        Self { allowed: set.is_none(), tell }
    }
}

/// Where the tools of the pinned version are kept: `warplift/toolchain/VERSION` in the user's
/// cache directory.
///
/// # Errors
/// Neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache_dir() -> Result<PathBuf, ToolError> {
    Ok(user_cache()?.join("toolchain").join(PTXAS_VERSION))
}

/// `warplift` in the user's cache directory.
pub(super) fn user_cache() -> Result<PathBuf, ToolError> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let root = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(root.ok_or(ToolError::NoCache)?.join("warplift"))
}

/// Installs the tools into the cache unless the pinned ones are there, which is found out by their
/// SHA-256; `force` fetches them in any case. Returns the directory that holds them.
///
/// # Errors
/// No cache directory, no python3 with pip, no network, fetching is forbidden, or what came is not what is pinned.
pub fn install(force: bool, fetch: Fetch) -> Result<PathBuf, ToolError> {
    let (directory, platform) = (cache_dir()?, platform()?);
    let download = |to: &Path| {
        if !fetch.allowed {
            return Err(ToolError::Offline);
        }
        (fetch.tell)(&announcement(platform, &directory));
        download(to)
    };
    install_into(&Pinned { directory: &directory, tools: &platform.tools }, force, download)?;
    Ok(directory)
}

/// What is about to be fetched.
fn announcement(platform: &Platform, directory: &Path) -> String {
    let each: Vec<String> =
        platform.tools.iter().zip(PACKAGES).map(|(p, (_, v))| format!("{} {v}", p.tool)).collect();
    let (megabytes, to) = (platform.megabytes, directory.display());
    format!("fetching {} from the Python package index ({megabytes} MB) into {to}", each.join(", "))
}

/// Installs the pinned tools, with the wheels that `fetch` puts into a directory.
pub(super) fn install_into(
    pinned: &Pinned<'_>,
    force: bool,
    fetch: impl FnOnce(&Path) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    let target = pinned.directory;
    let parent = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(ToolError::file("creating", parent))?;
    let mut lock_path = target.as_os_str().to_owned();
    lock_path.push(".lock");
    let lock_path = PathBuf::from(lock_path);
    let lock = File::create(&lock_path).map_err(ToolError::file("creating", &lock_path))?;
    lock.lock().map_err(ToolError::file("locking", &lock_path))?;
    remove_leftovers(parent)?;
    if !force && pinned.hash().is_ok() {
        return Ok(());
    }
    let work = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent);
    let work = work.map_err(ToolError::file("creating in", parent))?;
    fetch(work.path())?;
    let bin = unpack(work.path(), pinned)?;
    if target.exists() {
        fs::remove_dir_all(target).map_err(ToolError::file("removing", target))?;
    }
    fs::rename(&bin, target).map_err(ToolError::file("renaming to", target))
}

/// Begins the name of a directory in which an installation works.
const UNFINISHED: &str = "unfinished-";

/// Removes what interrupted installations left; the lock says that none is at work.
fn remove_leftovers(parent: &Path) -> Result<(), ToolError> {
    for path in files_in(parent)? {
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(UNFINISHED)) {
            fs::remove_dir_all(&path).map_err(ToolError::file("removing", &path))?;
        }
    }
    Ok(())
}

fn download(directory: &Path) -> Result<(), ToolError> {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
    // Without a network the answer comes soon.
    command.args(["--retries", "2", "--timeout", "30"]);
    command.args(["--no-deps", "--only-binary=:all:", "-d"]).arg(directory);
    command.args(PACKAGES.map(|(name, version)| format!("{name}=={version}")));
    run(&mut command).map(drop).map_err(no_pip)
}

/// Tells a missing python3 or pip from a failure of pip.
fn no_pip(error: ToolError) -> ToolError {
    match error {
        ToolError::Start { program, .. } => ToolError::NoPip(format!("`{program}` is not on PATH")),
        ToolError::Failed { message, .. } if message.contains("No module named pip") => {
            ToolError::NoPip("`python3` has no pip".to_owned())
        }
        other => other,
    }
}

/// Unpacks every wheel in `directory` and gathers the tools in a directory of their own, which holds nothing but
/// the pinned ones.
fn unpack(directory: &Path, pinned: &Pinned<'_>) -> Result<PathBuf, ToolError> {
    let (tree, bin) = (directory.join("tree"), directory.join("bin"));
    fs::create_dir(&bin).map_err(ToolError::file("creating", &bin))?;
    for wheel in files_in(directory)? {
        if wheel.extension().is_some_and(|e| e == "whl") {
            let mut command = Command::new("python3");
            run(command.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&tree))?;
        }
    }
    for (pin, (package, _)) in pinned.tools.iter().zip(PACKAGES) {
        let found = find_tool(&tree, pin.tool, 6)?;
        let found =
            found.ok_or_else(|| ToolError::Incomplete { package: package.to_owned(), tool: pin.tool })?;
        let to = bin.join(pin.tool);
        fs::rename(&found, &to).map_err(ToolError::file("moving to", &to))?;
        make_executable(&to)?;
    }
    Pinned { directory: &bin, tools: pinned.tools }.hash()?;
    Ok(bin)
}

/// A file named `tool` in a directory named `bin`, at most `depth` levels down.
fn find_tool(directory: &Path, tool: &str, depth: u32) -> Result<Option<PathBuf>, ToolError> {
    let candidate = directory.join(tool);
    if directory.ends_with("bin") && candidate.is_file() {
        return Ok(Some(candidate));
    }
    if depth == 0 || !directory.is_dir() {
        return Ok(None);
    }
    for entry in files_in(directory)? {
        if entry.is_dir()
            && let Some(found) = find_tool(&entry, tool, depth - 1)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let read = |d| fs::read_dir(d)?.map(|e| Ok(e?.path())).collect::<std::io::Result<Vec<_>>>();
    read(directory).map_err(ToolError::file("reading", directory))
}

/// Zip files unpacked by Python lose their mode bits.
#[cfg(unix)]
fn make_executable(path: &Path) -> Result<(), ToolError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).map_err(ToolError::file("making executable", path))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> Result<(), ToolError> {
    Ok(())
}
