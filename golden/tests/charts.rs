//! The charts of `explain` as golden text: a steady iteration of a loop, by role and unit.
//! `UPDATE_GOLDENFILES=1` writes them anew.

use goldenfile::Mint;
use std::io::Write;
use std::path::Path;
use warplift::chart::Chart;
use warplift::ir::target::SM90A;
use warplift::{Options, compile};
use warplift_golden::library::load;
use warplift_lab::drawing::svg;

const PINNED: [&str; 2] = ["attention", "gemm"];
const OTHERS: [&str; 4] = ["attention_causal", "gemm_dual", "a16w4", "a16w4_large"];

#[test]
fn steady_iterations_are_as_pinned() {
    let mut mint = Mint::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("charts"));
    for name in PINNED.into_iter().chain(OTHERS) {
        let (kernel, mapping) = load(name);
        let made = compile(&kernel, &mapping, &SM90A, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let loops = &made.explained.schedule.loops;
        assert!(!loops.is_empty(), "{name}");
        let mut text = String::new();
        for l in loops {
            assert!(l.interval >= l.resource().max(l.recurrence), "{name}: {l:?}");
            text += &Chart(l).to_string();
        }
        assert!(text.contains(" tensor ") && text.contains(" copies "), "{name}: {text}");
        if PINNED.contains(&name) {
            let mut file = mint.new_goldenfile(format!("{name}.txt")).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
        let drawn = svg(loops).unwrap();
        assert!(loops.iter().flat_map(|l| &l.slots).any(|s| s.span.name.starts_with("wgmma")), "{name}");
        assert!(drawn.contains(&format!("loop {}", loops[0].name)), "{name}");
    }
}
