//! The record of a GPU's answers, one line for each case.

use super::case::Case;

/// Answers of a GPU by case.
#[derive(Clone, Debug, Default)]
pub struct Record(Vec<Entry>);

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the case.
    pub name: String,
    /// Digest of its text and its input. A changed case has no answer.
    pub question: u64,
    /// Digest of all results that are defined bit by bit.
    pub answer: u64,
}

const HEAD: &str = "# Case, digest of its text and input, digest of what a GPU answered; written by\n\
    # `warplift litmus --device gpu --record FILE`.\n";

/// FNV-1a (Fowler, Noll, Vo), which stays the same in every version of every library.
fn digest(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

impl Entry {
    /// The line of a case and a machine's `out`.
    pub fn new(case: &Case, out: &[u8]) -> Self {
        let exact = case.checks.iter().flat_map(|c| c.exact(out)).flat_map(u64::to_le_bytes);
        let question = [case.ptx.as_bytes(), &case.input, &case.output];
        let question = digest(question.into_iter().flatten().copied());
        Self { name: case.name.clone(), question, answer: digest(exact) }
    }
}

impl Record {
    /// The record of the last run on a GPU.
    pub fn committed() -> Self {
        Self::parse(include_str!("recorded.txt"))
    }

    /// Reads lines; others are skipped.
    pub fn parse(text: &str) -> Self {
        let hex = |w: Option<&str>| w.and_then(|w| u64::from_str_radix(w, 16).ok());
        let entry = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            Some(Entry { name, question: hex(words.next())?, answer: hex(words.next())? })
        };
        Self(text.lines().filter(|l| !l.starts_with('#')).filter_map(entry).collect())
    }

    /// The answer to a case as it is now.
    pub fn answer(&self, case: &Case) -> Option<u64> {
        let asked = Entry::new(case, &case.output);
        self.0.iter().find(|e| e.name == asked.name && e.question == asked.question).map(|e| e.answer)
    }

    /// Puts an answer in place of an older one of that name.
    pub fn insert(&mut self, entry: Entry) {
        self.0.retain(|e| e.name != entry.name);
        self.0.push(entry);
    }

    /// The lines, sorted by name.
    pub fn text(&self) -> String {
        let mut lines: Vec<String> =
            self.0.iter().map(|e| format!("{} {:016x} {:016x}\n", e.name, e.question, e.answer)).collect();
        lines.sort();
        HEAD.to_owned() + &lines.concat()
    }
}
