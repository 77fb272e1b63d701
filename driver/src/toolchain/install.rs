//! Fetching the pinned tools from the Python package index into the cache.
//!
//! pip downloads the wheels (it knows mirrors, proxies and platforms) and Python's zipfile unpacks
//! them. Everything happens in a directory beside the final one, which is renamed into place at the
//! end: an interrupted installation leaves nothing that looks finished. A lock file keeps tests
//! that run at the same time from fetching twice.

use super::{PACKAGES, PTXAS_VERSION, TOOLS, ToolError, run};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the tools of the pinned version are kept: `warplift/toolchain/VERSION` in the user's
/// cache directory.
///
/// # Errors
/// Neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache_dir() -> Result<PathBuf, ToolError> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let root = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let root = root.ok_or(ToolError::NoCache)?;
    Ok(root.join("warplift").join("toolchain").join(PTXAS_VERSION))
}

/// Installs the tools into the cache unless they are there; returns the directory that holds them.
///
/// # Errors
/// No cache directory, no python3 with pip, no network, or an incomplete package.
pub fn install() -> Result<PathBuf, ToolError> {
    install_into(&cache_dir()?, download)
}

/// Installs into `target`, with the wheels that `fetch` puts into a directory.
pub(super) fn install_into(
    target: &Path,
    fetch: impl FnOnce(&Path) -> Result<(), ToolError>,
) -> Result<PathBuf, ToolError> {
    let parent = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(ToolError::file("creating", parent))?;
    let mut lock_path = target.as_os_str().to_owned();
    lock_path.push(".lock");
    let lock_path = PathBuf::from(lock_path);
    let lock = File::create(&lock_path).map_err(ToolError::file("creating", &lock_path))?;
    lock.lock().map_err(ToolError::file("locking", &lock_path))?;
    if TOOLS.iter().all(|tool| target.join(tool).is_file()) {
        return Ok(target.to_owned());
    }
    let work = tempfile::tempdir_in(parent).map_err(ToolError::file("creating in", parent))?;
    fetch(work.path())?;
    let bin = unpack(work.path())?;
    if target.exists() {
        fs::remove_dir_all(target).map_err(ToolError::file("removing", target))?;
    }
    fs::rename(&bin, target).map_err(ToolError::file("renaming to", target))?;
    Ok(target.to_owned())
}

fn download(directory: &Path) -> Result<(), ToolError> {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
    command.args(["--no-deps", "--only-binary=:all:", "-d"]).arg(directory);
    command.args(PACKAGES.map(|(name, version)| format!("{name}=={version}")));
    run(&mut command).map(drop)
}

/// Unpacks every wheel in `directory` and gathers the tools in a directory of their own.
fn unpack(directory: &Path) -> Result<PathBuf, ToolError> {
    let (tree, bin) = (directory.join("tree"), directory.join("bin"));
    fs::create_dir(&bin).map_err(ToolError::file("creating", &bin))?;
    for wheel in files_in(directory)? {
        if wheel.extension().is_some_and(|e| e == "whl") {
            let mut command = Command::new("python3");
            run(command.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&tree))?;
        }
    }
    for (tool, (package, _)) in TOOLS.into_iter().zip(PACKAGES) {
        let found = find_tool(&tree, tool, 6)?
            .ok_or_else(|| ToolError::Incomplete { package: package.to_owned(), tool })?;
        let to = bin.join(tool);
        fs::rename(&found, &to).map_err(ToolError::file("moving to", &to))?;
        make_executable(&to)?;
    }
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
