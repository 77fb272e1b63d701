//! The dependence graph that passes keep is that of the program, after every pass of every kernel of the library and its
//! variants. File tests run with the same comparison, as part of the verifiers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use warplift::ir::target::SM90A;
use warplift::{Observer, Options, compile};
use warplift_golden::kernels::texts;
use warplift_golden::library::{VARIANTS, load};

/// The graph's difference from the program after a pass, if there is one, by attempt and pass.
type Seen = BTreeMap<(usize, &'static str), Result<(), String>>;

/// Passes behind which every kernel has a program and its graph.
const ALWAYS: [&str; 8] =
    ["lower", "merge_waits", "dedup_mma", "modulo", "modulo_expand", "schedule", "smem", "expand_roles"];

#[test]
fn the_kept_graph_is_that_of_the_program() {
    let library = texts().expect("the library").into_keys();
    for name in library.chain(VARIANTS.iter().map(|v| v.name.to_owned())) {
        let (kernel, mapping) = load(&name);
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let all = Arc::clone(&seen);
        let observer = Observer::new(move |s| {
            if let (Some(program), Some(graph)) = (&s.state.program, &s.state.graph) {
                let same = graph.verify(&program.func);
                all.lock().expect("no observer panics").insert((s.attempt, s.pass), same);
            }
        });
        let options = Options { verify: false, observer: Some(observer), ..Options::default() };
        compile(&kernel, &mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let seen = seen.lock().expect("no observer panics");
        for ((attempt, pass), same) in seen.iter() {
            assert_eq!(same, &Ok(()), "{name}, attempt {attempt}, after `{pass}`");
        }
        let last = seen.keys().map(|k| k.0).max().expect("a program was seen");
        for pass in ALWAYS {
            assert!(seen.contains_key(&(last, pass)), "{name}: no graph after `{pass}`");
        }
    }
}
