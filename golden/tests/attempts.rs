//! The attempts of every mapping of the library, and of every text that once was a fault: `golden/attempts.txt`.
//! Their number does not grow unseen, and every attempt says why it was refused.

use goldenfile::Mint;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, Mapping, Module, parse_file};
use warplift::{Context, Options};
use warplift_golden::library::{VARIANTS, load};

fn here(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Files of a folder, by name.
fn modules(folder: &str) -> Vec<(String, Module)> {
    let files = std::fs::read_dir(here(folder)).expect("a folder").map(|f| f.expect("an entry").path());
    let mut all: Vec<_> = files
        .map(|path| {
            let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let text = std::fs::read_to_string(&path).expect("a text");
            let module = parse_file(&text, &name).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            (name, module)
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// The attempts at a kernel, a line each; the first line counts them.
fn attempts(name: &str, kernel: &Kernel, mapping: &Mapping) -> String {
    let mut context = Context::default();
    let refused = context.compile(kernel, mapping, &SM90A, &Options::default()).is_err();
    let made = context.attempts();
    let mut out = format!("{name}: {}{}\n", made.len(), if refused { ", refused" } else { "" });
    for attempt in made.iter().filter(|_| made.len() > 1 || refused) {
        let _ = writeln!(out, "  {}", attempt.to_string().replace('\n', "; "));
    }
    out
}

#[test]
fn attempts_are_those_of_the_golden_file() {
    let mut out = String::new();
    for (name, module) in modules("../driver/kernels").iter().chain(&modules("fuzz_cases")) {
        for (n, mapping) in module.mappings.iter().enumerate() {
            let kernel = module.kernel(&mapping.kernel).unwrap_or(&module.kernels[0]);
            out += &attempts(&format!("{name}/{n}"), kernel, mapping);
        }
    }
    for v in VARIANTS {
        let (kernel, mapping) = load(v.name);
        out += &attempts(&format!("variant {}", v.name), &kernel, &mapping);
    }
    let mut mint = Mint::new(here(""));
    let mut file = mint.new_goldenfile("attempts.txt").expect("a golden file");
    file.write_all(out.as_bytes()).expect("writing");
}
