//! A file test: its input, what is shown, and what it expects.
//!
//! ```text
//!  #: only WORDS .. WORDS      from the first line that holds the first words to the one before the next that holds the others
//!  #: show WORDS | WORDS       lines that hold any of these
//!  #: hide WORDS | WORDS       lines that hold none of these
//!  #: context 3                lines around each change; else 1
//! ```

use similar::TextDiff;
use std::fs;
use std::path::{Path, PathBuf};

/// What stands before an expected line, and before what says what is shown.
const EXPECTED: &str = "#>";
const SHOWN: &str = "#:";
/// The folder of features.
pub const FEATURES: &str = "features";

/// A file test.
pub struct File {
    /// Its folder: the pass.
    pub folder: String,
    /// `PASS/NAME.tile`
    pub name: String,
    /// All of it.
    pub text: String,
    /// All but what it expects.
    pub input: String,
    /// What it expects.
    pub expected: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests")
}

/// Names of what a folder holds, in order.
fn entries(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut names: Vec<String> =
        all.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every file test.
pub fn all() -> Vec<File> {
    let read = |folder: &str, name: &str| {
        let path = root().join(folder).join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        File::read(folder, name, &text)
    };
    let of = |folder: String| {
        entries(&root().join(&folder)).into_iter().map(move |name| read(&folder, &name)).collect::<Vec<_>>()
    };
    entries(&root()).into_iter().flat_map(of).collect()
}

impl File {
    /// A file test of its text.
    pub fn read(folder: &str, name: &str, text: &str) -> Self {
        let (expected, input): (Vec<&str>, Vec<&str>) = text.lines().partition(|l| l.starts_with(EXPECTED));
        let line =
            |l: &&str| l[EXPECTED.len()..].strip_prefix(' ').unwrap_or("").trim_end().to_owned() + "\n";
        Self {
            folder: folder.to_owned(),
            name: format!("{folder}/{name}"),
            text: text.to_owned(),
            input: input.join("\n"),
            expected: expected.iter().map(line).collect(),
        }
    }

    /// What the file says behind a word of what is shown.
    pub fn said(&self, word: &str) -> Option<&str> {
        let words = self.input.lines().filter_map(|l| l.strip_prefix(SHOWN));
        words.filter_map(|l| l.trim().strip_prefix(word)).map(str::trim).next()
    }

    /// Lines around each change.
    pub fn context(&self) -> usize {
        let said =
            self.said("context").map(|n| n.parse().unwrap_or_else(|e| panic!("{}: {n}: {e}", self.name)));
        said.unwrap_or(1)
    }

    /// What is shown of a text.
    pub fn filter(&self, text: &str) -> String {
        let holds = |line: &str, words: &str| words.split(" | ").any(|w| line.contains(w));
        let mut lines: Vec<&str> = text.lines().collect();
        if let Some(only) = self.said("only") {
            lines = section(&lines, only);
        }
        lines.retain(|l| self.said("show").is_none_or(|w| holds(l, w)));
        lines.retain(|l| !self.said("hide").is_some_and(|w| holds(l, w)));
        lines.into_iter().fold(String::new(), |all, l| all + l.trim_end() + "\n")
    }

    /// The file with other expected lines.
    pub fn blessed(&self, shown: &str) -> String {
        let lines: Vec<String> =
            shown.trim_end().lines().map(|l| format!("{EXPECTED} {l}").trim_end().to_owned()).collect();
        format!("{}\n\n{}\n", self.input.trim_end(), lines.join("\n"))
    }

    /// Writes the expected lines anew.
    pub fn bless(&self, shown: &str) {
        fs::write(root().join(&self.name), self.blessed(shown)).expect("writing a file test");
    }
}

/// `FIRST .. LAST`: from the first line that holds the one to before the next that holds the other.
fn section<'t>(lines: &[&'t str], only: &str) -> Vec<&'t str> {
    let (first, last) = only.split_once(" .. ").map_or((only, None), |(f, l)| (f, Some(l)));
    let mut from = lines.iter().copied().skip_while(|l| !l.contains(first));
    let head = from.next();
    head.into_iter().chain(from.take_while(|l| last.is_none_or(|w| !l.contains(w)))).collect()
}

/// The lines that differ, with some around them.
pub fn changed(before: &str, after: &str, context: usize) -> String {
    let diff = TextDiff::from_lines(before, after);
    let text = diff.unified_diff().context_radius(context).to_string();
    // Numbers of lines say nothing of the pass.
    let lines = text.lines().map(|l| if l.starts_with("@@") { "@@" } else { l });
    lines.fold(String::new(), |all, line| all + line.trim_end() + "\n")
}
