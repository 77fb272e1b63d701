//! Imports between files: no circle inside a crate, and rooms import only those before them.
//!
//! ```text
//!  use crate::a::b::X   in  src/c/d.rs     ─►   an edge from c/d.rs to a/b.rs, or to a/mod.rs where b is no file
//!  use super::X         in  src/c/d.rs     ─►   none: a child may use its parent
//!  pub use d::X         in  src/c/mod.rs   ─►   none: a parent re-exports its children
//!  super::b::f(x)       in  src/c/d.rs     ─►   an edge, as by `use`
//! ```
//!
//! `use` lines of a file's own level count, and qualified paths above the file's first inline module. An import through a re-export is an edge to the file that re-exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates whose files import each other in no circle.
const CRATES: [&str; 11] = [
    "ir",
    "ir/manifest",
    "isel",
    "sched",
    "regalloc",
    "emit",
    "driver",
    "driver/sim",
    "driver/lab",
    "driver/cli",
    "golden",
];

/// Rooms of a crate in their order.
const ROOMS: [(&str, &[&str]); 1] =
    [("sched", &["analysis", "rewrite", "schedule", "expand", "modulo", "protocol"])];

/// The files of a crate, by the path of their module.
fn modules(krate: &str) -> BTreeMap<Vec<String>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src");
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = vec![root.clone()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).expect("a folder").map(|f| f.expect("a file").path()));
        } else if path.extension().is_some_and(|e| e == "rs") {
            let inside = path.strip_prefix(&root).expect("below the root").with_extension("");
            let mut names: Vec<String> = inside.iter().map(|n| n.to_string_lossy().into_owned()).collect();
            names.pop_if(|last| matches!(last.as_str(), "mod" | "lib"));
            found.insert(names, std::fs::read_to_string(&path).expect("a text"));
        }
    }
    found
}

/// Paths that the `use` lines of a text name, and whether they re-export.
fn imports(text: &str) -> Vec<(bool, Vec<String>)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let words =
            line.strip_prefix("pub").map_or(line, |rest| rest.trim_start_matches("(crate)").trim_start());
        let words = words.trim_start_matches("(super) ");
        let Some(first) = words.strip_prefix("use ") else { continue };
        let mut whole = first.to_owned();
        while !whole.contains(';') {
            whole += lines.next().expect("an end of the import");
        }
        let tree = whole.split(';').next().unwrap_or_default();
        flatten(tree.trim(), &[], &mut |path| found.push((line.starts_with("pub"), path)));
    }
    found
}

/// Paths from a parent or from the crate that stand in code, up to the file's first module of its own text.
fn qualified(text: &str) -> Vec<Vec<String>> {
    let is_module = |l: &&str| l.starts_with("mod ") && l.ends_with('{');
    let is_code = |l: &&str| !l.trim_start().starts_with("//") && !l.contains("use ");
    let lines = text.lines().take_while(|l| !is_module(l)).filter(is_code);
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = lines.flat_map(|l| l.split(move |c| !is_name(c)));
    let rooted = words.filter(|w| w.starts_with("super::") || w.starts_with("crate::"));
    rooted.map(|w| w.split("::").map(str::to_owned).collect()).collect()
}

/// The paths of a tree of imports: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn flatten(tree: &str, before: &[String], tell: &mut impl FnMut(Vec<String>)) {
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split("::").map(|s| s.split(" as ").next().unwrap_or(s).trim().to_owned());
        return tell(before.iter().cloned().chain(path).collect());
    };
    let prefix = prefix.split("::").map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned);
    let before: Vec<String> = before.iter().cloned().chain(prefix).collect();
    let (inside, mut depth, mut from) = (rest.trim_end().strip_suffix('}').unwrap_or(rest), 0, 0);
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inside[from..at].trim();
                from = at + 1;
                if !part.is_empty() {
                    flatten(part, &before, tell);
                }
            }
            _ => {}
        }
    }
}

/// The file that an import of the module `from` leads to, if it is one of the crate.
fn target(from: &[String], path: &[String], modules: &BTreeMap<Vec<String>, String>) -> Option<Vec<String>> {
    let mut at: Vec<String> = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => from.to_vec(),
        first => {
            let child = [from, &[first.to_owned()]].concat();
            return modules.contains_key(&child).then_some(child);
        }
    };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(at.pop()),
            _ => {
                at.push(name.clone());
                if !modules.contains_key(&at) {
                    at.pop();
                    break;
                }
            }
        }
    }
    Some(at)
}

/// What each file imports.
fn edges(krate: &str) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let modules = modules(krate);
    let of = |(from, text): (&Vec<String>, &String)| {
        let inline = qualified(text).into_iter().map(|path| (false, path));
        let counted = imports(text).into_iter().chain(inline).filter_map(|(public, path)| {
            let to = target(from, &path, &modules)?;
            let parent = path[0] == "super" && from.starts_with(&to);
            let own = public && to.starts_with(from);
            (to != *from && !parent && !own).then_some(to)
        });
        (from.clone(), counted.collect())
    };
    modules.iter().map(of).collect()
}

/// A circle, if there is one.
fn circle(edges: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> Option<Vec<Vec<String>>> {
    let mut left = edges.clone();
    // What imports nothing that is left stands in no circle.
    while let Some(free) =
        left.iter().find(|(_, to)| to.iter().all(|t| !left.contains_key(t))).map(|e| e.0.clone())
    {
        left.remove(&free);
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let next = left[way.last()?].iter().find(|t| left.contains_key(*t))?.clone();
        if let Some(at) = way.iter().position(|m| *m == next) {
            return Some(way.split_off(at));
        }
        way.push(next);
    }
}

fn shown(way: &[Vec<String>]) -> String {
    way.iter().map(|m| m.join("::")).collect::<Vec<_>>().join(" -> ")
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    for krate in CRATES {
        let found = circle(&edges(krate));
        assert!(found.is_none(), "{krate}: {}", shown(&found.unwrap_or_default()));
    }
}

#[test]
fn rooms_import_only_those_before_them() {
    for (krate, rooms) in ROOMS {
        let all = edges(krate);
        let room = |m: &Vec<String>| m.first().and_then(|f| rooms.iter().position(|r| r == f));
        for used in rooms {
            assert!(all.keys().any(|m| m.first().is_some_and(|f| f == used)), "{krate} has no room {used}");
        }
        for (from, to) in all.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
            let wrong = room(to) > room(from) && room(from).is_some();
            assert!(!wrong, "{krate}: {} imports {}", from.join("::"), to.join("::"));
        }
    }
}

#[test]
fn circles_are_found_and_children_of_parents_are_none() {
    let path = |s: &str| s.split("::").map(str::to_owned).collect::<Vec<_>>();
    let text = "use crate::a::{b::X, c::{Y, Z as W}};\npub(crate) use super::d::V;\n    use not::counted;\n";
    let paths = ["crate::a::b::X", "crate::a::c::Y", "crate::a::c::Z", "super::d::V"].map(path);
    assert_eq!(imports(text).into_iter().map(|i| i.1).collect::<Vec<_>>(), paths);
    let code =
        "fn f() { super::values::g(crate::a::b::X) }\n// super::no::z\nmod tests {\n    super::no::x\n}\n";
    assert_eq!(qualified(code), ["super::values::g", "crate::a::b::X"].map(path));
    let to = |names: &[&str]| names.iter().map(|n| path(n)).collect::<BTreeSet<_>>();
    let mut files = BTreeMap::from([(path("a"), to(&["b"])), (path("b"), to(&["c"])), (path("c"), to(&[]))]);
    assert_eq!(circle(&files), None);
    files.insert(path("c"), to(&["a"]));
    assert_eq!(circle(&files).map(|w| w.len()), Some(3));
}
