//! Gives the linker an empty `libcuda.a`.
//!
//! `cuda-driver-sys` always asks for `-lcuda`, yet only its handle types are used here: every
//! driver function is looked up at run time (see `src/cuda`). The empty archive satisfies the
//! request on machines without a driver and leaves no trace in the binary.

use std::{env, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("libcuda.a"), b"!<arch>\n")?;
    println!("cargo:rustc-link-search=native={}", out.display());
    Ok(())
}
