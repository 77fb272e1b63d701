//! The user's tuning file, which `tune` writes and every choice of a mapping reads.
//!
//! ```text
//!  WARPLIFT_TUNING, or `tuning` beside the cache ─► records ─► --mapping auto, bundle
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use warplift::toolchain::Cache;
use warplift::tuning::Tunings;

/// Environment variable that names the tuning file.
const FILE_VARIABLE: &str = "WARPLIFT_TUNING";

/// The user's tuning file; `None` where there is no place for it.
pub fn usual_file() -> Option<PathBuf> {
    let set = std::env::var_os(FILE_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
    let beside = || Cache::usual().ok().flatten().map(|cache| cache.directory().with_file_name("tuning"));
    set.or_else(beside)
}

/// The records of the user's tuning file. A file that cannot be read is named and not used.
pub fn usual_tunings() -> Option<Arc<Tunings>> {
    let path = usual_file()?;
    let read = Tunings::read(&path).map_err(|e| eprintln!("{}: {e}", path.display())).ok()?;
    (!read.is_empty()).then(|| Arc::new(read))
}
