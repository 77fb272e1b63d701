//! The text of machine IR after every pass of every kernel of the library: it reads back, and prints again as it was.

use std::sync::{Arc, Mutex};
use warplift::ir::Bump;
use warplift::ir::machine::{ParseError, parse_program, parse_scheduled};
use warplift::ir::target::SM90A;
use warplift::{Observer, Options, compile};
use warplift_golden::kernels::texts;
use warplift_golden::library::{VARIANTS, load};

/// The text that a text gives when it is read and printed again; `None` if it is no machine IR.
fn again(text: &str) -> Option<Result<String, ParseError>> {
    let bump = Bump::new();
    let kind =
        text.lines().find_map(|l| ["program(", "scheduled("].into_iter().find(|w| l.starts_with(w)))?;
    Some(match kind {
        "program(" => parse_program(text, &bump).map(|p| p.to_string()),
        _ => parse_scheduled(text, &bump).map(|s| s.to_string()),
    })
}

#[test]
fn machine_ir_reads_back_after_every_pass() {
    let names = texts().expect("the library").into_keys().chain(VARIANTS.iter().map(|v| v.name.to_owned()));
    let mut read = 0;
    for name in names {
        let (kernel, mapping) = load(&name);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        let observer = Observer::new(move |s| all.lock().expect("no panics").push((s.pass, s.ir())));
        let options = Options { observer: Some(observer), ..Options::default() };
        compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (pass, text) in seen.lock().expect("no panics").drain(..) {
            let Some(got) = again(&text) else { continue };
            let got = got.unwrap_or_else(|e| panic!("{name} after {pass}: {e}\n{}", line(&text, e.loc.line)));
            assert!(got == text, "{name} after {pass}: {}", first_difference(&text, &got));
            read += 1;
        }
    }
    assert!(read > 300, "only {read} texts of machine IR");
}

fn line(text: &str, number: u32) -> &str {
    text.lines().nth(number.saturating_sub(1) as usize).unwrap_or("")
}

fn first_difference(want: &str, got: &str) -> String {
    let different = want.lines().zip(got.lines()).find(|(w, g)| w != g);
    different.map_or_else(|| "one is longer".to_owned(), |(w, g)| format!("\n- {w}\n+ {g}"))
}
