//! The examples of the language's page and of the README are kernels that compile: they are read from the pages themselves.

use warplift::ir::target::SM90A;
use warplift::ir::tile::{Mapping, Module, parse_file};
use warplift::{Options, compile};

/// All blocks of a page that are marked as tile text, as one file.
fn examples(page: &str) -> Module {
    let mut blocks = page.split("```tile\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let text = blocks.by_ref().collect::<Vec<_>>().join("\n");
    parse_file(&text, "page.tile").unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

/// Compiles every mapping of a page with its kernel; names of the kernels, once for each mapping.
fn compiled(page: &str) -> Vec<String> {
    let module = examples(page);
    let options = Options { verify: true, ..Options::default() };
    let compile_one = |mapping: &Mapping| {
        let kernel =
            module.kernel(&mapping.kernel).unwrap_or_else(|| panic!("no kernel `{}`", mapping.kernel));
        compile(kernel, mapping, &SM90A, &options).unwrap_or_else(|e| panic!("{}: {e}", mapping.kernel));
        mapping.kernel.clone()
    };
    module.mappings.iter().map(compile_one).collect()
}

#[test]
fn examples_of_the_language_compile() {
    assert_eq!(
        compiled(include_str!("../../docs/language.md")),
        ["transpose_shared", "chains", "scale_rows", "scale_groups", "online", "ragged_sum", "copy_rows"]
    );
}

#[test]
fn examples_of_the_readme_compile() {
    assert_eq!(compiled(include_str!("../../README.md")), ["gemm", "gemm"]);
}

#[test]
fn what_a_text_fixes_no_mapping_changes() {
    let module = examples(include_str!("../../docs/language.md"));
    let kernel = module.kernel("scale_groups").expect("the page's kernel");
    for (name, value, message) in [
        ("BN", 176, "tunable `BN` is 176, must be 32, 64, 128 or 256"),
        ("BN", 256, "`assert 128 % BN == 0` does not hold for BN = 256: a tile has one scale in a row"),
        ("GROUP", 64, "`GROUP` is a constant of kernel `scale_groups`: it says what is computed"),
    ] {
        let tunables = vec![(name.to_owned(), value)];
        let mapping = Mapping { kernel: kernel.name.clone(), tunables, ..Mapping::default() };
        let refused = compile(kernel, &mapping, &SM90A, &Options::default()).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains(message), "{refused}");
    }
}
