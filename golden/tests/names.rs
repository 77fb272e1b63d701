//! Checks the names of the repository against the retired words (`golden/retired_words.txt`), by kind: files, passes,
//! features, roles, words of mappings, public items. Prose and the parser's table of former words are exempt.

mod source;

use source::{files, plain_tokens, root};
use std::collections::{BTreeMap, BTreeSet};
use std::{fs, iter};
use warplift::Feature;
use warplift::ir::machine::RoleKind;
use warplift::ir::tile::parse_file;
use warplift::passes;

/// A retired word and what stands for it.
struct Retired {
    word: String,
    /// Whether it is retired as a part of names too.
    part: bool,
    today: String,
}

impl Retired {
    fn matches(&self, name: &str) -> bool {
        let snake = words(name).join("_");
        let path = name.contains('/') && name.ends_with(&format!("/{}", self.word));
        snake == self.word || name == self.word || path || self.part && words(name).contains(&self.word)
    }
}

/// The words of a name, in lower case: of its last part if it is a path.
fn words(name: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut before = '_';
    for c in name.rsplit('/').next().unwrap_or(name).chars() {
        let begins = !c.is_alphanumeric() || c.is_uppercase() && before.is_lowercase();
        if begins {
            all.push(String::new());
        }
        if let Some(last) = all.last_mut().filter(|_| c.is_alphanumeric()) {
            last.extend(c.to_lowercase());
        }
        before = c;
    }
    all.retain(|w| !w.is_empty());
    all
}

/// The lists by their titles.
fn lists() -> BTreeMap<String, Vec<Retired>> {
    let mut lists: BTreeMap<String, Vec<Retired>> = BTreeMap::new();
    let mut title = "";
    for line in include_str!("../retired_words.txt").lines().filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        match line.split_once(" -> ") {
            Some((word, today)) => {
                let part = word.starts_with('~');
                let (word, today) = (word.trim_start_matches('~').to_owned(), today.to_owned());
                lists.entry(title.to_owned()).or_default().push(Retired { word, part, today });
            }
            None => title = line.trim_matches(['[', ']']),
        }
    }
    lists
}

/// What is wrong with some names, each with where it stands.
fn retired(kind: &str, names: &BTreeMap<String, String>) -> Vec<String> {
    let lists = lists();
    let list = lists.get(kind).unwrap_or_else(|| panic!("no list of {kind}"));
    let bad = |(name, place): (&String, &String)| {
        let word = list.iter().find(|r| r.matches(name))?;
        Some(format!("{place}: `{name}` is retired among {kind}: today's word is {}", word.today))
    };
    names.iter().filter_map(bad).collect()
}

fn placed(names: impl IntoIterator<Item = String>, place: &str) -> BTreeMap<String, String> {
    names.into_iter().map(|n| (n, place.to_owned())).collect()
}

/// Names of public functions, types, constants and modules of a source, and of the variants of its public enums.
fn public_items(source: &str) -> BTreeSet<String> {
    const KINDS: [&str; 8] = ["fn", "struct", "enum", "mod", "const", "static", "trait", "type"];
    let tokens = plain_tokens(source);
    let mut found = BTreeSet::new();
    for (n, _) in tokens.iter().enumerate().filter(|(_, t)| *t == "pub" || *t == "mod") {
        // Behind `pub`, `pub(crate)`, `const unsafe`: the last of them that says what it is.
        let near = &tokens[n..tokens.len().min(n + 8)];
        let kind = near
            .windows(2)
            .position(|w| KINDS.contains(&&*w[0]) && !KINDS.contains(&&*w[1]) && w[1] != "unsafe");
        let ends = near.iter().position(|t| [":", "=", ";", "use", ","].contains(&&**t));
        let Some(kind) = kind.filter(|&k| ends.is_none_or(|e| k < e)) else { continue };
        found.insert(near[kind + 1].clone());
        if near[kind] == "enum" {
            found.extend(variants(&tokens[n + kind + 2..]));
        }
    }
    found
}

/// Names of an enum's variants: what stands first, or behind a comma, between its braces.
fn variants(tokens: &[String]) -> BTreeSet<String> {
    let (mut depth, mut first, mut found) = (0, false, BTreeSet::new());
    for token in tokens.iter().skip_while(|t| *t != "{") {
        match token.as_str() {
            "{" | "(" | "[" => (depth, first) = (depth + 1, depth == 0),
            "}" | ")" | "]" => (depth, first) = (depth - 1, first || depth == 2 && token == "]"),
            "," => first = depth == 1,
            "#" => {}
            name if depth == 1 && first => (first, _) = (false, found.insert(name.to_owned())),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Words that the parser would take at a place of a mapping: it names them all.
fn words_at(items: &str) -> Vec<String> {
    let errors = parse_file(&format!("mapping k {{ {items} nonsense }}"), "k.tile").expect_err("no word");
    let text = errors.to_string();
    quoted(text.split(", found").next().unwrap_or_default()).collect()
}

#[test]
fn no_file_has_a_retired_name() {
    let files = files();
    assert!(files.contains("sched/src/rewrite/epilogue_roles.rs") && files.len() > 400, "{}", files.len());
    let stem = |f: &String| f.rsplit_once('.').map_or(f.clone(), |(stem, _)| stem.to_owned());
    // A whole name is that of the file: the folder before it matters to words with a folder alone.
    let names = files.iter().flat_map(|f| {
        let path = stem(f);
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        [(path, f.clone()), (name, f.clone())]
    });
    let bad = retired("files", &names.collect());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn no_pass_feature_or_role_has_a_retired_name() {
    let passes = placed(passes::names().into_iter().map(str::to_owned), "passes");
    let features = placed(Feature::all().map(|(name, _)| name.to_owned()), "features");
    let roles = [
        RoleKind::Producer,
        RoleKind::Consumer,
        RoleKind::Epilogue,
        RoleKind::EpilogueLoad,
        RoleKind::Helper,
    ];
    let names = roles.iter().flat_map(|r| [r.name().to_owned(), words(&format!("{r:?}")).join("_")]);
    let roles = placed(names, "roles");
    let bad = [retired("passes", &passes), retired("features", &features), retired("roles", &roles)].concat();
    assert!(passes.len() > 10 && features.len() > 10 && roles.contains_key("epilogue_load"));
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn no_word_of_a_mapping_is_retired() {
    let places = ["for t:", "array a:", "kernel:", "kernel: raster", "kernel: epilogue", "kernel: products"];
    let words: BTreeSet<String> = places.iter().flat_map(|p| words_at(p)).collect();
    assert!(
        ["mma_order", "before_wait", "pingpong", "paired", "warps", "wgmma"]
            .iter()
            .all(|&w| words.contains(w))
    );
    let bad = retired("mapping words", &placed(words, "mappings"));
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn no_public_item_has_a_retired_name() {
    let root = root();
    let mut names = BTreeMap::new();
    for file in files().into_iter().filter(|f| f.ends_with(".rs")) {
        let source = fs::read_to_string(root.join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        names.extend(public_items(&source).into_iter().zip(iter::repeat(file)));
    }
    assert!(
        ["do_epilogue_roles", "EpilogueLoad", "RingFill", "CpAsync"].iter().all(|&n| names.contains_key(n))
    );
    let bad = retired("public items", &names);
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn retired_names_are_found() {
    let source = "/// pub fn alike()\npub(crate) const fn do_relay() {}\npub enum Kind<'a> { #[default] Tma, Handed(&'a str), Less { of: u32 } }\nmod held;\nfn turned() { let s = \"pub mod turns;\"; }";
    let found: Vec<String> = public_items(source).into_iter().collect();
    assert_eq!(found, ["Handed", "Kind", "Less", "Tma", "do_relay", "held"]);
    let bad = retired("public items", &placed(found, "here"));
    assert_eq!(bad.len(), 4, "{bad:?}");
    assert!(bad[0].contains("`Handed` is retired among public items: today's word is handoff"), "{bad:?}");
    let files =
        placed(["isel/src/map/fold", "isel/src/map/k_blocks", "a/softmax_relay"].map(str::to_owned), "here");
    assert_eq!(retired("files", &files).len(), 2);
    let every = lists();
    assert!(every.len() == 6 && every.values().all(|list| !list.is_empty()));
}
