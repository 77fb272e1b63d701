//! The tools as they must be: a SHA-256 for each program and platform, and the directory that is held to them.
//!
//! A hash of 44 megabytes takes longer than most compiles. So a directory that was found intact keeps the sizes and
//! times of its files in a file `verified` beside them; while these are the same, nothing is hashed again.

use super::{PACKAGES, ToolError};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A program of the pinned packages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pin<'p> {
    /// Its name.
    pub tool: &'static str,
    /// SHA-256 of its file, in hexadecimal digits.
    pub sha256: &'p str,
}

/// What the packages hold for one platform.
#[derive(Debug)]
pub(super) struct Platform {
    os: &'static str,
    arch: &'static str,
    /// Megabytes of the packages.
    pub megabytes: u32,
    /// The programs, each from the package at the same place in [`PACKAGES`].
    pub tools: [Pin<'static>; PACKAGES.len()],
}

const fn pin(tool: &'static str, sha256: &'static str) -> Pin<'static> {
    Pin { tool, sha256 }
}

/// Platforms that the packages exist for and that Warplift runs on.
const PLATFORMS: [Platform; 2] = [
    Platform {
        os: "linux",
        arch: "x86_64",
        megabytes: 43,
        tools: [
            pin("ptxas", "daba837a68265cae38c832d13399b61dab811891de9b8914defddef143b849f2"),
            pin("cuobjdump", "3bb1c6707df6df0bfeb9621aafb841fa203cd5a2a4840288197fe9d4338026f1"),
            pin("nvdisasm", "3bf19e7ab706ed8f68ecc2403d277b97dc110c52e0ac4c4f0c8eada5f7889c3c"),
        ],
    },
    Platform {
        os: "linux",
        arch: "aarch64",
        megabytes: 38,
        tools: [
            pin("ptxas", "a1941a04ca4fd233b2fbe50c625b1e72b3d5f79ebe80209a272c85482dfbb487"),
            pin("cuobjdump", "d0a26f11570f895dc1bbfca27d2b8ffecaaf04a82c93430922e8cd769abf628d"),
            pin("nvdisasm", "29aa9750249f95271b6095fc874f357945b0a73193097576f8d2bcceedd57241"),
        ],
    },
];

/// The packages of the platform that this program was built for.
///
/// # Errors
/// There are none for it.
pub(super) fn platform() -> Result<&'static Platform, ToolError> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let found = PLATFORMS.iter().find(|p| (p.os, p.arch) == (os, arch));
    found.ok_or(ToolError::Platform { os, arch })
}

/// A directory of tools and what they must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pinned<'p> {
    /// Where they lie.
    pub directory: &'p Path,
    /// What must lie there.
    pub tools: &'p [Pin<'p>],
}

impl Pinned<'_> {
    /// Whether every tool is the pinned one; hashes only what changed since it was last found so.
    ///
    /// # Errors
    /// The first tool that is missing or another one.
    pub fn check(&self) -> Result<(), ToolError> {
        let recorded = fs::read_to_string(self.record()).ok();
        match self.state() {
            Some(state) if recorded.as_ref() == Some(&state) => Ok(()),
            _ => self.hash(),
        }
    }

    /// Hashes every tool, and records that all are the pinned ones.
    ///
    /// # Errors
    /// The first tool that is missing or another one.
    pub fn hash(&self) -> Result<(), ToolError> {
        for pin in self.tools {
            let path = self.directory.join(pin.tool);
            let found = sha256(&path)?;
            if found != pin.sha256 {
                return Err(ToolError::Altered { path, found, pinned: pin.sha256.to_owned() });
            }
        }
        // A cache that cannot be written is hashed each time.
        let _ = self.state().map(|state| fs::write(self.record(), state));
        Ok(())
    }

    fn record(&self) -> PathBuf {
        self.directory.join("verified")
    }

    /// Hash, size and time of each file; `None` where one is missing.
    fn state(&self) -> Option<String> {
        let line = |pin: &Pin<'_>| {
            let about = fs::metadata(self.directory.join(pin.tool)).ok()?;
            let time = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            Some(format!("{} {} {} {}\n", pin.tool, pin.sha256, about.len(), time.as_nanos()))
        };
        self.tools.iter().map(line).collect()
    }
}

/// SHA-256 of a file, in hexadecimal digits.
pub(super) fn sha256(path: &Path) -> Result<String, ToolError> {
    let file = File::open(path).map_err(ToolError::file("reading", path))?;
    let mut hash = Sha256::new();
    std::io::copy(&mut BufReader::new(file), &mut hash).map_err(ToolError::file("reading", path))?;
    Ok(hex(&hash.finalize()))
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
