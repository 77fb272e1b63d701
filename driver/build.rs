//! Sees to it that the linker finds a libcuda, and never in place of a real one.
//!
//! ```text
//!  the linker finds libcuda by itself, or RUSTFLAGS name its folder ─► nothing to do
//!  a CUDA toolkit has it, or its stub                               ─► that folder
//!  nowhere                                                          ─► nowhere/libcuda.a, which is empty
//! ```
//!
//! `cuda-driver-sys` always asks for `-lcuda`, yet only its handle types are used here: every driver function is
//! looked up at run time (see `src/cuda`). The empty archive satisfies the request on machines without a driver and
//! leaves no trace in the binary. It lies beside this file and not in `OUT_DIR`, because cargo lets the linker look
//! into folders of its own first: a crate beside ours that names a libcuda in its build script would get the empty one.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables that say where the linker looks.
const LINKER: [&str; 2] = ["LIBRARY_PATH", "CARGO_ENCODED_RUSTFLAGS"];

/// Variables that name toolkits.
const TOOLKITS: [&str; 4] = ["CUDA_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];

/// Folders of a toolkit that hold libraries.
const INSIDE: [&str; 7] = [
    "",
    "lib64",
    "lib64/stubs",
    "lib",
    "lib/stubs",
    "targets/x86_64-linux/lib",
    "targets/x86_64-linux/lib/stubs",
];

/// Where toolkits and drivers lie without a variable.
const USUAL: [&str; 5] =
    ["/usr/local/cuda", "/opt/cuda", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/wsl"];

/// Names of a libcuda for the linker.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.a"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    LINKER.iter().chain(&TOOLKITS).for_each(|v| println!("cargo:rerun-if-env-changed={v}"));
    if env::var_os("CARGO_FEATURE_CUDA").is_none() || found_by_linker() || flags().iter().any(|f| holds(f)) {
        return;
    }
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = toolkits().into_iter().find(|f| holds(f)).unwrap_or(own.join("nowhere"));
    println!("cargo:rustc-link-search=native={}", folder.display());
}

/// Whether a folder has a libcuda, real or stub.
fn holds(folder: &Path) -> bool {
    NAMES.iter().any(|name| folder.join(name).exists())
}

/// Whether the linker's own folders have one: those of `LIBRARY_PATH` and the system's.
fn found_by_linker() -> bool {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| OsString::from("cc"));
    // The name comes back without a folder where there is none.
    let finds = |name: &&str| {
        let asked = Command::new(&linker).arg(format!("-print-file-name={name}")).output();
        asked.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_absolute())
    };
    NAMES.iter().any(finds)
}

/// Folders that `RUSTFLAGS` name with `-L`.
fn flags() -> Vec<PathBuf> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mut words = flags.split('\x1f');
    let mut folders = Vec::new();
    while let Some(word) = words.next() {
        let folder = if word == "-L" { words.next() } else { word.strip_prefix("-L") };
        let plain = |f: &str| f.split_once('=').map_or(f, |(_, path)| path).to_owned();
        folders.extend(folder.map(|f| PathBuf::from(plain(f))));
    }
    folders
}

/// Folders of toolkits, those that variables name first.
fn toolkits() -> Vec<PathBuf> {
    let named = TOOLKITS.iter().filter_map(env::var_os);
    let named = named.flat_map(|all| env::split_paths(&all).collect::<Vec<_>>());
    let roots: Vec<PathBuf> = named.chain(USUAL.iter().map(PathBuf::from)).collect();
    roots.iter().flat_map(|root| INSIDE.map(|i| root.join(i))).collect()
}
