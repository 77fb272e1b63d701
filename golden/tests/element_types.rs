//! The page of the language says which element types each operation compiles with. Every operation is tried with every
//! type that the language allows: what compiles is simulated and compared with the interpreter, the rest is refused
//! with the type's name.

use std::collections::BTreeSet;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Mapping, parse_file};
use warplift::{CompileError, Options, compile};
use warplift_golden::library::reference;
use warplift_golden::orders::{FEW_ORDERS, right};

/// The page of the language.
const PAGE: &str = include_str!("../../docs/language.md");

/// Element types that are tried.
const ELEMS: &[&str] = &[
    "f64", "f32", "tf32", "f16", "bf16", "f8e4m3", "f8e5m2", "f6e2m3", "f4e2m1", "i64", "u64", "i32", "u32",
    "i16", "u16", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1", "bool",
];

/// What an operation is tried on: tiles `t` and `s` of one dimension, `w` of two, `c` of one row, indices `u` and `v`. `@` is
/// the operation, `T` the type, `U` the unsigned integer of its width, `K` a number that it has. Then the extents of the
/// result.
const TRIES: &[(&[&str], &str, &str)] = &[
    (&["neg", "abs", "not", "likely", "unlikely"], "@(t)", "256"),
    (&["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp", "sin", "cos", "tanh", "erf"], "@(t)", "256"),
    (&["+", "-", "*", "&", "|", "^"], "t @ s", "256"),
    (&["/", "%"], "t @ K", "256"),
    (&["<<", ">>"], "t @ 1", "256"),
    (&["min", "max"], "@(t, s)", "256"),
    (&["mulhi"], "@(t, s)", "256"),
    (&["cdiv"], "@(t, K)", "256"),
    (&["==", "!=", "<", "<=", ">", ">="], "bool t @ s", "256"),
    (&["select"], "@(u > 1, t, s)", "256"),
    (&["fma"], "@(t, s, t)", "256"),
    (&["view_as"], "U @(t, U)", "256"),
    (&["full"], "@ K : T[256]", "256"),
    (&["iota"], "@ 0 : T[256]", "256"),
    (&["broadcast"], "@ c : T[16, 64]", "16, 64"),
    (&["expand_dims"], "@(t, 0)", "1, 256"),
    (&["join"], "@(t, s)", "256, 2"),
    (&["reshape"], "@ t : T[4, 64]", "4, 64"),
    (&["trans"], "@(w)", "64, 16"),
    (&["slice"], "@(w, [0, 32]) : T[16, 32]", "16, 32"),
    (&["rearrange", "load", "store"], "t", "256"),
    (&["for"], "@ k in 0..2 carry a = t { yield a }", "256"),
    (&["if"], "@ n > 3 { yield t } else { yield s }", "256"),
    (&["reduce_sum", "reduce_prod", "reduce_min", "reduce_max"], "@(w, 1)", "16"),
    (&["reduce_and", "reduce_or", "reduce_xor"], "@(w, 1)", "16"),
    (&["reduce_sum", "reduce_max"], "full @(t, 0) : T[1]", "1"),
    (
        &["scan_sum", "scan_prod", "scan_min", "scan_max", "scan_and", "scan_or", "scan_xor"],
        "@(w, 1)",
        "16, 64",
    ),
    (&["gather"], "@(w, v, 1)", "16, 64"),
    (&["atomic_add", "atomic_min", "atomic_max"], "t", "256"),
];

/// Operations that the table lacks: they take what is held.
const ALL_HELD: [&str; 2] = ["for", "if"];

/// Names in a text that stand in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The element types that the page lists under a name.
fn set(name: &str) -> BTreeSet<&'static str> {
    let list = PAGE.split(&format!("- **{name}**: ")).nth(1).unwrap_or_else(|| panic!("no set {name}"));
    quoted(list.split("\n\n").next().unwrap().split("\n- ").next().unwrap()).collect()
}

/// The element types of a cell of the table: sets and types, `not` others.
fn types(cell: &'static str) -> BTreeSet<&'static str> {
    let (some, others) = cell.split_once(", not ").unwrap_or((cell, ""));
    let mut all: BTreeSet<&str> = quoted(some).collect();
    for name in some.split(", ").filter(|n| ["numbers", "floats", "integers", "held", "long"].contains(n)) {
        all.extend(set(name));
    }
    quoted(others).for_each(|t| assert!(all.remove(t), "{cell}"));
    all
}

/// What the page says an operation compiles with.
fn promised(operation: &str) -> BTreeSet<&'static str> {
    if ALL_HELD.contains(&operation) {
        return set("held").union(&set("long")).copied().collect();
    }
    let table =
        PAGE.split("| operation | gives | compiles with |").nth(1).unwrap().split("\n\n").next().unwrap();
    let is = |q: &str| {
        let q = q.replace("\\|", "|");
        q == operation
            || q == format!("x {operation} y")
            || q.starts_with(&format!("{operation}("))
            || q.starts_with(&format!("{operation} "))
    };
    let cells = |row: &'static str| row.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    let mut rows = table.lines().skip(2).map(cells).filter(|c| quoted(c[0]).any(is));
    let row = rows.next().unwrap_or_else(|| panic!("`{operation}` has no row"));
    types(row[2])
}

/// Loads of the tiles that a try names; a truth value comes from a comparison, unless the load itself is tried.
fn loads(name: &str, body: &str, elem: &str) -> String {
    let from = if elem == "bool" { "i32" } else { elem };
    let loaded = |(tile, at, shape): (&str, &str, &str)| match elem {
        "bool" if name == "load" => format!("    {tile} = load gb[0] : bool[256]\n"),
        "bool" => format!("    {tile} = (load {at} : {from}[{shape}]) > 0\n"),
        _ => format!("    {tile} = load {at} : {from}[{shape}]\n"),
    };
    let tiles = [
        ("t", "gx[0]", "256"),
        ("s", "gx[256]", "256"),
        ("w", "gw[0, 0]", "16, 64"),
        ("c", "gw[0, 0]", "1, 64"),
    ];
    let has = |tile: &str| body.split(|c: char| !c.is_ascii_alphanumeric()).any(|w| w == tile);
    tiles.into_iter().filter(|t| has(t.0)).map(loaded).collect()
}

/// The type under which a result is stored, and the tile that is: what cannot be stored is converted, unless the store
/// itself is tried.
fn stored<'t>(name: &str, given: &'t str) -> (&'t str, &'static str) {
    match given {
        _ if name == "store" => (given, "r"),
        "bool" => ("i32", "select(r, 1, 0)"),
        narrow if bits(narrow) < 8 => ("f32", "cast(r, f32)"),
        _ => (given, "r"),
    }
}

/// The kernel of a try.
fn text(name: &str, body: &str, extents: &str, elem: &str) -> String {
    let unsigned = format!("u{}", bits(elem));
    let (given, body) = match body.split_once(' ') {
        Some(("bool", rest)) => ("bool", rest),
        Some(("U", rest)) => (unsigned.as_str(), rest),
        _ => (elem, body),
    };
    let number = match elem {
        "bool" => "true",
        "i1" => "-1",
        "u1" | "i2" | "u2" => "1",
        _ => "3",
    };
    let body = body.replace("T[", &format!("{elem}[")).replace('@', name);
    let body = body.replace('U', &unsigned).replace('K', number);
    let loads = loads(name, &body, elem);
    let from = if elem == "bool" { "i32" } else { elem };
    let (stored, result) = stored(name, given);
    let at = vec!["0"; extents.split(',').count()].join(", ");
    let last = match name.starts_with("atomic") {
        true => format!("{name} go[{at}], r"),
        false => format!("store go[{at}], {result}"),
    };
    format!(
        "kernel f(x: ptr<{from}> align 16, z: ptr<i32> align 16, b: ptr<bool>, o: ptr<{stored}> align 16, n: i32) {{
    grid 1
    gx = view x : {from}[1024]
    gw = view x : {from}[16, 64]
    gz = view z : i32[256]
    gb = view b : bool[256]
    go = view o : {stored}[{extents}]
    u = load gz[0] : i32[256]
    v = (iota 1 : i32[16, 64]) ^ 1
{loads}    r = {body}
    {last}
}}
"
    )
}

/// Bits of an element type by its name.
fn bits(name: &str) -> u32 {
    let letters = |c: &char| c.is_ascii_alphabetic();
    let digits: String = name.chars().skip_while(letters).take_while(char::is_ascii_digit).collect();
    match name {
        "bool" => 8,
        "tf32" => 32,
        _ => digits.parse().expect("bits"),
    }
}

/// Compiles a try; what compiles is simulated.
fn attempt(text: &str, name: &str) -> Option<Result<(), CompileError>> {
    let module = parse_file(text, "f.tile").ok()?;
    let kernel = &module.kernels[0];
    let mapping = Mapping { kernel: "f".into(), ..Mapping::default() };
    let options = Options { verify: true, ..Options::default() };
    Some(compile(kernel, &mapping, &SM90A, &options).map(|made| {
        let problem = reference(kernel, &mapping, &[("n", 4)], 7);
        // Approximations are compared loosely: what they promise is tested elsewhere.
        right(&problem, &made, &FEW_ORDERS[..1], (1, 1e-2), &format!("{name}\n{text}"));
    }))
}

/// The element types that a text names.
fn named(message: &str) -> BTreeSet<&'static str> {
    let words: BTreeSet<&str> = message.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    ELEMS.iter().copied().filter(|e| words.contains(e)).collect()
}

#[test]
fn operations_compile_with_the_types_that_the_page_says() {
    let held = set("held");
    let mut wrong = Vec::new();
    for (name, body, extents, elem) in TRIES
        .iter()
        .flat_map(|(names, body, extents)| names.iter().map(move |n| (*n, *body, *extents)))
        .flat_map(|(n, b, x)| ELEMS.iter().map(move |e| (n, b, x, *e)))
    {
        let all = promised(name);
        let message = match attempt(&text(name, body, extents, elem), name) {
            // The language has no such operation.
            None if !all.contains(elem) => continue,
            None => {
                format!("the language refuses what the page promises:\n{}", text(name, body, extents, elem))
            }
            Some(Ok(())) if all.contains(elem) => continue,
            Some(Ok(())) => "compiles, the page does not say so".to_owned(),
            Some(Err(CompileError::Isel(e))) if !all.contains(elem) && e.loc.line > 0 => {
                let said = e.message.split_once("compile: ").map(|m| named(m.1)).unwrap_or_default();
                // Where elements share bytes, an access may be refused before the operation is.
                let access = e.message.contains("packed`");
                let same = match held.contains(elem) && !all.is_empty() && !access {
                    true => said == all,
                    false => true,
                };
                if same && (e.message.contains(elem) || all.is_empty()) {
                    continue;
                }
                format!("the refusal says other types than the page: {e}")
            }
            Some(Err(e)) => format!("refused: {e}"),
        };
        wrong.push(format!("`{name}` of {elem}: {message}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
