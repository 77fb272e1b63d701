//! A cache on disk of what ptxas and the disassemblers print and write.
//!
//! ```text
//!  PTX or cubin ───────────┐
//!  SHA-256 of the program ─┼─ SHA-256 ─► key ─► S/KEY ─ there and intact ─► marked as used, returned
//!  its options ────────────┘               S: one of 16 shards  └ else: run the program ─► temporary file
//!                                             the entries used longest ago go ◄─ rename to S/KEY ◄─┘
//! ```
//!
//! The name of an entry is the hash of everything that decides its contents, so an entry never becomes stale. An entry
//! appears whole, by a rename: two writers of one key write the same, and readers need no lock. Each entry begins with
//! the hash of its contents. One that was cut or altered is removed and made anew. Each shard holds a sixteenth of the
//! limit, so a write looks at few files.

use super::ToolError;
use super::install::user_cache;
use super::pins::{hex, sha256};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Environment variable that names the cache's directory; an empty one counts as not set.
pub const CACHE_VARIABLE: &str = "WARPLIFT_CACHE_DIR";

/// Environment variable for the cache's limit in megabytes; 0 turns the cache off.
pub const CACHE_SIZE_VARIABLE: &str = "WARPLIFT_CACHE_SIZE";

/// Megabytes of the cache where [`CACHE_SIZE_VARIABLE`] is not set.
const MEGABYTES: u64 = 512;

/// Begins every entry. A change of the format changes it.
const FORMAT: &str = "warplift-cache-1";

/// Directories of entries, named by the first digit of the key.
const SHARDS: &str = "0123456789abcdef";

/// Begins the name of an entry that is still being written.
const UNFINISHED: &str = "unfinished-";

/// Age after which an unfinished entry belongs to nobody.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Results of programs, in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    directory: PathBuf,
    limit: u64,
}

/// The contents of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Results.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// An entry's file.
struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
    finished: bool,
}

impl Cache {
    /// The user's cache: `WARPLIFT_CACHE_DIR`, else `warplift/results` in the user's cache directory. `None` where
    /// there is no place for it, or its size is 0.
    ///
    /// # Errors
    /// `WARPLIFT_CACHE_SIZE` is no whole number.
    pub fn usual() -> Result<Option<Self>, ToolError> {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        let megabytes = match set(CACHE_SIZE_VARIABLE).map(|v| v.to_string_lossy().into_owned()) {
            Some(text) => text.trim().parse().map_err(|_| ToolError::CacheSize(text))?,
            None => MEGABYTES,
        };
        let usual = || user_cache().ok().map(|root| root.join("results"));
        let directory = set(CACHE_VARIABLE).map(PathBuf::from).or_else(usual);
        let on = directory.filter(|_| megabytes > 0);
        Ok(on.map(|directory| Self::at(&directory, megabytes.saturating_mul(1 << 20))))
    }

    /// A cache in a directory, which is created on first use, of at most so many bytes.
    pub fn at(directory: &Path, limit: u64) -> Self {
        Self { directory: directory.to_owned(), limit }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The most bytes that it holds.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Counts the entries.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn stats(&self) -> Result<CacheStats, ToolError> {
        let mut stats = CacheStats::default();
        for entry in self.entries()?.into_iter().filter(|e| e.finished) {
            stats.entries += 1;
            stats.bytes += entry.bytes;
        }
        Ok(stats)
    }

    /// Removes all entries; returns what there was.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self) -> Result<CacheStats, ToolError> {
        let stats = self.stats()?;
        for entry in self.entries()? {
            remove(&entry.path).map_err(ToolError::file("removing", &entry.path))?;
        }
        Ok(stats)
    }

    fn entries(&self) -> Result<Vec<Entry>, ToolError> {
        let mut all = Vec::new();
        for shard in SHARDS.chars() {
            let shard = self.directory.join(shard.to_string());
            all.extend(entries_in(&shard).map_err(ToolError::file("reading", &shard))?);
        }
        Ok(all)
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(&key[..1]).join(key)
    }

    /// An entry, if it is there and intact. One that is not intact is removed.
    fn get(&self, key: &str) -> Option<[Vec<u8>; 2]> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let parts = decode(key, &bytes);
        match parts {
            // The time of a file that cannot be touched stays; the entry then goes sooner.
            Some(_) => {
                drop(File::options().append(true).open(&path).and_then(|f| f.set_modified(SystemTime::now())))
            }
            None => drop(remove(&path)),
        }
        parts
    }

    /// Writes an entry, then removes those used longest ago that are too many.
    fn put(&self, key: &str, parts: [&[u8]; 2]) -> std::io::Result<()> {
        let path = self.path(key);
        let shard = path.parent().unwrap_or(&self.directory);
        fs::create_dir_all(shard)?;
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(shard)?;
        file.write_all(&encode(key, parts))?;
        file.persist(&path).map_err(|e| e.error)?;
        self.trim(shard)
    }

    fn trim(&self, shard: &Path) -> std::io::Result<()> {
        let mut entries = entries_in(shard)?;
        entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
        let (now, most) = (SystemTime::now(), self.limit / SHARDS.len() as u64);
        let mut sum = 0;
        for entry in entries {
            let age = now.duration_since(entry.used).unwrap_or_default();
            sum += if entry.finished { entry.bytes } else { 0 };
            if if entry.finished { sum > most } else { age > ABANDONED } {
                remove(&entry.path)?;
            }
        }
        Ok(())
    }

    /// SHA-256 of a program. It is kept beside the entries together with size and time of the file, since hashing takes
    /// longer than most compiles.
    fn identity(&self, program: &Path) -> Option<String> {
        let about = fs::metadata(program).ok()?;
        let time = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let state = format!("{} {} {}", program.display(), about.len(), time.as_nanos());
        let key = key_of(&[b"program", state.as_bytes()]);
        if let Some([hash, _]) = self.get(&key) {
            return String::from_utf8(hash).ok();
        }
        let hash = sha256(program).ok()?;
        // A cache that cannot be written hashes each time.
        let _ = self.put(&key, [hash.as_bytes(), &[]]);
        Some(hash)
    }
}

/// What a program makes of an input: kept from an earlier run, or made now and kept. `asked` is everything beside the
/// program that decides the result. A kept result that is not `whole` is made anew. A cache that cannot be read or written keeps nothing from being made.
///
/// # Errors
/// Those of `make`; failures are not kept.
pub(super) fn kept(
    cache: Option<&Cache>,
    program: &Path,
    asked: &[&[u8]],
    whole: fn(&[u8]) -> bool,
    make: impl FnOnce() -> Result<[Vec<u8>; 2], ToolError>,
) -> Result<[Vec<u8>; 2], ToolError> {
    let identified = cache.and_then(|cache| Some((cache, cache.identity(program)?)));
    let Some((cache, identity)) = identified else { return make() };
    let key = key_of(&[&[identity.as_bytes()], asked].concat());
    if let Some(found) = cache.get(&key).filter(|found| whole(&found[0])) {
        return Ok(found);
    }
    let made = make()?;
    let _ = cache.put(&key, [&made[0], &made[1]]);
    Ok(made)
}

/// The hash of several texts, each with its length.
fn key_of(texts: &[&[u8]]) -> String {
    let mut hash = Sha256::new_with_prefix(FORMAT);
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hex(&hash.finalize())
}

/// `FORMAT SHA-256 LENGTH\n`, and both parts; the length is that of the first one.
fn encode(key: &str, [first, second]: [&[u8]; 2]) -> Vec<u8> {
    let sum = key_of(&[key.as_bytes(), first, second]);
    let header = format!("{FORMAT} {sum} {}\n", first.len());
    [header.as_bytes(), first, second].concat()
}

/// The parts, if they are those that were written.
fn decode(key: &str, bytes: &[u8]) -> Option<[Vec<u8>; 2]> {
    let end = bytes.iter().position(|&b| b == b'\n')?;
    let header = std::str::from_utf8(&bytes[..end]).ok()?.strip_prefix(FORMAT)?;
    let (sum, length) = header.trim_start().split_once(' ')?;
    let (first, second) = bytes[end + 1..].split_at_checked(length.parse().ok()?)?;
    let intact = key_of(&[key.as_bytes(), first, second]) == sum;
    intact.then(|| [first.to_vec(), second.to_vec()])
}

/// The files of a shard; one that another process removes meanwhile is left out.
fn entries_in(shard: &Path) -> std::io::Result<Vec<Entry>> {
    let listed = match fs::read_dir(shard) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut entries = Vec::new();
    for item in listed {
        let path = item?.path();
        let Ok(about) = fs::metadata(&path) else { continue };
        let finished = path.file_name().is_some_and(|n| !n.to_string_lossy().starts_with(UNFINISHED));
        entries.push(Entry { path, bytes: about.len(), used: about.modified()?, finished });
    }
    Ok(entries)
}

/// Removes a file that may be gone already.
fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn cache(limit: u64) -> (tempfile::TempDir, Cache) {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(&root.path().join("results"), limit);
        (root, cache)
    }

    /// So many keys of one shard.
    fn keys(count: usize) -> Vec<String> {
        let all = (0..).map(|n: u32| key_of(&[&n.to_le_bytes()]));
        all.filter(|k| k.starts_with('0')).take(count).collect()
    }

    #[test]
    fn what_was_put_comes_back_and_is_cleared() {
        let (_root, cache) = cache(1 << 20);
        let key = &keys(1)[0];
        assert_eq!((cache.get(key), cache.stats().unwrap()), (None, CacheStats::default()));
        cache.put(key, [b"one\n", b"two"]).unwrap();
        assert_eq!(cache.get(key), Some([b"one\n".to_vec(), b"two".to_vec()]));
        let stats = cache.clear().unwrap();
        assert!(stats.entries == 1 && stats.bytes > 7, "{stats:?}");
        assert_eq!((cache.get(key), cache.stats().unwrap()), (None, CacheStats::default()));
    }

    #[test]
    fn an_entry_that_was_cut_or_altered_is_removed() {
        let (_root, cache) = cache(1 << 20);
        let keys = keys(2);
        let whole = encode(&keys[0], [b"some contents", b"more"]);
        let mut altered = whole.clone();
        *altered.last_mut().unwrap() ^= 1;
        for wrong in [&whole[..whole.len() / 2], &whole[..whole.len() - 1], &altered, b""] {
            cache.put(&keys[0], [b"some contents", b"more"]).unwrap();
            fs::write(cache.path(&keys[0]), wrong).unwrap();
            assert_eq!(cache.get(&keys[0]), None, "{wrong:?}");
            assert!(!cache.path(&keys[0]).exists(), "it is removed");
        }
        // An intact entry under another's name is not that one.
        cache.put(&keys[1], [b"", b""]).unwrap();
        fs::write(cache.path(&keys[1]), &whole).unwrap();
        assert_eq!(cache.get(&keys[1]), None);
    }

    #[test]
    fn the_entries_used_longest_ago_go() {
        let (keys, contents) = (keys(4), [7; 1000]);
        let size = encode(&keys[0], [&contents, &[]]).len() as u64;
        let (_root, cache) = cache(16 * (3 * size));
        let used = |key: &str, seconds| {
            let file = File::options().append(true).open(cache.path(key)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        for (key, seconds) in keys.iter().zip([30, 10, 20]) {
            cache.put(key, [&contents, &[]]).unwrap();
            used(key, seconds);
        }
        assert!(cache.get(&keys[1]).is_some(), "now it is the one used last");
        cache.put(&keys[3], [&contents, &[]]).unwrap();
        let there: Vec<bool> = keys.iter().map(|k| cache.path(k).exists()).collect();
        assert_eq!(there, [true, true, false, true]);
    }

    #[test]
    fn an_unfinished_entry_is_none_and_goes_when_it_is_old() {
        let (_root, cache) = cache(1 << 20);
        let keys = keys(2);
        cache.put(&keys[0], [b"", b""]).unwrap();
        let left = cache.directory().join("0").join(format!("{UNFINISHED}x"));
        fs::write(&left, "half").unwrap();
        assert_eq!(cache.stats().unwrap().entries, 1);
        cache.put(&keys[1], [b"", b""]).unwrap();
        assert!(left.exists(), "its writer may be at work");
        let file = File::options().append(true).open(&left).unwrap();
        file.set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        cache.put(&keys[1], [b"", b""]).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn many_writers_and_readers_see_only_whole_entries() {
        let (_root, cache) = cache(1 << 30);
        let keys = keys(8);
        let contents = |key: &str| key.as_bytes().repeat(2000);
        thread::scope(|s| {
            for worker in 0..4 {
                let (cache, keys) = (&cache, &keys);
                s.spawn(move || {
                    for round in 0..40 {
                        let key = &keys[(worker + round) % keys.len()];
                        if let Some([found, _]) = cache.get(key) {
                            assert_eq!(found, contents(key));
                        }
                        cache.put(key, [&contents(key), b"log"]).unwrap();
                    }
                });
            }
        });
        assert!(keys.iter().all(|k| cache.get(k) == Some([contents(k), b"log".to_vec()])));
        assert_eq!(cache.stats().unwrap().entries, 8);
    }

    #[test]
    fn a_result_is_made_once_for_one_program_and_one_question() {
        let (root, cache) = cache(1 << 20);
        let program = root.path().join("program");
        fs::write(&program, "first").unwrap();
        let made = std::cell::Cell::new(0);
        let ask = |question: &str| {
            let make = || {
                made.set(made.get() + 1);
                Ok([b"answer".to_vec(), question.as_bytes().to_vec()])
            };
            let answer = kept(Some(&cache), &program, &[question.as_bytes()], |_| true, make).unwrap();
            assert_eq!(answer, [b"answer".to_vec(), question.as_bytes().to_vec()]);
            made.get()
        };
        assert_eq!([ask("a"), ask("a"), ask("b"), ask("a"), ask("b")], [1, 1, 2, 2, 2]);
        fs::write(&program, "another").unwrap();
        assert_eq!([ask("a"), ask("a")], [3, 3], "another program");
        let failing = || Err(ToolError::NoCache);
        assert!(kept(Some(&cache), &program, &[b"c"], |_| true, failing).is_err());
        assert_eq!(ask("c"), 4, "failures are not kept");
        let again = || Ok([b"other".to_vec(), Vec::new()]);
        let whole = |bytes: &[u8]| bytes == b"other";
        let answer = kept(Some(&cache), &program, &[b"c"], whole, again).unwrap();
        assert_eq!(answer[0], b"other", "what is not whole is made anew");
        let [found, _] = kept(Some(&cache), &program, &[b"c"], whole, failing).unwrap();
        assert_eq!(found, b"other", "and kept");
    }
}
