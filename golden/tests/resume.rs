//! The state after every pass, of every kernel of the library and its variants, is a text from which the passes behind
//! it give the same PTX and manifest.

use std::sync::{Arc, Mutex};
use warplift::ir::target::SM90A;
use warplift::passes::names;
use warplift::{Context, Observer, Options, compile};
use warplift_golden::kernels::texts;
use warplift_golden::library::{VARIANTS, load};

/// The state after every pass: number of the attempt, pass, text.
type Seen = Vec<(usize, &'static str, String)>;

/// Passes that nothing skips, whatever the mapping.
const ALWAYS: usize = 20;

#[test]
fn every_state_gives_the_same_ptx() {
    let library = texts().expect("the library").into_keys();
    for name in library.chain(VARIANTS.iter().map(|v| v.name.to_owned())) {
        let (kernel, mapping) = load(&name);
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let all = Arc::clone(&seen);
        let observer = Observer::new(move |s| {
            all.lock().expect("no observer panics").push((s.attempt, s.pass, s.text()));
        });
        let options = Options { observer: Some(observer), ..Options::default() };
        let whole = compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let states = seen.lock().expect("no observer panics");
        let last = states.last().expect("passes ran").0;
        let of_last = states.iter().filter(|s| s.0 == last);
        assert!(
            of_last.clone().count() > ALWAYS,
            "{name}: {} states of {} passes",
            states.len(),
            names().len()
        );
        let mut context = Context::default();
        for (_, pass, text) in of_last {
            let again = context.resume(text, Some(pass), &SM90A, &Options::default());
            let again = again.unwrap_or_else(|e| panic!("{name} after {pass}: {e}"));
            assert!(again.ptx == whole.ptx, "{name} after {pass}: other PTX");
            assert_eq!(again.manifest, whole.manifest, "{name} after {pass}");
        }
    }
}

#[test]
fn what_is_no_state_is_refused_with_its_place() {
    let (kernel, mapping) = load("axpy");
    let mut context = Context::default();
    let after = warplift::passes::find("lower").expect("a pass");
    let text = context
        .inspect((&kernel, &mapping), &SM90A, &Options::default(), after, |s| s.text("lower"))
        .unwrap_or_else(|e| panic!("{e}"));
    for (from, to, pass, says) in [
        ("", "", "plan", "after `lower`, not after `plan`"),
        ("", "", "lowr", "no pass `lowr`"),
        ("sm_90a", "sm_10a", "lower", "target `sm_10a`: the one given is `sm_90a`"),
        ("== written ==", "== writen ==", "lower", "no section `== written ==`"),
        ("== state ==", "", "lower", "no section `== state ==`"),
        ("remarks:", "remarcs:", "lower", "section `state`"),
        ("\nprogram(", "\nprogramme(", "lower", "section `program`"),
        ("== variant ==", "== other ==", "lower", "0 sections `variant` for 1 variants"),
    ] {
        let said = context.resume(&text.replace(from, to), Some(pass), &SM90A, &Options::default());
        let said = said.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(said.contains(says), "{from} {to}: {said}");
    }
}
