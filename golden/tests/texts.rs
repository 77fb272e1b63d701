//! States between passes are text. After every pass of every kernel of the library, each part of the state reads back
//! to an equal one that prints the same text, and the next stage accepts it.

use ron::ser::PrettyConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use warplift::ir::machine::{Func, ParseError, parse_program, parse_scheduled};
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, parse_exact, parse_file, print_exact};
use warplift::ir::{Bump, Deadline};
use warplift::isel::lower::do_lower;
use warplift::isel::map::{MapContext, do_map};
use warplift::isel::select::do_select;
use warplift::options::Seen;
use warplift::state::State;
use warplift::{Observer, Options, compile};
use warplift_golden::kernels::texts;
use warplift_golden::library::{VARIANTS, load};

/// All kernels of the library under each of their mappings, and the variants.
fn library() -> Vec<(String, Kernel, Mapping)> {
    let mut all = Vec::new();
    for (name, text) in texts().expect("the library") {
        let module = parse_file(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        for (n, mapping) in module.mappings.iter().enumerate() {
            let kernel = module.kernel(&mapping.kernel).expect("the kernel of a mapping");
            all.push((format!("{name}, mapping {n}"), kernel.clone(), mapping.clone()));
        }
    }
    all.extend(VARIANTS.iter().map(|v| {
        let (kernel, mapping) = load(v.name);
        (v.name.to_owned(), kernel, mapping)
    }));
    all
}

/// What a text gives, which must be what the text was printed from, and print alike.
fn read<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, ParseError>,
    print: impl Fn(&T) -> String,
    is_same: impl Fn(&T) -> bool,
) -> T {
    let read = parse(text).unwrap_or_else(|e| panic!("{e}\n{}", line(text, e.loc.line)));
    assert!(print(&read) == text, "{}", first_difference(text, &print(&read)));
    assert!(is_same(&read), "the text does not carry everything:\n{text}");
    read
}

/// A side table as RON and back.
fn again<T: Serialize + DeserializeOwned + PartialEq + Debug>(what: &T) -> T {
    let print = |t: &T| ron::ser::to_string_pretty(t, PrettyConfig::new()).expect("a text");
    let text = print(what);
    let read: T = ron::from_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(read, *what);
    assert_eq!(print(&read), text);
    read
}

fn kernel_again(k: &Kernel) -> Kernel {
    read(&print_exact(k).to_string(), parse_exact, |k| print_exact(k).to_string(), |read| read == k)
}

/// Whether both know the same of where things stand and who reads what.
fn same_tables(a: &Func<'_>, b: &Func<'_>) -> bool {
    a.insts.keys().all(|i| a.block_of(i) == b.block_of(i))
        && a.blocks.keys().all(|block| a.holder(block) == b.holder(block))
        && a.values.keys().all(|v| a.users(v).eq(b.users(v)))
}

/// Every part of a state, and how many there are.
fn state_again(s: &State<'_>) -> usize {
    let mut parts = s.variants.len();
    s.variants.iter().for_each(|v| drop(kernel_again(&v.kernel)));
    again(&s.loops);
    again(&s.smem);
    parts += s.plan.iter().map(again).count();
    parts += s.schedule.iter().map(again).count();
    parts += s.allocations.iter().map(again).count();
    if let Some(p) = &s.program {
        let read = read(&p.to_string(), |t| parse_program(t, s.bump), ToString::to_string, |read| read == p);
        assert!(same_tables(&read.func, &p.func));
        parts += 1;
    }
    if let Some(p) = &s.scheduled {
        let read =
            read(&p.to_string(), |t| parse_scheduled(t, s.bump), ToString::to_string, |read| read == p);
        assert!(read.roles.iter().zip(&p.roles).all(|(a, b)| same_tables(&a.func, &b.func)));
        parts += 1;
    }
    parts
}

#[test]
fn every_part_of_the_state_reads_back_after_every_pass() {
    let parts = Arc::new(Mutex::new(BTreeMap::<&'static str, usize>::new()));
    let seen = Arc::clone(&parts);
    let observer = Observer::new(move |s: &Seen<'_, '_>| {
        *seen.lock().expect("no panics").entry(s.pass).or_default() += state_again(s.state);
    });
    let options = Options { observer: Some(observer), ..Options::default() };
    for (name, kernel, mapping) in library() {
        compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let parts = parts.lock().expect("no panics");
    let passes = warplift::passes::all().count();
    assert_eq!(parts.len(), passes, "{parts:?}");
    assert!(parts.values().all(|&n| n >= 63), "{parts:?}");
}

#[test]
fn a_mapped_kernel_and_its_plan_lower_alike_when_read() {
    for (name, kernel, mapping) in library() {
        let variants =
            do_map(&kernel, &MapContext::new(&mapping, &SM90A, &[])).expect("a mapping of the library");
        let (variant, plan) =
            do_select(variants, &SM90A, &[], Deadline::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let bump = Bump::new();
        let program = do_lower(&variant.kernel, &plan, &mapping, &SM90A, &bump);
        let of_text =
            do_lower(&kernel_again(&variant.kernel), &again(&plan), &again(&mapping), &SM90A, &bump);
        match (program, of_text) {
            (Ok(program), Ok(of_text)) => assert!(program == of_text, "{name}: another program"),
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "{name}"),
            _ => panic!("{name}: one is refused, the other is not"),
        }
    }
}

fn line(text: &str, number: u32) -> &str {
    text.lines().nth(number.saturating_sub(1) as usize).unwrap_or("")
}

fn first_difference(want: &str, got: &str) -> String {
    let different = want.lines().zip(got.lines()).find(|(w, g)| w != g);
    different.map_or_else(|| "one is longer".to_owned(), |(w, g)| format!("\n- {w}\n+ {g}"))
}
