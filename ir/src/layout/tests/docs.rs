//! `docs/layouts.md` says what the tool says: every `warplift layout` block and every picture is compared. With `UPDATE_DOCS` set
//! they are written instead.

use crate::layout::report::layout;
use std::path::{Path, PathBuf};

/// The folder of documentation.
fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Compares a file, or writes it.
fn same(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    assert!(found == text, "{} is not current: run the test with UPDATE_DOCS=1", path.display());
}

/// A report; where the document ends the block with `...`, without the table.
fn shown(expr: &str, block: &str) -> String {
    let text = layout(expr).unwrap().to_string();
    match (block.lines().any(|l| l == "..."), text.split_once("\n\n")) {
        (true, Some((head, _))) => format!("{head}\n...\n"),
        _ => text,
    }
}

#[test]
fn blocks_are_current() {
    let path = docs().join("layouts.md");
    let old = std::fs::read_to_string(&path).unwrap();
    let (mut new, mut rest, mut count) = (String::new(), old.as_str(), 0);
    while let Some(at) = rest.find("$ warplift layout '") {
        let line_end = at + rest[at..].find('\n').unwrap() + 1;
        let expr =
            rest[at..line_end].trim_end().trim_start_matches("$ warplift layout '").trim_end_matches('\'');
        let block_end = line_end + rest[line_end..].find("```").unwrap();
        new.push_str(&rest[..line_end]);
        new.push_str(&shown(expr, &rest[line_end..block_end]));
        rest = &rest[block_end..];
        count += 1;
    }
    new.push_str(rest);
    assert!(count >= 5);
    same(&path, &new);
}

#[test]
fn pictures_are_current() {
    let text = std::fs::read_to_string(docs().join("layouts.md")).unwrap();
    let mut count = 0;
    // ![EXPR](layouts/NAME.svg)
    for line in text.lines().filter(|l| l.starts_with("![")) {
        let (expr, file) = line[2..].split_once("](").unwrap();
        same(&docs().join(file.trim_end_matches(')')), &layout(expr).unwrap().svg);
        count += 1;
    }
    assert!(count >= 5);
}
