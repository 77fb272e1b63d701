//! Functions have at most 60 lines, unless the body is one `match` that names every case.
//!
//! ```text
//!  fn step(&mut self, inst: &Inst) -> Flow {      any length:
//!      match inst {                               a table of cases,
//!          Inst::Nop => Flow::Next,               which the compiler checks for completeness
//!          ..
//!      }                                          `_ =>` is no case
//!  }
//! ```

mod source;

use source::{files, root, tokens};
use std::fs;

/// Lines of a function at most.
const MOST: usize = 60;

/// A function: its name, first line, number of lines, and whether its body is one match.
#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
    one_match: bool,
}

type Tokens<'a> = &'a [(usize, String)];

/// The first of some signs outside parentheses and brackets.
fn outside(tokens: Tokens<'_>, signs: [&str; 2]) -> Option<usize> {
    let mut depth = 0;
    for (at, (_, token)) in tokens.iter().enumerate() {
        match token.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            sign if depth == 0 && signs.contains(&sign) => return Some(at),
            _ => {}
        }
    }
    None
}

/// The number of tokens of a block, from its brace to the closing one.
fn block(tokens: Tokens<'_>) -> usize {
    let mut depth = 0;
    for (at, (_, token)) in tokens.iter().enumerate() {
        depth += i32::from(token == "{") - i32::from(token == "}");
        if depth == 0 {
            return at + 1;
        }
    }
    panic!("a block without an end")
}

/// Whether a body, without its braces, is one match, in which no arm stands for all other cases.
fn is_one_match(body: Tokens<'_>) -> bool {
    if body.first().is_none_or(|t| t.1 != "match") {
        return false;
    }
    let Some(from) = outside(body, ["{", ";"]) else { return false };
    if body[from].1 != "{" || from + block(&body[from..]) != body.len() {
        return false;
    }
    let mut depth = 0;
    let arms = body[from..].windows(3).filter(|w| {
        depth += i32::from(matches!(w[0].1.as_str(), "{" | "(" | "["));
        depth -= i32::from(matches!(w[0].1.as_str(), "}" | ")" | "]"));
        depth == 1 && [&w[0].1, &w[1].1, &w[2].1] == ["_", "=", ">"]
    });
    arms.count() == 0
}

/// All functions of a source that have a body.
fn functions(source: &str) -> Vec<Function> {
    let all = tokens(source);
    let named = |at: &usize| {
        all[*at].1 == "fn"
            && all.get(at + 1).is_some_and(|t| t.1.starts_with(|c: char| c.is_alphabetic() || c == '_'))
    };
    let of = |at: usize| {
        let from = at + outside(&all[at..], ["{", ";"])?;
        let to = from + (all[from].1 == "{").then(|| block(&all[from..]))?;
        Some(Function {
            name: all[at + 1].1.clone(),
            line: all[at].0,
            lines: all[to - 1].0 - all[at].0 + 1,
            one_match: is_one_match(&all[from + 1..to - 1]),
        })
    };
    (0..all.len()).filter(named).filter_map(of).collect()
}

#[test]
fn only_matches_are_long() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files().into_iter().filter(|f| f.ends_with(".rs")) {
        for f in functions(&fs::read_to_string(root().join(&file)).expect("a source")) {
            seen += 1;
            if f.lines > MOST && !f.one_match {
                wrong.push(format!("{file}:{}: `{}` has {} lines", f.line, f.name, f.lines));
            }
        }
    }
    assert!(seen > 5000, "{seen} functions");
    assert!(wrong.is_empty(), "at most {MOST} lines, or one match:\n{}", wrong.join("\n"));
}

#[test]
fn lines_are_counted_and_matches_are_known() {
    let source = "trait T { fn none(&self) -> [u8; 2]; }\n\
        fn text() {\n    let s = \"}\";\n    // }\n    let c = '}';\n}\n\
        fn cases(x: E) -> u8 {\n    match f(|| {}) {\n        E::A => 0,\n        E::B(_) => 1,\n    }\n}\n\
        fn rest(x: u8) -> u8 {\n    match x {\n        0 => 0,\n        _ => 1,\n    }\n}\n\
        fn more(x: u8) -> u8 {\n    match x { 0 => 0, n => n } + 1\n}\n";
    let found = functions(source).into_iter().map(|f| (f.name, f.line, f.lines, f.one_match));
    let named = |name: &str, line, lines, one| (name.to_owned(), line, lines, one);
    let all = [
        named("text", 2, 5, false),
        named("cases", 7, 6, true),
        named("rest", 13, 6, false),
        named("more", 19, 3, false),
    ];
    assert_eq!(found.collect::<Vec<_>>(), all);
}
