//! The table of operations on the language's page says which of them compile. Each is tried in a small kernel.
//! Operations that are only interpreted must be refused with their name and place.

use std::collections::BTreeSet;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Mapping, operations, parse_file};
use warplift::{CompileError, Options, compile};
use warplift_golden::given::{self, Given};

/// What an operation is tried on: floats `t`, integers `u`, a tile `w` of two dimensions, and products.
const TRIES: &[(&[&str], &str)] = &[
    (
        &["neg", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp", "sin", "cos", "tanh", "erf"],
        "store go[i*B], @(t)",
    ),
    (&["not"], "store gq[i*B], @(u)"),
    (&["likely", "unlikely"], "store go[i*B], select(@(n > 3), t, t * 2.0)"),
    (&["min", "max"], "store go[i*B], @(t, t)"),
    (&["mulhi"], "store gq[i*B], @(u, u)"),
    (&["cdiv"], "store gq[i*B], u + @(n, 3)"),
    (&["+", "-", "*", "/"], "store go[i*B], t @ t"),
    (&["%", "&", "|", "^", "<<", ">>"], "store gq[i*B], u @ u"),
    (&["==", "!=", "<", "<=", ">", ">="], "store go[i*B], select(t @ 1.0, t, 0.0)"),
    (&["select"], "store go[i*B], @(u > 1, t, t * 2.0)"),
    (&["fma"], "store go[i*B], @(t, t, t)"),
    (&["cast"], "store gq[i*B], @(t, i32)"),
    (&["to_index"], "store gq[i*B], @(cast(u, i64))"),
    (&["view_as"], "store gq[i*B], @(t, i32)"),
    (&["full"], "store go[i*B], t + @ 1.0 : f32[B]"),
    (&["iota"], "k = @ 0 : i32[B] store gq[i*B], u + k"),
    (&["broadcast"], "r = reduce_sum(w, 1) store g2[i, 0], w * @ expand_dims(r, 1) : f32[16, 64]"),
    (&["expand_dims"], "r = reduce_sum(w, 1) store g2[i, 0], w * @(r, 1)"),
    (&["reshape"], "r = @ t : f32[B/64, 64] store g2[i, 0], r"),
    (&["trans"], "store g3[0, i], @(w)"),
    (&["join"], "j = @(t, t) r = reshape j : f32[B/32, 64] store g2[i, 0], r"),
    (&["split"], "r = reshape t : f32[B/2, 2] a, b = @(r) store go[i*B], a + b"),
    (&["slice"], "store g2[i, 0], @(w, [0, 32]) : f32[16, 32]"),
    (&["rearrange"], "store go[i*B], @(t)"),
    (
        &["view", "load", "store", "block_index", "dim", "subview"],
        "s = subview g2[i, _] r = load s[0] : f32[64] store s[0], r + cast(dim(B), f32)",
    ),
    (&["unbounded"], "e = @ gl = view z : i32[e] store gq[i*B], load gl[i*B] : i32[B]"),
    (&["grid_dim"], "store gq[i*B], u + @(0)"),
    (&["program_id", "program_count"], "store gq[i*B], u + @"),
    (&["gather"], "store g2[i, 0], @(w, cast(w, i32) & 63, 1)"),
    (&["async_copy"], "c = @ gx[i*B] : f32[B] async_commit async_wait 0 store go[i*B], c"),
    (&["async_commit"], "@ store go[i*B], t"),
    (&["async_wait"], "@ 0 store go[i*B], t"),
    (&["print"], "@ \"t\", t store go[i*B], t"),
    (&["assert"], "@ n > 3, \"n\" store go[i*B], t"),
    (&["assume"], "a = @ n % 2 store go[a*B], t"),
    (&["for"], "s = @ k in 0..n carry a = t { yield a * 2.0 } store go[i*B], s"),
    (&["if"], "s = @ n > 3 { yield t } else { yield t * 2.0 } store go[i*B], s"),
    (&["while"], "s, k = @ carry a = t, j = 0 { yield j < n, a * 2.0, j + 1 } store go[i*B], s"),
    (&["reduce_sum", "reduce_prod", "reduce_min", "reduce_max"], "store go[i*16], @(w, 1)"),
    (&["scan_sum", "scan_prod", "scan_min", "scan_max"], "store g2[i, 0], @(w, 1)"),
    (&["reduce_and", "reduce_or", "reduce_xor"], "store gq[i*16], @(cast(w, i32), 1)"),
    (&["scan_and", "scan_or", "scan_xor"], "store g4[i, 0], @(cast(w, i32), 1)"),
    (&["atomic_add"], "@ go[i*B], t"),
    (&["atomic_min", "atomic_max", "atomic_exchange"], "@ gq[i*B], u"),
    (&["atomic_cas"], "r = @ gq[i*B], u, u + 1 : i32[B] store go[i*B], cast(r, f32)"),
    (&["workspace"], "s = @ n, 2 : f32 gs = view s : f32[n] store gs[i*B], t"),
    (&["shared"], "s = @ f32[B] store s[0], t store go[i*B], load s[0] : f32[B]"),
    (&["arrive"], "c = workspace 1 : u32 gc = view c : u32[1] e = @ gc[0], 3 if e { store go[i*B], t }"),
    (&["mma"], "p = full 0.0 : f32[64, 64] a = load gh[0, 0] : f16[64, 64] store g2[i, 0], @ p, a, a"),
];

/// Names in a text that stand in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the page says is interpreted only: the table's third column says `not` what, a sentence the loop.
fn interpreted_only() -> BTreeSet<&'static str> {
    let page = include_str!("../../docs/language.md");
    let table =
        page.split("| operation | gives | compiles with |").nth(1).unwrap().split("\n\n").next().unwrap();
    let cells =
        table.lines().skip(2).map(|row| row.trim_end_matches('|').rsplit(" | ").next().unwrap().trim());
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for cell in cells {
        found.extend(cell.strip_prefix("not ").into_iter().flat_map(quoted));
    }
    found.extend(page.contains("A `while` is interpreted only").then_some("while"));
    found
}

#[test]
fn operations_compile_as_the_page_says() {
    let only = interpreted_only();
    let mut tried: Vec<&str> = Vec::new();
    for (name, body) in TRIES.iter().flat_map(|(names, body)| names.iter().map(move |n| (*n, *body))) {
        tried.push(name);
        let text = text(name, body);
        let module = parse_file(&text, "f.tile").unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        let kernel = &module.kernels[0];
        let there = kernel.insts.values().find(|d| d.op.name() == name);
        let there = there.unwrap_or_else(|| panic!("{name} is not tried:\n{kernel}"));
        let options = Options { verify: true, ..Options::default() };
        let mapping = Mapping { kernel: "f".into(), ..Mapping::default() };
        match compile(kernel, &mapping, &SM90A, &options) {
            Ok(_) => assert!(!only.contains(name), "{name} compiles, the page says that it does not"),
            Err(CompileError::Isel(e)) => {
                assert!(only.contains(name), "the page says that {name} compiles: {e}");
                assert!(
                    e.message.contains(&format!("`{name}`")) && e.loc == there.loc,
                    "{name}: {e} {:?}",
                    e.loc
                );
            }
            Err(e) => panic!("{name}: {e}"),
        }
    }
    tried.sort_unstable();
    let mut all = operations();
    all.sort_unstable();
    assert_eq!(tried, all);
}

#[test]
fn the_readme_names_what_is_interpreted_only() {
    let readme = include_str!("../../README.md");
    let limits = readme.split("## Limits").nth(1).unwrap();
    let named: BTreeSet<&str> = quoted(limits).collect();
    let missing: Vec<_> = interpreted_only().into_iter().filter(|n| !named.contains(n)).collect();
    assert_eq!(missing, [""; 0]);
}

fn text(name: &str, body: &str) -> String {
    let body = body.replace('@', name);
    format!(
        "kernel f(x: ptr<f32> align 16, z: ptr<i32> align 16, h: ptr<f16> align 16, o: ptr<f32> align 16, q: ptr<i32> align 16, n: i32) {{
    tunable B = 256
    grid cdiv(n, B)
    gx = view x : f32[n]
    g2 = view o : f32[n, 64]
    gw = view x : f32[n, 64]
    g3 = view o : f32[64, n]
    g4 = view q : i32[n, 64]
    gz = view z : i32[n]
    gh = view h : f16[n, 64]
    go = view o : f32[n]
    gq = view q : i32[n]
    i = block_index
    t = load gx[i*B] : f32[B]
    u = load gz[i*B] : i32[B]
    w = load gw[i, 0] : f32[16, 64]
    {body}
}}
"
    )
}

/// Operations that stand for others.
#[test]
fn index_reductions_compile() {
    for name in ["argmax", "argmin"] {
        for body in ["store gq[i*16], @(w, 1)", "store gq[i*B], u + @(t, 0)"] {
            let text = text(name, body);
            let module = parse_file(&text, "f.tile").unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            let mapping = Mapping { kernel: "f".into(), ..Mapping::default() };
            let options = Options { verify: true, ..Options::default() };
            if let Err(e) = compile(&module.kernels[0], &mapping, &SM90A, &options) {
                panic!("{name}: {e}");
            }
        }
    }
}

/// Pairs of the page's table of casts.
fn casts() -> Vec<(&'static str, &'static str)> {
    let page = include_str!("../../docs/language.md");
    let table = page.split("| from | to |").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = table.lines().skip(2).map(|row| row.trim_matches('|').split_once(" | ").unwrap());
    let pairs = rows.flat_map(|(from, to)| quoted(from).flat_map(|f| quoted(to).map(move |t| (f, t))));
    pairs.filter(|(f, t)| f != t).collect()
}

#[test]
fn casts_compile_as_the_page_says() {
    let pairs = casts();
    assert!(pairs.len() > 60 && pairs.contains(&("bf16", "f8e4m3")), "{pairs:?}");
    for (from, to) in pairs {
        let text = format!(
            "kernel f(x: ptr<{from}> align 16, y: ptr<{to}> align 16, n: i32 % 64) {{
    grid cdiv(n, 1024)
    gx = view x : {from}[n]
    gy = view y : {to}[n]
    i = block_index
    t = load gx[i*1024] : {from}[1024]
    store gy[i*1024], cast(t, {to})
}}"
        );
        let module = parse_file(&text, "f.tile").unwrap_or_else(|e| panic!("{e}\n{text}"));
        let options = Options { verify: true, ..Options::default() };
        let mapping = Mapping { kernel: "f".into(), ..Mapping::default() };
        if let Err(e) = compile(&module.kernels[0], &mapping, &SM90A, &options) {
            panic!("the page says that {from} to {to} compiles: {e}");
        }
    }
}

/// f32 lies between words and bf16: numbers beside the middle of two bf16 would be rounded twice.
#[test]
fn words_become_bf16_rounded_once() {
    let middles = (0..23).flat_map(|up| [257i64, 259, 383, 385, 511].map(|m| m << up));
    let beside = middles.flat_map(|m| [-65, -64, -3, -1, 0, 1, 2, 63, 64, 127].map(|d| m + d));
    let words: Vec<i32> = beside.flat_map(|v| [v, -v]).filter_map(|v| i32::try_from(v).ok()).collect();
    let ends = [0, 1, i32::MAX, i32::MIN, i32::MIN + 1, i32::MAX - 64];
    let mut words: Vec<i32> = words.into_iter().chain(ends).collect();
    words.resize(words.len().next_multiple_of(64), 0);
    for by in ["cast(t, bf16)", "cast(cast(t, u32), bf16)"] {
        let text = format!(
            "kernel f(x: ptr<i32> align 16, y: ptr<f32> align 16, n: i32 % 64) {{
                grid cdiv(n, 1024)
                gx = view x : i32[n] gy = view y : f32[n]
                i = block_index
                t = load gx[i*1024] : i32[1024]
                store gy[i*1024], cast({by}, f32)
            }}
            mapping f {{ kernel: warps 4 }}"
        );
        given::check(&text, &[("n", words.len() as i64)], &[("x", Given::I32(&words))]);
    }
}
