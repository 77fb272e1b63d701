//! The documents list the passes and attempts of the tables. `WARPLIFT_BLESS=1` updates them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use warplift::attempts::rows;
use warplift::passes::LEVELS;

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

/// The page with both tables.
const TABLES: &str = "architecture/passes.md";

/// A row for each pass.
fn passes() -> String {
    let mut out = "| level | pass | what it does | `--disable` |\n| --- | --- | --- | --- |\n".to_owned();
    for level in LEVELS {
        for pass in level.passes {
            let features: Vec<String> = pass.features().map(|f| format!("`{f}`")).collect();
            let (name, does, features) = (pass.name, pass.does, features.join(", "));
            let _ = writeln!(out, "| {} | `{name}` | {does} | {features} |", level.name);
        }
    }
    out
}

/// A row for each thing that is given up.
fn attempts() -> String {
    let mut out =
        "| after a refusal because of | the next attempt goes without |\n| --- | --- |\n".to_owned();
    for (refusal, features) in rows() {
        let features: Vec<String> = features.iter().map(|f| format!("`{f}`")).collect();
        let _ = writeln!(out, "| {refusal} | {} |", features.join(", "));
    }
    out
}

/// The page with a block between two marks exchanged.
fn with_block(text: &str, name: &str, block: &str) -> String {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start = text.find(&open).unwrap_or_else(|| panic!("no {open}")) + open.len();
    let end = text[start..].find(&close).unwrap_or_else(|| panic!("no {close}")) + start;
    format!("{}{block}{}", &text[..start], &text[end..])
}

#[test]
fn the_documents_list_the_passes_and_attempts() {
    let text = fs::read_to_string(page(TABLES)).expect("the page");
    let held = with_block(&with_block(&text, "passes", &passes()), "attempts", &attempts());
    if std::env::var_os("WARPLIFT_BLESS").is_some() {
        fs::write(page(TABLES), held).expect("writing the page");
    } else {
        assert!(
            held == text,
            "WARPLIFT_BLESS=1 writes the tables anew; they are\n{}\n{}",
            passes(),
            attempts()
        );
    }
}

#[test]
fn the_page_of_the_architecture_is_short() {
    let lines = fs::read_to_string(page("architecture.md")).expect("the page").lines().count();
    assert!(lines <= 150, "{lines} lines: a stage has a page of its own");
}
