//! The texts of the kernel library.

use std::collections::BTreeMap;
use std::{fs, io, path::Path};

/// All texts by name, which is the file's without its ending.
///
/// # Errors
/// The library's folder or a file cannot be read.
pub fn texts() -> io::Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/kernels"))? {
        let path = entry?.path();
        if let (Some(name), true) = (path.file_stem(), path.extension().is_some_and(|e| e == "tile")) {
            texts.insert(name.to_string_lossy().into_owned(), fs::read_to_string(&path)?);
        }
    }
    Ok(texts)
}
