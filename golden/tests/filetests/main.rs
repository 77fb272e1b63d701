//! File tests: what one pass does to one small kernel, told in the file itself.
//!
//! ```text
//!  golden/filetests/PASS/NAME.tile             # one line: what the pass does here
//!                                              #: what is shown of it         (file.rs)
//!                                              the kernel and its mapping
//!                                              #> what the pass made of it    (view.rs)
//!  golden/filetests/features/FEATURE.tile      #> lines of PTX with the feature and without it
//! ```
//!
//! `WARPLIFT_BLESS=1 cargo test -p warplift-golden --test filetests` writes the expected lines anew. Read them before
//! they are committed: a file test is a document.

mod features;
mod file;
mod view;

use file::{FEATURES, File, all, changed};
use std::collections::BTreeSet;
use warplift::Feature;
use warplift::passes::{find, names};

/// A document that nobody reads to its end is none.
const MOST_LINES: usize = 125;

/// Shows every file of some, and compares or blesses.
fn check(files: impl Iterator<Item = File>, shown: impl Fn(&File) -> Result<String, String>) {
    let bless = std::env::var_os("WARPLIFT_BLESS").is_some();
    let mut wrong = Vec::new();
    for file in files {
        match shown(&file) {
            Ok(shown) if bless => file.bless(&shown),
            Ok(shown) if shown.trim_end() == file.expected.trim_end() => {}
            Ok(shown) => wrong.push(format!("{}:\n{}", file.name, changed(&file.expected, &shown, 3))),
            Err(why) => wrong.push(format!("{}: {why}", file.name)),
        }
    }
    assert!(wrong.is_empty(), "{}\nWARPLIFT_BLESS=1 writes the expected lines anew", wrong.join("\n"));
}

#[test]
fn passes_do_what_their_files_say() {
    check(all().into_iter().filter(|f| f.folder != FEATURES), view::shown);
}

#[test]
fn features_change_what_their_files_say() {
    check(all().into_iter().filter(|f| f.folder == FEATURES), features::shown);
}

/// Every pass has a file that shows it, and every folder is of a pass.
#[test]
fn every_pass_is_shown() {
    let shown: BTreeSet<String> = all().into_iter().map(|f| f.folder).collect();
    let missing: Vec<&str> = names().into_iter().filter(|n| !shown.contains(*n)).collect();
    assert!(missing.is_empty(), "no file test shows {missing:?}");
    let unknown: Vec<&String> = shown.iter().filter(|s| *s != FEATURES && find(s).is_err()).collect();
    assert!(unknown.is_empty(), "folders of no pass: {unknown:?}");
}

/// Every feature has a file that shows what it is worth.
#[test]
fn every_feature_is_shown() {
    let shown: BTreeSet<String> =
        all().into_iter().filter(|f| f.folder == FEATURES).map(|f| f.name).collect();
    let missing: Vec<&str> = Feature::all()
        .map(|f| f.0)
        .filter(|name| !shown.contains(&format!("{FEATURES}/{name}.tile")))
        .collect();
    assert!(missing.is_empty(), "no file test shows {missing:?}");
}

/// A file opens with a line of English, and is short.
#[test]
fn every_file_is_a_document() {
    for file in all() {
        let first = file.text.lines().next().unwrap_or_default();
        assert!(first.starts_with("# ") && first.len() > 20, "{} does not open with a comment", file.name);
        let lines = file.text.lines().count();
        assert!(lines <= MOST_LINES, "{}: {lines} lines, at most {MOST_LINES}", file.name);
    }
}

#[test]
fn a_wrong_expectation_is_shown_as_a_diff() {
    let file =
        File::read("features", "x.tile", "# A comment.\n#: show a | c\n#: context 0\nkernel\n\n#> a\n#> b\n");
    assert_eq!(
        (file.input.trim_end(), &*file.expected),
        ("# A comment.\n#: show a | c\n#: context 0\nkernel", "a\nb\n")
    );
    assert_eq!(file.filter("xa\nb\nc\n"), "xa\nc\n");
    assert_eq!(file.blessed("a\nc\n"), "# A comment.\n#: show a | c\n#: context 0\nkernel\n\n#> a\n#> c\n");
    assert_eq!(changed(&file.expected, "a\nc\n", file.context()), "@@\n-b\n+c\n");
}
