//! A PTX text as lines and the paths between them.

use std::collections::HashMap;

/// The lines of a text; every one is an index from 0.
pub(super) struct Text<'a> {
    lines: Vec<&'a str>,
    /// Lines that may come next.
    next: Vec<Vec<usize>>,
}

impl<'a> Text<'a> {
    pub fn new(ptx: &'a str) -> Self {
        let lines: Vec<&str> = ptx.lines().map(str::trim).collect();
        let labels: HashMap<&str, usize> =
            lines.iter().enumerate().filter_map(|(i, l)| Some((l.strip_suffix(':')?, i))).collect();
        let next = lines.iter().enumerate().map(|(i, l)| successors(l, i, lines.len(), &labels)).collect();
        Self { lines, next }
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// A line; behind the end, nothing.
    pub fn line(&self, at: usize) -> &'a str {
        self.lines.get(at).copied().unwrap_or_default()
    }

    pub fn next(&self, at: usize) -> &[usize] {
        &self.next[at]
    }

    /// The next line, if only one is possible. A branch back that repeats a wait is not a second path.
    pub fn only_next(&self, at: usize) -> Option<usize> {
        match self.next(at) {
            [one] => Some(*one),
            [behind, label] if *label + 2 == at && self.line(at - 1).starts_with("mbarrier.try_wait") => {
                Some(*behind)
            }
            _ => None,
        }
    }

    /// Lines with statements, without places, labels, declarations and braces.
    pub fn says(&self, at: usize) -> bool {
        let line = self.line(at);
        !line.ends_with(':') && statements(line).any(|s| !s.starts_with('.'))
    }

    /// The nearest later line with a statement.
    pub fn behind(&self, at: usize) -> usize {
        (at + 1..self.len()).find(|l| self.says(*l)).unwrap_or(self.len())
    }

    /// The nearest earlier line with a statement.
    pub fn before(&self, at: usize) -> Option<usize> {
        (0..at).rev().find(|l| self.says(*l))
    }

    /// All lines with an opcode that begins so.
    pub fn all(&self, start: &'a str) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter(move |l| opcodes(self.line(*l)).any(|o| o.starts_with(start)))
    }

    /// The label of the role that a line belongs to.
    pub fn role(&self, at: usize) -> Option<&'a str> {
        let role = |l: &&&str| l.starts_with('$') && l.ends_with(':') && !l.contains('_');
        self.lines[..at].iter().rev().find(role).copied()
    }
}

fn successors(line: &str, at: usize, lines: usize, labels: &HashMap<&str, usize>) -> Vec<usize> {
    let ends = opcodes(line).any(|o| matches!(o.split('.').next(), Some("ret" | "exit" | "trap")));
    let target = target(line).and_then(|t| labels.get(t).copied());
    let falls = guard(line).is_some() || !(ends || target.is_some());
    let behind = (falls && at + 1 < lines).then_some(at + 1);
    behind.into_iter().chain(target).collect()
}

/// The label that a branch goes to.
fn target(line: &str) -> Option<&str> {
    let branches = opcodes(line).any(|o| o.split('.').next() == Some("bra"));
    branches.then(|| line.trim_end_matches(';').rsplit(' ').next()).flatten()
}

/// The predicate under which a line stands.
pub(super) fn guard(line: &str) -> Option<&str> {
    line.split(' ').next().filter(|w| w.starts_with('@'))
}

/// The statements of a line, without the braces around them.
pub(super) fn statements(line: &str) -> impl Iterator<Item = &str> {
    let bare = |s: &'_ str| !s.is_empty();
    line.split(';').map(|s| s.trim_start_matches(['{', '}', ' '])).filter(move |s| bare(s))
}

/// The opcodes of a line.
pub(super) fn opcodes(line: &str) -> impl Iterator<Item = &str> {
    statements(line).filter_map(|s| s.split(' ').find(|w| !w.starts_with('@')))
}

/// Registers of data that a text names; descriptors and predicates are read when an instruction is issued.
pub(super) fn registers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '%' || c == '_'));
    words.filter(|w| w.starts_with("%r"))
}

/// Whether a statement of a line has this predicate or register as its destination.
pub(super) fn writes(line: &str, register: &str) -> bool {
    statements(line).any(|s| {
        let destination = s.split(' ').filter(|w| !w.starts_with('@')).nth(1).unwrap_or_default();
        destination.trim_end_matches(',').split('|').any(|d| d == register)
    })
}
