//! Coverage: the cases that execute each row of the opcode table.

use super::case::Case;
use warplift_ir::target::{Opcode, Row, Unit};

/// Rows that `emit` writes by their attribute, and whose instruction does not begin with their name.
const WRITTEN: [(Opcode, &str); 6] = [
    (Opcode::Br, "bra"),
    (Opcode::BrIf, "bra"),
    (Opcode::TmaLoad, "cp.async.bulk.tensor.2d.shared::cluster.global"),
    (Opcode::TmaStore, "cp.async.bulk.tensor.2d.global.shared::cta"),
    (Opcode::BulkLoad, "cp.async.bulk.shared::cluster.global"),
    (Opcode::MbarWait, "mbarrier.try_wait.parity.shared::cta.b64"),
];

/// The beginnings of opcodes that a row stands for; empty for a row without an instruction.
pub fn instructions(row: &Row) -> Vec<String> {
    if let Some((_, opcode)) = WRITTEN.iter().find(|(o, _)| *o == row.opcode) {
        return vec![(*opcode).to_owned()];
    }
    if row.syntax.is_empty() {
        return if row.unit == Unit::None { Vec::new() } else { vec![row.opcode.name().to_owned()] };
    }
    let inner = row.syntax.trim_start_matches('{').trim_end_matches('}');
    let pieces = inner.split(';').map(str::trim).filter(|p| !p.is_empty() && !p.starts_with(".reg"));
    let words = pieces.filter_map(|p| p.split(' ').next());
    words.flat_map(alternatives).collect()
}

/// An opcode with each of the suffixes that its place stands for.
fn alternatives(word: &str) -> Vec<String> {
    let with = |place: &str, all: &[&str]| all.iter().map(|s| word.replace(place, s)).collect();
    if word.contains("$v") {
        return with("$v", &["", ".v2", ".v4"]);
    }
    if word.contains("$c") {
        return with("$c", &["eq", "ne", "lt", "le", "gt", "ge"]);
    }
    vec![word.to_owned()]
}

/// Whether a text has an instruction that begins so: a statement after an optional guard.
fn executes(ptx: &str, opcode: &str) -> bool {
    ptx.match_indices(opcode).any(|(at, _)| {
        let before = ptx[..at].trim_end_matches([' ', '\n']);
        let after = ptx[at + opcode.len()..].chars().next();
        let guarded = before.rsplit(['\n', ';', ' ']).next().is_some_and(|w| w.starts_with('@'));
        let starts = guarded || before.ends_with([';', ':', '{', '}']);
        starts && after.is_none_or(|c| matches!(c, ' ' | '.' | ';' | '\n'))
    })
}

/// Names of cases that together execute every instruction of a row; `None` where one is executed by
/// no case.
pub fn covering<'a>(row: &Row, cases: &'a [Case]) -> Option<Vec<&'a str>> {
    let own = format!("row/{}", row.opcode.name());
    if let Some(case) = cases.iter().find(|c| c.name == own) {
        return Some(vec![&case.name]);
    }
    let find = |opcode: &String| cases.iter().find(|c| executes(&c.ptx, opcode)).map(|c| c.name.as_str());
    let mut names: Vec<&str> = instructions(row).iter().map(find).collect::<Option<_>>()?;
    names.dedup();
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;
    use std::collections::HashSet;
    use warplift_ir::target::SM90A;

    #[test]
    fn every_row_has_a_litmus() {
        let all = cases();
        let missing: Vec<&str> =
            SM90A.rows().filter(|row| covering(row, &all).is_none()).map(|row| row.opcode.name()).collect();
        assert!(missing.is_empty(), "no litmus executes {missing:?}");
    }

    #[test]
    fn a_row_that_no_case_executes_is_noticed() {
        let all: Vec<Case> = cases().into_iter().filter(|c| !c.name.starts_with("wgmma")).collect();
        assert!(covering(SM90A.row(Opcode::Wgmma), &all).is_none());
        assert!(!executes("wgmma.fence.sync.aligned;", "fence"));
        assert!(executes("@%p1 bra L;\nL:\nbar.sync 0;", "bar.sync"));
    }

    #[test]
    fn names_are_unique() {
        let all = cases();
        let names: HashSet<&str> = all.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
    }
}
