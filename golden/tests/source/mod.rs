//! The repository's own sources, for tests that read them.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are read.
const FOLDERS: [&str; 7] = ["ir", "isel", "sched", "regalloc", "emit", "driver", "golden"];
/// What builds and tools leave in them.
const LEFT: [&str; 5] = ["target", "corpus", "artifacts", "coverage", "__pycache__"];

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").to_owned()
}

/// All files of the folders, by their paths from the root.
pub fn files() -> BTreeSet<String> {
    let root = root();
    let mut found = BTreeSet::new();
    let mut folders: Vec<_> = FOLDERS.iter().map(|f| root.join(f)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry").path();
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            match path.is_dir() {
                true if LEFT.contains(&name.as_str()) || name.starts_with('.') => {}
                true => folders.push(path),
                false => drop(found.insert(path.strip_prefix(&root).expect("inside").display().to_string())),
            }
        }
    }
    found
}

/// Identifiers and single signs of a source, each with its line, without comments, strings and lifetimes.
pub fn tokens(source: &str) -> Vec<(usize, String)> {
    let (chars, mut at, mut all) = (source.chars().collect::<Vec<_>>(), 0, Vec::new());
    let mut line = 1;
    let until = |from: usize, end: &dyn Fn(usize) -> bool| {
        (from..chars.len()).find(|&i| end(i)).unwrap_or(chars.len())
    };
    while at < chars.len() {
        let (c, next) = (chars[at], chars.get(at + 1).copied().unwrap_or(' '));
        let raw = c == 'r' && matches!(next, '"' | '#');
        let from = at;
        at = if c == '/' && next == '/' {
            until(at, &|i| chars[i] == '\n')
        } else if raw && chars[at + 1..].iter().find(|c| **c != '#') == Some(&'"') {
            let signs = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            let closes = |i: usize| chars[i] == '"' && (1..=signs).all(|n| chars.get(i + n) == Some(&'#'));
            until(at + signs + 2, &closes) + signs + 1
        } else if c == '"' {
            let escaped = |i: usize| (0..i).rev().take_while(|&j| chars[j] == '\\').count() % 2 == 1;
            until(at + 1, &|i| chars[i] == '"' && !escaped(i)) + 1
        } else if c == '\'' {
            let character = next == '\\' || chars.get(at + 2) == Some(&'\'');
            if character {
                until(at + 3 - usize::from(next != '\\'), &|i| chars[i] == '\'') + 1
            } else {
                at + 1
            }
        } else if c.is_alphabetic() || c == '_' {
            let end = until(at, &|i| !chars[i].is_alphanumeric() && chars[i] != '_');
            all.push((line, chars[at..end].iter().collect()));
            end
        } else {
            all.extend((!c.is_whitespace()).then(|| (line, c.to_string())));
            at + 1
        };
        line += chars[from..at.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    all
}

/// The same without lines.
pub fn plain_tokens(source: &str) -> Vec<String> {
    tokens(source).into_iter().map(|t| t.1).collect()
}
