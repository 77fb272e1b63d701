//! The version of the manifest changes with its format: the declarations are those that `format/N.txt` records. The file's
//! first line says whether version N was released. What was released does not change any more.

use std::path::Path;
use warplift_manifest::MANIFEST_VERSION;

/// The part of the source that declares the format.
const SOURCE: &str = include_str!("../src/lib.rs");

/// Fields, variants and their `serde` attributes, in order.
fn declarations(source: &str) -> String {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut all, mut open) = (String::new(), false);
    for line in code.lines() {
        let line = line.trim_end();
        let begins = ["pub struct ", "pub enum "].iter().any(|b| line.starts_with(b));
        // Attributes before a declaration belong to it.
        let declares = begins || line.starts_with("#[serde");
        if (declares || open) && !line.trim_start().starts_with("//") {
            all += line;
            all.push('\n');
        }
        open = (open || begins) && line != "}" && !line.ends_with(';');
    }
    all
}

/// The recorded format of a version, and whether it was released.
fn recorded(version: u32) -> (bool, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("format/{version}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (first, rest) = text.split_once('\n').unwrap_or_default();
    assert!(matches!(first, "released" | "not released"), "{}: `{first}`", path.display());
    (first == "released", rest.to_owned())
}

#[test]
fn the_format_is_that_of_its_version() {
    let (released, format) = recorded(MANIFEST_VERSION);
    let advice = match released {
        true => "version was released: raise `MANIFEST_VERSION`, and record the new one",
        false => "version was not released: record its format anew",
    };
    let now = declarations(SOURCE);
    assert!(now == format, "the manifest's format changed, and its {advice}. It is now\n{now}");
}

#[test]
fn every_former_version_was_released() {
    for version in (1..=MANIFEST_VERSION).filter(|&v| v != MANIFEST_VERSION) {
        assert!(recorded(version).0, "version {version}");
    }
}

/// A field, its name in the text, and a variant are each part of the format; comments and functions are not.
#[test]
fn a_change_of_the_format_is_seen() {
    let source =
        "/// A.\n#[derive(Serialize)]\npub struct A {\n    /// B.\n    pub b: u32,\n}\n\nfn f() {}\n";
    let base = declarations(source);
    assert_eq!(base, "pub struct A {\n    pub b: u32,\n}\n");
    for (from, to, same) in [
        ("/// B.", "/// C.", true),
        ("fn f()", "fn g()", true),
        ("Serialize", "Clone, Serialize", true),
        ("    pub b: u32,", "    #[serde(rename = \"c\")]\n    pub b: u32,", false),
        ("pub b: u32,", "pub b: u32,\n    pub c: u32,", false),
        ("u32", "u64", false),
    ] {
        assert_eq!(declarations(&source.replace(from, to)) == base, same, "{from} to {to}");
    }
}
