//! The file of a bundle.
//!
//! ```text
//!  warplift-bundle 1\n
//!  {"kernel": .., "entries": [{"mapping": .., "manifest": {..}, "code": "cubin", "bytes": 9000, "sha256": ".."}], ..}\n
//!  code of entry 0, code of entry 1, ..
//! ```
//!
//! A reader takes one version. Each code has its length and its hash, so a file that was cut or altered is refused.

use super::table::Table;
use super::{Bundle, BundleError, Code, Entry};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use warplift_ir::manifest::{MANIFEST_VERSION, Manifest};

/// The version of the format. The first change after a release raises it.
pub const BUNDLE_VERSION: u32 = 2;

const MAGIC: &str = "warplift-bundle ";

/// Everything but the code.
#[derive(Serialize, Deserialize)]
struct Index {
    kernel: String,
    target: String,
    compiler: String,
    entries: Vec<Described>,
    table: Table,
}

/// An entry, and where its code ends.
#[derive(Serialize, Deserialize)]
struct Described {
    mapping: String,
    manifest: Manifest,
    code: Kind,
    bytes: u64,
    sha256: String,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Cubin,
    Ptx,
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

impl Bundle {
    /// The bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let described = self.entries.iter().map(|entry| Described {
            mapping: entry.mapping.clone(),
            manifest: entry.manifest.clone(),
            code: if matches!(entry.code, Code::Cubin(_)) { Kind::Cubin } else { Kind::Ptx },
            bytes: entry.code.bytes().len() as u64,
            sha256: hash(entry.code.bytes()),
        });
        let index = Index {
            kernel: self.kernel.clone(),
            target: self.target.clone(),
            compiler: self.compiler.clone(),
            entries: described.collect(),
            table: self.table.clone(),
        };
        let index = serde_json::to_string(&index).expect("an index is names, numbers and manifests");
        let mut bytes = format!("{MAGIC}{BUNDLE_VERSION}\n{index}\n").into_bytes();
        self.entries.iter().for_each(|entry| bytes.extend(entry.code.bytes()));
        bytes
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// Another format or version, a file that was cut or altered, a table that names an entry that is not there.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BundleError> {
        let (head, rest) = line(bytes).ok_or(BundleError::NoBundle)?;
        let version = head.strip_prefix(MAGIC).ok_or(BundleError::NoBundle)?;
        if version != BUNDLE_VERSION.to_string() {
            return Err(BundleError::Version { found: version.chars().take(20).collect() });
        }
        let (index, mut rest) = line(rest).ok_or_else(|| broken("it ends in its index"))?;
        let index: Index = serde_json::from_str(index).map_err(|e| broken(&format!("its index: {e}")))?;
        let mut entries = Vec::with_capacity(index.entries.len());
        for described in index.entries {
            let length = usize::try_from(described.bytes).unwrap_or(usize::MAX);
            let cut = || broken(&format!("the code of entry {} is cut", entries.len()));
            let (code, after) = rest.split_at_checked(length).ok_or_else(cut)?;
            rest = after;
            let entry =
                opened(described, code).map_err(|why| broken(&format!("entry {}: {why}", entries.len())))?;
            entries.push(entry);
        }
        if !rest.is_empty() {
            return Err(broken("bytes follow its last code"));
        }
        let (kernel, target, compiler, table) = (index.kernel, index.target, index.compiler, index.table);
        checked(Self { kernel, target, compiler, entries, table })
    }
}

fn broken(why: &str) -> BundleError {
    BundleError::Broken(why.to_owned())
}

/// A line, without its end, and what follows it.
fn line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|&b| b == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

fn opened(described: Described, code: &[u8]) -> Result<Entry, String> {
    let Described { mapping, manifest, code: kind, sha256, .. } = described;
    if manifest.version != MANIFEST_VERSION {
        return Err(format!("a manifest of version {}, {MANIFEST_VERSION} is read", manifest.version));
    }
    if hash(code) != sha256 {
        return Err("its code is not what was written".to_owned());
    }
    let code = match kind {
        Kind::Cubin => Code::Cubin(code.to_vec()),
        Kind::Ptx => Code::Ptx(String::from_utf8(code.to_vec()).map_err(|e| e.to_string())?),
    };
    Ok(Entry { mapping, manifest, code })
}

/// A bundle whose table fits its entries.
fn checked(bundle: Bundle) -> Result<Bundle, BundleError> {
    let (entries, names) = (bundle.entries.len(), bundle.table.names.len());
    let class = &bundle.table.classes;
    if class.is_empty() || class.iter().any(|c| c.entry as usize >= entries || c.ranges.len() != names) {
        return Err(broken("its table does not fit its entries"));
    }
    // What a caller passes. Which arrays may be read early is a matter of each mapping.
    let passed = |e: &Entry| {
        let each = e.manifest.arguments.iter().map(|a| (a.name.clone(), a.ty.clone(), a.packing.clone()));
        each.collect::<Vec<_>>()
    };
    if bundle.entries.iter().any(|e| passed(e) != passed(&bundle.entries[0])) {
        return Err(broken("its entries differ in their arguments"));
    }
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    #[test]
    fn a_file_comes_back_as_it_was() {
        let bundle = small();
        assert_eq!(Bundle::from_bytes(&bundle.to_bytes()).unwrap(), bundle);
    }

    #[test]
    fn a_file_that_was_cut_or_altered_is_refused() {
        let bytes = small().to_bytes();
        let refused = |bytes: &[u8]| Bundle::from_bytes(bytes).unwrap_err().to_string();
        for length in 0..bytes.len() {
            assert!(!refused(&bytes[..length]).is_empty(), "{length}");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            bytes
        };
        assert!(refused(&with(bytes.len() - 1, b'!')).contains("its code is not what was written"));
        assert!(refused(&with(0, b'W')).contains("is no bundle"));
        assert!(
            refused(&with(MAGIC.len(), b'9')).contains(&format!("version 9, this reads {BUNDLE_VERSION}"))
        );
        assert!(refused(&[&bytes[..], b"x"].concat()).contains("bytes follow"));
        let named = b"\"entry\":1";
        let at = bytes.windows(named.len()).position(|w| w == named).unwrap();
        assert!(refused(&with(at + named.len() - 1, b'7')).contains("does not fit"));
    }
}
